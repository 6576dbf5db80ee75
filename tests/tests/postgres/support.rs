//! A database whose rows anybody here may write, and servers that follow the ring in it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use oneseal::{Algorithm, IssuerUrl};
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::migrate::{COORDINATION, MigrateOptions, migrate};
use oneseal_coordination::once::ONCE;
use oneseal_providers::postgres::migrations::COMPONENT;
use oneseal_testing::parts::{self, Postgres};
use oneseal_testing::rings::kek_bytes;
use oneseal_tests::{Forwarder, Replica, Start, binary, http, state};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::caches::AUDIENCE;

pub(crate) const FLEET: &str = "f";

/// One issuer, the database with its ring, and a directory for what its replicas need.
pub(crate) struct Place {
    pub(crate) issuer: IssuerUrl,
    pub(crate) sql: parts::Database,
    pub(crate) forwarder: Forwarder,
    dir: TempDir,
}

impl Place {
    /// A database with the tables and no ring. `None` where PostgreSQL is not installed.
    pub(crate) async fn new() -> Option<Self> {
        let sql = Postgres::shared()?.create_database();
        let forwarder = Forwarder::start().await;
        let issuer = IssuerUrl::parse(&format!("http://{}", forwarder.address()), "test").unwrap();
        let place = Self { issuer, sql, forwarder, dir: tempfile::tempdir().unwrap() };
        migrate(&place.pool(), &[COORDINATION, ONCE, COMPONENT], &MigrateOptions::default(), |_| ())
            .await
            .unwrap();
        Some(place)
    }

    pub(crate) fn pool(&self) -> Database {
        Database::new(DatabaseOptions::new(DatabaseUrl::parse(&self.sql.url()).unwrap())).unwrap()
    }

    /// What whoever may write the row does: any bytes, with a hint, so that replicas look at once.
    pub(crate) fn write_row(&self, document: &[u8]) {
        let ring: Value = serde_json::from_slice(document).unwrap_or_default();
        let number = |value: &Value| value.as_i64().unwrap_or(1);
        self.sql.execute(&format!(
            "INSERT INTO oneseal.rings (fleet, incarnation, revision, document, change_id, written_by)
             VALUES ('{FLEET}', {}, {}, decode('{}', 'hex'), gen_random_uuid(), 'a thief')
             ON CONFLICT (fleet) DO UPDATE SET incarnation = excluded.incarnation, revision = excluded.revision,
                 document = excluded.document, change_id = excluded.change_id;
             NOTIFY oneseal_ring, '{FLEET}'",
            number(&ring["incarnation"]["number"]),
            number(&ring["revision"]),
            hex(document),
        ));
    }

    /// The document in the row.
    pub(crate) fn row(&self) -> Vec<u8> {
        let hex = self.sql.execute("SELECT encode(document, 'hex') FROM oneseal.rings");
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// A file with the KEK of this number, for its owner alone.
    pub(crate) fn kek_file(&self, number: u8) -> PathBuf {
        let path = self.dir.path().join(format!("kek-{number}"));
        std::fs::write(&path, kek_bytes(number)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// How the replica `name` is started, with more lines of `[kek]` or `[ring]`.
    pub(crate) fn start(&self, name: &str, kek: &str, ring: &str) -> Start {
        let mut start = Start::with_file(self.dir.path().join(name), self.issuer.as_str(), self.dir.path());
        "kind = \"postgres\"\n".clone_into(&mut start.provider);
        // The first one is the default: of the rings here the Ed25519 key always signs.
        start.algorithms = vec![Algorithm::EdDsa, Algorithm::Es256];
        start.more = format!(
            "[admin]\nmint = {}\nmint_audiences = [\"{AUDIENCE}\"]\n[database]\nurl = {:?}\n[ops]\ninstance = {name:?}\n\
             [process]\ndrain_delay = \"0s\"\nlog_format = \"human\"\n[ring]\nfleet = \"{FLEET}\"\n{ring}{kek}",
            !kek.is_empty(),
            self.sql.url(),
        );
        start
    }

    /// The `[kek]` table with the current KEK and the previous ones, by number.
    pub(crate) fn keks(&self, current: u8, previous: &[u8]) -> String {
        let previous: Vec<_> = previous.iter().map(|number| self.kek_uri(*number)).collect();
        format!("[kek]\nuri = {:?}\nprevious = {previous:?}\n", self.kek_uri(current))
    }

    /// Where the KEK of this number is, as `--to-kek` wants it.
    pub(crate) fn kek_uri(&self, number: u8) -> String {
        format!("file:{}", self.kek_file(number).display())
    }

    /// Puts these behind the issuer's address.
    pub(crate) fn in_front_of(&self, replicas: &[&Replica]) {
        self.forwarder.set_backends(replicas.iter().map(|replica| replica.documents).collect());
    }

    /// Takes away the rows of replicas, as if none had ever been.
    pub(crate) fn forget_replicas(&self) {
        self.sql.execute("DELETE FROM oneseal.replicas");
    }
}

/// Runs it to its end: exit code and log.
pub(crate) async fn ended(start: &Start) -> (Option<i32>, String) {
    let before = start.log_text().len();
    let mut child = start.spawn();
    let status = state::until("the end of a start that is refused", async || child.try_wait().unwrap()).await;
    (status.code(), start.log_text()[before..].to_owned())
}

/// Runs the program with `arguments` and the configuration of `start`: its exit code, and what it prints and complains.
pub(crate) async fn run(start: &Start, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = tokio::process::Command::new(binary());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONESEAL")) {
        command.env_remove(name);
    }
    command.args(arguments).arg("--config").arg(start.configure()).stdin(Stdio::null());
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What `oneseal check` finds with this configuration: its exit code, and the codes.
pub(crate) async fn checked(start: &Start) -> (Option<i32>, Vec<String>) {
    let (exit, out, err) = run(start, &["check", "--json", "--no-bind"]).await;
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    let findings = report["findings"].as_array().unwrap();
    let codes = findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect();
    (exit, codes)
}

/// The value of a metric.
pub(crate) async fn metric(replica: &Replica, sample: &str) -> u64 {
    let answer = http::get(replica.ops, "/metrics").await.unwrap();
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {text}")).parse().unwrap()
}

pub(crate) async fn jwks(replica: &Replica) -> bytes::Bytes {
    replica.get("/.well-known/jwks.json").await.unwrap().body
}

/// What a pod would be minted.
pub(crate) fn pod() -> Value {
    json!({ "sub": "pod", "aud": AUDIENCE })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
