//! AWS that does not answer: at the start, later, and for longer than minting may go on without it.

use oneseal_testing::parts::Fault;
use oneseal_tests::{Replica, state};

use crate::support::{Place, jwks, metric, pod};

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_aws_ends_with_69_after_its_time_and_tells_each_attempt() {
    let Some(place) = Place::with_ring().await else { return };
    place.aws.network().refuse(true);
    let mut start = place.start("a");
    start.more = start.more.replace("[process]\n", "[process]\nboot_timeout = \"4s\"\n");
    let mut child = start.spawn();
    let status = state::until("the end of the start", async || child.try_wait().unwrap()).await;
    let log = start.log_text();
    assert_eq!(status.code(), Some(69), "{log}");
    let attempts = log.lines().filter(|line| line.contains("provider.unavailable")).count();
    assert!(attempts >= 2, "{log}");
    assert!(log.contains("oneseal/ring in eu-central-1"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_may_be_away_for_a_while_and_minting_stops_when_the_last_look_is_too_old_until_it_is_back() {
    let Some(place) = Place::with_ring().await else { return };
    let network = place.aws.network();
    let begin = || {
        network.refuse(true);
        network.cut();
    };
    outlast(&place, &begin, &|| network.refuse(false)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn throttling_for_as_long_as_minting_may_go_on_is_an_outage_like_any_other() {
    let Some(place) = Place::with_ring().await else { return };
    let aws = &place.aws;
    outlast(&place, &|| aws.fault("*", Fault::Throttle, usize::MAX), &|| aws.clear_faults()).await;
}

async fn outlast(place: &Place, begin: &dyn Fn(), end: &dyn Fn()) {
    let replica = place.start("a").ready().await;
    place.in_front_of(std::slice::from_ref(&replica));
    let set = jwks(&replica).await;
    begin();
    state::until("a look that fails", async || (failed(&replica).await > 0).then_some(())).await;
    assert!(mints(&replica).await, "it serves on");

    state::until("minting has stopped", async || (!mints(&replica).await).then_some(())).await;
    assert_eq!(metric(&replica, "oneseal_minting").await, 0);
    let refused = replica.try_mint(&pod()).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("connection"), "close");
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(jwks(&replica).await, set, "it publishes on");
    let ready = oneseal_tests::http::get(replica.ops, "/readyz").await.unwrap();
    assert_eq!(ready.status, 200, "it answers from memory");

    end();
    state::until("it mints again", async || mints(&replica).await.then_some(())).await;
    assert_eq!(jwks(&replica).await, set);
}

async fn mints(replica: &Replica) -> bool {
    replica.try_mint(&pod()).await.status.is_success()
}

async fn failed(replica: &Replica) -> usize {
    metric(replica, "oneseal_refreshes_total{result=\"failed\"}").await
}
