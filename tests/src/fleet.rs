//! N replicas that share one key, behind a forwarder that is their issuer.

use std::path::PathBuf;

use oneseal::{Algorithm, FileProvider, IssuerUrl, SystemClock};
use oneseal_keystore::{InitRequest, init};
use tempfile::TempDir;

use crate::{Forwarder, Replica, Start};

/// A running fleet in a temporary directory.
#[derive(Debug)]
pub struct Fleet {
    /// What stands in `iss`.
    pub issuer: IssuerUrl,
    /// The replicas. Put another one in a dead one's place by [`Fleet::restart`].
    pub replicas: Vec<Replica>,
    /// In front of them.
    pub forwarder: Forwarder,
    /// The key that they share.
    pub key: PathBuf,
    _place: TempDir,
}

impl Fleet {
    /// Makes a ring with keys for RS256, ES256 and EdDSA and starts `size` replicas on it.
    ///
    /// # Panics
    /// If anything of that fails.
    pub async fn start(size: usize) -> Self {
        Self::start_logging(size, "info").await
    }

    /// The same, with `ONESEAL_LOG` set to `log`.
    ///
    /// # Panics
    /// If anything fails.
    pub async fn start_logging(size: usize, log: &'static str) -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        let forwarder = Forwarder::start().await;
        let issuer =
            IssuerUrl::parse(&format!("http://{}", forwarder.address()), "test").expect("a good issuer");
        let key = place.path().join("keyring.json");
        let mut request = InitRequest::new(issuer.clone());
        request.algorithms = vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
        // A file that is gone wakes nobody, so what notices it is the timer: once a second is enough for a test.
        request.rotation.refresh_s = 1;
        let provider = FileProvider::new(&key).assume_durable(true);
        init(&provider, request, &SystemClock).await.expect("a first ring");
        let mut replicas = Vec::new();
        for number in 1..=size {
            let mut start = Start::with_file(place.path().join(number.to_string()), issuer.as_str(), &key);
            start.log = log;
            replicas.push(start.ready().await);
        }
        forwarder.set_backends(replicas.iter().map(|replica| replica.documents).collect());
        Self { issuer, replicas, forwarder, key, _place: place }
    }

    /// Kills a replica with SIGKILL and starts it again.
    ///
    /// # Panics
    /// If it does not come back.
    pub async fn restart(&mut self, at: usize) {
        let start = self.replicas.remove(at).kill().await;
        self.replicas.insert(at, start.ready().await);
        self.forwarder.set_backends(self.replicas.iter().map(|replica| replica.documents).collect());
    }
}
