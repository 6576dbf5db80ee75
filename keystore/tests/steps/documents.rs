//! What a change does to the bytes of the document: what it must keep, and what it adds.

use oneseal_keystore::ring::edit::{Draft, Signature};
use oneseal_keystore::steps::{self, Conditions, Observation};
use oneseal_keystore::{Rotation, ring};
use oneseal_providers::{Entries, SecretProvider};
use serde_json::{Value, json};

use super::{Bench, LISTED, activate, issuer, rotate};

const GOLDEN: &[u8] = include_bytes!("../golden/ring-1.json");

/// A ring of the version before: without the times that have come since.
const EARLIER: &[u8] = include_bytes!("../golden/ring-1-earlier.json");

/// The golden ring after `tamper`, rotated.
fn tampered(tamper: impl FnOnce(&mut Value)) -> Value {
    let mut value: Value = serde_json::from_slice(GOLDEN).unwrap();
    tamper(&mut value);
    serde_json::from_slice(&rotated(value.to_string().as_bytes())).unwrap()
}

fn rotated(document: &[u8]) -> Vec<u8> {
    let mut draft = Draft::open(document, &issuer()).unwrap();
    draft.unlock(&oneseal_keystore::Keks::default()).unwrap();
    let state = draft.state().unwrap();
    let nobody = Observation::Nobody { is_accepted: true };
    let conditions = Conditions::new(&state, nobody, None, &LISTED, state.latest);
    let request =
        steps::Request::Rotate { algorithms: vec![oneseal_keystore::Algorithm::EdDsa], rsa_bits: None };
    let step = steps::decide(&state, &request, &conditions).unwrap();
    let permit = draft.permit().unwrap();
    let made = oneseal_keystore::material::generate(&permit, oneseal_keystore::Algorithm::EdDsa).unwrap();
    let by = Signature { change_id: uuid::Uuid::new_v4(), actor: "test", reason: "because", request: None };
    draft.apply(&step, &[&made], &by, conditions.now).unwrap();
    draft.commit(&by, conditions.now).unwrap().to_vec()
}

#[test]
fn private_halves_are_carried_over_byte_for_byte() {
    let text = std::str::from_utf8(GOLDEN).unwrap();
    let next = String::from_utf8(rotated(GOLDEN)).unwrap();
    let halves = |text: &str| -> Vec<String> {
        text.split("\"private\":").skip(1).map(|rest| rest[..=rest.find('}').unwrap()].to_owned()).collect()
    };
    let (before, after) = (halves(text), halves(&next));
    assert_eq!(before.len() + 1, after.len());
    assert!(before.iter().all(|half| after.contains(half)));
}

#[test]
fn a_sealed_half_is_carried_over_unopened() {
    let next = tampered(|document| {
        let key = document["keys"][1].as_object_mut().unwrap();
        key.remove("private");
        key.insert("sealed".to_owned(), json!("eyJh.b.c.d.e"));
    });
    assert_eq!(next["keys"][1]["sealed"], "eyJh.b.c.d.e");
    assert!(next["keys"][1].get("private").is_none());
}

#[test]
fn members_of_a_later_version_stay_wherever_they_are() {
    let next = tampered(|document| {
        document["later"] = json!({ "deep": [1, 2] });
        document["keys"][0]["later"] = json!("key");
        document["rotation"]["later_s"] = json!(7);
        document["ring_key"]["later"] = json!(true);
        document["tombstones"] =
            json!([{ "kid": "k", "thumbprint": "t", "state": "retired", "at": 1, "later": 1 }]);
    });
    assert_eq!(next["later"], json!({ "deep": [1, 2] }));
    assert_eq!((&next["keys"][0]["later"], &next["rotation"]["later_s"]), (&json!("key"), &json!(7)));
    assert_eq!((&next["ring_key"]["later"], &next["tombstones"][0]["later"]), (&json!(true), &json!(1)));
}

#[test]
fn a_ring_of_the_version_before_is_read_and_changed() {
    let (before, notes) = ring::read(&Entries::single("keyring.json", EARLIER.to_vec()), &issuer()).unwrap();
    assert!(notes.is_empty());
    assert_eq!(before.rotation.unwrap(), Rotation::default(), "what is not there is the default");
    let next = rotated(EARLIER);
    let (after, _) = ring::read(&Entries::single("keyring.json", next), &issuer()).unwrap();
    assert_eq!((after.identity.revision, after.keys.len()), (2, 4));
}

#[test]
fn another_issuers_document_and_one_that_is_none_are_refused() {
    let other = oneseal_keystore::IssuerUrl::parse("https://other.example", "test").unwrap();
    assert!(Draft::open(GOLDEN, &other).is_err());
    for broken in ["", "{}", "[]", r#"{"issuer":"https://oidc.example"}"#] {
        assert!(Draft::open(broken.as_bytes(), &issuer()).is_err(), "{broken}");
    }
    let draft = Draft::open(GOLDEN, &issuer()).unwrap();
    assert!(draft.permit().is_none(), "a locked draft makes no key");
    assert!(!format!("{draft:?}").contains("private"));
}

#[tokio::test]
async fn a_revision_follows_the_one_before_and_its_log_tells_who_and_why() {
    let bench = Bench::new(Rotation::lab()).await;
    let first = bench.ring().await;
    bench.order(rotate()).await.unwrap();
    let second = bench.document().await;
    assert_eq!(second["prev_digest"], first.identity.digest.to_string());
    assert_eq!((&second["revision"], &second["writer"]), (&json!(2), &Value::Null));
    bench.pass(7);
    bench.order(activate()).await.unwrap();
    let log = bench.document().await["log"].clone();
    let kinds: Vec<_> = log.as_array().unwrap().iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ring.created", "key.activated", "key.published", "key.retired", "key.activated"]);
    assert_eq!((&log[4]["actor"], &log[4]["reason"]), (&json!("test"), &json!("because")));
    let record = bench.provider.load().await.unwrap();
    let document = bench.document().await;
    assert_eq!(record.change_id.unwrap().to_string(), document["change_id"].as_str().unwrap());
}
