//! What every request gets, whichever application answers it: a name, a span, a count, and, while the server is
//! ending, word that the connection will be closed.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Method, Request, Response, Version};
use hyper::body::Incoming;
use tower::Service;
use tracing::{Instrument, Span};

use super::activity::{Activity, InUse};
use super::caller::Caller;
use super::error::ApiError;
use super::host;
use super::quoted::{MAX_METHOD, MAX_PATH, quoted};
use super::request_id::X_REQUEST_ID;
use crate::metrics::Listener;
use crate::state::State;

/// One connection's way to its application.
#[derive(Clone, Debug)]
pub(crate) struct Front<S> {
    app: S,
    state: Arc<State>,
    listener: Listener,
    caller: Option<Caller>,
    activity: Arc<Activity>,
}

impl<S, B> Front<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: From<Bytes>,
{
    /// A connection to `app` that came in at `listener`.
    pub(crate) fn new(
        app: S,
        state: Arc<State>,
        listener: Listener,
        caller: Option<Caller>,
        activity: Arc<Activity>,
    ) -> Self {
        Self { app, state, listener, caller, activity }
    }

    /// Answers one request.
    pub(crate) async fn answer(mut self, mut request: Request<Incoming>) -> Result<Response<B>, Infallible> {
        let version = request.version();
        let mut open = self.activity.begin();
        let id = self.state.request_ids.of(request.headers());
        let span = self.span(&request, &id);
        // On the path of a document a note that nobody reads costs as much as a header.
        let is_document = self.listener == Listener::Documents && request.method() != Method::POST;
        if let Some(caller) = self.caller.take().filter(|_| !is_document) {
            request.extensions_mut().insert(caller);
        }
        if matches!(self.listener, Listener::Admin | Listener::AdminTcp) {
            request.extensions_mut().insert(InUse(Arc::clone(&self.activity)));
        }
        let answered = async {
            if !is_for_one_host(&request) {
                return Ok(ApiError::one_host().response().map(B::from));
            }
            poll_fn(|cx| self.app.poll_ready(cx)).await?;
            let response = self.app.call(request).await?;
            tracing::debug!(status = response.status().as_u16(), "answered");
            Ok::<_, Infallible>(response)
        };
        let mut response = answered.instrument(span).await?;
        if self.listener == Listener::AdminTcp {
            let status = response.status();
            open.judged(status.is_success() || status.is_redirection());
        }
        self.state.metrics.count_request(self.listener, response.status());
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, id);
        if version >= Version::HTTP_2 {
            // Forbidden there (RFC 9113 section 8.2.2); hyper says GOAWAY when it is time.
            headers.remove(CONNECTION);
        } else if self.state.is_draining() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Documents are read thousands of times a second and nothing of interest is logged about one, so their spans
    /// exist only where somebody debugs. Tokens are audited.
    fn span(&self, request: &Request<Incoming>, id: &HeaderValue) -> Span {
        // Read only where the span exists.
        let id = || id.to_str().unwrap_or_default();
        let method = || quoted(request.method().as_str(), MAX_METHOD);
        let path = || quoted(request.uri().path(), MAX_PATH);
        let listener = self.listener.as_str();
        match self.listener {
            Listener::Admin | Listener::AdminTcp | Listener::Token => {
                tracing::info_span!(
                    "request",
                    request_id = id(),
                    listener,
                    method = &*method(),
                    path = &*path()
                )
            }
            // A request for a token is worth a line, which is to have the request's name.
            Listener::Documents if request.method() == Method::POST => {
                tracing::info_span!(
                    "request",
                    request_id = id(),
                    listener,
                    method = &*method(),
                    path = &*path()
                )
            }
            Listener::Documents | Listener::Ops => {
                tracing::debug_span!(
                    "request",
                    request_id = id(),
                    listener,
                    method = &*method(),
                    path = &*path()
                )
            }
        }
    }
}

/// Whether it has one `Host`, which is one. Otherwise a proxy in front may have taken the request for another's (RFC 9112
/// section 3.2). HTTP/1.0 may leave it out, and so may HTTP/2, where it must not differ from `:authority` (RFC 9113
/// section 8.3.1).
fn is_for_one_host<B>(request: &Request<B>) -> bool {
    let version = request.version();
    let mut fields = request.headers().get_all(HOST).iter();
    let Some(field) = fields.next() else { return version != Version::HTTP_11 };
    let target = request.uri().authority().filter(|_| version >= Version::HTTP_2);
    fields.next().is_none()
        && host::of(field.as_bytes()).is_some()
        && target.is_none_or(|target| target.as_str().as_bytes().eq_ignore_ascii_case(field.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(version: Version, target: &str, hosts: &[&[u8]]) -> bool {
        let mut request = Request::get(target).version(version).body(()).expect("a request");
        for host in hosts {
            request.headers_mut().append(HOST, HeaderValue::from_bytes(host).expect("a value"));
        }
        is_for_one_host(&request)
    }

    #[test]
    fn a_request_is_for_one_host_that_is_one() {
        use Version as V;
        for version in [V::HTTP_10, V::HTTP_11, V::HTTP_2] {
            for good in [&b"oidc.example"[..], b"oidc.example:443", b"[::1]:1", b"10.0.0.1", b""] {
                assert!(judged(version, "/", &[good]), "{version:?} {good:?}");
            }
            for bad in [&[&b"a@b/c d"[..]][..], &[b"[::1"], &[b"a:99999"], &[b"\xff"], &[b"a", b"a"]] {
                assert!(!judged(version, "/", bad), "{version:?} {bad:?}");
            }
            assert_eq!(judged(version, "/", &[]), version != V::HTTP_11);
        }
    }

    #[test]
    fn over_http_2_the_field_says_what_the_target_says() {
        let target = "https://oidc.example/x";
        assert!(judged(Version::HTTP_2, target, &[]) && judged(Version::HTTP_2, target, &[b"OIDC.example"]));
        assert!(!judged(Version::HTTP_2, target, &[b"evil.example"]));
        // RFC 9112 section 3.2.2: a server ignores the field of a request whose target has a host.
        assert!(judged(Version::HTTP_11, "http://oidc.example/x", &[b"evil.example"]));
    }
}
