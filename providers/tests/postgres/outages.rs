//! A database that stops, changes its role or falls silent: said as what it is, in bounded time, and found again.

use std::time::Duration;

use oneseal_coordination::database::Database;
use oneseal_providers::{ErrorKind, PostgresProvider, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{Postgres, PostgresOptions, Proxy, Stop};

use crate::place::{FLEET, NO_POLL, QUICK_POLL, change, connect, in_time, migrated, options, provider, ring};

fn own_server() -> Option<Postgres> {
    Postgres::start(PostgresOptions::default())
}

#[test]
fn a_database_that_was_down_is_found_again_and_wakes_who_waits() {
    let Some(mut server) = own_server() else { return };
    let database = migrated(&server);
    let provider = provider(&database.url()).poll_every(NO_POLL);
    block_on(async {
        let at = provider.create(ring(1, "eyJ"), change()).await.unwrap();
        for how in [Stop::Fast, Stop::Immediate] {
            let expected = provider.load().await.unwrap().revision;
            server.stop(how);
            assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::Unavailable);
            let write = provider.replace(&at, ring(2, "eyJ"), change()).await.unwrap_err();
            assert_eq!(write.kind(), ErrorKind::Unavailable, "{write}");
            server.start_again();
            assert_eq!(provider.load().await.unwrap().revision, expected);
            // What was changed while nobody could be told is seen by the session that comes back.
            let changed = async {
                database.execute("UPDATE oneseal.rings SET document = document || ' '");
            };
            in_time("a wake", futures_util::future::join(changed, provider.changed(&expected))).await;
        }
    });
}

#[test]
fn a_server_set_to_read_only_is_unavailable_to_writers_until_it_is_set_back() {
    let Some(server) = own_server() else { return };
    let database = migrated(&server);
    let provider = provider(&database.url());
    block_on(async {
        let at = provider.create(ring(1, "eyJ"), change()).await.unwrap();
        server.execute("ALTER SYSTEM SET default_transaction_read_only = on");
        server.reload();
        // A session that is open hears of it in its own time.
        let refused = loop {
            match provider.replace(&at, ring(2, "eyJ"), change()).await {
                Err(error) => break error,
                Ok(revision) => assert_ne!(revision, at),
            }
        };
        assert!(matches!(refused.kind(), ErrorKind::Unavailable | ErrorKind::Conflict), "{refused}");
        in_time("the refusal", async {
            loop {
                match provider.replace(&at, ring(2, "eyJ"), change()).await {
                    Err(error) if error.kind() == ErrorKind::Unavailable => break,
                    _ => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        // What it says may be old, for it was set aside: it is no fresh look, and minting ends at its limit.
        let refused = provider.load().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.to_string().contains("default_transaction_read_only"), "{refused}");
        server.execute(
            "SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only",
        );
        server.reload();
        in_time("healing", async {
            loop {
                let Ok(record) = provider.load().await else { continue };
                if provider.replace(&record.revision, ring(3, "eyJ"), change()).await.is_ok() {
                    break;
                }
            }
        })
        .await;
    });
}

#[test]
fn a_binary_that_the_tables_have_outgrown_believes_nothing_and_writes_nothing() {
    let Some(server) = Postgres::shared() else { return };
    for component in ["providers", "coordination"] {
        let database = migrated(server);
        let provider = provider(&database.url());
        block_on(async {
            let at = provider.create(ring(1, "eyJ"), change()).await.unwrap();
            // Tables that this binary does not use may go on without it.
            let row = |component: &str| {
                format!(
                    "INSERT INTO oneseal.schema_version VALUES ('{component}', 99, 'contract', '99.0.0', now(), 'a test')"
                )
            };
            database.execute(&row("workers"));
            let at = provider.replace(&at, ring(2, "eyJ"), change()).await.unwrap();
            database.execute(&row(component));
            let misread = provider.load().await.unwrap_err();
            assert!(misread.to_string().contains("99.0.0"), "{misread}");
            let write = provider.replace(&at, ring(3, "eyJ"), change()).await.unwrap_err();
            assert!(write.to_string().contains("99.0.0"), "{write}");
            assert_eq!(database.execute("SELECT revision FROM oneseal.rings").trim(), "2");
            assert_eq!(database.execute("SELECT count(*) FROM oneseal.ring_history").trim(), "2");
        });
    }
}

#[test]
fn a_standby_is_not_believed_and_one_that_was_promoted_tells_what_it_has() {
    let Some(primary) = own_server() else { return };
    let database = migrated(&primary);
    let proxy = Proxy::start(primary.address());
    let provider = provider(&database.url_at(proxy.address())).poll_every(QUICK_POLL);
    block_on(async {
        let first = provider.create(ring(1, "eyJ"), change()).await.unwrap();
        let standby = primary.standby();
        standby.cut_off();
        let second = provider.replace(&first, ring(2, "eyJ"), change()).await.unwrap();

        let behind = PostgresProvider::new(connect(&database.url_at(standby.address())), FLEET);
        let refused = behind.load().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.to_string().contains("standby"), "{refused}");

        standby.promote();
        proxy.set_backend(standby.address());
        drop(primary);
        in_time("a wake", provider.changed(&second)).await;
        let older = provider.load().await.unwrap();
        assert_eq!(older.revision, first, "the last revision went with the old primary");
        let lost = provider.replace(&second, ring(3, "eyJ"), change()).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::Conflict);
        provider.replace(&first, ring(3, "eyJ"), change()).await.unwrap();
    });
}

#[test]
fn a_connection_that_leads_nowhere_is_given_up_in_time_and_found_again() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let proxy = Proxy::start(server.address());
    let mut options = options(&database.url_at(proxy.address()));
    options.statement_timeout = Duration::from_millis(200);
    options.connect_timeout = Duration::from_millis(500);
    let provider = PostgresProvider::new(Database::new(options).unwrap(), FLEET);
    block_on(async {
        let at = provider.create(ring(1, "eyJ"), change()).await.unwrap();
        proxy.black_hole(true);
        let silent = in_time("a load", provider.load()).await.unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::Unavailable, "{silent}");
        let silent = in_time("a write", provider.replace(&at, ring(2, "eyJ"), change())).await.unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::Unavailable, "{silent}");
        proxy.black_hole(false);
        proxy.cut();
        assert_eq!(provider.load().await.unwrap().revision, at);
        provider.replace(&at, ring(2, "eyJ"), change()).await.unwrap();
    });
}

#[test]
fn who_may_not_is_denied() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let role = format!("stranger_{}", database.name());
    database.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'secret-of-stranger'"));
    let at =
        |password: &str| format!("postgres://{role}:{password}@{}/{}", server.address(), database.name());
    block_on(async {
        for (password, why) in
            [("wrong-horse", "does not accept this user"), ("secret-of-stranger", "let this user")]
        {
            let denied = provider(&at(password)).load().await.unwrap_err();
            assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
            assert!(denied.to_string().contains(why), "{denied}");
            assert!(!format!("{denied} {denied:?}").contains(password), "{denied:?}");
        }
    });
}
