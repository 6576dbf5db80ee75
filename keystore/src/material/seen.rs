//! What a value looks like, for the message of a refusal: its form, and nothing of its content.

use super::form::{base64, is_blank, json_string, without_mark};
use super::pem::{self, is_pem};
use super::{der, private_jwk};

/// The form of a value in a few words: `PEM (CERTIFICATE, RSA PRIVATE KEY)`, `base64 of DER (encrypted PKCS#8)`,
/// `a private JWK (EC)`. Labels and kinds are said only where they are known ones, so that nothing secret is.
pub fn form_of(value: &[u8]) -> String {
    let value = without_mark(value);
    if is_blank(value) {
        return "nothing".to_owned();
    }
    if let Some(form) = bare(value) {
        return form;
    }
    if let Some(decoded) = base64(value) {
        return format!("base64 of {}", bare(without_mark(&decoded)).unwrap_or_else(|| other(&decoded)));
    }
    other(value)
}

/// Whether the value has the form of a key, or of something that is kept beside one, as it is or in base64.
pub(crate) fn is_key_like(value: &[u8]) -> bool {
    bare(without_mark(value)).is_some() || is_encoded(value)
}

/// Whether the value is base64 of what a key may be read from: PEM, DER or JSON.
pub(crate) fn is_encoded(value: &[u8]) -> bool {
    let value = without_mark(value);
    bare(value).is_none() && base64(value).is_some_and(|decoded| bare(without_mark(&decoded)).is_some())
}

fn bare(value: &[u8]) -> Option<String> {
    if der::is_whole(value) {
        return Some(format!("DER ({})", der::structure(value).as_str()));
    }
    let text = value.trim_ascii();
    if text.starts_with(b"{") {
        return Some(private_jwk::form_of(text));
    }
    let unquoted = json_string(text);
    let pem = unquoted.as_ref().map_or(text, |text| text.as_bytes());
    if !is_pem(pem) {
        return None;
    }
    let form = match pem::blocks(pem) {
        Ok(blocks) => format!("PEM ({})", labels(blocks.iter().map(|block| block.label))),
        Err(_) => "damaged PEM".to_owned(),
    };
    Some(if unquoted.is_some() { format!("{form} in quotes") } else { form })
}

/// The labels in order, runs of one label counted.
fn labels<'a>(labels: impl Iterator<Item = &'a str>) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for label in labels {
        let label = KNOWN_LABELS.iter().find(|known| **known == label).copied().unwrap_or("another label");
        match runs.last_mut() {
            Some((last, count)) if *last == label => *count += 1,
            _ => runs.push((label, 1)),
        }
    }
    let more = runs.len().saturating_sub(MOST_LABELS);
    let mut shown: Vec<_> = runs
        .into_iter()
        .take(MOST_LABELS)
        .map(|(label, count)| if count > 1 { format!("{count} × {label}") } else { label.to_owned() })
        .collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

fn other(value: &[u8]) -> String {
    let kind = if str::from_utf8(value).is_ok() { "text" } else { "binary" };
    match value.len() {
        1 => format!("{kind} of 1 byte"),
        bytes => format!("{kind} of {bytes} bytes"),
    }
}

const MOST_LABELS: usize = 6;

const KNOWN_LABELS: &[&str] = &[
    "PRIVATE KEY",
    "RSA PRIVATE KEY",
    "EC PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "DSA PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
    "PUBLIC KEY",
    "RSA PUBLIC KEY",
    "EC PARAMETERS",
    "CERTIFICATE",
    "CERTIFICATE REQUEST",
    "X509 CRL",
];

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn forms_have_names_and_secrets_are_not_among_them() {
        for (value, form) in [
            (&b""[..], "nothing"),
            (b" \n\0", "nothing"),
            (b"hello", "text of 5 bytes"),
            (b"x", "text of 1 byte"),
            (b"\xff\xfe\0", "binary of 3 bytes"),
            (b"aGVsbG8h", "base64 of text of 6 bytes"),
            (b"-----BEGIN PRIVATE KEY-----\nMII", "damaged PEM"),
            (b"-----BEGIN CANARY PRIVATE KEY-----\n-----END CANARY PRIVATE KEY-----", "PEM (another label)"),
            (b"{\"kty\":\"RSA\",\"d\":\"x\"}", "a private JWK (RSA)"),
            (b"{\"kty\":\"canary\"}", "a JWK of an unknown kind"),
            (b"{\"keys\":[{},{}]}", "a JWKS of 2 keys"),
            (b"{\"canary\":1}", "a JSON object"),
            (b"{\"canary\":", "damaged JSON"),
        ] {
            assert_eq!(form_of(value), form);
        }
    }

    #[test]
    fn base64_of_a_key_is_told_from_the_key_and_from_other_base64() {
        let pem = b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n";
        let once = STANDARD.encode(pem);
        assert!(is_encoded(once.as_bytes()) && is_key_like(once.as_bytes()) && is_key_like(pem));
        assert!(is_encoded(STANDARD.encode("{\"kty\":\"OKP\"}").as_bytes()));
        for other in [&pem[..], b"", b"hello", b"aGVsbG8h", STANDARD.encode(&once).as_bytes()] {
            assert!(!is_encoded(other));
        }
        assert!(!is_key_like(b"aGVsbG8h") && !is_key_like(b""));
    }

    #[test]
    fn many_labels_are_counted() {
        let block = |label: &str| format!("-----BEGIN {label}-----\n-----END {label}-----\n");
        let chain = [block("CERTIFICATE").repeat(3), block("PRIVATE KEY")].concat();
        assert_eq!(form_of(chain.as_bytes()), "PEM (3 × CERTIFICATE, PRIVATE KEY)");
        let many = [block("CERTIFICATE"), block("PUBLIC KEY")].concat().repeat(5);
        assert!(form_of(many.as_bytes()).ends_with(", 4 more)"));
    }
}
