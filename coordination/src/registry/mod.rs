//! Who is there: one row for each instance of a fleet, kept fresh by a beat.
//!
//! ```text
//! join ─► joining ─ beat(Live) ─► live ─ three beats missed ─► silent ─ beat ─► live
//!                                  │                              │
//!                                leave ─────────► gone ◄── forget, or a newer boot of the same instance joins
//! ```
//! *Silent* is not written: it is how long ago the last beat was, by the database's clock, so that a reader whose own clock
//! is wrong sees the same as the others. A replica that dies on its way in is silent as well. Time alone makes nobody *gone*: a replica that is silent may serve on, cut off
//! from the database, and who changes keys must reckon with that.
//!
//! A row's `facts` are opaque here: a JSON object that the layers above write and read. Whatever stands in a row, it harms
//! that row alone ([`RowFault`]): it is silent, it can be forgotten, and its instance can take its place again.

mod beat;
mod instance;
mod row;

use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row as _};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

pub use beat::{Beat, BeatAnswer, BeatError, RingRevision};
pub use instance::{InstanceId, NotAnInstance};
pub use row::{ReplicaState, Row, RowFault};

use crate::clock::{Clock, UnixTime};
use crate::database::{CommitError, Database, DatabaseError, DatabaseErrorKind, ReadTx};

/// From one beat to the next.
pub const BEAT_EVERY: Duration = Duration::from_secs(4);
/// Who has not beaten for so long is silent: three beats.
pub const SILENT_AFTER: Duration = Duration::from_secs(12);
/// The most that the facts of a replica may take, in bytes of JSON.
pub const FACTS_LIMIT: usize = 16 * 1024;
/// How long the row of who has left is still shown.
const GONE_FOR: Duration = Duration::from_secs(24 * 3600);

/// The registry of one fleet, seen by one boot of one instance of it.
#[derive(Clone, Debug)]
pub struct Registry {
    database: Database,
    clock: Arc<dyn Clock>,
    fleet: String,
    instance: InstanceId,
    boot: Uuid,
    ops_address: String,
    beat: Arc<str>,
}

/// Why an instance did not join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Another boot of the same instance still beats. Try again: when it has missed three beats, the place is free.
    #[error("{instance} already runs (boot {boot}, reached at {ops_address}, last beat {} s ago): two with one name would hide each other", beat_age.as_secs())]
    InstanceInUse {
        /// Whose name it is.
        instance: String,
        /// The other boot.
        boot: Uuid,
        /// Where that says it can be reached.
        ops_address: String,
        /// How long ago it has beaten.
        beat_age: Duration,
    },
    /// The facts are too long.
    #[error("the facts of a replica take {0} bytes, and {FACTS_LIMIT} are the most")]
    FactsTooLong(usize),
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// Why a row was not forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForgetError {
    /// There is no such row.
    #[error("{0} is not in the registry")]
    Unknown(String),
    /// It beats.
    #[error("{instance} is there: its last beat was {} s ago; stop it first", beat_age.as_secs())]
    Beats {
        /// Who it is.
        instance: String,
        /// How long ago it has beaten.
        beat_age: Duration,
    },
    /// The database does not answer, or refuses; or whether it was done is not known.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Registry {
    /// For this boot of `instance` of `fleet`. Writes nothing: [`Registry::join`] does.
    ///
    /// `ops_address` is where the other replicas ask this one, such as `http://10.0.0.7:8081`. `ring` is the query, with
    /// the fleet as `$1`, whose columns `incarnation`, `revision` (both bigint) and `digest` (text) say which ring the
    /// store holds; the tables behind it belong to a layer above, and without one a beat tells of no ring.
    pub fn new(
        database: Database,
        clock: Arc<dyn Clock>,
        fleet: impl Into<String>,
        instance: InstanceId,
        boot: Uuid,
        ops_address: impl Into<String>,
        ring: Option<&'static str>,
    ) -> Self {
        let (fleet, ops_address) = (fleet.into(), ops_address.into());
        let beat = beat::statement(ring).into();
        Self { database, clock, fleet, instance, boot, ops_address, beat }
    }

    /// The fleet.
    pub fn fleet(&self) -> &str {
        &self.fleet
    }

    /// This instance.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// This boot of it.
    pub fn boot(&self) -> Uuid {
        self.boot
    }

    /// Takes the place of this instance, as `joining`. Joining twice is once.
    ///
    /// # Errors
    /// [`JoinError::InstanceInUse`] while an earlier boot of it beats.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may or may not have joined; joining again is right.
    pub async fn join(&self, facts: &Value) -> Result<(), JoinError> {
        let facts = facts_text(facts).map_err(JoinError::FactsTooLong)?;
        let mut tx = self.database.write().await?;
        tx.execute(sqlx::query(SWEEP).bind(&self.fleet).bind(GONE_FOR.as_secs_f64())).await?;
        let query = sqlx::query(JOIN)
            .bind(&self.fleet)
            .bind(self.instance.as_str())
            .bind(self.boot.to_string())
            .bind(&self.ops_address)
            .bind(&facts)
            .bind(SILENT_AFTER.as_secs_f64());
        if tx.execute(query).await? == 0 {
            // Locked by the statement before: what is read is what was in the way.
            let query = sqlx::query(row::ONE).bind(&self.fleet).bind(self.instance.as_str());
            let other = tx.fetch_optional(query).await?.map(|found| Row::read(&found)).transpose()?;
            tx.roll_back().await;
            let other = other.ok_or_else(|| conflict(&self.instance))?;
            return Err(JoinError::InstanceInUse {
                instance: other.instance,
                boot: other.boot,
                ops_address: other.ops_address,
                beat_age: other.beat_age,
            });
        }
        tx.commit().await.map_err(into_database_error)?;
        Ok(())
    }

    /// All rows of the fleet, this one's and those that are gone included, by instance.
    ///
    /// # Errors
    /// As [`Database::read`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn rows(&self) -> Result<Vec<Row>, DatabaseError> {
        rows(&self.database, &self.fleet).await
    }

    /// Says that this boot serves no more. To be called when its listener is closed. Leaving twice is once.
    ///
    /// # Errors
    /// As [`Database::write`].
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may or may not have left; then it is silent after three beats.
    pub async fn leave(&self) -> Result<(), DatabaseError> {
        let mut tx = self.database.write().await?;
        let query =
            sqlx::query(LEAVE).bind(&self.fleet).bind(self.instance.as_str()).bind(self.boot.to_string());
        tx.execute(query).await?;
        tx.commit().await.map_err(into_database_error)
    }

    fn beat_query(&self) -> AssertSqlSafe<Arc<str>> {
        // Made of constants alone, once, by `beat::statement`.
        AssertSqlSafe(Arc::clone(&self.beat))
    }
}

/// All rows of `fleet`, by instance.
///
/// # Errors
/// As [`Database::read`].
///
/// # Cancel safety
/// Changes nothing.
pub async fn rows(database: &Database, fleet: &str) -> Result<Vec<Row>, DatabaseError> {
    let mut tx = database.read().await?;
    let found = tx.fetch_all(sqlx::query(row::ALL).bind(fleet)).await?;
    tx.end().await;
    found.iter().map(Row::read).collect()
}

/// All rows of `fleet`, by instance, and the database's clock just before they were read.
///
/// # Errors
/// As [`Database::read`].
///
/// # Cancel safety
/// Changes nothing.
pub async fn look(database: &Database, fleet: &str) -> Result<(UnixTime, Vec<Row>), DatabaseError> {
    let mut tx = database.read().await?;
    let seen = look_in(&mut tx, fleet).await?;
    tx.end().await;
    Ok(seen)
}

/// As [`look`], and then which ring the store holds, by the query that [`Registry::new`] takes too. It is read after the
/// rows, so that it is no older than what they claim: whoever has told a revision had read it there.
///
/// # Errors
/// As [`Database::read`].
///
/// # Cancel safety
/// Changes nothing.
pub async fn look_with_ring(
    database: &Database,
    fleet: &str,
    ring: &'static str,
) -> Result<(UnixTime, Vec<Row>, Option<RingRevision>), DatabaseError> {
    let mut tx = database.read().await?;
    let (now, rows) = look_in(&mut tx, fleet).await?;
    let found = tx.fetch_optional(sqlx::query(ring).bind(fleet)).await?;
    tx.end().await;
    let read = |row: &PgRow| {
        Ok(RingRevision {
            incarnation: row.try_get("incarnation")?,
            revision: row.try_get("revision")?,
            digest: row.try_get("digest")?,
        })
    };
    let ring = found.as_ref().map(read).transpose().map_err(|error: sqlx::Error| {
        DatabaseError::new(
            DatabaseErrorKind::Internal,
            format!("the row of the ring is not as it should be: {error}"),
        )
    })?;
    Ok((now, rows, ring))
}

async fn look_in(tx: &mut ReadTx, fleet: &str) -> Result<(UnixTime, Vec<Row>), DatabaseError> {
    let found = tx.fetch_optional(sqlx::query(NOW)).await?;
    let now = found.map_or(Ok(0), |row| row.try_get("now_s")).map_err(|error| {
        DatabaseError::new(
            DatabaseErrorKind::Internal,
            format!("the database does not tell the time: {error}"),
        )
    })?;
    let found = tx.fetch_all(sqlx::query(row::ALL).bind(fleet)).await?;
    let rows = found.iter().map(Row::read).collect::<Result<_, _>>()?;
    Ok((UnixTime(now), rows))
}

/// Declares `instance` of `fleet` gone: somebody knows that it serves no more. Forgetting twice is once. Gives back the row
/// as it was. It commits by itself; [`forget_in`] does it in a transaction with more.
///
/// # Errors
/// [`ForgetError::Beats`] for one that beats.
///
/// # Cancel safety
/// Dropped in the middle, it may or may not be forgotten.
pub async fn forget(database: &Database, fleet: &str, instance: &str) -> Result<Row, ForgetError> {
    let mut tx = database.write().await?;
    let row = forget_in(&mut tx, fleet, instance).await?;
    tx.commit().await.map_err(into_database_error)?;
    Ok(row)
}

/// As [`forget`], in a transaction with more.
///
/// # Errors
/// As [`forget`].
///
/// # Cancel safety
/// As [`WriteTx::execute`](crate::database::WriteTx::execute).
pub async fn forget_in(
    tx: &mut crate::database::WriteTx,
    fleet: &str,
    instance: &str,
) -> Result<Row, ForgetError> {
    let query = sqlx::query(row::ONE_LOCKED).bind(fleet).bind(instance);
    let found = tx.fetch_optional(query).await?;
    let Some(found) = found else { return Err(ForgetError::Unknown(instance.to_owned())) };
    let row = Row::read(&found)?;
    if row.beats() {
        return Err(ForgetError::Beats { instance: row.instance, beat_age: row.beat_age });
    }
    let query = sqlx::query(LEAVE).bind(fleet).bind(instance).bind(row.boot.to_string());
    tx.execute(query).await?;
    Ok(row)
}

fn facts_text(facts: &Value) -> Result<String, usize> {
    let text = facts.to_string();
    if text.len() > FACTS_LIMIT { Err(text.len()) } else { Ok(text) }
}

fn conflict(instance: &InstanceId) -> DatabaseError {
    let message = format!("somebody else changed the row of {instance} at the same time; try again");
    DatabaseError::new(DatabaseErrorKind::Conflict, message)
}

/// The registry's own writes are repeated until they are answered, so what a commit left open is a failure like another.
fn into_database_error(error: CommitError) -> DatabaseError {
    match error {
        CommitError::NotCommitted(error) | CommitError::OutcomeUnknown(error) => error,
    }
}

const NOW: &str = "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint AS now_s";

const JOIN: &str = concat!(
    "INSERT INTO oneseal.replicas AS old \
        (fleet, instance, boot, state, ops_address, facts, joined_at, state_since, beat_at) \
    VALUES ($1, $2, $3::uuid, 'joining', $4, $5, clock_timestamp(), clock_timestamp(), clock_timestamp()) \
    ON CONFLICT (fleet, instance) DO UPDATE SET boot = excluded.boot, state = excluded.state, \
        ops_address = excluded.ops_address, facts = excluded.facts, joined_at = excluded.joined_at, \
        state_since = excluded.state_since, beat_at = excluded.beat_at \
    WHERE old.boot = excluded.boot OR NOT (",
    row::beats!(),
    ")"
);

const LEAVE: &str = "UPDATE oneseal.replicas SET state = 'gone', state_since = clock_timestamp() \
    WHERE fleet = $1 AND instance = $2 AND boot = $3::uuid AND state <> 'gone'";

const SWEEP: &str = "DELETE FROM oneseal.replicas \
    WHERE fleet = $1 AND state = 'gone' AND state_since NOT BETWEEN \
        clock_timestamp() - make_interval(secs => $2) AND clock_timestamp() + make_interval(secs => $2)";
