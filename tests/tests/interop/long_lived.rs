//! One process of a library across an added algorithm and an added key, with its own caching: what it notices, when.
//!
//! The ring starts with RS256 alone while discovery lists ES256 too, as a relying party reads discovery once. Then an
//! ES256 key is added, then a second RS256 key, which signs from then on. The documents' `max-age` is one second
//! here, so that what is measured is the library; behind a shared cache the fleet's own `max-age` comes on top.

use std::time::Duration;

use oneseal::{Algorithm, SystemClock};
use oneseal_coordination::Clock;
use oneseal_tests::keys::{self, TestKey};
use oneseal_tests::{Fleet, FleetOptions, Replica, http, nginx, state};
use serde_json::{Value, json};

use crate::adaptor::{Adaptor, Verdict};
use crate::libraries::{Library, Notices};
use crate::signing::{decode, encode, sign};

const JWKS: &str = "/.well-known/jwks.json";
/// How long CI waits; what takes longer is for `make soak`.
const SHORT: Duration = Duration::from_secs(45);
/// An attacker's tokens, each under a `kid` that nobody has.
const UNKNOWN: usize = 20;
/// How often a refused token is tried again.
const AGAIN: Duration = Duration::from_millis(250);

/// Takes `library` through both changes and an attack, and holds what it notices and fetches against its row.
///
/// # Panics
/// If it notices later or earlier than its row says, or fetches more.
pub(crate) async fn notices(library: &'static Library) {
    let Some(mut adaptor) = Adaptor::start(library).await else { return };
    let options = FleetOptions {
        algorithms: vec![Algorithm::Rs256],
        announced: vec![Algorithm::Es256],
        jwks_max_age_s: 1,
        nginx: Some(nginx::Options::default()),
        ..FleetOptions::default()
    };
    let Some(fleet) = Fleet::start_with(options).await else { return };
    let mut listed = vec!["RS256", "ES256"];
    listed.retain(|name| adaptor.algorithms.iter().any(|own| own == name));
    adaptor.configure(fleet.issuer.as_str(), Some(&listed)).await;
    let first = fleet.replicas[0].mint(&wanted("RS256")).await;
    assert!(adaptor.verify(&first).await.is_accepted(), "{}: a token of the first key", library.name);

    // Fetching again is rationed from the first fetch on, which has just been.
    let algorithm = added(&mut adaptor, &fleet, Algorithm::Es256, library).await;
    let key = added(&mut adaptor, &fleet, Algorithm::Rs256, library).await;
    assert!(adaptor.verify(&first).await.is_accepted(), "{}: tokens of the retiring key live on", library.name);
    let fetches = attack(&mut adaptor, &fleet).await;
    tell(library, &algorithm, &key, fetches);

    assert!(fetches <= library.fetches_under_attack, "{}: {fetches} fetches for {UNKNOWN} tokens", library.name);
    for noticed in [algorithm, key] {
        holds(library, &noticed);
    }
}

/// When the first token of a new key was accepted.
#[derive(Debug)]
struct Noticed {
    /// `None`: not while it was waited for.
    after: Option<Duration>,
    /// Its own names for why not, until then.
    refusals: Vec<String>,
}

/// Publishes a key, sees it on every replica, lets it sign, and shows its tokens until one is accepted.
async fn added(adaptor: &mut Adaptor, fleet: &Fleet, algorithm: Algorithm, library: &Library) -> Noticed {
    let key = keys::fresh(&[algorithm]).await.remove(0);
    keys::publish(&fleet.key, &key);
    let replicas = fleet.replicas.iter().map(|replica| replica.documents);
    // The proxy last: what it has cached is asked for anew once it is a second old.
    for place in replicas.chain([fleet.front()]) {
        state::until("the key to be published everywhere", async || {
            let jwks = http::get(place, JWKS).await.ok()?.body;
            String::from_utf8_lossy(&jwks).contains(key.kid.as_str()).then_some(())
        })
        .await;
    }
    keys::activate(&fleet.key, &key);
    let mut token = String::new();
    for replica in &fleet.replicas {
        token = state::until("every replica to sign with the key", async || signed_by(replica, &key).await).await;
    }
    shown(adaptor, &token, patience(library)).await
}

async fn signed_by(replica: &Replica, key: &TestKey) -> Option<String> {
    let answer = replica.try_mint(&wanted(key.algorithm.as_str())).await;
    // Until the key is active there may be none of its algorithm.
    let token = answer.status.is_success().then(|| answer.json()["token"].as_str().map(str::to_owned))??;
    let header: Value = serde_json::from_slice(&decode(token.split('.').next()?)).ok()?;
    (header["kid"] == key.kid.as_str()).then_some(token)
}

async fn shown(adaptor: &mut Adaptor, token: &str, patience: Duration) -> Noticed {
    let began = SystemClock.boot();
    let mut refusals = Vec::new();
    let mut ticks = tokio::time::interval(AGAIN);
    loop {
        ticks.tick().await;
        let after = SystemClock.boot().since(began);
        match adaptor.verify(token).await {
            Verdict::Accepted(_) => return Noticed { after: Some(after), refusals },
            Verdict::Refused(error, _) if !refusals.contains(&error) => refusals.push(error),
            Verdict::Refused(..) => {}
        }
        if after > patience {
            return Noticed { after: None, refusals };
        }
    }
}

/// As long as the library's own bound, and then some; in CI no longer than `SHORT`.
fn patience(library: &Library) -> Duration {
    let bound = match library.notices {
        Notices::AtOnce => Duration::ZERO,
        Notices::Within(bound_s) => Duration::from_secs(bound_s),
    };
    let wait = bound + bound / 4 + Duration::from_secs(10);
    if std::env::var_os("TEST_SOAK").is_some() { wait } else { wait.min(SHORT) }
}

fn holds(library: &Library, noticed: &Noticed) {
    let name = library.name;
    match (library.notices, noticed.after) {
        (Notices::AtOnce, Some(_)) => {
            assert!(noticed.refusals.is_empty(), "{name}: the first token is accepted: {noticed:?}");
        }
        (Notices::Within(_), Some(_)) => {}
        (Notices::Within(bound_s), None) => {
            assert!(Duration::from_secs(bound_s) > patience(library), "{name}: within {bound_s} s: {noticed:?}");
        }
        (Notices::AtOnce, None) => panic!("{name}: {noticed:?}"),
    }
}

/// How many fetches of the key set reach the proxy while unknown kids come in.
async fn attack(adaptor: &mut Adaptor, fleet: &Fleet) -> usize {
    let key = &fleet.keys()[0];
    let proxy = fleet.proxy.as_ref().unwrap();
    let fetched = || proxy.seen().iter().filter(|seen| seen.path == JWKS).count();
    let before = fetched();
    for number in 0..UNKNOWN {
        let header = json!({ "alg": "RS256", "kid": encode(format!("nobody {number}")), "typ": "JWT" });
        let claims = json!({ "iss": fleet.issuer.as_str(), "aud": "test", "sub": "pod-1" });
        let token = sign(key, key.algorithm, &header, &claims);
        assert!(!adaptor.verify(&token).await.is_accepted(), "a key that nobody has");
    }
    fetched() - before
}

fn wanted(alg: &str) -> Value {
    json!({ "sub": "pod-1", "aud": "test", "ttl_s": 3600, "alg": alg })
}

fn tell(library: &Library, algorithm: &Noticed, key: &Noticed, fetches: usize) {
    #[expect(clippy::print_stdout, reason = "what was measured is shown with the test's output")]
    {
        println!("{}: an added algorithm: {algorithm:?}", library.name);
        println!("{}: an added key: {key:?}", library.name);
        println!("{}: {fetches} fetches of the key set for {UNKNOWN} unknown kids", library.name);
    }
}
