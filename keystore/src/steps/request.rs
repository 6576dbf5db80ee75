//! What a request asks for, as a fingerprint: by it an id that comes again is known to ask for the same.

use serde_json::{Value, json};

use super::{Adoption, Foreign, Request};
use crate::{Algorithm, Digest, PublicKey};

impl Request {
    /// Names the verb and all that it was given, in the ring's log: 32 hex digits, the first half of the SHA-256 of the
    /// RFC 8785 form. A list asks for the same in any order; why it is asked for, or by whom, is no part of it.
    pub fn fingerprint(&self) -> String {
        let asked = json!({ "verb": self.verb(), "of": self.content() });
        // Plain data of this function: it is written or there is no memory.
        let canonical = serde_json_canonicalizer::to_vec(&asked).unwrap_or_default();
        let mut digest = Digest::of(&canonical).to_string();
        digest.truncate(FINGERPRINT_LEN);
        digest
    }

    fn content(&self) -> Value {
        match self {
            Self::Rotate { algorithms, rsa_bits } => {
                json!({ "algs": sorted(algorithms.iter().map(|alg| alg.as_str().into())), "rsa_bits": rsa_bits })
            }
            Self::Activate { kid } | Self::Retire { kid } | Self::RollBack { kid } => json!({ "kid": kid }),
            Self::Revoke { kids, since } => {
                let kids = sorted(kids.iter().map(|kid| kid.as_str().into()));
                json!({ "kids": kids, "since": since.map(|since| since.as_secs()) })
            }
            Self::Adopt(Adoption::Key { kid, algorithm, key, is_published }) => {
                json!({ "key": of_key(kid.as_str(), *algorithm, key.public()), "published": is_published })
            }
            Self::Adopt(Adoption::Public { keys, until }) => {
                let of_foreign = |key: &Foreign| of_key(key.kid.as_str(), key.algorithm, &key.public);
                json!({ "keys": sorted(keys.iter().map(of_foreign)), "until": until.as_secs() })
            }
        }
    }
}

fn of_key(kid: &str, algorithm: Algorithm, key: &PublicKey) -> Value {
    json!([kid, algorithm.as_str(), key.thumbprint().to_string()])
}

fn sorted(items: impl Iterator<Item = Value>) -> Value {
    let mut items: Vec<Value> = items.collect();
    items.sort_by_cached_key(Value::to_string);
    Value::Array(items)
}

/// Enough that nobody meets another request by chance, in a log of 16 KiB.
const FINGERPRINT_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use oneseal_coordination::UnixTime;

    use super::*;

    fn revoke(kids: &[&str], since: Option<i64>) -> Request {
        let kids = kids.iter().map(|kid| (*kid).to_owned()).collect();
        Request::Revoke { kids, since: since.map(UnixTime) }
    }

    #[test]
    fn requests_that_ask_for_other_things_have_other_fingerprints() {
        let of_kid = |kid: Option<&str>| kid.map(str::to_owned);
        let rotate = |algorithms: &[Algorithm], rsa_bits| Request::Rotate {
            algorithms: algorithms.to_vec(),
            rsa_bits,
        };
        let all = [
            rotate(&[], None),
            rotate(&[Algorithm::Es256], None),
            rotate(&[], Some(3072)),
            Request::Activate { kid: None },
            Request::Activate { kid: of_kid(Some("a")) },
            Request::Retire { kid: of_kid(Some("a")) },
            Request::RollBack { kid: of_kid(Some("a")) },
            revoke(&[], None),
            revoke(&["a"], None),
            revoke(&["a", "b"], None),
            revoke(&[], Some(1)),
            Request::Adopt(Adoption::Public { keys: Vec::new(), until: UnixTime(1) }),
            Request::Adopt(Adoption::Public { keys: Vec::new(), until: UnixTime(2) }),
        ];
        let prints: std::collections::BTreeSet<_> = all.iter().map(Request::fingerprint).collect();
        assert_eq!(prints.len(), all.len());
        assert!(prints.iter().all(|print| print.len() == FINGERPRINT_LEN));
    }

    #[test]
    fn the_order_of_a_list_asks_for_nothing_else() {
        assert_eq!(revoke(&["a", "b"], None).fingerprint(), revoke(&["b", "a"], None).fingerprint());
    }

    #[test]
    fn a_fingerprint_stays_what_it_was() {
        // It stands in the logs of rings: another form would take an order that comes again for another one.
        assert_eq!(revoke(&["a"], None).fingerprint(), "fabf13a6a0a9f70a4b2466fad59010a3");
    }
}
