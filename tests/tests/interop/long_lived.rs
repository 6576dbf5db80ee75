//! One process of a library across an added algorithm and an added key, with its own caching: what it notices, when.
//!
//! The ring starts with RS256 alone while discovery lists ES256 too, as a relying party reads discovery once. Then an
//! ES256 key is added, then a second RS256 key, which signs from then on. The documents' `max-age` is one second
//! here, so that what is measured is the library; behind a shared cache the fleet's own `max-age` comes on top.

use std::time::Duration;

use futures_util::future::join_all;
use oneseal::{Algorithm, SystemClock};
use oneseal_coordination::Clock;
use oneseal_tests::keys::{self, TestKey};
use oneseal_tests::{Fleet, FleetOptions, Replica, http, nginx, state};
use serde_json::{Value, json};

use crate::adaptor::{Adaptor, Verdict};
use crate::libraries::{LIBRARIES, Library, Notices};
use crate::signing::{decode, encode, sign};

const JWKS: &str = "/.well-known/jwks.json";
/// How long CI waits; what takes longer is for `make soak`.
const SHORT: Duration = Duration::from_secs(45);
/// An attacker's tokens, each under a `kid` that nobody has.
const UNKNOWN: usize = 20;
/// How far what takes minutes may be off.
const LATE: Duration = Duration::from_secs(30);
/// More than the longest life of a cache, that of jose.
const LONGEST: Duration = Duration::from_secs(660);
/// How often a refused token is tried again.
const AGAIN: Duration = Duration::from_millis(250);

/// All libraries at one fleet, at the same time: most of it is waiting.
#[tokio::test]
async fn each_library_notices_an_added_algorithm_and_an_added_key_as_its_row_says() {
    let Some(fleet) = fleet().await else { return };
    let first = fleet.replicas[0].mint(&wanted("RS256")).await;
    let mut parties = started().await;
    warm(&mut parties, &fleet, &first).await;
    for algorithm in [Algorithm::Es256, Algorithm::Rs256] {
        let token = added(&fleet, algorithm).await;
        let shown = parties.iter_mut().map(|(library, adaptor)| shown(library, adaptor, &token));
        for (library, noticed) in join_all(shown).await {
            tell(&format!("{}: an added {algorithm} key: {noticed:?}", library.name));
            holds(library, &noticed);
        }
    }
    for (library, adaptor) in &mut parties {
        let most = library.fetches_under_attack;
        let fetches = attack(adaptor, &fleet, most).await;
        tell(&format!("{}: {fetches} fetches of the key set for {UNKNOWN} unknown kids", library.name));
        // Where fetching is rationed it depends on how long ago the last fetch was.
        let is_as_told = if most < UNKNOWN { fetches <= most } else { fetches == most };
        assert!(is_as_told, "{}: {fetches} fetches for {UNKNOWN} tokens, {most} expected", library.name);
        assert!(
            adaptor.verify(&first).await.is_accepted(),
            "{}: the first key's tokens live on",
            library.name
        );
    }
}

/// Ten minutes and more, so for `make soak` alone: how long a key that is gone is still trusted.
#[tokio::test]
async fn soak_each_library_trusts_a_removed_key_for_as_long_as_its_row_says() {
    if std::env::var_os("TEST_SOAK").is_none() {
        return;
    }
    let Some(fleet) = fleet().await else { return };
    let first = fleet.replicas[0].mint(&wanted("RS256")).await;
    let key = fleet.keys().remove(0);
    added(&fleet, Algorithm::Rs256).await;
    let mut parties = started().await;
    warm(&mut parties, &fleet, &first).await;
    keys::remove(&fleet.key, &key);
    everywhere(&fleet, |jwks| !jwks.contains(key.kid.as_str())).await;
    let trusted = parties.iter_mut().map(|(library, adaptor)| trusted(library, adaptor, &first));
    for (library, after) in join_all(trusted).await {
        tell(&format!("{}: a removed key's token was refused after {after:?}", library.name));
        let bound = library.trusts_removed_for_s.map(Duration::from_secs);
        let is_as_told = match (bound, after) {
            // Its cache was filled before the removal, and was shown the token every few seconds.
            (Some(bound), Some(after)) => after <= bound + LATE && after + LATE + LATE >= bound,
            (bound, after) => bound == after,
        };
        assert!(is_as_told, "{}: {after:?} instead of {bound:?}", library.name);
    }
}

/// Shows `token` until it is refused; `None`: not within longer than any of the libraries caches.
async fn trusted(
    library: &'static Library,
    adaptor: &mut Adaptor,
    token: &str,
) -> (&'static Library, Option<Duration>) {
    let began = SystemClock.boot();
    let mut ticks = tokio::time::interval(LATE / 6);
    loop {
        ticks.tick().await;
        let after = SystemClock.boot().since(began);
        if !adaptor.verify(token).await.is_accepted() {
            return (library, Some(after));
        }
        if after > LONGEST {
            return (library, None);
        }
    }
}

/// Three replicas behind a proxy, with one RS256 key, that announce ES256.
pub(crate) async fn fleet() -> Option<Fleet> {
    let options = FleetOptions {
        algorithms: vec![Algorithm::Rs256],
        announced: vec![Algorithm::Es256],
        jwks_max_age_s: 1,
        nginx: Some(nginx::Options::default()),
        ..FleetOptions::default()
    };
    Fleet::start_with(options).await
}

/// Each has accepted `first` with two algorithms configured.
async fn warm(parties: &mut [(&'static Library, Adaptor)], fleet: &Fleet, first: &str) {
    for (library, adaptor) in parties {
        adaptor.configure(fleet.issuer.as_str(), Some(&["RS256", "ES256"])).await;
        assert!(adaptor.verify(first).await.is_accepted(), "{}: a token of the first key", library.name);
    }
}

/// An adaptor of each library that is there; `TEST_LIBRARY` names the only one wanted, or a language.
pub(crate) async fn started() -> Vec<(&'static Library, Adaptor)> {
    let only = std::env::var("TEST_LIBRARY").unwrap_or_default();
    let is_wanted =
        |library: &&Library| only.is_empty() || library.name == only || library.language() == only;
    assert!(LIBRARIES.iter().any(|library| is_wanted(&library)), "{}", none_is_called(&only));
    let mut parties = Vec::new();
    for library in LIBRARIES.iter().filter(is_wanted) {
        if let Some(adaptor) = Adaptor::start(library).await {
            parties.push((library, adaptor));
        }
    }
    parties
}

fn none_is_called(name: &str) -> String {
    let names: Vec<_> = LIBRARIES.iter().map(|library| library.name).collect();
    let mut languages: Vec<_> = LIBRARIES.iter().map(|library| library.language()).collect();
    languages.dedup();
    format!(
        "no library and no language is called {name:?}; the libraries: {}; the languages: {}",
        names.join(", "),
        languages.join(", ")
    )
}

/// When the first token of a new key was accepted.
#[derive(Debug)]
struct Noticed {
    /// `None`: not while it was waited for.
    after: Option<Duration>,
    /// Its own names for why not, until then.
    refusals: Vec<String>,
}

/// Publishes a key, sees it everywhere, lets it sign, and sees that it does: a token of it.
pub(crate) async fn added(fleet: &Fleet, algorithm: Algorithm) -> String {
    let key = keys::fresh(&[algorithm]).await.remove(0);
    keys::publish(&fleet.key, &key);
    everywhere(fleet, |jwks| jwks.contains(key.kid.as_str())).await;
    keys::activate(&fleet.key, &key);
    let mut token = String::new();
    for replica in &fleet.replicas {
        token =
            state::until("every replica to sign with the key", async || signed_by(replica, &key).await).await;
    }
    token
}

/// Waits until each replica, and the proxy, serves a key set of which `is_so` holds.
async fn everywhere(fleet: &Fleet, is_so: impl Fn(&str) -> bool) {
    let replicas = fleet.replicas.iter().map(|replica| replica.documents);
    // The proxy last: what it has cached is asked for anew once it is a second old.
    for place in replicas.chain([fleet.front()]) {
        state::until("the key set to be served everywhere", async || {
            let jwks = http::get(place, JWKS).await.ok()?.body;
            is_so(&String::from_utf8_lossy(&jwks)).then_some(())
        })
        .await;
    }
}

async fn signed_by(replica: &Replica, key: &TestKey) -> Option<String> {
    let answer = replica.try_mint(&wanted(key.algorithm.as_str())).await;
    // Until the key is active there may be none of its algorithm.
    let token = answer.status.is_success().then(|| answer.json()["token"].as_str().map(str::to_owned))??;
    let header: Value = serde_json::from_slice(&decode(token.split('.').next()?)).ok()?;
    (header["kid"] == key.kid.as_str()).then_some(token)
}

/// Shows `token` until it is accepted, or for as long as the library is waited for.
async fn shown(library: &'static Library, adaptor: &mut Adaptor, token: &str) -> (&'static Library, Noticed) {
    let patience = patience(library);
    let began = SystemClock.boot();
    let mut refusals = Vec::new();
    let mut ticks = tokio::time::interval(AGAIN);
    loop {
        ticks.tick().await;
        let after = SystemClock.boot().since(began);
        match adaptor.verify(token).await {
            Verdict::Accepted(_) => return (library, Noticed { after: Some(after), refusals }),
            Verdict::Refused(error, _) if !refusals.contains(&error) => refusals.push(error),
            Verdict::Refused(..) => {}
        }
        if after > patience {
            return (library, Noticed { after: None, refusals });
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
            assert!(
                Duration::from_secs(bound_s) > patience(library),
                "{name}: within {bound_s} s: {noticed:?}"
            );
        }
        (Notices::AtOnce, None) => panic!("{name}: {noticed:?}"),
    }
}

/// How many fetches of the key set reach the proxy while unknown kids come in; where each is to cause one, it waits for
/// `most`, since the proxy writes down a request after its answer.
async fn attack(adaptor: &mut Adaptor, fleet: &Fleet, most: usize) -> usize {
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
    if most == UNKNOWN {
        state::until("every fetch in the proxy's log", async || (fetched() - before >= most).then_some(()))
            .await;
    }
    fetched() - before
}

pub(crate) fn wanted(alg: &str) -> Value {
    json!({ "sub": "pod-1", "aud": "test", "ttl_s": 3600, "alg": alg })
}

pub(crate) fn tell(text: &str) {
    #[expect(clippy::print_stdout, reason = "what was measured is shown with the test's output")]
    {
        println!("{text}");
    }
}
