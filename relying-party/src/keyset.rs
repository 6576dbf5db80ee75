//! Reads a JWKS (RFC 7517 section 5) into keys that can verify, each pinned to what it may sign with.
//!
//! Lenient by entry and strict within one: an entry we do not know or cannot take drops alone and is counted, so
//! that an issuer which adds a post-quantum key does not lock its old relying parties out. The document as a whole
//! is strict JSON, and a document without a single usable key is an error, never an empty set.

use std::collections::BTreeSet;
use std::sync::Arc;

use oneseal_coordination::BootTime;
use oneseal_keystore::jwk::{JwkError, PublicJwk, PublicKey};
use oneseal_keystore::verify::{UnverifiedJws, Verifier};
use oneseal_keystore::{Algorithm, KeyId, json};
use serde_json::Value;

use crate::error::{Document, Invalid, SourceError};
use crate::hold::HeldOver;

/// The usable keys of one issuer, at least one.
#[derive(Debug)]
pub(crate) struct KeySet {
    keys: Vec<Arc<Held>>,
    /// `kid`s of entries that no key is held for.
    left_out: BTreeSet<String>,
    held_over: Vec<HeldOver>,
    dropped: Dropped,
}

impl KeySet {
    /// Reads `body` and keeps what may sign with one of `allowed`.
    ///
    /// # Errors
    /// [`SourceError::Json`], [`SourceError::NoKeysMember`], [`SourceError::TooManyKeys`],
    /// [`SourceError::NoUsableKey`].
    pub(crate) fn read(body: &[u8], allowed: &[Algorithm]) -> Result<Self, SourceError> {
        let document = json::parse_object(body)
            .map_err(|source| SourceError::Json { document: Document::Jwks, source })?;
        let entries = document.get("keys").and_then(Value::as_array).ok_or(SourceError::NoKeysMember)?;
        if entries.len() > MAX_KEYS {
            return Err(SourceError::TooManyKeys { found: entries.len(), limit: MAX_KEYS });
        }
        let mut reader =
            Reader { allowed, keys: Vec::new(), disputed: Vec::new(), dropped: Dropped::default() };
        for entry in entries {
            reader.take(entry);
        }
        if reader.keys.is_empty() {
            let private = reader.dropped.private;
            return Err(SourceError::NoUsableKey { entries: entries.len(), private });
        }
        let mut set = Self {
            keys: reader.keys.into_iter().map(Arc::new).collect(),
            left_out: BTreeSet::new(),
            held_over: Vec::new(),
            dropped: reader.dropped,
        };
        let kids = entries.iter().filter_map(|entry| entry.get("kid")?.as_str());
        set.left_out = kids.filter(|kid| !set.mentions(kid)).map(str::to_owned).collect();
        Ok(set)
    }

    /// Whether a key is held under `kid`.
    pub(crate) fn has(&self, kid: &str, now: BootTime) -> bool {
        self.named(kid, now).is_some()
    }

    /// Whether the document has an entry of this `kid`, usable or not.
    pub(crate) fn mentions(&self, kid: &str) -> bool {
        self.named_keys().any(|key| key.kid().as_str() == kid) || self.left_out.contains(kid)
    }

    /// The one verifier for a token, by its `kid` and algorithm. A match is final: no other key is tried when its
    /// signature then fails.
    ///
    /// # Errors
    /// [`Invalid::UnknownKid`], which fresh keys may cure, as they may [`Invalid::AmbiguousKey`];
    /// [`Invalid::Algorithm`].
    pub(crate) fn choose(&self, jws: &UnverifiedJws<'_>, now: BootTime) -> Result<&Verifier, Invalid> {
        self.choose_held(jws, now).map(|(_, verifier)| verifier)
    }

    /// The same, with the key that it belongs to.
    pub(crate) fn choose_held(
        &self,
        jws: &UnverifiedJws<'_>,
        now: BootTime,
    ) -> Result<(&Held, &Verifier), Invalid> {
        if let Some(kid) = jws.kid() {
            let key = self.named(kid, now).ok_or(Invalid::UnknownKid)?;
            return key.fitting(jws.algorithm()).ok_or(Invalid::Algorithm);
        }
        let mut fitting = self.keys.iter().filter_map(|key| key.fitting(jws.algorithm()));
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(Invalid::AmbiguousKey),
        }
    }

    /// The published `kid`s, in the document's order.
    pub(crate) fn kids(&self) -> impl Iterator<Item = &KeyId> {
        self.named_keys().map(|key| key.kid())
    }

    /// The published keys' names by RFC 7638, whatever the document calls them.
    pub(crate) fn thumbprints(&self) -> impl Iterator<Item = KeyId> {
        self.keys.iter().map(|key| key.thumbprint())
    }

    /// The published keys that have a `kid`.
    pub(crate) fn named_keys(&self) -> impl Iterator<Item = &Arc<Held>> {
        self.keys.iter().filter(|key| key.named)
    }

    /// Keys that the document does not have, and that are held nonetheless.
    pub(crate) fn held_over(&self) -> &[HeldOver] {
        &self.held_over
    }

    pub(crate) fn hold_over(&mut self, held: Vec<HeldOver>) {
        self.held_over = held;
    }

    /// What was left out.
    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    fn named(&self, kid: &str, now: BootTime) -> Option<&Held> {
        let held_over = self.held_over.iter().filter(|held| !held.is_over(now)).map(|held| &held.key);
        let mut named = self.named_keys().chain(held_over);
        named.find(|key| key.kid().as_str() == kid).map(|key| &**key)
    }
}

/// How many entries of a key set were left out, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// A `kty`, `crv` or `alg` that is not known here, or an algorithm that is not on the list.
    pub unknown: usize,
    /// No object, or faulty members: encodings, lengths, sizes, a point off its curve, an odd `kid`.
    pub malformed: usize,
    /// Symmetric keys and private halves, which have no place in a public document. The issuer should be told, and
    /// the key is to be held compromised.
    pub private: usize,
    /// `use` or `key_ops` say that it is not for verifying.
    pub not_for_verifying: usize,
    /// A `kid` that two different keys bear.
    pub duplicate_kid: usize,
}

impl Dropped {
    /// All of them.
    pub fn total(&self) -> usize {
        self.unknown + self.malformed + self.private + self.not_for_verifying + self.duplicate_kid
    }
}

/// One key with a verifier for each algorithm it may sign with; at least one.
#[derive(Debug)]
pub(crate) struct Held {
    key: PublicKey,
    /// Whether the issuer gave it its `kid`; else it is its thumbprint, for reports alone.
    named: bool,
    first: Verifier,
    more: Vec<Verifier>,
}

impl Held {
    pub(crate) fn kid(&self) -> &KeyId {
        self.first.kid()
    }

    pub(crate) fn thumbprint(&self) -> KeyId {
        self.key.thumbprint()
    }

    fn fitting(&self, algorithm: Algorithm) -> Option<(&Self, &Verifier)> {
        self.verifier(algorithm).map(|verifier| (self, verifier))
    }

    fn verifier(&self, algorithm: Algorithm) -> Option<&Verifier> {
        std::iter::once(&self.first).chain(&self.more).find(|verifier| verifier.algorithm() == algorithm)
    }

    fn merge(&mut self, other: Self) {
        for verifier in std::iter::once(other.first).chain(other.more) {
            if self.verifier(verifier.algorithm()).is_none() {
                self.more.push(verifier);
            }
        }
    }
}

struct Reader<'a> {
    allowed: &'a [Algorithm],
    keys: Vec<Held>,
    /// `kid`s that two different keys bear: neither is held.
    disputed: Vec<KeyId>,
    dropped: Dropped,
}

impl Reader<'_> {
    fn take(&mut self, entry: &Value) {
        match PublicJwk::from_json(entry) {
            Ok(jwk) if !jwk.may_verify() => self.dropped.not_for_verifying += 1,
            Ok(jwk) => self.judge(&jwk),
            Err(JwkError::PrivateMember(_) | JwkError::Symmetric) => self.dropped.private += 1,
            Err(error) if error.is_unknown_kind() => self.dropped.unknown += 1,
            Err(_) => self.dropped.malformed += 1,
        }
    }

    fn judge(&mut self, jwk: &PublicJwk) {
        let named = jwk.kid.is_some();
        let Ok(kid) = jwk.kid.as_deref().map_or_else(|| Ok(jwk.key.thumbprint()), KeyId::parse) else {
            self.dropped.malformed += 1;
            return;
        };
        let mut verifiers = self.verifiers(jwk, &kid).into_iter();
        match verifiers.next() {
            None => self.dropped.unknown += 1,
            Some(first) => self.add(Held { key: jwk.key.clone(), named, first, more: verifiers.collect() }),
        }
    }

    /// One for each algorithm that the entry, the kind of key and the list here all allow.
    fn verifiers(&self, jwk: &PublicJwk, kid: &KeyId) -> Vec<Verifier> {
        let by_entry = |algorithm: &&Algorithm| jwk.algorithm.is_none_or(|only| only == **algorithm);
        self.allowed
            .iter()
            .filter(by_entry)
            .filter_map(|algorithm| Verifier::new(&jwk.key, *algorithm, kid.clone()).ok())
            .collect()
    }

    /// One `kid`, one key: the same key again adds algorithms, another key makes the `kid` worthless.
    fn add(&mut self, held: Held) {
        if self.disputed.contains(held.kid()) {
            self.dropped.duplicate_kid += 1;
            return;
        }
        let rival = self.keys.iter().position(|known| known.named == held.named && known.kid() == held.kid());
        match rival {
            None => self.keys.push(held),
            Some(at) if self.keys[at].key == held.key => self.keys[at].merge(held),
            Some(at) => {
                self.keys.remove(at);
                self.disputed.push(held.kid().clone());
                self.dropped.duplicate_kid += 2;
            }
        }
    }
}

/// How many entries are read. AWS takes 100 RSA and 100 EC keys, Entra the first 100; each costs memory and, without
/// a cap, a hostile set of tiny entries would cost seconds.
pub(crate) const MAX_KEYS: usize = 256;

#[cfg(test)]
mod outside;

#[cfg(test)]
mod tests {
    use super::*;

    const EC1: &str = r#""kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#;
    const ED1: &str = r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;

    fn read(entries: &[String]) -> Result<KeySet, SourceError> {
        KeySet::read(format!(r#"{{"keys":[{}]}}"#, entries.join(",")).as_bytes(), &Algorithm::ALL)
    }

    fn entry(key: &str, rest: &str) -> String {
        format!("{{{key}{rest}}}")
    }

    fn kids(set: &KeySet) -> Vec<&str> {
        set.kids().map(KeyId::as_str).collect()
    }

    /// `{"alg":…}` with or without a kid, over an empty object.
    fn token(header: &str) -> String {
        use base64::Engine;
        let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.AAAA", encode(header), encode("{}"))
    }

    fn chosen(set: &KeySet, header: &str) -> Result<(String, Algorithm), &'static str> {
        let token = token(header);
        let jws = UnverifiedJws::parse(&token).expect("good shape");
        let verifier =
            set.choose(&jws, BootTime(std::time::Duration::ZERO)).map_err(|invalid| invalid.reason())?;
        Ok((verifier.kid().to_string(), verifier.algorithm()))
    }

    #[test]
    fn two_keys_under_one_kid_are_both_dropped_however_often_it_comes() {
        let a = entry(EC1, r#","kid":"a""#);
        let set = read(&[a.clone(), entry(ED1, r#","kid":"a""#), a, entry(ED1, r#","kid":"b""#)]);
        let set = set.expect("b is left");
        assert_eq!(kids(&set), ["b"]);
        assert_eq!(set.dropped(), Dropped { duplicate_kid: 3, ..Dropped::default() });
    }

    #[test]
    fn the_same_key_twice_is_one_key() {
        let a = entry(EC1, r#","kid":"a""#);
        let set = read(&[a.clone(), a]).expect("usable");
        assert_eq!((kids(&set), set.dropped().total()), (vec!["a"], 0));
    }

    #[test]
    fn a_token_without_kid_wants_exactly_one_key_that_fits() {
        let two_kinds = read(&[entry(EC1, r#","kid":"a""#), entry(ED1, "")]).expect("usable");
        assert_eq!(chosen(&two_kinds, r#"{"alg":"ES256"}"#), Ok(("a".to_owned(), Algorithm::Es256)));
        let (thumbprint, _) = chosen(&two_kinds, r#"{"alg":"EdDSA"}"#).expect("the nameless one");
        assert_eq!(
            chosen(&two_kinds, &format!(r#"{{"alg":"EdDSA","kid":"{thumbprint}"}}"#)),
            Err("unknown_kid")
        );
        let two_alike = read(&[entry(EC1, r#","kid":"a""#), entry(EC1, r#","kid":"b""#)]).expect("usable");
        assert_eq!(chosen(&two_alike, r#"{"alg":"ES256"}"#), Err("ambiguous_key"));
        assert_eq!(chosen(&two_alike, r#"{"alg":"RS256"}"#), Err("ambiguous_key"));
    }

    #[test]
    fn a_kid_is_final_and_compared_byte_for_byte() {
        let set = read(&[entry(EC1, r#","kid":"a""#), entry(ED1, r#","kid":"b""#)]).expect("usable");
        assert_eq!(chosen(&set, r#"{"alg":"EdDSA","kid":"a"}"#), Err("algorithm"));
        assert_eq!(chosen(&set, r#"{"alg":"ES256","kid":"A"}"#), Err("unknown_kid"));
        assert_eq!(chosen(&set, r#"{"alg":"Ed25519","kid":"b"}"#), Ok(("b".to_owned(), Algorithm::EdDsa)));
    }

    #[test]
    fn keys_for_other_uses_and_algorithms_off_the_list_are_left_out() {
        let spiffe = entry(EC1, r#","kid":"a","use":"jwt-svid""#);
        let enc = entry(EC1, r#","kid":"b","use":"enc""#);
        let ops = entry(EC1, r#","kid":"c","key_ops":["sign"]"#);
        let set = read(&[spiffe, enc, ops, entry(ED1, r#","kid":"d","use":"sig","key_ops":["verify"]"#)]);
        let set = set.expect("d is left");
        assert_eq!((kids(&set), set.dropped().not_for_verifying), (vec!["d"], 3));
        let body = format!(r#"{{"keys":[{}]}}"#, entry(EC1, r#","kid":"a""#));
        let refused = KeySet::read(body.as_bytes(), &[Algorithm::Rs256]);
        assert!(matches!(refused, Err(SourceError::NoUsableKey { entries: 1, private: 0 })));
    }

    #[test]
    fn more_entries_than_are_read_refuse_the_document() {
        let entries = vec!["7".to_owned(); MAX_KEYS + 1];
        assert!(matches!(read(&entries), Err(SourceError::TooManyKeys { found: 257, limit: 256 })));
    }
}
