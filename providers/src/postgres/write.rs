//! One write: one transaction, or nothing.

use oneseal_coordination::database::WriteTx;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::document::Document;
use super::revision::RowRevision;
use super::statements::{CREATE, FLEETS, REPLACE};
use super::{PostgresProvider, TIMEOUT, Whose, judge};
use crate::{Change, Entries, ErrorKind, ProviderError, Revision};

impl PostgresProvider {
    /// Writes the row: in place of the one at `expected`, or where there is none.
    pub(super) async fn write(
        &self,
        expected: Option<&Revision>,
        entries: Entries,
        change: Change,
    ) -> Result<Revision, ProviderError> {
        // Before a connection is asked for: what is refused here may be a key, and is never sent.
        let document = judge(&self.location(), &entries)?;
        // Up to here nothing has happened: a transaction without its COMMIT is undone when the connection goes.
        let (tx, revision) = self.bounded(self.prepare(expected, &document, &change)).await?;
        self.commit(tx).await?;
        Ok(revision)
    }

    /// All of the transaction but its end.
    async fn prepare(
        &self,
        expected: Option<&Revision>,
        document: &Document<'_>,
        change: &Change,
    ) -> Result<(WriteTx, Revision), ProviderError> {
        let mut tx = self.database.write().await.map_err(|error| self.refused(error))?;
        if let Some(fence) = &change.fence {
            tx.fence(fence).await.map_err(|error| self.refused(error))?;
        }
        let fleet = self.fleet(&mut tx, expected.is_some()).await?;
        let row = match expected {
            None => self.create_row(&mut tx, &fleet, document, change).await?,
            Some(expected) => self.replace_row(&mut tx, &fleet, expected, document, change).await?,
        };
        let digest = row.try_get("digest").map_err(|error| self.failed(error))?;
        // Last: whoever writes an event waits for the one before, and nobody waits for us longer than this.
        let told = tx.append(&change.actor, &document.issuer, &change.event).await;
        told.map_err(|error| self.refused(error))?;
        let Document { incarnation, revision, .. } = *document;
        Ok((tx, RowRevision { incarnation, revision, digest }.into()))
    }

    async fn create_row(
        &self,
        tx: &mut WriteTx,
        fleet: &str,
        document: &Document<'_>,
        change: &Change,
    ) -> Result<PgRow, ProviderError> {
        let row = bound(CREATE, fleet, document, change).fetch_optional(tx.connection()).await;
        row.map_err(|error| self.failed(error))?
            .ok_or_else(|| self.fault(ErrorKind::AlreadyExists, "there is a ring already"))
    }

    async fn replace_row(
        &self,
        tx: &mut WriteTx,
        fleet: &str,
        expected: &Revision,
        document: &Document<'_>,
        change: &Change,
    ) -> Result<PgRow, ProviderError> {
        // A text that is none of ours names no row there could be.
        let at = RowRevision::parse(expected).unwrap_or_default();
        let update = bound(REPLACE, fleet, document, change).bind(at.incarnation).bind(at.revision).bind(at.digest);
        if let Some(row) = update.fetch_optional(tx.connection()).await.map_err(|error| self.failed(error))? {
            return Ok(row);
        }
        let is_there = sqlx::query(IS_THERE).persistent(false).bind(fleet).fetch_optional(tx.connection()).await;
        Err(match is_there.map_err(|error| self.failed(error))? {
            Some(_) => self.fault(ErrorKind::Conflict, "it is no longer at the expected revision"),
            None => self.fault(ErrorKind::NotFound, "there is no ring to replace"),
        })
    }

    /// The name of the fleet whose row is written.
    async fn fleet(&self, tx: &mut WriteTx, is_there: bool) -> Result<String, ProviderError> {
        if let Whose::Fleet(fleet) = &self.whose {
            return Ok(fleet.clone());
        }
        let rows = sqlx::query(FLEETS).persistent(false).fetch_all(tx.connection()).await;
        match rows.map_err(|error| self.failed(error))?.as_slice() {
            [row] => row.try_get("fleet").map_err(|error| self.failed(error)),
            [] if is_there => Err(self.fault(ErrorKind::NotFound, "there is no ring to replace")),
            [] => {
                let detail = "it is not said whose ring this is; name the fleet, as in postgres://…?fleet=NAME";
                Err(self.fault(ErrorKind::Malformed, detail))
            }
            _ => Err(self.several_fleets()),
        }
    }

    async fn commit(&self, tx: WriteTx) -> Result<(), ProviderError> {
        let ended = tokio::time::timeout(TIMEOUT, tx.commit()).await;
        ended.map_err(|_| self.unanswered())?.map_err(|error| self.uncommitted(error))
    }
}

const IS_THERE: &str = "SELECT 1 FROM oneseal.rings WHERE fleet = $1";

/// The statement with what it writes, as parameters.
fn bound<'q>(
    statement: &'static str,
    fleet: &'q str,
    document: &'q Document<'_>,
    change: &'q Change,
) -> sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
    sqlx::query(statement)
        .persistent(false)
        .bind(fleet)
        .bind(document.incarnation)
        .bind(document.revision)
        .bind(document.bytes)
        .bind(change.id.to_string())
        .bind(&*change.actor)
        .bind(&*document.public)
}
