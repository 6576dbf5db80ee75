//! `oneseal quickstart`: the promise of the whole program, shown on one machine.

use std::path::PathBuf;

use super::Globals;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::quickstart::{self, Options, View};

/// How many replicas, where, and for whom.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many replicas, from 2 to 9
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=9))]
    replicas: u8,
    /// One round instead of a live table; so it is too when standard output is no terminal
    #[arg(long)]
    once: bool,
    /// Where ring and port are kept
    #[arg(long, value_name = "DIR", default_value = "./oneseal-data")]
    dir: PathBuf,
    /// The issuer's port, at the first start in a directory [default: a free one, which is kept]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// One round, told as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// The port is taken, the directory is in use, the ring is refused, a replica does not start.
pub(crate) async fn run(args: Args, _globals: &Globals) -> Result<Exit, Failure> {
    let Args { replicas, once, dir, port, json } = args;
    let view = match (json, once || !output::is_terminal()) {
        (true, _) => View::Json,
        (false, true) => View::Once,
        (false, false) => View::Live,
    };
    quickstart::run(Options { replicas: replicas.into(), dir, port, view }).await
}
