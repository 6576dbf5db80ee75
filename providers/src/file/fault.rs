//! What the operating system says, in the provider's words.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;

use super::parent;
use crate::{ErrorKind, ProviderError};

/// An error of `kind` at `path`.
pub(super) fn at(path: &Path, kind: ErrorKind, detail: impl Into<String>) -> ProviderError {
    ProviderError::new(kind, path.display().to_string(), detail)
}

/// Why `path` could not be read. The system's own words come along only where ours do not say the same.
pub(super) fn reading(path: &Path, error: io::Error) -> ProviderError {
    let (kind, detail) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::NotFound, "there is no such file or directory".to_owned()),
        io::ErrorKind::NotADirectory => {
            (ErrorKind::NotFound, "a part of the path is a file, not a directory".to_owned())
        }
        io::ErrorKind::PermissionDenied => (ErrorKind::Denied, denied(path, "read")),
        _ if is(&error, Errno::LOOP) => {
            (ErrorKind::Malformed, "symbolic links lead round in a circle".to_owned())
        }
        _ if is(&error, Errno::NXIO) => (ErrorKind::Malformed, not_regular("a socket or device")),
        _ => return at(path, ErrorKind::Unavailable, "it cannot be read").with_source(error),
    };
    at(path, kind, detail)
}

/// Why `path` could not be written; nothing has changed there.
pub(super) fn writing(path: &Path, error: io::Error) -> ProviderError {
    let dir = parent(path).display();
    let (kind, detail) = match error.kind() {
        io::ErrorKind::NotFound => {
            (ErrorKind::NotFound, format!("the directory {dir} does not exist; create it first"))
        }
        io::ErrorKind::NotADirectory => (ErrorKind::NotFound, format!("{dir} is not a directory")),
        io::ErrorKind::PermissionDenied => (ErrorKind::Denied, denied(parent(path), "write in")),
        io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::ReadOnly, "the file system is mounted read-only".to_owned())
        }
        io::ErrorKind::ResourceBusy => {
            let detail = "it is a mount point of its own and cannot be replaced; mount its directory instead";
            (ErrorKind::ReadOnly, detail.to_owned())
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::Unavailable, format!("no space is left in {dir}; nothing was changed"))
        }
        _ => (ErrorKind::Unavailable, "it cannot be written, nothing was changed".to_owned()),
    };
    at(path, kind, detail).with_source(error)
}

/// The new content is in place but the disk has not confirmed it.
pub(super) fn unconfirmed(path: &Path, error: io::Error) -> ProviderError {
    let detail = "it is written, but the directory could not be flushed to disk";
    at(path, ErrorKind::OutcomeUnknown, detail).with_source(error)
}

/// Words for something that is there and is no file.
pub(super) fn not_regular(what: &str) -> String {
    format!("it is {what}, not a regular file")
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Who may not do it, and whose the place is: what one needs to see that a Secret volume lacks `fsGroup`.
fn denied(path: &Path, verb: &str) -> String {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match fs::metadata(path) {
        Ok(found) => format!(
            "uid {uid}, gid {gid} may not {verb} it: its mode is {:04o}, its owner {}, its group {}",
            found.mode() & 0o7777,
            found.uid(),
            found.gid()
        ),
        Err(_) => format!("uid {uid}, gid {gid} may not {verb} it, or may not enter a directory above it"),
    }
}
