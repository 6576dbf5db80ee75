//! Whether an opened file may hold a key: what it is, and who else can read it.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, StatVfsMountFlags, fstatvfs};

use super::{acl, fault};
use crate::{ErrorKind, ProviderError};

/// Which permission bits a file may have.
#[derive(Clone, Copy, Debug)]
pub(super) enum ModeRule {
    /// None for group and others.
    OwnerOnly,
    /// As the pod's manifest says; too wide is an advice.
    Kubelet,
    /// It holds nothing secret.
    Public,
}

/// Refuses what is no file, and a file that `rule` finds too open.
pub(super) fn judge(path: &Path, file: &File, found: &Metadata, rule: ModeRule) -> Result<(), ProviderError> {
    if !found.is_file() {
        return Err(not_regular(path, FileType::from_raw_mode(found.mode())));
    }
    let mode = found.mode() & 0o7777;
    if !matches!(rule, ModeRule::OwnerOnly) || mode & 0o077 == 0 {
        return Ok(());
    }
    let place = fault::shown(path);
    let (who, cure) = match acl::of(file) {
        Some(list) if !list.lets_others_in(rustix::process::geteuid().as_raw()) => return Ok(()),
        Some(_) => ("access control list lets", format!("`setfacl --remove-all {place}`")),
        None => ("mode lets", format!("`chmod 0600 {place}`")),
    };
    let cure = if is_mounted_read_only(file) { CURE_AT_THE_SOURCE.to_owned() } else { cure };
    let detail = format!("its {who} others than its owner at the key (mode {mode:04o}); {cure}");
    Err(fault::at(path, ErrorKind::Exposed, detail))
}

/// What stands at `path` is of this kind, and neither a file nor a directory.
pub(super) fn not_regular(path: &Path, kind: FileType) -> ProviderError {
    let what = match kind {
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        _ => "something else",
    };
    fault::at(path, ErrorKind::Malformed, format!("it is {what}, not a regular file"))
}

/// There no `chmod` helps.
fn is_mounted_read_only(file: &File) -> bool {
    fstatvfs(file).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

const CURE_AT_THE_SOURCE: &str = "it is mounted read-only, so set it to 0400 where it is mounted from \
                                  (a container's secret has a `mode`, and a `uid` for its owner)";
