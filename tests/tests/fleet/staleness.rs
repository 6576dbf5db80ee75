//! What a replica does that cannot look at its key any more: alone, and when nobody can.

use http::header::{CONNECTION, RETRY_AFTER};
use oneseal_tests::state;

use crate::support::{Scene, postgres};

#[tokio::test]
async fn one_of_three_mints_no_more_and_leaves_readiness_and_all_of_them_stay() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let members = scene.three().await;
    let [a, b, c] = &members;
    let published = a.jwks().await;
    std::fs::remove_file(scene.key("a")).unwrap();

    state::until("a has left readiness", async || (!a.is_ready().await).then_some(())).await;
    let refused = a.mint().await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.headers[CONNECTION], "close");
    assert!(refused.headers.contains_key(RETRY_AFTER));
    assert_eq!(a.status().await["readiness"], "stale_and_another_mints");
    a.until("oneseal_readiness_yielded 1").await;
    assert_eq!(a.jwks().await.body, published.body, "it publishes on");
    for member in [b, c] {
        assert!(member.is_ready().await && member.mint().await.status.is_success(), "{}", member.name);
    }

    std::fs::remove_file(scene.key("b")).unwrap();
    std::fs::remove_file(scene.key("c")).unwrap();
    state::until("nobody mints", async || {
        let mut minting = 0;
        for member in &members {
            minting += usize::from(member.mint().await.status.is_success());
        }
        (minting == 0).then_some(())
    })
    .await;
    state::until("all are ready", async || {
        for member in &members {
            if !member.is_ready().await {
                return None;
            }
        }
        Some(())
    })
    .await;
    for member in &members {
        assert_eq!(member.jwks().await.body, published.body, "{} publishes on", member.name);
    }

    for member in &members {
        std::fs::copy(scene.path("ring.json"), scene.key(member.name)).unwrap();
    }
    state::until("all mint again without a restart", async || {
        for member in &members {
            if !member.mint().await.status.is_success() {
                return None;
            }
        }
        Some(())
    })
    .await;
}
