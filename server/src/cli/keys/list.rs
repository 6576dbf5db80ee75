//! `oneseal keys list`: what is in the ring, public facts only.

use oneseal_keystore::ring::Origin;
use oneseal_keystore::snapshot::PublishedKey;
use serde_json::{Value, json};

use super::{Globals, Opened, Place};
use crate::exit::{Exit, Failure};
use crate::output;

/// Which ring.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let opened = super::open(args.place, globals).await?;
    if args.json {
        return output::answer(as_json(&opened), Exit::Done);
    }
    output::print(&told(&opened))?;
    Ok(Exit::Done)
}

fn told(opened: &Opened) -> String {
    let keys = opened.snapshot.keys();
    let widest = keys.iter().map(|key| key.kid.as_str().len()).max().unwrap_or_default();
    let mut text = format!("{:widest$}  alg    state     size  private half\n", "kid");
    for key in keys {
        let (kid, alg, state) = (key.kid.as_str(), key.algorithm.as_str(), key.state.as_str());
        let private = if key.has_private { "here" } else { "not here" };
        text.push_str(&format!("{kid:widest$}  {alg:<5}  {state:<8}  {:>4}  {private}\n", bits(key)));
    }
    text.push_str(&format!("{}\n", source(opened)));
    text
}

fn source(opened: &Opened) -> String {
    let Opened { provider, snapshot, .. } = opened;
    let identity = snapshot.identity();
    let what = match snapshot.origin() {
        Origin::Document { ring_key, .. } => {
            let (incarnation, revision) = (identity.incarnation, identity.revision);
            format!("ring document, incarnation {incarnation}, revision {revision}, ring key {ring_key}")
        }
        Origin::Bare => "bare keys".to_owned(),
        _ => "a ring".to_owned(),
    };
    format!("from {}:{}: {what}", provider.kind, provider.location)
}

fn as_json(opened: &Opened) -> Value {
    let Opened { provider, snapshot, .. } = opened;
    let identity = snapshot.identity();
    let ring_key = match snapshot.origin() {
        Origin::Document { ring_key, .. } => Some(ring_key.as_str()),
        _ => None,
    };
    let keys: Vec<_> = snapshot.keys().iter().map(key_json).collect();
    json!({
        "provider": { "kind": provider.kind, "location": provider.location },
        "incarnation": identity.incarnation,
        "revision": identity.revision,
        "digest": identity.digest.to_string(),
        "ring_key": ring_key,
        "keys": keys,
    })
}

fn key_json(key: &PublishedKey) -> Value {
    json!({
        "kid": key.kid.as_str(),
        "alg": key.algorithm.as_str(),
        "state": key.state.as_str(),
        "bits": bits(key),
        "private": key.has_private,
    })
}

/// The size by which such a key is known: of the modulus, or of the curve's field.
pub(super) fn bits(key: &PublishedKey) -> usize {
    use oneseal_keystore::KeyType::{Ed25519, P256, P384, Rsa};
    match key.public.key_type() {
        Rsa => key.public.rsa_bits().unwrap_or_default(),
        P384 => 384,
        P256 | Ed25519 => 256,
    }
}
