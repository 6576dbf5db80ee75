//! Being woken when the Secret may have changed.
//!
//! Two ways lead to a wake. A *hint* comes by a watch, as soon as something is written; it is believed without asking. The
//! *poll* reads the Secret now and then, and sees what no hint told: a watch that went silent, or is not allowed, or
//! belongs to another life of the store. An idle replica asks little: what has just been read, with no hint since, is not
//! read again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oneseal_coordination::{BootTime, Clock, SystemClock};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time;

use super::KubernetesProvider;
use super::events::Watcher;
use super::place::Place;
use super::secret::Secret;
use crate::Revision;
use crate::jitter::with_jitter;

impl KubernetesProvider {
    pub(super) async fn wait_for_other_than(&self, since: &Revision) {
        let mut heard = self.hints.listen();
        let interval = with_jitter(self.place.options.poll);
        loop {
            let now = *heard.borrow_and_update();
            if !self.hints.is_known(since, now) && self.look().await.is_ok_and(|revision| revision != *since)
            {
                return;
            }
            let hint = heard.wait_for(|later| *later != now);
            match time::timeout(interval, hint).await {
                // Something was written: whoever waits will look.
                Ok(Ok(later)) if later.hints != now.hints => return,
                // A watch began, with what is there then, or ended. What comes next is told by it, or by the poll.
                Ok(_) => {}
                Err(_) => self.hints.looked.forget(),
            }
        }
    }
}

/// What has been heard so far. Equal ones: nothing in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Whether hints are heard.
    pub(super) is_live: bool,
    /// How often a watch began or ended.
    pub(super) watches: u64,
    /// How many hints there were.
    pub(super) hints: u64,
}

/// The task that watches, and the last look at the Secret. The task ends with this.
pub(super) struct Hints {
    place: Arc<Place>,
    heard: watch::Sender<Heard>,
    pub(super) looked: Arc<Looked>,
    watcher: Mutex<JoinSet<()>>,
}

/// The last look at the Secret.
#[derive(Default)]
pub(super) struct Looked {
    last: Mutex<Option<Look>>,
    is_read_only: AtomicBool,
    is_applied: AtomicBool,
}

struct Look {
    revision: Revision,
    resource_version: String,
    /// As it was before the look.
    heard: Heard,
    at: BootTime,
}

impl Hints {
    /// Nobody is asked yet.
    pub(super) fn new(place: Arc<Place>) -> Self {
        Self { place, heard: watch::Sender::default(), looked: Arc::default(), watcher: Mutex::default() }
    }

    pub(super) fn heard(&self) -> Heard {
        *self.heard.borrow()
    }

    /// Notes a look at the Secret, begun when so much had been heard.
    pub(super) fn looked(&self, secret: &Secret, heard: Heard) {
        let look = Look {
            revision: secret.revision(),
            resource_version: secret.resource_version().to_owned(),
            heard,
            at: SystemClock.boot(),
        };
        *self.looked.last() = Some(look);
        let is_read_only = secret.is_immutable() || secret.is_certificate();
        self.looked.is_read_only.store(is_read_only, Ordering::Relaxed);
        self.looked.is_applied.store(secret.is_applied(), Ordering::Relaxed);
    }

    /// Notes that there is no Secret: what could not be written is no more.
    pub(super) fn is_gone(&self) {
        self.looked.is_read_only.store(false, Ordering::Relaxed);
    }

    /// Whether the Secret is one that is not written, as far as it was seen.
    pub(super) fn is_read_only(&self) -> bool {
        self.looked.is_read_only.load(Ordering::Relaxed)
    }

    /// Whether `kubectl apply` has left a copy of values in the Secret, as far as it was seen.
    pub(super) fn is_applied(&self) -> bool {
        self.looked.is_applied.load(Ordering::Relaxed)
    }

    /// Whether the Secret is known to be at `revision`: it was when last looked at, and no hint came since. Without hints
    /// that is believed for a moment only, which spares whoever has just loaded a second question.
    fn is_known(&self, revision: &Revision, now: Heard) -> bool {
        self.looked.last().as_ref().is_some_and(|look| {
            let is_young = SystemClock.boot().since(look.at) < MOMENT;
            look.revision == *revision && look.heard == now && (now.is_live || is_young)
        })
    }

    /// What is heard from now on; the first call begins the watch.
    fn listen(&self) -> watch::Receiver<Heard> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if watcher.is_empty() {
            let (place, heard) = (Arc::clone(&self.place), self.heard.clone());
            let looked = Arc::clone(&self.looked);
            watcher.spawn(async move { Watcher { place, heard, looked }.run().await });
        }
        self.heard.subscribe()
    }
}

impl Looked {
    /// Whether that is what was seen last.
    pub(super) fn is_at(&self, resource_version: &str) -> bool {
        self.last().as_ref().is_some_and(|look| look.resource_version == resource_version)
    }

    fn forget(&self) {
        *self.last() = None;
    }

    fn last(&self) -> MutexGuard<'_, Option<Look>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a look counts where no hint would tell of a change.
const MOMENT: Duration = Duration::from_secs(1);
