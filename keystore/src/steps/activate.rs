//! A pending key signs, and the one before it retires, in one commit: once every publish point has served it for as long
//! as any relying party takes to notice.

use std::time::Duration;

use super::conditions::{BEAT_S, lagging};
use super::{Conditions, Cost, Edit, Key, Lagging, Observation, Refusal, State, Step};
use crate::Algorithm;
use crate::ring::KeyState;

pub(super) fn decide(state: &State, kid: Option<&str>, conditions: &Conditions<'_>) -> Result<Step, Refusal> {
    let Some(kid) = kid else { return all(state, conditions) };
    let key = state.key(kid)?;
    if key.state != KeyState::Pending {
        return Err(Refusal::WrongState { kid: key.kid.clone(), state: key.state, wanted: "pending" });
    }
    let mut step = Step::default();
    step.notes.extend(may(key, conditions)?);
    step.edits.extend(swap(state, key, conditions));
    Ok(step)
}

/// Every pending key whose time has come; if there is none, what stands against the first.
fn all(state: &State, conditions: &Conditions<'_>) -> Result<Step, Refusal> {
    let mut step = Step::default();
    let mut first: Option<Refusal> = None;
    for algorithm in Algorithm::ALL {
        let mut pending = state.in_state(KeyState::Pending).filter(|key| key.algorithm == algorithm);
        let Some(key) = pending.next() else { continue };
        if pending.next().is_some() {
            let of_algorithm = state.in_state(KeyState::Pending).filter(|key| key.algorithm == algorithm);
            return Err(Refusal::several(of_algorithm));
        }
        match may(key, conditions) {
            Ok(note) => {
                step.notes.extend(note);
                step.edits.extend(swap(state, key, conditions));
            }
            // One that only has to wait says more than one that is blocked.
            Err(refusal) => {
                let sooner = |old: &Refusal| match (refusal.not_before(), old.not_before()) {
                    (Some(new), Some(old)) => new < old,
                    (new, old) => new.is_some() && old.is_none(),
                };
                if first.as_ref().is_none_or(sooner) {
                    first = Some(refusal);
                }
            }
        }
    }
    match (step.edits.is_empty(), first) {
        (false, _) => Ok(step),
        (true, Some(refusal)) => Err(refusal),
        (true, None) => Err(Refusal::Nothing("no key is pending: rotate first")),
    }
}

/// Whether the key may sign now; who was not waited for, in an emergency.
pub(super) fn may(key: &Key, conditions: &Conditions<'_>) -> Result<Option<String>, Refusal> {
    if !key.has_private {
        return Err(Refusal::Unfit(format!("{} cannot sign: its private half is not here", key.kid)));
    }
    if let Some(at) = key.emergency_at {
        return in_emergency(key, at, conditions);
    }
    let Conditions { observation, floors, now, .. } = conditions;
    observation.opened_by_all(key.sealed_under.as_deref(), Some(&key.kid))?;
    let published_at = key.published_at.unwrap_or(key.created_at);
    let from = |known_by_all| {
        let (at, because) = floors.activation(published_at, known_by_all, observation.max_age_s());
        (key.activate_after.map_or(at, |after| at.max(after)), because)
    };
    match observation.known_by_all(&key.kid, published_at, floors) {
        Ok(known_by_all) => {
            let (until, because) = from(known_by_all);
            if *now < until {
                return Err(Refusal::TooEarly { what: format!("activate {}", key.kid), until, because });
            }
            Ok(None)
        }
        // Whoever beats is taken to serve it by the next beat.
        Err(Refusal::Blocked { replicas, .. }) if replicas.iter().all(Lagging::is_live) => {
            let soonest = Some(from(*now + Duration::from_secs(BEAT_S)));
            Err(Refusal::Blocked { replicas, soonest })
        }
        Err(refusal) => Err(refusal),
    }
}

/// Nothing is minted meanwhile, so it waits for those that answer and for no cache.
fn in_emergency(
    key: &Key,
    burned_at: oneseal_coordination::UnixTime,
    conditions: &Conditions<'_>,
) -> Result<Option<String>, Refusal> {
    let Conditions { observation, floors, now, .. } = conditions;
    let missing: Vec<String> = match observation {
        Observation::Fleet(fleet) => {
            let cannot_open = observation.cannot_open(key.sealed_under.as_deref(), Some(&key.kid));
            let told = |replica: &String| format!("{replica} (cannot open it, and mints nothing with it)");
            let lagging = lagging(fleet, &key.kid).into_iter();
            let lagging = lagging.filter(|lagging| !cannot_open.contains(&lagging.instance));
            lagging.map(|lagging| lagging.to_string()).chain(cannot_open.iter().map(told)).collect()
        }
        Observation::Nobody { .. } => vec!["any replica (there is no registry)".to_owned()],
    };
    if missing.is_empty() {
        return Ok(None);
    }
    let seconds = floors.emergency_wait_s;
    let until = burned_at + Duration::from_secs(seconds) + Duration::from_secs(1);
    if *now < until {
        let because = Cost { knob: "rotation.emergency_wait", seconds };
        let what = format!("activate {} without {}", key.kid, missing.join(", "));
        return Err(Refusal::TooEarly { what, until, because });
    }
    Ok(Some(format!("not waited for any longer: {}", missing.join(", "))))
}

/// The one before retires first: there is never more than one active key of an algorithm.
pub(super) fn swap(state: &State, key: &Key, conditions: &Conditions<'_>) -> Vec<Edit> {
    let before = state.active(key.algorithm).map(|old| retire(old, conditions));
    let ttl_high_water_s = conditions.times_after(state).max_token_ttl_s;
    before.into_iter().chain([Edit::Activate { kid: key.kid.clone(), ttl_high_water_s }]).collect()
}

/// An active key stops signing now.
pub(super) fn retire(key: &Key, conditions: &Conditions<'_>) -> Edit {
    let high_water_s = key.ttl_high_water_s.unwrap_or(DAY_S);
    let Conditions { floors, now, .. } = conditions;
    Edit::Retire {
        kid: key.kid.clone(),
        erase_private_after: *now + floors.erasure(high_water_s),
        remove_after: *now + floors.removal(high_water_s),
    }
}

/// The longest that a token may live at all.
pub(super) const DAY_S: u64 = 24 * 3600;
