//! Keys from elsewhere come into the set, under the names that they have in the world.

use std::cmp::Ordering;

use oneseal_coordination::UnixTime;

use super::activate::{DAY_S, retire};
use super::{Adopted, Conditions, Edit, Foreign, Key, Refusal, State, Step, Taken, rotate};
use crate::ring::{KeyState, MAX_KEYS};
use crate::{Algorithm, KeyId};

/// What is taken in.
#[derive(Debug)]
#[non_exhaustive]
pub enum Adoption {
    /// One key with its private half: it signs later, as a new one would.
    Key {
        /// Its name in the world.
        kid: KeyId,
        /// What it signs with.
        algorithm: Algorithm,
        /// The key.
        key: crate::material::PrivateKey,
        /// Whether the issuer's own URL serves it under that name now, which whoever asks has seen: it signs at once.
        is_published: bool,
    },
    /// The key set of a former issuer, without private halves: its tokens verify until then, and whoever holds the
    /// private halves can go on signing such.
    Public {
        /// The keys.
        keys: Vec<Foreign>,
        /// When they leave the set.
        until: UnixTime,
    },
}

pub(super) fn decide(
    state: &State,
    adoption: &Adoption,
    conditions: &Conditions<'_>,
) -> Result<Step, Refusal> {
    match adoption {
        Adoption::Key { kid, algorithm, key, is_published } => {
            let foreign = Foreign { kid: kid.clone(), algorithm: *algorithm, public: key.public().clone() };
            let is_done = |known: &Key| {
                let signs = known.state == KeyState::Active;
                known.has_private && (signs || (known.state == KeyState::Pending && !is_published))
            };
            if same(state, &foreign).is_some_and(is_done) {
                return Ok(Step { edits: Vec::new(), notes: vec![DONE.to_owned()] });
            }
            check(state, std::slice::from_ref(&foreign), conditions)?;
            conditions.observation.opened_by_all(conditions.seals_under.as_deref(), None)?;
            Ok(one(state, foreign, *is_published, conditions))
        }
        Adoption::Public { keys, until } => several(state, keys, *until, conditions),
    }
}

/// A former issuer's set. What is there of it already stays for longer if it is to, and never goes sooner.
fn several(
    state: &State,
    keys: &[Foreign],
    until: UnixTime,
    conditions: &Conditions<'_>,
) -> Result<Step, Refusal> {
    if keys.is_empty() {
        return Err(Refusal::Unfit("there is no key in the set that could verify".to_owned()));
    }
    if until <= conditions.now {
        return Err(Refusal::Unfit(format!("the keys would leave at {until}, which is past")));
    }
    let (mut new, mut step) = (Vec::new(), Step::default());
    for key in keys {
        // One of ours has a time of its own.
        let known = same(state, key).filter(|known| known.ttl_high_water_s.is_none());
        let Some(promised) = known.and_then(|known| known.remove_after) else {
            new.push(key.clone());
            continue;
        };
        let kid = key.kid.to_string();
        match until.cmp(&promised) {
            Ordering::Less => return Err(Refusal::Promised { kid, until: promised }),
            Ordering::Equal => {}
            Ordering::Greater => step.edits.push(Edit::Extend { kid, remove_after: until }),
        }
    }
    check(state, &new, conditions)?;
    step.edits.extend(new.iter().map(|key| Edit::Adopt(public(key, until))));
    if step.edits.is_empty() {
        step.notes.push(DONE.to_owned());
    }
    Ok(step)
}

/// The key of the ring that is `foreign`, under the same name.
fn same<'s>(state: &'s State, foreign: &Foreign) -> Option<&'s Key> {
    let Foreign { kid, algorithm, public } = foreign;
    let thumbprint = public.thumbprint();
    let is_same =
        |key: &&Key| key.kid == kid.as_str() && key.thumbprint == thumbprint && key.algorithm == *algorithm;
    state.keys.iter().find(is_same)
}

fn check(state: &State, keys: &[Foreign], conditions: &Conditions<'_>) -> Result<(), Refusal> {
    let mut names: Vec<String> = Vec::new();
    for Foreign { kid, algorithm, public } in keys {
        if !conditions.listed.contains(algorithm) {
            return Err(Refusal::Unlisted { algorithm: *algorithm });
        }
        if public.key_type() != algorithm.key_type() {
            let message = format!("an {} key cannot be for {algorithm}", public.key_type());
            return Err(Refusal::Unfit(message));
        }
        let thumbprint = public.thumbprint();
        if thumbprint == state.ring_key {
            return Err(Refusal::Unfit(
                "it is the ring key, which signs the document and nothing else".to_owned(),
            ));
        }
        let own = [kid.to_string(), thumbprint.to_string()];
        let by =
            if own.iter().any(|name| names.contains(name)) { Some(Taken::Twice) } else { taken(state, &own) };
        if let Some(by) = by {
            return Err(Refusal::KidTaken { kid: kid.to_string(), by });
        }
        names.extend(own);
    }
    if state.keys.len() + keys.len() > MAX_KEYS {
        return Err(rotate::too_many(state, conditions));
    }
    Ok(())
}

/// What has the name of a key, or was it itself; `own` are its name and its thumbprint.
fn taken(state: &State, own: &[String; 2]) -> Option<Taken> {
    let [kid, thumbprint] = own;
    if let Some(key) = state.keys.iter().find(|key| key.thumbprint.as_str() == thumbprint) {
        return Some(Taken::IsHere(key.kid.clone()));
    }
    let has_name =
        |name: &String| state.keys.iter().any(|key| key.kid == *name || key.thumbprint.as_str() == name);
    if own.iter().any(has_name) {
        return Some(Taken::ByAnother);
    }
    if state.buried.contains(thumbprint) {
        return Some(Taken::WasHere);
    }
    state.buried.contains(kid).then_some(Taken::ByOneThatIsGone)
}

fn one(state: &State, key: Foreign, is_published: bool, conditions: &Conditions<'_>) -> Step {
    let Conditions { floors, now, observation, .. } = conditions;
    let Foreign { kid, algorithm, public } = key;
    let mut adopted = Adopted {
        kid,
        algorithm,
        public,
        with_private: true,
        state: KeyState::Pending,
        activate_after: None,
        remove_after: None,
        ttl_high_water_s: None,
    };
    if !is_published {
        adopted.activate_after = Some(floors.activation(*now, *now, observation.max_age_s()).0);
        return Step { edits: vec![Edit::Adopt(adopted)], notes: Vec::new() };
    }
    adopted.state = KeyState::Active;
    // What it has signed elsewhere may live for as long as any token may.
    adopted.ttl_high_water_s = Some(conditions.times_after(state).max_token_ttl_s.max(DAY_S));
    let before = state.active(algorithm).map(|old| retire(old, conditions));
    Step { edits: before.into_iter().chain([Edit::Adopt(adopted)]).collect(), notes: Vec::new() }
}

fn public(key: &Foreign, until: UnixTime) -> Adopted {
    Adopted {
        kid: key.kid.clone(),
        algorithm: key.algorithm,
        public: key.public.clone(),
        with_private: false,
        state: KeyState::Retiring,
        activate_after: None,
        remove_after: Some(until),
        ttl_high_water_s: None,
    }
}

const DONE: &str = "it is there already, and nothing was done";
