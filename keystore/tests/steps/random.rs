//! Any sequence of verbs at any time: what must never happen does not.
//!
//! The ring is a real one, signed and read back after each commit by the same reader as a replica's. Beside it stands a
//! plain account of what the world has seen: when each key came, signed, stopped and went.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use oneseal_coordination::UnixTime;
use oneseal_keystore::material::{self, PrivateKey};
use oneseal_keystore::ring::edit::{Draft, Signature};
use oneseal_keystore::ring::{self, KeyState, Origin};
use oneseal_keystore::steps::{self, Conditions, Edit, Observation, Request, Step};
use oneseal_keystore::{Algorithm, Digest, InitRequest, Rotation, init};
use oneseal_providers::{Entries, SecretProvider};
use oneseal_testing::{FixedClock, MemoryProvider};
use proptest::prelude::*;
use uuid::Uuid;

use super::{T0, issuer};

const LISTED: [Algorithm; 2] = [Algorithm::Es256, Algorithm::EdDsa];

#[derive(Clone, Debug)]
enum Move {
    Pass(u64),
    Rotate(Option<Algorithm>),
    Activate(Option<usize>),
    Retire(Option<usize>),
    RollBack(Option<usize>),
    Revoke(Option<usize>),
    Times(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    let which = proptest::option::of(0..6_usize);
    let algorithm = proptest::option::of(prop_oneof![Just(Algorithm::Es256), Just(Algorithm::EdDsa)]);
    prop_oneof![
        4 => prop_oneof![0..4_u64, 5..12_u64, 50..70_u64, 80..200_u64].prop_map(Move::Pass),
        4 => algorithm.prop_map(Move::Rotate),
        5 => which.clone().prop_map(Move::Activate),
        3 => which.clone().prop_map(Move::Retire),
        2 => which.clone().prop_map(Move::RollBack),
        1 => which.prop_map(Move::Revoke),
        1 => (0..3_u64).prop_map(Move::Times),
    ]
}

/// What the world has seen of a key.
#[derive(Clone, Debug)]
struct Life {
    published_at: i64,
    signed_until: Option<i64>,
    state: Option<KeyState>,
    is_revoked: bool,
    floor_s: i64,
}

struct World {
    document: Vec<u8>,
    now: i64,
    times: Rotation,
    lives: BTreeMap<String, Life>,
    /// The longest life of a token since the ring began: no bound below it is safe for any key.
    longest_ttl_s: i64,
    in_emergency: BTreeSet<String>,
}

impl World {
    async fn new() -> Self {
        let provider = MemoryProvider::new();
        let mut request = InitRequest::new(issuer());
        request.algorithms = LISTED.to_vec();
        request.rotation = Rotation::lab();
        init(&provider, request, &FixedClock::at(T0)).await.unwrap();
        let record = provider.load().await.unwrap();
        let mut world = Self {
            document: record.entries.get("keyring.json").unwrap().expose().to_vec(),
            now: T0.as_secs(),
            times: Rotation::lab(),
            lives: BTreeMap::new(),
            longest_ttl_s: 60,
            in_emergency: BTreeSet::new(),
        };
        for (kid, _) in world.keys() {
            let life = Life {
                published_at: world.now,
                signed_until: Some(world.now),
                state: Some(KeyState::Active),
                is_revoked: false,
                floor_s: 0,
            };
            world.lives.insert(kid, life);
        }
        world
    }

    fn keys(&self) -> Vec<(String, KeyState)> {
        let (ring, _) = self.read();
        ring.keys.iter().map(|key| (key.kid.to_string(), key.state)).collect()
    }

    /// As a replica reads it: signature, log chain, halves, one active key for each algorithm.
    fn read(&self) -> (ring::Ring, oneseal_keystore::Findings) {
        let entries = Entries::single("keyring.json", self.document.clone());
        ring::read(&entries, &issuer()).unwrap_or_else(|found| panic!("{found}"))
    }

    fn play(&mut self, next: &Move) {
        let kid = |which: &Option<usize>| {
            let keys = self.keys();
            which.map(|i| keys[i % keys.len()].0.clone())
        };
        let request = match next {
            Move::Pass(seconds) => {
                self.now += i64::try_from(*seconds).unwrap();
                return;
            }
            Move::Rotate(algorithm) => {
                Request::Rotate { algorithms: algorithm.iter().copied().collect(), rsa_bits: None }
            }
            Move::Activate(which) => Request::Activate { kid: kid(which) },
            Move::Retire(which) => Request::Retire { kid: kid(which) },
            Move::RollBack(which) => Request::RollBack { kid: kid(which) },
            Move::Revoke(which) => Request::Revoke { kids: kid(which).into_iter().collect(), since: None },
            Move::Times(kind) => {
                let mut times = Rotation::lab();
                times.generation = self.times.generation + 1;
                times.rp_propagation_s = 2 + 20 * kind;
                times.publish_lead_s = Some(5 + 20 * kind);
                times.max_token_ttl_s = 60 + 15 * kind;
                self.times = times;
                Request::Retire { kid: None }
            }
        };
        self.carry_out(&request);
    }

    fn carry_out(&mut self, request: &Request) {
        let mut draft = Draft::open(&self.document, &issuer()).unwrap();
        draft.unlock(&oneseal_keystore::Keks::default()).unwrap();
        let state = draft.state().unwrap();
        let nobody = Observation::Nobody { is_accepted: true };
        let conditions = Conditions::new(&state, nobody, Some(&self.times), &LISTED, UnixTime(self.now));
        let Ok(step) = steps::decide(&state, request, &conditions) else { return };
        let made: Vec<PrivateKey> = step
            .edits
            .iter()
            .filter_map(|edit| match edit {
                Edit::Publish { algorithm, .. } => {
                    Some(material::generate(&draft.permit().expect("a living ring"), *algorithm).unwrap())
                }
                _ => None,
            })
            .collect();
        let by = Signature { change_id: Uuid::new_v4(), actor: "test", reason: "random", request: None };
        draft.apply(&step, &made.iter().collect::<Vec<_>>(), &by, conditions.now).unwrap();
        let before = self.read().0.identity;
        self.document = draft.commit(&by, conditions.now).unwrap().to_vec();
        let floors = &conditions.floors;
        let floor_s = i64::try_from(
            floors
                .lead_s
                .max(floors.blind_s + floors.max_age_s + floors.stale_if_error_s + floors.propagation_s),
        )
        .unwrap();
        self.check(before.digest, before.revision, &step, floor_s);
    }

    /// Holds the new revision against what the world had seen.
    fn check(&mut self, digest: Digest, revision: u64, step: &Step, floor_s: i64) {
        let (ring, _) = self.read();
        assert_eq!(ring.identity.revision, revision + 1);
        let Origin::Document { prev_digest, .. } = &ring.origin else { panic!("a document") };
        assert_eq!(*prev_digest, Some(digest));
        assert!((1..=10).contains(&ring.keys.len()), "never empty, never more than a relying party reads");
        self.longest_ttl_s =
            self.longest_ttl_s.max(i64::try_from(ring.rotation.as_ref().unwrap().max_token_ttl_s).unwrap());
        for edit in &step.edits {
            match edit {
                Edit::Revoke { kid } => self.lives.get_mut(kid).unwrap().is_revoked = true,
                Edit::Hasten { kid } => drop(self.in_emergency.insert(kid.clone())),
                _ => {}
            }
        }
        let burned = step.edits.iter().any(|edit| matches!(edit, Edit::Revoke { .. }));
        let text = String::from_utf8(self.document.clone()).unwrap();
        let mut there = BTreeSet::new();
        for key in &ring.keys {
            let kid = key.kid.to_string();
            assert!(there.insert(kid.clone()));
            let life = self.lives.entry(kid.clone()).or_insert_with(|| Life {
                published_at: self.now,
                signed_until: None,
                state: None,
                is_revoked: false,
                floor_s,
            });
            assert!(!life.is_revoked, "a burned key is gone");
            if life.state.is_none() && burned {
                self.in_emergency.insert(kid.clone());
            }
            let order = |state: Option<KeyState>| match state {
                None => 0,
                Some(KeyState::Pending) => 1,
                Some(KeyState::Active) => 2,
                Some(KeyState::Retiring) => 3,
            };
            let rolled_back =
                step.edits.iter().any(|edit| matches!(edit, Edit::RollBack { kid: k, .. } if *k == kid));
            assert!(order(Some(key.state)) >= order(life.state) || rolled_back, "{kid} goes back");
            let begins_to_sign = key.state == KeyState::Active && life.state != Some(KeyState::Active);
            if begins_to_sign && !rolled_back && !self.in_emergency.contains(&kid) {
                let floor_s = life.floor_s.max(floor_s);
                let waited_s = self.now - life.published_at;
                assert!(waited_s > floor_s, "P4: {kid} signs after {waited_s} s, the floor is {floor_s}");
            }
            if key.state == KeyState::Active || life.state == Some(KeyState::Active) {
                life.signed_until = Some(self.now);
                assert!(key.state != KeyState::Active || key.private.is_some());
            }
            life.state = Some(key.state);
        }
        let gone: Vec<_> =
            self.lives.iter().filter(|(kid, life)| life.state.is_some() && !there.contains(*kid)).collect();
        for (kid, life) in gone {
            if let (Some(signed_until), false) = (life.signed_until, life.is_revoked) {
                // A replica may have signed on for S and a request; the clocks may differ, and so on.
                let least = signed_until + 13 + 30 + 60 + 2 + 1;
                assert!(self.now > least, "P5: {kid} is gone {} s after it signed", self.now - signed_until);
            }
            let stone = format!("\"thumbprint\":\"{kid}\"");
            assert!(text.contains(&stone), "{kid} has a tombstone");
        }
        // A life that has ended is not begun again: its kid would fail `order` from here on.
        for (kid, life) in &mut self.lives {
            if !there.contains(kid) {
                life.state = Some(KeyState::Retiring);
                life.is_revoked = true;
            }
        }
        for key in ring.keys.iter().filter(|key| key.state == KeyState::Retiring && key.private.is_none()) {
            let history = key.history.as_ref().unwrap();
            assert!(history.erase_private_after.unwrap() <= UnixTime(self.now));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_verbs_breaks_a_promise(moves in proptest::collection::vec(moves(), 1..45)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut world = runtime.block_on(World::new());
        for next in &moves {
            world.play(next);
        }
        // However it went, the ring can be brought back to signing.
        world.now += i64::try_from(Duration::from_secs(300).as_secs()).unwrap();
        world.carry_out(&Request::Activate { kid: None });
        world.carry_out(&Request::Rotate { algorithms: Vec::new(), rsa_bits: None });
        assert!(world.keys().iter().any(|(_, state)| *state == KeyState::Active));
    }
}
