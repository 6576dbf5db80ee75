//! Relying parties around real replicas: every tick each replica mints, and everybody verifies what is in the world.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use oneseal::{IssuerUrl, SystemClock};
use oneseal_coordination::Clock;
use oneseal_keystore::verify::UnverifiedJws;
use oneseal_tests::Replica;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::caches::{Cache, Kind, Served};
use crate::support::pod;

/// What relying parties have seen.
pub(crate) struct World {
    issuer: IssuerUrl,
    clock: Arc<dyn Clock>,
    caches: Vec<Cache>,
    /// Each body in the order in which it was first served: its place is the set's revision here.
    bodies: Vec<Bytes>,
    tokens: VecDeque<String>,
    turn: usize,
    pub(crate) verified: u64,
    /// By who saw it, what went wrong.
    pub(crate) failures: BTreeMap<&'static str, Vec<String>>,
}

impl World {
    pub(crate) fn new(issuer: &IssuerUrl) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let kinds = [
            Kind::UnknownKid { cooldown_s: 2 },
            Kind::TimeToLive { ttl_s: 2 },
            Kind::FollowsHeader,
            Kind::PinnedCopy { after_s: 2 },
        ];
        let now = clock.wall();
        let caches = kinds.into_iter().flat_map(|kind| [0, 1].map(|age_s| Cache::new(kind, now, age_s)));
        Self {
            issuer: issuer.clone(),
            caches: caches.collect(),
            clock,
            bodies: Vec::new(),
            tokens: VecDeque::new(),
            turn: 0,
            verified: 0,
            failures: BTreeMap::new(),
        }
    }

    /// Goes on until `cancel`.
    pub(crate) async fn live(&mut self, replicas: &[Replica], cancel: &CancellationToken) {
        let mut ticks = tokio::time::interval(TICK);
        while !cancel.is_cancelled() {
            ticks.tick().await;
            self.turn(replicas).await;
        }
    }

    async fn turn(&mut self, replicas: &[Replica]) {
        let mut served = Vec::new();
        for replica in replicas {
            served.push(Arc::new(self.look(replica).await));
        }
        // Minted after each replica has been looked at: what signs now was published everywhere before.
        for replica in replicas {
            let answer = replica.try_mint(&pod()).await;
            if !answer.status.is_success() {
                self.fail("minting", format!("{} {:?}", answer.status, answer.body));
                continue;
            }
            let token = answer.json()["token"].as_str().unwrap().to_owned();
            let kid = UnverifiedJws::parse(&token).unwrap().kid().unwrap().to_owned();
            for (i, set) in served.iter().enumerate() {
                self.verified += 1;
                if !set.kids.contains(&kid) {
                    self.fail("a replica", format!("{kid} signs and replica {i} did not serve it"));
                }
            }
            self.tokens.push_back(token);
        }
        self.verify(&served).await;
    }

    /// The newest tokens and the oldest that still live.
    async fn verify(&mut self, served: &[Arc<Served>]) {
        let now = self.clock.wall().as_secs();
        while self.tokens.front().is_some_and(|token| expires_at(token) <= now + 1) {
            self.tokens.pop_front();
        }
        let newest = self.tokens.iter().rev().take(3);
        let sample: Vec<_> = newest.chain(self.tokens.iter().take(4)).cloned().collect();
        self.turn += 1;
        let mut failures = Vec::new();
        for (i, cache) in self.caches.iter_mut().enumerate() {
            let set = &served[(self.turn + i) % served.len()];
            for token in &sample {
                self.verified += 1;
                if let Err(reason) = cache.takes(token, set, &self.issuer, &self.clock).await {
                    failures.push((cache.kind.name(), format!("turn {}: {reason}", self.turn)));
                }
            }
        }
        failures.into_iter().for_each(|(who, what)| self.fail(who, what));
    }

    async fn look(&mut self, replica: &Replica) -> Served {
        let answer = replica.get("/.well-known/jwks.json").await.unwrap();
        let max_age =
            answer.header("cache-control").split(',').find_map(|part| part.trim().strip_prefix("max-age="));
        let kids = answer.json()["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key["kid"].as_str().unwrap().to_owned())
            .collect();
        let known = self.bodies.iter().position(|body| *body == answer.body);
        let revision = known.unwrap_or_else(|| {
            self.bodies.push(answer.body.clone());
            self.bodies.len() - 1
        });
        Served {
            revision: u64::try_from(revision).unwrap(),
            max_age_s: max_age.unwrap().parse().unwrap(),
            kids,
            jwks: answer.body,
        }
    }

    fn fail(&mut self, who: &'static str, what: String) {
        self.failures.entry(who).or_default().push(what);
    }
}

fn expires_at(token: &str) -> i64 {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&payload).unwrap();
    claims["exp"].as_i64().unwrap()
}

const TICK: Duration = Duration::from_millis(100);
