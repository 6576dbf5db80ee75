//! Files for other programs that are there, whole, while this process is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file, gone again when this is dropped.
#[derive(Debug)]
#[must_use = "the file goes when this is dropped"]
pub(crate) struct WholeFile {
    path: PathBuf,
}

impl WholeFile {
    /// Writes it whole: nobody ever reads half of it. What stood there is replaced.
    ///
    /// # Errors
    /// It cannot be written; nothing is left behind.
    pub(crate) fn write(path: PathBuf, content: &[u8]) -> io::Result<Self> {
        let mut temporary = path.clone().into_os_string();
        temporary.push(format!(".{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, &path)).inspect_err(|_| {
            drop(fs::remove_file(&temporary));
        })?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_whole_while_its_owner_is_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        fs::write(&path, "older").expect("written");
        let file = WholeFile::write(path, b"newer").expect("written");
        assert_eq!(fs::read(file.path()).expect("there"), b"newer");
        drop(file);
        WholeFile::write(dir.path().join("no/such/dir"), b"x").expect_err("no directory");
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
    }
}
