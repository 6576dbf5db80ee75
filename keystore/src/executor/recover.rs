//! Puts back what the store has lost: a replica writes the record that it serves from, byte for byte.
//!
//! ```text
//! what the store holds                                   what is done
//! nothing                                                create
//! what is no ring, or none that is believed here         replace it, at the revision at which it rests
//! an older ring, or another one than is served           replace it
//! the ring that is served                                nothing: it is there
//! a later ring, one that a replica takes by itself       refused: nothing is lost
//! what this replica cannot judge                         refused: whoever has its KEK or passphrase can
//! ```
//! Nothing is made and nothing is signed: an identity that every replica knows already comes back, and with it each of
//! them is good again without having served anything else meanwhile. Only the replica itself writes, from its own
//! memory: no private half crosses the wire.

mod decide;

use std::sync::Arc;

use oneseal_coordination::{EventDraft, UnixTime};
use oneseal_providers::{Change, Entries, ErrorKind, ProviderError, Record};
use serde_json::json;
use uuid::Uuid;

pub use self::decide::NotRecovered;
use self::decide::{There, decide, elsewhere};
use super::{ATTEMPTS, ExecuteError, Executor, Observed, bad_reason, pause};
use crate::codes::{RING_FORMAT, RING_ISSUER_MISMATCH, RING_SEALED_WITHOUT_KEK};
use crate::keystore::Kept;
use crate::material::{ENCRYPTED, WRONG_PASSPHRASE};
use crate::reading::{self, Opening, Read};
use crate::ring::{KeyState, Mode, Reading};
use crate::snapshot::Identity;
use crate::{Algorithm, Findings, KeyId, Snapshot, place, provider_findings, ring, seal};

/// What is asked for, by whom and why.
#[derive(Debug)]
pub struct Recovery {
    /// The idempotency key.
    pub change_id: Uuid,
    /// Who asks.
    pub actor: String,
    /// Why: at most 200 bytes.
    pub reason: String,
    /// Whether only to say what would be done: all of it is tried, up to the write.
    pub dry_run: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// Its id; `None` where nothing was written under it.
    pub change_id: Option<Uuid>,
    /// When.
    pub at: UnixTime,
    /// The ring that is there now, or would be.
    pub identity: Identity,
    /// Its keys, in the order of the JWKS.
    pub keys: Vec<(KeyId, Algorithm, KeyState)>,
    /// The generation of its times.
    pub generation: u64,
    /// What was found in its place; `None` where nothing had to be done.
    pub found: Option<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// Whether nothing was done at all, and this is what would be.
    pub is_dry_run: bool,
}

impl Executor {
    /// Writes `kept`, the last good record of this replica, back to where it was; `None` is a replica that keeps none.
    ///
    /// # Errors
    /// Nothing has been changed then, except where [`ExecuteError::OutcomeUnknown`] says so: ask for the same again.
    ///
    /// # Cancel safety
    /// Dropped, the whole record was written or nothing; the same again tells which.
    pub async fn recover(&self, order: &Recovery, kept: Option<&Kept>) -> Result<Recovered, ExecuteError> {
        if bad_reason(&order.reason) {
            return Err(ExecuteError::BadReason);
        }
        if self.options.mode == Mode::PublicOnly {
            return Err(ExecuteError::PublicOnly);
        }
        let kept = kept.ok_or(ExecuteError::NotRecovered(NotRecovered::NothingKept))?;
        let mut lost: Option<ProviderError> = None;
        for attempt in 0..ATTEMPTS {
            tokio::time::sleep(pause(attempt)).await;
            let (observed, there) = match (self.find(kept).await, lost.take()) {
                (Ok(found), _) => found,
                (Err(_), Some(error)) => return Err(ExecuteError::OutcomeUnknown(error)),
                (Err(error), None) => return Err(error),
            };
            let (now, notes) = self.judge(kept, &observed)?;
            let step = decide(kept.snapshot(), there).map_err(ExecuteError::NotRecovered)?;
            let told = |found: Option<String>| recovered(order, kept.snapshot(), found, notes, now);
            let Some(step) = step else { return Ok(told(None)) };
            let found = step.found;
            let Some(entries) = kept.entries() else {
                return Err(ExecuteError::NotRecovered(NotRecovered::NothingKept));
            };
            let change = change(order, kept.snapshot(), step.codes);
            let outcome = match (&step.over, order.dry_run) {
                (None, true) => self.provider.rehearse_create(entries, change).await.and(self.check_place()),
                (Some(at), true) => self.provider.rehearse(at, entries, change).await.and(self.check_place()),
                (None, false) => self.provider.create(entries, change).await.map(drop),
                (Some(at), false) => self.provider.replace(at, entries, change).await.map(drop),
            };
            match outcome {
                Ok(()) => return Ok(told(Some(found))),
                // Somebody was there in between: it is looked at anew.
                Err(error) if is_moved(error.kind()) => {}
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => lost = Some(error),
                Err(error) if error.kind() == ErrorKind::ChangeIdUsed => {
                    return Err(ExecuteError::ChangeIdOld(error));
                }
                Err(error) => return Err(ExecuteError::Write(error)),
            }
        }
        Err(lost.map_or(ExecuteError::Contended, ExecuteError::OutcomeUnknown))
    }

    /// The fleet, and then what rests in the store.
    async fn find(&self, kept: &Kept) -> Result<(Observed, There), ExecuteError> {
        let observed = self.observer.observe().await.map_err(ExecuteError::Registry)?;
        let there = match place::read(&*self.provider).await {
            Ok(record) => self.read(record, kept).await?,
            Err(error) if error.kind() == ErrorKind::NotFound => There::Nothing,
            Err(error) if error.kind() == ErrorKind::Malformed => {
                There::Broken { over: error.revision().cloned(), found: provider_findings(&error) }
            }
            Err(error) => return Err(ExecuteError::Unreadable(provider_findings(&error))),
        };
        Ok((observed, there))
    }

    async fn read(&self, record: Record, kept: &Kept) -> Result<There, ExecuteError> {
        let (keks, _) = seal::load(&self.options.keks).await.map_err(ExecuteError::Unreadable)?;
        let opening = Opening {
            passphrase: self.options.passphrase.clone(),
            member: self.options.member.clone(),
            keks,
            pin: self.options.pin.clone(),
            mode: self.options.mode,
            believe_unsealed: false,
            known: Some(Arc::clone(kept.snapshot())),
        };
        let (issuer, algorithms, rotation) =
            (self.options.issuer.clone(), self.options.algorithms.clone(), self.options.rotation.clone());
        let over = record.revision.clone();
        // A ring that is believed and not served here, for what is configured, is one that others may serve.
        let work = move |entries: &Entries, reading: &Reading<'_>| {
            let (ring, _) = ring::read_with(entries, &issuer, reading)?;
            Ok(Snapshot::build(ring, &algorithms, &rotation).map(|(snapshot, _)| snapshot))
        };
        let Read { result, .. } = reading::read(Arc::new(record), &opening, work).await;
        Ok(match result {
            Ok(Ok(snapshot)) => There::Ring { over, snapshot: Box::new(snapshot) },
            Ok(Err(found)) => There::Unjudged(found),
            Err(found) if is_for_others(&found) => There::Unjudged(found),
            Err(found) => There::Broken { over: Some(over), found },
        })
    }

    /// What the others say of it, and the time.
    fn judge(&self, kept: &Kept, observed: &Observed) -> Result<(UnixTime, Vec<String>), ExecuteError> {
        match observed {
            Observed::Fleet(fleet) => {
                elsewhere(kept.snapshot(), fleet).map_err(ExecuteError::NotRecovered)?;
                Ok((fleet.now, Vec::new()))
            }
            Observed::Nobody => Ok((self.clock.wall(), vec![ALONE.to_owned()])),
        }
    }

    /// What a provider without a rehearsal of its own would say.
    fn check_place(&self) -> Result<(), ProviderError> {
        let place = self.provider.describe();
        if place.writable {
            return Ok(());
        }
        Err(ProviderError::new(ErrorKind::ReadOnly, place.location, "it cannot be written by this replica"))
    }
}

fn is_moved(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::AlreadyExists | ErrorKind::NotFound)
}

/// Whether it may be good for a replica that is given more than this one.
fn is_for_others(found: &Findings) -> bool {
    [&RING_SEALED_WITHOUT_KEK, &RING_FORMAT, &RING_ISSUER_MISMATCH, &ENCRYPTED, &WRONG_PASSPHRASE]
        .into_iter()
        .any(|code| found.contains(code))
}

fn change(order: &Recovery, kept: &Snapshot, found: Vec<&'static str>) -> Change {
    let identity = kept.identity();
    let mut payload = json!({
        "change_id": order.change_id.to_string(),
        "digest": identity.digest.to_string(),
        "found": found,
        "incarnation": identity.incarnation,
        "reason": order.reason,
        "revision": identity.revision,
    });
    payload.sort_all_objects();
    Change {
        id: order.change_id,
        actor: order.actor.clone(),
        reason: order.reason.clone(),
        event: EventDraft::new(RECOVERED, payload.to_string()),
        fence: None,
    }
}

fn recovered(
    order: &Recovery,
    kept: &Snapshot,
    found: Option<String>,
    notes: Vec<String>,
    at: UnixTime,
) -> Recovered {
    let keys = kept.keys().iter().map(|key| (key.kid.clone(), key.algorithm, key.state));
    Recovered {
        change_id: found.as_ref().filter(|_| !order.dry_run).map(|_| order.change_id),
        at,
        identity: *kept.identity(),
        keys: keys.collect(),
        generation: kept.rotation().generation,
        found,
        notes,
        is_dry_run: order.dry_run,
    }
}

/// The kind of its event.
pub const RECOVERED: &str = "ring.recovered";
const ALONE: &str =
    "there is no registry, so whether another replica serves a later revision is not known here";
