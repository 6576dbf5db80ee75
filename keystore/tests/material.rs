//! Private keys in every form, and everything that is none.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod vectors;

use std::error::Error;
use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal_keystore::material::{KeyError, PrivateKey};
use oneseal_keystore::{Algorithm, KeyId, KeyType, Signer};
use proptest::prelude::*;
use serde_json::{Value, json};
use vectors::{list, read, text};

/// The thumbprint of what was read, also of a published key: that it is known to be one shows that it was read.
fn kid(value: &[u8]) -> Result<String, KeyError> {
    match PrivateKey::parse(value) {
        Ok(key) => Ok(key.public().thumbprint().to_string()),
        Err(KeyError::Leaked { kid, .. }) => Ok(kid.to_string()),
        Err(error) => Err(error),
    }
}

/// The whole chain of an error, as a log prints it, and its `Debug`.
fn everything_said(error: &KeyError) -> String {
    let mut said = format!("{error} {error:?} {}", error.code().cure);
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(said, " {error}").unwrap();
        cause = error.source();
    }
    said
}

/// No 16 base64-like characters in a row of what was read.
fn assert_says_nothing_of(said: &str, value: &[u8]) {
    let is_secret = |window: &[u8]| window.iter().all(|b| b.is_ascii_alphanumeric() || b"+/=_-".contains(b));
    let leaked =
        value.windows(16).filter(|w| is_secret(w)).any(|w| said.contains(str::from_utf8(w).unwrap()));
    assert!(!leaked, "part of the value stands in: {said}");
}

#[test]
fn mangled_keys_load_or_are_refused_as_their_table_says() {
    let table = vectors::json("mangled-keys/cases.json");
    let cases = list(&table, "/cases");
    assert_eq!(cases.len(), 48);
    for case in cases {
        let (file, expect) = (text(case, "/file"), text(case, "/expect"));
        let value = read(&format!("mangled-keys/{file}"));
        let result = kid(&value);
        match expect {
            "accept" => assert_eq!(result.as_deref(), Ok(text(case, "/thumbprint")), "{file}"),
            "refuse" => assert!(result.is_err(), "{file} was taken"),
            _ => {}
        }
        if let Err(error) = result {
            assert_says_nothing_of(&everything_said(&error), &value);
        }
    }
}

#[test]
fn what_may_go_either_way_goes_this_way() {
    let plain = |name: &str| kid(&read(&format!("mangled-keys/{name}"))).unwrap();
    let (ed, ec, rsa) = (plain("plain-ed.pem"), plain("plain-ec.pem"), plain("plain-rsa.pem"));
    for (file, taken) in [
        ("no-newline-at-all-rsa.txt", &rsa),
        ("json-string-rsa.json", &rsa),
        ("base64-of-der-ed.txt", &ed),
        ("der-ed.der", &ed),
        ("trailing-nul-ed.pem", &ed),
        ("trailing-junk-ed.pem", &ed),
        ("wrong-label-sec1-as-pkcs8-ec.pem", &ec),
        ("wrong-label-pkcs8-as-rsa.pem", &rsa),
    ] {
        assert_eq!(kid(&read(&format!("mangled-keys/{file}"))).as_ref(), Ok(taken), "{file}");
    }
    assert!(kid(&read("mangled-keys/key-then-old-public.pem")).is_ok());
    let named = kid(&read("mangled-keys/json-kv-rsa.json")).unwrap_err();
    assert!(matches!(&named, KeyError::JsonMembers { members } if !members.is_empty()), "{named:?}");
}

#[test]
fn each_refusal_names_its_cause() {
    for (file, code) in [
        ("mangled-keys/empty.pem", "key.empty"),
        ("mangled-keys/whitespace-only.pem", "key.empty"),
        ("mangled-keys/utf16le-bom-ed.pem", "key.unrecognised"),
        ("mangled-keys/literal-env-placeholder.txt", "key.unrecognised"),
        ("mangled-keys/double-escaped-n-rsa.txt", "key.malformed_pem"),
        ("mangled-keys/backslash-lost-rsa.txt", "key.malformed_pem"),
        ("mangled-keys/four-dashes-rsa.pem", "key.malformed_pem"),
        ("mangled-keys/en-dash-rsa.pem", "key.malformed_pem"),
        ("mangled-keys/missing-end-rsa.pem", "key.malformed_pem"),
        ("mangled-keys/label-mismatch-rsa.pem", "key.malformed_pem"),
        ("mangled-keys/truncated-body-rsa.pem", "key.malformed_der"),
        ("mangled-keys/base64-twice-rsa.txt", "key.encoded_twice"),
        ("mangled-keys/json-kv-two-keys.json", "key.json_members"),
        ("mangled-keys/two-private-keys.pem", "key.two_private_keys"),
        ("mangled-keys/public-only-ec.pem", "key.public_only"),
        ("keys/ca.crt", "key.certificate_only"),
        ("keys/certificate.der", "key.certificate_only"),
        ("keys/openssl.p384.pub.pem", "key.public_only"),
        ("keys/rsa-ok.key", "key.public_only"),
        ("keys/pkcs8.ed25519.pub.der", "key.public_only"),
        ("keys/rsa2048-pub.der", "key.public_only"),
        ("keys/openssl.rsa2048.enc.pem", "key.encryption_unsupported"),
        ("keys/pkcs8.ed25519.enc.pem", "key.encrypted"),
        ("keys/pkcs8.ed25519-enc.der", "key.encrypted"),
        ("keys/openssh.ed25519.pem", "key.unsupported_form"),
        ("keys/store.p12", "key.unsupported_form"),
        ("keys/openssl.rsa1024.pem", "key.rsa_too_small"),
        ("keys/rsa-e3.pem", "key.rsa_exponent"),
        ("keys/rsa2048-priv-3prime.der", "key.rsa_multi_prime"),
        ("keys/openssl.p521.pem", "key.unknown_curve"),
        ("keys/secp256k1.pem", "key.unknown_curve"),
        ("keys/ec-explicit.pkcs8.pem", "key.unknown_curve"),
        ("keys/ec-explicit.sec1.pem", "key.unknown_curve"),
        ("keys/pkcs8.x25519-priv.der", "key.unknown_type"),
        ("keys/pkcs8.bign256-priv.der", "key.unknown_type"),
        ("keys/ed448.pem", "key.unknown_type"),
        ("keys/rsa-pss.pem", "key.unknown_type"),
        ("jose-cookbook/3_3.rsa_public_key.json", "key.public_only"),
        ("jose-cookbook/3_5.symmetric_key_mac_computation.json", "key.symmetric"),
        ("jose-cookbook/3_2.ec_private_key.json", "key.unknown_curve"),
    ] {
        let value = read(file);
        let error = PrivateKey::parse(&value).expect_err(file);
        assert_eq!(error.code().name, code, "{file}: {error}");
        assert_says_nothing_of(&everything_said(&error), &value);
    }
}

#[test]
fn one_key_has_one_kid_in_every_form() {
    for files in [
        vec!["keys/pkcs8.ed25519.pem", "keys/pkcs8.ed25519.der"],
        vec!["keys/pkcs8.ed25519-priv-pkcs8v1.der"],
        vec!["keys/pkcs8.ed25519-priv-pkcs8v2.der"],
        vec!["keys/made.ed25519.v1.der", "keys/made.ed25519.v2.der"],
        vec!["keys/p256-priv.pem", "keys/p256-priv.der", "keys/pkcs8.p256-priv.der"],
        vec!["keys/made.p256.pem", "keys/made.p256.der", "keys/made.p256.pkcs8.der"],
        vec!["keys/openssl.p384.pem"],
        vec!["keys/made.p384.pem"],
        vec!["keys/rsa2048-priv.pem", "keys/rsa2048-priv.der", "keys/pkcs8.rsa2048-priv.der"],
        vec!["keys/made.rsa2048.pem", "keys/made.rsa2048.der", "keys/made.rsa2048.pkcs8.der"],
    ] {
        let wanted = kid(&read(files[0])).unwrap();
        for file in files {
            let value = read(file);
            let as_base64 = STANDARD.encode(&value);
            let mut forms = vec![value.clone(), as_base64.into_bytes()];
            if let Ok(key) = PrivateKey::parse(&value) {
                forms.push(key.expose_jwk().as_bytes().to_vec());
            }
            for form in forms {
                assert_eq!(kid(&form).as_ref(), Ok(&wanted), "{file}");
            }
        }
    }
}

#[test]
fn what_is_exposed_reads_back_the_same_and_in_a_fixed_order() {
    for (file, members) in [
        ("keys/pkcs8.rsa2048.pem", "kty n e d p q dp dq qi"),
        ("keys/openssl.p256.pem", "kty crv x y d"),
        ("keys/made.p384.pem", "kty crv x y d"),
        ("keys/pkcs8.ed25519.pem", "kty crv x d"),
    ] {
        let key = PrivateKey::parse(&read(file)).unwrap();
        let exposed = key.expose_jwk();
        let again = PrivateKey::parse(exposed.as_bytes()).unwrap();
        assert_eq!(*again.expose_jwk(), *exposed, "{file}");
        assert_eq!(again.public(), key.public());
        let names: Vec<_> =
            exposed.trim_matches(['{', '}']).split(',').map(|m| m.split('"').nth(1).unwrap()).collect();
        assert_eq!(names.join(" "), members, "{file}");
    }
}

#[test]
fn coordinates_and_scalars_keep_their_leading_zeros() {
    // A P-256 key whose scalar is 1: RFC 7518 section 6.2.2.1 wants all 32 octets.
    let sec1 =
        [&[0x30, 0x12, 2, 1, 1, 4, 1, 1][..], &[0xa0, 0x0a, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]]
            .concat();
    let key = PrivateKey::parse(&sec1).unwrap();
    let jwk: Value = serde_json::from_str(&key.expose_jwk()).unwrap();
    assert_eq!(text(&jwk, "/d"), format!("{}AE", "A".repeat(41)));
    assert_eq!(PrivateKey::parse(key.expose_jwk().as_bytes()).unwrap().public(), key.public());
}

#[test]
fn a_jwks_gives_its_one_private_key() {
    let ec: Value = jwk("keys/openssl.p256.pem");
    let rsa: Value = jwk("keys/pkcs8.rsa2048.pem");
    let mut public = rsa.clone();
    for name in ["d", "p", "q", "dp", "dq", "qi"] {
        public.as_object_mut().unwrap().remove(name);
    }
    let parse = |keys: Value| PrivateKey::parse(json!({ "keys": keys }).to_string().as_bytes());
    assert_eq!(parse(json!([public, ec])).unwrap().key_type(), KeyType::P256);
    assert_eq!(parse(json!([ec, rsa])).unwrap_err(), KeyError::TwoPrivateKeys { count: 2 });
    assert_eq!(parse(json!([public])).unwrap_err(), KeyError::PublicOnly);
    assert_eq!(parse(json!([])).unwrap_err(), KeyError::Empty);
    assert_eq!(parse(json!([{"kty": "oct", "k": "AAAA"}])).unwrap_err(), KeyError::Symmetric);
    assert!(matches!(parse(json!({})).unwrap_err(), KeyError::JsonMembers { .. }));
}

fn jwk(file: &str) -> Value {
    serde_json::from_str(&PrivateKey::parse(&read(file)).unwrap().expose_jwk()).unwrap()
}

#[test]
fn jwk_members_are_judged() {
    let with = |file: &str, name: &str, value: Value| {
        let mut jwk = jwk(file);
        jwk[name] = value;
        PrivateKey::parse(jwk.to_string().as_bytes()).map(|key| key.declared_algorithm())
    };
    let (rsa, ec, ed) = ("keys/pkcs8.rsa2048.pem", "keys/openssl.p256.pem", "keys/pkcs8.ed25519.pem");
    assert_eq!(with(rsa, "alg", json!("PS256")), Ok(Some(Algorithm::Ps256)));
    assert_eq!(with(ed, "alg", json!("Ed25519")), Ok(Some(Algorithm::EdDsa)));
    assert_eq!(with(ed, "kid", json!("x")), Ok(None));
    assert_eq!(with(rsa, "alg", json!("RSA-OAEP")), Err(KeyError::UnknownAlgorithm));
    assert!(matches!(with(rsa, "alg", json!("ES256")), Err(KeyError::AlgorithmUnfit { .. })));
    assert_eq!(with(ec, "use", json!("enc")), Err(KeyError::NotForSigning));
    assert_eq!(with(ec, "key_ops", json!(["decrypt"])), Err(KeyError::NotForSigning));
    assert_eq!(with(ec, "key_ops", json!(["verify", "sign"])), Ok(None));
    let other = jwk("keys/made.p256.der");
    assert_eq!(with(ec, "d", other["d"].clone()), Err(KeyError::Mismatch));
    assert_eq!(with(ec, "y", other["y"].clone()), Err(KeyError::NotOnCurve));
    assert_eq!(with(ec, "d", json!("A".repeat(43))), Err(KeyError::ScalarOutOfRange));
    assert_eq!(with(ec, "d", json!("_".repeat(42) + "8")), Err(KeyError::ScalarOutOfRange));
    for value in [json!("AA"), json!("!!"), json!(7), Value::Null] {
        assert!(matches!(with(ec, "d", value), Err(KeyError::MalformedJwk(_))));
    }
    let other = jwk("keys/made.ed25519.v1.der");
    assert_eq!(with(ed, "d", other["d"].clone()), Err(KeyError::Mismatch));
    let duplicate = jwk(ed).to_string().replacen('{', r#"{"d":"AAAA","#, 1);
    assert!(matches!(PrivateKey::parse(duplicate.as_bytes()), Err(KeyError::MalformedJson(_))));
}

#[test]
fn rsa_components_must_belong_together() {
    let file = "keys/pkcs8.rsa2048.pem";
    let good = jwk(file);
    let with = |name: &str, value: Value| {
        let mut jwk = good.clone();
        jwk[name] = value;
        PrivateKey::parse(jwk.to_string().as_bytes()).map(|key| key.key_type())
    };
    let other = jwk("keys/made.rsa2048.der");
    for name in ["n", "d", "p", "q", "dp", "dq", "qi"] {
        assert_eq!(with(name, other[name].clone()), Err(KeyError::RsaInconsistent), "{name}");
    }
    assert_eq!(with("q", good["p"].clone()), Err(KeyError::RsaEqualPrimes));
    assert_eq!(with("oth", json!([{}])), Err(KeyError::RsaMultiPrime));
    for e in
        ["AQ", "Aw", "AQAA", "AQAAAAE", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"]
    {
        assert_eq!(with("e", json!(e)), Err(KeyError::RsaExponent), "{e}");
    }
    assert_eq!(with("n", json!("_".repeat(1368))), Err(KeyError::RsaTooLarge { bits: 8208 }));
    let mut partial = good.clone();
    partial.as_object_mut().unwrap().remove("qi");
    assert!(matches!(PrivateKey::parse(partial.to_string().as_bytes()), Err(KeyError::MalformedJwk(_))));
}

#[test]
fn an_rsa_jwk_without_primes_gets_them_back() {
    for file in ["keys/pkcs8.rsa2048.pem", "keys/made.rsa2048.pem"] {
        let key = PrivateKey::parse(&read(file)).unwrap();
        let mut jwk: Value = serde_json::from_str(&key.expose_jwk()).unwrap();
        for name in ["p", "q", "dp", "dq", "qi"] {
            jwk.as_object_mut().unwrap().remove(name);
        }
        let again = PrivateKey::parse(jwk.to_string().as_bytes()).unwrap();
        assert_eq!(again.public(), key.public());
        jwk["d"] = json!("AQ");
        assert_eq!(PrivateKey::parse(jwk.to_string().as_bytes()).unwrap_err(), KeyError::RsaInconsistent);
    }
}

#[test]
fn a_public_half_written_beside_must_be_the_derived_one() {
    for file in ["keys/made.ed25519.v2.der", "keys/made.p256.der", "keys/made.p256.pkcs8.der"] {
        let mut der = read(file);
        *der.last_mut().unwrap() ^= 1;
        assert_eq!(PrivateKey::parse(&der).unwrap_err(), KeyError::Mismatch, "{file}");
    }
}

#[test]
fn only_a_large_rsa_key_is_warned_about() {
    let warnings = |file: &str| PrivateKey::parse(&read(file)).unwrap().warnings("current");
    let findings = warnings("keys/rsa4104.pem");
    assert!(!findings.has_errors());
    assert!(findings.to_string().starts_with("warning key.rsa_large at current\n  an RSA key of 4104 bits"));
    assert!(warnings("keys/pkcs8.rsa2048.pem").is_empty());
    assert!(warnings("keys/openssl.p256.pem").is_empty());
}

#[test]
fn debug_shows_kind_and_thumbprint_alone() {
    for file in ["keys/pkcs8.rsa2048.pem", "keys/made.p384.pem", "keys/pkcs8.ed25519.pem"] {
        let key = PrivateKey::parse(&read(file)).unwrap();
        let signer =
            Signer::new(&key, key.key_type().default_algorithm(), key.public().thumbprint()).unwrap();
        let thumbprint = key.public().thumbprint();
        assert_eq!(format!("{key:?}"), format!("PrivateKey({}, {thumbprint})", key.key_type()));
        assert_eq!(format!("{signer:?}"), format!("Signer({}, {thumbprint})", signer.algorithm()));
    }
}

#[test]
fn a_signer_wants_a_fitting_algorithm() {
    let key = PrivateKey::parse(&read("keys/pkcs8.ed25519.pem")).unwrap();
    let refused = Signer::new(&key, Algorithm::Es256, KeyId::parse("k").unwrap()).unwrap_err();
    assert_eq!(refused, KeyError::AlgorithmUnfit { key_type: KeyType::Ed25519, algorithm: Algorithm::Es256 });
}

/// Valid keys to start mutations from.
fn specimens() -> Vec<Vec<u8>> {
    let mut all: Vec<_> = [
        "keys/pkcs8.rsa2048.pem",
        "keys/made.rsa2048.der",
        "keys/made.p256.pem",
        "keys/made.p256.pkcs8.der",
        "keys/made.p384.pem",
        "keys/made.ed25519.v2.der",
        "mangled-keys/escaped-n-rsa.txt",
        "mangled-keys/base64-of-pem-rsa.txt",
    ]
    .map(read)
    .into();
    all.extend(
        ["keys/openssl.p256.pem", "keys/pkcs8.ed25519.pem"].map(|file| jwk(file).to_string().into_bytes()),
    );
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_refused_without_panic(value in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(PrivateKey::parse(&value).is_err());
    }

    #[test]
    fn der_like_bytes_never_panic(mut value in proptest::collection::vec(any::<u8>(), 2..256)) {
        value[0] = 0x30;
        if let Ok(len) = u8::try_from(value.len() - 2) && len < 128 {
            value[1] = len;
        }
        let _ = PrivateKey::parse(&value);
    }

    #[test]
    fn mutated_keys_never_panic_and_never_speak(
        which in 0_usize..10,
        at in any::<prop::sample::Index>(),
        octet in any::<u8>(),
        cut in any::<prop::sample::Index>(),
        truncate in any::<bool>(),
    ) {
        let mut value = specimens().swap_remove(which);
        let at = at.index(value.len());
        value[at] = octet;
        if truncate {
            value.truncate(cut.index(value.len()));
        }
        if let Err(error) = PrivateKey::parse(&value) {
            assert_says_nothing_of(&everything_said(&error), &value);
        }
    }
}
