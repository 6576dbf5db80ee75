//! A ring in Postgres, followed: a failover to a standby that has lost the last revision changes nothing that is served,
//! and nothing is asked for a token.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "another test uses the rest of it")]
mod rings;

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::UnixTime;
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::migrate::{COORDINATION, MigrateOptions, migrate};
use oneseal_keystore::{Algorithm, Keystore, KeystoreOptions};
use oneseal_providers::PostgresProvider;
use oneseal_providers::postgres::migrations::COMPONENT;
use oneseal_testing::parts::{self, Postgres, PostgresOptions, Proxy};
use oneseal_testing::{FixedClock, block_on};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const FLEET: &str = "oidc.example";

#[test]
fn a_promoted_standby_without_the_last_revision_changes_nothing_that_is_served() {
    let Some(primary) = Postgres::start(PostgresOptions::default()) else { return };
    let database = primary.create_database();
    block_on(async {
        let direct = connect(&database.socket_url());
        migrate(&direct, &[COORDINATION, COMPONENT], &MigrateOptions::default(), |_| ()).await.unwrap();
        put(&database, rings::GOLDEN, 1);
        let standby = primary.standby();
        standby.cut_off();
        put(&database, &next_revision(), 2);

        let proxy = Proxy::start(primary.address());
        let provider = PostgresProvider::new(connect(&database.url_at(proxy.address())), FLEET);
        let provider = Arc::new(provider.poll_every(Duration::from_millis(100)));
        let mut options = KeystoreOptions::new(rings::issuer());
        options.algorithms = Algorithm::ALL.to_vec();
        let clock = Arc::new(FixedClock::at(UnixTime(1_800_000_000)));
        let (keystore, follower) = Keystore::open(provider, options, clock).await.unwrap();
        let served = keystore.snapshot().jwks().clone();
        assert_eq!(keystore.snapshot().identity().revision, 2);

        standby.promote();
        proxy.set_backend(standby.address());
        drop(primary);
        let cancel = CancellationToken::new();
        let following = follower.run(cancel.clone(), |_| panic!("an older revision is served"));
        let refused = async {
            while keystore.refusal().is_none_or(|finding| finding.code.name != "ring.rolled_back") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            cancel.cancel();
        };
        let both = async { tokio::join!(following, refused) };
        tokio::time::timeout(Duration::from_secs(60), both).await.expect("it is refused as rolled back");
        assert_eq!(keystore.snapshot().identity().revision, 2);
        assert_eq!(keystore.snapshot().jwks(), &served);
    });
}

#[test]
fn signing_a_token_asks_the_database_nothing() {
    let settings = vec![("shared_preload_libraries".to_owned(), "'pg_stat_statements'".to_owned())];
    let Some(server) = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() }) else {
        return;
    };
    let database = server.create_database();
    database.execute("CREATE EXTENSION pg_stat_statements");
    block_on(async {
        let pool = connect(&database.url());
        migrate(&pool, &[COORDINATION, COMPONENT], &MigrateOptions::default(), |_| ()).await.unwrap();
        put(&database, rings::GOLDEN, 1);
        let mut options = KeystoreOptions::new(rings::issuer());
        options.algorithms = Algorithm::ALL.to_vec();
        let clock = Arc::new(FixedClock::at(UnixTime(1_800_000_000)));
        let provider = Arc::new(PostgresProvider::new(pool, FLEET));
        let (keystore, _) = Keystore::open(provider, options, clock).await.unwrap();
        database.execute("SELECT pg_stat_statements_reset()");
        for _ in 0..100 {
            keystore.snapshot().sign(Algorithm::Es256, br#"{"sub":"pod"}"#).await.unwrap();
        }
        let asked = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%'";
        assert_eq!(database.execute(asked), "0");
    });
}

/// The golden ring one revision later, and nothing else.
fn next_revision() -> String {
    let mut ring: Value = serde_json::from_str(rings::GOLDEN).unwrap();
    ring["revision"] = json!(2);
    ring["prev_digest"] = json!(rings::read(rings::GOLDEN).unwrap().0.identity.digest.to_string());
    rings::signed_again(ring)
}

fn connect(url: &str) -> Database {
    Database::new(DatabaseOptions::new(DatabaseUrl::parse(url).unwrap())).unwrap()
}

/// By hand, as no provider would: in plain text.
fn put(database: &parts::Database, document: &str, revision: u64) {
    let hex: String = document.bytes().map(|byte| format!("{byte:02x}")).collect();
    database.execute(&format!(
        "INSERT INTO oneseal.rings (fleet, incarnation, revision, document, change_id, written_by) \
         VALUES ('{FLEET}', 1, {revision}, decode('{hex}', 'hex'), gen_random_uuid(), 'a hand') \
         ON CONFLICT (fleet) DO UPDATE SET revision = excluded.revision, document = excluded.document"
    ));
}
