//! What these tests share: a database with the tables, handles on it, and documents to put there.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use oneseal_coordination::EventDraft;
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::migrate::{COORDINATION, MigrateOptions, migrate};
use oneseal_providers::postgres::migrations::COMPONENT;
use oneseal_providers::{Change, Entries, PostgresProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{self, PgBouncer, Pooling, Postgres};
use uuid::Uuid;

pub(crate) const FLEET: &str = "oidc.example.com";

/// A poll so slow that only a hint can wake a test in time.
pub(crate) const NO_POLL: Duration = Duration::from_secs(3600);

/// Often enough to wait for.
pub(crate) const QUICK_POLL: Duration = Duration::from_millis(200);

/// A new database with the tables of `oneseal db migrate`.
pub(crate) fn migrated(server: &Postgres) -> parts::Database {
    let database = server.create_database();
    block_on(async {
        let components = [COORDINATION, COMPONENT];
        let url = database.socket_url();
        migrate(&connect(&url), &components, &MigrateOptions::default(), |_| ()).await.unwrap();
    });
    database
}

/// A pool of its own, as another replica would have.
pub(crate) fn connect(url: &str) -> Database {
    Database::new(options(url)).unwrap()
}

pub(crate) fn options(url: &str) -> DatabaseOptions {
    let mut options = DatabaseOptions::new(DatabaseUrl::parse(url).unwrap());
    options.max_connections = 2;
    options
}

pub(crate) fn provider(url: &str) -> PostgresProvider {
    PostgresProvider::new(connect(url), FLEET)
}

/// The pooler of this mode that all tests of this process share.
pub(crate) fn pooler(mode: Pooling) -> Option<SocketAddr> {
    static POOLERS: [OnceLock<Option<PgBouncer>>; 2] = [OnceLock::new(), OnceLock::new()];
    let pooler = &POOLERS[usize::from(mode == Pooling::Session)];
    pooler.get_or_init(|| PgBouncer::start(Postgres::shared()?, mode, 20)).as_ref().map(PgBouncer::address)
}

/// A ring document as far as a provider looks into one.
pub(crate) fn ring(revision: u64, sealed: &str) -> Entries {
    Entries::single(
        Entries::KEYRING,
        format!(
            r#"{{"format":1,"issuer":"https://oidc.example.com","incarnation":{{"number":1,"id":"x"}},"revision":{revision},"keys":[{{"kid":"a","sealed":"{sealed}"}}]}}"#
        ),
    )
}

pub(crate) fn change() -> Change {
    change_of(Uuid::new_v4())
}

pub(crate) fn change_of(id: Uuid) -> Change {
    Change {
        id,
        actor: "test".to_owned(),
        reason: "a test".to_owned(),
        event: EventDraft::new("test.changed", "{}"),
        fence: None,
    }
}

/// Ends a test that would hang.
pub(crate) async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    let limit = Duration::from_secs(60);
    let outcome = tokio::time::timeout(limit, future).await;
    outcome.unwrap_or_else(|_| panic!("{what}: nothing happened for {limit:?}"))
}
