//! What the store may do to a writer: conflicts, lost answers, outages, other writers at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use oneseal_keystore::executor::{ExecuteError, Order};
use oneseal_keystore::steps::Request;
use oneseal_keystore::{Algorithm, Rotation};
use oneseal_providers::{Entries, ErrorKind, SecretProvider};
use oneseal_testing::{MemoryProvider, Outcome};
use tokio::task::JoinSet;

use super::{Bench, activate, order, revoke, roll_back, rotate};

#[tokio::test]
async fn the_same_order_again_tells_what_it_did_and_does_nothing() {
    let bench = Bench::new(Rotation::lab()).await;
    let order_once = order(rotate());
    let first = bench.executor.execute(&order_once).await.unwrap();
    let writes = bench.provider.writes();
    let again = bench.executor.execute(&order_once).await.unwrap();
    assert!(again.is_repeated && !first.is_repeated);
    assert_eq!((again.changes, again.at), (first.changes, first.at));
    assert_eq!(bench.provider.writes(), writes);
    let mut other = order(activate());
    other.change_id = order_once.change_id;
    let refused = bench.executor.execute(&other).await;
    assert!(matches!(refused, Err(ExecuteError::ChangeIdTaken)), "{refused:?}");
}

/// Whoever asks twice under one id for two things must not be told that the second was done.
#[tokio::test]
async fn an_id_that_comes_again_for_something_else_is_refused_whatever_the_verb() {
    let bench = Bench::new(Rotation::lab()).await;
    let kid = bench.states().await[0].0.clone();
    let first = order(revoke());
    bench.executor.execute(&first).await.unwrap();
    for request in [
        Request::Revoke { kids: vec![kid], since: None },
        Request::Revoke { kids: Vec::new(), since: Some(super::T0) },
        rotate(),
    ] {
        let mut other = order(request);
        other.change_id = first.change_id;
        let refused = bench.executor.execute(&other).await;
        assert!(matches!(refused, Err(ExecuteError::ChangeIdTaken)), "{refused:?}");
    }
    let again = Order { reason: "told in other words".to_owned(), ..first };
    assert!(bench.executor.execute(&again).await.unwrap().is_repeated, "why is no part of what");
    let log = bench.document().await["log"].clone();
    let told: Vec<_> = log.as_array().unwrap().iter().filter_map(|entry| entry["request"].as_str()).collect();
    assert_eq!(told, [again.request.fingerprint()], "in the first entry of its change alone");
}

/// The ring's log is short, and its store may remember for longer.
#[tokio::test]
async fn an_id_that_the_store_alone_remembers_is_never_carried_out_again() {
    let bench = Bench::new(Rotation::lab()).await;
    let before = bench.document().await;
    for dry_run in [true, false] {
        bench.provider.fail_next_write(ErrorKind::ChangeIdUsed);
        let refused = bench.executor.execute(&Order { dry_run, ..order(revoke()) }).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.exit().unwrap().code()),
            ("keys.change_id_taken", 78),
            "{refused}"
        );
        assert!(refused.to_string().contains("too long ago"), "{refused}");
        assert_eq!(bench.document().await, before);
    }
}

#[tokio::test]
async fn events_tell_the_algorithm_of_a_key_that_has_left() {
    let bench = Bench::on(MemoryProvider::new().journaling(), Rotation::lab()).await;
    bench.order(revoke()).await.unwrap();
    let event = bench.provider.events().pop().unwrap();
    let payload: serde_json::Value = serde_json::from_str(&event.payload).unwrap();
    let algs: Vec<_> = payload["changes"].as_array().unwrap().iter().map(|change| &change["alg"]).collect();
    assert_eq!(algs, ["ES256", "ES256"], "{payload}");
}

#[tokio::test]
async fn an_answer_that_was_lost_is_found_by_looking() {
    for outcome in [Outcome::Committed, Outcome::Dropped] {
        let bench = Bench::new(Rotation::lab()).await;
        bench.provider.lose_next_answer(outcome);
        let done = bench.order(rotate()).await.unwrap();
        assert_eq!(bench.states().await.len(), 2, "{outcome:?}");
        assert_eq!(done.is_repeated, outcome == Outcome::Committed);
        assert_eq!(bench.ring().await.identity.revision, 2);
    }
}

#[tokio::test]
async fn an_outage_after_a_lost_answer_says_that_nobody_knows() {
    let bench = Bench::new(Rotation::lab()).await;
    let once = order(rotate());
    bench.provider.lose_next_answer(Outcome::Committed);
    let provider = Arc::clone(&bench.provider);
    let watched = bench.executor.clone();
    // The write is the second call; the outage begins when it has been made.
    let outage = async {
        while provider.writes() < 2 {
            tokio::task::yield_now().await;
        }
        provider.set_outage(Some(ErrorKind::Unavailable));
    };
    let (result, ()) = tokio::join!(watched.execute(&once), outage);
    if let Err(error) = result {
        assert!(matches!(error, ExecuteError::OutcomeUnknown(_)), "{error:?}");
    }
    bench.provider.set_outage(None);
    assert!(bench.executor.execute(&once).await.unwrap().is_repeated);
}

#[tokio::test]
async fn what_the_store_says_against_a_write_is_told_and_nothing_changes() {
    let bench = Bench::new(Rotation::lab()).await;
    let before = bench.document().await;
    for (kind, exit) in [(ErrorKind::Denied, 77), (ErrorKind::Unavailable, 69), (ErrorKind::ReadOnly, 78)] {
        bench.provider.fail_next_write(kind);
        let error = bench.order(rotate()).await.unwrap_err();
        assert_eq!(error.exit().unwrap().code(), exit, "{error:?}");
    }
    bench.provider.set_outage(Some(ErrorKind::Unavailable));
    assert_eq!(bench.order(rotate()).await.unwrap_err().exit().unwrap().code(), 69);
    bench.provider.set_outage(None);
    assert_eq!(bench.document().await, before);
}

/// Bug report R2: a conflict means that somebody else was faster, and is no error.
#[tokio::test]
async fn of_many_writers_at_once_each_does_its_own_and_one_rotation_wins() {
    let bench =
        Bench::with(Rotation::lab(), &[Algorithm::Es256, Algorithm::EdDsa], Arc::new(super::NoRegistry))
            .await;
    let mut writers = JoinSet::new();
    for _ in 0..6 {
        let executor = bench.executor.clone();
        writers.spawn(async move { executor.execute(&order(rotate())).await });
    }
    let results = writers.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 5));
    for error in lost.into_iter().filter_map(Result::err) {
        assert_eq!(error.code(), "keys.already_pending", "{error:?}");
    }
    let kids: BTreeSet<_> = bench.states().await.into_iter().map(|(kid, _)| kid).collect();
    assert_eq!(kids.len(), 4);
    assert_eq!(bench.ring().await.identity.revision, 2);
}

#[tokio::test]
async fn the_same_order_from_many_hands_is_done_once() {
    let bench = Bench::new(Rotation::lab()).await;
    let id = uuid::Uuid::new_v4();
    let mut hands = JoinSet::new();
    for _ in 0..6 {
        let executor = bench.executor.clone();
        hands.spawn(async move {
            let mut order = order(rotate());
            order.change_id = id;
            executor.execute(&order).await
        });
    }
    let answers: Vec<_> = hands.join_all().await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|done| !done.is_repeated).count(), 1);
    assert_eq!(bench.ring().await.identity.revision, 2);
}

#[tokio::test]
async fn entries_beside_the_document_and_a_dry_run_leave_everything_as_it_is() {
    let bench = Bench::new(Rotation::lab()).await;
    let record = bench.provider.load().await.unwrap();
    let mut entries = Entries::single("notes.txt", "ours");
    entries.insert("keyring.json", record.entries.get("keyring.json").unwrap().expose().to_vec());
    bench.provider.set(entries);
    let mut dry = order(rotate());
    dry.dry_run = true;
    let (writes, before) = (bench.provider.writes(), bench.document().await);
    let told = bench.executor.execute(&dry).await.unwrap();
    assert!(told.is_dry_run && told.changes[0].kind == "key.published");
    assert_eq!((bench.provider.writes(), bench.document().await), (writes, before));
    bench.order(rotate()).await.unwrap();
    assert_eq!(bench.provider.load().await.unwrap().entries.get("notes.txt").unwrap().expose(), b"ours");
}

#[tokio::test]
async fn a_dry_run_tells_what_may_come_next_if_it_were_done() {
    let bench = Bench::new(Rotation::lab()).await;
    let mut pending = bench.order(rotate()).await.unwrap().changes[0].kid.clone();
    for (request, seconds) in [
        (Request::Retire { kid: pending.take() }, 0),
        (rotate(), 0),
        (activate(), 7),
        (roll_back(), 1),
        (revoke(), 1),
    ] {
        bench.pass(seconds);
        let (mut order, before) = (order(request), bench.document().await);
        order.dry_run = true;
        let dry = bench.executor.execute(&order).await.unwrap();
        assert_eq!(bench.document().await, before);
        assert_eq!(dry.state.revision, before["revision"].as_u64().unwrap(), "the ring as it stays");
        order.dry_run = false;
        let mut done = bench.executor.execute(&order).await.unwrap();
        let new = |kid: &String| !dry.state.keys.iter().any(|key| key.kid == *kid);
        done.next.retain(|next| !new(&next.kid));
        assert_eq!(dry.next, done.next, "{:?}", order.request);
    }
}

#[tokio::test]
async fn bare_keys_and_bad_reasons_are_refused_by_name() {
    let bench = Bench::new(Rotation::lab()).await;
    let mut long = order(rotate());
    long.reason = "é".repeat(101);
    assert_eq!(bench.executor.execute(&long).await.unwrap_err().code(), "keys.bad_reason");
    long.reason = "a\nb".to_owned();
    assert_eq!(bench.executor.execute(&long).await.unwrap_err().code(), "keys.bad_reason");
    bench.provider.set(Entries::single("current.pem", include_str!("../vectors/ring/p256.pem")));
    assert_eq!(bench.order(rotate()).await.unwrap_err().code(), "keys.bare");
}

#[tokio::test]
async fn the_event_of_a_change_tells_public_facts_alone() {
    let bench = Bench::on(MemoryProvider::new().journaling(), Rotation::lab()).await;
    bench.order(rotate()).await.unwrap();
    bench.pass(7);
    bench.order(activate()).await.unwrap();
    bench.order(Request::Revoke { kids: Vec::new(), since: None }).await.unwrap();
    let kinds: Vec<_> = bench.provider.events().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["ring.created", "key.published", "key.activated", "key.revoked"]);
    let document = bench.document().await;
    let secret = document["keys"][0]["private"]["d"].as_str().unwrap();
    for event in bench.provider.events() {
        let payload: serde_json::Value = serde_json::from_str(&event.payload).unwrap();
        assert!(payload["revision"].is_u64() && !event.payload.contains(secret));
    }
}
