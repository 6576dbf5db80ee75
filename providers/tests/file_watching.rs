//! Changes made by others are noticed: kubelet's swaps, editors, a file that goes and comes back.

#![cfg(feature = "file")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::time::Duration;

use common::{kubelet_update, rename_into_place, temp_dir, watched, write};
use futures_util::FutureExt;
use oneseal_providers::{Entries, ErrorKind, FileProvider, Revision, SecretProvider};
use oneseal_testing::block_on;

const IN_TIME: Duration = Duration::from_secs(60);

async fn wakes(provider: &FileProvider, known: &Revision) -> Revision {
    let waiting = async {
        loop {
            provider.changed(known).await;
            match provider.load().await {
                Ok(record) if record.revision != *known => return record.revision,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(IN_TIME, waiting).await.expect("the change is noticed")
}

/// kubernetes/kubernetes#111947: the first swap ends a watch on the file.
#[test]
fn five_kubelet_updates_in_a_row_are_all_noticed() {
    let volume = temp_dir();
    let update = |text: &str| {
        let mut entries = Entries::single("current.pem", text);
        // As a projected volume has it.
        entries.insert("keys/current.pem", text);
        kubelet_update(volume.path(), &entries, 0o440);
    };
    update("key 0");
    for place in ["", "current.pem", "keys", "keys/current.pem"] {
        let provider = watched(volume.path().join(place));
        block_on(async {
            let mut known = provider.load().await.unwrap().revision;
            for number in 1..=5 {
                let text = format!("{} {number}", provider.path().display());
                let (seen, ()) = tokio::join!(wakes(&provider, &known), async { update(&text) });
                let record = provider.load().await.unwrap();
                assert_eq!(record.entries.iter().next().unwrap().1.expose(), text.as_bytes());
                known = seen;
            }
        });
    }
}

/// open-feature/flagd#42: a removed file is no new configuration, and not the end of watching.
#[test]
fn a_file_that_goes_does_not_wake_and_one_that_comes_back_does() {
    let dir = temp_dir();
    let path = dir.path().join("key");
    write(&path, "old", 0o600);
    let provider = watched(&path);
    block_on(async {
        let known = provider.load().await.unwrap().revision;
        let mut waiting = provider.changed(&known);
        assert!((&mut waiting).now_or_never().is_none());

        fs::remove_file(&path).unwrap();
        assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_sleeps(&mut waiting).await;

        rename_into_place(&path, "old");
        assert_eq!(provider.load().await.unwrap().revision, known);
        assert_sleeps(&mut waiting).await;

        fs::remove_file(&path).unwrap();
        rename_into_place(&path, "new");
        tokio::time::timeout(IN_TIME, waiting).await.expect("the new key is noticed");
        assert_ne!(provider.load().await.unwrap().revision, known);
    });
}

/// Gives the waiting future every occasion to wake: another provider's watch on the same directory has its events
/// in the meantime.
async fn assert_sleeps(waiting: &mut (impl Future<Output = ()> + Unpin)) {
    let elsewhere = temp_dir();
    let path = elsewhere.path().join("key");
    write(&path, "0", 0o600);
    let provider = watched(&path);
    for number in 1..=3 {
        let known = provider.load().await.unwrap().revision;
        rename_into_place(&path, number.to_string());
        tokio::select! {
            biased;
            // The one under test first: had it anything to say, it would.
            () = &mut *waiting => panic!("a file that is gone or unchanged is nothing to wake for"),
            _ = wakes(&provider, &known) => {}
        }
    }
}

#[test]
fn every_way_of_changing_a_file_is_noticed() {
    let dir = temp_dir();
    let path = dir.path().join("key");
    write(&path, "0", 0o600);
    let provider = watched(&path);
    let in_place = || fs::write(&path, "rewritten in place").unwrap();
    let renamed = || rename_into_place(&path, "renamed into place");
    let linked = || {
        let target = dir.path().join("target");
        write(&target, "behind a link", 0o600);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("target", &path).unwrap();
    };
    let behind_the_link = || fs::write(dir.path().join("target"), "behind the link, changed").unwrap();
    let exposed_and_mended = || {
        use std::os::unix::fs::PermissionsExt;
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        fs::write(&path, "mended").unwrap();
        mode(0o600);
    };
    let ways: [(&str, &dyn Fn()); 5] = [
        ("in place", &in_place),
        ("renamed", &renamed),
        ("linked", &linked),
        ("behind the link", &behind_the_link),
        ("exposed and mended", &exposed_and_mended),
    ];
    block_on(async {
        let mut known = provider.load().await.unwrap().revision;
        for (way, change) in ways {
            let (seen, ()) = tokio::join!(wakes(&provider, &known), async { change() });
            assert_ne!(seen, known, "{way}");
            // It may have been read half-way; what counts is that the end is known.
            known = provider.load().await.unwrap().revision;
        }
    });
}

#[test]
fn without_a_directory_to_watch_the_poll_notices() {
    let dir = temp_dir();
    let path = dir.path().join("later/key");
    let provider = FileProvider::new(&path).poll_every(Duration::from_millis(10));
    block_on(async {
        let known = Revision::new("something before");
        let mut waiting = provider.changed(&known);
        assert!((&mut waiting).now_or_never().is_none());
        fs::create_dir(dir.path().join("later")).unwrap();
        rename_into_place(&path, "key");
        tokio::time::timeout(IN_TIME, waiting).await.expect("the poll notices");
    });
}
