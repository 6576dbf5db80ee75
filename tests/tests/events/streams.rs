//! What one stream says, and whom it refuses.

use std::time::Duration;

use oneseal_tests::state;
use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Place, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_at_once_and_tells_where_it_stands() {
    let Some(place) = Place::new().await else { return };
    place.append(3).await;
    let socket = place.start("a").admin();
    let _replica = place.joined("a").await;
    let at = place.head();
    let (head, mut stream) = open(&socket, "", &[("accept-encoding", "gzip, br")]).await.unwrap();
    assert_eq!(head.status, 200);
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(head.headers[name], value);
    }
    assert!(!head.headers.contains_key("content-encoding"));
    let hello = stream.next().await.unwrap();
    assert_eq!(hello.comment.as_deref(), Some("oneseal events"));
    assert!((2400..=3600).contains(&hello.retry.unwrap()));
    let stands = stream.next().await.unwrap();
    assert_eq!((stands.seq(), stands.data), (at, None));
    place.append(1).await;
    let event = stream.next_data().await.unwrap();
    assert_eq!((event.seq(), event.event), (at + 1, None));
    let data: serde_json::Value = serde_json::from_str(&event.data.unwrap()).unwrap();
    assert_eq!((data["seq"].as_i64(), data["kind"].as_str()), (Some(at + 1), Some("test.written")));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_id_has_its_answer() {
    let Some(place) = Place::new().await else { return };
    let socket = place.start("a").admin();
    let _replica = place.joined("a").await;
    place.append(9 - usize::try_from(place.head()).unwrap()).await;
    let (_, mut all) = open(&socket, "?after=0", &[]).await.unwrap();
    let mut ids = Vec::new();
    for seq in 1..=9 {
        let block = all.next_data().await.unwrap();
        assert_eq!(block.seq(), seq);
        ids.push(block.id.unwrap());
    }
    place.psql.execute(
        "BEGIN; UPDATE oneseal.event_floor SET seq = 3, hash = (SELECT hash FROM oneseal.events WHERE seq = 3); \
         DELETE FROM oneseal.events WHERE seq <= 3; COMMIT",
    );
    // The last, an older one, the floor; then those that are reset: evicted, of the future, of another log.
    for (id, next) in [(&ids[6], 8), (&ids[3], 5), (&ids[2], 4)] {
        let (_, mut stream) = open(&socket, "?after=1", &[("last-event-id", id)]).await.unwrap();
        assert_eq!(stream.next_data().await.unwrap().seq(), next, "{id}");
    }
    for (id, reason) in [
        (ids[1].as_str(), "pruned"),
        ("0-00000000", "pruned"),
        ("10-00000000", "future"),
        ("9223372036854775807", "future"),
        ("7-00000000", "other_log"),
    ] {
        let (_, mut stream) = open(&socket, "", &[("last-event-id", id)]).await.unwrap();
        let reset = stream.next_data().await.unwrap();
        assert_eq!(
            (reset.event.as_deref(), reset.id.as_deref()),
            (Some("reset"), Some(ids[2].as_str())),
            "{id}"
        );
        let data: serde_json::Value = serde_json::from_str(&reset.data.unwrap()).unwrap();
        assert_eq!(
            (&data["reason"], &data["floor"], &data["head"]),
            (&reason.into(), &ids[2].clone().into(), &ids[8].clone().into())
        );
        assert_eq!(stream.next_data().await.unwrap().seq(), 4);
    }
    for fields in [
        &[("last-event-id", "x")][..],
        &[("last-event-id", "")],
        &[("last-event-id", "7-ABCDEF01")],
        &[("last-event-id", "7"), ("last-event-id", "7")],
    ] {
        assert_eq!(open(&socket, "", fields).await.unwrap().0.status, 400, "{fields:?}");
    }
    for query in ["?after=x", "?since=1", "?after=1&after=2"] {
        assert_eq!(open(&socket, query, &[]).await.unwrap().0.status, 400, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_database_there_is_no_log_and_that_is_said() {
    let Some(place) = Place::new().await else { return };
    let mut start = place.start("a");
    start.more = String::new();
    let socket = start.admin();
    let _replica = start.ready().await;
    assert_eq!(open(&socket, "", &[]).await.unwrap().0.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_edited_by_hand_ends_the_stream_with_its_place() {
    let Some(place) = Place::new().await else { return };
    place.append(5).await;
    place.psql.execute("UPDATE oneseal.events SET actor = 'nobody' WHERE seq = 4");
    let start = place.start("a");
    let socket = start.admin();
    let _replica = start.ready().await;
    let (_, mut stream) = open(&socket, "?after=0", &[]).await.unwrap();
    let broken = stream.next_data().await.unwrap();
    assert_eq!(broken.event.as_deref(), Some("broken"));
    let data: serde_json::Value = serde_json::from_str(&broken.data.unwrap()).unwrap();
    assert_eq!((&data["seq"], &data["fault"]), (&4.into(), &"hash".into()));
    assert_eq!(stream.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_open_streams_do_not_hold_up_the_end() {
    let Some(place) = Place::new().await else { return };
    let start = place.start("a");
    let socket = start.admin();
    let replica = start.ready().await;
    let mut streams = Vec::new();
    for _ in 0..50 {
        let (_, mut stream) = open(&socket, "", &[]).await.unwrap();
        assert!(stream.next().await.is_some());
        streams.push(stream);
    }
    let pid = Pid::from_raw(i32::try_from(replica.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    for stream in &mut streams {
        let mut last = None;
        while let Some(block) = stream.next().await {
            last = Some(block);
        }
        let last = last.unwrap();
        assert_eq!(last.comment.as_deref(), Some("this replica is ending"));
        assert!((800..=1200).contains(&last.retry.unwrap()));
    }
    state::until("the end of the replica's log", async || {
        replica.log_text().contains("shut down").then_some(())
    })
    .await;
    assert!(!replica.log_text().contains("cut off"), "{}", replica.log_text());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_caller_has_no_more_streams_than_it_may() {
    let Some(place) = Place::new().await else { return };
    let start = place.start("a");
    let socket = start.admin();
    let _replica = start.ready().await;
    let mut streams = Vec::new();
    let refused = loop {
        let (head, stream) = open(&socket, "", &[]).await.unwrap();
        if head.status != 200 {
            break head.status;
        }
        streams.push(stream);
        assert!(streams.len() <= 64, "without end");
    };
    assert_eq!((refused.as_u16(), streams.len()), (429, 64));
    streams.pop();
    state::until("the place that was given back", async || {
        (open(&socket, "", &[]).await?.0.status == 200).then_some(())
    })
    .await;
    tokio::time::timeout(Duration::from_secs(10), streams[0].next()).await.unwrap().unwrap();
}
