//! `oneseal check`: the boot gate without the boot.

use std::path::PathBuf;

use serde_json::json;

use super::Globals;
use super::overrides::Overrides;
use crate::exit::{Exit, Failure};
use crate::gate::{self, Network, Report, Scope};
use crate::{output, report};

/// What to look at, and how to tell it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Take warnings for errors (78)
    #[arg(long)]
    strict: bool,
    /// Print the effective configuration first, with the origin of each value, and the keys; secrets are masked
    #[arg(long)]
    explain: bool,
    /// Ask nobody at the issuer's URL
    #[arg(long)]
    offline: bool,
    /// Look at the issuer's URL as relying parties do: reachable, certificate, our keys, headers, limits, times
    #[arg(long, conflicts_with = "offline")]
    online: bool,
    /// issuer.ca_bundle: a PEM file of certificates to trust there beside the system's
    #[arg(long, value_name = "FILE", conflicts_with = "offline")]
    ca: Option<PathBuf>,
    /// Leave the listen addresses alone, as beside a running server
    #[arg(long)]
    no_bind: bool,
    /// Print what every code means and how to cure it, and look at nothing; with --json as a table for programs
    #[arg(long, conflicts_with_all = ["strict", "explain", "offline", "online", "ca", "no_bind"])]
    codes: bool,
    #[command(flatten)]
    overrides: Overrides,
}

pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { json, strict, explain, offline, online, ca, no_bind, codes, overrides } = args;
    if codes {
        return tell_codes(json);
    }
    let network = match (offline, online) {
        (true, _) => Network::Offline,
        (_, true) => Network::Online,
        _ => Network::AsServe,
    };
    // A path that is no text is refused under its own name, as nothing that exists.
    let ca = ca.map(|path| path.to_string_lossy().into_owned());
    let sources = overrides.sources(globals).flag("--ca", "issuer.ca_bundle", ca);
    let found = gate::check(sources, Scope { network, sockets: !no_bind }).await;
    let exit = gate::exit_of(&found.findings, strict);
    if json {
        output::print_line(&format!("{:#}", as_json(&found, explain, exit)))?;
    } else {
        output::print(&as_text(&found, explain))?;
    }
    Ok(exit)
}

fn tell_codes(json: bool) -> Result<Exit, Failure> {
    if json {
        output::print_line(&format!("{:#}", report::codes_json()))?;
    } else {
        output::print(&report::page())?;
    }
    Ok(Exit::Done)
}

fn as_json(found: &Report, explain: bool, exit: Exit) -> serde_json::Value {
    let mut report = report::json(&found.findings, exit.code());
    if let Some(measures) = &found.measures {
        report["online"] = json!(measures);
    }
    if let (true, Some(effective)) = (explain, &found.effective) {
        report["configuration"] = json!(effective);
    }
    if let (true, Some(key)) = (explain, &found.key) {
        report["key"] = json!(key);
    }
    report
}

fn as_text(found: &Report, explain: bool) -> String {
    let mut text = String::new();
    if let (true, Some(effective)) = (explain, &found.effective) {
        text.push_str(&format!("{effective}\n"));
    }
    if let (true, Some(key)) = (explain, &found.key) {
        text.push_str(&format!("{key}\n"));
    }
    for measure in found.measures.iter().flatten() {
        text.push_str(&format!("{measure}\n"));
    }
    text.push_str(&report::human(&found.findings));
    text
}
