//! Key verbs on a sealed ring: new halves are sealed too, and nothing that a replica would not believe is changed.

use std::sync::Arc;

use oneseal_keystore::executor::{Done, ExecuteError, Executor, NoRegistry};
use oneseal_keystore::steps::Request;
use oneseal_keystore::{Algorithm, InitRequest, Rotation, init};
use oneseal_providers::SecretProvider;
use oneseal_testing::rings::kek_provider;
use oneseal_testing::{FixedClock, MemoryProvider};
use serde_json::Value;

use super::{T0, issuer, order, rotate};

struct Sealed {
    provider: Arc<MemoryProvider>,
}

impl Sealed {
    async fn new(keks: &[u8]) -> Self {
        let provider = Arc::new(MemoryProvider::new());
        let mut request = InitRequest::new(issuer());
        request.algorithms = vec![Algorithm::Es256];
        request.rotation = Rotation::lab();
        request.keks = keks.iter().map(|number| kek_provider(*number)).collect();
        init(&*provider, request, &FixedClock::at(T0)).await.unwrap();
        Self { provider }
    }

    async fn order(&self, keks: &[u8], request: Request) -> Result<Done, ExecuteError> {
        let mut options = super::options(Rotation::lab());
        options.keks = keks.iter().map(|number| kek_provider(*number)).collect();
        let clock = Arc::new(FixedClock::at(T0));
        let executor = Executor::new(self.provider.clone(), options, Arc::new(NoRegistry), clock);
        executor.execute(&order(request)).await
    }

    async fn document(&self) -> Value {
        let record = self.provider.load().await.unwrap();
        serde_json::from_slice(record.entries.get("keyring.json").unwrap().expose()).unwrap()
    }
}

#[tokio::test]
async fn a_new_key_is_sealed_where_the_ring_is_and_the_old_halves_stay_as_they_are() {
    let ring = Sealed::new(&[1]).await;
    let before = ring.document().await;
    ring.order(&[1], rotate()).await.unwrap();
    let after = ring.document().await;
    assert_eq!(after["keys"][0]["sealed"], before["keys"][0]["sealed"]);
    assert_eq!(after["ring_key"]["sealed"], before["ring_key"]["sealed"]);
    assert!(after["keys"][1]["sealed"].is_string());
    assert!(!after.to_string().contains("\"private\""));
    // An emergency makes its keys sealed too.
    ring.order(&[1], super::revoke()).await.unwrap();
    assert!(!ring.document().await.to_string().contains("\"private\""));
}

#[tokio::test]
async fn without_the_kek_or_with_another_nothing_is_changed() {
    let ring = Sealed::new(&[1]).await;
    let before = ring.document().await;
    for keks in [&[][..], &[2]] {
        let error = ring.order(keks, rotate()).await.unwrap_err();
        assert_eq!(error.exit().unwrap().code(), 78, "{error:?}");
    }
    assert_eq!(ring.document().await, before);
}

#[tokio::test]
async fn under_a_kek_an_unsealed_ring_is_not_believed_by_a_writer_either() {
    let ring = Sealed::new(&[]).await;
    let before = ring.document().await;
    let error = ring.order(&[1], rotate()).await.unwrap_err();
    assert_eq!(error.code(), "ring.unauthentic", "{error:?}");
    assert_eq!(ring.document().await, before);
}
