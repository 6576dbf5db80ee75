//! A fleet of real servers on one database, each with a copy of the key as a mounted secret is one, and each with a way
//! of its own to the database that can be cut.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oneseal::{Algorithm, FileProvider, IssuerUrl, Rotation, SystemClock};
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::migrate::{COORDINATION, MigrateOptions, migrate};
use oneseal_coordination::once::ONCE;
use oneseal_keystore::{InitRequest, init};
use oneseal_providers::postgres::migrations::COMPONENT;
use oneseal_providers::{PostgresProvider, SecretProvider};
use oneseal_testing::parts::{self, Postgres, Proxy};
use oneseal_tests::http::{Answer, get};
use oneseal_tests::{Forwarder, Replica, Start, state};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// The place of a fleet. Whoever is started here leaves with it.
pub(crate) struct Scene {
    pub(crate) issuer: IssuerUrl,
    pub(crate) database: parts::Database,
    pub(crate) forwarder: Forwarder,
    place: TempDir,
}

impl Scene {
    /// A migrated database on `postgres`, and a first ring.
    pub(crate) async fn on(postgres: &Postgres) -> Self {
        Self::with(postgres, Rotation::lab()).await
    }

    pub(crate) async fn with(postgres: &Postgres, rotation: Rotation) -> Self {
        let scene = Self::empty(postgres).await;
        scene.make_ring(&scene.path("ring.json"), rotation).await;
        scene
    }

    /// A migrated database on `postgres` that holds the ring too, sealed.
    pub(crate) async fn sealed(postgres: &Postgres) -> Self {
        let scene = Self::empty(postgres).await;
        let random = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        std::fs::write(scene.kek(), random).unwrap();
        std::fs::set_permissions(scene.kek(), PermissionsExt::from_mode(0o600)).unwrap();
        let mut request = InitRequest::new(scene.issuer.clone());
        request.algorithms = vec![Algorithm::Es256];
        request.rotation = Rotation::lab();
        request.keks = scene.keks();
        init(&PostgresProvider::new(pool(&scene.database), FLEET), request, &SystemClock).await.unwrap();
        scene
    }

    async fn empty(postgres: &Postgres) -> Self {
        let forwarder = Forwarder::start().await;
        let issuer = IssuerUrl::parse(&format!("http://{}", forwarder.address()), "test").unwrap();
        let database = postgres.create_database();
        let components = [COORDINATION, ONCE, COMPONENT];
        migrate(&pool(&database), &components, &MigrateOptions::default(), |_| ()).await.unwrap();
        Self { issuer, database, forwarder, place: tempfile::tempdir().unwrap() }
    }

    /// The file with the key-encryption key of a scene that is sealed.
    fn kek(&self) -> PathBuf {
        self.path("kek")
    }

    /// What opens the ring of a scene that is sealed.
    pub(crate) fn keks(&self) -> Vec<Arc<dyn SecretProvider>> {
        vec![Arc::new(FileProvider::new(self.kek()))]
    }

    /// A file of this place.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A ring of its own for the same issuer.
    pub(crate) async fn make_ring(&self, path: &Path, rotation: Rotation) {
        let mut request = InitRequest::new(self.issuer.clone());
        request.algorithms = vec![Algorithm::Es256];
        request.rotation = rotation;
        let provider = FileProvider::new(path).assume_durable(true);
        init(&provider, request, &SystemClock).await.unwrap();
    }

    /// How the replica `name` is started: with a copy of its own of the ring, or with the ring in the database.
    pub(crate) fn start(&self, name: &str, url: &str) -> Start {
        let home = self.path(name);
        std::fs::create_dir_all(&home).unwrap();
        let key = home.join("ring.json");
        let mut start = Start::with_file(home, self.issuer.as_str(), &key);
        if self.kek().exists() {
            start.provider = "kind = \"postgres\"\n".to_owned();
            start.more.push_str(&format!("[kek]\nkind = \"file\"\npath = {:?}\n", self.kek()));
        } else if !key.exists() {
            std::fs::copy(self.path("ring.json"), &key).unwrap();
        }
        start.algorithms = vec![Algorithm::Es256];
        start.more.push_str(&format!(
            "[database]\nurl = {url:?}\n[ops]\ninstance = {name:?}\n[ring]\nfleet = {FLEET:?}\n\
             [process]\ndrain_delay = \"0s\"\nboot_timeout = \"30s\"\nlog_format = \"human\"\n"
        ));
        start
    }

    /// The key file of the replica `name`.
    pub(crate) fn key(&self, name: &str) -> PathBuf {
        self.path(name).join("ring.json")
    }

    /// Three replicas, `a`, `b` and `c`, each behind a proxy of its own to the database, and all behind the issuer's
    /// address.
    pub(crate) async fn three(&self) -> [Member; 3] {
        let mut members = Vec::new();
        for name in ["a", "b", "c"] {
            members.push(self.member(name, |start| start).await);
            self.forwarder.set_backends(members.iter().map(|member| member.replica.documents).collect());
        }
        let members: [Member; 3] = members.try_into().map_err(|_| "three").unwrap();
        for member in &members {
            member.sees(3).await;
        }
        members
    }

    /// One replica behind a proxy of its own to the database, started as `change` says.
    pub(crate) async fn member(&self, name: &'static str, change: impl FnOnce(Start) -> Start) -> Member {
        let proxy = Proxy::start(database_address(&self.database));
        let url = self.database.url_at(proxy.address());
        let replica = change(self.start(name, &url)).ready().await;
        Member { name, replica, proxy }
    }
}

/// The name of every fleet here.
pub(crate) const FLEET: &str = "f";

/// One replica with its way to the database.
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) replica: Replica,
    pub(crate) proxy: Proxy,
}

impl Member {
    /// Nothing reaches the database any more.
    pub(crate) fn cut_off(&self) {
        self.proxy.refuse(true);
        self.proxy.cut();
    }

    pub(crate) async fn status(&self) -> Value {
        admin(&self.replica, "/admin/v1/status").await
    }

    pub(crate) async fn replicas(&self) -> Value {
        admin(&self.replica, "/admin/v1/replicas").await
    }

    pub(crate) async fn is_ready(&self) -> bool {
        get(self.replica.ops, "/readyz").await.is_ok_and(|answer| answer.status.is_success())
    }

    /// Waits until its last beat has shown it so many live replicas.
    pub(crate) async fn sees(&self, live: usize) {
        let sample = format!("oneseal_fleet_replicas{{state=\"live\"}} {live}");
        self.until(&sample).await;
    }

    /// Waits until its metrics have this line.
    pub(crate) async fn until(&self, line: &str) {
        state::until(&format!("{}: {line}", self.name), async || {
            let text = self.metrics().await;
            text.lines().any(|found| found == line).then_some(())
        })
        .await;
    }

    pub(crate) async fn metrics(&self) -> String {
        let answer = get(self.replica.ops, "/metrics").await.unwrap();
        String::from_utf8(answer.body.to_vec()).unwrap()
    }

    pub(crate) async fn mint(&self) -> Answer {
        self.replica.try_mint(&json!({ "sub": "pod", "aud": "test" })).await
    }

    pub(crate) async fn jwks(&self) -> Answer {
        self.replica.get("/.well-known/jwks.json").await.unwrap()
    }
}

/// GET on the admin socket.
pub(crate) async fn admin(replica: &Replica, path: &str) -> Value {
    oneseal_tests::http::get_unix(&replica.admin(), path).await.unwrap().json()
}

/// The product's way to `database`.
pub(crate) fn pool(database: &parts::Database) -> Database {
    Database::new(DatabaseOptions::new(DatabaseUrl::parse(&database.url()).unwrap())).unwrap()
}

/// Where the server of `database` listens.
pub(crate) fn database_address(database: &parts::Database) -> std::net::SocketAddr {
    let url = database.url();
    let (_, rest) = url.split_once('@').unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

/// The kinds of all events so far, oldest first.
pub(crate) fn events(database: &parts::Database) -> Vec<String> {
    let text = database.execute("SELECT kind FROM oneseal.events ORDER BY seq");
    text.lines().map(str::to_owned).collect()
}

/// Keeps a shared server alive in tests that need none of their own.
pub(crate) fn postgres() -> Option<&'static Postgres> {
    Postgres::shared()
}

/// A server of one's own.
pub(crate) fn own_postgres() -> Option<Postgres> {
    Postgres::start(parts::PostgresOptions::default())
}
