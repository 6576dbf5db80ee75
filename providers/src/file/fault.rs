//! What the operating system says, in the provider's words.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::parent;
use crate::{ErrorKind, ProviderError};

/// A path as it can be shown: a name in a directory is up to whoever may write there, and must neither break a line of a
/// report nor steer a terminal.
pub(super) fn shown(path: &Path) -> String {
    let escaped = |c: char| {
        let hidden = c.is_control().then(|| c.escape_default());
        let plain = hidden.is_none().then_some(c);
        hidden.into_iter().flatten().chain(plain)
    };
    path.to_string_lossy().chars().flat_map(escaped).collect()
}

/// An error of `kind` at `path`.
pub(super) fn at(path: &Path, kind: ErrorKind, detail: impl Into<String>) -> ProviderError {
    ProviderError::new(kind, shown(path), detail)
}

/// Why `path` could not be read. The system's own words come along only where ours do not say the same.
pub(super) fn reading(path: &Path, error: io::Error) -> ProviderError {
    match met_in_reading(&error) {
        (ErrorKind::Denied, _) => at(path, ErrorKind::Denied, denied(path, Access::Read)),
        (kind, words) if errno(&error) == Some(Errno::NOENT) => at(path, kind, absent(path, words)),
        (ErrorKind::Unavailable, words) => at(path, ErrorKind::Unavailable, words).with_source(error),
        (kind, words) => at(path, kind, words),
    }
}

/// Why `path` could not be written; nothing has changed there.
pub(super) fn writing(path: &Path, error: io::Error) -> ProviderError {
    let dir = parent(path);
    let (kind, words) = met_in_writing(&error);
    let detail = match kind {
        ErrorKind::Denied => denied(dir, Access::Write),
        _ => words.replace("{dir}", &shown(dir)),
    };
    at(path, kind, detail).with_source(error)
}

/// What each error of open(2), read(2), stat(2) or getdents(2) means. What waiting may cure is `Unavailable`, since that
/// is tried again until `boot_timeout`; what it cannot cure must not be, or an operator waits a minute for the answer.
fn met_in_reading(error: &io::Error) -> (ErrorKind, &'static str) {
    match errno(error) {
        Some(Errno::NOENT) => (ErrorKind::NotFound, "there is no such file or directory"),
        Some(Errno::NOTDIR) => (ErrorKind::NotFound, "a part of the path is a file, not a directory"),
        Some(Errno::NAMETOOLONG) => (ErrorKind::NotFound, NAME_TOO_LONG),
        // The second is also what a name with a zero byte gets.
        Some(Errno::ILSEQ | Errno::INVAL) => (ErrorKind::NotFound, NO_SUCH_NAME),
        Some(Errno::ACCESS | Errno::PERM) => (ErrorKind::Denied, ""),
        Some(Errno::LOOP) => (ErrorKind::Malformed, "symbolic links lead round in a circle"),
        Some(Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP) => {
            (ErrorKind::Malformed, "it is a socket or device, not a regular file")
        }
        Some(Errno::ISDIR) => (ErrorKind::Malformed, "it is a directory"),
        Some(Errno::OVERFLOW | Errno::FBIG) => {
            (ErrorKind::Malformed, "it is larger than this system can read")
        }
        Some(Errno::BADMSG | DAMAGED) => (ErrorKind::Malformed, "the file system reports it as damaged"),
        Some(Errno::STALE) => {
            (ErrorKind::Unavailable, "the file server no longer knows it (stale file handle)")
        }
        Some(Errno::NOTCONN | Errno::CONNABORTED) => {
            (ErrorKind::Unavailable, "the program that serves this file system has ended")
        }
        Some(Errno::MFILE | Errno::NFILE) => (ErrorKind::Unavailable, "too many files are open (ulimit -n)"),
        _ => (ErrorKind::Unavailable, "it cannot be read"),
    }
}

/// The same for open(2) to create, link(2), rename(2), fsync(2) and flock(2).
fn met_in_writing(error: &io::Error) -> (ErrorKind, &'static str) {
    match errno(error) {
        Some(Errno::NOENT) => (ErrorKind::NotFound, "the directory {dir} does not exist; create it first"),
        Some(Errno::NOTDIR) => (ErrorKind::NotFound, "{dir} is not a directory"),
        Some(Errno::NAMETOOLONG) => (ErrorKind::NotFound, NAME_TOO_LONG),
        Some(Errno::ILSEQ | Errno::INVAL) => (ErrorKind::NotFound, NO_SUCH_NAME),
        Some(Errno::ACCESS | Errno::PERM) => (ErrorKind::Denied, ""),
        Some(Errno::ROFS) => (ErrorKind::ReadOnly, "the file system is mounted read-only"),
        Some(Errno::BUSY | Errno::XDEV | Errno::TXTBSY) => (ErrorKind::ReadOnly, MOUNTED_BY_ITSELF),
        Some(Errno::LOOP) => {
            (ErrorKind::ReadOnly, "a symbolic link stands there, which is not followed; remove it")
        }
        Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => (
            ErrorKind::ReadOnly,
            "the file system in {dir} has no locks, without which two writers could meet",
        ),
        Some(Errno::FBIG) => (ErrorKind::TooLarge, "it is larger than the file system or `ulimit -f` allows"),
        Some(Errno::NOSPC | Errno::DQUOT) => {
            (ErrorKind::Unavailable, "no space is left in {dir}; nothing was changed")
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            (ErrorKind::Unavailable, "too many files are open (ulimit -n); nothing was changed")
        }
        _ => (ErrorKind::Unavailable, "it cannot be written, nothing was changed"),
    }
}

/// The new content is in place but the disk has not confirmed it.
pub(super) fn unconfirmed(path: &Path, error: io::Error) -> ProviderError {
    let detail = "it is written, but the directory could not be flushed to disk";
    at(path, ErrorKind::OutcomeUnknown, detail).with_source(error)
}

/// Words for a file that is mounted by itself: a rename over it fails, and writing into it could be seen half done.
pub(super) const MOUNTED_BY_ITSELF: &str =
    "it is a mount point of its own and cannot be replaced; mount its directory instead";
const NAME_TOO_LONG: &str = "no file can be there: its name is longer than the file system takes";
const NO_SUCH_NAME: &str = "no file can be there: the file system takes no such name";
/// "Structure needs cleaning".
#[cfg(target_os = "linux")]
const DAMAGED: Errno = Errno::UCLEAN;
#[cfg(not(target_os = "linux"))]
const DAMAGED: Errno = Errno::BADMSG;

/// Errors that the standard library makes itself have no number: it finds a zero byte before the system does.
fn errno(error: &io::Error) -> Option<Errno> {
    let is_of_name = error.kind() == io::ErrorKind::InvalidInput;
    error.raw_os_error().map(Errno::from_raw_os_error).or(is_of_name.then_some(Errno::INVAL))
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

/// What of `path` is not there, and what may have been meant: most absent keys are a typing error away.
fn absent(path: &Path, words: &str) -> String {
    if let Ok(target) = fs::read_link(path) {
        return format!("it is a link to {}, which is not there", shown(&target));
    }
    let above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    if let Some(dir) = above.take_while(|dir| !dir.exists()).last() {
        return format!("{words}: already {} is missing", shown(dir));
    }
    match beside(path) {
        Some(near) => format!("{words}; did you mean {}?", shown(&near)),
        None => words.to_owned(),
    }
}

/// The entry of the same directory whose name is most like that of `path`, if it is like it.
fn beside(path: &Path) -> Option<PathBuf> {
    let wanted = path.file_name()?.to_str()?;
    let entries = fs::read_dir(parent(path)).ok()?.take(MOST_BESIDE).filter_map(Result::ok);
    let near = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
        let distance = strsim::damerau_levenshtein(wanted, &name);
        (distance <= wanted.len() / 3).then_some((distance, name))
    });
    near.min().map(|(_, name)| parent(path).join(name))
}

/// More entries than any directory of keys has: an error is no time to read a large one.
const MOST_BESIDE: usize = 1000;

/// Who may not do it, and whose the place is: what one needs to see that a Secret volume lacks `fsGroup`.
fn denied(path: &Path, access: Access) -> String {
    let me = Me::now();
    match (closed_directory(path), fs::metadata(path)) {
        (Some((dir, found)), _) => {
            format!("{me} may not enter {}: {}", shown(&dir), Owned::of(&found))
        }
        (None, Ok(found)) => words(&me, access, &Owned::of(&found)),
        (None, Err(_)) => format!("{me} may not get at it, or may not enter a directory above it"),
    }
}

/// Which user this process is.
#[derive(Clone, Copy)]
struct Me {
    uid: u32,
    gid: u32,
}

impl Me {
    fn now() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

impl fmt::Display for Me {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}, gid {}", self.uid, self.gid)
    }
}

/// Mode and owner of a file.
struct Owned {
    mode: u32,
    uid: u32,
    gid: u32,
}

impl Owned {
    fn of(found: &fs::Metadata) -> Self {
        Self { mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() }
    }
}

impl fmt::Display for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its mode is {:04o}, its owner {}, its group {}", self.mode, self.uid, self.gid)
    }
}

/// Where the mode does not explain it, something else does, and the operator is told to look there.
fn words(me: &Me, access: Access, place: &Owned) -> String {
    let (verb, wanted) = match access {
        Access::Read => ("read it", 0o400),
        Access::Write => ("write in it", 0o300),
    };
    let is_allowed = me.uid == place.uid && place.mode & wanted == wanted;
    let beyond = if is_allowed {
        "; the mode allows it, so a security module (SELinux, AppArmor) or a flag of the file does not"
    } else {
        ""
    };
    format!("{me} may not {verb}: {place}{beyond}")
}

/// The first directory on the way to `path` that this process may not search, links on the way resolved.
fn closed_directory(path: &Path) -> Option<(PathBuf, fs::Metadata)> {
    let absolute = std::path::absolute(path).ok()?;
    let mut above: Vec<_> = absolute.ancestors().skip(1).collect();
    above.reverse();
    let closed =
        above.into_iter().find(|dir| rustix::fs::access(*dir, rustix::fs::Access::EXEC_OK).is_err())?;
    let found = fs::metadata(closed).ok()?;
    Some((closed.to_owned(), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.raw_os_error())
    }

    /// Every error that the calls of a reader or a writer document, with what it must mean to each.
    #[cfg(target_os = "linux")]
    const MEANINGS: &[(Errno, ErrorKind, ErrorKind)] = {
        use ErrorKind::{Denied, Malformed, NotFound, ReadOnly, TooLarge, Unavailable};
        &[
            (Errno::NOENT, NotFound, NotFound),
            (Errno::NOTDIR, NotFound, NotFound),
            (Errno::NAMETOOLONG, NotFound, NotFound),
            (Errno::ILSEQ, NotFound, NotFound),
            (Errno::ACCESS, Denied, Denied),
            (Errno::PERM, Denied, Denied),
            (Errno::LOOP, Malformed, ReadOnly),
            (Errno::NXIO, Malformed, Unavailable),
            (Errno::NODEV, Malformed, Unavailable),
            (Errno::OPNOTSUPP, Malformed, ReadOnly),
            (Errno::ISDIR, Malformed, Unavailable),
            (Errno::INVAL, NotFound, NotFound),
            (Errno::OVERFLOW, Malformed, Unavailable),
            (Errno::FBIG, Malformed, TooLarge),
            (Errno::BADMSG, Malformed, Unavailable),
            (Errno::UCLEAN, Malformed, Unavailable),
            (Errno::ROFS, Unavailable, ReadOnly),
            (Errno::BUSY, Unavailable, ReadOnly),
            (Errno::XDEV, Unavailable, ReadOnly),
            (Errno::TXTBSY, Unavailable, ReadOnly),
            (Errno::NOSYS, Unavailable, ReadOnly),
            (Errno::NOLCK, Unavailable, ReadOnly),
            // A disk or a server that may come back.
            (Errno::IO, Unavailable, Unavailable),
            (Errno::STALE, Unavailable, Unavailable),
            (Errno::NOTCONN, Unavailable, Unavailable),
            (Errno::CONNABORTED, Unavailable, Unavailable),
            (Errno::CONNREFUSED, Unavailable, Unavailable),
            (Errno::TIMEDOUT, Unavailable, Unavailable),
            (Errno::HOSTDOWN, Unavailable, Unavailable),
            (Errno::HOSTUNREACH, Unavailable, Unavailable),
            (Errno::NETDOWN, Unavailable, Unavailable),
            (Errno::NETUNREACH, Unavailable, Unavailable),
            (Errno::REMOTEIO, Unavailable, Unavailable),
            // A ticket that is renewed, a directory that is unlocked after the start of the host.
            (Errno::KEYEXPIRED, Unavailable, Unavailable),
            (Errno::KEYREVOKED, Unavailable, Unavailable),
            (Errno::NOKEY, Unavailable, Unavailable),
            // A shortage that passes.
            (Errno::AGAIN, Unavailable, Unavailable),
            (Errno::INTR, Unavailable, Unavailable),
            (Errno::NOMEM, Unavailable, Unavailable),
            (Errno::MFILE, Unavailable, Unavailable),
            (Errno::NFILE, Unavailable, Unavailable),
            (Errno::NOSPC, Unavailable, Unavailable),
            (Errno::DQUOT, Unavailable, Unavailable),
            (Errno::DEADLK, Unavailable, Unavailable),
            (Errno::MLINK, Unavailable, Unavailable),
        ]
    };

    #[cfg(target_os = "linux")]
    #[test]
    fn every_error_of_the_system_has_a_considered_meaning() {
        for (errno, read, written) in MEANINGS {
            let path = Path::new("/nowhere/key");
            let (reading, writing) = (reading(path, of(*errno)), writing(path, of(*errno)));
            assert_eq!((reading.kind(), writing.kind()), (*read, *written), "{errno:?}");
            for error in [reading, writing] {
                assert!(error.detail().len() > 10 && !error.detail().contains('{'), "{errno:?}: {error}");
            }
        }
        let known = |code: i32| MEANINGS.iter().any(|(errno, ..)| errno.raw_os_error() == code);
        // The kernel's last error number is 133.
        for code in (1..=133).filter(|code| !known(*code)) {
            let error = || io::Error::from_raw_os_error(code);
            let kinds = (met_in_reading(&error()).0, met_in_writing(&error()).0);
            assert_eq!(kinds, (ErrorKind::Unavailable, ErrorKind::Unavailable), "{code}");
        }
    }

    #[test]
    fn a_denial_that_the_mode_does_not_explain_says_so() {
        let me = Me { uid: 65532, gid: 65532 };
        let place = |mode, uid| Owned { mode, uid, gid: 0 };
        assert_eq!(
            words(&me, Access::Read, &place(0o400, 0)),
            "uid 65532, gid 65532 may not read it: its mode is 0400, its owner 0, its group 0"
        );
        assert!(words(&me, Access::Read, &place(0o400, 65532)).contains("SELinux"));
        assert!(!words(&me, Access::Read, &place(0o200, 65532)).contains("SELinux"));
        assert!(words(&me, Access::Write, &place(0o700, 65532)).contains("SELinux"));
        assert!(!words(&me, Access::Write, &place(0o500, 65532)).contains("SELinux"));
    }
}
