//! `oneseal keys init`: the one verb that makes a key where there was none.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use oneseal_coordination::SystemClock;
use oneseal_keystore::material::KeyError;
use oneseal_keystore::{Algorithm, InitError, InitRequest, Initialised, Making, Mode, init_telling};
use oneseal_providers::{Description, ErrorKind, SecretProvider};
use serde_json::{Value, json};

use super::{Globals, Place};
use crate::app;
use crate::config::{Config, ProviderChoice};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::refusals::{KEYS_NOT_WRITTEN, KEYS_OUTCOME_UNKNOWN, KEYS_PUBLIC_ONLY};

/// Which ring, and with which keys.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// One key for each of these, such as RS256,ES256 [default: configuration's issuer.algorithms]
    #[arg(long, value_name = "ALGS")]
    alg: Option<String>,
    /// Bits of the RSA keys among them: 2048, 3072 or 4096 [default: 2048]
    #[arg(long, value_name = "BITS")]
    rsa_bits: Option<usize>,
    /// Take settings that would break an issuer that others rely on, such as rotation.preset = "lab"
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { place, alg, rsa_bits, yes, json } = args;
    let configured = alg.is_some().then(|| super::load(place.clone().sources(globals).yes(yes)));
    let sources = place.sources(globals).flag("--alg", "issuer.algorithms", alg).yes(yes);
    let config = super::load(sources)?;
    refuse_what_could_not_sign(&config)?;
    let configured = configured.and_then(Result::ok).map(|config| config.settings.algorithms);
    let provider = app::provider(&config.provider);
    let mut request = InitRequest::new(config.issuer);
    request.algorithms = config.settings.algorithms;
    request.rsa_bits = rsa_bits;
    request.rotation = config.settings.rotation;
    request.passphrase = app::passphrase(&config.unlocking);
    request.member = config.unlocking.member;
    request.keks = app::keks(&config.unlocking.sealing);
    request.pin = config.unlocking.sealing.pin;
    "oneseal keys init".clone_into(&mut request.actor);
    let asked = request.algorithms.clone();
    let issuer = request.issuer.to_string();
    let initialised = with_progress(&*provider, request).await?;
    let description = provider.describe();
    let missing = missing(&asked, &initialised);
    if let Some(setting) = configured.and_then(|configured| setting(&configured, &initialised)) {
        output::complain(&format!("also set {setting}: as it is, a server refuses this ring"));
    }
    if json {
        output::answer(as_json(&initialised, &description, &issuer, missing.as_deref()), Exit::Done)?;
    } else {
        output::print(&told(&initialised, &description, &issuer))?;
        if let Some(missing) = missing {
            let missing = missing.join(", ");
            output::complain(&format!("not in the ring, which was left as it is: a key for {missing}"));
        }
    }
    Ok(Exit::Done)
}

/// Before a key is made: it could not be written, or this replica could not open it.
fn refuse_what_could_not_sign(config: &Config) -> Result<(), Failure> {
    let sealing = &config.unlocking.sealing;
    if sealing.mode == Mode::PublicOnly {
        return Err(Failure::refused("no ring was made: ring.mode is \"public-only\", and such a replica holds no key").with_code(KEYS_PUBLIC_ONLY).with_hint(
            "Run it where ring.mode is \"full\" and the KEK is; then set ring.pin here to the ring key that it prints.",
        ));
    }
    if matches!(config.provider, ProviderChoice::Postgres { .. }) && sealing.kek.is_none() {
        return Err(Failure::refused("no ring was made: the provider is a database, which takes sealed rings alone, and no KEK is named").with_code("provider.unsealed").with_hint(
            "Make one with `oneseal keys new-kek --out FILE`, and name it by --kek file:FILE, or kek.uri in the configuration of every replica.",
        ));
    }
    Ok(())
}

/// Makes the ring if there is none. What is being made is shown on a terminal, and elsewhere told in one line for each
/// key that takes long.
///
/// # Errors
/// The place is not fit for a key, what rests there is not readable as one, or the write failed.
///
/// # Cancel safety
/// Dropped, a whole ring was written or nothing.
pub(crate) async fn with_progress(
    provider: &dyn SecretProvider,
    request: InitRequest,
) -> Result<Initialised, Failure> {
    let display = io::stderr().is_terminal().then(Display::new);
    let spinner = display.clone();
    let tell = move |making: Making| match &spinner {
        Some(spinner) => spinner.show(&making),
        None if making.rsa_bits.is_some_and(|bits| bits >= SLOW_RSA_BITS) => {
            output::complain(&format!("making {}; this can take a minute", named(&making)));
        }
        None => {}
    };
    let outcome = init_telling(provider, request, &SystemClock, tell).await;
    if let Some(display) = display {
        display.clear();
    }
    outcome.map_err(failure)
}

/// A line that shows what is being made and for how long, and goes when it is made.
#[derive(Clone)]
struct Display(ProgressBar);

impl Display {
    /// Nothing is shown yet: there may be a ring already.
    fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        Self(ProgressBar::new_spinner().with_style(style))
    }

    fn show(&self, making: &Making) {
        self.0.set_message(format!("making {}", named(making)));
        self.0.reset_elapsed();
        self.0.enable_steady_tick(Duration::from_millis(80));
    }

    fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Such as `an RSA key of 4096 bits for RS256 (1 of 2)`.
fn named(making: &Making) -> String {
    let Making { algorithm, number, of, .. } = making;
    let what = match making.rsa_bits {
        Some(bits) => format!("an RSA key of {bits} bits for {algorithm}"),
        None => format!("a key for {algorithm}"),
    };
    if *of == 1 { what } else { format!("{what} ({number} of {of})") }
}

/// From here on a key takes seconds, and a person begins to wonder.
const SLOW_RSA_BITS: usize = 3072;

fn failure(error: InitError) -> Failure {
    let exit = match &error {
        InitError::Refused(_) => return refusal_of(error),
        InitError::Write(error) => exit_of(error.kind()),
        InitError::Generate(error @ (KeyError::GenerateSize { .. } | KeyError::AlgorithmUnfit { .. })) => {
            return Failure::new(Exit::Usage, format!("--rsa-bits: {error}. {}", error.code().cure));
        }
        _ => Exit::Internal,
    };
    let cure = if error.is_outcome_unknown() { "; it may be there all the same: run this again" } else { "" };
    let code = match &error {
        InitError::Write(_) if error.is_outcome_unknown() => KEYS_OUTCOME_UNKNOWN,
        InitError::Write(_) => KEYS_NOT_WRITTEN,
        _ => return Failure::new(exit, format!("no ring was made{cure}")).because(error),
    };
    Failure::new(exit, format!("no ring was made{cure}")).with_code(code).because(error)
}

fn refusal_of(error: InitError) -> Failure {
    match error {
        InitError::Refused(findings) => Failure::found(findings),
        other => Failure::internal("no ring was made").because(other),
    }
}

fn exit_of(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::Denied | ErrorKind::Unauthenticated => Exit::Denied,
        ErrorKind::Unavailable | ErrorKind::NoCredentials | ErrorKind::OutcomeUnknown => Exit::Unavailable,
        _ => Exit::Refused,
    }
}

/// The algorithms that were asked for and that the ring, which was there already, has no key for.
fn missing(asked: &[Algorithm], initialised: &Initialised) -> Option<Vec<&'static str>> {
    let is_there = |algorithm: &&Algorithm| initialised.keys.iter().any(|(_, there)| there == *algorithm);
    let missing: Vec<_> = asked.iter().filter(|algorithm| !is_there(algorithm)).map(|a| a.as_str()).collect();
    (!missing.is_empty()).then_some(missing)
}

/// The setting without which a server of this configuration would refuse the ring for a key of another algorithm.
fn setting(configured: &[Algorithm], initialised: &Initialised) -> Option<String> {
    if initialised.keys.iter().all(|(_, algorithm)| configured.contains(algorithm)) {
        return None;
    }
    let mut names: Vec<_> =
        initialised.keys.iter().map(|(_, algorithm)| format!("\"{algorithm}\"")).collect();
    names.dedup();
    Some(format!("issuer.algorithms = [{}]", names.join(", ")))
}

fn told(initialised: &Initialised, provider: &Description, issuer: &str) -> String {
    let what = if initialised.created { "made" } else { "already there, left as it is" };
    // Bare keys have no document that a ring key could sign, and name no issuer.
    let of = if initialised.ring_key.is_some() { "the ring of" } else { "bare keys, for" };
    let mut text = format!("{what}: {of} {issuer} at {}:{}\n", provider.kind, provider.location);
    for (kid, algorithm) in &initialised.keys {
        text.push_str(&format!("  {algorithm:<5}  {kid}\n", algorithm = algorithm.as_str()));
    }
    if let Some(pin) = &initialised.ring_key {
        text.push_str(&format!("  ring key, which signs the document: {pin}\n"));
    }
    if let Some(kek) = &initialised.sealed_under {
        text.push_str(&format!(
            "  sealed under the KEK {kek}; a public-only replica wants the ring key as ring.pin\n"
        ));
    }
    text
}

fn as_json(
    initialised: &Initialised,
    provider: &Description,
    issuer: &str,
    missing: Option<&[&str]>,
) -> Value {
    let keys: Vec<_> = initialised
        .keys
        .iter()
        .map(|(kid, algorithm)| json!({ "kid": kid.as_str(), "alg": algorithm.as_str() }))
        .collect();
    json!({
        "created": initialised.created,
        "issuer": issuer,
        "provider": { "kind": provider.kind, "location": provider.location },
        "incarnation": initialised.identity.incarnation,
        "revision": initialised.identity.revision,
        "digest": initialised.identity.digest.to_string(),
        "ring_key": initialised.ring_key.as_ref().map(|pin| pin.as_str()),
        "sealed_under": initialised.sealed_under,
        "keys": keys,
        "algorithms_without_key": missing.unwrap_or_default(),
    })
}
