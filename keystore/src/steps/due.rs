//! What is due whatever is asked for: private halves that have served their time, keys whose last token has expired.

use oneseal_coordination::UnixTime;

use super::{Conditions, Cost, Edit, Key, Refusal, State};
use crate::ring::KeyState;

/// The edits that are due now: removals, and erasures of the keys that stay.
pub(super) fn due(state: &State, conditions: &Conditions<'_>) -> Vec<Edit> {
    let now = conditions.now;
    let of_key = |key: &Key| {
        let kid = key.kid.clone();
        if key.removable_after(&conditions.floors).is_some_and(|after| now > after) {
            Some(Edit::Remove { kid })
        } else if key.has_private && key.erase_private_after.is_some_and(|after| now >= after) {
            Some(Edit::ErasePrivate { kid })
        } else {
            None
        }
    };
    state.in_state(KeyState::Retiring).filter_map(of_key).collect()
}

/// The ring as it is once these edits are done.
pub(super) fn without(state: &State, due: &[Edit]) -> State {
    let mut after = state.clone();
    for edit in due {
        match edit {
            Edit::Remove { kid } => {
                let thumbprint =
                    after.keys.iter().find(|key| key.kid == *kid).map(|key| key.thumbprint.to_string());
                after.buried.extend([kid.clone()].into_iter().chain(thumbprint));
                after.keys.retain(|key| key.kid != *kid);
            }
            Edit::ErasePrivate { kid } => {
                after.keys.iter_mut().filter(|key| key.kid == *kid).for_each(|key| key.has_private = false);
            }
            _ => {}
        }
    }
    after
}

/// What to say where nothing is due: what will be, and when.
pub(super) fn nothing(state: &State, conditions: &Conditions<'_>) -> Refusal {
    let coming = state.in_state(KeyState::Retiring).flat_map(|key| {
        let removal = removal(key, conditions);
        let erasure = key.erase_private_after.filter(|_| key.has_private).map(|until| Refusal::TooEarly {
            what: format!("erase the private half of {}", key.kid),
            until,
            because: Cost { knob: "rotation.rollback_window", seconds: conditions.floors.keep_private_s },
        });
        [removal, erasure]
    });
    let first = coming.flatten().min_by_key(Refusal::not_before);
    first.unwrap_or(Refusal::Nothing("nothing is due: no key is on its way out"))
}

/// Why a retiring key does not leave the set yet.
pub(super) fn removal(key: &Key, conditions: &Conditions<'_>) -> Option<Refusal> {
    let until = key.removable_after(&conditions.floors)? + std::time::Duration::from_secs(1);
    (conditions.now < until).then(|| Refusal::TooEarly {
        what: format!("remove {}", key.kid),
        until,
        because: of_removal(key, until),
    })
}

/// Of what the wait is made up: the life of its tokens, or all of it for a key that never was ours, whose time was told
/// when it was taken in.
fn of_removal(key: &Key, until: UnixTime) -> Cost {
    let since = key.retiring_at.unwrap_or(key.created_at).as_secs();
    match key.ttl_high_water_s {
        Some(seconds) => Cost { knob: "rotation.max_token_ttl", seconds },
        None => Cost { knob: "keys adopt --until", seconds: (until.as_secs() - since).max(0).unsigned_abs() },
    }
}
