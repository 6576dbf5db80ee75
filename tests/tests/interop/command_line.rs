//! The adaptor's own command line, as docs/relying-parties.md gives it to a person.

use std::process::{Output, Stdio};

use oneseal_tests::Fleet;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use crate::adaptor;
use crate::libraries::Library;

/// Claims and 0, a named refusal and 1, an issuer out of reach by its URL and why, usage and 64; the token as a word or on standard input.
pub(crate) async fn answers(library: &'static Library) {
    let Some(_) = adaptor::command(library).await else { return };
    let fleet = Fleet::start(1).await;
    let token = fleet.replicas[0].mint(&json!({ "sub": "pod-1", "aud": "test", "ttl_s": 600 })).await;
    let words = ["--issuer", fleet.issuer.as_str(), "--audience", "test", "--algorithms", "RS256"];

    let good = run(library, &[&words[..], &[&token]].concat(), "").await;
    assert_eq!(good.status.code(), Some(0), "{}: {}", library.name, text(&good.stderr));
    let claims: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!((&claims["sub"], &claims["iss"]), (&json!("pod-1"), &json!(fleet.issuer.as_str())));

    let piped = run(library, &[&words[..], &["-"]].concat(), &format!("{token}\n")).await;
    assert_eq!(piped.status.code(), Some(0), "{}: {}", library.name, text(&piped.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&piped.stdout).unwrap(), claims);

    let elsewhere = ["--issuer", fleet.issuer.as_str(), "--audience", "other", &token];
    let refused = run(library, &elsewhere, "").await;
    let errors = text(&refused.stderr);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{}: {errors}", library.name);
    assert!(errors.trim().contains(": "), "error: message, not {errors:?}");

    // A port that is bound and listened to by nobody refuses, and is given to no other test.
    let deaf = TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = format!("http://{}", deaf.local_addr().unwrap());
    let unreached = run(library, &["--issuer", &nobody, "--audience", "test", &token], "").await;
    let errors = text(&unreached.stderr);
    assert_eq!(unreached.status.code(), Some(1), "{}: {errors}", library.name);
    let port = deaf.local_addr().unwrap().port().to_string();
    assert!(
        errors.contains(&port) && errors.contains("/.well-known/"),
        "{} names no URL: {errors}",
        library.name
    );
    assert!(errors.to_lowercase().contains("refused"), "{} names no cause: {errors}", library.name);

    // Without any word it serves the protocol.
    for wrong in [&["--issuer"][..], &["--issuer", "http://127.0.0.1:1", "a.b.c"], &["--what", "a.b.c"]] {
        let usage = run(library, wrong, "").await;
        assert_eq!(usage.status.code(), Some(64), "{}: {wrong:?}: {}", library.name, text(&usage.stderr));
    }
}

async fn run(library: &'static Library, words: &[&str], input: &str) -> Output {
    let mut command = adaptor::command(library).await.unwrap();
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // It may have ended without reading.
    drop(pipe.write_all(input.as_bytes()).await);
    drop(pipe);
    child.wait_with_output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
