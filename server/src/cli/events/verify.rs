//! `oneseal events verify`: whether the log holds together.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oneseal_coordination::database::Database;
use oneseal_coordination::events::{
    Broken, Cursor, Event, From, Hash, LogError, Position, Read, ReadError, Reader, Verifier, audit,
    read_lines,
};
use serde_json::{Value, json};

use super::super::Globals;
use crate::exit::{Exit, Failure};
use crate::output;

/// Which log.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that `events export` has written, or - for standard input [default: the live database]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// An event that must be in it: SEQ-HASH, with the hash as 64 hex digits or the first 8, noted down before
    #[arg(long, value_name = "SEQ-HASH")]
    head: Option<Anchor>,
    /// Print one JSON object, whatever the answer is
    #[arg(long)]
    json: bool,
}

/// An event that was noted down.
#[derive(Clone, Debug)]
struct Anchor {
    seq: i64,
    hash: String,
}

impl FromStr for Anchor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write SEQ-HASH, such as 41-9f86d081, or with all 64 digits of the hash".to_owned();
        let (seq, hash) = text.split_once('-').ok_or_else(wrong)?;
        let is_whole = hash.parse::<Hash>().is_ok();
        if !is_whole && text.parse::<Cursor>().is_err() {
            return Err(wrong());
        }
        let seq: Cursor = seq.parse().map_err(|_| wrong())?;
        Ok(Self { seq: seq.seq(), hash: hash.to_owned() })
    }
}

/// What was read.
#[derive(Debug, Default)]
struct Seen {
    verifier: Verifier,
    noted: Noted,
}

/// What the check of an anchor goes by.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    /// The event before the first one, as that is chained to it.
    before: Option<Position>,
    /// The hash of the event that was asked for.
    anchored: Option<Hash>,
}

/// Verifies, and prints what was there, or where it is broken and why (1).
///
/// # Errors
/// It is broken, or cannot be read.
pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { file, head, json } = args;
    let mut seen = Seen::default();
    let judged = match file {
        None => live(&super::open(globals)?, &mut seen, head.as_ref()).await?,
        Some(path) => from_file(&path, &mut seen, head.as_ref())?,
    };
    let judged = match judged {
        Ok(()) => anchored(&seen.noted, head.as_ref())?,
        broken => broken,
    };
    if json {
        return answer(&seen, judged.as_ref().err());
    }
    judged.map_err(|broken| super::no(&broken))?;
    output::print_line(&told(&seen))?;
    Ok(Exit::Done)
}

impl Noted {
    fn note(&mut self, event: &Event, head: Option<&Anchor>) {
        self.before.get_or_insert(Position { seq: event.seq - 1, hash: event.prev_hash });
        if head.is_some_and(|head| head.seq == event.seq) {
            self.anchored = Some(event.hash);
        }
    }
}

async fn live(
    database: &Database,
    seen: &mut Seen,
    head: Option<&Anchor>,
) -> Result<Result<(), Broken>, Failure> {
    match read(database, seen, head).await {
        // What stands outside of the events, or keeps them from being read.
        Ok(()) | Err(LogError::NoLog) => audit(database).await.map_err(super::unread),
        Err(LogError::Broken(broken)) => Ok(Err(broken)),
        Err(error) => Err(super::unread(error)),
    }
}

async fn read(database: &Database, seen: &mut Seen, head: Option<&Anchor>) -> Result<(), LogError> {
    let mut reader = Reader::new(From::Floor);
    loop {
        let Read::Events(events) = reader.read(database).await? else {
            // Its beginning was cut off meanwhile: what is left is read from there.
            *seen = Seen::default();
            continue;
        };
        for event in &events {
            // Once more, since one page knows nothing of the time in the one before.
            seen.verifier.event(event)?;
            seen.noted.note(event, head);
        }
        if reader.is_at_end() {
            return Ok(());
        }
    }
}

fn from_file(path: &Path, seen: &mut Seen, head: Option<&Anchor>) -> Result<Result<(), Broken>, Failure> {
    let Seen { verifier, noted } = seen;
    let each = |event: &Event, _: &[u8]| {
        noted.note(event, head);
        Ok(())
    };
    let read = if path == Path::new("-") {
        read_lines(io::stdin().lock(), verifier, each)
    } else {
        let file = File::open(path).map_err(|error| not_read(path, error))?;
        read_lines(BufReader::new(file), verifier, each)
    };
    match read {
        Ok(()) => Ok(Ok(())),
        Err(ReadError::Broken(broken)) => Ok(Err(broken)),
        Err(ReadError::Io(error)) => Err(not_read(path, error)),
        Err(error) => Err(Failure::internal("the events cannot be read").because(error)),
    }
}

fn not_read(path: &Path, error: io::Error) -> Failure {
    Failure::refused(format!("{} cannot be read", path.display())).because(error)
}

/// Whether the event that was asked for is what was noted down. The last one that was cut off is known by its hash.
///
/// # Errors
/// It was before all that is left: a log that was pruned is not broken for it, and proves nothing either.
fn anchored(noted: &Noted, head: Option<&Anchor>) -> Result<Result<(), Broken>, Failure> {
    let Some(Anchor { seq, hash }) = head else { return Ok(Ok(())) };
    let before = noted.before.filter(|before| before.seq > 0);
    let of_cut = before.filter(|before| before.seq == *seq).map(|before| before.hash);
    match noted.anchored.or(of_cut) {
        Some(found) if found.to_string().starts_with(hash) => Ok(Ok(())),
        None if before.is_some_and(|before| *seq < before.seq) => Err(too_early(*seq, hash, before)),
        found => Ok(Err(Broken::unanchored(*seq, hash, found))),
    }
}

fn too_early(seq: i64, hash: &str, before: Option<Position>) -> Failure {
    let begins = before.map(|before| before.cursor().to_string()).unwrap_or_default();
    let message = format!(
        "event {seq} is not in it any more, so whether it was {seq}-{hash} cannot be told: the log begins after {begins}"
    );
    Failure::refused(message).with_hint(
        "What is there holds together. Ask an export that was made before the log was cut: oneseal events verify FILE \
         --head SEQ-HASH.",
    )
}

fn told(seen: &Seen) -> String {
    let (Some(first), Some(Position { seq, hash })) = (seen.verifier.first(), seen.verifier.position())
    else {
        return "verified: the log is empty".to_owned();
    };
    format!("verified: {}, {first} to {seq}; the head is {seq}-{hash}", super::events(seen.verifier.count()))
}

fn answer(seen: &Seen, broken: Option<&Broken>) -> Result<Exit, Failure> {
    let exit = if broken.is_some() { Exit::No } else { Exit::Done };
    let last = seen.verifier.position();
    let members = json!({
        "events": seen.verifier.count(),
        "first": seen.verifier.first(),
        "last": last.map(|last| last.seq),
        "head": last.map(|last| last.cursor().to_string()),
        "hash": last.map(|last| last.hash.to_string()),
        "broken": broken.map(broken_json),
    });
    output::answer(members, exit)
}

/// Where and why, for scripts.
pub(super) fn broken_json(broken: &Broken) -> Value {
    json!({ "seq": broken.seq, "fault": broken.fault.word(), "message": broken.to_string() })
}
