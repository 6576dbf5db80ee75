//! Whether the rows that the log hangs on, its head and its floor, follow from its events.
//!
//! Whoever appends may write the head, and so can write anything into it; what is appended after that would be chained to
//! nothing, for ever. So both are held against the events before anything is appended, and by `events verify`.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::Hash;
use super::chain::{Broken, Fault};
use super::draft::is_moment;
use super::read::{LogError, unexpected};
use crate::database::{Database, DatabaseError, ReadTx};

/// Holds head and floor of the live log against its events, and looks for rows that stand outside of it. What a
/// [`Reader`](super::Reader) cannot see since it begins at the floor; the events themselves are its part.
///
/// # Errors
/// The database does not answer, or the rows of head or floor are gone.
///
/// # Cancel safety
/// Changes nothing.
pub async fn audit(database: &Database) -> Result<Result<(), Broken>, LogError> {
    let mut tx = database.read().await?;
    let ends = Ends::read(&mut tx).await?;
    tx.end().await;
    Ok(ends.ok_or(LogError::NoLog)?.judge())
}

/// Head and floor, and what stands beside them, as of one moment. Hashes are as they stand there, whatever their length.
#[derive(Debug)]
pub(super) struct Ends {
    head: Row,
    floor: (i64, Vec<u8>),
    /// The event with the highest number.
    last: Option<Row>,
    /// An event that stands at or below the floor, where none is.
    below: Option<i64>,
    /// The payload of the last event that tells of a cut.
    pruned: Option<String>,
    /// The head is later than the database's clock by more than clocks differ: that clock, then.
    pub(super) astray: Option<Astray>,
}

/// The time of the log's last event, and what the database's clock says now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Astray {
    pub(super) head: String,
    pub(super) now: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    seq: i64,
    at: String,
    prev_hash: Vec<u8>,
    hash: Vec<u8>,
}

impl Ends {
    /// `None` where the rows of head or floor are gone.
    pub(super) async fn read(tx: &mut ReadTx) -> Result<Option<Self>, DatabaseError> {
        tx.fetch_optional(sqlx::query(ENDS)).await?.map(|row| Self::of(&row)).transpose()
    }

    /// From a row of [`ENDS`].
    pub(super) fn of(row: &PgRow) -> Result<Self, DatabaseError> {
        Self::columns(row).map_err(unexpected)
    }

    fn columns(row: &PgRow) -> Result<Self, sqlx::Error> {
        let head = Row {
            seq: row.try_get("head_seq")?,
            at: row.try_get("head_at")?,
            prev_hash: row.try_get("head_prev_hash")?,
            hash: row.try_get("head_hash")?,
        };
        let last = match row.try_get::<Option<i64>, _>("last_seq")? {
            Some(seq) => Some(Row {
                seq,
                at: row.try_get("last_at")?,
                prev_hash: row.try_get("last_prev_hash")?,
                hash: row.try_get("last_hash")?,
            }),
            None => None,
        };
        let is_late: bool = row.try_get("is_late")?;
        let now: String = row.try_get("now")?;
        let astray = is_late.then(|| Astray { head: head.at.clone(), now });
        Ok(Self {
            floor: (row.try_get("floor_seq")?, row.try_get("floor_hash")?),
            last,
            below: row.try_get("below")?,
            pruned: row.try_get("pruned")?,
            astray,
            head,
        })
    }

    /// What does not follow, the first that is found.
    pub(super) fn judge(&self) -> Result<(), Broken> {
        let floor = self.floor.0;
        if let Some(why) = self.of_floor() {
            return Err(Broken { seq: floor.saturating_add(1), fault: Fault::Floor { why } });
        }
        if let Some(seq) = self.below {
            return Err(Broken { seq, fault: Fault::Below { floor } });
        }
        let Some(fault) = self.of_head() else { return Ok(()) };
        let last = match &fault {
            Fault::Missing { .. } => self.last.as_ref().map_or(floor, |last| last.seq),
            _ => self.head.seq.max(floor),
        };
        Err(Broken { seq: last.saturating_add(1), fault })
    }

    fn of_floor(&self) -> Option<String> {
        let (seq, hash) = &self.floor;
        let Some(hash) = Hash::from_slice(hash) else {
            return Some(format!("its hash has {} bytes", hash.len()));
        };
        if *seq == 0 {
            return (hash != Hash::ZERO).then(|| format!("it stands at 0 with the hash {hash}"));
        }
        if *seq < 0 {
            return Some(format!("it stands at {seq}"));
        }
        let told = self.pruned.as_deref().and_then(|payload| {
            let payload: serde_json::Value = serde_json::from_str(payload).ok()?;
            Some(payload["floor_seq"] == *seq && payload["floor_hash"] == hash.to_string())
        });
        (told != Some(true))
            .then(|| format!("it stands at {seq}-{hash}, and no events.pruned tells of that cut"))
    }

    fn of_head(&self) -> Option<Fault> {
        let head = &self.head;
        let is_empty = head.seq == self.floor.0;
        let of_form = |why: &str| Some(Fault::Head { why: why.to_owned() });
        if [&head.hash, &head.prev_hash].iter().any(|hash| Hash::from_slice(hash).is_none()) {
            return of_form("a hash in it has not 32 bytes");
        }
        let has_no_time_yet = is_empty && head.at.is_empty();
        if !has_no_time_yet && !is_moment(&head.at) {
            return of_form("its time is not written as 2026-11-30T01:02:03.000000Z");
        }
        match &self.last {
            None if !is_empty => Some(Fault::Missing { head: head.seq }),
            None => (head.hash != self.floor.1).then(|| Fault::Head {
                why: "its hash is not that of the event at which the log was cut off".to_owned(),
            }),
            Some(last) if last.seq < head.seq => Some(Fault::Missing { head: head.seq }),
            Some(last) if last.seq > head.seq => Some(Fault::Beyond { head: head.seq }),
            Some(last) if last != head => of_form("time or hashes in it are not those of the last event"),
            Some(_) => None,
        }
    }
}

/// How much later than the clock of the database, and that how much later than this process's, an event may be. Clocks
/// that are kept differ by seconds; one hour lets pass whatever a failover brings, and no clock that has lost its year.
macro_rules! tolerance {
    () => {
        "interval '1 hour'"
    };
}
pub(super) use tolerance;

/// One row, of one moment; none where head or floor is gone.
pub(super) const ENDS: &str = concat!(
    r#"
SELECT head.seq AS head_seq, head.at AS head_at, head.prev_hash AS head_prev_hash, head.hash AS head_hash,
       floor.seq AS floor_seq, floor.hash AS floor_hash,
       last.seq AS last_seq, last.at AS last_at, last.prev_hash AS last_prev_hash, last.hash AS last_hash,
       (SELECT seq FROM oneseal.events WHERE seq <= floor.seq ORDER BY seq LIMIT 1) AS below,
       CASE WHEN floor.seq <> 0 THEN
           (SELECT payload FROM oneseal.events WHERE kind = 'events.pruned' ORDER BY seq DESC LIMIT 1) END AS pruned,
       clock.now, head.seq <> floor.seq AND head.at COLLATE "C" > clock.latest COLLATE "C" AS is_late
FROM oneseal.event_head AS head
CROSS JOIN oneseal.event_floor AS floor
CROSS JOIN (
    SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS now,
           to_char((at + "#,
    tolerance!(),
    r#") AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS latest
    FROM (SELECT clock_timestamp() AS at) AS reading
) AS clock
LEFT JOIN LATERAL (
    SELECT seq, at, prev_hash, hash FROM oneseal.events ORDER BY seq DESC LIMIT 1
) AS last ON true"#
);

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: i64, at: &str, byte: u8) -> Row {
        Row { seq, at: at.to_owned(), prev_hash: vec![byte - 1; 32], hash: vec![byte; 32] }
    }

    /// A good log of five events, of which the first two are cut off.
    fn good() -> Ends {
        let at = "2026-11-30T01:02:03.000000Z";
        let floor = vec![2; 32];
        let pruned = format!("{{\"floor_hash\":\"{}\",\"floor_seq\":2}}", "02".repeat(32));
        Ends {
            head: row(5, at, 5),
            floor: (2, floor),
            last: Some(row(5, at, 5)),
            below: None,
            pruned: Some(pruned),
            astray: None,
        }
    }

    fn word(change: impl FnOnce(&mut Ends)) -> Option<(i64, &'static str)> {
        let mut ends = good();
        change(&mut ends);
        ends.judge().err().map(|broken| (broken.seq, broken.fault.word()))
    }

    #[test]
    fn each_way_in_which_the_ends_do_not_follow_is_named() {
        assert_eq!(word(|_| {}), None);
        assert_eq!(word(|ends| ends.head.at = "zzz".to_owned()), Some((6, "head")));
        assert_eq!(word(|ends| ends.head.at = "2026-11-30T01:02:04.000000Z".to_owned()), Some((6, "head")));
        assert_eq!(word(|ends| ends.head.hash.truncate(1)), Some((6, "head")));
        assert_eq!(word(|ends| ends.head.prev_hash.clear()), Some((6, "head")));
        assert_eq!(word(|ends| ends.head.prev_hash[0] = 9), Some((6, "head")));
        assert_eq!(word(|ends| ends.head.seq = 7), Some((6, "missing")));
        assert_eq!(word(|ends| ends.head.seq = 4), Some((5, "beyond")));
        assert_eq!(word(|ends| ends.head.seq = i64::MIN), Some((3, "beyond")));
        assert_eq!(word(|ends| ends.last = None), Some((3, "missing")));
        assert_eq!(word(|ends| ends.below = Some(-7)), Some((-7, "below")));
        assert_eq!(word(|ends| ends.pruned = None), Some((3, "floor")));
        assert_eq!(word(|ends| ends.floor.0 = 3), Some((4, "floor")));
        assert_eq!(word(|ends| ends.floor.0 = -1), Some((0, "floor")));
        assert_eq!(word(|ends| ends.floor.1.truncate(3)), Some((3, "floor")));
        assert_eq!(word(|ends| ends.floor = (0, vec![1; 32])), Some((1, "floor")));
    }

    #[test]
    fn a_log_without_events_may_have_no_time_yet_and_ends_at_its_floor() {
        let empty = |ends: &mut Ends| {
            (ends.head, ends.floor, ends.last) = (row(0, "", 1), (0, vec![0; 32]), None);
            (ends.head.hash, ends.head.prev_hash) = (vec![0; 32], vec![0; 32]);
        };
        assert_eq!(word(empty), None);
        assert_eq!(
            word(|ends| {
                empty(ends);
                ends.head.hash = vec![1; 32];
            }),
            Some((1, "head"))
        );
    }
}
