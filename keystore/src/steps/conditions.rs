//! What a decision looks at besides the ring: the fleet, the proposed times, the moment.

use std::fmt;

use oneseal_coordination::UnixTime;

use super::{Floors, Refusal, State};
use crate::fleet::{Facts, Fleet, Peer, PeerState, Without};
use crate::{Algorithm, Rotation};

/// Everything that a decision depends on.
#[derive(Clone, Debug)]
pub struct Conditions<'a> {
    /// Who publishes, as far as it can be known.
    pub observation: Observation<'a>,
    /// What configuration proposes; taken if its generation is higher than the ring's.
    pub proposed: Option<&'a Rotation>,
    /// The algorithms that discovery announces: a replica refuses a ring with another.
    pub listed: &'a [Algorithm],
    /// The least spans.
    pub floors: Floors,
    /// The moment, never before the latest in the ring.
    pub now: UnixTime,
    /// The id of the KEK that a new private half will be sealed under, where it will be.
    pub seals_under: Option<String>,
}

impl<'a> Conditions<'a> {
    /// The conditions of the ring's own times, and of the proposed ones.
    pub fn new(
        state: &State,
        observation: Observation<'a>,
        proposed: Option<&'a Rotation>,
        listed: &'a [Algorithm],
        now: UnixTime,
    ) -> Self {
        let now = now.max(state.latest);
        let floors = Floors::of(&state.rotation);
        let mut conditions = Self { observation, proposed, listed, floors, now, seals_under: None };
        if let Some(times) = conditions.times(state) {
            conditions.floors = conditions.floors.and(&Floors::of(times));
        }
        conditions
    }

    /// The proposed times, if they are to be taken.
    pub fn times(&self, state: &State) -> Option<&'a Rotation> {
        self.proposed.filter(|proposed| proposed.generation > state.rotation.generation)
    }

    /// The times that hold after this commit.
    pub fn times_after<'b>(&self, state: &'b State) -> &'b Rotation
    where
        'a: 'b,
    {
        self.times(state).unwrap_or(&state.rotation)
    }
}

/// Who publishes the ring's keys.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// The registry's rows.
    Fleet(&'a Fleet),
    /// There is no registry: nobody can say who serves what.
    Nobody {
        /// Whether it was said that time alone is to be trusted (`--unproven-replicas`).
        is_accepted: bool,
    },
}

impl Observation<'_> {
    /// A writer that is behind a replica, or differs from it, must not write.
    pub(super) fn check(&self, state: &State) -> Result<(), Refusal> {
        let Self::Fleet(fleet) = self else { return Ok(()) };
        for peer in fleet.publish_points() {
            let Ok(facts) = &peer.facts else { continue };
            let served = facts.ring.number();
            let stored = (state.incarnation, state.revision);
            if served > stored {
                return Err(Refusal::Behind { replica: peer.instance.clone(), served, stored });
            }
            if served == stored && facts.ring.digest != state.digest.to_string() {
                return Err(Refusal::Differs { replica: peer.instance.clone(), revision: served.1 });
            }
        }
        Ok(())
    }

    /// The last instant at which any publish point could answer without `kid`, which came into the set at
    /// `published_at`.
    pub(super) fn known_by_all(
        &self,
        kid: &str,
        published_at: UnixTime,
        floors: &Floors,
    ) -> Result<UnixTime, Refusal> {
        match self {
            Self::Fleet(fleet) => {
                let blocking = lagging(fleet, kid);
                if !blocking.is_empty() {
                    return Err(Refusal::Blocked { replicas: blocking, soonest: None });
                }
                Ok(match fleet.without(kid) {
                    Without::Until(at) => at.max(published_at),
                    Without::Never | Without::Still => published_at,
                })
            }
            Self::Nobody { is_accepted: false } => Err(Refusal::Unproven),
            Self::Nobody { is_accepted: true } => {
                Ok(published_at + std::time::Duration::from_secs(floors.blind_s))
            }
        }
    }

    /// Everybody who signs can open what is sealed under `kek`, and has opened the half of `kid` if there is one already.
    pub(super) fn opened_by_all(&self, kek: Option<&str>, kid: Option<&str>) -> Result<(), Refusal> {
        match (kek, self.cannot_open(kek, kid)) {
            (Some(kek), replicas) if !replicas.is_empty() => {
                Err(Refusal::CannotOpen { replicas, kek: kek.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The live replicas that sign and could not with a half that is sealed under `kek`: that of `kid`, or a new one. One
    /// whose row cannot be read is not judged here: it keeps every key from being activated.
    pub(super) fn cannot_open(&self, kek: Option<&str>, kid: Option<&str>) -> Vec<String> {
        let (Self::Fleet(fleet), Some(kek)) = (self, kek) else { return Vec::new() };
        let is_unopened = |facts: &Facts| {
            facts.signs() && kid.and_then(|kid| facts.key(kid)).is_some_and(|key| !key.has_private)
        };
        let cannot = |peer: &&Peer| {
            let lacks = || !peer.lacks([kek]).is_empty();
            peer.state == PeerState::Live
                && peer.facts.as_ref().is_ok_and(|facts| lacks() || is_unopened(facts))
        };
        fleet.peers.iter().filter(cannot).map(|peer| peer.instance.clone()).collect()
    }

    /// The longest max-age that may still rest in a cache, where it is known.
    pub(super) fn max_age_s(&self) -> u64 {
        match self {
            Self::Fleet(fleet) => fleet.max_age_s(),
            Self::Nobody { .. } => 0,
        }
    }
}

/// The publish points that are silent, or of which it is not known that they serve `kid`, each with why.
pub(super) fn lagging(fleet: &Fleet, kid: &str) -> Vec<Lagging> {
    let of_peer = |peer: &Peer| {
        let why = match &peer.facts {
            _ if peer.state == PeerState::Silent => Why::Silent { since: peer.seen_at },
            Err(_) => Why::Unreadable,
            Ok(facts) if facts.key(kid).is_none() => Why::Serves { revision: facts.ring.revision },
            Ok(_) => return None,
        };
        Some(Lagging { instance: peer.instance.clone(), why })
    };
    fleet.publish_points().filter_map(of_peer).collect()
}

/// A publish point of which it is not known that it serves a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lagging {
    /// Its name.
    pub instance: String,
    /// Why it is not known.
    pub why: Why,
}

/// Why it is not known of a replica that it serves a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It does not beat, and may still serve.
    Silent {
        /// Its last beat.
        since: UnixTime,
    },
    /// Its row cannot be read.
    Unreadable,
    /// It has told another revision, and beats.
    Serves {
        /// Which.
        revision: u64,
    },
}

impl Lagging {
    /// Whether its next beat may tell that it serves the key.
    pub fn is_live(&self) -> bool {
        matches!(self.why, Why::Serves { .. })
    }

    pub(super) fn is_silent(&self) -> bool {
        matches!(self.why, Why::Silent { .. })
    }

    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self.why, Why::Unreadable)
    }
}

impl fmt::Display for Lagging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.instance;
        match self.why {
            Why::Silent { since } => write!(f, "{name} (silent since {since})"),
            Why::Unreadable => write!(f, "{name} (its row cannot be read)"),
            Why::Serves { revision } => write!(f, "{name} (serves revision {revision})"),
        }
    }
}

/// How often a replica tells what it serves, in seconds.
pub(super) const BEAT_S: u64 = 4;
