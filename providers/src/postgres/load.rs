//! Reading the row, and asking what it is at.

use oneseal_coordination::database::DatabaseError;
use oneseal_coordination::migrate::judge_binary;
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::PostgresProvider;
use super::migrations::USED;
use super::revision::RowRevision;
use super::statements::{LOAD, LOOK};
use crate::{Description, Entries, ErrorKind, ProviderError, Record, Revision};

impl PostgresProvider {
    /// The row as it stands on the primary.
    pub(super) async fn read(&self) -> Result<Record, ProviderError> {
        let heard = self.hints.heard();
        let limit = i32::try_from(Description::DEFAULT_MAX_BYTES).unwrap_or(i32::MAX);
        let rows = self.rows(sqlx::query(LOAD).bind(self.whose.name()).bind(limit)).await;
        let rows = rows.map_err(|error| self.failed(error))?;
        let row = self.only(&rows)?;
        let at = revision(row).map_err(|error| self.unreadable(error))?;
        let record = record(row).map_err(|error| self.unreadable(error))?;
        let record = record.ok_or_else(|| {
            let detail = format!("the document in the row is empty, or has more than {limit} bytes");
            self.fault(ErrorKind::Malformed, detail).at(at.into())
        })?;
        self.hints.looked(&record.revision, heard);
        Ok(record)
    }

    /// What the row is at, without its document.
    pub(super) async fn look(&self) -> Result<Revision, ProviderError> {
        let heard = self.hints.heard();
        let rows = self.rows(sqlx::query(LOOK).bind(self.whose.name())).await;
        let rows = rows.map_err(|error| self.failed(error))?;
        let revision = revision(self.only(&rows)?).map_err(|error| self.unreadable(error))?.into();
        self.hints.looked(&revision, heard);
        Ok(revision)
    }

    async fn rows(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<Vec<PgRow>, DatabaseError> {
        let mut reading = self.database.read().await?;
        let rows = reading.fetch_all(query).await?;
        reading.end().await;
        Ok(rows)
    }

    fn only<'r>(&self, rows: &'r [PgRow]) -> Result<&'r PgRow, ProviderError> {
        match rows {
            [row] => self.believe(row).map(|()| row),
            [] => Err(self.fault(ErrorKind::NotFound, "there is no ring")),
            _ => Err(self.several_fleets()),
        }
    }

    /// A server that takes no writes may be one that was set aside, and tables that this binary misreads say anything:
    /// neither is a fresh look.
    fn believe(&self, row: &PgRow) -> Result<(), ProviderError> {
        let read_only: String = row.try_get("read_only").map_err(|error| self.unreadable(error))?;
        if read_only != "off" {
            let detail = "the database is set to take no writes (default_transaction_read_only), so that what it says may \
                          be old; the primary is needed";
            return Err(self.fault(ErrorKind::Unavailable, detail));
        }
        let oldest: Option<Vec<String>> =
            row.try_get("oldest_binaries").map_err(|error| self.unreadable(error))?;
        judge_binary(&oldest.unwrap_or_default(), &USED).map_err(|error| self.failed(error))
    }

    pub(super) fn several_fleets(&self) -> ProviderError {
        let detail = "several fleets have their rings here; name one, as in postgres://…?fleet=NAME";
        self.fault(ErrorKind::Ambiguous, detail)
    }

    pub(super) fn unreadable(&self, error: sqlx::Error) -> ProviderError {
        self.fault(ErrorKind::Unprepared, "the row has not the columns that this version reads")
            .with_source(error)
    }
}

fn revision(row: &PgRow) -> Result<RowRevision, sqlx::Error> {
    Ok(RowRevision {
        incarnation: row.try_get("incarnation")?,
        revision: row.try_get("revision")?,
        digest: row.try_get("digest")?,
    })
}

/// The record, unless its document is too large to have been sent, or empty.
fn record(row: &PgRow) -> Result<Option<Record>, sqlx::Error> {
    let document: Option<Vec<u8>> = row.try_get("document")?;
    let Some(document) = document.filter(|document| !document.is_empty()) else { return Ok(None) };
    let change_id: String = row.try_get("change_id")?;
    Ok(Some(Record::new(
        revision(row)?.into(),
        Uuid::parse_str(&change_id).ok(),
        Entries::single(Entries::KEYRING, document),
    )))
}
