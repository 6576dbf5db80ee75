//! How a ring key names its successor, so that whoever pinned the old one can follow to the new one.
//!
//! An endorsement is a compact JWS (`typ` `oneseal-ring-key+jws`) by the old ring key over the RFC 8785 form of
//! `{ "endorser": its own public JWK, "iss": the issuer, "ring_key": the new public JWK }`. The old key's public half
//! is part of it because a pin is a thumbprint alone. A document carries the last of them, oldest first, each naming
//! the signer of the next, the last one the ring key of the document.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::write::WriteError;
use crate::material::PrivateKey;
use crate::signer::Signer;
use crate::verify::Verifier;
use crate::{Algorithm, IssuerUrl, KeyId, KeyType, PublicKey, json as strict};

/// How many a document carries; the oldest go first.
pub(crate) const MAX: usize = 16;
/// `typ` of an endorsement.
const TYP: &str = "oneseal-ring-key+jws";

/// The endorsement of `successor` by `ring_key`.
///
/// # Errors
/// The ring key cannot sign.
pub(crate) fn write(
    ring_key: &PrivateKey,
    successor: &PublicKey,
    issuer: &IssuerUrl,
) -> Result<String, WriteError> {
    let payload = payload(ring_key.public(), successor, issuer)?;
    let signer = Signer::new(ring_key, Algorithm::EdDsa, ring_key.public().thumbprint())?;
    let detached = signer.sign_detached(TYP, &payload)?;
    Ok(detached.replacen("..", &format!(".{}.", URL_SAFE_NO_PAD.encode(&payload)), 1))
}

/// The ring keys before `ring_key` that vouch for it, oldest first: every link is verified, and the last one leads to
/// `ring_key`.
///
/// # Errors
/// Which link is broken, in words.
pub(super) fn chain(
    endorsements: &[String],
    ring_key: &KeyId,
    issuer: &IssuerUrl,
) -> Result<Vec<KeyId>, String> {
    let mut before: Vec<KeyId> = Vec::new();
    let mut named: Option<KeyId> = None;
    for (i, text) in endorsements.iter().enumerate() {
        let (by, successor) = verify(text, issuer).map_err(|why| format!("endorsements[{i}]: {why}"))?;
        if named.is_some_and(|named| named != by) {
            return Err(format!("endorsements[{i}] is not by the key that the one before it names"));
        }
        before.push(by);
        named = Some(successor);
    }
    match named {
        Some(named) if named != *ring_key => {
            Err(format!("the last endorsement names {named}, not the ring key"))
        }
        _ if before.contains(ring_key) => Err("the ring key is its own predecessor".to_owned()),
        _ => Ok(before),
    }
}

/// Who endorses whom, by thumbprint.
fn verify(text: &str, issuer: &IssuerUrl) -> Result<(KeyId, KeyId), &'static str> {
    let parts: Vec<_> = text.split('.').collect();
    let [header, payload, signature] = parts.as_slice() else { return Err("it is no compact JWS") };
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| "its payload is not base64url")?;
    let claims = strict::parse_object(&payload).map_err(|_| "its payload is no JSON object")?;
    let (by, successor) = (ed25519(&claims, "endorser")?, ed25519(&claims, "ring_key")?);
    if claims.get("iss").and_then(Value::as_str) != Some(issuer.as_str()) {
        return Err("it is of another issuer");
    }
    let kid = by.thumbprint();
    let verifier = Verifier::new(&by, Algorithm::EdDsa, kid.clone()).map_err(|_| "its key cannot verify")?;
    let detached = format!("{header}..{signature}");
    verifier.verify_detached(&detached, TYP, &payload).map_err(|_| "its signature does not hold")?;
    Ok((kid, successor.thumbprint()))
}

fn ed25519(claims: &Map<String, Value>, member: &str) -> Result<PublicKey, &'static str> {
    let key = claims.get(member).and_then(Value::as_object).map(PublicKey::from_jwk);
    let key = key.and_then(Result::ok).filter(|key| key.key_type() == KeyType::Ed25519);
    key.ok_or("it names no Ed25519 key where it must")
}

fn payload(by: &PublicKey, successor: &PublicKey, issuer: &IssuerUrl) -> Result<Vec<u8>, WriteError> {
    let claims = json!({
        "endorser": by.to_jwk_map(),
        "iss": issuer.as_str(),
        "ring_key": successor.to_jwk_map(),
    });
    Ok(serde_json_canonicalizer::to_vec(&claims)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> PrivateKey {
        let seed = crate::Digest::of(&[number]);
        let pkcs8 = [&hex_prefix()[..], seed.as_bytes()].concat();
        PrivateKey::parse(&pkcs8).expect("a good key")
    }

    /// PKCS#8 of an Ed25519 seed without its public half (RFC 8410 section 7).
    fn hex_prefix() -> [u8; 16] {
        [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20]
    }

    fn issuer() -> IssuerUrl {
        IssuerUrl::parse("https://oidc.example", "test").expect("good")
    }

    fn kid(number: u8) -> KeyId {
        key(number).public().thumbprint()
    }

    fn link(by: u8, successor: u8) -> String {
        write(&key(by), key(successor).public(), &issuer()).expect("signed")
    }

    #[test]
    fn an_unbroken_chain_names_every_key_before() {
        assert_eq!(chain(&[], &kid(1), &issuer()), Ok(vec![]));
        let links = [link(1, 2), link(2, 3), link(3, 4)];
        assert_eq!(chain(&links, &kid(4), &issuer()), Ok(vec![kid(1), kid(2), kid(3)]));
        assert_eq!(chain(&links[1..], &kid(4), &issuer()), Ok(vec![kid(2), kid(3)]), "the oldest fell off");
    }

    #[test]
    fn a_broken_or_foreign_or_forged_link_is_refused() {
        for (links, why) in [
            (vec![link(1, 2), link(3, 4)], "a gap"),
            (vec![link(1, 2), link(2, 3)], "it leads elsewhere"),
            (vec![link(2, 4), link(1, 2)], "out of order"),
            (vec![link(4, 1), link(1, 4)], "a circle"),
            (vec!["a.b.c".to_owned()], "no JWS"),
            (vec![String::new()], "nothing"),
        ] {
            assert!(chain(&links, &kid(4), &issuer()).is_err(), "{why}");
        }
        let other = IssuerUrl::parse("https://other.example", "test").expect("good");
        assert!(chain(&[link(1, 4)], &kid(4), &other).is_err(), "another issuer's");
        let (good, forged) = (link(1, 4), write(&key(9), key(4).public(), &issuer()).expect("signed"));
        let signature = |text: &str| text.rsplit('.').next().map(str::to_owned).expect("a signature");
        let pasted = good.replace(&signature(&good), &signature(&forged));
        assert!(chain(&[pasted], &kid(4), &issuer()).is_err(), "another's signature");
    }

    /// What the ring key signs for one end is not taken for the other.
    #[test]
    fn a_documents_signature_is_no_endorsement() {
        let payload = payload(key(1).public(), key(4).public(), &issuer()).expect("JSON");
        let signer = Signer::new(&key(1), Algorithm::EdDsa, kid(1)).expect("signs");
        let detached = signer.sign_detached(super::super::document::SIG_TYP, &payload).expect("signed");
        let text = detached.replacen("..", &format!(".{}.", URL_SAFE_NO_PAD.encode(&payload)), 1);
        assert!(chain(&[text], &kid(4), &issuer()).is_err());
    }
}
