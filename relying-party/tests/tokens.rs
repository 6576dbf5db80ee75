//! Every token of the vectors against a real issuer over TLS, on the vectors' clock.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;
mod support;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_keystore::Algorithm;
use oneseal_relying_party::{AudienceForm, Builder, RelyingParty, VerifyError};
use serde_json::{Value, json};
use support::{AUDIENCE, CLOCK, FakeIssuer, ISSUER, clock, token, vectors, with_header};

/// Where respected verifiers differ, and what is chosen here (the crate's front page says why).
const CHOSEN: [(&str, bool); 4] =
    [("kid-missing", true), ("cty-jwt", true), ("zip-in-jws", true), ("sig-high-s", true)];

/// As the vectors say.
fn relying_party(issuer: &FakeIssuer, vectors: &Value) -> RelyingParty {
    assert_eq!((vectors["issuer"].as_str(), vectors["audience"].as_str()), (Some(ISSUER), Some(AUDIENCE)));
    assert_eq!(vectors["clock"], CLOCK.as_secs());
    let allowed = vectors["allowed_algs"].as_array().unwrap();
    issuer
        .relying_party(&clock())
        .leeway(Duration::from_secs(vectors["leeway_s"].as_u64().unwrap()))
        .max_lifetime(Duration::from_secs(vectors["max_lifetime_s"].as_u64().unwrap()))
        .algorithms(allowed.iter().map(|name| name.as_str().unwrap().parse().unwrap()))
        .build()
        .unwrap()
}

fn is_accepted_by_us(case: &Value) -> bool {
    let id = case["id"].as_str().unwrap();
    match case["expect"].as_str().unwrap() {
        "accept" => true,
        "reject" => false,
        "either-but-clear" => CHOSEN.iter().find(|(known, _)| *known == id).expect("a choice for each").1,
        other => panic!("{id}: unknown verdict {other}"),
    }
}

/// A good header and a worthless signature around this payload.
fn with_payload(payload: &str) -> String {
    let good = token("ok-es256");
    let (header, rest) = good.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(payload))
}

#[tokio::test]
async fn each_vector_has_its_verdict() {
    let issuer = FakeIssuer::good().await;
    let vectors = vectors();
    let relying_party = relying_party(&issuer, vectors);
    relying_party.refresh().await.unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let outcome = relying_party.verify(case["token"].as_str().unwrap()).await;
        assert!(!outcome.as_ref().is_err_and(VerifyError::is_unavailable), "{}: {outcome:?}", case["id"]);
        if outcome.is_ok() != is_accepted_by_us(case) {
            wrong.push(format!("{} ({}): {outcome:?}", case["id"], case["why"]));
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
    assert_eq!(cases.len(), 99);
    // All of that on one read: the clock stands still, so no unknown kid is due.
    assert_eq!(issuer.count(support::JWKS), 1);
}

#[tokio::test]
async fn the_key_that_verified_is_reported() {
    let issuer = FakeIssuer::good().await;
    let relying_party = relying_party(&issuer, vectors());
    for (id, kid, algorithm) in [
        ("ok-es256", "ec1", Algorithm::Es256),
        ("ok-eddsa", "ed1", Algorithm::EdDsa),
        ("kid-missing", "ec1", Algorithm::Es256),
    ] {
        let verified = relying_party.verify(&token(id)).await.unwrap();
        assert_eq!((verified.kid.as_str(), verified.algorithm), (kid, algorithm), "{id}");
        assert_eq!(verified.claims.subject(), "system:serviceaccount:ns:app");
    }
}

#[tokio::test]
async fn subjects_are_compared_by_code_points() {
    let issuer = FakeIssuer::good().await;
    let verified = relying_party(&issuer, vectors()).verify(&token("sub-nfd")).await.unwrap();
    assert_eq!(verified.claims.subject(), "system:serviceaccount:ns:cafe\u{301}");
    assert_ne!(verified.claims.subject(), "system:serviceaccount:ns:caf\u{e9}");
}

#[tokio::test]
async fn no_address_in_a_token_is_ever_contacted() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let url = format!("http://{}/jwks", silent.local_addr().unwrap());
    let issuer = FakeIssuer::good().await;
    let vectors = vectors();
    let relying_party = relying_party(&issuer, vectors);
    let own = [
        json!({ "alg": "ES256", "kid": "evil", "jku": url }),
        json!({ "alg": "ES256", "kid": "ec1", "x5u": url }),
        json!({ "alg": "ES256", "jku": url, "x5u": url, "jwk": { "kty": "OKP" } }),
    ];
    let given = vectors["cases"].as_array().unwrap().iter().filter(|case| case["no_network"] == true);
    let given: Vec<String> = given.map(|case| case["token"].as_str().unwrap().to_owned()).collect();
    assert_eq!(given.len(), 2);
    for token in own.iter().map(with_header).chain(given) {
        assert!(!relying_party.verify(&token).await.unwrap_err().is_unavailable());
    }
    assert_eq!(silent.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // Every connection goes to our issuer, and asked for nothing but its own two documents by its own name.
    for seen in issuer.seen() {
        assert_eq!(seen.host, "issuer.example");
        assert!([support::DISCOVERY, support::JWKS].contains(&seen.path.as_str()), "{seen:?}");
    }
}

#[tokio::test]
async fn foreign_malformed_and_oversized_tokens_cost_no_request() {
    let issuer = FakeIssuer::good().await;
    let relying_party = relying_party(&issuer, vectors());
    let tokens = [
        token("iss-trailing-slash"),
        token("iss-missing"),
        token("dup-sub"),
        token("typ-secevent"),
        token("crit-unknown"),
        token("five-parts-jwe-shape"),
        token("kid-64k"),
        with_payload(&format!("{}{}", "[".repeat(5_000), "]".repeat(5_000))),
        String::new(),
        ".".repeat(1_000_000),
        format!("{}.{}.AAAA", "A".repeat(100), "A".repeat(10_000_000)),
    ];
    for token in tokens {
        let error = relying_party.verify(&token).await.unwrap_err();
        assert!(!error.is_unavailable(), "{error:?}");
    }
    assert_eq!(issuer.seen(), []);
}

#[tokio::test]
async fn errors_and_debug_hold_nothing_of_the_token() {
    let issuer = FakeIssuer::good().await;
    let relying_party = relying_party(&issuer, vectors());
    for header in [json!({ "alg": "canary", "kid": "canary" }), json!({ "alg": "ES256", "kid": "canary" })] {
        let error = relying_party.verify(&with_header(&header)).await.unwrap_err();
        let shown = format!("{error} {error:?} {}", std::error::Error::source(&error).unwrap());
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn what_else_is_asked_of_a_token_is_asked() {
    let issuer = FakeIssuer::good().await;
    let relying_party =
        |change: fn(Builder) -> Builder| change(issuer.relying_party(&clock())).build().unwrap();
    let good = token("ok-es256");
    for (change, wanted) in [
        ((|b| b.types(["at+jwt"])) as fn(Builder) -> _, "type"),
        (|b| b.sole_audience(AudienceForm::OnlyString).audience("x"), "audience"),
        (|b| b.require(["no-such-claim"]), "claim_missing"),
        (|b| b.max_age(Duration::ZERO).leeway(Duration::ZERO), "too_old"),
    ] {
        let refused = relying_party(change).verify(&good).await.unwrap_err();
        assert_eq!(refused.reason(), wanted);
    }
    relying_party(|b| b.types(["JWT"]).require(["iat"]).sole_audience(AudienceForm::OnlyString))
        .verify(&good)
        .await
        .unwrap();
}
