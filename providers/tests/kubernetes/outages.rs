//! An API server that is down, hangs, is somebody else or has gone back in time: said as what it is, in bounded time, and
//! found again.

use std::net::TcpListener;
use std::time::Duration;

use oneseal_providers::{ErrorKind, KubernetesProvider, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{KubeApiserver, KubeApiserverOptions, Meddling};
use serde_json::json;

use crate::place::{NO_POLL, Tenant, change, change_of, in_time, ring};

const QUICK: Duration = Duration::from_millis(700);

/// One server for all of it: each start takes seconds.
#[test]
fn a_server_that_was_down_paused_or_restored_is_found_again_and_believed_by_what_it_holds() {
    let Some(mut server) = KubeApiserver::start(KubeApiserverOptions::default()) else { return };
    let (namespace, path, other) = {
        let tenant = Tenant::of(&server).may_init();
        // A kubeconfig of the other server's authority.
        let other = KubeApiserver::shared().map(|other| {
            let swapped = server.kubeconfig_for(&tenant.token());
            let [own, others] = [&server, other].map(|server| authority(&server.kubeconfig_admin()));
            tenant.by(&swapped.replace(&own, &others))
        });
        if let Some(other) = other {
            let refused = block_on(KubernetesProvider::new(other).unwrap().load()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
            assert!(refused.to_string().contains("is not believed ("), "{refused}");
        }
        let kubeconfig = tenant.server.kubeconfig_for(&tenant.token());
        (tenant.namespace.clone(), tenant.path(), kubeconfig)
    };
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    std::fs::write(&kubeconfig, other).unwrap();
    let options = oneseal_providers::KubernetesOptions::secret(crate::place::SECRET);
    let options = options.in_namespace(&namespace).by_kubeconfig(&kubeconfig);
    let provider = KubernetesProvider::new(options.clone().poll_every(NO_POLL)).unwrap();
    let hasty = KubernetesProvider::new(options.timeout(QUICK)).unwrap();
    block_on(async {
        let (first_id, second_id) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        let first = provider.create(ring(1), change_of(first_id)).await.unwrap();
        let snapshot = server.snapshot();
        let second = provider.replace(&first, ring(2), change_of(second_id)).await.unwrap();
        let version = resource_version(&server, &path);

        server.stop();
        for outcome in [
            provider.load().await.map(drop),
            provider.replace(&second, ring(3), change()).await.map(drop),
            // Nothing was sent, so it is known that nothing was written.
            provider.create(ring(3), change()).await.map(drop),
        ] {
            let down = outcome.unwrap_err();
            assert_eq!(down.kind(), ErrorKind::Unavailable, "{down}");
            assert!(down.to_string().contains(&format!("{} cannot be reached", server.url())), "{down}");
        }
        server.start_again();
        assert_eq!(provider.load().await.unwrap().revision, second);

        hasty.load().await.unwrap();
        server.pause();
        let silent = in_time("a load", hasty.load()).await.unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::Unavailable, "{silent}");
        server.resume();
        assert_eq!(hasty.load().await.unwrap().revision, second);

        // The store goes back, and gives out the same resourceVersion for other data: whoever waits sees it.
        let waiting = provider.changed(&second);
        server.restore(&snapshot);
        in_time("a wake", waiting).await;
        let restored = provider.load().await.unwrap();
        assert_eq!((restored.revision.clone(), restored.change_id), (first.clone(), Some(first_id)));
        let (mut at, mut number) = (first, 10);
        while resource_version(&server, &path) < version {
            number += 1;
            at = provider.replace(&at, ring(number), change()).await.unwrap();
        }
        assert_ne!(at, second);
        let late = provider.replace(&second, ring(3), change()).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
    });
}

/// The base64 of the authority in a kubeconfig.
fn authority(kubeconfig: &str) -> String {
    let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data: "));
    line.unwrap().to_owned()
}

fn resource_version(server: &KubeApiserver, path: &str) -> u64 {
    let (_, secret) = server.request("GET", path, None);
    secret["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[test]
fn whatever_answers_in_the_servers_place_is_unavailable_and_told() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let gateway = server.gateway();
    let options = tenant.by(&gateway.kubeconfig(&tenant.token())).timeout(QUICK);
    let provider = KubernetesProvider::new(options).unwrap();
    let answer = |status, media_type, body: &str| Meddling::Answer {
        status,
        headers: vec![
            ("content-type", media_type),
            ("retry-after", "7"),
            ("location", "https://elsewhere.example/"),
        ],
        body: body.to_owned(),
    };
    let status = |code: u16, message: &str| {
        answer(
            code,
            "application/json",
            &json!({"kind": "Status", "message": message, "code": code}).to_string(),
        )
    };
    let list = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {}, "items": []}).to_string();
    block_on(async {
        let at = provider.load().await.unwrap().revision;
        for (meddling, told) in [
            (status(429, "slow down"), "asked too much (429, to be asked again after 7 s)"),
            (
                status(500, "etcdserver: leader changed"),
                "answers 500, to be asked again after 7 s: etcdserver: leader changed",
            ),
            (status(503, "apiserver is shutting down"), "answers 503"),
            (status(504, "timed out"), "answers 504"),
            (
                answer(503, "text/html", "<html>canary</html>"),
                "(503, text/html, 19 bytes) is not the API server",
            ),
            (
                answer(404, "text/html", "<html>canary</html>"),
                "(404, text/html, 19 bytes) is not the API server",
            ),
            (answer(200, "text/html", "<html>canary</html>"), "it is no Secret in JSON"),
            (answer(200, "application/json", &list), "another object"),
            (answer(200, "application/json", ""), "it is no Secret in JSON"),
            (answer(302, "text/plain", ""), "(302, text/plain, 0 bytes) is not the API server"),
            (answer(401, "text/html", "log in"), "(401, text/html, 6 bytes) is not the API server"),
            (answer(200, "application/json", &"x".repeat(9 << 20)), "did not finish its answer"),
            (Meddling::CutBefore, "did not finish its answer"),
            (Meddling::CutAfter, "did not finish its answer"),
            (Meddling::Hang, "did not answer within 0.7 s"),
            (Meddling::Silence, "did not answer within 0.7 s"),
        ] {
            // A 401 is asked once more.
            gateway.meddle("get", meddling.clone(), 2);
            let refused = in_time("a load", provider.load()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{meddling:?}: {refused}");
            assert!(refused.to_string().contains(told), "{told}: {refused}");
            assert!(!format!("{refused} {refused:?}").contains("canary"), "{refused:?}");
            gateway.pass();
            assert_eq!(provider.load().await.unwrap().revision, at);
        }
    });
}

/// A port that takes connections and says nothing, as a network that swallows packets looks from here.
#[test]
fn a_server_that_accepts_and_never_speaks_is_given_up_in_time() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = server.kubeconfig_at(listener.local_addr().unwrap(), "token");
    let provider = KubernetesProvider::new(tenant.by(&kubeconfig).timeout(QUICK)).unwrap();
    block_on(async {
        for outcome in [provider.load().await.map(drop), provider.create(ring(1), change()).await.map(drop)] {
            let silent = outcome.unwrap_err();
            assert_eq!(silent.kind(), ErrorKind::Unavailable, "{silent}");
            assert!(silent.to_string().contains("did not answer within"), "{silent}");
        }
    });
}
