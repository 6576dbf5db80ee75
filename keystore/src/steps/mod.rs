//! What may be done to a ring, and when: pure decisions of the ring's public facts, the fleet's and the time.
//!
//! Each verb has a file. A decision is a [`Step`], a list of edits that one commit makes, or a [`Refusal`] that says what
//! stands against it, until when, and which setting costs most. Nothing here makes a key, reads a clock or writes.
//!
//! ```text
//! rotate ─► pending ─ activate ─► active ─ (the one after is activated) ─► retiring ─ due ─► gone, a tombstone
//!              │                    ▲                                         │
//!              └─ retire: cancelled └──────────── rollback, in its window ────┘      revoke: gone at once, from anywhere
//! ```
//!
//! What is due (a private half to erase, a key to remove) is done by whichever verb comes next, in the same commit.

mod activate;
mod adopt;
mod conditions;
mod due;
mod floors;
mod foreign;
mod outlook;
mod refusal;
mod request;
mod retire;
mod revoke;
mod rollback;
mod rotate;

use std::collections::BTreeSet;

use oneseal_coordination::UnixTime;

pub use adopt::Adoption;
pub use conditions::{Conditions, Lagging, Observation, Why};
pub use floors::{Cost, Floors};
pub use foreign::Foreign;
pub use outlook::{Next, outlook};
pub use refusal::{Refusal, Taken};

use crate::ring::KeyState;
use crate::{Algorithm, Digest, KeyId, PublicKey, Rotation};

/// A ring's public facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The times in force.
    pub rotation: Rotation,
    /// The keys, in the order of the document.
    pub keys: Vec<Key>,
    /// Kids and thumbprints that must never come back.
    pub buried: BTreeSet<String>,
    /// Thumbprint of the key that signs the document.
    pub ring_key: KeyId,
    /// Its life between restores.
    pub incarnation: u64,
    /// Its revision.
    pub revision: u64,
    /// What this revision says.
    pub digest: Digest,
    /// The latest moment at which something happened in it, by its own word.
    pub latest: UnixTime,
}

/// One key's public facts. Times that have not come are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub kid: String,
    /// Its RFC 7638 thumbprint.
    pub thumbprint: KeyId,
    /// What it signs with.
    pub algorithm: Algorithm,
    /// Bits of its modulus, of an RSA key.
    pub rsa_bits: Option<usize>,
    /// What it is used for.
    pub state: KeyState,
    /// Whether its private half is in the store.
    pub has_private: bool,
    /// The id of the KEK that its private half is sealed under, if it is.
    pub sealed_under: Option<String>,
    /// When it was made or taken in.
    pub created_at: UnixTime,
    /// When it came into the key set.
    pub published_at: Option<UnixTime>,
    /// Of a pending key: the earliest time by the times that held when it was published.
    pub activate_after: Option<UnixTime>,
    /// Of a pending key that takes the place of a burned one: when that was burned.
    pub emergency_at: Option<UnixTime>,
    /// When it last began to sign.
    pub activated_at: Option<UnixTime>,
    /// When it stopped signing.
    pub retiring_at: Option<UnixTime>,
    /// When its private half may go.
    pub erase_private_after: Option<UnixTime>,
    /// When its private half went, as far as the log tells.
    pub erased_at: Option<UnixTime>,
    /// When it may leave the set.
    pub remove_after: Option<UnixTime>,
    /// The longest life of a token that it may have signed, in seconds.
    pub ttl_high_water_s: Option<u64>,
}

/// What is asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Request {
    /// Publish new keys, which sign later.
    Rotate {
        /// For these; empty is each for which a key is active.
        algorithms: Vec<Algorithm>,
        /// Bits of RSA keys; `None` is as many as the active one has.
        rsa_bits: Option<usize>,
    },
    /// Let pending keys sign, and those before them retire.
    Activate {
        /// This one; `None` is every one that may.
        kid: Option<String>,
    },
    /// Take a key out of use: a pending one is cancelled, an active one stops signing without a successor, a retiring one
    /// leaves the set if its time has come.
    Retire {
        /// This one; `None` does what is due and no more.
        kid: Option<String>,
    },
    /// Let the key before sign again.
    RollBack {
        /// This one; `None` is the one that stopped signing last.
        kid: Option<String>,
    },
    /// Burn keys: gone at once, with new ones in their place.
    Revoke {
        /// These; empty is every one whose private half was in the store.
        kids: Vec<String>,
        /// Only those whose private half was in the store at this time or later.
        since: Option<UnixTime>,
    },
    /// Take in keys that were made elsewhere.
    Adopt(Adoption),
}

impl Request {
    /// The verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Rotate { .. } => "rotate",
            Self::Activate { .. } => "activate",
            Self::Retire { .. } => "retire",
            Self::RollBack { .. } => "rollback",
            Self::Revoke { .. } => "revoke",
            Self::Adopt(_) => "adopt",
        }
    }

    /// The kinds of log entries by which it is known again.
    pub fn kinds(&self) -> &'static [&'static str] {
        match self {
            Self::Rotate { .. } => &["key.published"],
            Self::Activate { .. } => &["key.activated"],
            Self::Retire { .. } => {
                &["key.retired", "key.removed", "key.private_erased", "ring.times_changed"]
            }
            Self::RollBack { .. } => &["key.rolled_back"],
            Self::Revoke { .. } => &["key.revoked", EMERGENCY_JOINED],
            Self::Adopt(_) => &["key.adopted", "key.extended"],
        }
    }
}

/// What one commit does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// In this order; empty where everything that was asked for had been done before.
    pub edits: Vec<Edit>,
    /// What else is worth knowing, such as who was not waited for.
    pub notes: Vec<String>,
}

/// One change of one key, or of the times.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// The fleet's times become these.
    Times(Rotation),
    /// A new key is made and published.
    Publish {
        /// For what.
        algorithm: Algorithm,
        /// Bits of an RSA key.
        rsa_bits: usize,
        /// When it may sign at the earliest.
        activate_after: UnixTime,
        /// Whether it takes the place of a burned one.
        emergency: bool,
    },
    /// A key from elsewhere comes into the set.
    Adopt(Adopted),
    /// A pending key signs.
    Activate {
        /// Which.
        kid: String,
        /// The longest life of its tokens, in seconds.
        ttl_high_water_s: u64,
    },
    /// A retiring key signs again.
    RollBack {
        /// Which.
        kid: String,
        /// The longest life of its tokens, in seconds.
        ttl_high_water_s: u64,
    },
    /// A former issuer's key stays for longer.
    Extend {
        /// Which.
        kid: String,
        /// When it leaves the set.
        remove_after: UnixTime,
    },
    /// An active key stops signing.
    Retire {
        /// Which.
        kid: String,
        /// When its private half may go.
        erase_private_after: UnixTime,
        /// When it may leave the set.
        remove_after: UnixTime,
    },
    /// A pending key takes the place of a burned one.
    Hasten {
        /// Which.
        kid: String,
    },
    /// The private half of a key that does not sign any more goes.
    ErasePrivate {
        /// Which.
        kid: String,
    },
    /// A key leaves the set for good.
    Remove {
        /// Which.
        kid: String,
    },
    /// A key leaves the set at once.
    Revoke {
        /// Which.
        kid: String,
    },
    /// No key changes: a revocation came while an emergency was open, and the log remembers it.
    JoinEmergency,
}

/// A key from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The name that it has in the world.
    pub kid: KeyId,
    /// What it is for.
    pub algorithm: Algorithm,
    /// Its public half.
    pub public: PublicKey,
    /// Whether its private half comes with it.
    pub with_private: bool,
    /// In which state.
    pub state: KeyState,
    /// When it may sign at the earliest, of a pending one.
    pub activate_after: Option<UnixTime>,
    /// When it leaves the set, of one without private half.
    pub remove_after: Option<UnixTime>,
    /// The longest life of its tokens, of an active one.
    pub ttl_high_water_s: Option<u64>,
}

impl Edit {
    /// The kind of its entry in the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Times(_) => "ring.times_changed",
            Self::Publish { .. } => "key.published",
            Self::Adopt(_) => "key.adopted",
            Self::Activate { .. } => "key.activated",
            Self::RollBack { .. } => "key.rolled_back",
            Self::Extend { .. } => "key.extended",
            Self::Retire { .. } => "key.retired",
            Self::Hasten { .. } => "key.hastened",
            Self::ErasePrivate { .. } => "key.private_erased",
            Self::Remove { .. } => "key.removed",
            Self::Revoke { .. } => "key.revoked",
            Self::JoinEmergency => EMERGENCY_JOINED,
        }
    }

    /// The key that it is about, if that is there already.
    pub fn kid(&self) -> Option<&str> {
        match self {
            Self::Times(_) | Self::Publish { .. } | Self::JoinEmergency => None,
            Self::Adopt(adopted) => Some(adopted.kid.as_str()),
            Self::Activate { kid, .. }
            | Self::RollBack { kid, .. }
            | Self::Extend { kid, .. }
            | Self::Retire { kid, .. }
            | Self::Hasten { kid }
            | Self::ErasePrivate { kid }
            | Self::Remove { kid }
            | Self::Revoke { kid } => Some(kid),
        }
    }
}

/// Decides what `request` comes to, together with what is due.
///
/// # Errors
/// What stands against it.
pub fn decide(state: &State, request: &Request, conditions: &Conditions<'_>) -> Result<Step, Refusal> {
    conditions.observation.check(state)?;
    // Decided with what is due done already: its room and its names are free.
    let mut step = Step::default();
    step.edits.extend(conditions.times(state).cloned().map(Edit::Times));
    let untouched = match request {
        Request::RollBack { .. } | Request::Revoke { .. } => true,
        Request::Retire { kid } => kid.is_some(),
        _ => false,
    };
    let due = due::due(state, conditions);
    let after = due::without(state, &due);
    let asked = match request {
        Request::Rotate { algorithms, rsa_bits } => rotate::decide(&after, algorithms, *rsa_bits, conditions),
        Request::Activate { kid } => activate::decide(&after, kid.as_deref(), conditions),
        Request::Retire { kid: Some(kid) } => retire::decide(state, kid, conditions),
        Request::Retire { kid: None } if due.is_empty() && step.edits.is_empty() => {
            Err(due::nothing(state, conditions))
        }
        Request::Retire { kid: None } => Ok(Step::default()),
        Request::RollBack { kid } => rollback::decide(state, kid.as_deref(), conditions),
        Request::Revoke { kids, since } => revoke::decide(state, kids, *since, conditions),
        Request::Adopt(adoption) => adopt::decide(&after, adoption, conditions),
    }?;
    if asked.edits.is_empty() && !matches!(request, Request::Retire { kid: None }) {
        return Ok(asked);
    }
    if asked.is_absorbed() {
        return Ok(asked);
    }
    let is_touched = |edit: &Edit| untouched && asked.edits.iter().any(|other| other.kid() == edit.kid());
    step.edits.extend(due.into_iter().filter(|edit| !is_touched(edit)));
    step.edits.extend(asked.edits);
    step.notes.extend(asked.notes);
    Ok(step)
}

/// The kind of the log entry of [`Edit::JoinEmergency`].
pub(crate) const EMERGENCY_JOINED: &str = "ring.emergency_joined";

impl Step {
    /// Whether another order's emergency has done what was asked for: this one is remembered, and nothing else.
    pub fn is_absorbed(&self) -> bool {
        matches!(*self.edits, [Edit::JoinEmergency])
    }

    /// Whether a private half is written that was not there.
    pub(crate) fn makes_half(&self) -> bool {
        let makes = |edit: &Edit| match edit {
            Edit::Publish { .. } => true,
            Edit::Adopt(adopted) => adopted.with_private,
            _ => false,
        };
        self.edits.iter().any(makes)
    }
}

impl State {
    /// The key called `kid`, or by a beginning of its name that no other has.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn key(&self, kid: &str) -> Result<&Key, Refusal> {
        if let Some(key) = self.keys.iter().find(|key| key.kid == kid) {
            return Ok(key);
        }
        let fits = |key: &&Key| !kid.is_empty() && key.kid.starts_with(kid);
        let fitting: Vec<&Key> = self.keys.iter().filter(fits).collect();
        match *fitting {
            [key] => Ok(key),
            [] => Err(Refusal::NoSuchKey { was_here: self.buried.contains(kid) }),
            _ => Err(Refusal::several(fitting.into_iter())),
        }
    }

    /// The key that signs for `algorithm`.
    pub fn active(&self, algorithm: Algorithm) -> Option<&Key> {
        self.keys.iter().find(|key| key.state == KeyState::Active && key.algorithm == algorithm)
    }

    /// The keys in `state`.
    pub fn in_state(&self, state: KeyState) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| key.state == state)
    }
}

impl Key {
    /// When it may leave the set: what was written when it retired, or what the times say now if that is later.
    pub fn removable_after(&self, floors: &Floors) -> Option<UnixTime> {
        let (written, retiring_at) = (self.remove_after?, self.retiring_at?);
        Some(match self.ttl_high_water_s {
            Some(high_water) => written.max(retiring_at + floors.removal(high_water)),
            // Not a key of ours: its tokens were promised this time and no other.
            None => written,
        })
    }

    /// How long it may be made active again, exclusive.
    pub fn rollback_until(&self, floors: &Floors) -> Option<UnixTime> {
        let until = self.retiring_at? + floors.rollback(self.ttl_high_water_s?);
        self.has_private.then(|| self.erase_private_after.map_or(until, |erase| until.min(erase)))
    }
}
