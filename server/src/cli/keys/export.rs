//! `oneseal keys export`: the public keys, for a relying party that cannot fetch them; or, with `--private`, one private
//! half for a named recipient.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use oneseal_keystore::snapshot::PublishedKey;
use oneseal_keystore::{Digest, Snapshot};
use rustls::pki_types::pem::{PemObject, SectionKind};
use serde_json::{Value, json};
use x509_cert::der::Decode as _;
use x509_cert::spki::SubjectPublicKeyInfoRef;

use super::choose::{Wanted, listed};
use super::{Globals, Place, private, site};
use crate::exit::{Exit, Failure};
use crate::files::{self, There};
use crate::output;
use crate::refusals::KEYS_SEVERAL;

/// Which keys, in which form, and where to.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// How they are written
    #[arg(long, value_enum, default_value_t = Format::Jwks)]
    format: Format,
    /// This key alone, by its kid or a beginning that no other has; with pem, spki and --private
    // A kid may begin with a hyphen.
    #[arg(long, value_name = "KID", allow_hyphen_values = true)]
    kid: Option<String>,
    /// Write this file, whole or not at all; with --private a new one, mode 0600 [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write both discovery documents and the JWKS below this directory, as the server serves them, for a bucket or
    /// CDN; prints the headers that it must send
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "kid", "out"])]
    site: Option<PathBuf>,
    /// The algorithms that discovery names, such as RS256,ES256 [default: configuration's issuer.algorithms]
    #[arg(long, value_name = "ALGS", requires = "site")]
    alg: Option<String>,
    /// Replace, this once, a key set that shares no key with the new one: every token in use breaks
    #[arg(long, requires = "site")]
    allow_key_replacement: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Export one private half, as a JWE that the recipient alone can open; wants --to-jwk and --yes
    #[arg(long, conflicts_with_all = ["format", "site"])]
    private: bool,
    /// Who is to open it: a file with their public JWK, RSA from 2048 bits or EC on P-256 or P-384
    #[arg(long, value_name = "FILE", requires = "private")]
    to_jwk: Option<PathBuf>,
    /// Let the private half leave; without this it is only said which key would go to whom
    #[arg(long, requires = "private")]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The JWKS, byte for byte as every replica serves it
    Jwks,
    /// A PUBLIC KEY block for each (RFC 7468 section 13), after a line with kid and algorithm
    Pem,
    /// One key's SubjectPublicKeyInfo in DER (RFC 5280 section 4.1); with --json all, in base64
    Spki,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { place, format, kid, out, site, alg, allow_key_replacement, json, private, to_jwk, yes } = args;
    if private {
        let Some(to_jwk) = to_jwk else {
            let message = "a private half leaves only as a JWE for a named recipient: name a file with their public \
                           JWK by --to-jwk";
            return Err(Failure::usage(message));
        };
        return private::run(private::Asked { place, kid, to_jwk, out, yes, json }, globals).await;
    }
    if let Some(dir) = site {
        let config = super::load(place.sources(globals).flag("--alg", "issuer.algorithms", alg))?;
        return site::run(&dir, config, allow_key_replacement, json).await;
    }
    if format == Format::Jwks && kid.is_some() {
        return Err(Failure::usage(
            "--kid goes with --format pem or spki: a JWKS is whole or it is another one",
        ));
    }
    let opened = super::open(place, globals).await?;
    let snapshot = &*opened.snapshot;
    let keys = match kid {
        Some(kid) => vec![Wanted { kid: Some(kid), ..Wanted::default() }.one(snapshot.keys())?],
        None => snapshot.keys().iter().collect(),
    };
    match out {
        Some(path) => {
            may_replace(&path, opened.file.as_deref())?;
            written(&path, &exported(snapshot, format, &keys)?, json)
        }
        None if json => output::answer(as_json(snapshot, format, &keys), Exit::Done),
        None => printed(format, &exported(snapshot, format, &keys)?),
    }
}

fn printed(format: Format, bytes: &[u8]) -> Result<Exit, Failure> {
    if format == Format::Spki && output::is_terminal() {
        let message = "DER is binary, and standard output is a terminal: --out FILE writes it to a file, --json \
                       prints it in base64";
        return Err(Failure::usage(message));
    }
    output::print_bytes(bytes)?;
    Ok(Exit::Done)
}

fn written(path: &Path, bytes: &[u8], json: bool) -> Result<Exit, Failure> {
    files::replace(path, bytes)?;
    if json {
        let sha256 = Digest::of(bytes).to_string();
        let told = json!({ "written": path.to_string_lossy(), "bytes": bytes.len(), "sha256": sha256 });
        return output::answer(told, Exit::Done);
    }
    output::print_line(&format!("wrote {} ({} bytes)", path.display(), bytes.len()))?;
    Ok(Exit::Done)
}

/// Refuses all but an earlier export and an empty file: what is typed there by mistake may be a key, even the one that
/// is being exported.
fn may_replace(path: &Path, ring: Option<&Path>) -> Result<(), Failure> {
    let Ok(target) = fs::canonicalize(path) else { return Ok(()) };
    if ring.is_some_and(|ring| is_same(ring, &target)) {
        let message = format!(
            "{} is where the private key rests; it is left alone: name another file for the public ones",
            path.display()
        );
        return Err(Failure::refused(message));
    }
    let refuse = |error| Failure::refused(format!("{} is not written", path.display())).because(error);
    match files::look(&target, MAX_EXPORT).map_err(|error| files::not_written(path, error))? {
        There::Nothing => Ok(()),
        There::Odd(what) => Err(refuse(files::left_alone(what))),
        There::Regular { content, .. } if content.is_empty() || is_export(&content) => Ok(()),
        There::Regular { .. } => Err(refuse(files::left_alone("holds something else than public keys"))),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Whether it is a key set, PUBLIC KEY blocks, or one public key's DER, and nothing private.
fn is_export(content: &[u8]) -> bool {
    is_jwks(content) || is_pem(content) || SubjectPublicKeyInfoRef::from_der(content).is_ok()
}

/// A ring document has keys as well, and more members than these.
fn is_jwks(content: &[u8]) -> bool {
    let Ok(Value::Object(set)) = serde_json::from_slice(content) else { return false };
    let Some(Value::Array(keys)) = set.get("keys") else { return false };
    let is_public = |key: &Value| {
        key["kty"].is_string() && PRIVATE_MEMBERS.iter().all(|member| key.get(member).is_none())
    };
    set.len() == 1 && keys.iter().all(is_public)
}

fn is_pem(content: &[u8]) -> bool {
    let sections: Result<Vec<(SectionKind, Vec<u8>)>, _> = PemObject::pem_slice_iter(content).collect();
    let is_private = content.windows(PRIVATE.len()).any(|window| window == PRIVATE);
    let is_public = |sections: Vec<(SectionKind, Vec<u8>)>| {
        !sections.is_empty() && sections.iter().all(|(kind, _)| *kind == SectionKind::PublicKey)
    };
    !is_private && sections.is_ok_and(is_public)
}

/// The bytes of a file in this form.
fn exported(snapshot: &Snapshot, format: Format, keys: &[&PublishedKey]) -> Result<Vec<u8>, Failure> {
    match (format, keys) {
        // No line end after it either: its digest is to be the one of the served body.
        (Format::Jwks, _) => Ok(snapshot.jwks().to_vec()),
        (Format::Pem, keys) => Ok(keys.iter().map(|key| commented(key)).collect::<String>().into_bytes()),
        (Format::Spki, [key]) => Ok(key.spki.clone()),
        (Format::Spki, several) => {
            let message = format!(
                "DER holds one key, and the ring has {}: choose one by --kid, or print all in base64 by --json",
                several.len()
            );
            Err(Failure::usage(message)
                .with_code(KEYS_SEVERAL)
                .with_hint(listed("They are", several.iter().copied())))
        }
    }
}

fn as_json(snapshot: &Snapshot, format: Format, keys: &[&PublishedKey]) -> Value {
    let member = match format {
        Format::Jwks => {
            let jwks: Value = serde_json::from_slice(snapshot.jwks()).unwrap_or_default();
            let sha256 = Digest::of(snapshot.jwks()).to_string();
            return json!({ "format": "jwks", "jwks": jwks, "sha256": sha256, "etag": snapshot.etag() });
        }
        Format::Pem => "pem",
        Format::Spki => "spki",
    };
    let told = keys.iter().map(|key| {
        let value = if format == Format::Pem { pem(&key.spki) } else { STANDARD.encode(&key.spki) };
        json!({ "kid": key.kid.as_str(), "alg": key.algorithm.as_str(), member: value })
    });
    json!({ "format": member, "keys": told.collect::<Vec<_>>() })
}

/// Text around the blocks is the reader's to pass over (RFC 7468 section 2), and it does not begin as a block would.
fn commented(key: &PublishedKey) -> String {
    format!("# {} {}\n{}", key.kid, key.algorithm, pem(&key.spki))
}

/// RFC 7468: base64 in lines of 64 characters.
fn pem(spki: &[u8]) -> String {
    let base64 = STANDARD.encode(spki);
    let mut text = "-----BEGIN PUBLIC KEY-----\n".to_owned();
    for at in (0..base64.len()).step_by(PEM_LINE) {
        text.push_str(&base64[at..base64.len().min(at + PEM_LINE)]);
        text.push('\n');
    }
    text.push_str("-----END PUBLIC KEY-----\n");
    text
}

const PEM_LINE: usize = 64;
/// Above any key set that is served.
const MAX_EXPORT: usize = 1 << 20;
/// Of whatever kind of key, in the labels of RFC 7468 and of those who keep to no standard.
const PRIVATE: &[u8] = b"PRIVATE KEY";
/// RFC 7518 sections 6.2.2, 6.3.2 and 6.4.
const PRIVATE_MEMBERS: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "k"];

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData as _;

    use super::*;

    #[test]
    fn an_export_is_known_again_and_nothing_private_is_taken_for_one() {
        let spki = rcgen::KeyPair::generate().expect("made").subject_public_key_info();
        let block = format!("# kid ES256\n{}", pem(&spki));
        let private = pem(&spki).replace("PUBLIC", "PRIVATE");
        for ours in
            [r#"{"keys":[]}"#, r#"{"keys":[{"kty":"EC","kid":"a","x":"x"}]}"#, &block, &block.repeat(3)]
        {
            assert!(is_export(ours.as_bytes()), "{ours}");
        }
        assert!(is_export(&spki));
        let ring = r#"{"keys":[{"kty":"EC"}],"format":1}"#;
        for other in [
            r#"{"keys":[{"kty":"EC","x":"x","d":"d"}]}"#,
            r#"{"keys":[{"kty":"oct","k":"k"}]}"#,
            r#"{"keys":[{"kid":"no kind"}]}"#,
            r#"{"issuer":"https://oidc.example"}"#,
            ring,
            &private,
            &format!("{block}{private}"),
            &private.replace("PRIVATE", "RSA PRIVATE"),
            &pem(&spki).replace("PUBLIC KEY", "CERTIFICATE"),
            "notes",
            "{",
        ] {
            assert!(!is_export(other.as_bytes()), "{other}");
        }
        assert!(!is_export(&[spki, vec![0]].concat()));
    }

    #[test]
    fn pem_lines_are_64_characters_long_and_nothing_is_lost() {
        for length in [1, 47, 48, 49, 96, 294] {
            let der = vec![0x30; length];
            let text = pem(&der);
            let lines: Vec<_> = text.lines().collect();
            let body = &lines[1..lines.len() - 1];
            assert!(body.iter().rev().skip(1).all(|line| line.len() == 64), "{text}");
            assert_eq!(STANDARD.decode(body.concat()).expect("base64"), der);
        }
    }
}
