//! Key files of other projects, each with its verdict, the same through every provider that can hold it.
//!
//! `vectors/cases.tsv` has them: file, then the kid that it gives or the code of its refusal. `TEST_BLESS=1` writes
//! it anew. Nearly all of these private keys are public knowledge and end as `key.leaked`: that they were read is
//! what it shows.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests read its tables")]
mod vectors;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oneseal_coordination::SystemClock;
use oneseal_keystore::{Algorithm, IssuerUrl, Keystore, KeystoreOptions};
use oneseal_providers::{Entries, EnvProvider, FileProvider, InlineProvider, SecretProvider};
use oneseal_testing::MemoryProvider;
use tempfile::TempDir;

const FOLDERS: [&str; 8] = [
    "cases/smallstep",
    "cases/smallstep-jose",
    "cases/rustcrypto",
    "cases/rustls-pemfile",
    "cases/go-spiffe",
    "mangled-keys",
    "jose-cookbook",
    "encrypted",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn files() -> Vec<String> {
    let mut all: Vec<String> = FOLDERS
        .iter()
        .flat_map(|folder| {
            let entries = fs::read_dir(root().join(folder)).unwrap();
            entries.map(move |entry| format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap()))
        })
        .filter(|name| !name.contains("LICENSE") && !name.ends_with("/cases.json"))
        .collect();
    all.sort();
    all
}

fn passphrase(file: &str) -> &'static str {
    if file.contains("encpriv") || file.contains("rustcrypto") { "hunter42" } else { "mypassword" }
}

/// The kid, or the code of the first error.
async fn verdict(provider: Arc<dyn SecretProvider>, passphrase: &'static str) -> String {
    let mut options = KeystoreOptions::new(IssuerUrl::parse("https://oidc.example", "test").unwrap());
    options.algorithms = Algorithm::ALL.to_vec();
    options.passphrase = Some(Arc::new(InlineProvider::new(passphrase)));
    match Keystore::open(provider, options, Arc::new(SystemClock)).await {
        Ok((keystore, _follower)) => keystore.snapshot().keys()[0].kid.to_string(),
        Err(found) => {
            assert!(found.has_errors());
            let is_error = |code: &str| {
                code.starts_with("key.") || code.starts_with("provider.") || code.starts_with("ring.")
            };
            let first = found
                .iter()
                .find(|finding| finding.code.severity.as_str() == "error" && is_error(finding.code.name));
            first.unwrap().code.name.to_owned()
        }
    }
}

fn write(path: &Path, value: &[u8]) {
    use std::io::Write;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path).unwrap().write_all(value).unwrap();
}

fn providers(dir: &Path, value: &[u8]) -> Vec<(&'static str, Arc<dyn SecretProvider>)> {
    write(&dir.join("key"), value);
    fs::DirBuilder::new().mode(0o700).create(dir.join("keys")).unwrap();
    write(&dir.join("keys/current"), value);
    let mut all: Vec<(&'static str, Arc<dyn SecretProvider>)> = vec![
        ("memory", Arc::new(MemoryProvider::with(Entries::single("current", value.to_vec())))),
        ("file", Arc::new(FileProvider::new(dir.join("key")).assume_durable(true))),
        ("directory", Arc::new(FileProvider::new(dir.join("keys")).assume_durable(true))),
        ("inline", Arc::new(InlineProvider::new(value.to_vec()))),
    ];
    // What is no text, or holds a NUL, is in no variable.
    if let Ok(text) = String::from_utf8(value.to_vec())
        && !text.contains('\0')
    {
        all.push(("env", Arc::new(EnvProvider::captured("SIGNING_KEY", Some(text.into())))));
    }
    all
}

#[tokio::test]
async fn each_file_has_its_verdict_through_every_provider() {
    let mut table = String::new();
    for file in files() {
        let value = vectors::read(&file);
        let dir = TempDir::new().unwrap();
        let mut first: Option<String> = None;
        for (provider, resting) in providers(dir.path(), &value) {
            let mut verdict = verdict(resting, passphrase(&file)).await;
            println!("{file:<60} {provider:<10} {verdict}");
            // A place that holds nothing says so itself, in its own words.
            if value.is_empty() {
                "nothing".clone_into(&mut verdict);
            }
            let first = first.get_or_insert_with(|| verdict.clone());
            assert_eq!(verdict, *first, "{file} through {provider}");
        }
        table.push_str(&format!("{file}\t{}\n", first.unwrap()));
    }
    let path = root().join("cases.tsv");
    if std::env::var_os("TEST_BLESS").is_some() {
        fs::write(&path, &table).unwrap();
    }
    assert_eq!(table, fs::read_to_string(path).unwrap());
}
