//! Every form of a key through every provider: one key has one kid, however it is written and wherever it rests.
//!
//! The kids were computed apart from this code, from what OpenSSL prints of each key.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests read its tables")]
mod vectors;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal_coordination::SystemClock;
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::{Algorithm, Findings, IssuerUrl, Keystore, KeystoreOptions};
use oneseal_providers::{Entries, EnvProvider, FileProvider, InlineProvider, SecretProvider};
use oneseal_testing::MemoryProvider;
use tempfile::TempDir;
use vectors::read;

struct Specimen {
    name: &'static str,
    kid: &'static str,
    /// PEM other than PKCS#8.
    traditional: Option<&'static str>,
    encrypted: &'static str,
}

const SPECIMENS: [Specimen; 4] = [
    Specimen {
        name: "rsa",
        kid: "FxYHO_n6q9Hc7rEw7QjIbjTnoTfI9GR2ETTWnGRSPvY",
        traditional: Some("rsa.pkcs1.pem"),
        encrypted: "rsa.pbkdf2-sha256-aes256.enc.pem",
    },
    Specimen {
        name: "p256",
        kid: "fbiI3fpv4ICMK-4UxBbNd0E4bgv1Q5GC-0TPQ7hDT-I",
        traditional: Some("p256.sec1.pem"),
        encrypted: "p256.scrypt-aes256.enc.pem",
    },
    Specimen {
        name: "p384",
        kid: "ZezPbMdjh-n7dgoD0u1pkFk9B_d3307Rff9l2jhEA2k",
        traditional: Some("p384.sec1.pem"),
        encrypted: "p384.pbkdf2-sha512-aes192.enc.pem",
    },
    Specimen {
        name: "ed25519",
        kid: "03piUKMNawkbC6_Q2rvTLkBLRCCG3ww7irqKGcuZets",
        traditional: None,
        encrypted: "ed25519.pbkdf2-sha384-aes256.enc.pem",
    },
];

/// The DER of the last block.
fn der(pem: &str) -> Vec<u8> {
    let body = pem.rsplit("-----BEGIN ").next().unwrap();
    let body: String = body.lines().skip(1).take_while(|line| !line.starts_with('-')).collect();
    STANDARD.decode(body).unwrap()
}

/// Name and value of every form of one key.
fn forms(specimen: &Specimen) -> Vec<(String, Vec<u8>)> {
    let text = |file: &str| String::from_utf8(read(&format!("forms/{file}"))).unwrap();
    let pkcs8 = text(&format!("{}.pkcs8.pem", specimen.name));
    let jwk = PrivateKey::parse(pkcs8.as_bytes()).unwrap().expose_jwk().to_string();
    let public = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let certificate = String::from_utf8(read("keys/ca.crt")).unwrap();
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let mut pems = vec![("PKCS#8".to_owned(), pkcs8), ("encrypted".to_owned(), text(specimen.encrypted))];
    pems.extend(specimen.traditional.map(|file| ("traditional".to_owned(), text(file))));
    for (name, pem) in pems {
        let der = der(&pem);
        let in_base64 = STANDARD.encode(&der);
        let forms: [(&str, Vec<u8>); 15] = [
            ("PEM", pem.clone().into_bytes()),
            ("DER", der),
            ("PEM, CRLF", pem.replace('\n', "\r\n").into_bytes()),
            ("PEM, CR", pem.replace('\n', "\r").into_bytes()),
            ("PEM, BOM", format!("\u{feff}{pem}").into_bytes()),
            ("PEM, blank space", format!("\n \t{}\n\n", pem.replace('\n', "\n    ")).into_bytes()),
            ("PEM, text around", format!("Bag Attributes\n  name: x\n{pem}-- \nregards\n").into_bytes()),
            ("PEM, certificates around", format!("{certificate}{pem}{certificate}").into_bytes()),
            ("PEM, escaped", pem.replace('\n', "\\n").into_bytes()),
            ("PEM, quoted and escaped", format!("\"{}\"", pem.replace('\n', "\\n")).into_bytes()),
            ("PEM, on one line", pem.replace('\n', " ").into_bytes()),
            ("base64 of PEM", STANDARD.encode(&pem).into_bytes()),
            ("base64 of DER", in_base64.clone().into_bytes()),
            ("base64 of DER, newline", format!("{in_base64}\n").into_bytes()),
            ("base64 of DER, wrapped", in_base64.as_bytes().chunks(76).collect::<Vec<_>>().join(&b'\n')),
        ];
        all.extend(forms.into_iter().map(|(form, value)| (format!("{name} {form}"), value)));
    }
    let jwks = format!("{{\"keys\":[{public},{jwk}]}}");
    for (name, value) in [
        ("JWK", jwk.clone()),
        ("JWK, blank space", format!("\u{feff} {}\r\n", jwk.replace(',', " ,\n"))),
        ("JWKS", jwks.clone()),
        ("base64 of JWK", STANDARD.encode(&jwk)),
        ("base64 of JWKS", STANDARD.encode(&jwks)),
    ] {
        all.push((name.to_owned(), value.into_bytes()));
    }
    all
}

fn write(path: &Path, value: &[u8]) {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(value).unwrap();
}

/// The same value resting everywhere it can; what is not text cannot be in a variable.
fn providers(dir: &Path, value: &[u8]) -> Vec<(&'static str, Arc<dyn SecretProvider>)> {
    write(&dir.join("key"), value);
    fs::DirBuilder::new().mode(0o700).create(dir.join("keys")).unwrap();
    write(&dir.join("keys/current.pem"), value);
    let mut all: Vec<(&'static str, Arc<dyn SecretProvider>)> = vec![
        ("file", Arc::new(FileProvider::new(dir.join("key")).assume_durable(true))),
        ("directory", Arc::new(FileProvider::new(dir.join("keys")).assume_durable(true))),
        ("inline", Arc::new(InlineProvider::new(value.to_vec()))),
        ("memory", Arc::new(MemoryProvider::with(Entries::single("current", value.to_vec())))),
    ];
    if let Ok(text) = String::from_utf8(value.to_vec()) {
        all.push(("env", Arc::new(EnvProvider::captured("SIGNING_KEY", Some(text.into())))));
    }
    all
}

async fn kid(provider: Arc<dyn SecretProvider>) -> Result<String, Findings> {
    let mut options = KeystoreOptions::new(IssuerUrl::parse("https://oidc.example", "test").unwrap());
    options.algorithms = Algorithm::ALL.to_vec();
    options.passphrase = Some(Arc::new(InlineProvider::new("correct-horse\n")));
    let (keystore, _follower) = Keystore::open(provider, options, Arc::new(SystemClock)).await?;
    Ok(keystore.snapshot().keys()[0].kid.to_string())
}

#[tokio::test]
async fn one_key_has_one_kid_in_every_form_through_every_provider() {
    let mut seen = 0;
    for specimen in &SPECIMENS {
        for (form, value) in forms(specimen) {
            let dir = TempDir::new().unwrap();
            for (provider, resting) in providers(dir.path(), &value) {
                let verdict = kid(resting).await.unwrap_or_else(|found| found.to_string());
                println!("{:<8} {form:<40} {provider:<10} {verdict}", specimen.name);
                assert_eq!(verdict, specimen.kid, "{} {form} {provider}", specimen.name);
                seen += 1;
            }
        }
    }
    // Three keys of 50 forms and one of 35; DER is in no variable.
    assert_eq!(seen, 3 * (50 * 5 - 3) + 35 * 5 - 2);
}
