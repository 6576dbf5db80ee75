//! Transactions: the only way to ask the database anything.
//!
//! Every query runs between BEGIN and COMMIT, without a named prepared statement, so that a pooler which hands the server
//! on after each transaction breaks nothing. The first round trip also sets the time-outs and asks which role the server
//! has; an answer that is missing counts as the wrong one. None of it is a query for `pg_stat_statements` with
//! `track_utility = off`.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnection, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor, Row};
use tokio::time::timeout;

use super::error::{CommitError, DatabaseError, DatabaseErrorKind};
use super::pool::{Lease, Pool};
use crate::fence::FenceToken;

/// A read-only transaction on the primary. Dropped without [`ReadTx::end`], it costs its connection.
#[derive(Debug)]
#[must_use = "a transaction that is not used is a connection lost"]
pub struct ReadTx {
    open: Open,
}

/// A transaction that writes. Dropped without [`WriteTx::commit`], it is rolled back and costs its connection.
#[derive(Debug)]
#[must_use = "a transaction that is not committed is rolled back"]
pub struct WriteTx {
    open: Open,
}

impl ReadTx {
    pub(super) async fn begin(pool: &Arc<Pool>, limits: Limits) -> Result<Self, DatabaseError> {
        Ok(Self { open: Open::begin(pool, limits, Access::Read).await? })
    }

    /// The connection, inside the transaction, for what the methods here do not cover. Queries on it are to be
    /// `persistent(false)`, and the caller bounds their time.
    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.open.lease.connection
    }

    /// All rows of `query`.
    ///
    /// # Errors
    /// What the server says; `Unavailable` if it says nothing in time.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it leaves a transaction to be dropped.
    pub async fn fetch_all(
        &mut self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, DatabaseError> {
        self.open.fetch_all(query).await
    }

    /// The first row of `query`, if there is one.
    ///
    /// # Errors
    /// As [`ReadTx::fetch_all`].
    ///
    /// # Cancel safety
    /// As [`ReadTx::fetch_all`].
    pub async fn fetch_optional(
        &mut self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Option<PgRow>, DatabaseError> {
        Ok(self.open.fetch_all(query).await?.into_iter().next())
    }

    /// Ends it and keeps the connection for the next one.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it costs the connection.
    pub async fn end(self) {
        // Nothing hangs on the answer: without one the connection is closed.
        let _ = self.open.end().await;
    }
}

impl WriteTx {
    pub(super) async fn begin(pool: &Arc<Pool>, limits: Limits) -> Result<Self, DatabaseError> {
        Ok(Self { open: Open::begin(pool, limits, Access::Write).await? })
    }

    /// The connection, inside the transaction, for what the methods here do not cover. Queries on it are to be
    /// `persistent(false)`, and the caller bounds their time.
    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.open.lease.connection
    }

    /// All rows of `query`.
    ///
    /// # Errors
    /// What the server says; `Unavailable` if it says nothing in time. The transaction can then only be dropped.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it leaves a transaction to be dropped.
    pub async fn fetch_all(
        &mut self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, DatabaseError> {
        self.open.fetch_all(query).await
    }

    /// The first row of `query`, if there is one.
    ///
    /// # Errors
    /// As [`WriteTx::fetch_all`].
    ///
    /// # Cancel safety
    /// As [`WriteTx::fetch_all`].
    pub async fn fetch_optional(
        &mut self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Option<PgRow>, DatabaseError> {
        Ok(self.open.fetch_all(query).await?.into_iter().next())
    }

    /// Runs `query` and says how many rows it changed.
    ///
    /// # Errors
    /// As [`WriteTx::fetch_all`].
    ///
    /// # Cancel safety
    /// As [`WriteTx::fetch_all`].
    pub async fn execute(&mut self, query: Query<'_, Postgres, PgArguments>) -> Result<u64, DatabaseError> {
        let connection = &mut self.open.lease.connection;
        let answer = timeout(self.open.limits.answer(), connection.execute(query.persistent(false))).await;
        Ok(self.open.answered(answer)?.rows_affected())
    }

    /// Runs statements that take no values, as those of a migration.
    ///
    /// # Errors
    /// As [`WriteTx::fetch_all`].
    ///
    /// # Cancel safety
    /// As [`WriteTx::fetch_all`].
    pub async fn execute_script(&mut self, sql: &'static str) -> Result<(), DatabaseError> {
        let connection = &mut self.open.lease.connection;
        let answer = timeout(self.open.limits.answer(), connection.execute(sqlx::raw_sql(sql))).await;
        self.open.answered(answer).map(|_| ())
    }

    /// Holds `token` against the epochs: the first statement of a leader's transaction.
    ///
    /// The row is locked until the transaction ends, so that a takeover waits for it, and one that came first is seen.
    /// Without the lock, a check and a write would leave room for a takeover between them.
    ///
    /// # Errors
    /// `Fenced` if a later leader has taken over. Epoch *and* holder are compared: a failover that loses the latest rows
    /// can make one number be handed out twice.
    ///
    /// # Cancel safety
    /// As [`WriteTx::fetch_all`].
    pub async fn fence(&mut self, token: &FenceToken) -> Result<(), DatabaseError> {
        const SQL: &str = "SELECT 1 FROM oneseal.worker_epochs \
            WHERE fleet = $1 AND worker = $2 AND epoch = $3 AND holder = $4 FOR SHARE";
        // An epoch beyond what the column takes is none that was ever handed out.
        let epoch = i64::try_from(token.epoch).unwrap_or(-1);
        let query = sqlx::query(SQL).bind(&token.fleet).bind(&token.worker).bind(epoch).bind(&token.holder);
        if self.fetch_optional(query).await?.is_some() {
            return Ok(());
        }
        let message = format!(
            "{} of {} is led by somebody else by now: epoch {} of {} is over",
            token.worker, token.fleet, token.epoch, token.holder
        );
        Err(DatabaseError::new(DatabaseErrorKind::Fenced, message))
    }

    /// Makes the changes permanent.
    ///
    /// # Errors
    /// [`CommitError::NotCommitted`] only where the server has said so; whatever cuts the answer off is
    /// [`CommitError::OutcomeUnknown`].
    ///
    /// # Cancel safety
    /// Dropped in the middle, the outcome is unknown.
    pub async fn commit(self) -> Result<(), CommitError> {
        self.open.end().await
    }

    /// Undoes the changes and keeps the connection for the next one.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it costs the connection; the changes are undone all the same.
    pub async fn roll_back(mut self) {
        let connection = &mut self.open.lease.connection;
        let answer = timeout(self.open.limits.answer(), connection.execute(sqlx::raw_sql("ROLLBACK"))).await;
        if matches!(answer, Ok(Ok(_))) {
            self.open.lease.give_back();
        }
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// One statement, by the server's watch.
    pub(super) statement: Duration,
    /// Waiting for a lock, by the server's watch.
    pub(super) lock: Duration,
    /// The pause between two statements of a transaction, by the server's watch: a client that was stopped or cut off
    /// does not hold its locks for longer.
    pub(super) idle_in_transaction: Duration,
}

impl Limits {
    /// How long to wait for the answer to one statement: the server's own limit, and the way there and back.
    pub(super) fn answer(self) -> Duration {
        const WAY: Duration = Duration::from_secs(2);
        self.statement + WAY
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// An open transaction.
#[derive(Debug)]
struct Open {
    lease: Lease,
    limits: Limits,
    pool: Arc<Pool>,
}

impl Open {
    /// A connection that was idle may be one to a server that is gone or was demoted: then the next one is tried, and
    /// only what a new connection says counts. Nothing has been done yet, so nothing is done twice.
    async fn begin(pool: &Arc<Pool>, limits: Limits, access: Access) -> Result<Self, DatabaseError> {
        loop {
            let mut lease = pool.acquire().await?;
            let is_used = lease.is_used;
            match begin(&mut lease.connection, limits, access, pool.place()).await {
                Ok(()) => return Ok(Self { lease, limits, pool: Arc::clone(pool) }),
                Err(error) => {
                    drop(lease);
                    pool.forget_idle();
                    if !is_used {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn fetch_all(
        &mut self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, DatabaseError> {
        let connection = &mut self.lease.connection;
        let answer = timeout(self.limits.answer(), connection.fetch_all(query.persistent(false))).await;
        self.answered(answer)
    }

    fn answered<T>(
        &self,
        answer: Result<Result<T, sqlx::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, DatabaseError> {
        let error = match answer {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => DatabaseError::from_pooled(self.pool.place(), error),
            Err(_) => no_answer(self.pool.place(), self.limits),
        };
        use DatabaseErrorKind::{Standby, Unavailable};
        if matches!(error.kind(), Unavailable | Standby) {
            self.pool.forget_idle();
        }
        Err(error)
    }

    async fn end(mut self) -> Result<(), CommitError> {
        // COMMIT of a transaction that has failed is answered as if all were well, by a ROLLBACK; the statement before
        // it is what fails there.
        const SQL: &str = "SHOW transaction_read_only; COMMIT";
        let connection = &mut self.lease.connection;
        let error = match timeout(self.limits.answer(), connection.execute(sqlx::raw_sql(SQL))).await {
            Ok(Ok(_)) => {
                self.lease.give_back();
                return Ok(());
            }
            Ok(Err(error)) => error,
            Err(_) => {
                self.pool.forget_idle();
                return Err(CommitError::OutcomeUnknown(no_answer(self.pool.place(), self.limits)));
            }
        };
        let is_refusal = is_refusal(&error);
        let error = DatabaseError::from_pooled(self.pool.place(), error);
        if is_refusal {
            return Err(CommitError::NotCommitted(error));
        }
        self.pool.forget_idle();
        Err(CommitError::OutcomeUnknown(error))
    }
}

/// Whether a failed COMMIT is known to have changed nothing: the server itself refused it and goes on. One that ends the
/// connection may have committed before (it was told to go down while it waited for a synchronous standby), and what a
/// pooler says of its own it says without knowing.
fn is_refusal(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(answer) = error else { return false };
    let code = answer.code().unwrap_or_default();
    let goes_down = code.starts_with("57P") || code.starts_with("08") || code.starts_with("XX");
    !goes_down
}

async fn begin(
    connection: &mut PgConnection,
    limits: Limits,
    access: Access,
    place: &str,
) -> Result<(), DatabaseError> {
    let mode = if access == Access::Read { "READ ONLY" } else { "" };
    let sql = format!(
        "BEGIN {mode}; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}; \
         SHOW in_hot_standby; SHOW transaction_read_only",
        limits.statement.as_millis(),
        limits.lock.as_millis(),
        limits.idle_in_transaction.as_millis(),
    );
    // Numbers and words of this function alone.
    let query = sqlx::raw_sql(AssertSqlSafe(sql));
    let rows = match timeout(limits.answer(), connection.fetch_all(query)).await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => return Err(DatabaseError::from_pooled(place, error)),
        Err(_) => return Err(no_answer(place, limits)),
    };
    let said: Vec<String> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    match (access, &said[..]) {
        (Access::Write, ["off", "off"]) | (Access::Read, ["off", "on"]) => Ok(()),
        (_, ["on", _]) => Err(standby(place, "is a standby")),
        (_, ["off", "on"]) => Err(standby(place, "is set to take no writes (default_transaction_read_only)")),
        _ => Err(standby(place, "does not say whether it is the primary")),
    }
}

fn standby(place: &str, what: &str) -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Standby, format!("database {place} {what}; the primary is needed"))
}

fn no_answer(place: &str, limits: Limits) -> DatabaseError {
    let seconds = limits.answer().as_secs_f32();
    let message = format!("database {place} did not answer within {seconds} s");
    DatabaseError::new(DatabaseErrorKind::Unavailable, message)
}
