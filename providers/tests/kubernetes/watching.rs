//! A watch is a hint, whatever becomes of it; the poll is the truth.

use std::time::Duration;

use oneseal_providers::{ErrorKind, KubernetesProvider, Revision, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{Gateway, KubeApiserver, Meddling};
use serde_json::json;

use crate::place::{NO_POLL, QUICK_POLL, SECRET, Tenant, in_time, ring};

/// As the keystore waits: a wake may have no cause.
async fn seen_other_than(provider: &KubernetesProvider, known: &Revision) -> Revision {
    loop {
        in_time("a wake", provider.changed(known)).await;
        match provider.load().await {
            Ok(record) if record.revision != *known => return record.revision,
            _ => tokio::task::yield_now().await,
        }
    }
}

fn edit(tenant: &Tenant<'_>, number: u64) {
    let document = ring(number);
    let bytes = document.iter().next().unwrap().1.expose().to_vec();
    tenant.edit(|secret| {
        secret["stringData"] = json!({"keyring.json": String::from_utf8(bytes).unwrap()});
    });
}

async fn until_watched(gateway: &Gateway, times: usize) {
    let watched = async {
        while gateway.seen("watch") < times {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    in_time("a watch", watched).await;
}

#[test]
fn what_is_deleted_wakes_and_so_does_what_comes_in_its_place() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let provider = tenant.provider();
    block_on(async {
        let at = provider.load().await.unwrap().revision;
        // Only a watch that has begun can tell that something went.
        let waiting = provider.changed(&at);
        let watched = async {
            drop(
                server.wait_for_audited("a watch", |line| line.user == tenant.user() && line.verb == "watch"),
            );
        };
        futures_util::future::select(waiting, std::pin::pin!(watched)).await;
        let gone = async {
            loop {
                provider.changed(&at).await;
                match provider.load().await {
                    Ok(record) => assert_eq!(record.revision, at),
                    Err(error) => return error,
                }
            }
        };
        let deleted = async { tenant.delete() };
        let (gone, ()) = in_time("a wake", futures_util::future::join(gone, deleted)).await;
        assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
        // The same data once more, in another Secret.
        let again = async { drop(tenant.make("Opaque", &[("keyring.json", b"{}")])) };
        let (again, ()) = futures_util::future::join(seen_other_than(&provider, &at), again).await;
        assert_ne!(again, at);
    });
}

#[test]
fn a_watch_that_ends_fails_or_talks_nonsense_is_begun_again_and_misses_nothing() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let gateway = server.gateway();
    let options = tenant.by(&gateway.kubeconfig(&tenant.token())).poll_every(NO_POLL);
    let provider = KubernetesProvider::new(options.watch_for(Duration::from_millis(300))).unwrap();
    let told = |body: &str| Meddling::Answer {
        status: 200,
        headers: vec![("content-type", "application/json")],
        body: body.to_owned(),
    };
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}});
    let other =
        json!({"type": "MODIFIED", "object": {"metadata": {"name": "another", "resourceVersion": "1"}}});
    let mut meddlings = vec![
        // Ended by the server before it said anything, and after it spoke of another Secret.
        told(""),
        told(&format!("{other}\n")),
        told(&format!("{gone}\n")),
        told("<html>\n"),
        told("{\"type\":\"ADDED\"}\n"),
        told("{\"type\":\"ADD"),
        Meddling::Silence,
        Meddling::CutBefore,
    ];
    let refused = |status| Meddling::Answer {
        status,
        headers: vec![],
        body: json!({"kind": "Status", "code": status, "message": "no"}).to_string(),
    };
    meddlings.extend([refused(410), refused(429), refused(503)]);
    block_on(async {
        let mut at = provider.load().await.unwrap().revision;
        for (number, meddling) in (1..).zip(meddlings) {
            let before = gateway.seen("watch");
            gateway.meddle("watch", meddling, 1);
            gateway.cut();
            let changes = async {
                until_watched(&gateway, before + 1).await;
                edit(&tenant, number);
            };
            let (seen, ()) = futures_util::future::join(seen_other_than(&provider, &at), changes).await;
            at = seen;
        }
    });
}

#[test]
fn where_no_watch_tells_anything_the_poll_does() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let gateway = server.gateway();
    let options = tenant.by(&gateway.kubeconfig(&tenant.token())).poll_every(QUICK_POLL);
    let provider = KubernetesProvider::new(options).unwrap();
    let denied = Meddling::Answer {
        status: 403,
        headers: vec![],
        body:
            json!({"kind": "Status", "code": 403, "message": "secrets is forbidden: cannot watch resource"})
                .to_string(),
    };
    block_on(async {
        let mut at = provider.load().await.unwrap().revision;
        for (number, meddling) in (1..).zip([Meddling::Silence, denied]) {
            gateway.meddle("watch", meddling, usize::MAX);
            gateway.cut();
            edit(&tenant, number);
            at = seen_other_than(&provider, &at).await;
            assert_eq!(provider.load().await.unwrap().revision, at);
        }
    });
}

/// A watch is of the one Secret, and brings metadata alone.
#[test]
fn a_watch_is_of_the_one_secret_and_costs_one_request() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let gateway = server.gateway();
    let options = tenant.by(&gateway.kubeconfig(&tenant.token())).poll_every(NO_POLL);
    let provider = KubernetesProvider::new(options).unwrap();
    block_on(async {
        let at = provider.load().await.unwrap().revision;
        let mut at = at;
        for number in 1..=5 {
            // Waited for and given up, as the keystore does when its own timer comes first.
            for _ in 0..20 {
                let waiting = tokio::time::timeout(Duration::from_millis(1), provider.changed(&at));
                let _ = waiting.await;
            }
            let change = async { edit(&tenant, number) };
            at = futures_util::future::join(seen_other_than(&provider, &at), change).await.0;
        }
    });
    assert_eq!(gateway.seen("watch"), 1);
    // A hundred waits were given up, some of them while they read: far fewer reads than that.
    let reads = gateway.seen("get");
    assert!((6..60).contains(&reads), "{reads} reads for five changes");
    let watch = server.wait_for_audited("a watch", |line| line.user == tenant.user() && line.verb == "watch");
    assert_eq!((&*watch.name, &*watch.resource), (SECRET, "secrets"));
}
