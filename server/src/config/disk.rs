//! Reading small files: the configuration, and secrets that a `…_FILE` variable names.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use oneseal_coordination::{BootTime, Clock as _, SystemClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use thiserror::Error;
use zeroize::Zeroizing;

/// What was read. Zeroized when dropped, since it may hold a secret.
pub(crate) struct Content {
    /// The text, without a byte-order mark.
    pub(crate) text: Zeroizing<String>,
    /// Whether every user of this host may read the file.
    pub(crate) is_world_readable: bool,
    /// Whether every user of this host may change it.
    pub(crate) is_world_writable: bool,
}

/// Why a file was not read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// There is none.
    #[error("it does not exist")]
    NotFound,
    /// A directory.
    #[error("it is a directory")]
    Directory,
    /// Above the limit.
    #[error("it is larger than {} KiB", limit / 1024)]
    TooLarge {
        /// In octets.
        limit: usize,
    },
    /// Not ours to read.
    #[error("{0}")]
    Denied(String),
    /// A socket, which is connected to and not opened.
    #[error("it is a socket, not a file")]
    Socket,
    /// A named pipe that nobody has open.
    #[error("it is a FIFO into which nothing writes")]
    NoWriter,
    /// A pipe or terminal that is open and does not come to its end.
    #[error("it is a pipe or terminal that has not come to its end within {} s", PATIENCE.whole.as_secs())]
    Endless,
    /// Not text.
    #[error("line {line} is not UTF-8")]
    NotUtf8 {
        /// From 1.
        line: usize,
    },
    /// The system says no.
    #[error("{0}")]
    Io(io::Error),
}

/// Reads a whole text file of at most 1 MiB. Pipes are taken too, so that a shell can substitute a process: one that
/// somebody has open for writing is read for as long as a program that decrypts a file may take, one that nobody has is
/// given up after a second.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn read(path: &Path) -> Result<Content, ReadError> {
    read_with(path, &PATIENCE)
}

/// Reads a whole file of at most `limit` octets, text or not; a pipe as [`read`] does.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn read_bytes(path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    Ok(read_whole(path, limit, &PATIENCE)?.0)
}

fn read_with(path: &Path, patience: &Patience) -> Result<Content, ReadError> {
    let (bytes, metadata) = read_whole(path, MAX_LEN, patience)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| ReadError::NotUtf8 {
        line: 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count(),
    })?;
    let text = Zeroizing::new(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned());
    let mode = metadata.permissions().mode();
    Ok(Content { text, is_world_readable: mode & 0o004 != 0, is_world_writable: mode & 0o002 != 0 })
}

fn read_whole(
    path: &Path,
    limit: usize,
    patience: &Patience,
) -> Result<(Zeroizing<Vec<u8>>, Metadata), ReadError> {
    let file = open(path).map_err(|error| of_io(path, error))?;
    let metadata = file.metadata().map_err(|error| of_io(path, error))?;
    if metadata.is_dir() {
        return Err(ReadError::Directory);
    }
    // Reserved at once: growing would leave copies of a secret behind in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit + 1));
    read_to_end(&file, &metadata, &mut bytes, limit, patience)?;
    if bytes.len() > limit {
        return Err(ReadError::TooLarge { limit });
    }
    Ok((bytes, metadata))
}

/// Without waiting: opening a FIFO would last until somebody writes into it.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// To the end, or one byte beyond the limit. What has no end yet is waited for.
fn read_to_end(
    file: &File,
    metadata: &Metadata,
    bytes: &mut Vec<u8>,
    limit: usize,
    patience: &Patience,
) -> Result<(), ReadError> {
    let began = SystemClock.boot();
    // Before somebody opens a FIFO for writing it reads as if it had ended.
    let mut is_begun = !metadata.file_type().is_fifo();
    let mut is_last_look = false;
    loop {
        let left = (limit + 1).saturating_sub(bytes.len()) as u64;
        match file.take(left).read_to_end(bytes) {
            Ok(_) if is_begun || !bytes.is_empty() => return Ok(()),
            Ok(_) if is_last_look => return Err(ReadError::NoWriter),
            // What opens it and writes nothing yet wakes nobody: hence one more look.
            Ok(_) => match wait(file, began, patience.writer).map_err(ReadError::Io)? {
                true => is_begun = true,
                false => is_last_look = true,
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                is_begun = true;
                if !wait(file, began, patience.whole).map_err(ReadError::Io)? {
                    return Err(ReadError::Endless);
                }
            }
            Err(error) => return Err(ReadError::Io(error)),
        }
    }
}

/// Until there is something to read, or an end. `false` once `limit` is over.
fn wait(file: &File, began: BootTime, limit: Duration) -> io::Result<bool> {
    loop {
        let left = limit.saturating_sub(SystemClock.boot().since(began));
        let left = Timespec::try_from(left).map_err(|_| ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(ready) => return Ok(ready > 0),
        }
    }
}

fn of_io(path: &Path, error: io::Error) -> ReadError {
    match error.kind() {
        ErrorKind::NotFound => ReadError::NotFound,
        ErrorKind::IsADirectory => ReadError::Directory,
        ErrorKind::PermissionDenied => ReadError::Denied(denied(path, &error)),
        _ if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => ReadError::Socket,
        _ => ReadError::Io(error),
    }
}

/// Who may not read it, and whose it is.
fn denied(path: &Path, error: &io::Error) -> String {
    let uid = rustix::process::geteuid().as_raw();
    match fs::metadata(path) {
        Ok(found) => format!(
            "uid {uid} may not read it: its mode is {:04o}, its owner {}, its group {}",
            found.mode() & 0o7777,
            found.uid(),
            found.gid()
        ),
        Err(_) => format!("uid {uid} may not enter a directory above it ({error})"),
    }
}

/// How long to wait for a pipe.
struct Patience {
    /// For somebody to open it.
    writer: Duration,
    /// For its end.
    whole: Duration,
}

/// Whoever starts a writer beside us has it running in a second. What decrypts a file may ask a key server first.
const PATIENCE: Patience = Patience { writer: Duration::from_secs(1), whole: Duration::from_secs(30) };

/// A configuration has some kilobytes; a key of 8192 bits has seven.
pub(crate) const MAX_LEN: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write as _;
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use tempfile::TempDir;

    use super::*;

    /// So short that a test need not wait; it decides only where nobody writes.
    const SHORT: Patience = Patience { writer: Duration::from_millis(20), whole: Duration::from_millis(40) };

    fn fifo() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        (dir, path)
    }

    /// Opening it for both ends waits for nobody.
    fn writer(path: &Path) -> File {
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    #[test]
    fn a_pipe_that_nobody_has_open_is_given_up() {
        let (_dir, path) = fifo();
        assert!(matches!(read_with(&path, &SHORT), Err(ReadError::NoWriter)));
    }

    #[test]
    fn what_never_ends_is_read_up_to_a_limit() {
        let endless = read_bytes(Path::new("/dev/zero"), 10);
        assert!(endless.is_err_and(|error| matches!(error, ReadError::TooLarge { limit: 10 })));
        assert_eq!(*read_bytes(Path::new("/dev/null"), 0).unwrap(), b"");
    }

    #[test]
    fn a_pipe_whose_writer_says_nothing_is_given_up_later() {
        let (_dir, path) = fifo();
        let mut silent = writer(&path);
        assert!(matches!(read_with(&path, &SHORT), Err(ReadError::Endless)));
        silent.write_all(b"[issuer]").unwrap();
        assert!(matches!(read_with(&path, &SHORT), Err(ReadError::Endless)), "half of it is nothing");
    }

    #[test]
    fn what_a_slow_writer_writes_in_parts_is_read_to_its_end() {
        let (_dir, path) = fifo();
        let reading = path.clone();
        let reader = std::thread::Builder::new().spawn(move || read(&reading)).unwrap();
        // Returns once the reader has opened the other end.
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        for part in ["[issuer]\n", "url = \"https://oidc.example\"\n"] {
            writer.write_all(part.as_bytes()).unwrap();
            std::thread::yield_now();
        }
        drop(writer);
        let content = reader.join().unwrap().unwrap();
        assert_eq!(*content.text, "[issuer]\nurl = \"https://oidc.example\"\n");
    }

    #[test]
    fn a_pipe_that_never_ends_is_cut_at_the_limit() {
        let (_dir, path) = fifo();
        let reading = path.clone();
        let reader = std::thread::Builder::new().spawn(move || read(&reading)).unwrap();
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        // Until the reader has gone.
        while writer.write_all(&[b'#'; 4096]).is_ok() {}
        assert!(matches!(reader.join().unwrap(), Err(ReadError::TooLarge { limit: MAX_LEN })));
    }
}
