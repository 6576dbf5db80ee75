//! P6: never empty, never torn, while the keys change under many readers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use oneseal::{Algorithm, Issuer};
use serde_json::Value;

use crate::support::{AUDIENCE, ES256, ES256_OTHER, audience, bare, get, metric, pod, start, until};

const JWKS: &str = "/.well-known/jwks.json";
const SWAPS: usize = 200;
const READERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_never_see_a_signer_apart_from_its_key_set() {
    let first = || bare(&[("current.pem", ES256), ("next.pem", ES256_OTHER)]);
    let second = || bare(&[("current.pem", ES256_OTHER), ("previous.pem", ES256)]);
    let running =
        start("https://oidc.example", first(), |builder| builder.algorithms([Algorithm::Es256])).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let bodies = Arc::new(Mutex::new(BTreeMap::new()));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..READERS {
        readers.spawn(read(running.issuer.clone(), Arc::clone(&is_over), Arc::clone(&bodies)));
    }
    for swap in 0..SWAPS {
        let before = running.issuer.snapshot();
        running.provider.set(if swap % 2 == 0 { second() } else { first() });
        until("the swap", || !Arc::ptr_eq(&before, &running.issuer.snapshot())).await;
        if swap % 10 == 5 {
            // A bad record in between changes nothing.
            let before = refusals(&running.issuer);
            running.provider.set(bare(&[("current.pem", &ES256[..90])]));
            until("the refusal", || refusals(&running.issuer) > before).await;
        }
    }
    is_over.store(true, Ordering::Release);
    let rounds: usize = readers.join_all().await.into_iter().sum();
    assert!(rounds >= READERS * 10, "the readers ran {rounds} times");
    assert_eq!(bodies.lock().expect("no panic").len(), 2, "two key sets were served, whole");
}

fn refusals(issuer: &Issuer) -> u64 {
    metric(issuer, "oneseal_refreshes_total{result=\"refused\"}").parse().expect("a count")
}

async fn read(
    issuer: Issuer,
    is_over: Arc<AtomicBool>,
    bodies: Arc<Mutex<BTreeMap<String, String>>>,
) -> usize {
    let mut rounds = 0;
    while !is_over.load(Ordering::Acquire) {
        let response = get(&issuer, JWKS);
        let text = String::from_utf8(response.body().to_vec()).expect("UTF-8");
        let etag = response.headers()["etag"].to_str().expect("text").to_owned();
        let known = bodies.lock().expect("no panic").entry(etag).or_insert_with(|| text.clone()).clone();
        assert_eq!(known, text, "one tag, one body");
        let published: Value = serde_json::from_str(&text).expect("JSON");
        let kids: Vec<_> =
            published["keys"].as_array().expect("a list").iter().map(|key| &key["kid"]).collect();
        assert_eq!(kids.len(), 2);

        let minted = issuer.mint(&pod(), &audience(AUDIENCE)).await.expect("minted");
        assert!(
            kids.iter().any(|kid| **kid == minted.kid.as_str()),
            "a reader of the key set knows the signer"
        );
        issuer.verify(&minted.token, &audience(AUDIENCE)).expect("and believes it");

        let snapshot = issuer.snapshot();
        let signer = snapshot.signer(Algorithm::Es256).expect("a signer");
        let set: Value = serde_json::from_slice(snapshot.jwks()).expect("JSON");
        assert_eq!(set["keys"][0]["kid"], signer.kid().as_str(), "the active key comes first in its own set");
        rounds += 1;
        tokio::task::yield_now().await;
    }
    rounds
}
