//! Key sets that come by other ways, alternate, lose a key, or put another one under its name.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use oneseal_relying_party::{KeyDocument, KeySource, KeySourceError, RelyingParty};
use oneseal_testing::FixedClock;
use support::{
    AUDIENCE, Answer, DISCOVERY, FakeIssuer, ISSUER, JWKS, clock, discovery, issuer_url, jwks_of, token,
    with_header,
};

const SECOND: Duration = Duration::from_secs(1);

fn lenient(issuer: &FakeIssuer, clock: &Arc<FixedClock>) -> RelyingParty {
    issuer.relying_party(clock).leeway(Duration::from_secs(600)).build().unwrap()
}

#[tokio::test]
async fn keys_of_replicas_that_alternate_stay_and_one_that_all_have_removed_ends() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    // Half of a fleet publishes one of the keys, half both, and whoever answers answers in turn.
    for round in 0..6 {
        let kids: &[&str] = if round % 2 == 0 { &["ed1"] } else { &["ed1", "ec1"] };
        issuer.answer(JWKS, Answer::ok(jwks_of(kids)));
        relying_party.refresh().await.unwrap();
        for id in ["ok-es256", "ok-eddsa"] {
            relying_party.verify(&token(id)).await.unwrap();
        }
        clock.advance(SECOND * 30);
    }
    // Removed by all: the next read is the first without it, the one half a minute later the second.
    let read = issuer.count(JWKS);
    issuer.answer(JWKS, Answer::ok(jwks_of(&["ed1"])));
    relying_party.refresh().await.unwrap();
    clock.advance(SECOND * 29);
    relying_party.verify(&token("ok-es256")).await.unwrap();
    assert_eq!(issuer.count(JWKS), read + 1);
    clock.advance(SECOND);
    relying_party.verify(&token("ok-es256")).await.unwrap();
    issuer.until_seen(JWKS, read + 2).await;
    relying_party.refresh().await.unwrap();
    let error = relying_party.verify(&token("ok-es256")).await.unwrap_err();
    assert_eq!(error.reason(), "unknown_kid");
}

#[tokio::test]
async fn a_removed_key_ends_after_a_minute_though_nobody_answers_any_more() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    issuer.answer(JWKS, Answer::ok(jwks_of(&["ed1"])));
    relying_party.refresh().await.unwrap();
    issuer.answer(JWKS, Answer::status(500));
    clock.advance(SECOND * 59);
    relying_party.verify(&token("ok-es256")).await.unwrap();
    relying_party.refresh().await.unwrap_err();
    clock.advance(SECOND);
    // Nothing says what became of it; the others serve on.
    assert!(relying_party.verify(&token("ok-es256")).await.unwrap_err().is_unavailable());
    relying_party.verify(&token("ok-eddsa")).await.unwrap();
}

#[tokio::test]
async fn a_set_that_was_out_of_use_lends_no_key_to_its_successor() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let limit = SECOND * 300;
    let builder = issuer.relying_party(&clock).leeway(Duration::from_secs(600)).stale_limit(limit);
    let relying_party = builder.build().unwrap();
    relying_party.refresh().await.unwrap();
    issuer.answer(JWKS, Answer::ok(jwks_of(&["ed1"])));
    clock.advance_boot(limit);
    relying_party.refresh().await.unwrap();
    assert_eq!(relying_party.verify(&token("ok-es256")).await.unwrap_err().reason(), "unknown_kid");
}

#[tokio::test]
async fn another_key_under_the_same_kid_is_learnt_once_the_interval_is_over_and_never_tried_beside() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    // The right key under another name, and another key under its name.
    let swapped = jwks_of(&["ed1", "ec1"]).replace("\"ec1\"", "\"x\"").replace("\"ed1\"", "\"ec1\"");
    issuer.answer(JWKS, Answer::ok(swapped));
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    let (good, forged) =
        (token("ok-es256"), with_header(&serde_json::json!({ "alg": "ES256", "kid": "ec1" })));
    let reason = async |token: &str| relying_party.verify(token).await.err().map(|error| error.reason());
    issuer.answer(JWKS, Answer::ok(jwks_of(&["ed1", "ec1"])));
    clock.advance(SECOND * 29);
    assert_eq!(reason(&good).await, Some("algorithm"));
    assert_eq!(issuer.count(JWKS), 1);
    clock.advance(SECOND);
    // It waits for nothing: the next one has the new key.
    assert_eq!(reason(&good).await, Some("algorithm"));
    issuer.until_seen(JWKS, 2).await;
    relying_party.refresh().await.unwrap();
    assert_eq!(reason(&good).await, None);
    // Nor is a flood of forged signatures a flood of reads.
    let read = issuer.count(JWKS);
    for _ in 0..3 {
        clock.advance(SECOND * 10);
        for _ in 0..100 {
            assert_eq!(reason(&forged).await, Some("signature"));
        }
    }
    issuer.until_seen(JWKS, read + 1).await;
    relying_party.refresh().await.unwrap();
    assert!(issuer.count(JWKS) <= read + 2);
}

#[tokio::test]
async fn keys_are_found_where_the_caller_says_though_discovery_leads_nowhere() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    issuer.answer(DISCOVERY, Answer::ok(discovery(ISSUER, "https://10.255.255.1:6443/openid/v1/jwks")));
    let by_uri = issuer.relying_party(&clock).jwks_uri("https://issuer.example/tenant/jwks").build().unwrap();
    by_uri.verify(&token("ok-es256")).await.unwrap();
    assert_eq!((issuer.count(DISCOVERY), issuer.count(JWKS)), (0, 1));
}

/// Keys by another way than HTTP: what was put there, as often as it is read.
#[derive(Debug, Default)]
struct Drawer {
    answers: Mutex<Vec<Drawn>>,
    reads: Mutex<usize>,
}

#[derive(Clone, Debug)]
enum Drawn {
    Set(String),
    Fails,
    Panics,
    Hangs,
}

impl KeySource for Drawer {
    fn read(&self) -> BoxFuture<'_, Result<KeyDocument, KeySourceError>> {
        Box::pin(async {
            *self.reads.lock().unwrap() += 1;
            let drawn = self.answers.lock().unwrap().pop().unwrap();
            match drawn {
                Drawn::Set(jwks) => {
                    Ok(KeyDocument { jwks: Bytes::from(jwks), max_age: Some(Duration::from_secs(40)) })
                }
                Drawn::Fails => Err(KeySourceError("the drawer is locked".into())),
                Drawn::Panics => panic!("the drawer fell"),
                Drawn::Hangs => std::future::pending().await,
            }
        })
    }
}

#[tokio::test]
async fn keys_that_the_caller_reads_are_judged_and_kept_as_fetched_ones_are() {
    let (drawer, clock) = (Arc::new(Drawer::default()), clock());
    let builder =
        RelyingParty::builder(issuer_url(ISSUER)).audience(AUDIENCE).clock(Arc::clone(&clock) as Arc<_>);
    let builder = builder.leeway(Duration::from_secs(600)).fetch_deadline(Duration::from_millis(50));
    let relying_party = builder.keys_from(Arc::clone(&drawer) as Arc<_>).build().unwrap();
    let put = |drawn: Drawn| drawer.answers.lock().unwrap().push(drawn);
    put(Drawn::Fails);
    let error = relying_party.verify(&token("ok-es256")).await.unwrap_err();
    assert_eq!((error.reason(), error.is_unavailable()), ("key_source", true));
    clock.advance(SECOND);
    put(Drawn::Set(jwks_of(&["ec1"])));
    relying_party.verify(&token("ok-es256")).await.unwrap();
    // Its max-age counts, and each failure leaves the set in use.
    clock.advance(SECOND * 39);
    relying_party.verify(&token("ok-es256")).await.unwrap();
    assert_eq!(*drawer.reads.lock().unwrap(), 2);
    for (drawn, reason) in [
        (Drawn::Fails, "key_source"),
        (Drawn::Hangs, "key_source"),
        (Drawn::Panics, "interrupted"),
        (Drawn::Set("{}".to_owned()), "no_keys_member"),
        (Drawn::Set(r#"{"keys":[]}"#.to_owned()), "no_usable_key"),
        (Drawn::Set(" ".repeat(256 * 1024 + 1)), "key_source"),
    ] {
        put(drawn.clone());
        assert_eq!(relying_party.refresh().await.unwrap_err().reason(), reason, "{drawn:?}");
        relying_party.verify(&token("ok-es256")).await.unwrap();
    }
}

#[tokio::test]
async fn whose_key_signed_a_token_is_told_without_a_fetch() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let keys = |kids: &[&str]| {
        let builder =
            RelyingParty::builder(issuer_url(ISSUER)).audience(AUDIENCE).clock(Arc::clone(&clock) as Arc<_>);
        builder.jwks(jwks_of(kids)).build().unwrap()
    };
    // Two places that call themselves by one name, and a third with another key under the first one's kid.
    let (a, b) = (keys(&["ec1"]), keys(&["ed1"]));
    let liar = RelyingParty::builder(issuer_url(ISSUER)).audience(AUDIENCE);
    let liar = liar.jwks(jwks_of(&["ed1"]).replace("\"ed1\"", "\"ec1\"")).build().unwrap();
    let cold = issuer.relying_party(&clock).build().unwrap();
    assert!(!a.holds_key_of(&token("ok-es256")), "nothing is held before the first read");
    for relying_party in [&a, &b, &liar] {
        relying_party.refresh().await.unwrap();
    }
    assert!(a.holds_key_of(&token("ok-es256")) && !a.holds_key_of(&token("ok-eddsa")));
    assert!(b.holds_key_of(&token("ok-eddsa")) && !b.holds_key_of(&token("ok-es256")));
    assert!(!liar.holds_key_of(&token("ok-es256")));
    // It says who signed, and nothing else of the token.
    assert!(a.holds_key_of(&token("exp-just-past-leeway")));
    for other in ["iss-trailing-slash", "kid-unknown", "sig-r0", "five-parts-jwe-shape"] {
        assert!(!a.holds_key_of(&token(other)), "{other}");
    }
    assert!(!cold.holds_key_of(&token("ok-es256")));
    assert_eq!(issuer.seen(), []);
}
