//! What the store has lost, three replicas still have: one of them puts it back, and nobody has noticed.

use std::path::Path;

use bytes::Bytes;
use oneseal_tests::{Fleet, FleetOptions, Replica, http, state};
use serde_json::Value;

use crate::readers::{Readers, kids};
use crate::support::{Scene, events, postgres};
use crate::verbs::{done, keys, oneseal};

const JWKS: &str = "/.well-known/jwks.json";

/// `oneseal keys recover --from-replica` the socket of `replica`.
async fn recover(replica: &Replica, arguments: &[&str]) -> (Option<i32>, Value) {
    let socket = replica.admin();
    let from = ["keys", "recover", "--from-replica", socket.to_str().unwrap()];
    oneseal(&[&from, arguments].concat()).await
}

/// How many looks at the store were good so far, and how many were not.
async fn looks(replica: &Replica) -> [u64; 2] {
    let answer = http::get(replica.ops, "/metrics").await.unwrap();
    let mut looks = [0; 2];
    for line in String::from_utf8_lossy(&answer.body).lines() {
        let Some(sample) = line.strip_prefix("oneseal_refreshes_total{result=\"") else { continue };
        let (result, count) = sample.split_once("\"} ").unwrap();
        looks[usize::from(result != "ok")] += count.parse::<u64>().unwrap();
    }
    looks
}

/// Waits until each has looked once more and found it good, or not.
async fn seen_by_all<'r>(replicas: impl IntoIterator<Item = &'r Replica>, is_good: bool) {
    let at = usize::from(!is_good);
    let mut all = Vec::new();
    for replica in replicas {
        all.push((replica, looks(replica).await[at]));
    }
    for (replica, before) in all {
        state::until("another look", async || (looks(replica).await[at] > before).then_some(())).await;
    }
}

async fn bodies(replicas: &[Replica]) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    for replica in replicas {
        bodies.push(replica.get(JWKS).await.unwrap().body);
    }
    bodies
}

fn damage(key: &Path, older: &[u8], how: usize) {
    match how {
        0 => std::fs::remove_file(key).unwrap(),
        1 => std::fs::write(key, b"").unwrap(),
        _ => std::fs::write(key, older).unwrap(),
    }
}

#[tokio::test]
async fn a_key_file_that_is_lost_comes_back_from_a_replica_and_nothing_served_changes() {
    let mut options = FleetOptions::default();
    options.algorithms.truncate(2);
    let fleet = Fleet::start_with(options).await.unwrap();
    let older = std::fs::read(&fleet.key).unwrap();
    done(&fleet.replicas[0], &["rotate", "--unproven-replicas"]).await;
    let good = std::fs::read(&fleet.key).unwrap();
    let before = state::until("four keys", async || {
        let all = bodies(&fleet.replicas).await;
        let four = |body: &Bytes| kids(body).len() == 4;
        all.iter().all(four).then_some(all)
    })
    .await;
    for how in 0..3 {
        damage(&fleet.key, &older, how);
        seen_by_all(&fleet.replicas, false).await;
        let asked = &fleet.replicas[how % 3];
        let (code, told) = recover(asked, &[]).await;
        assert_eq!(
            (code, told["error"]["code"].as_str()),
            (Some(64), Some("keys.wants_yes")),
            "{how}: {told}"
        );
        let (code, told) = recover(asked, &["--yes", "--reason", "it was lost"]).await;
        assert_eq!(code, Some(0), "{how}: {told}");
        assert_eq!((&told["changes"][0]["kind"], &told["revision"]), (&"ring.recovered".into(), &2.into()));
        assert_eq!(std::fs::read(&fleet.key).unwrap(), good, "{how}");
        seen_by_all(&fleet.replicas, true).await;
        assert_eq!(bodies(&fleet.replicas).await, before, "{how}");
    }
    let (code, told) = recover(&fleet.replicas[0], &["--yes"]).await;
    assert_eq!((code, &told["repeated"]), (Some(0), &true.into()), "it is there: {told}");
    let socket = fleet.replicas[0].admin();
    let of_another = ["keys", "recover", "--from-replica", "another", "--admin", socket.to_str().unwrap()];
    let (code, told) = oneseal(&of_another).await;
    assert_eq!((code, told["error"]["code"].as_str()), (Some(78), Some("keys.other_replica")), "{told}");
}

#[tokio::test]
async fn a_row_that_is_lost_comes_back_from_the_replica_that_is_named_with_an_event() {
    let Some(server) = postgres() else { return };
    let scene = Scene::sealed(server).await;
    let members = scene.three().await;
    done(&members[0].replica, &["rotate"]).await;
    for member in &members {
        member.until("oneseal_ring_revision 2").await;
    }
    let row = || scene.database.execute("SELECT revision, digest FROM oneseal.rings");
    let (before, good) = (members[1].jwks().await.body, row());
    let readers = Readers::start(&members);
    let first = "(SELECT document FROM oneseal.rings)";
    for how in [
        "DELETE FROM oneseal.rings".to_owned(),
        "UPDATE oneseal.rings SET document = ''".to_owned(),
        format!("UPDATE oneseal.rings SET document = overlay({first} placing '\\x00' from 40 for 1)"),
    ] {
        scene.database.execute(&how);
        seen_by_all(members.iter().map(|member| &member.replica), false).await;
        let asked = &members[1];
        let (code, told) = keys(&asked.replica, &["recover", "--from-replica", "a", "--yes"]).await;
        assert_eq!((code, told["error"]["code"].as_str()), (Some(78), Some("keys.other_replica")), "{told}");
        let (code, told) = keys(&asked.replica, &["recover", "--from-replica", "b", "--yes"]).await;
        assert_eq!(code, Some(0), "{how}: {told}");
        assert_eq!(row(), good, "{how}");
        seen_by_all(members.iter().map(|member| &member.replica), true).await;
    }
    assert_eq!(events(&scene.database).iter().filter(|kind| *kind == "ring.recovered").count(), 3);
    for bodies in readers.end().await {
        assert_eq!(bodies, std::slice::from_ref(&before), "nothing that is served has changed");
    }
}
