//! Writing a record: who may, under which lock, and the single file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Gid, Uid};
use uuid::Uuid;

use super::layout::{self, Layout};
use super::{fault, mounts, parent, read, resolved, unit};
use crate::{Description, Entries, ErrorKind, ProviderError, Revision, SecretBytes};

/// How often and how long apart a lock that another writer holds is tried: ten seconds together, a thousand times
/// what a write takes.
const LOCK_ATTEMPTS: u32 = 1000;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What the writer expects to find.
#[derive(Debug)]
pub(super) enum Intent {
    /// Nothing.
    Create,
    /// This revision.
    Replace(Revision),
}

/// Writes `entries` to `path`. Blocking.
pub(super) fn write(
    path: &Path,
    intent: &Intent,
    entries: Entries,
    change_id: Uuid,
) -> Result<Revision, ProviderError> {
    // Judged before the lock so that a refusal leaves no lock file, and again under it because it is only then true.
    let (_, entries) = plan(path, intent, entries)?;
    let _lock = Lock::take(path)?;
    let (target, entries) = plan(path, intent, entries)?;
    let replaced = expect(path, intent)?;
    if let Intent::Replace(expected) = intent
        && replaced.as_ref() != Some(expected)
    {
        return Err(fault::at(path, ErrorKind::Conflict, "it is no longer at the expected revision"));
    }
    let revision = read::revision(&entries);
    match target {
        Target::File(file) => {
            let (_, value) = entries.iter().next().ok_or_else(|| holds_nothing(path))?;
            write_file(&file, value, intent)?;
        }
        Target::Unit => unit::write(path, &entries, change_id)?,
    }
    Ok(revision)
}

/// Where a write goes.
enum Target {
    File(PathBuf),
    Unit,
}

/// Refuses what cannot be written here, or says where it goes, with the entry named as it will be read.
fn plan(path: &Path, intent: &Intent, entries: Entries) -> Result<(Target, Entries), ProviderError> {
    let layout = layout::inspect(path).map_err(|error| fault::reading(path, error))?;
    let is_ring = entries.len() == 1 && entries.get(Entries::KEYRING).is_some();
    let (target, entries) = match (layout, intent) {
        (Layout::Missing | Layout::Empty, Intent::Replace(_)) => {
            return Err(fault::at(path, ErrorKind::NotFound, "there is no record to replace"));
        }
        (
            Layout::File | Layout::KubeletFile | Layout::KubeletDirectory | Layout::LoneRing | Layout::Flat,
            Intent::Create,
        ) => {
            return Err(fault::at(path, ErrorKind::AlreadyExists, "there is a record already"));
        }
        (Layout::Missing, Intent::Create) => (Target::File(creatable(path)?), only_entry(path, entries)?),
        (Layout::File, Intent::Replace(_)) if mounts::by_itself(path).is_some() => {
            return Err(fault::at(path, ErrorKind::ReadOnly, fault::MOUNTED_BY_ITSELF));
        }
        (Layout::File, Intent::Replace(_)) => (Target::File(resolved(path)), only_entry(path, entries)?),
        (Layout::LoneRing, Intent::Replace(_)) | (Layout::Empty, Intent::Create) if is_ring => {
            (Target::File(resolved(&path.join(Entries::KEYRING))), entries)
        }
        (Layout::Unit, _) | (Layout::Empty, Intent::Create) => (Target::Unit, entries),
        (Layout::KubeletFile | Layout::KubeletDirectory, Intent::Replace(_)) => {
            let detail =
                "it belongs to a directory that is written as a whole (`..data`); name the directory";
            return Err(fault::at(path, ErrorKind::ReadOnly, detail));
        }
        (Layout::LoneRing | Layout::Flat, Intent::Replace(_)) => {
            let detail = "a flat directory is not written, its files could not change together; \
                          only one that holds nothing but `keyring.json` is";
            return Err(fault::at(path, ErrorKind::ReadOnly, detail));
        }
    };
    check_entries(path, &target, &entries)?;
    Ok((target, entries))
}

/// A file has no name for its value; whatever the writer calls it, it is read as `current`.
fn only_entry(path: &Path, entries: Entries) -> Result<Entries, ProviderError> {
    if entries.len() > 1 {
        let detail = format!("a file takes one entry, not {}; name a directory", entries.len());
        return Err(fault::at(path, ErrorKind::ReadOnly, detail));
    }
    let value = entries.iter().next().map(|(_, value)| value.expose().to_vec());
    value.map(|value| Entries::single(Entries::CURRENT, value)).ok_or_else(|| holds_nothing(path))
}

fn check_entries(path: &Path, target: &Target, entries: &Entries) -> Result<(), ProviderError> {
    let (size, limit) = (entries.total_bytes(), Description::DEFAULT_MAX_BYTES);
    if size > limit {
        let detail = format!("the record has {size} bytes, the limit is {limit}; nothing was written");
        return Err(fault::at(path, ErrorKind::TooLarge, detail));
    }
    let is_single = matches!(target, Target::File(_));
    if entries.is_empty() || is_single && entries.iter().any(|(_, value)| value.is_empty()) {
        return Err(holds_nothing(path));
    }
    match entries.iter().find(|(name, _)| !is_file_name(name)) {
        Some((name, _)) => {
            let detail = format!("the entry name {name:?} cannot be a file's name here");
            Err(fault::at(path, ErrorKind::Malformed, detail))
        }
        None => Ok(()),
    }
}

fn is_file_name(name: &str) -> bool {
    (1..=253).contains(&name.len()) && layout::is_entry(name) && !name.contains(['/', '\0'])
}

fn holds_nothing(path: &Path) -> ProviderError {
    fault::at(path, ErrorKind::Malformed, "what is to be written is empty")
}

/// The file to create, unless a link to nowhere stands there: `create` would find it taken, `load` missing.
fn creatable(path: &Path) -> Result<PathBuf, ProviderError> {
    match fs::read_link(path) {
        Ok(target) => {
            let detail =
                format!("it is a link to {}, which does not exist; name that instead", fault::shown(&target));
            Err(fault::at(path, ErrorKind::NotFound, detail))
        }
        Err(_) => Ok(path.to_owned()),
    }
}

/// The revision that stands there now, for a write that expects to find none or this one.
fn expect(path: &Path, intent: &Intent) -> Result<Option<Revision>, ProviderError> {
    match (read::read(path), intent) {
        (Ok(_), Intent::Create) => {
            Err(fault::at(path, ErrorKind::AlreadyExists, "there is a record already"))
        }
        (Ok(record), Intent::Replace(_)) => Ok(Some(record.revision)),
        (Err(error), Intent::Create) if error.kind() == ErrorKind::NotFound => Ok(None),
        (Err(error), Intent::Replace(_)) if error.revision().is_some() => Ok(error.revision().cloned()),
        (Err(error), _) => Err(error),
    }
}

/// The writers' lock, held until dropped.
struct Lock(#[expect(dead_code, reason = "the lock is the open file's")] File);

impl Lock {
    fn take(path: &Path) -> Result<Self, ProviderError> {
        let place = lock_place(path);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&place)
            .map_err(|error| fault::writing(&place, error))?;
        // Made by root, it would keep the server's own user out from then on. Where we may not, we need not.
        let _ = owner_of_place(path).and_then(|owner| owner.give(&file));
        for _ in 0..LOCK_ATTEMPTS {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => super::pause(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(fault::writing(&place, error)),
            }
        }
        let held = LOCK_PAUSE * LOCK_ATTEMPTS;
        let detail = format!(
            "another writer has held the lock {} for {held:?}; nothing was changed",
            fault::shown(&place)
        );
        Err(fault::at(path, ErrorKind::Unavailable, detail))
    }
}

/// Beside the file that is written, so that a directory and its lone `keyring.json` share one.
fn lock_place(path: &Path) -> PathBuf {
    let file = if path.is_dir() { resolved(path).join(Entries::KEYRING) } else { resolved(path) };
    beside(&file, "lock")
}

/// The record's owner, or that of the directory it will be in.
fn owner_of_place(path: &Path) -> io::Result<Owner> {
    Owner::of(path).or_else(|_| Owner::of(parent(path)))
}

/// `.NAME.suffix` in the directory of `file`.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    parent(file).join(format!(".{name}.{suffix}"))
}

fn write_file(file: &Path, value: &SecretBytes, intent: &Intent) -> Result<(), ProviderError> {
    remove_leftovers(file);
    let failed = |error| fault::writing(file, error);
    let temp = Temp::write(file, value).map_err(failed)?;
    match intent {
        Intent::Create => create_from(&temp, file)?,
        Intent::Replace(_) => {
            let owner = Owner::of(file).map_err(failed)?;
            owner.give(&temp.file).map_err(failed)?;
            fs::rename(&temp.path, file).map_err(failed)?;
        }
    }
    flush_dir(parent(file)).map_err(|error| fault::unconfirmed(file, error))
}

/// A link, unlike a rename, fails where something stands: also against a tool that knows nothing of our lock.
fn create_from(temp: &Temp, file: &Path) -> Result<(), ProviderError> {
    let taken = || fault::at(file, ErrorKind::AlreadyExists, "there is a record already");
    match fs::hard_link(&temp.path, file) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(taken()),
        // Not every file system has links; ours under the lock is the next best.
        Err(_) if fs::symlink_metadata(file).is_ok() => Err(taken()),
        Err(_) => fs::rename(&temp.path, file).map_err(|error| fault::writing(file, error)),
    }
}

/// A new file beside the one it will become; removed when dropped, unless it has been renamed.
struct Temp {
    path: PathBuf,
    file: File,
}

impl Temp {
    fn write(target: &Path, value: &SecretBytes) -> io::Result<Self> {
        let path = beside(target, &format!("{}.tmp", Uuid::new_v4()));
        let file = new_file(&path)?;
        let mut temp = Self { path, file };
        temp.file.write_all(value.expose())?;
        temp.file.sync_all()?;
        Ok(temp)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // After a rename there is nothing of this name, which carries a random number: no other is hit.
        let _ = fs::remove_file(&self.path);
    }
}

/// A file that did not exist, readable by its owner alone from the first moment on.
pub(super) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes what was renamed in `dir` survive a crash of the machine.
pub(super) fn flush_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Temporary files of writers that died. Called under the lock, so none of them is in use.
fn remove_leftovers(file: &Path) {
    let Some(prefix) = beside(file, "").file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return;
    };
    let Ok(files) = fs::read_dir(parent(file)) else { return };
    for leftover in files.flatten() {
        let name = leftover.file_name();
        let middle = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(".tmp"));
        if middle.is_some_and(|middle| Uuid::parse_str(middle).is_ok()) {
            let _ = fs::remove_file(leftover.path());
        }
    }
}

/// Whose a replaced file was: an operator who rotates as root must not take it from the server's user.
pub(super) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { uid: found.uid(), gid: found.gid() })
    }

    /// Gives `file` to this owner, if it is not theirs already.
    pub(super) fn give(&self, file: &File) -> io::Result<()> {
        let now = file.metadata()?;
        if (now.uid(), now.gid()) == (self.uid, self.gid) {
            return Ok(());
        }
        Ok(rustix::fs::fchown(file.as_fd(), Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?)
    }
}
