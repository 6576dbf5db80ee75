//! Appending: the last thing that a transaction does before its COMMIT.

use sqlx::Row as _;

use super::draft::{self, DraftError};
use super::line::{Hash, middle};
use super::read::unexpected;
use crate::EventDraft;
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
    /// The draft is refused, which changes nothing; or the database refuses, fails or does not answer.
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
        let query = sqlx::query(APPEND)
            .bind(middle(kind, actor, issuer, &payload))
            .bind(kind)
            .bind(actor)
            .bind(issuer)
            .bind(&payload);
        let row = self.fetch_optional(query).await?.ok_or(AppendError::NoHead)?;
        let hash: Vec<u8> = row.try_get("hash").map_err(unexpected)?;
        let seq = row.try_get("seq").map_err(unexpected)?;
        Ok(AppendedEvent { seq, hash: Hash::from_slice(&hash).ok_or(AppendError::NoHead)? })
    }
}

/// One statement and one round trip, so that the head is held for no longer than it takes: the next number, the time, the
/// hash and the row. `now` is read once, since it stands in the text and in the column; where another writer held the head
/// meanwhile, it is the time before that wait, and never below that writer's.
const APPEND: &str = r#"
WITH now AS MATERIALIZED (
    SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') COLLATE "C" AS at
), head AS (
    UPDATE oneseal.event_head AS head SET
        seq = head.seq + 1,
        at = greatest(head.at COLLATE "C", now.at),
        prev_hash = head.hash,
        hash = sha256(head.hash || convert_to(
            '{"seq":' || (head.seq + 1) || ',"at":"' || greatest(head.at COLLATE "C", now.at) || '",' || $1::text
                || ',"prev_hash":"' || encode(head.hash, 'hex') || '"', 'UTF8'))
    FROM now
    RETURNING head.seq, head.at, head.prev_hash, head.hash
), event AS (
    INSERT INTO oneseal.events (seq, at, kind, actor, issuer, payload, prev_hash, hash)
    SELECT seq, at, $2, $3, $4, $5, prev_hash, hash FROM head
    RETURNING seq, hash
)
SELECT seq, hash, pg_notify('oneseal_events', seq::text) FROM event"#;
