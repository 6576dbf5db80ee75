//! `oneseal keys show`: everything public about one key, for a ticket or an incident.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal_keystore::ring::{KeyChange, KeyHistory};
use oneseal_keystore::snapshot::PublishedKey;
use oneseal_keystore::{Algorithm, Digest, KeyType};
use serde_json::{Map, Value, json};

use super::choose::{State, Wanted};
use super::{Globals, Opened, Place};
use crate::exit::{Exit, Failure};
use crate::{output, times};

/// Show everything public about one key.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its kid, or a beginning that no other has [default: the only one that fits]
    // A kid may begin with a hyphen.
    #[arg(value_name = "KID", allow_hyphen_values = true)]
    kid: Option<String>,
    /// The key in this state
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,
    /// The key for this algorithm
    #[arg(long, value_name = "ALG")]
    alg: Option<Algorithm>,
    #[command(flatten)]
    place: Place,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { kid, state, alg, place, json } = args;
    let opened = super::open(place, globals).await?;
    let key = Wanted { kid, state, alg }.one(opened.snapshot.keys())?;
    if json {
        return output::answer(as_json(key, &opened), Exit::Done);
    }
    output::print(&told(key, &opened))?;
    Ok(Exit::Done)
}

fn told(key: &PublishedKey, opened: &Opened) -> String {
    let (kind, location) = (opened.provider.kind, &opened.provider.location);
    let thumbprint = key.public.thumbprint();
    let adopted = if key.kid == thumbprint { "the same as the kid" } else { "the kid is an adopted one" };
    let mut lines = vec![
        ("kid", key.kid.to_string()),
        ("algorithm", key.algorithm.to_string()),
        ("state", key.state.as_str().to_owned()),
        ("type", described(key)),
        ("thumbprint", format!("{thumbprint} ({adopted})")),
        ("SPKI SHA-256", spki_sha256(key)),
        ("private half", if key.has_private { "here" } else { "not here" }.to_owned()),
        ("found", format!("{kind}:{location}: {}", key.place)),
    ];
    match &key.history {
        Some(history) => lines.extend(life(history)),
        None => lines.push(("history", "none: bare keys have no ring document".to_owned())),
    }
    let mut text: String = lines.into_iter().map(|(name, value)| format!("{name:<18}{value}\n")).collect();
    for change in key.history.iter().flat_map(|history| &history.log) {
        let KeyChange { at, kind, actor, reason, .. } = change;
        let (at, kind) = (times::rfc3339(*at), kind.escape_debug());
        // Free text of whoever wrote the ring: it shall not steer a terminal.
        let (actor, reason) = (actor.escape_debug(), reason.escape_debug());
        text.push_str(&format!("{:<18}{at} {kind} by {actor}: {reason}\n", "log"));
    }
    text
}

fn life(history: &KeyHistory) -> Vec<(&'static str, String)> {
    let times = [
        ("created", Some(history.created_at)),
        ("published", history.published_at),
        ("signing from", history.activated_at),
        ("signing until", history.retiring_at),
        ("private half until", history.erase_private_after),
        ("published until", history.remove_after),
    ];
    let mut lines: Vec<_> =
        times.into_iter().filter_map(|(name, at)| Some((name, times::rfc3339(at?)))).collect();
    lines.extend(history.ttl_high_water_s.map(|ttl_s| ("longest token", format!("{ttl_s} s"))));
    lines.extend(history.reason.as_ref().map(|reason| ("reason", reason.escape_debug().to_string())));
    lines
}

fn described(key: &PublishedKey) -> String {
    let (kty, crv, bits) = kind(key);
    crv.map_or_else(|| format!("{kty}, {bits} bits"), |crv| format!("{kty} {crv}, {bits} bits"))
}

/// Type and curve by their JOSE names (RFC 7518 section 6, RFC 8037), and the size.
fn kind(key: &PublishedKey) -> (&'static str, Option<&'static str>, usize) {
    let (kty, crv) = match key.public.key_type() {
        KeyType::Rsa => ("RSA", None),
        KeyType::P256 => ("EC", Some("P-256")),
        KeyType::P384 => ("EC", Some("P-384")),
        KeyType::Ed25519 => ("OKP", Some("Ed25519")),
    };
    (kty, crv, super::list::bits(key))
}

/// As `openssl pkey -pubin -outform DER | sha256sum` has it.
fn spki_sha256(key: &PublishedKey) -> String {
    Digest::of(&key.spki).to_string()
}

fn as_json(key: &PublishedKey, opened: &Opened) -> Value {
    let (kty, crv, bits) = kind(key);
    let thumbprint = key.public.thumbprint();
    let mut told = json!({
        "provider": { "kind": opened.provider.kind, "location": opened.provider.location },
        "place": key.place,
        "kid": key.kid.as_str(),
        "alg": key.algorithm.as_str(),
        "state": key.state.as_str(),
        "kty": kty,
        "crv": crv,
        "bits": bits,
        "thumbprint": thumbprint.as_str(),
        "adopted_kid": key.kid != thumbprint,
        "spki": STANDARD.encode(&key.spki),
        "spki_sha256": spki_sha256(key),
        "private": key.has_private,
        "history": null,
    });
    told["history"] = key.history.as_ref().map_or(Value::Null, history_json);
    told
}

fn history_json(history: &KeyHistory) -> Value {
    let log: Vec<_> = history
        .log
        .iter()
        .map(|KeyChange { at, kind, actor, reason, change_id, .. }| {
            json!({ "at": at.as_secs(), "kind": kind, "actor": actor, "reason": reason, "change_id": change_id })
        })
        .collect();
    let mut told = Map::from_iter([
        ("created_at".to_owned(), json!(history.created_at.as_secs())),
        ("ttl_high_water_s".to_owned(), json!(history.ttl_high_water_s)),
        ("reason".to_owned(), json!(history.reason)),
        ("log".to_owned(), json!(log)),
    ]);
    for (name, at) in [
        ("published_at", history.published_at),
        ("activated_at", history.activated_at),
        ("retiring_at", history.retiring_at),
        ("erase_private_after", history.erase_private_after),
        ("remove_after", history.remove_after),
    ] {
        told.insert(name.to_owned(), json!(at.map(|at| at.as_secs())));
    }
    Value::Object(told)
}
