//! The key before signs again, inside its window. It was never out of the set, so nobody has to be waited for.

use super::activate::retire;
use super::{Conditions, Edit, Key, Refusal, State, Step};
use crate::ring::KeyState;

pub(super) fn decide(state: &State, kid: Option<&str>, conditions: &Conditions<'_>) -> Result<Step, Refusal> {
    let key = match kid {
        Some(kid) => state.key(kid)?,
        None => latest(state)?,
    };
    if key.state != KeyState::Retiring {
        return Err(Refusal::WrongState { kid: key.kid.clone(), state: key.state, wanted: "retiring" });
    }
    let kid = key.kid.clone();
    conditions.observation.opened_by_all(key.sealed_under.as_deref(), Some(&kid))?;
    match key.rollback_until(&conditions.floors) {
        None => return Err(Refusal::WindowOver { kid, since: None }),
        Some(until) if conditions.now >= until => {
            return Err(Refusal::WindowOver { kid, since: Some(until) });
        }
        Some(_) => {}
    }
    let before = state.active(key.algorithm).map(|old| retire(old, conditions));
    let ttl_high_water_s = conditions.times_after(state).max_token_ttl_s;
    let edits = before.into_iter().chain([Edit::RollBack { kid, ttl_high_water_s }]).collect();
    Ok(Step { edits, notes: Vec::new() })
}

/// The one that stopped signing last; two at once are told apart by name alone.
fn latest(state: &State) -> Result<&Key, Refusal> {
    // What was never active here cannot become so again.
    let ours = || state.in_state(KeyState::Retiring).filter(|key| key.activated_at.is_some());
    let Some(newest) = ours().filter_map(|key| key.retiring_at).max() else {
        return Err(Refusal::Nothing("no key has stopped signing that could sign again"));
    };
    let mut last = ours().filter(|key| key.retiring_at == Some(newest));
    match (last.next(), last.next()) {
        (Some(key), None) => Ok(key),
        _ => Err(Refusal::several(ours().filter(|key| key.retiring_at == Some(newest)))),
    }
}
