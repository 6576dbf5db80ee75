//! `oneseal admin`: what the admin API needs to be used over TCP.

use clap::Subcommand;

use super::Globals;
use crate::exit::{Exit, Failure};

mod token;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make the tokens with which the admin API is called over TCP
    Token(token::Args),
}

/// Does it.
///
/// # Errors
/// As the verb says.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Token(args) => token::run(args, globals).await,
    }
}
