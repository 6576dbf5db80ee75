//! One bounded piece of the log, and what a reader that stands somewhere makes of it.
//!
//! Everything that judges a piece comes from one statement, and so from one moment: the events, the event that the reader
//! stands at, the head and the floor. With two statements a prune or a commit between them would look like damage.

use super::chain::{Broken, Fault, Verifier};
use super::cursor::{Cursor, Position};
use super::line::{Event, Hash};

/// A piece of the log as it was at one moment, unjudged.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// The last event there is.
    pub(super) head: Position,
    /// The last event that was cut off.
    pub(super) floor: Position,
    /// The hash of the event that the reader stands at, if that is there.
    pub(super) stands_at: Option<Hash>,
    /// Those that come next, no more than asked for.
    pub(super) events: Vec<Event>,
}

/// Where a reader stands that does not know yet what it will find there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the end, whatever that is: only what happens from now on is of interest.
    Now,
    /// At the beginning of what is kept.
    Floor,
    /// Where it has been before.
    Cursor(Cursor),
}

/// Why a reader cannot go on from where it stood, and where it goes on instead: at the floor, with all that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reset {
    /// Why.
    pub reason: ResetReason,
    /// What comes next is the event after this one.
    pub floor: Position,
    /// Where the log ended at that moment.
    pub head: Position,
}

/// Why a place is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResetReason {
    /// The events after it have been cut off.
    Pruned,
    /// The log is not that long: an older state of the database was restored.
    Future,
    /// Another event has that number: it is another log, or one that was restored and written on.
    OtherLog,
}

impl ResetReason {
    /// One word, as it stands in the `reset` event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pruned => "pruned",
            Self::Future => "future",
            Self::OtherLog => "other_log",
        }
    }
}

/// What a reader has from one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The next events, chained to where it stood, which is told with its hash. Whether there are more stands beside.
    Events {
        /// Where it stood.
        from: Position,
        /// What comes after that.
        events: Vec<Event>,
        /// Whether the last of them is the last there is.
        is_all: bool,
    },
    /// It has to begin again.
    Reset(Reset),
}

/// What number a page has to be asked for: the events after it.
pub(super) fn number_of(from: From) -> Asked {
    match from {
        From::Now => Asked::Head,
        From::Floor => Asked::Floor,
        From::Cursor(cursor) => Asked::After(cursor.seq()),
    }
}

/// What a page begins after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Head,
    Floor,
    After(i64),
}

/// Judges `page`, which was asked for by the number of `from`.
pub(super) fn take(from: From, page: Page) -> Result<Taken, Broken> {
    let Page { head, floor, stands_at, events } = page;
    let reset = |reason| Ok(Taken::Reset(Reset { reason, floor, head }));
    let from = match from {
        From::Now => head,
        From::Floor => floor,
        From::Cursor(cursor) if cursor.seq() > head.seq => return reset(ResetReason::Future),
        From::Cursor(cursor) if cursor.seq() < floor.seq => return reset(ResetReason::Pruned),
        From::Cursor(cursor) => {
            let known = if cursor.seq() == floor.seq { Some(floor.hash) } else { stands_at };
            let Some(hash) = known else { return Err(missing(cursor.seq(), head)) };
            if !cursor.is_at(&hash) {
                return reset(ResetReason::OtherLog);
            }
            Position { seq: cursor.seq(), hash }
        }
    };
    let mut verifier = Verifier::after(from);
    events.iter().try_for_each(|event| verifier.event(event))?;
    let last = verifier.position().unwrap_or(from);
    if events.is_empty() && last.seq < head.seq {
        return Err(missing(last.seq + 1, head));
    }
    if last.seq > head.seq {
        return Err(Broken { seq: head.seq + 1, fault: Fault::Beyond { head: head.seq } });
    }
    if last.seq == head.seq && last.hash != head.hash {
        let fault = Fault::Anchor { expected: head.hash.to_string(), found: Some(last.hash) };
        return Err(Broken { seq: last.seq, fault });
    }
    Ok(Taken::Events { from, events, is_all: last.seq == head.seq })
}

fn missing(seq: i64, head: Position) -> Broken {
    Broken { seq, fault: Fault::Missing { head: head.seq } }
}

#[cfg(test)]
mod tests {
    use super::super::chain::tests::log;
    use super::*;

    fn at(events: &[Event], seq: usize) -> Position {
        seq.checked_sub(1)
            .map_or(Position::START, |at| Position { seq: events[at].seq, hash: events[at].hash })
    }

    /// What a database with `events` answers to a reader at `after`, of which those up to `floor` have been cut off.
    fn page(events: &[Event], floor: usize, after: usize, limit: usize) -> Page {
        Page {
            head: at(events, events.len()),
            floor: at(events, floor),
            stands_at: (after > floor && after <= events.len()).then(|| at(events, after).hash),
            events: events.iter().skip(after.max(floor)).take(limit).cloned().collect(),
        }
    }

    fn cursor(text: &str) -> From {
        From::Cursor(text.parse().expect("a cursor"))
    }

    #[test]
    fn a_reader_goes_on_where_it_stood_page_by_page() {
        let log = log(10);
        for after in 0..=10 {
            let from = From::Cursor(at(&log, after).cursor());
            let taken = take(from, page(&log, 0, after, 4)).expect("good");
            let rest: Vec<_> = log[after..].iter().take(4).cloned().collect();
            assert_eq!(taken, Taken::Events { from: at(&log, after), events: rest, is_all: after >= 6 });
        }
        let taken = take(From::Now, Page { events: vec![], ..page(&log, 0, 10, 4) }).expect("good");
        assert_eq!(taken, Taken::Events { from: at(&log, 10), events: vec![], is_all: true });
        let taken = take(From::Floor, page(&log, 3, 3, 1)).expect("good");
        assert_eq!(taken, Taken::Events { from: at(&log, 3), events: log[3..4].to_vec(), is_all: false });
    }

    #[test]
    fn a_place_of_no_use_leads_to_the_floor_and_says_why() {
        let log = log(10);
        let reason = |from: From, after: usize| match take(from, page(&log, 4, after, 9)).expect("good") {
            Taken::Reset(reset) => {
                assert_eq!((reset.floor, reset.head), (at(&log, 4), at(&log, 10)));
                Some(reset.reason)
            }
            Taken::Events { .. } => None,
        };
        assert_eq!(reason(cursor("11"), 11), Some(ResetReason::Future));
        assert_eq!(reason(cursor("11-00000000"), 11), Some(ResetReason::Future));
        assert_eq!(reason(cursor("3"), 3), Some(ResetReason::Pruned));
        assert_eq!(reason(From::Cursor(at(&log, 3).cursor()), 3), Some(ResetReason::Pruned));
        assert_eq!(reason(cursor("0"), 0), Some(ResetReason::Pruned));
        assert_eq!(reason(cursor("4"), 4), None);
        assert_eq!(reason(From::Cursor(at(&log, 4).cursor()), 4), None);
        assert_eq!(reason(cursor("4-00000000"), 4), Some(ResetReason::OtherLog));
        assert_eq!(reason(cursor("7-00000000"), 7), Some(ResetReason::OtherLog));
        assert_eq!(reason(cursor("10-00000000"), 10), Some(ResetReason::OtherLog));
        assert_eq!(reason(From::Cursor(at(&log, 10).cursor()), 10), None);
    }

    #[test]
    fn what_is_missing_or_changed_is_damage_and_no_reset() {
        let log = log(10);
        let word = |from: From, page: Page| {
            take(from, page).map_err(|broken| (broken.seq, broken.fault.word())).expect_err("broken")
        };
        let good = page(&log, 0, 4, 3);
        let without = |at: usize| {
            let mut page = good.clone();
            page.events.remove(at);
            page
        };
        assert_eq!(word(cursor("4"), without(0)), (5, "seq"));
        assert_eq!(word(cursor("4"), without(1)), (6, "seq"));
        assert_eq!(word(cursor("4"), Page { events: vec![], ..good.clone() }), (5, "missing"));
        assert_eq!(word(cursor("4"), Page { stands_at: None, ..good.clone() }), (4, "missing"));
        let mut changed = good.clone();
        changed.events[1].actor.push('x');
        assert_eq!(word(cursor("4"), changed), (6, "hash"));
        let set_back = Page { head: at(&log, 6), ..good.clone() };
        assert_eq!(word(cursor("4"), set_back), (7, "beyond"));
        let end = page(&log, 0, 4, 6);
        let head = Position { hash: Hash::ZERO, ..end.head };
        assert_eq!(word(cursor("4"), Page { head, ..end }), (10, "anchor"));
    }
}
