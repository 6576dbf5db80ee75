//! The ring's row in Postgres.
//!
//! ```text
//! load      one statement on the primary: the row, whole
//! changed   a hint by LISTEN, the truth by asking for (incarnation, revision, digest) now and then
//! replace   fence check → row, if it still is at (incarnation, revision, digest), with its history → event → COMMIT
//! create    the same for a row that is not there: the first writer wins
//! ```
//!
//! # What is believed
//! - **The primary alone.** A standby may lag by any amount, and a replica that reads there would take an old revision
//!   for the present one. What says it is a standby, or will not say, is `Unavailable`.
//! - **The revision is (incarnation, revision, digest of the stored bytes).** The database computes the digest itself,
//!   so that a row changed by hand has another revision.
//! - **What rests there is sealed.** A document with a private half in plain text, or a key as it is, is refused before
//!   anything is sent ([`ErrorKind::Unsealed`]): what has been sent may stand in a log.
//! - **A COMMIT without an answer is `OutcomeUnknown`**; the row's `change_id` tells. Whatever failed before COMMIT was
//!   sent has changed nothing.
//! - **Nothing waits for ever.** Every statement is bounded on this side as well as on the server's
//!   ([`DatabaseOptions`](oneseal_coordination::database::DatabaseOptions)): a connection that leads nowhere answers
//!   nothing at all.
//!
//! Everything runs inside one transaction without named prepared statements, so a pooler in transaction mode may stand
//! in between. LISTEN may not go through one: it uses the direct URL, and where it is not heard, polling goes on.

mod document;
mod fault;
mod listen;
mod load;
pub mod migrations;
mod revision;
mod statements;
mod watch;
mod write;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::database::{Database, DatabaseError};
use sqlx::Row;

use crate::{
    BoxFuture, Change, Description, Entries, ErrorKind, ProviderError, Record, Revision, SecretProvider,
};
use document::Document;
use watch::Hints;

/// How often the row's revision is asked for although no hint came: a little above the keystore's refresh, which looks
/// as well, so that the two do not add up.
pub const DEFAULT_POLL: Duration = Duration::from_secs(20);

/// Polling faster than this would be a load on the database.
const FASTEST_POLL: Duration = Duration::from_millis(50);

/// Which ring a fleet's row holds, with the fleet as `$1`: columns `incarnation`, `revision` (both bigint) and `digest`
/// (text). For whoever asks for more in the same statement, as a beat does.
pub const RING: &str = "SELECT incarnation, revision, digest FROM oneseal.rings WHERE fleet = $1";

/// The names of the fleets that have their rings in `database`, by name.
///
/// # Errors
/// What the database says.
///
/// # Cancel safety
/// Changes nothing.
pub async fn fleets(database: &Database) -> Result<Vec<String>, DatabaseError> {
    let mut reading = database.read().await?;
    let rows = reading.fetch_all(sqlx::query("SELECT fleet FROM oneseal.rings ORDER BY fleet")).await?;
    reading.end().await;
    Ok(rows.iter().filter_map(|row| row.try_get(0).ok()).collect())
}

/// Keeps the record in a row of `oneseal.rings`.
///
/// Clones share their connections. The tables are those of [`migrations::COMPONENT`].
///
/// # Defaults
/// Polls every [`DEFAULT_POLL`] besides listening.
#[derive(Clone)]
pub struct PostgresProvider {
    database: Database,
    whose: Whose,
    poll: Duration,
    hints: Arc<Hints>,
}

/// Which row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Whose {
    /// That of this fleet.
    Fleet(String),
    /// The only one there is.
    Only,
}

impl Whose {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Fleet(name) => Some(name),
            Self::Only => None,
        }
    }
}

impl PostgresProvider {
    /// The ring of `fleet`.
    pub fn new(database: Database, fleet: impl Into<String>) -> Self {
        Self::of(database, Whose::Fleet(fleet.into()))
    }

    /// The ring of the only fleet that has one in this database: for a look at what is there. Nothing can be created.
    pub fn of_only_fleet(database: Database) -> Self {
        Self::of(database, Whose::Only)
    }

    fn of(database: Database, whose: Whose) -> Self {
        let hints = Arc::new(Hints::new(database.clone(), whose.name().map(str::to_owned)));
        Self { database, whose, poll: DEFAULT_POLL, hints }
    }

    /// How often to ask although no hint came, give or take a tenth; at most twenty times a second.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll = interval.max(FASTEST_POLL);
        self
    }

    fn location(&self) -> String {
        let database = self.database.location();
        match &self.whose {
            Whose::Fleet(fleet) => format!("{database} (fleet {fleet})"),
            Whose::Only => database,
        }
    }

    fn fault(&self, kind: ErrorKind, detail: impl Into<String>) -> ProviderError {
        ProviderError::new(kind, self.location(), detail)
    }
}

/// Whether `entries` could be written, as far as that can be told without asking the database: one ring document, not
/// too large, and no private half in plain text. `location` is what an error names.
///
/// # Errors
/// `Unsealed`, `Malformed` or `TooLarge`.
pub fn check(location: &str, entries: &Entries) -> Result<(), ProviderError> {
    judge(location, entries).map(drop)
}

fn judge<'e>(location: &str, entries: &'e Entries) -> Result<Document<'e>, ProviderError> {
    let (size, limit) = (entries.total_bytes(), Description::DEFAULT_MAX_BYTES);
    if size > limit {
        let detail = format!("the record has {size} bytes, the limit is {limit}; nothing was sent");
        return Err(ProviderError::new(ErrorKind::TooLarge, location, detail));
    }
    Document::of(entries).map_err(|unfit| ProviderError::new(unfit.kind(), location, unfit.to_string()))
}

/// Without any password.
impl fmt::Debug for PostgresProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresProvider")
            .field("location", &self.location())
            .field("poll", &self.poll)
            .finish_non_exhaustive()
    }
}

impl SecretProvider for PostgresProvider {
    fn describe(&self) -> Description {
        let mut description = Description::new("postgres", self.location());
        description.writable = true;
        description.journals = true;
        description
    }

    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>> {
        Box::pin(self.read())
    }

    /// A row that is gone or cannot be read does not wake: it is no newer revision. Where hints are not heard, a change
    /// made within a second after a look is seen by the next poll.
    fn changed<'a>(&'a self, since: &'a Revision) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_for_other_than(since))
    }

    fn replace<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>> {
        Box::pin(self.write(Some(expected), entries, change))
    }

    fn create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>> {
        Box::pin(self.write(None, entries, change))
    }

    fn rehearse<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.write_and_take_back(expected, entries, change))
    }
}
