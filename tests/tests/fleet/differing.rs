//! Two rings of one origin: a replica reads a copy of the database that has gone a way of its own.

use std::sync::Arc;

use oneseal::{Algorithm, SystemClock};
use oneseal_keystore::KeystoreOptions;
use oneseal_keystore::executor::{Executor, NoRegistry, Order};
use oneseal_keystore::steps::Request;
use oneseal_providers::PostgresProvider;
use oneseal_testing::parts;
use oneseal_tests::state;
use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

use crate::support::{FLEET, Member, Scene, events, pool, postgres};
use crate::verbs::{check, done, keys};

const DIFFERS: &str = "oneseal_fleet_conflicts{code=\"fleet.jwks_differs\"}";

/// A rotation where nobody asks the registry, as in a database that was put back without its fleet.
async fn rotate_alone(scene: &Scene, database: &parts::Database) {
    let mut options = KeystoreOptions::new(scene.issuer.clone());
    options.algorithms = vec![Algorithm::Es256];
    options.keks = scene.keks();
    let provider = Arc::new(PostgresProvider::new(pool(database), FLEET));
    let order = Order {
        change_id: Uuid::new_v4(),
        actor: "test".to_owned(),
        reason: "the other half of the fleet".to_owned(),
        request: Request::Rotate { algorithms: Vec::new(), rsa_bits: None },
        unproven_replicas: true,
        dry_run: false,
    };
    Executor::new(provider, options, Arc::new(NoRegistry), Arc::new(SystemClock))
        .execute(&order)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_replica_on_another_branch_is_behind_then_in_conflict_and_named_everywhere() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::sealed(postgres).await;
    let branch = postgres.database(&format!("{}_branch", scene.database.name()));
    let sql = format!("CREATE DATABASE {} TEMPLATE {}", branch.name(), scene.database.name());
    let server = postgres.database("postgres");
    state::until("the copy", async || server.try_execute(&sql).is_ok().then_some(())).await;
    let (a, b) = (scene.member("a", |start| start).await, scene.member("b", |start| start).await);
    let c = scene
        .member("c", |mut start| {
            start.provider = format!("uri = {:?}\n", branch.url());
            start
        })
        .await;
    for member in [&a, &b, &c] {
        member.sees(3).await;
    }

    done(&a.replica, &["rotate"]).await;
    c.until("oneseal_fleet_behind 1").await;
    for member in [&a, &b] {
        member.until("oneseal_fleet_lagging 1").await;
    }
    assert!(c.is_ready().await && c.mint().await.status.is_success(), "it has been where the fleet was");
    assert_eq!(c.status().await["fleet"]["behind"], true);
    assert!(c.replica.log_text().contains("fleet.behind"));
    let (code, told) = keys(&c.replica, &["rotate"]).await;
    assert!(code == Some(75) && told.to_string().contains("the store has lost something"), "{told}");
    let (_, found) = check(&c.replica).await;
    assert!(found.contains(&"fleet.behind".to_owned()), "{found:?}");

    rotate_alone(&scene, &branch).await;
    for (member, sides) in [(&a, 1), (&b, 1), (&c, 2)] {
        member.until(&format!("{DIFFERS} {sides}")).await;
        assert!(member.is_ready().await && member.mint().await.status.is_success(), "{}", member.name);
        let log = member.replica.log_text();
        assert!(log.contains("the fleet is in conflict") && log.contains("fleet.jwks_differs"), "{log}");
    }
    c.until("oneseal_fleet_behind 0").await;
    let digest = async |member: &Member| member.status().await["digest"].as_str().unwrap().to_owned();
    let (ours, theirs) = (digest(&a).await, digest(&c).await);
    assert_ne!(ours, theirs);
    state::until("the event names both", async || {
        let told = scene.database.execute("SELECT payload FROM oneseal.events WHERE kind = 'fleet.conflict'");
        (told.contains(&ours) && told.contains(&theirs) && told.contains("replica c")).then_some(())
    })
    .await;
    for member in [&a, &c] {
        let (code, found) = check(&member.replica).await;
        assert!(code == Some(78) && found.contains(&"fleet.jwks_differs".to_owned()), "{code:?} {found:?}");
    }
    let (code, told) = keys(&b.replica, &["rotate"]).await;
    assert_eq!(code, Some(75), "{told}");

    let pid = Pid::from_raw(c.replica.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    for member in [&a, &b] {
        member.until(&format!("{DIFFERS} 0")).await;
    }
    state::until("the end of it", async || {
        events(&scene.database).contains(&"fleet.settled".to_owned()).then_some(())
    })
    .await;
}
