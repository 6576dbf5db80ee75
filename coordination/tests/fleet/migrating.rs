//! Old binaries and new schemas, new binaries and old schemas, and two that migrate at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use oneseal_coordination::database::DatabaseErrorKind;
use oneseal_coordination::migrate::{
    COORDINATION, Component, Kind, MigrateError, MigrateOptions, Migration, Progress, SchemaFault, check,
    migrate, status,
};
use oneseal_testing::parts::{PgBouncer, Pooling, Postgres};

use super::{apply, migrated, open};

const FIRST: Migration = Migration {
    version: 1,
    kind: Kind::Expand,
    min_binary: "0.1.0",
    sql: "CREATE TABLE oneseal.things (name text); INSERT INTO oneseal.things VALUES ('kept')",
};
const SECOND: Migration = Migration {
    version: 2,
    kind: Kind::Expand,
    min_binary: "0.1.0",
    sql: "ALTER TABLE oneseal.things ADD COLUMN colour text",
};
const THIRD: Migration = Migration {
    version: 3,
    kind: Kind::Contract,
    min_binary: "0.2.0",
    sql: "ALTER TABLE oneseal.things DROP COLUMN name",
};

/// The component `things` as three releases have it.
const OLD: Component = Component { name: "things", migrations: &[FIRST] };
const NEW: Component = Component { name: "things", migrations: &[FIRST, SECOND] };
const NEWEST: Component = Component { name: "things", migrations: &[FIRST, SECOND, THIRD] };

fn newer_binary() -> MigrateOptions {
    MigrateOptions { binary: "0.2.0".parse().unwrap(), contract: true, ..MigrateOptions::default() }
}

#[tokio::test]
async fn an_empty_database_gets_every_table_and_a_second_run_does_nothing() {
    let Some(server) = Postgres::shared() else { return };
    let raw = server.create_database();
    let database = open(&raw.url());
    let found = status(&database, &[COORDINATION, OLD]).await.unwrap();
    assert!(!found.has_schema && found.server >= 140_000);
    assert_eq!(found.components.iter().map(|one| one.applied).collect::<Vec<_>>(), [0, 0]);
    let faults = check(&database, &[OLD]).await.unwrap();
    assert_eq!(faults, [SchemaFault::MigrationPending { component: "things", applied: 0, needed: 1 }]);
    for turn in 0..2 {
        let mut told = Vec::new();
        migrate(&database, &[COORDINATION, OLD], &MigrateOptions::default(), |progress| told.push(progress))
            .await
            .unwrap();
        assert_eq!(told.is_empty(), turn == 1, "{told:?}");
    }
    assert_eq!(check(&database, &[COORDINATION, OLD]).await.unwrap(), []);
    assert_eq!(raw.execute("SELECT name FROM oneseal.things"), "kept");
    let row = "SELECT component, version, kind, min_binary, applied_by FROM oneseal.schema_version WHERE component = 'things'";
    assert_eq!(raw.execute(row), "things|1|expand|0.1.0|oneseal 0.1.0");
}

#[tokio::test]
async fn an_old_binary_goes_on_under_a_new_schema_until_what_it_needs_is_gone() {
    let Some(server) = Postgres::shared() else { return };
    let (_, database) = migrated(server).await;
    apply(&database, &[NEW]).await;
    // The old release knows one version of two, and may run: and it leaves the second alone.
    assert_eq!(check(&database, &[OLD]).await.unwrap(), []);
    apply(&database, &[OLD]).await;
    assert_eq!(status(&database, &[OLD]).await.unwrap().components[0].applied, 2);

    migrate(&database, &[NEWEST], &newer_binary(), |_| ()).await.unwrap();
    let faults = check(&database, &[OLD]).await.unwrap();
    let [SchemaFault::BelowMinBinary { needed, own, .. }] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!((&**needed, &**own), ("0.2.0", "0.1.0"));
    let error = migrate(&database, &[OLD], &MigrateOptions::default(), |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("needs oneseal 0.2.0 or newer; this is 0.1.0"), "{error}");
    assert_eq!(status(&database, &[NEWEST]).await.unwrap().faults("0.2.0".parse().unwrap()), []);
}

#[tokio::test]
async fn a_new_binary_says_what_an_old_schema_lacks() {
    let Some(server) = Postgres::shared() else { return };
    let (_, database) = migrated(server).await;
    apply(&database, &[OLD]).await;
    let faults = check(&database, &[NEW]).await.unwrap();
    assert_eq!(faults, [SchemaFault::MigrationPending { component: "things", applied: 1, needed: 2 }]);
    // What takes away may stay undone.
    apply(&database, &[NEW]).await;
    assert_eq!(check(&database, &[NEWEST]).await.unwrap(), []);
}

#[tokio::test]
async fn what_takes_away_waits_to_be_asked_for_and_for_the_fleet_to_stop() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = migrated(server).await;
    let mut told = Vec::new();
    let by_default = MigrateOptions { contract: false, ..newer_binary() };
    migrate(&database, &[NEWEST], &by_default, |progress| told.push(progress)).await.unwrap();
    assert_eq!(told.last(), Some(&Progress::Left { component: "things", version: 3 }));

    raw.execute(
        "INSERT INTO oneseal.replicas VALUES ('prod', 'pod-0', gen_random_uuid(), 'live', '', '{}', now(), now(), clock_timestamp()),
             ('prod', 'pod-1', gen_random_uuid(), 'live', '', '{}', now(), now(), clock_timestamp() - interval '1 hour'),
             ('prod', 'pod-2', gen_random_uuid(), 'gone', '', '{}', now(), now(), clock_timestamp())",
    );
    let error = migrate(&database, &[NEWEST], &newer_binary(), |_| ()).await.unwrap_err();
    let MigrateError::FleetIsRunning { beating, .. } = &error else { panic!("{error}") };
    assert_eq!(beating, &["pod-0 of prod"]);
    assert_eq!(status(&database, &[NEWEST]).await.unwrap().components[0].applied, 2);
    raw.execute("UPDATE oneseal.replicas SET state = 'gone'");
    migrate(&database, &[NEWEST], &newer_binary(), |_| ()).await.unwrap();
    assert_eq!(status(&database, &[NEWEST]).await.unwrap().components[0].applied, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_migrate_at_once_each_migration_is_applied_by_one() {
    let Some(server) = Postgres::shared() else { return };
    let Some(pooler) = PgBouncer::start(server, Pooling::Transaction, 3) else { return };
    // A session that began before another's commit and has the lock after it comes about by chance alone.
    for _ in 0..8 {
        let raw = server.create_database();
        let mut work = tokio::task::JoinSet::new();
        for turn in 0..8 {
            let url = if turn % 2 == 0 { raw.url() } else { raw.url_at(pooler.address()) };
            work.spawn(async move {
                let database = open(&url);
                migrate(&database, &[COORDINATION, NEW], &MigrateOptions::default(), |_| ()).await.unwrap();
            });
        }
        while let Some(done) = work.join_next().await {
            done.unwrap();
        }
        assert_eq!(raw.execute("SELECT count(*) FROM oneseal.things"), "1");
        assert_eq!(
            raw.execute("SELECT count(*) FROM oneseal.schema_version WHERE component = 'things'"),
            "2"
        );
        let held = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                    WHERE l.locktype = 'advisory' AND d.datname = current_database()";
        assert_eq!(raw.execute(held), "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_in_the_way_is_named_and_nothing_is_queued_behind() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = migrated(server).await;
    let key = i64::from_be_bytes(*b"onesealm");
    let session = open(&raw.url()).direct().await.unwrap();
    session.client().batch_execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({key})")).await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let options = MigrateOptions { wait: Duration::from_millis(600), ..MigrateOptions::default() };
    let tell = Arc::clone(&told);
    let error = migrate(&database, &[OLD], &options, move |progress| tell.lock().unwrap().push(progress))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("oneseal/direct, process "), "{error}");
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    assert_eq!(raw.execute(waits), "0");
    assert!(matches!(told.lock().unwrap().last(), Some(Progress::Waiting { .. })));

    // A table that somebody has locked: the migration does not wait in the queue for it.
    session.client().batch_execute("ROLLBACK").await.unwrap();
    apply(&database, &[OLD]).await;
    session.client().batch_execute("BEGIN; LOCK TABLE oneseal.things IN ACCESS SHARE MODE").await.unwrap();
    let error = migrate(&database, &[NEW], &options, |_| ()).await.unwrap_err();
    assert!(matches!(error, MigrateError::Busy { .. }), "{error}");
    session.client().batch_execute("ROLLBACK").await.unwrap();
    apply(&database, &[NEW]).await;
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_behind() {
    const BROKEN: Component = Component {
        name: "broken",
        migrations: &[Migration {
            version: 1,
            kind: Kind::Expand,
            min_binary: "0.1.0",
            sql: "CREATE TABLE oneseal.half (); SELECT 1 / 0",
        }],
    };
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = migrated(server).await;
    let error = migrate(&database, &[BROKEN], &MigrateOptions::default(), |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("division by zero"), "{error}");
    assert_eq!(raw.execute("SELECT to_regclass('oneseal.half') IS NULL"), "t");
    assert_eq!(status(&database, &[BROKEN]).await.unwrap().components[0].applied, 0);
}

#[tokio::test]
async fn a_user_without_rights_is_denied_and_one_who_only_uses_is_not() {
    let Some(server) = Postgres::shared() else { return };
    let raw = server.create_database();
    raw.execute("CREATE ROLE user_of_migrating LOGIN PASSWORD 'right-horse'");
    let user = open(&raw.url().replace("postgres:correct-horse-battery", "user_of_migrating:right-horse"));
    let error = migrate(&user, &[COORDINATION], &MigrateOptions::default(), |_| ()).await.unwrap_err();
    let MigrateError::Database(cause) = &error else { panic!("{error}") };
    assert_eq!(cause.kind(), DatabaseErrorKind::Denied, "{error}");
    apply(&open(&raw.url()), &[COORDINATION]).await;
    raw.execute(
        "GRANT USAGE ON SCHEMA oneseal TO user_of_migrating;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA oneseal TO user_of_migrating",
    );
    assert_eq!(check(&user, &[COORDINATION]).await.unwrap(), []);
}

#[tokio::test]
async fn a_row_that_nobody_understands_is_above_every_binary() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = migrated(server).await;
    raw.execute("UPDATE oneseal.schema_version SET min_binary = 'soon'");
    let faults = check(&database, &[COORDINATION]).await.unwrap();
    assert!(
        matches!(&faults[..], [SchemaFault::BelowMinBinary { needed, .. }] if needed == "soon"),
        "{faults:?}"
    );
}
