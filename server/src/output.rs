//! The one door to standard output and standard error.
//!
//! `println!` panics when the reader has gone, as in `oneseal keys list | head -1`. Here a reader that has seen enough
//! is no fault, and a disk that is full is one.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;

use serde_json::{Value, json};

use crate::exit::{Exit, Failure};

/// Writes `text` to standard output as it stands, without adding a line end.
///
/// # Errors
/// The text was not written; not if the reader has gone.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes `text` and a line end to standard output.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Writes an answer for scripts: `members` with `ok` and `exit` among them, in one line and in alphabetical order.
///
/// # Errors
/// As [`print`].
pub(crate) fn answer(mut members: Value, exit: Exit) -> Result<Exit, Failure> {
    members["ok"] = json!(exit == Exit::Done);
    members["exit"] = json!(exit.code());
    // The order of members depends on the features of a build otherwise.
    members.sort_all_objects();
    print_line(&members.to_string())?;
    Ok(exit)
}

/// Writes bytes to standard output as they stand.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    // Held so that nothing else of this process comes in between.
    let stdout = io::stdout().lock();
    // Not through `stdout` itself, which takes a descriptor that cannot be written for one that has been. One that is
    // closed cannot be told from /dev/null: the runtime opens that in its place before `main`.
    told(stdout.as_fd().try_clone_to_owned().and_then(|descriptor| write(File::from(descriptor), bytes)))
}

/// Tells how a verb has failed: as one object on standard output for a script, else on standard error.
pub(crate) fn fail(failure: &Failure, as_json: bool) {
    if as_json && print_line(&failure.to_json().to_string()).is_ok() {
        return;
    }
    complain(&format!("oneseal: {}", failure.in_full()));
}

/// Writes `text` and a line end to standard error. That it cannot be written there is nothing to tell anybody.
pub(crate) fn complain(text: &str) {
    drop(write(io::stderr().lock(), format!("{text}\n").as_bytes()));
}

/// Text that may be anybody's, in one line and without what a terminal would obey.
pub(crate) fn fit_for_terminal(text: &str) -> String {
    let fit = |letter: char| {
        if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() }
    };
    text.chars().map(fit).collect()
}

/// Whether a person is likely to read standard output as it is written.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

fn write(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// What became of writing to standard output: a reader that has gone is no fault.
///
/// # Errors
/// It was not written (70).
pub(crate) fn told(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Internal, "standard output could not be written").because(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_no_fault_and_a_full_disk_is_one() {
        assert!(told(Err(ErrorKind::BrokenPipe.into())).is_ok());
        let failure = told(Err(ErrorKind::StorageFull.into())).expect_err("not written");
        assert_eq!(failure.exit(), Exit::Internal);
    }
}
