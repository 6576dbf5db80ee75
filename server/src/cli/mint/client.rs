//! The admin API's client side: what is asked, over the replica's Unix socket, and what its answers mean.
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
use oneseal_keystore::verify::UnverifiedJws;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::net::UnixStream;

use crate::admin_token;
use crate::exit::{Exit, Failure};

/// What to mint.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MintRequest {
    /// The token's subject.
    pub(crate) sub: String,
    /// The token's one audience.
    pub(crate) aud: String,
    /// Its life in seconds; the fleet's `token_ttl` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_s: Option<u64>,
    /// The algorithm to sign with; the first of `issuer.algorithms` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alg: Option<String>,
    /// Further claims.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) claims: Map<String, Value>,
    /// Whether to answer what would be signed in place of a token.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) dry_run: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls it with")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What a token would say.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Preview {
    /// Always true: a server that does not know the word refuses it.
    pub(crate) dry_run: bool,
    /// The key that would sign.
    pub(crate) kid: String,
    /// Its algorithm.
    pub(crate) alg: String,
    /// When it would expire, in Unix seconds.
    pub(crate) exp: i64,
    /// The claims.
    pub(crate) claims: Value,
}

/// A token, as the admin API returns it. `Debug` leaves the token out: whoever has it is its subject.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Minted {
    /// The compact JWS.
    pub(crate) token: String,
    /// The key that signed it.
    pub(crate) kid: String,
    /// When it expires, in Unix seconds.
    pub(crate) exp: i64,
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minted").field("kid", &self.kid).field("exp", &self.exp).finish_non_exhaustive()
    }
}

/// An answer of the admin API, which whoever listens there may have made up.
pub(crate) trait Answer: DeserializeOwned {
    /// Whether it is what was asked for, as far as that can be seen without keys.
    fn is_sound(&self) -> bool;
}

impl Answer for Minted {
    fn is_sound(&self) -> bool {
        UnverifiedJws::parse(&self.token).is_ok()
    }
}

impl Answer for Preview {
    fn is_sound(&self) -> bool {
        self.dry_run && self.claims.is_object()
    }
}

/// Asks the replica behind `socket` for a token, or for the [`Preview`] of one.
///
/// # Errors
/// What went wrong, where, and what to do: no such socket, nobody listening (69), not permitted (77), refused.
///
/// # Cancel safety
/// Dropped, a token may have been minted that nobody holds.
pub(crate) async fn mint<T: Answer>(socket: &Path, request: &MintRequest) -> Result<T, Failure> {
    match tokio::time::timeout(DEADLINE, exchange(socket, request)).await {
        Ok(outcome) => {
            let (status, body) = outcome?;
            judge(&socket.display(), status, &body)
        }
        Err(_) => {
            let message = format!(
                "{} gave no answer within {} s: look at the replica's log",
                socket.display(),
                DEADLINE.as_secs()
            );
            Err(Failure::new(Exit::Unavailable, message))
        }
    }
}

async fn exchange(socket: &Path, request: &MintRequest) -> Result<(StatusCode, Bytes), Failure> {
    let broken = |error: hyper::Error| {
        Failure::new(Exit::Unavailable, format!("{}: the exchange broke off; ask again", socket.display()))
            .because(error)
    };
    let stream = UnixStream::connect(socket).await.map_err(|error| not_connected(socket, error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let response = sender.send_request(post(request)?).await.map_err(broken)?;
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

fn post(request: &MintRequest) -> Result<Request<Full<Bytes>>, Failure> {
    Request::post(MINT)
        // The socket names the server; HTTP/1.1 wants a Host all the same (RFC 9112 section 3.2).
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(written(request)?))
        .map_err(|error| Failure::internal("no request").because(error))
}

/// The request's body.
pub(super) fn written(request: &MintRequest) -> Result<Bytes, Failure> {
    let body = serde_json::to_vec(request).map_err(|error| Failure::internal("no JSON").because(error))?;
    Ok(body.into())
}

/// What an answer says, from whatever `place` it comes.
pub(super) fn judge<T: Answer>(
    place: &dyn fmt::Display,
    status: StatusCode,
    body: &[u8],
) -> Result<T, Failure> {
    let said = Refusal::read(body);
    match status {
        StatusCode::OK => serde_json::from_slice(body).ok().filter(T::is_sound).ok_or_else(|| {
            Failure::internal(format!(
                "{place} answers with something else than a token: is it oneseal's admin API?"
            ))
        }),
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::PAYLOAD_TOO_LARGE => {
            Err(Failure::usage(format!("refused by {place}: {said}")))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => {
            Err(Failure::new(Exit::Denied, format!("refused by {place}: {said}")))
        }
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Err(Failure::new(
            Exit::Denied,
            format!(
                "{place} has nothing that mints ({said}): is it the replica's listen.admin or listen.admin_tcp, and not \
                 another of its listeners? If so, set admin.mint = true and admin.mint_audiences, and restart it"
            ),
        )),
        StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::BAD_GATEWAY
        | StatusCode::GATEWAY_TIMEOUT => {
            Err(Failure::new(Exit::Unavailable, format!("{place} cannot mint just now, try again: {said}")))
        }
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
}

impl Refusal {
    fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.error, &self.error_description, &self.cure];
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
    let (exit, message) = match error.kind() {
        ErrorKind::NotFound => (
            Exit::Unavailable,
            if is_address(socket) {
                format!("there is no socket {place}; an address of TCP begins with https:// or http://")
            } else {
                format!("there is no socket {place}: is the replica running, and is this its listen.admin?")
            },
        ),
        ErrorKind::ConnectionRefused => {
            (Exit::Unavailable, format!("nobody listens at {place}: its replica has ended; start it again"))
        }
        ErrorKind::PermissionDenied => (
            Exit::Denied,
            format!(
                "{place} belongs to another user: run this as the user that runs the replica, or as root"
            ),
        ),
        _ => (Exit::Unavailable, format!("{place} cannot be opened: is it the replica's listen.admin?")),
    };
    Failure::new(exit, message).because(error)
}

/// Whether it looks like an address of TCP, `HOST:PORT`, that has lost its scheme.
pub(super) fn is_address(socket: &Path) -> bool {
    let text = socket.to_string_lossy();
    !text.contains('/') && text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// Where it is asked.
pub(super) const MINT: &str = "/admin/v1/mint";
/// Signing takes a millisecond; a full queue answers 503 at once.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// Our own words for a refusal are far shorter, in characters.
const MAX_SAID: usize = 2000;
/// A token with all the claims that the server lets in stays far below.
pub(super) const MAX_ANSWER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, body: &str) -> Failure {
        let status = StatusCode::from_u16(status).expect("a status");
        judge::<Minted>(&"/run/x.sock", status, body.as_bytes()).expect_err("refused")
    }

    #[test]
    fn each_refusal_has_its_exit_and_says_what_the_server_said() {
        for (status, exit) in [
            (400, Exit::Usage),
            (401, Exit::Denied),
            (403, Exit::Denied),
            (421, Exit::Denied),
            (404, Exit::Denied),
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
    fn a_preview_says_that_it_is_one() {
        let judged = |dry_run: bool| {
            let body = format!(r#"{{"dry_run":{dry_run},"kid":"k","alg":"ES256","exp":1,"claims":{{}}}}"#);
            judge::<Preview>(&"/run/x.sock", StatusCode::OK, body.as_bytes())
        };
        assert!(judged(true).is_ok());
        assert_eq!(judged(false).expect_err("it may have minted").exit(), Exit::Internal);
    }

    #[test]
    fn an_answer_that_is_not_ours_is_told_and_not_repeated() {
        let garbage =
            [r#"{"token":"","kid":"k","exp":1}"#, r#"{"token":"canary\u001b[31m","kid":"k","exp":1}"#];
        for body in ["", "<html>canary</html>", "[]", "{}"].into_iter().chain(garbage) {
            let told = failure(200, body).in_full();
            assert!(told.contains("admin API") && !told.contains("canary"), "{told}");
        }
        assert!(failure(403, "<html>canary</html>").in_full().contains("does not say why"));
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        let minted = Minted { token: "canary".to_owned(), kid: "k".to_owned(), exp: 1 };
        assert_eq!(format!("{minted:?}"), r#"Minted { kid: "k", exp: 1, .. }"#);
    }

    #[test]
    fn absent_members_are_left_out() {
        let request = MintRequest {
            sub: "s".to_owned(),
            aud: "a".to_owned(),
            ttl_s: None,
            alg: None,
            claims: Map::new(),
            dry_run: false,
        };
        assert_eq!(serde_json::to_string(&request).expect("JSON"), r#"{"sub":"s","aud":"a"}"#);
    }

    #[tokio::test]
    async fn a_missing_and_a_dead_socket_are_told_apart() {
        let path = std::env::temp_dir().join(format!("oneseal-{}.sock", uuid::Uuid::new_v4().simple()));
        let request = MintRequest {
            sub: "s".to_owned(),
            aud: "a".to_owned(),
            ttl_s: None,
            alg: None,
            claims: Map::new(),
            dry_run: false,
        };
        let missing = mint::<Minted>(&path, &request).await.expect_err("nothing there");
        assert!(missing.in_full().contains("there is no socket"), "{}", missing.in_full());
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        let dead = mint::<Minted>(&path, &request).await.expect_err("nobody there");
        assert!(dead.in_full().contains("nobody listens"), "{}", dead.in_full());
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((missing.exit(), dead.exit()), (Exit::Unavailable, Exit::Unavailable));
    }
}
