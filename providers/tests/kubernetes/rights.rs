//! `deploy/kubernetes/rbac.yaml` is what is asked for: no more, and no less.

use std::collections::BTreeSet;

use oneseal_providers::{ErrorKind, KubernetesProvider, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::KubeApiserver;
use serde_json::json;

use crate::place::{NO_POLL, QUICK_POLL, RIGHTS, SECRET, Tenant, change, in_time, ring};

/// The verbs that the rules of `rbac.yaml` name, in order.
fn documented() -> Vec<Vec<&'static str>> {
    let rules = RIGHTS.lines().filter_map(|line| line.trim().strip_prefix("verbs: ["));
    rules.map(|verbs| verbs.trim_end_matches(']').split(", ").collect()).collect()
}

#[test]
fn the_audit_log_shows_exactly_the_documented_verbs_on_the_one_secret() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server).may_init();
    let provider = KubernetesProvider::new(tenant.options()).unwrap();
    block_on(async {
        provider.rehearse_create(ring(1), change()).await.unwrap();
        let first = provider.create(ring(1), change()).await.unwrap();
        provider.rehearse(&first, ring(2), change()).await.unwrap();
        let write = async { provider.replace(&first, ring(2), change()).await.unwrap() };
        let (second, ()) =
            in_time("a wake", futures_util::future::join(write, provider.changed(&first))).await;
        assert_eq!(provider.load().await.unwrap().revision, second);
    });
    server.wait_for_audited("a watch", |line| line.user == tenant.user() && line.verb == "watch");
    let lines: Vec<_> = server.audit().into_iter().filter(|line| line.user == tenant.user()).collect();
    let asked = |name: &str| -> BTreeSet<String> {
        let of_it = lines.iter().filter(|line| line.name == name && line.resource == "secrets");
        of_it.map(|line| line.verb.clone()).collect()
    };
    let [serving, init] = &documented()[..] else { panic!("two rules") };
    let owned = |verbs: &[&str]| verbs.iter().map(|verb| (*verb).to_owned()).collect::<BTreeSet<_>>();
    // A POST names what it makes in its body; the audit log has it all the same, or not, by version.
    let named = &asked(SECRET) - &owned(init);
    assert_eq!(named, owned(serving));
    assert_eq!(&(&asked(SECRET) | &asked("")) - &owned(serving), owned(init));
    for line in &lines {
        assert!(matches!(line.code, 200 | 201 | 404), "{line:?}");
        assert_eq!(line.namespace, tenant.namespace, "{line:?}");
    }
    assert!(lines.iter().all(|line| line.verb != "list"));
}

#[test]
fn who_lacks_a_right_is_told_which_and_the_role_that_would_give_it() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let by = |account: &str, verbs: &[&str]| {
        server.service_account(&tenant.namespace, account);
        if !verbs.is_empty() {
            let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": verbs}]);
            server.grant(&tenant.namespace, account, &rules);
        }
        let token = server.token(&tenant.namespace, account, &[], 600, None);
        KubernetesProvider::new(tenant.by(&server.kubeconfig_for(&token)).poll_every(QUICK_POLL)).unwrap()
    };
    let (stranger, reader) = (by("stranger", &[]), by("reader", &["get"]));
    block_on(async {
        let at = reader.load().await.unwrap().revision;
        let denied = [
            ("get", "stranger", stranger.load().await.map(drop)),
            ("get", "stranger", stranger.create(ring(1), change()).await.map(drop)),
            ("update", "reader", reader.replace(&at, ring(2), change()).await.map(drop)),
            ("update", "reader", reader.rehearse(&at, ring(2), change()).await),
        ];
        for (verb, account, outcome) in denied {
            let denied = outcome.unwrap_err();
            assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
            let expected = format!(
                "{}/{SECRET}: system:serviceaccount:{}:{account} may not {verb} it; a Role in that namespace with the rule \
                 {{apiGroups: [\"\"], resources: [secrets], resourceNames: [{SECRET}], verbs: [{verb}]}}",
                tenant.namespace, tenant.namespace
            );
            assert!(denied.to_string().starts_with(&expected), "{denied}");
        }
        // It may not watch, and sees by asking.
        tenant.edit(|secret| secret["data"]["keyring.json"] = json!("W10="));
        in_time("a wake", reader.changed(&at)).await;
        tenant.delete();
        let create = reader.create(ring(1), change()).await.map(drop);
        for outcome in [create, reader.rehearse_create(ring(1), change()).await] {
            let denied = outcome.unwrap_err();
            assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
            let (told, namespace) = (denied.to_string(), &tenant.namespace);
            let empty = format!("`kubectl -n {namespace} create secret generic {SECRET}`");
            let role = told.find("{apiGroups: [\"\"], resources: [secrets], verbs: [create]}");
            assert!(told.find(&empty).is_some_and(|at| role.is_some_and(|role| at < role)), "{told}");
        }
    });
}

/// By the Role of `rbac.yaml` alone: whoever may make Secrets makes it empty.
#[test]
fn a_deleted_secret_that_is_made_empty_is_filled_without_the_right_to_create() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    let provider = KubernetesProvider::new(tenant.options()).unwrap();
    block_on(async {
        assert_eq!(provider.rehearse_create(ring(1), change()).await.unwrap_err().kind(), ErrorKind::Denied);
        tenant.make("Opaque", &[]);
        provider.rehearse_create(ring(1), change()).await.unwrap();
        assert_eq!(
            provider.load().await.unwrap_err().kind(),
            ErrorKind::NotFound,
            "a rehearsal stores nothing"
        );
        let at = provider.create(ring(1), change()).await.unwrap();
        assert_eq!(provider.load().await.unwrap().revision, at);
    });
}

/// What admission forbids is no missing right.
#[test]
fn what_the_cluster_forbids_for_another_reason_is_told_as_that() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    let admin = tenant.by(&server.kubeconfig_admin()).poll_every(NO_POLL);
    let namespace = format!("/api/v1/namespaces/{}", tenant.namespace);
    // No controller empties it, so that it stays as it is.
    assert_eq!(server.request("DELETE", &namespace, None).0, 200);
    let refused = block_on(KubernetesProvider::new(admin).unwrap().create(ring(1), change())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert!(
        refused.to_string().contains("(403): the namespace is being terminated (Forbidden)"),
        "{refused}"
    );
}
