//! The golden ring, and others made from it that are signed by its ring key.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::{Algorithm, Findings, IssuerUrl, PublicKey, Signer, ring};
use oneseal_providers::Entries;
use serde_json::{Value, json};

pub(crate) const GOLDEN: &str = include_str!("../golden/ring-1.json");

pub(crate) fn issuer() -> IssuerUrl {
    IssuerUrl::parse("https://oidc.example", "test").unwrap()
}

pub(crate) fn read(text: &str) -> Result<(ring::Ring, Findings), Findings> {
    ring::read(&Entries::single("keyring.json", text), &issuer())
}

/// The golden ring with its second key replaced by a public half that has no private one, signed again with its own
/// ring key: what only the keeper of the ring can write.
pub(crate) fn with_public_only(public: Value, state: &str) -> String {
    let mut ring: Value = serde_json::from_str(GOLDEN).unwrap();
    let kid = PublicKey::from_foreign_jwk(public.as_object().unwrap())
        .map_or_else(|_| "adopted".to_owned(), |key| key.thumbprint().to_string());
    let key = ring["keys"][1].as_object_mut().unwrap();
    key.remove("private");
    let alg = if public["kty"] == "RSA" { "RS256" } else { "ES256" };
    for (name, value) in [
        ("kid", json!(kid)),
        ("alg", json!(alg)),
        ("state", json!(state)),
        ("public", public),
        ("adopted_kid", json!(true)),
        ("retiring_at", json!(1_800_000_000)),
    ] {
        key.insert(name.to_owned(), value);
    }
    signed_again(ring)
}

/// Signed anew by the ring key that is in it.
pub(crate) fn signed_again(mut ring: Value) -> String {
    let mut public = ring.clone();
    let object = public.as_object_mut().unwrap();
    object.remove("sig");
    object["ring_key"].as_object_mut().unwrap().remove("private");
    for key in object["keys"].as_array_mut().unwrap() {
        key.as_object_mut().unwrap().remove("private");
    }
    let canonical = serde_json_canonicalizer::to_vec(&public).unwrap();
    let ring_key = PrivateKey::parse(ring["ring_key"]["private"].to_string().as_bytes()).unwrap();
    let signer = Signer::new(&ring_key, Algorithm::EdDsa, ring_key.public().thumbprint()).unwrap();
    ring["sig"] = json!(signer.sign_detached("oneseal-ring+jws", &canonical).unwrap());
    ring.to_string()
}
