//! Through nginx with `proxy_cache`, as a platform team would set it up.

use std::net::SocketAddr;
use std::time::Duration;

use oneseal::{Algorithm, BootTime, SystemClock};
use oneseal_coordination::Clock;
use oneseal_tests::http::{Answer, ask, get};
use oneseal_tests::nginx::Options;
use oneseal_tests::{Fleet, FleetOptions, Replica, Start, keys, state};
use tokio::task::JoinSet;

use crate::{CODINGS, DOCUMENTS, JWKS};

/// A fleet behind a cache; nothing where nginx is missing.
async fn cached(jwks_max_age_s: u64, shared_cache: bool, nginx: Options) -> Option<Fleet> {
    let nginx = Some(Options { show_cache_status: true, ..nginx });
    Fleet::start_with(FleetOptions { jwks_max_age_s, shared_cache, nginx, ..FleetOptions::default() }).await
}

fn cache_status(answer: &Answer) -> &str {
    answer.header("x-cache-status")
}

/// Asks until the cache says one of `wanted`.
async fn until_it_is(front: SocketAddr, path: &str, wanted: &[&str]) -> Answer {
    state::until(&format!("{wanted:?} for {path}"), async || {
        let answer = get(front, path).await.ok()?;
        wanted.contains(&cache_status(&answer)).then_some(answer)
    })
    .await
}

/// A counter of all replicas together.
pub(crate) async fn answered(replicas: &[Replica], status: u16) -> u64 {
    let name = format!("oneseal_document_requests_total{{document=\"jwks\",status=\"{status}\"}} ");
    let mut all = 0;
    for replica in replicas {
        let text = get(replica.ops, "/metrics").await.unwrap().body;
        let text = String::from_utf8(text.to_vec()).unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok());
        all += count.unwrap_or_default();
    }
    all
}

#[tokio::test]
async fn one_entry_serves_every_client_whatever_it_sends() {
    let Some(fleet) = cached(300, false, Options::default()).await else { return };
    let front = fleet.front();
    for path in DOCUMENTS {
        let first = get(front, path).await.unwrap();
        assert_eq!((first.status.as_u16(), cache_status(&first)), (200, "MISS"), "{path}");
        let straight = fleet.replicas[0].get(path).await.unwrap();
        assert_eq!(first.body, straight.body);
        assert_eq!(first.header("etag"), straight.header("etag"), "strong all the way: nothing was recoded");
        let mut variants: Vec<(&str, &str)> =
            CODINGS.iter().map(|coding| ("accept-encoding", *coding)).collect();
        variants.extend([
            ("accept", "text/html"),
            ("accept", "application/jwk-set+json"),
            ("accept-language", "de"),
            ("user-agent", "Go-http-client/2.0"),
            ("origin", "https://app.example"),
            ("cookie", "session=1"),
            ("authorization", "Bearer x"),
            ("x-forwarded-host", "evil.example"),
            ("range", "bytes=0-9"),
        ]);
        for (name, value) in variants {
            let answer = ask(front, "GET", path, &[(name, value)]).await.unwrap();
            assert_eq!(cache_status(&answer), "HIT", "{path} {name}: {value}");
            assert_eq!(answer.body, straight.body, "{name}: {value}");
            assert!(answer.headers.get("content-encoding").is_none() && answer.headers.get("vary").is_none());
            assert!(answer.headers.get("age").is_none(), "docs/http.md says that nginx sends none");
        }
        let head = ask(front, "HEAD", path, &[]).await.unwrap();
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        for name in ["etag", "content-length", "content-type", "cache-control", "access-control-allow-origin"]
        {
            assert_eq!(head.header(name), straight.header(name), "{name}");
        }
        let known = [("if-none-match", straight.header("etag"))];
        let not_modified = ask(front, "GET", path, &known).await.unwrap();
        assert_eq!((not_modified.status.as_u16(), cache_status(&not_modified)), (304, "HIT"));
    }
    let asked = fleet.proxy.as_ref().unwrap().seen().iter().filter(|seen| seen.reached_a_replica()).count();
    assert_eq!(asked, 2 * DOCUMENTS.len(), "a GET and a HEAD for each document");
}

/// Errors are no-store, so that none outlives its cause in a cache.
#[tokio::test]
async fn errors_are_kept_by_nobody() {
    let Some(fleet) = cached(300, true, Options::default()).await else { return };
    for (path, status) in [("/nowhere", 404), ("/authorize", 400)] {
        for _ in 0..3 {
            let answer = get(fleet.front(), path).await.unwrap();
            assert_eq!((answer.status.as_u16(), cache_status(&answer)), (status, "MISS"), "{path}");
            assert_eq!(answer.header("cache-control"), "no-store");
        }
    }
}

/// An expired entry is asked for with nginx's own `If-None-Match`, and answered with 304 by whichever replica.
#[tokio::test]
async fn an_expired_entry_is_validated_and_not_sent_again() {
    let Some(fleet) = cached(1, false, Options::default()).await else { return };
    let front = fleet.front();
    let first = get(front, JWKS).await.unwrap();
    for _ in 0..3 {
        let again = until_it_is(front, JWKS, &["REVALIDATED"]).await;
        assert_eq!((again.status.as_u16(), &again.body), (200, &first.body), "whole to who has nothing");
        assert_eq!(again.header("etag"), first.header("etag"));
    }
    // A client that has it gets 304 by the same way.
    let known = [("if-none-match", first.header("etag"))];
    state::until("an entry that expires as a client with it comes", async || {
        let answer = ask(front, "GET", JWKS, &known).await.ok()?;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (304, 0));
        (cache_status(&answer) == "REVALIDATED").then_some(())
    })
    .await;
    assert_eq!(answered(&fleet.replicas, 200).await, 1, "the key set went over the wire once");
    assert!(answered(&fleet.replicas, 304).await >= 4);
}

/// Kills them all, and gives what starts them again.
async fn all_down(fleet: &mut Fleet) -> Vec<Start> {
    let mut starts = Vec::new();
    for replica in fleet.replicas.drain(..) {
        starts.push(replica.kill().await);
    }
    starts
}

/// With `rotation.shared_cache`: nginx follows `stale-if-error` of the answer (since 1.11.10) without being told to.
#[tokio::test]
async fn with_a_declared_shared_cache_the_last_key_set_outlives_all_replicas() {
    let Some(mut fleet) = cached(1, true, Options::default()).await else { return };
    let front = fleet.front();
    let mut last = Vec::new();
    for path in DOCUMENTS {
        last.push(get(front, path).await.unwrap());
    }
    let starts = all_down(&mut fleet).await;
    for (path, last) in DOCUMENTS.iter().zip(&last) {
        // Fresh for a second yet, then stale; an error at no time.
        state::until("a stale answer", async || {
            let answer = get(front, path).await.unwrap();
            assert_eq!((answer.status.as_u16(), &answer.body), (200, &last.body), "{path}");
            assert_eq!(answer.header("cache-control"), "public, max-age=1, stale-if-error=3600");
            (cache_status(&answer) == "STALE").then_some(())
        })
        .await;
        let known = [("if-none-match", last.header("etag"))];
        assert_eq!(ask(front, "GET", path, &known).await.unwrap().status, 304, "{path}");
    }
    // What is not in the cache cannot come from it.
    assert_eq!(get(front, "/nowhere").await.unwrap().status, 502);
    for start in starts {
        fleet.replicas.push(start.ready().await);
    }
    let addresses = fleet.replicas.iter().map(|replica| replica.documents).collect();
    fleet.proxy.as_mut().unwrap().set_backends(addresses).await;
    until_it_is(front, JWKS, &["REVALIDATED"]).await;
    assert_eq!(answered(&fleet.replicas, 200).await, 0, "validated, not sent again");
}

/// Without it a key set is fresh or not there: what no rotation waits for may not be served.
#[tokio::test]
async fn without_one_nothing_stale_is_served() {
    let Some(mut fleet) = cached(1, false, Options::default()).await else { return };
    let front = fleet.front();
    get(front, JWKS).await.unwrap();
    all_down(&mut fleet).await;
    let error = state::until("the entry to expire", async || {
        let answer = get(front, JWKS).await.unwrap();
        (cache_status(&answer) != "HIT").then_some(answer)
    })
    .await;
    assert_eq!(error.status, 502);
}

/// The operator's own `proxy_cache_use_stale` knows no limit and asks nobody: see docs/http.md.
#[tokio::test]
async fn a_proxy_told_to_serve_stale_does_so_undeclared() {
    let Some(mut fleet) = cached(1, false, Options { use_stale: &["error"], ..Options::default() }).await
    else {
        return;
    };
    let last = get(fleet.front(), JWKS).await.unwrap();
    all_down(&mut fleet).await;
    assert_eq!(until_it_is(fleet.front(), JWKS, &["STALE"]).await.body, last.body);
}

/// However many clients come to an empty cache: the replicas answer once.
#[tokio::test]
async fn a_missing_entry_is_asked_for_once_however_many_clients_come() {
    let Some(fleet) = cached(300, false, Options::default()).await else { return };
    let front = fleet.front();
    let mut clients = JoinSet::new();
    for _ in 0..100 {
        clients.spawn(async move { get(front, JWKS).await.unwrap() });
    }
    let answers = clients.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body));
    assert_eq!(answered(&fleet.replicas, 200).await, 1);
}

/// A cache may show the old key set for `max-age` after every replica shows the new one, and not longer: this is the H
/// for which a new key waits before it signs.
#[tokio::test]
async fn a_new_key_is_hidden_by_a_cache_for_max_age_and_no_longer() {
    const MAX_AGE: u64 = 5;
    let Some(fleet) = cached(MAX_AGE, false, Options::default()).await else { return };
    let front = fleet.front();
    let key = keys::fresh(&[Algorithm::Es256]).await.remove(0);
    // Taken just before the key comes, so that it is fresh for all of max-age.
    let old = until_it_is(front, JWKS, &["MISS", "REVALIDATED", "EXPIRED"]).await;
    keys::publish(&fleet.key, &key);
    state::until("every replica to publish the new key", async || {
        for replica in &fleet.replicas {
            if replica.get(JWKS).await.ok()?.body == old.body {
                return None;
            }
        }
        Some(())
    })
    .await;
    let published: BootTime = SystemClock.boot();
    let new = fleet.replicas[0].get(JWKS).await.unwrap();
    let mut hits = 0;
    let seen = state::until("the cache to show the new key", async || {
        let answer = get(front, JWKS).await.unwrap();
        assert!(answer.body == old.body || answer.body == new.body);
        hits += usize::from(answer.body == old.body);
        (answer.body == new.body).then_some(answer)
    })
    .await;
    let hidden = SystemClock.boot().since(published);
    assert!(hits > 0, "it was hidden for a while");
    // nginx counts whole seconds.
    assert!(hidden <= Duration::from_secs(MAX_AGE + 1), "{hidden:?}");
    assert_ne!(seen.header("etag"), old.header("etag"));
    let names: Vec<_> =
        seen.json()["keys"].as_array().unwrap().iter().map(|key| key["kid"].clone()).collect();
    assert!(names.iter().any(|kid| kid == key.kid.as_str()));
}
