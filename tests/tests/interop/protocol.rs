//! An adaptor outlives what it is asked: each line gets an answer, and so does the next one.

use serde_json::json;
use tokio::net::TcpListener;

use crate::adaptor::Adaptor;
use crate::libraries::Library;

/// None of the protocol's.
const LINES: &[&[u8]] = &[
    b"",
    b"{",
    b"[]",
    b"null",
    b"7",
    b"\xff\xfe",
    b"{}",
    br#"{"verb":"sing"}"#,
    br#"{"verb":["verify"]}"#,
    br#"{"verb":"verify","token":"a.b.c"}"#,
];
/// As long as no token is.
const HUGE: usize = 1 << 20;

/// Shows `library` lines of every wrong kind, and an issuer that is not there.
///
/// # Panics
/// If one is not answered as the protocol says.
pub(crate) async fn holds(library: &'static Library) {
    let Some(mut adaptor) = Adaptor::start(library).await else { return };
    let deep = "[".repeat(HUGE);
    for line in LINES.iter().copied().chain([deep.as_bytes()]) {
        let answer = adaptor.answer_to(line).await;
        let shown = String::from_utf8_lossy(&line[..line.len().min(40)]);
        assert_eq!(
            (&answer["ok"], &answer["error"]),
            (&json!(false), &json!("bad_request")),
            "{shown}: {answer}"
        );
        assert!(answer["message"].is_string(), "{shown}: {answer}");
    }
    let huge = json!({ "verb": "verify", "token": "a".repeat(HUGE) }).to_string();
    let configure = json!({ "verb": "configure", "issuer": nobody().await, "audience": "test" }).to_string();
    let typeless = json!({ "verb": "configure", "issuer": 7, "audience": "test" }).to_string();
    let tokenless = json!({ "verb": "verify" }).to_string();
    for line in [&huge, &configure, &huge, &typeless, &tokenless] {
        let answer = adaptor.answer_to(line.as_bytes()).await;
        assert_eq!(answer["ok"], false, "{}: {answer}", library.name);
        assert!(answer["error"].is_string() && answer["message"].is_string(), "{}: {answer}", library.name);
    }
    adaptor.end().await;
}

/// An issuer where nobody listens.
async fn nobody() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}
