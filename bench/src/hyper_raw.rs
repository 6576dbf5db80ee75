//! The limit of our HTTP library: hyper answering one path from memory, and nothing else.
//!
//! It has what a fair answer needs, the same headers and body, `If-None-Match`, `TCP_NODELAY`, and nothing of what a
//! service needs: no routing, no request id, no counters, no spans, no watch over slow clients.

use std::convert::Infallible;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::probe::Answer;

/// Serves the [`Answer`] in the file at `answer`, at a free port of loopback, until the process ends.
///
/// # Panics
/// If the file is no answer, or nothing can be bound.
pub fn serve(answer: &Path) {
    let text = std::fs::read(answer).expect("the answer's file");
    let document = Arc::new(Document::new(&serde_json::from_slice(&text).expect("an answer")));
    runtime().block_on(accept(move |stream| {
        let document = Arc::clone(&document);
        async move {
            let service = service_fn(move |request| {
                let answer = document.answer(&request);
                async { Ok::<_, Infallible>(answer) }
            });
            // A client that went away is nobody's fault.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        }
    }));
}

/// One worker, as the server has on one core.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Binds a free port, says which, and serves each connection in a task of its own.
pub(crate) async fn accept<F>(serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    writeln!(std::io::stdout(), "{address}").expect("somebody reads the address");
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        connections.spawn(serve(stream));
        while connections.try_join_next().is_some() {}
    }
}

struct Document {
    body: Bytes,
    etag: HeaderValue,
    headers: HeaderMap,
    not_modified: HeaderMap,
}

impl Document {
    fn new(answer: &Answer) -> Self {
        let mut headers: HeaderMap = answer
            .headers_of_the_document()
            .map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a header of ours");
                (name, HeaderValue::from_str(value).expect("a value of ours"))
            })
            .collect();
        headers.insert(CONTENT_LENGTH, answer.body.len().into());
        let mut not_modified = headers.clone();
        not_modified.remove(CONTENT_LENGTH);
        not_modified.remove(CONTENT_TYPE);
        let etag = headers.get(ETAG).expect("an entity tag").clone();
        Self { body: answer.body.clone().into(), etag, headers, not_modified }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let is_known = request.headers().get(IF_NONE_MATCH) == Some(&self.etag);
        let mut response = Response::new(Full::new(if is_known { Bytes::new() } else { self.body.clone() }));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.headers_mut() = self.not_modified.clone();
        } else {
            *response.headers_mut() = self.headers.clone();
        }
        response
    }
}
