//! Being woken when the file may have changed.
//!
//! The *directory* is watched, not the file: a rename puts another file in its place, and kubelet swaps the
//! `..data` link, each of which ends a watch on the file itself. A watch lives for one wait: it is armed anew each
//! time, before the content is compared, so there is no state that could go stale.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(target_os = "linux")]
use futures_util::StreamExt;
#[cfg(target_os = "linux")]
use inotify::{EventStream, Inotify, WatchMask};
use tokio::time;

use super::layout::{self, DATA_LINK};
use super::{parent, resolved};

/// How long to let things settle after an event: a truncation is followed by the new text, a rename by another.
/// It also bounds how often a busy directory makes us read.
const SETTLE: Duration = Duration::from_millis(20);

/// A watch on what could change a file, or a directory in kubelet's layout. It lives for one wait, and only ever tells
/// to look again: where the file system tells nothing, the wait is the poll.
#[derive(Debug)]
pub struct Watch {
    #[cfg(target_os = "linux")]
    events: Option<EventStream<[u8; 2048]>>,
    missing: Option<io::Error>,
    interest: Interest,
}

impl Watch {
    /// Watches from now on. Where that is not possible, [`event_or`](Self::event_or) just waits.
    #[cfg(target_os = "linux")]
    pub fn arm(path: &Path) -> Self {
        let interest = Interest::in_changes_of(path);
        match interest.watch() {
            Ok(events) => Self { events: Some(events), missing: None, interest },
            Err(error) => Self { events: None, missing: Some(error), interest },
        }
    }

    /// Watches from now on: not possible here, [`event_or`](Self::event_or) just waits.
    #[cfg(not(target_os = "linux"))]
    pub fn arm(path: &Path) -> Self {
        Self { missing: None, interest: Interest::in_changes_of(path) }
    }

    /// Why there is no watch, if the kernel's limits are the reason. A directory that does not exist (yet) is none.
    pub fn missing_because(&self) -> Option<&io::Error> {
        use rustix::io::Errno;
        let limits = [Errno::MFILE, Errno::NFILE, Errno::NOSPC, Errno::NOMEM].map(Errno::raw_os_error);
        self.missing.as_ref().filter(|error| error.raw_os_error().is_some_and(|code| limits.contains(&code)))
    }

    /// Waits for a change that matters, or for `poll`.
    ///
    /// # Cancel safety
    /// Changes nothing but this watch.
    #[cfg(target_os = "linux")]
    pub async fn event_or(&mut self, poll: Duration) {
        let Some(events) = &mut self.events else { return time::sleep(poll).await };
        let interest = &self.interest;
        let change = async {
            while let Some(Ok(event)) = events.next().await {
                if interest.covers(event.name.as_deref()) {
                    return;
                }
            }
            // No more events from here: the poll is left.
            std::future::pending().await
        };
        if time::timeout(poll, change).await.is_ok() {
            time::sleep(SETTLE).await;
        }
    }

    /// Waits for `poll`.
    ///
    /// # Cancel safety
    /// Changes nothing.
    #[cfg(not(target_os = "linux"))]
    pub async fn event_or(&mut self, poll: Duration) {
        time::sleep(poll).await;
    }
}

/// Which directories to watch, and which names in them matter.
#[derive(Debug)]
struct Interest {
    dirs: Vec<PathBuf>,
    /// Of a single file: its name and that of the file it links to. Of a directory: nothing, its entries matter.
    names: Vec<OsString>,
}

impl Interest {
    fn in_changes_of(path: &Path) -> Self {
        if path.is_dir() {
            return Self { dirs: vec![path.to_owned()], names: Vec::new() };
        }
        let target = resolved(path);
        let mut dirs = vec![parent(path).to_owned()];
        if parent(&target) != resolved(parent(path)) {
            dirs.push(parent(&target).to_owned());
        }
        let names = [path, &target].iter().filter_map(|file| file.file_name().map(OsStr::to_owned)).collect();
        Self { dirs, names }
    }

    /// An event without a name is about the directory itself, or says that events were lost.
    fn covers(&self, name: Option<&OsStr>) -> bool {
        let Some(name) = name else { return true };
        let is_ours = if self.names.is_empty() {
            name.to_str().is_some_and(layout::is_entry)
        } else {
            self.names.iter().any(|ours| ours == name)
        };
        is_ours || name == DATA_LINK
    }

    #[cfg(target_os = "linux")]
    fn watch(&self) -> io::Result<EventStream<[u8; 2048]>> {
        let inotify = Inotify::init()?;
        // Not opening and reading: we would wake ourselves.
        let mask = WatchMask::CREATE
            | WatchMask::MOVED_TO
            | WatchMask::MOVED_FROM
            | WatchMask::CLOSE_WRITE
            | WatchMask::DELETE
            | WatchMask::ATTRIB
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        for dir in &self.dirs {
            inotify.watches().add(dir, mask)?;
        }
        inotify.into_event_stream([0; 2048])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_or_our_own_lock_file_wakes_nobody() {
        let file = Interest { dirs: Vec::new(), names: vec!["key.pem".into()] };
        let directory = Interest { dirs: Vec::new(), names: Vec::new() };
        for (name, of_file, of_directory) in [
            ("key.pem", true, true),
            ("..data", true, true),
            ("other.pem", false, true),
            (".key.pem.lock", false, false),
            ("..data_tmp", false, false),
        ] {
            assert_eq!(file.covers(Some(OsStr::new(name))), of_file, "{name}");
            assert_eq!(directory.covers(Some(OsStr::new(name))), of_directory, "{name}");
        }
        assert!(file.covers(None) && directory.covers(None));
    }
}
