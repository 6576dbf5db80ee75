//! N replicas that share one key, behind what is their issuer: a forwarder, or a real nginx.

use std::net::SocketAddr;
use std::path::PathBuf;

use oneseal::{Algorithm, FileProvider, IssuerUrl, SystemClock};
use oneseal_keystore::{InitRequest, init};
use tempfile::TempDir;

use crate::keys::{self, TestKey};
use crate::{Forwarder, Replica, Start, nginx};

/// What a fleet is to be.
///
/// # Defaults
/// Three replicas behind a forwarder, with keys for RS256, ES256 and EdDSA, that log at `info`.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// How many replicas.
    pub size: usize,
    /// The issuer's path, such as `/team-a`; empty: none.
    pub path: &'static str,
    /// One key for each.
    pub algorithms: Vec<Algorithm>,
    /// Further ones in `issuer.algorithms`, and so in discovery, which no key is for yet.
    pub announced: Vec<Algorithm>,
    /// `ONESEAL_LOG`.
    pub log: &'static str,
    /// `max-age` of the documents, in seconds.
    pub jwks_max_age_s: u64,
    /// Whether a shared cache is declared, so that the documents allow `stale-if-error`.
    pub shared_cache: bool,
    /// nginx in front, and how; otherwise a forwarder.
    pub nginx: Option<nginx::Options>,
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self {
            size: 3,
            path: "",
            algorithms: vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa],
            announced: Vec::new(),
            log: "info",
            jwks_max_age_s: 300,
            shared_cache: false,
            nginx: None,
        }
    }
}

/// A running fleet in a temporary directory.
#[derive(Debug)]
pub struct Fleet {
    /// What stands in `iss`.
    pub issuer: IssuerUrl,
    /// The replicas. Put another one in a dead one's place by [`Fleet::restart`].
    pub replicas: Vec<Replica>,
    /// In front of them; with nginx another way to them, without a cache.
    pub forwarder: Forwarder,
    /// In front of them, where [`FleetOptions::nginx`] asked for it.
    pub proxy: Option<nginx::Proxy>,
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
        let options = FleetOptions { size, ..FleetOptions::default() };
        Self::start_with(options).await.expect("no part of it can be missing")
    }

    /// Makes a ring and starts replicas on it. `None` if nginx is wanted and missing.
    ///
    /// # Panics
    /// If anything fails, or nginx is missing with `TEST_REQUIRE=all`.
    pub async fn start_with(options: FleetOptions) -> Option<Self> {
        let proxy = match options.nginx.clone() {
            Some(nginx) => Some(nginx::Proxy::start(nginx).await?),
            None => None,
        };
        let place = tempfile::tempdir().expect("a temporary directory");
        let forwarder = Forwarder::start().await;
        let front = proxy.as_ref().map_or_else(|| forwarder.address(), nginx::Proxy::address);
        let issuer =
            IssuerUrl::parse(&format!("http://{front}{}", options.path), "test").expect("a good issuer");
        let key = place.path().join("keyring.json");
        make_ring(&key, &issuer, &options).await;
        let listed: Vec<_> = options.algorithms.iter().chain(&options.announced).copied().collect();
        let mut replicas = Vec::new();
        for number in 1..=options.size {
            let mut start = Start::with_file(place.path().join(number.to_string()), issuer.as_str(), &key);
            start.log = options.log;
            start.algorithms.clone_from(&listed);
            replicas.push(start.ready().await);
        }
        let mut fleet = Self { issuer, replicas, forwarder, proxy, key, _place: place };
        fleet.connect().await;
        Some(fleet)
    }

    /// Kills a replica with SIGKILL and starts it again.
    ///
    /// # Panics
    /// If it does not come back.
    pub async fn restart(&mut self, at: usize) {
        let start = self.replicas.remove(at).kill().await;
        self.replicas.insert(at, start.ready().await);
        self.connect().await;
    }

    /// Starts each replica anew, one after the other, with `algorithm` in `issuer.algorithms` too.
    ///
    /// # Panics
    /// If one does not come back.
    pub async fn announce(&mut self, algorithm: Algorithm) {
        for at in 0..self.replicas.len() {
            let mut start = self.replicas.remove(at).kill().await;
            start.algorithms.push(algorithm);
            self.replicas.insert(at, start.ready().await);
        }
        self.connect().await;
    }

    /// The keys of its ring, private halves included, for tokens that no replica would mint.
    ///
    /// # Panics
    /// If the ring cannot be read.
    pub fn keys(&self) -> Vec<TestKey> {
        keys::of_ring(&self.key)
    }

    /// Where its documents are.
    pub fn front(&self) -> SocketAddr {
        self.proxy.as_ref().map_or_else(|| self.forwarder.address(), nginx::Proxy::address)
    }

    async fn connect(&mut self) {
        let backends: Vec<_> = self.replicas.iter().map(|replica| replica.documents).collect();
        if let Some(proxy) = &mut self.proxy {
            proxy.set_backends(backends.clone()).await;
        }
        self.forwarder.set_backends(backends);
    }
}

async fn make_ring(key: &std::path::Path, issuer: &IssuerUrl, options: &FleetOptions) {
    let mut request = InitRequest::new(issuer.clone());
    request.algorithms.clone_from(&options.algorithms);
    // A file that is gone wakes nobody, so what notices it is the timer: once a second is enough for a test.
    request.rotation.refresh_s = 1;
    request.rotation.jwks_max_age_s = options.jwks_max_age_s;
    request.rotation.shared_cache = options.shared_cache;
    let provider = FileProvider::new(key).assume_durable(true);
    init(&provider, request, &SystemClock).await.expect("a first ring");
}
