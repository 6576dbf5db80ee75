//! P6 on a real process: whatever happens to the key file, a reader gets whole last-good bytes or 503.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oneseal_tests::{Fleet, http, state};
use serde_json::json;
use tokio::task::JoinSet;

const JWKS: &str = "/.well-known/jwks.json";

/// A valid successor cannot be made by hand, so the ring is damaged in every way a tool may damage it.
fn damage(key: &Path, good: &[u8], how: usize) {
    let half = &good[..good.len() / 2];
    match how % 6 {
        0 => std::fs::write(key, half).expect("truncated in place"),
        1 => std::fs::write(key, b"").expect("emptied"),
        2 => std::fs::remove_file(key).expect("removed"),
        3 => {
            let other = key.with_extension("tmp");
            write_private(&other, b"{\"format\":1,\"keys\":[]}");
            std::fs::rename(&other, key).expect("replaced");
        }
        4 => std::fs::write(key, good.repeat(2)).expect("doubled"),
        _ => std::fs::write(key, vec![0; 2 * 1024 * 1024]).expect("made huge"),
    }
}

fn write_private(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .expect("a file that can be written");
    file.write_all(bytes).expect("written");
}

#[tokio::test]
async fn readers_see_only_whole_last_good_bytes_while_the_key_file_is_mangled() {
    let fleet = Fleet::start(1).await;
    let replica = &fleet.replicas[0];
    let good = std::fs::read(&fleet.key).expect("the ring");
    let expected = replica.get(JWKS).await.expect("an answer").body;

    let done = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let (done, expected, address) = (Arc::clone(&done), expected.clone(), replica.documents);
        readers.spawn(async move {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) {
                let answer = http::get(address, JWKS).await.expect("an answer");
                assert!(
                    answer.status == 200 && answer.body == expected || answer.status == 503,
                    "{answer:?}"
                );
                reads += 1;
            }
            reads
        });
    }
    for how in 0..12 {
        let seen = trouble(&fleet).await;
        damage(&fleet.key, &good, how);
        state::until("the damage to be noticed", async || (trouble(&fleet).await > seen).then_some(())).await;
        // Signer and set stay a pair: what is minted now verifies by what is published now.
        let token = replica.mint(&json!({ "sub": "pod", "aud": "test", "ttl_s": 600 })).await;
        assert!(token.split('.').count() == 3);
        write_private(&fleet.key, &good);
    }
    done.store(true, Ordering::Relaxed);
    let reads: usize = readers.join_all().await.into_iter().sum();
    assert!(reads > 100, "{reads} reads are too few to show anything");
}

/// How many looks at the key file have failed or been refused so far, by the replica's metrics.
async fn trouble(fleet: &Fleet) -> u64 {
    let metrics = http::get(fleet.replicas[0].ops, "/metrics").await.expect("an answer").body;
    let text = String::from_utf8_lossy(&metrics).into_owned();
    let refused = text
        .lines()
        .filter(|line| line.starts_with("oneseal_refresh") && !line.contains("result=\"ok\""))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    refused.sum()
}
