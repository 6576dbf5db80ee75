//! A rotation by hand of a ring in AWS, by the command line, while three replicas mint and everybody verifies.

use oneseal_tests::{Replica, state};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{Place, pod, run};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_is_rotated_by_hand_and_rolled_back_without_one_failed_token() {
    let Some(place) = Place::with_ring().await else { return };
    let replicas = place.three().await;
    let mut world = World::new(&place.issuer);
    let done = CancellationToken::new();
    let scenario = async {
        rotate_and_roll_back(&place, &replicas).await;
        done.cancel();
    };
    tokio::join!(world.live(&replicas, &done), scenario);
    assert!(world.verified > 500, "{}", world.verified);
    assert!(world.failures.is_empty(), "{:?}", world.failures);
}

async fn rotate_and_roll_back(place: &Place, replicas: &[Replica]) {
    let old = signs_with(&replicas[0]).await;
    let (exit, rotated) = verb(place, &["rotate"]).await;
    assert_eq!(exit, Some(0), "{rotated}");
    let new = rotated["changes"][0]["kid"].as_str().unwrap().to_owned();

    // Time alone has to be trusted here, and somebody has to say so.
    let (exit, refused) = verb(place, &["activate"]).await;
    assert_eq!((exit, &refused["error"]["code"]), (Some(78), &"keys.unproven_replicas".into()));
    let mut early = 0;
    state::until("the floors are over", async || {
        let (exit, answer) = verb(place, &["activate", "--unproven-replicas"]).await;
        early += usize::from(exit == Some(75));
        assert!([Some(0), Some(75)].contains(&exit), "{answer}");
        (exit == Some(0)).then_some(())
    })
    .await;
    assert!(early > 0, "too early at first");
    all_sign_with(replicas, &new).await;
    for kid in [&old, &new] {
        let (exit, answer) = verb(place, &["rollback"]).await;
        assert_eq!(exit, Some(0), "{answer}");
        all_sign_with(replicas, kid).await;
    }
}

/// One key verb, where the ring rests.
async fn verb(place: &Place, words: &[&str]) -> (Option<i32>, Value) {
    let words = [&["keys"], words, &["--json"]].concat();
    let (exit, out, err) = run(&place.start("operator"), &words).await;
    (exit, serde_json::from_str(&out).unwrap_or_else(|_| Value::String(format!("{out}{err}"))))
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
