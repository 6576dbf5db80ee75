//! `oneseal replicas`: who serves this issuer, as the registry has it.

use clap::Subcommand;

use super::Globals;
use crate::exit::{Exit, Failure};

mod forget;
mod list;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the replicas: state, revision, which keys they sign with, whether they mint
    ///
    /// Asks one replica, which needs a [database]. The exit code is 1 if replicas contradict each other.
    List(list::Args),
    /// Say that a silent replica serves no more, so that nothing waits for it
    ///
    /// A replica that ends in order leaves by itself. One that was killed, or lost with its host, stays silent: it might
    /// still serve, cut off from the database, and a planned activation waits for it. Forgetting one that does serve
    /// breaks tokens once the key changes. One that beats is not forgotten. With --direct no replica need run: the row is
    /// taken out of the way in the [database] of the configuration.
    Forget(forget::Args),
}

/// Does it.
///
/// # Errors
/// As the verb says.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    match args.verb {
        Verb::List(args) => list::run(args, globals).await,
        Verb::Forget(args) => forget::run(args, globals).await,
    }
}
