//! Weak and published keys: file × verdict of the loader × verdict of a reader of key sets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod vectors;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal_keystore::PublicKey;
use oneseal_keystore::jwk::{JwkError, PublicJwk};
use oneseal_keystore::material::{KeyError, PrivateKey};
use oneseal_keystore::weakness::Weakness;
use serde_json::Value;
use vectors::{list, read, text};

/// The code of the refusal, or `taken`.
fn loader(value: &[u8]) -> &'static str {
    PrivateKey::parse(value).map_or_else(|error| error.code().name, |_| "taken")
}

/// The refusal of a reader of somebody's key set in a word, or `usable`.
fn verifier(jwk: Option<&Value>) -> String {
    let Some(jwk) = jwk else { return "no JWK".to_owned() };
    match PublicJwk::from_json(jwk) {
        Ok(_) => "usable".to_owned(),
        Err(JwkError::RsaWeak(weakness)) => format!("{weakness:?}"),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn every_specimen_has_its_verdict() {
    let verdicts: BTreeMap<_, _> =
        SPECIMENS.iter().map(|(file, loader, verifier)| (*file, (*loader, *verifier))).collect();
    let table = vectors::json("weak/weak-keys.json");
    let specimens = list(&table, "/keys");
    assert_eq!(specimens.len(), verdicts.len());
    for specimen in specimens {
        let file = text(specimen, "/file");
        let by_loader = loader(&read(&format!("weak/{file}")));
        let by_verifier = verifier(specimen.get("jwk"));
        println!("{file:<55} {by_loader:<22} {by_verifier}");
        assert_eq!((by_loader, by_verifier.as_str()), verdicts[file], "{file}");
        // What the table from outside wants of it.
        assert_eq!(by_loader == "taken", text(specimen, "/expect_loader") == "accept", "{file}");
        match text(specimen, "/expect_verifier_jwks") {
            "usable" => assert_eq!(by_verifier, "usable", "{file}"),
            "key not usable" => assert_ne!(by_verifier, "usable", "{file}"),
            _ => {}
        }
    }
}

/// A public file is refused for being one; the private keys with the same weaknesses are below.
const SPECIMENS: &[(&str, &str, &str)] = &[
    ("badkeys/rsa-ok.key", "key.public_only", "usable"),
    ("badkeys/rsa-debianweak.key", "key.public_only", "usable"),
    ("badkeys/rsa-e-larger-n.key", "key.public_only", "RsaSize { bits: 512 }"),
    ("badkeys/rsa-e1.key", "key.public_only", "RsaExponent { least: 3 }"),
    ("badkeys/rsa-fermat-pkcs1.key", "key.public_only", "ClosePrimes"),
    ("badkeys/rsa-fermat-pkcs8.key", "key.public_only", "ClosePrimes"),
    ("badkeys/rsa-fermat.crt", "key.certificate_only", "ClosePrimes"),
    ("badkeys/rsa-large-e.key", "key.rsa_exponent", "RsaExponent { least: 3 }"),
    ("badkeys/rsa-nprime.key", "key.public_only", "Prime"),
    ("badkeys/rsa-pattern.key", "key.public_only", "Pattern"),
    ("badkeys/rsa-roca.key", "key.public_only", "Roca"),
    ("badkeys/rsa-sharedprimes.key", "key.public_only", "usable"),
    ("badkeys/rsa-small-d.key", "key.public_only", "RsaExponent { least: 3 }"),
    ("badkeys/rsa-smallfactors-corrupt.key", "key.public_only", "SmallFactor { prime: 3 }"),
    ("badkeys/rsa-smallfactors-valid.key", "key.public_only", "SmallFactor { prime: 31337 }"),
    ("badkeys/rsa-vanity.key", "key.public_only", "usable"),
    ("badkeys/rsanzero.key", "key.public_only", "no JWK"),
    ("badkeys/rsapoly128.key", "key.public_only", "Pattern"),
    ("badkeys/rsapoly32.key", "key.public_only", "RsaSize { bits: 2047 }"),
    ("badkeys/rsazerozero.key", "key.public_only", "no JWK"),
    ("roca/privkey03.pem", "taken", "usable"),
    ("roca/privkey04.pem", "taken", "usable"),
    ("roca/privkey05.pem", "key.rsa_roca", "Roca"),
    ("roca/pubkey01.pem", "key.public_only", "usable"),
    ("roca/pubkey02.pem", "key.public_only", "usable"),
    ("roca/pubkey03.pem", "key.public_only", "Roca"),
    ("roca/cert01.pem", "key.certificate_only", "usable"),
    ("roca/cert02.pem", "key.certificate_only", "usable"),
    ("roca/cert03.pem", "key.certificate_only", "usable"),
    ("roca/cert04.pem", "key.certificate_only", "Roca"),
    ("roca/cert05.pem", "key.certificate_only", "Roca"),
    ("roca/cert06.pem", "key.certificate_only", "usable"),
    ("pyca-cryptography/rsa-bad-1025-q-is-2.pem", "key.rsa_too_small", "RsaSize { bits: 1025 }"),
    ("pyca-cryptography/rsa_public_key_invalid_exponent.pem", "key.public_only", "RsaExponent { least: 3 }"),
    ("smallstep-crypto/jose/bad-rsa.key", "taken", "usable"),
    ("smallstep-crypto/pemutil/openssl.rsa1024.pem", "key.rsa_too_small", "RsaSize { bits: 1024 }"),
    ("rustls-pemfile/rsa1024.pkcs1.pem", "key.rsa_too_small", "RsaSize { bits: 1024 }"),
    ("rustcrypto-formats/pkcs1/rsa2048-priv-3prime.pem", "key.rsa_multi_prime", "usable"),
];

#[test]
fn each_weakness_of_a_private_key_has_its_own_code() {
    for (file, verdict) in [
        ("made/close-next-prime.pem", "key.rsa_close_primes"),
        ("made/close-beyond-fermat.pem", "key.rsa_close_primes"),
        ("made/close-just-below-the-bound.pem", "key.rsa_close_primes"),
        ("made/just-far-enough.pem", "taken"),
        ("weak-private/rsa-fermat-private.pem", "key.rsa_close_primes"),
        ("made/equal-primes.pem", "key.rsa_equal_primes"),
        ("made/small-factor-99991.pem", "key.rsa_small_factor"),
        ("made/small-factor-100003.pem", "key.rsa_lopsided"),
        ("made/lopsided-512.pem", "key.rsa_lopsided"),
        ("made/lopsided-892.pem", "key.rsa_lopsided"),
        ("made/roca.pem", "key.rsa_roca"),
        ("made/pattern.pem", "key.rsa_pattern"),
        ("made/small-private-exponent.pem", "key.rsa_small_private_exponent"),
        ("made/shared-factor.pem", "key.rsa_small_private_exponent"),
        ("made/composite-prime.pem", "key.probe_failed"),
        ("weak-private/rsa-e3.pem", "key.rsa_exponent"),
    ] {
        let value = read(&format!("weak/{file}"));
        assert_eq!(loader(&value), verdict, "{file}");
        assert_eq!(loader(STANDARD.encode(&value).as_bytes()), verdict, "{file} as base64");
    }
}

#[test]
fn the_public_half_of_a_weak_key_is_refused_where_arithmetic_shows_it() {
    let moduli = vectors::json("weak/weak-keys.json");
    let jwk = |file: &str| {
        let found = list(&moduli, "/keys").iter().find(|row| text(row, "/file") == file).unwrap();
        found["jwk"].as_object().unwrap().clone()
    };
    // A key of ours is read without the costly question, which the ring asks where the private half is not there.
    let ours = |file: &str| PublicKey::from_jwk(&jwk(file)).map(|key| key.rsa_bits());
    assert_eq!(ours("badkeys/rsa-nprime.key"), Ok(Some(2048)));
    assert_eq!(ours("badkeys/rsa-roca.key"), Err(JwkError::RsaWeak(Weakness::Roca)));
    assert_eq!(ours("badkeys/rsa-fermat.crt"), Err(JwkError::RsaWeak(Weakness::ClosePrimes)));
}

#[test]
fn a_published_key_is_refused_in_every_form_and_its_source_named() {
    for (file, source) in [
        ("keys/p256-priv.pem", "RustCrypto formats test keys"),
        ("keys/pkcs8.p256-priv.der", "RustCrypto formats test keys"),
        ("keys/pkcs8.ed25519-priv-pkcs8v2.der", "RFC 8410 section 10.3"),
        ("keys/rsa2048-priv.der", "RustCrypto formats test keys"),
        ("keys/openssl.p384.pem", "smallstep crypto test data"),
        ("jose-cookbook/3_4.rsa_private_key.json", "RFC 7520 section 3.4"),
    ] {
        let error = PrivateKey::parse(&read(file)).unwrap_err();
        assert_eq!(error.code().name, "key.leaked", "{file}");
        assert!(error.to_string().ends_with(&format!("is published: {source}")), "{file}: {error}");
    }
    // As a public half it is its issuer's business.
    let public = vectors::json("jose-cookbook/3_3.rsa_public_key.json");
    assert_eq!(verifier(Some(&public)), "usable");
}

/// Moduli that a hostile peer might send: none may take long, and none may panic.
#[test]
fn hostile_numbers_are_refused_before_arithmetic() {
    let jwk = |n: String, e: &str| serde_json::json!({ "kty": "RSA", "n": n, "e": e });
    for n in ["", "A", "AA", "AQ", "Ag", "AAAA", &"_".repeat(341), &"_".repeat(1365), &"_".repeat(200_000)] {
        for e in ["", "AA", "AQ", "Aw", "AQAB", "AAEAAQ", &"_".repeat(5000)] {
            let n_and_e = jwk(n.to_owned(), e);
            assert!(PublicJwk::from_json(&n_and_e).is_err(), "{} {}", n.len(), e.len());
            let mut private = n_and_e;
            for name in ["d", "p", "q", "dp", "dq", "qi"] {
                private[name] = n.into();
            }
            assert!(PrivateKey::parse(private.to_string().as_bytes()).is_err());
            for name in ["p", "q", "dp", "dq", "qi"] {
                private.as_object_mut().unwrap().remove(name);
            }
            assert!(PrivateKey::parse(private.to_string().as_bytes()).is_err());
        }
    }
}

/// Set `TEST_CASES` to the collection that the table of leaked keys was made from.
#[test]
fn every_private_key_of_the_collection_is_refused() {
    let Some(root) = std::env::var_os("TEST_CASES").map(PathBuf::from) else {
        eprintln!("skipped: the collection of published keys (TEST_CASES is not set)");
        return;
    };
    let mut seen = 0;
    for folder in FOLDERS {
        for file in files_under(&root.join(folder)) {
            for key in private_keys_in(&std::fs::read(&file).unwrap()) {
                match PrivateKey::parse(&key) {
                    Err(error) => seen += usize::from(matches!(error, KeyError::Leaked { .. })),
                    Ok(key) => {
                        let kid = key.public().thumbprint();
                        assert!(TAKEN.contains(&kid.as_str()), "{}: {kid}", file.display());
                    }
                }
            }
        }
    }
    assert!(seen > 50, "{seen}: not the collection");
}

const FOLDERS: [&str; 12] = [
    "badkeys",
    "derived-here/weak-private",
    "roca",
    "pyca-cryptography",
    "smallstep-crypto",
    "rustcrypto-formats",
    "rustls-pemfile",
    "rfc-facts",
    "wycheproof",
    "jose-cookbook",
    "go-spiffe",
    "ory-oathkeeper",
];

/// The keys that the collection's own tables want to be taken; see `vectors/weak/SOURCE.md`.
const TAKEN: [&str; 7] = [
    "vEk4UARa85PrW0eea2zeVLqGBF-n5Jzd9GVmKAc0AHQ",
    "GY09CfGdu_0qh3PDH1z7QxydBq8kIh2Uu9N22w4V_uk",
    "COu8GPmatXsngf8XdSj5J3aqQotmjs7QR1lll517DxM",
    "J2Q8YK2l3l2fh0aDX-LG-iqNigyY0dxT4s6NH-8QfU0",
    "9ZwkBlpOClA9QKf7z4jTpMW-8Rx7mEuJ6QEyl0ow7JA",
    "cgAuL5ahLodnD8uw7cW0_AnHLi-ZBVdABExSr7pMnLM",
    "VVVw-EbnJkoMAmNnpp5y9d6l53ftbWUIZCPLICN_8Yk",
];

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_under(&path)) } else { files.push(path) }
    }
    files
}

/// Every private key in a file: the file itself, each PEM block, each JWK of a JSON document however deep.
fn private_keys_in(file: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = vec![file.to_vec()];
    let text = String::from_utf8_lossy(file);
    for (at, _) in text.match_indices("-----BEGIN ") {
        let block = &text[at..];
        let end =
            block.find("-----END ").map(|end| end + block[end..].find('\n').unwrap_or(block.len() - end));
        keys.extend(end.map(|end| block.as_bytes()[..end].to_vec()));
    }
    if let Ok(document) = serde_json::from_slice(file) {
        jwks_in(&document, &mut keys);
    }
    keys
}

fn jwks_in(value: &Value, keys: &mut Vec<Vec<u8>>) {
    match value {
        Value::Object(members) => {
            if members.contains_key("kty") && members.contains_key("d") {
                // What it says of its use would be a reason of its own.
                let mut key = members.clone();
                key.retain(|name, _| !["use", "key_ops", "alg"].contains(&name.as_str()));
                keys.push(Value::Object(key).to_string().into_bytes());
            }
            members.values().for_each(|member| jwks_in(member, keys));
        }
        Value::Array(items) => items.iter().for_each(|item| jwks_in(item, keys)),
        Value::String(text) if text.contains("PRIVATE KEY") => keys.push(text.clone().into_bytes()),
        _ => {}
    }
}
