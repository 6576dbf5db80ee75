//! Followers: nothing is missed, whatever becomes of the database, the log or the follower's pace.

use std::time::Duration;

use oneseal_coordination::events::{Cursor, Delivery, Follower, From, ResetReason, Subscription};
use oneseal_testing::parts::{PgBouncer, Pooling, Postgres};
use tokio_util::sync::CancellationToken;

use crate::support::{Place, next, next_seq, open};

/// Runs `test` while `follower` runs.
async fn while_it_runs(follower: &Follower, test: impl Future<Output = ()>) {
    let stop = CancellationToken::new();
    tokio::join!(follower.run(stop.clone()), async {
        test.await;
        stop.cancel();
    });
}

async fn stands(subscription: &mut Subscription) -> i64 {
    match next(subscription).await {
        Delivery::Stands(position) => position.seq,
        other => panic!("{other:?}"),
    }
}

fn at(text: &str) -> From {
    From::Cursor(text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_gets_what_comes_after_where_it_stands() {
    let Some(place) = Place::new().await else { return };
    place.append(5).await;
    let follower = Follower::new(place.database.clone());
    while_it_runs(&follower, async {
        let mut now = follower.subscribe(From::Now);
        let mut all = follower.subscribe(From::Floor);
        let mut some = follower.subscribe(From::Cursor(Cursor::after(3)));
        assert_eq!(stands(&mut now).await, 5);
        assert_eq!(stands(&mut all).await, 0);
        assert_eq!(stands(&mut some).await, 3);
        place.append(300).await;
        for (subscription, first) in [(&mut now, 6), (&mut all, 1), (&mut some, 4)] {
            for seq in first..=305 {
                assert_eq!(next_seq(subscription).await, seq);
            }
        }
    })
    .await;
}

/// Its other clients would get notifications that they have not asked for, and break on them.
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_that_lends_out_sessions_it_polls_and_leaves_none_listening() {
    let Some(place) = Place::new().await else { return };
    let Some(server) = Postgres::shared() else { return };
    let Some(pooler) = PgBouncer::start(server, Pooling::Transaction, 3) else { return };
    let pooled = open(&place.psql.url_at(pooler.address()));
    let follower = Follower::new(pooled.clone());
    while_it_runs(&follower, async {
        let mut subscription = follower.subscribe(From::Floor);
        assert_eq!(stands(&mut subscription).await, 0);
        for seq in 1..=8 {
            place.append(1).await;
            assert_eq!(next_seq(&mut subscription).await, seq);
            let (mut one, mut other) = (pooled.read().await.unwrap(), pooled.read().await.unwrap());
            for tx in [&mut one, &mut other] {
                let listens = tx.fetch_all(sqlx::query("SELECT pg_listening_channels()")).await.unwrap();
                assert!(listens.is_empty(), "a connection that others share listens");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_slower_than_the_poll_reads_what_it_missed() {
    let Some(place) = Place::new().await else { return };
    let follower = Follower::new(place.database.clone());
    while_it_runs(&follower, async {
        let (mut slow, mut quick) = (follower.subscribe(From::Floor), follower.subscribe(From::Floor));
        assert_eq!((stands(&mut slow).await, stands(&mut quick).await), (0, 0));
        // More than the channel holds.
        place.psql.execute(MANY);
        for seq in 1..=3000 {
            assert_eq!(next_seq(&mut quick).await, seq);
        }
        for seq in 1..=3000 {
            assert_eq!(next_seq(&mut slow).await, seq);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_of_no_use_is_reset_once_and_all_that_is_kept_follows() {
    let Some(place) = Place::new().await else { return };
    place.append(9).await;
    place.psql.execute(&cut(4));
    let follower = Follower::new(place.database.clone());
    while_it_runs(&follower, async {
        for (cursor, reason) in [
            ("99", ResetReason::Future),
            ("3", ResetReason::Pruned),
            ("0", ResetReason::Pruned),
            ("6-00000000", ResetReason::OtherLog),
        ] {
            let mut subscription = follower.subscribe(at(cursor));
            let Delivery::Reset(reset) = next(&mut subscription).await else { panic!("{cursor}: no reset") };
            assert_eq!((reset.reason, reset.floor.seq, reset.head.seq), (reason, 4, 9), "{cursor}");
            for seq in 5..=9 {
                assert_eq!(next_seq(&mut subscription).await, seq);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_restored_under_its_listeners_resets_them() {
    let Some(place) = Place::new().await else { return };
    place.append(9).await;
    place.psql.execute("CREATE TABLE kept AS SELECT * FROM oneseal.event_head");
    place.append(2).await;
    let follower = Follower::new(place.database.clone());
    while_it_runs(&follower, async {
        let mut subscription = follower.subscribe(From::Now);
        assert_eq!(stands(&mut subscription).await, 11);
        place.psql.execute(
            "BEGIN; DELETE FROM oneseal.events WHERE seq > 9; DELETE FROM oneseal.event_head; \
             INSERT INTO oneseal.event_head SELECT * FROM kept; COMMIT",
        );
        let Delivery::Reset(reset) = next(&mut subscription).await else { panic!("no reset") };
        assert_eq!((reset.reason, reset.head.seq), (ResetReason::Future, 9));
        for seq in 1..=9 {
            assert_eq!(next_seq(&mut subscription).await, seq);
        }
        place.append(1).await;
        assert_eq!(next_seq(&mut subscription).await, 10);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_log_is_told_once_and_ends_what_follows_it() {
    let Some(place) = Place::new().await else { return };
    place.append(9).await;
    place.psql.execute("UPDATE oneseal.events SET actor = 'nobody' WHERE seq = 5");
    let follower = Follower::new(place.database.clone());
    while_it_runs(&follower, async {
        let mut subscription = follower.subscribe(From::Cursor(Cursor::after(2)));
        let Delivery::Broken(broken) = next(&mut subscription).await else { panic!("not found") };
        assert_eq!(broken.seq, 5);
        assert!(subscription.next().await.is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_while_nobody_listens() {
    let Some(place) = Place::new().await else { return };
    let follower = Follower::new(place.database.clone());
    let asks = || place.psql.execute(RECENTLY) != "0";
    while_it_runs(&follower, async {
        let mut subscription = follower.subscribe(From::Now);
        assert_eq!(stands(&mut subscription).await, 0);
        place.append(1).await;
        assert_eq!(next_seq(&mut subscription).await, 1);
        drop(subscription);
        assert!(asks());
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..300 {
            ticks.tick().await;
            if !asks() {
                // And again for whoever comes then.
                let mut later = follower.subscribe(From::Now);
                assert_eq!(stands(&mut later).await, 1);
                return;
            }
        }
        panic!("it goes on asking");
    })
    .await;
}

/// Sessions that have asked something in a time in which a poll that runs would have.
const RECENTLY: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
    AND application_name LIKE 'oneseal%' AND query_start > clock_timestamp() - interval '3 seconds'";

/// Three thousand events, hashed as the log is, in one statement for speed.
const MANY: &str = r#"
DO $$
DECLARE
    head oneseal.event_head;
    text text;
BEGIN
    SELECT * INTO head FROM oneseal.event_head FOR UPDATE;
    FOR number IN 1..3000 LOOP
        head.seq := head.seq + 1;
        head.at := '2026-11-30T00:00:00.000000Z';
        head.prev_hash := head.hash;
        text := '{"seq":' || head.seq || ',"at":"' || head.at || '","kind":"test.many","actor":"a","issuer":"i","payload":{}'
            || ',"prev_hash":"' || encode(head.prev_hash, 'hex') || '"';
        head.hash := sha256(head.prev_hash || convert_to(text, 'UTF8'));
        INSERT INTO oneseal.events VALUES (head.seq, head.at, 'test.many', 'a', 'i', '{}', head.prev_hash, head.hash);
    END LOOP;
    UPDATE oneseal.event_head SET seq = head.seq, at = head.at, prev_hash = head.prev_hash, hash = head.hash;
END $$"#;

fn cut(seq: i64) -> String {
    format!(
        "BEGIN; UPDATE oneseal.event_floor SET seq = {seq}, hash = (SELECT hash FROM oneseal.events WHERE seq = {seq}); \
         DELETE FROM oneseal.events WHERE seq <= {seq}; COMMIT"
    )
}
