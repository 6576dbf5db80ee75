//! `oneseal events`: the event log, out of the database that the configuration names.

use clap::Subcommand;
use oneseal_coordination::database::{Database, DatabaseError, DatabaseErrorKind};
use oneseal_coordination::events::{Broken, LogError};
use oneseal_keystore::findings::chain;

use super::Globals;
use crate::exit::{Exit, Failure};
use crate::gate::of_database_error;

mod export;
mod follow;
mod prune;
mod verify;

/// What to do with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write events as NDJSON, a line each
    ///
    /// A log that is broken is written out too, since it is evidence, as it stands in the database; the exit code is then 1.
    Export(export::Args),
    /// Check that numbers, hashes and times of the log hold together
    ///
    /// Of the live database, or of what `events export` has written. Whoever can write the database can also write a log
    /// that holds together: --head checks it against an event that was noted down elsewhere.
    Verify(verify::Args),
    /// Print events as they happen, as NDJSON, until a signal ends it
    ///
    /// The same without access to the database: curl -N --unix-socket SOCKET http://localhost/admin/v1/events
    Follow(follow::Args),
    /// Cut the beginning off the log, up to the last checkpoint of every ring
    ///
    /// Without --yes it says what would go. Write it out first: oneseal events export --output events.ndjson
    Prune(prune::Args),
}

/// Does it.
///
/// # Errors
/// No database is configured, it does not answer, or as the verb says.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Export(args) => export::run(args, globals).await,
        Verb::Verify(args) => verify::run(args, globals).await,
        Verb::Follow(args) => follow::run(args, globals).await,
        Verb::Prune(args) => prune::run(args, globals).await,
    }
}

/// How many, in words.
fn events(count: u64) -> String {
    format!("{count} {}", if count == 1 { "event" } else { "events" })
}

/// The configured database.
fn open(globals: &Globals) -> Result<Database, Failure> {
    super::db::open(globals, "oneseal-events")
}

/// What cannot be read, in the words of who found it.
fn unread(error: LogError) -> Failure {
    match error {
        LogError::Broken(broken) => no(&broken),
        LogError::Database(error) => failed(&error),
        error => Failure::refused(error.to_string()),
    }
}

fn no(broken: &Broken) -> Failure {
    Failure::new(Exit::No, broken.to_string())
}

fn failed(error: &DatabaseError) -> Failure {
    use DatabaseErrorKind as Kind;
    let exit = match error.kind() {
        Kind::Unavailable | Kind::Standby => Exit::Unavailable,
        Kind::Denied => Exit::Denied,
        Kind::Conflict | Kind::Fenced => Exit::TryLater,
        Kind::Untrusted | Kind::Schema | Kind::Outgrown | Kind::Configuration => Exit::Refused,
        _ => Exit::Internal,
    };
    let failure = Failure::new(exit, chain(error));
    match of_database_error(error).iter().next() {
        Some(finding) if exit != Exit::Internal => failure.with_code(finding.code.name),
        _ => failure,
    }
}
