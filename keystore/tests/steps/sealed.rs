//! Key verbs on a sealed ring: new halves are sealed too, and nothing that a replica would not believe is changed.

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::Clock;
use oneseal_keystore::executor::{Done, ExecuteError, Executor, NoRegistry};
use oneseal_keystore::fleet::{FactKey, Facts, Fleet, Peer, PeerState, RingFacts};
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::ring::KeyState;
use oneseal_keystore::seal::Kek;
use oneseal_keystore::steps::{Adoption, Key, Request};
use oneseal_keystore::{Algorithm, InitRequest, KeyId, Rotation, init};
use oneseal_providers::SecretProvider;
use oneseal_testing::rings::{kek_bytes, kek_provider};
use oneseal_testing::{FixedClock, MemoryProvider};
use serde_json::Value;

use super::fleet::Rows;
use super::{T0, activate, issuer, order, revoke, roll_back, rotate};

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
    ring.order(&[1], revoke()).await.unwrap();
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

/// A sealed ring beside three replicas, of which `a` has both KEKs and `b` and `c` only the first.
struct Watched {
    ring: Sealed,
    rows: Arc<Rows>,
    clock: Arc<FixedClock>,
}

impl Watched {
    async fn new() -> Self {
        let (rows, clock) = (Arc::new(Rows::default()), Arc::new(FixedClock::at(T0)));
        let watched = Self { ring: Sealed::new(&[1]).await, rows, clock };
        watched.beat(|facts| facts.minting = "on".to_owned()).await;
        watched
    }

    fn executor(&self, keks: &[u8]) -> Executor {
        let mut options = super::options(Rotation::lab());
        options.keks = keks.iter().map(|number| kek_provider(*number)).collect();
        Executor::new(self.ring.provider.clone(), options, self.rows.clone(), self.clock.clone())
    }

    async fn order(&self, keks: &[u8], request: Request) -> Result<Done, ExecuteError> {
        self.executor(keks).execute(&order(request)).await
    }

    /// Every row is that of a replica that serves the ring as it is; `b` and `c` are told of by `change`.
    async fn beat(&self, change: impl Fn(&mut Facts)) {
        let now = self.clock.wall();
        self.rows.set(Fleet { now, peers: Vec::new() });
        let executor = self.executor(&[2, 1]);
        let state = executor.look().await.unwrap().state;
        let ids = |numbers: &[u8]| {
            let id = |number: &u8| Kek::from_bytes(kek_bytes(*number)).unwrap().id().to_owned();
            numbers.iter().map(id).collect::<Vec<_>>()
        };
        let peer = |name: &str, keks: &[u8]| {
            let kek_ids = ids(keks);
            let has = |key: &Key| key.sealed_under.as_ref().is_some_and(|kek| kek_ids.contains(kek));
            let keys = state.keys.iter().map(|key| FactKey {
                kid: key.kid.clone(),
                thumbprint: key.thumbprint.to_string(),
                alg: key.algorithm.as_str().to_owned(),
                state: key.state,
                signs: key.state == KeyState::Active && has(key),
                has_private: has(key),
                served_for_s: None,
            });
            let mut facts = Facts {
                version: "0.1.0".to_owned(),
                issuer: issuer().as_str().to_owned(),
                ring: RingFacts {
                    incarnation: state.incarnation,
                    incarnation_id: Some("life".to_owned()),
                    revision: state.revision,
                    digest: state.digest.to_string(),
                    jwks_digest: state.digest.to_string(),
                },
                keys: keys.collect(),
                max_age_s: 2,
                serving: true,
                ready: true,
                minting: "on".to_owned(),
                age_s: 0,
                kek_ids,
                clock_offset_ms: None,
            };
            if name != "a" {
                change(&mut facts);
            }
            Peer {
                instance: name.to_owned(),
                boot_id: "boot".to_owned(),
                state: PeerState::Live,
                seen_at: now,
                joined_at: T0,
                ops_address: None,
                facts: Ok(facts),
            }
        };
        let peers = vec![peer("a", &[2, 1]), peer("b", &[1]), peer("c", &[1])];
        self.rows.set(Fleet { now, peers });
    }

    /// Refused, with these replicas named.
    async fn refused(&self, keks: &[u8], request: Request) {
        let before = self.ring.document().await;
        let error = self.order(keks, request).await.unwrap_err();
        assert_eq!((error.code(), error.exit().unwrap().code()), ("fleet.cannot_open", 75), "{error}");
        assert!(error.to_string().starts_with("b, c could not sign with it"), "{error}");
        assert_eq!(self.ring.document().await, before);
    }
}

fn as_it_is(_: &mut Facts) {}

#[tokio::test]
async fn no_key_is_sealed_under_what_a_live_replica_cannot_open() {
    let watched = Watched::new().await;
    watched.refused(&[2, 1], rotate()).await;
    let (kid, algorithm) = (KeyId::parse("from-elsewhere").unwrap(), Algorithm::Es256);
    for is_published in [false, true] {
        let key = PrivateKey::parse(include_bytes!("../vectors/ring/p256.pem")).unwrap();
        let adoption = Adoption::Key { kid: kid.clone(), algorithm, key, is_published };
        watched.refused(&[2, 1], Request::Adopt(adoption)).await;
    }
    // One that opens nothing by its own choice needs no KEK.
    watched
        .beat(|facts| {
            facts.minting = "public_only".to_owned();
            facts.kek_ids.clear();
        })
        .await;
    watched.order(&[2, 1], rotate()).await.unwrap();
}

#[tokio::test]
async fn no_key_is_activated_that_a_live_replica_cannot_open() {
    let watched = Watched::new().await;
    // Sealed by somebody who asked nobody.
    watched.ring.order(&[2, 1], rotate()).await.unwrap();
    watched.clock.advance(Duration::from_secs(60));
    watched.beat(as_it_is).await;
    watched.refused(&[2, 1], activate()).await;
    let next = watched.executor(&[2, 1]).look().await.unwrap().next;
    assert!(next[0].blocked.as_ref().unwrap().starts_with("b, c could not sign"), "{next:?}");
    // To have the KEK is not enough where the half did not open all the same.
    let second = Kek::from_bytes(kek_bytes(2)).unwrap().id().to_owned();
    watched.beat(|facts| facts.kek_ids.push(second.clone())).await;
    watched.refused(&[2, 1], activate()).await;
    let opens = |facts: &mut Facts| {
        facts.kek_ids.push(second.clone());
        facts.keys.iter_mut().for_each(|key| key.has_private = true);
    };
    watched.beat(opens).await;
    watched.order(&[2, 1], activate()).await.unwrap();
    // And back, to what they have always had; and forward again, to what they have not.
    watched.beat(as_it_is).await;
    watched.order(&[2, 1], roll_back()).await.unwrap();
    watched.beat(as_it_is).await;
    watched.refused(&[2, 1], roll_back()).await;
}

#[tokio::test]
async fn an_emergency_burns_all_the_same_and_says_who_will_not_mint() {
    let watched = Watched::new().await;
    let done = watched.order(&[2, 1], revoke()).await.unwrap();
    assert!(done.notes[0].starts_with("b, c will mint nothing with the successors"), "{:?}", done.notes);
    // They hold no private half at all now, and are no public-only replicas for that.
    watched.beat(|facts| facts.minting = "emergency".to_owned()).await;
    let error = watched.order(&[2, 1], activate()).await.unwrap_err();
    assert_eq!(error.code(), "keys.too_early", "{error}");
    assert!(error.to_string().contains("b (cannot open it"), "{error}");
    watched.clock.advance(Duration::from_secs(3));
    watched.beat(|facts| facts.minting = "emergency".to_owned()).await;
    let done = watched.order(&[2, 1], activate()).await.unwrap();
    assert!(done.notes[0].contains("not waited for any longer: b (cannot open it"), "{:?}", done.notes);

    let watched = Watched::new().await;
    assert!(watched.order(&[1, 2], revoke()).await.unwrap().notes.is_empty(), "everybody has that one");
}
