//! What may come next, and when: the same arithmetic as the decisions, told before anybody asks.

use oneseal_coordination::UnixTime;

use super::{Conditions, Cost, Key, Refusal, State, activate, due};
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
    /// What stands against it besides time.
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
            Err(refusal) => refused("activate", key, &refusal),
        }],
        KeyState::Retiring => {
            let rollback = key
                .rollback_until(&conditions.floors)
                .filter(|until| now < *until)
                .map(|until| Next { not_before: Some(now), until: Some(until), ..next("rollback", key) });
            let erase = key.erase_private_after.filter(|_| key.has_private);
            let erase = erase.map(|at| Next { not_before: Some(at.max(now)), ..next("erase", key) });
            let remove = match due::removal(key, conditions) {
                Some(refusal) => refused("remove", key, &refusal),
                None => Next { not_before: Some(now), ..next("remove", key) },
            };
            rollback.into_iter().chain(erase).chain([remove]).collect()
        }
    }
}

fn next(what: &'static str, key: &Key) -> Next {
    Next { what, kid: key.kid.clone(), not_before: None, until: None, because: None, blocked: None }
}

fn refused(what: &'static str, key: &Key, refusal: &Refusal) -> Next {
    let not_before = refusal.not_before();
    let blocked = not_before.is_none().then(|| refusal.to_string());
    Next { not_before, because: refusal.because(), blocked, ..next(what, key) }
}
