//! What one writer does to the log, and what others can do to a writer.

use std::collections::BTreeSet;

use oneseal_coordination::EventDraft;
use oneseal_coordination::events::{
    AppendError, Before, CHECKPOINT, Fault, From, LogError, Reader, Verifier, audit, checkpoint, plan_prune,
    prune,
};

use crate::support::Place;

#[tokio::test(flavor = "multi_thread")]
async fn the_database_hashes_what_the_line_says() {
    let Some(place) = Place::new().await else { return };
    let odd = "q\" b\\ n\n t\t e\u{1b} d\u{7f} é€😀 </script> \u{2028}";
    let payload = serde_json::json!({ "z": odd, "a": { "y": [1.5, null, true], "x": -0.0 } }).to_string();
    let mut tx = place.database.write().await.unwrap();
    let appended =
        tx.append(odd, "https://oidc.example/é", &EventDraft::new("test.odd", payload)).await.unwrap();
    tx.commit().await.unwrap();
    place.append(3).await;
    let all = place.read_all().await;
    let mut verifier = Verifier::new();
    for event in &all {
        verifier.line(event.line().as_bytes()).unwrap();
    }
    assert_eq!((verifier.count(), verifier.first()), (4, Some(1)));
    assert_eq!((all[0].seq, all[0].hash), (appended.seq, appended.hash));
    assert_eq!(all[0].actor, odd);
    assert!(all[0].payload.starts_with(r#"{"a":{"x":-0.0,"y":[1.5,null,true]},"z":"#), "{}", all[0].payload);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_back_takes_its_numbers_with_it_and_one_transaction_may_have_several() {
    let Some(place) = Place::new().await else { return };
    let draft = EventDraft::new("test.lost", "{}");
    for _ in 0..3 {
        let mut tx = place.database.write().await.unwrap();
        tx.append("me", "", &draft).await.unwrap();
        drop(tx);
    }
    let mut tx = place.database.write().await.unwrap();
    for number in 1..=3 {
        let appended = tx.append("me", "", &EventDraft::new("test.kept", "{}")).await.unwrap();
        assert_eq!(appended.seq, number);
    }
    tx.commit().await.unwrap();
    let kinds: BTreeSet<_> = place.read_all().await.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, BTreeSet::from(["test.kept".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_is_refused_leaves_the_transaction_as_it_was() {
    let Some(place) = Place::new().await else { return };
    let mut tx = place.database.write().await.unwrap();
    let refused = tx.append("me", "", &EventDraft::new("Bad", "{}")).await.unwrap_err();
    assert!(matches!(refused, AppendError::Draft { .. }), "{refused:?}");
    let refused =
        tx.append("me", "", &EventDraft::new("key.made", r#"{"private":"canary"}"#)).await.unwrap_err();
    assert!(!format!("{refused:?} {refused}").contains("canary"));
    assert_eq!(tx.append("me", "", &EventDraft::new("key.made", "{}")).await.unwrap().seq, 1);
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn time_in_the_log_never_goes_back_whatever_the_clock_of_the_database_does() {
    let Some(place) = Place::new().await else { return };
    let ahead = place.psql.execute(
        "UPDATE oneseal.event_head SET at = to_char((clock_timestamp() + interval '10 minutes') AT TIME ZONE 'UTC', \
         'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') RETURNING at",
    );
    place.append(2).await;
    let at: BTreeSet<_> = place.read_all().await.into_iter().map(|event| event.at).collect();
    assert_eq!(at, BTreeSet::from([ahead.lines().next().unwrap_or_default().to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_stuck_in_its_transaction_stops_the_others_for_a_while_alone() {
    let Some(place) = Place::new().await else { return };
    let mut stuck = place.database.write().await.unwrap();
    stuck.append("stuck", "", &EventDraft::new("test.stuck", "{}")).await.unwrap();
    // It holds the head and does nothing; the server ends it. Others that come meanwhile wait no longer than they may.
    let mut failures = 0;
    let appended = loop {
        let mut tx = place.database.write().await.unwrap();
        match tx.append("other", "", &EventDraft::new("test.other", "{}")).await {
            Ok(appended) => {
                tx.commit().await.unwrap();
                break appended;
            }
            Err(_) => failures += 1,
        }
        assert!(failures < 10, "the stuck writer is never ended");
    };
    assert_eq!(appended.seq, 1, "what the stuck one had is gone");
    assert!(stuck.append("stuck", "", &EventDraft::new("test.stuck", "{}")).await.is_err());
    assert_eq!(place.read_all().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_edited_by_hand_are_found_each_at_its_place() {
    for (edit, seq, word) in [
        ("UPDATE oneseal.events SET actor = 'nobody' WHERE seq = 5", 5, "hash"),
        ("UPDATE oneseal.events SET payload = '{\"number\":50}' WHERE seq = 5", 5, "hash"),
        ("UPDATE oneseal.events SET at = '2020-01-01T00:00:00.000000Z' WHERE seq = 5", 5, "hash"),
        ("UPDATE oneseal.events SET payload = E'{}\\n' WHERE seq = 5", 5, "form"),
        ("UPDATE oneseal.events SET hash = '\\x00' WHERE seq = 5", 5, "hash"),
        ("DELETE FROM oneseal.events WHERE seq = 5", 5, "seq"),
        ("DELETE FROM oneseal.events WHERE seq >= 5", 5, "missing"),
        ("DELETE FROM oneseal.events", 1, "missing"),
        ("UPDATE oneseal.event_head SET seq = 8, hash = prev_hash", 9, "beyond"),
        ("UPDATE oneseal.event_head SET hash = prev_hash", 9, "anchor"),
        ("UPDATE oneseal.event_head SET seq = 12", 10, "missing"),
        (
            "UPDATE oneseal.event_floor SET hash = '\\x1111111111111111111111111111111111111111111111111111111111111111'",
            1,
            "prev_hash",
        ),
    ] {
        let Some(place) = Place::new().await else { return };
        place.append(9).await;
        place.psql.execute(edit);
        let mut reader = Reader::new(From::Floor);
        let found = loop {
            match reader.read(&place.database).await {
                Ok(_) => {}
                Err(LogError::Broken(broken)) => break broken,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!((found.seq, found.fault.word()), (seq, word), "{edit}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_hash_was_made_to_fit_breaks_the_chain_behind_it() {
    let Some(place) = Place::new().await else { return };
    place.append(9).await;
    let mut event = place.read_all().await.remove(4);
    event.actor = "nobody".to_owned();
    let hash = event.computed_hash();
    place
        .psql
        .execute(&format!("UPDATE oneseal.events SET actor = 'nobody', hash = '\\x{hash}' WHERE seq = 5"));
    let error = Reader::new(From::Floor).read(&place.database).await.unwrap_err();
    let LogError::Broken(broken) = error else { panic!("{error}") };
    assert_eq!(broken.seq, 6);
    assert!(matches!(broken.fault, Fault::PrevHash { .. }), "{broken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_rows_there_is_no_log_and_that_is_said() {
    let Some(place) = Place::new().await else { return };
    place.psql.execute("DELETE FROM oneseal.event_head");
    let mut tx = place.database.write().await.unwrap();
    let refused = tx.append("me", "", &EventDraft::new("a.b", "{}")).await.unwrap_err();
    assert!(matches!(refused, AppendError::NoHead), "{refused:?}");
    let error = Reader::new(From::Floor).read(&place.database).await.unwrap_err();
    assert!(matches!(error, LogError::NoLog), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_due_first_and_then_again_after_many_events() {
    let Some(place) = Place::new().await else { return };
    let is_due =
        async |issuer| place.database.write().await.unwrap().is_checkpoint_due(issuer).await.unwrap();
    assert!(is_due("https://a.example").await);
    let draft = checkpoint(1, 7, "ab", r#"{"format":1}"#).unwrap();
    place.append_for("https://a.example", CHECKPOINT, &draft.payload).await;
    assert!(!is_due("https://a.example").await);
    assert!(is_due("https://b.example").await, "one ring's checkpoint is not another's");
    place.psql.execute("UPDATE oneseal.event_head SET seq = 1001");
    assert!(is_due("https://a.example").await);
}

/// What a role that may write the head, as each service's may, can make of it: nothing is appended to that.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_appended_to_a_head_that_does_not_follow_from_the_last_event() {
    let Some(place) = Place::new().await else { return };
    place.append(5).await;
    place.psql.execute("CREATE TABLE good AS SELECT * FROM oneseal.event_head");
    for (edit, word) in [
        ("at = 'zzz'", "head"),
        ("at = ''", "head"),
        ("at = '9999-01-01T00:00:00.000000Z'", "head"),
        ("prev_hash = ''", "head"),
        ("hash = '\\x00'", "head"),
        ("hash = prev_hash", "head"),
        ("seq = 4", "beyond"),
        ("seq = 7", "missing"),
        ("seq = -9223372036854775808", "beyond"),
    ] {
        place.psql.execute(&format!("UPDATE oneseal.event_head SET {edit}"));
        let mut tx = place.database.write().await.unwrap();
        let refused = tx.append("me", "", &EventDraft::new("a.b", "{}")).await.unwrap_err();
        let AppendError::Broken(broken) = &refused else { panic!("{edit}: {refused:?}") };
        assert_eq!(broken.fault.word(), word, "{edit}: {broken}");
        let audited = audit(&place.database).await.unwrap().unwrap_err();
        assert_eq!(audited, *broken, "who verifies finds the same before anything is appended");
        place.psql.execute(SET_BACK);
    }
    place.append(1).await;
    assert_eq!(place.read_all().await.len(), 6);
    assert_eq!(audit(&place.database).await.unwrap(), Ok(()));
}

/// As docs/events.md tells the owner of the tables.
const SET_BACK: &str = "UPDATE oneseal.event_head SET (seq, at, prev_hash, hash) = \
    (SELECT seq, at, prev_hash, hash FROM oneseal.events ORDER BY seq DESC LIMIT 1)";

#[tokio::test(flavor = "multi_thread")]
async fn rows_outside_of_the_log_and_a_floor_that_nobody_has_moved_are_found() {
    for (edit, seq, word) in [
        ("UPDATE oneseal.events SET seq = 0 WHERE seq = 12", 0, "below"),
        ("UPDATE oneseal.events SET seq = -9223372036854775808 WHERE seq = 12", i64::MIN, "below"),
        (
            "UPDATE oneseal.event_floor SET (seq, hash) = (SELECT seq, hash FROM oneseal.events WHERE seq = 4); \
             DELETE FROM oneseal.events WHERE seq <= 4",
            5,
            "floor",
        ),
        ("UPDATE oneseal.event_floor SET hash = '\\x00'", 1, "floor"),
    ] {
        let Some(place) = Place::new().await else { return };
        place.append(9).await;
        // Whatever is to stand outside is a row like the others.
        place.psql.execute(
            "INSERT INTO oneseal.events SELECT 12, at, kind, actor, issuer, payload, prev_hash, hash \
             FROM oneseal.events WHERE seq = 9",
        );
        place.psql.execute(edit);
        place.psql.execute("DELETE FROM oneseal.events WHERE seq = 12");
        let broken = audit(&place.database).await.unwrap().unwrap_err();
        assert_eq!((broken.seq, broken.fault.word()), (seq, word), "{edit}: {broken}");
        let mut tx = place.database.write().await.unwrap();
        // Neither takes anything from what comes after: that is chained to the last event.
        tx.append("me", "", &EventDraft::new("a.b", "{}")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_from_the_future_stops_the_log_until_it_begins_anew() {
    let Some(place) = Place::new().await else { return };
    place.append(3).await;
    let mut last = place.read_all().await.remove(2);
    last.at = "2999-01-01T00:00:00.000000Z".to_owned();
    place.psql.execute(&format!(
        "UPDATE oneseal.events SET at = '{}', hash = '\\x{}' WHERE seq = 3; {SET_BACK}",
        last.at,
        last.computed_hash()
    ));
    let mut tx = place.database.write().await.unwrap();
    let refused = tx.append("me", "", &EventDraft::new("a.b", "{}")).await.unwrap_err();
    assert!(matches!(&refused, AppendError::LogAhead { head, .. } if *head == last.at), "{refused:?}");
    drop(tx);
    let plan = plan_prune(&place.database, &Before::Seq(4), &[]).await.unwrap();
    prune(&place.database, "owner", &plan, |_| {}).await.unwrap();
    place.append(2).await;
    let all = place.read_all().await;
    assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), [4, 5, 6]);
    assert!(all.iter().all(|event| event.at < last.at), "time is that of the clock again");
    assert_eq!(audit(&place.database).await.unwrap(), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_clock_is_ahead_of_this_host_writes_no_event() {
    let Some(place) = Place::new().await else { return };
    // No clock of a real server can be set here: its own is put in front of the system's.
    place.psql.execute(
        "CREATE SCHEMA ahead; CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
         $$ SELECT pg_catalog.clock_timestamp() + interval '2 hours' $$",
    );
    let name = place.psql.execute("SELECT current_database()");
    place.psql.execute(&format!("ALTER DATABASE \"{name}\" SET search_path = ahead, pg_catalog"));
    let mut tx = place.database.write().await.unwrap();
    let refused = tx.append("me", "", &EventDraft::new("a.b", "{}")).await.unwrap_err();
    assert!(matches!(refused, AppendError::DatabaseAhead), "{refused:?}");
}
