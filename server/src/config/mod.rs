//! Configuration: parsed once, every mistake at once, then consumed.
//!
//! ```text
//! table ─┬─► file · environment · flags ─► values (the strongest of each, with its origin) ─► Config
//!        └─► JSON Schema · commented file · docs/configuration.md
//! ```
//! The strongest source of a key holds: flag, then variable, then file, then default. A mistake in a weaker source is
//! reported all the same: it would surface on the day the stronger one goes away.

mod admin;
pub(crate) mod admin_tokens;
mod assertion_issuer;
mod belongs;
mod choose;
mod cluster;
mod codes;
mod commented;
mod compound;
mod database;
pub(crate) mod disk;
#[cfg(test)]
mod docs;
mod environment;
mod explain;
mod file;
mod hint;
mod kek;
mod list;
mod origin;
mod rule;
mod schema;
mod service_link;
mod sources;
mod table;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod times;
mod tls;
mod tokens;
mod url;
mod value;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use oneseal::RuleSet;
use oneseal::token::{Rate, TokenLimits};
use oneseal_coordination::database::{Database, DatabaseOptions};
use oneseal_keystore::{Algorithm, Findings, IssuerUrl, KeyId, Mode, Rotation};
use oneseal_providers::SecretProvider;
use secrecy::SecretString;

pub(crate) use admin_tokens::AdminToken;
pub(crate) use assertion_issuer::{AssertionIssuerChoice, AssertionKeys};
pub(crate) use cluster::{ClusterChoice, ClusterKeys, Fetch};
pub(crate) use codes::CODES;
pub(crate) use commented::commented;
#[cfg(test)]
pub(crate) use docs::docs;
pub(crate) use explain::Effective;
pub(crate) use hint::nearest;
pub(crate) use list::Lists;
pub(crate) use schema::schema;
pub(crate) use sources::Sources;
pub(crate) use table::provider_kinds;

pub(crate) use choose::fleet_of;

use choose::Chosen;

/// What `serve` runs with. `Debug` shows no secret.
#[derive(Debug)]
pub(crate) struct Config {
    /// Who issues.
    pub(crate) issuer: IssuerUrl,
    /// Where the signing key rests.
    pub(crate) provider: ProviderChoice,
    /// How what rests there is read.
    pub(crate) unlocking: Unlocking,
    /// Everything that has a default.
    pub(crate) settings: Settings,
}

impl Config {
    /// Reads all sources, for a process that serves: issuer and provider must be there.
    ///
    /// # Errors
    /// All mistakes at once, together with the warnings; every error exits with 78. Without errors the warnings come
    /// beside the configuration.
    pub(crate) fn load(sources: Sources) -> Result<(Self, Findings), Box<Mistakes>> {
        let (Chosen { issuer, provider, unlocking, settings }, findings) =
            choose::choose(sources.gather(), choose::Need::Serve);
        match (issuer, provider) {
            (Some(issuer), Some(provider)) if !findings.has_errors() => {
                Ok((Self { issuer, provider, unlocking, settings }, findings))
            }
            (issuer, provider) => {
                // A value that was refused may be a secret in the wrong place.
                let settings = Settings { effective: Effective::default(), ..settings };
                Err(Box::new(Mistakes { findings, issuer, provider, unlocking, settings }))
            }
        }
    }

    /// Wipes a key that stands in the configuration itself, once the provider that was made of it has its own copy.
    pub(crate) fn forget_key(&mut self) {
        if let ProviderChoice::Inline { value } = &mut self.provider {
            *value = SecretString::from("");
        }
        if let Some(ProviderChoice::Inline { value }) = &mut self.unlocking.sealing.kek {
            *value = SecretString::from("");
        }
    }

    /// The name of the replicas that serve this issuer from one ring: `ring.fleet`, or the issuer's host, port and path.
    pub(crate) fn fleet(&self) -> String {
        self.settings.fleet_of(&self.issuer)
    }
}

/// Judges the text of a configuration file as [`Config::load`] does, without reading anything else.
pub(crate) fn read_text(text: &[u8]) {
    let Ok(text) = str::from_utf8(text) else { return };
    let (chosen, findings) = choose::choose(sources::of_text(text), choose::Need::Serve);
    drop((chosen, findings.to_string()));
}

/// Why there is no [`Config`], and what is known of the key all the same, so that one report can tell its faults too.
#[derive(Debug)]
pub(crate) struct Mistakes {
    /// What is wrong with the configuration, and its warnings.
    pub(crate) findings: Findings,
    /// Whose key it is, if nothing is wrong with that.
    pub(crate) issuer: Option<IssuerUrl>,
    /// Where it rests, if nothing is wrong with that.
    pub(crate) provider: Option<ProviderChoice>,
    /// How what rests there is read.
    pub(crate) unlocking: Unlocking,
    /// Everything else: where something is wrong, what holds without it. `effective` is empty.
    pub(crate) settings: Settings,
}

/// What a command reads that asks a server and holds no key, such as `verify`, `mint` or `healthcheck`.
#[derive(Debug)]
pub(crate) struct PartialConfig {
    /// Who issues, if that is said.
    pub(crate) issuer: Option<IssuerUrl>,
    /// Everything that has a default.
    pub(crate) settings: Settings,
}

impl PartialConfig {
    /// Reads all sources; issuer and provider may be missing, nothing may be wrong.
    ///
    /// # Errors
    /// All mistakes at once, together with the warnings.
    pub(crate) fn load(sources: Sources) -> Result<(Self, Findings), Findings> {
        let (Chosen { issuer, provider: _, unlocking: _, settings }, findings) =
            choose::choose(sources.gather(), choose::Need::Nothing);
        if findings.has_errors() {
            return Err(findings);
        }
        Ok((Self { issuer, settings }, findings))
    }
}

/// Everything that has a default.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The algorithms of discovery, at least one; the first signs by default.
    pub(crate) algorithms: Vec<Algorithm>,
    /// What the issuer's own URL is asked, and whom that trusts.
    pub(crate) self_check: SelfCheck,
    /// `ring.fleet`; see [`Config::fleet`].
    pub(crate) fleet: Option<String>,
    /// The database, if there is one.
    pub(crate) database: Option<DatabaseOptions>,
    /// What is bound.
    pub(crate) listen: Listen,
    /// Whether TLS is spoken.
    pub(crate) tls: Tls,
    /// Whether something is wrong with `listen`, so that part of it is a default.
    pub(crate) is_listen_faulty: bool,
    /// Start, stop, logs.
    pub(crate) process: Process,
    /// How it is known to the other replicas.
    pub(crate) ops: Ops,
    /// The token endpoint.
    pub(crate) tokens: Tokens,
    /// The admin API.
    pub(crate) admin: Admin,
    /// Times of the fleet, consistent with each other.
    pub(crate) rotation: Rotation,
    /// `[[cluster]]`.
    pub(crate) clusters: Vec<ClusterChoice>,
    /// `[[assertion_issuer]]`.
    pub(crate) assertion_issuers: Vec<AssertionIssuerChoice>,
    /// `[[rule]]`.
    pub(crate) rules: RuleSet,
    /// The tables of the lists that nothing has been made of.
    #[expect(dead_code, reason = "the lists are not available in this version")]
    pub(crate) lists: Lists,
    /// `ONESEAL_LOG`: a filter that is known to parse.
    pub(crate) log_filter: Option<String>,
    /// Every value with its origin, secrets masked.
    pub(crate) effective: Effective,
}

/// How a replica is known to the others; what is not said here follows from its host and sockets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ops {
    /// Its name.
    pub(crate) instance: Option<String>,
    /// Host, and perhaps port, of its ops listener.
    pub(crate) advertise: Option<String>,
}

impl Settings {
    /// The name of the replicas that serve `issuer` from one ring: `ring.fleet`, or its host, port and path.
    pub(crate) fn fleet_of(&self, issuer: &IssuerUrl) -> String {
        self.fleet.clone().unwrap_or_else(|| fleet_of(issuer))
    }
}

/// How the issuer's own URL is asked.
#[derive(Clone, Debug)]
pub(crate) struct SelfCheck {
    /// Whether the start asks it.
    pub(crate) enabled: bool,
    /// PEM certificates that are trusted beside the system's.
    pub(crate) extra_roots: Vec<String>,
}

/// Which provider. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub(crate) enum ProviderChoice {
    /// A file or a directory.
    File {
        /// Where.
        path: PathBuf,
        /// Whether the operator says that it outlives this host or container.
        durable: bool,
    },
    /// An environment variable.
    Env {
        /// Its name.
        variable: String,
    },
    /// The row of a fleet in a database.
    Postgres {
        /// Which database. Nothing has been opened.
        database: Database,
        /// Whose row; the only one there is, where nothing names the fleet.
        fleet: Option<String>,
    },
    /// A Kubernetes Secret or one of AWS Secrets Manager. Nothing has been opened.
    Remote(Arc<dyn SecretProvider>),
    /// The configuration itself.
    Inline {
        /// The key, in any of its text forms.
        value: SecretString,
    },
}

/// How a key is read that does not simply lie there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unlocking {
    /// Where the passphrase of an encrypted key rests.
    pub(crate) passphrase: Option<PassphraseChoice>,
    /// The member that holds the key.
    pub(crate) member: Option<String>,
    /// How much older than its source what is read may be.
    pub(crate) max_lag: Duration,
    /// What opens a sealed ring, and whose ring is believed.
    pub(crate) sealing: Sealing,
}

/// What opens a sealed ring, and whose ring is believed. `Debug` shows no secret.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sealing {
    /// Where the KEK rests that seals.
    pub(crate) kek: Option<ProviderChoice>,
    /// Where those rest that only open.
    pub(crate) previous: Vec<ProviderChoice>,
    /// Whether this replica signs.
    pub(crate) mode: Mode,
    /// The ring key that is believed.
    pub(crate) pin: Option<KeyId>,
}

impl Sealing {
    /// All of them, the current one first.
    pub(crate) fn keks(&self) -> impl Iterator<Item = &ProviderChoice> {
        self.kek.iter().chain(&self.previous)
    }
}

/// Where a passphrase rests.
#[derive(Clone, Debug)]
pub(crate) enum PassphraseChoice {
    /// A file, or a directory with one.
    File(PathBuf),
    /// The environment variable of this name.
    Env(String),
}

/// What is bound.
#[derive(Clone, Debug)]
pub(crate) struct Listen {
    /// Discovery and JWKS.
    pub(crate) documents: SocketAddr,
    /// Tokens, if they are asked for elsewhere.
    pub(crate) token: Option<SocketAddr>,
    /// Probes and metrics.
    pub(crate) ops: SocketAddr,
    /// The admin API's Unix socket; `None` is off.
    pub(crate) admin: Option<PathBuf>,
    /// The admin API on TCP, if it is there too.
    pub(crate) admin_tcp: Option<SocketAddr>,
}

/// What the token endpoint takes, and how it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    /// As discovery says it, if not `ISS/token`.
    pub(crate) endpoint: Option<String>,
    /// Of each workload, and of each request.
    pub(crate) limits: TokenLimits,
    /// Of each address, where there are `trusted_proxies`.
    pub(crate) address: Rate,
    /// Who stands in front.
    pub(crate) trusted_proxies: Vec<IpNet>,
}

/// TLS of the documents, the token and the admin TCP listener.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// Where its certificate comes from.
    pub(crate) source: TlsSource,
    /// Whether TLS 1.2 is refused.
    pub(crate) only_1_3: bool,
}

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TlsSource {
    /// Plain HTTP.
    Off,
    /// Two PEM files, which are followed.
    Files {
        /// The chain, the server's own certificate first.
        certificate: PathBuf,
        /// Its private key.
        private_key: PathBuf,
    },
    /// Made at the start and gone at the end: `serve --dev-tls`.
    Development,
}

/// Start, stop, logs.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// How long the start waits for a silent provider.
    pub(crate) boot_timeout: Duration,
    /// How long a stopping replica serves on after it has left readiness.
    pub(crate) drain_delay: Duration,
    /// How long stopping takes in all; more than `drain_delay`.
    pub(crate) shutdown_timeout: Duration,
    /// For whom log lines are.
    pub(crate) log_format: LogFormat,
}

/// For whom log lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// People on a terminal, machines elsewhere.
    Auto,
    /// People.
    Human,
    /// Machines.
    Json,
}

/// The admin API.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    /// Whether it mints.
    pub(crate) mint: bool,
    /// For whom.
    pub(crate) mint_audiences: Vec<String>,
    /// Who may call over TCP.
    pub(crate) tokens: Vec<AdminToken>,
    /// By which names, beside its own.
    pub(crate) hosts: Vec<String>,
}
