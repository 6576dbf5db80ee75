//! Rules that change while an issuer runs.

use std::collections::BTreeMap;
use std::time::Duration;

use oneseal::{MintError, Rule, RuleSet, TokenLifetime};
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::{AUDIENCE, audience, es256, pod, segment};

/// For [`AUDIENCE`], with a life and a claim by which it is known.
fn rule(name: &str, minutes: u64) -> Rule {
    let ttl = TokenLifetime::new(Duration::from_secs(60 * minutes)).expect("a good life");
    let claims = Map::from_iter([("set".to_owned(), Value::from(name))]);
    Rule::new(audience(AUDIENCE), ttl).named(name).claims(&claims)
}

#[tokio::test]
async fn other_rules_take_the_place_of_those_in_force_and_faulty_ones_do_not() {
    let running = es256().await;
    let mint = async |text: &str| running.issuer.mint(&pod(), &audience(text)).await;
    assert!(mint(AUDIENCE).await.is_ok());
    let other = Rule::new(audience("other"), TokenLifetime::MIN);
    let findings = running.issuer.set_rules(RuleSet::new([other.clone(), other])).expect("taken");
    assert_eq!(findings.iter().map(|found| found.code.name).collect::<Vec<_>>(), ["rule.unreachable"]);
    assert!(matches!(mint(AUDIENCE).await, Err(MintError::NotAllowed { .. })));
    assert!(mint("other").await.is_ok());

    let faulty = RuleSet::new([rule("a", 10), rule("b", 10).subject("{")]);
    let refused = running.issuer.set_rules(faulty).expect_err("one is none");
    assert!(refused.iter().any(|found| found.code.name == "rule.malformed" && found.place == "rule b"));
    assert!(matches!(mint(AUDIENCE).await, Err(MintError::NotAllowed { .. })), "none of them is taken");
    assert_eq!(running.issuer.current_rules().len(), 2);

    let none = running.issuer.set_rules(RuleSet::default()).expect("nobody has anything");
    assert_eq!(none.iter().map(|found| found.code.name).collect::<Vec<_>>(), ["rule.none"]);
    assert!(matches!(mint("other").await, Err(MintError::NotAllowed { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_decided_by_the_former_rules_or_by_the_later_ones_and_never_by_both() {
    let running = es256().await;
    running.issuer.set_rules(RuleSet::new([rule("a", 10)])).expect("good");
    let (issuer, stop) = (running.issuer.clone(), CancellationToken::new());
    let (stopped, mut swapping) = (stop.clone(), JoinSet::new());
    swapping.spawn(async move {
        for turn in 0_u64.. {
            let set = if turn % 2 == 0 { rule("b", 20) } else { rule("a", 10) };
            issuer.set_rules(RuleSet::new([set])).expect("good");
            tokio::task::yield_now().await;
            if stopped.is_cancelled() {
                return;
            }
        }
    });
    let mut seen = BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 0)]);
    let minting = async {
        while seen.values().any(|count| *count < 50) {
            let minted = running.issuer.mint(&pod(), &audience(AUDIENCE)).await.expect("always allowed");
            let claims = segment(&minted.token, 1);
            let life = claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(exp, iat)| exp - iat);
            let wanted = if &*minted.rule == "a" { 600 } else { 1200 };
            assert_eq!((claims["set"].as_str(), life), (Some(&*minted.rule), Some(wanted)));
            *seen.get_mut(&*minted.rule).expect("one of the two") += 1;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), minting).await.expect("both are in force in turn");
    stop.cancel();
    swapping.join_next().await.expect("it runs").expect("it ends");
}
