//! The database goes, hangs, changes places and comes back; nothing here is restarted.

use std::time::Duration;

use oneseal_coordination::database::{Database, DatabaseErrorKind};
use oneseal_testing::parts::{Fate, Postgres, PostgresOptions, Proxy, Stop};

use super::{insert, keep, keep_soon, open, options, with_table};

#[tokio::test]
async fn writes_resume_by_themselves_after_a_restart() {
    let Some(mut server) = Postgres::start(PostgresOptions::default()) else { return };
    let (raw, database) = with_table(&server);
    keep(&database, "before").await.unwrap();
    for how in [Stop::Fast, Stop::Immediate] {
        server.stop(how);
        let error = database.write().await.unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Unavailable, "{error}");
        assert!(error.is_transient());
        server.start_again();
        keep(&database, &format!("{how:?}")).await.unwrap();
    }
    assert_eq!(raw.execute("SELECT count(*) FROM kept"), "3");
}

/// Several connections lie idle when the server goes: none of them fails a later call.
#[tokio::test]
async fn idle_connections_to_a_server_that_restarted_fail_no_call() {
    let Some(mut server) = Postgres::start(PostgresOptions::default()) else { return };
    let (_, database) = with_table(&server);
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(database.read().await.unwrap());
    }
    for tx in open {
        tx.end().await;
    }
    server.restart(Stop::Immediate);
    keep(&database, "at once").await.unwrap();
}

#[tokio::test]
async fn a_standby_is_refused_and_a_failover_followed() {
    let Some(mut primary) = Postgres::start(PostgresOptions::default()) else { return };
    let (raw, _) = with_table(&primary);
    let standby = primary.standby();
    let proxy = Proxy::start(primary.address());
    let database = open(&raw.url_at(proxy.address()));
    keep(&database, "before").await.unwrap();
    standby.catch_up(&primary);

    // The name leads to the standby before that is promoted.
    proxy.set_backend(standby.address());
    proxy.cut();
    for error in [
        database.write().await.unwrap_err(),
        database.read().await.unwrap_err(),
        database.direct().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), DatabaseErrorKind::Standby, "{error}");
        assert!(error.is_transient() && error.to_string().contains("is a standby"), "{error}");
    }
    primary.stop(Stop::Immediate);
    standby.promote();
    keep(&database, "after").await.unwrap();
    assert_eq!(standby.database(raw.name()).execute("SELECT count(*) FROM kept"), "2");
}

/// Pools that keep a connection to a demoted server write nothing until somebody restarts the program.
#[tokio::test]
async fn a_primary_that_takes_no_writes_any_more_is_told_and_left() {
    let Some(server) = Postgres::start(PostgresOptions::default()) else { return };
    let (_, database) = with_table(&server);
    keep(&database, "before").await.unwrap();
    server.execute("ALTER SYSTEM SET default_transaction_read_only = on");
    server.reload();
    let error = until_refused(&database).await;
    assert_eq!(error.kind(), DatabaseErrorKind::Standby, "{error}");
    assert!(error.to_string().contains("default_transaction_read_only"), "{error}");
    // Reading goes on: it is the primary.
    database.read().await.unwrap().end().await;
    server
        .execute("SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only");
    server.reload();
    keep_soon(&database, "after").await;
}

async fn until_refused(database: &Database) -> oneseal_coordination::database::DatabaseError {
    let tries = async {
        loop {
            match database.write().await {
                Err(error) => return error,
                Ok(tx) => tx.roll_back().await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), tries).await.expect("the setting is seen")
}

/// The answer to "are you the primary" is lost: that is no yes.
#[tokio::test]
async fn a_role_that_is_not_told_is_not_taken_for_the_primary() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, _) = with_table(server);
    let proxy = Proxy::start(server.address());
    let database = open(&raw.url_at(proxy.address()));
    for fate in [Fate::CutAfter, Fate::HangAfter] {
        proxy.when_client_sends(b"in_hot_standby", fate);
        let error = database.write().await.unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Unavailable, "{error}");
    }
    keep(&database, "then").await.unwrap();
}

#[tokio::test]
async fn a_silent_network_ends_every_call_in_bounded_time_and_costs_no_slot() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, _) = with_table(server);
    let proxy = Proxy::start(server.address());
    let mut options = options(&raw.url_at(proxy.address()));
    options.max_connections = 2;
    options.statement_timeout = Duration::from_millis(200);
    options.connect_timeout = Duration::from_millis(500);
    let database = Database::new(options).unwrap();
    let mut tx = database.write().await.unwrap();
    let calls = async {
        proxy.black_hole(true);
        assert_eq!(insert(&mut tx, "lost").await.unwrap_err().kind(), DatabaseErrorKind::Unavailable);
        drop(tx);
        for _ in 0..3 {
            let error = database.write().await.unwrap_err();
            assert_eq!(error.kind(), DatabaseErrorKind::Unavailable, "{error}");
            let error = database.direct().await.unwrap_err();
            assert_eq!(error.kind(), DatabaseErrorKind::Unavailable, "{error}");
        }
    };
    tokio::time::timeout(Duration::from_secs(20), calls).await.expect("each call ends");
    proxy.black_hole(false);
    proxy.cut();
    keep(&database, "again").await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_stopped_in_its_tracks_is_unavailable_and_comes_back() {
    let Some(server) = Postgres::start(PostgresOptions::default()) else { return };
    let (_, database) = with_table(&server);
    keep(&database, "before").await.unwrap();
    server.pause();
    let error = keep(&database, "meanwhile").await.unwrap_err();
    assert!(error.starts_with("Unavailable"), "{error}");
    server.resume();
    keep_soon(&database, "after").await;
}

#[tokio::test]
async fn there_are_never_more_connections_than_allowed_and_waiting_is_bounded() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, _) = with_table(server);
    let mut options = options(&raw.url());
    options.max_connections = 2;
    options.acquire_timeout = Duration::from_millis(300);
    let database = Database::new(options).unwrap();
    let (one, two) = (database.read().await.unwrap(), database.read().await.unwrap());
    let error = database.read().await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Unavailable);
    assert!(error.to_string().contains("all 2 connections were in use for 0.3 s"), "{error}");
    one.end().await;
    database.read().await.unwrap().end().await;
    drop(two);
    let used = raw.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oneseal' AND datname = current_database()");
    assert!(used.parse::<u32>().unwrap() <= 2, "{used}");
}

#[tokio::test]
async fn hints_reach_the_direct_session_until_it_is_lost() {
    let Some(mut server) = Postgres::start(PostgresOptions::default()) else { return };
    let (raw, database) = with_table(&server);
    let mut session = database.direct().await.unwrap();
    session.listen("oneseal_events").await.unwrap();
    raw.execute("NOTIFY oneseal_events, '17'");
    let hint = session.notification().await.unwrap();
    assert_eq!((&*hint.channel, &*hint.payload), ("oneseal_events", "17"));
    let shown =
        raw.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oneseal/direct'");
    assert_eq!(shown, "1");
    server.stop(Stop::Fast);
    assert_eq!(session.notification().await, None);
    assert!(session.is_closed());
    session.listen("oneseal_events").await.unwrap_err();
    server.start_again();
    assert!(!database.direct().await.unwrap().is_closed());
}

#[tokio::test]
async fn a_session_that_is_idle_for_too_long_is_ended_by_the_server() {
    let Some(server) = Postgres::shared() else { return };
    let (_, database) = with_table(server);
    let mut session = database.direct().await.unwrap();
    session.set_idle_session_timeout(Duration::from_millis(200)).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), session.notification()).await;
    assert_eq!(ended.unwrap(), None);
}

/// A lock that hangs on a session must not end with the age of a pooled connection.
#[tokio::test]
async fn pooled_connections_grow_old_and_the_direct_session_does_not() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, _) = with_table(server);
    let mut options = options(&raw.url());
    (options.idle_limit, options.age_limit) = (Duration::from_millis(40), Duration::from_millis(80));
    let database = Database::new(options).unwrap();
    let session = database.direct().await.unwrap();
    session.client().batch_execute("SELECT pg_advisory_lock(7)").await.unwrap();
    let mut pooled = std::collections::BTreeSet::new();
    while pooled.len() < 5 {
        let mut tx = database.read().await.unwrap();
        let row = tx.fetch_optional(sqlx::query("SELECT pg_backend_pid()")).await.unwrap().unwrap();
        pooled.insert(sqlx::Row::get::<i32, _>(&row, 0));
        tx.end().await;
    }
    let holder = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
                  WHERE l.locktype = 'advisory' AND l.objid = 7 AND a.datname = current_database() \
                  AND a.application_name = 'oneseal/direct'";
    assert_eq!(raw.execute(holder), "1");
    assert!(!session.is_closed());
}

#[tokio::test]
async fn who_is_not_let_in_is_told_so_without_the_password() {
    let Some(server) = Postgres::shared() else { return };
    let raw = server.create_database();
    raw.execute("CREATE ROLE guest_of_outages LOGIN PASSWORD 'right-horse'");
    let url = |user: &str, password: &str, name: &str| {
        format!("postgres://{user}:{password}@{}/{name}", server.address())
    };
    for (text, kind) in [
        (url("postgres", "hunter2-hunter2", raw.name()), DatabaseErrorKind::Denied),
        (url("nobody-here", "hunter2-hunter2", raw.name()), DatabaseErrorKind::Denied),
        (url("guest_of_outages", "right-horse", "no_such"), DatabaseErrorKind::Configuration),
    ] {
        let database = open(&text);
        for error in [database.write().await.unwrap_err(), database.direct().await.unwrap_err()] {
            assert_eq!(error.kind(), kind, "{error}");
            let said = format!("{error} {error:?} {database:?}");
            assert!(!said.contains("hunter2") && !said.contains("right-horse"), "{said}");
        }
    }
    let guest = open(&url("guest_of_outages", "right-horse", raw.name()));
    let mut tx = guest.write().await.unwrap();
    let error = tx.execute(sqlx::query("CREATE SCHEMA oneseal")).await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Denied, "{error}");
}
