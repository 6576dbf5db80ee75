//! One write: one transaction, or nothing.

use oneseal_coordination::database::WriteTx;
use oneseal_coordination::events::{AppendError, checkpoint};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::document::Document;
use super::migrations::USED;
use super::revision::RowRevision;
use super::statements::{CREATE, FLEETS, REPLACE};
use super::{PostgresProvider, Whose, judge};
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
        let mut tx = self.database.write().await.map_err(|error| self.failed(error))?;
        match self.prepare(&mut tx, expected, &document, &change).await {
            Ok(revision) => {
                tx.commit().await.map_err(|error| self.uncommitted(error))?;
                Ok(revision)
            }
            Err(error) => {
                tx.roll_back().await;
                Err(error)
            }
        }
    }

    /// Writes over the row at `expected`, and does not commit.
    pub(super) async fn write_and_take_back(
        &self,
        expected: &Revision,
        entries: Entries,
        change: Change,
    ) -> Result<(), ProviderError> {
        let document = judge(&self.location(), &entries)?;
        let mut tx = self.database.write().await.map_err(|error| self.failed(error))?;
        let outcome = self.prepare(&mut tx, Some(expected), &document, &change).await;
        tx.roll_back().await;
        outcome.map(drop)
    }

    /// All of the transaction but its end. A transaction that does not come to its COMMIT changes nothing.
    async fn prepare(
        &self,
        tx: &mut WriteTx,
        expected: Option<&Revision>,
        document: &Document<'_>,
        change: &Change,
    ) -> Result<Revision, ProviderError> {
        if let Some(fence) = &change.fence {
            tx.fence(fence).await.map_err(|error| self.failed(error))?;
        }
        let fleet = self.fleet(tx, expected.is_some()).await?;
        let row = match expected {
            None => self.create_row(tx, &fleet, document, change).await?,
            Some(expected) => {
                let row = self.replace_row(tx, &fleet, expected, document, change).await?;
                self.check_id(tx, &fleet, document, change).await?;
                row
            }
        };
        // Its row is locked, so that no migration takes away what was written before this transaction ends.
        tx.check_binary(&USED).await.map_err(|error| self.failed(error))?;
        let digest: String = row.try_get("digest").map_err(|error| self.unreadable(error))?;
        self.tell(tx, document, &digest, change).await?;
        Ok(RowRevision { incarnation: document.incarnation, revision: document.revision, digest }.into())
    }

    /// Last before COMMIT: from its first event on every other writer of events waits for this one. So whether a
    /// checkpoint is due is asked before.
    async fn tell(
        &self,
        tx: &mut WriteTx,
        document: &Document<'_>,
        digest: &str,
        change: &Change,
    ) -> Result<(), ProviderError> {
        let is_due = tx.is_checkpoint_due(&document.issuer).await.map_err(|error| self.failed(error))?;
        let told = tx.append(&change.actor, &document.issuer, &change.event).await;
        told.map_err(|error| self.untold(error))?;
        if is_due { self.append_checkpoint(tx, document, digest, change).await } else { Ok(()) }
    }

    /// A document that does not fit into an event, by its size or because a member of it is named like a secret, is left
    /// out: the log is then not to be cut, and the ring is written all the same.
    async fn append_checkpoint(
        &self,
        tx: &mut WriteTx,
        document: &Document<'_>,
        digest: &str,
        change: &Change,
    ) -> Result<(), ProviderError> {
        let Document { incarnation, revision, issuer, public, .. } = document;
        let skipped = match checkpoint(*incarnation, *revision, digest, public) {
            Ok(draft) => match tx.append(&change.actor, issuer, &draft).await {
                Err(AppendError::Draft { source, .. }) => source,
                told => return told.map(drop).map_err(|error| self.untold(error)),
            },
            Err(error) => error,
        };
        tracing::warn!(why = %skipped, %issuer, "no checkpoint of the ring in the event log, which so cannot be cut");
        Ok(())
    }

    async fn create_row(
        &self,
        tx: &mut WriteTx,
        fleet: &str,
        document: &Document<'_>,
        change: &Change,
    ) -> Result<PgRow, ProviderError> {
        let id = change.id.to_string();
        let row = tx.fetch_optional(bound(CREATE, fleet, document, change, &id)).await;
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
        // A text that is none of ours names no row that there could be.
        let at = RowRevision::parse(expected).unwrap_or_default();
        let id = change.id.to_string();
        let update = bound(REPLACE, fleet, document, change, &id);
        let update = update.bind(at.incarnation).bind(at.revision).bind(&*at.digest);
        if let Some(row) = tx.fetch_optional(update).await.map_err(|error| self.failed(error))? {
            return Ok(row);
        }
        let is_there = tx.fetch_optional(sqlx::query(IS_THERE).bind(fleet)).await;
        Err(match is_there.map_err(|error| self.failed(error))? {
            Some(_) => self.fault(ErrorKind::Conflict, "it is no longer at the expected revision"),
            None => self.fault(ErrorKind::NotFound, "there is no ring to replace"),
        })
    }

    /// A change is carried out once, however long ago that was. Asked behind the write, which holds the row: whoever has
    /// written the same just now is a conflict, and is found by loading.
    async fn check_id(
        &self,
        tx: &mut WriteTx,
        fleet: &str,
        document: &Document<'_>,
        change: &Change,
    ) -> Result<(), ProviderError> {
        let id = change.id.to_string();
        let written = sqlx::query(WRITTEN_BEFORE).bind(fleet).bind(&*id);
        let written = written.bind(document.incarnation).bind(document.revision);
        let written = tx.fetch_optional(written).await.map_err(|error| self.failed(error))?;
        let Some(row) = written else { return Ok(()) };
        let revision: i64 = row.try_get("revision").map_err(|error| self.unreadable(error))?;
        let detail = format!("the change {id} was carried out as revision {revision}");
        Err(self.fault(ErrorKind::ChangeIdUsed, detail))
    }

    /// The name of the fleet whose row is written.
    async fn fleet(&self, tx: &mut WriteTx, is_there: bool) -> Result<String, ProviderError> {
        if let Whose::Fleet(fleet) = &self.whose {
            return Ok(fleet.clone());
        }
        let rows = tx.fetch_all(sqlx::query(FLEETS)).await.map_err(|error| self.failed(error))?;
        match rows.as_slice() {
            [row] => row.try_get("fleet").map_err(|error| self.unreadable(error)),
            [] if is_there => Err(self.fault(ErrorKind::NotFound, "there is no ring to replace")),
            [] => {
                let detail =
                    "it is not said whose ring this is; name the fleet, as in postgres://…?fleet=NAME";
                Err(self.fault(ErrorKind::Ambiguous, detail))
            }
            _ => Err(self.several_fleets()),
        }
    }
}

const WRITTEN_BEFORE: &str = "
SELECT revision FROM oneseal.ring_history
WHERE fleet = $1 AND change_id = $2::text::uuid AND (incarnation, revision) <> ($3, $4)
ORDER BY id LIMIT 1";

const IS_THERE: &str = "SELECT 1 FROM oneseal.rings WHERE fleet = $1";

/// The statement with what it writes, as parameters.
fn bound<'q>(
    statement: &'static str,
    fleet: &'q str,
    document: &'q Document<'_>,
    change: &'q Change,
    id: &'q str,
) -> sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
    sqlx::query(statement)
        .bind(fleet)
        .bind(document.incarnation)
        .bind(document.revision)
        .bind(document.bytes)
        .bind(id)
        .bind(&*change.actor)
        .bind(&*document.public)
}
