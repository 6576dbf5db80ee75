//! One row of the registry, as the database saw it when it was read.

use std::time::Duration;

use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{FACTS_LIMIT, SILENT_AFTER};
use crate::clock::UnixTime;
use crate::database::{DatabaseError, DatabaseErrorKind};

/// An instance of the fleet. All times are the database's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// Its name.
    pub instance: String,
    /// Which boot of it.
    pub boot: Uuid,
    /// What it is.
    pub state: ReplicaState,
    /// Where the others ask it.
    pub ops_address: String,
    /// What it tells of itself; `Null` if that is no JSON. Untrusted: whoever may write the table may write anything.
    pub facts: Value,
    /// Why nothing that the row says can be used, if so. It counts as silent then, unless its facts alone are at fault.
    pub fault: Option<RowFault>,
    /// When this boot joined; never later than now.
    pub joined_at: UnixTime,
    /// Since when it has been what it is: for a silent one, since its last beat. Never later than now.
    pub since: UnixTime,
    /// How long ago it has beaten; zero where that cannot be, so ask [`Row::beats`].
    pub beat_age: Duration,
}

/// Why a row says nothing. Times are written by the database, so a wrong one is its clock's that has been set back, as after
/// a failover, or somebody's who can write the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowFault {
    /// `infinity`, which the column can hold.
    #[error("one of its times is infinite")]
    Infinite,
    /// A time that has not come: a beat then is none.
    #[error("one of its times is {} s ahead of the database's clock", ahead.as_secs())]
    Ahead {
        /// How far.
        ahead: Duration,
    },
    /// More than is read.
    #[error("its facts take {bytes} bytes, and {FACTS_LIMIT} are the most that a replica writes")]
    FactsTooLong {
        /// How long they are.
        bytes: u64,
    },
}

/// What a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It does not serve yet.
    Joining,
    /// It serves.
    Live,
    /// It was last heard of three beats ago or more, or its row cannot be trusted to say when. It may serve still, unless it
    /// had not begun to.
    Silent,
    /// It serves no more: it said so, or somebody who knows did.
    Gone,
}

impl ReplicaState {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Live => "live",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }
}

impl Row {
    /// Whether it has been heard of within three beats and is not gone: nobody else may have its place.
    pub fn beats(&self) -> bool {
        matches!(self.state, ReplicaState::Joining | ReplicaState::Live)
    }

    pub(super) fn read(row: &PgRow) -> Result<Self, DatabaseError> {
        Self::try_read(row).map_err(|error| {
            let message = format!("oneseal.replicas is not as it should be: {error}");
            DatabaseError::new(DatabaseErrorKind::Internal, message)
        })
    }

    fn try_read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let facts: String = row.try_get("facts")?;
        let boot: String = row.try_get("boot")?;
        let beat_age = micros(row.try_get("beat_age_us")?);
        let beat_at: i64 = row.try_get("beat_at_s")?;
        let time_fault = time_fault(row.try_get("is_finite")?, micros(row.try_get("ahead_us")?));
        let mut since = row.try_get("since_s")?;
        let state = match &*row.try_get::<String, _>("state")? {
            "gone" => ReplicaState::Gone,
            _ if time_fault.is_some() => ReplicaState::Silent,
            _ if beat_age >= SILENT_AFTER => {
                since = beat_at;
                ReplicaState::Silent
            }
            "joining" => ReplicaState::Joining,
            _ => ReplicaState::Live,
        };
        let bytes: i64 = row.try_get("facts_bytes")?;
        let facts_fault = (bytes > FACTS_READ)
            .then(|| RowFault::FactsTooLong { bytes: bytes.try_into().unwrap_or_default() });
        Ok(Self {
            instance: row.try_get("instance")?,
            boot: boot.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
            state,
            ops_address: row.try_get("ops_address")?,
            facts: serde_json::from_str(&facts).unwrap_or_default(),
            fault: time_fault.or(facts_fault),
            joined_at: UnixTime(row.try_get("joined_at_s")?),
            since: UnixTime(since),
            beat_age,
        })
    }
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(micros.try_into().unwrap_or_default())
}

/// A clock that is set back by less than three beats makes nobody silent.
fn time_fault(is_finite: bool, ahead: Duration) -> Option<RowFault> {
    if !is_finite {
        return Some(RowFault::Infinite);
    }
    (ahead >= SILENT_AFTER).then_some(RowFault::Ahead { ahead })
}

/// What is read of a row's facts, in bytes: more than any replica writes, so that a newer version may write more. One row
/// must not fill the memory of all who read it with every beat.
const FACTS_READ: i64 = 64 * 1024;

/// A time of a row, brought between 1970 and now, whatever stands there: infinity is no number, and what has not been yet
/// would hold up who waits for it.
macro_rules! clamped {
    ($time:literal) => {
        concat!("greatest(to_timestamp(0), least(", $time, ", clock_timestamp()))")
    };
}
pub(super) use clamped;

/// What [`Row::read`] reads, of a table called `r`. Whatever a row holds, reading it fails for no other row.
macro_rules! columns {
    () => {
        concat!(
            "r.instance, r.boot::text AS boot, r.state, \
             CASE WHEN octet_length(r.ops_address) <= 1024 THEN r.ops_address ELSE '' END AS ops_address, \
             CASE WHEN octet_length(r.facts) <= 65536 THEN r.facts ELSE '' END AS facts, \
             octet_length(r.facts)::bigint AS facts_bytes, \
             isfinite(r.joined_at) AND isfinite(r.state_since) AND isfinite(r.beat_at) AS is_finite, \
             CASE WHEN isfinite(greatest(r.joined_at, r.state_since, r.beat_at)) THEN greatest(0, \
                 extract(epoch FROM greatest(r.joined_at, r.state_since, r.beat_at) - clock_timestamp()) * 1000000 \
                 )::bigint ELSE 0 END AS ahead_us, \
             floor(extract(epoch FROM ",
            $crate::registry::row::clamped!("r.joined_at"),
            "))::bigint AS joined_at_s, floor(extract(epoch FROM ",
            $crate::registry::row::clamped!("r.state_since"),
            "))::bigint AS since_s, floor(extract(epoch FROM ",
            $crate::registry::row::clamped!("r.beat_at"),
            "))::bigint AS beat_at_s, greatest(0, extract(epoch FROM clock_timestamp() - ",
            $crate::registry::row::clamped!("r.beat_at"),
            ") * 1000000)::bigint AS beat_age_us"
        )
    };
}
pub(super) use columns;

/// Whether a row of a table called `old` beats, as [`Row::beats`] has it; `$6` is how long silence takes, in seconds.
macro_rules! beats {
    () => {
        "old.state <> 'gone' AND isfinite(old.joined_at) AND isfinite(old.state_since) \
         AND old.beat_at > clock_timestamp() - make_interval(secs => $6) \
         AND greatest(old.joined_at, old.state_since, old.beat_at) < clock_timestamp() + make_interval(secs => $6)"
    };
}
pub(super) use beats;

pub(super) const ALL: &str =
    concat!("SELECT ", columns!(), " FROM oneseal.replicas r WHERE r.fleet = $1 ORDER BY r.instance");

pub(super) const ONE: &str =
    concat!("SELECT ", columns!(), " FROM oneseal.replicas r WHERE r.fleet = $1 AND r.instance = $2");

pub(super) const ONE_LOCKED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM oneseal.replicas r WHERE r.fleet = $1 AND r.instance = $2 FOR UPDATE"
);
