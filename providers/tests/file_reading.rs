//! What the file provider reads, refuses and says of the place.

#![cfg(feature = "file")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;

use common::{NONROOT, is_root, kubelet_update, run_as_nonroot, skipped, temp_dir, write};
use oneseal_providers::{
    Advice, Durability, Entries, ErrorKind, FileProvider, ProviderError, Record, SecretProvider,
};
use oneseal_testing::block_on;

fn load(path: impl AsRef<Path>) -> Result<Record, ProviderError> {
    let provider = FileProvider::new(path.as_ref());
    block_on(provider.load())
}

fn names(record: &Record) -> Vec<&str> {
    record.entries.iter().map(|(name, _)| name).collect()
}

#[track_caller]
fn assert_refused(path: impl AsRef<Path>, kind: ErrorKind, words: &str) {
    let error = load(path).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn what_is_not_a_record_is_refused_with_its_place() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    write(&at("empty"), "", 0o600);
    write(&at("file"), "key", 0o600);
    fs::create_dir(at("directory")).unwrap();
    symlink("loop", at("loop")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    assert_refused(at("missing"), ErrorKind::NotFound, "missing: there is no such file");
    assert_refused(at("empty"), ErrorKind::Malformed, "empty: the file is empty, as a failed template");
    assert_refused("/", ErrorKind::Malformed, "the root of the file system");
    assert_refused(at("directory"), ErrorKind::NotFound, "holds no files");
    assert_refused(at("file/below"), ErrorKind::NotFound, "not a directory");
    assert_refused(at("loop"), ErrorKind::Malformed, "in a circle");
    assert_refused(at("dangling"), ErrorKind::NotFound, "a link to nowhere");
    assert_refused("/dev/null", ErrorKind::Malformed, "a device, not a regular file");
    // Whether it would last is then no question.
    assert_eq!(FileProvider::new("/dev/zero").describe().durability, Durability::Durable);
}

#[test]
fn a_directory_in_which_anyone_may_replace_the_key_is_an_advice() {
    use std::os::unix::fs::PermissionsExt;
    let dir = temp_dir();
    let inner = dir.path().join("keys");
    fs::create_dir(&inner).unwrap();
    write(&inner.join("current.pem"), "key", 0o600);
    for (mode, expected) in [(0o777, true), (0o702, true), (0o1777, false), (0o770, false), (0o700, false)] {
        fs::set_permissions(&inner, fs::Permissions::from_mode(mode)).unwrap();
        for path in [inner.clone(), inner.join("current.pem")] {
            let advice = FileProvider::new(path).describe().advice;
            let is_told = advice.iter().any(|advice| matches!(advice, Advice::Replaceable { .. }));
            assert_eq!(is_told, expected, "{mode:o}");
        }
    }
}

#[test]
fn a_fifo_or_a_socket_is_refused_without_waiting_for_a_writer() {
    let dir = temp_dir();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&fifo).status().unwrap().success());
    assert_refused(&fifo, ErrorKind::Malformed, "a FIFO");
    // The same as an entry of a directory.
    assert_refused(dir.path(), ErrorKind::Malformed, "fifo: it is a FIFO");

    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_refused(&socket, ErrorKind::Malformed, "a socket");
}

#[test]
fn what_may_be_no_key_is_refused_in_words_for_both() {
    let dir = temp_dir();
    let beside = "if this is none, keep it elsewhere";
    write(&dir.path().join("README"), "words", 0o644);
    let alone = load(dir.path()).unwrap_err().to_string();
    assert!(alone.contains("chmod 0600") && !alone.contains(beside), "{alone}");
    write(&dir.path().join("tls.key"), "key", 0o600);
    assert_refused(dir.path(), ErrorKind::Exposed, beside);
    fs::remove_file(dir.path().join("README")).unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    assert_refused(dir.path(), ErrorKind::NotFound, beside);
    fs::remove_file(dir.path().join("dangling")).unwrap();
    write(&dir.path().join("backup"), vec![b'x'; 2 << 20], 0o600);
    assert_refused(dir.path(), ErrorKind::Malformed, beside);
    fs::remove_file(dir.path().join("backup")).unwrap();
    assert_eq!(load(dir.path()).unwrap().entries.len(), 1);
}

#[test]
fn a_huge_file_is_refused_and_not_read() {
    let dir = temp_dir();
    let path = dir.path().join("huge");
    write(&path, "", 0o600);
    // Sparse: reading it would take all memory there is.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    assert_refused(&path, ErrorKind::Malformed, "larger than the 1048576");

    fs::remove_file(&path).unwrap();
    for part in ["a.pem", "b.pem"] {
        write(&dir.path().join(part), vec![b'x'; 600_000], 0o600);
    }
    assert_refused(dir.path(), ErrorKind::Malformed, "larger than the 1048576");
}

#[test]
fn a_directory_gives_its_visible_files_by_name() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    write(&at("current.pem"), "one", 0o600);
    write(&at("next.pem"), "", 0o600);
    write(&at("tls.crt"), "public", 0o644);
    write(&at(".hidden"), "not ours", 0o644);
    fs::create_dir_all(at("lost+found/below")).unwrap();
    symlink("lost+found", at("link-to-directory")).unwrap();
    let outside = temp_dir();
    write(&outside.path().join("key"), "two", 0o600);
    symlink(outside.path().join("key"), at("previous.pem")).unwrap();

    let record = load(dir.path()).unwrap();
    assert_eq!(names(&record), ["current.pem", "next.pem", "previous.pem", "tls.crt"]);
    assert_eq!(record.entries.get("previous.pem").unwrap().expose(), b"two");
    assert!(!FileProvider::new(dir.path()).describe().writable, "a flat directory is not written");
}

/// Kubelet empties the old directory right after the swap, under the hands of whoever is reading it.
#[test]
fn a_volume_swapped_while_it_is_read_is_read_whole() {
    const FILES: usize = 24;
    let volume = temp_dir();
    let update = |tag: usize| {
        let mut entries = Entries::new();
        (0..FILES).for_each(|file| entries.insert(format!("{file}.pem"), tag.to_string()));
        kubelet_update(volume.path(), &entries, 0o400);
    };
    update(0);
    let provider = FileProvider::new(volume.path());
    std::thread::scope(|scope| {
        let updating = scope.spawn(|| (1..=300).for_each(update));
        block_on(async {
            let mut reads = 0;
            while !updating.is_finished() || reads == 0 {
                match provider.load().await {
                    Ok(record) => assert_of_one_update(&record, FILES),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "at most too quick: {error}")
                    }
                }
                reads += 1;
            }
        });
    });
}

fn assert_of_one_update(record: &Record, files: usize) {
    let values: BTreeSet<_> = record.entries.iter().map(|(_, value)| value.expose()).collect();
    assert_eq!((record.entries.len(), values.len()), (files, 1), "files of one update, all of them");
}

#[test]
fn revision_follows_content_not_time() {
    let dir = temp_dir();
    let path = dir.path().join("key");
    write(&path, "key", 0o600);
    let first = load(&path).unwrap().revision;
    fs::File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    common::rename_into_place(&path, "key");
    assert_eq!(load(&path).unwrap().revision, first);
    write(&path, "kez", 0o600);
    assert_ne!(load(&path).unwrap().revision, first);
}

#[test]
fn a_half_written_file_is_read_as_what_it_is() {
    let dir = temp_dir();
    let path = dir.path().join("key");
    write(&path, "-----BEGIN", 0o600);
    assert_eq!(load(&path).unwrap().entries.get(Entries::CURRENT).unwrap().expose(), b"-----BEGIN");
}

#[test]
fn outside_kubelet_layout_any_access_of_others_is_refused() {
    let dir = temp_dir();
    for (mode, is_fine) in [
        (0o400, true),
        (0o600, true),
        (0o440, false),
        (0o640, false),
        (0o604, false),
        (0o644, false),
        (0o620, false),
        (0o666, false),
    ] {
        let path = dir.path().join(format!("{mode:o}.pem"));
        write(&path, "key", mode);
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        for place in [path.as_path(), &link] {
            match load(place) {
                Ok(_) => assert!(is_fine, "{mode:o} at {}", place.display()),
                Err(error) => {
                    assert_eq!((error.kind(), is_fine), (ErrorKind::Exposed, false), "{mode:o}: {error}");
                    assert!(
                        error.detail().contains(&format!("{mode:04o}"))
                            && error.detail().contains("chmod 0600")
                    );
                }
            }
        }
        fs::remove_file(link).unwrap();
        fs::remove_file(path).unwrap();
    }
    write(&dir.path().join("current.pem"), "key", 0o600);
    write(&dir.path().join("next.pem"), "key", 0o640);
    assert_refused(dir.path(), ErrorKind::Exposed, "next.pem");
}

#[test]
fn within_kubelet_layout_a_wide_mode_is_an_advice() {
    for (mode, is_advised) in [(0o400, false), (0o440, false), (0o640, false), (0o644, true), (0o666, true)] {
        let volume = temp_dir();
        let mut entries = Entries::single("current.pem", "key");
        entries.insert("tls.crt", "public");
        kubelet_update(volume.path(), &entries, mode);
        for place in [
            volume.path().to_owned(),
            volume.path().join("current.pem"),
            volume.path().join("..data/current.pem"),
        ] {
            let record = load(&place).unwrap();
            let wanted = if place.is_dir() { vec!["current.pem", "tls.crt"] } else { vec![Entries::CURRENT] };
            assert_eq!(names(&record), wanted, "{}", place.display());
            let file = if place.is_dir() { place.join("current.pem") } else { place.clone() };
            let advice = Advice::WorldReadable { path: file.display().to_string(), mode };
            let expected = if is_advised { vec![advice] } else { Vec::new() };
            assert_eq!(FileProvider::new(&place).describe().advice, expected, "{mode:o} {}", place.display());
        }
    }
}

/// A projected path may have several parts, and then a directory of the volume holds the keys.
#[test]
fn a_directory_within_kubelet_layout_is_judged_as_the_volume_is_and_not_written() {
    let volume = temp_dir();
    kubelet_update(volume.path(), &Entries::single("keys/signing/current.pem", "key"), 0o440);
    for place in ["keys/signing", "keys/signing/current.pem", "..data/keys/signing"] {
        let provider = FileProvider::new(volume.path().join(place));
        let record = block_on(provider.load()).unwrap();
        assert_eq!(record.entries.iter().next().unwrap().1.expose(), b"key");
        let description = provider.describe();
        assert!(!description.writable && description.advice.is_empty(), "{description:?}");
        let write = provider.replace(
            &record.revision,
            Entries::single("current.pem", "x"),
            common::change(uuid::Uuid::new_v4()),
        );
        assert_eq!(block_on(write).unwrap_err().kind(), ErrorKind::ReadOnly, "{place}");
    }
    kubelet_update(volume.path(), &Entries::single("keys/signing/current.pem", "key"), 0o644);
    let advice = FileProvider::new(volume.path().join("keys/signing")).describe().advice;
    assert!(matches!(&*advice, [Advice::WorldReadable { mode: 0o644, .. }]), "{advice:?}");
    // The same outside of such a layout.
    write(&volume.path().join("plain.pem"), "key", 0o440);
    assert_refused(volume.path().join("plain.pem"), ErrorKind::Exposed, "0440");
}

#[test]
fn a_file_of_a_kubelet_volume_is_not_written() {
    let volume = temp_dir();
    kubelet_update(volume.path(), &Entries::single("keyring.json", "{}"), 0o600);
    let provider = FileProvider::new(volume.path().join("keyring.json"));
    assert!(!provider.describe().writable);
    let known = block_on(provider.load()).unwrap().revision;
    let write =
        provider.replace(&known, Entries::single("keyring.json", "x"), common::change(uuid::Uuid::new_v4()));
    let error = block_on(write).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert!(fs::symlink_metadata(provider.path()).unwrap().is_symlink(), "the link is still kubelet's");
}

#[test]
fn another_user_is_judged_by_the_same_rules() {
    if !is_root() {
        return skipped("another_user_is_judged_by_the_same_rules", "only root can become another user");
    }
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    write(&at("root-0400"), "key", 0o400);
    write(&at("own-0600"), "key", 0o600);
    chown(at("own-0600"), Some(NONROOT), Some(NONROOT)).unwrap();
    write(&at("root-0644"), "key", 0o644);
    fs::create_dir(at("volume")).unwrap();
    kubelet_update(&at("volume"), &Entries::single("current.pem", "key"), 0o440);
    let target = fs::canonicalize(at("volume/current.pem")).unwrap();
    chown(&target, None, Some(NONROOT)).unwrap();
    fs::create_dir(at("volume-without-fsgroup")).unwrap();
    kubelet_update(&at("volume-without-fsgroup"), &Entries::single("current.pem", "key"), 0o400);
    run_as_nonroot("as_nonroot_each_file_is_judged", dir.path());
}

#[test]
#[ignore = "run as another user by another_user_is_judged_by_the_same_rules"]
fn as_nonroot_each_file_is_judged() {
    let dir = std::path::PathBuf::from(std::env::var_os("TEST_DIR").unwrap());
    assert_refused(
        dir.join("root-0400"),
        ErrorKind::Denied,
        "uid 65532, gid 65532 may not read it: its mode is 0400",
    );
    assert_refused(dir.join("root-0644"), ErrorKind::Exposed, "0644");
    assert_refused(dir.join("volume-without-fsgroup"), ErrorKind::Denied, "current.pem: uid 65532");
    load(dir.join("own-0600")).unwrap();
    load(dir.join("volume")).unwrap();
    load(dir.join("volume/current.pem")).unwrap();

    let provider = FileProvider::new(dir.join("new"));
    assert!(!provider.describe().writable);
    let create = provider.create(Entries::single("current", "key"), common::change(uuid::Uuid::new_v4()));
    assert_eq!(block_on(create).unwrap_err().kind(), ErrorKind::Denied);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_backed_places_are_ephemeral_unless_said_otherwise() {
    // Every Linux has it.
    let place = tempfile::Builder::new().prefix("oneseal-").tempdir_in("/dev/shm").unwrap();
    let path = place.path().join("keys/not/there/yet");
    let said = FileProvider::new(&path).describe().durability;
    assert!(
        matches!(&said, Durability::Ephemeral(why) if why.contains("tmpfs mounted at /dev/shm")),
        "{said:?}"
    );
    assert_eq!(FileProvider::new(&path).assume_durable(true).describe().durability, Durability::Durable);
    kubelet_update(place.path(), &Entries::single("current.pem", "key"), 0o400);
    assert_eq!(FileProvider::new(place.path()).describe().durability, Durability::Durable);
    let file = place.path().join("current.pem");
    assert_eq!(FileProvider::new(file).describe().durability, Durability::Durable);
}
