//! The database goes away, comes back, and comes back as another.

use oneseal_testing::parts::Stop;
use oneseal_tests::state;

use crate::support::{Scene, events, own_postgres};

#[tokio::test]
async fn a_database_that_is_down_for_a_while_is_not_noticed_by_what_is_served() {
    let Some(mut postgres) = own_postgres() else { return };
    let scene = Scene::on(&postgres).await;
    let members = scene.three().await;
    let published = members[0].jwks().await;
    postgres.stop(Stop::Immediate);
    for member in &members {
        member.until("oneseal_database_up 0").await;
    }
    for member in &members {
        assert_eq!(member.jwks().await.body, published.body);
        assert!(member.is_ready().await && member.mint().await.status.is_success(), "{}", member.name);
        let listed = member.replicas().await;
        assert_eq!(listed["database"], "down");
        assert_eq!(listed["replicas"].as_array().unwrap().len(), 3, "as of the last beat");
    }
    postgres.start_again();
    for member in &members {
        member.until("oneseal_database_up 1").await;
        member.sees(3).await;
    }
    let log = members[1].replica.log_text();
    assert!(
        log.contains("the database does not answer; serving goes on") && log.contains("the database answers"),
        "{log}"
    );
}

#[tokio::test]
async fn one_that_is_cut_off_is_silent_for_the_others_and_serves_on() {
    let Some(postgres) = crate::support::postgres() else { return };
    let scene = Scene::on(postgres).await;
    let members = scene.three().await;
    let [a, b, c] = &members;
    a.cut_off();
    b.until("oneseal_fleet_replicas{state=\"silent\"} 1").await;
    c.until("oneseal_fleet_replicas{state=\"silent\"} 1").await;
    assert!(a.is_ready().await && a.mint().await.status.is_success());
    state::until("the event", async || {
        events(&scene.database).contains(&"replica.silent".to_owned()).then_some(())
    })
    .await;
    a.proxy.refuse(false);
    b.sees(3).await;
    a.sees(3).await;
    let silent = events(&scene.database).iter().filter(|kind| *kind == "replica.silent").count();
    assert_eq!(silent, 1, "one of them reports");
}

/// Long enough that every row is older than three beats when the database is back.
#[tokio::test]
async fn an_outage_of_the_database_makes_no_replica_silent_in_the_log_of_events() {
    let Some(mut postgres) = own_postgres() else { return };
    let scene = Scene::on(&postgres).await;
    let members = scene.three().await;
    postgres.stop(Stop::Immediate);
    state::until("no answer for longer than three beats", async || {
        let status = members[2].status().await;
        (status["fleet"]["beat_age_s"].as_u64().unwrap() >= 13).then_some(())
    })
    .await;
    postgres.start_again();
    for member in &members {
        member.until("oneseal_database_up 1").await;
        member.sees(3).await;
    }
    // One that dies right then is told all the same, after the others' beats were answered for long enough.
    let [a, b, c] = members;
    drop(c.replica.kill().await);
    state::until("the event", async || {
        events(&scene.database).contains(&"replica.silent".to_owned()).then_some(())
    })
    .await;
    let silent = scene
        .database
        .execute("SELECT payload::json ->> 'instance' FROM oneseal.events WHERE kind = 'replica.silent'");
    assert_eq!(silent, "c");
    drop((a, b));
}
