//! The Kubernetes API server of the parts is a real one, and does what its methods say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use oneseal_testing::parts::{KubeApiserver, KubeApiserverOptions, Meddling, Proxy};
use serde_json::{Value, json};

/// `TEST_KUBERNETES` asks for another version than the usual one; KUBEBUILDER_ASSETS brings its own.
#[test]
fn the_version_is_the_one_asked_for_and_the_store_is_ready() {
    let Some(server) = KubeApiserver::shared() else { return };
    let (status, version) = server.request("GET", "/version", None);
    let found = version["gitVersion"].as_str().unwrap().to_owned();
    assert_eq!(status, 200);
    match std::env::var("TEST_KUBERNETES") {
        Ok(wanted) => assert_eq!(found, format!("v{wanted}")),
        Err(_) if std::env::var_os("KUBEBUILDER_ASSETS").is_some() => {
            assert!(found.starts_with("v1."), "{found}")
        }
        Err(_) => assert_eq!(found, "v1.36.3"),
    }
    assert_eq!(server.request("GET", "/readyz/etcd", None), (200, json!("ok")));
    let namespaces = [server.create_namespace(), server.create_namespace()];
    assert_ne!(namespaces[0], namespaces[1]);
}

#[test]
fn who_reads_a_secret_needs_the_right_and_stands_in_the_audit_log() {
    let Some(server) = KubeApiserver::shared() else { return };
    let namespace = server.create_namespace();
    for account in ["reader", "stranger"] {
        server.service_account(&namespace, account);
    }
    let made = server.create_secret(&namespace, "ring", "Opaque", &[("keyring.json", b"{}"), ("empty", b"")]);
    let rules =
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["ring"], "verbs": ["get"]}]);
    server.grant(&namespace, "reader", &rules);
    let [reader, stranger] =
        ["reader", "stranger"].map(|name| server.token(&namespace, name, &[], 600, None));
    let path = format!("/api/v1/namespaces/{namespace}/secrets/ring");

    let (status, secret) = server.request_as(Some(&reader), "GET", &path, None);
    assert_eq!((status, &secret["data"]), (200, &json!({"keyring.json": "e30=", "empty": ""})));
    assert_eq!(secret["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let all = path.strip_suffix("/ring").unwrap();
    for (token, method, path, expected) in [
        (Some(&reader), "DELETE", &*path, 403),
        (Some(&reader), "GET", all, 403),
        (Some(&stranger), "GET", &path, 403),
        (None, "GET", &path, 403),
    ] {
        let (status, answer) = server.request_as(token.map(String::as_str), method, path, None);
        assert_eq!((status, &answer["reason"]), (expected, &json!("Forbidden")), "{method} {path}");
    }
    assert_eq!(server.request_as(Some("no.such.token"), "GET", &path, None).0, 401);

    let user = |name: &str| format!("system:serviceaccount:{namespace}:{name}");
    let asked = |by: &str| -> Vec<(String, String, String, u16)> {
        let lines = server.audit().into_iter().filter(|line| line.user == by && line.namespace == namespace);
        lines.map(|line| (line.verb, line.resource, line.name, line.code)).collect()
    };
    let line = |verb: &str, name: &str, code| (verb.to_owned(), "secrets".to_owned(), name.to_owned(), code);
    let expected = [line("get", "ring", 200), line("delete", "ring", 403), line("list", "", 403)];
    assert_eq!(asked(&user("reader")), expected);
    assert_eq!(asked(&user("stranger")), [line("get", "ring", 403)]);
    let token = server.wait_for_audited("a token of the reader's", |line| {
        line.namespace == namespace && line.resource == "serviceaccounts/token" && line.name == "reader"
    });
    assert_eq!((&*token.verb, &*token.user, token.code), ("create", "admin", 201));
}

#[test]
fn a_token_names_its_audience_and_its_pod_and_the_server_vouches_for_them() {
    let Some(server) = KubeApiserver::shared() else { return };
    let namespace = server.create_namespace();
    server.service_account(&namespace, "worker");
    let pod = server.create_pod(&namespace, "worker-0", "worker");
    let token = server.token(&namespace, "worker", &["https://oidc.example"], 900, Some(&pod));
    let review = |audience: &str| {
        let spec = json!({"spec": {"token": token, "audiences": [audience]}});
        let (_, answer) = server.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", Some(&spec));
        answer["status"].clone()
    };
    let found = review("https://oidc.example");
    assert_eq!(found["authenticated"], json!(true), "{found}");
    assert_eq!(found["audiences"], json!(["https://oidc.example"]));
    assert_eq!(found["user"]["username"], json!(format!("system:serviceaccount:{namespace}:worker")));
    assert_eq!(found["user"]["extra"]["authentication.kubernetes.io/pod-uid"], json!([pod.uid]));
    assert_ne!(review("https://other.example")["authenticated"], json!(true));
    // Anybody else's API server, this one included, takes no token that is not for it.
    assert_eq!(server.request_as(Some(&token), "GET", "/version", None).0, 401);
    let (_, discovery) = server.request("GET", "/.well-known/openid-configuration", None);
    assert_eq!(discovery["issuer"], json!(server.url()));
    assert_eq!(discovery["jwks_uri"], json!(format!("{}/openid/v1/jwks", server.url())));
}

#[test]
fn a_restored_store_gives_out_the_same_resource_versions_again() {
    let Some(mut server) = KubeApiserver::start(KubeApiserverOptions::default()) else { return };
    let namespace = server.create_namespace();
    let path = format!("/api/v1/namespaces/{namespace}/secrets/ring");
    let made = server.create_secret(&namespace, "ring", "Opaque", &[("word", b"first")]);
    let snapshot = server.snapshot();
    // A write that changes nothing would be none.
    let write = |server: &KubeApiserver, number: u32| {
        let secret = json!({"metadata": {"name": "ring"}, "stringData": {"number": number.to_string()}});
        let (status, secret) = server.request("PUT", &path, Some(&secret));
        assert_eq!(status, 200, "{secret}");
        revision(&secret)
    };
    // More than a server writes by itself when it starts.
    let written = (1..=60).map(|number| write(&server, number)).max().unwrap();
    assert!(written >= revision(&made) + 60, "{written}");

    server.restore(&snapshot);
    let (_, found) = server.request("GET", &path, None);
    assert_eq!(found["data"], json!({"word": "Zmlyc3Q="}));
    assert_eq!(revision(&found), revision(&made));
    let after = write(&server, 0);
    assert!(after < written, "{after} is not below {written}");
    // A second time, from the same copy.
    server.restore(&snapshot);
    assert_eq!(revision(&server.request("GET", &path, None).1), revision(&made));
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[test]
fn two_servers_know_nothing_of_each_other() {
    let Some(one) = KubeApiserver::shared() else { return };
    let Some(other) = KubeApiserver::start(KubeApiserverOptions::default()) else { return };
    let namespace = one.create_namespace();
    one.service_account(&namespace, "worker");
    let token = one.token(&namespace, "worker", &[], 600, None);
    assert_eq!(one.request_as(Some(&token), "GET", "/version", None).0, 200);
    assert_eq!(other.request_as(Some(&token), "GET", "/version", None).0, 401);
    assert_ne!((one.url(), one.ca_pem()), (other.url(), other.ca_pem()));
    one.create_secret(&namespace, "ring", "Opaque", &[]);
    let path = format!("/api/v1/namespaces/{namespace}/secrets/ring");
    assert_eq!((one.request("GET", &path, None).0, other.request("GET", &path, None).0), (200, 404));
    assert!(
        other.audit().iter().all(|line| line.user != "admin" || line.verb != "create"),
        "{:?}",
        other.audit()
    );
}

#[test]
fn a_server_that_was_stopped_or_killed_has_its_objects_port_and_tokens_again() {
    let Some(mut server) = KubeApiserver::start(KubeApiserverOptions::default()) else { return };
    let (address, namespace) = (server.address(), server.create_namespace());
    server.service_account(&namespace, "worker");
    let token = server.token(&namespace, "worker", &[], 600, None);
    let stops: [fn(&mut KubeApiserver); 2] = [KubeApiserver::stop, KubeApiserver::kill];
    for (number, stop) in stops.into_iter().enumerate() {
        let name = format!("ring{number}");
        server.create_secret(&namespace, &name, "Opaque", &[("word", b"kept")]);
        stop(&mut server);
        TcpStream::connect(address).unwrap_err();
        server.try_request("GET", "/readyz", None).unwrap_err();
        server.start_again();
        assert_eq!(server.address(), address);
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        assert_eq!(server.request("GET", &path, None).1["data"], json!({"word": "a2VwdA=="}));
        assert_eq!(server.request_as(Some(&token), "GET", "/version", None).0, 200);
    }
}

#[test]
fn a_paused_server_answers_nobody_until_it_is_resumed() {
    let Some(server) = KubeApiserver::start(KubeApiserverOptions::default()) else { return };
    server.pause();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.read_exact(&mut [0]).unwrap_err();
    server.resume();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    // It speaks TLS alone, and says so.
    assert_eq!(&answer, b"HTTP/1.0 400");
}

#[test]
fn options_set_who_is_believed_and_take_the_place_of_usual_flags() {
    let config = "apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
anonymous:
  enabled: false
";
    let options = KubeApiserverOptions {
        authentication_config: Some(config.to_owned()),
        flags: vec!["--service-account-issuer=https://cluster.example".to_owned()],
    };
    let (Some(server), Some(usual)) = (KubeApiserver::start(options), KubeApiserver::shared()) else {
        return;
    };
    assert_eq!(usual.request_as(None, "GET", "/version", None).0, 200);
    assert_eq!(server.request_as(None, "GET", "/version", None).0, 401);
    let (_, discovery) = server.request("GET", "/.well-known/openid-configuration", None);
    assert_eq!(discovery["issuer"], json!("https://cluster.example"));
}

#[test]
fn manifests_are_applied_whole_or_as_if_and_judged_strictly() {
    let Some(server) = KubeApiserver::shared() else { return };
    let namespace = server.create_namespace();
    let yaml = MANIFEST.replace("NAMESPACE", &namespace);
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/issuer");
    let kinds = |yaml: &str, dry_run| -> Vec<Value> {
        server.apply(yaml, dry_run).into_iter().map(|applied| applied.object["kind"].clone()).collect()
    };
    let all = [json!("ServiceAccount"), json!("ClusterRole"), json!("Deployment")];
    assert_eq!(kinds(&yaml, true), all);
    assert_eq!(server.request("GET", &path, None).0, 404);
    assert_eq!(kinds(&yaml, false), all);
    assert_eq!(kinds(&yaml, false), all, "a second time is the same");
    let (_, deployment) = server.request("GET", &path, None);
    assert_eq!(deployment["spec"]["template"]["spec"]["enableServiceLinks"], json!(false));
    let role = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{namespace}");
    assert_eq!(server.request("GET", &role, None).0, 200);

    for (wrong, cause) in [
        (
            yaml.replace("enableServiceLinks", "enableServiceLink"),
            "spec.template.spec.enableServiceLink: field not declared in schema",
        ),
        (yaml.replace("replicas: 3", "replicas: three"), "replicas"),
        (yaml.replace("replicas: 3", "replicas: 3\n  replicas: 2"), "replicas"),
        (yaml.replace("image: x", "image: ''"), "image: Required value"),
        (yaml.replace("kind: Deployment", "kind: Deploymen"), "the server has no such kind in apps/v1"),
        (yaml.replace("apps/v1", "apps/v7"), "the server has no such kind in apps/v7"),
        (yaml.replace("name: issuer", "nam: issuer"), "it has no /metadata/name"),
        ("kind: [".to_owned(), "no YAML"),
    ] {
        let refusal = server.try_apply(&wrong, true).unwrap_err();
        assert!(refusal.contains(cause), "{cause}: {refusal}");
    }
    let old = yaml.replace("enableServiceLinks: false", "nodeSelector: {beta.kubernetes.io/os: linux}");
    let warnings = server.apply(&old, true).pop().unwrap().warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("beta.kubernetes.io/os]: deprecated")),
        "{warnings:?}"
    );
}

const MANIFEST: &str = "# Comments alone are no document.
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: issuer, namespace: NAMESPACE}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAMESPACE}
rules:
- apiGroups: ['']
  resources: [secrets]
  verbs: [get]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: issuer
  namespace: NAMESPACE
spec:
  replicas: 3
  selector: {matchLabels: {app: issuer}}
  template:
    metadata: {labels: {app: issuer}}
    spec:
      enableServiceLinks: false
      containers:
      - {name: issuer, image: x}
";

#[test]
fn a_gateway_passes_on_answers_cuts_and_holds_by_verb_and_counts() {
    let Some(server) = KubeApiserver::shared() else { return };
    let (namespace, gateway) = (server.create_namespace(), server.gateway());
    server.service_account(&namespace, "writer");
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get"]}]);
    server.grant(&namespace, "writer", &rules);
    let token = server.token(&namespace, "writer", &[], 600, None);
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    let ask = |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.split(' ').nth(1).map(|status| status.parse::<u16>().unwrap())
    };
    let made = |name: &str| server.request("GET", &format!("{path}/{name}"), None).0 == 200;
    let secret = |name: &str| json!({"metadata": {"name": name}}).to_string();
    assert_eq!(ask("GET", &format!("{path}/none"), ""), Some(404));
    let answer = Meddling::Answer { status: 429, headers: vec![("retry-after", "7")], body: String::new() };
    gateway.meddle("get", answer, 1);
    let asked = ["none", "none"].map(|name| ask("GET", &format!("{path}/{name}"), ""));
    assert_eq!(asked, [Some(429), Some(404)]);
    for (meddling, is_made) in [(Meddling::CutBefore, false), (Meddling::CutAfter, true)] {
        gateway.meddle("create", meddling, 1);
        let name = format!("made-{is_made}");
        assert_eq!((ask("POST", &path, &secret(&name)), made(&name)), (None, is_made));
    }
    gateway.meddle("create", Meddling::Hold, 1);
    std::thread::scope(|scope| {
        let held = scope.spawn(|| ask("POST", &path, &secret("held")));
        while gateway.seen("create") < 3 {
            std::thread::yield_now();
        }
        assert!(!made("held"));
        gateway.release();
        assert_eq!(held.join().unwrap(), Some(201));
    });
    assert_eq!((gateway.seen("get"), gateway.seen("create"), gateway.seen("watch")), (3, 3, 0));
}

#[test]
fn a_kubeconfig_leads_to_the_server_or_to_a_proxy_before_it() {
    let Some(server) = KubeApiserver::shared() else { return };
    let (namespace, proxy) = (server.create_namespace(), Proxy::start(server.address()));
    server.service_account(&namespace, "reader");
    let token = server.token(&namespace, "reader", &[], 600, None);
    let by_proxy = server.kubeconfig_at(proxy.address(), &token);
    let read = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let config = read(&by_proxy);
    assert_eq!(config["clusters"][0]["cluster"]["server"], json!(format!("https://{}", proxy.address())));
    assert_eq!(config["users"][0]["user"], json!({"token": token}));
    let config = read(&server.kubeconfig_admin());
    assert_eq!(config["clusters"][0]["cluster"]["server"], json!(server.url()));

    let admin = server.kubeconfig_admin();
    let account = format!("system:serviceaccount:{namespace}:reader");
    for (config, user) in
        [(&admin, "admin"), (&by_proxy, &account), (&server.kubeconfig_for(&token), &account)]
    {
        // What it says is held against a reader of other people's where there is one.
        let Some(found) =
            kubectl(config, &["auth", "whoami", "--output=jsonpath={.status.userInfo.username}"])
        else {
            return;
        };
        assert_eq!(found, *user);
    }
    assert!(proxy.accepted() > 0);
}

/// What kubectl prints. `None` where it is not installed.
fn kubectl(config: &str, words: &[&str]) -> Option<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(file.path()).arg("--cache-dir").arg(cache.path()).args(words);
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}
