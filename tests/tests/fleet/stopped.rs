//! The database with the ring is stopped in the middle of work, and started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oneseal_testing::parts::Stop;
use oneseal_tests::{http, state};
use serde_json::json;
use tokio::task::JoinSet;

use crate::readers::{Readers, party};
use crate::support::{Member, Scene, own_postgres};

const WORKERS: usize = 10;
const EACH: usize = 100;

/// A thousand times a token is asked for and, if there is one, verified with the key set of the next replica.
/// What is not a good token is a 503. Counts refusals; panics are passed on by whoever joins it.
fn work(scene: &Scene, members: &[Member], done: &Arc<AtomicUsize>) -> JoinSet<usize> {
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS {
        let minter = members[worker % members.len()].replica.admin();
        let party = party(&scene.issuer, &members[(worker + 1) % members.len()]);
        let done = Arc::clone(done);
        tasks.spawn(async move {
            let mut refused = 0;
            for _ in 0..EACH {
                let claims = json!({ "sub": "pod", "aud": "test" });
                let answer = http::post_json(&minter, "/admin/v1/mint", &claims).await.unwrap();
                match answer.status.as_u16() {
                    200 => drop(party.verify(answer.json()["token"].as_str().unwrap()).await.unwrap()),
                    503 => refused += 1,
                    other => panic!("{other}: {answer:?}"),
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            refused
        });
    }
    tasks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_stopped_within_a_thousand_tokens_makes_none_of_them_bad_and_restarts_nobody() {
    let Some(mut postgres) = own_postgres() else { return };
    let scene = Scene::sealed(&postgres).await;
    let members = scene.three().await;
    let readers = Readers::start(&members);
    let pids: Vec<_> = members.iter().map(|member| member.replica.pid()).collect();
    let done = Arc::new(AtomicUsize::new(0));
    let tasks = work(&scene, &members, &done);
    let reached = async |count| {
        state::until("tokens", async || (done.load(Ordering::Relaxed) >= count).then_some(())).await;
    };
    reached(WORKERS * EACH / 4).await;
    postgres.stop(Stop::Immediate);
    assert!(done.load(Ordering::Relaxed) < WORKERS * EACH, "in the middle of it");
    let refused: usize = tasks.join_all().await.into_iter().sum();
    assert_eq!(refused, 0, "the ring is younger than the staleness limit");

    for member in &members {
        member.until("oneseal_database_up 0").await;
        state::until("it is stale", async || (member.mint().await.status == 503).then_some(())).await;
    }
    for member in &members {
        // The last of them to be stale may have called another one away until a moment ago.
        state::until("nobody mints, so nobody leaves", async || member.is_ready().await.then_some(())).await;
    }
    let tasks = work(&scene, &members, &done);
    let refused: usize = tasks.join_all().await.into_iter().sum();
    assert_eq!(refused, WORKERS * EACH);

    postgres.start_again();
    for (member, pid) in members.iter().zip(pids) {
        state::until("it mints again", async || member.mint().await.status.is_success().then_some(())).await;
        member.sees(3).await;
        assert_eq!(member.replica.pid(), pid);
    }
    let refused: usize = work(&scene, &members, &done).join_all().await.into_iter().sum();
    assert_eq!(refused, 0);
    for bodies in readers.end().await {
        assert_eq!(bodies.len(), 1);
    }
}
