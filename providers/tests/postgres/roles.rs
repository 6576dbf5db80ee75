//! The grants of `docs/postgres.md` are enough to run, and no more than that.

use std::sync::Arc;

use oneseal_coordination::migrate::{COORDINATION, MigrateOptions, check, migrate};
use oneseal_coordination::once::ONCE;
use oneseal_coordination::registry::{Beat, InstanceId, Registry};
use oneseal_coordination::{FenceToken, SystemClock};
use oneseal_providers::postgres::RING;
use oneseal_providers::postgres::migrations::COMPONENT;
use oneseal_providers::{Change, ErrorKind, PostgresProvider, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{Postgres, PostgresOptions};
use serde_json::json;
use uuid::Uuid;

use crate::place::{FLEET, NO_POLL, change, connect, in_time, ring};

const PAGE: &str = include_str!("../../../docs/postgres.md");

/// The page's pieces of SQL, in order.
fn sql() -> Vec<&'static str> {
    let pieces = PAGE.split("```sql\n").skip(1);
    pieces.map(|piece| piece.split("```").next().unwrap()).collect()
}

#[test]
fn a_role_with_the_documented_grants_can_serve_and_can_not_rewrite_what_was() {
    let Some(server) = Postgres::start(PostgresOptions::default()) else { return };
    let [roles, grants, publisher] = sql()[..] else { panic!("three pieces of SQL") };
    server.execute(roles);
    server.execute(
        "CREATE ROLE oneseal_publisher LOGIN PASSWORD 'change-me-publisher'; \
         GRANT CONNECT ON DATABASE oneseal TO oneseal_publisher",
    );
    let url = |role: &str| format!("postgres://oneseal_{role}:change-me-{role}@{}/oneseal", server.address());
    let database = server.database("oneseal");
    block_on(async {
        let components = [COORDINATION, ONCE, COMPONENT];
        migrate(&connect(&url("owner")), &components, &MigrateOptions::default(), |_| ()).await.unwrap();
        let early = PostgresProvider::new(connect(&url("service")), FLEET).load().await.unwrap_err();
        assert_eq!(early.kind(), ErrorKind::Denied, "{early}");
        database.execute(&format!("SET ROLE oneseal_owner; {grants} {publisher}"));

        let service = connect(&url("service"));
        assert!(check(&service, &components).await.unwrap().is_empty());
        let provider = PostgresProvider::new(service.clone(), FLEET).poll_every(NO_POLL);
        let first = provider.create(ring(1, "eyJ"), change()).await.unwrap();
        database.execute(&format!(
            "INSERT INTO oneseal.worker_epochs (fleet, worker, epoch, holder) VALUES ('{FLEET}', 'rotator', 1, 'a')"
        ));
        let fence = Some(FenceToken::new(FLEET, "rotator", 1, "a"));
        let write = provider.replace(&first, ring(2, "eyJ"), Change { fence, ..change() });
        let (second, ()) = in_time("a wake", async { tokio::join!(write, provider.changed(&first)) }).await;
        let second = second.unwrap();
        assert_eq!(provider.load().await.unwrap().revision, second);
        let publisher = PostgresProvider::new(connect(&url("publisher")), FLEET);
        assert_eq!(publisher.load().await.unwrap().revision, second);
        let refused = publisher.replace(&second, ring(3, "eyJ"), change()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");

        let instance = InstanceId::new("replica-1").unwrap();
        let clock = Arc::new(SystemClock);
        let (boot, ops) = (Uuid::new_v4(), "http://127.0.0.1:1");
        let registry = Registry::new(service, clock, FLEET, instance, boot, ops, Some(RING));
        registry.join(&json!({})).await.unwrap();
        let answer = registry.beat(&json!({}), Beat::Live).await.unwrap();
        assert_eq!(answer.rows.len(), 1);
        registry.leave().await.unwrap();
    });
    for forbidden in [
        "DELETE FROM oneseal.rings",
        "DELETE FROM oneseal.events",
        "UPDATE oneseal.events SET payload = '{}'",
        "UPDATE oneseal.ring_history SET public_document = '{}'",
        "DELETE FROM oneseal.ring_history",
        "UPDATE oneseal.schema_version SET min_binary = '9.0.0'",
        "CREATE TABLE oneseal.mine (one int)",
        "DROP TABLE oneseal.rings",
    ] {
        let refused = database.try_execute(&format!("SET ROLE oneseal_service; {forbidden}")).unwrap_err();
        let is_refused = refused.contains("permission denied") || refused.contains("must be owner");
        assert!(is_refused, "{forbidden}: {refused}");
    }
}
