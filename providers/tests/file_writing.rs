//! What a write leaves behind: on success, on refusal, after a crash, against other writers.

#![cfg(feature = "file")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use common::{NONROOT, change, is_root, kubelet_update, run_as_nonroot, skipped, temp_dir, watched, write};
use oneseal_providers::{Entries, ErrorKind, FileProvider, ProviderError, Revision, SecretProvider};
use oneseal_testing::block_on;
use uuid::Uuid;

fn create(path: &Path, entries: Entries) -> Result<Revision, ProviderError> {
    block_on(FileProvider::new(path).create(entries, change(Uuid::new_v4())))
}

fn replace(path: &Path, entries: Entries) -> Result<Revision, ProviderError> {
    let provider = FileProvider::new(path);
    block_on(async {
        let known = provider.load().await?.revision;
        provider.replace(&known, entries, change(Uuid::new_v4())).await
    })
}

fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_file_is_its_owners_alone_and_only_the_lock_stays() {
    let dir = temp_dir();
    let path = dir.path().join("key");
    create(&path, Entries::single("any", "one")).unwrap();
    replace(&path, Entries::single("any", "two")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!((mode(&path), mode(&dir.path().join(".key.lock"))), (0o600, 0o600));
    assert_eq!(listing(dir.path()), [".key.lock", "key"]);
}

#[test]
fn a_directory_is_written_in_kubelets_layout() {
    let dir = temp_dir();
    let mut entries = Entries::single("current.pem", "one");
    entries.insert("next.pem", "two");
    create(dir.path(), entries).unwrap();
    let unit = fs::read_link(dir.path().join("..data")).unwrap();
    assert_eq!(fs::read_link(dir.path().join("next.pem")).unwrap(), Path::new("..data/next.pem"));
    assert_eq!(
        (mode(&dir.path().join(&unit)), mode(&dir.path().join(&unit).join("next.pem"))),
        (0o700, 0o600)
    );

    replace(dir.path(), Entries::single("current.pem", "three")).unwrap();
    let next_unit = fs::read_link(dir.path().join("..data")).unwrap();
    assert_ne!(unit, next_unit);
    let mut wanted = vec![next_unit.to_str().unwrap(), "..data", ".keyring.json.lock", "current.pem"];
    wanted.sort_unstable();
    assert_eq!(listing(dir.path()), wanted, "neither the old unit nor the old name is left");
    assert_eq!(fs::read(dir.path().join("current.pem")).unwrap(), b"three");
}

/// Bare keys name no change themselves: the unit does.
#[test]
fn a_directory_of_bare_keys_tells_which_change_made_it() {
    let dir = temp_dir();
    let provider = FileProvider::new(dir.path());
    let id = Uuid::new_v4();
    block_on(async {
        provider.create(Entries::single("current.pem", "one"), change(id)).await.unwrap();
        assert_eq!(provider.load().await.unwrap().change_id, Some(id));
        kubelet_update(dir.path(), &Entries::single("current.pem", "two"), 0o400);
        assert_eq!(provider.load().await.unwrap().change_id, None, "kubelet's updates are nobody's change");
    });
}

#[test]
fn what_kubelet_wrote_is_written_on_and_cleared_away() {
    let dir = temp_dir();
    kubelet_update(dir.path(), &Entries::single("current.pem", "kubelet's"), 0o600);
    let old = fs::read_link(dir.path().join("..data")).unwrap();
    replace(dir.path(), Entries::single("current.pem", "ours")).unwrap();
    assert_eq!(fs::read(dir.path().join("current.pem")).unwrap(), b"ours");
    assert!(!dir.path().join(old).exists());
}

#[test]
fn the_lone_ring_of_a_directory_stays_a_file() {
    let dir = temp_dir();
    create(dir.path(), Entries::single(Entries::KEYRING, "{}")).unwrap();
    replace(dir.path(), Entries::single(Entries::KEYRING, "{ }")).unwrap();
    assert_eq!(listing(dir.path()), [".keyring.json.lock", "keyring.json"]);
    let with_another = {
        let mut entries = Entries::single(Entries::KEYRING, "{}");
        entries.insert("current.pem", "key");
        entries
    };
    let error = replace(dir.path(), with_another).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert_eq!(fs::read(dir.path().join("keyring.json")).unwrap(), b"{ }");
}

/// A template or a full disk leaves it so, and whoever still has the record puts it back over just that.
#[test]
fn an_empty_file_is_no_record_and_can_be_replaced_at_the_revision_that_it_is_told_at() {
    let dir = temp_dir();
    let path = dir.path().join("key");
    let first = create(&path, Entries::single("any", "one")).unwrap();
    fs::write(&path, "").unwrap();
    let provider = FileProvider::new(&path);
    block_on(async {
        let empty = provider.load().await.unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::Malformed);
        let at = empty.revision().unwrap().clone();
        let late = provider
            .replace(&first, Entries::single("any", "two"), change(Uuid::new_v4()))
            .await
            .unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict);
        let again =
            provider.replace(&at, Entries::single("any", "one"), change(Uuid::new_v4())).await.unwrap();
        assert_eq!((&again, fs::read(&path).unwrap().as_slice()), (&first, b"one".as_slice()));
        let late =
            provider.replace(&at, Entries::single("any", "two"), change(Uuid::new_v4())).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict, "it is empty no more");
    });
}

#[test]
fn refusals_say_why_and_leave_nothing_behind() {
    let dir = temp_dir();
    let two = || {
        let mut entries = Entries::single("current.pem", "one");
        entries.insert("next.pem", "two");
        entries
    };
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    let at = |name: &str| dir.path().join(name);
    for (path, entries, kind, words) in [
        (at("key"), two(), ErrorKind::ReadOnly, "one entry, not 2"),
        (at("key"), Entries::new(), ErrorKind::Malformed, "empty"),
        (at("key"), Entries::single("current", ""), ErrorKind::Malformed, "empty"),
        (
            at("missing/key"),
            Entries::single("current", "key"),
            ErrorKind::NotFound,
            "does not exist; create it first",
        ),
        (at("dangling"), Entries::single("current", "key"), ErrorKind::NotFound, "is a link to nowhere"),
    ] {
        let error = create(&path, entries).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(listing(dir.path()), ["dangling"]);
    let empty = temp_dir();
    for name in ["", "../up", "a/b", ".hidden", "..data", &"x".repeat(254)] {
        let error = create(empty.path(), Entries::single(name, "key")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
    }
    assert!(listing(empty.path()).is_empty());
}

#[test]
fn what_a_crashed_writer_left_is_neither_read_nor_kept() {
    let dir = temp_dir();
    let leftover = format!(".key.{}.tmp", Uuid::new_v4());
    write(&dir.path().join(&leftover), "half", 0o600);
    write(&dir.path().join(".key.notes.tmp"), "somebody else's", 0o600);
    let path = dir.path().join("key");
    create(&path, Entries::single("current", "key")).unwrap();
    assert_eq!(listing(dir.path()), [".key.lock", ".key.notes.tmp", "key"]);

    let volume = temp_dir();
    create(volume.path(), Entries::single("current.pem", "one")).unwrap();
    let half = format!("..{}", Uuid::new_v4());
    fs::create_dir(volume.path().join(&half)).unwrap();
    write(&volume.path().join(&half).join("current.pem"), "half", 0o600);
    symlink(&half, volume.path().join("..data_tmp")).unwrap();
    assert_eq!(fs::read(volume.path().join("current.pem")).unwrap(), b"one");
    replace(volume.path(), Entries::single("current.pem", "two")).unwrap();
    assert!(!volume.path().join(&half).exists() && !volume.path().join("..data_tmp").exists());
    assert_eq!(fs::read(volume.path().join("current.pem")).unwrap(), b"two");
}

#[test]
fn a_linked_file_is_written_where_it_is() {
    let (dir, elsewhere) = (temp_dir(), temp_dir());
    let target = elsewhere.path().join("real");
    write(&target, "one", 0o600);
    let link = dir.path().join("key");
    symlink(&target, &link).unwrap();
    replace(&link, Entries::single("current", "two")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&target).unwrap(), b"two");
    assert_eq!(listing(dir.path()), ["key"], "the lock is beside the file itself");
}

#[test]
fn a_held_lock_is_named_after_a_while() {
    let dir = temp_dir();
    let path = dir.path().join("key");
    create(&path, Entries::single("current", "key")).unwrap();
    let lock = File::open(dir.path().join(".key.lock")).unwrap();
    lock.lock().unwrap();
    let error = replace(&path, Entries::single("current", "new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.detail().contains(".key.lock"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"key");
    drop(lock);
    replace(&path, Entries::single("current", "new")).unwrap();
}

#[test]
fn an_exposed_file_is_not_quietly_replaced() {
    let dir = temp_dir();
    let path = dir.path().join("key");
    create(&path, Entries::single("current", "key")).unwrap();
    let provider = watched(&path);
    let known = block_on(provider.load()).unwrap().revision;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let write = provider.replace(&known, Entries::single("current", "new"), change(Uuid::new_v4()));
    assert_eq!(block_on(write).unwrap_err().kind(), ErrorKind::Exposed);
    assert_eq!(fs::read(&path).unwrap(), b"key");
}

#[test]
fn root_leaves_the_key_to_whom_it_belongs() {
    if !is_root() {
        return skipped("root_leaves_the_key_to_whom_it_belongs", "only root can give files away");
    }
    let dir = temp_dir();
    chown(dir.path(), Some(NONROOT), Some(NONROOT)).unwrap();
    let file = dir.path().join("key");
    write(&file, "one", 0o600);
    let volume = dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    kubelet_update(&volume, &Entries::single("current.pem", "one"), 0o600);
    let unit = fs::canonicalize(volume.join("..data")).unwrap();
    for theirs in [&file, &volume, &unit, &unit.join("current.pem")] {
        chown(theirs, Some(NONROOT), Some(NONROOT)).unwrap();
    }
    replace(&file, Entries::single("current", "two")).unwrap();
    replace(&volume, Entries::single("current.pem", "two")).unwrap();
    run_as_nonroot("as_nonroot_what_root_wrote_is_read_and_written", dir.path());
    assert_eq!(fs::read(&file).unwrap(), b"three");
}

#[test]
#[ignore = "run as another user by root_leaves_the_key_to_whom_it_belongs"]
fn as_nonroot_what_root_wrote_is_read_and_written() {
    let dir = std::path::PathBuf::from(std::env::var_os("TEST_DIR").unwrap());
    replace(&dir.join("key"), Entries::single("current", "three")).unwrap();
    replace(&dir.join("volume"), Entries::single("current.pem", "three")).unwrap();
}

/// A file system of its own, as small or as read-only as the options say.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn tmpfs(options: &str) -> Option<Self> {
        let dir = temp_dir();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path()).output();
        mount.is_ok_and(|done| done.status.success()).then_some(Self(dir))
    }

    fn remount(&self, options: &str) {
        let mount = Command::new("mount").args(["-o", options]).arg(self.0.path()).status().unwrap();
        assert!(mount.success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let Some(disk) = Mounted::tmpfs("size=64k,mode=0700") else {
        return skipped("a_full_disk_loses_nothing", "a file system cannot be mounted here");
    };
    let (path, volume) = (disk.0.path().join("key"), disk.0.path().join("volume"));
    fs::create_dir(&volume).unwrap();
    create(&path, Entries::single("current", "kept")).unwrap();
    create(&volume, Entries::single("current.pem", "kept")).unwrap();
    let (before, volume_before) = (listing(disk.0.path()), listing(&volume));
    for place in [&path, &volume] {
        let error = replace(place, Entries::single("current.pem", "x".repeat(100_000))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.detail().contains("no space is left"), "{error}");
    }
    assert_eq!((listing(disk.0.path()), listing(&volume)), (before, volume_before));
    assert_eq!(fs::read(&path).unwrap(), b"kept");
    assert_eq!(fs::read(volume.join("current.pem")).unwrap(), b"kept");
}

#[test]
fn a_read_only_mount_is_read_only() {
    let Some(disk) = Mounted::tmpfs("size=1m,mode=0700") else {
        return skipped("a_read_only_mount_is_read_only", "a file system cannot be mounted here");
    };
    let path = disk.0.path().join("key");
    write(&path, "kept", 0o600);
    disk.remount("remount,ro");
    assert!(!FileProvider::new(&path).describe().writable);
    let error = replace(&path, Entries::single("current", "new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
}
