//! `oneseal keys rewrap`: seals the ring anew, under another KEK, with another ring key, or for the first time.

use std::io::{self, IsTerminal};

use indicatif::ProgressBar;
use oneseal_coordination::SystemClock;
use oneseal_keystore::{KeyId, RewrapError, RewrapRequest, Rewrapped, Rewrapping, rewrap};
use oneseal_providers::{Description, SecretProvider};
use serde_json::{Value, json};

use super::{Globals, Place};
use crate::app;
use crate::cli::alive;
use crate::exit::{Exit, Failure};
use crate::output;

/// Which ring, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Seal under this KEK, file:PATH or env:NAME; the configured ones open [default: configuration's kek]
    // Judged with the configuration: it may be a KEK by mistake.
    #[arg(long, value_name = "URI", allow_hyphen_values = true)]
    to_kek: Option<String>,
    /// Believe a ring that is not sealed, and seal it: look at `keys list` first
    #[arg(long)]
    from_unsealed: bool,
    /// Make another ring key, which the one that is there endorses
    #[arg(long)]
    new_ring_key: bool,
    /// Why, for the ring's log
    #[arg(long, value_name = "TEXT", default_value = "rewrap")]
    reason: String,
    /// Do it; without this nothing is written
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { place, to_kek, from_unsealed, new_ring_key, reason, yes, json } = args;
    // Through the configuration, which judges it: the KEK to come takes the place of the current one.
    let to = to_kek.is_some().then(|| place.clone().sources(globals).flag("--to-kek", "kek.uri", to_kek));
    let to_kek = to.map(super::load).transpose()?.and_then(|config| config.unlocking.sealing.kek);
    let config = super::load(place.sources(globals))?;
    let provider = app::provider(&config.provider);
    // Those who sign must be able to open what will be there.
    let fleet = if yes { alive::fleet(&config).await? } else { None };
    let mut request = RewrapRequest::new(config.issuer, app::keks(&config.unlocking.sealing));
    request.pin.clone_from(&config.unlocking.sealing.pin);
    let to_kek = to_kek.as_ref().map(app::provider);
    (request.to_kek, request.from_unsealed, request.new_ring_key) = (to_kek, from_unsealed, new_ring_key);
    request.fleet = fleet;
    (request.actor, request.reason) = ("oneseal keys rewrap".to_owned(), reason);
    let description = provider.describe();
    if !yes {
        return Err(Failure::new(Exit::Usage, format!("{}; say --yes", would(&request, &description))));
    }
    let progress = io::stderr().is_terminal().then(|| ProgressBar::new(0));
    let bar = progress.clone();
    let tell = move |Rewrapping { number, of, .. }: Rewrapping| {
        if let Some(bar) = &bar {
            bar.set_length(of as u64);
            bar.set_position(number as u64);
        }
    };
    let done = rewrap(&*provider, request, &SystemClock, tell).await;
    if let Some(progress) = progress {
        progress.finish_and_clear();
    }
    let done = done.map_err(failure)?;
    if json {
        output::answer(as_json(&done, &description), Exit::Done)?;
    } else {
        output::print(&told(&done, &description))?;
    }
    Ok(Exit::Done)
}

/// What it is about to do, in one sentence.
fn would(request: &RewrapRequest, provider: &Description) -> String {
    let ring = format!("the ring of {} at {}:{}", request.issuer, provider.kind, provider.location);
    let key = if request.new_ring_key { ", with a new ring key" } else { "" };
    let trust = if request.from_unsealed { ", believing it although it is not sealed" } else { "" };
    format!("this seals {ring} anew{key}{trust}; its signing keys stay as they are")
}

fn failure(error: RewrapError) -> Failure {
    let is_unknown = error.is_outcome_unknown();
    let failure = Failure::found(error.into_findings());
    if is_unknown {
        failure.with_hint("It may have been written all the same: run this again.")
    } else {
        failure
    }
}

fn told(done: &Rewrapped, provider: &Description) -> String {
    let what = if done.changed { "sealed anew" } else { "already so, left as it is" };
    let Rewrapped { kek, ring_key, identity, .. } = done;
    let mut text = format!(
        "{what}: the ring at {}:{}, revision {}\n",
        provider.kind, provider.location, identity.revision
    );
    text.push_str(&format!("  KEK: {kek}\n"));
    for before in &done.kek_before {
        text.push_str(&format!(
            "  KEK before: {before}; keep it as long as a backup that is sealed under it\n"
        ));
    }
    text.push_str(&format!("  ring key (ring.pin of public-only replicas): {ring_key}\n"));
    if let Some(before) = &done.ring_key_before {
        text.push_str(&format!("  ring key before: {before}; replicas that pin it follow the endorsement\n"));
    }
    text
}

fn as_json(done: &Rewrapped, provider: &Description) -> Value {
    json!({
        "changed": done.changed,
        "provider": { "kind": provider.kind, "location": provider.location },
        "kek_id": done.kek,
        "kek_before": done.kek_before,
        "ring_key": done.ring_key.as_str(),
        "ring_key_before": done.ring_key_before.as_ref().map(KeyId::as_str),
        "incarnation": done.identity.incarnation,
        "revision": done.identity.revision,
        "digest": done.identity.digest.to_string(),
    })
}
