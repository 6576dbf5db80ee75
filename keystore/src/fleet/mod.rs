//! What the replicas of one issuer know of each other, and what follows from it.
//!
//! Plain data and pure functions: where the rows rest is coordination's matter, which carries [`Facts`] as JSON that
//! it does not look into. What a row says is told by another process, perhaps of another version, through a store that
//! others can write: it is read with limits, and it can stop somebody from joining, but never makes anybody publish or
//! sign with a key.

mod check;
mod facts;
mod memory;
mod openers;

pub use check::{
    CODES, FLEET_BEHIND, FLEET_INSTANCE_IN_USE, FLEET_JWKS_DIFFERS, FLEET_UNREADABLE, Judgement, Own, judge,
};
pub use facts::{FactKey, Facts, FactsError, RingFacts};
pub use memory::Memory;
pub(crate) use openers::FLEET_CANNOT_OPEN;

use oneseal_coordination::UnixTime;

/// The replicas of a fleet at one moment: what a decision looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// By the clock of the store that holds the rows.
    pub now: UnixTime,
    /// In the order of their names.
    pub peers: Vec<Peer>,
}

/// One replica, as its row tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The instance's name: the pod's, or host and port.
    pub instance: String,
    /// Of this start of it.
    pub boot_id: String,
    /// What its beats say.
    pub state: PeerState,
    /// Its last beat, or its end, by the clock of the store; rounded up to the second.
    pub seen_at: UnixTime,
    /// When this start of it came, by the same clock.
    pub joined_at: UnixTime,
    /// `http://HOST:PORT` of its probes, if it has told.
    pub ops_address: Option<String>,
    /// What it told with that beat, or why that cannot be read.
    pub facts: Result<Facts, FactsError>,
}

/// What is known of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerState {
    /// It has not begun to serve: never a publish point.
    Joining,
    /// It beats.
    Live,
    /// It has missed three beats, or its row does not tell when it has beaten. It may still serve, if it had begun to.
    Silent,
    /// It has left, or somebody has said that it is gone.
    Gone,
}

impl PeerState {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Joining, Self::Live, Self::Silent, Self::Gone];

    /// The word in reports and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Live => "live",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }
}

impl Peer {
    /// Whether it may be answering relying parties now. One whose facts cannot be read may.
    pub fn may_serve(&self) -> bool {
        match self.state {
            PeerState::Live => true,
            PeerState::Silent => self.facts.as_ref().map_or(true, |facts| facts.serving),
            PeerState::Joining | PeerState::Gone => false,
        }
    }

    /// The last instant at which it could answer without the key `kid`, by the clock of the store.
    pub fn without(&self, kid: &str) -> Without {
        let key = self.facts.as_ref().ok().and_then(|facts| facts.keys.iter().find(|key| key.kid == kid));
        match (key, self.may_serve()) {
            (Some(FactKey { served_for_s: None, .. }), _) => Without::Never,
            (Some(FactKey { served_for_s: Some(span), .. }), _) => {
                let span = std::time::Duration::from_secs(*span);
                Without::Until(self.seen_at - span)
            }
            (None, true) => Without::Still,
            (None, false) if self.state == PeerState::Gone => Without::Until(self.seen_at),
            (None, false) => Without::Never,
        }
    }
}

/// Until when a replica could answer without some key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Without {
    /// It has had it for as long as it has served, or does not serve yet.
    Never,
    /// Up to then.
    Until(UnixTime),
    /// It still could.
    Still,
}

impl Fleet {
    /// Those that may be answering relying parties.
    pub fn publish_points(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| peer.may_serve())
    }

    /// The last instant at which any of them could answer without `kid`: `T_all` of the design. Those that have gone
    /// count up to their end.
    pub fn without(&self, kid: &str) -> Without {
        self.peers.iter().map(|peer| peer.without(kid)).max().unwrap_or(Without::Never)
    }

    /// The largest max-age under which a cache may hold an answer of any of them; 0 where nobody has told.
    pub fn max_age_s(&self) -> u64 {
        let told = self.publish_points().filter_map(|peer| peer.facts.as_ref().ok());
        told.map(|facts| facts.max_age_s).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
