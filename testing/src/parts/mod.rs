//! Real parts for tests: a PostgreSQL of one's own, PgBouncer before it, a Kubernetes API server on an etcd of its own
//! and a gateway before it, an account at an AWS that moto plays, and a proxy that breaks connections.
//!
//! ```no_run
//! use oneseal_testing::parts::{PgBouncer, Pooling, Postgres};
//!
//! let Some(postgres) = Postgres::shared() else { return };
//! let database = postgres.create_database();
//! assert_eq!(database.execute("SELECT 1"), "1");
//!
//! let Some(pooler) = PgBouncer::start(postgres, Pooling::Transaction, 5) else { return };
//! println!("{} or {}", database.url(), database.url_at(pooler.address()));
//! ```
//!
//! ```no_run
//! use oneseal_testing::parts::KubeApiserver;
//! use serde_json::json;
//!
//! let Some(server) = KubeApiserver::shared() else { return };
//! let namespace = server.create_namespace();
//! server.create_secret(&namespace, "ring", "Opaque", &[("keyring.json", b"{}")]);
//! server.service_account(&namespace, "issuer");
//! let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["ring"], "verbs": ["get"]}]);
//! server.grant(&namespace, "issuer", &rules);
//! let kubeconfig = server.kubeconfig_for(&server.token(&namespace, "issuer", &[], 600, None));
//! # drop(kubeconfig);
//! ```
//!
//! ```no_run
//! use oneseal_testing::parts::{Aws, Fault};
//! use serde_json::json;
//!
//! let Some(aws) = Aws::start() else { return };
//! aws.call("CreateSecret", &json!({"Name": "ring", "SecretString": "{}"}));
//! aws.fault("GetSecretValue", Fault::Throttle, 3);
//! println!("{} with {:?}", aws.url(), aws.environment());
//! ```
//!
//! Everything here is the real program, started on a free port of the loopback address in a directory of its own;
//! PostgreSQL and PgBouncer, which refuse to run as root, as an unprivileged user where the test is root. What a test starts ends with it: when it is dropped, and, should the whole
//! process be killed, by a small shell that waits for that. Nothing of a system's own cluster is read or written.
//!
//! Where a program is missing, the part says so in the test's output and is `None`; with `TEST_REQUIRE=all`, as in CI,
//! it fails instead.
//!
//! These functions block: they start processes and wait for them. Call them from the test itself, not from a task that
//! must go on meanwhile.

mod aws;
mod kubernetes;
mod pgbouncer;
mod place;
mod postgres;
mod proxy;
mod psql;
mod thread;

pub use aws::{Aws, Fault, Refusal};
pub use kubernetes::{
    Applied, Audited, Gateway, KubeApiserver, KubeApiserverOptions, Meddling, Pod, Snapshot,
};
pub use pgbouncer::{PgBouncer, Pooling};
pub use postgres::{Certificate, Postgres, PostgresOptions, Stop};
pub use proxy::{Fate, Proxy};
pub use psql::Database;
