//! A clock that stands still until told otherwise.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use oneseal_coordination::{BootTime, Clock, UnixTime};

/// Wall and boot time as set by the test. Share it in an `Arc`.
#[derive(Debug)]
pub struct FixedClock {
    reading: Mutex<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Nanoseconds since the epoch: advancing twice by half a second makes one.
    wall_ns: i128,
    boot: Duration,
}

impl FixedClock {
    /// Stands at `wall`, one day after boot.
    pub fn at(wall: UnixTime) -> Self {
        let boot = Duration::from_secs(24 * 60 * 60);
        Self { reading: Mutex::new(Reading { wall_ns: nanos(wall), boot }) }
    }

    /// Time passes: both readings go on by `span`.
    pub fn advance(&self, span: Duration) {
        self.change(|reading| {
            reading.wall_ns += i128_nanos(span);
            reading.boot += span;
        });
    }

    /// The wall clock is stepped to `wall`; no time passes.
    pub fn set_wall(&self, wall: UnixTime) {
        self.change(|reading| reading.wall_ns = nanos(wall));
    }

    /// The wall clock is stepped forward by `span`; no time passes.
    pub fn advance_wall(&self, span: Duration) {
        self.change(|reading| reading.wall_ns += i128_nanos(span));
    }

    /// The boot clock reads `boot` from now on.
    pub fn set_boot(&self, boot: BootTime) {
        self.change(|reading| reading.boot = boot.0);
    }

    /// The boot clock goes on by `span` and the wall clock does not, as when that is set back meanwhile.
    pub fn advance_boot(&self, span: Duration) {
        self.change(|reading| reading.boot += span);
    }

    fn change(&self, change: impl FnOnce(&mut Reading)) {
        change(&mut self.reading.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn reading(&self) -> Reading {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FixedClock {
    fn wall(&self) -> UnixTime {
        UnixTime(i64::try_from(self.reading().wall_ns.div_euclid(NANOS_PER_SEC)).unwrap_or(i64::MAX))
    }

    fn boot(&self) -> BootTime {
        BootTime(self.reading().boot)
    }
}

const NANOS_PER_SEC: i128 = 1_000_000_000;

fn nanos(time: UnixTime) -> i128 {
    i128::from(time.as_secs()) * NANOS_PER_SEC
}

fn i128_nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_clocks_move_together_and_apart() {
        let clock = FixedClock::at(UnixTime(100));
        let started = clock.boot();
        clock.advance(Duration::from_millis(500));
        assert_eq!(clock.wall(), UnixTime(100));
        clock.advance(Duration::from_millis(500));
        assert_eq!(clock.wall(), UnixTime(101));
        assert_eq!(clock.boot().since(started), Duration::from_secs(1));

        clock.set_wall(UnixTime(50));
        clock.advance_wall(Duration::from_secs(1));
        assert_eq!((clock.wall(), clock.boot().since(started)), (UnixTime(51), Duration::from_secs(1)));

        clock.advance_boot(Duration::from_secs(9));
        assert_eq!((clock.wall(), clock.boot().since(started)), (UnixTime(51), Duration::from_secs(10)));
        clock.set_boot(started);
        assert_eq!(clock.boot(), started);
    }
}
