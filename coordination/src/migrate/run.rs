//! Applying what is pending.

use std::time::Duration;

use sqlx::Row;

use super::check::{APPLIED, Applied, of_component, unexpected};
use super::version::BinaryVersion;
use super::{Component, Kind, Migration, SchemaFault, status};
use crate::clock::{Clock, SystemClock};
use crate::database::{CommitError, Database, DatabaseError, DatabaseErrorKind, WriteTx};
use crate::registry::SILENT_AFTER;

/// How to migrate.
///
/// # Defaults
/// Expand migrations alone, by this binary, five minutes for each statement, one minute of waiting for somebody else.
#[derive(Clone, Debug)]
pub struct MigrateOptions {
    /// Contract migrations too. They are refused while a replica beats.
    pub contract: bool,
    /// The binary that migrates.
    pub binary: BinaryVersion,
    /// How long to wait for somebody else's migration, or for a lock on a table, all in all.
    pub wait: Duration,
    /// For one statement.
    pub statement_timeout: Duration,
}

impl Default for MigrateOptions {
    fn default() -> Self {
        Self {
            contract: false,
            binary: BinaryVersion::own(),
            wait: Duration::from_secs(60),
            statement_timeout: Duration::from_secs(300),
        }
    }
}

/// What is going on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Somebody else is in the way; who, in words. It is tried again.
    Waiting {
        /// Such as `oneseal-migrate, process 4711, from 10.0.0.7, for 12 s`.
        holder: String,
    },
    /// A migration begins.
    Applying {
        /// Whose tables.
        component: &'static str,
        /// The version that it leads to.
        version: i32,
        /// What kind it is.
        kind: Kind,
    },
    /// A migration is done.
    Applied {
        /// Whose tables.
        component: &'static str,
        /// Their version now.
        version: i32,
        /// How long it took.
        took: Duration,
    },
    /// A contract migration is left for later.
    Left {
        /// Whose tables.
        component: &'static str,
        /// The version that it would lead to.
        version: i32,
    },
}

/// Why not all was applied. What has been applied stays, and the next run goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// This binary is too old for the tables, or the server for this binary.
    #[error("{0}")]
    Schema(SchemaFault),
    /// Somebody else was in the way for all of the time.
    #[error("somebody else was in the way for {} s: {holder}", waited.as_secs())]
    Busy {
        /// Who, in words.
        holder: String,
        /// How long was waited.
        waited: Duration,
    },
    /// A contract migration, and replicas that beat.
    #[error("version {version} of {component} takes away what replicas may still use, and these beat: {}; stop them first", beating.join(", "))]
    FleetIsRunning {
        /// Whose tables.
        component: &'static str,
        /// The version that it would lead to.
        version: i32,
        /// Who beats, as `instance of fleet`.
        beating: Vec<String>,
    },
}

/// Applies what is pending of `components`, in their order. Run twice, or by two at once, each is applied once.
///
/// # Errors
/// [`MigrateError`].
///
/// # Cancel safety
/// Dropped in the middle, the migration under way may or may not be applied; each is applied whole or not at all.
pub async fn migrate(
    database: &Database,
    components: &[Component],
    options: &MigrateOptions,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<(), MigrateError> {
    let found = status(database, components).await?;
    let blocking = found.faults(options.binary).into_iter();
    if let Some(fault) =
        blocking.into_iter().find(|fault| !matches!(fault, SchemaFault::MigrationPending { .. }))
    {
        return Err(MigrateError::Schema(fault));
    }
    let mut waited = Duration::ZERO;
    for (component, before) in components.iter().zip(&found.components) {
        for migration in &before.pending {
            if migration.kind == Kind::Contract && !options.contract {
                progress(Progress::Left { component: component.name, version: migration.version });
                // What comes after it was written for tables without what it takes away.
                break;
            }
            apply(database, component, migration, options, &mut waited, &mut progress).await?;
        }
    }
    Ok(())
}

/// Until it is applied, by us or by somebody else.
async fn apply(
    database: &Database,
    component: &Component,
    migration: &Migration,
    options: &MigrateOptions,
    waited: &mut Duration,
    progress: &mut (impl FnMut(Progress) + Send),
) -> Result<(), MigrateError> {
    let (name, version) = (component.name, migration.version);
    progress(Progress::Applying { component: name, version, kind: migration.kind });
    let started = SystemClock.boot();
    let before = *waited;
    let mut told = None;
    loop {
        match try_once(database, component, migration, options).await? {
            Try::Applied => {
                let took = SystemClock.boot().since(started);
                progress(Progress::Applied { component: name, version, took });
                return Ok(());
            }
            Try::WasThere => return Ok(()),
            Try::Busy(holder) => {
                // By the clock: each try waits for its answer too, and a host may have slept.
                *waited = before + SystemClock.boot().since(started);
                if *waited >= options.wait {
                    return Err(MigrateError::Busy { holder, waited: *waited });
                }
                if told.as_ref() != Some(&holder) {
                    progress(Progress::Waiting { holder: holder.clone() });
                    told = Some(holder);
                }
                tokio::time::sleep(POLL).await;
            }
        }
    }
}

const POLL: Duration = Duration::from_millis(250);

enum Try {
    Applied,
    WasThere,
    Busy(String),
}

async fn try_once(
    database: &Database,
    component: &Component,
    migration: &Migration,
    options: &MigrateOptions,
) -> Result<Try, MigrateError> {
    let mut tx = database.write_for(options.statement_timeout).await?;
    let locked = tx.fetch_optional(sqlx::query(TRY_LOCK).bind(LOCK)).await?;
    let locked = locked.and_then(|row| row.try_get::<bool, _>(0).ok()).unwrap_or_default();
    if !locked {
        let holder = holder(&mut tx).await?;
        tx.roll_back().await;
        return Ok(Try::Busy(holder));
    }
    match apply_locked(&mut tx, component, migration, options).await {
        Ok(Done::WasThere) => {
            tx.roll_back().await;
            return Ok(Try::WasThere);
        }
        Ok(Done::Applied) => {}
        // A table is in use: to wait in the queue for it would hold back all who come after.
        Err(MigrateError::Database(error)) if error.kind() == DatabaseErrorKind::Conflict => {
            return Ok(Try::Busy(error.to_string()));
        }
        Err(error) => return Err(error),
    }
    match tx.commit().await {
        Ok(()) => Ok(Try::Applied),
        Err(CommitError::NotCommitted(error)) => Err(error.into()),
        // The next try sees whether it is there.
        Err(CommitError::OutcomeUnknown(error)) => Ok(Try::Busy(error.to_string())),
    }
}

enum Done {
    Applied,
    WasThere,
}

async fn apply_locked(
    tx: &mut WriteTx,
    component: &Component,
    migration: &Migration,
    options: &MigrateOptions,
) -> Result<Done, MigrateError> {
    let is_there = tx.fetch_optional(sqlx::query(IS_THERE)).await?;
    if is_there.is_none() {
        tx.execute_script(FIRST).await?;
    }
    let mut applied = Vec::new();
    for row in &tx.fetch_all(sqlx::query(APPLIED)).await? {
        applied.push(Applied::read(row).map_err(|error| unexpected(&error))?);
    }
    let now = of_component(component, &applied);
    if now.applied >= migration.version {
        return Ok(Done::WasThere);
    }
    if let Some(fault @ SchemaFault::BelowMinBinary { .. }) = now.fault(options.binary) {
        return Err(MigrateError::Schema(fault));
    }
    if migration.kind == Kind::Contract {
        refuse_beating(tx, component, migration).await?;
    }
    tx.execute_script(migration.sql).await?;
    let insert = sqlx::query(INSERT)
        .bind(component.name)
        .bind(migration.version)
        .bind(migration.kind.as_str())
        .bind(migration.min_binary)
        .bind(format!("oneseal {}", options.binary));
    tx.execute(insert).await?;
    Ok(Done::Applied)
}

async fn refuse_beating(
    tx: &mut WriteTx,
    component: &Component,
    migration: &Migration,
) -> Result<(), MigrateError> {
    if tx.fetch_optional(sqlx::query(HAS_REPLICAS)).await?.is_none() {
        return Ok(());
    }
    let rows = tx.fetch_all(sqlx::query(BEATING).bind(SILENT_AFTER.as_secs_f64())).await?;
    let beating: Vec<String> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
    if beating.is_empty() {
        return Ok(());
    }
    Err(MigrateError::FleetIsRunning { component: component.name, version: migration.version, beating })
}

/// Who holds the lock, in words.
async fn holder(tx: &mut WriteTx) -> Result<String, DatabaseError> {
    let row = tx.fetch_optional(sqlx::query(HOLDER).bind(LOCK)).await?;
    let words = row.and_then(|row| row.try_get::<String, _>(0).ok());
    Ok(words.unwrap_or_else(|| "a migration that has just ended".to_owned()))
}

/// Ours among the advisory locks of a database: "oneseal" and `m` for migrations.
const LOCK: i64 = i64::from_be_bytes(*b"oneseal\x6d");

const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock($1)";

const HOLDER: &str = "SELECT concat_ws(', ', coalesce(nullif(a.application_name, ''), 'a session'), 'process ' || l.pid, \
        'from ' || host(a.client_addr), \
        'for ' || floor(extract(epoch FROM clock_timestamp() - a.xact_start))::bigint || ' s') \
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
        AND (l.classid::bigint << 32) | l.objid::bigint = $1 LIMIT 1";

/// From the catalog's rows: `to_regclass` answers from the session's cache, which does not hear what was committed
/// between BEGIN and the lock.
const IS_THERE: &str =
    "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'oneseal' AND tablename = 'schema_version'";

const FIRST: &str = "CREATE SCHEMA IF NOT EXISTS oneseal; \
    CREATE TABLE oneseal.schema_version ( \
        component text COLLATE \"C\" NOT NULL, version int NOT NULL CHECK (version > 0), \
        kind text COLLATE \"C\" NOT NULL CHECK (kind IN ('expand', 'contract')), \
        min_binary text COLLATE \"C\" NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp(), \
        applied_by text NOT NULL, PRIMARY KEY (component, version))";

const INSERT: &str = "INSERT INTO oneseal.schema_version (component, version, kind, min_binary, applied_by) \
    VALUES ($1, $2, $3, $4, $5)";

const HAS_REPLICAS: &str =
    "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'oneseal' AND tablename = 'replicas'";

const BEATING: &str = "SELECT instance || ' of ' || fleet FROM oneseal.replicas \
    WHERE state <> 'gone' AND beat_at BETWEEN clock_timestamp() - make_interval(secs => $1) \
        AND clock_timestamp() + make_interval(secs => $1) ORDER BY fleet, instance";
