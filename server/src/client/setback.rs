//! Why an attempt came to nothing, and whether another one may come to more.

use std::time::Duration;

use crate::exit::{Exit, Failure};
use crate::refusals::TOKEN_NO_ANSWER;

/// An attempt that brought no token.
#[derive(Debug)]
pub(super) struct Setback {
    /// Boxed: few attempts come to one, and all results have room for it.
    pub(super) failure: Box<Failure>,
    pub(super) again: Again,
    /// Whether the token endpoint itself has said so.
    pub(super) is_answer: bool,
}

/// Whether the same may work later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It was understood and refused.
    Never,
    /// It may, after what the server asks for, if it asks.
    Later(Option<Duration>),
}

impl Setback {
    pub(super) fn never(failure: Failure) -> Self {
        Self { failure: Box::new(failure), again: Again::Never, is_answer: true }
    }

    /// Nobody there, or busy.
    pub(super) fn later(message: String, asked: Option<Duration>) -> Self {
        let failure = Failure::new(Exit::Unavailable, message).with_code(TOKEN_NO_ANSWER);
        Self { failure: Box::new(failure), again: Again::Later(asked), is_answer: false }
    }

    /// There, and not able to for now.
    pub(super) fn answered(message: String, asked: Option<Duration>) -> Self {
        Self { is_answer: true, ..Self::later(message, asked) }
    }

    pub(super) fn because(self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { failure: Box::new(self.failure.because(error)), ..self }
    }

    /// The last of all attempts; `before` is the last one that was answered. Of an attempt that was cut short by the end of
    /// all time nothing is learned, and what an answer said is not lost for it.
    pub(super) fn out_of_time(self, before: Option<Self>, patience: Duration) -> Failure {
        let patience = humantime::format_duration(patience);
        if let Some(before) = before.filter(|_| !self.is_answer) {
            let last = self.failure.in_full();
            let hint = format!(
                "It was tried for {patience} (--timeout), and then there was no answer any more: {last}"
            );
            return before.failure.with_hint(hint);
        }
        self.failure.with_hint(match self.again {
            Again::Later(Some(asked)) => format!(
                "It asks for {} s until the next attempt, and --timeout is {patience}: try later, or allow for more.",
                asked.as_secs()
            ),
            _ => format!("It was tried for {patience} (--timeout)."),
        })
    }
}

/// How long to wait before the attempt after this one, counted from 0: twice as long each time, up to 8 s, and never
/// less than the server asks for, whatever that is. `random` spreads many pods that begin together: over half of the one,
/// and a fifth beyond the other.
pub(super) fn pause(attempt: u32, asked: Option<Duration>, random: u8) -> Duration {
    let part = |span: Duration| span.saturating_mul(u32::from(random)) / u32::from(u8::MAX);
    let most = (FIRST * 2_u32.saturating_pow(attempt)).min(LONGEST);
    let own = most / 2 + part(most / 2);
    asked.map_or(own, |asked| own.max(asked.saturating_add(part((asked / 5).min(LONGEST_SPREAD)))))
}

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(8);
/// Beyond what the server asks for.
const LONGEST_SPREAD: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_are_spread() {
        let spread = |attempt| (pause(attempt, None, 0), pause(attempt, None, 255));
        assert_eq!(spread(0), (FIRST / 2, FIRST));
        assert_eq!(spread(1), (FIRST, FIRST * 2));
        for attempt in [5, 6, 31, 32, u32::MAX] {
            assert_eq!(spread(attempt), (LONGEST / 2, LONGEST), "{attempt}");
        }
    }

    #[test]
    fn what_the_server_asks_for_is_kept() {
        let ten = Duration::from_secs(10);
        assert_eq!(pause(0, Some(ten), 0), ten);
        assert_eq!(pause(0, Some(ten), 255), Duration::from_secs(12));
        assert_eq!(pause(9, Some(Duration::ZERO), 255), LONGEST, "at once is not what it means");
        for asked in [Duration::from_secs(u64::MAX), Duration::MAX, Duration::MAX - Duration::from_nanos(1)] {
            for random in [0, 1, 255] {
                assert!(pause(u32::MAX, Some(asked), random) >= asked, "{asked:?}");
            }
        }
    }
}
