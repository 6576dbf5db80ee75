//! Reading a record so that it is one revision, whole.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::fault;
use super::layout::{self, DATA_LINK};
use super::modes::{self, ModeRule};
use crate::{Description, Entries, ErrorKind, ProviderError, Record, Revision, SecretBytes};

/// The file within a unit that tells which change made it.
pub(super) const CHANGE_FILE: &str = ".change";

/// How often a file that changes under our hands is read again, and after which pause: long enough together for
/// any tool to finish rewriting a few kilobytes.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Reads what stands at `path`. Blocking.
pub(super) fn read(path: &Path) -> Result<Record, ProviderError> {
    for _ in 0..ATTEMPTS {
        match read_once(path)? {
            Reading::Whole(record) => return Ok(record),
            Reading::Moved => super::pause(PAUSE),
        }
    }
    Err(fault::at(path, ErrorKind::Unavailable, "it keeps changing while it is read"))
}

/// The revision of these entries: SHA-256 over each name and value with its length in front, so that no two
/// different records run together into one text.
pub(super) fn revision(entries: &Entries) -> Revision {
    let mut digest = Context::new(&SHA256);
    for (name, value) in entries.iter() {
        for part in [name.as_bytes(), value.expose()] {
            digest.update(&(part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    let hex: String = digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Revision::new(format!("sha256:{hex}"))
}

enum Reading {
    Whole(Record),
    /// It changed meanwhile.
    Moved,
}

fn read_once(path: &Path) -> Result<Reading, ProviderError> {
    let opened = open_at(rustix::fs::CWD, path, path)?;
    let found = opened.metadata().map_err(|error| fault::reading(path, error))?;
    if found.is_dir() {
        refuse_root(path)?;
        return read_directory(path, &opened);
    }
    let rule = rule_at(path);
    let budget = Description::DEFAULT_MAX_BYTES - Entries::CURRENT.len();
    let Some(value) = read_file(path, opened, rule, budget)? else { return Ok(Reading::Moved) };
    if value.is_empty() {
        let detail = "the file is empty, as a failed template or mount leaves it";
        let empty = Entries::single(Entries::CURRENT, value);
        return Err(fault::at(path, ErrorKind::Malformed, detail).at(revision(&empty)));
    }
    Ok(whole(Entries::single(Entries::CURRENT, value), None))
}

fn rule_at(path: &Path) -> ModeRule {
    if layout::is_kubelets(path) { ModeRule::Kubelet } else { ModeRule::OwnerOnly }
}

/// Of all directories this one is surely named by mistake, and a cure for keys would be harm to the system's files.
fn refuse_root(path: &Path) -> Result<(), ProviderError> {
    if super::resolved(path) != Path::new("/") {
        return Ok(());
    }
    let detail = "it is the root of the file system, so it is no directory of keys; name the file, or a directory \
                  that holds nothing else";
    Err(fault::at(path, ErrorKind::Malformed, detail))
}

fn whole(entries: Entries, change_id: Option<Uuid>) -> Reading {
    let change_id = change_id.or_else(|| entries.iter().find_map(|(_, value)| document_change_id(value)));
    Reading::Whole(Record::new(revision(&entries), change_id, entries))
}

/// The member `change_id` of a value that is a JSON object. Borrowed: nothing of the document is copied.
fn document_change_id(value: &SecretBytes) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        change_id: Option<&'a str>,
    }
    let is_object = value.expose().iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let document: Document<'_> = is_object.then(|| serde_json::from_slice(value.expose()).ok())??;
    Uuid::parse_str(document.change_id?).ok()
}

fn read_directory(path: &Path, dir: &File) -> Result<Reading, ProviderError> {
    match rustix::fs::openat(
        dir,
        DATA_LINK,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(unit) => read_unit(path, dir, &File::from(unit)),
        Err(Errno::NOENT) if has_data_link(dir) => {
            Err(fault::at(path, ErrorKind::Unavailable, "its `..data` link leads nowhere"))
        }
        Err(Errno::NOENT) => read_flat(path, dir),
        Err(error) => Err(fault::reading(&path.join(DATA_LINK), error.into())),
    }
}

fn has_data_link(dir: &File) -> bool {
    rustix::fs::statat(dir, DATA_LINK, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Reads behind the link, which is followed once. The old directory is emptied after the swap, so what was found
/// counts only if the link still leads to it afterwards. While it is open its inode number is not used again.
fn read_unit(path: &Path, dir: &File, unit: &File) -> Result<Reading, ProviderError> {
    let found = read_entries(path, unit, ModeRule::Kubelet);
    let change_id = read_change_id(unit);
    let opened = unit.metadata().map_err(|error| fault::reading(path, error))?;
    let is_current = rustix::fs::statat(dir, DATA_LINK, AtFlags::empty())
        .is_ok_and(|now| now.st_ino == opened.ino() && now.st_dev == opened.dev());
    if !is_current {
        return Ok(Reading::Moved);
    }
    match found? {
        Some(entries) if entries.is_empty() => Err(holds_nothing(path)),
        Some(entries) => Ok(whole(entries, change_id)),
        None => Ok(Reading::Moved),
    }
}

/// Reads a directory that has no link, and looks once more whether it still is as it was, and still is there: one within
/// kubelet's layout is emptied after the swap.
fn read_flat(path: &Path, dir: &File) -> Result<Reading, ProviderError> {
    let before = stamps(path, dir)?;
    let found = read_entries(path, dir, rule_at(path));
    let opened = dir.metadata().map_err(|error| fault::reading(path, error))?;
    let is_current =
        rustix::fs::stat(path).is_ok_and(|now| now.st_ino == opened.ino() && now.st_dev == opened.dev());
    if !is_current || stamps(path, dir)? != before {
        return Ok(Reading::Moved);
    }
    match found? {
        Some(entries) if entries.is_empty() => Err(holds_nothing(path)),
        Some(entries) => Ok(whole(entries, None)),
        None => Ok(Reading::Moved),
    }
}

fn holds_nothing(path: &Path) -> ProviderError {
    fault::at(path, ErrorKind::NotFound, "the directory holds no files")
}

/// Every entry of `dir`, or `None` if a file changed while it was read.
fn read_entries(path: &Path, dir: &File, rule: ModeRule) -> Result<Option<Entries>, ProviderError> {
    let mut entries = Entries::new();
    let mut budget = Description::DEFAULT_MAX_BYTES;
    let names = names(path, dir)?;
    let is_among_others = names.len() > 1;
    for name in names {
        let place = path.join(&name);
        let told = |error: ProviderError| if is_among_others { beside_a_key(error) } else { error };
        let opened = open_at(dir, Path::new(&name), &place).map_err(told)?;
        if opened.metadata().map_err(|error| fault::reading(&place, error))?.is_dir() {
            continue;
        }
        let rule = if layout::is_public(&name) { ModeRule::Public } else { rule };
        budget = budget.saturating_sub(name.len());
        let Some(value) = read_file(&place, opened, rule, budget).map_err(told)? else { return Ok(None) };
        budget -= value.len();
        entries.insert(name, value);
    }
    Ok(Some(entries))
}

/// Which of several files are keys is for the keystore to say, so none is passed over here; but a person may have put
/// one there for another reason, and a cure for keys is then none.
fn beside_a_key(error: ProviderError) -> ProviderError {
    match error.kind() {
        ErrorKind::Unavailable => error,
        _ => error.and(
            "; every file of the directory is read, since any may be a key: if this is none, keep it elsewhere, or \
             name the key's own file",
        ),
    }
}

/// Names of entries, in order. A name that is not UTF-8 is nobody's entry.
fn names(path: &Path, dir: &File) -> Result<Vec<String>, ProviderError> {
    let unreadable = |error: Errno| fault::reading(path, error.into());
    let mut names = Vec::new();
    for (index, file) in Dir::read_from(dir).map_err(unreadable)?.enumerate() {
        let file = file.map_err(unreadable)?;
        if index >= layout::MAX_NAMES {
            let detail = format!(
                "it holds more than {} names, so it is no directory of keys; name the file, or a directory that holds \
                 nothing else",
                layout::MAX_NAMES
            );
            return Err(fault::at(path, ErrorKind::Malformed, detail));
        }
        let Ok(name) = file.file_name().to_str() else { continue };
        if layout::is_entry(name) && file.file_type() != FileType::Directory {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// What tells that a file is another one or has been written: inode, size, times.
#[derive(PartialEq, Eq)]
struct Stamp(u64, u64, [i64; 4]);

impl Stamp {
    fn of(found: &Metadata) -> Self {
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        Self(found.ino(), found.size(), times)
    }
}

/// One stamp an entry; a file that vanished between two calls has none.
fn stamps(path: &Path, dir: &File) -> Result<Vec<(String, Option<Stamp>)>, ProviderError> {
    let stamped = |name: String| {
        let found = open_at(dir, Path::new(&name), path).ok().and_then(|file| file.metadata().ok());
        (name, found.as_ref().map(Stamp::of))
    };
    Ok(names(path, dir)?.into_iter().map(stamped).collect())
}

fn read_change_id(unit: &File) -> Option<Uuid> {
    let mut text = String::new();
    let file = open_at(unit, Path::new(CHANGE_FILE), Path::new(CHANGE_FILE)).ok()?;
    file.take(64).read_to_string(&mut text).ok()?;
    Uuid::parse_str(text.trim()).ok()
}

/// Opens for reading what is a file or a directory. What is something else stays closed, since opening alone can have an
/// effect: it arms a watchdog and rewinds a tape. Without waiting, should it become a FIFO in between.
fn open_at(dir: impl AsFd, name: &Path, place: &Path) -> Result<File, ProviderError> {
    let unreadable = |error: Errno| fault::reading(place, error.into());
    let found = rustix::fs::statat(&dir, name, AtFlags::empty()).map_err(unreadable)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(modes::not_regular(place, kind));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(unreadable)?))
}

/// The content of an opened file, through this one handle: whatever is renamed over its name meanwhile, this stays
/// the file that was opened. `None` if it was written while it was read.
fn read_file(
    path: &Path,
    mut file: File,
    rule: ModeRule,
    budget: usize,
) -> Result<Option<SecretBytes>, ProviderError> {
    let unreadable = |error| fault::reading(path, error);
    let before = file.metadata().map_err(unreadable)?;
    modes::judge(path, &file, &before, rule)?;
    let size = usize::try_from(before.size()).unwrap_or(usize::MAX);
    if size > budget {
        let limit = Description::DEFAULT_MAX_BYTES;
        let detail = format!("with its {size} bytes the record is larger than the {limit} it may have");
        return Err(fault::at(path, ErrorKind::Malformed, detail));
    }
    // Exactly as large as it will be: a vector that grows leaves copies of the key behind.
    let mut bytes = Zeroizing::new(vec![0; size]);
    match file.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome.map_err(unreadable)?,
    }
    let after = file.metadata().map_err(unreadable)?;
    if Stamp::of(&before) != Stamp::of(&after) {
        return Ok(None);
    }
    Ok(Some(SecretBytes::new(mem::take(&mut *bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_keeps_names_and_values_apart() {
        let mut two = Entries::single("a", "b");
        two.insert("c", "d");
        let revisions = [
            revision(&Entries::single("ab", "")),
            revision(&Entries::single("a", "b")),
            revision(&Entries::single("a", "bc")),
            revision(&two),
        ];
        for (index, one) in revisions.iter().enumerate() {
            assert!(!revisions[index + 1..].contains(one), "{one} twice");
        }
        assert_eq!(revisions[1], revision(&Entries::single("a", "b")));
    }

    #[test]
    fn only_a_json_object_names_its_change() {
        let id = "7b0b6f8e-6a3d-4f0c-9d3e-2f1f6c1f7a11";
        let named = |text: String| document_change_id(&SecretBytes::from(text)).map(|id| id.to_string());
        assert_eq!(
            named(format!("\n {{\"keys\":[{{}}],\"change_id\":\"{id}\",\"x\":1}}")),
            Some(id.to_owned())
        );
        assert_eq!(named(format!("{{\"inner\":{{\"change_id\":\"{id}\"}}}}")), None);
        assert_eq!(named("{\"change_id\":7}".to_owned()), None);
        assert_eq!(named("{\"change_id\":\"no uuid\"}".to_owned()), None);
        assert_eq!(named(format!("[{{\"change_id\":\"{id}\"}}]")), None);
        assert_eq!(named("-----BEGIN PRIVATE KEY-----".to_owned()), None);
    }
}
