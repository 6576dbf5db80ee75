//! The verbs one after the other, with the times at which each may come.

use oneseal_coordination::{Clock, UnixTime};
use oneseal_keystore::executor::{ExecuteError, Executor, Order};
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::ring::KeyState::{Active, Pending, Retiring};
use oneseal_keystore::steps::{Adoption, Foreign, Refusal, Request};
use oneseal_keystore::{Algorithm, KeyId, Rotation, Snapshot};

use super::{Bench, T0, activate, due, order, revoke, roll_back, rotate, until};

#[tokio::test]
async fn a_rotation_by_hand_keeps_every_floor_and_names_what_costs_most() {
    let bench = Bench::new(Rotation::default()).await;
    let old = bench.states().await[0].0.clone();
    bench.pass(100);
    let done = bench.order(rotate()).await.unwrap();
    let new = done.changes[0].kid.clone().unwrap();
    assert_eq!(bench.states().await, [(old.clone(), Active), (new.clone(), Pending)]);
    // Published at 100; nobody sees the replicas: a refresh and the skew, then H + C, and the second that was cut off.
    let floor = 100 + 15 + 60 + 300 + 90_720 + 1;
    let refusal = bench.refused(activate()).await;
    assert_eq!(until(&refusal), floor);
    assert_eq!(refusal.because().unwrap().knob, "rotation.rp_propagation");
    assert_eq!(refusal.exit().code(), 75);
    bench.pass(u64::try_from(floor).unwrap() - 100 - 1);
    assert_eq!(until(&bench.refused(activate()).await), floor);
    bench.pass(1);
    bench.order(activate()).await.unwrap();
    assert_eq!(bench.states().await, [(old.clone(), Retiring), (new.clone(), Active)]);

    // 24 h later the private half is due; until then the old key can come back.
    let retired = bench.now();
    assert_eq!(until(&bench.refused(due()).await), retired + 86_400);
    bench.pass(86_400);
    let gone = bench.order(due()).await.unwrap();
    assert_eq!(gone.changes[0].kind, "key.private_erased");
    assert!(bench.ring().await.keys[0].private.is_none());
    // S + request deadline + 24 h of token life + 2 skews + leeway, and the second after.
    let removal = retired + 3600 + 30 + 86_400 + 120 + 300 + 1;
    let refusal = bench.refused(due()).await;
    assert_eq!((until(&refusal), refusal.because().unwrap().knob), (removal, "rotation.max_token_ttl"));
    bench.pass(u64::try_from(removal - bench.now()).unwrap());
    bench.order(due()).await.unwrap();
    assert_eq!(bench.states().await, [(new, Active)]);
    let document = bench.document().await;
    assert_eq!(document["tombstones"][0]["kid"], old.as_str());
    assert_eq!(document["tombstones"][0]["state"], "retired");
    assert_eq!(bench.refused(due()).await.code(), "keys.nothing_to_do");
}

/// What kubelet has not copied yet is what a replica that reads a volume answers with.
#[tokio::test]
async fn replicas_that_read_a_copy_are_waited_for_as_long_as_it_may_lag() {
    let mut bench = Bench::new(Rotation::lab()).await;
    let mut options = super::options(Rotation::lab());
    options.max_lag = std::time::Duration::from_secs(150);
    let nobody = std::sync::Arc::new(super::NoRegistry);
    bench.executor = Executor::new(bench.provider.clone(), options, nobody, bench.clock.clone());
    bench.order(rotate()).await.unwrap();
    // A refresh, the skew and the lag, then H + C, and the second that was cut off.
    assert_eq!(until(&bench.refused(activate()).await), 1 + 1 + 150 + 2 + 2 + 1);
    bench.pass(157);
    bench.order(activate()).await.unwrap();
    // The second commit of an emergency comes no sooner than the first is everywhere.
    bench.order(revoke()).await.unwrap();
    let burned = bench.now();
    assert!(until(&bench.refused(activate()).await) >= burned + 150);
}

#[tokio::test]
async fn without_a_registry_time_alone_must_be_accepted() {
    let bench = Bench::new(Rotation::lab()).await;
    bench.order(rotate()).await.unwrap();
    bench.pass(1000);
    let mut careful = order(activate());
    careful.unproven_replicas = false;
    let refused = bench.executor.execute(&careful).await;
    assert!(matches!(refused, Err(ExecuteError::Refused(Refusal::Unproven))), "{refused:?}");
    careful.unproven_replicas = true;
    bench.executor.execute(&careful).await.unwrap();
}

#[tokio::test]
async fn one_key_waits_at_a_time_and_a_second_rotation_is_refused_however_long_one_waits() {
    let bench = Bench::new(Rotation::lab()).await;
    bench.order(rotate()).await.unwrap();
    let refusal = bench.refused(rotate()).await;
    let Refusal::AlreadyPending { may_sign_from, .. } = &refusal else { panic!("{refusal}") };
    assert_eq!(may_sign_from.as_secs() - T0.as_secs(), 7, "a refresh, the skew, H + C, a second");
    bench.pass(1_000);
    for refusal in [refusal, bench.refused(rotate()).await] {
        assert_eq!((refusal.exit().code(), refusal.not_before(), refusal.because()), (78, None, None));
        let said = refusal.to_string();
        assert!(said.contains("activate it first") && said.contains("oneseal keys retire"), "{said}");
    }
    let other = Request::Rotate { algorithms: vec![Algorithm::EdDsa], rsa_bits: None };
    bench.order(other).await.unwrap();
    assert_eq!(bench.states().await.len(), 3);
}

#[tokio::test]
async fn the_key_before_comes_back_inside_its_window_and_not_after() {
    let bench = Bench::new(Rotation::lab()).await;
    let old = bench.states().await[0].0.clone();
    assert_eq!(bench.refused(roll_back()).await.code(), "keys.nothing_to_do");
    bench.order(rotate()).await.unwrap();
    bench.pass(7);
    bench.order(activate()).await.unwrap();
    bench.pass(59);
    let done = bench.order(roll_back()).await.unwrap();
    assert!(done.changes.iter().any(|change| change.kind == "key.rolled_back"));
    assert_eq!(bench.states().await[0], (old.clone(), Active));
    // And forth again, until the window is over.
    bench.order(roll_back()).await.unwrap();
    bench.pass(60);
    let refusal = bench.refused(Request::RollBack { kid: Some(old.clone()) }).await;
    assert!(matches!(refusal, Refusal::WindowOver { .. }), "{refusal}");
    assert_eq!(refusal.exit().code(), 78);
}

#[tokio::test]
async fn a_cancelled_key_never_comes_back_and_the_last_key_stays() {
    let bench = Bench::new(Rotation::lab()).await;
    let old = bench.states().await[0].0.clone();
    let last = bench.refused(Request::Retire { kid: Some(old.clone()) }).await;
    assert!(matches!(last, Refusal::LastKey { .. }), "{last}");
    let new = bench.order(rotate()).await.unwrap().changes[0].kid.clone().unwrap();
    bench.order(Request::Retire { kid: Some(new[..12].to_owned()) }).await.unwrap();
    assert_eq!(bench.states().await, [(old, Active)]);
    let gone = bench.refused(Request::Activate { kid: Some(new) }).await;
    assert!(matches!(gone, Refusal::NoSuchKey { was_here: true }), "{gone}");
}

#[tokio::test]
async fn an_emergency_burns_everything_and_signs_again_after_its_wait() {
    let bench = Bench::with(
        Rotation::lab(),
        &[Algorithm::Es256, Algorithm::EdDsa],
        std::sync::Arc::new(super::NoRegistry),
    )
    .await;
    let before: Vec<_> = bench.states().await.into_iter().map(|(kid, _)| kid).collect();
    bench.order(rotate()).await.unwrap();
    let burned = bench.order(revoke()).await.unwrap();
    assert_eq!(burned.changes.iter().filter(|change| change.kind == "key.revoked").count(), 4);
    let states = bench.states().await;
    assert!(
        states.len() == 2 && states.iter().all(|(kid, state)| *state == Pending && !before.contains(kid))
    );
    let document = bench.document().await;
    assert_eq!(document["tombstones"].as_array().unwrap().len(), 4);
    assert!(document["tombstones"].as_array().unwrap().iter().all(|stone| stone["state"] == "revoked"));
    let refusal = bench.refused(activate()).await;
    assert_eq!(refusal.because().unwrap().knob, "rotation.emergency_wait");
    assert_eq!(until(&refusal), 3);
    bench.pass(3);
    let done = bench.order(activate()).await.unwrap();
    assert!(done.notes[0].contains("no registry"), "{:?}", done.notes);
    assert!(bench.states().await.iter().all(|(_, state)| *state == Active));
}

#[tokio::test]
async fn a_second_alarm_in_an_open_emergency_burns_nothing_that_the_first_has_made() {
    let bench = Bench::new(Rotation::lab()).await;
    let first = bench.order(revoke()).await.unwrap();
    let waiting = bench.states().await;
    let since = Request::Revoke { kids: Vec::new(), since: Some(T0) };
    for again in [revoke(), since] {
        let again = bench.order(again).await.unwrap();
        assert!(again.is_repeated && again.change_id.is_some(), "{again:?}");
        let kinds: Vec<_> = again.changes.iter().map(|change| &*change.kind).collect();
        assert_eq!(kinds, ["ring.emergency_joined"]);
        assert!(again.notes[0].contains("keys activate"), "{:?}", again.notes);
        assert_eq!(again.state.keys, first.state.keys, "no key is touched");
    }
    // A key that came after it is burned; the successor keeps its place.
    let other = Request::Rotate { algorithms: vec![Algorithm::EdDsa], rsa_bits: None };
    bench.order(other).await.unwrap();
    bench.order(revoke()).await.unwrap();
    assert_eq!(bench.states().await, waiting);
    // Who knows that the successor has leaked too can say so, by its name or by the time.
    bench.pass(1);
    let kid = waiting[0].0.clone();
    bench.order(Request::Revoke { kids: vec![kid], since: None }).await.unwrap();
    let third = bench.states().await;
    bench.pass(1);
    bench.order(Request::Revoke { kids: Vec::new(), since: Some(bench.clock.wall()) }).await.unwrap();
    assert!(third != waiting && bench.states().await != third);
    bench.pass(3);
    bench.order(activate()).await.unwrap();
    // The emergency is over: what signs now is burned like any other.
    let burned = bench.order(revoke()).await.unwrap();
    assert_eq!(burned.changes[0].kind, "key.revoked");
}

/// The answer to the second alarm is lost, the emergency ends, and it comes again under its id.
#[tokio::test]
async fn an_alarm_that_an_open_emergency_took_in_is_remembered_under_its_own_id() {
    let bench = Bench::new(Rotation::lab()).await;
    bench.order(revoke()).await.unwrap();
    let second = order(revoke());
    let dry = bench.executor.execute(&Order { dry_run: true, ..order(revoke()) }).await.unwrap();
    assert!(dry.is_repeated && dry.is_dry_run && dry.change_id.is_none(), "{dry:?}");
    let first = bench.executor.execute(&second).await.unwrap();
    bench.pass(3);
    bench.order(activate()).await.unwrap();
    let signing = bench.states().await;
    assert_eq!(signing[0].1, Active);
    let again = bench.executor.execute(&second).await.unwrap();
    assert!(again.is_repeated && again.notes[0].contains("another id"), "{again:?}");
    assert_eq!((again.change_id, again.changes), (first.change_id, first.changes));
    let other = Order { change_id: second.change_id, ..order(rotate()) };
    assert_eq!(bench.executor.execute(&other).await.unwrap_err().code(), "keys.change_id_taken");
    assert_eq!(bench.states().await, signing, "what signs now was burned by nobody");
}

#[tokio::test]
async fn a_burned_key_gives_its_place_to_one_that_is_published_already() {
    let bench = Bench::new(Rotation::lab()).await;
    let old = bench.states().await[0].0.clone();
    let new = bench.order(rotate()).await.unwrap().changes[0].kid.clone().unwrap();
    bench.pass(1);
    bench.order(Request::Revoke { kids: vec![old], since: None }).await.unwrap();
    assert_eq!(bench.states().await, [(new.clone(), Pending)], "no third key is needed");
    bench.pass(3);
    bench.order(activate()).await.unwrap();
    assert_eq!(bench.states().await, [(new, Active)]);
}

#[tokio::test]
async fn only_keys_that_were_in_the_store_in_that_time_are_burned() {
    let bench = Bench::new(Rotation::lab()).await;
    let first = bench.states().await[0].0.clone();
    bench.order(rotate()).await.unwrap();
    bench.pass(7);
    bench.order(activate()).await.unwrap();
    bench.pass(60);
    bench.order(due()).await.unwrap();
    bench.pass(10);
    let since = bench.clock.wall();
    bench.order(Request::Revoke { kids: Vec::new(), since: Some(since) }).await.unwrap();
    let states = bench.states().await;
    assert_eq!(states[0], (first.clone(), Retiring), "its private half had gone before");
    bench.pass(3);
    bench.order(activate()).await.unwrap();
    let all = Request::Revoke { kids: Vec::new(), since: Some(UnixTime(T0.as_secs())) };
    bench.order(all).await.unwrap();
    assert!(bench.states().await.iter().all(|(kid, _)| *kid != first));
}

#[tokio::test]
async fn while_no_key_signs_nobody_is_told_to_add_one_for_each_algorithm() {
    let bench = Bench::new(Rotation::lab()).await;
    let options = super::options(Rotation::lab());
    let remarks = async || {
        let built = Snapshot::build(bench.ring().await, &options.algorithms, &options.rotation);
        built
            .unwrap()
            .1
            .iter()
            .map(|finding| (finding.code.name, finding.message.clone()))
            .collect::<Vec<_>>()
    };
    let without_key = |remarks: &[(&str, String)], words: &str| {
        remarks.iter().any(|(name, said)| *name == "issuer.algorithm_without_key" && said.contains(words))
    };
    assert!(without_key(&remarks().await, "EdDSA"));
    bench.order(Request::Rotate { algorithms: vec![Algorithm::EdDsa], rsa_bits: None }).await.unwrap();
    assert!(without_key(&remarks().await, "EdDSA; one waits to be activated"));
    bench.order(revoke()).await.unwrap();
    assert!(bench.states().await.iter().all(|(_, state)| *state == Pending));
    assert!(!without_key(&remarks().await, ""), "ring.emergency says what to do");
}

fn elsewhere() -> PrivateKey {
    PrivateKey::parse(include_bytes!("../vectors/ring/rsa.pem")).unwrap()
}

fn adopt(kid: &str, is_published: bool) -> Request {
    let kid = KeyId::parse(kid).unwrap();
    Request::Adopt(Adoption::Key { kid, algorithm: Algorithm::Rs256, key: elsewhere(), is_published })
}

#[tokio::test]
async fn a_key_from_elsewhere_keeps_its_name_and_waits_like_any_other() {
    let bench = Bench::new(Rotation::lab()).await;
    bench.order(adopt("in-the-world", false)).await.unwrap();
    let ring = bench.ring().await;
    let key = ring.keys.iter().find(|key| key.kid.as_str() == "in-the-world").unwrap();
    assert!(key.state == Pending && key.private.is_some());
    let taken = bench.refused(adopt("another-name", false)).await;
    assert_eq!(taken.to_string(), "that key is in this ring already, under the kid in-the-world");
    let again = bench.order(adopt("in-the-world", false)).await.unwrap();
    assert!(again.is_repeated && again.changes.is_empty(), "{again:?}");
    assert_eq!(until(&bench.refused(activate()).await), 7);
    bench.pass(7);
    bench.order(activate()).await.unwrap();
    assert_eq!(bench.document().await["keys"][1]["adopted_kid"], true);
    let at_once = Bench::new(Rotation::lab()).await;
    at_once.order(adopt("in-the-world", true)).await.unwrap();
    let ring = at_once.ring().await;
    assert_eq!(ring.keys[1].state, Active);
    assert_eq!(
        ring.keys[1].history.as_ref().unwrap().ttl_high_water_s,
        Some(86_400),
        "whatever it signed before"
    );
}

#[tokio::test]
async fn where_several_keys_fit_each_is_named() {
    let bench = Bench::new(Rotation::lab()).await;
    let rs256 = Request::Rotate { algorithms: vec![Algorithm::Rs256], rsa_bits: None };
    let made = bench.order(rs256).await.unwrap().changes[0].kid.clone().unwrap();
    bench.order(adopt("in-the-world", false)).await.unwrap();
    let refusal = bench.refused(activate()).await.to_string();
    for kid in [made.as_str(), "in-the-world"] {
        assert!(refusal.contains(&format!("{kid} (RS256, pending)")), "{refusal}");
    }
}

#[tokio::test]
async fn a_key_from_elsewhere_that_cannot_come_in_is_told_what_has_its_place() {
    let bench = Bench::new(Rotation::lab()).await;
    let own = bench.states().await[0].0.clone();
    let taken = bench.refused(adopt(&own, false)).await;
    assert!(taken.to_string().starts_with("another key of this ring has the kid"), "{taken}");
    bench.order(rotate()).await.unwrap();
    let cancelled = bench.states().await[1].0.clone();
    bench.order(Request::Retire { kid: Some(cancelled.clone()) }).await.unwrap();
    let taken = bench.refused(adopt(&cancelled, false)).await;
    assert!(taken.to_string().contains("was a key of this ring"), "{taken}");
}

#[tokio::test]
async fn a_former_issuers_keys_verify_until_their_time_and_never_sign() {
    let bench = Bench::new(Rotation::lab()).await;
    let foreign = || {
        let public = elsewhere().public().clone();
        Foreign { kid: KeyId::parse("spki-hash").unwrap(), algorithm: Algorithm::Rs256, public }
    };
    let until_s = T0.as_secs() + 500;
    let take = |until| Request::Adopt(Adoption::Public { keys: vec![foreign()], until: UnixTime(until) });
    assert!(matches!(bench.refused(take(T0.as_secs())).await, Refusal::Unfit(_)));
    bench.order(take(until_s - 100)).await.unwrap();
    assert_eq!(bench.states().await[1], ("spki-hash".to_owned(), Retiring));
    let again = bench.order(take(until_s - 100)).await.unwrap();
    assert!(again.is_repeated && again.changes.is_empty(), "{again:?}");
    let sooner = bench.refused(take(until_s - 101)).await;
    assert_eq!(sooner.code(), "keys.promised");
    assert!(sooner.to_string().contains(&UnixTime(until_s - 100).to_string()), "{sooner}");
    let longer = bench.order(take(until_s)).await.unwrap();
    assert_eq!(longer.changes[0].kind, "key.extended");
    let remove = longer.next.iter().find(|next| next.kid == "spki-hash").unwrap();
    let because = remove.because.unwrap();
    assert_eq!((because.knob, because.seconds), ("keys adopt --until", 501), "not the life of our tokens");
    let back = bench.refused(Request::RollBack { kid: Some("spki-hash".to_owned()) }).await;
    assert!(matches!(back, Refusal::WindowOver { since: None, .. }), "{back}");
    assert_eq!(bench.refused(roll_back()).await.code(), "keys.nothing_to_do");
    bench.pass(500);
    assert_eq!(until(&bench.refused(due()).await), 501);
    bench.pass(1);
    bench.order(due()).await.unwrap();
    assert_eq!(bench.states().await.len(), 1);
    let gone = bench.refused(take(until_s + 9999)).await;
    assert!(gone.to_string().contains("was in this ring once"), "{gone}");
}

#[tokio::test]
async fn ten_keys_are_the_most_and_the_next_to_leave_says_when() {
    let bench = Bench::new(Rotation::lab()).await;
    for _ in 0..9 {
        bench.order(rotate()).await.unwrap();
        bench.pass(7);
        bench.order(activate()).await.unwrap();
    }
    let refusal = bench.refused(rotate()).await;
    assert_eq!((refusal.code(), refusal.exit().code()), ("keys.too_many", 75));
    bench.pass(u64::try_from(until(&refusal) - bench.now()).unwrap());
    bench.order(rotate()).await.unwrap();
    assert_eq!(bench.states().await.len(), 10, "the oldest has left in the same commit");
}

#[tokio::test]
async fn a_time_that_is_lowered_counts_from_the_change_on_and_one_that_is_raised_at_once() {
    let mut bench = Bench::new(Rotation::lab()).await;
    let mut slower = Rotation::lab();
    slower.generation = 1;
    slower.rp_propagation_s = 500;
    slower.publish_lead_s = None;
    slower.rotate_every_s = 9000;
    let with = |bench: &Bench, times: &Rotation| {
        let (provider, clock) = (bench.provider.clone(), bench.clock.clone());
        Executor::new(provider, super::options(times.clone()), std::sync::Arc::new(super::NoRegistry), clock)
    };
    bench.executor = with(&bench, &slower);
    let done = bench.order(rotate()).await.unwrap();
    assert_eq!(done.changes[0].kind, "ring.times_changed");
    assert_eq!(until(&bench.refused(activate()).await), 3601);
    // Lowered again: what was published under the slow times still waits for them.
    let mut quick = Rotation::lab();
    quick.generation = 2;
    bench.executor = with(&bench, &quick);
    bench.order(due()).await.unwrap();
    assert_eq!(bench.document().await["rotation"]["rp_propagation_s"], 2);
    assert_eq!(until(&bench.refused(activate()).await), 3601);
    // An older proposal is passed over.
    bench.executor = with(&bench, &slower);
    assert_eq!(bench.refused(due()).await.code(), "keys.nothing_to_do");
}

#[tokio::test]
async fn an_algorithm_that_discovery_does_not_announce_is_refused_before_a_replica_must() {
    let bench = Bench::new(Rotation::lab()).await;
    let request = Request::Rotate { algorithms: vec![Algorithm::Es384], rsa_bits: None };
    assert_eq!(bench.refused(request).await.code(), "issuer.algorithm_unlisted");
}

#[tokio::test]
async fn a_clock_that_stands_before_the_rings_last_word_does_not_shorten_a_wait() {
    let bench = Bench::new(Rotation::lab()).await;
    bench.pass(100);
    bench.order(rotate()).await.unwrap();
    bench.clock.set_wall(T0);
    assert_eq!(until(&bench.refused(activate()).await), 107);
    let done =
        bench.order(Request::Rotate { algorithms: vec![Algorithm::EdDsa], rsa_bits: None }).await.unwrap();
    assert_eq!(done.at.as_secs() - T0.as_secs(), 100, "the ring's time never goes back");
}
