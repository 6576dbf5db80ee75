//! From configuration to a membership, and a look at the fleet without one.

use std::sync::Arc;

use oneseal::{Findings, Issuer, SystemClock};
use oneseal_coordination::database::Database;
use oneseal_keystore::fleet::{FLEET_INSTANCE_IN_USE, Facts, Fleet, Memory, Own, Peer, PeerState, judge};
use oneseal_providers::postgres::RING;
use uuid::Uuid;

use super::membership::Membership;
use super::naming::{Surroundings, instance, ops_url, outward};
use super::store::{Store, rows_and_ring_of};
use crate::config::Settings;
use crate::exit::Failure;
use crate::gate::of_database_error;

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

/// By which name a replica of these settings is known; as [`open`] has it where a port or the configuration tells.
pub(crate) fn instance_name(settings: &Settings) -> String {
    instance(&settings.ops, &settings.listen, &Surroundings::of_this_process(), Uuid::new_v4())
}

/// What a look without a membership knows of the replica that would start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// With its key, if that is good.
    pub(crate) issuer: Option<&'a Issuer>,
    /// Whether the ring has just been read from the same database.
    pub(crate) is_ring_there: bool,
    /// Whether the replica itself may run beside the look.
    pub(crate) may_run: bool,
}

/// What the rows of `fleet` say of a replica that would join: for `check`, which does not.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn look(
    database: Database,
    fleet: String,
    settings: &Settings,
    look: &Look<'_>,
) -> Findings {
    let boot_id = Uuid::new_v4();
    let name = instance(&settings.ops, &settings.listen, &Surroundings::of_this_process(), boot_id);
    let ring = look.is_ring_there.then_some(RING);
    let (fleet, stored) = match rows_and_ring_of(&database, &fleet, ring).await {
        Ok(seen) => seen,
        Err(error) => return of_database_error(&error),
    };
    let mut findings = in_use(&fleet, &name, settings, look.may_run);
    if let Some(issuer) = look.issuer {
        let snapshot = issuer.snapshot();
        let facts = Facts::of(issuer.url().as_str(), &snapshot, &Memory::new(&snapshot), &SystemClock);
        let own = Own { instance: &name, facts: &facts, allow_key_replacement: false, stored };
        findings.extend(judge(own, &fleet).findings);
    }
    findings
}

/// Whether another process beats under this name, as the way in would find after waiting for it. The replica of this very
/// configuration, which is known by the address of its probes, is no other one where it `may_run`.
fn in_use(fleet: &Fleet, name: &str, settings: &Settings, may_run: bool) -> Findings {
    let mut findings = Findings::new();
    let beats = |peer: &&Peer| matches!(peer.state, PeerState::Joining | PeerState::Live);
    let Some(peer) = fleet.peers.iter().find(|peer| peer.instance == name).filter(beats) else {
        return findings;
    };
    let own = ops_url(&settings.ops, settings.listen.ops, outward());
    if may_run && own.is_some() && own == peer.ops_address {
        return findings;
    }
    let at = peer.ops_address.as_deref().unwrap_or("an address that it has not told yet");
    let by = format!("{name} already runs (boot {}, reached at {at})", peer.boot_id);
    findings.push(&FLEET_INSTANCE_IN_USE, "ops.instance", by);
    findings
}
