//! Appending: the last thing that a transaction does before its COMMIT.

use sqlx::Row as _;

use super::chain::Broken;
use super::draft::{self, DraftError};
use super::head::{Astray, ENDS, Ends, tolerance};
use super::line::{Hash, middle};
use super::read::unexpected;
use crate::EventDraft;
use crate::clock::{Clock as _, SystemClock};
use crate::database::{DatabaseError, WriteTx};

/// What has been appended, if the transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendedEvent {
    /// Its number.
    pub seq: i64,
    /// Its hash, which covers all events before it.
    pub hash: Hash,
}

/// Why nothing was appended. Nothing can be committed in this transaction any more if it was the database that said so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The event is not fit for the log.
    #[error("the event {kind:?} cannot be logged")]
    Draft {
        /// Its kind.
        kind: String,
        /// Why.
        source: DraftError,
    },
    /// The log has no head, without which there is no next number.
    #[error("the row of oneseal.event_head is gone: restore the database from a backup that has it")]
    NoHead,
    /// The log's head does not follow from its events: somebody has written there by hand. What would be appended
    /// would be chained to nothing, for ever.
    #[error(
        "nothing is appended to a log that does not hold together: {0}. Find out who wrote there; docs/events.md, \"A log \
         that is broken\", says how its owner sets the head back to the last event"
    )]
    Broken(Broken),
    /// The log's last event is later than the clock of the database says it is now: that clock is, or was, astray.
    #[error(
        "the log's last event is of {head}, and the database's clock says that it is {now}: set that clock right. If it is, \
         it was astray when that event was written: docs/events.md, \"A clock that was astray\", says how the log begins anew"
    )]
    LogAhead {
        /// The time of the last event.
        head: String,
        /// The database's clock.
        now: String,
    },
    /// The clock of the database is ahead of this process's by more than an hour. An event cannot be taken back, and those
    /// after it would all bear its time.
    #[error(
        "the database's clock is more than an hour ahead of this host's: set right the one that is wrong; an event with a \
         time from the future could not be taken back"
    )]
    DatabaseAhead,
    /// Somebody mends it right now.
    #[error("the log's head, or a clock, is just being changed: try again")]
    Changing,
    /// The database did not take it.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl WriteTx {
    /// Appends an event. It becomes visible, with its number, when this transaction commits, and is as if it had never
    /// been when it does not.
    ///
    /// Call it last: from here to COMMIT every other writer of the log waits, up to its `lock_timeout`, and whoever takes
    /// further locks after it can meet one that waits for them with this one's in hand.
    ///
    /// # Errors
    /// The draft is refused, which changes nothing; the log does not hold together or a clock is astray, which can only be
    /// mended by hand; or the database refuses, fails or does not answer.
    ///
    /// # Cancel safety
    /// Dropped, the transaction is of no further use; it is rolled back when it is dropped.
    pub async fn append(
        &mut self,
        actor: &str,
        issuer: &str,
        draft: &EventDraft,
    ) -> Result<AppendedEvent, AppendError> {
        let refused = |source| AppendError::Draft { kind: draft.kind.clone(), source };
        let checked = draft::check(actor, issuer, draft).map_err(refused)?;
        let draft::Checked { kind, actor, issuer, payload } = checked;
        let middle = middle(kind, actor, issuer, &payload);
        let query = || {
            let query = sqlx::query(APPEND).bind(&middle).bind(kind).bind(actor).bind(issuer).bind(&payload);
            query.bind(wall_s())
        };
        let row = match self.fetch_optional(query()).await? {
            Some(row) => row,
            // Held against the events as they were before the wait for another writer, a good head looks wrong. Once it
            // is locked there is no such wait.
            None => {
                self.execute(sqlx::query(LOCK)).await?;
                match self.fetch_optional(query()).await? {
                    Some(row) => row,
                    None => return Err(self.why_not().await?),
                }
            }
        };
        let hash: Vec<u8> = row.try_get("hash").map_err(unexpected)?;
        let seq = row.try_get("seq").map_err(unexpected)?;
        Ok(AppendedEvent { seq, hash: Hash::from_slice(&hash).ok_or(AppendError::NoHead)? })
    }

    /// Why nothing is appended to the log as it stands.
    async fn why_not(&mut self) -> Result<AppendError, DatabaseError> {
        let ahead = self.fetch_optional(sqlx::query(IS_AHEAD).bind(wall_s())).await?;
        let is_ahead = ahead.map(|row| row.try_get(0)).transpose().map_err(unexpected)?.unwrap_or(false);
        let row = self.fetch_optional(sqlx::query(ENDS)).await?;
        let Some(ends) = row.map(|row| Ends::of(&row)).transpose()? else { return Ok(AppendError::NoHead) };
        Ok(match (ends.judge(), ends.astray) {
            (Err(broken), _) => AppendError::Broken(broken),
            (Ok(()), Some(Astray { head, now })) => AppendError::LogAhead { head, now },
            (Ok(()), None) if is_ahead => AppendError::DatabaseAhead,
            // The other clock has been set meanwhile, or rows were mended: the next call finds it so.
            (Ok(()), None) => AppendError::Changing,
        })
    }
}

/// What this process holds to be the time, in Unix seconds.
fn wall_s() -> i64 {
    SystemClock.wall().as_secs()
}

/// One statement and one round trip, so that the head is held for no longer than it takes: the next number, the time, the
/// hash and the row. `now` is read once, since it stands in the text and in the column; where another writer held the head
/// meanwhile, it is the time before that wait, and never below that writer's.
///
/// Nothing, where the head does not follow from the last event, or a clock is astray. A log without events, as when all of
/// it was cut off, begins with a time of its own, so that one from the future need not be followed for ever.
const APPEND: &str = concat!(
    r#"
WITH now AS MATERIALIZED (
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') COLLATE "C" AS at,
           to_char((at + "#,
    tolerance!(),
    r#") AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') COLLATE "C" AS latest
    FROM (SELECT clock_timestamp() AS at) AS clock
    WHERE at <= to_timestamp($6::bigint) + "#,
    tolerance!(),
    r#"
), head AS (
    UPDATE oneseal.event_head AS head SET
        seq = head.seq + 1,
        at = CASE WHEN head.at COLLATE "C" > now.latest THEN now.at ELSE greatest(head.at COLLATE "C", now.at) END,
        prev_hash = head.hash,
        hash = sha256(head.hash || convert_to(
            '{"seq":' || (head.seq + 1) || ',"at":"'
                || CASE WHEN head.at COLLATE "C" > now.latest THEN now.at ELSE greatest(head.at COLLATE "C", now.at) END
                || '",' || $1::text || ',"prev_hash":"' || encode(head.hash, 'hex') || '"', 'UTF8'))
    FROM now, oneseal.event_floor AS floor
    WHERE octet_length(head.hash) = 32 AND octet_length(head.prev_hash) = 32
        AND (head.at = '' AND head.seq = floor.seq OR head.at ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$')
        AND CASE WHEN head.seq = floor.seq THEN head.hash = floor.hash
            ELSE head.seq > floor.seq AND head.at COLLATE "C" <= now.latest AND EXISTS (
                SELECT FROM oneseal.events AS last WHERE last.seq = head.seq AND last.hash = head.hash
                    AND last.prev_hash = head.prev_hash AND last.at = head.at) END
        AND NOT EXISTS (SELECT FROM oneseal.events AS later WHERE later.seq > head.seq)
    RETURNING head.seq, head.at, head.prev_hash, head.hash
), event AS (
    INSERT INTO oneseal.events (seq, at, kind, actor, issuer, payload, prev_hash, hash)
    SELECT seq, at, $2, $3, $4, $5, prev_hash, hash FROM head
    RETURNING seq, hash
)
SELECT seq, hash, pg_notify('oneseal_events', seq::text) FROM event"#
);

/// What comes after it in the same transaction sees all that the writer before has committed.
const LOCK: &str = "SELECT FROM oneseal.event_head FOR UPDATE";

const IS_AHEAD: &str = concat!("SELECT clock_timestamp() > to_timestamp($1::bigint) + ", tolerance!());
