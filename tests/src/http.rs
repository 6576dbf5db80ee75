//! A plain HTTP/1.1 client: one request a connection, nothing followed, nothing decoded.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// An answer, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// A header's text, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {:?}", self.body))
    }
}

/// Why there was no answer.
#[derive(Debug)]
pub struct NoAnswer(pub String);

/// GET `path` from the server at `address`.
///
/// # Errors
/// If the connection or the answer fails.
pub async fn get(address: SocketAddr, path: &str) -> Result<Answer, NoAnswer> {
    ask(address, "GET", path, &[]).await
}

/// `method` on `path` at the server at `address`, with `headers`.
///
/// # Errors
/// If the connection or the answer fails.
pub async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Answer, NoAnswer> {
    let mut request = Request::builder().method(method).uri(path).header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::default());
    send(TcpStream::connect(address).await.map_err(no_answer)?, request.map_err(no_answer)?).await
}

/// GET `path` over the Unix socket `socket`.
///
/// # Errors
/// If the connection or the answer fails.
pub async fn get_unix(socket: &std::path::Path, path: &str) -> Result<Answer, NoAnswer> {
    let request = Request::get(path).header("host", "localhost").body(Full::default());
    send(UnixStream::connect(socket).await.map_err(no_answer)?, request.map_err(no_answer)?).await
}

/// POST `body` as JSON to `path` over the Unix socket `socket`.
///
/// # Errors
/// If the connection or the answer fails.
pub async fn post_json(
    socket: &std::path::Path,
    path: &str,
    body: &serde_json::Value,
) -> Result<Answer, NoAnswer> {
    post_json_with(socket, path, body, &[]).await
}

/// As [`post_json`], with `headers` besides.
///
/// # Errors
/// If the connection or the answer fails.
pub async fn post_json_with(
    socket: &std::path::Path,
    path: &str,
    body: &serde_json::Value,
    headers: &[(&str, &str)],
) -> Result<Answer, NoAnswer> {
    let mut request =
        Request::post(path).header("host", "localhost").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::from(body.to_string()));
    send(UnixStream::connect(socket).await.map_err(no_answer)?, request.map_err(no_answer)?).await
}

/// POST `form`, which is encoded already, to `path` of the server at `address`.
///
/// # Errors
/// If the connection or the answer fails.
pub async fn post_form(address: SocketAddr, path: &str, form: &str) -> Result<Answer, NoAnswer> {
    let request = Request::post(path)
        .header("host", address.to_string())
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Full::from(form.to_owned()));
    send(TcpStream::connect(address).await.map_err(no_answer)?, request.map_err(no_answer)?).await
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, NoAnswer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(no_answer)?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(no_answer)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(no_answer)?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    };
    // The connection is driven until the answer is there; what comes after it is of no interest.
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        ended = connection => {
            ended.map_err(no_answer)?;
            exchange.await
        }
    }
}

fn no_answer(error: impl std::fmt::Display) -> NoAnswer {
    NoAnswer(error.to_string())
}
