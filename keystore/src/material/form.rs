//! What the bytes are: PEM, DER, JWK, or base64 of these.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::encrypted::Opener;
use super::pem::{self, Block, SEQUENCE};
use super::{KeyError, PrivateKey, der, private_jwk};

/// Reads a key in any form that [`PrivateKey::parse`] promises.
pub(super) fn read(value: &[u8], opener: Option<&Opener<'_>>) -> Result<PrivateKey, KeyError> {
    let value = without_mark(value);
    if is_blank(value) {
        return Err(KeyError::Empty);
    }
    if value.starts_with(&[0xff, 0xfe]) || value.starts_with(&[0xfe, 0xff]) {
        return Err(KeyError::Unrecognised { hint: "the text is UTF-16; save it as UTF-8" });
    }
    if let Some(key) = read_bare(value, opener) {
        return key;
    }
    if let Some(decoded) = base64(value) {
        return read_bare(without_mark(&decoded), opener).unwrap_or_else(|| Err(within_base64(&decoded)));
    }
    Err(if pem::is_damaged_pem(value) {
        KeyError::MalformedPem {
            fault: "a `-----BEGIN …-----` marker has not its five hyphens on both sides",
        }
    } else {
        KeyError::Unrecognised { hint: hint(value) }
    })
}

/// DER, JSON or PEM; `None` if it is none of these.
fn read_bare(value: &[u8], opener: Option<&Opener<'_>>) -> Option<Result<PrivateKey, KeyError>> {
    if der::is_whole(value) {
        return Some(der::read(value, opener));
    }
    let text = value.trim_ascii();
    if text.starts_with(b"{") {
        return Some(private_jwk::read(text));
    }
    let unquoted = json_string(text);
    let text = unquoted.as_ref().map_or(text, |text| text.as_bytes());
    if pem::is_pem(text) {
        return Some(pem::blocks(text).and_then(|blocks| from_blocks(&blocks, opener)));
    }
    // Binary that begins as DER does, but has another length than it says.
    let binary = text.first() == Some(&SEQUENCE) && text.iter().any(|octet| !octet.is_ascii());
    binary.then_some(Err(KeyError::MalformedDer { form: "the binary value" }))
}

/// The one private key among the blocks; certificates, parameters and public keys beside it are ignored.
fn from_blocks(blocks: &[Block<'_>], opener: Option<&Opener<'_>>) -> Result<PrivateKey, KeyError> {
    let private: Vec<_> = blocks.iter().filter(|block| block.label.ends_with("PRIVATE KEY")).collect();
    let [block] = private.as_slice() else {
        return Err(if private.is_empty() { without_private(blocks) } else { two(private.len()) });
    };
    match block.label {
        "OPENSSH PRIVATE KEY" => Err(KeyError::UnsupportedForm { form: "an OpenSSH private key" }),
        "DSA PRIVATE KEY" => Err(KeyError::UnknownType { kind: "DSA".to_owned() }),
        label if label.starts_with("NEBULA ") => {
            Err(KeyError::UnsupportedForm { form: "a Nebula private key" })
        }
        label if label.starts_with("ENCRYPTED ") && label != "ENCRYPTED PRIVATE KEY" => {
            Err(KeyError::EncryptionUnsupported { scheme: "that of cosign or another tool's own".to_owned() })
        }
        _ => der::read(&block.decode()?, opener),
    }
}

fn without_private(blocks: &[Block<'_>]) -> KeyError {
    let any = |suffix: &str| blocks.iter().any(|block| block.label.ends_with(suffix));
    if any("PUBLIC KEY") {
        KeyError::PublicOnly
    } else if any("CERTIFICATE") {
        KeyError::CertificateOnly
    } else {
        KeyError::Unrecognised { hint: "the PEM holds no block of a private key" }
    }
}

pub(super) fn two(count: usize) -> KeyError {
    KeyError::TwoPrivateKeys { count }
}

pub(super) fn without_mark(value: &[u8]) -> &[u8] {
    value.strip_prefix(UTF8_BOM).unwrap_or(value)
}

pub(super) fn is_blank(value: &[u8]) -> bool {
    value.iter().all(|octet| octet.is_ascii_whitespace() || *octet == 0)
}

/// A JSON string literal's content, as secret stores return it. Quotes kept by mistake look the same.
pub(super) fn json_string(text: &[u8]) -> Option<Zeroizing<String>> {
    if !text.starts_with(b"\"") {
        return None;
    }
    serde_json::from_slice::<Cow<'_, str>>(text).ok().map(|text| Zeroizing::new(text.into_owned()))
}

/// The value decoded, if it is base64 (wrapped or not) and nothing else.
pub(crate) fn base64(value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut text = Zeroizing::new(Vec::with_capacity(value.len()));
    text.extend(value.iter().filter(|octet| !octet.is_ascii_whitespace()));
    STANDARD.decode(text.as_slice()).ok().map(Zeroizing::new)
}

/// What base64 held that is no key.
fn within_base64(decoded: &[u8]) -> KeyError {
    let twice = base64(decoded).is_some_and(|inner| der::is_whole(&inner) || pem::is_pem(&inner));
    if twice {
        return KeyError::EncodedTwice;
    }
    KeyError::Unrecognised { hint: "the value is base64, but not of a key" }
}

fn hint(value: &[u8]) -> &'static str {
    let text = value.trim_ascii();
    if text.starts_with(b"$") || text.starts_with(b"{{") || text.starts_with(b"%") {
        "the value looks like a placeholder that nothing has filled in"
    } else if text.starts_with(b"eyJ") && text.contains(&b'.') {
        "the value looks like a token (JWT, JWE), not like a key"
    } else if text.is_ascii() {
        "the value is text, but neither PEM, JSON nor base64"
    } else {
        "the value is binary, but not DER"
    }
}

const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";
