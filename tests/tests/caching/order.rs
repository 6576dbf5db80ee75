//! Replicas that go and come, in every order, behind a proxy.

use oneseal_tests::http::{ask, get};
use oneseal_tests::nginx::Options;
use oneseal_tests::{Fleet, FleetOptions, Start};

use crate::JWKS;
use crate::proxy::answered;

/// Behind nginx without a cache: every request reaches a replica.
async fn uncached() -> Option<Fleet> {
    let nginx = Some(Options { cache: false, ..Options::default() });
    Fleet::start_with(FleetOptions { nginx, ..FleetOptions::default() }).await
}

/// What a client sees that never stops asking, while `change` goes on: one body, one entity tag, no error.
async fn seen_throughout<T>(front: std::net::SocketAddr, change: impl Future<Output = T>) -> T {
    let first = get(front, JWKS).await.unwrap();
    let asking = async {
        loop {
            let answer = get(front, JWKS).await.expect("an answer");
            assert_eq!((answer.status.as_u16(), &answer.body), (200, &first.body));
            assert_eq!(answer.header("etag"), first.header("etag"));
        }
    };
    tokio::select! {
        done = change => done,
        () = asking => unreachable!("it never ends"),
    }
}

async fn connect(fleet: &mut Fleet) {
    let addresses = fleet.replicas.iter().map(|replica| replica.documents).collect();
    fleet.proxy.as_mut().unwrap().set_backends(addresses).await;
}

/// One after the other, in each of the six orders; each is back before the next one goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_restarted_in_every_order_are_not_noticed() {
    let Some(mut fleet) = uncached().await else { return };
    let front = fleet.front();
    seen_throughout(front, async {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for at in order {
                fleet.restart(at).await;
            }
        }
    })
    .await;
}

/// Two are gone at the same time, and either of them is the first to be back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_living_replica_is_enough() {
    let Some(mut fleet) = uncached().await else { return };
    let front = fleet.front();
    seen_throughout(front, async {
        for survivor in 0..3 {
            for is_first_back_first in [true, false] {
                let mut gone: Vec<Start> = Vec::new();
                let living = fleet.replicas.remove(survivor);
                for replica in fleet.replicas.drain(..) {
                    gone.push(replica.kill().await);
                }
                if !is_first_back_first {
                    gone.reverse();
                }
                fleet.replicas.push(living);
                for start in gone {
                    fleet.replicas.push(start.ready().await);
                    connect(&mut fleet).await;
                }
            }
        }
    })
    .await;
}

/// After all were gone they publish the same bytes: whoever had them before is told so by 304, and none of the key set
/// is sent again, though every client asks at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_come_back_after_all_were_down_have_what_there_is() {
    let Some(mut fleet) = uncached().await else { return };
    let front = fleet.front();
    let before = get(front, JWKS).await.unwrap();
    let mut gone = Vec::new();
    for replica in fleet.replicas.drain(..) {
        gone.push(replica.kill().await);
    }
    assert_eq!(get(front, JWKS).await.unwrap().status, 502, "nobody lives");
    gone.rotate_left(1);
    for start in gone {
        fleet.replicas.push(start.ready().await);
    }
    connect(&mut fleet).await;
    let etag = before.header("etag").to_owned();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let etag = etag.clone();
        clients
            .spawn(async move { ask(front, "GET", JWKS, &[("if-none-match", &etag)]).await.unwrap().status });
    }
    assert!(clients.join_all().await.iter().all(|status| status.as_u16() == 304));
    assert_eq!((answered(&fleet.replicas, 200).await, answered(&fleet.replicas, 304).await), (0, 200));
    assert_eq!(get(front, JWKS).await.unwrap().body, before.body);
}
