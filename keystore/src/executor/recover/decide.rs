//! Whether a record is written back, and over what: a pure function of what is kept, what is there, and who serves.

use oneseal_providers::Revision;

use crate::accept::{Verdict, accept};
use crate::codes::RING_ROLLED_BACK;
use crate::findings::{Code, Finding};
use crate::fleet::Fleet;
use crate::ring::Origin;
use crate::{Findings, Snapshot};

/// What the store holds.
#[derive(Debug)]
pub(super) enum There {
    /// Nothing.
    Nothing,
    /// No ring that is believed.
    Broken {
        /// The revision at which it rests, where that can be told.
        over: Option<Revision>,
        /// What is wrong with it.
        found: Findings,
    },
    /// A ring.
    Ring {
        /// The revision at which it rests.
        over: Revision,
        /// What would be served of it.
        snapshot: Box<Snapshot>,
    },
    /// What may be good, for whoever has what it needs.
    Unjudged(Findings),
}

/// A write.
#[derive(Debug)]
pub(super) struct Write {
    /// Over this revision; `None` is where nothing is.
    pub(super) over: Option<Revision>,
    /// What is there, in words.
    pub(super) found: String,
    /// The same, as the names of what was found wrong with it.
    pub(super) codes: Vec<&'static str>,
}

/// Why nothing is written back.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotRecovered {
    /// The replica has none.
    #[error(
        "this replica keeps no record: its key comes from a place that is read once, which nothing here writes; put the key \
         there again, or name another replica"
    )]
    NothingKept,
    /// The store holds one that the replica takes by itself.
    #[error(
        "nothing is lost: the store holds {held}, which is good and which this replica takes when it looks next; it serves \
         {served}"
    )]
    NotLost {
        /// What the store holds.
        held: String,
        /// What the replica serves.
        served: String,
    },
    /// The store holds a later one, which the replica refuses.
    #[error(
        "the store holds {held}, later than {served} that this replica serves, and it does not follow it ({why}): a later \
         revision is never written over by an earlier one. Name a replica that serves the later one, or stop the replicas \
         that do not and start them anew"
    )]
    Later {
        /// What the store holds.
        held: String,
        /// What the replica serves.
        served: String,
        /// Why it is not followed.
        why: String,
    },
    /// This replica cannot tell whether it is good.
    #[error(
        "what the store holds cannot be judged by this replica, and may be good for another one ({}): give it what that names; \
         if the record is broken all the same, move it away, and give the same order again", told(.0)
    )]
    NotJudged(Findings),
    /// Nobody can tell over which revision it would be written.
    #[error(
        "what rests there has no revision that a write could be held against ({}): move it away, and give the same order again", told(.0)
    )]
    NoRevision(Findings),
    /// Another replica serves a later ring.
    #[error(
        "replica {instance} serves {theirs}, this one {served}: have it written back by that one; if it is gone for good, \
         forget it first (`oneseal replicas forget`)"
    )]
    LaterElsewhere {
        /// Who.
        instance: String,
        /// What it serves.
        theirs: String,
        /// What this one serves.
        served: String,
    },
    /// Another replica serves another ring of the same number.
    #[error(
        "replica {instance} serves another ring than this one, both {served}: stop the one that is wrong, and forget it \
         (`oneseal replicas forget`)"
    )]
    OtherElsewhere {
        /// Who.
        instance: String,
        /// What both say they serve.
        served: String,
    },
    /// What another replica serves cannot be told.
    #[error(
        "what replica {instance} serves cannot be told ({why}): stop it, or forget it (`oneseal replicas forget`)"
    )]
    Untold {
        /// Who.
        instance: String,
        /// Why not.
        why: String,
    },
}

impl NotRecovered {
    /// Its name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NothingKept => "keys.nothing_kept",
            Self::NotLost { .. } | Self::Later { .. } => "keys.not_lost",
            Self::NotJudged(_) | Self::NoRevision(_) => "keys.not_judged",
            Self::LaterElsewhere { .. } | Self::OtherElsewhere { .. } | Self::Untold { .. } => {
                "keys.another_replica"
            }
        }
    }
}

/// What is to be written; `None` is what is there already.
pub(super) fn decide(kept: &Snapshot, there: There) -> Result<Option<Write>, NotRecovered> {
    let (over, snapshot) = match there {
        There::Nothing => {
            let found = "there is no record".to_owned();
            return Ok(Some(Write { over: None, found, codes: Vec::new() }));
        }
        There::Broken { over: None, found } => return Err(NotRecovered::NoRevision(found)),
        There::Broken { over, found } => {
            let codes = found.iter().map(|finding| finding.code.name).collect();
            let found = format!("what is there is not believed: {}", told(&found));
            return Ok(Some(Write { over, found, codes }));
        }
        There::Unjudged(found) => return Err(NotRecovered::NotJudged(found)),
        There::Ring { over, snapshot } => (over, snapshot),
    };
    let seen = kept.keys().iter().map(|key| (key.kid.clone(), key.public.clone())).collect();
    let (held, served) = (shown(&snapshot), shown(kept));
    match accept(kept, &seen, &snapshot, false) {
        Verdict::Unchanged => Ok(None),
        Verdict::Serve | Verdict::Replace | Verdict::ServeSigningOn(_) => {
            Err(NotRecovered::NotLost { held, served })
        }
        Verdict::Refuse(Finding { code, message, .. }) => {
            if is(code, &RING_ROLLED_BACK) && number(&snapshot) > number(kept) {
                return Err(NotRecovered::Later { held, served, why: message });
            }
            let found = format!("{held} is there, which is refused ({}): {message}", code.name);
            Ok(Some(Write { over: Some(over), found, codes: vec![code.name] }))
        }
    }
}

/// Whether nobody else in the `fleet` serves what would be lost.
pub(super) fn elsewhere(kept: &Snapshot, fleet: &Fleet) -> Result<(), NotRecovered> {
    let own = number(kept);
    for peer in fleet.publish_points() {
        let instance = peer.instance.clone();
        let ring = match &peer.facts {
            Ok(facts) => &facts.ring,
            Err(why) => return Err(NotRecovered::Untold { instance, why: why.to_string() }),
        };
        let served = shown(kept);
        if ring.number() > own {
            let theirs = of_number(ring.number());
            return Err(NotRecovered::LaterElsewhere { instance, theirs, served });
        }
        if ring.number() == own && ring.digest != kept.identity().digest.to_string() {
            return Err(NotRecovered::OtherElsewhere { instance, served });
        }
    }
    Ok(())
}

fn number(snapshot: &Snapshot) -> (u64, u64) {
    let identity = snapshot.identity();
    (identity.incarnation, identity.revision)
}

fn shown(snapshot: &Snapshot) -> String {
    match snapshot.origin() {
        Origin::Bare => "bare keys".to_owned(),
        Origin::Document { .. } => of_number(number(snapshot)),
    }
}

fn of_number((incarnation, revision): (u64, u64)) -> String {
    format!("revision {revision} of incarnation {incarnation}")
}

fn is(code: &Code, other: &Code) -> bool {
    code.name == other.name
}

fn told(found: &Findings) -> String {
    let told = found.iter().map(|Finding { code, message, .. }| format!("{}: {message}", code.name));
    told.collect::<Vec<_>>().join("; ")
}
