//! The ring: which keys there are and in which state, read from a provider's entries.
//!
//! Two sources make one type. A *document* ([`document`]) is a value of our own format and carries everything; *bare
//! keys* ([`bare`]) are whatever key files are there, their names telling the role. What follows, the snapshot,
//! does not care which it was.

pub mod bare;
pub mod document;
pub mod edit;
pub(crate) mod endorsement;
pub(crate) mod halves;
mod instead;
pub(crate) mod log;
mod trust;
mod view;
pub(crate) mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use oneseal_coordination::UnixTime;
use oneseal_providers::Entries;
use serde::{Deserialize, Serialize};

pub(crate) use self::document::MAX_KEYS;
use crate::codes::{
    RING_DUPLICATE_KEY, RING_EMERGENCY, RING_MALFORMED, RING_NO_ACTIVE, RING_TWO_ACTIVE, RING_UNAUTHENTIC,
};
use crate::material::{Passphrase, PrivateKey};
use crate::seal::Keks;
use crate::signer::Signer;
use crate::{Algorithm, Digest, Findings, Identity, IssuerUrl, KeyId, PublicKey, Rotation, Snapshot};

/// The keys of one issuer at one revision.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ring {
    /// Where it came from.
    pub origin: Origin,
    /// Which revision of which life, and what it says.
    pub identity: Identity,
    /// The keys, in the order of the source.
    pub keys: Vec<RingKey>,
    /// Thumbprints that were here once and must never come back.
    pub tombstones: BTreeSet<KeyId>,
    /// The fleet's times; `None` for bare keys, which take configuration's.
    pub rotation: Option<Rotation>,
    /// How it was read.
    pub mode: Mode,
    /// Names the ring key's private half, so that the next revision need not open it again.
    pub(crate) ring_half: Option<Digest>,
}

/// What a replica does with a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Publishes and signs: every active key must have its private half here.
    #[default]
    Full,
    /// Publishes alone: private halves are left where they are, and no key-encryption key is needed.
    PublicOnly,
}

impl Mode {
    /// Its name in configuration and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::PublicOnly => "public-only",
        }
    }
}

/// What a ring was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A ring document, signed by the ring key of this thumbprint.
    Document {
        /// The incarnation's id, a UUID.
        incarnation_id: String,
        /// Thumbprint of the key that signed the document.
        ring_key: KeyId,
        /// The digest of the revision before, which only the first one has none of.
        prev_digest: Option<Digest>,
        /// The thumbprints of the ring keys before it that vouch for it, oldest first.
        endorsed_by: Vec<KeyId>,
        /// Whether a key-encryption key of this replica opened the ring key, and so vouches for it.
        vouched_by_kek: bool,
    },
    /// Key files without a document.
    Bare,
}

/// One key of a ring.
#[derive(Debug)]
#[non_exhaustive]
pub struct RingKey {
    /// Its name in headers and in the JWKS.
    pub kid: KeyId,
    /// The one algorithm it is for.
    pub algorithm: Algorithm,
    /// What it is used for now.
    pub state: KeyState,
    /// Its public half.
    pub public: PublicKey,
    /// Its private half, where this replica has it.
    pub private: Option<PrivateKey>,
    /// When it stopped signing, if it has: newest first in the JWKS.
    pub retiring_at: Option<UnixTime>,
    /// Where it was found: `keys[2]` of a document, an entry's name.
    pub place: String,
    /// What the document tells of its life; `None` for bare keys, which tell nothing.
    pub history: Option<KeyHistory>,
    /// The id of the key-encryption key that its private half is sealed under, if it is sealed.
    pub sealed_under: Option<String>,
    /// The signer of the snapshot that is served, where that has the same half open already. Then `private` is `None`.
    pub(crate) kept: Option<Arc<Signer>>,
    /// Names its private half.
    pub(crate) half: Option<Digest>,
}

/// The life of one key, as the ring document tells it. Times that have not come are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyHistory {
    /// When it was made.
    pub created_at: UnixTime,
    /// When it came into the key set.
    pub published_at: Option<UnixTime>,
    /// When it began to sign.
    pub activated_at: Option<UnixTime>,
    /// When it stopped signing.
    pub retiring_at: Option<UnixTime>,
    /// When its private half may go.
    pub erase_private_after: Option<UnixTime>,
    /// When it may leave the key set.
    pub remove_after: Option<UnixTime>,
    /// The longest life of a token that it may have signed, in seconds.
    pub ttl_high_water_s: Option<u64>,
    /// Of a pending key that takes the place of a burned one: when that was burned.
    pub emergency_at: Option<UnixTime>,
    /// Why it is in its state.
    pub reason: Option<String>,
    /// The changes that concern it, oldest first, as far as the document's log reaches back.
    pub log: Vec<KeyChange>,
}

/// One change of one key, from the ring's log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyChange {
    /// When.
    pub at: UnixTime,
    /// What, such as `key.activated`.
    pub kind: String,
    /// Who. Free text of at most 200 bytes, as is the reason: written by whoever made the change.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The change's UUID.
    pub change_id: String,
}

/// What a key is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// Signing and published.
    Active,
    /// Published, not signing yet.
    Pending,
    /// Published, not signing any more.
    Retiring,
}

impl KeyState {
    /// Its name in documents and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pending => "pending",
            Self::Retiring => "retiring",
        }
    }
}

/// What may be needed to read a ring: the first two for bare keys, the others for a document.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// Opens encrypted keys.
    pub passphrase: Option<&'a Passphrase>,
    /// The member that holds the key, where each value is a JSON object of several.
    pub member: Option<&'a str>,
    /// Open sealed halves. Where there is one, nothing unsealed is believed.
    pub keks: Option<&'a Keks>,
    /// The thumbprint of the ring key that is believed, or of one that vouches for it by endorsements. Where it is set,
    /// nothing unsealed is believed.
    pub pin: Option<&'a KeyId>,
    /// Whether private halves are opened.
    pub mode: Mode,
    /// Believes what is not sealed although there is a KEK: for the one step that seals it, by hand.
    pub danger_believe_unsealed: bool,
    /// What is served now: halves that it has open are not opened again, and its ring key is believed.
    pub known: Option<&'a Snapshot>,
}

impl Reading<'_> {
    /// Whether something must vouch for what is read.
    fn is_strict(&self) -> bool {
        !self.danger_believe_unsealed
            && (self.pin.is_some() || self.keks.is_some_and(|keks| !keks.is_empty()))
    }
}

/// Whose ring the document among `entries` says it is, before anything of it is judged: for whoever wants to look at a ring
/// without knowing its issuer. Nothing is served by it.
pub fn issuer_in(entries: &Entries) -> Option<IssuerUrl> {
    let (name, value) = entries.iter().find(|(name, value)| document::is_document(name, value.expose()))?;
    let split = halves::split(value.expose()).ok()?;
    IssuerUrl::parse(split.public.get("issuer")?.as_str()?, name).ok()
}

/// Reads the ring that `entries` hold: the document if there is one, else the bare keys.
///
/// # Errors
/// Every fault found. On success the remarks that do not stop anything are returned beside the ring.
pub fn read(entries: &Entries, issuer: &IssuerUrl) -> Result<(Ring, Findings), Findings> {
    read_with(entries, issuer, &Reading::default())
}

/// [`read`], with what encrypted keys and keys inside of other values need. Deriving from a passphrase takes up to
/// about a second for each key: not for an async worker.
///
/// # Errors
/// As [`read`].
pub fn read_with(
    entries: &Entries,
    issuer: &IssuerUrl,
    reading: &Reading<'_>,
) -> Result<(Ring, Findings), Findings> {
    let documents: Vec<_> =
        entries.iter().filter(|(name, value)| document::is_document(name, value.expose())).collect();
    match documents.as_slice() {
        [] => {
            let (mut ring, notes) = bare::read(entries, reading)?;
            if reading.is_strict() {
                let what = "bare keys tell nobody who put them there, and with [kek] or ring.pin set only a sealed \
                            ring is believed";
                let mut findings = Findings::new();
                findings.push(&RING_UNAUTHENTIC, "entries", what);
                return Err(findings);
            }
            if reading.mode == Mode::PublicOnly {
                ring.keys.iter_mut().for_each(|key| key.private = None);
                ring.mode = reading.mode;
            }
            Ok((ring, notes))
        }
        [(name, value)] => {
            // What the provider calls its only entry says nothing to whoever put it there.
            let place = if entries.iter().count() == 1 { LONE } else { name };
            if let Some(refused) = instead::refusal(place, value.expose(), entries) {
                return Err(refused);
            }
            let mut ring = document::read(place, value.expose(), issuer, reading)?;
            ring.1.extend(bare::ignored_beside_document(entries, name));
            Ok(ring)
        }
        [(first, _), (second, _), ..] => {
            let mut findings = Findings::new();
            findings.push(
                &RING_MALFORMED,
                *second,
                format!("{first} is a ring document too; one can be true"),
            );
            Err(findings)
        }
    }
}

/// What must hold of any ring, whatever its origin.
fn check(ring: &Ring) -> Findings {
    let mut findings = Findings::new();
    let mut seen: BTreeSet<&KeyId> = BTreeSet::new();
    let thumbprints: Vec<_> = ring.keys.iter().map(|key| key.public.thumbprint()).collect();
    for (key, thumbprint) in ring.keys.iter().zip(&thumbprints) {
        let buried = ring.tombstones.contains(thumbprint) || ring.tombstones.contains(&key.kid);
        let twice = !seen.insert(thumbprint) | (key.kid != *thumbprint && !seen.insert(&key.kid));
        if twice || buried {
            let message = if buried { "was retired before" } else { "is there twice" };
            findings.push(&RING_DUPLICATE_KEY, &key.place, format!("the key {} {message}", key.kid));
        }
    }
    for algorithm in Algorithm::ALL {
        let active: Vec<_> = ring.active(algorithm).map(|key| key.kid.as_str()).collect();
        if active.len() > 1 {
            findings.push(&RING_TWO_ACTIVE, algorithm.as_str(), format!("active: {}", active.join(", ")));
        }
    }
    if !ring.keys.iter().any(|key| key.state == KeyState::Active) {
        let code = if is_in_emergency(ring) { &RING_EMERGENCY } else { &RING_NO_ACTIVE };
        findings.push(code, "keys", format!("of {} published, none is active", ring.keys.len()));
    }
    findings
}

/// Between the two commits of an emergency the keys that signed are gone, and their successors are not active yet.
fn is_in_emergency(ring: &Ring) -> bool {
    let is_successor =
        |key: &RingKey| key.history.as_ref().is_some_and(|history| history.emergency_at.is_some());
    ring.keys.iter().any(|key| key.state == KeyState::Pending && is_successor(key))
}

impl Ring {
    fn active(&self, algorithm: Algorithm) -> impl Iterator<Item = &RingKey> {
        self.keys.iter().filter(move |key| key.algorithm == algorithm && key.state == KeyState::Active)
    }

    /// The keys in the order of the JWKS: active by algorithm, pending, retiring newest first, then by kid.
    pub fn in_jwks_order(&self) -> Vec<&RingKey> {
        let mut keys: Vec<_> = self.keys.iter().collect();
        keys.sort_by_key(|key| {
            let algorithm = (key.state == KeyState::Active).then_some(key.algorithm);
            let newest = (key.state == KeyState::Retiring).then_some(key.retiring_at.map(|at| -at.as_secs()));
            (key.state, algorithm, newest, key.kid.clone())
        });
        keys
    }
}

/// The place of a ring document that is all there is.
const LONE: &str = "ring";
