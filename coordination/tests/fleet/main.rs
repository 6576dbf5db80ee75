//! The schema, the registry and the settings in a real PostgreSQL.

#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod migrating;
mod once;
mod registering;
mod settings;

use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::migrate::{COORDINATION, Component, MigrateOptions, migrate};
use oneseal_testing::parts;

fn open(url: &str) -> Database {
    Database::new(DatabaseOptions::new(DatabaseUrl::parse(url).unwrap())).unwrap()
}

/// A database with the tables of this crate.
async fn migrated(server: &parts::Postgres) -> (parts::Database, Database) {
    let raw = server.create_database();
    let database = open(&raw.url());
    apply(&database, &[COORDINATION]).await;
    (raw, database)
}

async fn apply(database: &Database, components: &[Component]) {
    migrate(database, components, &MigrateOptions::default(), |_| ()).await.unwrap();
}

/// Waits until `look` says yes.
async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !look().await {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), wait).await;
    waited.unwrap_or_else(|_| panic!("waited 60 s for: {what}"));
}
