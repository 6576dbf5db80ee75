//! The KEK of a ring in Postgres is missing, another, or on its way to the next: who starts, and what those do that run.

use oneseal::SystemClock;
use oneseal_testing::rings::Keeper;
use oneseal_tests::{Start, http, state};
use serde_json::Value;
use uuid::Uuid;

use crate::rotation::verb;
use crate::support::{Place, checked, ended, jwks, pod, run};

/// Whether a replica with these KEKs, the first one current, starts on the ring as it is.
enum Expected {
    /// It mints, and its log names this, if anything.
    Starts(&'static str),
    /// It exits with 78 and names this.
    Refuses(&'static str),
}
use Expected::{Refuses, Starts};

const UNOPENED: Expected = Refuses("ring.sealed_without_kek");

#[tokio::test(flavor = "multi_thread")]
async fn in_each_state_of_a_kek_rotation_a_restart_needs_the_keks_that_it_names_and_no_other() {
    let Some(place) = Place::new().await else { return };
    let keeper = Keeper::new(&place.issuer, 1);
    let before = keeper.first(&SystemClock).await;
    place.write_row(&before);
    expect(&place, "before, none", place.start("none", "", ""), UNOPENED).await;
    let absent = place.keks(9, &[]).replace("kek-9", "no-such-kek");
    expect(&place, "before, absent", place.start("absent", &absent, ""), Refuses("provider.not_found")).await;
    for (keks, expected) in [(&[1][..], Starts("")), (&[2, 1], Starts("")), (&[3], UNOPENED)] {
        expect_with(&place, "before", keks, expected).await;
    }

    // Half-way: what was made lately is sealed under the new one, what signs is still under the old one.
    place.write_row(&half_way(&place, &keeper, &before).await);
    for (keks, expected) in [
        (&[1][..], Starts("ring.half_unopened")),
        (&[2, 1], Starts("kek.previous_needed")),
        (&[2], UNOPENED),
        (&[3, 4], UNOPENED),
    ] {
        expect_with(&place, "half-way", keks, expected).await;
    }

    let rewrap = ["keys", "rewrap", "--yes", "--json", "--to-kek", &place.kek_uri(2)];
    let (exit, out, err) = run(&with(&place, "operator", &[2, 1]), &rewrap).await;
    assert_eq!(exit, Some(0), "{out}{err}");
    for (keks, expected) in
        [(&[2][..], Starts("")), (&[2, 1], Starts("kek.previous_unneeded")), (&[1], UNOPENED)]
    {
        expect_with(&place, "after", keks, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewrap_waits_for_replicas_that_could_not_open_it_and_is_not_noticed_by_those_that_can() {
    let Some(place) = Place::new().await else { return };
    let keeper = Keeper::new(&place.issuer, 1);
    let before = keeper.first(&SystemClock).await;
    place.write_row(&before);
    let old = with(&place, "a", &[1]).ready().await;
    place.in_front_of(&[&old]);
    place.write_row(&half_way(&place, &keeper, &before).await);
    state::until("the key under the new KEK is published", async || {
        old.log_text().contains("ring.half_unopened").then_some(())
    })
    .await;
    let published = jwks(&old).await;
    assert!(old.try_mint(&pod()).await.status.is_success(), "it signs on with what it can open");

    let operator = with(&place, "operator", &[2, 1]);
    let new = place.kek_uri(2);
    let (row, rewrap) = (place.row(), ["keys", "rewrap", "--yes", "--json", "--to-kek", &new]);
    let (exit, out, err) = run(&operator, &rewrap).await;
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let found = &said["error"]["findings"][0];
    assert_eq!((exit, &found["code"], &found["place"]), (Some(75), &"fleet.cannot_open".into(), &"a".into()));
    assert_eq!(place.row(), row, "nothing was written");

    drop(old.kill().await);
    place.forget_replicas();
    let both = with(&place, "b", &[1, 2]).ready().await;
    place.in_front_of(&[&both]);
    let token = both.mint(&pod()).await;
    let (exit, out, err) = run(&operator, &rewrap).await;
    assert_eq!(exit, Some(0), "{out}{err}");
    let revision = serde_json::from_str::<Value>(&out).unwrap()["revision"].as_u64().unwrap();
    let line = format!("revision={revision}");
    state::until("the rewrapped ring", async || both.log_text().contains(&line).then_some(())).await;
    assert_eq!(jwks(&both).await, published, "byte for byte");
    let (old_kid, new_kid) = (kid(&token), kid(&both.mint(&pod()).await));
    assert_eq!(old_kid, new_kid);
    let log = both.log_text();
    assert!(!log.contains("the record is refused"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sealed_or_activated_that_another_replica_cannot_open_and_one_that_cannot_leaves_readiness()
 {
    let Some(place) = Place::new().await else { return };
    let start = |name: &str, current: u8, previous: &[u8]| {
        let mut start = with(&place, name, &[&[current], previous].concat());
        start.algorithms = vec![oneseal::Algorithm::Es256];
        start.more.push_str("[rotation]\npreset = \"lab\"\n");
        start
    };
    let (exit, out, err) = run(&start("operator", 1, &[]), &["keys", "init", "--json"]).await;
    assert_eq!(exit, Some(0), "{out}{err}");
    let (a, b) = (start("a", 1, &[]).ready().await, start("b", 2, &[1]).ready().await);
    place.in_front_of(&[&a, &b]);
    let refused = verb(&b, "rotate", Uuid::new_v4()).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (409, &"fleet.cannot_open".into()));
    let row = place.row();

    // The keys that leaked are gone all the same.
    let burned = verb(&b, "revoke", Uuid::new_v4()).await;
    assert_eq!(burned.status, 200, "{:?}", burned.body);
    assert!(
        burned.json()["notes"][0].as_str().unwrap().starts_with("a will mint nothing"),
        "{:?}",
        burned.body
    );
    assert_ne!(place.row(), row);
    let done = state::until("the emergency wait is over", async || {
        let answer = verb(&b, "activate", Uuid::new_v4()).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    assert!(done["notes"][0].as_str().unwrap().contains("a (cannot open it"), "{done}");
    assert!(b.try_mint(&pod()).await.status.is_success());
    let not_ready = state::until("a has left readiness", async || {
        let answer = http::get(a.ops, "/readyz").await.unwrap();
        (answer.status == 503).then(|| answer.json())
    })
    .await;
    assert_eq!(not_ready["reason"], "no_key_and_another_mints", "{not_ready}");
    assert_eq!(jwks(&a).await, jwks(&b).await, "it publishes on");

    drop(b.kill().await);
    state::until("nobody mints, and a is ready again", async || {
        (http::get(a.ops, "/readyz").await.unwrap().status == 200).then_some(())
    })
    .await;
}

async fn expect_with(place: &Place, when: &str, keks: &[u8], expected: Expected) {
    expect(place, &format!("{when}, {keks:?}"), with(place, "replica", keks), expected).await;
}

async fn expect(place: &Place, what: &str, start: Start, expected: Expected) {
    let before = start.log_text().len();
    match expected {
        Starts(note) => {
            let replica = start.ready().await;
            assert!(replica.try_mint(&pod()).await.status.is_success(), "{what}");
            assert!(replica.log_text()[before..].contains(note), "{what}: {}", replica.log_text());
            drop(replica.kill().await);
            place.forget_replicas();
        }
        Refuses(code) => {
            let (exit, log) = ended(&start).await;
            assert!(exit == Some(78) && log.contains(code), "{what}: {exit:?} {log}");
            let (exit, codes) = checked(&start).await;
            assert!(exit == Some(78) && codes.iter().any(|found| found == code), "{what}: {codes:?}");
        }
    }
}

fn with(place: &Place, name: &str, keks: &[u8]) -> Start {
    place.start(name, &place.keks(keks[0], &keks[1..]), "")
}

/// The revision after `before`, with a pending key sealed under KEK 2.
async fn half_way(place: &Place, keeper: &Keeper, before: &[u8]) -> Vec<u8> {
    let other = Keeper::new(&place.issuer, 2);
    let pem = include_bytes!("../../../keystore/tests/vectors/ring/p256.pem");
    let elsewhere = other.with_pending(&other.first(&SystemClock).await, pem);
    let elsewhere: Value = serde_json::from_slice(&elsewhere).unwrap();
    keeper.next(before, |ring| ring["keys"].as_array_mut().unwrap().push(elsewhere["keys"][2].clone()))
}

fn kid(token: &str) -> String {
    let jws = oneseal_keystore::verify::UnverifiedJws::parse(token).unwrap();
    jws.kid().unwrap().to_owned()
}
