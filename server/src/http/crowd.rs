//! How many connections a listener has at a time, and which of them goes when one more comes.
//!
//! If newcomers waited until a connection ends, whoever opened that many and did nothing with them would shut everybody
//! out for as long as an idle connection is kept. So a newcomer is let in, and what has gone unused for longest is
//! closed: connections that never became one, half a request, an answer that nobody reads, and then idle ones. Who uses
//! a connection again before that many others have come keeps it.
//!
//! Unused is counted in connections that have been accepted since: that is the order which matters, and it takes no
//! clock on the path of a request. A limit for each address would do less: behind a proxy or a Service everybody has
//! the same, and who attacks has many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oneseal::{BootTime, Clock, SystemClock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::activity::Activity;
use crate::metrics::{Listener, ServerMetrics};

/// The connections of one listener.
#[derive(Debug)]
pub(crate) struct Crowd {
    listener: Listener,
    capacity: usize,
    seats: Arc<Semaphore>,
    members: Arc<Members>,
    /// Counts the accepted ones.
    accepted: Arc<AtomicU64>,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Members(Mutex<HashMap<u64, Arc<Activity>>>);

/// What the log knows.
#[derive(Debug, Default)]
struct Told {
    at: Option<BootTime>,
    since: usize,
}

/// One connection's place, for as long as it is kept.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) activity: Arc<Activity>,
    number: u64,
    members: Arc<Members>,
    /// Given back after everything else of the connection is gone.
    _seat: OwnedSemaphorePermit,
}

impl Crowd {
    /// Nobody yet, and at most `capacity` at a time.
    pub(crate) fn new(listener: Listener, capacity: usize) -> Self {
        Self {
            listener,
            capacity,
            seats: Arc::new(Semaphore::new(capacity)),
            members: Arc::default(),
            accepted: Arc::default(),
            told: Mutex::default(),
        }
    }

    /// A place for a connection that has been accepted; where there is none, after another one has gone. It waits for
    /// as long as every connection has a request that is being answered.
    pub(crate) async fn admit(&self, metrics: &ServerMetrics) -> Member {
        let seat = match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => seat,
            Err(_) => self.seat_of_another(metrics).await,
        };
        let number = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let activity = Activity::new(Arc::clone(&self.accepted), number);
        self.members.lock().insert(number, Arc::clone(&activity));
        Member { activity, number, members: Arc::clone(&self.members), _seat: seat }
    }

    async fn seat_of_another(&self, metrics: &ServerMetrics) -> OwnedSemaphorePermit {
        loop {
            self.make_room(metrics);
            // Again if that was of no use: what had a request under way may be idle now.
            match timeout(AGAIN, Arc::clone(&self.seats).acquire_owned()).await {
                Ok(Ok(seat)) => return seat,
                Ok(Err(_)) => unreachable!("the semaphore is never closed"),
                Err(_) => {}
            }
        }
    }

    /// Asks a few to leave that have gone unused for longest: more than one, since those that come in numbers should
    /// not each have all of them looked at.
    fn make_room(&self, metrics: &ServerMetrics) {
        let wanted = (self.capacity / SHARE).max(1);
        let members = self.members.lock();
        let (leaving, mut unused): (Vec<_>, Vec<_>) = members
            .values()
            .filter(|activity| activity.is_displaced() || !activity.is_busy())
            .partition(|activity| activity.is_displaced());
        let more = wanted.saturating_sub(leaving.len()).min(unused.len());
        if more == 0 {
            return;
        }
        unused.select_nth_unstable_by_key(more - 1, |activity| activity.last_used());
        for activity in &unused[..more] {
            activity.displace();
            metrics.count_displaced(self.listener);
        }
        drop(members);
        self.tell(more);
    }

    fn tell(&self, displaced: usize) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.boot();
        told.since += displaced;
        if told.at.is_none_or(|at| now.since(at) >= TELL_EVERY) {
            let (listener, capacity, closed) = (self.listener.as_str(), self.capacity, told.since);
            tracing::warn!(
                listener,
                capacity,
                closed,
                "all connections are in use; those that have gone unused for longest are closed"
            );
            *told = Told { at: Some(now), since: 0 };
        }
    }
}

impl Members {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Activity>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.members.lock().remove(&self.number);
    }
}

/// A sixteenth of all makes room at a time.
const SHARE: usize = 16;
/// Between two attempts to make room.
const AGAIN: Duration = Duration::from_millis(100);
/// A flood must not flood the log too.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use http::Version;

    use super::*;

    fn displaced(members: &[Member]) -> Vec<u64> {
        members.iter().filter(|member| member.activity.is_displaced()).map(|member| member.number).collect()
    }

    async fn full(crowd: &Crowd, metrics: &ServerMetrics) -> Vec<Member> {
        let mut members = Vec::new();
        for _ in 0..crowd.capacity {
            members.push(crowd.admit(metrics).await);
        }
        members
    }

    /// Asks for one more, lets those leave that are asked to, and gives their numbers.
    async fn one_more(crowd: &Crowd, metrics: &ServerMetrics, members: &mut Vec<Member>) -> Vec<u64> {
        let mut gone = Vec::new();
        let (newcomer, ()) = tokio::join!(biased; crowd.admit(metrics), async {
            gone = displaced(members);
            members.retain(|member| !member.activity.is_displaced());
        });
        members.push(newcomer);
        gone
    }

    #[tokio::test]
    async fn those_unused_for_longest_make_room() {
        let metrics = ServerMetrics::new();
        let crowd = Crowd::new(Listener::Documents, 64);
        let mut members = full(&crowd, &metrics).await;
        // The four oldest, but for two that have been used.
        drop(members[0].activity.begin(Version::HTTP_11));
        drop(members[2].activity.begin(Version::HTTP_2));
        assert_eq!(one_more(&crowd, &metrics, &mut members).await, [2, 4, 5, 6]);
        for _ in 0..3 {
            assert_eq!(one_more(&crowd, &metrics, &mut members).await, [0_u64; 0], "there is room");
        }
        assert_eq!(one_more(&crowd, &metrics, &mut members).await, [7, 8, 9, 10]);
    }

    #[tokio::test]
    async fn a_request_under_way_is_not_cut_off() {
        let metrics = ServerMetrics::new();
        let crowd = Crowd::new(Listener::Admin, 4);
        let mut members = full(&crowd, &metrics).await;
        let open: Vec<_> =
            members[..3].iter().map(|member| member.activity.begin(Version::HTTP_11)).collect();
        assert_eq!(one_more(&crowd, &metrics, &mut members).await, [4]);
        drop(open);
        assert_eq!(one_more(&crowd, &metrics, &mut members).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_busy_the_newcomer_waits_for_the_first_to_be_done() {
        let metrics = ServerMetrics::new();
        let crowd = Crowd::new(Listener::Admin, 2);
        let mut members = full(&crowd, &metrics).await;
        let mut open: Vec<_> = members.iter().map(|member| member.activity.begin(Version::HTTP_11)).collect();
        let mut admitted = std::pin::pin!(crowd.admit(&metrics));
        assert!(timeout(Duration::from_secs(600), admitted.as_mut()).await.is_err());
        assert_eq!(displaced(&members), [0_u64; 0]);
        // Done, and kept alive: asked to leave at the next attempt.
        drop(open.pop());
        assert!(timeout(2 * AGAIN, admitted.as_mut()).await.is_err());
        assert_eq!(displaced(&members), [2]);
        members.pop();
        assert_eq!(admitted.await.number, 3);
    }

    #[tokio::test]
    async fn a_flood_is_counted_and_told_once() {
        let metrics = ServerMetrics::new();
        let crowd = Crowd::new(Listener::Documents, 1);
        let mut members = full(&crowd, &metrics).await;
        for _ in 0..10 {
            one_more(&crowd, &metrics, &mut members).await;
        }
        let mut text = String::new();
        metrics.write_last(&mut text);
        assert!(
            text.contains("oneseal_http_connections_displaced_total{listener=\"documents\"} 10"),
            "{text}"
        );
        // One line at the first, and nine that the next line will count.
        assert_eq!(crowd.told.lock().expect("not poisoned").since, 9);
    }
}
