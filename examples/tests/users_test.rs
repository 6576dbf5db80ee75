//! How a user tests a controller that embeds oneseal: no cluster, no store, no waiting.

use std::sync::Arc;
use std::time::Duration;

use oneseal::keystore::{InitRequest, init};
use oneseal::{Audience, Issuer, IssuerUrl, Subject, UnixTime, VerifiedWorkload};
use oneseal_testing::{FixedClock, MemoryProvider};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_pods_token_says_what_the_controller_vouched_for() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Arc::new(FixedClock::at(UnixTime(1_800_000_000)));
    let provider = MemoryProvider::new();
    init(&provider, InitRequest::new(IssuerUrl::parse("https://oidc.example", "test")?), &*clock).await?;
    let (issuer, tasks) = Issuer::builder("https://oidc.example", provider)
        .allow("sts.amazonaws.com", Duration::from_secs(900))
        .clock(clock.clone())
        .build()
        .await?;
    let stop = CancellationToken::new();
    let work = JoinSet::from_iter([tasks.run(stop.clone())]);

    let pod = VerifiedWorkload::vouched_by_embedder(Subject::parse("controller:pod:build-7")?);
    let audience = Audience::parse("sts.amazonaws.com")?;
    let minted = issuer.mint(&pod, &audience).await?;
    let claims = issuer.verify(&minted.token, &audience)?;
    assert_eq!(claims.subject(), "controller:pod:build-7");
    assert_eq!(minted.exp, UnixTime(1_800_000_000 - 30 + 900));

    clock.advance(Duration::from_secs(901 + 300));
    assert!(issuer.verify(&minted.token, &audience).is_err(), "it has expired");

    stop.cancel();
    work.join_all().await;
    Ok(())
}
