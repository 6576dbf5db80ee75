//! From configuration to a membership, and a look at the fleet without one.

use std::sync::Arc;

use oneseal::{Findings, Issuer, SystemClock};
use oneseal_coordination::database::Database;
use oneseal_keystore::findings::chain;
use oneseal_keystore::fleet::{Facts, Memory, Own, judge};
use uuid::Uuid;

use super::membership::Membership;
use super::naming::{Surroundings, instance};
use super::store::Store;
use crate::config::Settings;
use crate::exit::Failure;

/// A membership in `fleet` that has not begun; `ring` is the query that tells which ring the database holds, if it holds
/// the fleet's.
///
/// # Errors
/// The host's name cannot name a replica.
pub(crate) fn open(
    database: Database,
    fleet: String,
    settings: &Settings,
    ring: Option<&'static str>,
) -> Result<Arc<Membership>, Failure> {
    let boot_id = Uuid::new_v4();
    let name = instance(&settings.ops, &settings.listen, &Surroundings::of_this_process(), boot_id);
    let store = Store::new(database, &fleet, &name, boot_id, ring);
    let store = store.map_err(|error| Failure::refused("ops.instance").because(error))?;
    Ok(Arc::new(Membership::new(store, fleet, name, boot_id)))
}

/// What the rows of `fleet` say of a replica that would serve what `issuer` does: for `check`, which does not join.
/// `is_ring_there` tells whether that has just been read from the same database.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn look(
    database: Database,
    fleet: String,
    settings: &Settings,
    issuer: &Issuer,
    is_ring_there: bool,
) -> Findings {
    let boot_id = Uuid::new_v4();
    let name = instance(&settings.ops, &settings.listen, &Surroundings::of_this_process(), boot_id);
    let mut findings = Findings::new();
    let Ok(store) = Store::new(database, &fleet, &name, boot_id, None) else { return findings };
    match store.rows().await {
        Ok(fleet) => {
            let snapshot = issuer.snapshot();
            let facts = Facts::of(issuer.url().as_str(), &snapshot, &Memory::new(&snapshot), &SystemClock);
            let stored = is_ring_there.then(|| facts.ring.number());
            let own = Own { instance: &name, facts: &facts, allow_key_replacement: false, stored };
            findings.extend(judge(own, &fleet).findings);
        }
        // What keeps the registry from being read has been found by the look at the database itself.
        Err(error) => tracing::debug!(error = chain(&error), "the registry could not be read"),
    }
    findings
}
