//! Whether what is read is the whole log and nothing but it: numbers without a gap, each event chained to the one
//! before, its hash that of its text, and time that does not go back.
//!
//! One judge for all who read: a file, standard input, the live database, a follower. Each gives it lines, so that a row
//! that was edited by hand fails in the same words as a line that was.

use std::io::{self, BufRead, Read};

use super::cursor::Position;
use super::draft::MAX_PAYLOAD;
use super::line::{Event, Hash, NotALine};

/// Why the log is broken, and from where on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event log is broken at seq {seq}: {fault}")]
#[non_exhaustive]
pub struct Broken {
    /// The event that should stand there. Those before it are as they were written.
    pub seq: i64,
    /// What is wrong.
    pub fault: Fault,
}

impl Broken {
    /// The event `seq` should have a hash that is, or begins with, `expected`, as was noted down elsewhere.
    pub fn unanchored(seq: i64, expected: impl Into<String>, found: Option<Hash>) -> Self {
        Self { seq, fault: Fault::Anchor { expected: expected.into(), found } }
    }
}

/// What is wrong at one place of the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Not an event in the form in which the log writes them.
    #[error("no event stands there: {0}")]
    Form(NotALine),
    /// Longer than any event.
    #[error("the line is longer than any event, {MAX_LINE} bytes")]
    TooLong,
    /// A last line without an end.
    #[error("the last line has no end: what was read is cut off")]
    CutOff,
    /// Events are missing, doubled or in another order.
    #[error("seq {found} stands there: events are missing, doubled or in another order")]
    Seq {
        /// The number that was there.
        found: i64,
    },
    /// It is not there, and the log goes on, or should.
    #[error("it is missing: the log's head stands at seq {head}")]
    Missing {
        /// The number of the last event there was.
        head: i64,
    },
    /// It stands behind the head.
    #[error("it is there, and the log's head stands at seq {head}: the head was set back")]
    Beyond {
        /// The number at which the log ends by its head.
        head: i64,
    },
    /// It stands where everything has been cut off, or before the first that there ever was.
    #[error("it is there, and the log begins after seq {floor}: it was put in by hand")]
    Below {
        /// The number of the last event that was cut off.
        floor: i64,
    },
    /// The row that says where the log ends does not follow from its last event.
    #[error("the log's head, the row of oneseal.event_head, is not what was written: {why}")]
    Head {
        /// What is wrong with it.
        why: String,
    },
    /// The row that says where the log begins does not follow from its events.
    #[error("the log's floor, the row of oneseal.event_floor, is not what was written: {why}")]
    Floor {
        /// What is wrong with it.
        why: String,
    },
    /// Chained to something else than the event before.
    #[error("prev_hash is {found}, and the event before has the hash {expected}")]
    PrevHash {
        /// The hash of the event before.
        expected: Hash,
        /// What stands in this one.
        found: Hash,
    },
    /// The text is not what was hashed.
    #[error(
        "its hash is {found}, and that of what it says is {computed}: it was changed after it was written"
    )]
    Hash {
        /// The hash of the text.
        computed: Hash,
        /// What stands there.
        found: Hash,
    },
    /// Earlier than the event before.
    #[error("its time {at} lies before that of the event before, {before}")]
    Time {
        /// Its time.
        at: String,
        /// The one before's.
        before: String,
    },
    /// The log ends before an event that is known to have been there, or another one stands there.
    #[error("it should have the hash {expected}, and {}", found.map_or_else(|| "the log ends before it".to_owned(), |found| format!("has {found}")))]
    Anchor {
        /// The hash that was noted down elsewhere, or the beginning of one.
        expected: String,
        /// What stands there.
        found: Option<Hash>,
    },
}

impl Fault {
    /// One word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Form(_) => "form",
            Self::TooLong => "too_long",
            Self::CutOff => "cut_off",
            Self::Seq { .. } => "seq",
            Self::Missing { .. } => "missing",
            Self::Beyond { .. } => "beyond",
            Self::Below { .. } => "below",
            Self::Head { .. } => "head",
            Self::Floor { .. } => "floor",
            Self::PrevHash { .. } => "prev_hash",
            Self::Hash { .. } => "hash",
            Self::Time { .. } => "time",
            Self::Anchor { .. } => "anchor",
        }
    }
}

/// Judges one event after the other.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    after: Option<Position>,
    first: Option<i64>,
    last_at: Option<String>,
    count: u64,
}

impl Verifier {
    /// From wherever the first event stands: an export need not begin with the first event there ever was. What that is
    /// chained to is then taken as it stands, unless it is number 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// From the event after `position` on.
    pub fn after(position: Position) -> Self {
        Self { after: Some(position), ..Self::default() }
    }

    /// The event that is written in `line`, if it is the next one.
    ///
    /// # Errors
    /// It is not. The verifier stands where it stood.
    pub fn line(&mut self, line: &[u8]) -> Result<Event, Broken> {
        let event = Event::parse(line).map_err(|error| self.broken(Fault::Form(error)))?;
        self.judge(&event)?;
        Ok(event)
    }

    /// Whether `event`, which came from elsewhere than a line, is the next one.
    ///
    /// # Errors
    /// It is not, or it is none. The verifier stands where it stood.
    pub fn event(&mut self, event: &Event) -> Result<(), Broken> {
        self.line(event.line().as_bytes()).map(drop)
    }

    /// The place after the last good event; `None` before the first.
    pub fn position(&self) -> Option<Position> {
        self.after
    }

    /// How many were good.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of the first.
    pub fn first(&self) -> Option<i64> {
        self.first
    }

    fn judge(&mut self, event: &Event) -> Result<(), Broken> {
        let after = match self.after {
            Some(after) => after,
            None if event.seq == 1 => Position::START,
            None => Position { seq: event.seq - 1, hash: event.prev_hash },
        };
        if event.seq != after.seq + 1 {
            return Err(self.broken(Fault::Seq { found: event.seq }));
        }
        let broken = |fault| Err(Broken { seq: event.seq, fault });
        if event.prev_hash != after.hash {
            return broken(Fault::PrevHash { expected: after.hash, found: event.prev_hash });
        }
        let computed = event.computed_hash();
        if computed != event.hash {
            return broken(Fault::Hash { computed, found: event.hash });
        }
        if let Some(before) = self.last_at.as_ref().filter(|before| **before > event.at) {
            return broken(Fault::Time { at: event.at.clone(), before: before.clone() });
        }
        self.after = Some(Position { seq: event.seq, hash: event.hash });
        self.first.get_or_insert(event.seq);
        self.last_at = Some(event.at.clone());
        self.count += 1;
        Ok(())
    }

    fn broken(&self, fault: Fault) -> Broken {
        Broken { seq: self.after.map_or(1, |after| after.seq + 1), fault }
    }
}

/// Why NDJSON was not read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It does not hold the log.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// It could not be read.
    #[error("the events cannot be read")]
    Io(#[from] io::Error),
}

/// Reads NDJSON to its end, an event at a time, and gives each good one to `each`, with its line.
///
/// Never more than one line is held, whatever stands in `input`.
///
/// # Errors
/// At the first that is not good, or that `input` cannot give.
pub fn read_lines(
    mut input: impl BufRead,
    verifier: &mut Verifier,
    mut each: impl FnMut(&Event, &[u8]) -> io::Result<()>,
) -> Result<(), ReadError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = u64::try_from(MAX_LINE).unwrap_or(u64::MAX) + 1;
        if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.pop_if(|last| *last == b'\n').is_none() {
            let fault = if line.len() > MAX_LINE { Fault::TooLong } else { Fault::CutOff };
            return Err(verifier.broken(fault).into());
        }
        let event = verifier.line(&line)?;
        each(&event, &line)?;
    }
}

/// What a payload may have, and what stands around it with room to spare.
const MAX_LINE: usize = MAX_PAYLOAD + 16 * 1024;

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A good log of `count` events.
    pub(crate) fn log(count: i64) -> Vec<Event> {
        let mut last = Position::START;
        (1..=count)
            .map(|seq| {
                let event = chained(last, seq);
                last = Position { seq, hash: event.hash };
                event
            })
            .collect()
    }

    /// The event `seq`, after `last`.
    pub(crate) fn chained(last: Position, seq: i64) -> Event {
        let mut event = Event {
            seq,
            at: format!("2026-11-30T01:02:03.{seq:06}Z"),
            kind: "key.published".to_owned(),
            actor: "uid:0".to_owned(),
            issuer: "https://oidc.example".to_owned(),
            payload: format!("{{\"number\":{seq}}}"),
            prev_hash: last.hash,
            hash: Hash::ZERO,
        };
        event.hash = event.computed_hash();
        event
    }

    pub(crate) fn ndjson(events: &[Event]) -> String {
        events.iter().map(|event| event.line() + "\n").collect()
    }

    fn read(text: &[u8]) -> Result<u64, Broken> {
        let mut verifier = Verifier::new();
        match read_lines(text, &mut verifier, |_, _| Ok(())) {
            Ok(()) => Ok(verifier.count()),
            Err(ReadError::Broken(broken)) => Err(broken),
            Err(ReadError::Io(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn a_whole_log_is_good_and_so_is_an_end_of_one() {
        let events = log(20);
        assert_eq!(read(ndjson(&events).as_bytes()), Ok(20));
        assert_eq!(read(ndjson(&events[7..]).as_bytes()), Ok(13));
        assert_eq!(read(b""), Ok(0));
        let mut anchored = Verifier::after(Position { seq: 7, hash: events[6].hash });
        assert!(events[7..].iter().all(|event| anchored.event(event).is_ok()));
        assert_eq!(anchored.position(), Some(Position { seq: 20, hash: events[19].hash }));
    }

    #[test]
    fn each_way_of_changing_it_is_named_at_its_place() {
        let good = log(9);
        let judged = |change: &dyn Fn(&mut Vec<Event>)| {
            let mut events = good.clone();
            change(&mut events);
            read(ndjson(&events).as_bytes()).map_err(|broken| (broken.seq, broken.fault.word()))
        };
        let rehashed = |events: &mut Vec<Event>, at: usize| events[at].hash = events[at].computed_hash();
        assert_eq!(judged(&|events| events[4].actor.push('x')), Err((5, "hash")));
        assert_eq!(
            judged(&|events| {
                events[4].actor.push('x');
                rehashed(events, 4);
            }),
            Err((6, "prev_hash"))
        );
        assert_eq!(judged(&|events| drop(events.remove(4))), Err((5, "seq")));
        assert_eq!(judged(&|events| events.insert(4, events[3].clone())), Err((5, "seq")));
        assert_eq!(judged(&|events| events.swap(3, 4)), Err((4, "seq")));
        assert_eq!(judged(&|events| events[4].hash = events[5].hash), Err((5, "hash")));
        assert_eq!(judged(&|events| events[4].payload = "{}\n".to_owned()), Err((5, "form")));
        assert_eq!(judged(&|events| events[4].payload = "nonsense".to_owned()), Err((5, "form")));
        let earlier = |events: &mut Vec<Event>| {
            events.truncate(5);
            events[4].at.replace_range(..4, "2025");
            rehashed(events, 4);
        };
        assert_eq!(judged(&earlier), Err((5, "time")));
        let first_of_another = |events: &mut Vec<Event>| {
            events.truncate(1);
            events[0].prev_hash = events[0].hash;
            rehashed(events, 0);
        };
        assert_eq!(judged(&first_of_another), Err((1, "prev_hash")));
    }

    #[test]
    fn what_is_cut_off_or_endless_is_told_apart() {
        let text = ndjson(&log(3));
        let word = |text: &[u8]| read(text).map_err(|broken| (broken.seq, broken.fault.word()));
        assert_eq!(word(&text.as_bytes()[..text.len() - 1]), Err((3, "cut_off")));
        assert_eq!(word(&text.as_bytes()[..text.len() - 40]), Err((3, "cut_off")));
        assert_eq!(word(&vec![b'x'; 2 * MAX_LINE]), Err((1, "too_long")));
        assert_eq!(word(format!("{text}\n").as_bytes()), Err((4, "form")));
        assert_eq!(word(text.replace('\n', "\r\n").as_bytes()), Err((1, "form")));
        assert_eq!(word(b"\xef\xbb\xbf{}\n"), Err((1, "form")));
    }

    #[test]
    fn the_golden_file_has_these_bytes_and_this_head() {
        let text = include_str!("../../tests/vectors/events.ndjson");
        let mut verifier = Verifier::new();
        read_lines(text.as_bytes(), &mut verifier, |_, _| Ok(())).expect("a good log");
        let head = verifier.position().expect("events");
        assert_eq!(head.cursor().to_string(), GOLDEN_HEAD);
        let mut kinds = text.lines().map(|line| Event::parse(line.as_bytes()).expect("an event").kind);
        assert_eq!(kinds.next_back().as_deref(), Some("events.pruned"));
    }

    const GOLDEN_HEAD: &str = "4-0ec58456";

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_changed_byte_goes_unnoticed(at in 0_usize..2000, to in any::<u8>()) {
            let good = ndjson(&log(5)).into_bytes();
            let at = at % good.len();
            prop_assume!(good[at] != to);
            let mut bad = good;
            bad[at] = to;
            // The first event's seq and prev_hash are what an export that begins there is taken by; they are hashed too.
            prop_assert!(read(&bad).is_err());
        }

        #[test]
        fn no_garbage_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            drop(read(&bytes));
        }
    }
}
