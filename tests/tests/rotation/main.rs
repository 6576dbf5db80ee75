//! Rotation by hand under constant minting and verification: what relying parties see while keys come and go.
//!
//! Everything is real but the time, which is passed second by second: the ring in a file, the executor, the replicas'
//! snapshots, the tokens, the verifier. Relying parties are caches of four kinds, each at several phases.

mod caches;
mod former;
mod world;

use oneseal_keystore::steps::Request;

use world::{Care, World};

fn rotate() -> Request {
    Request::Rotate { algorithms: Vec::new(), rsa_bits: None }
}

fn activate() -> Request {
    Request::Activate { kid: None }
}

fn due() -> Request {
    Request::Retire { kid: None }
}

#[tokio::test]
async fn with_the_floors_kept_no_token_ever_fails_whatever_the_cache() {
    let mut world = World::new(Care::Floors).await;
    world.pass(5).await;
    for _ in 0..2 {
        world.order(rotate()).await.expect("published");
        let waited = world.until_done(activate()).await;
        assert_eq!(waited, 7, "refresh + skew, H + C, a second");
        // One replica does not hear of it, and signs with the old key as long as it may.
        world.cut_off(1);
        world.pass(20).await;
        world.order(Request::RollBack { kid: None }).await.expect("inside the window");
        world.reach(1);
        world.pass(5).await;
        world.order(Request::RollBack { kid: None }).await.expect("and forth again");
        world.cut_off(2);
        world.pass(12).await;
        world.reach(2);
        world.until_done(due()).await;
        world.until_done(due()).await;
        world.pass(3).await;
        assert_eq!(world.keys().await, 1, "the old key has gone, and its private half before it");
    }
    assert!(world.verified > 2000, "{}", world.verified);
    assert!(world.failures.is_empty(), "{:?}", world.failures);
}

#[tokio::test]
async fn who_activates_without_waiting_breaks_the_caches_that_do_not_ask() {
    let mut world = World::new(Care::None).await;
    world.pass(5).await;
    world.order(rotate()).await.expect("published");
    world.order(activate()).await.expect("nothing holds it back");
    world.pass(6).await;
    let broken: Vec<_> = world.failures.keys().copied().collect();
    assert_eq!(
        broken,
        ["follows the header", "pinned copy", "time to live"],
        "those that ask at an unknown kid do not"
    );
}

#[tokio::test]
async fn who_removes_a_key_without_waiting_breaks_tokens_that_live() {
    let mut world = World::new(Care::None).await;
    world.pass(5).await;
    world.order(rotate()).await.expect("published");
    world.pass(10).await;
    world.cut_off(1);
    world.order(activate()).await.expect("late enough");
    world.pass(12).await;
    world.reach(1);
    world.failures.clear();
    world.pass(50).await;
    world.until_done(due()).await;
    world.pass(6).await;
    assert!(
        world.failures.contains_key("follows the header"),
        "tokens of the replica that was cut off: {:?}",
        world.failures
    );
}
