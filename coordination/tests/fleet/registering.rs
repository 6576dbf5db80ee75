//! Replicas that join, beat, fall silent, come back and leave.

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::SystemClock;
use oneseal_coordination::database::Database;
use oneseal_coordination::registry::{
    Beat, BeatError, ForgetError, InstanceId, JoinError, Registry, ReplicaState, RingRevision, RowFault,
    forget, rows,
};
use oneseal_testing::parts::{self, PgBouncer, Pooling, Postgres};
use serde_json::json;
use uuid::Uuid;

use super::{migrated, open, until};

const RINGS: &str = "SELECT incarnation, revision, digest FROM public.rings WHERE fleet = $1";

async fn ready(server: &Postgres) -> (parts::Database, Database) {
    let (raw, database) = migrated(server).await;
    raw.execute(
        "CREATE TABLE rings (fleet text, incarnation bigint, revision bigint, digest text);
         INSERT INTO rings VALUES ('prod', 2, 41, 'abc'), ('other', 1, 1, 'def')",
    );
    (raw, database)
}

fn replica(database: &Database, instance: &str) -> Registry {
    let instance = InstanceId::new(instance).unwrap();
    let clock = Arc::new(SystemClock);
    Registry::new(
        database.clone(),
        clock,
        "prod",
        instance,
        Uuid::new_v4(),
        "http://10.0.0.7:8081",
        Some(RINGS),
    )
}

fn states(rows: &[oneseal_coordination::registry::Row]) -> Vec<(&str, ReplicaState)> {
    rows.iter().map(|row| (&*row.instance, row.state)).collect()
}

/// Moves the last beat of `instance` back, as if it had not been heard of for so long.
fn age(raw: &parts::Database, instance: &str, seconds: u32) {
    raw.execute(&format!(
        "UPDATE oneseal.replicas SET beat_at = clock_timestamp() - interval '{seconds} s' WHERE instance = '{instance}'"
    ));
}

#[tokio::test]
async fn a_beat_is_heard_by_all_and_answers_with_all() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let (one, two) = (replica(&database, "pod-0"), replica(&database, "pod-1"));
    one.join(&json!({"n": 0})).await.unwrap();
    two.join(&json!({"n": 0})).await.unwrap();
    let answer = one.beat(&json!({"n": 1, "kids": ["a"]}), Beat::Joining).await.unwrap();
    assert_eq!(states(&answer.rows), [("pod-0", ReplicaState::Joining), ("pod-1", ReplicaState::Joining)]);
    let answer = one.beat(&json!({"n": 2, "kids": ["b"]}), Beat::Live).await.unwrap();
    assert_eq!(answer.rows[0].facts, json!({"n": 2, "kids": ["b"]}));
    assert_eq!(
        answer.ring_revision,
        Some(RingRevision { incarnation: 2, revision: 41, digest: "abc".into() })
    );
    assert_eq!((answer.event_head, answer.offset_ms), (0, 0));
    let seen = two.beat(&json!({}), Beat::Live).await.unwrap();
    assert_eq!(states(&seen.rows), [("pod-0", ReplicaState::Live), ("pod-1", ReplicaState::Live)]);
    let row = &seen.rows[0];
    assert_eq!((row.boot, &*row.ops_address), (one.boot(), "http://10.0.0.7:8081"));
    assert!(row.beat_age < Duration::from_secs(12) && row.since >= row.joined_at);
    // A fleet of its own in the same database sees nothing of them.
    assert_eq!(rows(&database, "other").await.unwrap(), []);
    raw.execute("DELETE FROM rings");
    assert_eq!(two.beat(&json!({}), Beat::Live).await.unwrap().ring_revision, None);
}

#[tokio::test]
async fn who_misses_three_beats_is_silent_until_it_beats_and_never_gone_by_time() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let (one, two) = (replica(&database, "pod-0"), replica(&database, "pod-1"));
    for replica in [&one, &two] {
        replica.join(&json!({})).await.unwrap();
        replica.beat(&json!({}), Beat::Live).await.unwrap();
    }
    for (seconds, state) in
        [(11, ReplicaState::Live), (12, ReplicaState::Silent), (30 * 24 * 3600, ReplicaState::Silent)]
    {
        age(&raw, "pod-0", seconds);
        let answer = two.beat(&json!({}), Beat::Live).await.unwrap();
        assert_eq!(states(&answer.rows)[0], ("pod-0", state), "after {seconds} s");
    }
    let since = two.rows().await.unwrap()[0].since;
    assert!(since < two.rows().await.unwrap()[1].since, "silent since its last beat");
    one.beat(&json!({}), Beat::Live).await.unwrap();
    assert_eq!(states(&two.rows().await.unwrap())[0], ("pod-0", ReplicaState::Live));
    // One that died on its way in does not join for ever.
    let third = replica(&database, "pod-2");
    third.join(&json!({})).await.unwrap();
    assert_eq!(states(&two.rows().await.unwrap())[2], ("pod-2", ReplicaState::Joining));
    age(&raw, "pod-2", 12);
    assert_eq!(states(&two.rows().await.unwrap())[2], ("pod-2", ReplicaState::Silent));
}

#[tokio::test]
async fn a_newer_boot_waits_until_the_older_one_is_silent_and_then_takes_its_place() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let (older, newer) = (replica(&database, "pod-0"), replica(&database, "pod-0"));
    older.join(&json!({})).await.unwrap();
    older.beat(&json!({}), Beat::Live).await.unwrap();
    let error = newer.join(&json!({})).await.unwrap_err();
    let JoinError::InstanceInUse { boot, .. } = &error else { panic!("{error}") };
    assert_eq!(*boot, older.boot());
    assert!(error.to_string().contains("pod-0 already runs"), "{error}");
    older.join(&json!({})).await.expect("joining twice is once");
    age(&raw, "pod-0", 12);
    newer.join(&json!({})).await.unwrap();
    // It was not dead, only slow: it is told.
    let error = older.beat(&json!({}), Beat::Live).await.unwrap_err();
    assert!(matches!(error, BeatError::NotRegistered), "{error}");
    older.leave().await.unwrap();
    assert_eq!(
        newer.rows().await.unwrap()[0].state,
        ReplicaState::Joining,
        "it cannot take the newer one with it"
    );
    newer.beat(&json!({}), Beat::Live).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_boots_that_join_at_once_one_gets_the_place() {
    let Some(server) = Postgres::shared() else { return };
    let (_, database) = ready(server).await;
    let mut joining = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let replica = replica(&database, "pod-0");
        joining.spawn(async move { replica.join(&json!({})).await.is_ok() });
    }
    let mut joined = 0;
    while let Some(done) = joining.join_next().await {
        joined += u32::from(done.unwrap());
    }
    assert_eq!(joined, 1);
}

#[tokio::test]
async fn who_has_left_is_gone_and_its_place_free_at_once() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let (older, newer) = (replica(&database, "pod-0"), replica(&database, "pod-0"));
    older.join(&json!({})).await.unwrap();
    older.leave().await.unwrap();
    older.leave().await.expect("leaving twice is once");
    assert_eq!(older.rows().await.unwrap()[0].state, ReplicaState::Gone);
    assert!(matches!(older.beat(&json!({}), Beat::Live).await, Err(BeatError::NotRegistered)));
    newer.join(&json!({})).await.unwrap();
    newer.leave().await.unwrap();
    raw.execute("UPDATE oneseal.replicas SET state_since = clock_timestamp() - interval '25 h'");
    replica(&database, "pod-9").join(&json!({})).await.unwrap();
    assert_eq!(states(&newer.rows().await.unwrap()), [("pod-9", ReplicaState::Joining)]);
}

#[tokio::test]
async fn only_who_is_silent_can_be_forgotten_and_may_come_back_by_joining() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let one = replica(&database, "pod-0");
    assert!(matches!(forget(&database, "prod", "pod-0").await, Err(ForgetError::Unknown(_))));
    one.join(&json!({})).await.unwrap();
    one.beat(&json!({}), Beat::Live).await.unwrap();
    let error = forget(&database, "prod", "pod-0").await.unwrap_err();
    assert!(error.to_string().contains("stop it first"), "{error}");
    age(&raw, "pod-0", 13);
    assert_eq!(forget(&database, "prod", "pod-0").await.unwrap().state, ReplicaState::Silent);
    assert_eq!(forget(&database, "prod", "pod-0").await.unwrap().state, ReplicaState::Gone);
    assert!(matches!(one.beat(&json!({}), Beat::Live).await, Err(BeatError::NotRegistered)));
    one.join(&json!({})).await.unwrap();
    one.beat(&json!({}), Beat::Live).await.unwrap();
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_told_by_how_much() {
    let Some(server) = Postgres::shared() else { return };
    let (_, database) = ready(server).await;
    let clock = oneseal_testing::FixedClock::at(oneseal_coordination::UnixTime(1_000_000_000));
    let instance = InstanceId::new("pod-0").unwrap();
    let registry = Registry::new(database, Arc::new(clock), "prod", instance, Uuid::new_v4(), "", None);
    registry.join(&json!({})).await.unwrap();
    let answer = registry.beat(&json!({}), Beat::Live).await.unwrap();
    assert_eq!(answer.ring_revision, None);
    assert_eq!(answer.offset_ms / 1000, 1_000_000_001 - answer.database_now.as_secs());
}

#[tokio::test]
async fn facts_that_are_too_long_or_not_ours_do_no_harm() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let one = replica(&database, "pod-0");
    let long = json!({"x": "y".repeat(16 * 1024)});
    assert!(matches!(one.join(&long).await, Err(JoinError::FactsTooLong(_))));
    one.join(&json!({})).await.unwrap();
    assert!(matches!(one.beat(&long, Beat::Live).await, Err(BeatError::FactsTooLong(_))));
    insert(&raw, "a", "'x'", "'no json'", ["now()"; 3]);
    insert(&raw, "b", "'x'", "repeat('y', 65537)", ["now()"; 3]);
    insert(&raw, "c", "repeat('z', 1025)", "to_json(repeat('y', 65534))", ["now()"; 3]);
    let answer = one.beat(&json!({}), Beat::Live).await.unwrap();
    let [a, b, c, _] = &*answer.rows else { panic!("{answer:?}") };
    assert_eq!((&a.facts, &a.fault, a.state), (&serde_json::Value::Null, &None, ReplicaState::Live));
    assert_eq!((&b.facts, b.state), (&serde_json::Value::Null, ReplicaState::Live));
    assert_eq!(b.fault, Some(RowFault::FactsTooLong { bytes: 65537 }));
    let length = c.facts.as_str().map(str::len);
    assert_eq!((length, &c.fault, &*c.ops_address), (Some(65534), &None, ""));
}

/// A row that somebody has written by hand: joined, since, last beat.
fn insert(raw: &parts::Database, instance: &str, address: &str, facts: &str, times: [&str; 3]) {
    let [joined_at, since, beat_at] = times;
    raw.execute(&format!(
        "INSERT INTO oneseal.replicas VALUES ('prod', '{instance}', gen_random_uuid(), 'live', {address}, {facts},
            {joined_at}, {since}, {beat_at})"
    ));
}

/// Whatever time stands in a row, in whichever place.
#[tokio::test]
async fn a_row_with_impossible_times_harms_itself_alone() {
    let Some(server) = Postgres::shared() else { return };
    for (time, is_infinite) in [
        ("'infinity'", true),
        ("'-infinity'", true),
        ("clock_timestamp() + interval '1 hour'", false),
        ("'294276-12-31'::timestamptz", false),
    ] {
        for place in 0..3 {
            let (raw, database) = ready(server).await;
            let one = replica(&database, "pod-0");
            let mut times = ["clock_timestamp()"; 3];
            times[place] = time;
            insert(&raw, "pod-9", "'x'", "'{}'", times);
            one.join(&json!({})).await.unwrap();
            let answer = one.beat(&json!({}), Beat::Live).await.unwrap();
            let what = format!("{time} at {place}: {answer:?}");
            assert_eq!(states(&one.rows().await.unwrap()), states(&answer.rows), "{what}");
            let odd = &answer.rows[1];
            assert_eq!((odd.state, odd.beats()), (ReplicaState::Silent, false), "{what}");
            assert_eq!(matches!(odd.fault, Some(RowFault::Infinite)), is_infinite, "{what}");
            assert_eq!(matches!(odd.fault, Some(RowFault::Ahead { .. })), !is_infinite, "{what}");
            assert!(odd.since <= answer.database_now && odd.joined_at <= answer.database_now, "{what}");
            assert_eq!(states(&answer.rows)[0], ("pod-0", ReplicaState::Live), "{what}");
            // It goes, and its name is free for who has it.
            let forgotten = forget(&database, "prod", "pod-9").await.unwrap();
            assert_eq!(forgotten.state, ReplicaState::Silent, "{what}");
            let back = replica(&database, "pod-9");
            back.join(&json!({})).await.unwrap();
            let answer = back.beat(&json!({}), Beat::Live).await.unwrap();
            assert_eq!(states(&answer.rows)[1], ("pod-9", ReplicaState::Live), "{what}");
        }
    }
}

#[tokio::test]
async fn an_instance_takes_back_a_row_with_impossible_times_and_a_beat_puts_its_own_right() {
    let Some(server) = Postgres::shared() else { return };
    for column in ["joined_at", "state_since", "beat_at"] {
        for time in ["'infinity'", "'-infinity'", "clock_timestamp() + interval '10 years'"] {
            let (raw, database) = ready(server).await;
            let (one, again) = (replica(&database, "pod-0"), replica(&database, "pod-0"));
            one.join(&json!({})).await.unwrap();
            one.beat(&json!({}), Beat::Live).await.unwrap();
            let spoil = format!("UPDATE oneseal.replicas SET {column} = {time}");
            raw.execute(&spoil);
            let answer = one.beat(&json!({}), Beat::Live).await.unwrap();
            assert_eq!((answer.rows[0].state, &answer.rows[0].fault), (ReplicaState::Live, &None), "{spoil}");
            raw.execute(&spoil);
            again.join(&json!({})).await.unwrap_or_else(|error| panic!("{spoil}: {error}"));
            assert_eq!(again.rows().await.unwrap()[0].fault, None, "{spoil}");
        }
    }
}

/// A server whose clock is a little behind, after a failover.
#[tokio::test]
async fn a_clock_set_back_by_less_than_three_beats_makes_nobody_silent() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let one = replica(&database, "pod-0");
    one.join(&json!({})).await.unwrap();
    one.beat(&json!({}), Beat::Live).await.unwrap();
    raw.execute("UPDATE oneseal.replicas SET beat_at = clock_timestamp() + interval '10 s'");
    let row = &one.rows().await.unwrap()[0];
    assert_eq!((row.state, &row.fault, row.beat_age), (ReplicaState::Live, &None, Duration::ZERO));
    assert!(matches!(forget(&database, "prod", "pod-0").await, Err(ForgetError::Beats { .. })));
    assert!(replica(&database, "pod-0").join(&json!({})).await.is_err());
}

#[tokio::test]
async fn beats_go_through_a_pooler_and_on_after_an_outage() {
    let Some(mut server) = Postgres::start(parts::PostgresOptions::default()) else { return };
    let (raw, _) = ready(&server).await;
    let Some(pooler) = PgBouncer::start(&server, Pooling::Transaction, 2) else { return };
    let database = open(&raw.url_at(pooler.address()));
    let one = replica(&database, "pod-0");
    one.join(&json!({})).await.unwrap();
    one.beat(&json!({}), Beat::Live).await.unwrap();
    server.stop(parts::Stop::Fast);
    let error = one.beat(&json!({}), Beat::Live).await.unwrap_err();
    assert!(matches!(error, BeatError::Database(_)), "{error}");
    server.start_again();
    until("a beat that is heard", async || one.beat(&json!({}), Beat::Live).await.is_ok()).await;
}

/// What an idle replica costs: with `track_utility = off` a beat is one query.
#[tokio::test]
async fn a_beat_is_one_query() {
    let settings =
        [("shared_preload_libraries", "'pg_stat_statements'"), ("pg_stat_statements.track_utility", "off")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let Some(server) = Postgres::start(parts::PostgresOptions { settings, certificate: None }) else {
        return;
    };
    let (raw, database) = ready(&server).await;
    let one = replica(&database, "pod-0");
    one.join(&json!({})).await.unwrap();
    raw.execute("CREATE EXTENSION pg_stat_statements; SELECT pg_stat_statements_reset()");
    for _ in 0..5 {
        one.beat(&json!({}), Beat::Live).await.unwrap();
    }
    let calls = "SELECT sum(s.calls) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid \
                 WHERE d.datname = current_database() AND s.query !~ 'pg_stat_statements'";
    assert_eq!(raw.execute(calls), "5");
}
