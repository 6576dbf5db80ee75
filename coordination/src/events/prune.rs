//! Cutting off the beginning of the log.
//!
//! What is cut is a prefix that ends before the last [checkpoint](super::CHECKPOINT) of every ring whose history is in it, so
//! that each ring's state still follows from the log alone. The floor, the number and hash of the last event that went,
//! moves in the same transaction as the rows go: whoever reads meanwhile has the whole log before or the whole log after.

use sqlx::Row as _;

use super::append::AppendError;
use super::chain::Broken;
use super::cursor::Position;
use super::draft::is_moment;
use super::page::From;
use super::read::{LogError, Read, Reader, unexpected};
use super::{CHECKPOINT, Hash};
use crate::EventDraft;
use crate::database::{CommitError, Database, DatabaseError};

/// Up to where the log is to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// This event stays, and those before it go.
    Seq(i64),
    /// Events of this moment or later stay: UTC, as `2026-11-30T01:02:03.000000Z`.
    Moment(String),
}

/// What would go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrunePlan {
    /// The last event that has gone already.
    pub floor: Position,
    /// The last event that is to go; the floor, if none is.
    pub cut: Position,
    /// When that one happened.
    pub cut_at: Option<String>,
    /// The ring whose checkpoint keeps the log from being cut as far as was asked, and that event's number.
    pub held_by: Option<(String, i64)>,
}

impl PrunePlan {
    /// How many would go.
    pub fn count(&self) -> i64 {
        self.cut.seq - self.floor.seq
    }
}

/// Why the log was not cut, or not as far as planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// It is broken in the part that would go: that part is evidence.
    #[error(
        "nothing is cut off a log that is broken: write it out with `oneseal events export` first, and find out what happened"
    )]
    Broken(#[source] Broken),
    /// The moment is not written as the log writes them.
    #[error("a moment is written as 2026-11-30T01:02:03.000000Z")]
    Moment,
    /// Only the owner of the tables may.
    #[error(
        "database {place} does not let {user} cut off events: that is for the owner of the tables alone. Run this with the \
         owner's URL, as for `oneseal db migrate`: ONESEAL__DATABASE__URL_FILE names the file that holds it"
    )]
    NotOwner {
        /// The database.
        place: String,
        /// Who asked.
        user: String,
    },
    /// Somebody else has cut it meanwhile.
    #[error("the log's floor has moved: somebody else cuts it too; look again")]
    Moved,
    /// It could not be read.
    #[error(transparent)]
    Log(LogError),
    /// The event that tells of it could not be written.
    #[error("the cut is not committed, since it could not be logged")]
    Append(#[from] AppendError),
    /// It was not committed, or nobody knows.
    #[error("the cut may not be committed; look again")]
    Commit(#[from] CommitError),
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl std::convert::From<LogError> for PruneError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Broken(broken) => Self::Broken(broken),
            error => Self::Log(error),
        }
    }
}

/// Looks what a cut would take. Rings of the issuers in `ignored`, which are no more, hold nothing back.
///
/// # Errors
/// The database does not answer, this user may cut off nothing, or the moment makes no sense.
pub async fn plan_prune(
    database: &Database,
    before: &Before,
    ignored: &[String],
) -> Result<PrunePlan, PruneError> {
    if matches!(before, Before::Moment(moment) if !is_moment(moment)) {
        return Err(PruneError::Moment);
    }
    let mut tx = database.read().await?;
    let (seq, moment) = match before {
        Before::Seq(seq) => (Some(*seq), None),
        Before::Moment(moment) => (None, Some(moment.as_str())),
    };
    let query = sqlx::query(PLAN).bind(seq).bind(moment).bind(CHECKPOINT).bind(ignored);
    let row = tx.fetch_optional(query).await?.ok_or(LogError::NoLog)?;
    tx.end().await;
    if !row.try_get::<bool, _>("may_cut").map_err(unexpected)? {
        let user = row.try_get("who").map_err(unexpected)?;
        return Err(PruneError::NotOwner { place: database.location(), user });
    }
    let number = |column: &str| row.try_get::<Option<i64>, _>(column).map_err(unexpected);
    let hash = |column: &str| -> Result<Hash, PruneError> {
        let bytes: Option<Vec<u8>> = row.try_get(column).map_err(unexpected)?;
        bytes.and_then(|bytes| Hash::from_slice(&bytes)).ok_or(PruneError::Log(LogError::NoLog))
    };
    let floor = Position { seq: number("floor")?.ok_or(LogError::NoLog)?, hash: hash("floor_hash")? };
    let cut = number("cut")?.unwrap_or(floor.seq);
    let cut = if cut <= floor.seq { floor } else { Position { seq: cut, hash: hash("cut_hash")? } };
    let holder: Option<String> = row.try_get("holder").map_err(unexpected)?;
    Ok(PrunePlan {
        floor,
        cut,
        cut_at: row.try_get("cut_at").map_err(unexpected)?,
        held_by: holder.zip(number("held_at")?),
    })
}

/// Cuts off what `plan` says, in pieces, each with its floor and the event that tells of it, so that wherever it is cut
/// short the log says how far it went. `progress` is told how many have
/// gone. What would go is read and judged before.
///
/// # Errors
/// What would go is broken, somebody else cuts too, or the database fails; a part may have gone, with the floor at its end.
///
/// # Cancel safety
/// Dropped, a part may have gone, with the floor at its end; what is left is whole.
pub async fn prune(
    database: &Database,
    actor: &str,
    plan: &PrunePlan,
    mut progress: impl FnMut(i64),
) -> Result<(), PruneError> {
    verify(database, plan).await?;
    let mut floor = plan.floor.seq;
    while floor < plan.cut.seq {
        let to = plan.cut.seq.min(floor + AT_ONCE);
        let mut tx = database.write().await?;
        let row =
            tx.fetch_optional(sqlx::query(MOVE).bind(floor).bind(to)).await?.ok_or(PruneError::Moved)?;
        let hash: Vec<u8> = row.try_get("hash").map_err(unexpected)?;
        let hash = Hash::from_slice(&hash).ok_or(PruneError::Moved)?;
        tx.execute(sqlx::query(DELETE).bind(to)).await?;
        tx.append(actor, "", &said(to - floor, Position { seq: to, hash })).await?;
        tx.commit().await?;
        floor = to;
        progress(floor - plan.floor.seq);
    }
    Ok(())
}

async fn verify(database: &Database, plan: &PrunePlan) -> Result<(), PruneError> {
    let mut reader = Reader::new(From::Cursor(plan.floor.cursor()));
    while reader.position().is_none_or(|position| position.seq < plan.cut.seq) {
        if matches!(reader.read(database).await?, Read::Reset(_)) {
            return Err(PruneError::Moved);
        }
        if reader.is_at_end() {
            break;
        }
    }
    Ok(())
}

fn said(count: i64, floor: Position) -> EventDraft {
    let Position { seq, hash } = floor;
    let payload = format!("{{\"count\":{count},\"floor_hash\":\"{hash}\",\"floor_seq\":{seq}}}");
    EventDraft::new("events.pruned", payload)
}

/// The cut is the last event before what was asked for, and before the earliest of all rings' last checkpoints; a ring
/// without one holds back all from its first event on.
const PLAN: &str = r#"
WITH asked AS (
    SELECT greatest(1, least(head.seq + 1, coalesce(
        $1::bigint,
        (SELECT seq FROM oneseal.events WHERE at COLLATE "C" >= $2::text COLLATE "C" ORDER BY seq LIMIT 1)))) AS before
    FROM oneseal.event_head AS head
), rings AS (
    SELECT issuer, coalesce(max(seq) FILTER (WHERE kind = $3), min(seq)) AS keep
    FROM oneseal.events
    WHERE (kind LIKE 'ring.%' OR kind LIKE 'key.%') AND kind <> 'key.private_exported' AND issuer <> ALL ($4)
    GROUP BY issuer
), holder AS (
    SELECT issuer, keep FROM rings, asked WHERE keep < asked.before ORDER BY keep LIMIT 1
), cut AS (
    SELECT coalesce((SELECT keep FROM holder), asked.before) - 1 AS seq FROM asked
)
SELECT floor.seq AS floor, floor.hash AS floor_hash, cut.seq AS cut, event.hash AS cut_hash, event.at AS cut_at,
       (SELECT issuer FROM holder) AS holder, (SELECT keep FROM holder) AS held_at, current_user::text AS who,
       has_table_privilege('oneseal.events', 'DELETE') AND has_table_privilege('oneseal.event_floor', 'UPDATE') AS may_cut
FROM oneseal.event_floor AS floor CROSS JOIN cut LEFT JOIN oneseal.events AS event ON event.seq = cut.seq"#;

/// Nothing, where the floor is not where it was or the event is not there.
const MOVE: &str = "\
UPDATE oneseal.event_floor AS floor SET seq = event.seq, hash = event.hash
FROM oneseal.events AS event
WHERE floor.seq = $1 AND event.seq = $2
RETURNING floor.seq, floor.hash";

const DELETE: &str = "DELETE FROM oneseal.events WHERE seq <= $1";
/// Rows of one transaction, which stay far below any time-out.
const AT_ONCE: i64 = 10_000;
