//! Key verbs on a ring: what each does, what stands against it, and what no sequence of them can break.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod by_hand;
mod documents;
mod fleet;
mod page;
mod random;
mod recovering;
#[cfg(feature = "seal")]
mod sealed;
mod stores;

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::{Clock, UnixTime};
use oneseal_keystore::executor::{Done, ExecuteError, Executor, NoRegistry, Observer, Order};
use oneseal_keystore::ring::{self, KeyState, Ring};
use oneseal_keystore::steps::{Refusal, Request};
use oneseal_keystore::{Algorithm, InitRequest, IssuerUrl, KeystoreOptions, Rotation, init};
use oneseal_providers::SecretProvider;
use oneseal_testing::{FixedClock, MemoryProvider};
use serde_json::Value;
use uuid::Uuid;

pub(crate) const T0: UnixTime = UnixTime(1_800_000_000);
pub(crate) const LISTED: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

pub(crate) fn issuer() -> IssuerUrl {
    IssuerUrl::parse("https://oidc.example", "test").unwrap()
}

/// A ring in memory, a clock that stands still, and who may change the ring.
pub(crate) struct Bench {
    pub(crate) provider: Arc<MemoryProvider>,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) executor: Executor,
}

impl Bench {
    /// An ES256 ring with these times, without a registry.
    pub(crate) async fn new(times: Rotation) -> Self {
        Self::with(times, &[Algorithm::Es256], Arc::new(NoRegistry)).await
    }

    pub(crate) async fn with(times: Rotation, algorithms: &[Algorithm], observer: Arc<dyn Observer>) -> Self {
        Self::of(MemoryProvider::new(), times, algorithms, observer).await
    }

    pub(crate) async fn on(provider: MemoryProvider, times: Rotation) -> Self {
        Self::of(provider, times, &[Algorithm::Es256], Arc::new(NoRegistry)).await
    }

    async fn of(
        provider: MemoryProvider,
        times: Rotation,
        algorithms: &[Algorithm],
        observer: Arc<dyn Observer>,
    ) -> Self {
        let provider = Arc::new(provider);
        let clock = Arc::new(FixedClock::at(T0));
        let mut request = InitRequest::new(issuer());
        request.algorithms = algorithms.to_vec();
        request.rotation = times.clone();
        init(&*provider, request, &*clock).await.unwrap();
        let executor = Executor::new(provider.clone(), options(times), observer, clock.clone());
        Self { provider, clock, executor }
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(crate) async fn order(&self, request: Request) -> Result<Done, ExecuteError> {
        self.executor.execute(&order(request)).await
    }

    /// What was refused, and when it would not be.
    pub(crate) async fn refused(&self, request: Request) -> Refusal {
        match self.order(request).await {
            Err(ExecuteError::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn ring(&self) -> Ring {
        let record = self.provider.load().await.unwrap();
        ring::read(&record.entries, &issuer()).unwrap().0
    }

    pub(crate) async fn document(&self) -> Value {
        let record = self.provider.load().await.unwrap();
        serde_json::from_slice(record.entries.get("keyring.json").unwrap().expose()).unwrap()
    }

    /// Kid and state of each key, in the order of the document.
    pub(crate) async fn states(&self) -> Vec<(String, KeyState)> {
        self.ring().await.keys.iter().map(|key| (key.kid.to_string(), key.state)).collect()
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.wall().as_secs() - T0.as_secs()
    }
}

pub(crate) fn options(times: Rotation) -> KeystoreOptions {
    let mut options = KeystoreOptions::new(issuer());
    options.algorithms = LISTED.to_vec();
    options.rotation = times;
    options
}

pub(crate) fn order(request: Request) -> Order {
    Order {
        change_id: Uuid::new_v4(),
        actor: "test".to_owned(),
        reason: "because".to_owned(),
        request,
        unproven_replicas: true,
        dry_run: false,
    }
}

pub(crate) fn rotate() -> Request {
    Request::Rotate { algorithms: Vec::new(), rsa_bits: None }
}

pub(crate) fn activate() -> Request {
    Request::Activate { kid: None }
}

pub(crate) fn due() -> Request {
    Request::Retire { kid: None }
}

pub(crate) fn roll_back() -> Request {
    Request::RollBack { kid: None }
}

pub(crate) fn revoke() -> Request {
    Request::Revoke { kids: Vec::new(), since: None }
}

/// Seconds after the beginning at which a refusal ends.
pub(crate) fn until(refusal: &Refusal) -> i64 {
    refusal.not_before().unwrap_or_else(|| panic!("{refusal}")).as_secs() - T0.as_secs()
}
