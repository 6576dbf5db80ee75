//! A private half leaves for its recipient alone: opened here by josekit and OpenSSL, which had no part in wrapping the
//! content key.
#![cfg(feature = "seal")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use josekit::jwe::{ECDH_ES_A256KW, JweDecrypter, RSA_OAEP_256, deserialize_compact};
use josekit::jwk::Jwk;
use oneseal_keystore::export::{self, ExportError, PrivateExport};
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::seal::{Recipient, RecipientError};
use oneseal_keystore::{Algorithm, IssuerUrl, KeyId, KeystoreOptions, Mode};
use oneseal_providers::InlineProvider;
use serde_json::{Value, json};

const P256: &[u8] = include_bytes!("vectors/ring/p256.pem");
const RSA: &[u8] = include_bytes!("vectors/ring/rsa.pem");
const RECIPIENTS: [&str; 3] = [
    include_str!("vectors/recipient/rsa2048.jwk"),
    include_str!("vectors/recipient/p256.jwk"),
    include_str!("vectors/recipient/p384.jwk"),
];

fn public_half(jwk: &str) -> Value {
    let mut value: Value = serde_json::from_str(jwk).unwrap();
    value
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !["d", "p", "q", "dp", "dq", "qi"].contains(&name.as_str()));
    value
}

fn recipient(jwk: &str) -> Recipient {
    Recipient::parse(public_half(jwk).to_string().as_bytes()).unwrap()
}

fn options() -> KeystoreOptions {
    KeystoreOptions::new(IssuerUrl::parse("https://oidc.example", "test").unwrap())
}

fn kid(pem: &[u8]) -> KeyId {
    PrivateKey::parse(pem).unwrap().public().thumbprint()
}

async fn exported(pem: &[u8], recipient: Recipient) -> Result<PrivateExport, ExportError> {
    export::open(&InlineProvider::new(pem.to_vec()), &options(), kid(pem), recipient).await
}

fn opened(jwe: &str, jwk: &str) -> (String, Value) {
    let jwk = Jwk::from_bytes(jwk.as_bytes()).unwrap();
    let decrypter: Box<dyn JweDecrypter> = if jwk.key_type() == "RSA" {
        Box::new(RSA_OAEP_256.decrypter_from_jwk(&jwk).unwrap())
    } else {
        Box::new(ECDH_ES_A256KW.decrypter_from_jwk(&jwk).unwrap())
    };
    let (plaintext, header) = deserialize_compact(jwe, &*decrypter).unwrap();
    (String::from_utf8(plaintext).unwrap(), Value::Object(header.claims_set().clone()))
}

#[tokio::test]
async fn every_recipient_opens_every_key_and_nobody_else_does() {
    for pem in [P256, RSA] {
        let key = PrivateKey::parse(pem).unwrap();
        for jwk in RECIPIENTS {
            let export = exported(pem, recipient(jwk)).await.unwrap();
            let (one, two) = (export.seal().unwrap(), export.seal().unwrap());
            assert_ne!(one.split('.').nth(1), two.split('.').nth(1), "no content key is used twice");
            let (text, header) = opened(&one, jwk);
            let arrived = PrivateKey::parse(text.as_bytes()).unwrap();
            assert_eq!(*arrived.expose_jwk(), *key.expose_jwk());
            assert_eq!(arrived.declared_algorithm(), Some(export.algorithm()));
            let named: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&named["kid"], &named["use"]), (&json!(export.kid().as_str()), &json!("sig")));

            assert_eq!((&header["cty"], &header["enc"]), (&json!("jwk+json"), &json!("A256GCM")));
            assert_eq!(header["alg"], export.recipient().algorithm());
            assert_eq!(header["kid"], export.recipient().kid().as_str());
            let members: Vec<_> = header.as_object().unwrap().keys().map(String::as_str).collect();
            let ours: &[_] = if header["alg"] == "RSA-OAEP-256" {
                &["alg", "cty", "enc", "kid"]
            } else {
                &["alg", "cty", "enc", "epk", "kid"]
            };
            assert_eq!(members, ours);
            assert!(header["epk"].get("d").is_none());
            let private = named["d"].as_str().unwrap();
            assert!(!format!("{export:?}{one}").contains(private));
        }
    }
}

#[test]
fn a_recipient_without_a_name_is_named_by_its_thumbprint() {
    let [rsa, p256, _] = RECIPIENTS.map(recipient);
    assert_eq!(*rsa.kid(), rsa.thumbprint());
    assert_eq!(p256.kid().as_str(), "recipient-p256");
}

#[test]
fn what_is_no_fit_recipient_is_refused_and_not_repeated() {
    let with = |jwk: &str, member: &str, value: Value| {
        let mut jwk = public_half(jwk);
        jwk[member] = value;
        jwk.to_string()
    };
    let [rsa, p256, _] = RECIPIENTS;
    let short = "AQAB".repeat(20);
    for (text, words) in [
        (rsa.to_owned(), "private half as well (`d`)"),
        (p256.to_owned(), "private half as well (`d`)"),
        (with(p256, "d", json!("canary")), "private half as well (`d`)"),
        (String::from_utf8(P256.to_vec()).unwrap(), "no public JWK"),
        (json!({ "keys": [public_half(p256)] }).to_string(), "a key set"),
        (with(rsa, "n", json!(short)), "2048"),
        (with(rsa, "e", json!("Ag")), "exponent"),
        (with(p256, "x", json!("A".repeat(43))), "not on its curve"),
        (with(p256, "crv", json!("P-521")), "kind"),
        (with(p256, "crv", json!("secp256k1")), "kind"),
        (json!({ "kty": "OKP", "crv": "X25519", "x": "A".repeat(43) }).to_string(), "kind"),
        (json!({ "kty": "OKP", "crv": "Ed25519", "x": "A".repeat(43) }).to_string(), "kind"),
        (json!({ "kty": "oct", "k": "canary" }).to_string(), "symmetric"),
        (with(p256, "use", json!("sig")), "`use`"),
        (with(p256, "alg", json!("ES256")), "`alg`"),
        (with(rsa, "alg", json!("RSA-OAEP")), "`alg` does not allow RSA-OAEP-256"),
        (with(rsa, "key_ops", json!(["verify"])), "`key_ops` does not allow wrapKey"),
        (with(p256, "key_ops", json!("deriveKey")), "`key_ops`"),
        (with(p256, "kid", json!("")), "key id"),
        (with(p256, "kid", json!(7)), "`kid`"),
        (with(p256, "kid", json!("a\nb")), "key id"),
        (r#"{"kty":"EC","kty":"RSA"}"#.to_owned(), "no public JWK"),
        (String::new(), "no public JWK"),
        ("{".to_owned(), "no public JWK"),
        (" ".repeat(Recipient::MAX_LEN + 1), "longer"),
    ] {
        let error = Recipient::parse(text.as_bytes()).expect_err(&text).to_string();
        assert!(error.contains(words), "{words}: {error}");
        assert!(!error.contains("canary"), "{error}");
    }
    for (jwk, ops) in [(rsa, json!(["wrapKey"])), (p256, json!(["deriveBits"]))] {
        Recipient::parse(with(jwk, "key_ops", ops).as_bytes()).unwrap();
    }
    let odd = Recipient::parse(with(rsa, "use", json!(null)).as_bytes());
    assert!(matches!(odd, Err(RecipientError::Purpose { member: "use", .. })), "{odd:?}");
}

#[tokio::test]
async fn what_cannot_leave_says_why() {
    let to = || recipient(RECIPIENTS[1]);
    let provider = InlineProvider::new(P256.to_vec());
    let none = export::open(&provider, &options(), KeyId::parse("none").unwrap(), to()).await;
    assert!(matches!(none, Err(ExportError::NoKey)), "{none:?}");

    let mut public_only = options();
    public_only.mode = Mode::PublicOnly;
    let refused = export::open(&provider, &public_only, kid(P256), to()).await;
    assert!(matches!(refused, Err(ExportError::PublicOnly)), "{refused:?}");

    let own = PrivateKey::parse(P256).unwrap().public().to_jwk_map();
    let own = Recipient::parse(Value::Object(own).to_string().as_bytes()).unwrap();
    let refused = exported(P256, own).await;
    assert!(matches!(refused, Err(ExportError::OwnKey { .. })), "{refused:?}");

    let ring = include_bytes!("golden/ring-1.json");
    let unread = export::open(&InlineProvider::new(b"{".to_vec()), &options(), kid(P256), to()).await;
    assert!(matches!(unread, Err(ExportError::Unreadable(_))), "{unread:?}");
    let ring = InlineProvider::new(ring.to_vec());
    assert_eq!(export::open(&ring, &options(), kid(P256), to()).await.unwrap().thumbprint(), kid(P256));
    let other = KeystoreOptions::new(IssuerUrl::parse("https://other.example", "test").unwrap());
    let refused = export::open(&ring, &other, kid(P256), to()).await;
    assert!(matches!(refused, Err(ExportError::Unreadable(_))), "{refused:?}");
    assert_eq!(exported(P256, to()).await.unwrap().algorithm(), Algorithm::Es256);
}
