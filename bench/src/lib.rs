//! Ratios against a raw limit measured in the same run.
//!
//! Absolute rates depend on the machine (an RSA signature is 2.4 times faster where the processor has AVX-512
//! IFMA), so a goal is always a ratio: ours and the yardstick take turns, and the median of the rounds' ratios is
//! compared with the target. `make bench` prints each with its verdict and exits 1 if one fails.

use std::io::Write;
use std::time::{Duration, Instant};

/// How long one side runs before the other takes its turn.
const TURN: Duration = Duration::from_millis(200);
/// Turns of each side.
const ROUNDS: usize = 15;

/// What was measured against what it should be.
#[derive(Debug)]
pub struct Verdict {
    /// What is compared.
    pub name: String,
    /// The measured figure.
    pub figure: f64,
    /// The bound it is held against, and in which direction.
    pub target: Target,
}

/// A bound.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// The figure must reach this.
    AtLeast(f64),
    /// The figure must stay below this.
    Below(f64),
}

impl Verdict {
    /// Whether the target is met.
    pub fn passes(&self) -> bool {
        match self.target {
            Target::AtLeast(bound) => self.figure >= bound,
            Target::Below(bound) => self.figure < bound,
        }
    }

    /// One line: name, figure, target, verdict.
    pub fn line(&self) -> String {
        let bound = match self.target {
            Target::AtLeast(bound) => format!(">= {bound}"),
            Target::Below(bound) => format!("< {bound}"),
        };
        let verdict = if self.passes() { "pass" } else { "FAIL" };
        format!("{:<58} {:>8.3}  target {bound:<8} {verdict}", self.name, self.figure)
    }
}

/// Prints the verdicts and turns them into an exit code.
pub fn conclude(verdicts: &[Verdict]) -> std::process::ExitCode {
    let mut out = std::io::stdout().lock();
    for verdict in verdicts {
        // Nobody is left to tell when standard output is closed.
        drop(writeln!(out, "{}", verdict.line()));
    }
    std::process::ExitCode::from(u8::from(!verdicts.iter().all(Verdict::passes)))
}

/// The rate of `ours` as a part of the rate of `limit`, both called one after the other in alternating turns.
pub fn ratio(name: &str, target: f64, mut ours: impl FnMut(), mut limit: impl FnMut()) -> Verdict {
    turn(&mut ours);
    turn(&mut limit);
    let ratios = (0..ROUNDS).map(|round| {
        // Who goes first alternates too: the processor's clock drifts.
        if round % 2 == 0 {
            let mine = turn(&mut ours);
            mine / turn(&mut limit)
        } else {
            let limit = turn(&mut limit);
            turn(&mut ours) / limit
        }
    });
    Verdict { name: name.to_owned(), figure: median(ratios.collect()), target: Target::AtLeast(target) }
}

/// Calls a second.
fn turn(work: &mut impl FnMut()) -> f64 {
    let started = now();
    let mut calls = 0.0;
    while started.elapsed() < TURN {
        work();
        calls += 1.0;
    }
    calls / started.elapsed().as_secs_f64()
}

/// The middle one.
///
/// # Panics
/// If there are none.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a bench measures spans; nothing is decided by them")]
pub fn now() -> Instant {
    Instant::now()
}
