//! The API server is away: at a start, and later.

use oneseal_tests::http::get_unix;
use oneseal_tests::{Replica, state};

use crate::support::{Place, ended, jwks, metric, pod};

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_away_ends_a_start_with_69_and_one_line_an_attempt() {
    let Some(place) = Place::new().await else { return };
    place.init().await;
    place.proxy.refuse(true);
    let (exit, log) = ended(&place.start("a")).await;
    assert_eq!(exit, Some(69), "{log}");
    let attempts: Vec<_> = log.lines().filter(|line| line.contains("does not answer yet")).collect();
    assert!(attempts.len() >= 2, "{log}");
    for (line, number) in attempts.iter().zip(1..) {
        assert!(line.contains(&format!("attempt={number} ")), "{log}");
    }
    assert!(log.contains("provider.unavailable"), "{log}");
    place.proxy.refuse(false);
    place.start("a").ready().await;
}

/// The limit of the laboratory's times: three refreshes of a second, and the ten that one look may take.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_goes_away_stops_minting_at_the_limit_and_nothing_else() {
    let Some(place) = Place::new().await else { return };
    place.init().await;
    let replica = place.start("a").ready().await;
    let before = jwks(&replica).await;
    assert!(replica.try_mint(&pod()).await.status.is_success());
    place.proxy.refuse(true);
    place.proxy.cut();
    let refused = state::until("minting stops", async || {
        assert_eq!(jwks(&replica).await, before, "documents are served on");
        let answer = replica.try_mint(&pod()).await;
        (!answer.status.is_success()).then_some(answer)
    })
    .await;
    assert_eq!(refused.status, 503, "{:?}", refused.body);
    assert!(!refused.header("retry-after").is_empty());
    assert!(metric(&replica, "oneseal_refresh_age_seconds").await > 13.0);
    assert_eq!(metric(&replica, "oneseal_minting").await, 0.0);
    let status = status(&replica).await;
    assert!(status["age_s"].as_u64() >= status["staleness_limit_s"].as_u64(), "{status}");
    assert!(is_ready(&replica).await, "nobody else mints, so it stays");

    place.proxy.refuse(false);
    state::until("minting goes on", async || {
        replica.try_mint(&pod()).await.status.is_success().then_some(())
    })
    .await;
    assert_eq!(jwks(&replica).await, before);
}

async fn status(replica: &Replica) -> serde_json::Value {
    get_unix(&replica.admin(), "/admin/v1/status").await.unwrap().json()
}

async fn is_ready(replica: &Replica) -> bool {
    oneseal_tests::http::get(replica.ops, "/readyz").await.unwrap().status.is_success()
}
