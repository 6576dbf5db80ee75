//! A rotation by hand on the ring in Postgres, through the admin API of three replicas in turn.

use oneseal_tests::http::{Answer, get_unix, post_json_with};
use oneseal_tests::{Replica, state};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{Place, pod, run};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_is_rotated_by_any_of_three_replicas_without_one_failed_token_and_every_step_is_in_the_log() {
    let Some(place) = Place::new().await else { return };
    let kek = place.keks(1, &[]);
    let start = |name: &str| {
        let mut start = place.start(name, &kek, "");
        start.algorithms = vec![oneseal::Algorithm::Es256];
        start.more.push_str("[rotation]\npreset = \"lab\"\nrollback_window = \"10s\"\n");
        start
    };
    let (exit, out, err) = run(&start("operator"), &["keys", "init", "--json"]).await;
    assert_eq!(exit, Some(0), "{out}{err}");
    let mut replicas = Vec::new();
    for name in ["a", "b", "c"] {
        replicas.push(start(name).ready().await);
    }
    place.in_front_of(&replicas.iter().collect::<Vec<_>>());

    let mut world = World::new(&place.issuer);
    let done = CancellationToken::new();
    let scenario = async {
        rotate_and_roll_back(&replicas).await;
        done.cancel();
    };
    tokio::join!(world.live(&replicas, &done), scenario);
    assert!(world.verified > 1000, "{}", world.verified);
    assert!(world.failures.is_empty(), "{:?}", world.failures);

    told_in_the_log(&start("operator")).await;
    let history = place.sql.execute("SELECT public_document FROM oneseal.ring_history ORDER BY id");
    assert_eq!(history.lines().count(), 6, "{history}");
    for secret in ["\"private\"", "\"sealed\"", "\"d\":"] {
        assert!(!history.contains(secret), "{secret} in {history}");
    }
}

async fn rotate_and_roll_back(replicas: &[Replica]) {
    let [a, b, c] = replicas else { unreachable!("three") };
    let old = signs_with(a).await;
    // Asked at once, two orders are two, and the second finds the first one's key waiting.
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());
    let (first, second) = tokio::join!(verb(a, "rotate", one), verb(b, "rotate", two));
    let (id, won, lost) = if first.status == 200 { (one, first, second) } else { (two, second, first) };
    assert_eq!(won.status, 200, "{:?}", won.body);
    assert_eq!((lost.status.as_u16(), &lost.json()["code"]), (422, &json!("keys.already_pending")));
    let won = won.json();
    let new = won["changes"][0]["kid"].as_str().unwrap().to_owned();
    let again = verb(c, "rotate", id).await.json();
    assert_eq!(
        (&again["repeated"], &again["revision"], &again["changes"]),
        (&json!(true), &won["revision"], &won["changes"])
    );

    let early = verb(b, "activate", Uuid::new_v4()).await;
    assert_eq!(early.status, 409, "{:?}", early.body);
    let mut turn = replicas.iter().cycle();
    // The same order at two replicas at once is one change. In the moment when the floors end one of the two may still
    // be told to wait, so it is the one order until both have the change to tell.
    let order = Uuid::new_v4();
    let mut done_by = 0;
    state::until("the floors are over", async || {
        let (one, two) =
            tokio::join!(verb(turn.next()?, "activate", order), verb(turn.next()?, "activate", order));
        let answers = [one, two];
        done_by += answers.iter().filter(|it| it.status == 200 && it.json()["repeated"] == false).count();
        let told = answers.each_ref().map(|it| it.status.as_u16());
        assert!(told.iter().all(|status| [200, 409].contains(status)), "{answers:?}");
        if told != [200; 2] {
            return None;
        }
        let [one, two] = answers.map(|it| it.json());
        assert_eq!((&one["revision"], &one["changes"]), (&two["revision"], &two["changes"]));
        Some(())
    })
    .await;
    assert_eq!(done_by, 1, "one replica did it, the other repeats the answer");
    all_sign_with(replicas, &new).await;
    for (replica, kid) in [(c, &old), (a, &new)] {
        let rolled = verb(replica, "rollback", Uuid::new_v4()).await;
        assert_eq!(rolled.status, 200, "{:?}", rolled.body);
        assert_eq!(signs_with(replica).await, *kid, "the replica that answers signs by it already");
        for replica in replicas {
            no_conflict(replica).await;
        }
        all_sign_with(replicas, kid).await;
    }
    let erased = state::until("the private half of the old key is erased", async || {
        let answer = verb(b, "retire", Uuid::new_v4()).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    assert_eq!(erased["changes"], json!([{ "kind": "key.private_erased", "kid": old }]));
}

async fn told_in_the_log(operator: &oneseal_tests::Start) {
    let (exit, out, err) = run(operator, &["events", "verify", "--json"]).await;
    assert_eq!(exit, Some(0), "{out}{err}");
    let (_, lines, _) = run(operator, &["events", "export"]).await;
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!(event["seq"], seq);
    }
    for pair in events.windows(2) {
        assert_eq!(pair[0]["hash"], pair[1]["prev_hash"]);
    }
    let of_ring = events.iter().filter(|event| {
        let kind = event["kind"].as_str().unwrap();
        kind.starts_with("key.") || (kind.starts_with("ring.") && kind != "ring.checkpoint")
    });
    let steps: Vec<_> = of_ring
        .map(|event| (event["kind"].as_str().unwrap(), event["payload"]["revision"].as_u64().unwrap()))
        .collect();
    let wanted = [
        ("ring.created", 1),
        ("key.published", 2),
        ("key.activated", 3),
        ("key.rolled_back", 4),
        ("key.rolled_back", 5),
        ("key.private_erased", 6),
    ];
    assert_eq!(steps, wanted);
    for secret in ["\"private\":", "\"sealed\":", "\"d\":"] {
        assert!(!lines.contains(secret), "{secret}");
    }
}

/// One key verb on the admin socket of `replica`.
pub(crate) async fn verb(replica: &Replica, name: &str, id: Uuid) -> Answer {
    let key = id.to_string();
    let path = format!("/admin/v1/keys/{name}");
    post_json_with(&replica.admin(), &path, &json!({}), &[("idempotency-key", &key)]).await.unwrap()
}

/// In the moments after a change some replicas serve it and some do not yet, and nothing is lost.
async fn no_conflict(replica: &Replica) {
    let listed = get_unix(&replica.admin(), "/admin/v1/replicas").await.unwrap().json();
    let conflicts = listed["conflicts"].as_array().unwrap();
    assert!(conflicts.iter().all(|conflict| conflict["severity"] != "error"), "{listed}");
}

async fn signs_with(replica: &Replica) -> String {
    replica.try_mint(&pod()).await.json()["kid"].as_str().unwrap().to_owned()
}

async fn all_sign_with(replicas: &[Replica], kid: &str) {
    for replica in replicas {
        state::until("the replica signs with it", async || (signs_with(replica).await == kid).then_some(()))
            .await;
    }
}
