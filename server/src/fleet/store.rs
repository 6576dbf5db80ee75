//! The registry's rows, as the fleet's own words: the only place here that knows of the database.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use oneseal::{SystemClock, UnixTime};
use oneseal_coordination::EventDraft;
use oneseal_coordination::database::{CommitError, Database, DatabaseError};
use oneseal_coordination::events::AppendError;
use oneseal_coordination::registry::{
    Beat, BeatAnswer, BeatError, ForgetError, InstanceId, JoinError, NotAnInstance, Registry, ReplicaState,
    RingRevision, Row, forget_in, look, look_with_ring,
};
use oneseal_keystore::fleet::{Facts, FactsError, Fleet, Peer, PeerState};
use uuid::Uuid;

use super::news::of_replica;

/// Where the rows of one fleet are.
#[derive(Debug)]
pub(crate) struct Store {
    database: Database,
    fleet: String,
    instance: InstanceId,
    boot_id: Uuid,
    /// The query that tells which ring the database holds, if it holds the fleet's.
    ring: Option<&'static str>,
    /// Made anew once the address of the probes is known.
    registry: ArcSwap<Registry>,
}

/// What a beat brings.
#[derive(Debug)]
pub(super) struct Beaten {
    pub(super) fleet: Fleet,
    pub(super) event_head: i64,
    pub(super) stored: Option<(u64, u64)>,
    /// The database's clock, in milliseconds since the Unix epoch.
    pub(super) database_now_ms: i64,
    /// Whether its row was gone, and it has taken its place again.
    pub(super) has_joined_again: bool,
}

/// Why the registry did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// Another process of this name beats.
    #[error("another process beats under the same instance name: {by}")]
    InUse {
        /// Who, in words.
        by: String,
    },
    /// What a replica tells does not fit into its row.
    #[error("a replica that publishes so many keys has no place in the registry: {0}")]
    TooLong(String),
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The event was not logged.
    #[error(transparent)]
    Event(#[from] AppendError),
}

impl StoreError {
    /// Whether the same may work later without anybody changing anything.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::InUse { .. } => true,
            Self::Database(error) | Self::Event(AppendError::Database(error)) => error.is_transient(),
            Self::TooLong(_) | Self::Event(_) => false,
        }
    }
}

impl Store {
    /// The rows of `fleet` in `database`; `ring` as [`Registry::new`] has it.
    ///
    /// # Errors
    /// The instance's name is none.
    pub(crate) fn new(
        database: Database,
        fleet: &str,
        instance: &str,
        boot_id: Uuid,
        ring: Option<&'static str>,
    ) -> Result<Self, NotAnInstance> {
        let instance = InstanceId::new(instance)?;
        let registry = registry(&database, fleet, &instance, boot_id, "", ring);
        let fleet = fleet.to_owned();
        Ok(Self { database, fleet, instance, boot_id, ring, registry: ArcSwap::from_pointee(registry) })
    }

    /// The database, without its password.
    pub(crate) fn location(&self) -> String {
        self.database.location()
    }

    /// From the next beat on, others are told that this replica's probes are there.
    pub(super) fn set_ops_url(&self, ops_url: &str) {
        let made = registry(&self.database, &self.fleet, &self.instance, self.boot_id, ops_url, self.ring);
        self.registry.store(Arc::new(made));
    }

    /// Takes this replica's place and reads all others.
    ///
    /// # Errors
    /// The place is taken, or the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may have joined.
    pub(super) async fn join(&self, facts: &Facts) -> Result<Beaten, StoreError> {
        let registry = self.registry.load_full();
        registry.join(&facts.to_value()).await.map_err(of_join)?;
        match registry.beat(&facts.to_value(), Beat::Joining).await {
            Ok(answer) => Ok(beaten(answer)),
            Err(error) => Err(of_beat(error)),
        }
    }

    /// Tells what this replica serves, and reads all others. One whose row was taken for dead takes its place again.
    ///
    /// # Errors
    /// Somebody else has the place now, or the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may have been heard.
    pub(super) async fn beat(&self, facts: &Facts) -> Result<Beaten, StoreError> {
        let registry = self.registry.load_full();
        let state = if facts.serving { Beat::Live } else { Beat::Joining };
        let told = facts.to_value();
        match registry.beat(&told, state).await {
            Ok(answer) => Ok(beaten(answer)),
            Err(BeatError::NotRegistered) => {
                registry.join(&told).await.map_err(of_join)?;
                tracing::warn!(
                    instance = self.instance.as_str(),
                    "this replica's row was gone, forgotten or lost with the database's last changes; it is back"
                );
                let answer = registry.beat(&told, state).await.map_err(of_beat)?;
                Ok(Beaten { has_joined_again: true, ..beaten(answer) })
            }
            Err(error) => Err(of_beat(error)),
        }
    }

    /// This replica serves no more.
    ///
    /// # Errors
    /// The database does not answer.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may have left.
    pub(super) async fn leave(&self) -> Result<(), StoreError> {
        Ok(self.registry.load_full().leave().await?)
    }

    /// Everybody.
    ///
    /// # Errors
    /// The database does not answer.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn rows(&self) -> Result<Fleet, StoreError> {
        Ok(rows_of(&self.database, &self.fleet).await?)
    }

    /// Everybody, and then which ring the store holds, where it is asked for: never older than what the rows claim.
    ///
    /// # Errors
    /// The database does not answer.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn rows_and_ring(&self) -> Result<(Fleet, Option<(u64, u64)>), StoreError> {
        Ok(rows_and_ring_of(&self.database, &self.fleet, self.ring).await?)
    }

    /// Somebody knows that `instance` serves no more: its row and the event that says so, in one transaction.
    ///
    /// # Errors
    /// There is no such row, or it beats; or the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may be forgotten; forgetting twice is once.
    pub(crate) async fn forget(&self, instance: &str, actor: &str, issuer: &str) -> Result<(), Forgotten> {
        forget(&self.database, &self.fleet, instance, actor, issuer).await
    }

    /// Logs an event of this replica.
    ///
    /// # Errors
    /// It was not, or nobody knows whether it was.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may have been.
    pub(super) async fn tell(&self, issuer: &str, draft: &EventDraft) -> Result<(), StoreError> {
        let mut tx = self.database.write().await?;
        tx.append(&format!("replica:{}", self.instance), issuer, draft).await?;
        Ok(tx.commit().await.map_err(into_database_error)?)
    }
}

/// As [`Store::forget`], for those who have no place in `fleet`.
///
/// # Errors
/// As [`Store::forget`].
///
/// # Cancel safety
/// As [`Store::forget`].
pub(crate) async fn forget(
    database: &Database,
    fleet: &str,
    instance: &str,
    actor: &str,
    issuer: &str,
) -> Result<(), Forgotten> {
    let mut tx = database.write().await.map_err(StoreError::from)?;
    let row = match forget_in(&mut tx, fleet, instance).await {
        Ok(row) => row,
        Err(ForgetError::Unknown(_)) => return Err(Forgotten::Unknown),
        Err(ForgetError::Beats { beat_age, .. }) => return Err(Forgotten::Beats { beat_age }),
        Err(ForgetError::Database(error)) => return Err(StoreError::from(error).into()),
        Err(_) => return Err(Forgotten::Unknown),
    };
    if row.state != ReplicaState::Gone {
        let peer = peer(row, oneseal::Clock::wall(&SystemClock));
        let draft = of_replica("replica.forgotten", fleet, instance, Some(&peer));
        tx.append(actor, issuer, &draft).await.map_err(StoreError::from)?;
    }
    tx.commit().await.map_err(|error| StoreError::from(into_database_error(error)))?;
    Ok(())
}

/// Why a replica was not forgotten.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Forgotten {
    /// There is no row of this name.
    #[error("no replica of this name is in the registry")]
    Unknown,
    /// It beats.
    #[error("it beats: its last beat was {} s ago", beat_age.as_secs())]
    Beats {
        /// How long ago it was heard of.
        beat_age: Duration,
    },
    /// The registry could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn registry(
    database: &Database,
    fleet: &str,
    instance: &InstanceId,
    boot_id: Uuid,
    ops_url: &str,
    ring: Option<&'static str>,
) -> Registry {
    Registry::new(database.clone(), Arc::new(SystemClock), fleet, instance.clone(), boot_id, ops_url, ring)
}

fn beaten(answer: BeatAnswer) -> Beaten {
    let stored = answer.ring_revision.as_ref().and_then(number);
    Beaten {
        fleet: fleet(answer.rows, answer.database_now),
        event_head: answer.event_head,
        stored,
        database_now_ms: answer.database_now_ms,
        has_joined_again: false,
    }
}

fn number(ring: &RingRevision) -> Option<(u64, u64)> {
    Some((u64::try_from(ring.incarnation).ok()?, u64::try_from(ring.revision).ok()?))
}

/// Everybody in `fleet`, for those who have no place in it.
///
/// # Errors
/// The database does not answer, or has no registry.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn rows_of(database: &Database, name: &str) -> Result<Fleet, DatabaseError> {
    let (now, rows) = look(database, name).await?;
    Ok(fleet(rows, now))
}

/// As [`rows_of`], and then which ring the store holds, by the query `ring`: never older than what the rows claim.
///
/// # Errors
/// As [`rows_of`].
///
/// # Cancel safety
/// Changes nothing.
pub(super) async fn rows_and_ring_of(
    database: &Database,
    name: &str,
    ring: Option<&'static str>,
) -> Result<(Fleet, Option<(u64, u64)>), DatabaseError> {
    let Some(query) = ring else { return Ok((rows_of(database, name).await?, None)) };
    let (now, rows, ring) = look_with_ring(database, name, query).await?;
    Ok((fleet(rows, now), ring.as_ref().and_then(number)))
}

fn fleet(rows: Vec<Row>, now: UnixTime) -> Fleet {
    Fleet { now, peers: rows.into_iter().map(|row| peer(row, now)).collect() }
}

fn peer(row: Row, now: UnixTime) -> Peer {
    let state = match row.state {
        ReplicaState::Joining => PeerState::Joining,
        ReplicaState::Live => PeerState::Live,
        ReplicaState::Silent => PeerState::Silent,
        ReplicaState::Gone => PeerState::Gone,
    };
    // The end of one that is gone is later than its last beat, and until then it may have answered.
    let seen_at = if state == PeerState::Gone { row.since } else { now - row.beat_age };
    // Both are of whole seconds, rounded down, and who reckons with it waits rather too long than too short.
    let seen_at = seen_at + Duration::from_secs(1);
    Peer {
        boot_id: row.boot.to_string(),
        state,
        seen_at,
        joined_at: row.joined_at,
        ops_address: Some(row.ops_address).filter(|address| !address.is_empty()),
        facts: match row.fault {
            Some(fault) => Err(FactsError::new(fault.to_string())),
            None => Facts::read(&row.facts),
        },
        instance: row.instance,
    }
}

fn of_join(error: JoinError) -> StoreError {
    match error {
        JoinError::Database(error) => error.into(),
        JoinError::InstanceInUse { .. } => StoreError::InUse { by: error.to_string() },
        other => StoreError::TooLong(other.to_string()),
    }
}

fn of_beat(error: BeatError) -> StoreError {
    match error {
        BeatError::Database(error) => error.into(),
        // It has just joined, so somebody else was as quick.
        BeatError::NotRegistered => StoreError::InUse { by: error.to_string() },
        other => StoreError::TooLong(other.to_string()),
    }
}

fn into_database_error(error: CommitError) -> DatabaseError {
    match error {
        CommitError::NotCommitted(error) | CommitError::OutcomeUnknown(error) => error,
    }
}
