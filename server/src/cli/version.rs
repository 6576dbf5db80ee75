//! `oneseal version`: which program this is, as far as a report of a fault needs it.

use serde_json::json;

use super::Globals;
use crate::config;
use crate::exit::{Exit, Failure};
use crate::output;

/// In which form.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints it.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn run(args: Args, _globals: &Globals) -> Result<Exit, Failure> {
    if args.json {
        let facts = json!({
            "version": VERSION,
            "rustc": RUSTC,
            "target": TARGET,
            "profile": PROFILE,
            "crypto": CRYPTO,
            "providers": config::provider_kinds(),
        });
        output::answer(facts, Exit::Done)?;
    } else {
        output::print(&format!(
            "oneseal {VERSION}\n{RUSTC}, {TARGET}, {PROFILE}\n{CRYPTO}\nproviders: {}\n",
            config::provider_kinds().join(", ")
        ))?;
    }
    Ok(Exit::Done)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
// The build script sets these.
const RUSTC: &str = env!("BUILT_WITH_RUSTC");
const TARGET: &str = env!("BUILT_FOR_TARGET");
const PROFILE: &str = env!("BUILT_FOR_PROFILE");
const CRYPTO: &str = env!("BUILT_WITH_CRYPTO");
