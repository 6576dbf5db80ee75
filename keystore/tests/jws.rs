//! One JWS: signed here and checked elsewhere, signed elsewhere and checked here, and everything that is none.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod vectors;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_keystore::jwk::PublicJwk;
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::verify::{MAX_TOKEN_LEN, UnverifiedJws, Verifier, VerifyError};
use oneseal_keystore::{Algorithm, KeyId, Signer};
use proptest::prelude::*;
use serde_json::{Value, json};
use vectors::{list, read, text};

/// A key for each algorithm.
const KEYS: [(&str, Algorithm); 7] = [
    ("keys/pkcs8.rsa2048.pem", Algorithm::Rs256),
    ("keys/pkcs8.rsa2048.pem", Algorithm::Rs384),
    ("keys/pkcs8.rsa2048.pem", Algorithm::Rs512),
    ("keys/pkcs8.rsa2048.pem", Algorithm::Ps256),
    ("keys/openssl.p256.pem", Algorithm::Es256),
    ("keys/made.p384.pem", Algorithm::Es384),
    ("keys/pkcs8.ed25519.pem", Algorithm::EdDsa),
];

fn pair(file: &str, algorithm: Algorithm) -> (Signer, Verifier) {
    let key = PrivateKey::parse(&read(file)).unwrap();
    let kid = key.public().thumbprint();
    let verifier = Verifier::new(key.public(), algorithm, kid.clone()).unwrap();
    (Signer::new(&key, algorithm, kid).unwrap(), verifier)
}

fn ed25519() -> (Signer, Verifier) {
    pair("keys/pkcs8.ed25519.pem", Algorithm::EdDsa)
}

fn verify(token: &str, key: &Verifier) -> Result<Vec<u8>, VerifyError> {
    UnverifiedJws::parse(token)?.verify(key)
}

fn encode(octets: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(octets)
}

/// Signs any header whatever with an Ed25519 key: what an attacker who is the issuer could send.
fn sign_under(header: &str, payload: &[u8]) -> String {
    let seed = URL_SAFE_NO_PAD.decode(text(&jwk("keys/pkcs8.ed25519.pem"), "/d")).unwrap();
    let pair = aws_lc_rs::signature::Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let input = format!("{}.{}", encode(header), encode(payload));
    let signature = encode(pair.sign(input.as_bytes()));
    format!("{input}.{signature}")
}

fn jwk(file: &str) -> Value {
    serde_json::from_str(&PrivateKey::parse(&read(file)).unwrap().expose_jwk()).unwrap()
}

#[test]
fn every_algorithm_signs_what_it_verifies() {
    for (file, algorithm) in KEYS {
        let (signer, verifier) = pair(file, algorithm);
        for payload in [&b""[..], b"\0", br#"{"sub":"pod"}"#, &[0xff; 1000]] {
            let token = signer.sign_blocking(payload).unwrap();
            assert_eq!(token.capacity(), token.len(), "{algorithm}: one allocation of the exact size");
            assert_eq!(verify(&token, &verifier).as_deref(), Ok(payload), "{algorithm}");
        }
        let token = signer.sign_blocking(b"x").unwrap();
        let header = format!(r#"{{"alg":"{algorithm}","kid":"{}","typ":"JWT"}}"#, signer.kid());
        assert_eq!(token.split('.').next(), Some(encode(header).as_str()));
    }
}

#[tokio::test]
async fn the_async_door_signs_the_same() {
    let (signer, _) = ed25519();
    assert_eq!(signer.sign(b"payload").await, signer.sign_blocking(b"payload"));
}

#[test]
fn jsonwebtoken_takes_ours_and_we_take_its() {
    let claims = json!({"sub": "pod", "exp": 4_102_444_800_u64});
    for (file, algorithm) in KEYS {
        let (signer, verifier) = pair(file, algorithm);
        let theirs: jsonwebtoken::Algorithm = algorithm.as_str().parse().unwrap();

        let key: jsonwebtoken::jwk::Jwk = serde_json::from_value(jwk(file)).unwrap();
        let decoding = jsonwebtoken::DecodingKey::from_jwk(&key).unwrap();
        let token = signer.sign_blocking(claims.to_string().as_bytes()).unwrap();
        let mut validation = jsonwebtoken::Validation::new(theirs);
        validation.validate_aud = false;
        let decoded = jsonwebtoken::decode::<Value>(&token, &decoding, &validation).unwrap();
        assert_eq!(decoded.claims, claims, "{algorithm}");
        assert_eq!(decoded.header.kid.as_deref(), Some(signer.kid().as_str()));

        let mut header = jsonwebtoken::Header::new(theirs);
        header.kid = Some(signer.kid().to_string());
        let token = jsonwebtoken::encode(&header, &claims, &their_key(file, algorithm)).unwrap();
        let payload = verify(&token, &verifier).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&payload).unwrap(), claims, "{algorithm}");
    }
}

/// It reads PKCS#8 alone for EC.
fn their_key(file: &str, algorithm: Algorithm) -> jsonwebtoken::EncodingKey {
    use jsonwebtoken::EncodingKey;
    match algorithm {
        Algorithm::Es256 => EncodingKey::from_ec_pem(&pkcs8_of(file)).unwrap(),
        Algorithm::Es384 => EncodingKey::from_ec_pem(&pkcs8_of(file)).unwrap(),
        Algorithm::EdDsa => EncodingKey::from_ed_pem(&read(file)).unwrap(),
        Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512 | Algorithm::Ps256 => {
            EncodingKey::from_rsa_pem(&read(file)).unwrap()
        }
    }
}

/// PKCS#8 around the scalar and point of an EC key, as PEM.
fn pkcs8_of(file: &str) -> Vec<u8> {
    use aws_lc_rs::signature as primitive;
    let jwk = jwk(file);
    let octets = |name| URL_SAFE_NO_PAD.decode(text(&jwk, name)).unwrap();
    let algorithm = match text(&jwk, "/crv") {
        "P-256" => &primitive::ECDSA_P256_SHA256_FIXED_SIGNING,
        _ => &primitive::ECDSA_P384_SHA384_FIXED_SIGNING,
    };
    let point = [vec![4], octets("/x"), octets("/y")].concat();
    let pair =
        primitive::EcdsaKeyPair::from_private_key_and_public_key(algorithm, &octets("/d"), &point).unwrap();
    let der = pair.to_pkcs8v1().unwrap();
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<_> = body.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n")).into_bytes()
}

#[test]
fn wycheproof_jws() {
    let vectors = vectors::json("wycheproof/json_web_signature.json");
    let (mut seen, mut taken) = (0, 0);
    for group in list(&vectors, "/groups") {
        let key = PublicJwk::from_json(&group["public"]).ok().filter(PublicJwk::may_verify);
        for test in list(group, "/tests") {
            seen += 1;
            let result =
                key.as_ref().ok_or(None).and_then(|key| with_entry(key, text(test, "/jws")).map_err(Some));
            let context = format!("{} {} {result:?}", test["tcId"], text(test, "/comment"));
            // Symmetric keys, P-521 and the algorithms that we have not: refused, however good the signature. Two
            // keys say PS256 and their tokens PS384 (RFC 7520 section 4.2 has no `alg` in the key).
            let ours = key.is_some() && ![346, 350].contains(&test["tcId"].as_u64().unwrap());
            let wanted = ours && text(test, "/result") == "valid";
            assert_eq!(result.is_ok(), wanted, "{context}");
            taken += usize::from(result.is_ok());
        }
    }
    assert_eq!((seen, taken), (401, 24));
}

/// Verifies as a holder of this entry would, its `alg` pinned, or the kind's default.
fn with_entry(entry: &PublicJwk, token: &str) -> Result<Vec<u8>, VerifyError> {
    let algorithm = entry.algorithm.unwrap_or_else(|| entry.key.key_type().default_algorithm());
    let kid = entry.kid.as_deref().map_or_else(|| entry.key.thumbprint(), |kid| KeyId::parse(kid).unwrap());
    verify(token, &Verifier::new(&entry.key, algorithm, kid)?)
}

#[test]
fn examples_of_the_rfcs() {
    let facts = vectors::json("rfc-facts/rfc-vectors.json");
    let mut taken = Vec::new();
    for fact in list(&facts, "/jws") {
        let good = PublicJwk::from_json(&fact["public_jwk"])
            .is_ok_and(|e| with_entry(&e, text(fact, "/compact")).is_ok());
        if good {
            taken.push(text(fact, "/name"));
        }
    }
    assert_eq!(taken, ["rfc7515-A.2-RS256", "rfc7515-A.3-ES256", "rfc8037-A.4-EdDSA"]);

    for (file, taken) in [
        ("4_1.rsa_v15_signature", true),
        ("4_2.rsa-pss_signature", false),
        ("4_3.ecdsa_signature", false),
        ("4_4.hmac-sha2_integrity_protection", false),
        ("curve25519", true),
        ("hmac-sha2_b64_false", false),
    ] {
        let example = vectors::json(&format!("jose-cookbook/{file}.json"));
        let mut jwk = example["input"]["key"].clone();
        for name in ["d", "p", "q", "dp", "dq", "qi"] {
            jwk.as_object_mut().unwrap().remove(name);
        }
        let compact = example.pointer("/output/compact").and_then(Value::as_str).unwrap_or("..");
        let result = PublicJwk::from_json(&jwk).map(|entry| with_entry(&entry, compact));
        assert_eq!(matches!(result, Ok(Ok(_))), taken, "{file}: {result:?}");
    }
}

#[test]
fn headers_that_are_refused() {
    let (signer, verifier) = ed25519();
    let kid = signer.kid();
    let cases = [
        (r#"{"alg":"EdDSA","crit":["exp"],"exp":1}"#, VerifyError::Critical),
        (r#"{"alg":"EdDSA","crit":[]}"#, VerifyError::Critical),
        (r#"{"alg":"EdDSA","crit":null}"#, VerifyError::Critical),
        (r#"{"alg":"EdDSA","b64":false}"#, VerifyError::Critical),
        (r#"{"alg":"EdDSA","b64":true}"#, VerifyError::Critical),
        (r#"{"alg":"none"}"#, VerifyError::AlgorithmNotAllowed),
        (r#"{"alg":"nOnE"}"#, VerifyError::AlgorithmNotAllowed),
        (r#"{"alg":"HS256"}"#, VerifyError::AlgorithmNotAllowed),
        (r#"{"alg":"eddsa"}"#, VerifyError::AlgorithmNotAllowed),
        (r#"{"alg":"EdDSA "}"#, VerifyError::AlgorithmNotAllowed),
        (r#"{"alg":["EdDSA"]}"#, VerifyError::HeaderMember("alg")),
        (r#"{"typ":"JWT"}"#, VerifyError::HeaderMember("alg")),
        (r#"{"alg":"EdDSA","kid":1}"#, VerifyError::HeaderMember("kid")),
        (r#"{"alg":"EdDSA","kid":null}"#, VerifyError::HeaderMember("kid")),
        (r#"{"alg":"EdDSA","typ":5}"#, VerifyError::HeaderMember("typ")),
        (r#"{"alg":"EdDSA","enc":"A256GCM"}"#, VerifyError::Encrypted),
        (r#"{"alg":"ES256"}"#, VerifyError::AlgorithmMismatch),
        (r#"{"alg":"EdDSA","kid":"another"}"#, VerifyError::KidMismatch),
    ];
    for (header, refusal) in cases {
        assert_eq!(verify(&sign_under(header, b"{}"), &verifier), Err(refusal), "{header}");
    }
    for header in
        [r#"{"alg":"EdDSA","alg":"EdDSA"}"#, r#"{"alg":"EdDSA","x":{"a":1,"a":2}}"#, "[]", "", "{\"alg\""]
    {
        assert!(
            matches!(verify(&sign_under(header, b"{}"), &verifier), Err(VerifyError::Header(_))),
            "{header}"
        );
    }
    // What names or brings a key is never looked at, so the right key verifies all the same.
    for header in [
        r#"{"alg":"EdDSA"}"#.to_owned(),
        r#"{"alg":"Ed25519","typ":"at+jwt"}"#.to_owned(),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","jwk":{{"kty":"OKP","crv":"Ed25519","x":"AAAA"}}}}"#),
        r#"{"alg":"EdDSA","jku":"http://127.0.0.1:1/","x5u":"http://127.0.0.1:1/","x5c":["AA"]}"#.to_owned(),
        r#"{"alg":"EdDSA","cty":"JWT","zip":"DEF"}"#.to_owned(),
    ] {
        assert_eq!(verify(&sign_under(&header, b"{}"), &verifier).as_deref(), Ok(&b"{}"[..]), "{header}");
    }
}

#[test]
fn the_header_is_read_and_bound_to_nothing() {
    let token = sign_under(r#"{"alg":"Ed25519","kid":"a","typ":"at+jwt"}"#, b"{}");
    let jws = UnverifiedJws::parse(&token).unwrap();
    assert_eq!((jws.algorithm(), jws.kid(), jws.typ()), (Algorithm::EdDsa, Some("a"), Some("at+jwt")));
    assert_eq!(format!("{jws:?}"), "UnverifiedJws(EdDSA)");
    let jws = UnverifiedJws::parse("eyJhbGciOiJFZERTQSJ9..").unwrap();
    assert_eq!((jws.kid(), jws.typ()), (None, None));
}

#[test]
fn one_token_has_one_spelling() {
    let (signer, verifier) = ed25519();
    let token = signer.sign_blocking(b"{}").unwrap();
    let (input, signature) = token.rsplit_once('.').unwrap();
    // 64 octets leave two loose bits in the last letter.
    let next = char::from(signature.as_bytes()[signature.len() - 1] + 1);
    let loose = format!("{input}.{}{next}", &signature[..signature.len() - 1]);
    let standard = format!("{input}.{}", signature.replace('-', "+").replace('_', "/"));
    for (token, refusal) in [
        (loose, VerifyError::Encoding),
        (standard, VerifyError::Encoding),
        (format!("{token}="), VerifyError::Encoding),
        (format!("{token}\n"), VerifyError::Encoding),
        (format!(" {token}"), VerifyError::Encoding),
        (format!("Bearer {token}"), VerifyError::Encoding),
        (format!("{token}A"), VerifyError::Signature),
        (format!("{token}AA"), VerifyError::Signature),
        (format!("{token}.x"), VerifyError::Shape),
        (format!("{token}.x.y"), VerifyError::Encrypted),
        (format!("{token}.x.y.z"), VerifyError::Shape),
        (input.to_owned(), VerifyError::Shape),
        (format!("{input}."), VerifyError::Signature),
        (String::new(), VerifyError::Shape),
        ("..".to_owned(), VerifyError::Header(oneseal_keystore::json::parse(b"").unwrap_err())),
        ("...".to_owned(), VerifyError::Shape),
        (".".repeat(MAX_TOKEN_LEN), VerifyError::Shape),
        (".".repeat(1_000_000), VerifyError::TooLong),
    ] {
        let shown: String = token.chars().take(300).collect();
        assert_eq!(verify(&token, &verifier), Err(refusal), "{shown}");
    }
    let long = signer.sign_blocking(&vec![b'a'; MAX_TOKEN_LEN]).unwrap();
    assert_eq!(verify(&long, &verifier), Err(VerifyError::TooLong));
}

#[test]
fn ecdsa_signatures_are_of_fixed_length_and_in_range() {
    let (signer, verifier) = pair("keys/openssl.p256.pem", Algorithm::Es256);
    let token = signer.sign_blocking(b"{}").unwrap();
    let (input, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let refused = |octets: &[u8]| {
        verify(&format!("{input}.{}", encode(octets)), &verifier) == Err(VerifyError::Signature)
    };
    assert!(refused(&[&[0; 32], &signature[32..]].concat()), "r = 0");
    assert!(refused(&[&signature[..32], &[0; 32]].concat()), "s = 0");
    assert!(refused(&[0xff; 64]));
    assert!(refused(&signature[..63]));
    assert!(refused(&[&signature[..], &[0]].concat()));
    let der = [&[0x30, 68, 2, 32][..], &signature[..32], &[2, 32], &signature[32..]].concat();
    assert!(refused(&der), "DER is not the form of JOSE");
}

#[test]
fn a_verifier_takes_one_algorithm_of_one_key() {
    let (signer, _) = pair("keys/pkcs8.rsa2048.pem", Algorithm::Ps256);
    let token = signer.sign_blocking(b"{}").unwrap();
    let (_, rs256) = pair("keys/pkcs8.rsa2048.pem", Algorithm::Rs256);
    assert_eq!(verify(&token, &rs256), Err(VerifyError::AlgorithmMismatch));
    let key = PrivateKey::parse(&read("keys/pkcs8.ed25519.pem")).unwrap();
    let kid = key.public().thumbprint();
    assert_eq!(
        Verifier::new(key.public(), Algorithm::Rs256, kid.clone()).unwrap_err(),
        VerifyError::KeyUnfit
    );
    // Another key under the same kid: the signature decides.
    let other = PrivateKey::parse(&read("keys/made.ed25519.v1.der")).unwrap();
    let token = Signer::new(&other, Algorithm::EdDsa, kid.clone()).unwrap().sign_blocking(b"{}").unwrap();
    let verifier = Verifier::new(key.public(), Algorithm::EdDsa, kid.clone()).unwrap();
    assert_eq!(verify(&token, &verifier), Err(VerifyError::Signature));
    assert_eq!(format!("{verifier:?}"), format!("Verifier(EdDSA, {kid})"));
}

#[test]
fn a_detached_signature_binds_type_key_and_payload() {
    for (file, algorithm) in KEYS {
        let (signer, verifier) = pair(file, algorithm);
        let jws = signer.sign_detached("ring+jws", b"document").unwrap();
        assert_eq!(jws.split('.').nth(1), Some(""));
        assert_eq!(verifier.verify_detached(&jws, "ring+jws", b"document"), Ok(()));
        assert_eq!(verifier.verify_detached(&jws, "ring+jws", b"Document"), Err(VerifyError::Signature));
        assert_eq!(
            verifier.verify_detached(&jws, "other+jws", b"document"),
            Err(VerifyError::DetachedHeader)
        );
    }
    let (signer, verifier) = ed25519();
    let kid = signer.kid();
    let detached = |header: String| {
        let token = sign_under(&header, b"document");
        let mut parts = token.split('.');
        let (header, _, signature) = (parts.next().unwrap(), parts.next(), parts.next().unwrap());
        verifier.verify_detached(&format!("{header}..{signature}"), "t", b"document")
    };
    assert_eq!(detached(format!(r#"{{"typ":"t","kid":"{kid}","alg":"EdDSA"}}"#)), Ok(()));
    for header in [
        r#"{"typ":"t","alg":"EdDSA"}"#.to_owned(),
        format!(r#"{{"kid":"{kid}","alg":"EdDSA"}}"#),
        format!(r#"{{"typ":"t","kid":"{kid}","alg":"EdDSA","x":1}}"#),
        r#"{"typ":"t","kid":"other","alg":"EdDSA"}"#.to_owned(),
    ] {
        assert_eq!(detached(header.clone()), Err(VerifyError::DetachedHeader), "{header}");
    }
    let attached = signer.sign_blocking(b"document").unwrap();
    assert_eq!(verifier.verify_detached(&attached, "JWT", b"document"), Err(VerifyError::Shape));
}

#[test]
fn reasons_are_short_and_errors_quote_nothing() {
    let (_, verifier) = ed25519();
    let token = sign_under(r#"{"alg":"canary-algorithm","kid":"canary-kid"}"#, b"canary");
    let error = verify(&token, &verifier).unwrap_err();
    assert_eq!(error.reason(), "algorithm_not_allowed");
    assert!(!format!("{error} {error:?}").contains("canary"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(token in "(.{0,80}|[A-Za-z0-9_-]{0,40}(\\.[A-Za-z0-9_-]{0,40}){0,5})") {
        let (_, verifier) = ed25519();
        prop_assert!(verify(&token, &verifier).is_err());
    }

    #[test]
    fn arbitrary_headers_never_panic(header in proptest::collection::vec(any::<u8>(), 0..200)) {
        let token = format!("{}..", encode(header));
        let _ = UnverifiedJws::parse(&token);
    }

    #[test]
    fn a_mutated_token_never_verifies(
        which in 0_usize..7,
        at in any::<prop::sample::Index>(),
        letter in "[A-Za-z0-9_.-]",
        payload in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let (file, algorithm) = KEYS[which];
        let (signer, verifier) = pair(file, algorithm);
        let token = signer.sign_blocking(&payload).unwrap();
        prop_assert_eq!(verify(&token, &verifier), Ok(payload));
        let at = at.index(token.len());
        let mut mutated = token.clone();
        mutated.replace_range(at..=at, &letter);
        prop_assert!(mutated == token || verify(&mutated, &verifier).is_err());
        let mut shorter = token;
        shorter.remove(at);
        prop_assert!(verify(&shorter, &verifier).is_err());
    }
}
