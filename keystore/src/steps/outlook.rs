//! What may come next, and when: the same arithmetic as the decisions, told before anybody asks.

use std::time::Duration;

use oneseal_coordination::UnixTime;

use super::conditions::BEAT_S;
use super::{Conditions, Cost, Key, Lagging, Refusal, State, activate, due};
use crate::ring::KeyState;

/// Something that may be done to a key, or will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The verb: `activate`, `rollback`, `erase` or `remove`.
    pub what: &'static str,
    /// To which key.
    pub kid: String,
    /// From then on, as far as is known; `None` where something else stands against it.
    pub not_before: Option<UnixTime>,
    /// Up to then, exclusive.
    pub until: Option<UnixTime>,
    /// The setting that costs most of the wait.
    pub because: Option<Cost>,
    /// What stands against it besides time; with `not_before`, what has to come about before then.
    pub blocked: Option<String>,
}

/// What may come next for each key, soonest first.
pub fn outlook(state: &State, conditions: &Conditions<'_>) -> Vec<Next> {
    let mut next: Vec<Next> = state.keys.iter().flat_map(|key| of_key(key, conditions)).collect();
    next.sort_by_key(|next| (next.not_before.is_none(), next.not_before));
    next
}

fn of_key(key: &Key, conditions: &Conditions<'_>) -> Vec<Next> {
    let now = conditions.now;
    match key.state {
        KeyState::Active => Vec::new(),
        KeyState::Pending => vec![match activate::may(key, conditions) {
            Ok(_) => Next { not_before: Some(now), ..next("activate", key) },
            Err(refusal) => refused("activate", key, &refusal, now),
        }],
        KeyState::Retiring => {
            let rollback = key.rollback_until(&conditions.floors).filter(|until| now < *until).map(|until| {
                let kek = key.sealed_under.as_deref();
                match conditions.observation.opened_by_all(kek, Some(&key.kid)) {
                    Ok(()) => Next { not_before: Some(now), until: Some(until), ..next("rollback", key) },
                    Err(refusal) => Next { until: Some(until), ..refused("rollback", key, &refusal, now) },
                }
            });
            let erase = key.erase_private_after.filter(|_| key.has_private);
            let erase = erase.map(|at| Next { not_before: Some(at.max(now)), ..next("erase", key) });
            let remove = match due::removal(key, conditions) {
                Some(refusal) => refused("remove", key, &refusal, now),
                None => Next { not_before: Some(now), ..next("remove", key) },
            };
            rollback.into_iter().chain(erase).chain([remove]).collect()
        }
    }
}

fn next(what: &'static str, key: &Key) -> Next {
    Next { what, kid: key.kid.clone(), not_before: None, until: None, because: None, blocked: None }
}

fn refused(what: &'static str, key: &Key, refusal: &Refusal, now: UnixTime) -> Next {
    let not_before = refusal.not_before();
    let blocked = match refusal {
        Refusal::Blocked { replicas, soonest: Some(_) } => Some(awaited(key, replicas, now)),
        _ => not_before.is_none().then(|| refusal.to_string()),
    };
    Next { not_before, because: refusal.because(), blocked, ..next(what, key) }
}

/// What live replicas have to do. None is named for a key that is younger than a beat: nobody can have told yet.
fn awaited(key: &Key, replicas: &[Lagging], now: UnixTime) -> String {
    let is_young = key.published_at.is_some_and(|at| now < at + Duration::from_secs(BEAT_S));
    let who = if is_young {
        "every live replica".to_owned()
    } else {
        replicas.iter().map(Lagging::to_string).collect::<Vec<_>>().join(", ")
    };
    format!("once {who} has told that it serves it, with a beat, within {BEAT_S} s")
}
