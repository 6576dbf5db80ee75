//! Reading the log out of the database: a page at a time, each judged before anybody sees it.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::chain::Broken;
use super::cursor::Position;
use super::line::{Event, Hash};
use super::page::{Asked, From, Page, Reset, Taken, number_of, take};
use crate::database::{Database, DatabaseError, DatabaseErrorKind, ReadTx};

/// Why the log could not be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// It is not what was written.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// Its floor or its head is gone.
    #[error(
        "the rows of oneseal.event_head and oneseal.event_floor are gone: restore the database from a backup that has them"
    )]
    NoLog,
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// What a [`Reader`] has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Read {
    /// The next events, whole and chained to the last; none if that was the last.
    Events(Vec<Event>),
    /// Where it stood is of no use, and it stands at the floor now.
    Reset(Reset),
}

/// Reads on from where it stands.
#[derive(Clone, Debug)]
pub struct Reader {
    from: From,
    stands: Option<Position>,
    is_at_end: bool,
}

impl Reader {
    /// Stands there.
    pub fn new(from: From) -> Self {
        Self { from, stands: None, is_at_end: false }
    }

    /// Where it stands; `None` before the first page.
    pub fn position(&self) -> Option<Position> {
        self.stands
    }

    /// Whether the last page was the end of the log at that moment.
    pub fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// The next page: one statement, at most [`PAGE`] events.
    ///
    /// # Errors
    /// The log is broken, or the database does not answer; it stands where it stood.
    ///
    /// # Cancel safety
    /// Dropped, it stands where it stood.
    pub async fn read(&mut self, database: &Database) -> Result<Read, LogError> {
        let mut tx = database.read().await?;
        let page = page(&mut tx, number_of(self.from), PAGE).await?;
        tx.end().await;
        Ok(match take(self.from, page)? {
            Taken::Events { from, events, is_all } => {
                let last = events.last().map_or(from, |event| Position { seq: event.seq, hash: event.hash });
                self.stand(last, is_all);
                Read::Events(events)
            }
            Taken::Reset(reset) => {
                self.stand(reset.floor, false);
                Read::Reset(reset)
            }
        })
    }

    /// Goes on after `event`, which was had from elsewhere and is the next one.
    pub(super) fn advance(&mut self, event: &Event) {
        self.stand(Position { seq: event.seq, hash: event.hash }, true);
    }

    fn stand(&mut self, position: Position, is_at_end: bool) {
        self.from = From::Cursor(position.cursor());
        self.stands = Some(position);
        self.is_at_end = is_at_end;
    }
}

/// A piece of the log as it stands in the database, whatever it is worth: for who writes it out as evidence.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RawPage {
    /// The last event that was cut off.
    pub floor: Position,
    /// The last event that there is.
    pub head: Position,
    /// At most [`PAGE`] of those after the number that was asked for, or after the floor if that is further.
    pub events: Vec<Event>,
}

/// Reads what comes after `seq` without judging it.
///
/// # Errors
/// The database does not answer, or has no log.
///
/// # Cancel safety
/// Dropped, it leaves nothing behind.
pub async fn read_raw(database: &Database, seq: i64) -> Result<RawPage, LogError> {
    let mut tx = database.read().await?;
    let Page { head, floor, events, .. } = page(&mut tx, Asked::After(seq), PAGE).await?;
    tx.end().await;
    Ok(RawPage { floor, head, events })
}

/// Reads a page out of one moment of the log, unjudged.
pub(super) async fn page(tx: &mut ReadTx, asked: Asked, limit: i64) -> Result<Page, LogError> {
    let (which, after) = match asked {
        Asked::Head => ("head", 0),
        Asked::Floor => ("floor", 0),
        Asked::After(seq) => ("after", seq),
    };
    let rows = tx.fetch_all(sqlx::query(READ).bind(which).bind(after).bind(limit)).await?;
    let first = rows.first().ok_or(LogError::NoLog)?;
    let position = |seq: &str, hash: &str| -> Result<Position, LogError> {
        let seq = first.try_get(seq).map_err(unexpected)?;
        Ok(Position { seq, hash: hash_of(first, hash)?.ok_or(LogError::NoLog)? })
    };
    Ok(Page {
        head: position("head_seq", "head_hash")?,
        floor: position("floor_seq", "floor_hash")?,
        stands_at: hash_of(first, "stands_at")?,
        events: rows.iter().filter_map(|row| event_of(row).transpose()).collect::<Result<_, _>>()?,
    })
}

/// The event of a row; none where the row is there only for head and floor.
fn event_of(row: &PgRow) -> Result<Option<Event>, LogError> {
    let text = |column: &str| row.try_get::<String, _>(column).map_err(unexpected);
    let Some(seq) = row.try_get::<Option<i64>, _>("seq").map_err(unexpected)? else { return Ok(None) };
    // What has another length than a hash cannot be the right one; it is judged as one that is not.
    let hash = |column: &str| Ok::<_, LogError>(hash_of(row, column)?.unwrap_or(Hash::ZERO));
    Ok(Some(Event {
        seq,
        at: text("at")?,
        kind: text("kind")?,
        actor: text("actor")?,
        issuer: text("issuer")?,
        payload: text("payload")?,
        prev_hash: hash("prev_hash")?,
        hash: hash("hash")?,
    }))
}

/// A column of another type than our tables have.
pub(super) fn unexpected(error: sqlx::Error) -> DatabaseError {
    let words = "the tables of the event log are not those of this version; run `oneseal db migrate`";
    DatabaseError::new(DatabaseErrorKind::Schema, words).because(error)
}

fn hash_of(row: &PgRow, column: &str) -> Result<Option<Hash>, LogError> {
    let bytes = row.try_get::<Option<Vec<u8>>, _>(column).map_err(unexpected)?;
    Ok(bytes.and_then(|bytes| Hash::from_slice(&bytes)))
}

/// Head, floor, the event one stands at, and those after it, in one statement and so of one moment. A row comes also where
/// there is no event.
const READ: &str = r#"
SELECT head.seq AS head_seq, head.hash AS head_hash, floor.seq AS floor_seq, floor.hash AS floor_hash,
       (SELECT hash FROM oneseal.events WHERE seq = asked.after) AS stands_at,
       event.seq, event.at, event.kind, event.actor, event.issuer, event.payload, event.prev_hash, event.hash
FROM oneseal.event_head AS head
CROSS JOIN oneseal.event_floor AS floor
CROSS JOIN LATERAL (
    SELECT CASE $1::text WHEN 'head' THEN head.seq WHEN 'floor' THEN floor.seq ELSE $2::bigint END AS after
) AS asked
LEFT JOIN LATERAL (
    SELECT * FROM oneseal.events WHERE seq > asked.after ORDER BY seq LIMIT $3
) AS event ON true
ORDER BY event.seq"#;

/// The most events of one page. Few are larger than a kilobyte.
pub const PAGE: i64 = 256;
