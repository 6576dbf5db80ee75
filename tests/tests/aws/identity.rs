//! A replica that reads its key with a token of another issuer of ours, by the SDK's default chain.

use std::path::Path;
use std::time::Duration;

use oneseal_tests::{Start, state};

use crate::sts::{Issuer, STS, tampered};
use crate::support::{Place, jwks, metric, pod, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_reads_its_key_with_a_token_of_another_issuer_and_with_no_other_token() {
    let Some(place) = Place::with_ring().await else { return };
    let issuer = Issuer::start().await;
    place.aws.trust_issuer(&issuer.url, &[STS], &issuer.ca);
    let role = place.aws.create_role("replica", &issuer.url, STS, "replica");
    // From now on there is no other way in.
    place.aws.delete_access_key();
    let file = place.path("token");
    let good = issuer.mint("replica", STS).await;
    std::fs::write(&file, &good).unwrap();
    let start = by_token(&place, "a", &role, &file);
    place.aws.reset_counts();
    let replica = start.ready().await;
    assert!(!jwks(&replica).await.is_empty());
    let counts = place.aws.counts();
    assert!(counts["AssumeRoleWithWebIdentity"] <= 2, "credentials are kept while they are good: {counts:?}");

    for (what, token, cause) in [
        ("tampered", tampered(&good), "InvalidIdentityToken"),
        ("expired", issuer.sign(|_, claims| claims["exp"] = 1_700_000_000.into()), "ExpiredToken"),
        ("for somebody else", issuer.mint("replica", "other").await, "Incorrect token audience"),
        ("of another subject", issuer.mint("stranger", STS).await, "AccessDenied"),
    ] {
        std::fs::write(&file, token).unwrap();
        let mut start = by_token(&place, "b", &role, &file);
        start.more = start.more.replace("[process]\n", "[process]\nboot_timeout = \"1s\"\n");
        let (exit, out, err) = run(&start, &["check", "--no-bind"]).await;
        assert_eq!(exit, Some(77), "{what}: {out}{err}");
        assert!(out.contains(cause) || err.contains(cause), "{what}: {out}{err}");
        for secret in good.split('.').skip(1) {
            assert!(!out.contains(secret) && !err.contains(secret), "{what}: {out}{err}");
        }
    }
}

/// The SDK asks for new credentials some seconds before the old ones end.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_renewed_with_what_the_token_file_holds_by_then() {
    let Some(place) = Place::with_ring().await else { return };
    let issuer = Issuer::start().await;
    place.aws.trust_issuer(&issuer.url, &[STS], &issuer.ca);
    let role = place.aws.create_role("replica", &issuer.url, STS, "replica");
    place.aws.delete_access_key();
    place.aws.shorten_sessions(Duration::from_secs(12));
    let file = place.path("token");
    std::fs::write(&file, issuer.mint("replica", STS).await).unwrap();
    let replica = by_token(&place, "a", &role, &file).ready().await;
    let asked = || place.aws.counts().get("AssumeRoleWithWebIdentity").copied().unwrap_or_default();
    let before = asked();
    state::until("two renewals", async || (asked() >= before + 2).then_some(())).await;
    assert_eq!(metric(&replica, "oneseal_refreshes_total{result=\"failed\"}").await, 0);

    std::fs::write(&file, issuer.mint("replica", "other").await).unwrap();
    state::until("a look that fails", async || {
        (metric(&replica, "oneseal_refreshes_total{result=\"failed\"}").await > 0).then_some(())
    })
    .await;
    replica.mint(&pod()).await;
    assert!(replica.log_text().contains("Incorrect token audience"), "{}", replica.log_text());

    std::fs::write(&file, issuer.mint("replica", STS).await).unwrap();
    let sample = "oneseal_refreshes_total{result=\"ok\"}";
    let before = metric(&replica, sample).await;
    state::until("a good look", async || (metric(&replica, sample).await > before).then_some(())).await;
}

fn by_token(place: &Place, name: &str, role: &str, file: &Path) -> Start {
    let mut start = place.start(name);
    start.environment = place.aws.web_identity_environment(role, file);
    start
}
