//! The primitive under a verifier against Wycheproof's raw signature files, which are too large to be kept here.
//! Set `TEST_WYCHEPROOF` to a `testvectors_v1` directory; without it each file is skipped by name.

#[expect(dead_code, reason = "the files read here are not in that folder")]
mod vectors;

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_keystore::verify::Verifier;
use oneseal_keystore::{Algorithm, PublicKey};
use serde_json::{Map, Value};
use vectors::{list, text};

#[test]
fn signatures_verify_as_wycheproof_says() {
    for (file, algorithm) in [
        ("ecdsa_secp256r1_sha256_p1363_test", Algorithm::Es256),
        ("ecdsa_secp384r1_sha384_p1363_test", Algorithm::Es384),
        ("ed25519_test", Algorithm::EdDsa),
        ("rsa_signature_2048_sha256_test", Algorithm::Rs256),
        ("rsa_signature_3072_sha256_test", Algorithm::Rs256),
        ("rsa_signature_4096_sha256_test", Algorithm::Rs256),
        ("rsa_signature_8192_sha256_test", Algorithm::Rs256),
        ("rsa_signature_2048_sha384_test", Algorithm::Rs384),
        ("rsa_signature_2048_sha512_test", Algorithm::Rs512),
        ("rsa_pss_2048_sha256_mgf1_32_test", Algorithm::Ps256),
    ] {
        run(file, algorithm, |result, verified, context| match result {
            "valid" => assert!(verified, "{context}"),
            "invalid" => assert!(!verified, "{context}"),
            _ => {}
        });
    }
}

#[test]
fn other_primitives_have_no_way_in() {
    for (file, algorithm) in [
        ("rsa_pss_2048_sha256_mgf1_0_test", Algorithm::Ps256),
        ("rsa_pss_2048_sha256_mgf1sha1_20_test", Algorithm::Ps256),
        ("rsa_pss_2048_sha384_mgf1_48_test", Algorithm::Ps256),
        ("rsa_pss_4096_sha512_mgf1_64_test", Algorithm::Ps256),
        ("ecdsa_secp256r1_sha256_test", Algorithm::Es256),
        ("ecdsa_secp256k1_sha256_p1363_test", Algorithm::Es256),
        ("ecdsa_secp521r1_sha512_p1363_test", Algorithm::Es384),
    ] {
        // What is good by their rules must not be by ours. The reverse may be: a salt of 32 octets is wrong there.
        run(file, algorithm, |result, verified, context| {
            assert!(result != "valid" || !verified, "{context}")
        });
    }
}

fn run(file: &str, algorithm: Algorithm, check: impl Fn(&str, bool, &str)) {
    let Some(vectors) = load(file) else { return };
    let mut seen = 0;
    for group in list(&vectors, "/testGroups") {
        let verifier = public_key(group, algorithm)
            .and_then(|key| Verifier::new(&key, algorithm, key.thumbprint()).ok());
        for test in list(group, "/tests") {
            let (message, signature) = (hex(text(test, "/msg")), hex(text(test, "/sig")));
            let verified =
                verifier.as_ref().is_some_and(|v| v.verify_signature(&message, &signature).is_ok());
            check(text(test, "/result"), verified, &format!("{file} {}", test["tcId"]));
            seen += 1;
        }
    }
    assert!(seen > 50, "{file} holds {seen} tests");
}

#[expect(clippy::print_stderr, reason = "a skipped file is reported by name")]
fn load(file: &str) -> Option<Value> {
    let Some(directory) = std::env::var_os("TEST_WYCHEPROOF") else {
        eprintln!("skipped: {file}.json (TEST_WYCHEPROOF is not set)");
        return None;
    };
    let path = PathBuf::from(directory).join(format!("{file}.json"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(serde_json::from_slice(&bytes).expect("Wycheproof files are JSON"))
}

/// The group's key as a JWK reader would take it.
fn public_key(group: &Value, algorithm: Algorithm) -> Option<PublicKey> {
    let pointer = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| group.pointer(name)).and_then(Value::as_str);
        URL_SAFE_NO_PAD.encode(minimal(&hex(found.expect("a key"))))
    };
    let mut jwk = Map::new();
    let mut put = |name: &str, value: String| jwk.insert(name.to_owned(), Value::String(value));
    match algorithm {
        Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512 | Algorithm::Ps256 => {
            put("kty", "RSA".to_owned());
            put("n", pointer(["/publicKey/modulus", "/privateKey/modulus"]));
            put("e", pointer(["/publicKey/publicExponent", "/privateKey/publicExponent"]));
        }
        Algorithm::Es256 | Algorithm::Es384 => {
            let curve = match text(group, "/publicKey/curve") {
                "secp256r1" => "P-256",
                "secp384r1" => "P-384",
                other => other,
            };
            let point = hex(text(group, "/publicKey/uncompressed"));
            let (x, y) = point[1..].split_at((point.len() - 1) / 2);
            put("kty", "EC".to_owned());
            put("crv", curve.to_owned());
            put("x", URL_SAFE_NO_PAD.encode(x));
            put("y", URL_SAFE_NO_PAD.encode(y));
        }
        Algorithm::EdDsa => {
            put("kty", "OKP".to_owned());
            put("crv", "Ed25519".to_owned());
            put("x", URL_SAFE_NO_PAD.encode(hex(text(group, "/publicKey/pk"))));
        }
    }
    PublicKey::from_foreign_jwk(&jwk).ok()
}

fn minimal(octets: &[u8]) -> &[u8] {
    &octets[octets.iter().take_while(|octet| **octet == 0).count()..]
}

fn hex(text: &str) -> Vec<u8> {
    let digit =
        |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).expect("hex");
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
