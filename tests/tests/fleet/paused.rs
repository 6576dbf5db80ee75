//! A replica that stands still while the fleet goes on.

use oneseal_tests::state;
use rustix::process::{Pid, Signal, kill_process};

use crate::readers::{kids, verifies_at};
use crate::support::{Member, Scene, postgres};
use crate::verbs::{done, oneseal, rotated};

fn signal(member: &Member, signal: Signal) {
    let pid = Pid::from_raw(member.replica.pid().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn a_replica_paused_across_rotations_and_an_emergency_never_signs_with_what_was_burned() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::sealed(postgres).await;
    let members = scene.three().await;
    let (a, c) = (&members[0], &members[2]);
    let first = kids(&c.jwks().await.body);
    signal(c, Signal::STOP);
    a.until("oneseal_fleet_replicas{state=\"silent\"} 1").await;
    let admin = a.replica.admin();
    let forget = ["replicas", "forget", "c", "--yes", "--admin", admin.to_str().unwrap()];
    let (code, told) = oneseal(&forget).await;
    assert_eq!(code, Some(0), "{told}");
    for _ in 0..3 {
        rotated(&a.replica).await;
    }
    done(&a.replica, &["revoke", "--yes"]).await;
    let burned = first;
    let now = state::until("the others have done with it", async || {
        let answer = a.mint().await;
        answer.status.is_success().then(|| answer.json()["kid"].as_str().unwrap().to_owned())
    })
    .await;
    assert!(!burned.contains(&now));

    signal(c, Signal::CONT);
    let token = state::until("it signs again", async || {
        let answer = c.mint().await;
        if answer.status == 503 {
            return None;
        }
        let told = answer.json();
        assert_eq!((answer.status.as_u16(), &told["kid"]), (200, &now.as_str().into()), "{told}");
        Some(told["token"].as_str().unwrap().to_owned())
    })
    .await;
    verifies_at(&scene.issuer, &members, &token).await;
    for member in &members {
        assert_eq!(member.jwks().await.body, a.jwks().await.body, "{}", member.name);
        member.sees(3).await;
        verifies_at(&scene.issuer, &members, member.mint().await.json()["token"].as_str().unwrap()).await;
    }
    assert!(c.is_ready().await);
    let told = "SELECT string_agg(kind, ' ' ORDER BY seq) FROM oneseal.events \
                WHERE kind LIKE 'replica.%' AND payload::json ->> 'instance' = 'c'";
    state::until("that it is back, in the log", async || {
        let kinds = scene.database.execute(told);
        (kinds == "replica.joined replica.silent replica.forgotten replica.joined").then_some(())
    })
    .await;
}
