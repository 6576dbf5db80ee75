//! An emergency: keys are gone at once, whatever tokens they have signed.
//!
//! Two commits. The first takes the burned keys out of the set and publishes new ones, and no key signs for an algorithm
//! whose key was burned: minting answers 503. The second is [`activate`](super::activate), as soon as every publish
//! point serves the first, or after the emergency wait.
//!
//! Between the two an emergency is open, and the same order again, by a second operator or a script, burns nothing that the
//! first has made: its successors were never in what has leaked, and to burn them would begin the wait anew. It is written
//! into the log all the same, under its own id: else it would be a new order when it comes again, after the emergency,
//! because its answer was lost. Who knows that they have leaked too names them, or a `since` that is later than they are.

use std::collections::BTreeSet;

use oneseal_coordination::UnixTime;

use super::{Conditions, Edit, Key, Refusal, State, Step, rotate};
use crate::Algorithm;
use crate::ring::KeyState;

pub(super) fn decide(
    state: &State,
    kids: &[String],
    since: Option<UnixTime>,
    conditions: &Conditions<'_>,
) -> Result<Step, Refusal> {
    let burned = burned(state, kids, since)?;
    if burned.is_empty() && kids.is_empty() && state.keys.iter().any(is_successor) {
        return Ok(Step { edits: vec![Edit::JoinEmergency], notes: vec![OPEN.to_owned()] });
    }
    if burned.is_empty() {
        return Err(Refusal::Nothing("no key's private half was in the store in that time"));
    }
    let mut step = Step::default();
    step.edits.extend(burned.iter().map(|kid| Edit::Revoke { kid: (*kid).to_owned() }));
    let is_left = |key: &&Key| !burned.contains(key.kid.as_str());
    for algorithm in Algorithm::ALL {
        let of_algorithm = || state.keys.iter().filter(move |key| key.algorithm == algorithm);
        let signs = |key: &Key| key.state == KeyState::Active;
        let was_to_sign =
            |key: &Key| signs(key) || (key.state == KeyState::Pending && key.emergency_at.is_some());
        let is_hit = of_algorithm().any(|key| was_to_sign(key) && burned.contains(key.kid.as_str()));
        if !is_hit || of_algorithm().filter(is_left).any(signs) {
            continue;
        }
        let is_ready = |key: &&Key| key.state == KeyState::Pending && key.has_private;
        match of_algorithm().filter(is_left).find(is_ready) {
            // It is out there already: nobody has to learn of another.
            Some(key) => {
                step.edits.push(Edit::Hasten { kid: key.kid.clone() });
                step.notes.extend(unopened(key.sealed_under.as_deref(), Some(&key.kid), conditions));
            }
            None => {
                step.edits.push(rotate::publish(state, algorithm, None, true, conditions));
                step.notes.extend(unopened(conditions.seals_under.as_deref(), None, conditions));
            }
        }
    }
    step.notes.dedup();
    Ok(step)
}

/// Who could not sign with a successor. It is sealed under `[kek]` all the same: a previous KEK that everybody has may be
/// the one that leaked.
fn unopened(kek: Option<&str>, kid: Option<&str>, conditions: &Conditions<'_>) -> Option<String> {
    let replicas = conditions.observation.cannot_open(kek, kid);
    let kek = kek.filter(|_| !replicas.is_empty())?;
    Some(format!(
        "{} will mint nothing with the successors: not said to open what is sealed under the KEK {kek}. Give that to every \
         replica, as [kek] or among kek.previous, and restart it; until the emergency wait is over `oneseal keys \
         activate` waits for it, and then the others mint without them",
        replicas.join(", ")
    ))
}

fn burned<'a>(
    state: &'a State,
    kids: &[String],
    since: Option<UnixTime>,
) -> Result<BTreeSet<&'a str>, Refusal> {
    if !kids.is_empty() {
        let named = kids.iter().map(|kid| state.key(kid).map(|key| key.kid.as_str()));
        return named.collect();
    }
    let was_in_store = |key: &&Key| match since {
        _ if is_successor(key) && since.is_none_or(|since| since <= key.created_at) => false,
        None => key.has_private || key.activated_at.is_some(),
        Some(since) => {
            key.has_private
                // When it went is told by the log, if that reaches back so far: if not, nobody knows.
                || (key.activated_at.is_some() && key.erased_at.is_none_or(|erased| erased >= since))
        }
    };
    Ok(state.keys.iter().filter(was_in_store).map(|key| key.kid.as_str()).collect())
}

/// Whether an emergency that is still open has made it.
fn is_successor(key: &Key) -> bool {
    // One that was published before and only took the place of a burned one had a wait before it.
    let made_at = |at: Option<UnixTime>| at == Some(key.created_at);
    key.state == KeyState::Pending && made_at(key.emergency_at) && made_at(key.activate_after)
}

const OPEN: &str = "an emergency is open: every key that was there before it is burned already, and nothing else was done; \
                    `oneseal keys activate` lets the successors sign";
