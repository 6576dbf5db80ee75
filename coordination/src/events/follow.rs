//! Following the log: one poll for the whole process, and everybody who listens is told by it.
//!
//! The poll is the truth. A notification may get lost with its session, with a proxy in between or with the server that
//! was to send it; it only ends a pause early, and so does a nudge from a writer in this process. Who is told too much to
//! keep up, or comes in the middle, reads from the database what it lacks: since numbers have no gaps, everybody knows by
//! itself what that is. While nobody listens nothing is asked at all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::chain::Broken;
use super::cursor::Position;
use super::hint::Hint;
use super::line::Event;
use super::page::{From, Reset};
use super::read::{LogError, Read, Reader};
use crate::database::Database;

/// Follows the log of one database. Clones are the same follower; one of them must [`run`](Self::run).
#[derive(Clone, Debug)]
pub struct Follower {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    database: Database,
    told: broadcast::Sender<Told>,
    arrived: Notify,
    nudged: Notify,
}

/// What the poll tells.
#[derive(Clone, Debug)]
enum Told {
    /// The next event.
    Event(Arc<Event>),
    /// Where the log ends: who stands elsewhere has something to read.
    End(Position),
    /// Something is wrong with the log: everybody look for themselves.
    Look,
}

impl Follower {
    /// Nobody listens yet, and nothing is asked.
    pub fn new(database: Database) -> Self {
        let (told, _) = broadcast::channel(TOLD_AT_ONCE);
        Self { shared: Arc::new(Shared { database, told, arrived: Notify::new(), nudged: Notify::new() }) }
    }

    /// Something was appended by this process: look now.
    pub fn nudge(&self) {
        self.shared.nudged.notify_one();
    }

    /// What comes after `from`, for as long as somebody wants it.
    pub fn subscribe(&self, from: From) -> Subscription {
        let told = self.shared.told.subscribe();
        self.shared.arrived.notify_one();
        Subscription {
            database: self.shared.database.clone(),
            told,
            reader: Reader::new(from),
            ready: VecDeque::new(),
            state: State::MustRead,
            pause: Pause::default(),
        }
    }

    /// Polls while somebody listens, until `stop`.
    ///
    /// # Cancel safety
    /// Dropped, nobody is told anything any more; running it again goes on.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.poll() => {}
        }
    }

    async fn poll(&self) {
        loop {
            self.somebody_listens().await;
            self.poll_while_somebody_listens().await;
        }
    }

    fn is_listened_to(&self) -> bool {
        self.shared.told.receiver_count() > 0
    }

    async fn somebody_listens(&self) {
        while !self.is_listened_to() {
            self.shared.arrived.notified().await;
        }
    }

    async fn poll_while_somebody_listens(&self) {
        let Shared { database, told, nudged, .. } = &*self.shared;
        // Nobody hears it where nobody listens any more.
        let tell = |what| drop(told.send(what));
        let (mut reader, mut hint) = (Reader::new(From::Now), Hint::new(database.clone()));
        let (mut pace, mut pause) = (Pace::default(), Pause::default());
        while self.is_listened_to() {
            let wait = match reader.read(database).await {
                Ok(Read::Events(events)) => {
                    pause.is_over("the event log is followed again");
                    pace.polled(!events.is_empty());
                    events.into_iter().for_each(|event| tell(Told::Event(Arc::new(event))));
                    if !reader.is_at_end() {
                        continue;
                    }
                    reader.position().into_iter().for_each(|end| tell(Told::End(end)));
                    pace.wait()
                }
                Ok(Read::Reset(reset)) => {
                    tracing::warn!(reason = reset.reason.as_str(), head = %reset.head.cursor(), "the event log is another one than before");
                    tell(Told::Look);
                    reader = Reader::new(From::Now);
                    continue;
                }
                Err(error) => {
                    tell(Told::Look);
                    pause.longer(&error)
                }
            };
            tokio::select! {
                // Each only says that it may be worth looking.
                () = sleep(wait) => {}
                () = nudged.notified() => {}
                () = hint.came() => {}
            }
        }
    }
}

/// What somebody who listens is told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Where it stands, before anything else.
    Stands(Position),
    /// The next event: its number is one more than that of the last.
    Event(Arc<Event>),
    /// The place is of no use; what follows are all events that are kept.
    Reset(Reset),
    /// The log is broken there. Nothing follows.
    Broken(Broken),
}

/// Somebody who listens.
#[derive(Debug)]
#[must_use = "events come to who asks for the next one"]
pub struct Subscription {
    database: Database,
    told: broadcast::Receiver<Told>,
    reader: Reader,
    ready: VecDeque<Event>,
    state: State,
    pause: Pause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    MustRead,
    Listens,
    Over,
}

impl Subscription {
    /// What comes next, however long that takes: while the database does not answer it waits. `None` once the follower is
    /// gone or the log was found broken.
    ///
    /// # Cancel safety
    /// Dropped, nothing is lost: what was read and not delivered comes next time.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Delivery::Event(Arc::new(event)));
            }
            match self.state {
                State::Over => return None,
                State::MustRead => {
                    if let Some(delivery) = self.read().await {
                        return Some(delivery);
                    }
                }
                State::Listens => match self.told.recv().await {
                    Ok(told) => {
                        if let Some(event) = self.judge(told) {
                            return Some(Delivery::Event(event));
                        }
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => self.state = State::MustRead,
                    Err(broadcast::error::RecvError::Closed) => self.state = State::Over,
                },
            }
        }
    }

    async fn read(&mut self) -> Option<Delivery> {
        let is_first = self.reader.position().is_none();
        match self.reader.read(&self.database).await {
            Ok(Read::Events(events)) => {
                self.pause = Pause::default();
                self.state = if self.reader.is_at_end() { State::Listens } else { State::MustRead };
                let stands = events.first().map_or(self.reader.position(), |first| {
                    Some(Position { seq: first.seq - 1, hash: first.prev_hash })
                });
                self.ready = events.into();
                stands.filter(|_| is_first).map(Delivery::Stands)
            }
            Ok(Read::Reset(reset)) => Some(Delivery::Reset(reset)),
            Err(LogError::Broken(broken)) => {
                self.state = State::Over;
                Some(Delivery::Broken(broken))
            }
            Err(error) => {
                // Told by the poll, which has the same trouble.
                tracing::debug!(%error, "a follower of the event log waits for the database");
                sleep(self.pause.next()).await;
                None
            }
        }
    }

    /// The event that is told, if it is the next one. What does not fit to where it stands makes it read.
    fn judge(&mut self, told: Told) -> Option<Arc<Event>> {
        let Some(stands) = self.reader.position() else {
            self.state = State::MustRead;
            return None;
        };
        match told {
            Told::Event(event) if event.seq == stands.seq + 1 && event.prev_hash == stands.hash => {
                self.reader.advance(&event);
                return Some(event);
            }
            // Read before it was told.
            Told::Event(event) if event.seq < stands.seq => {}
            Told::Event(event) if event.seq == stands.seq && event.hash == stands.hash => {}
            Told::End(end) if end == stands || end.seq < stands.seq => {}
            Told::Event(_) | Told::End(_) | Told::Look => self.state = State::MustRead,
        }
        None
    }
}

/// How long to wait between two polls.
#[derive(Debug, Default)]
struct Pace {
    /// Polls that are still to follow closely.
    close: u32,
}

impl Pace {
    fn polled(&mut self, has_found: bool) {
        self.close = if has_found { CLOSE_POLLS } else { self.close.saturating_sub(1) };
    }

    fn wait(&self) -> Duration {
        jittered(if self.close > 0 { CLOSE } else { QUIET })
    }
}

/// Waits longer from one failure to the next.
#[derive(Debug, Default)]
struct Pause {
    failures: u32,
}

impl Pause {
    fn next(&mut self) -> Duration {
        let wait = FIRST_PAUSE.saturating_mul(1 << self.failures.min(5)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        jittered(wait)
    }

    /// Told once, not at every attempt.
    fn longer(&mut self, error: &LogError) -> Duration {
        if self.failures == 0 {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::warn!(%error, cause, "the event log cannot be followed; those who listen wait");
        }
        self.next()
    }

    fn is_over(&mut self, words: &'static str) {
        if self.failures > 0 {
            tracing::info!("{words}");
        }
        self.failures = 0;
    }
}

/// Up to a tenth earlier, so that replicas started together do not ask together.
fn jittered(span: Duration) -> Duration {
    let mut byte = [0];
    // Without randomness there is no jitter, which is all that would be lost.
    aws_lc_rs::rand::fill(&mut byte).unwrap_or_default();
    span - span * u32::from(byte[0]) / 2550
}

/// What a listener may be behind before it reads from the database instead.
const TOLD_AT_ONCE: usize = 1024;
/// Between two polls while something happens, since more often follows: a rotation is several events.
const CLOSE: Duration = Duration::from_millis(250);
/// Ten seconds of them.
const CLOSE_POLLS: u32 = 40;
/// Between two polls otherwise.
const QUIET: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_follow_closely_after_something_happened_and_calm_down() {
        let mut pace = Pace::default();
        assert!(pace.wait() > CLOSE);
        pace.polled(true);
        for _ in 0..CLOSE_POLLS {
            assert!(pace.wait() <= CLOSE && pace.wait() >= CLOSE * 9 / 10);
            pace.polled(false);
        }
        assert!(pace.wait() >= QUIET * 9 / 10 && pace.wait() <= QUIET);
    }

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew() {
        let mut pause = Pause::default();
        let waits: Vec<_> = (0..10).map(|_| pause.next()).collect();
        assert!(waits[0] <= FIRST_PAUSE && waits.iter().all(|wait| *wait <= LONGEST_PAUSE));
        assert!(waits[9] > LONGEST_PAUSE / 2);
        pause.is_over("over");
        assert!(pause.next() <= FIRST_PAUSE);
    }
}
