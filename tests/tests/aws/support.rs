//! An account at AWS with one secret, and servers that follow it.

use std::path::{Path, PathBuf};

use oneseal::{Algorithm, IssuerUrl};
use oneseal_testing::parts::Aws;
use oneseal_tests::{Forwarder, Replica, Start, http};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::caches::AUDIENCE;

/// One issuer, the account with its ring, and a directory for what its replicas need.
pub(crate) struct Place {
    pub(crate) issuer: IssuerUrl,
    pub(crate) aws: Aws,
    pub(crate) forwarder: Forwarder,
    dir: TempDir,
}

/// The secret with the ring.
pub(crate) const SECRET: &str = "oneseal/ring";

impl Place {
    /// An account without any secret. `None` where moto is not installed.
    pub(crate) async fn new() -> Option<Self> {
        let aws = Aws::start()?;
        let forwarder = Forwarder::start().await;
        let issuer = IssuerUrl::parse(&format!("http://{}", forwarder.address()), "test").unwrap();
        Some(Self { issuer, aws, forwarder, dir: tempfile::tempdir().unwrap() })
    }

    /// The same with a first ring in it, with the times of a laboratory, made as an operator makes it.
    pub(crate) async fn with_ring() -> Option<Self> {
        let place = Self::new().await?;
        let (exit, out, err) = run(&place.start("operator"), &["keys", "init", "--json"]).await;
        assert_eq!(exit, Some(0), "{out}{err}");
        place.aws.reset_counts();
        Some(place)
    }

    /// How the replica `name` is started.
    pub(crate) fn start(&self, name: &str) -> Start {
        let mut start = Start::with_file(self.path(name), self.issuer.as_str(), self.dir.path());
        start.provider = format!("kind = \"aws\"\nsecret = {SECRET:?}\n");
        start.algorithms = vec![Algorithm::Es256];
        start.environment = self.aws.environment();
        start.more = format!(
            "[admin]\nmint = true\nmint_audiences = [{AUDIENCE:?}]\n[ops]\ninstance = {name:?}\n\
             [process]\ndrain_delay = \"0s\"\nlog_format = \"human\"\n\
             [rotation]\npreset = \"lab\"\nrollback_window = \"10s\"\n"
        );
        start
    }

    /// Three replicas, behind the issuer's address.
    pub(crate) async fn three(&self) -> Vec<Replica> {
        let (a, b, c) =
            tokio::join!(self.start("a").ready(), self.start("b").ready(), self.start("c").ready());
        let replicas = vec![a, b, c];
        self.in_front_of(&replicas);
        replicas
    }

    /// Puts these behind the issuer's address.
    pub(crate) fn in_front_of(&self, replicas: &[Replica]) {
        self.forwarder.set_backends(replicas.iter().map(|replica| replica.documents).collect());
    }

    /// A file of this place.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Runs the program with `arguments` and the configuration of `start`: its exit code, and what it prints and complains.
pub(crate) async fn run(start: &Start, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = start.command(arguments).arg("--config").arg(start.configure()).output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Certificate and key for 127.0.0.1 in files of `place`: the table that names them, and the certificate in PEM, which
/// is its own authority.
pub(crate) fn certificate(place: &Path) -> (String, String) {
    use std::os::unix::fs::PermissionsExt;

    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let (certificate_file, key_file) = (place.join("tls.crt"), place.join("tls.key"));
    std::fs::write(&certificate_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key_file, PermissionsExt::from_mode(0o600)).unwrap();
    let table = format!("[tls]\ncertificate = {certificate_file:?}\nprivate_key = {key_file:?}\n");
    (table, certificate.pem())
}

/// The value of a metric.
pub(crate) async fn metric(replica: &Replica, sample: &str) -> usize {
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
