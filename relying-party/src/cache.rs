//! When keys are fetched, and what is answered meanwhile: a pure function of state, observation and time.
//!
//! The rules, each of which somebody has paid for:
//! - a good set is replaced only by a good set, and serves through failures up to a written limit;
//! - a token whose key is held never waits: a due refresh runs beside it;
//! - an unknown `kid` costs at most one fetch per [`UNKNOWN_KID_INTERVAL`], measured on attempts, failed ones too;
//! - one attempt runs at a time, and all who need it share it;
//! - a failure is forgotten after a back-off of seconds, never at the next scheduled refresh;
//! - a signature that a held key refuses may mean another key under the same `kid`: it shares the interval of unknown
//!   ones, and waits for nothing;
//! - an unknown `kid` is "invalid" only if the set is known to be current; after a failure it is "unavailable".

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use oneseal_coordination::BootTime;
use oneseal_keystore::KeyId;

/// What is remembered beside the set itself.
#[derive(Debug)]
pub(crate) struct State {
    stale_limit: Duration,
    /// How many attempts were started: the number of the running one.
    attempts: u64,
    running: bool,
    started_at: Option<BootTime>,
    /// When the last attempt began that was made to look again.
    looked_again_at: Option<BootTime>,
    /// In a row, since the last success.
    failures: u32,
    good: Option<Good>,
    absent: Absent,
}

/// The last good set, by its times.
#[derive(Clone, Copy, Debug)]
struct Good {
    /// From before the request was sent.
    read_at: BootTime,
    refresh_at: BootTime,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Observation<'a> {
    /// A token wants a key, and has waited for an attempt or not.
    Wanted { need: Need<'a>, awaited: bool },
    /// A token was refused that other keys under the same names might have verified.
    Doubted,
    /// Is it time to refresh?
    Tick,
    /// The caller wants fresh keys whatever is held.
    Refresh,
    /// A key of somebody else is believed only after another look at these; see `sightings`.
    LookAgain,
    /// The running attempt ended: with a good set whose issuer names this `max-age`, or not.
    Ended(Result<Option<Duration>, ()>),
}

/// How the key that a token wants relates to the set that is held.
#[derive(Debug)]
pub(crate) enum Need<'a> {
    /// Fresh keys would change nothing: it is held, or refused for good.
    Settled,
    /// No key has this `kid`.
    Missing(&'a KeyId),
    /// No key can ever have this `kid`, since it is none that we hold keys under.
    Impossible,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Answer from the set.
    Use,
    /// Answer from the set; attempt this number runs beside it and is to be started.
    UseAndStart(u64),
    /// Start this attempt, and wait for it.
    Start(u64),
    /// Wait for this attempt, which runs.
    Wait(u64),
    /// The set is current and has no such key.
    Unknown,
    /// There is no set to judge by; try again then.
    Unavailable { retry_after: Duration },
}

impl State {
    /// Nothing known. A set is used for `stale_limit` at most.
    pub(crate) fn new(stale_limit: Duration) -> Self {
        Self {
            stale_limit,
            attempts: 0,
            running: false,
            started_at: None,
            looked_again_at: None,
            failures: 0,
            good: None,
            absent: Absent::default(),
        }
    }

    /// Takes what happened and says what to do.
    pub(crate) fn step(&mut self, observation: Observation<'_>, now: BootTime) -> Action {
        match observation {
            Observation::Wanted { need, awaited } => self.wanted(&need, awaited, now),
            Observation::Doubted if self.running || !self.remaining(UNKNOWN_KID_INTERVAL, now).is_zero() => {
                Action::Use
            }
            Observation::Doubted => Action::UseAndStart(self.start(now)),
            Observation::Tick if self.running => Action::Wait(self.attempts),
            Observation::Tick if self.is_due(now) && self.backed_off(now) => Action::Start(self.start(now)),
            Observation::Tick => Action::Use,
            Observation::Refresh if self.running => Action::Wait(self.attempts),
            Observation::Refresh => Action::Start(self.start(now)),
            Observation::LookAgain if self.running => Action::Wait(self.attempts),
            Observation::LookAgain => self.look_again(now),
            Observation::Ended(outcome) => {
                self.end(outcome, now);
                Action::Use
            }
        }
    }

    /// When the running or the last attempt began.
    pub(crate) fn started_at(&self) -> Option<BootTime> {
        self.started_at
    }

    /// When the set that is held is due for a refresh.
    pub(crate) fn refresh_at(&self) -> Option<BootTime> {
        self.good.map(|good| good.refresh_at)
    }

    /// Whether the last attempt failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// How long until [`Observation::Tick`] may start an attempt.
    pub(crate) fn next_tick(&self, now: BootTime) -> Duration {
        let due = self.good.map_or(Duration::ZERO, |good| good.refresh_at.since(now));
        due.max(self.remaining(self.back_off(), now))
    }

    fn wanted(&mut self, need: &Need<'_>, awaited: bool, now: BootTime) -> Action {
        if !self.is_usable(now) {
            return self.without_set(awaited, now);
        }
        match need {
            Need::Settled if self.is_due(now) && !self.running && self.backed_off(now) => {
                Action::UseAndStart(self.start(now))
            }
            Need::Settled => Action::Use,
            Need::Impossible => Action::Unknown,
            Need::Missing(kid) => self.missing(kid, awaited, now),
        }
    }

    fn without_set(&mut self, awaited: bool, now: BootTime) -> Action {
        if awaited {
            return Action::Unavailable { retry_after: self.remaining(self.back_off(), now) };
        }
        if self.running {
            return Action::Wait(self.attempts);
        }
        if self.backed_off(now) {
            return Action::Start(self.start(now));
        }
        Action::Unavailable { retry_after: self.remaining(self.back_off(), now) }
    }

    fn missing(&mut self, kid: &KeyId, awaited: bool, now: BootTime) -> Action {
        let is_current = self.failures == 0;
        if awaited && is_current {
            self.absent.remember(kid, now);
            return Action::Unknown;
        }
        if self.absent.has(kid, now) {
            return Action::Unknown;
        }
        if !awaited && self.running {
            return Action::Wait(self.attempts);
        }
        let left = self.remaining(UNKNOWN_KID_INTERVAL, now);
        match (awaited, left) {
            (false, Duration::ZERO) => Action::Start(self.start(now)),
            _ if is_current => Action::Unknown,
            _ => Action::Unavailable { retry_after: left },
        }
    }

    /// Has an interval of its own: it takes a good signature, so no flood of unknown kids can use it up.
    fn look_again(&mut self, now: BootTime) -> Action {
        let since = self.looked_again_at.map(|then| now.since(then));
        let left = since.map_or(Duration::ZERO, |since| UNKNOWN_KID_INTERVAL.saturating_sub(since));
        if !left.is_zero() {
            return Action::Unavailable { retry_after: left };
        }
        self.looked_again_at = Some(now);
        Action::Start(self.start(now))
    }

    fn start(&mut self, now: BootTime) -> u64 {
        self.running = true;
        self.attempts += 1;
        self.started_at = Some(now);
        self.attempts
    }

    fn end(&mut self, outcome: Result<Option<Duration>, ()>, now: BootTime) {
        self.running = false;
        match outcome {
            Err(()) => self.failures = self.failures.saturating_add(1),
            Ok(max_age) => {
                self.failures = 0;
                let read_at = self.started_at.unwrap_or(now);
                let life = max_age.unwrap_or(LONGEST_REFRESH).clamp(SHORTEST_REFRESH, LONGEST_REFRESH);
                self.good = Some(Good { read_at, refresh_at: read_at + life });
            }
        }
    }

    /// Whether there is a set that is not past its limit.
    pub(crate) fn is_usable(&self, now: BootTime) -> bool {
        self.good.is_some_and(|good| now.since(good.read_at) < self.stale_limit)
    }

    fn is_due(&self, now: BootTime) -> bool {
        self.good.is_none_or(|good| now >= good.refresh_at)
    }

    fn backed_off(&self, now: BootTime) -> bool {
        self.remaining(self.back_off(), now).is_zero()
    }

    /// 1 s after one failure, then doubled up to the interval of unknown kids.
    fn back_off(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => FIRST_BACK_OFF.saturating_mul(1 << (failures - 1).min(8)).min(UNKNOWN_KID_INTERVAL),
        }
    }

    /// What is left of `span` since the last attempt was started.
    fn remaining(&self, span: Duration, now: BootTime) -> Duration {
        self.started_at.map_or(Duration::ZERO, |started| span.saturating_sub(now.since(started)))
    }
}

/// `kid`s that a fetch made for them did not find. It only spares fetches: while it is full of a flood, the interval
/// alone bounds them.
#[derive(Debug, Default)]
struct Absent {
    by_age: VecDeque<(BootTime, KeyId)>,
    kids: HashSet<KeyId>,
}

impl Absent {
    fn remember(&mut self, kid: &KeyId, now: BootTime) {
        if !self.kids.insert(kid.clone()) {
            return;
        }
        self.by_age.push_back((now, kid.clone()));
        while self.by_age.len() > MAX_ABSENT {
            self.forget_oldest();
        }
    }

    fn has(&mut self, kid: &KeyId, now: BootTime) -> bool {
        while self.by_age.front().is_some_and(|(since, _)| now.since(*since) >= ABSENT_FOR) {
            self.forget_oldest();
        }
        self.kids.contains(kid)
    }

    fn forget_oldest(&mut self) {
        if let Some((_, kid)) = self.by_age.pop_front() {
            self.kids.remove(&kid);
        }
    }
}

/// Between two attempts for the sake of unknown kids; jose's cooldown as well.
pub(crate) const UNKNOWN_KID_INTERVAL: Duration = Duration::from_secs(30);
/// A set is refreshed after its `max-age`, but not later than this, so that a key removed in an emergency ends here
/// within minutes whatever the issuer's cache headers say.
pub(crate) const LONGEST_REFRESH: Duration = Duration::from_secs(300);
/// Nor sooner than this: `max-age=0` must not make every token a fetch.
pub(crate) const SHORTEST_REFRESH: Duration = UNKNOWN_KID_INTERVAL;
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Two intervals: a cache between us and the issuer may have answered with a set from before the key.
const ABSENT_FOR: Duration = Duration::from_secs(60);
/// About 200 KiB of the longest kids.
const MAX_ABSENT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn at(seconds: u64) -> BootTime {
        BootTime(Duration::from_secs(seconds))
    }

    fn kid(text: &str) -> KeyId {
        KeyId::parse(text).expect("good")
    }

    fn settled(state: &mut State, now: u64) -> Action {
        state.step(Observation::Wanted { need: Need::Settled, awaited: false }, at(now))
    }

    fn missing(state: &mut State, text: &str, now: u64) -> Action {
        state.step(Observation::Wanted { need: Need::Missing(&kid(text)), awaited: false }, at(now))
    }

    fn awaited(state: &mut State, text: &str, now: u64) -> Action {
        state.step(Observation::Wanted { need: Need::Missing(&kid(text)), awaited: true }, at(now))
    }

    fn end(state: &mut State, outcome: Result<Option<u64>, ()>, now: u64) {
        state.step(Observation::Ended(outcome.map(|age| age.map(Duration::from_secs))), at(now));
    }

    /// Read at second 1000, due at 1300.
    fn warm() -> State {
        let mut state = State::new(DAY);
        assert_eq!(settled(&mut state, 1000), Action::Start(1));
        end(&mut state, Ok(None), 1001);
        state
    }

    fn unavailable(seconds: u64) -> Action {
        Action::Unavailable { retry_after: Duration::from_secs(seconds) }
    }

    #[test]
    fn cold_callers_share_one_attempt_and_failures_back_off_by_seconds() {
        let mut state = State::new(DAY);
        assert_eq!(missing(&mut state, "x", 0), Action::Start(1));
        assert_eq!(settled(&mut state, 1), Action::Wait(1));
        end(&mut state, Err(()), 2);
        assert_eq!(awaited(&mut state, "x", 2), unavailable(0));
        assert_eq!(settled(&mut state, 2), Action::Start(2));
        end(&mut state, Err(()), 2);
        assert_eq!(settled(&mut state, 3), unavailable(1));
        assert_eq!(settled(&mut state, 4), Action::Start(3));
        for attempt in 4..20 {
            end(&mut state, Err(()), attempt * 100);
            assert_eq!(settled(&mut state, attempt * 100), Action::Start(attempt));
            assert_eq!(state.back_off().min(UNKNOWN_KID_INTERVAL), state.back_off());
        }
    }

    #[test]
    fn a_held_key_never_waits_and_a_due_refresh_runs_beside() {
        let mut state = warm();
        assert_eq!(settled(&mut state, 1299), Action::Use);
        assert_eq!(settled(&mut state, 1300), Action::UseAndStart(2));
        assert_eq!(settled(&mut state, 1301), Action::Use);
        end(&mut state, Err(()), 1301);
        assert_eq!(settled(&mut state, 1301), Action::UseAndStart(3));
        end(&mut state, Ok(None), 1302);
        assert_eq!(settled(&mut state, 1303), Action::Use);
    }

    #[test]
    fn max_age_shortens_the_refresh_but_not_below_the_interval_and_never_lengthens_it() {
        for (max_age, due) in
            [(None, 300), (Some(0), 30), (Some(29), 30), (Some(120), 120), (Some(604_800), 300)]
        {
            let mut state = State::new(DAY);
            settled(&mut state, 0);
            end(&mut state, Ok(max_age), 0);
            assert_eq!(settled(&mut state, due - 1), Action::Use, "{max_age:?}");
            assert_eq!(settled(&mut state, due), Action::UseAndStart(2), "{max_age:?}");
        }
    }

    #[test]
    fn a_flood_of_unknown_kids_starts_one_attempt_per_interval() {
        let mut state = warm();
        let mut started = Vec::new();
        for tick in 0..10_000_u64 {
            let now = 1001 + tick / 100; // a hundred a second for a hundred seconds
            if let Action::Start(_) = missing(&mut state, &format!("k{tick}"), now) {
                started.push(now);
                end(&mut state, if tick % 2 == 0 { Ok(None) } else { Err(()) }, now);
            }
        }
        assert_eq!(started, [1030, 1060, 1090]);
    }

    #[test]
    fn an_unknown_kid_is_invalid_beside_a_current_set_and_unavailable_after_a_failure() {
        let mut state = warm();
        assert_eq!(missing(&mut state, "x", 1010), Action::Unknown);
        assert_eq!(missing(&mut state, "x", 1030), Action::Start(2));
        assert_eq!(missing(&mut state, "y", 1031), Action::Wait(2));
        end(&mut state, Err(()), 1032);
        assert_eq!(awaited(&mut state, "x", 1032), unavailable(28));
        assert_eq!(missing(&mut state, "z", 1040), unavailable(20));
        assert_eq!(settled(&mut state, 1040), Action::Use);
    }

    #[test]
    fn doubts_and_unknown_kids_share_one_interval_and_doubts_never_wait() {
        let mut state = warm();
        let doubted = |state: &mut State, now| state.step(Observation::Doubted, at(now));
        assert_eq!(doubted(&mut state, 1029), Action::Use);
        assert_eq!(doubted(&mut state, 1030), Action::UseAndStart(2));
        assert_eq!(doubted(&mut state, 1031), Action::Use);
        end(&mut state, Err(()), 1031);
        assert_eq!(doubted(&mut state, 1059), Action::Use);
        assert_eq!(missing(&mut state, "x", 1060), Action::Start(3));
        end(&mut state, Ok(None), 1060);
        assert_eq!(doubted(&mut state, 1089), Action::Use);
        assert_eq!(doubted(&mut state, 1090), Action::UseAndStart(4));
    }

    #[test]
    fn another_look_has_an_interval_of_its_own_and_leaves_that_of_unknown_kids_alone() {
        let mut state = warm();
        let look = |state: &mut State, now| state.step(Observation::LookAgain, at(now));
        assert_eq!(look(&mut state, 1002), Action::Start(2));
        assert_eq!(look(&mut state, 1003), Action::Wait(2));
        end(&mut state, Err(()), 1003);
        assert_eq!(look(&mut state, 1004), unavailable(28));
        assert_eq!(missing(&mut state, "x", 1032), Action::Start(3));
        end(&mut state, Ok(None), 1032);
        assert_eq!(look(&mut state, 1033), Action::Start(4));
    }

    #[test]
    fn a_kid_that_a_fetch_did_not_find_is_remembered_for_a_minute() {
        let mut state = warm();
        assert_eq!(missing(&mut state, "x", 1040), Action::Start(2));
        end(&mut state, Ok(None), 1041);
        assert_eq!(awaited(&mut state, "x", 1041), Action::Unknown);
        assert_eq!(missing(&mut state, "x", 1100), Action::Unknown);
        assert_eq!(missing(&mut state, "x", 1101), Action::Start(3));
    }

    #[test]
    fn a_kid_that_no_key_can_have_costs_nothing() {
        let mut state = warm();
        let impossible = Observation::Wanted { need: Need::Impossible, awaited: false };
        assert_eq!(state.step(impossible, at(1200)), Action::Unknown);
        assert!(!state.running);
    }

    #[test]
    fn past_its_limit_a_set_is_no_longer_used() {
        let mut state = warm();
        let limit = 1000 + DAY.as_secs();
        assert_eq!(settled(&mut state, limit - 1), Action::UseAndStart(2));
        end(&mut state, Err(()), limit - 1);
        assert_eq!(settled(&mut state, limit), Action::Start(3));
        end(&mut state, Err(()), limit);
        let waited = Observation::Wanted { need: Need::Settled, awaited: true };
        assert_eq!(state.step(waited, at(limit)), unavailable(2));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut absent = Absent::default();
        for n in 0..10 * MAX_ABSENT {
            absent.remember(&kid(&format!("k{n}")), at(0));
        }
        assert_eq!((absent.by_age.len(), absent.kids.len()), (MAX_ABSENT, MAX_ABSENT));
        assert!(absent.has(&kid(&format!("k{}", 10 * MAX_ABSENT - 1)), at(59)));
        assert!(!absent.has(&kid("k0"), at(0)));
        assert!(!absent.has(&kid(&format!("k{}", 10 * MAX_ABSENT - 1)), at(60)));
        assert!(absent.kids.is_empty());
    }

    #[test]
    fn the_loop_sleeps_until_a_refresh_is_due_or_the_back_off_is_over() {
        let mut state = State::new(DAY);
        assert_eq!(state.next_tick(at(0)), Duration::ZERO);
        assert_eq!(state.step(Observation::Tick, at(0)), Action::Start(1));
        assert_eq!(state.step(Observation::Tick, at(0)), Action::Wait(1));
        end(&mut state, Err(()), 0);
        assert_eq!(state.next_tick(at(0)), Duration::from_secs(1));
        assert_eq!(state.step(Observation::Tick, at(0)), Action::Use);
        assert_eq!(state.step(Observation::Tick, at(1)), Action::Start(2));
        end(&mut state, Ok(Some(100)), 2);
        assert_eq!(state.next_tick(at(2)), Duration::from_secs(99));
    }
}
