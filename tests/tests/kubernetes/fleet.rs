//! Three replicas on one Secret.

use oneseal_tests::http::{Answer, post_json};
use oneseal_tests::{Replica, state};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Place, jwks, pod};
use crate::world::World;

/// Every replica as its ServiceAccount with the rights of `deploy/kubernetes/rbac.yaml`, and with service links in its
/// environment.
#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_on_one_secret_are_one_issuer_and_are_rotated_by_hand_without_a_failed_token() {
    let Some(place) = Place::new().await else { return };
    place.init().await;
    let mut replicas = Vec::new();
    for name in ["a", "b", "c"] {
        replicas.push(place.start(name).ready().await);
    }
    place.in_front_of(&replicas);
    let sets = [jwks(&replicas[0]).await, jwks(&replicas[1]).await, jwks(&replicas[2]).await];
    assert!(sets.iter().all(|set| *set == sets[0]), "{sets:?}");
    for replica in &replicas {
        assert!(!replica.log_text().contains("ONESEAL_"), "service links are no business of ours");
    }

    let mut world = World::new(&place.issuer);
    let done = CancellationToken::new();
    let scenario = async {
        rotate(&replicas).await;
        done.cancel();
    };
    tokio::join!(world.live(&replicas, &done), scenario);
    assert!(world.verified > 500, "{}", world.verified);
    assert!(world.failures.is_empty(), "{:?}", world.failures);
}

/// Without a registry time alone is trusted, which has to be said; the floors of the laboratory are kept.
async fn rotate(replicas: &[Replica]) {
    let [a, b, c] = replicas else { unreachable!("three") };
    let old = signs_with(a).await;
    let published = verb(a, "rotate", false).await;
    assert_eq!(published.status, 200, "{:?}", published.body);
    let new = published.json()["changes"][0]["kid"].as_str().unwrap().to_owned();

    let unproven = verb(b, "activate", false).await;
    assert_eq!(unproven.json()["code"], "keys.unproven_replicas", "{:?}", unproven.body);
    let early = verb(b, "activate", true).await;
    assert_eq!((early.status.as_u16(), &early.json()["code"]), (409, &json!("keys.too_early")));
    state::until("the floors are over", async || {
        let answer = verb(b, "activate", true).await;
        assert!([200, 409].contains(&answer.status.as_u16()), "{:?}", answer.body);
        (answer.status == 200).then_some(())
    })
    .await;
    all_sign_with(replicas, &new).await;
    // By another replica than the one that wrote last: what it replaces is what it has just read.
    let back = verb(c, "rollback", true).await;
    assert_eq!(back.status, 200, "{:?}", back.body);
    all_sign_with(replicas, &old).await;
}

async fn verb(replica: &Replica, name: &str, unproven: bool) -> Answer {
    let body = json!({ "unproven_replicas": unproven });
    post_json(&replica.admin(), &format!("/admin/v1/keys/{name}"), &body).await.unwrap()
}

async fn signs_with(replica: &Replica) -> String {
    replica.try_mint(&pod()).await.json()["kid"].as_str().unwrap().to_owned()
}

async fn all_sign_with(replicas: &[Replica], kid: &str) {
    for replica in replicas {
        state::until("the replica signs with it", async || (signs_with(replica).await == kid).then_some(()))
            .await;
    }
}
