//! I6: a replica whose key is not the fleet's does not join it. Real processes behind one address.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oneseal::{Algorithm, FileProvider, IssuerUrl, SystemClock};
use oneseal_keystore::{InitRequest, init};
use oneseal_tests::{Fleet, Forwarder, Start, http, state};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const JWKS: &str = "/.well-known/jwks.json";

/// Another ring of the same issuer: what `keys init` makes on the wrong disk.
async fn other_ring(issuer: &IssuerUrl, at: PathBuf) -> (PathBuf, String) {
    let mut request = InitRequest::new(issuer.clone());
    request.algorithms = vec![Algorithm::Es256];
    init(&FileProvider::new(&at).assume_durable(true), request, &SystemClock).await.unwrap();
    let ring: serde_json::Value = serde_json::from_slice(&std::fs::read(&at).unwrap()).unwrap();
    let kid = ring["keys"][0]["kid"].as_str().unwrap().to_owned();
    (at, kid)
}

/// Runs it to its end: exit code and log.
async fn ended(start: &Start) -> (Option<i32>, String) {
    let mut child = start.spawn();
    let status = state::until("the replica to end", async || child.try_wait().unwrap()).await;
    (status.code(), start.log_text())
}

#[tokio::test]
async fn a_replica_with_another_key_ends_with_78_and_the_fleet_serves_on() {
    let fleet = Fleet::start(1).await;
    let place = tempfile::tempdir().unwrap();
    let (key, kid) = other_ring(&fleet.issuer, place.path().join("keyring.json")).await;
    let before = http::get(fleet.forwarder.address(), JWKS).await.unwrap();
    let start = Start::with_file(place.path().join("2"), fleet.issuer.as_str(), &key);

    let (exit, log) = ended(&start).await;
    assert_eq!(exit, Some(78), "{log}");
    let served = before.json()["keys"][0]["kid"].as_str().unwrap().to_owned();
    for part in ["issuer.serves_other_keys", kid.as_str(), served.as_str(), "docs/findings.md#"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!start.admin().exists(), "nothing was bound");
    let after = http::get(fleet.forwarder.address(), JWKS).await.unwrap();
    assert_eq!(before.body, after.body);
    let token = fleet.replicas[0].mint(&json!({ "sub": "pod", "aud": "test", "ttl_s": 600 })).await;
    assert_eq!(token.split('.').count(), 3);
}

#[tokio::test]
async fn whoever_has_the_fleets_key_joins_and_whoever_is_first_finds_nobody() {
    let fleet = Fleet::start(2).await;
    let first = fleet.replicas[0].log_text();
    assert!(first.contains("issuer.unreachable"), "nobody was there: {first}");
    let place = tempfile::tempdir().unwrap();
    let start = Start::with_file(place.path().join("3"), fleet.issuer.as_str(), &fleet.key);
    let third = start.ready().await;
    assert!(!third.log_text().contains("issuer."), "{}", third.log_text());
}

#[tokio::test]
async fn an_issuer_that_hangs_delays_no_signal() {
    let place = tempfile::tempdir().unwrap();
    // It takes connections and never answers: the kernel does, for as long as nobody accepts.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = IssuerUrl::parse(&format!("http://{}", silent.local_addr().unwrap()), "test").unwrap();
    let (key, _) = other_ring(&issuer, place.path().join("keyring.json")).await;
    let start = Start::with_file(place.path().join("1"), issuer.as_str(), &key);
    let mut child = start.spawn();
    silent.set_nonblocking(true).unwrap();
    let asked = state::until("the question", async || silent.accept().ok()).await;
    terminate(&child);
    let status = state::until("its end", async || child.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(128 + 15), "{}", start.log_text());
    drop(asked);
}

#[tokio::test]
async fn a_provider_that_comes_back_within_boot_timeout_is_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let forwarder = Forwarder::start().await;
    let issuer = IssuerUrl::parse(&format!("http://{}", forwarder.address()), "test").unwrap();
    let (key, _) = other_ring(&issuer, place.path().join("keyring.json")).await;
    let volume = unavailable(place.path());
    let start = Start::with_file(place.path().join("1"), issuer.as_str(), &volume);
    let mut child = start.spawn();
    state::until("two attempts", async || (attempts(&start) >= 2).then_some(())).await;
    assert!(child.try_wait().unwrap().is_none(), "{}", start.log_text());
    let fresh = place.path().join("fresh");
    std::fs::create_dir(&fresh).unwrap();
    std::fs::rename(&key, fresh.join("keyring.json")).unwrap();
    std::fs::rename(&fresh, volume.join("..gone")).unwrap();
    state::until("a start", async || start.log_text().contains("\"serving\"").then_some(())).await;
    assert!(start.log_text().contains("retry_in_ms"), "{}", start.log_text());
}

#[tokio::test]
async fn a_signal_ends_the_wait_for_a_provider_at_once() {
    let place = tempfile::tempdir().unwrap();
    let volume = unavailable(place.path());
    let mut start = Start::with_file(place.path().join("1"), "http://127.0.0.1:9", &volume);
    start.more = "[process]\nboot_timeout = \"1h\"\n".to_owned();
    let mut child = start.spawn();
    state::until("an attempt", async || (attempts(&start) >= 1).then_some(())).await;
    terminate(&child);
    let ended = tokio::time::timeout(Duration::from_secs(30), child.wait()).await;
    assert_eq!(ended.expect("before boot_timeout").unwrap().code(), Some(128 + 15));
}

/// A volume of kubelet's whose link leads nowhere yet: what may come right in a moment, also for root.
fn unavailable(place: &Path) -> PathBuf {
    let volume = place.join("volume");
    std::fs::create_dir(&volume).unwrap();
    symlink("..gone", volume.join("..data")).unwrap();
    volume
}

fn attempts(start: &Start) -> usize {
    start.log_text().lines().filter(|line| line.contains("does not answer yet")).count()
}

fn terminate(child: &tokio::process::Child) {
    let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}
