//! Keys from elsewhere come into the set, under the names that they have in the world.

use oneseal_coordination::UnixTime;

use super::activate::{DAY_S, retire};
use super::{Adopted, Conditions, Edit, Foreign, Refusal, State, Step, rotate};
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
    let step = match adoption {
        Adoption::Key { kid, algorithm, key, is_published } => {
            let foreign = Foreign { kid: kid.clone(), algorithm: *algorithm, public: key.public().clone() };
            check(state, std::slice::from_ref(&foreign), conditions)?;
            one(state, foreign, *is_published, conditions)
        }
        Adoption::Public { keys, until } => {
            if keys.is_empty() {
                return Err(Refusal::Unfit("there is no key in the set that could verify".to_owned()));
            }
            if *until <= conditions.now {
                return Err(Refusal::Unfit(format!("the keys would leave at {until}, which is past")));
            }
            check(state, keys, conditions)?;
            let adopted = keys.iter().map(|key| Edit::Adopt(public(key, *until)));
            Step { edits: adopted.collect(), notes: Vec::new() }
        }
    };
    Ok(step)
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
        let is_taken = |name: &String| {
            let is_there = |key: &super::Key| key.kid == *name || key.thumbprint.as_str() == name;
            state.buried.contains(name) || names.contains(name) || state.keys.iter().any(is_there)
        };
        if own.iter().any(is_taken) {
            return Err(Refusal::KidTaken { kid: kid.to_string() });
        }
        names.extend(own);
    }
    if state.keys.len() + keys.len() > MAX_KEYS {
        return Err(rotate::too_many(state, conditions));
    }
    Ok(())
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
