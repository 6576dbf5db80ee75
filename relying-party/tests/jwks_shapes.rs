//! Every key set of the vectors, served by a real issuer: the kids that are held, and the good set that stays.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use oneseal_relying_party::RelyingParty;
use serde_json::Value;
use support::{Answer, FakeIssuer, JWKS, clock, token};

/// Where respected readers differ, what is held here (the crate's front page says why).
const CHOSEN: [(&str, &[&str]); 6] = [
    ("dup-kid-diff-key-same-alg", &[]),
    ("ec-long-coord", &[]),
    ("rsa-n-leading-zero", &[]),
    ("b64-padding", &[]),
    ("private-member", &["ec1"]),
    ("dup-keys-member", &[]),
];

fn cases() -> Vec<Value> {
    let vectors: Value = serde_json::from_str(include_str!("vectors/jwks-shapes.json")).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

fn body(case: &Value) -> String {
    case["raw"].as_str().map_or_else(|| case["document"].to_string(), str::to_owned)
}

fn usable(case: &Value) -> Vec<String> {
    let id = case["id"].as_str().unwrap();
    if let Some((_, kids)) = CHOSEN.iter().find(|(known, _)| *known == id) {
        return kids.iter().map(|kid| (*kid).to_owned()).collect();
    }
    assert_ne!(case["verdict_differs"], true, "{id}: a choice for each");
    case["usable_kids"].as_array().unwrap().iter().map(|kid| kid.as_str().unwrap().to_owned()).collect()
}

fn held(relying_party: &RelyingParty) -> Vec<String> {
    let mut kids: Vec<String> = relying_party.held_kids().iter().map(ToString::to_string).collect();
    kids.sort();
    kids
}

#[tokio::test]
async fn each_shape_leaves_its_usable_kids() {
    for case in cases() {
        let issuer = FakeIssuer::https(Answer::ok(body(&case))).await;
        let relying_party = issuer.relying_party(&clock()).build().unwrap();
        let outcome = relying_party.refresh().await;
        let mut wanted = usable(&case);
        wanted.sort();
        assert_eq!(held(&relying_party), wanted, "{}", case["id"]);
        assert_eq!(outcome.is_ok(), !wanted.is_empty(), "{}: {outcome:?}", case["id"]);
    }
}

#[tokio::test]
async fn no_unusable_shape_replaces_a_good_set() {
    let issuer = FakeIssuer::good().await;
    let relying_party = issuer.relying_party(&clock()).build().unwrap();
    relying_party.refresh().await.unwrap();
    let mut tried = 0;
    for case in cases().iter().filter(|case| usable(case).is_empty()) {
        issuer.answer(JWKS, Answer::ok(body(case)));
        relying_party.refresh().await.unwrap_err();
        assert_eq!(held(&relying_party), ["ec1", "ed1", "rs1"], "{}", case["id"]);
        relying_party.verify(&token("ok-es256")).await.unwrap();
        tried += 1;
    }
    assert!(tried >= 10, "{tried}");
}

#[tokio::test]
async fn what_is_left_out_is_counted_by_cause() {
    for (id, count) in
        [("unknown-kty-akp", 1), ("not-object-entry", 4), ("private-member", 1), ("oct-key", 1)]
    {
        let case = cases().into_iter().find(|case| case["id"] == id).unwrap();
        let issuer = FakeIssuer::https(Answer::ok(body(&case))).await;
        let relying_party = issuer.relying_party(&clock()).build().unwrap();
        relying_party.refresh().await.unwrap();
        let dropped = relying_party.dropped_keys();
        assert_eq!(dropped.total(), count, "{id}");
        let by_cause = match id {
            "unknown-kty-akp" => dropped.unknown,
            "not-object-entry" => dropped.malformed,
            _ => dropped.private,
        };
        assert_eq!(by_cause, count, "{id}");
    }
}

#[tokio::test]
async fn a_key_set_of_ten_thousand_keys_is_refused() {
    let key = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    let large = format!(r#"{{"keys":[{}]}}"#, vec![key; 10_000].join(","));
    let many = format!(r#"{{"keys":[{}]}}"#, vec!["{}"; 10_000].join(","));
    for (body, reason) in [(large, "too_large"), (many, "too_many_keys")] {
        let issuer = FakeIssuer::https(Answer::ok(body)).await;
        let relying_party = issuer.relying_party(&clock()).build().unwrap();
        assert_eq!(relying_party.refresh().await.unwrap_err().reason(), reason);
    }
}
