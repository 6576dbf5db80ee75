//! Places that are no key's: each is answered at once, whatever stands there, and never by waiting.

#![cfg(all(feature = "file", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use common::{Binary, can_mount, change, is_root, run_as_nonroot, skipped, temp_dir, write};
use oneseal_providers::{
    Description, Entries, ErrorKind, FileProvider, ProviderError, Record, Revision, SecretProvider,
};
use oneseal_testing::block_on;

/// The promise is a second. These tests run beside many others on few processors; what hangs, or reads a gigabyte
/// into memory, takes longer than this all the same.
const AT_ONCE: Duration = Duration::from_secs(5);

const GIB: u64 = 1 << 30;

/// Everything that a boot asks of the provider, within the time.
#[track_caller]
fn answered(path: impl Into<PathBuf>) -> (Description, Result<Record, ProviderError>) {
    let path = path.into();
    let (tell, told) = mpsc::channel();
    let place = path.clone();
    let asking = std::thread::Builder::new().name("asking".to_owned()).spawn(move || {
        let provider = FileProvider::new(place);
        let _ = tell.send((provider.describe(), block_on(provider.load())));
    });
    let answer = told.recv_timeout(AT_ONCE);
    // One that hangs is left behind: the test fails.
    drop(asking);
    answer.unwrap_or_else(|_| panic!("no answer about {} within {AT_ONCE:?}", path.display()))
}

#[track_caller]
fn assert_refused(path: impl Into<PathBuf>, kind: ErrorKind, words: &str) {
    let (_, answer) = answered(path);
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{words}: {error}");
}

fn created(path: &Path) -> Result<Revision, ProviderError> {
    let provider = FileProvider::new(path);
    block_on(provider.create(Entries::single("current", "key"), change(uuid::Uuid::new_v4())))
}

#[test]
fn what_is_no_file_is_refused_unopened() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(at("fifo")).status().unwrap().success());
    let _listener = UnixListener::bind(at("socket")).unwrap();
    let controller =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
    let terminal = rustix::pty::ptsname(&controller, Vec::new()).unwrap();
    let terminal = PathBuf::from(OsStr::from_bytes(terminal.as_bytes()));

    let devices = ["/dev/zero", "/dev/null", "/dev/random", "/dev/full", "/dev/tty"].map(PathBuf::from);
    for device in devices.into_iter().chain([terminal]) {
        assert_refused(device, ErrorKind::Malformed, "a device, not a regular file");
    }
    for (name, words) in [("fifo", "a FIFO"), ("socket", "a socket")] {
        assert_refused(at(name), ErrorKind::Malformed, words);
        let (inner, link) = (at(&format!("with-{name}")), at(&format!("link-to-{name}")));
        symlink(at(name), &link).unwrap();
        assert_refused(&link, ErrorKind::Malformed, words);
        fs::create_dir(&inner).unwrap();
        fs::rename(at(name), inner.join("key.pem")).unwrap();
        assert_refused(inner, ErrorKind::Malformed, words);
    }
    // Regular files by their mode, and without a size.
    assert_refused("/proc/self/environ", ErrorKind::Malformed, "empty");
    assert_refused("/proc/self/mem", ErrorKind::Malformed, "empty");
    assert_refused("/proc/self/mountinfo", ErrorKind::Exposed, "0444");
}

#[test]
fn a_gigabyte_is_refused_unread_sparse_or_growing() {
    let dir = temp_dir();
    let path = dir.path().join("key.pem");
    write(&path, "", 0o600);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(GIB).unwrap();
    assert_refused(&path, ErrorKind::Malformed, "with its 1073741824 bytes");
    assert_refused(dir.path(), ErrorKind::Malformed, "with its 1073741824 bytes");

    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut size = GIB;
            while !is_over.load(Ordering::Relaxed) {
                size += 4096;
                file.set_len(size).unwrap();
            }
        });
        let (_, answer) = answered(&path);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Malformed);
    });
}

/// Whatever is read while a file is rewritten in place is one of its states or "it keeps changing", never a mixture of
/// lengths: a file that shrinks under the reader's hands is read again.
#[test]
fn a_file_that_changes_while_it_is_read_is_read_whole_or_not() {
    const LENGTH: usize = 32 * 1024;
    let dir = temp_dir();
    let path = dir.path().join("key.pem");
    write(&path, vec![b'a'; LENGTH], 0o600);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            let mut letter = b'a';
            while !is_over.load(Ordering::Relaxed) {
                letter = if letter == b'z' { b'a' } else { letter + 1 };
                file.set_len(1).unwrap();
                file.write_all_at(&vec![letter; LENGTH], 0).unwrap();
                let aside = dir.path().join("aside");
                write(&aside, vec![letter; LENGTH], 0o600);
                fs::rename(&aside, dir.path().join("replaced.pem")).unwrap();
            }
        });
        for _ in 0..20 {
            match answered(&path).1 {
                Ok(record) => assert!(!record.entries.get(Entries::CURRENT).unwrap().expose().is_empty()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            // That one is renamed into place, so it is always whole.
            match answered(dir.path().join("replaced.pem")).1 {
                Ok(record) => {
                    let value = record.entries.get(Entries::CURRENT).unwrap().expose();
                    assert!(value.len() == LENGTH && value.iter().all(|byte| *byte == value[0]));
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "before the first: {error}"),
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_directory_of_a_hundred_thousand_files_is_no_directory_of_keys() {
    // In memory, where there is some: a disk takes its time with so many.
    let dir =
        tempfile::Builder::new().prefix("oneseal-").tempdir_in("/dev/shm").unwrap_or_else(|_| temp_dir());
    for index in 0..100_000 {
        File::create(dir.path().join(format!("{index}.pem"))).unwrap();
    }
    assert_refused(dir.path(), ErrorKind::Malformed, "more than 1024 names");
    // A file in it is a file.
    let path = dir.path().join("key.pem");
    write(&path, "key", 0o600);
    answered(&path).1.unwrap();
    let replaced = block_on(async {
        let provider = FileProvider::new(&path);
        let known = provider.load().await?.revision;
        provider.replace(&known, Entries::single("current", "new"), change(uuid::Uuid::new_v4())).await
    });
    replaced.unwrap();
}

#[test]
fn a_thousand_hidden_names_and_a_deep_tree_are_looked_over() {
    let dir = temp_dir();
    let mut deep = dir.path().to_owned();
    (0..200).for_each(|_| deep.push("below"));
    fs::create_dir_all(&deep).unwrap();
    write(&deep.join("key.pem"), "key", 0o600);
    assert_refused(dir.path(), ErrorKind::NotFound, "holds no files");
    answered(deep.join("key.pem")).1.unwrap();
    for index in 0..1000 {
        write(&dir.path().join(format!(".{index}")), "", 0o600);
    }
    write(&dir.path().join("current.pem"), "key", 0o600);
    assert_eq!(answered(dir.path()).1.unwrap().entries.len(), 1);
}

#[test]
fn links_that_lead_nowhere_say_so() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    symlink("loop", at("loop")).unwrap();
    symlink("pong", at("ping")).unwrap();
    symlink("ping", at("pong")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    for name in ["loop", "ping", "loop/below"] {
        assert_refused(at(name), ErrorKind::Malformed, "in a circle");
    }
    assert_refused(at("dangling"), ErrorKind::NotFound, "a link to nowhere");
    assert_refused(dir.path(), ErrorKind::NotFound, "dangling: it is a link to nowhere");
    // Kubelet's link alone may be between two states, so that one is worth another try.
    let volume = temp_dir();
    symlink("..gone", volume.path().join("..data")).unwrap();
    assert_refused(volume.path(), ErrorKind::Unavailable, "`..data` link leads nowhere");
    symlink("..loop", volume.path().join("..loop")).unwrap();
    fs::remove_file(volume.path().join("..data")).unwrap();
    symlink("..loop", volume.path().join("..data")).unwrap();
    assert_refused(volume.path(), ErrorKind::Malformed, "in a circle");
}

#[test]
fn odd_names_are_taken_and_impossible_ones_refused() {
    let dir = temp_dir();
    for name in [&b"line\nbreak"[..], b"not-utf8-\xff\xfe", b" ", b"\x1b[31mred", b"a;rm -rf b"] {
        let path = dir.path().join(OsStr::from_bytes(name));
        write(&path, "key", 0o600);
        answered(&path).1.unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let (description, answer) = answered(&path);
        let told = answer.unwrap_err().to_string();
        assert!(
            !told.contains(char::is_control) && !description.location.contains(char::is_control),
            "{told:?}"
        );
        fs::remove_file(path).unwrap();
    }
    let long = "x".repeat(300);
    assert_refused(dir.path().join(&long), ErrorKind::NotFound, "longer than the file system takes");
    assert_refused(
        dir.path().join("y/".repeat(5000)),
        ErrorKind::NotFound,
        "longer than the file system takes",
    );
    assert_refused(dir.path().join("nul\0"), ErrorKind::NotFound, "takes no such name");
    // One that can be read and whose temporary file beside it cannot be made.
    let longest = dir.path().join("z".repeat(255));
    write(&longest, "key", 0o600);
    answered(&longest).1.unwrap();
    assert_eq!(created(&dir.path().join(&long)).unwrap_err().kind(), ErrorKind::NotFound);
    // As an entry of a directory, a name that is no text is nobody's.
    write(&dir.path().join(OsStr::from_bytes(b"\xff.pem")), "key", 0o600);
    fs::remove_file(&longest).unwrap();
    assert_refused(dir.path(), ErrorKind::NotFound, "holds no files");
}

#[test]
fn a_denial_names_path_uid_and_mode() {
    if !is_root() {
        return skipped("a_denial_names_path_uid_and_mode", "only root can become another user");
    }
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(dir.path(), 0o755);
    write(&at("root-0400"), "key", 0o400);
    symlink(at("root-0400"), at("link")).unwrap();
    for (name, mode) in [("unreadable", 0o711), ("unsearchable", 0o744)] {
        fs::create_dir_all(at(name).join("below")).unwrap();
        write(&at(name).join("key.pem"), "key", 0o644);
        set(&at(name), mode);
    }
    run_as_nonroot("as_nonroot_a_denial_names_path_uid_and_mode", dir.path());
}

#[test]
#[ignore = "run as another user by a_denial_names_path_uid_and_mode"]
fn as_nonroot_a_denial_names_path_uid_and_mode() {
    let dir = PathBuf::from(std::env::var_os("TEST_DIR").unwrap());
    let unsearchable = dir.join("unsearchable");
    let closed = format!(
        "uid 65532, gid 65532 may not enter {}: its mode is 0744, its owner 0",
        unsearchable.display()
    );
    for (name, words) in [
        (
            "root-0400",
            "root-0400: uid 65532, gid 65532 may not read it: its mode is 0400, its owner 0, its group 0",
        ),
        // The target's mode, not the link's 0777.
        ("link", "its mode is 0400, its owner 0"),
        ("unreadable", "unreadable: uid 65532, gid 65532 may not read it: its mode is 0711, its owner 0"),
        ("unsearchable", closed.as_str()),
        ("unsearchable/key.pem", closed.as_str()),
        ("unsearchable/below/key.pem", closed.as_str()),
    ] {
        assert_refused(dir.join(name), ErrorKind::Denied, words);
    }
    let error = created(&dir.join("new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.detail().contains("may not write in it: its mode is 0755, its owner 0"), "{error}");
}

/// A file system whose server has gone: what an outage of a network file system looks like.
#[test]
fn a_file_system_whose_server_has_ended_is_unavailable() {
    if !can_mount() || !Path::new("/dev/fuse").exists() {
        return skipped("a_file_system_whose_server_has_ended_is_unavailable", "it needs FUSE and root");
    }
    Binary::copy().run_with_own_mounts("with_own_mounts_a_file_system_has_ended", &[]);
}

#[test]
#[ignore = "run with mounts of its own by a_file_system_whose_server_has_ended_is_unavailable"]
fn with_own_mounts_a_file_system_has_ended() {
    let dir = temp_dir();
    let script =
        "exec 9<>/dev/fuse && mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none \"$1\"";
    let done = Command::new("bash").args(["-c", script, "bash"]).arg(dir.path()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for path in [dir.path().to_owned(), dir.path().join("key.pem")] {
        assert_refused(path, ErrorKind::Unavailable, "the program that serves this file system has ended");
    }
}
