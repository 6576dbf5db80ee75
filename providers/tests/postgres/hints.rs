//! Who waits is woken: by a hint at once, by the poll whatever becomes of hints.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::SystemClock;
use oneseal_coordination::database::{Database, DatabaseUrl};
use oneseal_coordination::registry::{BEAT_EVERY, Beat, InstanceId, Registry};
use oneseal_providers::postgres::RING;
use oneseal_providers::{PostgresProvider, Revision, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{self, Pooling, Postgres, PostgresOptions};
use serde_json::json;
use uuid::Uuid;

use crate::place::{
    FLEET, NO_POLL, QUICK_POLL, change, connect, in_time, migrated, options, pooler, provider, ring,
};

#[test]
fn a_write_wakes_by_its_hint_alone() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let (waiting, writing) = (provider(&database.url()).poll_every(NO_POLL), provider(&database.url()));
    block_on(async {
        let mut at = writing.create(ring(1, "eyJ"), change()).await.unwrap();
        for revision in 2..6 {
            assert_eq!(waiting.load().await.unwrap().revision, at);
            at = woken(&database, &waiting, &at, async {
                writing.replace(&at, ring(revision, "eyJ"), change()).await.unwrap()
            })
            .await;
        }
    });
}

#[test]
fn what_another_fleet_writes_wakes_nobody() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let waiting = provider(&database.url()).poll_every(NO_POLL);
    let other = PostgresProvider::new(Database::new(options(&database.url())).unwrap(), "other.example");
    block_on(async {
        let at = waiting.create(ring(1, "eyJ"), change()).await.unwrap();
        waiting.load().await.unwrap();
        let woken = woken(&database, &waiting, &at, async {
            other.create(ring(1, "eyJ"), change()).await.unwrap();
            // The second hint comes after the first on one session: had that one woken, this write would not be there.
            waiting.replace(&at, ring(2, "eyJ"), change()).await.unwrap()
        });
        assert_eq!(woken.await, waiting.load().await.unwrap().revision);
    });
}

#[test]
fn what_was_missed_while_the_session_was_lost_is_seen() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let waiting = provider(&database.url()).poll_every(NO_POLL);
    block_on(async {
        let at = waiting.create(ring(1, "eyJ"), change()).await.unwrap();
        waiting.load().await.unwrap();
        woken(&database, &waiting, &at, async {
            // By hand, so without a hint; then the session goes.
            database.execute("UPDATE oneseal.rings SET document = document || ' '");
            database.execute(&format!("SELECT pg_terminate_backend(pid) FROM ({LISTENING}) AS sessions"));
        })
        .await;
        assert_ne!(waiting.load().await.unwrap().revision, at);
    });
}

#[test]
fn past_a_pooler_hints_are_heard_by_the_direct_url_and_through_it_the_poll_is_left() {
    let (Some(server), Some(pooler)) = (Postgres::shared(), pooler(Pooling::Transaction)) else { return };
    let database = migrated(server);
    let pooled = database.url_at(pooler);
    let mut past = options(&pooled);
    past.direct_url = Some(DatabaseUrl::parse(&database.url()).unwrap());
    let past = PostgresProvider::new(Database::new(past).unwrap(), FLEET).poll_every(NO_POLL);
    let through = provider(&pooled).poll_every(QUICK_POLL);
    block_on(async {
        let mut at = past.create(ring(1, "eyJ"), change()).await.unwrap();
        for revision in 2..5 {
            through.load().await.unwrap();
            let polled = async {
                in_time("a poll", through.changed(&at)).await;
            };
            let written = woken(&database, &past, &at, async {
                past.replace(&at, ring(revision, "eyJ"), change()).await.unwrap()
            });
            let ((), written) = futures_util::future::join(polled, written).await;
            at = written;
        }
    });
}

#[test]
fn an_idle_replica_asks_less_than_twenty_times_a_minute() {
    let settings =
        [("shared_preload_libraries", "'pg_stat_statements'"), ("pg_stat_statements.track_utility", "off")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let Some(server) = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() }) else {
        return;
    };
    let database = migrated(&server);
    database.execute("CREATE EXTENSION pg_stat_statements");
    let waiting = provider(&database.url()).poll_every(NO_POLL);
    block_on(async {
        let at = waiting.create(ring(1, "eyJ"), change()).await.unwrap();
        let all = "SELECT sum(calls) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%'";
        // Until the session listens and has been tried, the row is asked for besides.
        in_time("an idle watch", async {
            loop {
                database.execute("SELECT pg_stat_statements_reset()");
                for _ in 0..10 {
                    // As the keystore does: a look, then a wait that is cut short by the next look.
                    waiting.load().await.unwrap();
                    let _ = tokio::time::timeout(Duration::from_millis(20), waiting.changed(&at)).await;
                }
                if database.execute(all) == "10" {
                    break;
                }
            }
        })
        .await;

        let instance = InstanceId::new("replica-1").unwrap();
        let (clock, boot) = (Arc::new(SystemClock), Uuid::new_v4());
        let registry = Registry::new(connect(&database.url()), clock, FLEET, instance, boot, "", Some(RING));
        registry.join(&json!({})).await.unwrap();
        database.execute("SELECT pg_stat_statements_reset()");
        for _ in 0..10 {
            let answer = registry.beat(&json!({}), Beat::Live).await.unwrap();
            assert!(answer.ring_revision.is_some());
        }
        assert_eq!(database.execute(all), "10");
        // A look of the keystore every 15 s, up to a tenth earlier, and a beat every 4 s, one statement each.
        let a_minute = 60.0 / 13.5 + 60.0 / BEAT_EVERY.as_secs_f64();
        assert!(a_minute < 20.0, "{a_minute} statements per idle replica-minute");
    });
}

/// Sessions that listen, by their own name.
const LISTENING: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                         AND application_name LIKE '%/direct' AND query LIKE 'LISTEN%'";

/// Does `write` once `waiting` waits and its session listens; what `write` gives, once `waiting` has been woken.
async fn woken<T>(
    database: &parts::Database,
    waiting: &PostgresProvider,
    at: &Revision,
    write: impl Future<Output = T>,
) -> T {
    let mut changed = pin!(waiting.changed(at));
    while database.execute(LISTENING).is_empty() {
        let look = tokio::time::timeout(Duration::from_millis(10), &mut changed).await;
        assert!(look.is_err(), "woken before anything was written");
    }
    let (written, ()) = in_time("a wake", futures_util::future::join(write, changed)).await;
    written
}
