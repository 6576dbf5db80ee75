//! What the registry's rows do to a step: who is waited for, who is named, who does not count.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use oneseal_coordination::UnixTime;
use oneseal_keystore::executor::{Executor, NoRegistry, ObserveError, Observed, Observer, Recovery};
use oneseal_keystore::fleet::{FactKey, Facts, Fleet, Peer, PeerState, RingFacts};
use oneseal_keystore::ring::KeyState;
use oneseal_keystore::steps::Refusal;
use oneseal_keystore::{Algorithm, Keystore, Rotation};
use oneseal_providers::{ErrorKind, SecretProvider};
use oneseal_testing::{FixedClock, MemoryProvider};

use super::{Bench, T0, activate, due, options, order, revoke, rotate, until};

/// Rows that the test writes.
#[derive(Debug, Default)]
pub(crate) struct Rows(Mutex<Option<Fleet>>);

impl Rows {
    #[cfg(feature = "seal")]
    pub(crate) fn set(&self, fleet: Fleet) {
        self.0.lock().unwrap().replace(fleet);
    }
}

impl Observer for Rows {
    fn observe(&self) -> Pin<Box<dyn Future<Output = Result<Observed, ObserveError>> + Send + '_>> {
        let seen = self.0.lock().unwrap().clone();
        let answer = seen.map(Observed::Fleet).ok_or_else(|| ObserveError("no database".into()));
        Box::pin(std::future::ready(answer))
    }
}

struct Watched {
    bench: Bench,
    rows: Arc<Rows>,
}

impl Watched {
    async fn new() -> Self {
        let rows = Arc::new(Rows::default());
        rows.0.lock().unwrap().replace(Fleet { now: T0, peers: Vec::new() });
        let bench = Bench::with(Rotation::lab(), &[Algorithm::Es256], rows.clone()).await;
        Self { bench, rows }
    }

    /// The fleet `at` seconds after the beginning.
    fn fleet(&self, at: i64, peers: Vec<Peer>) {
        self.rows.0.lock().unwrap().replace(Fleet { now: UnixTime(T0.as_secs() + at), peers });
    }

    /// A replica that serves what the store holds, each key for `served_for_s`.
    async fn peer(&self, name: &str, state: PeerState, served_for_s: Option<u64>, at: i64) -> Peer {
        let ring = self.bench.ring().await;
        let keys = ring.keys.iter().map(|key| FactKey {
            kid: key.kid.to_string(),
            thumbprint: key.public.thumbprint().to_string(),
            alg: key.algorithm.as_str().to_owned(),
            state: key.state,
            signs: key.state == KeyState::Active,
            has_private: true,
            served_for_s,
        });
        let facts = Facts {
            version: "0.1.0".to_owned(),
            issuer: "https://oidc.example".to_owned(),
            ring: RingFacts {
                incarnation: ring.identity.incarnation,
                incarnation_id: Some("life".to_owned()),
                revision: ring.identity.revision,
                digest: ring.identity.digest.to_string(),
                jwks_digest: ring.identity.digest.to_string(),
            },
            keys: keys.collect(),
            max_age_s: 2,
            serving: true,
            ready: true,
            minting: "on".to_owned(),
            age_s: 0,
            kek_ids: Vec::new(),
            clock_offset_ms: None,
        };
        Peer {
            instance: name.to_owned(),
            boot_id: "boot".to_owned(),
            state,
            seen_at: UnixTime(T0.as_secs() + at),
            joined_at: T0,
            ops_address: None,
            facts: Ok(facts),
        }
    }
}

fn facts(peer: &mut Peer) -> &mut Facts {
    peer.facts.as_mut().unwrap()
}

#[tokio::test]
async fn the_wait_begins_when_the_last_publish_point_serves_the_key() {
    let watched = Watched::new().await;
    watched.bench.order(rotate()).await.unwrap();
    let early = watched.peer("a", PeerState::Live, Some(20), 20).await;
    let late = watched.peer("b", PeerState::Live, Some(4), 20).await;
    watched.fleet(20, vec![early.clone(), late]);
    let refusal = watched.bench.refused(activate()).await;
    assert_eq!(until(&refusal), 16 + 2 + 2 + 1, "b answered without it until 16; H + C; a second");
    watched.fleet(21, vec![early]);
    watched.bench.order(activate()).await.unwrap();
}

#[tokio::test]
async fn a_silent_replica_blocks_and_is_named_and_a_joining_one_does_not_count() {
    let watched = Watched::new().await;
    watched.bench.order(rotate()).await.unwrap();
    let live = watched.peer("pod-1", PeerState::Live, Some(90), 90).await;
    let silent = watched.peer("pod-2", PeerState::Silent, Some(40), 40).await;
    watched.fleet(100, vec![live.clone(), silent]);
    let refusal = watched.bench.refused(activate()).await;
    assert!(matches!(&refusal, Refusal::Blocked { replicas, .. } if replicas.len() == 1), "{refusal}");
    assert!(refusal.to_string().contains("pod-2 (silent since"), "{refusal}");
    assert_eq!(refusal.exit().code(), 75);
    let mut joining = watched.peer("pod-3", PeerState::Joining, None, 99).await;
    facts(&mut joining).keys.clear();
    watched.fleet(100, vec![live, joining]);
    watched.bench.order(activate()).await.unwrap();
}

#[tokio::test]
async fn a_live_replica_without_the_key_blocks_and_one_that_is_gone_counts_up_to_its_end() {
    let watched = Watched::new().await;
    let behind = watched.peer("slow", PeerState::Live, Some(99), 99).await;
    watched.bench.order(rotate()).await.unwrap();
    let ahead = watched.peer("quick", PeerState::Live, Some(99), 99).await;
    watched.fleet(99, vec![behind.clone(), ahead.clone()]);
    let refusal = watched.bench.refused(activate()).await;
    assert!(refusal.to_string().contains("slow (serves revision 1)"), "{refusal}");
    let gone = Peer { state: PeerState::Gone, seen_at: UnixTime(T0.as_secs() + 98), ..behind };
    watched.fleet(99, vec![gone, ahead]);
    assert_eq!(until(&watched.bench.refused(activate()).await), 98 + 2 + 2 + 1);
}

#[tokio::test]
async fn a_max_age_that_was_served_before_is_waited_for() {
    let watched = Watched::new().await;
    watched.bench.order(rotate()).await.unwrap();
    let mut peer = watched.peer("a", PeerState::Live, Some(10), 10).await;
    facts(&mut peer).max_age_s = 300;
    watched.fleet(10, vec![peer]);
    let refusal = watched.bench.refused(activate()).await;
    assert_eq!((until(&refusal), refusal.because().unwrap().knob), (303, "rotation.jwks_max_age"));
}

#[tokio::test]
async fn nothing_is_written_while_a_replica_is_ahead_or_differs_or_the_registry_is_away() {
    let watched = Watched::new().await;
    let mut peer = watched.peer("a", PeerState::Live, None, 1).await;
    facts(&mut peer).ring.revision = 9;
    watched.fleet(1, vec![peer.clone()]);
    for request in [rotate(), due(), revoke()] {
        assert_eq!(watched.bench.refused(request).await.code(), "fleet.behind");
    }
    facts(&mut peer).ring.revision = 1;
    facts(&mut peer).ring.digest = "0".repeat(64);
    watched.fleet(1, vec![peer]);
    assert_eq!(watched.bench.refused(rotate()).await.code(), "fleet.jwks_differs");
    watched.rows.0.lock().unwrap().take();
    let error = watched.bench.executor.execute(&order(rotate())).await.unwrap_err();
    assert_eq!((error.code(), error.exit().unwrap().code()), ("keys.registry_unavailable", 69));
}

/// Rows that are read while another replica changes the ring and tells so: between any two looks at the store.
#[derive(Debug)]
struct OthersWrite {
    rows: Arc<Rows>,
    provider: Arc<MemoryProvider>,
    peer: Mutex<Option<Peer>>,
}

impl Observer for OthersWrite {
    fn observe(&self) -> Pin<Box<dyn Future<Output = Result<Observed, ObserveError>> + Send + '_>> {
        Box::pin(async {
            let peer = self.peer.lock().unwrap().take();
            if let Some(mut peer) = peer {
                let clock = Arc::new(FixedClock::at(T0));
                let other = Executor::new(
                    self.provider.clone(),
                    options(Rotation::lab()),
                    Arc::new(NoRegistry),
                    clock,
                );
                let done = other.execute(&order(rotate())).await.unwrap();
                facts(&mut peer).ring.revision = done.state.revision;
                facts(&mut peer).ring.digest = done.state.digest.to_string();
                self.rows.0.lock().unwrap().replace(Fleet { now: T0, peers: vec![peer] });
            }
            self.rows.observe().await
        })
    }
}

/// The ring is never older than the rows by which it is judged: a store that has less than a replica serves has lost it.
#[tokio::test]
async fn another_writer_between_two_looks_is_no_loss_of_the_store() {
    let watched = Watched::new().await;
    let peer = watched.peer("other", PeerState::Live, Some(9), 0).await;
    let observer = OthersWrite {
        rows: watched.rows.clone(),
        provider: watched.bench.provider.clone(),
        peer: Mutex::new(Some(peer)),
    };
    let executor = Executor::new(
        watched.bench.provider.clone(),
        options(Rotation::lab()),
        Arc::new(observer),
        watched.bench.clock.clone(),
    );
    let done = executor.execute(&order(revoke())).await.unwrap();
    assert_eq!(done.state.revision, 3, "after the other's");
}

#[tokio::test]
async fn a_healthy_fleet_learns_from_about_when_and_is_told_to_forget_nobody() {
    let watched = Watched::new().await;
    let peers = vec![
        watched.peer("a", PeerState::Live, Some(90), 100).await,
        watched.peer("b", PeerState::Live, Some(90), 100).await,
    ];
    watched.fleet(100, peers.clone());
    let done = watched.bench.order(rotate()).await.unwrap();
    let next = done.next.iter().find(|next| next.what == "activate").unwrap();
    // A beat, then H + C and the second that was cut off.
    assert_eq!(next.not_before, Some(UnixTime(T0.as_secs() + 100 + 4 + 2 + 2 + 1)));
    assert!(next.because.is_some());
    let awaited = next.blocked.clone().unwrap();
    assert!(awaited.contains("every live replica") && awaited.contains("within 4 s"), "{awaited}");
    assert!(!awaited.contains("forget") && !awaited.contains("a (serves"), "{awaited}");

    // One that stays behind is named, and is not to be forgotten.
    watched.fleet(120, peers.clone());
    let refusal = watched.bench.refused(activate()).await;
    assert!(refusal.to_string().contains("a (serves revision 1)"), "{refusal}");
    assert!(!refusal.to_string().contains("forget") && refusal.not_before().is_some(), "{refusal}");

    let mut silent = watched.peer("c", PeerState::Silent, Some(90), 100).await;
    facts(&mut silent).serving = true;
    watched.fleet(120, peers.into_iter().chain([silent]).collect());
    let refusal = watched.bench.refused(activate()).await;
    assert!(refusal.to_string().contains("`oneseal replicas forget`"), "{refusal}");
    assert_eq!(refusal.not_before(), None, "nobody knows how long it stays silent");
}

#[tokio::test]
async fn an_emergency_waits_for_those_that_answer_and_names_those_that_do_not() {
    let watched = Watched::new().await;
    let stale = watched.peer("stale", PeerState::Silent, None, 0).await;
    watched.bench.order(revoke()).await.unwrap();
    let fresh = watched.peer("fresh", PeerState::Live, Some(0), 1).await;
    watched.fleet(1, vec![fresh.clone(), stale.clone()]);
    assert_eq!(watched.bench.refused(activate()).await.because().unwrap().knob, "rotation.emergency_wait");
    watched.fleet(3, vec![fresh.clone(), stale]);
    let done = watched.bench.order(activate()).await.unwrap();
    assert!(done.notes[0].contains("stale (silent"), "{:?}", done.notes);

    let quick = Watched::new().await;
    quick.bench.order(revoke()).await.unwrap();
    let fresh = quick.peer("fresh", PeerState::Live, Some(0), 0).await;
    quick.fleet(0, vec![fresh]);
    let done = quick.bench.order(activate()).await.unwrap();
    assert!(done.notes.is_empty(), "all serve it: no wait at all");
}

/// Whoever serves the latest has it written back, and of two of one number nobody can tell which is right.
#[tokio::test]
async fn a_record_is_written_back_only_by_one_that_serves_the_latest_of_the_fleet() {
    let watched = Watched::new().await;
    let bench = &watched.bench;
    let clock = Arc::new(FixedClock::at(T0));
    let opened = Keystore::open(bench.provider.clone(), options(Rotation::lab()), clock).await;
    let kept = opened.unwrap().0.kept();
    let own = watched.peer("own", PeerState::Live, None, 0).await;
    let with = |state, change: fn(&mut RingFacts)| {
        let mut peer = Peer { instance: "other".to_owned(), state, ..own.clone() };
        change(&mut peer.facts.as_mut().unwrap().ring);
        vec![own.clone(), peer]
    };
    bench.provider.remove();
    let ask = async |dry_run| {
        let change_id = uuid::Uuid::new_v4();
        let order = Recovery { change_id, actor: "test".to_owned(), reason: String::new(), dry_run };
        bench.executor.recover(&order, kept.as_deref()).await
    };
    let later: fn(&mut RingFacts) = |ring| ring.revision += 1;
    let another: fn(&mut RingFacts) = |ring| ring.digest = "0".repeat(64);
    for (peers, words) in [
        (with(PeerState::Live, later), "have it written back by that one"),
        (with(PeerState::Silent, later), "forget it first"),
        (with(PeerState::Live, another), "stop the one that is wrong"),
    ] {
        watched.fleet(1, peers);
        let refused = ask(false).await.unwrap_err();
        assert_eq!(refused.code(), "keys.another_replica", "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
        assert_eq!(bench.provider.load().await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    let earlier: fn(&mut RingFacts) = |ring| ring.revision -= 1;
    for peers in [with(PeerState::Gone, later), with(PeerState::Live, earlier)] {
        watched.fleet(1, peers);
        assert!(ask(true).await.unwrap().notes.is_empty());
    }
    ask(false).await.unwrap();
    assert!(bench.provider.load().await.is_ok());
}
