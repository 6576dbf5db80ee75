//! Writing a directory so that its files change together: kubelet's layout.
//!
//! ```text
//! keys/..7b0b6f8e-…/            the unit: every entry, and `.change`
//! keys/..data        -> ..7b0b6f8e-…
//! keys/current.pem   -> ..data/current.pem
//! ```

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::fault;
use super::layout::{self, DATA_LINK};
use super::read::CHANGE_FILE;
use super::write::{Owner, flush_dir, new_file};
use crate::{Entries, ProviderError};

/// The new link before it takes the old one's place. Kubelet's name for it.
const NEW_DATA_LINK: &str = "..data_tmp";

/// Writes `entries` as a new unit of `dir` and swaps the link. The caller holds the writers' lock.
pub(super) fn write(dir: &Path, entries: &Entries, change_id: Uuid) -> Result<(), ProviderError> {
    let failed = |error| fault::writing(&dir.join(DATA_LINK), error);
    let owner = Owner::of(&dir.join(DATA_LINK)).ok();
    let unit = Unit::write(dir, entries, change_id, owner.as_ref()).map_err(failed)?;
    swap(dir, &unit).map_err(failed)?;
    let name = unit.keep();
    flush_dir(dir).map_err(|error| fault::unconfirmed(dir, error))?;
    // The record is whole and durable from here on; what is left concerns those who read without the link.
    if let Err(error) = tidy(dir, &name, entries) {
        tracing::warn!(path = %dir.display(), %error, "the record is written, but old files could not be tidied up");
    }
    Ok(())
}

fn swap(dir: &Path, unit: &Unit) -> io::Result<()> {
    let new_link = dir.join(NEW_DATA_LINK);
    remove_if_there(&new_link)?;
    symlink(&unit.name, &new_link)?;
    fs::rename(&new_link, dir.join(DATA_LINK))
}

/// A new unit; removed when dropped, unless kept.
struct Unit {
    name: String,
    path: PathBuf,
    is_kept: bool,
}

impl Unit {
    fn write(dir: &Path, entries: &Entries, change_id: Uuid, owner: Option<&Owner>) -> io::Result<Self> {
        let name = format!("..{}", Uuid::new_v4());
        let path = dir.join(&name);
        DirBuilder::new().mode(0o700).create(&path)?;
        let unit = Self { name, path, is_kept: false };
        for (name, value) in entries.iter() {
            unit.write_file(name, value.expose(), owner)?;
        }
        unit.write_file(CHANGE_FILE, change_id.to_string().as_bytes(), owner)?;
        let opened = File::open(&unit.path)?;
        owner.map_or(Ok(()), |owner| owner.give(&opened))?;
        opened.sync_all()?;
        Ok(unit)
    }

    fn write_file(&self, name: &str, bytes: &[u8], owner: Option<&Owner>) -> io::Result<()> {
        let mut file = new_file(&self.path.join(name))?;
        owner.map_or(Ok(()), |owner| owner.give(&file))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn keep(mut self) -> String {
        self.is_kept = true;
        std::mem::take(&mut self.name)
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Gives each entry its link beside `..data`, takes the links of entries that are gone, removes old units.
fn tidy(dir: &Path, current: &str, entries: &Entries) -> io::Result<()> {
    for (name, _) in entries.iter() {
        let link = dir.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA_LINK).join(name), link)?;
        }
    }
    for file in fs::read_dir(dir)? {
        let file = file?;
        let name = file.file_name();
        let Some(name) = name.to_str() else { continue };
        if layout::is_entry(name) && entries.get(name).is_none() && leads_to_data(&file.path()) {
            remove_if_there(&file.path())?;
        } else if name != current && is_unit_name(name) && file.file_type()?.is_dir() {
            fs::remove_dir_all(file.path())?;
        }
    }
    Ok(())
}

fn leads_to_data(link: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.starts_with(DATA_LINK))
}

/// Ours (a UUID) or kubelet's (`..2006_01_02_15_04_05.123456789`).
fn is_unit_name(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("..") else { return false };
    let is_dated = rest.starts_with(|c: char| c.is_ascii_digit())
        && rest.chars().all(|c| c.is_ascii_digit() || matches!(c, '_' | '.'));
    is_dated || Uuid::parse_str(rest).is_ok()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_units_are_taken_for_units() {
        for unit in ["..7b0b6f8e-6a3d-4f0c-9d3e-2f1f6c1f7a11", "..2026_03_01_12_00_00.3141592653"] {
            assert!(is_unit_name(unit), "{unit}");
        }
        for other in ["..data", "..data_tmp", "..", ".", "..backup", "2026_03_01"] {
            assert!(!is_unit_name(other), "{other}");
        }
    }
}
