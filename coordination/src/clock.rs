//! The two clocks, passed in as a value.
//!
//! Decisions are pure functions of `now`; only loops own a [`Clock`]. There are two readings because they answer
//! two questions. *Wall time* goes into tokens and documents, and may jump. *Boot time* measures how long ago
//! something was: it never goes back and, unlike `std::time::Instant` on Linux, it goes on while the machine is
//! suspended, so a replica that slept through its staleness limit knows it.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, UNIX_EPOCH};

/// Where the time comes from. [`SystemClock`] in production, a fixed clock in tests.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Wall-clock time in whole seconds since the Unix epoch.
    fn wall(&self) -> UnixTime;
    /// Time since the machine booted, suspended time included (`CLOCK_BOOTTIME`).
    fn boot(&self) -> BootTime;
}

/// Seconds since 1970-01-01T00:00:00Z, the `NumericDate` of RFC 7519 section 2 without its fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(pub i64);

impl UnixTime {
    /// Whole seconds since the epoch.
    pub fn as_secs(self) -> i64 {
        self.0
    }
}

impl Add<Duration> for UnixTime {
    type Output = Self;

    /// Fractions of a second are dropped.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_secs()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for UnixTime {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_secs()).unwrap_or(i64::MAX)))
    }
}

/// For people: `2026-11-29T18:00:00Z` (RFC 3339); bare seconds where a calendar of four-digit years does not reach.
impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = u64::try_from(self.0).ok().filter(|seconds| *seconds <= LAST_OF_9999);
        match seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))) {
            Some(time) => humantime::format_rfc3339_seconds(time).fmt(f),
            None => write!(f, "{} s", self.0),
        }
    }
}

/// 9999-12-31T23:59:59Z.
const LAST_OF_9999: u64 = 253_402_300_799;

/// A reading of the boot clock. Meaningful only against another reading on the same machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(pub Duration);

impl BootTime {
    /// How long `earlier` lies back; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> UnixTime {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        UnixTime(now.tv_sec)
    }

    fn boot(&self) -> BootTime {
        let now = rustix::time::clock_gettime(BOOT_CLOCK);
        let secs = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        BootTime(Duration::new(secs, nanos))
    }
}

#[cfg(target_os = "linux")]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// The nearest thing elsewhere: macOS counts suspended time in its monotonic clock.
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_never_goes_back() {
        let earlier = SystemClock.boot();
        assert!(SystemClock.boot() >= earlier);
    }

    #[test]
    fn time_saturates_instead_of_wrapping() {
        assert_eq!(UnixTime(i64::MAX) + Duration::MAX, UnixTime(i64::MAX));
        assert_eq!(UnixTime(10) - Duration::from_secs(30), UnixTime(-20));
        assert_eq!(BootTime::default().since(BootTime(Duration::from_secs(5))), Duration::ZERO);
    }

    #[test]
    fn people_read_a_date_and_never_a_count_of_seconds() {
        assert_eq!(UnixTime(1_767_225_600).to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(UnixTime(LAST_OF_9999.cast_signed()).to_string(), "9999-12-31T23:59:59Z");
        for beyond in [i64::MIN, -1, LAST_OF_9999.cast_signed() + 1, i64::MAX] {
            assert_eq!(UnixTime(beyond).to_string(), format!("{beyond} s"));
        }
    }
}
