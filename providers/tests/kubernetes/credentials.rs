//! Whose credentials, of which cluster: kubeconfigs, a pod's service account, and tokens that change.

use std::path::Path;
use std::process::Command;

use oneseal_providers::{ErrorKind, KubernetesOptions, KubernetesProvider, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{KubeApiserver, Meddling};
use serde_json::json;

use crate::common;
use crate::place::{ACCOUNT, NO_POLL, SECRET, Tenant};

#[test]
fn a_token_that_is_void_is_denied_and_one_that_takes_its_place_is_used_at_once() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let old = tenant.token();
    // Another account of the same name: every token of the old one is void.
    let account = format!("/api/v1/namespaces/{}/serviceaccounts/{ACCOUNT}", tenant.namespace);
    assert_eq!(server.request("DELETE", &account, None).0, 200);
    server.service_account(&tenant.namespace, ACCOUNT);
    let gateway = server.gateway();
    let token = tenant.file("token", &old);
    let by_file = format!("tokenFile: '{}'", token.display());
    let kubeconfig = gateway.kubeconfig("TOKEN").replace("token: 'TOKEN'", &by_file);
    let provider = KubernetesProvider::new(tenant.by(&kubeconfig).poll_every(NO_POLL)).unwrap();
    block_on(async {
        for text in [&*old, "not.a.token"] {
            tenant.file("token", text);
            let denied = provider.load().await.unwrap_err();
            assert_eq!(denied.kind(), ErrorKind::Unauthenticated, "{denied}");
            assert!(denied.to_string().contains("(401): the token has expired or was revoked"), "{denied}");
            assert!(!format!("{denied} {denied:?}").contains(text), "{denied}");
        }
        tenant.file("token", &tenant.token());
        let at = provider.load().await.unwrap().revision;
        // kubelet has put another one there, and the one in use comes to its end: nobody notices.
        server.service_account(&tenant.namespace, "renewed");
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"]}]);
        server.grant(&tenant.namespace, "renewed", &rules);
        tenant.file("token", &server.token(&tenant.namespace, "renewed", &[], 600, None));
        let ended = json!({"kind": "Status", "code": 401, "message": "Unauthorized"}).to_string();
        let ended = Meddling::Answer { status: 401, headers: vec![], body: ended };
        gateway.meddle("get", ended, 1);
        let asked = gateway.seen("get");
        assert_eq!(provider.load().await.unwrap().revision, at);
        assert_eq!(gateway.seen("get"), asked + 2);
        let user = format!("system:serviceaccount:{}:renewed", tenant.namespace);
        server.wait_for_audited("the new token", |line| line.user == user && line.code == 200);
        // As kube does, what was read is used on while the file is away.
        std::fs::remove_file(&token).unwrap();
        provider.load().await.unwrap();
    });
    let missing = KubernetesProvider::new(tenant.by(&kubeconfig)).unwrap();
    let denied = block_on(missing.load()).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Unauthenticated, "{denied}");
    assert!(
        denied.to_string().contains(&format!("the token file {} cannot be read", token.display())),
        "{denied}"
    );
}

#[test]
fn a_kubeconfig_of_several_contexts_is_followed_by_name_and_its_namespace_taken() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let context = |name: &str, cluster: &str, more: &str| {
        format!("- name: {name}\n  context: {{cluster: {cluster}, user: test{more}}}\n")
    };
    let contexts = [
        context("admin@elsewhere", "elsewhere", ""),
        context("arn:aws:eks:eu-1:1:cluster/here", "test", &format!(", namespace: {}", tenant.namespace)),
        context("proxied", "proxied", ""),
        context("plain", "plain", ""),
        context("blind", "blind", ""),
        context("nowhere", "none", ""),
    ]
    .concat();
    let kubeconfig = server.kubeconfig_for(&tenant.token());
    let kubeconfig = kubeconfig.replace("contexts:\n", &format!("contexts:\n{contexts}"));
    let kubeconfig = kubeconfig.replace(
        "clusters:\n",
        "clusters:
- name: elsewhere
  cluster: {server: 'https://127.0.0.1:1'}
- name: proxied
  cluster: {server: 'https://127.0.0.1:1', proxy-url: 'http://proxy.example'}
- name: plain
  cluster: {server: 'http://cluster.example'}
- name: blind
  cluster: {server: 'https://cluster.example', insecure-skip-tls-verify: true}
",
    );
    let current = kubeconfig.replace("current-context: test", "current-context: admin@elsewhere");
    let none = kubeconfig.replace("current-context: test\n", "");
    let file = |name: &str, text: &str| tenant.file(name, text);
    let (current, none) = (file("current", &current), file("none", &none));
    let options = |path: &Path| KubernetesOptions::secret(SECRET).by_kubeconfig(path);
    let here =
        KubernetesProvider::new(options(&current).by_context("arn:aws:eks:eu-1:1:cluster/here")).unwrap();
    assert_eq!(here.describe().location, SECRET, "the namespace is not known yet");
    block_on(here.load()).unwrap();
    assert_eq!(here.describe().location, format!("{}/{SECRET}", tenant.namespace));
    let elsewhere = block_on(KubernetesProvider::new(options(&current)).unwrap().load()).unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::Unavailable, "{elsewhere}");
    assert!(elsewhere.to_string().contains("https://127.0.0.1:1 cannot be reached"), "{elsewhere}");
    let broken = file("broken", "users: [{name: a, user: {token: canary");
    for (options, told) in [
        (options(&current).by_context("typo"), "has no context \"typo\"; it has: admin@elsewhere, arn:aws"),
        (options(&none), "has no current context; name one of its contexts: admin@elsewhere"),
        (options(&current).by_context("nowhere"), "is of a cluster \"none\" that it does not describe"),
        (options(&current).by_context("proxied"), "through a proxy (proxy-url)"),
        (options(&current).by_context("plain"), "http://cluster.example is spoken to without TLS"),
        (options(&current).by_context("blind"), "insecure-skip-tls-verify"),
        (options(&broken), "is no YAML of a kubeconfig"),
        (
            options(Path::new("/nonexistent/kubeconfig")),
            "the kubeconfig cannot be used: it cannot be read at /nonexistent/kubeconfig: No such file",
        ),
    ] {
        let refused = block_on(KubernetesProvider::new(options).unwrap().load()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
        assert!(refused.to_string().contains(told), "{told}: {refused}");
        assert!(!format!("{refused} {refused:?}").contains("canary"), "{refused}");
    }
}

/// A credential plugin may print a token before it fails.
#[test]
fn a_credential_plugin_brings_the_token_and_what_it_prints_is_not_repeated() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let plugin = |script: &str| {
        let script = script.replace('"', "\\\"");
        let user = format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, args: ['-c', \"{script}\"]}}"
        );
        tenant.by(&server.kubeconfig_for("TOKEN").replace("token: TOKEN", &user))
    };
    let credential = format!(
        r#"echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{{"token":"{}"}}}}'"#,
        tenant.token()
    );
    block_on(KubernetesProvider::new(plugin(&credential)).unwrap().load()).unwrap();
    for (script, told) in [
        (
            "echo canary; echo canary >&2; exit 3",
            "the credential plugin of the kubeconfig failed (exit status: 3)",
        ),
        ("echo canary", "gives no credentials that can be used"),
    ] {
        let refused = block_on(KubernetesProvider::new(plugin(script)).unwrap().load()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unauthenticated, "{refused}");
        assert!(refused.to_string().contains(told), "{refused}");
        let shown = format!("{refused} {refused:?} {refused:#?}");
        assert!(!shown.contains("canary") && !shown.contains("99, 97, 110, 97"), "{shown}");
    }
}

#[test]
fn in_a_pod_the_mounted_service_account_is_used_and_without_one_the_cure_is_told() {
    // Neither a kubeconfig nor a pod, and a pod without the token.
    assert_eq!(in_a_pod(&[("TEST_EXPECT", "KUBERNETES_SERVICE_HOST is not set")]), "denied");
    let pod = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")];
    let expected = [("TEST_EXPECT", "automountServiceAccountToken: true")];
    assert_eq!(in_a_pod(&[&pod[..], &expected].concat()), "denied");

    let Some(server) = KubeApiserver::shared() else { return };
    if !common::can_mount() {
        return common::skipped(
            "in_a_pod_the_mounted_service_account_is_used",
            "nothing can be mounted here",
        );
    }
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[("keyring.json", b"{}")]);
    let port = server.address().port().to_string();
    let (token, authority) = (tenant.file("token", &tenant.token()), tenant.file("ca.crt", server.ca_pem()));
    let told = common::Binary::copy().run_with_own_mounts(
        "credentials::loads_in_a_pod",
        &[
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
            ("KUBERNETES_SERVICE_PORT", &port),
            ("HOME", "/nonexistent"),
            ("TEST_TOKEN", token.to_str().unwrap()),
            ("TEST_AUTHORITY", authority.to_str().unwrap()),
            ("TEST_NAMESPACE", &tenant.namespace),
        ],
    );
    assert!(told.contains(&format!("loaded {}/{SECRET}", tenant.namespace)), "{told}");
}

/// Runs [`asks_in_a_pod`] with this environment and no home.
fn in_a_pod(variables: &[(&str, &str)]) -> String {
    let mut asks = Command::new(std::env::current_exe().unwrap());
    asks.args(["--exact", "credentials::asks_in_a_pod", "--ignored", "--nocapture"]);
    asks.env_remove("KUBECONFIG").env("HOME", "/nonexistent").envs(variables.iter().copied());
    let output = asks.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    "denied".to_owned()
}

#[test]
#[ignore = "run by in_a_pod_the_mounted_service_account_is_used_and_without_one_the_cure_is_told"]
fn asks_in_a_pod() {
    let refused =
        block_on(KubernetesProvider::new(KubernetesOptions::secret(SECRET)).unwrap().load()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
    assert!(refused.to_string().contains(&std::env::var("TEST_EXPECT").unwrap()), "{refused}");
}

#[test]
#[ignore = "run by in_a_pod_the_mounted_service_account_is_used_and_without_one_the_cure_is_told"]
fn loads_in_a_pod() {
    let home = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
    let variable = |name: &str| std::env::var(name).unwrap();
    let (token, authority) = (variable("TEST_TOKEN"), variable("TEST_AUTHORITY"));
    let (token, authority) = (std::fs::read(token).unwrap(), std::fs::read(authority).unwrap());
    common::mount(&["-t", "tmpfs", "tmpfs"], Path::new("/var/run"));
    std::fs::create_dir_all(home).unwrap();
    std::fs::write(home.join("token"), token).unwrap();
    std::fs::write(home.join("ca.crt"), authority).unwrap();
    std::fs::write(home.join("namespace"), variable("TEST_NAMESPACE")).unwrap();
    let provider = KubernetesProvider::new(KubernetesOptions::secret(SECRET)).unwrap();
    block_on(provider.load()).unwrap();
    println!("loaded {}", provider.describe().location);
}
