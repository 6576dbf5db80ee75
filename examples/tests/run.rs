//! The examples, run as their comments say: a key is made, the controller serves, mints, and is verified.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use oneseal::keystore::{InitRequest, init};
use oneseal::{FileProvider, IssuerUrl, SystemClock};

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
async fn start(program: &str, place: &tempfile::TempDir) -> Example {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let key: PathBuf = place.path().join("keyring.json");
    let provider = FileProvider::new(&key).assume_durable(true);
    init(&provider, InitRequest::new(IssuerUrl::parse(&url, "test").unwrap()), &SystemClock).await.unwrap();
    let mut child = Command::new(program).arg(&key).arg(url).spawn().unwrap();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended");
        std::thread::yield_now();
    }
    Example { child, port }
}

impl Example {
    /// The answer to one request, head and body.
    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn verify(&self, token: &str, audience: &str) -> Output {
        let mut relying_party = Command::new(env!("CARGO_BIN_EXE_relying_party"))
            .args([&format!("http://127.0.0.1:{}", self.port), audience])
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
    let example = start(env!("CARGO_BIN_EXE_minimal"), &place).await;
    assert!(example.ask("GET", "/.well-known/openid-configuration").starts_with("HTTP/1.1 200"));
    assert!(body(&example.ask("GET", "/.well-known/jwks.json")).starts_with("{\"keys\":[{\"kty\":\"RSA\""));
    assert!(example.ask("GET", "/").starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn controller_keeps_its_own_pages_and_its_pods_tokens_verify() {
    let place = tempfile::tempdir().unwrap();
    let example = start(env!("CARGO_BIN_EXE_controller"), &place).await;
    let launched = example.ask("POST", "/pods/build-7");
    assert!(launched.starts_with("HTTP/1.1 201"), "{launched}");

    let verified = example.verify(body(&launched), "sts.amazonaws.com");
    assert!(verified.status.success(), "{verified:?}");
    let claims: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(claims["sub"], "controller:pod:build-7");
    assert_eq!(example.verify(body(&launched), "other").status.code(), Some(1));

    let metrics = example.ask("GET", "/metrics");
    assert!(metrics.contains("controller_up 1") && metrics.contains("oneseal_"), "{metrics}");
    assert!(example.ask("GET", "/elsewhere").contains("the controller has no such page"));
}
