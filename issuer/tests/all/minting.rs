//! What is minted, and what is refused.

use std::time::Duration;

use oneseal::providers::ErrorKind;
use oneseal::{
    Algorithm, Clock as _, MAX_TOKEN_LEN, MintError, MintRequest, Minted, Minting, NoRule, Rotation, Rule,
    Subject, TokenLifetime, UnixTime, VerifiedWorkload, VerifyError,
};
use serde_json::{Map, Value, json};

use crate::support::{
    AUDIENCE, ES256, ES256_OTHER, HOUR, NOW, RS256, Running, URL, audience, bare, es256, get, metric, pod,
    ring, segment, start, start_on, until,
};

#[tokio::test]
async fn a_token_says_what_was_agreed_and_nothing_else() {
    let running = es256().await;
    let workload = pod().with_claim("pod_uid", "5c1e").expect("allowed");
    let minted = running.issuer.mint(&workload, &audience(AUDIENCE)).await.expect("minted");
    let kid = running.issuer.snapshot().keys()[0].kid.clone();
    assert_eq!(segment(&minted.token, 0), json!({"alg": "ES256", "kid": kid.as_str(), "typ": "JWT"}));
    let mut claims = segment(&minted.token, 1);
    let jti = claims.as_object_mut().expect("an object").remove("jti").expect("a jti");
    assert!(uuid::Uuid::parse_str(jti.as_str().expect("a string")).is_ok());
    let iat = NOW.as_secs() - 30;
    assert_eq!(
        claims,
        json!({
            "iss": URL, "sub": "project:42:env:prod", "aud": AUDIENCE,
            "iat": iat, "nbf": iat, "exp": iat + 3600, "pod_uid": "5c1e"
        })
    );
    assert!(claims["iat"].is_i64() && claims["exp"].is_i64());
    assert_eq!((minted.kid, minted.algorithm, minted.exp), (kid, Algorithm::Es256, UnixTime(iat + 3600)));
}

#[tokio::test]
async fn a_preview_is_what_would_be_minted_and_no_token() {
    let running = es256().await;
    let workload = pod().with_claim("pod_uid", "5c1e").expect("allowed");
    let request = MintRequest::new(audience(AUDIENCE)).ttl(Duration::from_secs(600));
    let preview = running.issuer.preview_with(&workload, &request).expect("allowed");
    let minted = running.issuer.mint_with(&workload, request).await.expect("minted");
    let mut claims: [Value; 2] =
        [serde_json::from_str(&preview.claims).expect("JSON"), segment(&minted.token, 1)];
    let jtis = claims.each_mut().map(|claims| claims.as_object_mut().expect("an object").remove("jti"));
    assert_eq!(claims[0], claims[1]);
    assert_ne!(jtis[0], jtis[1], "each is said once");
    assert_eq!(jtis[1], Some(json!(minted.jti.to_string())));
    assert_eq!((&preview.kid, preview.algorithm, preview.exp), (&minted.kid, minted.algorithm, minted.exp));
    let mints = metric(&running.issuer, "oneseal_mints_total{alg=\"ES256\",result=\"ok\"}");
    assert_eq!(mints, "1", "a preview is none");
    for (request, words) in [
        (MintRequest::new(audience("other")), "NotAllowed"),
        (MintRequest::new(audience(URL)), "OwnAudience"),
        (MintRequest::new(audience(AUDIENCE)).ttl(2 * HOUR), "LifetimeTooLong"),
        (MintRequest::new(audience(AUDIENCE)).algorithm(Algorithm::EdDsa), "AlgorithmNotAllowed"),
    ] {
        let previewed = running.issuer.preview_with(&pod(), &request).expect_err(words);
        let minted = running.issuer.mint_with(&pod(), request).await.expect_err(words);
        assert_eq!(format!("{previewed:?}"), format!("{minted:?}"));
        assert!(format!("{minted:?}").starts_with(words), "{minted:?}");
    }
}

#[tokio::test]
async fn no_two_tokens_have_one_jti() {
    let running = es256().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let minted = running.issuer.mint(&pod(), &audience(AUDIENCE)).await.expect("minted");
        assert!(seen.insert(segment(&minted.token, 1)["jti"].to_string()));
    }
}

#[tokio::test]
async fn every_algorithm_mints_and_verifies() {
    let provider = ring(URL, &Algorithm::ALL).await;
    let running = start_on(URL, provider, |builder| builder.algorithms(Algorithm::ALL)).await;
    for algorithm in Algorithm::ALL {
        let request = MintRequest::new(audience(AUDIENCE)).algorithm(algorithm);
        let minted = running.issuer.mint_with(&pod(), request).await.expect("minted");
        assert_eq!(segment(&minted.token, 0)["alg"], algorithm.as_str());
        assert!(running.issuer.snapshot().verify(&minted.token).is_ok(), "{algorithm}");
        let claims = running.issuer.verify(&minted.token, &audience(AUDIENCE)).expect("ours");
        assert_eq!(claims.subject(), "project:42:env:prod");
        assert_eq!(claims.expires_at(), minted.exp);
        let last = metric(
            &running.issuer,
            &format!("oneseal_key_last_exp_timestamp_seconds{{kid=\"{}\"}}", minted.kid),
        );
        assert_eq!(last, minted.exp.as_secs().to_string());
    }
}

#[tokio::test]
async fn a_token_of_one_replica_is_believed_by_another() {
    let (one, other) = (es256().await, es256().await);
    let minted = mint(&one).await.expect("minted");
    assert!(other.issuer.verify(&minted.token, &audience(AUDIENCE)).is_ok());
}

#[tokio::test]
async fn only_our_own_unchanged_current_tokens_for_the_audience_are_believed() {
    let running = es256().await;
    let token = mint(&running).await.expect("minted").token;
    let verify = |token: &str, for_whom: &str| running.issuer.verify(token, &audience(for_whom)).map(drop);
    assert_eq!(verify(&token, AUDIENCE), Ok(()));
    assert_eq!(verify(&token, "vault"), Err(VerifyError::Audience));
    let (head, signature) = token.rsplit_once('.').expect("three segments");
    let flipped = if signature.starts_with('A') { "B" } else { "A" };
    assert!(matches!(
        verify(&format!("{head}.{flipped}{}", &signature[1..]), AUDIENCE),
        Err(VerifyError::Signature(_))
    ));
    assert!(matches!(verify(&format!("{token}="), AUDIENCE), Err(VerifyError::Signature(_))));
    assert!(matches!(verify("", AUDIENCE), Err(VerifyError::Signature(_))));
    assert!(matches!(verify(&"a".repeat(1 << 20), AUDIENCE), Err(VerifyError::Signature(_))));

    // The same key under another name: the signature is good, the issuer is not.
    let namesake = start("https://other.example", bare(&[("current.pem", ES256)]), |builder| {
        builder.algorithms([Algorithm::Es256])
    })
    .await;
    let foreign = mint(&namesake).await.expect("minted").token;
    assert_eq!(verify(&foreign, AUDIENCE), Err(VerifyError::Issuer));

    running.clock.advance_wall(HOUR - Duration::from_secs(30) + Duration::from_secs(59));
    assert_eq!(verify(&token, AUDIENCE), Ok(()), "within the skew");
    running.clock.advance_wall(Duration::from_secs(1));
    assert_eq!(verify(&token, AUDIENCE), Err(VerifyError::Expired { ago_s: 60 }));
    running.clock.set_wall(UnixTime(NOW.as_secs() - 30 - 61));
    assert_eq!(verify(&token, AUDIENCE), Err(VerifyError::NotYetValid { ahead_s: 61 }));
}

#[tokio::test]
async fn nothing_is_minted_without_a_rule() {
    let running = es256().await;
    for text in ["vault", "STS.amazonaws.com", "sts.amazonaws.com/"] {
        let refused = running.issuer.mint(&pod(), &audience(text)).await.expect_err("no rule");
        let expected =
            MintError::NotAllowed { audience: audience(text), why: NoRule::Audience, against: Vec::new() };
        assert_eq!(refused, expected);
        assert!(!refused.is_retryable());
    }
    let sample = "oneseal_mints_total{alg=\"ES256\",result=\"not_allowed\"}";
    assert_eq!(metric(&running.issuer, sample), "3");
}

#[tokio::test]
async fn the_issuer_is_never_an_audience() {
    let running = es256().await;
    for own in [URL, "https://oidc.example/", "https://oidc.example/token"] {
        let refused = running.issuer.mint(&pod(), &audience(own)).await.expect_err("our own");
        assert_eq!(refused, MintError::OwnAudience(audience(own)));
    }
}

#[tokio::test]
async fn a_life_is_the_rules_or_shorter_and_never_above_the_limit() {
    let running = es256().await;
    let life = async |ttl_s: u64| {
        let request = MintRequest::new(audience(AUDIENCE)).ttl(Duration::from_secs(ttl_s));
        let minted = running.issuer.mint_with(&pod(), request).await?;
        let claims = segment(&minted.token, 1);
        Ok::<_, MintError>(claims["exp"].as_i64().expect("exp") - claims["iat"].as_i64().expect("iat"))
    };
    assert_eq!(life(60).await, Ok(60));
    assert_eq!(life(3600).await, Ok(3600));
    assert!(matches!(life(3601).await, Err(MintError::LifetimeTooLong { .. })));
    assert!(matches!(life(59).await, Err(MintError::Invalid(_))));
    assert!(matches!(life(0).await, Err(MintError::Invalid(_))));
    assert!(matches!(life(u64::MAX).await, Err(MintError::Invalid(_))));
}

#[tokio::test]
async fn a_rules_life_is_cut_to_that_of_the_ring_and_said_at_build() {
    let mut rotation = Rotation::default();
    rotation.token_ttl_s = 300;
    rotation.max_token_ttl_s = 600;
    let keys = bare(&[("current.pem", ES256)]);
    let running = start(URL, keys, |builder| builder.algorithms([Algorithm::Es256]).rotation(rotation)).await;
    let minted = mint(&running).await.expect("minted");
    assert_eq!(minted.exp, UnixTime(NOW.as_secs() - 30 + 600));
    assert!(running.issuer.findings().iter().any(|found| found.code.name == "rule.ttl_clamped"));
}

#[tokio::test]
async fn a_request_cannot_set_the_issuers_claims() {
    let running = es256().await;
    let with = async |claims: Value| {
        let Value::Object(claims) = claims else { panic!("an object") };
        running.issuer.mint_with(&pod(), MintRequest::new(audience(AUDIENCE)).claims(claims)).await
    };
    for name in ["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "typ"] {
        let refused = with(json!({ name: "x" })).await.expect_err("reserved");
        assert!(refused.to_string().contains(name), "{refused}");
    }
    assert!(matches!(with(json!({ "big": "x".repeat(5000) })).await, Err(MintError::Invalid(_))));
    let tags = json!({"https://aws.amazon.com/tags": {"principal_tags": {"team": ["a"]}}});
    let minted = with(tags.clone()).await.expect("session tags fit");
    assert_eq!(segment(&minted.token, 1)["https://aws.amazon.com/tags"], tags["https://aws.amazon.com/tags"]);
}

#[tokio::test]
async fn a_claim_of_both_workload_and_request_is_refused() {
    let running = es256().await;
    let workload = pod().with_claim("team", "a").expect("allowed");
    let mut claims = Map::new();
    claims.insert("team".to_owned(), Value::from("b"));
    let request = MintRequest::new(audience(AUDIENCE)).claims(claims);
    assert!(matches!(running.issuer.mint_with(&workload, request).await, Err(MintError::Invalid(_))));
}

#[tokio::test]
async fn the_largest_token_fits_every_relying_party() {
    let running = es256().await;
    let subject = Subject::parse("\"".repeat(Subject::MAX_LEN)).expect("odd but allowed");
    let workload = VerifiedWorkload::vouched_by_embedder(subject)
        .with_claim("big", "x".repeat(4096 - r#"{"big":""}"#.len()))
        .expect("just fits");
    let minted = running.issuer.mint(&workload, &audience(AUDIENCE)).await.expect("minted");
    assert!(minted.token.len() <= MAX_TOKEN_LEN);
    assert!(running.issuer.verify(&minted.token, &audience(AUDIENCE)).is_ok());
}

#[tokio::test]
async fn an_admin_may_mint_for_audiences_of_its_own() {
    let keys = bare(&[("current.pem", ES256)]);
    let running =
        start(URL, keys, |builder| builder.algorithms([Algorithm::Es256]).mint_audiences(["probe"])).await;
    let subject = || Subject::parse("probe-1").expect("good");
    let admin = VerifiedWorkload::vouched_by_admin("uid:0", subject());
    assert!(running.issuer.mint(&admin, &audience("probe")).await.is_ok());
    assert!(running.issuer.mint(&admin, &audience(AUDIENCE)).await.is_ok());
    assert!(running.issuer.mint(&admin, &audience("else")).await.is_err());
    assert!(running.issuer.mint(&pod(), &audience("probe")).await.is_err());
}

#[tokio::test]
async fn a_rule_decides_the_algorithm() {
    let keys = bare(&[("current.RS256.pem", RS256), ("current.ES256.pem", ES256)]);
    let rule =
        Rule::new(audience("vault"), TokenLifetime::new(HOUR).expect("good")).algorithm(Algorithm::Es256);
    let running =
        start(URL, keys, |builder| builder.algorithms([Algorithm::Rs256, Algorithm::Es256]).rule(rule)).await;
    let minted = running.issuer.mint(&pod(), &audience("vault")).await.expect("minted");
    assert_eq!(minted.algorithm, Algorithm::Es256);
    assert_eq!(mint(&running).await.expect("minted").algorithm, Algorithm::Rs256);
    let asked = MintRequest::new(audience("vault")).algorithm(Algorithm::Rs256);
    let refused = running.issuer.mint_with(&pod(), asked).await;
    assert!(matches!(refused, Err(MintError::AlgorithmNotAllowed { .. })));
}

#[tokio::test]
async fn an_algorithm_without_a_key_is_named() {
    let keys = bare(&[("current.pem", ES256)]);
    let running = start(URL, keys, |builder| builder.algorithms([Algorithm::Rs256, Algorithm::Es256])).await;
    assert_eq!(mint(&running).await, Err(MintError::NoKey(Algorithm::Rs256)));
    assert_eq!(running.issuer.health().minting, Minting::NoKey(Algorithm::Rs256));
    let asked = MintRequest::new(audience(AUDIENCE)).algorithm(Algorithm::Es256);
    assert!(running.issuer.mint_with(&pod(), asked).await.is_ok());
}

/// P7: past the staleness limit minting stops; documents and verification go on, and so does all once it is back.
#[tokio::test]
async fn an_outage_of_the_provider_stops_minting_alone_and_only_in_the_end() {
    let running = es256().await;
    let token = mint(&running).await.expect("minted").token;
    let jwks = get(&running.issuer, "/.well-known/jwks.json");
    running.provider.set_outage(Some(ErrorKind::Unavailable));
    running.clock.advance_boot(HOUR);
    assert!(mint(&running).await.is_ok(), "at the limit");
    running.clock.advance_boot(Duration::from_secs(1));
    let refused = mint(&running).await.expect_err("past the limit");
    assert!(matches!(refused, MintError::Stale { limit_s: 3600, .. }), "{refused:?}");
    for (kind, name) in [
        (ErrorKind::NotFound, "provider.not_found"),
        (ErrorKind::Unauthenticated, "provider.unauthenticated"),
    ] {
        running.provider.set_outage(Some(kind));
        running.issuer.look_now();
        until(name, || running.issuer.fault().is_some_and(|finding| finding.code.name == name)).await;
        let told = mint(&running).await.expect_err("past the limit").to_string();
        assert!(told.contains(name) && told.contains("has been put right"), "{told}");
    }
    assert!(refused.is_retryable() && refused.retry_after().is_some());
    assert_eq!(running.issuer.health().minting, Minting::Stale);
    assert_eq!(metric(&running.issuer, "oneseal_minting"), "0");
    assert_eq!(get(&running.issuer, "/.well-known/jwks.json").body(), jwks.body());
    assert!(running.issuer.verify(&token, &audience(AUDIENCE)).is_ok());

    running.provider.set_outage(None);
    until("minting resumes", || running.issuer.health().minting.is_on()).await;
    assert!(mint(&running).await.is_ok());
}

#[tokio::test]
async fn minting_waits_for_the_tasks_and_ends_with_them() {
    let mut running = es256().await;
    assert!(mint(&running).await.is_ok());
    running.stop.cancel();
    running.tasks.join_next().await.expect("one task").expect("no panic");
    let refused = mint(&running).await.expect_err("stopped");
    assert_eq!(refused, MintError::TasksNotRunning);
    assert!(refused.to_string().contains("Tasks::run"));
    assert_eq!(metric(&running.issuer, "oneseal_tasks_running"), "0");
    assert_eq!(get(&running.issuer, "/.well-known/jwks.json").status(), 200);
}

#[tokio::test]
async fn a_key_that_leaves_before_its_tokens_have_expired_is_told() {
    let log = crate::secrets::Log::default();
    let _guard = log.listen();
    let keys = bare(&[("current.ES256.pem", ES256), ("next.ES256.pem", ES256_OTHER)]);
    let running = start(URL, keys, |builder| builder.algorithms([Algorithm::Es256])).await;
    let kid = mint(&running).await.expect("minted").kid;
    let before = running.issuer.snapshot().jwks().clone();
    running.provider.set(bare(&[("previous.ES256.pem", ES256), ("current.ES256.pem", ES256_OTHER)]));
    until("the swap", || running.issuer.snapshot().jwks() != &before).await;
    assert!(!log.text().contains("a key has left"), "it is still published");
    running.provider.set(bare(&[("current.ES256.pem", ES256_OTHER)]));
    until("the warning", || log.text().contains("a key has left")).await;
    assert!(log.text().contains(kid.as_str()));
}

/// What the documented order of statements relies on: spawn the tasks, mint in the next line.
#[tokio::test]
async fn minting_begins_with_the_call_and_ends_with_a_future_that_nobody_polled() {
    let (issuer, tasks) =
        oneseal::Issuer::builder(URL, oneseal_testing::MemoryProvider::with(bare(&[("current.pem", ES256)])))
            .algorithms([Algorithm::Es256])
            .allow(AUDIENCE, Duration::from_secs(600))
            .build()
            .await
            .expect("a good key");
    let pod = pod();
    let audience = audience(AUDIENCE);
    assert_eq!(issuer.mint(&pod, &audience).await, Err(MintError::TasksNotRunning));
    let following = tasks.run(tokio_util::sync::CancellationToken::new());
    assert!(issuer.mint(&pod, &audience).await.is_ok());
    drop(following);
    assert_eq!(issuer.mint(&pod, &audience).await, Err(MintError::TasksNotRunning));
}

#[tokio::test]
async fn a_task_that_is_aborted_stops_minting_too() {
    let mut running = es256().await;
    running.tasks.shutdown().await;
    assert_eq!(mint(&running).await, Err(MintError::TasksNotRunning));
}

#[tokio::test]
async fn the_tasks_end_with_the_last_handle() {
    let Running { issuer, mut tasks, stop, .. } = es256().await;
    let layer = issuer.documents_layer();
    drop(issuer);
    assert!(tasks.try_join_next().is_none(), "the layer is a handle too");
    drop(layer);
    tasks.join_next().await.expect("one task").expect("no panic");
    assert!(!stop.is_cancelled());
}

/// More RSA tokens than the queue takes, on one thread of a runtime that never lets go in between.
#[tokio::test]
async fn a_full_queue_is_busy_and_retryable() {
    let keys = bare(&[("current.pem", RS256)]);
    let running = start(URL, keys, |builder| builder.signing_threads(1)).await;
    let asked = 2000;
    let results = futures_util::future::join_all((0..asked).map(|_| mint(&running))).await;
    let busy = results.iter().filter(|result| matches!(result, Err(MintError::Busy))).count();
    let minted = results.iter().filter(|result| result.is_ok()).count();
    assert!(busy > 0 && minted >= 256, "{busy} busy, {minted} minted");
    assert_eq!(busy + minted, asked);
    assert!(MintError::Busy.is_retryable());
    let sample = "oneseal_mints_total{alg=\"RS256\",result=\"busy\"}";
    assert_eq!(metric(&running.issuer, sample), busy.to_string());
    assert!(mint(&running).await.is_ok(), "later there is room again");
}

async fn mint(running: &Running) -> Result<Minted, MintError> {
    running.issuer.mint(&pod(), &audience(AUDIENCE)).await
}

#[tokio::test]
async fn a_clock_that_is_off_mints_nothing_until_it_is_right_again() {
    let running = es256().await;
    let (issuer, clock) = (&running.issuer, &running.clock);
    let told =
        |ahead_ms| issuer.set_reference_clock(NOW.as_secs() * 1000 + ahead_ms, clock.boot(), Duration::ZERO);
    assert_eq!(issuer.clock_offset_ms(), None);
    told(0);
    assert!(issuer.clock_offset_ms().is_some_and(|offset| offset.abs() <= 500));
    assert!(mint(&running).await.is_ok());

    clock.advance_wall(Duration::from_secs(62));
    assert_eq!(issuer.health().minting, Minting::ClockSkewed);
    let refused = mint(&running).await.expect_err("it would be from the future");
    assert_eq!(refused, MintError::ClockSkewed { offset_s: 62, skew_s: 60 });
    assert!(refused.is_retryable());

    clock.set_wall(NOW);
    assert!(mint(&running).await.is_ok(), "by itself");
    told(62_000);
    assert_eq!(mint(&running).await, Err(MintError::ClockSkewed { offset_s: -61, skew_s: 60 }));
    issuer.set_reference_clock(NOW.as_secs() * 1000 + 62_000, clock.boot(), Duration::from_secs(2));
    assert!(mint(&running).await.is_ok(), "it may be the question that was slow");
}

#[tokio::test]
async fn time_that_passes_is_no_offset() {
    let running = es256().await;
    running.issuer.set_reference_clock(NOW.as_secs() * 1000, running.clock.boot(), Duration::ZERO);
    running.clock.advance(Duration::from_secs(3000));
    assert!(mint(&running).await.is_ok());
}

#[tokio::test]
async fn who_waits_for_another_ring_hears_of_it_once_it_is_published() {
    let running = es256().await;
    let seen = *running.issuer.snapshot().identity();
    let issuer = running.issuer.clone();
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(async move {
        issuer.changed(&seen).await;
        *issuer.snapshot().identity()
    });
    running.provider.set(bare(&[("current.ES256.pem", ES256), ("next.ES256.pem", ES256_OTHER)]));
    assert_ne!(waiting.join_next().await.expect("one").expect("no panic"), seen);
    running.issuer.changed(&seen).await;
}
