//! The database against a real PostgreSQL and PgBouncer, whole and broken.

#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commits;
mod fence;
mod outages;
mod poolers;
mod tls;

use std::time::Duration;

use oneseal_coordination::database::{Database, DatabaseError, DatabaseOptions, DatabaseUrl, WriteTx};
use oneseal_testing::parts;

/// The options for `url`, with time-outs that a test can wait for.
fn options(url: &str) -> DatabaseOptions {
    let mut options = DatabaseOptions::new(DatabaseUrl::parse(url).unwrap());
    options.connect_timeout = Duration::from_secs(10);
    options.acquire_timeout = Duration::from_secs(10);
    options.statement_timeout = Duration::from_secs(3);
    options
}

fn open(url: &str) -> Database {
    Database::new(options(url)).unwrap()
}

/// A database with the table `kept`, over TCP.
fn with_table(server: &parts::Postgres) -> (parts::Database, Database) {
    let database = server.create_database();
    database.execute("CREATE TABLE kept (word text PRIMARY KEY)");
    let opened = open(&database.url());
    (database, opened)
}

async fn insert(tx: &mut WriteTx, word: &str) -> Result<(), DatabaseError> {
    tx.execute(sqlx::query("INSERT INTO public.kept VALUES ($1)").bind(word)).await.map(drop)
}

/// Writes `word` in a transaction of its own.
async fn keep(database: &Database, word: &str) -> Result<(), String> {
    let mut tx = database.write().await.map_err(|error| format!("{:?}: {error}", error.kind()))?;
    insert(&mut tx, word).await.map_err(|error| format!("{:?}: {error}", error.kind()))?;
    tx.commit().await.map_err(|error| error.to_string())
}

/// Tries until it succeeds, as a caller would. The test's own deadline is generous; each call's is not.
async fn keep_soon(database: &Database, word: &str) {
    let tries = async { while keep(database, word).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(30), tries).await.expect("writes work again by themselves");
}
