//! The admin API's key verbs: who may, what each answer says, what is written down, and that it is the ring's own replica
//! that follows.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::http::{Answer, Client, get};
use crate::support::place::Place;
use crate::support::server::Server;
use crate::support::until;

fn lab(more: &str) -> (Place, Server) {
    let place = Place::with_lab_ring();
    place.configure(&format!("[rotation]\npreset = \"lab\"\n{more}"));
    let server = Server::start(&place, &["--yes"]);
    (place, server)
}

fn verb(server: &Server, verb: &str, body: &Value) -> Answer {
    server.admin("POST", &format!("/admin/v1/keys/{verb}"), &body.to_string())
}

fn served(server: &Server) -> Value {
    server.admin("GET", "/admin/v1/status", "").json()
}

#[test]
fn a_rotation_over_the_api_says_when_each_step_may_come() {
    let (place, server) = lab("");
    let before = server.admin("GET", "/admin/v1/keys", "").json();
    assert_eq!((&before["revision"], before["keys"].as_array().unwrap().len()), (&json!(1), 1));
    let id = Uuid::new_v4().to_string();
    let rotated = verb(&server, "rotate", &json!({ "change_id": id, "reason": "monthly" }));
    assert_eq!(rotated.status, 200, "{}", rotated.text());
    let rotated = rotated.json();
    assert_eq!((&rotated["revision"], &rotated["change_id"]), (&json!(2), &json!(id)));
    let kid = rotated["changes"][0]["kid"].as_str().unwrap();
    assert_eq!((&rotated["next"][0]["what"], &rotated["next"][0]["kid"]), (&json!("activate"), &json!(kid)));
    assert!(rotated["next"][0]["not_before"].is_i64());
    until("the replica publishes it", || (served(&server)["revision"] == 2).then_some(()));

    let unproven = verb(&server, "activate", &json!({}));
    assert_eq!((unproven.status, unproven.json()["code"].as_str()), (422, Some("keys.unproven_replicas")));
    let early = verb(&server, "activate", &json!({ "unproven_replicas": true }));
    let said = early.json();
    assert_eq!((early.status, &said["error"], &said["exit"]), (409, &json!("too_early"), &json!(75)));
    assert_eq!(said["because"]["setting"], "rotation.rp_propagation");
    assert!(said["not_before"].as_i64().unwrap() > rotated["at"].as_i64().unwrap());
    let done = until("the floors are over", || {
        let answer = verb(&server, "activate", &json!({ "unproven_replicas": true }));
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(done["changes"][1], json!({ "kind": "key.activated", "kid": kid }));
    until("the replica signs with it", || {
        let keys = served(&server)["keys"].clone();
        keys.as_array().unwrap().iter().any(|key| key["kid"] == kid && key["signs"] == true).then_some(())
    });
    assert_eq!(place.ring()["log"].as_array().unwrap().len(), 5);
    let audited: Vec<_> =
        server.log_lines().into_iter().filter(|line| line["target"] == "oneseal::audit").collect();
    assert!(audited.iter().any(|line| line["verb"] == "rotate" && line["change_id"] == id));
    assert!(place.ring()["log"][2]["actor"].as_str().unwrap().starts_with("uid:"));
}

#[test]
fn the_same_idempotency_key_is_answered_and_another_use_of_it_refused() {
    let (_place, server) = lab("");
    let id = Uuid::new_v4().to_string();
    let mut client = Client::unix(&server.admin).unwrap();
    let mut ask = |path: &str, key: &str, body: &str| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        client.ask("POST", path, &headers, body).unwrap()
    };
    let first = ask("/admin/v1/keys/rotate", &id, "{}").json();
    let again = ask("/admin/v1/keys/rotate", &format!("\"{id}\""), "").json();
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
    assert_eq!((&first["changes"], &again["revision"]), (&again["changes"], &json!(2)));
    let other = ask("/admin/v1/keys/rollback", &id, "{}");
    assert_eq!((other.status, other.json()["code"].as_str()), (409, Some("keys.change_id_taken")));
    let others = ask("/admin/v1/keys/rotate", &id, r#"{"algs":["RS256"]}"#);
    assert_eq!((others.status, others.json()["code"].as_str()), (409, Some("keys.change_id_taken")));
    assert_eq!(ask("/admin/v1/keys/rotate", "not-a-uuid", "{}").status, 400);
    let two = ask("/admin/v1/keys/rotate", &id, &format!(r#"{{"change_id":"{}"}}"#, Uuid::new_v4()));
    assert_eq!(two.status, 400, "{}", two.text());
}

#[test]
fn each_wrong_request_is_told_and_changes_nothing() {
    let (place, server) = lab("");
    let before = place.ring();
    for (name, body, status, words) in [
        ("rotate", json!({ "algs": ["HS256"] }), 400, "RS256"),
        ("rotate", json!({ "algs": "ES256" }), 400, "array"),
        ("rotate", json!({ "algs": ["EdDSA"] }), 422, "issuer.algorithms"),
        ("rotate", json!({ "rsa_bits": 1024, "algs": ["ES256"] }), 422, "1024"),
        ("rotate", json!({ "kid": "x" }), 400, "no member \"kid\""),
        ("rotate", json!({ "reason": "x".repeat(201) }), 422, "200 bytes"),
        ("activate", json!({ "kid": "no-such-key" }), 422, "no key of that kid"),
        ("activate", json!({}), 422, "rotate first"),
        ("retire", json!({}), 422, "nothing is due"),
        ("rollback", json!({ "dry_run": "yes" }), 400, "true or false"),
        ("revoke", json!({ "since": -1 }), 400, "whole number"),
        ("revoke", json!({ "kids": [] }), 400, "kids is empty"),
        ("adopt", json!({}), 400, "no private half crosses the wire"),
        ("adopt", json!({ "jwks": { "keys": [{ "kty": "oct", "k": "AAAA" }] }, "until": 1 }), 400, "keys[0]"),
    ] {
        let answer = verb(&server, name, &body);
        assert_eq!(answer.status, status, "{name} {body}: {}", answer.text());
        let said = answer.json();
        assert!(said["error_description"].as_str().unwrap().contains(words), "{name} {body}: {said}");
    }
    assert_eq!(server.admin("POST", "/admin/v1/keys/erase", "{}").status, 404);
    assert_eq!(server.admin("GET", "/admin/v1/keys/rotate", "").status, 405);
    assert_eq!(server.admin("POST", "/admin/v1/keys", "{}").status, 405);
    assert_eq!(place.ring(), before);
}

#[test]
fn between_the_two_commits_of_an_emergency_keys_are_published_and_nothing_is_minted() {
    let (_place, server) = lab("[admin]\nmint = true\nmint_audiences = [\"rp\"]\n");
    let mint = || server.mint(r#"{"sub":"pod","aud":"rp"}"#);
    let old = mint();
    assert_eq!(old.status, 200);
    let burned = verb(&server, "revoke", &json!({ "reason": "leaked" }));
    assert_eq!(burned.status, 200, "{}", burned.text());
    // At once: whoever has heard that the key is burned gets no token of it.
    let minted = mint();
    assert_eq!(minted.status, 503, "{}", minted.text());
    let said = minted.json().to_string();
    for word in [r#""code":"ring.emergency""#, "ES256", "keys activate", "Z on"] {
        assert!(said.contains(word), "{said}");
    }
    let second = verb(&server, "revoke", &json!({}));
    assert_eq!((second.status, &second.json()["repeated"]), (200, &json!(true)), "{}", second.text());
    let jwks: Value = get(server.documents, "/.well-known/jwks.json").json();
    assert_eq!(jwks["keys"].as_array().unwrap().len(), 1, "never empty");
    assert_ne!(jwks["keys"][0]["kid"], old.json()["kid"]);
    until("the second commit", || (verb(&server, "activate", &json!({})).status == 200).then_some(()));
    let new = until("minting goes on", || Some(mint()).filter(|answer| answer.status == 200));
    assert_eq!(new.json()["kid"], jwks["keys"][0]["kid"]);
}
