//! The issuer's paths as axum routes.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;

use super::documents::Endpoint;
use crate::Issuer;

impl Issuer {
    /// The issuer's paths, absolute and without a fallback: merge it into an application, never nest it, since
    /// the well-known paths hang at the root. Everything else stays the application's, other routes under
    /// `/.well-known/` and routers of issuers with other paths included. `ISS/token` is among them once a
    /// [proof](crate::proofs) is configured; to keep it off a public listener, answer what
    /// [`respond`](Self::respond) and [`respond_token`](Self::respond_token) do where it belongs.
    ///
    /// ```
    /// # fn app(issuer: oneseal::Issuer) -> axum::Router {
    /// axum::Router::new().merge(issuer.router())
    /// # }
    /// ```
    ///
    /// # Panics
    /// As any merge: if the application already has a route for one of these paths.
    pub fn router<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        // An issuer's path may have a segment that begins with a colon; it is meant literally.
        let documents =
            Endpoint::ALL.into_iter().fold(Router::new().without_v07_checks(), |router, endpoint| {
                let issuer = self.clone();
                router.route(
                    self.live().endpoints().path(endpoint),
                    any(move |request: Request| async move { issuer.answer(&request) }),
                )
            });
        let Some(path) = self.live().endpoints().token_path() else { return documents };
        let issuer = self.clone();
        documents.route(path, any(move |request: Request| async move { issuer.answer_token(request).await }))
    }

    async fn answer_token(&self, request: Request) -> Response {
        self.respond_token(request).await.map_or_else(not_found, |response| response.map(Body::from))
    }

    fn answer(&self, request: &Request) -> Response {
        let response = self.respond(request.method(), request.uri().path(), request.headers());
        response.map_or_else(not_found, |response| {
            let has_no_length =
                matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
            response.map(|body| if has_no_length { Body::new(NoBody) } else { Body::from(body) })
        })
    }
}

/// An empty body that does not tell its length. To one that does, axum adds `Content-Length: 0`, which 204 must not
/// have, and which in 304 would say that the document is empty (RFC 9110 section 8.6).
struct NoBody;

impl http_body::Body for NoBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

/// Reached only if an application rewrites the path after routing.
fn not_found() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
