//! The primitive under a verifier against Wycheproof's raw signatures, 3,937 of them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests read its tables")]
mod vectors;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_keystore::verify::{Verifier, VerifyError};
use oneseal_keystore::{Algorithm, PublicKey};

#[test]
fn signatures_verify_as_wycheproof_says() {
    for (file, algorithm, tests) in [
        ("ecdsa_secp256r1_sha256_p1363", Algorithm::Es256, 262),
        ("ecdsa_secp384r1_sha384_p1363", Algorithm::Es384, 280),
        ("ed25519", Algorithm::EdDsa, 151),
        ("rsa_signature_2048_sha256", Algorithm::Rs256, 259),
        ("rsa_signature_3072_sha256", Algorithm::Rs256, 259),
        ("rsa_signature_4096_sha256", Algorithm::Rs256, 258),
        ("rsa_signature_8192_sha256", Algorithm::Rs256, 258),
        ("rsa_signature_2048_sha384", Algorithm::Rs384, 258),
        ("rsa_signature_2048_sha512", Algorithm::Rs512, 259),
        ("rsa_pss_2048_sha256_mgf1_32", Algorithm::Ps256, 108),
    ] {
        let outcomes = run(file, algorithm);
        assert_eq!(outcomes.len(), tests, "{file}");
        for Outcome { context, result, verified } in outcomes {
            match result.as_str() {
                "valid" => assert_eq!(verified, Ok(()), "{context}"),
                "invalid" => {
                    assert_eq!(verified, Err(Refused::Verifier(VerifyError::Signature)), "{context}")
                }
                // Legacy forms that a verifier may take: either verdict, but the one type of refusal.
                _ => assert!(
                    matches!(verified, Ok(()) | Err(Refused::Verifier(VerifyError::Signature))),
                    "{context}: {verified:?}"
                ),
            }
        }
    }
}

#[test]
fn other_primitives_have_no_way_in() {
    for (file, algorithm, tests) in [
        ("rsa_pss_2048_sha256_mgf1_0", Algorithm::Ps256, 103),
        ("rsa_pss_2048_sha256_mgf1sha1_20", Algorithm::Ps256, 108),
        ("rsa_pss_2048_sha384_mgf1_48", Algorithm::Ps256, 141),
        ("rsa_pss_4096_sha512_mgf1_64", Algorithm::Ps256, 179),
        ("ecdsa_secp256r1_sha256", Algorithm::Es256, 484),
        ("ecdsa_secp256k1_sha256_p1363", Algorithm::Es256, 252),
        ("ecdsa_secp521r1_sha512_p1363", Algorithm::Es384, 318),
    ] {
        let outcomes = run(file, algorithm);
        assert_eq!(outcomes.len(), tests, "{file}");
        for Outcome { context, result, verified } in outcomes {
            // What is good by their rules must not be by ours. The reverse may be: a salt of 32 octets is wrong there.
            assert!(result != "valid" || verified.is_err(), "{context}");
            // A curve that we have not is refused as a key, before anything is verified.
            let wanted_key = !file.contains("256k1") && !file.contains("521");
            assert_eq!(!matches!(verified, Err(Refused::Key)), wanted_key, "{context}");
        }
    }
}

/// One test of a file, with what became of it.
struct Outcome {
    context: String,
    result: String,
    verified: Result<(), Refused>,
}

#[derive(Debug, PartialEq)]
enum Refused {
    /// The public key is not taken.
    Key,
    /// The key is, the signature is not.
    Verifier(VerifyError),
}

/// Lines `key⇥JWK` begin a group, lines `number⇥result⇥message⇥signature` are its tests.
fn run(file: &str, algorithm: Algorithm) -> Vec<Outcome> {
    let text = String::from_utf8(vectors::read(&format!("wycheproof/raw/{file}.tsv"))).unwrap();
    let mut verifier = Err(Refused::Key);
    let mut outcomes = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["key", jwk] => verifier = of_key(jwk, algorithm),
            [number, result, message, signature] => outcomes.push(Outcome {
                context: format!("{file} {number}"),
                result: result.to_owned(),
                verified: match &verifier {
                    Ok(verifier) => verifier
                        .verify_signature(&octets(message), &octets(signature))
                        .map_err(Refused::Verifier),
                    Err(_) => Err(Refused::Key),
                },
            }),
            _ => panic!("{file}: {line}"),
        }
    }
    outcomes
}

fn of_key(jwk: &str, algorithm: Algorithm) -> Result<Verifier, Refused> {
    let key = PublicKey::from_foreign_jwk(&serde_json::from_str(jwk).unwrap()).map_err(|_| Refused::Key)?;
    Verifier::new(&key, algorithm, key.thumbprint()).map_err(Refused::Verifier)
}

fn octets(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}
