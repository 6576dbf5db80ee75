//! Reading small files: the configuration, and secrets that a `…_FILE` variable names.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use thiserror::Error;
use zeroize::Zeroizing;

/// What was read. Zeroized when dropped, since it may hold a secret.
pub(crate) struct Content {
    /// The text, without a byte-order mark.
    pub(crate) text: Zeroizing<String>,
    /// Whether every user of this host may read the file.
    pub(crate) is_world_readable: bool,
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
    #[error("it is larger than {} KiB", MAX_LEN / 1024)]
    TooLarge,
    /// Not text.
    #[error("line {line} is not UTF-8")]
    NotUtf8 {
        /// From 1.
        line: usize,
    },
    /// The system says no.
    #[error("{0}")]
    Io(std::io::Error),
}

/// Reads a whole text file of at most 1 MiB. Pipes are taken too, so that a shell can substitute a process.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn read(path: &Path) -> Result<Content, ReadError> {
    let file = File::open(path).map_err(of_io)?;
    let metadata = file.metadata().map_err(of_io)?;
    if metadata.is_dir() {
        return Err(ReadError::Directory);
    }
    // Reserved at once: growing would leave copies of a secret behind in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_LEN + 1));
    file.take(MAX_LEN as u64 + 1).read_to_end(&mut bytes).map_err(of_io)?;
    if bytes.len() > MAX_LEN {
        return Err(ReadError::TooLarge);
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| ReadError::NotUtf8 {
        line: 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count(),
    })?;
    let text = Zeroizing::new(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned());
    Ok(Content { text, is_world_readable: metadata.permissions().mode() & 0o004 != 0 })
}

fn of_io(error: std::io::Error) -> ReadError {
    match error.kind() {
        ErrorKind::NotFound => ReadError::NotFound,
        ErrorKind::IsADirectory => ReadError::Directory,
        _ => ReadError::Io(error),
    }
}

/// A configuration has some kilobytes; a key of 8192 bits has seven.
pub(crate) const MAX_LEN: usize = 1024 * 1024;
