//! A second opinion on the time of day.
//!
//! A token that a wrong clock has dated is refused as from the future, or lives longer than was agreed. Whoever has a
//! better clock tells once what it read, and from then on the boot clock, which nobody sets, carries that reading on: a
//! wall clock that is stepped is noticed at the next token, and one that has been put right again too, without asking
//! anybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use oneseal_coordination::{BootTime, Clock};
use oneseal_keystore::Rotation;

/// What another clock reads, as far as it has been told.
#[derive(Debug)]
pub(crate) struct Reference {
    clock: Arc<dyn Clock>,
    /// What that clock is ahead of our boot clock, in milliseconds.
    ahead_of_boot_ms: AtomicI64,
    /// How far off that may be: what the question was on its way.
    within_ms: AtomicU64,
}

impl Reference {
    /// Nothing has been told yet.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ahead_of_boot_ms: AtomicI64::new(UNKNOWN), within_ms: AtomicU64::new(0) }
    }

    /// It read `wall_ms` when our boot clock read `at`, give or take `within`.
    pub(crate) fn set(&self, wall_ms: i64, at: BootTime, within: Duration) {
        // A reader between the two stores takes one span of a round trip for another.
        self.within_ms.store(u64::try_from(within.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
        self.ahead_of_boot_ms.store(wall_ms.saturating_sub(millis(at)), Ordering::Release);
    }

    /// How far our wall clock is ahead of it, in milliseconds.
    pub(crate) fn offset_ms(&self) -> Option<i64> {
        let ahead = Some(self.ahead_of_boot_ms.load(Ordering::Acquire)).filter(|ahead| *ahead != UNKNOWN)?;
        let reference = millis(self.clock.boot()).saturating_add(ahead);
        // Our reading is whole seconds, so on average half of one is missing.
        let wall = self.clock.wall().as_secs().saturating_mul(1000).saturating_add(500);
        Some(wall.saturating_sub(reference))
    }

    /// Whether the two are certainly further apart than replicas may be.
    pub(crate) fn is_off(&self, rotation: &Rotation) -> bool {
        let unsure = self.within_ms.load(Ordering::Acquire).saturating_add(ROUNDING_MS);
        let allowed = rotation.skew_s.saturating_mul(1000).saturating_add(unsure);
        self.offset_ms().is_some_and(|offset| offset.unsigned_abs() > allowed)
    }
}

fn millis(at: BootTime) -> i64 {
    i64::try_from(at.0.as_millis()).unwrap_or(i64::MAX)
}

const UNKNOWN: i64 = i64::MIN;
/// What is lost to whole seconds.
const ROUNDING_MS: u64 = 500;
