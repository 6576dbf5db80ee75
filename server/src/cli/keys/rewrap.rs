//! `oneseal keys rewrap`: seals the ring anew, under another KEK, with another ring key, or for the first time.

use std::io::{self, IsTerminal};

use indicatif::ProgressBar;
use oneseal_coordination::SystemClock;
use oneseal_keystore::{KeyId, RewrapError, RewrapRequest, Rewrapped, Rewrapping, rewrap};
use oneseal_providers::{Description, SecretProvider};
use serde_json::{Value, json};

use super::{Globals, Place, keks};
use crate::app;
use crate::cli::alive;
use crate::config::Sealing;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::refusals::Noun;

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
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do it; without this nothing is written
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { place, to_kek, from_unsealed, new_ring_key, reason, dry_run, yes, json } = args;
    // Through the configuration, which judges it: the KEK to come takes the place of the current one.
    let to = to_kek.is_some().then(|| place.clone().sources(globals).flag("--to-kek", "kek.uri", to_kek));
    let to_kek = to.map(super::load).transpose()?.and_then(|config| config.unlocking.sealing.kek);
    let config = super::load(place.sources(globals))?;
    let provider = app::provider(&config.provider);
    // Those who sign must be able to open what will be there.
    let fleet = alive::fleet(&config).await?;
    let configured = Keks::of(&config.unlocking.sealing);
    let mut request = RewrapRequest::new(config.issuer, app::keks(&config.unlocking.sealing));
    request.pin.clone_from(&config.unlocking.sealing.pin);
    let to_kek = to_kek.as_ref().map(app::provider);
    (request.to_kek, request.from_unsealed, request.new_ring_key) = (to_kek, from_unsealed, new_ring_key);
    request.fleet = fleet;
    request.dry_run = dry_run || !yes;
    let target = request.to_kek.as_ref().map(|kek| keks::uri(&kek.describe()));
    (request.actor, request.reason) = ("oneseal keys rewrap".to_owned(), reason);
    let description = provider.describe();
    let under = target.as_deref().or(configured.current.as_deref()).unwrap_or_default();
    let would = Would::of(&request, &description, under);
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
    if !dry_run && !yes {
        return Err(Failure::wants_yes(
            Noun::Keys,
            format!("nothing was done: {}; say --yes", would.told(&done)),
        ));
    }
    let next = configured.after(target);
    if json {
        return output::answer(as_json(&done, &description, dry_run, next.as_ref()), Exit::Done);
    }
    let mut text = match (dry_run, done.is_due) {
        (true, true) => format!("nothing was done: {}\n", would.told(&done)),
        _ => told(&done, &description),
    };
    if let Some(next) = &next {
        text.push_str(&next.told());
    }
    output::print(&text)?;
    Ok(Exit::Done)
}

/// The KEKs of the configuration, as their URIs.
#[derive(Debug)]
struct Keks {
    current: Option<String>,
    previous: Vec<String>,
}

impl Keks {
    fn of(sealing: &Sealing) -> Self {
        let uri = |choice| keks::uri(&app::provider(choice).describe());
        Self { current: sealing.kek.as_ref().map(uri), previous: sealing.previous.iter().map(uri).collect() }
    }

    /// What every replica is to be configured with once the ring is sealed under `target`; `None` if it is so already.
    fn after(&self, target: Option<String>) -> Option<Self> {
        let target = target.filter(|target| self.current.as_ref() != Some(target))?;
        let others = self.current.iter().chain(&self.previous).filter(|uri| **uri != target);
        let previous = others.cloned().collect();
        Some(Self { current: Some(target), previous })
    }

    fn told(&self) -> String {
        let previous: Vec<_> = self.previous.iter().map(|uri| format!("{uri:?}")).collect();
        format!(
            "next, replica by replica, each restarted and ready before the following one:\n  kek.uri = {:?}\n  \
             kek.previous = [{}]\nthen take the old one out of kek.previous in the same way; until then `keys rewrap` \
             without --to-kek is not to be run\n",
            self.current.as_deref().unwrap_or_default(),
            previous.join(", ")
        )
    }
}

/// What it is about to do, in one sentence; `kek` is where the KEK rests under which it all will be.
struct Would {
    ring: String,
    more: String,
    kek: String,
}

impl Would {
    fn of(request: &RewrapRequest, provider: &Description, kek: &str) -> Self {
        let key = if request.new_ring_key { ", with a new ring key" } else { "" };
        let trust = if request.from_unsealed { ", believing it although it is not sealed" } else { "" };
        Self {
            ring: format!("the ring of {} at {}:{}", request.issuer, provider.kind, provider.location),
            more: format!("{key}{trust}"),
            kek: kek.to_owned(),
        }
    }

    fn told(&self, done: &Rewrapped) -> String {
        let Self { ring, more, kek } = self;
        let now = match done.kek_before.as_slice() {
            [] if !done.is_due => ", as it is already".to_owned(),
            [] => String::new(),
            before => format!(", and no more under {}", before.join(", ")),
        };
        let id = &done.kek;
        format!(
            "this seals {ring} anew under the KEK {id} ({kek}){now}{more}; its signing keys stay as they are"
        )
    }
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

fn as_json(done: &Rewrapped, provider: &Description, dry_run: bool, next: Option<&Keks>) -> Value {
    let next = next.map(|keks| json!({ "kek_uri": keks.current, "kek_previous": keks.previous }));
    json!({
        "changed": done.changed,
        "dry_run": dry_run,
        "is_due": done.is_due,
        "configure_next": next,
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
