//! `oneseal events export`: the log as NDJSON.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use oneseal_coordination::database::Database;
use oneseal_coordination::events::{Broken, Cursor, Position, Verifier, read_raw};
use serde_json::json;
use uuid::Uuid;

use super::super::Globals;
use crate::exit::{Exit, Failure};
use crate::{files, output};

/// Which events, and whereto.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Begin after this event: its number, or its id such as 41-9f86d081 [default: all that is kept]
    #[arg(long, value_name = "ID")]
    after: Option<Cursor>,
    /// End with the event of this number [default: the last one when it begins]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(i64).range(1..))]
    until: Option<i64>,
    /// Write them to this new file, whole or not at all, in place of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --output: print one JSON object: events, first, last, head, broken
    #[arg(long, requires = "output")]
    json: bool,
}

/// Writes them.
///
/// # Errors
/// The database does not answer, the place was cut off, or the file cannot be written. A log that is broken is written all
/// the same (1).
pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { after, until, output, json } = args;
    let database = super::open(globals)?;
    let Some(path) = output else {
        let mut stdout = BufWriter::new(io::stdout());
        let written = write(&database, after, until, &mut stdout).await;
        return match written {
            Ok(written) => written.broken.as_ref().map_or(Ok(Exit::Done), |broken| Err(super::no(broken))),
            // A reader that has seen enough.
            Err(Trouble::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Done),
            Err(trouble) => Err(trouble.told(Path::new("standard output"))),
        };
    };
    let written = to_file(&database, after, until, &path).await?;
    let exit = if written.broken.is_some() { Exit::No } else { Exit::Done };
    if json {
        return output::answer(written.json(), exit);
    }
    output::print_line(&format!("{} written to {}", super::events(written.count), path.display()))?;
    written.broken.as_ref().map_or(Ok(Exit::Done), |broken| Err(super::no(broken)))
}

/// By way of a file beside it, so that a name never has half a log. Never over what is there: it may be the only copy of
/// what has been pruned since.
async fn to_file(
    database: &Database,
    after: Option<Cursor>,
    until: Option<i64>,
    path: &Path,
) -> Result<Written, Failure> {
    files::refuse_existing(path)?;
    let mut temporary = path.to_owned().into_os_string();
    temporary.push(format!(".{}", Uuid::new_v4().simple()));
    let temporary = PathBuf::from(temporary);
    let file = File::options().write(true).create_new(true).open(&temporary);
    let file = file.map_err(|error| files::not_written(path, error))?;
    let written = async {
        let mut buffered = BufWriter::new(&file);
        let written = write(database, after, until, &mut buffered).await?;
        drop(buffered);
        file.sync_all().and_then(|()| files::rename_to_new(&temporary, path)).map_err(Trouble::Write)?;
        Ok(written)
    };
    written.await.map_err(|trouble: Trouble| {
        drop(std::fs::remove_file(&temporary));
        trouble.told(path)
    })
}

/// What was written.
struct Written {
    count: u64,
    first: Option<i64>,
    last: Option<Position>,
    broken: Option<Broken>,
}

impl Written {
    fn json(&self) -> serde_json::Value {
        let broken = self.broken.as_ref().map(super::verify::broken_json);
        json!({
            "events": self.count,
            "first": self.first,
            "last": self.last.map(|last| last.seq),
            "head": self.last.map(|last| last.cursor().to_string()),
            "broken": broken,
        })
    }
}

enum Trouble {
    Read(Failure),
    Write(io::Error),
}

impl Trouble {
    fn told(self, path: &Path) -> Failure {
        match self {
            Self::Read(failure) => failure,
            Self::Write(error) => files::not_written(path, error),
        }
    }
}

async fn write(
    database: &Database,
    after: Option<Cursor>,
    until: Option<i64>,
    out: &mut impl Write,
) -> Result<Written, Trouble> {
    let mut at = after.map_or(0, |after| after.seq());
    let mut written = Written { count: 0, first: None, last: None, broken: None };
    let mut verifier: Option<Verifier> = None;
    let mut progress: Option<ProgressBar> = None;
    let mut until = until;
    loop {
        let page = read_raw(database, at).await.map_err(|error| Trouble::Read(super::unread(error)))?;
        if after.is_some() && verifier.is_none() && at < page.floor.seq {
            return Err(Trouble::Read(cut_off(at, page.floor)));
        }
        // The end is fixed when it begins: a busy log would never end.
        let until = *until.get_or_insert(page.head.seq);
        let verifier = verifier.get_or_insert_with(|| {
            if at <= page.floor.seq { Verifier::after(page.floor) } else { Verifier::new() }
        });
        let bar = progress.get_or_insert_with(|| bar(until.min(page.head.seq) - at.max(page.floor.seq)));
        let Some(last) = page.events.last().map(|event| event.seq) else { break };
        for event in page.events.iter().filter(|event| event.seq <= until) {
            if written.broken.is_none()
                && let Err(broken) = verifier.event(event)
            {
                written.broken = Some(broken);
            }
            out.write_all((event.line() + "\n").as_bytes()).map_err(Trouble::Write)?;
            written.count += 1;
            written.first.get_or_insert(event.seq);
            written.last = Some(Position { seq: event.seq, hash: event.hash });
        }
        bar.set_position(written.count);
        at = last;
        if at >= until {
            break;
        }
    }
    if let Some(bar) = progress {
        bar.finish_and_clear();
    }
    out.flush().map_err(Trouble::Write)?;
    Ok(written)
}

fn cut_off(after: i64, floor: Position) -> Failure {
    Failure::refused(format!(
        "what comes after event {after} is not kept any more: the log begins after {}",
        floor.cursor()
    ))
}

/// Told on a terminal alone.
fn bar(count: i64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} events");
    let bar = ProgressBar::new(u64::try_from(count).unwrap_or_default());
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
