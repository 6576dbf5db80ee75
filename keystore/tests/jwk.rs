//! Public JWKs: thumbprints, the bytes of JWKS writer 1, SPKI, strict reading.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod vectors;

use oneseal_keystore::jwk::{JwkError, PublicJwk};
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::{Algorithm, KeyId, KeyType, PublicKey};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use vectors::{list, read, text};

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

fn public(file: &str) -> PublicKey {
    PrivateKey::parse(&read(file)).unwrap().public().clone()
}

#[test]
fn thumbprints_are_those_of_the_rfcs() {
    let facts = vectors::json("rfc-facts/rfc-vectors.json");
    let thumbprints = list(&facts, "/thumbprints");
    assert_eq!(thumbprints.len(), 2, "RFC 7638 section 3.1 and RFC 8037 A.3");
    for fact in thumbprints {
        let key = PublicKey::from_jwk(object(&fact["jwk"])).unwrap();
        assert_eq!(key.thumbprint().as_str(), text(fact, "/sha256"));
    }
}

#[test]
fn writer_1_writes_these_bytes() {
    let kid = KeyId::parse(r#"old "key" \1"#).unwrap();
    let written = |file: &str, alg| {
        let mut out = String::from("x");
        public(file).write_jwk(&mut out, alg, &kid);
        out
    };
    assert_eq!(
        written("keys/made.p256.der", Algorithm::Es256),
        concat!(
            r#"x{"kty":"EC","use":"sig","alg":"ES256","kid":"old \"key\" \\1","crv":"P-256","#,
            r#""x":"wFSdyn3aWhP-Ep3gJPIyJrgDzT59Bli797UO2CoWbyk","#,
            r#""y":"Cn2YEnAQgTeLqXDI6x43GLIpqSZ7IwFf7eKdqNrscEg"}"#
        )
    );
    assert_eq!(
        written("keys/made.ed25519.v1.der", Algorithm::EdDsa),
        concat!(
            r#"x{"kty":"OKP","use":"sig","alg":"EdDSA","kid":"old \"key\" \\1","crv":"Ed25519","#,
            r#""x":"GsCxgDjp5aOI-smC6jfGrIe52zwxbcDcu5AwDQZ283c"}"#
        )
    );
    let rsa = written("keys/pkcs8.rsa2048.pem", Algorithm::Ps256);
    assert!(
        rsa.starts_with(r#"x{"kty":"RSA","use":"sig","alg":"PS256","kid":"old \"key\" \\1","n":""#),
        "{rsa}"
    );
    assert!(rsa.ends_with(r#"","e":"AQAB"}"#), "{rsa}");
}

#[test]
fn what_is_written_reads_back_and_holds_nothing_private() {
    for file in
        ["keys/pkcs8.rsa2048.pem", "keys/openssl.p256.pem", "keys/made.p384.pem", "keys/pkcs8.ed25519.pem"]
    {
        let key = public(file);
        let mut out = String::new();
        key.write_jwk(&mut out, key.key_type().default_algorithm(), &key.thumbprint());
        let written: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(PublicKey::from_jwk(object(&written)).as_ref(), Ok(&key));
        assert_eq!(PublicKey::from_jwk(&key.to_jwk_map()).as_ref(), Ok(&key));
        let names: Vec<_> = object(&written).keys().map(String::as_str).collect();
        let allowed = ["kty", "use", "alg", "kid", "n", "e", "crv", "x", "y"];
        assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
        assert_eq!(format!("{key:?}"), format!("PublicKey({}, {})", key.key_type(), key.thumbprint()));
    }
}

#[test]
fn spki_is_what_openssl_and_others_write() {
    for (private, public_der) in [
        ("keys/pkcs8.ed25519.pem", read("keys/pkcs8.ed25519.pub.der")),
        ("keys/made.ed25519.v1.der", read("keys/made.ed25519.pub.der")),
        ("keys/made.p256.der", read("keys/made.p256.pub.der")),
        ("keys/made.p384.pem", pem_body("keys/made.p384.pub.pem")),
        ("keys/openssl.p256.pem", pem_body("keys/openssl.p256.pub.pem")),
        ("keys/pkcs8.rsa2048.pem", pem_body("keys/pkcs8.rsa2048.pub.pem")),
    ] {
        assert_eq!(public(private).spki_der(), public_der, "{private}");
    }
}

fn pem_body(file: &str) -> Vec<u8> {
    use base64::Engine;
    let text = String::from_utf8(read(file)).unwrap();
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    base64::engine::general_purpose::STANDARD.decode(body).unwrap()
}

#[test]
fn reading_is_strict() {
    let ec = Value::Object(public("keys/made.p256.der").to_jwk_map());
    let rsa = Value::Object(public("keys/pkcs8.rsa2048.pem").to_jwk_map());
    let ed = Value::Object(public("keys/pkcs8.ed25519.pem").to_jwk_map());
    let x = text(&ec, "/x").to_owned();
    let n = text(&rsa, "/n").to_owned();
    // The same octets in other spellings would be other thumbprints.
    let loose_tail = format!("{}d", &x[..x.len() - 1]);
    let cases = [
        (&ec, "x", json!(loose_tail), JwkError::Encoding("x")),
        (&ec, "x", json!(format!("{x}=")), JwkError::Encoding("x")),
        (&ec, "x", json!(format!(" {}", &x[1..])), JwkError::Encoding("x")),
        (&ec, "x", json!(x.replace(['-', '_'], "+")), JwkError::Encoding("x")),
        (&ec, "x", json!(format!("AA{x}")), JwkError::Length("x")),
        (&ec, "x", json!("AAAA"), JwkError::Length("x")),
        (&ec, "y", json!(x), JwkError::NotOnCurve),
        (&ec, "y", json!(7), JwkError::WrongType("y")),
        (&ec, "crv", json!("P-521"), JwkError::UnknownCurve),
        (&ec, "crv", json!("secp256k1"), JwkError::UnknownCurve),
        (&ec, "kty", json!("AKP"), JwkError::UnknownKeyType),
        (&ec, "kty", json!("oct"), JwkError::Symmetric),
        (&ec, "d", json!("AAAA"), JwkError::PrivateMember("d")),
        (&ec, "d", Value::Null, JwkError::PrivateMember("d")),
        (&ed, "crv", json!("Ed448"), JwkError::UnknownCurve),
        (&ed, "x", json!("AAAA"), JwkError::Length("x")),
        (&rsa, "qi", json!("AAAA"), JwkError::PrivateMember("qi")),
        (&rsa, "n", json!(format!("AA{n}")), JwkError::Length("n")),
        (&rsa, "n", json!(format!("{n}==")), JwkError::Encoding("n")),
        (&rsa, "n", json!("_".repeat(172)), JwkError::RsaSize { bits: 1032 }),
        (&rsa, "n", json!("_".repeat(1368)), JwkError::RsaSize { bits: 8208 }),
        (&rsa, "n", json!("_".repeat(87_384)), JwkError::Length("n")),
        (&rsa, "n", json!(format!("{}A", &n[..n.len() - 1])), JwkError::RsaEvenModulus),
        (&rsa, "e", json!(""), JwkError::Length("e")),
        (&rsa, "e", json!("Aw"), JwkError::RsaExponent { least: 65537 }),
        (&rsa, "e", json!("AAEAAQ"), JwkError::Length("e")),
    ];
    for (base, name, value, refusal) in cases {
        let mut jwk = base.clone();
        jwk[name] = value.clone();
        assert_eq!(PublicKey::from_jwk(object(&jwk)), Err(refusal), "{name}: {value}");
    }
    for (base, name) in
        [(&ec, "kty"), (&ec, "crv"), (&ec, "x"), (&ec, "y"), (&rsa, "n"), (&rsa, "e"), (&ed, "x")]
    {
        let mut jwk = object(base).clone();
        let name: &'static str = name;
        jwk.remove(name);
        assert_eq!(PublicKey::from_jwk(&jwk), Err(JwkError::Missing(name)));
    }
}

#[test]
fn foreign_exponents_are_odd_from_3_below_2_to_the_32() {
    let base = Value::Object(public("keys/pkcs8.rsa2048.pem").to_jwk_map());
    for (e, taken) in [
        ("Aw", true),
        ("Iw", true),
        ("AQAB", true),
        ("_____w", true),
        ("AQ", false),
        ("Ag", false),
        ("AQAA", false),
        ("AQAAAAE", false),
    ] {
        let mut jwk = base.clone();
        jwk["e"] = json!(e);
        let read = PublicKey::from_foreign_jwk(object(&jwk));
        assert_eq!(read.is_ok(), taken, "{e}");
        assert!(taken || read == Err(JwkError::RsaExponent { least: 3 }), "{e}");
    }
}

#[test]
fn an_entry_says_what_it_is_for() {
    let with = |extra: Value| {
        let mut jwk = public("keys/made.p256.der").to_jwk_map();
        jwk.extend(object(&extra).clone());
        PublicJwk::from_json(&Value::Object(jwk))
    };
    let bare = with(json!({})).unwrap();
    assert_eq!((bare.algorithm, bare.kid.as_deref(), bare.may_verify()), (None, None, true));
    let full =
        with(json!({"alg": "ES256", "kid": "k", "use": "sig", "key_ops": ["verify"], "x5t": 7})).unwrap();
    assert_eq!(
        (full.algorithm, full.kid.as_deref(), full.may_verify()),
        (Some(Algorithm::Es256), Some("k"), true)
    );
    assert_eq!(full.key.key_type(), KeyType::P256);
    assert!(!with(json!({"use": "enc"})).unwrap().may_verify());
    assert!(!with(json!({"use": "jwt-svid"})).unwrap().may_verify());
    assert!(!with(json!({"key_ops": ["encrypt"]})).unwrap().may_verify());
    assert!(!with(json!({"use": "sig", "key_ops": []})).unwrap().may_verify());
    assert_eq!(with(json!({"alg": "RS256"})), Err(JwkError::AlgorithmUnfit));
    assert_eq!(with(json!({"alg": "ES521"})), Err(JwkError::UnknownAlgorithm));
    assert_eq!(with(json!({"kid": 5})), Err(JwkError::WrongType("kid")));
    assert_eq!(with(json!({"kid": ""})), Err(JwkError::KeyId));
    assert_eq!(with(json!({"key_ops": "verify"})), Err(JwkError::WrongType("key_ops")));
    assert_eq!(with(json!({"key_ops": [1]})), Err(JwkError::WrongType("key_ops")));
    for entry in [Value::Null, json!(7), json!("x"), json!([])] {
        assert_eq!(PublicJwk::from_json(&entry), Err(JwkError::NotAnObject));
    }
}

#[test]
fn unknown_kinds_are_told_from_faulty_ones() {
    let unknown = [
        json!({"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA"}),
        json!({"kty": "OKP", "crv": "Ed448", "x": "AAAA"}),
        json!({"kty": "EC", "crv": "P-521", "x": "AAAA", "y": "AAAA"}),
    ];
    for entry in unknown {
        assert!(PublicJwk::from_json(&entry).unwrap_err().is_unknown_kind(), "{entry}");
    }
    let faulty =
        PublicJwk::from_json(&json!({"kty": "EC", "crv": "P-256", "x": "!!", "y": "AA"})).unwrap_err();
    assert!(!faulty.is_unknown_kind());
}

#[test]
fn key_ids_are_printable_and_bounded() {
    for good in ["a", "2011-04-29", "a b", &"k".repeat(128)] {
        assert_eq!(KeyId::parse(good).unwrap().as_str(), good);
    }
    for bad in ["", "a\r\nset-cookie: x", "ü", "a\0", "\u{7f}", &"k".repeat(129)] {
        assert_eq!(KeyId::parse(bad), Err(JwkError::KeyId), "{bad:?}");
    }
}

/// Any JSON of some depth, with the names that a JWK has.
fn arbitrary_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        "[A-Za-z0-9_-]{0,64}",
        Just("RSA".to_owned()),
        Just("EC".to_owned()),
        Just("OKP".to_owned()),
        Just("P-256".to_owned()),
        Just("Ed25519".to_owned()),
        Just("AQAB".to_owned()),
        any::<String>(),
    ];
    let leaf = prop_oneof![word.prop_map(Value::from), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    let name = prop_oneof!["kty|crv|x|y|n|e|d|alg|use|kid|key_ops", "[a-z]{0,4}"];
    let object = proptest::collection::btree_map(name, leaf.clone(), 0..8)
        .prop_map(|map| Value::Object(map.into_iter().collect()));
    prop_oneof![leaf, object]
}

proptest! {
    #[test]
    fn arbitrary_json_never_panics(entry in arbitrary_json()) {
        if let Ok(read) = PublicJwk::from_json(&entry) {
            prop_assert_eq!(PublicKey::from_foreign_jwk(&read.key.to_jwk_map()), Ok(read.key));
        }
    }

    #[test]
    fn one_key_has_one_spelling(at in 0_usize..43, letter in "[A-Za-z0-9_-]") {
        let map = public("keys/made.p256.der").to_jwk_map();
        let mut changed = map.clone();
        let mut x = map["x"].as_str().unwrap().to_owned();
        x.replace_range(at..=at, &letter);
        changed.insert("x".to_owned(), x.clone().into());
        let same = map["x"].as_str() == Some(x.as_str());
        prop_assert_eq!(PublicKey::from_jwk(&changed) == PublicKey::from_jwk(&map), same);
    }
}
