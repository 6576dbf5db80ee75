//! PgBouncer in between, in each of its modes.

use oneseal_coordination::FenceToken;
use oneseal_coordination::database::{Database, DatabaseErrorKind, DatabaseUrl, ListenError};
use oneseal_testing::parts::{PgBouncer, Pooling, Postgres};
use tokio::task::JoinSet;

use super::{insert, keep, open, with_table};

/// With fewer server connections than clients, each transaction may be on another one: a statement prepared once, or a
/// setting of the session, would be missed there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_transactions_share_few_server_connections() {
    let Some(server) = Postgres::shared() else { return };
    for pooling in [Pooling::Transaction, Pooling::Session] {
        let pool = if pooling == Pooling::Transaction { 3 } else { 8 };
        let Some(pooler) = PgBouncer::start(server, pooling, pool) else { return };
        let (raw, _) = with_table(server);
        let mut clients = JoinSet::new();
        for client in 0..4 {
            let database = open(&raw.url_at(pooler.address()));
            clients.spawn(async move {
                for turn in 0..20 {
                    keep(&database, &format!("{client}-{turn}")).await.unwrap();
                    let mut read = database.read().await.unwrap();
                    let query = "SELECT word FROM public.kept WHERE word = $1";
                    let word = format!("{client}-{turn}");
                    assert!(read.fetch_optional(sqlx::query(query).bind(word)).await.unwrap().is_some());
                    read.end().await;
                }
            });
        }
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
        assert_eq!(raw.execute("SELECT count(*) FROM kept"), "80", "{pooling:?}");
        let settings = "SELECT count(*) FROM pg_prepared_statements";
        assert_eq!(raw.execute(settings), "0");
    }
}

#[tokio::test]
async fn the_fence_holds_behind_a_pooler() {
    let Some(server) = Postgres::shared() else { return };
    let Some(pooler) = PgBouncer::start(server, Pooling::Transaction, 2) else { return };
    let (raw, _) = with_table(server);
    raw.execute(
        "CREATE SCHEMA IF NOT EXISTS oneseal;
         CREATE TABLE oneseal.worker_epochs (fleet text, worker text, epoch bigint, holder text);
         INSERT INTO oneseal.worker_epochs VALUES ('prod', 'rotator', 3, 'a_1')",
    );
    let database = open(&raw.url_at(pooler.address()));
    let mut tx = database.write().await.unwrap();
    tx.fence(&FenceToken::new("prod", "rotator", 3, "a_1")).await.unwrap();
    insert(&mut tx, "led").await.unwrap();
    tx.commit().await.unwrap();
    raw.execute("UPDATE oneseal.worker_epochs SET epoch = 4");
    let mut tx = database.write().await.unwrap();
    let error = tx.fence(&FenceToken::new("prod", "rotator", 3, "a_1")).await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Fenced);
}

#[tokio::test]
async fn a_pooler_in_statement_mode_is_refused_with_the_cure() {
    let Some(server) = Postgres::shared() else { return };
    let Some(pooler) = PgBouncer::start(server, Pooling::Statement, 2) else { return };
    let (raw, _) = with_table(server);
    let database = open(&raw.url_at(pooler.address()));
    for _ in 0..2 {
        let error = database.write().await.unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains("pool_mode to transaction or session"), "{error}");
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_pooler_that_restarts_fails_no_call_after_it_is_back() {
    let Some(server) = Postgres::shared() else { return };
    let Some(mut pooler) = PgBouncer::start(server, Pooling::Transaction, 2) else { return };
    let (raw, _) = with_table(server);
    let database = open(&raw.url_at(pooler.address()));
    keep(&database, "before").await.unwrap();
    pooler.stop();
    assert_eq!(database.write().await.unwrap_err().kind(), DatabaseErrorKind::Unavailable);
    pooler.start_again();
    keep(&database, "after").await.unwrap();
}

#[tokio::test]
async fn a_session_that_a_pooler_lends_out_is_found_and_one_of_ones_own_is_not() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = with_table(server);
    assert!(!database.is_direct_shared().await.unwrap());
    for (pooling, is_shared) in
        [(Pooling::Session, false), (Pooling::Transaction, true), (Pooling::Statement, true)]
    {
        let Some(pooler) = PgBouncer::start(server, pooling, 5) else { return };
        let pooled = open(&raw.url_at(pooler.address()));
        assert_eq!(pooled.is_direct_shared().await.unwrap(), is_shared, "{pooling:?}");
        // With the way around it, it does not matter.
        let mut options = super::options(&raw.url_at(pooler.address()));
        options.direct_url = Some(DatabaseUrl::parse(&raw.url()).unwrap());
        assert!(!Database::new(options).unwrap().is_direct_shared().await.unwrap());
    }
}

#[tokio::test]
async fn a_session_that_a_pooler_lends_out_is_never_left_listening() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = with_table(server);
    let mut own = database.listen("a \"channel\"").await.unwrap();
    for (pooling, size) in [(Pooling::Transaction, 1), (Pooling::Transaction, 5), (Pooling::Session, 5)] {
        let Some(pooler) = PgBouncer::start(server, pooling, size) else { return };
        let pooled = open(&raw.url_at(pooler.address()));
        let heard = pooled.listen("a \"channel\"").await;
        if pooling == Pooling::Session {
            drop(heard.unwrap());
            continue;
        }
        let error = heard.unwrap_err();
        assert!(matches!(error, ListenError::Pooled { .. }), "{error}");
        // Every server connection of the pool at once.
        let mut all = Vec::new();
        for _ in 0..size.min(4) {
            all.push(pooled.read().await.unwrap());
        }
        for tx in &mut all {
            let listens = tx.fetch_all(sqlx::query("SELECT pg_listening_channels()")).await.unwrap();
            assert!(listens.is_empty(), "{pooling:?} {size}");
        }
    }
    // The trials are known for what they are.
    raw.execute("SELECT pg_notify('a \"channel\"', 'word')");
    while own.notification().await.is_some_and(|told| told.is_call()) {}
}

#[tokio::test]
async fn who_the_pooler_does_not_know_is_denied() {
    let Some(server) = Postgres::shared() else { return };
    let Some(pooler) = PgBouncer::start(server, Pooling::Transaction, 2) else { return };
    for user in ["postgres:hunter2-hunter2", "stranger:hunter2-hunter2"] {
        let database = open(&format!("postgres://{user}@{}/postgres", pooler.address()));
        let error = database.read().await.unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Denied, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}
