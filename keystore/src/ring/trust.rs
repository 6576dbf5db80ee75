//! Whom to believe: whether a document's ring key is the fleet's, and what its private halves open to.
//!
//! | a replica with | believes the ring key that |
//! |---|---|
//! | `ring.pin` | is pinned, or that a chain of endorsements leads to from the pinned one |
//! | a KEK | its KEK opens; while it serves also the one that it serves under, or one endorsed by that |
//! | neither | signs the document: the right to write the store is the trust |
//!
//! With a KEK or a pin nothing unsealed is believed: whoever can write the store could have put it there. Without a
//! pin a replica that opens nothing refuses a sealed ring, since it could not tell whose it is.
//!
//! The halves of a document are not covered by its signature; each is bound to its key by its own seal. One that was
//! tampered with makes the document unauthentic. One that is sealed under a KEK that is not here does not: the public
//! half is good, so it is published, and only the signing of that key fails. At the start an active key must open.

use std::sync::Arc;

use super::document::one;
use super::halves::{Half, Split};
use super::view::DocumentView;
use super::{KeyState, Mode, Origin, Reading, RingKey, endorsement};
use crate::codes::{
    RING_HALF_UNOPENED, RING_MALFORMED, RING_SEALED_WITHOUT_KEK, RING_UNAUTHENTIC, RING_UNPINNED,
};
use crate::material::{KeyError, PrivateKey, published_half};
use crate::seal::{KEK_PREVIOUS_NEEDED, KEK_PREVIOUS_UNNEEDED, Purpose, SealError, SealedFor, kek_of};
use crate::signer::Signer;
use crate::verify::Verifier;
use crate::{Algorithm, Digest, Findings, IssuerUrl, KeyId, PublicKey};

/// What every half is judged by.
pub(super) struct Judging<'a> {
    pub(super) issuer: &'a IssuerUrl,
    pub(super) reading: &'a Reading<'a>,
}

/// A ring key that may be believed.
#[derive(Debug)]
pub(super) struct Trusted {
    pub(super) ring_key: KeyId,
    /// Who came before it, oldest first.
    pub(super) endorsed_by: Vec<KeyId>,
    /// Whether a KEK of ours opened it.
    pub(super) vouched_by_kek: bool,
    /// Names its private half.
    pub(super) half: Option<Digest>,
    /// The KEK that its private half is sealed under.
    pub(super) sealed_under: Option<String>,
    pub(super) notes: Findings,
}

/// The ring key whose signature over the document holds, if it may be believed.
pub(super) fn judge(
    place: &str,
    view: &DocumentView,
    split: &Split<'_>,
    canonical: &[u8],
    judging: &Judging<'_>,
) -> Result<Trusted, Findings> {
    let refuse = |member: &str, why: String| one(&RING_UNAUTHENTIC, &format!("{place}: {member}"), why);
    let public = check_signature(view, &split.sig, canonical).map_err(|why| refuse("sig", why))?;
    let ring_key = public.thumbprint();
    let endorsed_by = endorsement::chain(&view.ring_key.endorsements, &ring_key, judging.issuer)
        .map_err(|why| refuse("ring_key", why))?;
    let half = split.ring_private;
    let opened = open_ring_key(half, &public, judging).map_err(|why| refuse("ring_key", why))?;
    let mut trusted = Trusted {
        ring_key,
        endorsed_by,
        vouched_by_kek: matches!(opened, RingHalf::Opened),
        half: half.and_then(|half| half.digest()),
        sealed_under: sealed_under(half.as_ref()),
        notes: Findings::new(),
    };
    let at = format!("{place}: ring_key");
    believe(&trusted, &opened, half.is_some(), judging.reading).map_err(|disbelief| match disbelief {
        Disbelief::Unauthentic(why) => one(&RING_UNAUTHENTIC, &at, why),
        Disbelief::Unopened(error) => one(&RING_SEALED_WITHOUT_KEK, &at, error.to_string()),
        Disbelief::Unpinned => {
            let why =
                format!("the ring is sealed and signed by {}, and no ring.pin is set", trusted.ring_key);
            one(&RING_UNPINNED, &at, why)
        }
    })?;
    if let (RingHalf::Unopened(error), Mode::Full) = (&opened, judging.reading.mode) {
        trusted.notes.push(&RING_HALF_UNOPENED, at, error.to_string());
    }
    Ok(trusted)
}

/// The private half of one key, as far as this replica has it.
pub(super) struct Opened {
    pub(super) private: Option<PrivateKey>,
    /// The signer that the served snapshot has of the same key: nothing need be parsed or probed again.
    pub(super) kept: Option<Arc<Signer>>,
    pub(super) sealed_under: Option<String>,
    pub(super) notes: Findings,
}

/// Whose half it has to be.
pub(super) struct Whose<'a> {
    pub(super) kid: &'a KeyId,
    pub(super) algorithm: Algorithm,
    pub(super) state: KeyState,
    pub(super) public: &'a PublicKey,
    pub(super) place: &'a str,
}

/// Opens and judges the private half of a key.
pub(super) fn open_half(
    half: Option<&Half<'_>>,
    whose: &Whose<'_>,
    judging: &Judging<'_>,
) -> Result<Opened, Findings> {
    let reading = judging.reading;
    let malformed = |what: &str| one(&RING_MALFORMED, whose.place, what.to_owned());
    let mut opened =
        Opened { private: None, kept: None, sealed_under: sealed_under(half), notes: Findings::new() };
    let Some(half) = half else { return Ok(opened) };
    if let Half::Both = half {
        return Err(malformed("it has both `private` and `sealed`"));
    }
    if let (Half::Plain(_), true) = (half, reading.is_strict()) {
        let why = format!("the private half of {} is not sealed, and {UNSEALED}", whose.kid);
        return Err(one(&RING_UNAUTHENTIC, whose.place, why));
    }
    if reading.mode == Mode::PublicOnly {
        return Ok(opened);
    }
    if let Some(signer) = reading.known.and_then(|known| known.signer_of(whose.kid, half.digest()?))
        && is_same(signer, whose, reading)
    {
        opened.kept = Some(Arc::clone(signer));
        return Ok(opened);
    }
    let key = match half {
        Half::Plain(raw) => PrivateKey::parse(raw.get().as_bytes()),
        Half::Sealed(raw) => {
            let sealed_for = SealedFor {
                purpose: Purpose::Signing,
                key_kid: whose.kid,
                key_alg: whose.algorithm,
                issuer: judging.issuer,
            };
            match open(raw, &sealed_for, reading) {
                Ok(jwk) => PrivateKey::parse(jwk.as_bytes()),
                Err(error) if is_elsewhere(&error) => return unopened(opened, &error, whose, reading),
                Err(error) => return Err(one(&RING_UNAUTHENTIC, whose.place, error.to_string())),
            }
        }
        Half::Both => return Err(malformed("it has both `private` and `sealed`")),
    };
    let key = key.map_err(|error: KeyError| one(error.code(), whose.place, error.to_string()))?;
    if key.public() != whose.public {
        return Err(malformed(&format!("the private half does not belong to {}", whose.kid)));
    }
    opened.private = Some(key);
    Ok(opened)
}

/// What the operator should know of the KEKs that the ring is sealed under: which previous ones it still needs.
pub(super) fn told_of_keks(trusted: &Trusted, keys: &[RingKey], reading: &Reading<'_>) -> Findings {
    let mut notes = Findings::new();
    let (Some(keks), Mode::Full) = (reading.keks, reading.mode) else { return notes };
    for id in keks.ids().skip(1) {
        let halves = keys.iter().map(|key| (key.kid.as_str(), key.sealed_under.as_deref()));
        let all = halves.chain([("ring_key", trusted.sealed_under.as_deref())]);
        let under: Vec<_> = all.filter(|(_, kek)| *kek == Some(id)).map(|(name, _)| name).collect();
        if under.is_empty() {
            notes.push(
                &KEK_PREVIOUS_UNNEEDED,
                "kek.previous",
                format!("nothing is sealed under the KEK {id}"),
            );
        } else {
            let current = keks.current().map_or("none", |kek| kek.id());
            let message = format!("under the KEK {id}: {}; [kek] is {current}", under.join(", "));
            notes.push(&KEK_PREVIOUS_NEEDED, "kek.previous", message);
        }
    }
    notes
}

/// The public half of the ring key, if its signature over the canonical document holds.
fn check_signature(view: &DocumentView, sig: &str, canonical: &[u8]) -> Result<PublicKey, String> {
    let public = PublicKey::from_jwk(&view.ring_key.public).map_err(|error| error.to_string())?;
    let kid = public.thumbprint();
    if kid.as_str() != view.ring_key.kid {
        return Err("ring_key.kid is not the thumbprint of ring_key.public".to_owned());
    }
    published_half(&public).map_err(|error| error.to_string())?;
    let verifier = Verifier::new(&public, Algorithm::EdDsa, kid).map_err(|error| error.to_string())?;
    verifier.verify_detached(sig, super::document::SIG_TYP, canonical).map_err(|error| error.to_string())?;
    Ok(public)
}

/// What became of the ring key's private half.
enum RingHalf {
    /// A KEK of ours opened it.
    Opened,
    /// It is sealed, and the KEK that it names is not here, or nothing is opened here.
    Unopened(SealError),
    /// It is not sealed, or not there.
    Unsealed,
}

fn open_ring_key(
    half: Option<Half<'_>>,
    public: &PublicKey,
    judging: &Judging<'_>,
) -> Result<RingHalf, String> {
    let reading = judging.reading;
    let belongs = |key: Result<PrivateKey, KeyError>| match key {
        Ok(key) if key.public() == public => Ok(()),
        Ok(_) => Err("the private half of ring_key does not belong to ring_key.public".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    match half {
        None => Ok(RingHalf::Unsealed),
        Some(Half::Both) => Err("it has both `private` and `sealed`".to_owned()),
        Some(Half::Plain(_)) if reading.is_strict() => Err(format!("ring_key is not sealed, and {UNSEALED}")),
        Some(Half::Plain(raw)) if reading.mode == Mode::Full => {
            belongs(PrivateKey::parse(raw.get().as_bytes())).map(|()| RingHalf::Unsealed)
        }
        Some(Half::Plain(_)) => Ok(RingHalf::Unsealed),
        Some(half @ Half::Sealed(raw)) => {
            let kid = public.thumbprint();
            if reading.known.is_some_and(|known| known.opened_ring_key(&kid, half.digest())) {
                return Ok(RingHalf::Opened);
            }
            let sealed_for = SealedFor {
                purpose: Purpose::Ring,
                key_kid: &kid,
                key_alg: Algorithm::EdDsa,
                issuer: judging.issuer,
            };
            match open(raw, &sealed_for, reading) {
                Ok(jwk) => belongs(PrivateKey::parse(jwk.as_bytes())).map(|()| RingHalf::Opened),
                Err(error) if is_elsewhere(&error) => Ok(RingHalf::Unopened(error)),
                Err(error) => Err(error.to_string()),
            }
        }
    }
}

enum Disbelief {
    Unauthentic(String),
    Unopened(SealError),
    Unpinned,
}

fn believe(
    trusted: &Trusted,
    half: &RingHalf,
    has_half: bool,
    reading: &Reading<'_>,
) -> Result<(), Disbelief> {
    let leads_from = |kid: &KeyId| trusted.ring_key == *kid || trusted.endorsed_by.contains(kid);
    if let Some(pin) = reading.pin {
        if leads_from(pin) {
            return Ok(());
        }
        let why = format!(
            "the ring key is {}; ring.pin is {pin}, and no endorsement leads from it: mistyped, or another ring's",
            trusted.ring_key
        );
        return Err(Disbelief::Unauthentic(why));
    }
    let is_served = reading.known.is_some_and(|known| match known.origin() {
        Origin::Document { ring_key, .. } => leads_from(ring_key),
        Origin::Bare => false,
    });
    match half {
        RingHalf::Opened => Ok(()),
        RingHalf::Unopened(_) if is_served => Ok(()),
        RingHalf::Unopened(_) if reading.mode == Mode::PublicOnly => Err(Disbelief::Unpinned),
        RingHalf::Unopened(error) => Err(Disbelief::Unopened(error.clone())),
        RingHalf::Unsealed if reading.is_strict() && !has_half && !is_served => Err(Disbelief::Unauthentic(
            format!("ring_key has no sealed half that would vouch for it, and {UNSEALED}"),
        )),
        RingHalf::Unsealed => Ok(()),
    }
}

/// Opens a sealed half, where anything is opened at all.
fn open(
    raw: &serde_json::value::RawValue,
    sealed_for: &SealedFor<'_>,
    reading: &Reading<'_>,
) -> Result<zeroize::Zeroizing<String>, SealError> {
    let jwe = Half::jwe(raw).ok_or(SealError::Malformed("it is no text"))?;
    match reading.keks.filter(|_| reading.mode == Mode::Full) {
        Some(keks) => keks.open(sealed_for, jwe),
        None => crate::seal::Keks::default().open(sealed_for, jwe),
    }
}

/// Whether nothing is wrong with the half but that this process has not what opens it.
fn is_elsewhere(error: &SealError) -> bool {
    matches!(error, SealError::NoKek { .. } | SealError::OtherKek { .. } | SealError::NotBuilt)
}

/// A half whose KEK is not here. A replica that serves signs on with the key that it has opened before.
fn unopened(
    mut opened: Opened,
    error: &SealError,
    whose: &Whose<'_>,
    reading: &Reading<'_>,
) -> Result<Opened, Findings> {
    let Some(known) = reading.known else {
        if whose.state == KeyState::Active {
            return Err(one(&RING_SEALED_WITHOUT_KEK, whose.place, error.to_string()));
        }
        opened.notes.push(&RING_HALF_UNOPENED, whose.place, error.to_string());
        return Ok(opened);
    };
    let signer = known.signer_named(whose.kid).filter(|signer| is_same(signer, whose, reading));
    opened.kept = signer.map(Arc::clone);
    let then = if opened.kept.is_some() { "; it signs on with what was opened before" } else { "" };
    opened.notes.push(&RING_HALF_UNOPENED, whose.place, format!("{error}{then}"));
    Ok(opened)
}

/// Whether the signer is of the very key that the document names.
fn is_same(signer: &Signer, whose: &Whose<'_>, reading: &Reading<'_>) -> bool {
    let published = reading.known.and_then(|known| known.keys().iter().find(|key| key.kid == *whose.kid));
    signer.algorithm() == whose.algorithm && published.is_some_and(|key| key.public == *whose.public)
}

/// The id of the KEK that a half names.
fn sealed_under(half: Option<&Half<'_>>) -> Option<String> {
    match half {
        Some(Half::Sealed(raw)) => kek_of(Half::jwe(raw)?).ok(),
        _ => None,
    }
}

const UNSEALED: &str = "with [kek] or ring.pin set nothing unsealed is believed";
