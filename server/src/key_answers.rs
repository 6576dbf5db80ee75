//! What came of a key verb, as JSON: the same from the admin API and from the command line.

use oneseal_keystore::executor::{Changed, Done, ExecuteError, Keys, RECOVERED, Recovered};
use oneseal_keystore::findings::chain;
use oneseal_keystore::ring::KeyState;
use oneseal_keystore::steps::{Key, Next, State};
use oneseal_keystore::{Algorithm, KeyId};
use serde_json::{Map, Value, json};

/// ```json
/// {"incarnation", "revision", "digest", "generation",
///  "keys": [{"kid", "alg", "state", "private", "created_at", "published_at", "activated_at", "retiring_at",
///            "erase_private_after", "remove_after", "ttl_high_water_s", "emergency_at"}],
///  "next": [{"what", "kid", "not_before", "until", "because": {"setting", "seconds"} | null, "blocked"}]}
/// ```
pub(crate) fn of_keys(keys: &Keys) -> Value {
    Value::Object(of_state(&keys.state, &keys.next))
}

/// The members of [`of_keys`] with those of the order:
/// ```json
/// {"verb", "change_id", "at", "repeated", "dry_run", "changes": [{"kind", "kid"}], "notes": []}
/// ```
/// `change_id` is null where nothing was written under it.
pub(crate) fn of_done(done: &Done) -> Value {
    let changes: Vec<_> =
        done.changes.iter().map(|Changed { kind, kid }| json!({ "kind": kind, "kid": kid })).collect();
    let mut members = of_state(&done.state, &done.next);
    for (name, value) in [
        ("verb", json!(done.verb)),
        ("change_id", json!(done.change_id.map(|id| id.to_string()))),
        ("at", json!(done.at.as_secs())),
        ("repeated", json!(done.is_repeated)),
        ("dry_run", json!(done.is_dry_run)),
        ("changes", changes.into()),
        ("notes", json!(done.notes)),
    ] {
        members.insert(name.to_owned(), value);
    }
    Value::Object(members)
}

/// As [`of_done`] has it; of each key `kid`, `alg` and `state` alone, and `next` is empty. What was found in the record's place
/// is the first of `notes`.
pub(crate) fn of_recovered(recovered: &Recovered) -> Value {
    let Recovered { change_id, at, identity, keys, generation, found, notes, is_dry_run, .. } = recovered;
    let change = json!({ "kind": RECOVERED, "kid": null });
    let changes: Vec<_> = found.iter().map(|_| change.clone()).collect();
    // What was there is no more once it is written back.
    let found_there = found.iter().map(|found| match is_dry_run {
        true => found.clone(),
        false => format!("written back; until then: {found}"),
    });
    let notes: Vec<_> = found_there.chain(notes.iter().cloned()).collect();
    let key = |(kid, alg, state): &(_, Algorithm, KeyState)| {
        let kid: &KeyId = kid;
        json!({ "kid": kid.as_str(), "alg": alg.as_str(), "state": state.as_str() })
    };
    json!({
        "incarnation": identity.incarnation,
        "revision": identity.revision,
        "digest": identity.digest.to_string(),
        "generation": generation,
        "keys": keys.iter().map(key).collect::<Vec<_>>(),
        "next": [],
        "verb": "recover",
        "change_id": change_id.map(|id| id.to_string()),
        "at": at.as_secs(),
        "repeated": found.is_none(),
        "dry_run": is_dry_run,
        "changes": changes,
        "notes": notes,
    })
}

/// What a refusal adds to `error` and `error_description`: `code`, `exit`, and where they are known `not_before` and
/// `because`.
pub(crate) fn of_error(error: &ExecuteError) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("code".to_owned(), error.code().into());
    members.insert("exit".to_owned(), error.exit().map_or(INTERNAL, |exit| exit.code()).into());
    if let ExecuteError::Refused(refusal) = error {
        if let Some(not_before) = refusal.not_before() {
            members.insert("not_before".to_owned(), not_before.as_secs().into());
        }
        if let Some(because) = refusal.because() {
            members
                .insert("because".to_owned(), json!({ "setting": because.knob, "seconds": because.seconds }));
        }
    }
    members
}

/// An error in full, in one line.
pub(crate) fn words(error: &ExecuteError) -> String {
    match error {
        ExecuteError::Unreadable(found) | ExecuteError::WouldBeRefused(found) => {
            let told: Vec<_> = found
                .iter()
                .map(|finding| format!("{} at {}: {}", finding.code.name, finding.place, finding.message))
                .collect();
            let what = if matches!(error, ExecuteError::Unreadable(_)) {
                "the ring cannot be read"
            } else {
                "every replica would refuse the ring that this would make"
            };
            format!("{what}: {}", told.join("; "))
        }
        other => chain(other),
    }
}

fn of_state(state: &State, next: &[Next]) -> Map<String, Value> {
    let mut members = Map::new();
    for (name, value) in [
        ("incarnation", json!(state.incarnation)),
        ("revision", json!(state.revision)),
        ("digest", json!(state.digest.to_string())),
        ("generation", json!(state.rotation.generation)),
        ("keys", state.keys.iter().map(of_key).collect()),
        ("next", next.iter().map(of_next).collect()),
    ] {
        members.insert(name.to_owned(), value);
    }
    members
}

fn of_key(key: &Key) -> Value {
    let time = |at: Option<oneseal_coordination::UnixTime>| at.map(oneseal_coordination::UnixTime::as_secs);
    json!({
        "kid": key.kid,
        "alg": key.algorithm.as_str(),
        "state": key.state.as_str(),
        "private": key.has_private,
        "created_at": key.created_at.as_secs(),
        "published_at": time(key.published_at),
        "activated_at": time(key.activated_at),
        "retiring_at": time(key.retiring_at),
        "erase_private_after": time(key.erase_private_after),
        "remove_after": time(key.remove_after),
        "ttl_high_water_s": key.ttl_high_water_s,
        "emergency_at": time(key.emergency_at),
    })
}

fn of_next(next: &Next) -> Value {
    json!({
        "what": next.what,
        "kid": next.kid,
        "not_before": next.not_before.map(|at| at.as_secs()),
        "until": next.until.map(|at| at.as_secs()),
        "because": next.because.map(|cost| json!({ "setting": cost.knob, "seconds": cost.seconds })),
        "blocked": next.blocked,
    })
}

/// A fault of our own.
const INTERNAL: u8 = 70;
