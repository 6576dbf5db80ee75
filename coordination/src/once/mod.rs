//! What may be used once, and was: of all replicas that try, one may.
//!
//! An id is used in a scope, such as the number of a document in the books of whoever gave it out. What is kept is the
//! SHA-256 of the two and the time until which the id could be used at all: nobody who reads the table learns an id, and
//! a long one takes no more room than a short one. One statement decides and marks, so that two callers cannot both find
//! it unused; the unique index makes the later one wait for the outcome of the earlier.
//!
//! Marks that are over are deleted by those who add one, a few at a time and the oldest first: more than are added, so the
//! table is never much larger than what is still in force, and no call pays for the flood of another.
//!
//! It holds as long as the database keeps what it has committed. A failover that loses the last transactions, or a backup
//! put back, lets what was used in between be used again until it is over.

use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};

use crate::clock::UnixTime;
use crate::database::{CommitError, Database};
use crate::migrate::{Component, Kind, Migration};

/// The table.
pub const ONCE: Component = Component {
    name: "once",
    migrations: &[Migration {
        version: 1,
        kind: Kind::Expand,
        min_binary: "0.1.0",
        sql: include_str!("schema.sql"),
    }],
};

/// Marks ids as used, in one database. Clones share its connections.
#[derive(Clone, Debug)]
pub struct UsedOnce {
    database: Database,
}

impl UsedOnce {
    /// How long a mark stays beyond its time, by the database's clock: whoever asks goes by a clock of their own, which may
    /// be behind that one.
    pub const KEPT_LONGER: Duration = Duration::from_secs(300);

    /// In the table of `database`, which [`ONCE`] makes.
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// Whether `id` in `scope` had not been used, and is now. Of several who ask at the same time, wherever they are, one
    /// hears `true`. It stays used until [`KEPT_LONGER`](Self::KEPT_LONGER) after `until`, when nobody may take it any
    /// more; a caller whose clock may be further behind the database's than that needs a later `until`.
    ///
    /// # Errors
    /// [`CommitError::NotCommitted`] if it is not marked: what the database says, or that it says nothing in time.
    /// [`CommitError::OutcomeUnknown`] if it may be marked; then it counts as used.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may be marked.
    pub async fn use_once(&self, scope: &str, id: &str, until: UnixTime) -> Result<bool, CommitError> {
        let mut tx = self.database.write().await.map_err(CommitError::NotCommitted)?;
        let mark = mark(scope, id);
        let seconds = (until + Self::KEPT_LONGER).as_secs();
        let query = sqlx::query(MARK).bind(&mark[..]).bind(seconds).bind(PRUNED_AT_ONCE);
        let marked = tx.execute(query).await.map_err(CommitError::NotCommitted)?;
        tx.commit().await?;
        Ok(marked == 1)
    }
}

/// What stands for an id in its scope. The length before the scope keeps `a` in `bc` apart from `ab` in `c`.
fn mark(scope: &str, id: &str) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(&(scope.len() as u64).to_be_bytes());
    context.update(scope.as_bytes());
    context.update(id.as_bytes());
    let mut mark = [0; 32];
    mark.copy_from_slice(context.finish().as_ref());
    mark
}

/// One row is changed if it was not in use: a new one, or an old one whose time is over. Others' marks of which somebody
/// else is just disposing are skipped, so that nobody waits for the sake of tidiness.
const MARK: &str = "WITH over AS ( \
        SELECT id FROM oneseal.used_once WHERE until < clock_timestamp() AND id <> $1 \
        ORDER BY until LIMIT $3 FOR UPDATE SKIP LOCKED), \
    pruned AS (DELETE FROM oneseal.used_once AS old USING over WHERE old.id = over.id) \
    INSERT INTO oneseal.used_once AS used (id, until) VALUES ($1, to_timestamp($2::bigint)) \
    ON CONFLICT (id) DO UPDATE SET until = excluded.until WHERE used.until < clock_timestamp()";

/// Many times what one call adds, few enough to cost no more than the call itself.
const PRUNED_AT_ONCE: i64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_letters_elsewhere_are_another_mark() {
        let marks = [mark("a", "bc"), mark("ab", "c"), mark("", "abc"), mark("abc", ""), mark("bc", "a")];
        for (index, one) in marks.iter().enumerate() {
            assert!(!marks[..index].contains(one));
        }
        assert_eq!(mark("a", "bc"), mark("a", "bc"));
    }
}
