//! The rows, read and forgotten by an operator.

use oneseal_tests::binary;
use serde_json::Value;
use tokio::process::Command;

use crate::support::{Scene, events, postgres};

/// `oneseal replicas …` against the admin socket of `replica`.
async fn replicas(replica: &oneseal_tests::Replica, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(binary())
        .arg("replicas")
        .args(arguments)
        .args(["--json", "--admin"])
        .arg(replica.admin())
        .output()
        .await
        .unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[tokio::test]
async fn a_replica_that_was_killed_is_silent_until_it_is_forgotten() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let [a, b, c] = scene.three().await;
    let (code, listed) = replicas(&a.replica, &["list"]).await;
    assert_eq!(code, Some(0), "{listed}");
    let rows = listed["replicas"].as_array().unwrap();
    let digests: std::collections::BTreeSet<_> =
        rows.iter().map(|row| row["facts"]["ring"]["digest"].as_str().unwrap()).collect();
    assert_eq!((rows.len(), digests.len()), (3, 1), "{listed}");
    for row in rows {
        assert_eq!((&row["state"], &row["facts"]["minting"]), (&"live".into(), &"on".into()), "{row}");
        assert!(row["ops_address"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{row}");
    }

    let (code, refused) = replicas(&a.replica, &["forget", "b"]).await;
    assert_eq!(code, Some(64), "{refused}");
    let (code, refused) = replicas(&a.replica, &["forget", "b", "--yes"]).await;
    assert_eq!(code, Some(75), "it beats: {refused}");
    let (code, refused) = replicas(&a.replica, &["forget", "nobody", "--yes"]).await;
    assert_eq!(code, Some(64), "{refused}");
    let log = a.replica.log_text();
    assert!(log.contains("could not forget a replica") && !log.contains("forgotten by an admin"), "{log}");

    drop(c.replica.kill().await);
    a.until("oneseal_fleet_replicas{state=\"silent\"} 1").await;
    b.until("oneseal_fleet_replicas{state=\"silent\"} 1").await;
    for _ in 0..2 {
        let (code, forgotten) = replicas(&a.replica, &["forget", "c", "--yes"]).await;
        assert_eq!((code, &forgotten["forgotten"]), (Some(0), &"c".into()), "{forgotten}");
    }
    let kinds = events(&scene.database);
    assert_eq!(kinds.iter().filter(|kind| *kind == "replica.forgotten").count(), 1, "{kinds:?}");
    let (_, listed) = replicas(&b.replica, &["list"]).await;
    assert_eq!(listed["replicas"][2]["state"], "gone");
}
