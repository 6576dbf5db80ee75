//! How often each of many may ask: the generic cell rate algorithm, in bounded memory.
//!
//! For each one the table keeps a hash and the moment at which its budget will be whole again; one whose budget is whole
//! is like one never seen, and is forgotten. Where more are remembered than there is room for, those are forgotten that
//! are closest to whole, so that nobody is refused for want of room and who asks most stays known. The governor crate
//! keeps no such bound: its table grows until somebody shrinks it.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oneseal_coordination::BootTime;

/// How often somebody may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rate {
    /// Requests a minute in the long run; 0 sets no limit.
    pub per_minute: u32,
    /// Requests at once after a pause; at least 1.
    pub burst: u32,
}

impl Rate {
    /// `per_minute` in the long run, and `burst` at once.
    pub fn new(per_minute: u32, burst: u32) -> Self {
        Self { per_minute, burst: burst.max(1) }
    }

    /// No limit.
    pub fn unlimited() -> Self {
        Self::new(0, 1)
    }
}

/// No limit.
impl Default for Rate {
    fn default() -> Self {
        Self::unlimited()
    }
}

/// The budgets of all that have asked lately.
pub struct Budgets {
    /// In nanoseconds; `None` where there is no limit.
    cell: Option<u64>,
    burst: u64,
    hasher: RandomState,
    shards: Box<[Mutex<HashMap<u64, u64, RandomState>>]>,
    per_shard: usize,
}

impl Budgets {
    /// Everybody has all of `rate`; up to `most` are remembered.
    pub fn new(rate: Rate, most: usize) -> Self {
        Self {
            cell: (rate.per_minute > 0).then(|| NANOS_PER_MINUTE / u64::from(rate.per_minute)),
            burst: u64::from(rate.burst.max(1)),
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            per_shard: (most / SHARDS).max(2),
        }
    }

    /// Takes one request of `who` out of its budget.
    ///
    /// # Errors
    /// It is used up: after how long there is one again. Asking too early costs nothing.
    pub fn take(&self, who: impl Hash, now: BootTime) -> Result<(), Duration> {
        let Some(cell) = self.cell else { return Ok(()) };
        let key = self.hasher.hash_one(who);
        let now = u64::try_from(now.0.as_nanos()).unwrap_or(u64::MAX);
        let mut shard = self.shard(key);
        let whole_at = shard.get(&key).copied().unwrap_or(0).max(now).saturating_add(cell);
        let too_early = whole_at.saturating_sub(now).saturating_sub(cell.saturating_mul(self.burst));
        if too_early > 0 {
            return Err(Duration::from_nanos(too_early));
        }
        if shard.len() >= self.per_shard && !shard.contains_key(&key) {
            forget(&mut shard, now, self.per_shard);
        }
        shard.insert(key, whole_at);
        Ok(())
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, HashMap<u64, u64, RandomState>> {
        // The table takes the low bits, so these are others.
        let at = usize::try_from(key >> 32).unwrap_or_default() % self.shards.len();
        lock(&self.shards[at])
    }
}

impl fmt::Debug for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budgets({} remembered)", self.len())
    }
}

/// Makes room for a quarter of `most`, so that it need not be made for each newcomer.
fn forget(shard: &mut HashMap<u64, u64, RandomState>, now: u64, most: usize) {
    shard.retain(|_, whole_at| *whole_at > now);
    let keep = most - most.div_ceil(4);
    if shard.len() > keep {
        let mut times: Vec<_> = shard.values().copied().collect();
        let at = times.len() - keep;
        let (_, last_gone, _) = times.select_nth_unstable(at - 1);
        let last_gone = *last_gone;
        shard.retain(|_, whole_at| *whole_at > last_gone);
    }
}

/// No code that could panic runs under the lock.
fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

const NANOS_PER_MINUTE: u64 = 60 * 1_000_000_000;
/// Requests that are judged at the same time rarely meet.
const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> BootTime {
        BootTime(Duration::from_secs_f64(1000.0 + seconds))
    }

    #[test]
    fn a_burst_is_let_through_and_then_one_a_second() {
        let budgets = Budgets::new(Rate::new(60, 3), 100);
        for _ in 0..3 {
            assert_eq!(budgets.take("a", at(0.0)), Ok(()));
        }
        assert_eq!(budgets.take("a", at(0.0)), Err(Duration::from_secs(1)));
        assert_eq!(budgets.take("a", at(0.75)), Err(Duration::from_millis(250)), "asking costs nothing");
        assert_eq!(budgets.take("a", at(1.0)), Ok(()));
        assert_eq!(budgets.take("a", at(1.0)), Err(Duration::from_secs(1)));
        assert_eq!(budgets.take("b", at(1.0)), Ok(()), "another's budget is its own");
        for _ in 0..3 {
            assert_eq!(budgets.take("a", at(100.0)), Ok(()), "a pause makes it whole, and no more");
        }
        assert!(budgets.take("a", at(100.0)).is_err());
    }

    #[test]
    fn without_a_limit_nobody_is_remembered() {
        let budgets = Budgets::new(Rate::unlimited(), 100);
        assert!((0..1000).all(|_| budgets.take("a", at(0.0)).is_ok()));
        assert!(budgets.is_empty());
    }

    #[test]
    fn more_than_there_is_room_for_lock_nobody_out_and_the_busiest_stay_known() {
        let most = 1600;
        let budgets = Budgets::new(Rate::new(60, 10), most);
        while budgets.take("busy", at(0.0)).is_ok() {}
        for stranger in 0..100_000 {
            assert_eq!(budgets.take(stranger, at(0.0)), Ok(()), "{stranger}");
        }
        assert!(budgets.len() <= most, "{}", budgets.len());
        assert!(budgets.take("busy", at(0.0)).is_err());
    }

    #[test]
    fn whose_budget_is_whole_again_is_forgotten_first() {
        let budgets = Budgets::new(Rate::new(60, 10), 3200);
        for earlier in 0..3000 {
            assert_eq!(budgets.take(earlier, at(0.0)), Ok(()));
        }
        let later = 10_000..11_500;
        for one in later.clone() {
            assert_eq!(budgets.take(one, at(2.0)), Ok(()));
        }
        for one in later {
            assert!((0..9).all(|_| budgets.take(one, at(2.0)).is_ok()), "ten in all");
            assert!(budgets.take(one, at(2.0)).is_err(), "the first of them is not forgotten");
        }
    }
}
