//! The one door to standard output and standard error.
//!
//! `println!` panics when the reader has gone, as in `oneseal keys list | head -1`. Here a reader that has seen enough
//! is no fault, and a disk that is full is one.

use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::exit::{Exit, Failure};

/// Writes `text` to standard output as it stands, without adding a line end.
///
/// # Errors
/// The text was not written; not if the reader has gone.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    told(write(io::stdout().lock(), text))
}

/// Writes `text` and a line end to standard output.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Writes `text` and a line end to standard error. That it cannot be written there is nothing to tell anybody.
pub(crate) fn complain(text: &str) {
    drop(write(io::stderr().lock(), &format!("{text}\n")));
}

/// Whether a person is likely to read standard output as it is written.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

fn write(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

fn told(written: io::Result<()>) -> Result<(), Failure> {
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
