//! Assertions as proof: whose are taken, for whom, how long and how often.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::{BoxFuture, join_all};
use oneseal::keystore::{Signer, material::PrivateKey};
use oneseal::proofs::{
    AssertionIssuer, AssertionProof, Grant, Proof as _, ProofError, ReplayGuard, ReplayUnavailable,
    SingleProcess,
};
use oneseal::{Algorithm, IssuerUrl, Strength, UnixTime, Voucher};
use oneseal_testing::FixedClock;
use serde_json::{Value, json};

use super::support::{ES256, ES256_OTHER, NOW, URL};

const CI: &str = "https://ci.example";
const BATCH: &str = "https://batch.example";

/// Somebody who signs.
struct Somebody {
    signer: Signer,
    jwks: String,
}

impl Somebody {
    fn with(pem: &str) -> Self {
        let key = PrivateKey::parse(pem.as_bytes()).expect("a key");
        let kid = key.public().thumbprint();
        let mut jwk = String::new();
        key.public().write_jwk(&mut jwk, Algorithm::Es256, &kid);
        let signer = Signer::new(&key, Algorithm::Es256, kid).expect("a signer");
        Self { signer, jwks: format!("{{\"keys\":[{jwk}]}}") }
    }

    fn sign(&self, claims: &Value) -> String {
        self.signer.sign_blocking(claims.to_string().as_bytes()).expect("signed")
    }

    fn sign_as(&self, typ: &str, claims: &Value) -> String {
        let payload = claims.to_string();
        let detached = self.signer.sign_detached(typ, payload.as_bytes()).expect("signed");
        detached.replacen("..", &format!(".{}.", URL_SAFE_NO_PAD.encode(payload)), 1)
    }
}

/// What a CI system would sign, with some of it changed; null takes away.
fn claims(changed: Value) -> Value {
    let now = NOW.as_secs();
    let mut claims = json!({
        "iss": CI, "sub": "job-7", "aud": URL, "iat": now, "exp": now + 300, "jti": "j-1", "ref": "main"
    });
    for (name, value) in changed.as_object().expect("an object") {
        match value {
            Value::Null => drop(claims.as_object_mut().expect("an object").shift_remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn own() -> IssuerUrl {
    IssuerUrl::parse(URL, "test").expect("good")
}

struct World {
    ci: Somebody,
    batch: Somebody,
    clock: Arc<FixedClock>,
    proof: AssertionProof,
}

fn world() -> World {
    let clock = Arc::new(FixedClock::at(NOW));
    world_with(Arc::new(SingleProcess::with_clock(Arc::<FixedClock>::clone(&clock))), clock)
}

fn world_with(guard: Arc<dyn ReplayGuard>, clock: Arc<FixedClock>) -> World {
    let (ci, batch) = (Somebody::with(ES256), Somebody::with(ES256_OTHER));
    let issuer = |name: &str, url: &str, jwks: &str| {
        AssertionIssuer::new(name, url).jwks(jwks.to_owned()).algorithms([Algorithm::Es256]).clock(Arc::<
            FixedClock,
        >::clone(
            &clock
        ))
    };
    let issuers = vec![issuer("ci", CI, &ci.jwks), issuer("batch", BATCH, &batch.jwks)];
    let proof = AssertionProof::new(issuers, &own(), guard).expect("good");
    World { ci, batch, clock, proof }
}

fn reason(outcome: Result<oneseal::VerifiedWorkload, ProofError>) -> &'static str {
    outcome.map_or_else(|error| error.reason(), |_| "ok")
}

#[tokio::test]
async fn an_assertion_says_who_a_workload_is_and_what_its_issuer_said_of_it() {
    let world = world();
    assert_eq!((world.proof.name(), world.proof.grant()), ("assertion", Grant::JwtBearer));
    assert!(world.proof.is_for(CI) && world.proof.is_for(BATCH) && !world.proof.is_for(URL));
    let workload = world.proof.verify(&world.ci.sign(&claims(json!({})))).await.expect("good");
    assert_eq!((workload.principal(), workload.strength()), ("job-7", Strength::SignedOnce));
    assert_eq!(workload.vouched_by(), &Voucher::AssertionIssuer("ci".to_owned()));
    let facts = workload.facts();
    assert_eq!(facts.names().collect::<Vec<_>>(), [("assertion_issuer", "ci"), ("subject", "job-7")]);
    assert_eq!(facts.claims()["ref"], "main");
    assert_eq!(workload.subject(), None);
}

#[tokio::test]
async fn what_is_not_for_here_alone_or_not_for_once_and_soon_is_refused() {
    let World { ci, batch, proof, .. } = world();
    let now = NOW.as_secs();
    let mut number = 0;
    let mut judge = |claims: Value| {
        number += 1;
        let mut claims = claims;
        if claims["jti"] == "j-1" {
            claims["jti"] = format!("own-{number}").into();
        }
        ci.sign(&claims)
    };
    let endpoint = format!("{URL}/token");
    for (changed, wanted) in [
        (json!({ "aud": [URL, "https://evil.example"] }), "audience"),
        (json!({ "aud": [URL] }), "audience"),
        (json!({ "aud": endpoint }), "audience"),
        (json!({ "aud": format!("{URL}/") }), "audience"),
        (json!({ "aud": "https://evil.example" }), "audience"),
        (json!({ "aud": null }), "claim_missing"),
        (json!({ "jti": null }), "claim_missing"),
        (json!({ "jti": "" }), "claim_malformed"),
        (json!({ "jti": 7 }), "claim_malformed"),
        (json!({ "jti": "x".repeat(256) }), "claim_malformed"),
        (json!({ "jti": "x".repeat(255) }), "ok"),
        (json!({ "jti": "a\nb" }), "claim_malformed"),
        (json!({ "jti": "\u{202e}j" }), "claim_malformed"),
        (json!({ "sub": null }), "claim_missing"),
        (json!({ "sub": "" }), "claim_malformed"),
        (json!({ "sub": "x".repeat(256) }), "claim_malformed"),
        (json!({ "sub": "x".repeat(255) }), "ok"),
        (json!({ "exp": null }), "claim_missing"),
        (json!({ "exp": now + 301 }), "lifetime"),
        (json!({ "exp": now + 86_400 * 365 }), "lifetime"),
        (json!({ "iat": null, "exp": now + 301 }), "lifetime"),
        (json!({ "iat": null }), "ok"),
        (json!({ "exp": now - 60, "iat": now - 100 }), "expired"),
        (json!({ "exp": now - 59, "iat": now - 100 }), "ok"),
        (json!({ "iat": now + 61, "exp": now + 120 }), "issued_in_future"),
        (json!({ "iat": now + 60, "exp": now + 360 }), "ok"),
        (json!({ "nbf": now + 61 }), "not_yet_valid"),
        (json!({ "iss": "https://ci.example/" }), "unknown_issuer"),
        (json!({ "iss": null }), "claim_missing"),
        // The key of another one.
        (json!({ "iss": BATCH }), "unknown_kid"),
    ] {
        let token = judge(claims(changed.clone()));
        assert_eq!(reason(proof.verify(&token).await), wanted, "{changed}");
    }
    for (typ, wanted) in [
        ("authorization-grant+jwt", "ok"),
        ("application/authorization-grant+jwt", "ok"),
        ("at+jwt", "type"),
        ("client-authentication+jwt", "type"),
    ] {
        let token = batch.sign_as(typ, &claims(json!({ "iss": BATCH, "jti": typ })));
        assert_eq!(reason(proof.verify(&token).await), wanted, "{typ}");
    }
    for garbage in ["", ".", "..", "a.b.c", &"x".repeat(1 << 20)] {
        assert!(proof.verify(garbage).await.is_err());
    }
}

#[tokio::test]
async fn an_assertion_is_taken_once_by_its_jti_whatever_its_text() {
    let World { ci, batch, clock, proof } = world();
    let first = ci.sign(&claims(json!({})));
    let all = join_all((0..16).map(|_| proof.verify(&first))).await;
    assert_eq!(all.into_iter().map(reason).filter(|reason| *reason == "ok").count(), 1);
    // Another signature, other claims, the same number.
    for changed in [json!({}), json!({ "sub": "job-8" }), json!({ "ref": "other" })] {
        assert_eq!(reason(proof.verify(&ci.sign(&claims(changed))).await), "replayed");
    }
    // The same number in another's books.
    assert_eq!(reason(proof.verify(&batch.sign(&claims(json!({ "iss": BATCH })))).await), "ok");
    // To the last second of its life.
    clock.advance(Duration::from_secs(359));
    assert_eq!(reason(proof.verify(&first).await), "replayed");
    clock.advance(Duration::from_secs(1));
    assert_eq!(reason(proof.verify(&first).await), "expired");
    let error = proof.verify(&first).await.expect_err("expired").to_string();
    assert!(!error.contains(&first[..20]) && !error.contains("j-1"), "{error}");
}

/// Refused, it was not used up: nobody who cannot sign, or signs nonsense, uses up a number.
#[tokio::test]
async fn what_is_refused_uses_nothing_up() {
    let World { ci, batch, proof, .. } = world();
    for bad in [
        batch.sign(&claims(json!({}))),
        ci.sign(&claims(json!({ "aud": "https://evil.example" }))),
        ci.sign(&claims(json!({ "exp": NOW.as_secs() + 900 }))),
        ci.sign(&claims(json!({ "sub": "x".repeat(300) }))),
        format!("{}A", ci.sign(&claims(json!({})))),
    ] {
        assert_ne!(reason(proof.verify(&bad).await), "ok");
    }
    assert_eq!(reason(proof.verify(&ci.sign(&claims(json!({})))).await), "ok");
}

#[derive(Debug, Default)]
struct Away {
    is_away: AtomicBool,
    behind: SingleProcess,
}

impl ReplayGuard for Away {
    fn use_once<'a>(
        &'a self,
        scope: &'a str,
        id: &'a str,
        until: UnixTime,
    ) -> BoxFuture<'a, Result<bool, ReplayUnavailable>> {
        if self.is_away.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(ReplayUnavailable("db.internal refused".into()))));
        }
        self.behind.use_once(scope, id, until)
    }
}

#[tokio::test]
async fn without_an_answer_of_the_guard_nothing_is_taken_and_nothing_used_up() {
    let clock = Arc::new(FixedClock::at(NOW));
    let behind = SingleProcess::with_clock(Arc::<FixedClock>::clone(&clock));
    let guard = Arc::new(Away { is_away: AtomicBool::new(true), behind });
    let World { ci, proof, .. } = world_with(Arc::<Away>::clone(&guard) as _, clock);
    let token = ci.sign(&claims(json!({})));
    let error = proof.verify(&token).await.expect_err("no answer");
    assert_eq!((error.reason(), error.retry_after()), ("replay_guard", Some(Duration::from_secs(5))));
    assert!(!error.to_string().contains("db.internal"), "{error}");
    guard.is_away.store(false, Ordering::SeqCst);
    assert_eq!(reason(proof.verify(&token).await), "ok");
    assert_eq!(reason(proof.verify(&token).await), "replayed");
}

#[tokio::test]
async fn a_key_file_is_followed_and_one_that_goes_bad_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ci.jwks.json");
    let (one, two) = (Somebody::with(ES256), Somebody::with(ES256_OTHER));
    fs::write(&path, &one.jwks).expect("written");
    let clock = Arc::new(FixedClock::at(NOW));
    let issuer = AssertionIssuer::new("ci", CI).jwks_file(&path).algorithms([Algorithm::Es256]).clock(Arc::<
        FixedClock,
    >::clone(
        &clock,
    ));
    let guard = Arc::new(SingleProcess::with_clock(Arc::<FixedClock>::clone(&clock)));
    let proof = AssertionProof::new(vec![issuer], &own(), guard).expect("good");
    let token = |somebody: &Somebody, jti: &str| somebody.sign(&claims(json!({ "jti": jti, "iat": null })));
    assert_eq!(reason(proof.verify(&token(&one, "1")).await), "ok");
    fs::write(&path, "{ half").expect("written");
    clock.advance_boot(Duration::from_secs(60));
    assert!(proof.probe().await.iter().any(|finding| finding.code.name == "assertion.keys_unreadable"));
    assert_eq!(reason(proof.verify(&token(&one, "2")).await), "ok");
    fs::write(&path, &two.jwks).expect("written");
    clock.advance_boot(Duration::from_secs(60));
    assert!(proof.probe().await.is_empty());
    assert_eq!(reason(proof.verify(&token(&two, "3")).await), "ok");
    // What is missing from one look counts until the second one.
    clock.advance_boot(Duration::from_secs(60));
    assert!(proof.probe().await.is_empty());
    assert_eq!(reason(proof.verify(&token(&one, "4")).await), "unknown_kid");
}

#[test]
fn each_mistake_of_an_issuer_has_its_name() {
    let somebody = Somebody::with(ES256);
    let good = |name: &str, url: &str| {
        AssertionIssuer::new(name, url).jwks(somebody.jwks.clone()).algorithms([Algorithm::Es256])
    };
    let refused = |issuers: Vec<AssertionIssuer>| {
        let found =
            AssertionProof::new(issuers, &own(), Arc::new(SingleProcess::new())).expect_err("refused");
        found.iter().map(|finding| finding.code.name).collect::<Vec<_>>()
    };
    assert_eq!(refused(vec![good("a b", CI)]), ["assertion.malformed"]);
    assert_eq!(refused(vec![good("ci", "ci")]), ["assertion.issuer"]);
    assert_eq!(refused(vec![good("ci", "http://ci.example")]), ["assertion.issuer"]);
    assert_eq!(refused(vec![good("ci", URL)]), ["assertion.own_issuer"]);
    assert_eq!(refused(vec![good("ci", CI), good("ci", BATCH)]), ["assertion.twice"]);
    assert_eq!(refused(vec![good("ci", CI), good("batch", CI)]), ["assertion.twice"]);
    for bad in [
        good("ci", CI).jwks("{}"),
        // It has no key that signs so.
        good("ci", CI).algorithms([Algorithm::Rs256]),
        good("ci", CI).algorithms([]),
        good("ci", CI).jwks_uri("http://ci.example/keys"),
        good("ci", CI).jwks_file("/nowhere/jwks.json"),
        good("ci", CI).jwks_file("/"),
        good("ci", CI).jwks_uri("https://ci.example/keys").root_certificate_file("/nowhere/ca.pem"),
        good("ci", CI).jwks_uri("https://ci.example/keys").proxy("proxy:3128"),
    ] {
        assert_eq!(refused(vec![bad.clone()]), ["assertion.keys"], "{bad:?}");
    }
    assert_eq!(
        refused(vec![good("a b", CI), good("ci", URL)]),
        ["assertion.malformed", "assertion.own_issuer"]
    );
}
