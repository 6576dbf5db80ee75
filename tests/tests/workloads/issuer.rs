//! An issuer behind https, with its ring in a file.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use oneseal::{Algorithm, IssuerUrl};
use oneseal_tests::http::{Answer, post_json};
use oneseal_tests::{Forwarder, Replica, Start};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

/// Its replicas share one ring, and one certificate, for which an authority of its own vouches.
pub(crate) struct Issuer {
    pub(crate) url: IssuerUrl,
    /// Who vouches for it, in PEM.
    pub(crate) ca: String,
    pub(crate) replicas: Vec<Replica>,
    forwarder: Forwarder,
    dir: TempDir,
}

impl Issuer {
    /// An issuer for which nobody serves yet.
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let forwarder = Forwarder::start().await;
        let url = IssuerUrl::parse(&format!("https://{}", forwarder.address()), "test").unwrap();
        let ca = certificates(dir.path());
        Self { url, ca, replicas: Vec::new(), forwarder, dir }
    }

    /// A file of its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes its ring if there is none, with the times of `[rotation]`, and starts `count` replicas with `more` tables in
    /// place of those that it has.
    pub(crate) async fn serve(&mut self, count: usize, algorithm: Algorithm, rotation: &str, more: &str) {
        let start =
            |i: usize| Start { algorithms: vec![algorithm], ..self.start(&i.to_string(), rotation, more) };
        let starts: Vec<_> = (0..count).map(start).collect();
        let mut init = starts[0].command(&["keys", "init", "--config"]);
        let made = init.arg(starts[0].configure()).output().await.unwrap();
        assert!(made.status.success(), "{made:?}");
        for replica in self.replicas.drain(..) {
            replica.kill().await;
        }
        let ready = starts.into_iter().map(Start::ready);
        self.replicas = futures_util::future::join_all(ready).await;
        self.forwarder.set_backends(self.replicas.iter().map(|replica| replica.documents).collect());
    }

    fn start(&self, name: &str, rotation: &str, more: &str) -> Start {
        let mut start = Start::with_file(self.path(name), self.url.as_str(), &self.path("ring.json"));
        start.more = format!(
            "[tls]\ncertificate = {:?}\nprivate_key = {:?}\n[process]\ndrain_delay = \"0s\"\nlog_format = \"human\"\n\
             [rotation]\n{rotation}\n{more}",
            self.path("tls.crt"),
            self.path("tls.key"),
        );
        start
    }

    /// A token by the administrator of the first replica, or its refusal.
    pub(crate) async fn try_mint(&self, claims: &Value) -> Answer {
        self.replicas[0].try_mint(claims).await
    }

    /// A key verb, carried out by the first replica.
    pub(crate) async fn verb(&self, name: &str, body: &Value) -> Answer {
        post_json(&self.replicas[0].admin(), &format!("/admin/v1/keys/{name}"), body).await.unwrap()
    }
}

/// Writes `tls.crt` and `tls.key` for 127.0.0.1 and `ca.crt` for their authority, and gives that back in PEM.
fn certificates(place: &Path) -> String {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    // Another name than the server's: OpenSSL takes two of one name for one that vouches for itself.
    ca.distinguished_name.push(DnType::CommonName, "the test's authority");
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let certificate = names.signed_by(&key, &ca).unwrap();
    std::fs::write(place.join("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(place.join("tls.key"), key.serialize_pem()).unwrap();
    std::fs::set_permissions(place.join("tls.key"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(place.join("ca.crt"), ca.pem()).unwrap();
    ca.pem()
}
