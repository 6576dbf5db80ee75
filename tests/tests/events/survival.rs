//! Clients go on through everything: replicas that are killed, a database that goes away.

use std::path::PathBuf;

use oneseal_testing::parts::{Postgres, PostgresOptions, Stop};
use tokio::task::JoinSet;

use crate::place::{Place, open};

/// A client as a browser is one: it comes back, to the next replica, with the id of the last event.
async fn client(sockets: Vec<PathBuf>, first: usize, until: i64) -> (Vec<i64>, usize) {
    let (mut seen, mut last, mut connections) = (Vec::new(), "0-00000000".to_owned(), 0);
    let mut at = first;
    loop {
        let opened = open(&sockets[at % sockets.len()], "", &[("last-event-id", &last)]).await;
        at += 1;
        let Some((head, mut stream)) = opened.filter(|(head, _)| head.status == 200) else {
            tokio::task::yield_now().await;
            continue;
        };
        drop(head);
        connections += 1;
        while let Some(block) = stream.next().await {
            if let Some(id) = &block.id {
                last.clone_from(id);
            }
            assert_ne!(block.event.as_deref(), Some("reset"), "{block:?}");
            if block.data.is_some() {
                seen.push(block.seq());
                if block.seq() >= until {
                    return (seen, connections);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_killed_in_turn_cost_no_client_an_event() {
    let Some(place) = Place::new().await else { return };
    const KILLS: usize = 20;
    let names = ["a", "b", "c"];
    let sockets: Vec<_> = names.iter().map(|name| place.start(name).admin()).collect();
    let mut replicas = Vec::new();
    for name in names {
        replicas.push(place.replica(name).await);
    }
    let last = i64::try_from(KILLS * 3 + 1).unwrap();
    let mut clients = JoinSet::new();
    for number in 0..6 {
        clients.spawn(client(sockets.clone(), number, last));
    }
    for kill in 0..KILLS {
        place.append(1).await;
        let start = replicas.remove(kill % 3).kill().await;
        place.append(2).await;
        replicas.insert(kill % 3, start.ready().await);
    }
    place.append(1).await;
    let mut connections = 0;
    while let Some(ended) = clients.join_next().await {
        let (seen, of_it) = ended.unwrap();
        assert_eq!(seen, (1..=last).collect::<Vec<_>>());
        connections += of_it;
    }
    assert!(connections >= KILLS, "{connections} connections: nobody was cut off");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_the_database_and_goes_on_without_loss() {
    let Some(mut server) = Postgres::start(PostgresOptions::default()) else { return };
    let place = Place::on(&server).await;
    let socket = place.start("a").admin();
    let replica = place.joined("a").await;
    let (_, mut stream) = open(&socket, "?after=0", &[]).await.unwrap();
    place.append(2).await;
    for seq in 1..=place.head() {
        assert_eq!(stream.next_data().await.unwrap().seq(), seq);
    }
    for how in [Stop::Immediate, Stop::Fast] {
        server.stop(how);
        // Opened meanwhile, it stays open too.
        let (head, mut other) = open(&socket, "?after=0", &[]).await.unwrap();
        assert_eq!(head.status, 200);
        assert_eq!(other.next().await.unwrap().comment.as_deref(), Some("oneseal events"));
        // A sign of life while it is down.
        assert!(stream.next().await.unwrap().comment.is_some());
        server.start_again();
        let before = place.head();
        place.append(2).await;
        for seq in [before + 1, before + 2] {
            assert_eq!(stream.next_data().await.unwrap().seq(), seq);
        }
        for seq in 1..=before + 2 {
            assert_eq!(other.next_data().await.unwrap().seq(), seq);
        }
    }
    drop(replica);
}
