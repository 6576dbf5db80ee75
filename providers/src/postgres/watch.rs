//! Being woken when the row may have changed.
//!
//! Two ways lead to a wake. A *hint* comes by LISTEN over a session of its own, as soon as a write of oneseal commits;
//! it is believed without asking. The *poll* asks for the row's revision now and then, and sees what no hint told: a
//! row changed by hand, a hint lost with its session. An idle replica asks little: what has just been looked at, with
//! no hint since, is not asked for again.
//!
//! Where no hint can be heard, the poll is left ([`listen`](super::listen)).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use oneseal_coordination::database::Database;
use oneseal_coordination::{BootTime, Clock, SystemClock};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time;

use super::PostgresProvider;
use super::listen::Listener;
use crate::Revision;
use crate::jitter::with_jitter;

impl PostgresProvider {
    pub(super) async fn wait_for_other_than(&self, since: &Revision) {
        let mut heard = self.hints.listen();
        let interval = with_jitter(self.poll);
        loop {
            let now = *heard.borrow_and_update();
            if !self.hints.is_known(since, now) && self.look().await.is_ok_and(|revision| revision != *since)
            {
                return;
            }
            let hint = heard.wait_for(|later| *later != now);
            match time::timeout(interval, hint).await {
                // A write of this fleet's ring has been committed: whoever waits will look.
                Ok(Ok(later)) if later.hints != now.hints => return,
                // The session came or went, and hints may have been lost with it: the row is asked for.
                Ok(_) => {}
                Err(_) => self.hints.forget_look(),
            }
        }
    }
}

/// What has been heard so far. Equal ones: nothing in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Whether hints are heard.
    pub(super) is_live: bool,
    /// How often a session came or went.
    pub(super) sessions: u64,
    /// How many hints there were.
    pub(super) hints: u64,
}

/// The session that listens, and the last look at the row. The session ends with this.
#[derive(Debug)]
pub(super) struct Hints {
    database: Database,
    /// Whose ring, or everybody's.
    fleet: Option<String>,
    heard: watch::Sender<Heard>,
    looked: Mutex<Option<Look>>,
    listener: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Look {
    revision: Revision,
    /// As it was before the look.
    heard: Heard,
    at: BootTime,
}

impl Hints {
    /// Nothing is opened yet.
    pub(super) fn new(database: Database, fleet: Option<String>) -> Self {
        Self {
            database,
            fleet,
            heard: watch::Sender::default(),
            looked: Mutex::default(),
            listener: Mutex::default(),
        }
    }

    pub(super) fn heard(&self) -> Heard {
        *self.heard.borrow()
    }

    /// Notes a look at the row, begun when so much had been heard.
    pub(super) fn looked(&self, revision: &Revision, heard: Heard) {
        let look = Look { revision: revision.clone(), heard, at: SystemClock.boot() };
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
    }

    fn forget_look(&self) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the row is known to be at `revision`: it was when last looked at, and no hint came since. Without hints
    /// that is believed for a moment only, which spares whoever has just loaded a second question.
    fn is_known(&self, revision: &Revision, now: Heard) -> bool {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.as_ref().is_some_and(|look| {
            let is_young = SystemClock.boot().since(look.at) < MOMENT;
            look.revision == *revision && look.heard == now && (now.is_live || is_young)
        })
    }

    /// What is heard from now on; the first call opens the session.
    fn listen(&self) -> watch::Receiver<Heard> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if listener.is_empty() {
            let (database, fleet, heard) = (self.database.clone(), self.fleet.clone(), self.heard.clone());
            listener.spawn(async move { Listener { database, fleet, heard }.run().await });
        }
        self.heard.subscribe()
    }
}

/// How long a look counts where no hint would tell of a change.
const MOMENT: Duration = Duration::from_secs(1);
