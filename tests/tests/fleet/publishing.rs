//! A replica that only publishes, with the rights that such a one is granted.

use oneseal_tests::state;

use crate::support::{Scene, postgres};

#[tokio::test]
async fn one_that_may_not_write_the_log_serves_and_leaves_silence_to_those_who_may() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::sealed(postgres).await;
    // As docs/postgres.md has it.
    scene.database.execute(
        "CREATE ROLE publisher_of_the_fleet LOGIN PASSWORD 'right-horse';
         GRANT USAGE ON SCHEMA oneseal TO publisher_of_the_fleet;
         GRANT SELECT ON oneseal.schema_version, oneseal.event_head, oneseal.rings TO publisher_of_the_fleet;
         GRANT SELECT, INSERT, UPDATE, DELETE ON oneseal.replicas TO publisher_of_the_fleet",
    );
    let (b, c) = (scene.member("b", |start| start).await, scene.member("c", |start| start).await);
    scene.forwarder.set_backends(vec![b.replica.documents, c.replica.documents]);
    let pin = "SELECT convert_from(document, 'UTF8')::json -> 'ring_key' ->> 'kid' FROM oneseal.rings";
    let pin = scene.database.execute(pin);
    let url =
        scene.database.url().replace("postgres:correct-horse-battery", "publisher_of_the_fleet:right-horse");
    // First by name of all.
    let mut start = scene.start("a", &url);
    let mode = format!("[ring]\nmode = \"public-only\"\npin = {pin:?}\n");
    let (_, more) = start.more.split_once("[database]").unwrap();
    start.more = format!("[database]{}", more.replace("[ring]\n", &mode));
    let a = start.ready().await;
    b.sees(3).await;
    assert_eq!(a.get("/.well-known/jwks.json").await.unwrap().body, b.jwks().await.body);

    drop(c.replica.kill().await);
    state::until("the event of its silence", async || {
        let told = "SELECT string_agg(actor, ' ') FROM oneseal.events WHERE kind = 'replica.silent'";
        (scene.database.execute(told) == "replica:b").then_some(())
    })
    .await;
    let log = a.log_text();
    assert!(!log.contains("grant_missing") && !log.contains("could not be logged"), "{log}");
}
