//! Files that others read while they are written: whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use oneseal_providers::ProviderUri;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use rustix::process::geteuid;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::exit::{Exit, Failure};
use crate::links;
use crate::refusals::{FILE_EXISTS, FILE_NOT_WRITTEN};

/// Puts `bytes` at `path`, in place of a file that may be there: a reader has the old one or the new one, also after
/// a crash. A link is followed, so that it goes on to lead where it did, but none of another user's.
///
/// # Errors
/// Not written, and what was there is there still; the exit code is that of the cause.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    // Public content, for a web server or an uploader that is another user; the umask narrows it.
    let open = |options: &mut OpenOptions, temporary: &Path| options.mode(0o644).open(temporary);
    replace_by(path, bytes, open)
}

/// As [`replace`], for content that not everybody may read: of exactly this mode before anything is in it.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    replace_by(path, bytes, |options, temporary| {
        let file = options.mode(0o600).open(temporary)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(file)
    })
}

fn replace_by(
    path: &Path,
    bytes: &[u8],
    open: impl FnOnce(&mut OpenOptions, &Path) -> io::Result<File>,
) -> Result<(), Failure> {
    refuse_strangers_link(path)?;
    let target = match fs::canonicalize(path) {
        Ok(target) if target.is_file() => target,
        Ok(_) => {
            let message =
                format!("{} is there and no regular file; it is left alone: name another", path.display());
            return Err(Failure::refused(message).with_code(FILE_NOT_WRITTEN));
        }
        Err(_) => path.to_owned(),
    };
    write(&target, bytes, open).map_err(|error| not_written(path, error))
}

/// Where others may plant a link they would choose the file that is replaced, with this user's rights; a kernel with
/// `fs.protected_symlinks` refuses some of these, and only where it follows them itself.
fn refuse_strangers_link(path: &Path) -> Result<(), Failure> {
    let us = geteuid().as_raw();
    let Some(link) = links::of_others(path, |uid| uid == us || uid == 0) else { return Ok(()) };
    let (path, link) = (path.display(), link.display());
    let message = format!(
        "{path} is not written: {link} is a link of another user's, or in another user's directory, and is not followed; \
         name the file itself, in a directory of your own"
    );
    Err(Failure::refused(message).with_code(FILE_NOT_WRITTEN))
}

/// Writes a line to a new file of mode 0600, never over what is there: a key that was overwritten takes everything with
/// it that it opens. A file that could not be written whole is removed.
///
/// # Errors
/// Not written; the exit code is that of the cause.
pub(crate) fn create_private(path: &Path, line: &str) -> Result<(), Failure> {
    PrivateFile::create(path)?.write(line)
}

/// A new file of mode 0600 that is there and empty, so that nothing but the writing can fail yet. It goes again with this
/// value, unless it has been written.
#[derive(Debug)]
pub(crate) struct PrivateFile {
    file: File,
    path: PathBuf,
    is_written: bool,
}

impl PrivateFile {
    /// Makes it, never over what is there.
    ///
    /// # Errors
    /// Not made; the exit code is that of the cause.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        refuse_uri(path)?;
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = created.map_err(|error| not_written(path, error))?;
        Ok(Self { file, path: path.to_owned(), is_written: false })
    }

    /// Writes a line to it.
    ///
    /// # Errors
    /// Not written, and the file is gone; the exit code is that of the cause.
    pub(crate) fn write(mut self, line: &str) -> Result<(), Failure> {
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.write_all(b"\n"));
        written.and_then(|()| self.file.sync_all()).map_err(|error| not_written(&self.path, error))?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        if !self.is_written {
            // That it cannot be removed either there is nobody to tell.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Refuses the URI of a provider, which looks like a path in no directory.
fn refuse_uri(path: &Path) -> Result<(), Failure> {
    let Some(Ok(uri)) = path.to_str().map(ProviderUri::parse) else { return Ok(()) };
    let words = match &uri {
        ProviderUri::File(file) => format!("a path is wanted here, without `file:`: {}", file.display()),
        // With its password masked, if it has one.
        uri => format!(
            "this is written to a new file, not to {uri}: name a file (with ./ before it, if it is called so), put what is in it \
             there with that store's own tool, and delete it"
        ),
    };
    Err(Failure::usage(words))
}

/// Refuses a path at which anything is, a link included, before the work for it is done.
///
/// # Errors
/// It is there, or cannot be looked at.
pub(crate) fn refuse_existing(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(not_written(path, error)),
        Ok(_) => Err(not_written(path, ErrorKind::AlreadyExists.into())),
    }
}

/// Gives a file another name, and never over what has come there in the meantime.
///
/// # Errors
/// Something is there ([`ErrorKind::AlreadyExists`]), or it cannot be renamed.
pub(crate) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot tell: what is seen there is left alone all the same.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        other => other.map_err(io::Error::from),
    }
}

/// What stands where something is to be written.
#[derive(Debug)]
pub(crate) enum There {
    /// Nothing, nor a link.
    Nothing,
    /// A regular file.
    Regular {
        /// All of it. It may be a key.
        content: Zeroizing<Vec<u8>>,
        /// Still open.
        file: File,
    },
    /// What nothing of ours is; in words that go on after "it is there and ".
    Odd(&'static str),
}

/// Looks at what is at `path` itself: a link is not followed, and nothing but a regular file is opened.
///
/// # Errors
/// It cannot be read.
pub(crate) fn look(path: &Path, limit: usize) -> io::Result<There> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(There::Nothing),
        Err(error) => return Err(error),
        Ok(found) if found.is_symlink() => return Ok(There::Odd("a link")),
        Ok(found) if !found.is_file() => return Ok(There::Odd("no regular file")),
        Ok(_) => {}
    }
    // What may have come there in the meantime is not followed, nor waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(There::Odd("no regular file"));
    }
    let mut content = Zeroizing::new(Vec::with_capacity(limit + 1));
    (&file).take(limit as u64 + 1).read_to_end(&mut content)?;
    if content.len() > limit {
        return Ok(There::Odd("longer than what is written there"));
    }
    Ok(There::Regular { content, file })
}

/// Why nothing was written over `what` is there.
pub(crate) fn left_alone(what: &str) -> io::Error {
    io::Error::other(format!("it is there and {what}; it is left alone: name another, or move it away"))
}

/// Why `path` was not written, with what to do about it.
pub(crate) fn not_written(path: &Path, error: io::Error) -> Failure {
    let is_from_nowhere = path.is_relative() && std::env::current_dir().is_err();
    let path = path.display();
    let code = if error.kind() == ErrorKind::AlreadyExists { FILE_EXISTS } else { FILE_NOT_WRITTEN };
    let (exit, message) = match error.kind() {
        ErrorKind::AlreadyExists => (
            Exit::Refused,
            format!("{path} is there already and is left as it is: name another file, or move it away"),
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            (Exit::Denied, format!("{path} may not be written by this user"))
        }
        ErrorKind::NotFound if is_from_nowhere => (
            Exit::Refused,
            format!(
                "{path} starts at the working directory, which is gone: change to another, or name a whole path"
            ),
        ),
        ErrorKind::NotFound => {
            (Exit::Refused, format!("the directory of {path} does not exist: make it first"))
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            (Exit::Unavailable, format!("there is no room for {path}: make some, and run this again"))
        }
        _ => (Exit::Refused, format!("{path} was not written")),
    };
    Failure::new(exit, message).with_code(code).because(error)
}

fn write(
    target: &Path,
    bytes: &[u8],
    open: impl FnOnce(&mut OpenOptions, &Path) -> io::Result<File>,
) -> io::Result<()> {
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = Temporary(directory.join(format!(".oneseal-{}.tmp", Uuid::new_v4().simple())));
    let mut file = open(OpenOptions::new().create_new(true).write(true), &temporary.0)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary.0, target)?;
    File::open(directory)?.sync_all()
}

/// Removed when dropped; after the rename nothing of this name is there.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, link) = (dir.path().join("a"), dir.path().join("link"));
        replace(&path, b"one").expect("written");
        std::os::unix::fs::symlink("a", &link).expect("a link");
        replace(&link, b"two").expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"two");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 2);
    }

    #[test]
    fn a_mode_is_kept_whatever_was_there_and_the_file_is_another_one_each_time() {
        use std::os::unix::fs::MetadataExt;

        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        let mut seen = Vec::new();
        for mode in [0o640, 0o666, 0o600] {
            replace_with_mode(&path, b"one", mode).expect("written");
            let metadata = fs::metadata(&path).expect("there");
            assert_eq!(metadata.mode() & 0o7777, mode);
            seen.push(metadata.ino());
        }
        assert!(seen[0] != seen[1] && seen[1] != seen[2], "a reader that has it open keeps what it has");
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 1);
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in [dir.path(), Path::new("/dev/null")] {
            let failure = replace(path, b"x").expect_err("no file");
            assert!(failure.in_full().contains("no regular file"), "{}", failure.in_full());
        }
        let nowhere = replace(&dir.path().join("no/such"), b"x").expect_err("no directory");
        assert!(nowhere.in_full().contains("make it first"), "{}", nowhere.in_full());
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0);
    }

    #[test]
    fn what_is_to_be_new_is_never_put_over_anything() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("new"), "new").expect("written");
        fs::write(at("old"), "old").expect("written");
        std::os::unix::fs::symlink("nowhere", at("dangling")).expect("a link");
        for there in ["old", "dangling", "."] {
            let refused = refuse_existing(&at(there)).expect_err("it is there");
            assert!(refused.in_full().contains("left as it is"), "{}", refused.in_full());
        }
        for there in ["old", "dangling"] {
            let error = rename_to_new(&at("new"), &at(there)).expect_err("it is there");
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{there}");
        }
        assert_eq!(fs::read(at("old")).expect("there"), b"old");
        refuse_existing(&at("free")).expect("nothing is there");
        rename_to_new(&at("new"), &at("free")).expect("nothing is there");
        assert_eq!(fs::read(at("free")).expect("there"), b"new");
    }

    #[test]
    fn each_cause_has_its_exit_code() {
        for (kind, exit) in [
            (ErrorKind::AlreadyExists, Exit::Refused),
            (ErrorKind::PermissionDenied, Exit::Denied),
            (ErrorKind::ReadOnlyFilesystem, Exit::Denied),
            (ErrorKind::StorageFull, Exit::Unavailable),
            (ErrorKind::NotADirectory, Exit::Refused),
        ] {
            assert_eq!(not_written(Path::new("x"), kind.into()).exit(), exit, "{kind:?}");
        }
    }

    #[test]
    fn a_place_that_is_no_path_is_told_from_one() {
        for (text, told) in [
            ("k8s:oneseal/kek", "not to k8s:oneseal/kek"),
            ("aws:prod/kek", "not to aws:prod/kek"),
            ("postgres://u:s3cret@h/db", "not to postgres:postgres://u:***@h/db"),
            ("file:/run/kek", "without `file:`: /run/kek"),
        ] {
            let refused = PrivateFile::create(Path::new(text)).expect_err(text).in_full();
            assert!(refused.contains(told) && !refused.contains("s3cret"), "{refused}");
        }
        for path in ["kek", "./k8s:oneseal/kek", "a b:c", "/k8s:x"] {
            refuse_uri(Path::new(path)).expect(path);
        }
    }
}
