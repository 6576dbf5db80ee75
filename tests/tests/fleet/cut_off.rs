//! Replicas that the database with their ring is out of reach of: one, and all.

use http::header::{CONNECTION, RETRY_AFTER};
use oneseal_tests::state;

use crate::readers::Readers;
use crate::support::{Member, Scene, postgres};

async fn minting(members: &[Member]) -> usize {
    let mut minting = 0;
    for member in members {
        let answer = member.mint().await;
        assert!(matches!(answer.status.as_u16(), 200 | 503), "{answer:?}");
        minting += usize::from(answer.status == 200);
    }
    minting
}

async fn ready(members: &[Member]) -> usize {
    let mut ready = 0;
    for member in members {
        ready += usize::from(member.is_ready().await);
    }
    ready
}

#[tokio::test]
async fn one_without_its_ring_leaves_to_those_that_mint_and_all_without_it_stay() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::sealed(postgres).await;
    let members = scene.three().await;
    let readers = Readers::start(&members);
    let a = &members[0];
    a.cut_off();
    state::until("a has left readiness", async || (!a.is_ready().await).then_some(())).await;
    let refused = a.mint().await;
    assert_eq!((refused.status.as_u16(), refused.header("connection")), (503, "close"));
    assert!(refused.headers.contains_key(RETRY_AFTER) && refused.headers.contains_key(CONNECTION));
    assert_eq!(a.status().await["readiness"], "stale_and_another_mints");
    assert_eq!((minting(&members).await, ready(&members).await), (2, 2));

    members[1].cut_off();
    members[2].cut_off();
    state::until("nobody mints", async || (minting(&members).await == 0).then_some(())).await;
    state::until("all are ready", async || (ready(&members).await == 3).then_some(())).await;

    for member in &members {
        member.proxy.refuse(false);
    }
    state::until("all mint again", async || (minting(&members).await == 3).then_some(())).await;
    for member in &members {
        member.sees(3).await;
    }
    assert_eq!(ready(&members).await, 3);
    let published = a.jwks().await.body;
    for bodies in readers.end().await {
        assert_eq!(bodies, std::slice::from_ref(&published));
    }
}
