//! A database that comes back as another, which lacks the last revision of the ring.

use oneseal_testing::parts::Stop;
use oneseal_tests::state;

use crate::readers::{Readers, kids, verifies_at};
use crate::support::{Scene, events, own_postgres};
use crate::verbs::{check, done, keys};

const ROLLED_BACK: &str = "oneseal_fleet_conflicts{code=\"ring.rolled_back\"}";

#[tokio::test]
async fn a_promoted_standby_without_the_last_revision_is_named_and_nothing_served_goes_back() {
    let Some(mut primary) = own_postgres() else { return };
    let scene = Scene::sealed(&primary).await;
    let members = scene.three().await;
    let standby = primary.standby();
    let promoted = standby.database(scene.database.name());
    let before = members[0].jwks().await.body;
    let readers = Readers::start(&members);

    standby.cut_off();
    done(&members[0].replica, &["rotate"]).await;
    for member in &members {
        state::until("the lost revision is served", async || {
            (kids(&member.jwks().await.body).len() == 2).then_some(())
        })
        .await;
        member.until("oneseal_fleet_lagging 0").await;
    }
    let after = members[0].jwks().await.body;

    primary.stop(Stop::Immediate);
    for member in &members {
        member.proxy.set_backend(standby.address());
        member.proxy.cut();
    }
    for member in &members {
        member.until("oneseal_database_up 0").await;
        assert!(member.is_ready().await, "{}", member.name);
    }
    standby.promote();
    for member in &members {
        member.until("oneseal_database_up 1").await;
        member.until(&format!("{ROLLED_BACK} 1")).await;
        let log = member.replica.log_text();
        assert!(log.contains("the fleet is in conflict") && log.contains("ring.rolled_back"), "{log}");
    }
    state::until("the event", async || {
        let told = promoted.execute("SELECT payload FROM oneseal.events WHERE kind = 'fleet.conflict'");
        told.contains("ring.rolled_back").then_some(())
    })
    .await;
    let (code, told) = keys(&members[1].replica, &["rotate"]).await;
    assert!(code == Some(75) && told.to_string().contains("the store has lost something"), "{told}");
    let (code, found) = check(&members[1].replica).await;
    let are_told = ["ring.rolled_back", "fleet.behind"].map(|code| found.iter().any(|other| other == code));
    assert_eq!((code, are_told), (Some(78), [true, true]), "{found:?}");

    state::until("what cannot be read again ages, and mints no more", async || {
        let mut minting = 0;
        for member in &members {
            minting += usize::from(member.mint().await.status.is_success());
        }
        (minting == 0).then_some(())
    })
    .await;

    primary.start_again();
    for member in &members {
        member.proxy.set_backend(primary.address());
        member.proxy.cut();
    }
    for member in &members {
        member.until(&format!("{ROLLED_BACK} 0")).await;
        let answer = state::until("it mints again", async || {
            Some(member.mint().await).filter(|answer| answer.status.is_success())
        })
        .await;
        verifies_at(&scene.issuer, &members, answer.json()["token"].as_str().unwrap()).await;
        assert!(member.replica.log_text().contains("the fleet agrees again"), "{}", member.name);
    }
    state::until("the end of it", async || {
        events(&scene.database).contains(&"fleet.settled".to_owned()).then_some(())
    })
    .await;
    for bodies in readers.end().await {
        assert_eq!(bodies, [before.clone(), after.clone()], "forward, once");
    }
}
