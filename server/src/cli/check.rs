//! `oneseal check`: the boot gate without the boot.

use serde_json::json;

use super::Globals;
use super::overrides::Overrides;
use crate::exit::{Exit, Failure};
use crate::gate::{self, Report};
use crate::{output, report};

/// Look at configuration and key as the start of `serve` does, and report all that is wrong.
///
/// The exit code is the one that `serve` would end with; 0 if it would start.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Take warnings for errors (78)
    #[arg(long)]
    strict: bool,
    /// Print the effective configuration first, with the origin of each value; secrets are masked
    #[arg(long)]
    explain: bool,
    /// Leave the listen addresses alone, as beside a running server
    #[arg(long)]
    no_bind: bool,
    /// Print what every code means and how to cure it, and look at nothing
    #[arg(long, conflicts_with_all = ["json", "strict", "explain", "no_bind"])]
    codes: bool,
    #[command(flatten)]
    overrides: Overrides,
}

pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { json, strict, explain, no_bind, codes, overrides } = args;
    if codes {
        output::print(&report::page())?;
        return Ok(Exit::Done);
    }
    let Report { findings, config } = gate::check(overrides.sources(globals), false, !no_bind).await;
    let exit = gate::exit_of(&findings, strict);
    let effective = config.as_ref().filter(|_| explain).map(|config| &config.settings.effective);
    if json {
        let mut report = report::json(&findings, exit.code());
        if let Some(effective) = effective {
            report["configuration"] = json!(effective);
        }
        output::print_line(&format!("{report:#}"))?;
    } else {
        if let Some(effective) = effective {
            output::print_line(&effective.to_string())?;
        }
        output::print(&report::human(&findings))?;
    }
    Ok(exit)
}
