//! What is known of the fleet now, shared by the task that asks and those that only look.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use oneseal::{BootTime, Clock, Issuer, SystemClock};
use oneseal_keystore::fleet::{Facts, Fleet, Judgement, Memory};
use uuid::Uuid;

use super::store::Store;

/// This replica among the others. One for each process.
#[derive(Debug)]
pub(crate) struct Membership {
    store: Store,
    fleet: String,
    instance: String,
    boot_id: Uuid,
    memory: Mutex<Memory>,
    view: ArcSwapOption<View>,
    may_have_row: AtomicBool,
    is_serving: AtomicBool,
    has_caught_up: AtomicBool,
    is_yielding: AtomicBool,
    is_store_up: AtomicBool,
    beats_ok: AtomicU64,
    beats_failed: AtomicU64,
}

/// What the last beat brought.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Everybody, this replica included.
    pub(crate) fleet: Fleet,
    /// What follows for this one.
    pub(crate) judgement: Judgement,
    /// The last event's number; 0 where the log has none.
    pub(crate) event_head: i64,
    /// Incarnation and revision of the ring that the database holds, if it holds one.
    pub(crate) stored: Option<(u64, u64)>,
    /// When it was asked for.
    pub(crate) at: BootTime,
}

impl Membership {
    /// A replica that has not joined yet.
    pub(crate) fn new(store: Store, fleet: String, instance: String, boot_id: Uuid) -> Self {
        Self {
            store,
            fleet,
            instance,
            boot_id,
            memory: Mutex::new(Memory::default()),
            view: ArcSwapOption::empty(),
            may_have_row: AtomicBool::new(false),
            is_serving: AtomicBool::new(false),
            has_caught_up: AtomicBool::new(false),
            is_yielding: AtomicBool::new(false),
            is_store_up: AtomicBool::new(false),
            beats_ok: AtomicU64::new(0),
            beats_failed: AtomicU64::new(0),
        }
    }

    /// Where the rows are.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The fleet's name.
    pub(crate) fn fleet(&self) -> &str {
        &self.fleet
    }

    /// This replica's name.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Of this start.
    pub(crate) fn boot_id(&self) -> Uuid {
        self.boot_id
    }

    /// What is known, if anything is.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.view.load_full()
    }

    /// From now on its row may be in the registry, whatever the answer; or not any more, as far as it depends on us.
    pub(super) fn set_row(&self, may_be_there: bool) {
        self.may_have_row.store(may_be_there, Ordering::Release);
    }

    /// Whether its row may be in the registry.
    pub(super) fn may_have_row(&self) -> bool {
        self.may_have_row.load(Ordering::Acquire)
    }

    /// Its listener is open: others reach its probes at `ops_url`.
    pub(crate) fn set_serving(&self, ops_url: Option<&str>) {
        match ops_url {
            Some(ops_url) => self.store.set_ops_url(ops_url),
            None => tracing::warn!(
                "no address is known at which other replicas reach this one's probes: set ops.advertise"
            ),
        }
        self.is_serving.store(true, Ordering::Release);
    }

    /// Its listener has closed.
    pub(crate) fn set_closed(&self) {
        self.is_serving.store(false, Ordering::Release);
    }

    /// Whether it is a publish point.
    pub(crate) fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Acquire)
    }

    /// Whether it has served, or may serve, the newest revision that others serve. Once it has, it stays so: a replica that
    /// falls behind later is told of, and its readiness does not flap.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.has_caught_up.load(Ordering::Acquire)
    }

    /// Whether another one mints, as of the last question, while this one is stale.
    pub(crate) fn is_yielding(&self) -> bool {
        self.is_yielding.load(Ordering::Acquire)
    }

    /// Another one mints while this one is stale, or not.
    pub(super) fn set_yielding(&self, is_yielding: bool) {
        self.is_yielding.store(is_yielding, Ordering::Release);
    }

    /// Whether the last call to the database was answered.
    pub(crate) fn is_store_up(&self) -> bool {
        self.is_store_up.load(Ordering::Acquire)
    }

    /// Beats that were answered and those that were not.
    pub(crate) fn beats(&self) -> (u64, u64) {
        (self.beats_ok.load(Ordering::Relaxed), self.beats_failed.load(Ordering::Relaxed))
    }

    /// How long ago the last answered beat began.
    pub(crate) fn beat_age(&self) -> Option<Duration> {
        Some(SystemClock.boot().since(self.view()?.at))
    }

    /// A beat has failed; whether it is the first.
    pub(super) fn beat_failed(&self) -> bool {
        self.beats_failed.fetch_add(1, Ordering::Relaxed);
        self.is_store_up.swap(false, Ordering::AcqRel)
    }

    /// A beat was answered; whether it is the first after one that was not.
    pub(super) fn learn(&self, view: View) -> bool {
        if view.judgement.ahead.is_none() {
            self.has_caught_up.store(true, Ordering::Release);
        }
        self.view.store(Some(Arc::new(view)));
        self.beats_ok.fetch_add(1, Ordering::Relaxed);
        !self.is_store_up.swap(true, Ordering::AcqRel)
    }

    /// The memory of what is served begins with what was loaded.
    pub(super) fn begin(&self, issuer: &Issuer) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Memory::new(&issuer.snapshot());
    }

    /// What this replica tells of itself now.
    pub(crate) fn facts(&self, issuer: &Issuer, is_ready: bool) -> Facts {
        let snapshot = issuer.snapshot();
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.see(&snapshot, SystemClock.boot());
        let health = issuer.health();
        let mut facts = Facts::of(issuer.url().as_str(), &snapshot, &memory, &SystemClock);
        facts.serving = self.is_serving();
        facts.ready = is_ready;
        facts.minting = health.minting.as_str().to_owned();
        facts.age_s = health.age.as_secs();
        facts.kek_ids = issuer.kek_ids();
        facts.clock_offset_ms = issuer.clock_offset_ms();
        facts
    }
}
