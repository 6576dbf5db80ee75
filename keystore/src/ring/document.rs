//! The ring document, format 1: read, and checked before anything of it is believed.
//!
//! A document has two halves. The *public* one is the JSON object without `private`, `sealed` and `sig`; in its
//! canonical form (RFC 8785) it is what the digest names and what the signature covers. The *private* one is the
//! private JWKs, sealed or not, which are read straight from the provider's secret bytes and never become `serde_json`
//! values. Taking the two apart is [`halves`](super::halves)'s, whom to believe is [`trust`]'s.

use std::collections::BTreeSet;

use oneseal_coordination::UnixTime;
use oneseal_providers::Entries;
use serde_json::{Map, Value};

use super::halves::{Half, split, text_of};
use super::trust::{self, Judging, Opened, Trusted, Whose};
use super::view::{DocumentView, KeyView, LogEntry};
use super::{KeyChange, KeyHistory, Origin, Reading, Ring, RingKey, check, endorsement, log};
use crate::codes::{RING_FORMAT, RING_ISSUER_MISMATCH, RING_MALFORMED, RING_UNAUTHENTIC};
use crate::findings::Code;
use crate::json;
use crate::jwk::JwkError;
use crate::material::{KeyError, published_half};
use crate::{Algorithm, Digest, Findings, Identity, IssuerUrl, KeyId, PublicKey};

/// The format this version reads and writes.
pub(crate) const FORMAT: u64 = 1;
/// The JWKS writer this version knows.
pub(crate) const JWKS_WRITER: u64 = 1;
/// `typ` of the document's signature.
pub(crate) const SIG_TYP: &str = "oneseal-ring+jws";
/// Relying parties exist that read no more keys than this (OCI API Gateway).
pub(crate) const MAX_KEYS: usize = 10;

/// Whether the entry `name` is a ring document: a JSON object with an integer `format` and an array `keys`. Also
/// true of what was meant to be one, by its name or by the members that its damaged text still shows, so that a
/// broken document is reported as such and never passed over.
pub(crate) fn is_document(name: &str, value: &[u8]) -> bool {
    name == Entries::KEYRING || has_shape(value)
}

/// Whether the value looks like a ring document, whole or damaged.
pub(super) fn has_shape(value: &[u8]) -> bool {
    let Ok(text) = text_of(value) else { return false };
    match json::members(text) {
        Ok(members) => {
            let has = |wanted: &str, test: fn(&str) -> bool| {
                members.iter().any(|(name, value)| name == wanted && test(value.get()))
            };
            has("format", |text| text.parse::<i64>().is_ok()) && has("keys", |text| text.starts_with('['))
        }
        Err(_) => {
            text.trim_start().starts_with('{') && text.contains("\"format\"") && text.contains("\"keys\"")
        }
    }
}

/// Reads and checks the document in the entry `place`.
///
/// # Errors
/// Every fault found; nothing of a faulty document is used.
pub(crate) fn read(
    place: &str,
    value: &[u8],
    issuer: &IssuerUrl,
    reading: &Reading<'_>,
) -> Result<(Ring, Findings), Findings> {
    let split = split(value).map_err(|error| one(&RING_MALFORMED, place, error.to_string()))?;
    let view = view(place, &split.public)?;
    let mut faults = check_view(place, &view, issuer);
    if !split.public.values().all(has_exact_integers) {
        let message = "a whole number beyond 2^53 - 1, which its canonical form would round".to_owned();
        faults.push(&RING_MALFORMED, place, message);
    }
    if let Some(Value::Array(entries)) = split.public.get("log")
        && let Err(broken) = log::check(entries)
    {
        faults.push(&RING_UNAUTHENTIC, format!("{place}: log"), broken);
    }
    let canonical = canonical(&split.public);
    // The halves of another issuer's ring are that issuer's: that it is another's has been told, and is no forgery.
    let whose = IssuerUrl::parse(&view.issuer, place);
    let issuer = whose.as_ref().unwrap_or(issuer);
    let trusted = trust::judge(place, &view, &split, &canonical, &Judging { issuer, reading });
    let trusted = trusted.map_err(|found| faults.extend(found)).ok();
    let mut keys = Vec::new();
    for (i, key) in view.keys.iter().enumerate() {
        let opening = Judging { issuer, reading };
        match read_key(key, format!("{place}: keys[{i}]"), split.privates.get(&i), &opening) {
            Ok((mut read, notes)) => {
                read.history = Some(history(key, &view.log));
                keys.push(read);
                faults.extend(notes);
            }
            Err(found) => faults.extend(found),
        }
    }
    faults.extend(check_ring_key(place, &view, &keys, trusted.as_ref()));
    let (Some(trusted), false) = (trusted, faults.has_errors()) else { return Err(faults) };
    faults.extend(trust::told_of_keks(&trusted, &keys, reading));
    let ring = Ring {
        origin: Origin::Document {
            incarnation_id: view.incarnation.id,
            ring_key: trusted.ring_key,
            prev_digest: view.prev_digest.as_deref().and_then(Digest::from_hex),
            endorsed_by: trusted.endorsed_by,
            vouched_by_kek: trusted.vouched_by_kek,
        },
        identity: Identity {
            incarnation: view.incarnation.number,
            revision: view.revision,
            digest: Digest::of(&canonical),
        },
        keys,
        tombstones: tombstones(place, &view.tombstones)?,
        rotation: Some(view.rotation),
        mode: reading.mode,
        ring_half: trusted.half,
    };
    faults.extend(trusted.notes);
    faults.extend(check(&ring));
    if faults.has_errors() { Err(faults) } else { Ok((ring, faults)) }
}

/// The canonical public document: the bytes that are hashed and signed.
pub(crate) fn canonical(public: &Map<String, Value>) -> Vec<u8> {
    // Fails only for maps with keys that are no strings, which `Map` cannot hold.
    serde_json_canonicalizer::to_vec(public).unwrap_or_default()
}

/// RFC 8785 writes numbers as doubles do: beyond 2^53 - 1 two different ones would be signed as one.
fn has_exact_integers(value: &Value) -> bool {
    const MAX: u64 = (1 << 53) - 1;
    match value {
        Value::Number(number) => {
            number.is_f64()
                || number.as_u64().is_some_and(|number| number <= MAX)
                || number.as_i64().is_some_and(|number| number.unsigned_abs() <= MAX)
        }
        Value::Array(items) => items.iter().all(has_exact_integers),
        Value::Object(members) => members.values().all(has_exact_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

fn view(place: &str, public: &Map<String, Value>) -> Result<DocumentView, Findings> {
    if let Some(format) = public.get("format").filter(|format| format.as_u64() != Some(FORMAT)) {
        return Err(one(&RING_FORMAT, place, format!("format {format}; this version reads {FORMAT}")));
    }
    let view: DocumentView = serde_json::from_value(Value::Object(public.clone()))
        .map_err(|error| one(&RING_MALFORMED, place, error.to_string()))?;
    if view.jwks_writer != JWKS_WRITER {
        let message = format!("jwks_writer {}; this version knows {JWKS_WRITER}", view.jwks_writer);
        return Err(one(&RING_FORMAT, place, message));
    }
    Ok(view)
}

/// What can be judged from the public members alone, signature and keys aside.
fn check_view(place: &str, view: &DocumentView, issuer: &IssuerUrl) -> Findings {
    let mut faults = Findings::new();
    if view.issuer != issuer.as_str() {
        let mut message = format!("the ring is for {}, the configured issuer is {issuer}", view.issuer);
        if view.issuer.trim_end_matches('/') == issuer.as_str().trim_end_matches('/') {
            message.push_str("; they differ in the slash at the end, which counts");
        }
        faults.push(&RING_ISSUER_MISMATCH, place, message);
    }
    let mut malformed = |member: &str, what: String| {
        faults.push(&RING_MALFORMED, format!("{place}: {member}"), what);
    };
    if view.keys.len() > MAX_KEYS {
        malformed("keys", format!("{} keys; at most {MAX_KEYS} are published", view.keys.len()));
    }
    if view.revision == 0 || view.incarnation.number == 0 {
        malformed("revision", "revision and incarnation count from 1".to_owned());
    }
    if (view.revision == 1) != view.prev_digest.is_none() {
        malformed("prev_digest", "null in the first revision, and only there".to_owned());
    }
    if view.prev_digest.as_deref().is_some_and(|digest| Digest::from_hex(digest).is_none()) {
        malformed("prev_digest", "not 64 lower-case hex digits".to_owned());
    }
    for (member, id) in [("incarnation.id", &view.incarnation.id), ("change_id", &view.change_id)] {
        if uuid::Uuid::try_parse(id).is_err() {
            malformed(member, "not a UUID".to_owned());
        }
    }
    if view.ring_key.endorsements.len() > endorsement::MAX {
        malformed("ring_key.endorsements", format!("more than {}", endorsement::MAX));
    }
    faults.extend(view.rotation.check(&format!("{place}: rotation")));
    faults
}

/// The ring key signs the document and nothing else, so neither it nor one before it may be found among the keys,
/// whatever its JWK says beside its parameters.
fn check_ring_key(place: &str, view: &DocumentView, keys: &[RingKey], trusted: Option<&Trusted>) -> Findings {
    let before = trusted.map(|trusted| trusted.endorsed_by.as_slice()).unwrap_or_default();
    let ring_key = &view.ring_key.kid;
    let is_one = |kid: &str| kid == ring_key || before.iter().any(|before| before.as_str() == kid);
    let signs_tokens = view.keys.iter().any(|key| is_one(&key.kid) || key.public == view.ring_key.public)
        || keys.iter().any(|key| is_one(key.public.thumbprint().as_str()));
    let is_buried = view.tombstones.iter().any(|stone| is_one(&stone.thumbprint) || is_one(&stone.kid));
    if signs_tokens || is_buried {
        let what = "the ring key signs the document and nothing else, but it is among the keys or tombstones";
        return one(&RING_MALFORMED, &format!("{place}: ring_key"), what.to_owned());
    }
    Findings::new()
}

fn read_key(
    view: &KeyView,
    place: String,
    half: Option<&Half<'_>>,
    judging: &Judging<'_>,
) -> Result<(RingKey, Findings), Findings> {
    let malformed = |what: String| one(&RING_MALFORMED, &place, what);
    let algorithm: Algorithm =
        view.alg.parse().map_err(|error: crate::algorithm::UnknownAlgorithm| malformed(error.to_string()))?;
    let weak = |error: KeyError| one(error.code(), &place, error.to_string());
    let public = PublicKey::from_jwk(&view.public).map_err(|error| match error {
        JwkError::RsaWeak(weakness) => weak(weakness.into()),
        other => malformed(other.to_string()),
    })?;
    if public.key_type() != algorithm.key_type() {
        return Err(malformed(format!("an {} key cannot be for {algorithm}", public.key_type())));
    }
    let kid = KeyId::parse(&view.kid).map_err(|error| malformed(error.to_string()))?;
    if kid != public.thumbprint() && !view.adopted_kid {
        return Err(malformed(
            "kid is not the key's thumbprint, and adopted_kid does not say why".to_owned(),
        ));
    }
    let whose = Whose { kid: &kid, algorithm, state: view.state, public: &public, place: &place };
    let opened = trust::open_half(half, &whose, judging)?;
    if opened.private.is_none() && opened.kept.is_none() {
        published_half(&public).map_err(weak)?;
    }
    let Opened { private, kept, sealed_under, notes } = opened;
    let key = RingKey {
        kid,
        algorithm,
        state: view.state,
        public,
        private,
        retiring_at: view.retiring_at.map(UnixTime),
        place,
        history: None,
        sealed_under,
        kept,
        half: half.and_then(Half::digest),
    };
    Ok((key, notes))
}

fn history(view: &KeyView, log: &[LogEntry]) -> KeyHistory {
    let of_key = log.iter().filter(|entry| entry.kid.as_deref() == Some(view.kid.as_str()));
    let log = of_key.map(|entry| KeyChange {
        at: UnixTime(entry.at),
        kind: entry.kind.clone(),
        actor: entry.actor.clone(),
        reason: entry.reason.clone(),
        change_id: entry.change_id.clone(),
    });
    KeyHistory {
        created_at: UnixTime(view.created_at),
        published_at: view.published_at.map(UnixTime),
        activated_at: view.activated_at.map(UnixTime),
        retiring_at: view.retiring_at.map(UnixTime),
        erase_private_after: view.erase_private_after.map(UnixTime),
        remove_after: view.remove_after.map(UnixTime),
        ttl_high_water_s: view.ttl_high_water_s,
        emergency_at: view.emergency_at.map(UnixTime),
        reason: view.reason.clone(),
        log: log.collect(),
    }
}

fn tombstones(place: &str, views: &[super::view::TombstoneView]) -> Result<BTreeSet<KeyId>, Findings> {
    views
        .iter()
        .flat_map(|view| [&view.kid, &view.thumbprint])
        .map(|kid| KeyId::parse(kid))
        .collect::<Result<_, _>>()
        .map_err(|error| one(&RING_MALFORMED, &format!("{place}: tombstones"), error.to_string()))
}

pub(super) fn one(code: &'static Code, place: &str, message: String) -> Findings {
    let mut findings = Findings::new();
    findings.push(code, place, message);
    findings
}
