//! What keeps a ring from being sealed anew: replicas that could not open it, replicas that serve a newer one, and a
//! direction between two KEKs that nobody has named.

use std::collections::BTreeSet;

use crate::findings::{Code, Exit};
use crate::fleet::{FLEET_CANNOT_OPEN, Fleet};
use crate::{Findings, Identity};

/// The rows of this file.
pub(super) static CODES: &[&Code] = &[&FLEET_CANNOT_OPEN, &FLEET_AHEAD, &KEK_DIRECTION_UNSAID];

/// Every replica that holds private halves must have the KEKs of `needed`: the old ones while it serves, the new one from
/// then on. And none may serve what is newer than the ring that was read, or another one of the same revision: what
/// would be written then is the past.
pub(super) fn check_fleet(fleet: &Fleet, ring: &Identity, needed: &BTreeSet<&str>) -> Result<(), Findings> {
    let mut findings = Findings::new();
    for peer in fleet.publish_points() {
        let missing = peer.lacks(needed.iter().copied());
        if !missing.is_empty() {
            let message = format!("{} has not said that it has {}", peer.instance, missing.join(", "));
            findings.push(&FLEET_CANNOT_OPEN, &peer.instance, message);
        }
        let Ok(facts) = &peer.facts else { continue };
        let (served, stored) = (facts.ring.number(), (ring.incarnation, ring.revision));
        if served > stored || served == stored && facts.ring.digest != ring.digest.to_string() {
            let message = format!(
                "{} serves revision {} of incarnation {}, and the ring that was read is {}",
                peer.instance,
                served.1,
                served.0,
                if served == stored {
                    "another one of that number".to_owned()
                } else {
                    format!("revision {}", stored.1)
                },
            );
            findings.push(&FLEET_AHEAD, &peer.instance, message);
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// A ring under a KEK that is configured as a previous one: that may be the older of the two, or the newer, and then the
/// configuration is to follow, and not the ring to go back. No bytes tell which, and the ring's log forgets: so whoever
/// asks has to say it, each time.
pub(super) fn check_direction(under: &BTreeSet<String>, target: &str) -> Result<(), Findings> {
    let others: Vec<_> = under.iter().map(String::as_str).filter(|id| *id != target).collect();
    if others.is_empty() {
        return Ok(());
    }
    let mut findings = Findings::new();
    let others = others.join(", ");
    let message = format!(
        "the ring is sealed under {others}, which is configured as a previous KEK; [kek] is {target}"
    );
    findings.push(&KEK_DIRECTION_UNSAID, "kek", message);
    Err(findings)
}

static FLEET_AHEAD: Code = Code::error(
    "fleet.ahead",
    Exit::TryLater,
    "A replica serves a newer ring than the one that was read, or another one of the same revision: what would be \
     written is the past.",
    "Run this again in a few seconds, in case somebody has just changed the ring; if it stays so, the store has lost \
     something: restore what the replica serves.",
);
static KEK_DIRECTION_UNSAID: Code = Code::refused(
    "kek.direction_unsaid",
    "The ring is sealed under a KEK that is configured as a previous one: that may be the newer of the two, and then \
     sealing it under [kek] would lead back, perhaps to one that has leaked.",
    "If the KEK that the ring is sealed under is the newer one, make it [kek] and the other one kek.previous. If [kek] \
     is the newer one, say so: `oneseal keys rewrap --to-kek URI` with the URI of [kek]. `oneseal keys keks` tells \
     which has which id.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_ring_goes_to_another_kek_only_when_that_is_named() {
        let is_refused =
            |ids: &[&str]| check_direction(&ids.iter().map(|id| (*id).to_owned()).collect(), "a").is_err();
        assert!(is_refused(&["b"]) && is_refused(&["a", "b"]));
        assert!(!is_refused(&["a"]));
        assert!(!is_refused(&[]), "what is not sealed goes one way");
    }
}
