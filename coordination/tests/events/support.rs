//! A database with an empty log, and short ways to write and read it.

use std::time::Duration;

use oneseal_coordination::EventDraft;
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::events::{
    AppendedEvent, Delivery, Event, From, Read, Reader, Subscription, TABLES,
};
use oneseal_testing::parts;

/// A database of the test's own.
pub(crate) struct Place {
    pub(crate) psql: parts::Database,
    pub(crate) database: Database,
}

impl Place {
    /// `None` where PostgreSQL is not installed.
    pub(crate) async fn new() -> Option<Self> {
        let psql = parts::Postgres::shared()?.create_database();
        // Without a password, which takes longer to check than everything else here.
        let database = open(&psql.socket_url());
        psql.execute(&format!("CREATE SCHEMA oneseal; {TABLES}"));
        Some(Self { psql, database })
    }

    /// Appends `kind` for `issuer` in a transaction of its own.
    pub(crate) async fn append_for(&self, issuer: &str, kind: &str, payload: &str) -> AppendedEvent {
        let mut tx = self.database.write().await.unwrap();
        let appended = tx.append("test", issuer, &EventDraft::new(kind, payload)).await.unwrap();
        tx.commit().await.unwrap();
        appended
    }

    /// Appends `count` events with the payload `{"number":N}`, N from 1 on.
    pub(crate) async fn append(&self, count: i64) {
        for number in 1..=count {
            self.append_for("https://a.example", "test.written", &format!("{{\"number\":{number}}}")).await;
        }
    }

    /// All that is kept, judged.
    pub(crate) async fn read_all(&self) -> Vec<Event> {
        let mut reader = Reader::new(From::Floor);
        let mut all = Vec::new();
        while !reader.is_at_end() {
            match reader.read(&self.database).await.unwrap() {
                Read::Events(events) => all.extend(events),
                other => panic!("{other:?}"),
            }
        }
        all
    }
}

/// The database behind `url`.
pub(crate) fn open(url: &str) -> Database {
    let mut options = DatabaseOptions::new(DatabaseUrl::parse(url).unwrap());
    options.max_connections = 20;
    options.lock_timeout = Duration::from_secs(5);
    options.idle_in_transaction_timeout = Duration::from_secs(3);
    Database::new(options).unwrap()
}

/// What a subscription delivers next, within ten times what it may take.
pub(crate) async fn next(subscription: &mut Subscription) -> Delivery {
    tokio::time::timeout(Duration::from_secs(30), subscription.next())
        .await
        .expect("something is delivered")
        .expect("the follower runs")
}

/// The number of the next event.
pub(crate) async fn next_seq(subscription: &mut Subscription) -> i64 {
    match next(subscription).await {
        Delivery::Event(event) => event.seq,
        other => panic!("no event: {other:?}"),
    }
}
