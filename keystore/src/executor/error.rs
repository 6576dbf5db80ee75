//! Why an order was not carried out.

use oneseal_providers::{ErrorKind, ProviderError};

use super::{NotRecovered, ObserveError};
use crate::Findings;
use crate::findings::Exit;
use crate::material::KeyError;
use crate::ring::edit::DraftError;
use crate::steps::Refusal;

/// Why an order was not carried out. Nothing has been changed, except where it says that nobody knows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The rules stand against it.
    #[error("{0}")]
    Refused(Refusal),
    /// The store gives no ring, or not a good one.
    #[error("the ring cannot be read: {0}")]
    Unreadable(Findings),
    /// What would be written is not a ring that a replica would take.
    #[error("every replica would refuse the ring that this would make: {0}")]
    WouldBeRefused(Findings),
    /// Key files have no document in which a change could be made.
    #[error(
        "bare keys rest there, not a ring document: they are changed by hand, with the new key as `next` (in AWS: under AWSPENDING) first. Make a \
         ring elsewhere with `oneseal keys init` and take the key in with `oneseal keys adopt` to use key verbs"
    )]
    BareKeys,
    /// This replica has no private half, and so cannot sign a ring.
    #[error(
        "this replica is public-only, and changes no ring: ask one with ring.mode = \"full\", which has the \
         key-encryption key, by --admin SOCKET|URL"
    )]
    PublicOnly,
    /// The id names another change.
    #[error("this change id, or Idempotency-Key, was used for another change: choose a new one")]
    ChangeIdTaken,
    /// The id names a change that the ring's log tells nothing of any more, and its store does.
    #[error(
        "this order was carried out before, too long ago to tell what it did; nothing was done now, and a new order wants \
         a new id"
    )]
    ChangeIdOld(#[source] ProviderError),
    /// The reason is too long for the log, or not text.
    #[error("a reason has at most 200 bytes, and no control characters")]
    BadReason,
    /// The ring has no key that a new one could follow.
    #[error(
        "no key may be made for this ring: it has none that is active or pending with its private half here"
    )]
    NoPermit,
    /// The registry is not there to be asked.
    #[error("nothing is changed while nobody can say which replicas there are")]
    Registry(#[source] ObserveError),
    /// The store did not write.
    #[error("the ring was not written")]
    Write(#[source] ProviderError),
    /// Nobody knows whether it was written.
    #[error(
        "the ring may have been written, and the answer was lost: give the same order with the same id again"
    )]
    OutcomeUnknown(#[source] ProviderError),
    /// Others wrote each time first.
    #[error("others change the ring all the time: try again")]
    Contended,
    /// No key could be made.
    #[error("no key could be made")]
    Generate(#[source] KeyError),
    /// The last good record is not written back.
    #[error(transparent)]
    NotRecovered(NotRecovered),
    /// The document could not be changed.
    #[error(transparent)]
    Draft(DraftError),
}

impl ExecuteError {
    /// How a process ends that met it; `None` is a fault of its own (70).
    pub fn exit(&self) -> Option<Exit> {
        match self {
            Self::Refused(refusal) => Some(refusal.exit()),
            Self::Unreadable(found) | Self::WouldBeRefused(found) => {
                Some(found.exit().unwrap_or(Exit::Refused))
            }
            Self::BareKeys
            | Self::PublicOnly
            | Self::ChangeIdTaken
            | Self::ChangeIdOld(_)
            | Self::BadReason
            | Self::NotRecovered(_)
            | Self::NoPermit => Some(Exit::Refused),
            Self::Draft(DraftError::Locked) => Some(Exit::Refused),
            Self::Registry(_) | Self::OutcomeUnknown(_) => Some(Exit::Unavailable),
            Self::Contended => Some(Exit::TryLater),
            Self::Write(error) => Some(match error.kind() {
                ErrorKind::Denied | ErrorKind::Unauthenticated => Exit::Denied,
                ErrorKind::Unavailable | ErrorKind::NoCredentials => Exit::Unavailable,
                ErrorKind::Fenced => Exit::TryLater,
                _ => Exit::Refused,
            }),
            Self::Generate(_) | Self::Draft(_) => None,
        }
    }

    /// Its name, dotted like those of findings.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Unreadable(found) | Self::WouldBeRefused(found) => {
                found.iter().next().map_or("ring.malformed", |finding| finding.code.name)
            }
            Self::BareKeys => "keys.bare",
            Self::PublicOnly => "keys.public_only",
            Self::ChangeIdTaken | Self::ChangeIdOld(_) => "keys.change_id_taken",
            Self::BadReason => "keys.bad_reason",
            Self::NoPermit => "keys.no_permit",
            Self::NotRecovered(why) => why.code(),
            Self::Registry(_) => "keys.registry_unavailable",
            Self::Write(_) => "keys.not_written",
            Self::OutcomeUnknown(_) => "keys.outcome_unknown",
            Self::Contended => "keys.contended",
            Self::Generate(_) => "keys.not_made",
            Self::Draft(DraftError::Locked) => "keys.read_only",
            Self::Draft(_) => "keys.internal",
        }
    }
}
