//! What can be used once, by several who try.

use std::time::Duration;

use oneseal_coordination::database::{
    CommitError, Database, DatabaseErrorKind, DatabaseOptions, DatabaseUrl,
};
use oneseal_coordination::migrate::COORDINATION;
use oneseal_coordination::once::{ONCE, UsedOnce};
use oneseal_coordination::{Clock as _, SystemClock, UnixTime};
use oneseal_testing::parts::{self, PgBouncer, Pooling, Postgres, Proxy};
use tokio::task::JoinSet;

use super::{apply, open};

async fn ready(server: &Postgres) -> (parts::Database, Database) {
    let raw = server.create_database();
    let database = open(&raw.url());
    apply(&database, &[COORDINATION, ONCE]).await;
    (raw, database)
}

fn soon() -> UnixTime {
    SystemClock.wall() + Duration::from_secs(300)
}

/// Replicas with connections of their own, some of them behind a pooler that has fewer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_replicas_that_use_an_id_at_once_one_may() {
    let Some(server) = Postgres::shared() else { return };
    let Some(pooler) = PgBouncer::start(server, Pooling::Transaction, 2) else { return };
    let (raw, database) = ready(server).await;
    let pooled = || open(&raw.url_at(pooler.address()));
    let replicas = [database, open(&raw.url()), pooled(), pooled()].map(UsedOnce::new);
    for turn in 0..25 {
        let mut calls = JoinSet::new();
        for replica in replicas.iter().chain(&replicas) {
            let (replica, id) = (replica.clone(), format!("id-{turn}"));
            calls.spawn(async move { replica.use_once("ci", &id, soon()).await.unwrap() });
        }
        let firsts = calls.join_all().await.into_iter().filter(|is_first| *is_first).count();
        assert_eq!(firsts, 1, "turn {turn}");
    }
    assert_eq!(raw.execute("SELECT count(*), count(DISTINCT id) FROM oneseal.used_once"), "25|25");
}

#[tokio::test]
async fn an_id_is_used_in_its_scope_and_until_its_time() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let once = UsedOnce::new(database);
    assert!(once.use_once("ci", "1", soon()).await.unwrap());
    assert!(once.use_once("batch", "1", soon()).await.unwrap());
    assert!(!once.use_once("ci", "1", soon()).await.unwrap());
    // Long ids and those of any letters take a row as any other.
    let long = "é\n'\0".repeat(10_000);
    assert!(once.use_once("ci", &long, soon()).await.unwrap());
    assert!(!once.use_once("ci", &long, soon()).await.unwrap());
    // Its time is over, but whoever asks may be behind the database.
    let over = SystemClock.wall() - Duration::from_secs(10);
    assert!(once.use_once("ci", "2", over).await.unwrap());
    assert!(!once.use_once("ci", "2", soon()).await.unwrap());
    let long_over = over - UsedOnce::KEPT_LONGER;
    assert!(once.use_once("ci", "3", long_over).await.unwrap());
    assert!(once.use_once("ci", "3", soon()).await.unwrap());
    assert!(!once.use_once("ci", "3", soon()).await.unwrap());
    assert_eq!(raw.execute("SELECT count(*) FROM oneseal.used_once"), "5");
}

#[tokio::test]
async fn what_is_over_goes_by_and_by_and_what_is_in_force_stays() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    raw.execute(
        "INSERT INTO oneseal.used_once SELECT sha256(n::text::bytea), now() - n * interval '1 s' FROM generate_series(1, 100) n;
         INSERT INTO oneseal.used_once SELECT sha256(n::text::bytea), now() + interval '1 h' FROM generate_series(101, 150) n",
    );
    let once = UsedOnce::new(database);
    let left = "SELECT count(*) FILTER (WHERE until < now()), count(*) FILTER (WHERE until > now()) FROM oneseal.used_once";
    assert!(once.use_once("ci", "0", soon()).await.unwrap());
    assert_eq!(raw.execute(left), "84|51");
    // The oldest went first.
    assert_eq!(raw.execute("SELECT now() - min(until) < interval '90 s' FROM oneseal.used_once"), "t");
    for id in 1..=6 {
        assert!(once.use_once("ci", &id.to_string(), soon()).await.unwrap());
    }
    assert_eq!(raw.execute(left), "0|57");
    let plan = "SET enable_seqscan = off; EXPLAIN SELECT id FROM oneseal.used_once WHERE until < clock_timestamp() ORDER BY until LIMIT 16";
    assert!(raw.execute(plan).contains("used_once_by_until"), "{}", raw.execute(plan));
}

#[tokio::test]
async fn who_cannot_know_says_so_in_bounded_time_and_the_id_is_still_good() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = ready(server).await;
    let proxy = Proxy::start(server.address());
    let mut options = DatabaseOptions::new(DatabaseUrl::parse(&raw.url_at(proxy.address())).unwrap());
    options.lock_timeout = Duration::from_millis(200);
    let once = UsedOnce::new(Database::new(options).unwrap());
    proxy.refuse(true);
    let error = once.use_once("ci", "1", soon()).await.unwrap_err();
    let CommitError::NotCommitted(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), DatabaseErrorKind::Unavailable);
    proxy.refuse(false);
    assert!(once.use_once("ci", "1", soon()).await.unwrap());
    // Somebody else marks it and does not come to an end.
    let mut other = database.write().await.unwrap();
    other.execute(sqlx::query("UPDATE oneseal.used_once SET until = until")).await.unwrap();
    let error = once.use_once("ci", "1", soon()).await.unwrap_err();
    let CommitError::NotCommitted(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), DatabaseErrorKind::Conflict);
    other.roll_back().await;
    assert!(!once.use_once("ci", "1", soon()).await.unwrap());
    raw.execute("DROP TABLE oneseal.used_once");
    let error = once.use_once("ci", "1", soon()).await.unwrap_err();
    let CommitError::NotCommitted(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), DatabaseErrorKind::Schema);
}
