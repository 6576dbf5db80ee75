//! What a connection goes through before HTTP begins: nothing, or TLS.
//!
//! It happens in the connection's own task and within its slot, with a deadline: who connects and says nothing, or
//! half of what it should, holds no more than that.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::metrics::HandshakeFailure;
use crate::state::State;

/// What stands between a socket and HTTP.
pub(crate) trait Begin<T>: Clone + Send + 'static {
    /// What HTTP is spoken on.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Ready for HTTP, or `None` if it came to nothing.
    fn begin(self, stream: T) -> impl Future<Output = Option<Self::Stream>> + Send;
}

/// HTTP at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Begin<T> for Plain {
    type Stream = T;

    async fn begin(self, stream: T) -> Option<T> {
        Some(stream)
    }
}

/// TLS first.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    state: Arc<State>,
}

impl Tls {
    /// With the certificate that `config` shows.
    pub(crate) fn new(config: Arc<ServerConfig>, state: Arc<State>) -> Self {
        Self { acceptor: config.into(), state }
    }

    async fn handshake(&self, mut stream: TcpStream) -> Result<TlsStream<TcpStream>, HandshakeFailure> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1..) if first[0].is_ascii_uppercase() => {
                // Nothing of a TLS record begins with a letter, and every method of HTTP does.
                drop(timeout(GOODBYE, refuse_plain_http(&mut stream)).await);
                return Err(HandshakeFailure::PlainHttp);
            }
            Ok(1..) => {}
            Ok(0) | Err(_) => return Err(HandshakeFailure::Gone),
        }
        let limited = |connection: &mut ServerConnection| connection.set_buffer_limit(Some(UNREAD));
        self.acceptor.accept_with(stream, limited).await.map_err(|error| {
            tracing::debug!(%error, "a TLS handshake failed");
            if is_gone(&error) { HandshakeFailure::Gone } else { HandshakeFailure::Protocol }
        })
    }
}

impl Begin<TcpStream> for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn begin(self, stream: TcpStream) -> Option<Self::Stream> {
        let outcome = timeout(DEADLINE, self.handshake(stream)).await;
        match outcome.unwrap_or(Err(HandshakeFailure::Deadline)) {
            Ok(stream) => Some(stream),
            Err(failure) => {
                self.state.metrics.count_handshake_failure(failure);
                None
            }
        }
    }
}

/// Load balancers and kubelet open a connection and close it, to see whether somebody listens.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Tells who speaks plain HTTP what to do. The rest of the request is read first and last, since closing a socket with
/// bytes unread would take back the answer.
async fn refuse_plain_http(stream: &mut TcpStream) -> io::Result<()> {
    let mut rest = [0; 4096];
    // The head at least: whatever else comes is read below.
    let _begin = stream.read(&mut rest).await?;
    stream.write_all(PLAIN_HTTP.as_bytes()).await?;
    stream.shutdown().await?;
    let mut left = MAX_DRAINED;
    while left > 0 {
        match stream.read(&mut rest).await? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

const PLAIN_HTTP: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 102\r\n\
     Cache-Control: no-store\r\nConnection: close\r\n\r\n\
     {\"error\":\"invalid_request\",\"error_description\":\"this listener speaks TLS; use https in place of http\"}";

/// A handshake takes two round trips; this is long enough for a link that loses packets, and the same as a request's
/// head may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// What is encrypted for a client that does not read: one record, in place of the four that rustls allows.
const UNREAD: usize = 16 * 1024;
/// For the whole answer to plain HTTP: its client is there and reads, or does not matter.
const GOODBYE: Duration = Duration::from_secs(1);
const MAX_DRAINED: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_plain_http_says_its_own_length() {
        let (head, body) = PLAIN_HTTP.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
        let json: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(json["error"], "invalid_request");
    }
}
