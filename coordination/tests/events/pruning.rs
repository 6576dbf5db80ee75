//! Cutting the beginning off.

use oneseal_coordination::events::{
    Before, CHECKPOINT, Delivery, Follower, From, PruneError, ResetReason, plan_prune, prune,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Place, next, next_seq, open};

const A: &str = "https://a.example";
const B: &str = "https://b.example";

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_goes_no_further_than_what_was_asked_and_each_ring_can_miss() {
    let Some(place) = Place::new().await else { return };
    // 1..=3: A begins and has a checkpoint at 3; B's only event is 5; A's last checkpoint is 7.
    for (issuer, kind) in [
        (A, "ring.created"),
        (A, "key.published"),
        (A, CHECKPOINT),
        ("", "replica.joined"),
        (B, "ring.created"),
        (A, "key.activated"),
        (A, CHECKPOINT),
        (A, "key.retired"),
    ] {
        place.append_for(issuer, kind, "{}").await;
    }
    let plan =
        async |before, ignored: &[String]| plan_prune(&place.database, &before, ignored).await.unwrap();
    let cuts = |plan: oneseal_coordination::events::PrunePlan| (plan.cut.seq, plan.held_by);
    assert_eq!(cuts(plan(Before::Seq(3), &[]).await), (2, None));
    assert_eq!(cuts(plan(Before::Seq(5), &[]).await), (4, None));
    assert_eq!(cuts(plan(Before::Seq(8), &[]).await), (4, Some((B.to_owned(), 5))));
    let without_b = [B.to_owned()];
    assert_eq!(cuts(plan(Before::Seq(i64::MAX), &without_b).await), (6, Some((A.to_owned(), 7))));
    for nothing in [i64::MIN, -1, 0, 1] {
        let plan = plan(Before::Seq(nothing), &[]).await;
        assert_eq!((plan.count(), plan.cut), (0, plan.floor), "{nothing}");
    }
    let moment = |text: &str| Before::Moment(text.to_owned());
    assert_eq!(plan(moment("2000-01-01T00:00:00.000000Z"), &[]).await.count(), 0);
    assert_eq!(plan(moment("2999-01-01T00:00:00.000000Z"), &[]).await.cut.seq, 4);
    let at_six = place.read_all().await[5].at.clone();
    assert_eq!(plan(Before::Moment(at_six), &without_b).await.cut.seq, 5);
    for bad in ["", "yesterday", "2026-01-01"] {
        let refused = plan_prune(&place.database, &moment(bad), &[]).await;
        assert!(matches!(refused, Err(PruneError::Moment)), "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_whole_and_the_cut_is_in_it() {
    let Some(place) = Place::new().await else { return };
    place.append(30).await;
    let plan = plan_prune(&place.database, &Before::Seq(21), &[]).await.unwrap();
    let mut told = Vec::new();
    prune(&place.database, "me", &plan, |count| told.push(count)).await.unwrap();
    assert_eq!(told, [20]);
    let left = place.read_all().await;
    let seqs: Vec<_> = left.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (21..=31).collect::<Vec<_>>());
    let last = left.last().unwrap();
    assert_eq!((last.kind.as_str(), last.actor.as_str()), ("events.pruned", "me"));
    assert!(
        last.payload.contains("\"count\":20") && last.payload.contains("\"floor_seq\":20"),
        "{}",
        last.payload
    );
    // Twice: the first plan is of no use any more, a new one cuts nothing.
    let again = prune(&place.database, "me", &plan, |_| {}).await;
    assert!(matches!(again, Err(PruneError::Moved)), "{again:?}");
    assert_eq!(plan_prune(&place.database, &Before::Seq(21), &[]).await.unwrap().count(), 0);
    // To the very end: what is left is what tells of it.
    let all = plan_prune(&place.database, &Before::Seq(i64::MAX), &[]).await.unwrap();
    prune(&place.database, "me", &all, |_| {}).await.unwrap();
    let left = place.read_all().await;
    assert_eq!(left.iter().map(|event| event.seq).collect::<Vec<_>>(), [32]);
    place.append(1).await;
    assert_eq!(place.read_all().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_cut_off_a_broken_log() {
    let Some(place) = Place::new().await else { return };
    place.append(9).await;
    let plan = plan_prune(&place.database, &Before::Seq(8), &[]).await.unwrap();
    place.psql.execute("UPDATE oneseal.events SET actor = 'nobody' WHERE seq = 5");
    let refused = prune(&place.database, "me", &plan, |_| {}).await.unwrap_err();
    assert!(matches!(refused, PruneError::Broken(_)), "{refused:?}");
    assert_eq!(place.psql.execute("SELECT count(*) FROM oneseal.events"), "9");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_cut_at_once_cut_once() {
    let Some(place) = Place::new().await else { return };
    place.append(30).await;
    let plan = plan_prune(&place.database, &Before::Seq(21), &[]).await.unwrap();
    let cut = || prune(&place.database, "me", &plan, |_| {});
    let (one, two) = tokio::join!(cut(), cut());
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    assert_eq!(place.read_all().await.len(), 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_while_it_is_cut_is_left_alone_and_who_is_behind_is_reset() {
    let Some(place) = Place::new().await else { return };
    place.append(9).await;
    let behind = place.read_all().await[2].clone();
    let follower = Follower::new(place.database.clone());
    let stop = CancellationToken::new();
    tokio::join!(follower.run(stop.clone()), async {
        let mut listener = follower.subscribe(From::Now);
        assert!(matches!(next(&mut listener).await, Delivery::Stands(_)));
        let plan = plan_prune(&place.database, &Before::Seq(6), &[]).await.unwrap();
        prune(&place.database, "me", &plan, |_| {}).await.unwrap();
        assert_eq!(next_seq(&mut listener).await, 10);
        let position = oneseal_coordination::events::Position { seq: behind.seq, hash: behind.hash };
        let mut late = follower.subscribe(From::Cursor(position.cursor()));
        let Delivery::Reset(reset) = next(&mut late).await else { panic!("no reset") };
        assert_eq!((reset.reason, reset.floor.seq), (ResetReason::Pruned, 5));
        assert_eq!(next_seq(&mut late).await, 6);
        stop.cancel();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_cut_nothing_is_told_so_before_what_would_go() {
    let Some(place) = Place::new().await else { return };
    place.append(9).await;
    place.psql.execute("CREATE ROLE service_of_pruning LOGIN PASSWORD 'right-horse'");
    // What docs/postgres.md lets a service do to the log.
    place.psql.execute(
        "GRANT USAGE ON SCHEMA oneseal TO service_of_pruning; \
         GRANT SELECT ON oneseal.event_floor TO service_of_pruning; \
         GRANT SELECT, INSERT ON oneseal.events TO service_of_pruning; \
         GRANT SELECT, UPDATE ON oneseal.event_head TO service_of_pruning",
    );
    let url = place.psql.url();
    let (_, server) = url.split_once('@').unwrap();
    let service = open(&format!("postgres://service_of_pruning:right-horse@{server}"));
    let refused = plan_prune(&service, &Before::Seq(5), &[]).await.unwrap_err();
    assert!(
        matches!(&refused, PruneError::NotOwner { user, .. } if user == "service_of_pruning"),
        "{refused:?}"
    );
    let told = refused.to_string();
    assert!(told.contains("owner's URL") && !told.contains("right-horse"), "{told}");
    let mut tx = service.write().await.unwrap();
    tx.append("me", "", &oneseal_coordination::EventDraft::new("a.b", "{}")).await.unwrap();
    tx.commit().await.unwrap();
}
