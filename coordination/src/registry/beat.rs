//! The beat: one statement that says "I am here", and answers with all that a replica needs to know of the others.

use serde_json::Value;
use sqlx::Row as _;

use super::row::{clamped, columns};
use super::{FACTS_LIMIT, Registry, ReplicaState, Row, facts_text, into_database_error};
use crate::clock::UnixTime;
use crate::database::{DatabaseError, DatabaseErrorKind};

/// What the database knew at the beat.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BeatAnswer {
    /// All rows of the fleet, this one's as it is after the beat, by instance.
    pub rows: Vec<Row>,
    /// The number of the latest event; 0 before the first.
    pub event_head: i64,
    /// Which ring the store holds; `None` if it holds none, or nothing was said about where to look.
    pub ring_revision: Option<RingRevision>,
    /// The database's clock.
    pub database_now: UnixTime,
    /// The same in milliseconds since the Unix epoch.
    pub database_now_ms: i64,
    /// How far this replica's wall clock is certainly ahead of the database's, in milliseconds; behind, if negative. 0 is
    /// said of clocks that agree within the time that the beat took and the second that ours is read in.
    pub offset_ms: i64,
}

/// Which ring the store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingRevision {
    /// Its life between restores.
    pub incarnation: i64,
    /// Its revision.
    pub revision: i64,
    /// What the store says of its bytes.
    pub digest: String,
}

/// Why a beat was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeatError {
    /// The row is another boot's, or gone: this boot has been taken for dead. It must join again before it counts.
    #[error(
        "this replica is not in the registry any more: it was forgotten, has left, or a newer boot of it has joined"
    )]
    NotRegistered,
    /// The facts are too long.
    #[error("the facts of a replica take {0} bytes, and {FACTS_LIMIT} are the most")]
    FactsTooLong(usize),
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Registry {
    /// Says that this boot is here and `state`, and what it tells of itself.
    ///
    /// # Errors
    /// [`BeatError::NotRegistered`] if it has been taken for dead.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may or may not have been heard.
    pub async fn beat(&self, facts: &Value, state: Beat) -> Result<BeatAnswer, BeatError> {
        let facts = facts_text(facts).map_err(BeatError::FactsTooLong)?;
        let mut tx = self.database.write().await?;
        let before = self.clock.wall();
        let query = sqlx::query(self.beat_query())
            .bind(&self.fleet)
            .bind(self.instance.as_str())
            .bind(self.boot.to_string())
            .bind(state.as_str())
            .bind(&self.ops_address)
            .bind(&facts);
        let found = tx.fetch_all(query).await?;
        let after = self.clock.wall();
        tx.commit().await.map_err(into_database_error)?;
        let answer = read(&found, before, after).map_err(|error| {
            let message = format!("the tables of oneseal are not as they should be: {error}");
            DatabaseError::new(DatabaseErrorKind::Internal, message)
        })?;
        answer.ok_or(BeatError::NotRegistered)
    }
}

/// What a replica says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// It does not serve yet.
    Joining,
    /// It serves.
    Live,
}

impl Beat {
    fn as_str(self) -> &'static str {
        match self {
            Self::Joining => ReplicaState::Joining.as_str(),
            Self::Live => ReplicaState::Live.as_str(),
        }
    }
}

/// The statement, with the query that tells of the ring. `$1` fleet, `$2` instance, `$3` boot, `$4` state, `$5` ops
/// address, `$6` facts.
///
/// Times that were wrong in the own row are put right: who beats is here. A statement sees the tables as they were before its own changes: the own row comes from RETURNING, the others from the
/// table.
pub(super) fn statement(ring: Option<&'static str>) -> String {
    let ring = ring
        .unwrap_or("SELECT 0::bigint AS incarnation, 0::bigint AS revision, ''::text AS digest WHERE false");
    let columns = columns!();
    let (joined_at, state_since) = (clamped!("joined_at"), clamped!("state_since"));
    format!(
        "WITH me AS ( \
            UPDATE oneseal.replicas SET beat_at = clock_timestamp(), state = $4, ops_address = $5, facts = $6, \
                joined_at = {joined_at}, \
                state_since = CASE WHEN state = $4 THEN {state_since} ELSE clock_timestamp() END \
            WHERE fleet = $1 AND instance = $2 AND boot = $3::uuid AND state <> 'gone' \
            RETURNING *), \
        r AS (SELECT * FROM me UNION ALL SELECT * FROM oneseal.replicas WHERE fleet = $1 AND instance <> $2), \
        ring AS ({ring}) \
        SELECT {columns}, (SELECT seq FROM oneseal.event_head) AS head, \
            floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms, \
            ring.incarnation AS ring_incarnation, ring.revision AS ring_revision, ring.digest AS ring_digest \
        FROM r LEFT JOIN ring ON true WHERE EXISTS (SELECT FROM me) ORDER BY r.instance"
    )
}

fn read(
    found: &[sqlx::postgres::PgRow],
    before: UnixTime,
    after: UnixTime,
) -> Result<Option<BeatAnswer>, sqlx::Error> {
    let Some(first) = found.first() else { return Ok(None) };
    let rows = found.iter().map(Row::read).collect::<Result<_, _>>();
    let now_ms: i64 = first.try_get("now_ms")?;
    let ring_revision = match first.try_get::<Option<i64>, _>("ring_incarnation")? {
        Some(incarnation) => Some(RingRevision {
            incarnation,
            revision: first.try_get("ring_revision")?,
            digest: first.try_get("ring_digest")?,
        }),
        None => None,
    };
    Ok(Some(BeatAnswer {
        rows: rows.map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
        event_head: first.try_get::<Option<i64>, _>("head")?.unwrap_or_default(),
        ring_revision,
        database_now: UnixTime(now_ms.div_euclid(1000)),
        database_now_ms: now_ms,
        offset_ms: offset_ms(before, after, now_ms),
    }))
}

/// The database's clock was read between `before` and `after`, each of which says only the second it was read in.
fn offset_ms(before: UnixTime, after: UnixTime, database_ms: i64) -> i64 {
    let earliest = before.as_secs().saturating_mul(1000);
    let latest = after.as_secs().saturating_add(1).saturating_mul(1000);
    if database_ms < earliest {
        earliest.saturating_sub(database_ms)
    } else if database_ms > latest {
        latest.saturating_sub(database_ms)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_may_agree_have_no_offset() {
        let at = UnixTime;
        assert_eq!(offset_ms(at(100), at(100), 100_000), 0);
        assert_eq!(offset_ms(at(100), at(100), 100_999), 0);
        assert_eq!(offset_ms(at(100), at(103), 102_500), 0);
        assert_eq!(offset_ms(at(100), at(100), 40_000), 60_000);
        assert_eq!(offset_ms(at(100), at(100), 161_000), -60_000);
        // A wall clock that is set back in the middle.
        assert_eq!(offset_ms(at(100), at(50), 100_000), -49_000);
        assert_eq!(offset_ms(at(i64::MAX), at(i64::MAX), 0), i64::MAX);
    }
}
