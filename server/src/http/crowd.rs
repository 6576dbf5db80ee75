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
//!
//! Where callers must show who they are, those who have are the last to go, for one of their own kind alone: nobody is
//! shut out by connections of strangers. A connection whose task has not run yet is left alone, since the kernel may hold
//! a whole request of it.
//!
//! Of the places one in thirty-two, and 32 at least, may be taken by HTTP/2: one such connection, with its windows, tables
//! and a hundred answers that nobody reads, costs as much memory as a dozen others, and who speaks it needs few.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oneseal::{BootTime, Clock, SystemClock};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::activity::Activity;
use crate::metrics::Listener;

/// The connections of one listener.
#[derive(Debug)]
pub(crate) struct Crowd {
    listener: Listener,
    capacity: usize,
    seats: Arc<Semaphore>,
    members: Mutex<HashMap<u64, Arc<Activity>>>,
    /// Counts the accepted ones.
    accepted: Arc<AtomicU64>,
    displaced: Counter,
    told: Mutex<Told>,
}

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
    crowd: Arc<Crowd>,
    /// Given back after everything else of the connection is gone.
    _seat: OwnedSemaphorePermit,
}

impl Crowd {
    /// Nobody yet, and at most `capacity` at a time; `displaced` counts those that have to go.
    pub(crate) fn new(listener: Listener, capacity: usize, displaced: Counter) -> Self {
        Self {
            listener,
            capacity,
            seats: Arc::new(Semaphore::new(capacity)),
            members: Mutex::default(),
            accepted: Arc::default(),
            displaced,
            told: Mutex::default(),
        }
    }

    /// A place for a connection that has been accepted; where there is none, after another one has gone. It waits for
    /// as long as every connection has a request that is being answered.
    pub(crate) async fn admit(self: &Arc<Self>) -> Member {
        let seat = match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => seat,
            Err(_) => self.seat_of_another().await,
        };
        let number = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let activity = Activity::new(Arc::clone(&self.accepted), number);
        self.members().insert(number, Arc::clone(&activity));
        Member { activity, number, crowd: Arc::clone(self), _seat: seat }
    }

    async fn seat_of_another(&self) -> OwnedSemaphorePermit {
        loop {
            // More than one: those that come in numbers should not each have all of them looked at.
            self.make_room(self.capacity, (self.capacity / SHARE).max(1), |_| true);
            // Again if that was of no use: what had a request under way may be idle now.
            match timeout(AGAIN, Arc::clone(&self.seats).acquire_owned()).await {
                Ok(Ok(seat)) => return seat,
                Ok(Err(_)) => unreachable!("the semaphore is never closed"),
                Err(_) => {}
            }
        }
    }

    /// Asks so many of `those` to leave, of which there may be `most`, that `wanted` are leaving: the ones that have
    /// gone unused for longest. Of the trusted one goes, and only where there are no others.
    fn make_room(&self, most: usize, wanted: usize, those: impl Fn(&Activity) -> bool) {
        let members = self.members();
        let (leaving, mut unused): (Vec<_>, Vec<_>) = members
            .values()
            .filter(|activity| those(activity) && (activity.is_displaced() || !activity.is_busy()))
            .filter(|activity| activity.has_begun())
            .partition(|activity| activity.is_displaced());
        let strangers = unused.iter().filter(|activity| !activity.is_trusted()).count();
        // One that has only come can go in a moment.
        let is_stranger =
            |activity: &&Arc<Activity>| those(activity) && !activity.is_trusted() && !activity.is_busy();
        let is_awaited = || members.values().any(|activity| is_stranger(&activity));
        let wanted = match strangers {
            0 if is_awaited() => 0,
            0 => wanted.min(1),
            _ => wanted,
        };
        let available = if strangers > 0 { strangers } else { unused.len() };
        let more = wanted.saturating_sub(leaving.len()).min(available);
        if more == 0 {
            return;
        }
        unused.select_nth_unstable_by_key(more - 1, |activity| (activity.is_trusted(), activity.last_used()));
        for activity in &unused[..more] {
            activity.displace();
            self.displaced.inc();
        }
        drop(members);
        self.tell(most, more);
    }

    fn members(&self) -> MutexGuard<'_, HashMap<u64, Arc<Activity>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, capacity: usize, displaced: usize) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.boot();
        told.since += displaced;
        if told.at.is_none_or(|at| now.since(at) >= TELL_EVERY) {
            let (listener, closed) = (self.listener.as_str(), told.since);
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

impl Member {
    /// It speaks HTTP/2, as only some may.
    pub(crate) fn limit_multiplexed(&self) {
        let most = (self.crowd.capacity / MULTIPLEXED).max(FEWEST_MULTIPLEXED);
        let open = self.crowd.members().values().filter(|activity| activity.is_multiplexed()).count();
        if open > most {
            // Not the one that has just come: it has had no time to say who it is.
            let is_another = |activity: &Activity| {
                activity.is_multiplexed() && !std::ptr::eq(activity, &raw const *self.activity)
            };
            self.crowd.make_room(most, open - most + most / SHARE, is_another);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.crowd.members().remove(&self.number);
    }
}

/// A sixteenth of all makes room at a time.
const SHARE: usize = 16;
/// One in so many may speak HTTP/2.
const MULTIPLEXED: usize = 32;
/// And never fewer than these: operators' tools speak it too.
const FEWEST_MULTIPLEXED: usize = 32;
/// Between two attempts to make room.
const AGAIN: Duration = Duration::from_millis(100);
/// A flood must not flood the log too.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd_of(listener: Listener, capacity: usize) -> Arc<Crowd> {
        Arc::new(Crowd::new(listener, capacity, Counter::default()))
    }

    fn displaced(members: &[Member]) -> Vec<u64> {
        members.iter().filter(|member| member.activity.is_displaced()).map(|member| member.number).collect()
    }

    async fn full(crowd: &Arc<Crowd>) -> Vec<Member> {
        let mut members = Vec::new();
        for _ in 0..crowd.capacity {
            members.push(begun(crowd).await);
        }
        members
    }

    async fn begun(crowd: &Arc<Crowd>) -> Member {
        let member = crowd.admit().await;
        member.activity.start();
        member
    }

    /// Asks for one more, lets those leave that are asked to, and gives their numbers.
    async fn one_more(crowd: &Arc<Crowd>, members: &mut Vec<Member>) -> Vec<u64> {
        let mut gone = Vec::new();
        let (newcomer, ()) = tokio::join!(biased; begun(crowd), async {
            gone = displaced(members);
            members.retain(|member| !member.activity.is_displaced());
        });
        members.push(newcomer);
        gone
    }

    #[tokio::test]
    async fn those_unused_for_longest_make_room() {
        let crowd = crowd_of(Listener::Documents, 64);
        let mut members = full(&crowd).await;
        // The four oldest, but for two that have been used.
        drop(members[0].activity.begin());
        drop(members[2].activity.begin());
        assert_eq!(one_more(&crowd, &mut members).await, [2, 4, 5, 6]);
        for _ in 0..3 {
            assert_eq!(one_more(&crowd, &mut members).await, [0_u64; 0], "there is room");
        }
        assert_eq!(one_more(&crowd, &mut members).await, [7, 8, 9, 10]);
    }

    #[tokio::test]
    async fn a_request_under_way_is_not_cut_off() {
        let crowd = crowd_of(Listener::Admin, 4);
        let mut members = full(&crowd).await;
        let open: Vec<_> = members[..3].iter().map(|member| member.activity.begin()).collect();
        assert_eq!(one_more(&crowd, &mut members).await, [4]);
        drop(open);
        assert_eq!(one_more(&crowd, &mut members).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_busy_the_newcomer_waits_for_the_first_to_be_done() {
        let crowd = crowd_of(Listener::Admin, 2);
        let mut members = full(&crowd).await;
        let mut open: Vec<_> = members.iter().map(|member| member.activity.begin()).collect();
        let mut admitted = std::pin::pin!(crowd.admit());
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
        let crowd = crowd_of(Listener::Documents, 1);
        let mut members = full(&crowd).await;
        for _ in 0..10 {
            one_more(&crowd, &mut members).await;
        }
        assert_eq!(crowd.displaced.get(), 10);
        // One line at the first, and nine that the next line will count.
        assert_eq!(crowd.told.lock().expect("not poisoned").since, 9);
    }

    #[tokio::test]
    async fn of_http_2_connections_there_are_fewer_and_they_displace_each_other() {
        for (capacity, most) in [(64 * MULTIPLEXED, 64), (128, FEWEST_MULTIPLEXED)] {
            let crowd = crowd_of(Listener::Documents, capacity);
            let members = full(&crowd).await;
            let speak = async |at: usize| {
                members[at].activity.multiplex();
                members[at].limit_multiplexed();
                members[at].activity.multiplexed().await;
                displaced(&members)
            };
            for at in 1..=most {
                assert_eq!(speak(at).await, [0_u64; 0], "{at} of {most}");
            }
            // The oldest of all, which has just come to speak it, stays.
            let gone = speak(0).await;
            assert_eq!(gone, (2..2 + 1 + most as u64 / SHARE as u64).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn strangers_displace_each_other_and_none_who_is_trusted() {
        let crowd = crowd_of(Listener::AdminTcp, 64);
        let mut members = full(&crowd).await;
        for member in &members[..62] {
            member.activity.begin().judged(true);
        }
        assert_eq!(one_more(&crowd, &mut members).await, [63, 64]);
        for _ in 0..100 {
            one_more(&crowd, &mut members).await;
            assert!((0..62).all(|at| members[at].activity.is_trusted()), "a trusted one has gone");
        }
    }

    #[tokio::test]
    async fn where_all_are_trusted_the_one_unused_for_longest_goes() {
        let crowd = crowd_of(Listener::AdminTcp, 64);
        let mut members = full(&crowd).await;
        members.iter().for_each(|member| member.activity.begin().judged(true));
        // All were used when the same number had come; then the others again, after one more.
        crowd.accepted.fetch_add(1, Ordering::Relaxed);
        members[..40].iter().for_each(|member| drop(member.activity.begin()));
        members[41..].iter().for_each(|member| drop(member.activity.begin()));
        assert_eq!(one_more(&crowd, &mut members).await, [41]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_task_has_not_run_is_left_alone() {
        let crowd = crowd_of(Listener::AdminTcp, 2);
        let members = [begun(&crowd).await, crowd.admit().await];
        members[0].activity.begin().judged(true);
        let mut admitted = std::pin::pin!(crowd.admit());
        assert!(timeout(10 * AGAIN, admitted.as_mut()).await.is_err());
        assert_eq!(displaced(&members), [0_u64; 0]);
        members[1].activity.start();
        assert!(timeout(2 * AGAIN, admitted.as_mut()).await.is_err());
        assert_eq!(displaced(&members), [2], "nor does the trusted one go for it");
    }
}
