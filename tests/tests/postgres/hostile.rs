//! Who may write the row, but has not the KEK, changes nothing of what is served.

use oneseal::SystemClock;
use oneseal_testing::rings::{HostileEdit, Keeper, Scene, hostile_edits, leaked_signing_key_as_ring_key};
use oneseal_tests::{Replica, state};
use serde_json::Value;
use uuid::Uuid;

use crate::rotation::verb;
use crate::support::{Place, checked, ended, jwks, metric, pod, run};

/// What changes sealed halves and nothing else.
const SEALED_ALONE: [&str; 3] =
    ["two sealed halves are swapped", "a sealed half is another issuer's", "a sealed half is cut"];
const REFUSED: &str = "oneseal_refreshes_total{result=\"refused\"}";
const OK: &str = "oneseal_refreshes_total{result=\"ok\"}";

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_written_into_the_row_without_the_kek_is_refused_by_name_and_nothing_served_changes() {
    let Some(place) = Place::new().await else { return };
    let scene = Scene::at(&place.issuer, 1, &SystemClock).await;
    place.write_row(&scene.current);
    let (kek, pin) = (place.keks(1, &[]), pin(&scene.current));
    let full = place.start("full", &kek, "").ready().await;
    let public = place.start("public", "", &format!("mode = \"public-only\"\npin = {pin:?}\n")).ready().await;
    place.in_front_of(&[&full, &public]);
    let published = jwks(&full).await;
    assert_eq!(jwks(&public).await, published);

    let mut edits = hostile_edits(&scene);
    edits.push(leaked_signing_key_as_ring_key(&Keeper::new(&place.issuer, 1), &scene.current));
    // The row is a ring document by definition: what is none is not even weighed as a key.
    let bare = edits.iter_mut().find(|edit| edit.name == "bare keys").unwrap();
    (bare.live, bare.at_start) = ("ring.malformed", Some("ring.malformed"));
    for edit in &edits {
        let (log, alarms) = (full.log_text().len(), metric(&full, REFUSED).await);
        let (looks_before, alarms_of_public) = (looks(&public).await, metric(&public, REFUSED).await);
        place.write_row(&edit.document);
        state::until(&format!("the alarm at: {}", edit.name), async || {
            (metric(&full, REFUSED).await > alarms).then_some(())
        })
        .await;
        state::until("the other one has looked", async || {
            (looks(&public).await > looks_before).then_some(())
        })
        .await;
        assert!(full.log_text()[log..].contains(edit.live), "{}: {}", edit.name, &full.log_text()[log..]);
        let is_alarmed = metric(&public, REFUSED).await > alarms_of_public;
        // Without a KEK nobody can tell what is in a sealed half: it opens none, and publishes on.
        assert_eq!(is_alarmed, !SEALED_ALONE.contains(&edit.name), "{}", edit.name);
        for replica in [&full, &public] {
            assert_eq!(jwks(replica).await, published, "{}", edit.name);
        }
        assert!(full.try_mint(&pod()).await.status.is_success(), "{}: minting goes on", edit.name);
        let listed = oneseal_tests::http::get_unix(&full.admin(), "/admin/v1/replicas").await.unwrap().json();
        let codes = listed["conflicts"].as_array().unwrap().iter().filter_map(|told| told["code"].as_str());
        assert!(codes.collect::<Vec<_>>().contains(&edit.live), "{}: {listed}", edit.name);
        nobody_builds_on_it(&place, &full, &kek, edit).await;
        // What it could not tell alone, the rows of the others do.
        newcomer_refuses(&place, &kek, edit, edit.at_start.unwrap_or("ring.rolled_back")).await;
        heal(&place, &scene, &[&full, &public]).await;
    }

    // The next revision of whoever has the KEK is followed as if nothing had been.
    let next = Keeper::new(&place.issuer, 1).retired(&scene.current, 2);
    place.write_row(&next);
    for replica in [&full, &public] {
        state::until("the next good revision", async || (jwks(replica).await != published).then_some(()))
            .await;
    }
    assert_eq!(jwks(&full).await, jwks(&public).await);
}

/// What SECURITY.md says of a replica that starts alone: it takes an authentic revision that is old.
#[tokio::test(flavor = "multi_thread")]
async fn alone_a_replica_takes_an_old_backup_for_the_ring() {
    let Some(place) = Place::new().await else { return };
    let scene = Scene::at(&place.issuer, 1, &SystemClock).await;
    for edit in hostile_edits(&scene).iter().filter(|edit| edit.at_start.is_none()) {
        place.write_row(&edit.document);
        place.forget_replicas();
        let alone = place.start("alone", &place.keks(1, &[]), "").ready().await;
        assert!(alone.try_mint(&pod()).await.status.is_success(), "{}", edit.name);
        drop(alone.kill().await);
    }
}

/// A key verb or a rewrap would sign what it found, and so vouch for it: the row stays as the thief has left it.
async fn nobody_builds_on_it(place: &Place, full: &Replica, kek: &str, edit: &HostileEdit) {
    let answer = verb(full, "rotate", Uuid::new_v4()).await;
    let told = String::from_utf8_lossy(&answer.body);
    let code = if edit.at_start.is_some() { edit.live } else { "fleet.behind" };
    assert!(!answer.status.is_success() && told.contains(code), "{}: {told}", edit.name);
    if edit.at_start.is_some() {
        let operator = place.start("keeper", kek, "");
        let (exit, _, err) = run(&operator, &["keys", "rewrap", "--new-ring-key", "--yes"]).await;
        assert!(exit == Some(78) && err.contains(edit.live), "{}: {exit:?} {err}", edit.name);
    }
    assert!(place.row() == edit.document, "{}: the row was written", edit.name);
}

async fn newcomer_refuses(place: &Place, kek: &str, edit: &HostileEdit, code: &str) {
    let (newcomer, operator) = (place.start("newcomer", kek, ""), place.start("operator", kek, ""));
    let ((exit, log), (checked, codes)) = tokio::join!(ended(&newcomer), checked(&operator));
    assert!(exit == Some(78) && log.contains(code), "{}: {exit:?} {log}", edit.name);
    assert!(
        checked == Some(78) && codes.iter().any(|found| found == code),
        "{}: {checked:?} {codes:?}",
        edit.name
    );
}

async fn looks(replica: &Replica) -> u64 {
    metric(replica, REFUSED).await + metric(replica, OK).await
}

/// Puts the good document back and waits until everybody has seen that.
async fn heal(place: &Place, scene: &Scene, replicas: &[&Replica]) {
    let mut looks = Vec::new();
    for replica in replicas {
        looks.push(metric(replica, OK).await);
    }
    place.write_row(&scene.current);
    for (replica, before) in replicas.iter().zip(looks) {
        state::until("a good look", async || (metric(replica, OK).await > before).then_some(())).await;
    }
}

fn pin(document: &[u8]) -> String {
    let ring: Value = serde_json::from_slice(document).unwrap();
    ring["ring_key"]["kid"].as_str().unwrap().to_owned()
}
