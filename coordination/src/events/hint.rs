//! Word of the database that something was appended: a notification on a session of its own.
//!
//! A session that cannot be had, or that a pooler lends out, costs nothing but the time until the next poll.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::database::{Database, DirectSession, ListenError};

/// Listens while it is asked.
pub(super) struct Hint {
    database: Database,
    state: State,
}

/// Whatever is under way goes on the next time it is asked.
enum State {
    Opening(Pin<Box<dyn Future<Output = Result<DirectSession, ListenError>> + Send>>),
    Open(Box<DirectSession>),
    Resting(Pin<Box<Sleep>>),
}

impl Hint {
    /// Opens a session when it is asked for the first time.
    pub(super) fn new(database: Database) -> Self {
        let state = open(&database);
        Self { database, state }
    }

    /// Returns when there is word, however long that takes.
    ///
    /// Cancel safety: dropped, it loses nothing.
    pub(super) async fn came(&mut self) {
        loop {
            self.state = match &mut self.state {
                State::Opening(opening) => match opening.await {
                    Ok(session) => State::Open(Box::new(session)),
                    Err(error @ ListenError::Pooled { .. }) => {
                        tracing::warn!(%error, "the event log is polled");
                        State::Resting(Box::pin(sleep(POOLED_REST)))
                    }
                    Err(error) => {
                        tracing::debug!(%error, "no session for notifications; polling alone");
                        State::Resting(Box::pin(sleep(REST)))
                    }
                },
                State::Open(session) => match session.notification().await {
                    Some(told) if told.is_call() => continue,
                    Some(_) => return,
                    None => State::Resting(Box::pin(sleep(REST))),
                },
                State::Resting(rest) => {
                    rest.await;
                    open(&self.database)
                }
            };
        }
    }
}

fn open(database: &Database) -> State {
    let database = database.clone();
    State::Opening(Box::pin(async move { database.listen(CHANNEL).await }))
}

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hint").field("database", &self.database).finish_non_exhaustive()
    }
}

/// What `append` notifies.
const CHANNEL: &str = "oneseal_events";
/// Before it is tried again: it is only a hint.
const REST: Duration = Duration::from_secs(15);
/// Where a pooler stands in between, which changes seldom.
const POOLED_REST: Duration = Duration::from_secs(600);
