//! What a commit says, and what is then there.

use oneseal_coordination::database::{CommitError, DatabaseErrorKind};
use oneseal_testing::parts::{Fate, Postgres, Proxy};

use super::{insert, keep, open, with_table};

#[tokio::test]
async fn a_committed_write_is_read_and_one_that_is_dropped_is_not() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = with_table(server);
    keep(&database, "kept").await.unwrap();
    let mut tx = database.write().await.unwrap();
    insert(&mut tx, "dropped").await.unwrap();
    drop(tx);
    let mut tx = database.write().await.unwrap();
    insert(&mut tx, "undone").await.unwrap();
    tx.roll_back().await;
    let mut read = database.read().await.unwrap();
    let rows = read.fetch_all(sqlx::query("SELECT word FROM public.kept")).await.unwrap();
    read.end().await;
    assert_eq!(rows.len(), 1);
    assert_eq!(raw.execute("SELECT word FROM kept"), "kept");
}

#[tokio::test]
async fn a_read_cannot_write() {
    let Some(server) = Postgres::shared() else { return };
    let (_, database) = with_table(server);
    let mut read = database.read().await.unwrap();
    let insert = sqlx::query("INSERT INTO public.kept VALUES ('x')");
    let error = read.fetch_all(insert).await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Standby, "{error}");
}

/// PostgreSQL answers COMMIT of a transaction that has failed with a friendly ROLLBACK.
#[tokio::test]
async fn a_transaction_with_a_failed_statement_does_not_say_that_it_committed() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = with_table(server);
    keep(&database, "twice").await.unwrap();
    let mut tx = database.write().await.unwrap();
    insert(&mut tx, "more").await.unwrap();
    let error = insert(&mut tx, "twice").await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Conflict, "{error}");
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::NotCommitted(_)), "{error}");
    assert_eq!(raw.execute("SELECT word FROM kept"), "twice");
}

#[tokio::test]
async fn a_commit_that_the_server_refuses_has_changed_nothing() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = with_table(server);
    raw.execute("ALTER TABLE kept ADD UNIQUE (word) DEFERRABLE INITIALLY DEFERRED");
    raw.execute("ALTER TABLE kept DROP CONSTRAINT kept_pkey");
    let mut tx = database.write().await.unwrap();
    insert(&mut tx, "twice").await.unwrap();
    insert(&mut tx, "twice").await.unwrap();
    let error = tx.commit().await.unwrap_err();
    let CommitError::NotCommitted(cause) = error else { panic!("{error}") };
    assert_eq!(cause.kind(), DatabaseErrorKind::Conflict, "{cause}");
    assert_eq!(raw.execute("SELECT count(*) FROM kept"), "0");
}

#[tokio::test]
async fn a_commit_without_an_answer_is_unknown_whether_it_happened_or_not() {
    let Some(server) = Postgres::shared() else { return };
    for (fate, there) in [(Fate::CutAfter, "1"), (Fate::CutBefore, "0"), (Fate::HangAfter, "1")] {
        let (raw, _) = with_table(server);
        let proxy = Proxy::start(server.address());
        let database = open(&raw.url_at(proxy.address()));
        let mut tx = database.write().await.unwrap();
        insert(&mut tx, "perhaps").await.unwrap();
        proxy.when_client_sends(b"COMMIT", fate);
        let error = tx.commit().await.unwrap_err();
        let CommitError::OutcomeUnknown(cause) = error else { panic!("{fate:?}: {error}") };
        assert_eq!(cause.kind(), DatabaseErrorKind::Unavailable, "{cause}");
        assert!(proxy.has_sprung());
        // Waits for the lock of the transaction, if that still ends.
        raw.execute("BEGIN; LOCK TABLE kept; COMMIT");
        assert_eq!(raw.execute("SELECT count(*) FROM kept"), there, "{fate:?}");
        keep(&database, "afterwards").await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_ends_the_session_leaves_the_outcome_open() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = with_table(server);
    let mut tx = database.write().await.unwrap();
    insert(&mut tx, "perhaps").await.unwrap();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    raw.execute(others);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::OutcomeUnknown(_)), "{error}");
    keep(&database, "afterwards").await.unwrap();
}
