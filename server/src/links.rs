//! Links on the way to a file, by whose they are.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The first link on the way along `path`, its last part and what other links lead to included, that is not of somebody
/// trusted or not in the directory of one: whoever owns either may lead the way anywhere. None as well where the way ends,
/// or cannot be looked at: whoever goes it finds out.
pub(crate) fn of_others(path: &Path, is_trusted: impl Fn(u32) -> bool) -> Option<PathBuf> {
    let mut walked = if path.is_absolute() { PathBuf::new() } else { std::env::current_dir().ok()? };
    let mut ahead = parts(path);
    let mut followed = 0;
    while let Some(part) = ahead.pop() {
        let here = match Path::new(&part).components().next() {
            Some(Component::RootDir) => {
                walked = PathBuf::from("/");
                continue;
            }
            Some(Component::ParentDir) => {
                walked.pop();
                continue;
            }
            _ => walked.join(part),
        };
        let found = fs::symlink_metadata(&here).ok()?;
        if !found.is_symlink() {
            walked = here;
            continue;
        }
        let directory = fs::metadata(&walked).ok()?;
        if !is_trusted(found.uid()) || !is_trusted(directory.uid()) {
            return Some(here);
        }
        followed += 1;
        if followed > MOST_LINKS {
            return None;
        }
        ahead.extend(parts(&fs::read_link(&here).ok()?));
    }
    None
}

/// The last first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// As Linux has it; past that nothing is opened either.
const MOST_LINKS: u32 = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_link_of_a_way_is_asked_for_its_owner_and_nothing_else_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = fs::canonicalize(dir.path()).expect("there");
        let at = |name: &str| dir.join(name);
        fs::create_dir_all(at("a/b")).expect("made");
        fs::write(at("a/b/file"), "").expect("written");
        symlink("a/b", at("to-dir")).expect("a link");
        symlink(at("to-dir/file"), at("to-file")).expect("a link");
        symlink("../b/file", at("a/b/up")).expect("a link");
        symlink("nowhere", at("dangling")).expect("a link");
        symlink("loop", at("loop")).expect("a link");
        let us = fs::metadata(&dir).expect("there").uid();
        for name in ["a/b/file", "a/b/../b/file", "a/b/none", "none/at/all"] {
            assert_eq!(of_others(&at(name), |_| false), None, "{name}");
        }
        for (name, first) in [
            ("to-dir/file", "to-dir"),
            ("to-dir/none", "to-dir"),
            ("to-file", "to-file"),
            ("a/../to-file", "to-file"),
            ("a/b/up", "a/b/up"),
            ("dangling", "dangling"),
            ("loop", "loop"),
        ] {
            assert_eq!(of_others(&at(name), |_| false), Some(at(first)), "{name}");
            assert_eq!(of_others(&at(name), |uid| uid == us), None, "{name}");
        }
    }

    /// Nobody but root can make a stranger's link.
    #[test]
    fn a_strangers_link_and_a_strangers_directory_are_found_behind_ones_own_link() {
        const STRANGER: u32 = 65_534;
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var("TEST_REQUIRE").as_deref() != Ok("all"), "another user's link takes root");
            return println!("skipped: another user's link takes root");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let dir = fs::canonicalize(dir.path()).expect("there");
        let at = |name: &str| dir.join(name);
        fs::write(at("file"), "").expect("written");
        fs::create_dir(at("theirs")).expect("made");
        symlink("../file", at("theirs/link")).expect("a link");
        symlink("file", at("planted")).expect("a link");
        symlink("planted", at("own")).expect("a link");
        std::os::unix::fs::lchown(at("planted"), Some(STRANGER), None).expect("root may");
        std::os::unix::fs::chown(at("theirs"), Some(STRANGER), None).expect("root may");
        let found = |name: &str| of_others(&at(name), |uid| uid == 0);
        assert_eq!(found("own"), Some(at("planted")));
        assert_eq!(found("theirs/link"), Some(at("theirs/link")));
        let refused =
            crate::files::replace_with_mode(&at("own"), b"x", 0o640).expect_err("not followed").in_full();
        assert!(refused.contains("planted is a link of another user's"), "{refused}");
        assert_eq!(fs::read(at("file")).expect("there"), b"");
    }
}
