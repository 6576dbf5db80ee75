//! What is set while a fleet runs, by name.

use sqlx::Row;

use crate::database::{CommitError, Database, DatabaseError, WriteTx};

/// The value of `name` in `fleet`, if it is set.
///
/// # Errors
/// As [`Database::read`].
///
/// # Cancel safety
/// Changes nothing.
pub async fn get(database: &Database, fleet: &str, name: &str) -> Result<Option<String>, DatabaseError> {
    const SQL: &str = "SELECT value FROM oneseal.settings WHERE fleet = $1 AND name = $2";
    let mut tx = database.read().await?;
    let row = tx.fetch_optional(sqlx::query(SQL).bind(fleet).bind(name)).await?;
    tx.end().await;
    Ok(row.and_then(|row| row.try_get("value").ok()))
}

/// Sets `name` in `fleet`; `by` says who did. The same value twice is once.
///
/// # Errors
/// [`CommitError`].
///
/// # Cancel safety
/// Dropped in the middle, it may or may not be set.
pub async fn set(
    database: &Database,
    fleet: &str,
    name: &str,
    value: &str,
    by: &str,
) -> Result<(), CommitError> {
    let mut tx = database.write().await.map_err(CommitError::NotCommitted)?;
    set_in(&mut tx, fleet, name, value, by).await.map_err(CommitError::NotCommitted)?;
    tx.commit().await
}

/// As [`set`], in a transaction with more.
///
/// # Errors
/// As [`WriteTx::execute`].
///
/// # Cancel safety
/// As [`WriteTx::execute`].
pub async fn set_in(
    tx: &mut WriteTx,
    fleet: &str,
    name: &str,
    value: &str,
    by: &str,
) -> Result<(), DatabaseError> {
    const SQL: &str = "INSERT INTO oneseal.settings AS old (fleet, name, value, changed_by) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (fleet, name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, \
        changed_at = clock_timestamp() WHERE old.value <> excluded.value";
    let query = sqlx::query(SQL).bind(fleet).bind(name).bind(value).bind(by);
    tx.execute(query).await.map(drop)
}
