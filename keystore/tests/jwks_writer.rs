//! What our JWKS must never hold: the shapes that have broken relying parties, as `vectors/jwks-shapes.json` collects
//! them from public reports. A reader stricter than any of them finds each; what a ring publishes passes it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rings;
mod vectors;

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use oneseal_keystore::{Algorithm, PublicKey, Rotation, Snapshot, json, ring};
use oneseal_providers::Entries;
use proptest::prelude::*;
use serde_json::Value;
use vectors::{list, read, text};

/// Entra reads no more keys than 100, some gateways ten, and Nimbus no more than 50 KB.
const MAX_KEYS: usize = 10;
const MAX_BYTES: usize = 50_000;

/// What somebody's reader might stumble over. Empty is what ours must be.
fn flaws(jwks: &[u8]) -> Vec<String> {
    let Ok(document) = json::parse_object(jwks) else { return vec!["no strict JSON object".to_owned()] };
    let Some(entries) = document.get("keys").and_then(Value::as_array) else {
        return vec!["no array `keys`".to_owned()];
    };
    let mut flaws = Vec::new();
    let mut check = |holds: bool, flaw: &str| {
        if !holds {
            flaws.push(flaw.to_owned());
        }
    };
    check(document.len() == 1, "members beside `keys`");
    check(!entries.is_empty(), "no key");
    check(entries.len() <= MAX_KEYS && jwks.len() <= MAX_BYTES, "too large");
    let kids: BTreeSet<_> = entries.iter().filter_map(|entry| entry["kid"].as_str()).collect();
    check(kids.len() == entries.len(), "a `kid` twice or none");
    check(!jwks.iter().any(u8::is_ascii_whitespace), "white space");
    for (at, entry) in entries.iter().enumerate() {
        flaws.extend(entry_flaws(entry).into_iter().map(|flaw| format!("keys[{at}]: {flaw}")));
    }
    flaws
}

fn entry_flaws(entry: &Value) -> Vec<&'static str> {
    let Some(entry) = entry.as_object() else { return vec!["no object"] };
    let member = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    // Each key names its algorithm, and the members are those of its kind: GCP's uploaded sets take no other. Their
    // order is golden (`ring.rs`); a parsed object has none.
    let (members, fits): (&[&str], bool) = match (member("kty"), member("crv"), member("alg")) {
        ("RSA", "", "RS256" | "RS384" | "RS512" | "PS256") => {
            (&["kty", "use", "alg", "kid", "n", "e"], rsa_is_sound(member("n"), member("e")))
        }
        ("EC", "P-256", "ES256") => (
            &["kty", "use", "alg", "kid", "crv", "x", "y"],
            octets(member("x")) == 32 && octets(member("y")) == 32,
        ),
        ("EC", "P-384", "ES384") => (
            &["kty", "use", "alg", "kid", "crv", "x", "y"],
            octets(member("x")) == 48 && octets(member("y")) == 48,
        ),
        ("OKP", "Ed25519", "EdDSA") => (&["kty", "use", "alg", "kid", "crv", "x"], octets(member("x")) == 32),
        _ => return vec!["kind, curve and `alg` that do not go together, or that many cannot read"],
    };
    let kid = member("kid");
    let is_plain = (1..=128).contains(&kid.len()) && kid.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    [
        (
            entry.len() == members.len() && members.iter().all(|name| entry.contains_key(*name)),
            "other members",
        ),
        (member("use") == "sig", "`use` is not `sig`"),
        (is_plain, "an odd `kid`"),
        (fits, "a length that is not the kind's"),
        (PublicKey::from_jwk(entry).is_ok(), "a key that cannot be used"),
    ]
    .into_iter()
    .filter_map(|(holds, flaw)| (!holds).then_some(flaw))
    .collect()
}

/// No leading zero octet (RFC 7518 section 6.3.1.1), 2048 to 8192 bits, odd; the exponent everybody reads.
fn rsa_is_sound(modulus: &str, exponent: &str) -> bool {
    let modulus = URL_SAFE_NO_PAD.decode(modulus).unwrap_or_default();
    exponent == "AQAB"
        && (256..=1024).contains(&modulus.len())
        && modulus[0] != 0
        && modulus[modulus.len() - 1] % 2 == 1
}

/// How many octets canonical, unpadded base64url stands for; 0 for anything else.
fn octets(text: &str) -> usize {
    URL_SAFE_NO_PAD.decode(text).map_or(0, |octets| octets.len())
}

fn shapes() -> Vec<Value> {
    list(&vectors::json("jwks-shapes.json"), "/cases").to_vec()
}

#[test]
fn every_shape_that_broke_a_reader_is_seen() {
    let shapes = shapes();
    assert_eq!(shapes.len(), 34);
    for shape in shapes {
        let body = shape["raw"].as_str().map_or_else(|| shape["document"].to_string(), str::to_owned);
        let found = flaws(body.as_bytes());
        assert!(!found.is_empty(), "{}", text(&shape, "/id"));
        // Two of its keys are as ours, so only the one without `alg` is told.
        if shape["id"] == "control" {
            assert_eq!(
                found,
                ["keys[1]: kind, curve and `alg` that do not go together, or that many cannot read"]
            );
        }
    }
}

/// The keeper of a ring writes somebody's key into it, signed: refused, or published as it should be.
#[test]
fn no_such_shape_gets_from_a_ring_into_the_jwks() {
    let (mut tried, mut published) = (0, 0);
    for shape in shapes() {
        for entry in shape.pointer("/document/keys").and_then(Value::as_array).into_iter().flatten() {
            // An entry of a ring is read as an object in any case.
            let Some(public) = entry.as_object() else { continue };
            tried += 1;
            let ring = rings::with_public_only(Value::Object(public.clone()), "retiring");
            let Ok((ring, _)) = rings::read(&ring) else { continue };
            let Ok((snapshot, _)) = Snapshot::build(ring, &Algorithm::ALL, &Rotation::default()) else {
                continue;
            };
            assert_eq!(flaws(snapshot.jwks()), [] as [&str; 0], "{}", text(&shape, "/id"));
            published += 1;
        }
    }
    assert!(tried > 40 && published > 5, "{tried} tried, {published} published");
}

/// A private half for each algorithm.
const KEYS: [(&str, Algorithm); 7] = [
    ("keys/pkcs8.rsa2048.pem", Algorithm::Rs256),
    ("keys/made.rsa2048.pem", Algorithm::Rs384),
    ("keys/rsa4104.pem", Algorithm::Rs512),
    ("forms/rsa.pkcs8.pem", Algorithm::Ps256),
    ("keys/openssl.p256.pem", Algorithm::Es256),
    ("keys/made.p384.pem", Algorithm::Es384),
    ("keys/pkcs8.ed25519.pem", Algorithm::EdDsa),
];

/// What these keys publish in these roles, one for each, `None` for not at all; `None` if they are refused.
fn published(roles: &[Option<&str>]) -> Option<Bytes> {
    let mut entries = Entries::new();
    for ((file, algorithm), role) in KEYS.iter().zip(roles) {
        if let Some(role) = role {
            entries.insert(format!("{role}.{algorithm}.pem"), read(file));
        }
    }
    let (ring, _) = ring::read(&entries, &rings::issuer()).ok()?;
    let (snapshot, _) = Snapshot::build(ring, &Algorithm::ALL, &Rotation::default()).ok()?;
    Some(snapshot.jwks().clone())
}

#[test]
fn a_key_of_each_algorithm_is_published_without_a_flaw() {
    let jwks = published(&[Some("current"); KEYS.len()]).unwrap();
    assert_eq!(flaws(&jwks), [] as [&str; 0]);
    let document: Value = serde_json::from_slice(&jwks).unwrap();
    let algorithms: Vec<_> = list(&document, "/keys").iter().map(|key| text(key, "/alg")).collect();
    assert_eq!(algorithms, KEYS.map(|(_, algorithm)| algorithm.as_str()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_mix_of_bare_keys_publishes_a_flaw(
        roles in prop::collection::vec(
            prop::sample::select(vec![None, Some("current"), Some("next"), Some("previous")]),
            KEYS.len(),
        ),
    ) {
        let is_signed_with = roles.contains(&Some("current"));
        let jwks = published(&roles);
        prop_assert_eq!(jwks.is_some(), is_signed_with);
        if let Some(jwks) = jwks {
            prop_assert_eq!(flaws(&jwks), [] as [&str; 0]);
        }
    }
}
