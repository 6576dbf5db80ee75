//! The key cache against an issuer that fails, stalls, shrinks and is flooded.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use oneseal_relying_party::RelyingParty;
use oneseal_testing::FixedClock;
use support::{
    Answer, DISCOVERY, FakeIssuer, ISSUER, JWKS, clock, discovery, jwks_of, token, vectors, with_kid,
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// Long enough for the scheduled refresh to be due, and short enough for the vectors' good tokens.
const REFRESH: Duration = Duration::from_secs(300);

fn lenient(issuer: &FakeIssuer, clock: &Arc<FixedClock>) -> RelyingParty {
    issuer.relying_party(clock).leeway(Duration::from_secs(600)).build().unwrap()
}

async fn reason(relying_party: &RelyingParty, token: &str) -> &'static str {
    relying_party.verify(token).await.unwrap_err().reason()
}

/// Everything an issuer or what stands before it has answered in place of a key set.
fn failures() -> Vec<(&'static str, Answer)> {
    vec![
        ("status", Answer::status(500)),
        ("status", Answer::status(503)),
        ("status", Answer::status(404)),
        ("status", Answer::status(204)),
        ("not_json", Answer::ok("<!doctype html><title>login</title>")),
        ("not_json", Answer::ok("")),
        ("no_usable_key", Answer::ok(r#"{"keys":[]}"#)),
        ("no_keys_member", Answer::ok("{}")),
        ("not_json", Answer::ok(&jwks_of(&["ec1"]).as_bytes()[..60])),
        ("http", Answer::Broken(jwks_of(&["ec1"]).into_bytes())),
        ("too_large", Answer::Endless),
        ("too_large", Answer::ok(vec![b' '; 256 * 1024 + 1])),
        ("redirect", Answer::status(302).with_field("location", "https://issuer.example/tenant/other")),
        ("redirect", Answer::status(307).with_field("location", "http://169.254.169.254/latest")),
        ("encoded", Answer::ok(vec![0x1f, 0x8b]).with_field("content-encoding", "gzip")),
    ]
}

#[tokio::test]
async fn every_failure_leaves_the_good_set_in_use_and_is_not_replayed() {
    for (wanted, failure) in failures() {
        let (issuer, clock) = (FakeIssuer::good().await, clock());
        let relying_party = lenient(&issuer, &clock);
        relying_party.refresh().await.unwrap();
        issuer.answer(JWKS, failure.clone());
        let error = relying_party.refresh().await.unwrap_err();
        assert_eq!(error.reason(), wanted, "{failure:?}");
        relying_party.verify(&token("ok-es256")).await.unwrap();

        issuer.answer(JWKS, Answer::ok(jwks_of(&["ed1"])));
        clock.advance(REFRESH + SECOND);
        relying_party.verify(&token("ok-es256")).await.unwrap();
        issuer.until_seen(JWKS, 3).await;
        relying_party.refresh().await.unwrap();
        assert_eq!(relying_party.held_kids().len(), 1, "{failure:?}");
    }
}

#[tokio::test]
async fn a_cold_relying_party_says_unavailable_for_good_and_bad_tokens_alike() {
    for (wanted, failure) in failures() {
        let (issuer, clock) = (FakeIssuer::https(failure).await, clock());
        let relying_party = lenient(&issuer, &clock);
        for id in ["ok-es256", "exp-just-past-leeway", "sig-r0", "kid-unknown"] {
            let error = relying_party.verify(&token(id)).await.unwrap_err();
            assert!(error.is_unavailable(), "{id}: {error:?}");
            assert_eq!(error.reason(), wanted, "{id}");
            assert!(error.retry_after().is_some());
            clock.advance(SECOND * 30);
        }
        issuer.answer(JWKS, Answer::ok(vectors()["jwks"].to_string()));
        relying_party.verify(&token("ok-es256")).await.unwrap();
        assert_eq!(reason(&relying_party, &token("sig-r0")).await, "signature");
    }
}

#[tokio::test]
async fn an_issuer_that_is_gone_stalls_or_lies_is_unavailable() {
    let clock = clock();
    let gone = FakeIssuer::good().await;
    let relying_party = gone.relying_party(&clock).build().unwrap();
    drop(gone);
    assert_eq!(reason(&relying_party, &token("ok-es256")).await, "connect");

    let slow = FakeIssuer::https(Answer::Slow).await;
    let relying_party =
        slow.relying_party(&clock).fetch_deadline(Duration::from_millis(200)).build().unwrap();
    assert_eq!(reason(&relying_party, &token("ok-es256")).await, "deadline");

    let other = FakeIssuer::good().await;
    other.answer(
        DISCOVERY,
        Answer::ok(discovery("https://issuer.example", "https://issuer.example/tenant/jwks")),
    );
    let relying_party = other.relying_party(&clock).build().unwrap();
    assert_eq!(reason(&relying_party, &token("ok-es256")).await, "issuer_mismatch");
    assert_eq!(other.count(JWKS), 0);

    let plain = FakeIssuer::good().await;
    plain.answer(DISCOVERY, Answer::ok(discovery(ISSUER, "http://127.0.0.1/jwks")));
    let relying_party = plain.relying_party(&clock).build().unwrap();
    assert_eq!(reason(&relying_party, &token("ok-es256")).await, "jwks_uri");

    let untrusted = FakeIssuer::good().await;
    let trusting_another = FakeIssuer::good().await.relying_party(&clock).connect_to(untrusted.address());
    assert_eq!(reason(&trusting_another.build().unwrap(), &token("ok-es256")).await, "certificate");
    assert_eq!(untrusted.seen(), []);
}

#[tokio::test]
async fn ten_thousand_unknown_kids_cost_one_fetch_per_interval_and_known_kids_nothing() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    let good = token("ok-es256");
    for interval in 1..=2_usize {
        clock.advance(SECOND * 30);
        for n in 0..5_000 {
            assert_eq!(reason(&relying_party, &with_kid(&format!("k{interval}-{n}"))).await, "unknown_kid");
            if n % 100 == 0 {
                relying_party.verify(&good).await.unwrap();
            }
        }
        assert_eq!(issuer.count(JWKS), 1 + interval);
    }
    assert_eq!(issuer.count(DISCOVERY), 1);
}

#[tokio::test]
async fn a_rotation_during_a_flood_is_learnt_within_one_interval() {
    let (issuer, clock) = (FakeIssuer::https(Answer::ok(jwks_of(&["ed1"]))).await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    // A hundred seconds of a thousand random kids in ten each; failing reads count as attempts, and the key that is
    // rotated in after 41 s is learnt as soon as the interval allows, by whatever token comes then.
    let (mut attempts, mut learnt) = (Vec::new(), None);
    for tick in 0..10_000_u64 {
        clock.advance(Duration::from_millis(10));
        let now = (tick + 1) * 10;
        match now {
            10_000 => issuer.answer(JWKS, Answer::status(500)),
            41_000 => issuer.answer(JWKS, Answer::ok(jwks_of(&["ed1", "ec1"]))),
            _ => {}
        }
        let before = issuer.count(JWKS);
        relying_party.verify(&with_kid(&format!("k{tick}"))).await.unwrap_err();
        if issuer.count(JWKS) > before {
            attempts.push(now);
        }
        if tick % 100 == 0 {
            relying_party.verify(&token("ok-eddsa")).await.unwrap();
            if learnt.is_none() && relying_party.verify(&token("ok-es256")).await.is_ok() {
                learnt = Some(now);
            }
        }
    }
    assert_eq!(attempts, [30_000, 60_000, 90_000]);
    assert_eq!(learnt, Some(60_010));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn those_who_need_the_same_fetch_share_it() {
    let issuer = FakeIssuer::https(Answer::Held(vectors()["jwks"].to_string().into_bytes())).await;
    let relying_party = lenient(&issuer, &clock());
    let mut waiting = tokio::task::JoinSet::new();
    for n in 0..50 {
        let relying_party = relying_party.clone();
        let token = if n % 2 == 0 { token("ok-es256") } else { with_kid("zzz") };
        waiting.spawn(async move { relying_party.verify(&token).await.is_ok() });
    }
    issuer.until_seen(JWKS, 1).await;
    issuer.release();
    let accepted = waiting.join_all().await.into_iter().filter(|ok| *ok).count();
    assert_eq!((accepted, issuer.count(JWKS)), (25, 1));
}

#[tokio::test]
async fn a_known_kid_never_waits_for_an_unknown_one() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    issuer.answer(JWKS, Answer::Held(vectors()["jwks"].to_string().into_bytes()));
    clock.advance(SECOND * 30);
    let unknown = with_kid("zzz");
    let stuck = relying_party.verify(&unknown);
    tokio::pin!(stuck);
    tokio::select! {
        outcome = &mut stuck => panic!("the issuer has not answered: {outcome:?}"),
        () = issuer.until_seen(JWKS, 2) => {}
    }
    for _ in 0..100 {
        relying_party.verify(&token("ok-es256")).await.unwrap();
    }
    issuer.release();
    assert_eq!(stuck.await.unwrap_err().reason(), "unknown_kid");
}

#[tokio::test]
async fn a_due_refresh_runs_beside_the_token_that_finds_it_due() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    issuer.answer(JWKS, Answer::Held(jwks_of(&["ed1"]).into_bytes()));
    clock.advance(REFRESH);
    relying_party.verify(&token("ok-es256")).await.unwrap();
    issuer.until_seen(JWKS, 2).await;
    relying_party.verify(&token("ok-es256")).await.unwrap();
    issuer.release();
    relying_party.refresh().await.unwrap();
    let held: Vec<String> = relying_party.held_kids().iter().map(ToString::to_string).collect();
    assert_eq!(held, ["ed1"]);
}

#[tokio::test]
async fn a_new_key_is_learnt_from_the_first_token_that_names_it() {
    let (issuer, clock) = (FakeIssuer::https(Answer::ok(jwks_of(&["ed1"]))).await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.verify(&token("ok-eddsa")).await.unwrap();
    issuer.answer(JWKS, Answer::ok(jwks_of(&["ed1", "ec1"])));
    assert_eq!(reason(&relying_party, &token("ok-es256")).await, "unknown_kid");
    clock.advance(SECOND * 30);
    let verified = relying_party.verify(&token("ok-es256")).await.unwrap();
    assert_eq!((verified.kid.as_str(), issuer.count(JWKS)), ("ec1", 2));
}

#[tokio::test]
async fn an_unknown_kid_beside_a_failing_issuer_is_unavailable_and_not_refused() {
    let (issuer, clock) = (FakeIssuer::https(Answer::ok(jwks_of(&["ed1"]))).await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    issuer.answer(JWKS, Answer::status(500));
    clock.advance(SECOND * 30);
    for _ in 0..3 {
        let error = relying_party.verify(&token("ok-es256")).await.unwrap_err();
        assert_eq!((error.reason(), error.retry_after()), ("status", Some(SECOND * 30)));
    }
    relying_party.verify(&token("ok-eddsa")).await.unwrap();
    assert_eq!(issuer.count(JWKS), 2);
}

#[tokio::test]
async fn a_caller_who_hangs_up_takes_no_fetch_along() {
    let issuer = FakeIssuer::https(Answer::Held(vectors()["jwks"].to_string().into_bytes())).await;
    let relying_party = lenient(&issuer, &clock());
    let good = token("ok-es256");
    tokio::select! {
        outcome = relying_party.verify(&good) => panic!("the issuer has not answered: {outcome:?}"),
        () = issuer.until_seen(JWKS, 1) => {}
    }
    issuer.release();
    relying_party.verify(&good).await.unwrap();
    assert_eq!(issuer.count(JWKS), 1);
}

#[test]
fn a_runtime_that_ends_takes_no_later_caller_along() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, first, second) = (runtime(), runtime(), runtime());
    let held = Answer::Held(vectors()["jwks"].to_string().into_bytes());
    let (issuer, clock) = (server.block_on(FakeIssuer::https(held)), clock());
    let relying_party = lenient(&issuer, &clock);
    let good = token("ok-es256");
    first.block_on(async {
        tokio::select! {
            outcome = relying_party.verify(&good) => panic!("the issuer has not answered: {outcome:?}"),
            () = issuer.until_seen(JWKS, 1) => {}
        }
    });
    drop(first);
    let error = second.block_on(relying_party.verify(&good)).unwrap_err();
    assert_eq!((error.reason(), error.retry_after()), ("interrupted", Some(SECOND)));
    issuer.release();
    clock.advance(SECOND);
    second.block_on(relying_party.verify(&good)).unwrap();
}

#[tokio::test]
async fn past_its_limit_the_last_good_set_is_unavailable() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let relying_party = issuer.relying_party(&clock).stale_limit(REFRESH).build().unwrap();
    relying_party.refresh().await.unwrap();
    issuer.answer(JWKS, Answer::status(500));
    clock.advance_boot(REFRESH - SECOND);
    relying_party.verify(&token("ok-es256")).await.unwrap();
    clock.advance_boot(SECOND);
    assert_eq!(reason(&relying_party, &token("ok-es256")).await, "status");
}

#[tokio::test]
async fn two_issuers_with_the_same_kid_do_not_share_keys() {
    let clock = clock();
    let swapped = jwks_of(&["ed1"]).replace("\"ed1\"", "\"ec1\"");
    let (a, b) = (FakeIssuer::good().await, FakeIssuer::https(Answer::ok(swapped)).await);
    let (at_a, at_b) = (lenient(&a, &clock), lenient(&b, &clock));
    at_a.verify(&token("ok-es256")).await.unwrap();
    assert_eq!(reason(&at_b, &token("ok-es256")).await, "algorithm");
}

#[tokio::test]
async fn a_key_set_that_moves_is_found_again() {
    let (issuer, clock) = (FakeIssuer::good().await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    issuer.answer(JWKS, Answer::status(404));
    issuer.answer(DISCOVERY, Answer::ok(discovery(ISSUER, "https://issuer.example/tenant/moved")));
    issuer.answer("/tenant/moved", Answer::ok(jwks_of(&["ed1"])));
    relying_party.refresh().await.unwrap_err();
    relying_party.refresh().await.unwrap();
    assert_eq!((relying_party.held_kids().len(), issuer.count(DISCOVERY)), (1, 2));
}

#[tokio::test]
async fn the_loop_warms_up_by_itself_and_ends_when_cancelled() {
    let issuer = FakeIssuer::good().await;
    let relying_party = lenient(&issuer, &clock());
    let cancel = CancellationToken::new();
    let stop_when_warm = async {
        issuer.until_seen(JWKS, 1).await;
        relying_party.verify(&token("ok-es256")).await.unwrap();
        cancel.cancel();
    };
    tokio::join!(relying_party.keep_fresh(cancel.clone()), stop_when_warm);
    assert_eq!(issuer.count(JWKS), 1);
}

#[tokio::test]
async fn max_age_brings_the_refresh_forward() {
    let short = Answer::ok(vectors()["jwks"].to_string()).with_field("cache-control", "public, max-age=90");
    let (issuer, clock) = (FakeIssuer::https(short.with_field("age", "30")).await, clock());
    let relying_party = lenient(&issuer, &clock);
    relying_party.refresh().await.unwrap();
    clock.advance(SECOND * 59);
    relying_party.verify(&token("ok-es256")).await.unwrap();
    clock.advance(SECOND);
    relying_party.verify(&token("ok-es256")).await.unwrap();
    issuer.until_seen(JWKS, 2).await;
}
