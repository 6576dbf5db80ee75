//! Reading the row, and asking what it is at.

use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::revision::RowRevision;
use super::statements::{LOAD, LOOK};
use super::{PostgresProvider, TIMEOUT};
use crate::{Description, Entries, ErrorKind, ProviderError, Record, Revision};

impl PostgresProvider {
    /// The row as it stands on the primary.
    pub(super) async fn read(&self) -> Result<Record, ProviderError> {
        let heard = self.hints.heard();
        let record = self.bounded(self.read_row()).await?;
        self.hints.looked(&record.revision, heard);
        Ok(record)
    }

    /// What the row is at, without its document.
    pub(super) async fn look(&self) -> Result<Revision, ProviderError> {
        let heard = self.hints.heard();
        let revision = self.bounded(self.look_at_row()).await?;
        self.hints.looked(&revision, heard);
        Ok(revision)
    }

    async fn read_row(&self) -> Result<Record, ProviderError> {
        let limit = i32::try_from(Description::DEFAULT_MAX_BYTES).unwrap_or(i32::MAX);
        let mut reading = self.database.read().await.map_err(|error| self.refused(error))?;
        let rows = sqlx::query(LOAD).persistent(false).bind(self.whose.name()).bind(limit);
        let rows = rows.fetch_all(reading.connection()).await.map_err(|error| self.failed(error))?;
        reading.end().await.map_err(|error| self.refused(error))?;
        let row = self.only(&rows)?;
        record(row).map_err(|error| self.unreadable(error))?.ok_or_else(|| {
            let detail = format!("the document in the row is empty or above {limit} bytes");
            self.fault(ErrorKind::Malformed, detail)
        })
    }

    async fn look_at_row(&self) -> Result<Revision, ProviderError> {
        let mut reading = self.database.read().await.map_err(|error| self.refused(error))?;
        let rows = sqlx::query(LOOK).persistent(false).bind(self.whose.name());
        let rows = rows.fetch_all(reading.connection()).await.map_err(|error| self.failed(error))?;
        reading.end().await.map_err(|error| self.refused(error))?;
        Ok(revision(self.only(&rows)?).map_err(|error| self.unreadable(error))?.into())
    }

    fn only<'r>(&self, rows: &'r [PgRow]) -> Result<&'r PgRow, ProviderError> {
        match rows {
            [row] => Ok(row),
            [] => Err(self.fault(ErrorKind::NotFound, "there is no ring")),
            _ => Err(self.several_fleets()),
        }
    }

    pub(super) fn several_fleets(&self) -> ProviderError {
        let detail = "several fleets have their rings here; name one, as in postgres://…?fleet=NAME";
        self.fault(ErrorKind::Malformed, detail)
    }

    fn unreadable(&self, error: sqlx::Error) -> ProviderError {
        self.fault(ErrorKind::Malformed, "the row has not the columns that this version reads").with_source(error)
    }

    /// What the call comes to, or that it did not end in time.
    pub(super) async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        tokio::time::timeout(TIMEOUT, call).await.unwrap_or_else(|_| {
            let detail = format!("no answer within {} s", TIMEOUT.as_secs());
            Err(self.fault(ErrorKind::Unavailable, detail))
        })
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
