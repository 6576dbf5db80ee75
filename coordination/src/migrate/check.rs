//! What is there, held against what this binary knows.

use sqlx::Row;

use super::version::BinaryVersion;
use super::{Component, Migration};
use crate::database::{Database, DatabaseError, DatabaseErrorKind, ReadTx};

/// The oldest PostgreSQL: the first that tells a standby by `in_hot_standby`.
const OLDEST_SERVER: i32 = 140_000;

/// The schema as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// `server_version_num`, such as 150018.
    pub server: i32,
    /// Whether `oneseal.schema_version` is there at all.
    pub has_schema: bool,
    /// Each component that was asked for.
    pub components: Vec<ComponentStatus>,
}

/// One component as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentStatus {
    /// Its name.
    pub name: &'static str,
    /// The version of its tables; 0 if there are none.
    pub applied: i32,
    /// The version that this binary knows.
    pub known: i32,
    /// What is to be applied, in order.
    pub pending: Vec<Migration>,
    /// The oldest binary that may use the tables, as the database says.
    pub min_binary: Option<String>,
}

/// Why this binary and this schema do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaFault {
    /// Expand migrations of this binary are not applied.
    #[error("the tables of {component} are at version {applied}, and this version of oneseal needs {needed}")]
    MigrationPending {
        /// Whose tables.
        component: &'static str,
        /// Their version.
        applied: i32,
        /// The version needed.
        needed: i32,
    },
    /// The tables have gone on without this binary.
    #[error(
        "the tables of {component} are at version {applied}, which needs oneseal {needed} or newer; this is {own}"
    )]
    BelowMinBinary {
        /// Whose tables.
        component: &'static str,
        /// Their version.
        applied: i32,
        /// The oldest binary that may use them.
        needed: String,
        /// This binary.
        own: String,
    },
    /// The server is too old.
    #[error("the server is PostgreSQL {found}; {oldest} is the oldest that oneseal works with")]
    TooOld {
        /// Its major version.
        found: i32,
        /// The oldest major version.
        oldest: i32,
    },
}

impl Status {
    /// Why `binary` must not run on this schema; empty if it may.
    ///
    /// Contract migrations that are pending are no fault: the tables have what the binary needs, and more.
    pub fn faults(&self, binary: BinaryVersion) -> Vec<SchemaFault> {
        let mut faults = Vec::new();
        if self.server < OLDEST_SERVER {
            faults.push(SchemaFault::TooOld { found: self.server / 10_000, oldest: OLDEST_SERVER / 10_000 });
        }
        for component in &self.components {
            faults.extend(component.fault(binary));
        }
        faults
    }
}

impl ComponentStatus {
    pub(super) fn fault(&self, binary: BinaryVersion) -> Option<SchemaFault> {
        let Self { name: component, applied, min_binary, .. } = self;
        if let Some(needed) = min_binary {
            // What is no version was not written by us: no binary is new enough for it.
            if needed.parse().map_or(true, |needed: BinaryVersion| binary < needed) {
                return Some(SchemaFault::BelowMinBinary {
                    component,
                    applied: *applied,
                    needed: needed.clone(),
                    own: binary.to_string(),
                });
            }
        }
        let expand = self.pending.iter().filter(|migration| migration.kind == super::Kind::Expand);
        let needed = expand.map(|migration| migration.version).max()?;
        Some(SchemaFault::MigrationPending { component, applied: *applied, needed })
    }
}

/// The schema as it is.
///
/// # Errors
/// As [`Database::read`]; `Denied` if the user may not see the schema.
///
/// # Cancel safety
/// Changes nothing.
pub async fn status(database: &Database, components: &[Component]) -> Result<Status, DatabaseError> {
    let mut tx = database.read().await?;
    let status = read(&mut tx, components).await?;
    tx.end().await;
    Ok(status)
}

/// Why this binary must not run on this schema; empty if it may.
///
/// # Errors
/// As [`status`].
///
/// # Cancel safety
/// Changes nothing.
pub async fn check(database: &Database, components: &[Component]) -> Result<Vec<SchemaFault>, DatabaseError> {
    Ok(status(database, components).await?.faults(BinaryVersion::own()))
}

async fn read(tx: &mut ReadTx, components: &[Component]) -> Result<Status, DatabaseError> {
    let rows = tx.fetch_all(sqlx::query(SERVER)).await?;
    let first = rows.first().ok_or_else(|| unexpected(&"no row"))?;
    let server = first.try_get("server").map_err(|error| unexpected(&error))?;
    let has_schema = first.try_get("has_schema").map_err(|error| unexpected(&error))?;
    let rows = if has_schema { tx.fetch_all(sqlx::query(APPLIED)).await? } else { Vec::new() };
    let mut applied = Vec::new();
    for row in &rows {
        applied.push(Applied::read(row).map_err(|error| unexpected(&error))?);
    }
    let components = components.iter().map(|component| of_component(component, &applied)).collect();
    Ok(Status { server, has_schema, components })
}

const SERVER: &str = "SELECT current_setting('server_version_num')::int AS server, \
    EXISTS (SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'oneseal' AND tablename = 'schema_version') AS has_schema";

pub(super) const APPLIED: &str =
    "SELECT component, version, min_binary FROM oneseal.schema_version ORDER BY version";

/// A row of `oneseal.schema_version`.
pub(super) struct Applied {
    component: String,
    version: i32,
    min_binary: String,
}

impl Applied {
    pub(super) fn read(row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            component: row.try_get("component")?,
            version: row.try_get("version")?,
            min_binary: row.try_get("min_binary")?,
        })
    }
}

/// The latest row decides how far it is; the strictest says who may use it.
pub(super) fn of_component(component: &Component, applied: &[Applied]) -> ComponentStatus {
    let rows = || applied.iter().filter(|row| row.component == component.name);
    let version = rows().map(|row| row.version).max().unwrap_or_default();
    let strictest = rows().max_by_key(|row| {
        let needed = row.min_binary.parse::<BinaryVersion>();
        (needed.is_err(), needed.ok())
    });
    ComponentStatus {
        name: component.name,
        applied: version,
        known: component.migrations.iter().map(|migration| migration.version).max().unwrap_or_default(),
        pending: component
            .migrations
            .iter()
            .filter(|migration| migration.version > version)
            .copied()
            .collect(),
        min_binary: strictest.map(|row| row.min_binary.clone()),
    }
}

pub(super) fn unexpected(what: &dyn std::fmt::Display) -> DatabaseError {
    let message = format!("oneseal.schema_version is not as it should be: {what}");
    DatabaseError::new(DatabaseErrorKind::Internal, message)
}
