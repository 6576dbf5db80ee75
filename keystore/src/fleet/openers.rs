//! Which replicas could not open what is sealed, or is to be sealed, under some key-encryption key.
//!
//! Whoever writes a ring has the KEK that it seals under; that says nothing of the others. One that lacks it publishes
//! the key and cannot sign with it: it learns of the fault when the key is activated, and by then nothing mints there.

use super::{Facts, Peer};
use crate::findings::{Code, Exit};

impl Peer {
    /// The KEKs of `needed` that it has not said it has, although it signs; all of them where its row cannot be read.
    pub(crate) fn lacks<'n>(&self, needed: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
        let has = |facts: &Facts, id: &str| !facts.signs() || facts.kek_ids.iter().any(|has| has == id);
        needed.into_iter().filter(|id| self.facts.as_ref().map_or(true, |facts| !has(facts, id))).collect()
    }
}

impl Facts {
    /// Whether it is a replica that holds private halves, or would if it could open one.
    pub(crate) fn signs(&self) -> bool {
        // After an emergency one that lacks the KEK of the successors holds no half at all.
        let may_hold = self.keys.iter().any(|key| key.has_private) || !self.kek_ids.is_empty();
        may_hold && self.minting != PUBLIC_ONLY
    }
}

/// What a replica without private halves says of its minting.
const PUBLIC_ONLY: &str = "public_only";

pub(crate) static FLEET_CANNOT_OPEN: Code = Code::error(
    "fleet.cannot_open",
    Exit::TryLater,
    "A replica that signs has not every key-encryption key that this needs: it could not sign.",
    "Give it the KEKs that the finding names, as [kek] or among kek.previous, restart it, and run this again. Where the \
     KEK is a wrong one, order a key verb from a replica with the right one instead.",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::PeerState;
    use crate::fleet::tests::{facts, peer};

    #[test]
    fn one_that_signs_must_have_said_that_it_has_the_kek() {
        let mut told = facts(1, &[]);
        told.kek_ids = vec!["one".to_owned()];
        let of = |told: &Facts| peer("a", PeerState::Live, told.clone());
        assert_eq!(of(&told).lacks(["one", "two"]), ["two"], "it holds no half, and would if it could");
        told.minting = PUBLIC_ONLY.to_owned();
        assert!(of(&told).lacks(["one", "two"]).is_empty());
        let unread = Peer { facts: Err(crate::fleet::FactsError::new("no")), ..of(&told) };
        assert_eq!(unread.lacks(["one"]), ["one"]);
    }
}
