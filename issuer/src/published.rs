//! What this replica shows and signs with at one moment, as one value behind one pointer.
//!
//! A reader loads it once and has a snapshot, its documents and its counters that belong together: there is no
//! instant at which a token is signed by a key that the documents beside it do not name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use oneseal_coordination::{Clock, UnixTime};
use oneseal_keystore::{Identity, KeyId, Snapshot};
use tokio::sync::Notify;

use crate::http::documents::{Documents, Endpoints};
use crate::metrics::agents::Agent;
use crate::reference::Reference;

/// One snapshot with everything that is made from it.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) documents: Documents,
    /// JWKS answers since this key set was published, by user agent.
    fetches: [AtomicU64; Agent::COUNT],
    /// Per published key, shared with the values before and after.
    marks: Vec<KeyMarks>,
}

/// What is remembered of a key for as long as it is published.
#[derive(Clone, Debug)]
pub(crate) struct KeyMarks {
    pub(crate) kid: KeyId,
    /// When this process first published it.
    pub(crate) first_served: UnixTime,
    /// The largest `exp` signed with it here; 0 if none was.
    last_exp: Arc<AtomicI64>,
}

impl KeyMarks {
    /// The largest `exp` signed with the key here.
    pub(crate) fn last_exp(&self) -> Option<UnixTime> {
        Some(self.last_exp.load(Ordering::Relaxed)).filter(|exp| *exp > 0).map(UnixTime)
    }
}

impl Published {
    /// `before` is what was published until now, whose memory of keys goes on.
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        endpoints: &Endpoints,
        before: Option<&Self>,
        now: UnixTime,
    ) -> Self {
        let marks = snapshot.keys().iter().map(|key| {
            let known = before.and_then(|before| before.marks_of(&key.kid)).cloned();
            known.unwrap_or_else(|| KeyMarks {
                kid: key.kid.clone(),
                first_served: now,
                last_exp: Arc::default(),
            })
        });
        let marks = marks.collect();
        Self { documents: Documents::new(&snapshot, endpoints), fetches: Default::default(), marks, snapshot }
    }

    pub(crate) fn marks(&self) -> &[KeyMarks] {
        &self.marks
    }

    /// Remembers that `kid` has signed a token that expires at `exp`.
    pub(crate) fn signed(&self, kid: &KeyId, exp: UnixTime) {
        if let Some(marks) = self.marks_of(kid) {
            marks.last_exp.fetch_max(exp.as_secs(), Ordering::Relaxed);
        }
    }

    pub(crate) fn fetched(&self, by: Agent) {
        self.fetches[by as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fetches(&self, by: Agent) -> u64 {
        self.fetches[by as usize].load(Ordering::Relaxed)
    }

    fn marks_of(&self, kid: &KeyId) -> Option<&KeyMarks> {
        self.marks.iter().find(|marks| marks.kid == *kid)
    }
}

/// The one pointer, and whether somebody keeps it up to date.
#[derive(Debug)]
pub(crate) struct Live {
    published: ArcSwap<Published>,
    endpoints: Endpoints,
    tasks_running: AtomicBool,
    /// Told after each swap.
    swapped: Notify,
    reference: Reference,
}

impl Live {
    pub(crate) fn new(snapshot: Arc<Snapshot>, endpoints: Endpoints, clock: Arc<dyn Clock>) -> Self {
        let published = ArcSwap::from_pointee(Published::new(snapshot, &endpoints, None, clock.wall()));
        Self {
            published,
            endpoints,
            tasks_running: AtomicBool::new(false),
            swapped: Notify::new(),
            reference: Reference::new(clock),
        }
    }

    /// What is published now. Hold it no longer than one request.
    pub(crate) fn published(&self) -> Guard<Arc<Published>> {
        self.published.load()
    }

    /// The same, to keep across an await.
    pub(crate) fn published_full(&self) -> Arc<Published> {
        self.published.load_full()
    }

    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    pub(crate) fn swap(&self, snapshot: &Arc<Snapshot>, now: UnixTime) {
        let before = self.published.load_full();
        let next = Published::new(Arc::clone(snapshot), &self.endpoints, Some(&before), now);
        warn_of_orphans(&before, &next, now);
        self.published.store(Arc::new(next));
        self.swapped.notify_waiters();
    }

    /// Returns once another ring than `since` is published.
    pub(crate) async fn changed(&self, since: &Identity) {
        loop {
            let swapped = self.swapped.notified();
            if self.published().snapshot.identity() != since {
                return;
            }
            swapped.await;
        }
    }

    pub(crate) fn reference(&self) -> &Reference {
        &self.reference
    }

    pub(crate) fn are_tasks_running(&self) -> bool {
        self.tasks_running.load(Ordering::Acquire)
    }

    pub(crate) fn set_tasks_running(&self, running: bool) {
        self.tasks_running.store(running, Ordering::Release);
    }
}

/// A key that leaves while its tokens live takes them with it. Rotation will not do that; somebody who removes a bare
/// key by hand should know.
fn warn_of_orphans(before: &Published, next: &Published, now: UnixTime) {
    for gone in before.marks.iter().filter(|marks| next.marks_of(&marks.kid).is_none()) {
        let alive_s = gone.last_exp.load(Ordering::Relaxed).saturating_sub(now.as_secs());
        if alive_s > 0 {
            let kid = gone.kid.as_str();
            tracing::warn!(
                kid,
                alive_s,
                "a key has left the key set before the tokens that it signed here have expired"
            );
        }
    }
}
