//! The session that hears hints.
//!
//! A pooler in transaction mode lends sessions out, and then none is believed: see [`Database::listen`].

use std::time::Duration;

use oneseal_coordination::database::{Database, DirectSession, ListenError};
use tokio::sync::watch;
use tokio::time;

use super::statements::CHANNEL;
use super::watch::Heard;
use crate::jitter::with_jitter;

/// The task that listens.
pub(super) struct Listener {
    pub(super) database: Database,
    pub(super) fleet: Option<String>,
    pub(super) heard: watch::Sender<Heard>,
}

impl Listener {
    /// One session after the other; when there is none, the poll is left.
    pub(super) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.database.listen(CHANNEL).await {
                Ok(mut session) => {
                    pause = FIRST_PAUSE;
                    self.turn(true);
                    self.hear(&mut session).await;
                    self.turn(false);
                }
                Err(error @ ListenError::Pooled { .. }) => {
                    tracing::warn!(%error, "the ring's row is polled");
                    pause = POOLED_PAUSE;
                }
                Err(error) => {
                    tracing::debug!(%error, "no session for hints of changes; the ring's row is polled");
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            time::sleep(with_jitter(pause)).await;
        }
    }

    /// Counts hints until the session ends.
    async fn hear(&self, session: &mut DirectSession) {
        while let Some(told) = session.notification().await {
            if told.channel == CHANNEL && !told.is_call() && self.is_ours(&told.payload) {
                self.heard.send_modify(|heard| heard.hints += 1);
            }
        }
    }

    fn is_ours(&self, payload: &str) -> bool {
        self.fleet.as_ref().is_none_or(|fleet| fleet == payload)
    }

    fn turn(&self, is_live: bool) {
        self.heard.send_modify(|heard| *heard = Heard { is_live, sessions: heard.sessions + 1, ..*heard });
    }
}

/// Before the next session is tried: at first, at most, and where a pooler stands in between, which changes seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const POOLED_PAUSE: Duration = Duration::from_secs(600);
