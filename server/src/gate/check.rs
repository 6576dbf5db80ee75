//! The gate without the boot: all that can be said of a configuration, its key and its issuer without starting.

use std::fmt;

use oneseal::{Clock, Findings, Issuer, IssuerUrl, SystemClock};
use oneseal_keystore::Mode;
use oneseal_keystore::findings::{Finding, Severity};
use oneseal_providers::Durability;
use serde::Serialize;

use super::database::{GRANT_MISSING, NOT_WRITABLE, PLACE};
use super::online::{self, Measure};
use super::{RULE_NONE, is_of_key, self_check, together, with_others};
use crate::config::{Config, Effective, Mistakes, ProviderChoice, Settings, Sources};
use crate::fleet::Look;
use crate::http::bind::Sockets;
use crate::proofs::Proofs;
use crate::tls::Tls;
use crate::{app, fleet, key_answers};

/// How far a check looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// What it asks of the network.
    pub(crate) network: Network,
    /// Whether it tries the listen addresses.
    pub(crate) sockets: bool,
}

/// What is asked of the network about the issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Nothing.
    Offline,
    /// What the start of `serve` asks, if `issuer.self_check` says so.
    AsServe,
    /// All that relying parties see.
    Online,
}

/// What `check` found.
#[derive(Debug)]
pub(crate) struct Report {
    /// Everything.
    pub(crate) findings: Findings,
    /// The effective configuration, if it could be made.
    pub(crate) effective: Option<Effective>,
    /// The key, if it could be read and is good.
    pub(crate) key: Option<KeyReport>,
    /// What was measured at the issuer's URL, if it was looked at for that.
    pub(crate) measures: Option<Vec<Measure>>,
}

/// Which keys a replica would publish, and where they rest.
#[derive(Debug, Serialize)]
pub(crate) struct KeyReport {
    /// The provider's short name, such as `file`.
    pub(crate) provider: &'static str,
    /// Where in it. No secret.
    pub(crate) location: String,
    /// Whether it outlives this process and host, in words.
    pub(crate) durability: String,
    /// The ring's revision; 0 for bare keys.
    pub(crate) revision: u64,
    /// In the order of the key set.
    pub(crate) keys: Vec<KeyRow>,
}

/// One key of them.
#[derive(Debug, Serialize)]
pub(crate) struct KeyRow {
    /// Its name.
    pub(crate) kid: String,
    /// Its algorithm.
    pub(crate) alg: &'static str,
    /// Its state in the ring.
    pub(crate) state: &'static str,
}

/// For people: where the key rests, and a line for each.
impl fmt::Display for KeyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, location, durability, revision, keys } = self;
        writeln!(f, "keys of {provider}:{location}, {durability}, revision {revision}")?;
        keys.iter().try_for_each(|KeyRow { kid, alg, state }| writeln!(f, "  {kid}  {alg}  {state}"))
    }
}

/// Everything that can be said without starting: configuration, key, the issuer's own URL, and whether the sockets
/// could be bound. One attempt; a check is asked again by whoever wants to.
///
/// # Cancel safety
/// Changes nothing outside itself.
pub(crate) async fn check(sources: Sources, scope: Scope) -> Report {
    let found = match Config::load(sources) {
        Ok((config, remarks)) => of_config(config, remarks).await,
        Err(mistakes) => of_mistakes(mistakes).await,
    };
    let Found { mut findings, issuer, url, provider, settings, proofs, is_whole } = found;
    if scope.network != Network::Offline {
        findings.extend(proofs.probe().await);
    }
    let snapshot = issuer.as_ref().map(Issuer::snapshot);
    let mut measures = None;
    if let (Some(url), true) = (&url, is_whole) {
        let found = of_fleet(url, issuer.as_ref(), &settings, provider.as_ref(), scope, &findings).await;
        findings.extend(found);
    }
    match (scope.network, url) {
        (Network::AsServe, Some(url)) => {
            // As the start does: with a refusal in hand nobody is asked.
            if let Some(ours) = snapshot.as_ref().filter(|_| is_whole && !findings.has_errors()) {
                let how = &settings.self_check;
                findings.extend(self_check::ask(&url, how, ours, false, &SystemClock).await);
            }
        }
        (Network::Online, Some(url)) => {
            let seen = online::look(&url, &settings, snapshot.as_deref(), &SystemClock).await;
            findings.extend(seen.findings);
            measures = Some(seen.measures);
        }
        _ => {}
    }
    if scope.sockets && !settings.is_listen_faulty {
        findings.extend(Sockets::probe(&settings.listen));
    }
    findings.drop_if_refused(RULE_NONE);
    let key = issuer.zip(provider).map(|(issuer, choice)| describe(&issuer, &choice));
    Report { findings, effective: is_whole.then_some(settings.effective), key, measures }
}

/// What the rows of the others say, where there is a database. What is wrong with that itself has been told.
async fn of_fleet(
    url: &IssuerUrl,
    issuer: Option<&Issuer>,
    settings: &Settings,
    provider: Option<&ProviderChoice>,
    scope: Scope,
    told: &Findings,
) -> Findings {
    if told.iter().any(is_of_database) {
        return Findings::new();
    }
    let Ok(Some(database)) = app::database(settings) else { return Findings::new() };
    let look = Look {
        issuer,
        is_ring_there: matches!(provider, Some(ProviderChoice::Postgres { .. })),
        may_run: !scope.sockets,
    };
    fleet::look(database, settings.fleet_of(url), settings, &look).await
}

fn is_of_database(finding: &Finding) -> bool {
    finding.code.severity == Severity::Error && finding.code.name.starts_with("database.")
}

/// What would stand against every change of a ring in the database. Without it one learns of that in the emergency.
async fn of_writing(config: &Config) -> Findings {
    let mut findings = Findings::new();
    let is_writer = config.unlocking.sealing.mode == Mode::Full;
    if !is_writer || !matches!(config.provider, ProviderChoice::Postgres { .. }) {
        return findings;
    }
    if let Err(error) = app::executor(config, None).rehearse().await {
        let message = format!("{}: {}", error.code(), key_answers::words(&error));
        findings.push(&NOT_WRITABLE, PLACE, message);
    }
    findings
}

/// Whether it tells of rights to tables that a change would need: the same told again would tell nothing.
fn is_of_rights(finding: &Finding) -> bool {
    is_of_database(finding) || finding.code.name == GRANT_MISSING.name
}

/// All that is wrong where the configuration is refused: with it, with its certificate and, if it says where the key
/// rests, with the key. One attempt, since waiting for a provider would not cure the configuration.
///
/// # Cancel safety
/// Changes nothing outside itself.
pub(crate) async fn refused(mistakes: Box<Mistakes>) -> Findings {
    of_mistakes(mistakes).await.findings
}

/// What configuration and key have told.
struct Found {
    findings: Findings,
    /// With its key, if that is good.
    issuer: Option<Issuer>,
    url: Option<IssuerUrl>,
    provider: Option<ProviderChoice>,
    settings: Settings,
    /// Who vouches for workloads, if nothing is wrong with that.
    proofs: Proofs,
    /// Whether nothing was wrong with the configuration.
    is_whole: bool,
}

async fn of_config(config: Config, mut remarks: Findings) -> Found {
    let (tls, found) = Tls::open(&config.settings.tls, &config.issuer, &SystemClock).await;
    remarks.extend(found);
    remarks.extend(config.settings.admin.advice(SystemClock.wall()));
    let (database, mode) = (config.settings.database.as_ref(), config.unlocking.sealing.mode);
    let of_database = super::database(database, mode).await;
    if !of_database.has_errors() {
        remarks.extend(super::database_advice(database, mode).await);
    }
    remarks.extend(of_database);
    let proofs = match Proofs::open(&config) {
        Ok(proofs) => proofs,
        Err(found) => {
            remarks.extend(found);
            Proofs::default()
        }
    };
    remarks.extend(proofs.advice());
    let (findings, issuer) = match app::issuer(&config, &proofs, false).build().await {
        Ok((issuer, _tasks)) => {
            remarks.extend(tls.map(|tls| tls.advice(&issuer)).unwrap_or_default());
            if !remarks.iter().any(is_of_rights) {
                remarks.extend(of_writing(&config).await);
            }
            (together(remarks, issuer.findings()), Some(issuer))
        }
        Err(found) => (together(remarks, &found), None),
    };
    let Config { issuer: url, provider, settings, .. } = config;
    Found { findings, issuer, url: Some(url), provider: Some(provider), settings, proofs, is_whole: true }
}

async fn of_mistakes(mistakes: Box<Mistakes>) -> Found {
    let Mistakes { mut findings, issuer: url, provider, unlocking, settings } = *mistakes;
    let mut issuer = None;
    if let Some(url) = &url {
        findings.extend(Tls::open(&settings.tls, url, &SystemClock).await.1);
    }
    if let Some(provider) = &provider {
        // Without a name the key alone is judged; that the name is missing or wrong has been told.
        let name = url.as_ref().map_or("", IssuerUrl::as_str);
        let found = match app::key_only(name, provider, &unlocking, &settings.algorithms).build().await {
            Ok((built, _tasks)) => {
                let found = built.findings().clone();
                issuer = Some(built);
                found
            }
            Err(found) => found,
        };
        findings = with_others(findings, &found, is_of_key);
    }
    Found { findings, issuer, url, provider, settings, proofs: Proofs::default(), is_whole: false }
}

fn describe(issuer: &Issuer, choice: &ProviderChoice) -> KeyReport {
    let (description, snapshot) = (app::provider(choice).describe(), issuer.snapshot());
    let keys = snapshot.keys().iter().map(|key| KeyRow {
        kid: key.kid.to_string(),
        alg: key.algorithm.as_str(),
        state: key.state.as_str(),
    });
    KeyReport {
        provider: description.kind,
        location: description.location,
        durability: match description.durability {
            Durability::Durable => "durable".to_owned(),
            Durability::Ephemeral(why) => format!("ephemeral: {why}"),
            Durability::ImageLayer(why) => format!("goes with the container: {why}"),
            _ => "unknown".to_owned(),
        },
        revision: snapshot.identity().revision,
        keys: keys.collect(),
    }
}
