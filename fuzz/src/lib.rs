//! What each fuzz target does with its input. None may panic, take long, or contradict itself.
//!
//! The functions are plain, so that two kinds of program can call them: the instrumented binaries of `scripts/fuzz`,
//! which look for new inputs, and `tests/corpus.rs`, which reads the committed ones again in every test run.

use oneseal::token::Form;
use oneseal_keystore::jwk::PublicJwk;
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::{Algorithm, IssuerUrl, PublicKey, ring};
use oneseal_providers::{Entries, SecretBytes};

/// A target: its name, which is also its corpus's folder, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Does it.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "pem", run: pem },
    Target { name: "der", run: der },
    Target { name: "jwk", run: jwk },
    Target { name: "ring", run: ring },
    Target { name: "toml", run: toml },
    Target { name: "form", run: form },
];

/// A value as a provider hands it on: PEM, base64, JSON, whatever is there.
pub fn pem(input: &[u8]) {
    private(input);
}

/// The inside of a DER sequence; the length in front is made to fit, which mutation alone would hardly find.
pub fn der(input: &[u8]) {
    let Ok(len) = u16::try_from(input.len()) else { return };
    let [high, low] = len.to_be_bytes();
    let head: &[u8] = match len {
        0..=0x7f => &[0x30, low],
        0x80..=0xff => &[0x30, 0x81, low],
        _ => &[0x30, 0x82, high, low],
    };
    private(&[head, input].concat());
}

/// A JWK, read as the private key of an issuer and as one entry of a stranger's JWKS.
pub fn jwk(input: &[u8]) {
    private(input);
    let Ok(value) = oneseal_keystore::json::parse(input) else { return };
    if let Ok(entry) = PublicJwk::from_json(&value) {
        again(&entry.key);
    }
}

/// The only entry of a provider, as the ring that it may be.
pub fn ring(input: &[u8]) {
    let issuer = IssuerUrl::parse("https://oidc.example.com", "issuer").expect("a good URL");
    let entries = || Entries::single("keyring.json", SecretBytes::new(input.to_vec()));
    let first = ring::read(&entries(), &issuer);
    let second = ring::read(&entries(), &issuer);
    match (first, second) {
        (Ok((first, _)), Ok((second, _))) => {
            assert_eq!(first.identity, second.identity, "one text, one identity");
            assert!(!first.keys.is_empty(), "a ring without keys must not be served");
        }
        (Err(first), Err(second)) => {
            assert!(first.has_errors(), "refused without a reason");
            assert_eq!(first.to_string(), second.to_string(), "one text, one verdict");
        }
        (first, second) => panic!("read twice, judged differently: {} {}", first.is_ok(), second.is_ok()),
    }
}

/// A configuration file.
pub fn toml(input: &[u8]) {
    oneseal_server::read_configuration(input);
}

/// The body of a request for a token.
pub fn form(input: &[u8]) {
    match Form::parse(input) {
        Ok(form) => {
            let written = written(&form);
            let read = Form::parse(written.as_bytes()).expect("what says the same is read as well");
            assert!(read == form, "written and read again it says something else");
            for (name, _) in form.parameters().filter(|(name, _)| !["audience", "resource"].contains(name)) {
                assert_eq!(form.all(name).count(), 1, "a parameter that comes twice");
            }
        }
        Err(error) => assert!(error.to_string().len() < 300, "an error that quotes its input"),
    }
}

/// A form that says the same, with every byte encoded.
fn written(form: &Form) -> String {
    let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pairs = form.parameters().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Reads the files that the command line names, as a found input is looked at again.
///
/// # Errors
/// A file cannot be read.
pub fn replay(target: fn(&[u8])) -> std::io::Result<()> {
    std::env::args_os().skip(1).try_for_each(|path| std::fs::read(path).map(|input| target(&input)))
}

/// Whatever is taken for a key is one: it can be written, and what was written is the same key.
fn private(input: &[u8]) {
    match PrivateKey::parse(input) {
        Ok(key) => {
            let written = key.expose_jwk();
            let read = PrivateKey::parse(written.as_bytes()).expect("what we write is what we read");
            assert_eq!(read.public(), key.public());
            again(key.public());
        }
        Err(error) => {
            let told = format!("{error} {error:?} {}", error.code().name);
            assert!(told.len() < MOST_TOLD, "an error that quotes its input: {} bytes", told.len());
        }
    }
}

/// A public key survives being written and read.
fn again(key: &PublicKey) {
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.key_type() == key.key_type());
    let mut written = String::new();
    key.write_jwk(&mut written, algorithm.expect("each kind of key has one"), &key.thumbprint());
    let value = serde_json::from_str(&written).expect("we write JSON");
    let read = PublicJwk::from_json(&value).expect("what we write is what we read");
    assert_eq!(&read.key, key);
}

/// Sixteen member names of 64 characters, each four bytes at most, and the sentence around them, twice.
const MOST_TOLD: usize = 2 * (16 * 64 * 4 + 1024);
