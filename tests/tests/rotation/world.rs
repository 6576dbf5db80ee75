//! A fleet and its relying parties, and a time that passes when it is told to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::{Clock, EventDraft, UnixTime};
use oneseal_keystore::executor::{ExecuteError, Executor, NoRegistry, Order};
use oneseal_keystore::material;
use oneseal_keystore::ring::edit::{Draft, Signature};
use oneseal_keystore::seal::Keks;
use oneseal_keystore::steps::{self, Conditions, Edit, Floors, Observation, Refusal, Request};
use oneseal_keystore::{
    Algorithm, InitRequest, IssuerUrl, Keystore, KeystoreOptions, Rotation, Snapshot, init,
};
use oneseal_providers::{Change, Entries, FileProvider, SecretProvider};
use oneseal_testing::FixedClock;
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use super::caches::{AUDIENCE, Cache, Kind, Served};

pub(crate) const ISSUER: &str = "https://oidc.example";
const T0: UnixTime = UnixTime(1_800_000_000);
const TTL_S: i64 = 60;

/// Whether the floors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    Floors,
    /// The same decisions with spans of nothing: what somebody would do who edits the ring and does not wait.
    None,
}

pub(crate) struct World {
    _dir: TempDir,
    care: Care,
    clock: Arc<FixedClock>,
    provider: Arc<FileProvider>,
    executor: Executor,
    replicas: Vec<Replica>,
    caches: Vec<Cache>,
    tokens: VecDeque<(String, i64)>,
    /// By kind of cache, what went wrong.
    pub(crate) failures: BTreeMap<&'static str, Vec<String>>,
    pub(crate) verified: u64,
    /// How far the clock of who takes no care has run ahead: two commits of one second are two seconds to it.
    hurry_s: u64,
}

struct Replica {
    snapshot: Arc<Snapshot>,
    seen_at: i64,
    is_cut_off: bool,
}

impl World {
    /// Three replicas on one ring, with the times of a laboratory.
    pub(crate) async fn new(care: Care) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let provider = Arc::new(FileProvider::new(dir.path().join("ring.json")).assume_durable(true));
        let clock = Arc::new(FixedClock::at(T0));
        let mut request = InitRequest::new(issuer());
        request.algorithms = vec![Algorithm::Es256];
        request.rotation = Rotation::lab();
        init(&*provider, request, &*clock).await.expect("a ring");
        let executor = Executor::new(provider.clone(), options(), Arc::new(NoRegistry), clock.clone());
        let kinds = [
            Kind::UnknownKid { cooldown_s: 2 },
            Kind::TimeToLive { ttl_s: 2 },
            Kind::FollowsHeader,
            Kind::PinnedCopy { after_s: 2 },
        ];
        let caches = kinds.into_iter().flat_map(|kind| [0, 1].map(|age_s| Cache::new(kind, T0, age_s)));
        let mut world = Self {
            _dir: dir,
            care,
            clock,
            provider,
            executor,
            replicas: Vec::new(),
            caches: caches.collect(),
            tokens: VecDeque::new(),
            failures: BTreeMap::new(),
            verified: 0,
            hurry_s: 0,
        };
        for _ in 0..3 {
            let snapshot = world.load().await;
            world.replicas.push(Replica { snapshot, seen_at: T0.as_secs(), is_cut_off: false });
        }
        world
    }

    /// Every second each replica looks, mints, and each relying party judges what is in the world.
    pub(crate) async fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            self.follow().await;
            self.mint().await;
            self.verify().await;
        }
    }

    pub(crate) fn cut_off(&mut self, replica: usize) {
        self.replicas[replica].is_cut_off = true;
    }

    pub(crate) fn reach(&mut self, replica: usize) {
        self.replicas[replica].is_cut_off = false;
    }

    /// One key verb. Those who answer meanwhile answer from before: time does not stand still for a commit.
    pub(crate) async fn order(&mut self, request: Request) -> Result<(), Refusal> {
        if self.care == Care::None {
            return self.without_care(&request).await;
        }
        let order = Order {
            change_id: Uuid::new_v4(),
            actor: "test".to_owned(),
            reason: "a drill".to_owned(),
            request,
            unproven_replicas: true,
            dry_run: false,
        };
        match self.executor.execute(&order).await {
            Ok(_) => Ok(()),
            Err(ExecuteError::Refused(refusal)) => Err(refusal),
            Err(other) => panic!("{other}"),
        }
    }

    /// Asks every second until it is done; how many seconds that took.
    pub(crate) async fn until_done(&mut self, request: Request) -> u64 {
        let again = |request: &Request| match request {
            Request::Activate { .. } => Request::Activate { kid: None },
            _ => Request::Retire { kid: None },
        };
        let mut seconds = 0;
        loop {
            match self.order(again(&request)).await {
                Ok(()) => return seconds,
                Err(refusal) => assert!(refusal.not_before().is_some() && seconds < 300, "{refusal}"),
            }
            self.pass(1).await;
            seconds += 1;
        }
    }

    pub(crate) async fn keys(&self) -> usize {
        self.load().await.keys().len()
    }

    async fn load(&self) -> Arc<Snapshot> {
        let opened = Keystore::open(self.provider.clone(), options(), self.clock.clone()).await;
        let (keystore, _not_followed) = opened.unwrap_or_else(|found| panic!("{found}"));
        keystore.snapshot()
    }

    async fn follow(&mut self) {
        let (now, newest) = (self.clock.wall().as_secs(), self.load().await);
        for replica in self.replicas.iter_mut().filter(|replica| !replica.is_cut_off) {
            replica.snapshot = Arc::clone(&newest);
            replica.seen_at = now;
        }
    }

    async fn mint(&mut self) {
        let now = self.clock.wall().as_secs();
        for replica in &self.replicas {
            let limit_s = i64::try_from(replica.snapshot.rotation().staleness_limit_s).expect("small");
            if now - replica.seen_at > limit_s {
                continue;
            }
            let claims = json!({
                "iss": ISSUER, "aud": AUDIENCE, "sub": "pod", "iat": now, "nbf": now, "exp": now + TTL_S,
            });
            let token = replica.snapshot.sign(Algorithm::Es256, claims.to_string().as_bytes()).await;
            self.tokens.push_back((token.expect("a token"), now + TTL_S));
        }
        while self.tokens.front().is_some_and(|(_, exp)| *exp <= now) {
            self.tokens.pop_front();
        }
    }

    /// The newest tokens, and the oldest that still live, at every relying party; each asks another replica in turn.
    async fn verify(&mut self) {
        let now = self.clock.wall().as_secs();
        let newest = self.tokens.iter().rev().take(3);
        let sample: Vec<_> =
            newest.chain(self.tokens.iter().take(4)).map(|(token, _)| token.clone()).collect();
        let (issuer, clock) = (issuer(), Arc::clone(&self.clock) as Arc<dyn Clock>);
        for (i, cache) in self.caches.iter_mut().enumerate() {
            let turn = usize::try_from(now).expect("positive") + i;
            let served = served(&self.replicas[turn % self.replicas.len()].snapshot);
            for token in &sample {
                self.verified += 1;
                if let Err(reason) = cache.takes(token, &served, &issuer, &clock).await {
                    let told = format!("{} s: {reason}", now - T0.as_secs());
                    self.failures.entry(cache.kind.name()).or_default().push(told);
                }
            }
        }
    }

    async fn without_care(&mut self, request: &Request) -> Result<(), Refusal> {
        let record = self.provider.load().await.expect("a record");
        let (name, document) = record.entries.iter().next().expect("the ring");
        let mut draft = Draft::open(document.expose(), &issuer()).expect("a ring");
        draft.unlock(&Keks::default()).expect("its key");
        let state = draft.state().expect("a state");
        let nobody = Observation::Nobody { is_accepted: true };
        self.hurry_s += 2;
        let now = self.clock.wall() + Duration::from_secs(self.hurry_s);
        let mut conditions = Conditions::new(&state, nobody, None, &LISTED, now);
        conditions.floors = nothing(conditions.floors);
        let step = steps::decide(&state, request, &conditions)?;
        let wants_key = step.edits.iter().any(|edit| matches!(edit, Edit::Publish { .. }));
        let made = wants_key.then(|| {
            material::generate(&draft.permit().expect("a living ring"), Algorithm::Es256).expect("a key")
        });
        let by = Signature { change_id: Uuid::new_v4(), actor: "test", reason: "no patience", request: None };
        draft.apply(&step, &made.iter().collect::<Vec<_>>(), &by, conditions.now).expect("applied");
        let bytes = draft.commit(&by, conditions.now).expect("written").to_vec();
        let change = Change {
            id: by.change_id,
            actor: "test".to_owned(),
            reason: "no patience".to_owned(),
            event: EventDraft::new("test", "{}"),
            fence: None,
        };
        let entries = Entries::single(name, bytes);
        self.provider.replace(&record.revision, entries, change).await.expect("replaced");
        Ok(())
    }
}

fn served(snapshot: &Snapshot) -> Arc<Served> {
    Arc::new(Served {
        revision: snapshot.identity().revision,
        max_age_s: i64::try_from(snapshot.rotation().jwks_max_age_s).expect("small"),
        kids: snapshot.keys().iter().map(|key| key.kid.as_str().to_owned()).collect(),
        jwks: snapshot.jwks().clone(),
    })
}

fn nothing(floors: Floors) -> Floors {
    Floors {
        max_age_s: 0,
        stale_if_error_s: 0,
        propagation_s: 0,
        lead_s: 0,
        blind_s: 0,
        afterlife_s: 0,
        ..floors
    }
}

pub(crate) fn issuer() -> IssuerUrl {
    IssuerUrl::parse(ISSUER, "test").expect("good")
}

fn options() -> KeystoreOptions {
    let mut options = KeystoreOptions::new(issuer());
    options.algorithms = LISTED.to_vec();
    options.rotation = Rotation::lab();
    options
}

const LISTED: [Algorithm; 1] = [Algorithm::Es256];
