//! The admin API's client side over a replica's Unix socket, and what its answers mean wherever they come from.
//!
//! The socket is the authority: whoever can open it may ask. So there is no credential here, and a refusal by the
//! file system is as good an answer as one by the server. [`remote`](super::remote) asks the same over TCP.

use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use oneseal::UnixTime;
use serde::Deserialize;
use tokio::net::UnixStream;

use super::{Answer, Call, Purpose};
use crate::admin_token;
use crate::exit::{Cost, Exit, Failure};
use crate::refusals::{REPLICA_DENIED, REPLICA_NO_ANSWER, REPLICA_NO_SOCKET, REPLICA_NOT_RUNNING};

/// Asks the replica behind `socket`.
///
/// # Errors
/// What went wrong, where, and what to do: no such socket, nobody listening (69), not permitted (77), refused.
///
/// # Cancel safety
/// Dropped, what was asked may have been done.
pub(super) async fn ask<T: Answer>(socket: &Path, call: &Call) -> Result<T, Failure> {
    match tokio::time::timeout(DEADLINE, exchange(socket, call)).await {
        Ok(outcome) => {
            let (status, body) = outcome?;
            judge(&socket.display(), &call.purpose, status, &body)
        }
        Err(_) => {
            let message = format!(
                "{} gave no answer within {} s: look at the replica's log",
                socket.display(),
                DEADLINE.as_secs()
            );
            Err(Failure::new(Exit::Unavailable, message).with_code(REPLICA_NO_ANSWER))
        }
    }
}

async fn exchange(socket: &Path, call: &Call) -> Result<(StatusCode, Bytes), Failure> {
    let broken = |error: hyper::Error| {
        Failure::new(Exit::Unavailable, format!("{}: the exchange broke off; ask again", socket.display()))
            .with_code(REPLICA_NO_ANSWER)
            .because(error)
    };
    let stream = UnixStream::connect(socket).await.map_err(|error| not_connected(socket, error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let response = sender.send_request(request(call)?).await.map_err(broken)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|error| {
            Failure::internal(format!("{}: no whole answer", socket.display())).because(error)
        })?;
        Ok((status, body.to_bytes()))
    };
    tokio::pin!(answer, connection);
    // Both make one exchange: the connection moves the bytes that the answer waits for.
    tokio::select! {
        biased;
        outcome = &mut answer => outcome,
        _ = &mut connection => answer.await,
    }
}

fn request(call: &Call) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::builder()
        .method(&call.method)
        .uri(&call.path)
        // The socket names the server; HTTP/1.1 wants a Host all the same (RFC 9112 section 3.2).
        .header(header::HOST, "localhost");
    if call.body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = Full::from(call.body.clone().unwrap_or_default());
    request.body(body).map_err(|error| Failure::internal("no request").because(error))
}

/// What an answer says, from whatever `place` it comes.
pub(super) fn judge<T: Answer>(
    place: &dyn fmt::Display,
    purpose: &Purpose,
    status: StatusCode,
    body: &[u8],
) -> Result<T, Failure> {
    judge_said(place, purpose, status, body).map_err(|failure| named(failure, body))
}

/// A refusal of ours has a name, and perhaps a time and what costs most of the wait.
fn named(failure: Failure, body: &[u8]) -> Failure {
    let Refusal { code, not_before, because, .. } = Refusal::read(body);
    let failure = failure.with_time(not_before.map(UnixTime)).with_cost(because);
    match code.filter(|code| is_name(code)) {
        Some(code) => failure.with_code(code),
        None => failure,
    }
}

/// Whether it looks like a code of ours: whoever listens there may have made it up.
fn is_name(code: &str) -> bool {
    let is_plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
    code.len() <= MAX_NAME
        && code.split_once('.').is_some_and(|(left, right)| {
            [left, right].iter().all(|part| !part.is_empty() && part.bytes().all(is_plain))
        })
}

fn judge_said<T: Answer>(
    place: &dyn fmt::Display,
    purpose: &Purpose,
    status: StatusCode,
    body: &[u8],
) -> Result<T, Failure> {
    let said = Refusal::read(body);
    // A key verb says itself how it ends.
    let told = said.exit.and_then(|exit| {
        [Exit::TryLater, Exit::Denied, Exit::Refused, Exit::Unavailable]
            .into_iter()
            .find(|known| known.code() == exit)
    });
    if let (Some(exit), false) = (told, status.is_success()) {
        return Err(Failure::new(exit, format!("refused by {place}: {said}")));
    }
    match status {
        StatusCode::OK => serde_json::from_slice(body).ok().filter(T::is_sound).ok_or_else(|| {
            Failure::internal(format!(
                "{place} answers with something else than {}: is it oneseal's admin API?",
                purpose.answer
            ))
        }),
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::PAYLOAD_TOO_LARGE => {
            Err(Failure::usage(format!("refused by {place}: {said}")))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => {
            Err(Failure::new(Exit::Denied, format!("refused by {place}: {said}")))
        }
        StatusCode::CONFLICT | StatusCode::TOO_EARLY => {
            Err(Failure::new(Exit::TryLater, format!("refused by {place}: {said}")))
        }
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Err(Failure::new(
            Exit::Denied,
            format!(
                "{place} has nothing that {} ({said}): is it the replica's listen.admin or listen.admin_tcp, and not \
                 another of its listeners? If so, {}",
                purpose.does, purpose.if_absent
            ),
        )),
        StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::BAD_GATEWAY
        | StatusCode::GATEWAY_TIMEOUT => Err(Failure::new(
            Exit::Unavailable,
            format!("{place} cannot do that just now, try again: {said}"),
        )),
        other => Err(Failure::internal(format!("{place} answers with status {}: {said}", other.as_u16()))),
    }
}

/// The words of an error answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    error: Option<String>,
    error_description: Option<String>,
    cure: Option<String>,
    exit: Option<u8>,
    not_before: Option<i64>,
    code: Option<String>,
    because: Option<Cost>,
}

impl Refusal {
    fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its own name says more than the class that HTTP has for it.
        let class = if self.code.as_deref().is_some_and(is_name) { &None } else { &self.error };
        let parts = [class, &self.error_description, &self.cure];
        let told: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        match told.join(": ") {
            told if told.is_empty() => f.write_str("it does not say why"),
            // Our own, sent back by whoever listens there: this ends in a terminal or in the log of a pipeline.
            told if admin_token::is_in(&told) => {
                f.write_str("it repeats an admin token, which is left out here")
            }
            told => told.chars().take(MAX_SAID).try_for_each(|letter| {
                if letter.is_control() {
                    write!(f, "{}", letter.escape_default())
                } else {
                    f.write_char(letter)
                }
            }),
        }
    }
}

fn not_connected(socket: &Path, error: io::Error) -> Failure {
    let place = socket.display();
    let (exit, code, message) = match error.kind() {
        ErrorKind::NotFound => (
            Exit::Unavailable,
            REPLICA_NO_SOCKET,
            if is_address(socket) {
                format!("there is no socket {place}; an address of TCP begins with https:// or http://")
            } else {
                format!("there is no socket {place}: is the replica running, and is this its listen.admin?")
            },
        ),
        ErrorKind::ConnectionRefused => (
            Exit::Unavailable,
            REPLICA_NOT_RUNNING,
            format!("nobody listens at {place}: its replica has ended; start it again"),
        ),
        ErrorKind::PermissionDenied => (
            Exit::Denied,
            REPLICA_DENIED,
            format!(
                "{place} belongs to another user: run this as the user that runs the replica, or as root"
            ),
        ),
        _ => (
            Exit::Unavailable,
            REPLICA_NO_SOCKET,
            format!("{place} cannot be opened: is it the replica's listen.admin?"),
        ),
    };
    Failure::new(exit, message).with_code(code).because(error)
}

/// Whether it looks like an address of TCP, `HOST:PORT`, that has lost its scheme.
pub(super) fn is_address(socket: &Path) -> bool {
    let text = socket.to_string_lossy();
    !text.contains('/') && text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// A replica answers from memory, or says within seconds that its database does not.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// The longest name of a refusal.
const MAX_NAME: usize = 64;
/// Our own words for a refusal are far shorter, in characters.
const MAX_SAID: usize = 2000;
/// A token with all the claims that the server lets in stays far below; so do hundreds of replicas.
pub(super) const MAX_ANSWER: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::Value;

    use super::*;

    /// An object with a member `good`.
    #[derive(Debug, Deserialize)]
    struct Thing {
        good: Value,
    }

    impl Answer for Thing {
        fn is_sound(&self) -> bool {
            self.good == true
        }
    }

    const PURPOSE: Purpose = Purpose { answer: "a thing", does: "makes things", if_absent: "update it" };

    fn failure(status: u16, body: &str) -> Failure {
        let status = StatusCode::from_u16(status).expect("a status");
        judge::<Thing>(&"/run/x.sock", &PURPOSE, status, body.as_bytes()).expect_err("refused")
    }

    #[test]
    fn each_refusal_has_its_exit_and_says_what_the_server_said() {
        for (status, exit) in [
            (400, Exit::Usage),
            (401, Exit::Denied),
            (403, Exit::Denied),
            (421, Exit::Denied),
            (404, Exit::Denied),
            (409, Exit::TryLater),
            (503, Exit::Unavailable),
            (502, Exit::Unavailable),
            (500, Exit::Internal),
        ] {
            let failure = failure(status, r#"{"error":"a","error_description":"b","cure":"c"}"#);
            assert_eq!(failure.exit(), exit, "{status}");
            assert!(failure.in_full().contains("a: b: c"), "{}", failure.in_full());
            assert!(failure.in_full().contains("/run/x.sock"), "{}", failure.in_full());
        }
    }

    #[test]
    fn words_of_a_stranger_do_no_harm_on_a_terminal_and_repeat_no_token() {
        let told = failure(400, r#"{"error":"\u001b[2Jx","error_description":"\u0007\u009b31m"}"#).in_full();
        assert!(!told.contains(char::is_control) && told.contains(r"\u{1b}[2Jx"), "{told}");
        let token = format!("oneseal_admin_{}_01234567", "A".repeat(43));
        let told = failure(401, &format!(r#"{{"error":"no {token}"}}"#)).in_full();
        assert!(!told.contains(&token) && told.contains("left out here"), "{told}");
    }

    #[test]
    fn an_answer_that_is_not_ours_is_told_and_not_repeated() {
        let garbage = [r#"{"good":false}"#, r#"{"good":"canary\u001b[31m"}"#];
        for body in ["", "<html>canary</html>", "[]", "{}"].into_iter().chain(garbage) {
            let told = failure(200, body).in_full();
            assert!(told.contains("admin API") && !told.contains("canary"), "{told}");
        }
        assert!(failure(403, "<html>canary</html>").in_full().contains("does not say why"));
    }

    #[test]
    fn a_refusal_keeps_its_name_its_time_and_what_costs_most() {
        let body = r#"{"error":"too_early","error_description":"wait","code":"keys.too_early","exit":75,
            "not_before":1767225600,"because":{"setting":"rotation.publish_lead","seconds":5}}"#;
        let told = failure(409, body);
        assert_eq!(told.exit(), Exit::TryLater);
        assert!(
            told.in_full().starts_with("keys.too_early: refused by /run/x.sock: wait\n"),
            "{}",
            told.in_full()
        );
        let error = &told.to_json()["error"];
        assert_eq!((&error["code"], &error["because"]["seconds"]), (&"keys.too_early".into(), &5.into()));
        for made_up in
            ["keys", "keys.", "keys.\\u001b[2J", "Keys.X", "a.b.c", &format!("a.{}", "b".repeat(64))]
        {
            let told = failure(409, &format!(r#"{{"error":"conflict","code":"{made_up}"}}"#));
            assert!(told.in_full().starts_with("refused by"), "{}", told.in_full());
        }
    }

    #[tokio::test]
    async fn a_missing_and_a_dead_socket_are_told_apart() {
        let path = std::env::temp_dir().join(format!("oneseal-{}.sock", uuid::Uuid::new_v4().simple()));
        let call = Call { method: Method::GET, path: "/x".to_owned(), body: None, purpose: PURPOSE };
        let missing = ask::<Thing>(&path, &call).await.expect_err("nothing there");
        assert!(missing.in_full().contains("there is no socket"), "{}", missing.in_full());
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        let dead = ask::<Thing>(&path, &call).await.expect_err("nobody there");
        assert!(dead.in_full().contains("nobody listens"), "{}", dead.in_full());
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((missing.exit(), dead.exit()), (Exit::Unavailable, Exit::Unavailable));
        assert_eq!((missing.code(), dead.code()), ("replica.no_socket", "replica.not_running"));
    }
}
