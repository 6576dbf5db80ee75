//! Three replicas on one secret.

use oneseal_relying_party::RelyingParty;
use oneseal_tests::{Replica, state};

use crate::caches::AUDIENCE;
use crate::support::{Place, jwks, metric, pod};

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_publish_one_set_and_verify_each_others_tokens_and_a_look_is_one_call() {
    let Some(place) = Place::with_ring().await else { return };
    let replicas = place.three().await;
    let set = jwks(&replicas[0]).await;
    for minting in &replicas {
        assert_eq!(jwks(minting).await, set);
        let token = minting.mint(&pod()).await;
        for verifying in &replicas {
            let party = RelyingParty::builder(place.issuer.clone())
                .audience(AUDIENCE)
                .connect_to(verifying.documents)
                .build()
                .unwrap();
            party.verify(&token).await.unwrap();
        }
    }
    let values = place.aws.counts()["GetSecretValue"];
    assert!(values <= 2 * replicas.len(), "the gate of a start reads the value, and the follower: {values}");

    let before = looks(&replicas).await;
    place.aws.reset_counts();
    state::until("nine more looks", async || (looks(&replicas).await >= before + 9).then_some(())).await;
    let counts = place.aws.counts();
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["DescribeSecret"], "what has been seen is not read again");
    let made = looks(&replicas).await - before;
    // Some are under way while they are counted.
    let calls = counts["DescribeSecret"];
    assert!(calls.abs_diff(made) <= 2 * replicas.len(), "{calls} calls for {made} looks");
}

async fn looks(replicas: &[Replica]) -> usize {
    let mut looks = 0;
    for replica in replicas {
        looks += metric(replica, "oneseal_refreshes_total{result=\"ok\"}").await;
    }
    looks
}
