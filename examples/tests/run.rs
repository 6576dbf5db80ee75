//! The examples, run as their comments say: a key is made, the controller serves, mints, and is verified.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use oneseal::keystore::{InitRequest, init};
use oneseal::{FileProvider, IssuerUrl, SystemClock};
use oneseal_testing::parts::{KubeApiserver, Pod};
use serde_json::{Value, json};

/// A running example, killed at the end.
struct Example {
    child: Child,
    port: u16,
}

impl Drop for Example {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Makes a key for a free port, as `oneseal keys init` does, and starts the example on it.
async fn start(program: &str, place: &tempfile::TempDir, more: &[&str]) -> Example {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let key: PathBuf = place.path().join("keyring.json");
    let provider = FileProvider::new(&key).assume_durable(true);
    init(&provider, InitRequest::new(IssuerUrl::parse(&url, "test").unwrap()), &SystemClock).await.unwrap();
    let mut child = Command::new(program).arg(&key).arg(url).args(more).spawn().unwrap();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended");
        std::thread::yield_now();
    }
    Example { child, port }
}

impl Example {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What the token endpoint answers to this proof of a pod.
    fn exchange(&self, proof: &str) -> String {
        let of = "urn:ietf:params:oauth";
        let form = format!(
            "grant_type={of}:grant-type:token-exchange&subject_token={proof}\
             &subject_token_type={of}:token-type:jwt&audience=sts.amazonaws.com"
        );
        self.ask("POST", "/token", &form)
    }

    /// The answer to one request with `form` in it, head and body.
    fn ask(&self, method: &str, path: &str, form: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
            form.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn verify(&self, token: &str, audience: &str) -> Output {
        let mut relying_party = Command::new(env!("CARGO_BIN_EXE_relying_party"))
            .args([&self.url(), audience])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        relying_party.stdin.take().unwrap().write_all(token.as_bytes()).unwrap();
        relying_party.wait_with_output().unwrap()
    }
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn minimal_serves_both_documents_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let example = start(env!("CARGO_BIN_EXE_minimal"), &place, &[]).await;
    assert!(example.ask("GET", "/.well-known/openid-configuration", "").starts_with("HTTP/1.1 200"));
    assert!(
        body(&example.ask("GET", "/.well-known/jwks.json", "")).starts_with("{\"keys\":[{\"kty\":\"RSA\"")
    );
    assert!(example.ask("GET", "/", "").starts_with("HTTP/1.1 404"));
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_mints_for_the_pods_that_it_launched_and_for_no_others() {
    let Some(cluster) = KubeApiserver::shared() else { return };
    let place = tempfile::tempdir().unwrap();
    let namespace = cluster.create_namespace();
    cluster.service_account(&namespace, "default");
    let kubeconfig = place.path().join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.kubeconfig_admin()).unwrap();
    let more = [kubeconfig.to_str().unwrap(), &namespace];
    let example = start(env!("CARGO_BIN_EXE_controller"), &place, &more).await;
    let token_of = |name: &str, uid: &str| {
        let pod = Pod { name: name.to_owned(), uid: uid.to_owned() };
        cluster.token(&namespace, "default", &[&example.url()], 600, Some(&pod))
    };

    let launched = example.ask("POST", "/pods/build-7", "");
    assert!(launched.starts_with("HTTP/1.1 201"), "{launched}");
    let uid = body(&launched);
    let answer = example.exchange(&token_of("build-7", uid));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer: Value = serde_json::from_str(body(&answer)).unwrap();
    let token = answer["access_token"].as_str().unwrap();
    let verified = example.verify(token, "sts.amazonaws.com");
    assert!(verified.status.success(), "{verified:?}");
    let claims: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!((&claims["sub"], &claims["pod_uid"]), (&json!("controller:job:build-7"), &json!(uid)));
    assert_eq!(example.verify(token, "other").status.code(), Some(1));

    // The same namespace and account, and a name that is not ours to give.
    let other = cluster.create_pod(&namespace, "build-8", "default");
    let unbound = cluster.token(&namespace, "default", &[&example.url()], 600, None);
    for (what, proof) in [("another's pod", token_of("build-8", &other.uid)), ("no pod", unbound)] {
        let answer = example.exchange(&proof);
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("invalid_request"), "{what}: {answer}");
    }

    let metrics = example.ask("GET", "/metrics", "");
    assert!(metrics.contains("controller_up 1") && metrics.contains("oneseal_"), "{metrics}");
    assert!(example.ask("GET", "/elsewhere", "").contains("the controller has no such page"));
}
