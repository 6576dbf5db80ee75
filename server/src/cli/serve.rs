//! `oneseal serve`: logs, configuration, gate, bind, print, wait, drain, exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oneseal::keystore::ring::KeyState;
use oneseal::{Clock, Findings, Issuer, SystemClock};
use oneseal_keystore::executor::{Executor, Observer};
use tokio::task::JoinSet;

use super::Globals;
use super::overrides::Overrides;
use crate::config::{Config, Process};
use crate::exit::{Exit, Failure};
use crate::fleet::{self, Membership, Witness};
use crate::gate::{self, Opened};
use crate::hardening;
use crate::http::bind::Sockets;
use crate::http::capacity::{Capacity, MOST, Optional};
use crate::lifecycle::{Limits, Server, Signals};
use crate::logging::{self, LogFormat};
use crate::notify::Notifier;
use crate::proofs::Proofs;
use crate::ready_file::{Addresses, ReadyFile};
use crate::rules_file::RulesFile;
use crate::tls::{Tls, is_authority};
use crate::whole_file::{self, WholeFile};
use crate::{app, output, report};

/// How this server is to be started, beside its configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the bound addresses as JSON to this file once the server is ready, and remove it at the end
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Accept, this once, a key set that shares no key with the one that was served: every token in use breaks
    #[arg(long)]
    allow_key_replacement: bool,
    /// Allow core dumps and debuggers, which can read the private key
    #[arg(long)]
    allow_debugging: bool,
    /// End, as on SIGINT, when standard input does: for a program that starts this one and may die without a word
    #[arg(long)]
    exit_on_stdin_eof: bool,
    /// Speak TLS with a certificate made at this start, for an issuer on this machine such as https://localhost:8443
    #[arg(long)]
    dev_tls: bool,
    /// Where --dev-tls writes the certificate that vouches for it, for `oneseal verify --ca` and others; gone at the end
    #[arg(long, value_name = "PATH", default_value = DEV_CA, requires = "dev_tls")]
    dev_tls_ca: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
}

pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args {
        ready_file,
        allow_key_replacement,
        allow_debugging,
        exit_on_stdin_eof,
        dev_tls,
        dev_tls_ca,
        overrides,
    } = args;
    // Before configuration, which may hold a key itself.
    let hardened = if allow_debugging { Ok(()) } else { hardening::deny_dumps() };
    let again = {
        let (overrides, globals) = (overrides.clone(), globals.clone());
        move || overrides.clone().sources(&globals).dev_tls(dev_tls)
    };
    let sources = again();
    let file = sources.file();
    let (config, remarks) = match Config::load(sources) {
        Ok(loaded) => loaded,
        Err(mistakes) => {
            let format = globals.log_format.unwrap_or(LogFormat::Auto);
            logging::install(format, None);
            return Ok(refuse(&gate::refused(mistakes).await, format, &Notifier::from_environment()).await);
        }
    };
    let format = globals.log_format.unwrap_or(config.settings.process.log_format.into());
    logging::install(format, config.settings.log_filter.as_deref());
    let notifier = Notifier::from_environment();
    if let Err(error) = hardened {
        tracing::warn!(%error, "core dumps and debuggers could not be denied");
    }
    let mut signals = Signals::listen(exit_on_stdin_eof)?;
    if let Some(path) = &ready_file {
        ReadyFile::clear(path)?;
    }
    if dev_tls {
        whole_file::may_replace(&dev_tls_ca, is_authority).map_err(|error| no_ca(&dev_tls_ca, error))?;
    }

    let membership = app::membership(&config)?;
    let rules = file.map(|file| RulesFile::new(file, again, config.settings.effective.clone()));
    let starting = Starting {
        config,
        remarks,
        rules,
        membership: membership.clone(),
        allow_key_replacement,
        ready_file,
        dev_tls_ca,
        format,
        notifier: notifier.clone(),
    };
    let (running, times) = match starting.start(&mut signals).await {
        Ok(started) => started,
        Err(ended) => {
            // A replica that does not start after all has no row that others would wait for.
            if let Some(membership) = membership {
                membership.withdraw().await;
            }
            return ended.into();
        }
    };
    // Ended when this function does.
    let mut alive = JoinSet::new();
    alive.spawn(notifier.clone().keep_alive());
    Ok(running.server.run(&times, &mut signals, &notifier).await)
}

/// What a start begins with.
struct Starting {
    config: Config,
    remarks: Findings,
    rules: Option<RulesFile>,
    membership: Option<Arc<Membership>>,
    allow_key_replacement: bool,
    ready_file: Option<PathBuf>,
    dev_tls_ca: PathBuf,
    format: LogFormat,
    notifier: Notifier,
}

/// A server that serves, and the files that are there as long.
struct Running {
    server: Server,
    _ca_file: Option<WholeFile>,
    _ready_file: Option<ReadyFile>,
}

/// Why there is no server.
enum Ended {
    /// It has been told.
    Told(Exit),
    /// It is yet to be told.
    Untold(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Untold(failure)
    }
}

impl From<Ended> for Result<Exit, Failure> {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Told(exit) => Ok(exit),
            Ended::Untold(failure) => Err(failure),
        }
    }
}

impl Starting {
    /// Gate, sockets, parts: from here to a server that serves.
    async fn start(self, signals: &mut Signals) -> Result<(Running, Process), Ended> {
        let Self {
            mut config,
            mut remarks,
            rules,
            membership,
            allow_key_replacement,
            ready_file,
            dev_tls_ca,
            format,
            notifier,
        } = self;
        let began = SystemClock.boot();
        let (tls, found) = Tls::open(&config.settings.tls, &config.issuer, &SystemClock).await;
        remarks.extend(found);
        let proofs = Proofs::open(&config).unwrap_or_else(|found| {
            remarks.extend(found);
            Proofs::default()
        });
        remarks.extend(proofs.advice());
        let build = async || {
            let found =
                gate::database(config.settings.database.as_ref(), config.unlocking.sealing.mode).await;
            if found.has_errors() {
                return Err(found);
            }
            app::issuer(&config, &proofs, allow_key_replacement).build().await
        };
        let ask = async |issuer: &Issuer| {
            let mut findings = proofs.probe().await;
            if let Some(membership) = &membership {
                let timeout = config.settings.process.boot_timeout;
                findings.extend(
                    membership.join(issuer, allow_key_replacement, began, timeout, &SystemClock).await,
                );
                if findings.has_errors() || !membership.is_alone() {
                    return findings;
                }
            }
            let (url, how) = (issuer.url(), &config.settings.self_check);
            findings
                .extend(gate::ask(url, how, &issuer.snapshot(), allow_key_replacement, &SystemClock).await);
            findings
        };
        let opened = tokio::select! {
            opened = gate::open(build, ask, remarks, config.settings.process.boot_timeout, &SystemClock, &notifier) => opened,
            // Nothing is served yet; a row that may be there is the caller's to take away.
            stop = signals.next() => {
                tracing::info!(signal = stop.name(), "ended before there was a key to serve");
                notifier.stopping(stop.name(), Duration::ZERO).await;
                return Err(Ended::Told(stop.exit_at_once()));
            }
        };
        let Opened { issuer, tasks, findings } = match opened {
            Ok(opened) => opened,
            Err(findings) => return Err(Ended::Told(refuse(&findings, format, &notifier).await)),
        };
        let witness = membership.clone().map(|fleet| Witness::new(fleet, issuer.clone()));
        let observer = witness.map(|witness| Arc::new(witness) as Arc<dyn Observer>);
        let executor = app::executor(&config, observer);
        config.forget_key();
        findings.iter().for_each(logging::tell);
        let mode = config.unlocking.sealing.mode;
        gate::database_advice(config.settings.database.as_ref(), mode).await.iter().for_each(logging::tell);
        config.settings.admin.advice(SystemClock.wall()).iter().for_each(logging::tell);
        tls.iter().for_each(|tls| tls.advice(&issuer).iter().for_each(logging::tell));
        let mut limits = limits(&config, executor)?;
        let (sockets, remarks) = match Sockets::bind(&config.settings.listen) {
            Ok(bound) => bound,
            Err(findings) => return Err(Ended::Told(refuse(&findings, format, &notifier).await)),
        };
        remarks.iter().for_each(logging::tell);

        let addresses = Addresses::of(issuer.url().as_str(), &sockets, tls.is_some())
            .map_err(|error| Failure::internal("a bound socket has no address").because(error))?;
        let status = status(&issuer, &addresses);
        limits.ops_url = fleet::ops_url(&config.settings.ops, addresses.ops, fleet::outward());
        // As it stands in the registry; it has a new part at each start where no port tells replicas of one host apart.
        if let Some(membership) = &membership {
            limits.instance = membership.instance().to_owned();
        }
        limits.fleet = membership;
        limits.rules = rules;
        let server = Server::start(issuer, tasks, sockets, tls.as_ref(), limits).await;
        let ca = tls.as_ref().and_then(|tls| tls.development_ca.as_deref());
        let ca_file = ca.map(|pem| write_ca(dev_tls_ca, pem)).transpose()?;
        let ready_file = ready_file.map(|path| ReadyFile::write(path, &addresses)).transpose()?;
        announce(&addresses, &config, tls.as_ref());
        notifier.ready(&status).await;
        let running = Running { server, _ca_file: ca_file, _ready_file: ready_file };
        Ok((running, config.settings.process))
    }
}

/// What a service manager shows of a server that serves.
fn status(issuer: &Issuer, addresses: &Addresses) -> String {
    let snapshot = issuer.snapshot();
    let active = snapshot.keys().iter().filter(|key| key.state == KeyState::Active).count();
    let keys = if active == 1 { "key" } else { "keys" };
    let Addresses { issuer, documents_url, ops_url, token_url, admin, admin_tcp_url, .. } = addresses;
    let admin = admin.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    let tokens = token_url.as_ref().map(|url| format!(", tokens {url}")).unwrap_or_default();
    let and_tcp = admin_tcp_url.as_ref().map(|url| format!(" and {url}")).unwrap_or_default();
    format!(
        "serving {issuer} with {active} active {keys}: documents {documents_url}{tokens}, ops {ops_url}, admin {admin}{and_tcp}"
    )
}

fn announce(addresses: &Addresses, config: &Config, tls: Option<&Tls>) {
    if let Some(tls) = tls {
        let current = tls.certificates.current();
        let (facts, not_after) = (&current.facts, current.facts.not_after_text());
        tracing::info!(subject = facts.subject, not_after, fingerprint = %facts.fingerprint, "TLS certificate");
    }
    let Addresses { issuer, documents_url, ops_url, token_url, admin, admin_tcp_url, pid, .. } = addresses;
    let admin = admin.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string());
    let (fleet, version) = (config.fleet(), env!("CARGO_PKG_VERSION"));
    tracing::info!(
        %issuer,
        documents = documents_url,
        token = token_url.as_deref().unwrap_or(documents_url),
        ops = ops_url,
        admin,
        admin_tcp = admin_tcp_url.as_deref().unwrap_or("none"),
        fleet,
        pid,
        version,
        "serving"
    );
}

fn write_ca(path: PathBuf, pem: &str) -> Result<WholeFile, Failure> {
    let written = WholeFile::write(path.clone(), pem.as_bytes(), is_authority);
    let file = written.map_err(|error| no_ca(&path, error))?;
    tracing::warn!(ca = %file.path().display(), "development certificate: clients trust it by this file");
    Ok(file)
}

fn no_ca(path: &Path, error: io::Error) -> Failure {
    let words = format!(
        "the development certificate {} cannot be written; name another file with --dev-tls-ca",
        path.display()
    );
    Failure::refused(words).because(error)
}

/// Tells why the server does not start, in the form that standard error has.
async fn refuse(findings: &Findings, format: LogFormat, notifier: &Notifier) -> Exit {
    notifier.refused(&format!("refused to start: {}", gate::first_error(findings))).await;
    if format.is_json() {
        findings.iter().for_each(logging::tell);
    } else {
        output::complain(report::human(findings).trim_end());
    }
    findings.exit().map_or(Exit::Internal, Exit::from)
}

/// How much of everything there may be, by the limit of open files.
fn limits(config: &Config, executor: Executor) -> Result<Limits, Failure> {
    let listen = &config.settings.listen;
    let with = Optional { token: listen.token.is_some(), admin_tcp: listen.admin_tcp.is_some() };
    let files = usize::try_from(hardening::open_files()).unwrap_or(usize::MAX);
    let Some(capacity) = Capacity::within(files, with) else {
        return Err(Failure::refused(format!(
            "this process may open {files} files, and a server needs {}; raise the limit (ulimit -Hn, \
             LimitNOFILE=)",
            Capacity::fewest(with)
        )));
    };
    if capacity.documents < MOST.documents {
        let (wanted, room, enough) = (MOST.documents, capacity.documents, Capacity::enough(with));
        tracing::warn!(
            open_files = files,
            connections = room,
            token = capacity.token,
            ops = capacity.ops,
            admin = capacity.admin,
            admin_tcp = capacity.admin_tcp,
            "this process may open {files} files: room for {room} connections of the documents listener in place of \
             {wanted}; a limit of {enough} is enough (ulimit -Hn, LimitNOFILE=)"
        );
    }
    let database = app::database(&config.settings)?;
    Ok(Limits {
        admin: config.settings.admin.clone(),
        tokens: config.settings.tokens.clone(),
        executor,
        instance: fleet::instance_name(&config.settings),
        capacity,
        fleet: None,
        ops_url: None,
        database,
        rules: None,
    })
}

/// In the working directory, where a developer looks.
const DEV_CA: &str = "oneseal-dev-ca.pem";
