//! That an assertion is used once.
//!
//! Whoever reads an assertion on its way, in a log or in the memory of a proxy, could use it as well as its owner, and the
//! signature stays good. So each is taken once, by its issuer's name and its `jti` (RFC 7523 section 3, item 7); never by
//! its text, which can be written in more than one way with the same signature. With several replicas they must ask the
//! same memory, and it must answer while one asks: a guard that only tells of what happened lets two through.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use oneseal_coordination::{Clock, SystemClock, UnixTime};

/// Remembers what was used.
pub trait ReplayGuard: fmt::Debug + Send + Sync + 'static {
    /// Whether `id` in `scope` had not been used, and is now. Of all who ask at the same time, in whichever process, one
    /// hears `true`. It stays used until `until` at the least, when nobody would take it any more.
    ///
    /// # Errors
    /// [`ReplayUnavailable`] if it cannot be told now: then nobody may take it.
    ///
    /// # Cancel safety
    /// A future that is dropped may have used it up.
    fn use_once<'a>(
        &'a self,
        scope: &'a str,
        id: &'a str,
        until: UnixTime,
    ) -> BoxFuture<'a, Result<bool, ReplayUnavailable>>;
}

/// Whether something was used cannot be told now.
#[derive(Debug, thiserror::Error)]
#[error("whether it was used already cannot be told now")]
pub struct ReplayUnavailable(#[source] pub Box<dyn Error + Send + Sync>);

/// In the database of a fleet.
#[cfg(feature = "postgres")]
impl ReplayGuard for oneseal_coordination::once::UsedOnce {
    fn use_once<'a>(
        &'a self,
        scope: &'a str,
        id: &'a str,
        until: UnixTime,
    ) -> BoxFuture<'a, Result<bool, ReplayUnavailable>> {
        Box::pin(async move {
            let used = Self::use_once(self, scope, id, until).await;
            used.map_err(|error| ReplayUnavailable(Box::new(error)))
        })
    }
}

/// A guard for an issuer that is one process and will stay one.
///
/// What it does not cover: a second process with the same issuer, and its own restart: an assertion that was used before
/// is good again after it, until it expires. Between the two an assertion that somebody else has read is a second identity
/// of the workload's, for five minutes. A fleet keeps its marks in a database (`UsedOnce` of `oneseal_coordination`).
///
/// It remembers at most [`MOST`](Self::MOST) and forgets none of them before its time: whoever comes when it is full is
/// told to come again.
pub struct SingleProcess {
    clock: Arc<dyn Clock>,
    most: usize,
    marks: Mutex<Marks>,
}

#[derive(Default)]
struct Marks {
    until: HashMap<Arc<str>, UnixTime>,
    by_time: BTreeSet<(UnixTime, Arc<str>)>,
}

impl SingleProcess {
    /// How many it remembers: some 50 MB of them, or 270 a second for as long as an assertion lives.
    pub const MOST: usize = 100_000;

    /// One that has seen nothing yet.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// The same, by another clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock, most: Self::MOST, marks: Mutex::default() }
    }

    fn mark(&self, scope: &str, id: &str, until: UnixTime) -> Result<bool, ReplayUnavailable> {
        let name: Arc<str> = format!("{}:{scope}{id}", scope.len()).into();
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.forget_before(self.clock.wall());
        if marks.until.contains_key(&name) {
            return Ok(false);
        }
        if marks.until.len() >= self.most {
            return Err(ReplayUnavailable(format!("{} are remembered, and that is all", self.most).into()));
        }
        marks.by_time.insert((until, Arc::clone(&name)));
        marks.until.insert(name, until);
        Ok(true)
    }
}

impl Marks {
    fn forget_before(&mut self, now: UnixTime) {
        while let Some((until, _)) = self.by_time.first()
            && *until < now
            && let Some((_, name)) = self.by_time.pop_first()
        {
            self.until.remove(&name);
        }
    }
}

impl Default for SingleProcess {
    fn default() -> Self {
        Self::new()
    }
}

/// Without the ids, which are the workloads' own.
impl fmt::Debug for SingleProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleProcess").field("most", &self.most).finish_non_exhaustive()
    }
}

impl ReplayGuard for SingleProcess {
    fn use_once<'a>(
        &'a self,
        scope: &'a str,
        id: &'a str,
        until: UnixTime,
    ) -> BoxFuture<'a, Result<bool, ReplayUnavailable>> {
        Box::pin(std::future::ready(self.mark(scope, id, until)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use oneseal_coordination::BootTime;

    use super::*;

    #[derive(Debug, Default)]
    struct Hands(AtomicI64);

    impl Clock for Hands {
        fn wall(&self) -> UnixTime {
            UnixTime(self.0.load(Ordering::SeqCst))
        }

        fn boot(&self) -> BootTime {
            SystemClock.boot()
        }
    }

    #[test]
    fn an_id_is_used_once_in_its_scope_until_its_time() {
        let clock = Arc::new(Hands::default());
        let guard = SingleProcess::with_clock(Arc::<Hands>::clone(&clock));
        let mark = |scope: &str, id: &str| guard.mark(scope, id, UnixTime(10)).expect("room");
        assert_eq!([mark("a", "bc"), mark("ab", "c"), mark("a", "bc")], [true, true, false]);
        clock.0.store(10, Ordering::SeqCst);
        assert!(!mark("a", "bc"));
        clock.0.store(11, Ordering::SeqCst);
        assert!(guard.mark("a", "bc", UnixTime(20)).expect("room"));
        assert!(!format!("{guard:?}").contains("bc"));
    }

    #[test]
    fn a_full_memory_forgets_nothing_and_says_so() {
        let clock = Arc::new(Hands::default());
        let guard = SingleProcess { most: 3, ..SingleProcess::with_clock(Arc::<Hands>::clone(&clock)) };
        for (id, until) in [("1", 10), ("2", 5), ("3", 20)] {
            assert!(guard.mark("a", id, UnixTime(until)).expect("room"));
        }
        assert!(guard.mark("a", "4", UnixTime(10)).is_err());
        assert!(!guard.mark("a", "3", UnixTime(20)).expect("known"));
        clock.0.store(6, Ordering::SeqCst);
        assert!(guard.mark("a", "4", UnixTime(10)).expect("room"));
        assert!(!guard.mark("a", "1", UnixTime(10)).expect("known"));
        assert!(guard.mark("a", "5", UnixTime(10)).is_err());
    }
}
