//! What somebody else writes into the secret.

use oneseal::Algorithm;
use oneseal_testing::parts::Proxy;
use oneseal_tests::{Replica, Start, keys, state};
use serde_json::{Value, json};

use crate::support::{Place, SECRET, jwks, metric, pod, run};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_key_changes_nothing_that_is_served_and_is_told() {
    let Some(place) = Place::with_ring().await else { return };
    let replica = place.start("a").ready().await;
    let (set, good) = (jwks(&replica).await, current(&place));
    for (text, code) in [("hunter2", "key.unrecognised"), ("{\"password\":\"hunter2\"}", "key.json_members")]
    {
        put(&place, text);
        one_more(&replica, "refused").await;
        assert_eq!(jwks(&replica).await, set);
        replica.mint(&pod()).await;
        let alarm = state::until("the alarm", async || {
            replica.log_text().lines().find(|line| line.contains(code)).map(str::to_owned)
        })
        .await;
        assert!(alarm.contains("ERROR") && alarm.contains("the last good keys stay"), "{alarm}");
    }
    let log = replica.log_text();
    assert!(log.contains("its members are: password") && !log.contains("hunter2"), "{log}");

    let back = json!({
        "SecretId": SECRET, "VersionStage": "AWSCURRENT", "MoveToVersionId": good,
        "RemoveFromVersionId": current(&place),
    });
    place.aws.call("UpdateSecretVersionStage", &back);
    one_more(&replica, "ok").await;
    assert_eq!(jwks(&replica).await, set);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_that_was_changed_twice_between_two_looks_is_followed() {
    let Some(place) = Place::with_ring().await else { return };
    let (start, network) = behind_a_proxy(&place, "a");
    let replica = start.ready().await;
    network.refuse(true);
    network.cut();
    for _ in 0..2 {
        let (exit, out, err) = run(&place.start("operator"), &["keys", "rotate", "--json"]).await;
        assert_eq!(exit, Some(0), "{out}{err}");
        let rotated: Value = serde_json::from_str(&out).unwrap();
        let kid = rotated["changes"][0]["kid"].as_str().unwrap();
        let (exit, out, err) = run(&place.start("operator"), &["keys", "retire", kid, "--yes"]).await;
        assert_eq!(exit, Some(0), "{out}{err}");
    }
    assert_eq!(metric(&replica, "oneseal_ring_revision").await, 1);
    network.refuse(false);
    state::until("the newest revision", async || {
        (metric(&replica, "oneseal_ring_revision").await == 5).then_some(())
    })
    .await;
    replica.mint(&pod()).await;
}

/// Of bare keys the one that is served must still be there: here AWS has moved AWSPREVIOUS past it.
#[tokio::test(flavor = "multi_thread")]
async fn a_bare_key_that_was_replaced_twice_between_two_looks_is_refused_and_the_old_one_serves_on() {
    let Some(place) = Place::new().await else { return };
    let es256 = [Algorithm::Es256];
    let [first, next, last] =
        [keys::fresh(&es256).await, keys::fresh(&es256).await, keys::fresh(&es256).await];
    let text = |keys: &[keys::TestKey]| keys[0].private.expose_jwk().to_string();
    place.aws.call("CreateSecret", &json!({"Name": SECRET, "SecretString": text(&first)}));
    let (start, network) = behind_a_proxy(&place, "a");
    let replica = start.ready().await;
    let set = jwks(&replica).await;
    network.refuse(true);
    network.cut();
    put(&place, &text(&next));
    put(&place, &text(&last));
    network.refuse(false);
    one_more(&replica, "refused").await;
    assert_eq!(jwks(&replica).await, set);
    replica.mint(&pod()).await;
    let log = replica.log_text();
    assert!(log.contains("fleet.key_replaced"), "{log}");
}

/// A replica whose own way to AWS can be cut.
fn behind_a_proxy(place: &Place, name: &str) -> (Start, Proxy) {
    let proxy = Proxy::start(place.aws.network().address());
    let mut start = place.start(name);
    let url = format!("http://{}", proxy.address());
    for (name, value) in &mut start.environment {
        if name.starts_with("AWS_ENDPOINT_URL") {
            value.clone_from(&url);
        }
    }
    (start, proxy)
}

fn put(place: &Place, text: &str) {
    place.aws.call("PutSecretValue", &json!({"SecretId": SECRET, "SecretString": text}));
}

/// The version with AWSCURRENT.
fn current(place: &Place) -> String {
    let value = place.aws.call("GetSecretValue", &json!({"SecretId": SECRET}));
    value["VersionId"].as_str().unwrap().to_owned()
}

/// Waits for a look that ends like this.
async fn one_more(replica: &Replica, result: &str) {
    let sample = format!("oneseal_refreshes_total{{result=\"{result}\"}}");
    let before = metric(replica, &sample).await;
    state::until("one more look", async || (metric(replica, &sample).await > before).then_some(())).await;
}
