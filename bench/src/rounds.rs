//! Contenders that take turns.
//!
//! A machine is not the same from one minute to the next, so nothing is compared across minutes: in each round every
//! contender has its turn, the order turns around with each round, and a ratio is one of figures of the same round. The
//! median of the rounds' ratios is what counts.

use std::time::Duration;

use crate::proc::cpu_s;
use crate::report::{Report, Table};
use crate::wrk::Load;
use crate::{median, now};

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Turns of each contender that count.
    pub rounds: usize,
    /// Of one turn.
    pub turn: Duration,
    /// Of the one turn before that does not count.
    pub warm_up: Duration,
}

impl Plan {
    /// What the figures of `docs/performance.md` are made with.
    pub const FULL: Self = Self { rounds: 5, turn: Duration::from_secs(5), warm_up: Duration::from_secs(2) };
    /// Enough to see whether a bench works, and on a quiet machine how it will end.
    pub const QUICK: Self = Self { rounds: 3, turn: Duration::from_secs(1), warm_up: Duration::from_secs(1) };
}

/// A server and the load it is put under.
pub struct Contender<'a> {
    /// Its name in the tables.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Puts it under load for about that long.
    pub load: Box<dyn FnMut(Duration) -> Load + 'a>,
}

impl std::fmt::Debug for Contender<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Contender({}, pid {})", self.name, self.pid)
    }
}

impl<'a> Contender<'a> {
    /// The server `pid`, under `load`.
    pub fn new(name: &str, pid: u32, load: impl FnMut(Duration) -> Load + 'a) -> Self {
        Self { name: name.to_owned(), pid, load: Box::new(load) }
    }

    /// One turn.
    ///
    /// # Panics
    /// If the server has ended, or an answer was an error.
    pub fn turn(&mut self, time: Duration) -> Sample {
        let before = cpu_s(self.pid);
        let load = (self.load)(time);
        Sample::of(load, cpu_s(self.pid) - before)
    }
}

/// Of one turn.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Requests.
    pub per_s: f64,
    /// Processor time of the server for one, in µs.
    pub cpu_us: f64,
    /// Median time to an answer.
    pub p50_us: f64,
    /// What one answer in a hundred took longer than.
    pub p99_us: f64,
}

impl Sample {
    /// `cpu_s` is what the server used meanwhile.
    pub fn of(load: Load, cpu_s: f64) -> Self {
        let requests = load.requests as f64;
        Self {
            per_s: requests / load.seconds,
            cpu_us: cpu_s * 1e6 / requests,
            p50_us: load.p50_us,
            p99_us: load.p99_us,
        }
    }
}

/// All rounds of all contenders.
#[derive(Debug)]
pub struct Rounds {
    names: Vec<String>,
    /// By contender, then by round.
    samples: Vec<Vec<Sample>>,
}

impl Rounds {
    /// Runs them all.
    ///
    /// # Panics
    /// As [`Contender::turn`].
    pub fn run(plan: Plan, contenders: &mut [Contender<'_>]) -> Self {
        for contender in &mut *contenders {
            contender.turn(plan.warm_up);
        }
        let mut samples = vec![Vec::new(); contenders.len()];
        for round in 0..plan.rounds {
            for at in order(round, contenders.len()) {
                samples[at].push(contenders[at].turn(plan.turn));
            }
        }
        Self { names: contenders.iter().map(|contender| contender.name.clone()).collect(), samples }
    }

    /// The samples of one contender, by round.
    ///
    /// # Panics
    /// If there is no such contender.
    pub fn of(&self, at: usize) -> &[Sample] {
        &self.samples[at]
    }

    /// The median over the rounds of `figure` of one contender as a part of that of another in the same round.
    ///
    /// # Panics
    /// If there is no such contender.
    pub fn ratio(&self, ours: usize, theirs: usize, figure: impl Fn(&Sample) -> f64) -> f64 {
        let pairs = self.of(ours).iter().zip(self.of(theirs));
        median(pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)).collect())
    }

    /// Adds what each contender did to the report, under `title`.
    pub fn tell(&self, title: &str, report: &mut Report) {
        let mut table =
            Table::new(title, &["", "requests/s (all rounds)", "server µs each", "p50 µs", "p99 µs"]);
        for (name, samples) in self.names.iter().zip(&self.samples) {
            let of = |figure: fn(&Sample) -> f64| samples.iter().map(figure).collect::<Vec<_>>();
            let rates = of(|sample| sample.per_s);
            let (low, high) =
                (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
            table.row([
                name.clone(),
                format!("{:.0} ({low:.0} to {high:.0})", median(rates)),
                format!("{:.2}", median(of(|sample| sample.cpu_us))),
                format!("{:.0}", median(of(|sample| sample.p50_us))),
                format!("{:.0}", median(of(|sample| sample.p99_us))),
            ]);
        }
        report.table(table);
    }
}

/// Who goes when: forwards and backwards by turns, so that nobody is always the first.
fn order(round: usize, contenders: usize) -> Vec<usize> {
    let forwards = 0..contenders;
    if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
}

/// How long one side of [`ratio`] runs before the other takes its turn.
const TURN: Duration = Duration::from_millis(200);

/// The rate of `ours` as a part of the rate of `limit`, both in this thread, one after the other in alternating turns.
pub fn ratio(plan: Plan, mut ours: impl FnMut(), mut limit: impl FnMut()) -> f64 {
    rate(&mut ours, TURN);
    rate(&mut limit, TURN);
    let ratios = (0..3 * plan.rounds).map(|round| {
        // Who goes first alternates too: the processor's clock drifts.
        if round % 2 == 0 {
            let mine = rate(&mut ours, TURN);
            mine / rate(&mut limit, TURN)
        } else {
            let limit = rate(&mut limit, TURN);
            rate(&mut ours, TURN) / limit
        }
    });
    median(ratios.collect())
}

/// Calls a second, over `time`.
pub fn rate(mut work: impl FnMut(), time: Duration) -> f64 {
    let started = now();
    let mut calls = 0.0;
    while started.elapsed() < time {
        work();
        calls += 1.0;
    }
    calls / started.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_turns_around() {
        assert_eq!(order(0, 3), [0, 1, 2]);
        assert_eq!(order(1, 3), [2, 1, 0]);
    }

    #[test]
    fn a_ratio_is_one_of_the_same_round() {
        let sample = |per_s| Sample { per_s, cpu_us: 1e6 / per_s, p50_us: 1.0, p99_us: 2.0 };
        // The machine slows down by half, and the ratio stays.
        let rounds = Rounds {
            names: vec!["ours".to_owned(), "theirs".to_owned()],
            samples: vec![
                vec![sample(200.0), sample(100.0), sample(100.0)],
                vec![sample(100.0), sample(50.0), sample(50.0)],
            ],
        };
        assert!((rounds.ratio(0, 1, |sample| sample.per_s) - 2.0).abs() < 1e-9);
        assert!((rounds.ratio(0, 1, |sample| sample.cpu_us) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn processor_time_is_that_of_one_request() {
        let load = Load { requests: 100_000, seconds: 2.0, p50_us: 9.0, p99_us: 10.0 };
        let sample = Sample::of(load, 1.0);
        assert!((sample.per_s - 50_000.0).abs() < 1e-6 && (sample.cpu_us - 10.0).abs() < 1e-9);
    }
}
