//! Writers that meet, are late, or are not answered.

use std::process::Command;

use oneseal_providers::{Entries, ErrorKind, KubernetesOptions, KubernetesProvider, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{KubeApiserver, Meddling};
use uuid::Uuid;

use crate::place::{NO_POLL, SECRET, Tenant, change, change_of, in_time, ring};

#[test]
fn a_write_that_is_not_answered_is_unknown_and_the_change_is_found_by_loading() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server).may_init();
    let gateway = server.gateway();
    let options = tenant.by(&gateway.kubeconfig(&tenant.token())).timeout(QUICK).poll_every(NO_POLL);
    let provider = KubernetesProvider::new(options).unwrap();
    let page = |status| Meddling::Answer {
        status,
        headers: vec![("content-type", "text/html")],
        body: "<html>Bad Gateway</html>".to_owned(),
    };
    block_on(async {
        // The first write, too.
        let id = Uuid::new_v4();
        gateway.meddle("create", Meddling::CutAfter, 1);
        let unknown = in_time("a POST", provider.create(ring(1), change_of(id))).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown, "{unknown}");
        let mut record = provider.load().await.unwrap();
        assert_eq!(record.change_id, Some(id));
        for (meddling, is_written) in [
            (Meddling::CutBefore, false),
            (Meddling::CutAfter, true),
            (Meddling::Hang, false),
            (page(502), false),
            (page(200), false),
            (status(500, "etcdserver: request timed out"), false),
            (status(503, "the server is currently unable to handle the request"), false),
        ] {
            let id = Uuid::new_v4();
            gateway.meddle("update", meddling.clone(), 1);
            let write = provider.replace(&record.revision, ring(2), change_of(id));
            let unknown = in_time("a PUT", write).await.unwrap_err();
            assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown, "{meddling:?}: {unknown}");
            assert!(unknown.to_string().contains("load again"), "{unknown}");
            let now = provider.load().await.unwrap();
            assert_eq!(now.change_id == Some(id), is_written, "{meddling:?}");
            assert_eq!(now.revision != record.revision, is_written, "{meddling:?}");
            record = now;
        }
        // What a server refuses it has not done.
        for (refusal, kind, told) in [
            (status(429, "too many requests"), ErrorKind::Unavailable, "asked again after 7 s"),
            (status(409, "the object has been modified"), ErrorKind::Conflict, "somebody else"),
            (status(413, "limit is 3145728"), ErrorKind::TooLarge, "no Secret of that size"),
            (status(422, "data: Invalid value"), ErrorKind::Malformed, "does not take the Secret (422)"),
        ] {
            gateway.meddle("update", refusal, 1);
            let refused = provider.replace(&record.revision, ring(3), change()).await.unwrap_err();
            assert_eq!(refused.kind(), kind, "{refused}");
            assert!(refused.to_string().contains(told), "{refused}");
        }
        // A rehearsal is never unknown.
        gateway.meddle("update", Meddling::CutAfter, 1);
        let refused = provider.rehearse(&record.revision, ring(3), change()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert_eq!(provider.load().await.unwrap().revision, record.revision);
        let tries = gateway.seen("update");
        provider.replace(&record.revision, ring(3), change()).await.unwrap();
        assert_eq!(gateway.seen("update"), tries + 1, "nothing is tried twice");
    });
}

/// Webhooks and policies quote what they refuse, and gateways do as they like.
#[test]
fn no_refusal_repeats_a_piece_of_what_was_written_or_read() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server).may_init();
    let gateway = server.gateway();
    let options = tenant.by(&gateway.kubeconfig(&tenant.token())).timeout(QUICK).poll_every(NO_POLL);
    let provider = KubernetesProvider::new(options).unwrap();
    let (secret, encoded) = ("OIMDVN3qM4j-BAtXvdnP", "T0lNRFZOM3FNNGotQkF0WHZkblA=");
    let account = tenant.user();
    let forms = |piece: &str| {
        let rbac =
            format!("secrets is forbidden: User \"{piece}\" cannot update resource \"secrets\" in API group");
        [
            format!("admission webhook \"keys.policy.example\" denied the request: value {piece}"),
            format!("admission webhook \"{piece}.a.b\" denied the request: no"),
            format!("Secret \"ring\" is invalid: data[{piece}]: Invalid value: \"{piece}\""),
            format!("secrets \"ring\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: {piece}"),
            format!("Internal error occurred: failed calling webhook \"{piece}\": {piece}"),
            format!("secrets is forbidden: User \"{account}\" cannot update resource: {piece}"),
            rbac,
            piece.to_owned(),
        ]
    };
    block_on(async {
        let ring = || Entries::single(Entries::KEYRING, secret);
        let at = provider.create(ring(), change()).await.unwrap();
        let messages: Vec<_> = [secret, encoded].into_iter().flat_map(forms).collect();
        for (message, code) in
            messages.iter().flat_map(|message| [400, 403, 413, 422, 429, 500].map(|c| (message, c)))
        {
            let body = serde_json::json!({"kind": "Status", "message": message, "code": code, "reason": message,
                "details": {"name": message, "causes": [{"field": format!("data[{message}]"), "message": message},
                    {"field": message, "reason": message}]}});
            let quoting = Meddling::Answer {
                status: code,
                headers: vec![
                    ("content-type", "application/OIMDVN3qM4j-BAtXvdnP"),
                    ("retry-after", "OIMDVN3qM4j"),
                ],
                body: body.to_string(),
            };
            for what in ["replace", "rehearse", "create", "load"] {
                let verb = match what {
                    "load" => "get",
                    "create" => what,
                    _ => "update",
                };
                gateway.meddle(verb, quoting.clone(), 1);
                let refused = match what {
                    "replace" => provider.replace(&at, ring(), change()).await.map(drop),
                    "rehearse" => provider.rehearse(&at, ring(), change()).await,
                    "create" => {
                        gateway.meddle("get", status(404, "not found"), 1);
                        provider.create(ring(), change()).await.map(drop)
                    }
                    _ => provider.load().await.map(drop),
                };
                let refused = refused.unwrap_err();
                gateway.pass();
                let shown = format!("{refused} {refused:?}");
                for whole in [secret, encoded] {
                    let is_told = (0..=whole.len() - 8).any(|at| shown.contains(&whole[at..at + 8]));
                    assert!(!is_told, "{what} {code} {message}: {shown}");
                }
                assert!(shown.contains("data") || matches!(code, 403 | 429), "{shown}");
            }
        }
        let denied = status(403, "admission webhook \"keys.policy.example\" denied the request: no");
        gateway.meddle("update", denied, 1);
        let denied = provider.rehearse(&at, ring(), change()).await.unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
        assert!(
            denied.to_string().contains("the admission webhook keys.policy.example denied it"),
            "{denied}"
        );
    });
}

const QUICK: std::time::Duration = std::time::Duration::from_millis(700);

fn status(status: u16, message: &str) -> Meddling {
    let body = serde_json::json!({"kind": "Status", "apiVersion": "v1", "message": message, "code": status});
    let headers = vec![("content-type", "application/json"), ("retry-after", "7")];
    Meddling::Answer { status, headers, body: body.to_string() }
}

/// A leader's first act is to raise `writer.epoch`; what its predecessor had under way comes too late.
#[test]
fn a_predecessors_late_write_conflicts_once_the_epoch_is_raised() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server).may_init();
    let gateway = server.gateway();
    let old = KubernetesProvider::new(tenant.by(&gateway.kubeconfig(&tenant.token()))).unwrap();
    let new = tenant.provider();
    block_on(async {
        let at = old.create(epoch(1, "idle"), change()).await.unwrap();
        // Its GET has been answered, and its PUT is on its way.
        gateway.meddle("update", Meddling::Hold, 1);
        let before = gateway.seen("update");
        let late = old.replace(&at, epoch(1, "late"), change());
        let takeover = async {
            while gateway.seen("update") == before {
                tokio::task::yield_now().await;
            }
            let raised = new.replace(&at, epoch(2, "idle"), change()).await.unwrap();
            gateway.release();
            raised
        };
        let (late, raised) = in_time("both", futures_util::future::join(late, takeover)).await;
        let late = late.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
        // And what it begins later.
        let late = old.replace(&at, epoch(1, "later"), change()).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
        let record = new.load().await.unwrap();
        assert_eq!(record.revision, raised);
        let expected = epoch(2, "idle");
        let document = |entries: &Entries| entries.get(Entries::KEYRING).unwrap().expose().to_vec();
        assert_eq!(document(&record.entries), document(&expected));
    });
}

fn epoch(epoch: u64, what: &str) -> Entries {
    let document = format!(r#"{{"format":1,"keys":[],"writer":{{"epoch":{epoch}}},"what":"{what}"}}"#);
    Entries::single(Entries::KEYRING, document)
}

#[test]
fn writers_of_two_processes_lose_no_change() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("count", b"0")]);
    let kubeconfig = tenant.file("kubeconfig", &server.kubeconfig_for(&tenant.token()));
    let start = || {
        let mut writer = Command::new(std::env::current_exe().unwrap());
        writer.args(["--exact", "writing::counts_up", "--ignored", "--nocapture"]);
        writer.env("TEST_KUBECONFIG", &kubeconfig).env("TEST_NAMESPACE", &tenant.namespace);
        writer.spawn().unwrap()
    };
    let writers = [start(), start()];
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let expected = (2 * COUNTS).to_string();
    let record = block_on(tenant.provider().load()).unwrap();
    assert_eq!(record.entries.get("count").unwrap().expose(), expected.as_bytes());
}

const COUNTS: u32 = 12;

#[test]
#[ignore = "one of the processes of writers_of_two_processes_lose_no_change"]
fn counts_up() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let options = KubernetesOptions::secret(SECRET).in_namespace(variable("TEST_NAMESPACE"));
    let provider = KubernetesProvider::new(options.by_kubeconfig(variable("TEST_KUBECONFIG"))).unwrap();
    block_on(async {
        let mut done = 0;
        while done < COUNTS {
            let record = provider.load().await.unwrap();
            let count = std::str::from_utf8(record.entries.get("count").unwrap().expose()).unwrap();
            let count: u32 = count.parse().unwrap();
            let next = Entries::single("count", (count + 1).to_string());
            match provider.replace(&record.revision, next, change()).await {
                Ok(_) => done += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
    });
}
