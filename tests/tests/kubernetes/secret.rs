//! What becomes of the Secret under a replica that runs, and before one that starts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oneseal_tests::{Replica, state};
use serde_json::{Value, json};

use crate::support::{Place, encoded, ended, jwks, metric, pod, run};

/// Whatever somebody makes of the Secret: nothing that is served changes, and no start is let through.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_goes_or_is_spoilt_changes_nothing_that_is_served_and_stops_every_start() {
    let Some(place) = Place::new().await else { return };
    place.init().await;
    let replica = place.start("a").ready().await;
    let (before, good) = (jwks(&replica).await, place.data());
    let ring = STANDARD.decode(good["keyring.json"].as_str().unwrap()).unwrap();
    let twice = STANDARD.encode(&ring);
    let key = STANDARD.encode(P256);
    let spoilt: [(&str, Option<Value>, &str); 7] = [
        ("emptied", Some(json!({})), "provider.not_found"),
        ("an empty value", Some(json!({ "keyring.json": "" })), "ring.malformed"),
        ("no key", Some(encoded(&[("current.pem", b"hello")])), "key.unrecognised"),
        ("two keys", Some(encoded(&[("current.pem", TWO_KEYS.as_bytes())])), "key.two_private_keys"),
        ("a ring encoded twice", Some(encoded(&[("keyring.json", twice.as_bytes())])), "ring.encoded"),
        ("a key encoded twice", Some(encoded(&[("current.pem", key.as_bytes())])), "key.encoded_twice"),
        ("deleted", None, "provider.not_found"),
    ];
    for (what, data, code) in spoilt {
        let told = replica.log_text().len();
        match &data {
            Some(data) => place.put(data),
            None => place.delete(),
        }
        state::until(&format!("{what} is told as {code}"), async || {
            replica.log_text()[told..].contains(code).then_some(())
        })
        .await;
        let (exit, log) = ended(&place.start("late")).await;
        assert_eq!(exit, Some(78), "{what}: {log}");
        assert!(log.contains(code), "{what}: {log}");
        assert_eq!(jwks(&replica).await, before, "{what}");
        assert!(replica.try_mint(&pod()).await.status.is_success(), "{what}: within the limit it mints on");

        // A replica that runs has it still, and puts it back where it is or over what cannot be read. To make a Secret is no
        // right of its own: somebody else makes an empty one.
        if data.is_none() {
            let (exit, told) = recover(&place, &replica).await;
            assert!(exit == Some(77) && told.contains("may not create it"), "{exit:?} {told}");
            place.put(&json!({}));
        }
        let (exit, told) = recover(&place, &replica).await;
        assert_eq!(exit, Some(0), "{what}: {told}");
        assert_eq!(place.data()["keyring.json"], good["keyring.json"], "{what}: byte for byte");
        looked_again(&replica).await;
    }
    assert_eq!(jwks(&replica).await, before);
    drop(place.start("late").ready().await);
}

async fn recover(place: &Place, replica: &Replica) -> (Option<i32>, String) {
    let socket = replica.admin();
    let words = ["keys", "recover", "--from-replica", socket.to_str().unwrap(), "--yes"];
    let (exit, out, err) = run(&place.start("operator"), &words).await;
    (exit, out + &err)
}

const P256: &str = include_str!("../../../keystore/tests/vectors/ring/p256.pem");
/// Two that are good each by itself.
const TWO_KEYS: &str = concat!(
    include_str!("../../../keystore/tests/vectors/ring/p256.pem"),
    include_str!("../../../keystore/tests/vectors/ring/ed25519.pem"),
);

async fn looked_again(replica: &Replica) {
    let good = "oneseal_refreshes_total{result=\"ok\"}";
    let before = metric(replica, good).await;
    state::until("a good look", async || (metric(replica, good).await > before).then_some(())).await;
}

/// No right to the Secret is no key, and waiting would not bring one.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_the_right_ends_with_77_and_names_what_is_missing() {
    let Some(place) = Place::new().await else { return };
    place.init().await;
    let (exit, log) = ended(&place.start_as("a", "stranger")).await;
    assert_eq!(exit, Some(77), "{log}");
    for word in ["provider.denied", "get", "secrets", "oneseal-ring", &place.namespace] {
        assert!(log.contains(word), "no {word} in {log}");
    }
    assert!(!log.contains("attempt="), "{log}");
}
