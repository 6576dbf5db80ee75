//! Whether the schema has gone on without a binary that runs: the start looks at it, and a contract migration may come
//! after the start.
//!
//! It is asked where the tables are used anyway, in the same statement or the same transaction, and costs no look of its
//! own. A contract migration that takes something away from a table waits for whoever has written to it, so that what is
//! asked *after* a write and before its COMMIT holds until then.

use sqlx::Row;

use super::version::BinaryVersion;
use super::{Component, SchemaFault};
use crate::database::{DatabaseError, DatabaseErrorKind, WriteTx};

/// What the rows of `oneseal.schema_version` say against this binary, of the `components` that it uses; others are no matter
/// of it. Each is told as `component version min_binary`, with a blank between.
///
/// # Errors
/// A component's tables need a newer one: nothing on them can be believed or written.
pub fn judge_binary(told: &[String], components: &[Component]) -> Result<(), DatabaseError> {
    judge(told, components, BinaryVersion::own())
}

fn judge(told: &[String], components: &[Component], own: BinaryVersion) -> Result<(), DatabaseError> {
    let fault = |told: &String| {
        let mut parts = told.splitn(3, ' ');
        let name = parts.next()?;
        let component = components.iter().find(|component| component.name == name)?;
        let applied = parts.next()?.parse().ok()?;
        let needed = parts.next()?;
        // What is no version was not written by us: no binary is new enough for it.
        let is_older = needed.parse().map_or(true, |needed: BinaryVersion| own < needed);
        is_older.then(|| SchemaFault::BelowMinBinary {
            component: component.name,
            applied,
            needed: needed.to_owned(),
            own: own.to_string(),
        })
    };
    match told.iter().find_map(fault) {
        Some(fault) => Err(DatabaseError::new(
            DatabaseErrorKind::Outgrown,
            format!("{fault}; update this replica, which uses them no more"),
        )),
        None => Ok(()),
    }
}

impl WriteTx {
    /// Refuses to go on if the tables of `components` need a newer binary: to be asked once something has been written to
    /// them, and before [`WriteTx::commit`].
    ///
    /// # Errors
    /// They do, or the server does not say.
    ///
    /// # Cancel safety
    /// As [`WriteTx::fetch_all`].
    pub async fn check_binary(&mut self, components: &[Component]) -> Result<(), DatabaseError> {
        const SQL: &str =
            "SELECT component || ' ' || version || ' ' || min_binary FROM oneseal.schema_version";
        let rows = self.fetch_all(sqlx::query(SQL)).await?;
        let told = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>();
        judge_binary(&told.map_err(|error| super::check::unexpected(&error))?, components)
    }
}

#[cfg(test)]
mod tests {
    use super::super::COORDINATION;
    use super::*;

    #[test]
    fn a_binary_is_outgrown_by_its_own_components_alone() {
        let own: BinaryVersion = "1.2.0".parse().expect("a version");
        let judged = |told: &str| {
            judge(&[told.to_owned()], &[COORDINATION], own).map_err(|error| {
                assert_eq!(error.kind(), DatabaseErrorKind::Outgrown);
                error.to_string()
            })
        };
        for good in ["coordination 2 0.1.0", "coordination 9 1.2.0", "workers 9 99.0.0", "", "coordination"] {
            assert_eq!(judged(good), Ok(()), "{good}");
        }
        for above in ["coordination 9 1.2.1", "coordination 9 99.0.0", "coordination 9 tomorrow"] {
            let said = judged(above).expect_err(above);
            assert!(said.contains("version 9") && said.contains("1.2.0"), "{said}");
        }
    }
}
