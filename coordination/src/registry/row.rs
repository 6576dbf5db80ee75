//! One row of the registry, as the database saw it when it was read.

use std::time::Duration;

use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::SILENT_AFTER;
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
    /// When this boot joined.
    pub joined_at: UnixTime,
    /// Since when it has been what it is: for a silent one, since its last beat.
    pub since: UnixTime,
    /// How long ago it has beaten.
    pub beat_age: Duration,
}

/// What a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It does not serve yet.
    Joining,
    /// It serves.
    Live,
    /// It served when it was last heard of, three beats ago or more. It may serve still.
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
    pub(super) fn read(row: &PgRow) -> Result<Self, DatabaseError> {
        Self::try_read(row).map_err(|error| {
            let message = format!("oneseal.replicas is not as it should be: {error}");
            DatabaseError::new(DatabaseErrorKind::Internal, message)
        })
    }

    fn try_read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let facts: String = row.try_get("facts")?;
        let boot: String = row.try_get("boot")?;
        let beat_age =
            Duration::from_micros(row.try_get::<i64, _>("beat_age_us")?.try_into().unwrap_or_default());
        let beat_at: i64 = row.try_get("beat_at_s")?;
        let mut since = row.try_get("since_s")?;
        let state = match &*row.try_get::<String, _>("state")? {
            "joining" => ReplicaState::Joining,
            "gone" => ReplicaState::Gone,
            _ if beat_age >= SILENT_AFTER => {
                since = beat_at;
                ReplicaState::Silent
            }
            _ => ReplicaState::Live,
        };
        Ok(Self {
            instance: row.try_get("instance")?,
            boot: boot.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
            state,
            ops_address: row.try_get("ops_address")?,
            facts: serde_json::from_str(&facts).unwrap_or_default(),
            joined_at: UnixTime(row.try_get("joined_at_s")?),
            since: UnixTime(since),
            beat_age,
        })
    }
}

/// What [`Row::read`] reads, of a table called `r`.
macro_rules! columns {
    () => {
        "r.instance, r.boot::text AS boot, r.state, r.ops_address, r.facts, \
         floor(extract(epoch FROM r.joined_at))::bigint AS joined_at_s, \
         floor(extract(epoch FROM r.state_since))::bigint AS since_s, \
         floor(extract(epoch FROM r.beat_at))::bigint AS beat_at_s, \
         greatest(0, extract(epoch FROM clock_timestamp() - r.beat_at) * 1000000)::bigint AS beat_age_us"
    };
}
pub(super) use columns;

pub(super) const ALL: &str =
    concat!("SELECT ", columns!(), " FROM oneseal.replicas r WHERE r.fleet = $1 ORDER BY r.instance");

pub(super) const ONE: &str =
    concat!("SELECT ", columns!(), " FROM oneseal.replicas r WHERE r.fleet = $1 AND r.instance = $2");

pub(super) const ONE_LOCKED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM oneseal.replicas r WHERE r.fleet = $1 AND r.instance = $2 FOR UPDATE"
);
