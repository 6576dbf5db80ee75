//! A former issuer's key set, as it publishes it.

use serde_json::Value;

use crate::json;
use crate::jwk::PublicJwk;
use crate::{Algorithm, KeyId, PublicKey};

/// One public key of somebody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The name that it has in the world, which the tokens carry: for kube-apiserver the hash of its SPKI.
    pub kid: KeyId,
    /// What it verifies.
    pub algorithm: Algorithm,
    /// The key.
    pub public: PublicKey,
}

impl Foreign {
    /// Reads a JWK Set (RFC 7517 section 5): the keys that may verify signatures, and, for each entry that is left out,
    /// why. An entry that does not name its algorithm is for the usual one of its kind.
    ///
    /// # Errors
    /// It is no key set, in words.
    pub fn read_set(jwks: &[u8]) -> Result<(Vec<Self>, Vec<String>), String> {
        let set = json::parse_object(jwks).map_err(|error| format!("it is no JWK Set: {error}"))?;
        let Some(Value::Array(entries)) = set.get("keys") else {
            return Err("it is no JWK Set: the array `keys` is missing".to_owned());
        };
        let (mut keys, mut left_out) = (Vec::new(), Vec::new());
        for (i, entry) in entries.iter().enumerate() {
            match Self::read(entry) {
                Ok(key) => keys.push(key),
                Err(why) => left_out.push(format!("keys[{i}]: {why}")),
            }
        }
        Ok((keys, left_out))
    }

    fn read(entry: &Value) -> Result<Self, String> {
        let jwk = PublicJwk::from_json(entry).map_err(|error| error.to_string())?;
        if !jwk.may_verify() {
            return Err("it is not for signatures".to_owned());
        }
        let kid = jwk.kid.ok_or("it has no kid, by which a token could name it")?;
        let kid = KeyId::parse(&kid).map_err(|error| error.to_string())?;
        let algorithm = jwk.algorithm.unwrap_or_else(|| jwk.key.key_type().default_algorithm());
        Ok(Self { kid, algorithm, public: jwk.key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_its_signature_keys_and_says_what_it_leaves_out() {
        let set = br#"{"keys":[
            {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a/b+c"},
            {"kty":"oct","k":"AAAA","kid":"secret"},
            {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"e","use":"enc"},
            {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
        ]}"#;
        let (keys, left_out) = Foreign::read_set(set).expect("a set");
        assert_eq!(keys.len(), 1);
        assert_eq!((keys[0].kid.as_str(), keys[0].algorithm), ("a/b+c", Algorithm::EdDsa));
        assert_eq!(left_out.len(), 3, "{left_out:?}");
        assert!(left_out[0].starts_with("keys[1]: ") && !left_out[0].contains("AAAA"));
        for none in [&b""[..], b"{}", b"[]", br#"{"keys":{}}"#] {
            assert!(Foreign::read_set(none).is_err());
        }
    }
}
