//! The ways by which a key reaches a replica, each as real as it gets without a cloud.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal::{Algorithm, EnvProvider, FileProvider, Findings, InlineProvider, Issuer, SecretProvider};
use oneseal_keystore::findings::Severity;
use oneseal_providers::Entries;
use oneseal_testing::MemoryProvider;
use serde_json::Value;

use crate::cases::Case;

/// What a provider's way leads to.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The thumbprint of the key that is taken, or the code of the refusal.
    pub(crate) verdict: String,
    /// Everything that was said about it: reports, errors, their `Debug`.
    pub(crate) said: String,
    /// The key set that is published, if there is one: what of the value may show.
    pub(crate) jwks: String,
}

/// One way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The file itself.
    File,
    /// A directory with the entry `current`.
    Directory,
    /// The same as kubelet mounts it.
    Kubelet,
    /// An environment variable.
    Env,
    /// A value in the configuration.
    Inline,
    /// The reference provider.
    Memory,
    /// The file itself, through `oneseal check`.
    Program,
}

pub(crate) const WAYS: [Way; 7] =
    [Way::File, Way::Directory, Way::Kubelet, Way::Env, Way::Inline, Way::Memory, Way::Program];

impl Way {
    /// The head of its column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Kubelet => "kubelet",
            Self::Env => "env",
            Self::Inline => "inline",
            Self::Memory => "memory",
            Self::Program => "oneseal check",
        }
    }

    /// What is said to `case` this way, with files in `place`, an empty directory.
    pub(crate) async fn judge(self, case: &Case, place: &Path) -> Answer {
        let value = case.value();
        match self {
            Self::File => build(FileProvider::new(file(place, &value)).assume_durable(true), case).await,
            Self::Directory => {
                build(FileProvider::new(directory(place, &value)).assume_durable(true), case).await
            }
            Self::Kubelet => build(FileProvider::new(mount(place, &value)).assume_durable(true), case).await,
            Self::Env => build(EnvProvider::captured("SIGNING_KEY", Some(variable(value))), case).await,
            Self::Inline => build(InlineProvider::new(value), case).await,
            Self::Memory => build(MemoryProvider::with(Entries::single(Entries::CURRENT, value)), case).await,
            Self::Program => check(&file(place, &value), case),
        }
    }
}

fn file(place: &Path, value: &[u8]) -> PathBuf {
    let path = place.join("key");
    write(&path, value, 0o600);
    path
}

fn directory(place: &Path, value: &[u8]) -> PathBuf {
    let path = place.join("keys");
    fs::create_dir(&path).expect("a directory");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode");
    write(&path.join("current"), value, 0o600);
    path
}

/// A Secret as kubelet mounts it with `defaultMode: 0440`: the values in a directory of their own behind `..data`.
fn mount(place: &Path, value: &[u8]) -> PathBuf {
    let path = place.join("mount");
    let unit = path.join("..2026_01_02_03_04_05.678901234");
    fs::create_dir_all(&unit).expect("a directory");
    write(&unit.join("current"), value, 0o440);
    symlink(unit.file_name().expect("its name"), path.join("..data")).expect("a link");
    symlink("..data/current", path.join("current")).expect("a link");
    path
}

/// As it is, or in base64 where a variable cannot hold it: no NUL goes into an environment, and what is no UTF-8 is not
/// taken from one. An empty variable is given as it is; it is the one value that base64 does not change.
fn variable(value: Vec<u8>) -> OsString {
    match String::from_utf8(value) {
        Ok(text) if !text.contains('\0') => text.into(),
        Ok(text) => STANDARD.encode(text).into(),
        Err(raw) => STANDARD.encode(raw.as_bytes()).into(),
    }
}

fn write(path: &Path, value: &[u8], mode: u32) {
    fs::write(path, value).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

/// What the library's boot gate says.
async fn build(provider: impl SecretProvider, case: &Case) -> Answer {
    let mut said = format!("{provider:?} {:?}", provider.describe());
    let mut builder = Issuer::builder(ISSUER, provider).algorithms(ALGORITHMS).signing_threads(1);
    if !case.passphrase.is_empty() {
        builder = builder.passphrase(InlineProvider::new(case.passphrase.clone().into_bytes()));
    }
    match builder.build().await {
        Ok((issuer, tasks)) => {
            said.push_str(&format!("{issuer:?} {tasks:?} {}", issuer.findings()));
            let kids: Vec<_> = issuer.snapshot().keys().iter().map(|key| key.kid.to_string()).collect();
            let jwks = String::from_utf8_lossy(issuer.snapshot().jwks()).into_owned();
            Answer { verdict: kids.join("+"), said, jwks }
        }
        Err(findings) => {
            said.push_str(&format!("{findings} {findings:?}"));
            Answer { verdict: codes(&findings), said, jwks: String::new() }
        }
    }
}

fn codes(findings: &Findings) -> String {
    let errors = findings.iter().filter(|finding| finding.code.severity == Severity::Error);
    errors.map(|finding| refusal(finding.code.name, &finding.message)).collect::<Vec<_>>().join("+")
}

/// The code; for a key that is known, with its thumbprint, which is the same in every form too.
fn refusal(code: &str, message: &str) -> String {
    let is_thumbprint = |word: &&str| {
        word.len() == 43 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let known = (code == "key.leaked")
        .then(|| message.split([' ', ',', ':', ';', '.', '(', ')']).find(is_thumbprint));
    known.flatten().map_or(code.to_owned(), |thumbprint| format!("{code}:{thumbprint}"))
}

/// What the program says, in its report for scripts.
fn check(key: &Path, case: &Case) -> Answer {
    let mut command = Command::new(oneseal_tests::binary());
    command
        .env_clear()
        .args(["check", "--json", "--no-bind", "--config", "/dev/null", "--issuer", ISSUER, "--provider"])
        .arg(format!("file:{}", key.display()))
        .env("ONESEAL__PROVIDER__DURABLE", "true")
        .env("ONESEAL__ISSUER__SELF_CHECK", "false")
        .env("ONESEAL__ISSUER__ALGORITHMS", ALGORITHMS.map(Algorithm::as_str).join(","))
        .env("ONESEAL_LOG", "trace")
        .stdin(Stdio::null());
    if !case.passphrase.is_empty() {
        command.env("PASSPHRASE", &case.passphrase).env("ONESEAL__PROVIDER__PASSPHRASE", "env:PASSPHRASE");
    }
    let output = command.output().expect("the program starts");
    let (report, log) =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr));
    let parsed: Value =
        serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}{log}"));
    let findings = parsed["findings"].as_array().expect("findings");
    let errors: Vec<_> = findings
        .iter()
        .filter(|finding| finding["severity"] == "error")
        .map(|finding| {
            refusal(finding["code"].as_str().expect("a code"), finding["message"].as_str().expect("words"))
        })
        .collect();
    let verdict = if errors.is_empty() { ACCEPTED.to_owned() } else { errors.join("+") };
    assert_eq!(output.status.code(), Some(if errors.is_empty() { 0 } else { 78 }), "{report}{log}");
    Answer { verdict, said: format!("{report}{log}"), jwks: String::new() }
}

/// What the program's report has in place of a thumbprint.
pub(crate) const ACCEPTED: &str = "accepted";

/// Nobody answers there, and nobody has to.
const ISSUER: &str = "https://oidc.invalid";

const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Es256,
    Algorithm::Es384,
    Algorithm::EdDsa,
];
