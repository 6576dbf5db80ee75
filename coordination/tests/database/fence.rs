//! The epoch row: a leader that was replaced writes nothing more.

use oneseal_coordination::FenceToken;
use oneseal_coordination::database::{Database, DatabaseErrorKind};
use oneseal_testing::parts::{self, Postgres};

use super::{insert, with_table};

/// As the election will: the epochs of `worker_epochs`, and a leader of epoch 7.
fn with_epochs(server: &Postgres) -> (parts::Database, Database) {
    let (raw, database) = with_table(server);
    raw.execute(
        "CREATE SCHEMA IF NOT EXISTS oneseal;
         CREATE TABLE IF NOT EXISTS oneseal.worker_epochs (fleet text, worker text, epoch bigint NOT NULL,
            holder text NOT NULL, taken_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (fleet, worker));
         INSERT INTO oneseal.worker_epochs (fleet, worker, epoch, holder) VALUES ('prod', 'rotator', 7, 'a_1')",
    );
    (raw, database)
}

fn token(epoch: u64, holder: &str) -> FenceToken {
    FenceToken::new("prod", "rotator", epoch, holder)
}

const TAKEOVER: &str = "UPDATE oneseal.worker_epochs SET epoch = epoch + 1, holder = 'b_2' \
                        WHERE fleet = 'prod' AND worker = 'rotator'";

#[tokio::test(flavor = "multi_thread")]
async fn only_the_latest_epoch_of_its_holder_passes() {
    let Some(server) = Postgres::shared() else { return };
    let (_, database) = with_epochs(server);
    for (epoch, holder, passes) in
        [(7, "a_1", true), (6, "a_1", false), (8, "a_1", false), (7, "b_2", false), (u64::MAX, "a_1", false)]
    {
        let mut tx = database.write().await.unwrap();
        let verdict = tx.fence(&token(epoch, holder)).await.map_err(|error| error.kind());
        tx.roll_back().await;
        assert_eq!(verdict, if passes { Ok(()) } else { Err(DatabaseErrorKind::Fenced) }, "{epoch} {holder}");
    }
    let other = FenceToken::new("other", "rotator", 7, "a_1");
    let mut tx = database.write().await.unwrap();
    assert_eq!(tx.fence(&other).await.unwrap_err().kind(), DatabaseErrorKind::Fenced);
}

/// The old leader's write is under way when the takeover comes: that waits, and the next write is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_waits_for_a_write_that_has_passed_the_fence() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = with_epochs(server);
    let mut tx = database.write().await.unwrap();
    tx.fence(&token(7, "a_1")).await.unwrap();
    let taking = tokio::task::spawn_blocking({
        let raw = raw.clone();
        move || raw.execute(TAKEOVER)
    });
    blocked(&raw).await;
    assert!(!taking.is_finished());
    insert(&mut tx, "in time").await.unwrap();
    tx.commit().await.unwrap();
    taking.await.unwrap();
    let mut tx = database.write().await.unwrap();
    let error = tx.fence(&token(7, "a_1")).await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Fenced);
    assert!(error.to_string().contains("epoch 7 of a_1"), "{error}");
    assert_eq!(raw.execute("SELECT word FROM kept"), "in time");
}

/// The takeover has not committed when the old leader's write comes: that waits, and is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_comes_during_a_takeover_waits_and_is_refused() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = with_epochs(server);
    let mut takeover = database.write().await.unwrap();
    takeover.execute(sqlx::query(TAKEOVER)).await.unwrap();
    let other = database.clone();
    let mut writes = tokio::task::JoinSet::new();
    writes.spawn(async move {
        let mut tx = other.write().await.unwrap();
        tx.fence(&token(7, "a_1")).await.map_err(|error| error.kind())
    });
    blocked(&raw).await;
    takeover.commit().await.unwrap();
    assert_eq!(writes.join_next().await.unwrap().unwrap(), Err(DatabaseErrorKind::Fenced));
}

/// A leader that hangs in the middle of its transaction holds its successor up for no longer than the lock's time-out
/// at each try, and is thrown out after its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stands_still_in_a_transaction_is_thrown_out() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, _) = with_epochs(server);
    let mut options = super::options(&raw.url());
    options.idle_in_transaction_timeout = std::time::Duration::from_millis(300);
    let database = Database::new(options).unwrap();
    let mut tx = database.write().await.unwrap();
    tx.fence(&token(7, "a_1")).await.unwrap();
    raw.execute(TAKEOVER);
    insert(&mut tx, "late").await.unwrap_err();
    assert_eq!(raw.execute("SELECT count(*) FROM kept"), "0");
}

/// Waits until somebody waits for a lock in this database.
async fn blocked(raw: &parts::Database) {
    let question = "SELECT count(*) FROM pg_stat_activity \
                    WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let wait = async {
        while raw.execute(question) == "0" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), wait)
        .await
        .expect("somebody waits for the lock");
}
