//! One key is taken out of use, without a successor.

use super::activate::retire;
use super::{Conditions, Edit, Refusal, State, Step, due};
use crate::ring::KeyState;

pub(super) fn decide(state: &State, kid: &str, conditions: &Conditions<'_>) -> Result<Step, Refusal> {
    let key = state.key(kid)?;
    let kid = key.kid.clone();
    let others_sign = state.in_state(KeyState::Active).any(|other| other.kid != kid);
    let edit = match key.state {
        KeyState::Active if !others_sign => return Err(Refusal::LastKey { kid }),
        KeyState::Active => retire(key, conditions),
        // Between the two commits of an emergency the pending keys are all that there is.
        KeyState::Pending if !others_sign => return Err(Refusal::LastKey { kid }),
        KeyState::Pending => Edit::Remove { kid },
        KeyState::Retiring => match due::removal(key, conditions) {
            Some(refusal) => return Err(refusal),
            None => Edit::Remove { kid },
        },
    };
    Ok(Step { edits: vec![edit], notes: Vec::new() })
}
