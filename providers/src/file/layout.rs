//! What stands at the path: a file, a directory in kubelet's layout, a flat one.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags};

use super::{fault, mounts, parent, resolved};
use crate::{Advice, Entries};

/// The link that kubelet swaps.
pub(super) const DATA_LINK: &str = "..data";

/// How many names of a directory are looked at, hidden ones and directories included: three roles in seven algorithms
/// are 21, and whoever names `/tmp` by mistake is to be told so at once.
pub(super) const MAX_NAMES: usize = 1024;

/// What stands at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Nothing.
    Missing,
    /// A file (or something that is no directory: reading says so).
    File,
    /// A file within kubelet's layout, reached as such.
    KubeletFile,
    /// A directory with a `..data` link.
    Unit,
    /// A directory within kubelet's layout, reached as such: what a projected volume with `keys/current.pem` has at `keys`.
    KubeletDirectory,
    /// A directory without entries.
    Empty,
    /// A directory whose only entry is `keyring.json`.
    LoneRing,
    /// Any other directory.
    Flat,
}

impl Layout {
    /// Whether this layout is one that is written.
    pub(super) fn is_writable(self) -> bool {
        !matches!(self, Self::KubeletFile | Self::KubeletDirectory | Self::Flat)
    }
}

/// Looks what stands at `path`.
pub(super) fn inspect(path: &Path) -> io::Result<Layout> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Layout::Missing),
        Err(error) => return Err(error),
    };
    if !found.is_dir() {
        return Ok(if is_kubelets(path) { Layout::KubeletFile } else { Layout::File });
    }
    if is_link(&path.join(DATA_LINK)) {
        return Ok(Layout::Unit);
    }
    if is_kubelets(path) {
        return Ok(Layout::KubeletDirectory);
    }
    directory(path)
}

/// Whether the file or directory at `path` is kubelet's: within its layout, or mounted from there (`subPath`).
pub(super) fn is_kubelets(path: &Path) -> bool {
    is_within_kubelet(path) || mounts::out_of_kubelets(path).is_some()
}

/// Whether what stands at `path` is held by kubelet's layout: it rests in a directory called `..SOMETHING`, beside which
/// stands a `..data` link, or in a directory below it, since a projected path may have several parts.
///
/// That the link leads to this very directory is not asked: it may be swapped between two looks.
fn is_within_kubelet(path: &Path) -> bool {
    let is_unit = |dir: &Path| {
        let is_hidden = dir.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".."));
        is_hidden && is_link(&parent(dir).join(DATA_LINK))
    };
    resolved(path).ancestors().any(is_unit)
}

/// Whether an entry of this name is read: hidden files are ours, kubelet's or an editor's.
pub(super) fn is_entry(name: &str) -> bool {
    !name.starts_with('.')
}

/// The entries of the directory at `path`, by name; none if it is no directory.
pub(super) fn entries(path: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(path) else { return Vec::new() };
    let is_ours = |file: &fs::DirEntry| file.file_name().to_str().is_some_and(is_entry);
    let mut entries: Vec<_> =
        files.flatten().take(MAX_NAMES).filter(is_ours).map(|file| file.path()).collect();
    entries.sort_unstable();
    entries
}

/// Whether a file of this name holds nothing secret.
pub(super) fn is_public(name: &str) -> bool {
    [".crt", ".cer", ".pub"].iter().any(|end| name.ends_with(end))
}

/// Whether the directory that a write goes to can be written by this process: not mounted read-only, no
/// permission missing. Where the directory does not exist the write itself explains best, so then: yes.
pub(super) fn may_write_beside(path: &Path, layout: &Layout) -> bool {
    let dir = match layout {
        Layout::Unit | Layout::KubeletDirectory | Layout::Empty | Layout::LoneRing | Layout::Flat => {
            path.to_owned()
        }
        // A rename over a mount point fails, whoever tries.
        Layout::File if mounts::by_itself(path).is_some() => return false,
        Layout::File | Layout::KubeletFile => parent(&resolved(path)).to_owned(),
        Layout::Missing => parent(path).to_owned(),
    };
    match rustix::fs::access(&dir, Access::WRITE_OK) {
        Ok(()) => true,
        Err(error) => io::Error::from(error).kind() == io::ErrorKind::NotFound,
    }
}

/// The directory in which anyone may replace the key, whatever the mode of its file. A sticky bit keeps others from
/// that; where kubelet's layout is mounted read-only, as kubelet does, nobody here can.
pub(super) fn replaceable(path: &Path, layout: &Layout) -> Option<Advice> {
    let dir = match layout {
        Layout::File => parent(&resolved(path)).to_owned(),
        Layout::Empty | Layout::LoneRing | Layout::Flat => path.to_owned(),
        Layout::Unit if !is_mounted_read_only(path) => path.to_owned(),
        Layout::Missing | Layout::KubeletFile | Layout::KubeletDirectory | Layout::Unit => return None,
    };
    let mode = fs::metadata(&dir).ok()?.mode() & 0o7777;
    let is_open = mode & 0o002 != 0 && mode & 0o1000 == 0;
    is_open.then(|| Advice::Replaceable { directory: fault::shown(&dir), mode })
}

fn is_mounted_read_only(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// A file that is mounted by itself stays the one that it was when it was mounted, and so does a directory out of kubelet's
/// layout.
pub(super) fn never_updates(path: &Path) -> Option<Advice> {
    let mount = mounts::by_itself(path).or_else(|| mounts::out_of_kubelets(path))?;
    Some(Advice::NeverUpdates { path: fault::shown(path), is_replaced: mount.is_of_removed_file() })
}

/// The files of kubelet's layout that anyone may read.
pub(super) fn world_readable(path: &Path, layout: &Layout) -> Vec<Advice> {
    match layout {
        Layout::KubeletFile => {
            fs::metadata(path).ok().and_then(|found| advice(path, &found)).into_iter().collect()
        }
        Layout::Unit => directory_advice(path, &path.join(DATA_LINK)),
        Layout::KubeletDirectory => directory_advice(path, path),
        Layout::Missing | Layout::File | Layout::Empty | Layout::LoneRing | Layout::Flat => Vec::new(),
    }
}

fn directory_advice(path: &Path, unit: &Path) -> Vec<Advice> {
    let judged = |file: PathBuf| {
        let name = file.file_name()?.to_str().filter(|name| !is_public(name))?;
        let metadata = fs::metadata(&file).ok().filter(Metadata::is_file)?;
        advice(&path.join(name), &metadata)
    };
    entries(unit).into_iter().filter_map(judged).collect()
}

fn advice(path: &Path, found: &Metadata) -> Option<Advice> {
    let mode = found.mode() & 0o7777;
    (mode & 0o007 != 0).then(|| Advice::WorldReadable { path: fault::shown(path), mode })
}

fn directory(path: &Path) -> io::Result<Layout> {
    let mut layout = Layout::Empty;
    for file in fs::read_dir(path)?.take(MAX_NAMES) {
        let file = file?;
        let name = file.file_name();
        let is_skipped = !name.to_str().is_some_and(is_entry) || file.file_type()?.is_dir();
        match layout {
            _ if is_skipped => {}
            Layout::Empty if name == Entries::KEYRING => layout = Layout::LoneRing,
            _ => return Ok(Layout::Flat),
        }
    }
    Ok(layout)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}
