//! `oneseal keys`: make the first key, look at what is there, and change it. Private halves leave by one door, sealed to
//! a named recipient.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use oneseal_coordination::SystemClock;
use oneseal_keystore::findings::Severity;
use oneseal_keystore::{Algorithm, Finding, Keystore, KeystoreOptions, Snapshot, ring};
use oneseal_providers::{Description, SecretProvider};

use super::Globals;
use crate::app;
use crate::config::{Config, ProviderChoice, Sources};
use crate::exit::{Exit, Failure};
use crate::output;

mod adopt;
mod change;
mod choose;
mod export;
pub(crate) mod init;
mod keks;
mod list;
mod new_kek;
mod private;
mod recover;
mod rewrap;
mod show;
mod site;
mod tell;

/// What to do with keys.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make the first ring; one that is there already is left alone
    Init(init::Args),
    /// List the keys of the ring, public facts only
    List(list::Args),
    /// Show everything public about one key
    Show(show::Args),
    /// Make new keys and publish them; they sign once activated
    ///
    /// Like every verb that changes the ring it also does what is due: private halves are erased, and keys removed whose
    /// last token has expired. With --admin a running replica carries it out, else this process, where the ring rests.
    Rotate(change::Rotate),
    /// Let published keys sign, and those before them retire
    ///
    /// Refused (75) until every relying party knows the key, with the time from which on it may be done and the setting
    /// that costs most of the wait.
    Activate(change::OfKey),
    /// Cancel a pending key, stop an active one, or do what is due
    ///
    /// Without a KID nothing is done but what is due.
    Retire(change::OfKey),
    /// Let the key before sign again, inside rotation.rollback_window
    Rollback(change::OfKey),
    /// Burn keys in an emergency: gone at once, with new ones in their place
    ///
    /// Two commits: the first takes the keys out of the set and publishes their successors, and nothing is minted; the
    /// second lets those sign, as soon as every replica serves them or after rotation.emergency_wait.
    Revoke(change::Revoke),
    /// Take in a key from elsewhere, or the key set of a former issuer
    Adopt(adopt::Args),
    /// Export the public keys, or one private half for a named recipient
    ///
    /// A private half leaves as a JWE that its recipient alone can open, never in plain text.
    Export(export::Args),
    /// Seal the ring anew: under another KEK, with another ring key, or for the first time
    ///
    /// The signing keys stay as they are. Everything is written at once; run it again after a failure. A new KEK is given to
    /// every replica first, in kek.previous; then the ring goes to it by --to-kek; then it becomes kek.uri everywhere, and
    /// the old one kek.previous, until nothing needs it.
    Rewrap(rewrap::Args),
    /// Have a replica put back the record that the store has lost
    ///
    /// For a record that is gone, broken or older than what is served: a replica that serves still has it, and writes it back
    /// itself, byte for byte. No private half crosses the wire.
    Recover(recover::Args),
    /// Make a key-encryption key
    NewKek(new_kek::Args),
    /// Tell which configured key-encryption key has which id, and what is sealed under it
    Keks(keks::Args),
}

/// Does it.
///
/// # Errors
/// Configuration or ring are refused, the provider denies or does not answer.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Init(args) => init::run(args, globals).await,
        Verb::List(args) => list::run(args, globals).await,
        Verb::Show(args) => show::run(args, globals).await,
        Verb::Rotate(args) => change::rotate(args, globals).await,
        Verb::Activate(args) => change::activate(args, globals).await,
        Verb::Retire(args) => change::retire(args, globals).await,
        Verb::Rollback(args) => change::roll_back(args, globals).await,
        Verb::Revoke(args) => change::revoke(args, globals).await,
        Verb::Adopt(args) => adopt::run(args, globals).await,
        Verb::Export(args) => export::run(args, globals).await,
        Verb::Rewrap(args) => rewrap::run(args, globals).await,
        Verb::Recover(args) => recover::run(args, globals).await,
        Verb::NewKek(args) => new_kek::run(&args),
        Verb::Keks(args) => keks::run(args, globals).await,
    }
}

/// Which ring, where configuration does not say or says otherwise.
#[derive(Clone, Debug, clap::Args)]
struct Place {
    /// Where the ring rests: file:PATH, env:NAME, k8s:NS/NAME, aws:NAME-OR-ARN or postgres:URL [default: configuration's
    /// provider]
    // A text here and judged with the configuration: clap would repeat a key that is pasted by mistake. PEM begins with
    // a hyphen.
    #[arg(long, value_name = "URI", allow_hyphen_values = true)]
    provider: Option<String>,
    /// Where the passphrase of an encrypted key rests, file:PATH or env:NAME [default: configuration's
    /// provider.passphrase]
    // Judged with the configuration as well: it may be a passphrase by mistake.
    #[arg(long, value_name = "URI", allow_hyphen_values = true)]
    passphrase: Option<String>,
    /// The member that holds the key, where the value is a JSON object of several [default: configuration's
    /// provider.member]
    #[arg(long, value_name = "NAME")]
    member: Option<String>,
    /// Where the key-encryption key of a sealed ring rests, file:PATH, env:NAME, k8s:NS/NAME or aws:NAME-OR-ARN [default:
    /// configuration's kek]
    // Judged with the configuration as well: it may be a KEK by mistake.
    #[arg(long, value_name = "URI", allow_hyphen_values = true)]
    kek: Option<String>,
    /// Whose ring it is [default: configuration's issuer.url]
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
}

impl Place {
    /// Whether the command line says nothing of it.
    fn is_empty(&self) -> bool {
        [&self.provider, &self.passphrase, &self.member, &self.issuer].into_iter().all(Option::is_none)
    }

    fn sources(self, globals: &Globals) -> Sources {
        self.sources_in(std::env::vars_os(), globals)
    }

    fn sources_in(
        self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        globals: &Globals,
    ) -> Sources {
        Sources::new(variables)
            .config(globals.config.clone())
            .flag("--provider", "provider.uri", self.provider)
            .flag("--passphrase", "provider.passphrase", self.passphrase)
            .flag("--member", "provider.member", self.member)
            .flag("--kek", "kek.uri", self.kek)
            .flag("--issuer", "issuer.url", self.issuer)
    }
}

/// A ring that was read to be looked at.
struct Opened {
    provider: Description,
    snapshot: Arc<Snapshot>,
    /// The file or directory that it was read from.
    file: Option<PathBuf>,
}

/// Reads the ring. Where it rests, and with which algorithms it is served, is not judged: that is `check`'s to say. Whose it
/// is the ring itself tells, where nothing else does.
async fn open(place: Place, globals: &Globals) -> Result<Opened, Failure> {
    let place = of_issuer_in_ring(place, globals).await;
    let Looking { provider, options, file } = looking(place, globals)?;
    let opened = Keystore::open(Arc::clone(&provider), options, Arc::new(SystemClock)).await;
    let (keystore, _not_followed) = opened.map_err(Failure::found)?;
    // Namespace and region that are not configured are known once somebody was asked.
    Ok(Opened { provider: provider.describe(), snapshot: keystore.snapshot(), file })
}

/// With the issuer that the ring names, where that is all that is missing: to look at a ring is to ask it whose it is.
async fn of_issuer_in_ring(mut place: Place, globals: &Globals) -> Place {
    let Err(mistakes) = Config::load(place.clone().sources(globals).yes(true)) else { return place };
    let is_issuer_missing =
        |finding: &Finding| finding.code.name == "config.missing" && finding.place == "issuer.url";
    let mut errors = mistakes.findings.iter().filter(|finding| finding.code.severity == Severity::Error);
    let (true, Some(choice)) = (errors.all(is_issuer_missing), &mistakes.provider) else { return place };
    // What cannot be read is told when it is read again.
    if let Ok(record) = app::provider(choice).load().await
        && let Some(issuer) = ring::issuer_in(&record.entries)
    {
        output::complain(&format!("no issuer is named; this ring is that of {issuer}"));
        place.issuer = Some(issuer.to_string());
    }
    place
}

/// What a ring is read with, to be looked at.
struct Looking {
    provider: Arc<dyn SecretProvider>,
    options: KeystoreOptions,
    /// The file or directory that it is read from.
    file: Option<PathBuf>,
}

fn looking(place: Place, globals: &Globals) -> Result<Looking, Failure> {
    // Nothing is put in force by looking.
    let config = load(place.sources(globals).yes(true))?;
    let file = match &config.provider {
        ProviderChoice::File { path, .. } => Some(path.clone()),
        _ => None,
    };
    let choice = match config.provider {
        ProviderChoice::File { path, .. } => ProviderChoice::File { path, durable: true },
        other => other,
    };
    let mut options = KeystoreOptions::new(config.issuer);
    options.algorithms = Algorithm::ALL.to_vec();
    options.rotation = config.settings.rotation;
    options.passphrase = app::passphrase(&config.unlocking);
    options.member = config.unlocking.member;
    options.keks = app::keks(&config.unlocking.sealing);
    options.pin = config.unlocking.sealing.pin;
    options.mode = config.unlocking.sealing.mode;
    Ok(Looking { provider: app::provider(&choice), options, file })
}

fn load(sources: Sources) -> Result<Config, Failure> {
    let findings = match Config::load(sources) {
        Ok((config, _)) => return Ok(config),
        Err(mistakes) => mistakes.findings,
    };
    let is_missing =
        |finding: &Finding| matches!(finding.code.name, "config.missing" | "provider.not_configured");
    let is_hinted = findings.iter().any(is_missing);
    let failure = Failure::found(findings);
    Err(if is_hinted { failure.with_hint(HINT) } else { failure })
}

const HINT: &str = "Here --provider URI and --issuer URL name them as well.";
