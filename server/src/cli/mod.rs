//! The command line: one tree of verbs, each in a file of its own.
//!
//! A verb is a pair: `Args`, which clap fills and documents, and `run`, which does it. `run` prints its answer through
//! [`output`](crate::output) and returns how the process ends; what goes wrong comes back as a [`Failure`], which is
//! printed once, by `main`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use oneseal_providers::looks_like_key;

use crate::admin_token;
use crate::config::{PartialConfig, Sources, disk};
use crate::exit::{Exit, Failure};
use crate::logging::LogFormat;
use crate::output;

pub(crate) mod admin;
mod alive;
pub(crate) mod check;
mod claim;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod events;
pub(crate) mod healthcheck;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod mint;
pub(crate) mod overrides;
mod pages;
pub(crate) mod quickstart;
pub(crate) mod replica;
pub(crate) mod replicas;
pub(crate) mod rules;
pub(crate) mod serve;
pub(crate) mod token;
pub(crate) mod verify;
pub(crate) mod version;

/// An OIDC issuer whose replicas share one persistent signing key.
#[derive(Debug, Parser)]
#[command(name = "oneseal", version, disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every verb takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Globals {
    /// The configuration file [default: ONESEAL_CONFIG, else /etc/oneseal/oneseal.toml if it is there]
    #[arg(long, global = true, value_name = "PATH", display_order = 900)]
    pub(crate) config: Option<PathBuf>,
    /// Whether log lines are for people or for machines [default: process.log_format]
    #[arg(long, global = true, value_name = "FORMAT", display_order = 901)]
    pub(crate) log_format: Option<LogFormat>,
}

impl Globals {
    /// What file and variables say, for a verb that asks a server and needs no key.
    ///
    /// # Errors
    /// All mistakes at once (78).
    fn partial_config(&self) -> Result<PartialConfig, Failure> {
        let sources = Sources::new(std::env::vars_os()).config(self.config.clone()).yes(true);
        Ok(PartialConfig::load(sources).map_err(Failure::found)?.0)
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve the issuer's documents, until a signal ends it
    ///
    /// Nothing is bound before the key has been loaded and judged. SIGTERM ends the server in order: not ready, still
    /// serving for process.drain_delay, then closed. SIGINT skips the delay; a second signal ends it at once. SIGHUP
    /// looks at the TLS certificate and the rules again. A service manager that has set NOTIFY_SOCKET is told when the server is
    /// ready, ending and, with WATCHDOG_USEC, alive.
    Serve(serve::Args),
    /// Look at configuration and key as the start of `serve` does, and report all that is wrong
    ///
    /// Without --strict and --online the exit code is the one that `serve` would end with; 0 if it would start.
    Check(check::Args),
    /// Run three replicas on this machine and show that they are one issuer
    Quickstart(quickstart::Args),
    /// Make, list, show, rotate and export keys
    Keys(keys::Args),
    /// Move the ring to another provider
    ///
    /// The document is copied byte for byte, read back, and its key set compared; what is in the old place stays there.
    /// Run again, it finds the ring there already. A ring that is there and is not an earlier revision of the same one
    /// is a conflict (75), and stays. The fleet must be stopped.
    Migrate(migrate::Args),
    /// Mint a token on a running replica, through its admin socket or over TCP
    ///
    /// Standard output gets the token alone, so that it can be used as TOKEN=$(oneseal mint --sub pod --aud rp).
    /// The replica must have admin.mint = true.
    Mint(mint::Args),
    /// Show a proof to the issuer's token endpoint and get a token for one audience, as a pod does
    ///
    /// Standard output gets the token alone, or --out a file of it, whole at any moment. The proof is the pod's service
    /// account token (--source), or an assertion of another issuer's (--assertion). While nobody answers, or the answer is to
    /// come later, it is tried again until --timeout; what is refused is not tried again.
    Token(token::Args),
    /// Ask the configured rules who would get which token
    Rules(rules::Args),
    /// List the replicas that serve the issuer, and forget those that are gone
    Replicas(replicas::Args),
    /// Make tokens with which the admin API is called over TCP
    Admin(admin::Args),
    /// Verify a token as a relying party does
    ///
    /// Without --jwks the keys are those that the issuer's discovery document leads to.
    Verify(verify::Args),
    /// Make and look at the tables in the database
    Db(db::Args),
    /// Write out, verify, follow and cut the event log
    Events(events::Args),
    /// Write a commented configuration file, or the JSON Schema of one
    Config(config::Args),
    /// Ask a running replica whether it is ready, for container health checks
    Healthcheck(healthcheck::Args),
    /// Print which oneseal this is
    Version(version::Args),
    /// Print a script that completes this command line in a shell
    Completions(completions::Args),
    /// Print or write the manual pages
    ///
    /// Without --out it prints the page of the verb that is named, or of oneseal itself: `oneseal man keys show | man
    /// -l -`.
    Man(man::Args),
}

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    /// What clap has to say instead: a mistake, or the help that was asked for.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&command().try_get_matches_from(arguments)?)
    }

    /// Does what was asked for.
    ///
    /// # Errors
    /// Whatever the verb could not do, in words that its user can act on.
    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let globals = &self.globals;
        match self.verb {
            Verb::Serve(args) => serve::run(args, globals).await,
            Verb::Check(args) => check::run(args, globals).await,
            Verb::Quickstart(args) => quickstart::run(args, globals).await,
            Verb::Keys(args) => keys::run(args, globals).await,
            Verb::Migrate(args) => migrate::run(args, globals).await,
            Verb::Mint(args) => mint::run(args, globals).await,
            Verb::Token(args) => token::run(args, globals).await,
            Verb::Rules(args) => rules::run(args, globals).await,
            Verb::Replicas(args) => replicas::run(args, globals).await,
            Verb::Admin(args) => admin::run(args, globals).await,
            Verb::Verify(args) => verify::run(args, globals).await,
            Verb::Db(args) => db::run(args, globals).await,
            Verb::Events(args) => events::run(args, globals).await,
            Verb::Config(args) => config::run(args, globals).await,
            Verb::Healthcheck(args) => healthcheck::run(args, globals).await,
            Verb::Version(args) => version::run(args, globals).await,
            Verb::Completions(args) => completions::run(args, globals).await,
            Verb::Man(args) => man::run(args, globals).await,
        }
    }
}

/// The whole command line, as it is parsed, completed and put into pages.
pub(crate) fn command() -> clap::Command {
    pages::complete(Cli::command())
}

/// Whether failures are to be told as JSON. Also true where the rest of the line makes no sense to clap.
pub(crate) fn wants_json(arguments: impl IntoIterator<Item = OsString>) -> bool {
    arguments.into_iter().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// Prints what clap has to say if that is help, and tells how the process ends.
///
/// # Errors
/// The command line makes no sense (64), or the help could not be written.
pub(crate) fn answer(said: &clap::Error) -> Result<Exit, Failure> {
    if !said.use_stderr() {
        output::told(said.print())?;
        return Ok(Exit::Done);
    }
    let quoted = said.to_string();
    if std::env::args_os().skip(1).any(|argument| is_key(&argument)) {
        return Err(pasted());
    }
    if !wants_json(std::env::args_os()) {
        // Nobody is left to be told that it could not be printed.
        drop(said.print());
        return Ok(Exit::Usage);
    }
    let text = quoted.strip_prefix("error: ").unwrap_or(&quoted);
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let failure = Failure::usage(message.trim());
    Err(if rest.trim().is_empty() { failure } else { failure.with_hint(rest.trim()) })
}

/// Refuses a line on which a key stands where something else is wanted: what a verb cannot use it quotes, and a path is
/// made.
///
/// # Errors
/// There is one (64).
pub(crate) fn refuse_keys(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let mut is_judged = false;
    for argument in arguments.into_iter().skip(1) {
        let text = argument.to_string_lossy();
        let is_judged_itself =
            JUDGED.iter().any(|flag| text.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')));
        if !is_judged && !is_judged_itself && is_key(&argument) {
            return Err(pasted());
        }
        is_judged = JUDGED.iter().any(|flag| text == *flag);
    }
    Ok(())
}

fn is_key(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    looks_like_key(&text) || admin_token::is_in(&text)
}

fn pasted() -> Failure {
    Failure::usage(
        "an argument looks like a key itself, and is not repeated; name the place where a private key rests, by \
         --provider, and that of an admin token by --admin-token-file. If it is private, other users' process lists and the shell's history have it now",
    )
}

/// Certificates that are trusted beside the system's, as PEM.
fn read_ca(path: &Path) -> Result<String, Failure> {
    let read = disk::read(path).map(|content| content.text.to_string());
    read.map_err(|error| Failure::usage(format!("--ca {} cannot be read", path.display())).because(error))
}

/// What to do about a certificate that is not trusted: it is reachable, so that is not the question.
pub(crate) const UNTRUSTED: &str = "its certificate is not trusted: name the file of who vouches for it by --ca FILE or \
                         issuer.ca_bundle, or look at the host's name and the date";

/// Those whose values are judged and never repeated by who reads them, and the one that may hold a public key.
const JUDGED: [&str; 7] = ["--provider", "--passphrase", "--issuer", "--member", "--claim", "--from", "--to"];

const AFTER_HELP: &str = "\
Exit codes: 0 done · 1 the answer is no · 64 usage · 69 unavailable · 70 internal · 71 cannot bind ·
75 try later · 77 denied · 78 refused. Every finding is explained in docs/findings.md.";
