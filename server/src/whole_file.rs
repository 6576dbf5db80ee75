//! Files for other programs that are there, whole, while this process is.
//!
//! What this program has not made is never replaced and never removed: a path on a command line may be mistyped, and
//! what it names may be a key, or a device. Nor is the file of a server that still runs, which is known by a lock that
//! ends with its process, however that ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::files::{self, There};

/// A file, gone again when this is dropped, unless another one has come in its place.
#[derive(Debug)]
#[must_use = "the file goes when this is dropped"]
pub(crate) struct WholeFile {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl WholeFile {
    /// Writes it whole: nobody ever reads half of it. What stood there is [cleared](clear) first.
    ///
    /// # Errors
    /// It cannot be written, or what stands there is somebody else's; nothing is left behind.
    pub(crate) fn write(path: PathBuf, content: &[u8], is_ours: impl Fn(&[u8]) -> bool) -> io::Result<Self> {
        clear(&path, is_ours)?;
        let mut temporary = path.clone().into_os_string();
        temporary.push(format!(".{}", Uuid::new_v4().simple()));
        let temporary = PathBuf::from(temporary);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        let written = lock(&file).and_then(|()| (&file).write_all(content));
        written
            .and_then(|()| files::rename_to_new(&temporary, &path))
            .inspect_err(|_| drop(fs::remove_file(&temporary)))?;
        Ok(Self { path, file })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        let (written, there) = (self.file.metadata(), fs::symlink_metadata(&self.path));
        if let (Ok(written), Ok(there)) = (written, there)
            && (written.dev(), written.ino()) == (there.dev(), there.ino())
        {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Whether [`WholeFile::write`] would replace what is at `path`: nothing, or a regular file whose content `is_ours` and
/// whose process has ended. A link is not followed: what it leads to is another file, with a name of its own.
///
/// # Errors
/// Something else stands there.
pub(crate) fn may_replace(path: &Path, is_ours: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    match files::look(path, MAX_OURS)? {
        There::Nothing => Ok(()),
        There::Odd(what) => Err(files::left_alone(what)),
        There::Regular { content, .. } if !is_ours(&content) => {
            Err(files::left_alone("not of this program's making"))
        }
        There::Regular { file, .. } => lock(&file),
    }
}

/// Removes what an earlier process has left at `path`.
///
/// # Errors
/// As [`may_replace`], or it cannot be removed.
pub(crate) fn clear(path: &Path, is_ours: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    may_replace(path, is_ours)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Refuses the file of a process that runs. Where the file system knows no locks, there is nothing to go by.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => Err(files::left_alone("that of a server that runs")),
        _ => Ok(()),
    }
}

/// Above anything that is written here.
const MAX_OURS: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn is_ours(content: &[u8]) -> bool {
        content.starts_with(b"ours")
    }

    #[test]
    fn it_is_there_whole_while_its_owner_is_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "ours, older").unwrap();
        let file = WholeFile::write(path, b"ours, newer", is_ours).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"ours, newer");
        drop(file);
        WholeFile::write(dir.path().join("no/such/dir"), b"x", is_ours).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_somebody_else_has_made_is_neither_replaced_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("key"), "-----BEGIN PRIVATE KEY-----").unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::write(at("huge"), vec![b'o'; MAX_OURS + 1]).unwrap();
        fs::write(at("ours"), "ours").unwrap();
        symlink("ours", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        let names = ["key", "empty", "huge", "link", "dangling", "fifo", "socket", "directory"];
        for path in names.map(at).into_iter().chain(["/dev/null".into(), "/dev/full".into()]) {
            for refused in [
                may_replace(&path, is_ours).unwrap_err(),
                clear(&path, is_ours).unwrap_err(),
                WholeFile::write(path.clone(), b"ours", is_ours).unwrap_err(),
            ] {
                assert!(refused.to_string().contains("left alone"), "{path:?}: {refused}");
            }
            assert!(path.symlink_metadata().is_ok(), "{path:?}");
        }
        assert_eq!(fs::read(at("key")).unwrap(), b"-----BEGIN PRIVATE KEY-----");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), names.len() + 1);
    }

    #[test]
    fn the_file_of_one_that_runs_stays_and_that_of_one_that_ended_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let first = WholeFile::write(path.clone(), b"ours, first", is_ours).unwrap();
        let second = WholeFile::write(path.clone(), b"ours, second", is_ours).unwrap_err();
        assert!(second.to_string().contains("runs"), "{second}");
        assert_eq!(fs::read(&path).unwrap(), b"ours, first");
        // As a process that is killed does.
        let WholeFile { file, .. } = &first;
        file.unlock().unwrap();
        let _second = WholeFile::write(path.clone(), b"ours, second", is_ours).unwrap();
        drop(first);
        assert_eq!(fs::read(&path).unwrap(), b"ours, second", "it is not the first's to remove");
    }
}
