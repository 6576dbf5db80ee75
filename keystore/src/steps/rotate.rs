//! New keys come into the set. They do not sign yet.

use super::{Conditions, Edit, Key, Refusal, State, Step};
use crate::material::{DEFAULT_RSA_BITS, GENERATED_RSA_BITS};
use crate::ring::{KeyState, MAX_KEYS};
use crate::{Algorithm, KeyType};

pub(super) fn decide(
    state: &State,
    algorithms: &[Algorithm],
    rsa_bits: Option<usize>,
    conditions: &Conditions<'_>,
) -> Result<Step, Refusal> {
    let mut wanted: Vec<Algorithm> = match algorithms {
        [] => Algorithm::ALL.into_iter().filter(|algorithm| state.active(*algorithm).is_some()).collect(),
        named => named.to_vec(),
    };
    wanted.sort_unstable();
    wanted.dedup();
    if let Some(&algorithm) = wanted.iter().find(|algorithm| !conditions.listed.contains(algorithm)) {
        return Err(Refusal::Unlisted { algorithm });
    }
    if let Some(bits) = rsa_bits {
        check_bits(bits, &wanted)?;
    }
    let waiting = |algorithm: &Algorithm| {
        state.in_state(KeyState::Pending).find(|key| key.algorithm == *algorithm && key.has_private)
    };
    if let Some(key) = wanted.iter().find_map(waiting) {
        return Err(already(key, conditions));
    }
    if wanted.is_empty() {
        return Err(Refusal::Nothing(
            "no key is active that could be followed: name an algorithm with --alg",
        ));
    }
    if state.keys.len() + wanted.len() > MAX_KEYS {
        return Err(too_many(state, conditions));
    }
    conditions.observation.opened_by_all(conditions.seals_under.as_deref(), None)?;
    let edits = wanted.into_iter().map(|algorithm| publish(state, algorithm, rsa_bits, false, conditions));
    Ok(Step { edits: edits.collect(), notes: Vec::new() })
}

/// A new key for `algorithm`, as large as the one that signs.
pub(super) fn publish(
    state: &State,
    algorithm: Algorithm,
    rsa_bits: Option<usize>,
    emergency: bool,
    conditions: &Conditions<'_>,
) -> Edit {
    let like = state.active(algorithm).and_then(|key| key.rsa_bits);
    let like = like.filter(|bits| GENERATED_RSA_BITS.contains(bits));
    let activate_after = if emergency {
        conditions.now
    } else {
        conditions.floors.activation(conditions.now, conditions.now, conditions.observation.max_age_s()).0
    };
    Edit::Publish {
        algorithm,
        rsa_bits: rsa_bits.or(like).unwrap_or(DEFAULT_RSA_BITS),
        activate_after,
        emergency,
    }
}

/// Until a key leaves there is no room.
pub(super) fn too_many(state: &State, conditions: &Conditions<'_>) -> Refusal {
    let leaving = state.keys.iter().filter_map(|key| super::due::removal(key, conditions));
    Refusal::TooManyKeys { until: leaving.filter_map(|refusal| refusal.not_before()).min() }
}

fn already(key: &Key, conditions: &Conditions<'_>) -> Refusal {
    let published_at = key.published_at.unwrap_or(key.created_at);
    let known = conditions.observation.known_by_all(&key.kid, published_at, &conditions.floors);
    let (at, _) = conditions.floors.activation(
        published_at,
        known.unwrap_or(published_at),
        conditions.observation.max_age_s(),
    );
    let may_sign_from = key.activate_after.map_or(at, |after| at.max(after));
    Refusal::AlreadyPending { kid: key.kid.clone(), may_sign_from }
}

fn check_bits(bits: usize, algorithms: &[Algorithm]) -> Result<(), Refusal> {
    if !GENERATED_RSA_BITS.contains(&bits) {
        return Err(Refusal::Unfit(format!("RSA keys of {bits} bits are not made: 2048, 3072 or 4096")));
    }
    if algorithms.iter().all(|algorithm| algorithm.key_type() != KeyType::Rsa) {
        return Err(Refusal::Unfit("bits were named, and no RSA key is asked for".to_owned()));
    }
    Ok(())
}
