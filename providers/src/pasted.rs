//! Whether a text is a key that was put where a name belongs. Whoever refuses it must not repeat it.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

/// Whether `text` looks like key material: PEM, a JWK, base64 of DER, or base64 of one of these, with either alphabet,
/// in one line or wrapped, whole or cut at its end, alone or behind a scheme. A secret without a form, such as a short
/// passphrase, cannot be known.
pub fn looks_like_key(text: &str) -> bool {
    is_key(text.as_bytes(), LAYERS)
        || text.split(SEPARATORS).any(|piece| piece.len() >= SHORTEST && is_key(piece.as_bytes(), LAYERS))
}

fn is_key(bytes: &[u8], layers: u32) -> bool {
    is_private_der(bytes) || MARKS.iter().any(|mark| contains(bytes, mark)) || is_encoded_key(bytes, layers)
}

fn contains(bytes: &[u8], mark: &str) -> bool {
    bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
}

/// The beginning of PKCS#8, PKCS#1 and SEC1: a SEQUENCE whose first member is a version of one octet; and of
/// EncryptedPrivateKeyInfo with PBES2.
fn is_private_der(bytes: &[u8]) -> bool {
    let Some((content, _)) = sequence(bytes) else { return false };
    let is_versioned = matches!(content, [2, 1, 0 | 1, ..]);
    is_versioned || sequence(content).is_some_and(|(inner, _)| inner.starts_with(PBES2))
}

/// What stands in a DER SEQUENCE (X.690 section 8.9), or as much of it as is there; and its length as it is told.
fn sequence(bytes: &[u8]) -> Option<(&[u8], usize)> {
    match bytes {
        [0x30, length @ 0..=0x7f, content @ ..] => Some((content, usize::from(*length))),
        [0x30, 0x81, length, content @ ..] => Some((content, usize::from(*length))),
        [0x30, 0x82, high, low, content @ ..] => Some((content, usize::from(*high) << 8 | usize::from(*low))),
        _ => None,
    }
}

fn is_encoded_key(bytes: &[u8], layers: u32) -> bool {
    let Some(base64) = as_base64(bytes) else { return false };
    let is_long_der = base64.len() >= LONGEST_NAME && base64.starts_with(b"M");
    if is_long_der || layers == 0 || base64.len() < SHORTEST {
        return is_long_der;
    }
    // One letter alone encodes nothing: it was cut there.
    let whole = base64.len() - usize::from(base64.len() % 4 == 1);
    let decoded = BASE64.decode(&base64[..whole]).map(Zeroizing::new);
    decoded.is_ok_and(|decoded| is_key(&decoded, layers - 1))
}

/// `bytes` in the standard alphabet, without what wraps them, if they are nothing but base64.
fn as_base64(bytes: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut letters = Zeroizing::new(Vec::with_capacity(bytes.len()));
    let mut rest = bytes;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'-' => letters.push(b'+'),
            b'_' => letters.push(b'/'),
            b'+' | b'/' => letters.push(*byte),
            byte if byte.is_ascii_alphanumeric() => letters.push(*byte),
            b'=' | b'"' | b'\'' => {}
            byte if byte.is_ascii_whitespace() => {}
            // A line end as a shell or JSON writes it.
            b'\\' if matches!(after, [b'n' | b'r', ..]) => rest = &after[1..],
            _ => return None,
        }
    }
    Some(letters)
}

/// Of PEM, and of a JWK.
const MARKS: [&str; 4] = ["-----BEGIN", "PRIVATE KEY", "\"kty\"", "\"d\""];
/// What may stand before or behind a key in one argument.
const SEPARATORS: [char; 8] = [':', '=', ',', '/', '?', '&', ' ', '@'];
/// Base64 of base64 of a PEM, whose lines are base64 again, is as much as anybody has wrapped.
const LAYERS: u32 = 2;
/// From here on the first octets are all there.
const SHORTEST: usize = 16;
/// The first line of a PEM body has 64 characters, as has the whole PKCS#8 form of an Ed25519 key.
const LONGEST_NAME: usize = 64;
/// Its OBJECT IDENTIFIER in DER, 1.2.840.113549.1.5.13.
const PBES2: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 5, 13];
/// What is cut has bits left over, and its padding has gone.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    use super::*;

    /// Private keys' beginnings: PKCS#8 of RSA, EC, Ed25519; PKCS#1; SEC1; encrypted.
    const DER: [&str; 6] = [
        "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQDBS7ngH8nEEXAM",
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgK4YHd2JQZq3WvLcb",
        "MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
        "MIIEpAIBAAKCAQEAwUu54B/JxBFwDGI2LHDYiIBBHfHWnvCQmDy4cTvvdYvVZJrY",
        "MHcCAQEEICuGB3diUGat1ry3G0pXtWVNNbTnzCkJbkOg3mOn8wr6oAoGCCqGSM49",
        "MIIFHDBOBgkqhkiG9w0BBQ0wQTApBgkqhkiG9w0BBQwwHAQIWmZ1a0xfWnsCAggA",
    ];

    fn forms(der: &str) -> Vec<String> {
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{der}\n-----END PRIVATE KEY-----\n");
        let jwk = format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"d\":\"{der}\"}}");
        let reordered = format!("{{\"d\":\"{der}\",\"kty\":\"OKP\"}}");
        let bytes = STANDARD.decode(der).expect("base64");
        let mut forms = vec![der.to_owned(), pem.clone(), jwk.clone(), reordered.clone()];
        for whole in [pem.as_bytes(), jwk.as_bytes(), reordered.as_bytes(), &bytes, der.as_bytes()] {
            forms.extend([STANDARD.encode(whole), URL_SAFE_NO_PAD.encode(whole)]);
        }
        forms
    }

    #[test]
    fn a_key_is_known_in_every_form_wrapped_cut_and_behind_a_name() {
        for form in DER.iter().flat_map(|der| forms(der)) {
            let (first, second) = form.split_at(form.len() / 2);
            for text in [
                form.clone(),
                format!("{first}\n{second}"),
                format!("  {first}\\n{second}\n"),
                format!("file:{form}"),
                format!("https://oidc.example/{form}"),
                format!("--jwks={form}"),
                form[..40.min(form.len())].to_owned(),
                form[..form.len() - 3].to_owned(),
            ] {
                assert!(looks_like_key(&text), "{text}");
            }
        }
    }

    #[test]
    fn a_name_is_no_key() {
        for name in [
            "",
            "Mykey",
            "/var/lib/M/keyring.json",
            "MY_VARIABLE_WITH_A_LONG_NAME",
            "file:/etc/oneseal/keyring.json",
            "https://oidc.example:8443/tenant/MII",
            "postgres://u:password@db.example/oneseal?sslmode=verify-full",
            "arn:aws:secretsmanager:eu-central-1:123456789012:secret:MyKey-a1b2c3",
            "[::]:8080",
            "oneseal=debug,warn",
            "urn:example:audience",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJhIn0.c2lnbmF0dXJl",
            "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
        ] {
            assert!(!looks_like_key(name), "{name}");
        }
    }
}
