//! Four stores, and places in them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal_coordination::SystemClock;
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::migrate::{COORDINATION, MigrateOptions, migrate};
use oneseal_coordination::once::ONCE;
use oneseal_keystore::IssuerUrl;
use oneseal_providers::postgres::migrations::COMPONENT;
use oneseal_testing::block_on;
use oneseal_testing::parts::{self, Aws, Gateway, KubeApiserver, Postgres, Proxy};
use oneseal_testing::rings::Keeper;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli_support::{Said, oneseal, run, text};

pub(crate) const ISSUER: &str = "https://oidc.example";

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Postgres,
    Kubernetes,
    Aws,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::File, Self::Postgres, Self::Kubernetes, Self::Aws];
}

/// All of them, and a sealed ring of two revisions.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) postgres: &'static Postgres,
    pub(crate) cluster: &'static KubeApiserver,
    pub(crate) gateway: Gateway,
    pub(crate) aws: Aws,
    pub(crate) keeper: Keeper,
    pub(crate) ring: Vec<u8>,
    pub(crate) namespace: String,
    number: AtomicU32,
}

/// A place for one record. `Debug` shows its URI.
pub(crate) struct Place {
    pub(crate) uri: String,
    pub(crate) at: At,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.uri)
    }
}

/// Where it is, for whoever looks past oneseal.
pub(crate) enum At {
    File(PathBuf),
    /// The database, and a way to it that can be cut.
    Postgres(parts::Database, Proxy),
    /// The name, in the world's namespace.
    Kubernetes(String),
    /// The name.
    Aws(String),
}

impl World {
    /// `None` where a part is missing, which the output then says.
    pub(crate) fn new() -> Option<Self> {
        let (postgres, cluster) = (Postgres::shared()?, KubeApiserver::shared()?);
        let (aws, gateway) = (Aws::start()?, cluster.gateway());
        let keeper = Keeper::new(&IssuerUrl::parse(ISSUER, "a test").expect("an issuer"), 1);
        let ring = block_on(keeper.first(&SystemClock));
        // The log of the later revision has a tail that reaches back to the first.
        let ring = keeper.next(&ring, |_| ());
        let dir = TempDir::new().expect("a directory");
        let (namespace, number) = (cluster.create_namespace(), AtomicU32::new(0));
        let world = Self { dir, postgres, cluster, gateway, aws, keeper, ring, namespace, number };
        let rights =
            json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "update"]}]);
        world.cluster.service_account(&world.namespace, "mover");
        world.cluster.grant(&world.namespace, "mover", &rights);
        let token = world.cluster.token(&world.namespace, "mover", &[], 600, None);
        world.write("kubeconfig", world.gateway.kubeconfig(&token).as_bytes());
        Some(world)
    }

    /// A file that its owner alone may read.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        path
    }

    fn next(&self) -> u32 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// Where nothing is yet.
    pub(crate) fn place(&self, kind: Kind) -> Place {
        let number = self.next();
        match kind {
            Kind::File => {
                let path = self.dir.path().join(format!("ring-{number}.json"));
                Place { uri: format!("file:{}", text(&path)), at: At::File(path) }
            }
            Kind::Postgres => {
                let database = self.postgres.create_database();
                let url = DatabaseUrl::parse(&database.url()).expect("a URL");
                let pool = Database::new(DatabaseOptions::new(url)).expect("a database");
                let tables = async {
                    migrate(&pool, &[COORDINATION, ONCE, COMPONENT], &MigrateOptions::default(), |_| ()).await
                };
                block_on(tables).expect("tables");
                let plain = database.url();
                let (_, rest) = plain.split_once('@').expect("a user in the URL");
                let address = rest.split('/').next().and_then(|address| address.parse().ok());
                let proxy = Proxy::start(address.expect("an address"));
                Place { uri: database.url_at(proxy.address()), at: At::Postgres(database, proxy) }
            }
            Kind::Kubernetes => {
                let name = format!("ring-{number}");
                let kubeconfig = self.dir.path().join("kubeconfig");
                let uri = format!("k8s:{}/{name}?kubeconfig={}", self.namespace, text(&kubeconfig));
                Place { uri, at: At::Kubernetes(name) }
            }
            Kind::Aws => {
                let name = format!("prod/ring_{number}");
                Place { uri: format!("aws:{name}"), at: At::Aws(name) }
            }
        }
    }

    /// The document that rests at `place`, past oneseal; `None` where none does.
    pub(crate) fn document(&self, place: &Place) -> Option<Vec<u8>> {
        match &place.at {
            At::File(path) => fs::read(path).ok(),
            At::Postgres(database, _) => {
                let base64 = database.execute("SELECT encode(document, 'base64') FROM oneseal.rings");
                let base64 = base64.replace('\n', "");
                (!base64.is_empty()).then(|| STANDARD.decode(base64).expect("base64"))
            }
            At::Kubernetes(name) => {
                let path = format!("/api/v1/namespaces/{}/secrets/{name}", self.namespace);
                let (status, secret) = self.cluster.request("GET", &path, None);
                let value =
                    (status == 200).then(|| secret["data"]["keyring.json"].as_str().map(str::to_owned));
                value.flatten().map(|value| STANDARD.decode(value).expect("base64"))
            }
            At::Aws(name) => {
                let described = self.aws.try_call("DescribeSecret", &json!({ "SecretId": name })).ok()?;
                let versions = described["VersionIdsToStages"].as_object()?;
                let is_current =
                    |stages: &Value| stages.as_array().is_some_and(|all| all.contains(&"AWSCURRENT".into()));
                let (version, _) = versions.iter().find(|(_, stages)| is_current(stages))?;
                let asked = json!({ "SecretId": name, "VersionId": version });
                let value = self.aws.call("GetSecretValue", &asked);
                value["SecretString"].as_str().map(|text| text.as_bytes().to_vec())
            }
        }
    }

    /// `oneseal ARGUMENTS`, with the environment of AWS.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = oneseal(arguments);
        command.envs(self.aws.environment()).env("ONESEAL__PROVIDER__DURABLE", "true");
        command
    }

    /// How `oneseal migrate` is begun.
    pub(crate) fn migration(&self, from: &Place, to: &Place) -> Command {
        let places = ["--durable", "--from", &from.uri, "--to", &to.uri];
        let said = ["--fleet-is-stopped", "--yes", "--json"];
        self.command(&[&["migrate"], places.as_slice(), &said].concat())
    }

    pub(crate) fn migrate(&self, from: &Place, to: &Place) -> Said {
        run(&mut self.migration(from, to))
    }
}
