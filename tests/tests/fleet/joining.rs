//! Who may join, and who may not.

use oneseal::Rotation;
use oneseal_tests::{Start, state};

use crate::support::{Scene, admin, events, postgres};

/// Runs it to its end: exit code and log.
async fn ended(start: &Start) -> (Option<i32>, String) {
    let mut child = start.spawn();
    let status = child.wait().await.unwrap();
    (status.code(), start.log_text())
}

#[tokio::test]
async fn a_replica_with_another_key_cannot_join_and_says_whom_it_contradicts() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let first = scene.start("a", &scene.database.url()).ready().await;
    std::fs::create_dir_all(scene.path("b")).unwrap();
    scene.make_ring(&scene.key("b"), Rotation::lab()).await;
    let (code, log) = ended(&scene.start("b", &scene.database.url())).await;
    assert_eq!(code, Some(78), "{log}");
    assert!(log.contains("fleet.key_replaced") && log.contains("replica a (http://127.0.0.1:"), "{log}");

    let listed = admin(&first, "/admin/v1/replicas").await;
    let states: Vec<_> =
        listed["replicas"].as_array().unwrap().iter().map(|row| (&row["instance"], &row["state"])).collect();
    assert_eq!(format!("{states:?}"), r#"[(String("a"), String("live")), (String("b"), String("gone"))]"#);
    assert_eq!(first.get("/.well-known/jwks.json").await.unwrap().status, 200);
}

#[tokio::test]
async fn of_two_boots_of_one_instance_the_newer_waits_and_gives_up_with_75() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let first = scene.start("a", &scene.database.url()).ready().await;
    let mut second = scene.start("a2", &scene.database.url());
    second.more = second.more.replace("instance = \"a2\"", "instance = \"a\"").replace("\"30s\"", "\"2s\"");
    let (code, log) = ended(&second).await;
    assert_eq!(code, Some(75), "{log}");
    assert!(log.contains("fleet.instance_in_use") && log.contains("ops.instance"), "{log}");
    let sees = admin(&first, "/admin/v1/status").await;
    assert_eq!((&sees["fleet"]["instance"], &sees["readiness"]), (&"a".into(), &"ready".into()));
}

#[tokio::test]
async fn the_newer_boot_joins_once_the_older_one_has_missed_three_beats() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let start = scene.start("a", &scene.database.url()).ready().await.kill().await;
    let again = start.ready().await;
    let log = again.log_text();
    assert!(log.contains("cannot join its fleet yet"), "{log}");
    let status = admin(&again, "/admin/v1/status").await;
    assert_eq!(status["fleet"]["database"], "up");
}

#[tokio::test]
async fn who_ends_in_order_leaves_and_the_log_of_events_says_so() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let members = scene.three().await;
    state::until("three joined", async || (events(&scene.database).len() >= 3).then_some(())).await;
    let [a, b, c] = members;
    let pid = rustix::process::Pid::from_raw(c.replica.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    a.sees(2).await;
    b.sees(2).await;
    let rows = a.replicas().await;
    assert_eq!(
        (&rows["replicas"][2]["instance"], &rows["replicas"][2]["state"]),
        (&"c".into(), &"gone".into())
    );
    let mut kinds = events(&scene.database);
    kinds.sort();
    assert_eq!(kinds, ["replica.joined", "replica.joined", "replica.joined", "replica.left"]);
    let log = a.replica.log_text();
    assert!(log.contains("has left the fleet"), "{log}");
}

#[tokio::test]
async fn without_a_database_that_answers_a_replica_does_not_start_and_ends_with_69() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let proxy = oneseal_testing::parts::Proxy::start("127.0.0.1:9".parse().unwrap());
    let mut start = scene.start("a", &scene.database.url_at(proxy.address()));
    start.more = start.more.replace("\"30s\"", "\"1s\"");
    let (code, log) = ended(&start).await;
    assert_eq!(code, Some(69), "{log}");
    assert!(log.contains("database.unavailable"), "{log}");
}

/// Bound by somebody else, so that it has joined and cannot serve; or there is no place for its ready file.
#[tokio::test]
async fn a_start_that_fails_after_joining_leaves_no_row_that_joins() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let start = scene.start("a", &scene.database.url());
    let taken_by = taken.local_addr().unwrap();
    let config = start.configure();
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        text.replacen("documents = \"127.0.0.1:0\"", &format!("documents = \"{taken_by}\""), 1),
    )
    .unwrap();
    let states = "SELECT string_agg(state, ' ') FROM oneseal.replicas";
    let output = tokio::process::Command::new(oneseal_tests::binary())
        .args(["serve", "--config"])
        .arg(&config)
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(71), "{output:?}");
    assert_eq!(scene.database.execute(states), "gone");
    std::fs::write(&config, text).unwrap();
    let output = tokio::process::Command::new(oneseal_tests::binary())
        .args(["serve", "--ready-file", "/nowhere/at/all", "--config"])
        .arg(&config)
        .output()
        .await
        .unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(scene.database.execute(states), "gone");
}
