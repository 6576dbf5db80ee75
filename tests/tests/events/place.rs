//! A database with an event log, replicas on it, and a reader of server-sent events.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use oneseal::{Algorithm, FileProvider, IssuerUrl, SystemClock};
use oneseal_coordination::EventDraft;
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_keystore::{InitRequest, init};
use oneseal_testing::parts::{self, Postgres};
use oneseal_tests::{Replica, Start, binary, state};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

pub(crate) const ISSUER: &str = "http://127.0.0.1:9";

pub(crate) struct Place {
    pub(crate) psql: parts::Database,
    pub(crate) database: Database,
    key: PathBuf,
    home: TempDir,
}

impl Place {
    /// `None` where PostgreSQL is not installed.
    pub(crate) async fn new() -> Option<Self> {
        Some(Self::on(Postgres::shared()?).await)
    }

    /// In a new database of `server`.
    pub(crate) async fn on(server: &Postgres) -> Self {
        let psql = server.create_database();
        let database =
            Database::new(DatabaseOptions::new(DatabaseUrl::parse(&psql.socket_url()).unwrap())).unwrap();
        let home = tempfile::tempdir().unwrap();
        let key = home.path().join("keyring.json");
        let mut request = InitRequest::new(IssuerUrl::parse(ISSUER, "test").unwrap());
        request.algorithms = vec![Algorithm::EdDsa];
        init(&FileProvider::new(&key).assume_durable(true), request, &SystemClock).await.unwrap();
        let place = Self { psql, database, key, home };
        // By the program, which knows what tables a replica wants.
        let mut migrate = std::process::Command::new(binary());
        let migrated = migrate.args(["db", "migrate", "--config"]).arg(place.config()).output().unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
        place
    }

    /// How a replica of this fleet is started, with `[database]` and a short end.
    pub(crate) fn start(&self, name: &str) -> Start {
        let mut start = Start::with_file(self.home.path().join(name), ISSUER, &self.key);
        start.algorithms = vec![Algorithm::EdDsa];
        start.more = format!(
            "[database]\nurl = {:?}\n[process]\ndrain_delay = \"0s\"\nshutdown_timeout = \"20s\"\n",
            self.psql.url()
        );
        start
    }

    pub(crate) async fn replica(&self, name: &str) -> Replica {
        self.start(name).ready().await
    }

    /// A replica whose coming stands in the log, so that what follows there is the test's alone.
    pub(crate) async fn joined(&self, name: &str) -> Replica {
        let replica = self.replica(name).await;
        state::until("the replica in the log", async || {
            let told = self.psql.execute("SELECT count(*) FROM oneseal.events WHERE kind = 'replica.joined'");
            (told.trim() != "0").then_some(())
        })
        .await;
        replica
    }

    /// The number of the last event.
    pub(crate) fn head(&self) -> i64 {
        self.psql.execute("SELECT seq FROM oneseal.event_head").trim().parse().unwrap()
    }

    /// Appends `count` events, each in a transaction of its own.
    pub(crate) async fn append(&self, count: usize) {
        for _ in 0..count {
            let mut tx = self.database.write().await.unwrap();
            tx.append("test", ISSUER, &EventDraft::new("test.written", "{\"a\":1}")).await.unwrap();
            tx.commit().await.unwrap();
        }
    }

    /// A file for the command line: a configuration that names the database and nothing else.
    pub(crate) fn config(&self) -> PathBuf {
        let path = self.home.path().join("database.toml");
        std::fs::write(&path, format!("[database]\nurl = {:?}\n", self.psql.url())).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

/// One block of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) data: Option<String>,
    pub(crate) retry: Option<u64>,
    pub(crate) comment: Option<String>,
}

impl Block {
    /// The number in its id.
    pub(crate) fn seq(&self) -> i64 {
        self.id.as_ref().unwrap().split('-').next().unwrap().parse().unwrap()
    }
}

/// An open stream.
#[derive(Debug)]
pub(crate) struct Stream {
    body: Incoming,
    buffer: Vec<u8>,
    /// Moves the bytes.
    _connection: JoinSet<()>,
}

impl Stream {
    /// The next block; `None` at the end of the stream, however it ends.
    pub(crate) async fn next(&mut self) -> Option<Block> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return Some(read(std::str::from_utf8(&block).unwrap()));
            }
            let frame = tokio::time::timeout(Duration::from_secs(40), self.body.frame())
                .await
                .expect("a sign of life");
            self.buffer.extend_from_slice(frame?.ok()?.data_ref()?);
        }
    }

    /// The next block that has data.
    pub(crate) async fn next_data(&mut self) -> Option<Block> {
        loop {
            let block = self.next().await?;
            if block.data.is_some() {
                return Some(block);
            }
        }
    }
}

/// As a browser reads it (WHATWG HTML, section 9.2.6), for the fields that there are.
fn read(text: &str) -> Block {
    let mut block = Block::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match name {
            "" => block.comment = Some(value),
            "id" => block.id = Some(value),
            "event" => block.event = Some(value),
            "data" => block.data = Some(value),
            "retry" => block.retry = Some(value.parse().unwrap()),
            other => panic!("{other}: no such field"),
        }
    }
    block
}

/// Asks for events; the head and the stream, or nothing where nobody answers.
pub(crate) async fn open(
    socket: &Path,
    query: &str,
    fields: &[(&str, &str)],
) -> Option<(http::response::Parts, Stream)> {
    let stream = UnixStream::connect(socket).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { drop(connection.await) });
    let mut request = Request::get(format!("/admin/v1/events{query}")).header("host", "localhost");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.ok()?;
    let (head, body) = answer.into_parts();
    // The sender is dropped, and with it the connection once the answer is over.
    Some((head, Stream { body, buffer: Vec::new(), _connection: tasks }))
}
