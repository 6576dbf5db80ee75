//! What every request gets, whichever application answers it: a name, a span, a count, and, while the server is
//! ending, word that the connection will be closed.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use tower::Service;
use tracing::{Instrument, Span};

use super::activity::Activity;
use super::caller::Caller;
use super::error::ApiError;
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
        let _open = self.activity.begin();
        let id = self.state.request_ids.of(request.headers());
        let span = self.span(&request, &id);
        if let Some(caller) = self.caller.take() {
            request.extensions_mut().insert(caller);
        }
        let answered = async {
            if version == Version::HTTP_11 && !has_one_host(&request) {
                return Ok(ApiError::one_host().response().map(B::from));
            }
            poll_fn(|cx| self.app.poll_ready(cx)).await?;
            let response = self.app.call(request).await?;
            tracing::debug!(status = response.status().as_u16(), "answered");
            Ok::<_, Infallible>(response)
        };
        let mut response = answered.instrument(span).await?;
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
    /// exist only where somebody debugs.
    fn span(&self, request: &Request<Incoming>, id: &HeaderValue) -> Span {
        // Read only where the span exists.
        let id = || id.to_str().unwrap_or_default();
        let (method, path) = (request.method().as_str(), request.uri().path());
        let listener = self.listener.as_str();
        match self.listener {
            Listener::Admin | Listener::AdminTcp => {
                tracing::info_span!("request", request_id = id(), listener, method, path)
            }
            Listener::Documents | Listener::Ops => {
                tracing::debug_span!("request", request_id = id(), listener, method, path)
            }
        }
    }
}

/// Without one, or with two, a proxy in front may have taken the request for another's (RFC 9112 section 3.2).
fn has_one_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    hosts.next().is_some() && hosts.next().is_none()
}
