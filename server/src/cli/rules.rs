//! `oneseal rules`: what the configured rules would do, without a key and without a server.

use clap::Subcommand;
use oneseal::{IssuerUrl, MintError, Rehearsal, Rehearsed, RuleSet, Voucher};
use oneseal_coordination::{Clock as _, SystemClock};

use super::Globals;
use crate::config::{Settings, nearest};
use crate::exit::{Exit, Failure};

mod expect;
mod preview;
mod proof;
mod test;
mod workload;

use workload::Workload;

/// What to ask of the rules.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what a token of this workload would say, or why no rule lets it have one
    ///
    /// The configuration alone is asked: no key, no server, no cluster. Whatever is said of the workload is believed, and
    /// nothing is signed.
    Preview(Box<preview::Args>),
    /// Hold the rules against expectations in files
    ///
    /// A file is TOML or JSON: a list `expect`, each with a `workload`, an `audience`, and either `denied = true` or what the
    /// token must be: `rule`, `sub`, `ttl`, `algorithm`, `claims`. docs/rules.md has examples.
    Test(test::Args),
}

/// Asks.
///
/// # Errors
/// The configuration is refused (78), or the question makes no sense (64).
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Preview(args) => preview::run(*args, globals),
        Verb::Test(args) => test::run(args, globals),
    }
}

/// The configured rules.
struct Configured {
    issuer: IssuerUrl,
    rehearsal: Rehearsal,
    settings: Settings,
    rules: RuleSet,
}

impl Configured {
    fn read(globals: &Globals) -> Result<Self, Failure> {
        let config = globals.partial_config()?;
        let issuer = config.issuer.ok_or_else(|| {
            Failure::refused("issuer.url is not configured, and without it no token can be shown")
                .with_hint("Name the configuration by --config, or set issuer.url there.")
        })?;
        let rules = config.settings.rules.clone();
        let rehearsal = rehearsal(&issuer, &config.settings);
        Ok(Self { issuer, rehearsal, settings: config.settings, rules })
    }

    /// Whether somebody of this name is there to vouch: a mistyped name must not look like a denial.
    ///
    /// # Errors
    /// There is none, with the names that there are.
    fn know(&self, voucher: &Voucher) -> Result<(), String> {
        let clusters = || self.settings.clusters.iter().map(|one| one.name.as_str());
        let issuers = || self.settings.assertion_issuers.iter().map(|one| one.name.as_str());
        let (list, name, known): (_, _, Vec<_>) = match voucher {
            Voucher::Cluster(name) => ("cluster", name, clusters().collect()),
            Voucher::AssertionIssuer(name) => ("assertion_issuer", name, issuers().collect()),
            _ => return Ok(()),
        };
        if known.contains(&name.as_str()) {
            return Ok(());
        }
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "none is configured".to_owned(),
            None => format!("there are {}", known.join(", ")),
        };
        Err(format!("there is no [[{list}]] `{}`; {hint}", name.escape_debug()))
    }

    /// What a token for `workload` would be, minted now.
    fn decide(&self, workload: &Workload, request: &oneseal::MintRequest) -> Result<Rehearsed, MintError> {
        self.rehearsal.preview(&workload.voucher, &workload.facts, request, SystemClock.wall())
    }
}

fn rehearsal(issuer: &IssuerUrl, settings: &Settings) -> Rehearsal {
    let (algorithms, rotation) = (settings.algorithms.clone(), settings.rotation.clone());
    let endpoint = settings.tokens.endpoint.as_deref();
    Rehearsal::new(issuer, endpoint, algorithms, rotation, settings.rules.clone())
}
