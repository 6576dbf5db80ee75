//! A file, or a directory with one entry a file.
//!
//! ```text
//! what `path` is                       reads                       writes
//! a file                               one entry, `current`        temp file, fsync, rename
//! a directory with a `..data` link     the files behind the link   a new directory, then the link is swapped
//! a directory without it               its files                   only a lone `keyring.json`, as a file
//! an empty directory                   nothing: not found          `create`: `keyring.json`, or the linked layout
//! ```
//!
//! The layout with the `..data` link is kubelet's: it writes an update of a Secret volume into a new directory and
//! swaps one symbolic link, so that a reader who goes through the link once sees one revision, whole. It is the
//! only layout in which several files change together, which is why a flat directory is not written at all.
//!
//! # What is believed
//! - **The revision is a digest of names and values**, never a time: clocks of file systems are coarse, and kubelet
//!   rewrites unchanged content. Writing back what is there leaves the revision as it is.
//! - **A file that others may read is refused** ([`ErrorKind::Exposed`]), judged on the
//!   opened file, so behind any link. Within kubelet's layout, whose modes come from the pod's manifest, group-read
//!   is how an unprivileged process gets at the file at all (`fsGroup`), and world-read is an
//!   [`Advice`](crate::Advice). In a directory, files called `*.crt`, `*.cer` or `*.pub` are public and not judged.
//!   Where a file has an access control list, the list is judged: the group bits are only its mask.
//! - **A file mounted by itself** (`subPath`, a container runtime's single-file bind) is read, and an advice: what is
//!   put in its place where it comes from never arrives here. It cannot be replaced from here either.
//! - **A directory that anyone may write is an advice**, though whoever may write it may replace the key: volumes that
//!   are mounted into a pod are commonly writable by everyone in it.
//! - **A half-written file** of another tool that truncates and rewrites in place is read as what it is at that
//!   moment. The provider retries while the file changes under its hands; past that, the keystore judges and keeps
//!   its last good set. Of several files in a flat directory the same holds: they are re-checked after reading.
//!
//! # Who else writes
//! Writers exclude each other by a lock on `.NAME.lock` beside the file (`.keyring.json.lock` in a directory). It
//! is the kernel's lock, not the file's existence: a crashed writer leaves none behind, and the file stays. What a
//! crash leaves half-written is hidden from readers and removed by the next writer.

mod acl;
mod fault;
mod layout;
mod modes;
mod mounts;
mod read;
mod unit;
mod watch;
mod write;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task;

use crate::jitter::with_jitter;
use crate::{
    BoxFuture, Change, Description, Durability, Entries, ErrorKind, ProviderError, Record, Revision,
    SecretProvider,
};
use layout::Layout;
pub use watch::Watch;
use write::Intent;

/// How often a file is looked at although no event came: the same as the keystore's refresh. Network file systems
/// and bind mounts send no events for what others do to them.
pub const DEFAULT_POLL: Duration = Duration::from_secs(15);

/// Polling faster than this would be spinning.
const FASTEST_POLL: Duration = Duration::from_millis(10);

/// Keeps the record in a file or a directory.
///
/// Reading, watching and writing need a Tokio runtime with time and I/O enabled; blocking calls run on its blocking
/// threads.
///
/// # Defaults
/// Polls every [`DEFAULT_POLL`] besides watching; judges by itself whether the place is durable.
///
/// ```no_run
/// use oneseal_providers::{FileProvider, SecretProvider};
///
/// # async fn example() -> Result<(), oneseal_providers::ProviderError> {
/// let provider = FileProvider::new("/etc/oneseal/keyring.json");
/// let record = provider.load().await?;
/// println!("{} entries at {}", record.entries.len(), record.revision);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct FileProvider {
    path: Arc<Path>,
    is_durable: bool,
    poll: Duration,
    warned_of_watch: AtomicBool,
}

impl FileProvider {
    /// A provider of the file or directory at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into().into(),
            is_durable: false,
            poll: DEFAULT_POLL,
            warned_of_watch: AtomicBool::new(false),
        }
    }

    /// Whether to take the place for durable whatever it looks like (`durable = true`): for memory-backed places
    /// that something else fills again at each start, such as a sidecar or systemd's `LoadCredential`.
    #[must_use]
    pub fn assume_durable(mut self, is_durable: bool) -> Self {
        self.is_durable = is_durable;
        self
    }

    /// How often to look although no event came, give or take a tenth; at most a hundred times a second.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll = interval.max(FASTEST_POLL);
        self
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn durability(&self) -> Durability {
        if self.is_durable { Durability::Durable } else { mounts::durability(&self.path) }
    }

    async fn read(&self) -> Result<Record, ProviderError> {
        let path = Arc::clone(&self.path);
        let reading = task::spawn_blocking(move || read::read(&path)).await;
        reading.unwrap_or_else(|stopped| {
            let detail = "reading was given up: the runtime is shutting down or the reader panicked";
            Err(fault::at(&self.path, ErrorKind::Unavailable, detail).with_source(stopped))
        })
    }

    /// Runs to its end on a blocking thread even if the caller goes away, so the record is old or new, whole.
    async fn write(
        &self,
        intent: Intent,
        entries: Entries,
        change: Change,
    ) -> Result<Revision, ProviderError> {
        let path = Arc::clone(&self.path);
        let writing = task::spawn_blocking(move || write::write(&path, &intent, entries, change.id)).await;
        writing.unwrap_or_else(|stopped| {
            let detail =
                "the runtime is shutting down or the writer panicked: whether it was written is unknown";
            Err(fault::at(&self.path, ErrorKind::OutcomeUnknown, detail).with_source(stopped))
        })
    }
}

impl SecretProvider for FileProvider {
    fn describe(&self) -> Description {
        let layout = layout::inspect(&self.path).unwrap_or(Layout::Missing);
        let mut description = Description::new("file", fault::shown(&self.path));
        description.durability = self.durability();
        description.writable = layout.is_writable() && layout::may_write_beside(&self.path, &layout);
        description.advice = layout::world_readable(&self.path, &layout);
        description.advice.extend(layout::replaceable(&self.path, &layout));
        description.advice.extend(layout::never_updates(&self.path));
        description
    }

    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>> {
        Box::pin(self.read())
    }

    /// A file that is gone or unreadable does not wake: it is no newer revision, and what was loaded is kept. It
    /// wakes once something else than `since` can be read again.
    fn changed<'a>(&'a self, since: &'a Revision) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                // Armed before the comparison: what happens in between is an event, what happened before is seen.
                let mut watch = Watch::arm(&self.path);
                self.warn_once_of_missing_watch(&watch);
                if self.read().await.is_ok_and(|record| record.revision != *since) {
                    return;
                }
                watch.event_or(with_jitter(self.poll)).await;
            }
        })
    }

    fn replace<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>> {
        Box::pin(self.write(Intent::Replace(expected.clone()), entries, change))
    }

    fn create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>> {
        Box::pin(self.write(Intent::Create, entries, change))
    }
}

impl FileProvider {
    fn warn_once_of_missing_watch(&self, watch: &Watch) {
        let Some(reason) = watch.missing_because() else { return };
        if !self.warned_of_watch.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                path = %self.path.display(),
                poll_s = self.poll.as_secs(),
                error = %reason,
                "the kernel gives no more file watches (fs.inotify.max_user_instances, \
                 fs.inotify.max_user_watches); changes are noticed by polling only"
            );
        }
    }
}

/// The directory that holds `path`: its parent, or the working directory for a bare name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// Waits between two attempts, on a thread for blocking work.
#[expect(
    clippy::disallowed_methods,
    reason = "only ever called on Tokio's blocking threads, never on a worker"
)]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// `path` with every link resolved, or itself where that fails.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
