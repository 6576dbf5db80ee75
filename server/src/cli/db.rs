//! `oneseal db`: the tables in the database.

use clap::Subcommand;
use oneseal_coordination::database::{Database, DatabaseOptions};

use super::Globals;
use crate::exit::{Exit, Failure};
use crate::gate;

mod migrate;
mod status;

/// What to do with the tables.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Bring the tables to the version of this oneseal
    ///
    /// What only adds is applied at once, under a fleet that runs. What takes something away that the previous version
    /// still used wants --contract and --yes, and is refused while a replica beats. The user of database.url must be
    /// allowed to create tables. Run twice, or by two at once, it does everything once.
    Migrate(migrate::Args),
    /// Show the versions of the tables, and whether this oneseal can use them
    Status(status::Args),
}

/// Does it.
///
/// # Errors
/// Configuration is refused, or the database refuses or does not answer.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Migrate(args) => migrate::run(args, globals).await,
        Verb::Status(args) => status::run(args, globals).await,
    }
}

/// The configured database, called `as_whom` in its list of sessions.
///
/// # Errors
/// Configuration is refused, or names none (78).
pub(crate) fn open(globals: &Globals, as_whom: &str) -> Result<Database, Failure> {
    let options = globals.partial_config()?.settings.database.ok_or_else(|| {
        Failure::refused("no database is configured")
            .with_hint("Set database.url, or ONESEAL__DATABASE__URL_FILE to the file that holds it.")
    })?;
    let options = DatabaseOptions { application_name: as_whom.to_owned(), ..options };
    Database::new(options).map_err(|error| Failure::found(gate::of_database_error(&error)))
}
