//! One stream: what becomes of a subscription on its way to a client.
//!
//! It is pulled: the connection asks for the next frame when there is room for it, and so a client that does not read
//! keeps no more than its connection's buffer. That it does not read shows in that nothing is asked for; its connection
//! then counts as one that nobody uses and is closed like any other. It comes back with the id of the last event.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use oneseal_coordination::events::{Delivery, Subscription};
use tokio_util::sync::CancellationToken;

use super::frame;
use crate::http::activity::InUse;

/// A stream before its first byte.
#[derive(Debug)]
pub(super) struct Stream<K> {
    subscription: Subscription,
    ending: CancellationToken,
    in_use: Option<InUse>,
    times: Times,
    state: State,
    /// Held for as long as it lives.
    _kept: K,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begins,
    Runs,
    Over,
}

/// When what comes, counted from the beginning of the stream or its last frame.
struct Times {
    life: std::pin::Pin<Box<tokio::time::Sleep>>,
    retry: Duration,
}

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Times").field("retry", &self.retry).finish_non_exhaustive()
    }
}

impl<K: Send + 'static> Stream<K> {
    /// Of what `subscription` gives, until `ending`; keeps `kept` for as long.
    pub(super) fn new(
        subscription: Subscription,
        ending: CancellationToken,
        in_use: Option<InUse>,
        kept: K,
    ) -> Self {
        let life = Box::pin(tokio::time::sleep(spread(LIFE)));
        let times = Times { life, retry: spread(RETRY) };
        Self { subscription, ending, in_use, times, state: State::Begins, _kept: kept }
    }

    /// Its bytes, a frame at a time.
    pub(super) fn into_frames(
        self,
    ) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        stream::unfold(self, async |mut stream| {
            let frame = stream.next().await?;
            Some((Ok(frame), stream))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(in_use) = &self.in_use {
            in_use.touch();
        }
        match self.state {
            State::Over => return None,
            State::Begins => {
                self.state = State::Runs;
                return Some(frame::hello(self.times.retry));
            }
            State::Runs => {}
        }
        let frame = tokio::select! {
            biased;
            // The replica's end comes first, however much there is to say: the client goes on elsewhere.
            () = self.ending.cancelled() => self.end("this replica is ending", spread(SOON)),
            () = &mut self.times.life => self.end("streams end after a while", spread(SOON)),
            // Dropped by the others, it loses nothing.
            delivery = self.subscription.next() => self.told(delivery),
            () = tokio::time::sleep(ALIVE) => frame::alive(),
        };
        if let Some(in_use) = &self.in_use {
            in_use.touch();
        }
        Some(frame)
    }

    fn told(&mut self, delivery: Option<Delivery>) -> Bytes {
        match delivery {
            Some(Delivery::Stands(position)) => frame::stands(position),
            Some(Delivery::Event(event)) => frame::event(&event),
            Some(Delivery::Reset(reset)) => frame::reset(&reset),
            Some(Delivery::Broken(broken)) => {
                self.state = State::Over;
                frame::broken(&broken, spread(REPAIRED))
            }
            _ => self.end("this replica no longer follows the log", spread(SOON)),
        }
    }

    fn end(&mut self, why: &'static str, retry: Duration) -> Bytes {
        self.state = State::Over;
        frame::end(why, retry)
    }
}

/// Up to a fifth more or less, so that those who were cut off together do not come back together.
fn spread(span: Duration) -> Duration {
    let mut byte = [0];
    // Without randomness nothing is spread, which is all that would be lost.
    aws_lc_rs::rand::fill(&mut byte).unwrap_or_default();
    span * 4 / 5 + span * 2 / 5 * u32::from(byte[0]) / 255
}

/// As long as load balancers keep what is silent, and far below.
const ALIVE: Duration = Duration::from_secs(15);
const LIFE: Duration = Duration::from_secs(15 * 60);
/// After a connection has broken.
const RETRY: Duration = Duration::from_secs(3);
/// After an end in order: other replicas are there.
const SOON: Duration = Duration::from_secs(1);
/// Nobody repairs a broken log in a second.
const REPAIRED: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_by_a_fifth() {
        let spans: Vec<_> = (0..200).map(|_| spread(LIFE)).collect();
        assert!(spans.iter().all(|span| *span >= LIFE * 4 / 5 && *span <= LIFE * 6 / 5));
        assert!(spans.iter().min() < spans.iter().max());
    }
}
