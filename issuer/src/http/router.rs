//! The issuer's paths as axum routes.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use http::StatusCode;

use super::documents::Endpoint;
use crate::Issuer;

impl Issuer {
    /// The issuer's four paths, absolute and without a fallback: merge it into an application, never nest it, since
    /// the well-known paths hang at the root. Everything else stays the application's, other routes under
    /// `/.well-known/` and routers of issuers with other paths included.
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
        Endpoint::ALL.into_iter().fold(Router::new().without_v07_checks(), |router, endpoint| {
            let issuer = self.clone();
            router.route(
                self.live().endpoints().path(endpoint),
                any(move |request: Request| async move { issuer.answer(&request) }),
            )
        })
    }

    fn answer(&self, request: &Request) -> Response {
        let response = self.respond(request.method(), request.uri().path(), request.headers());
        response.map_or_else(not_found, |response| response.map(Body::from))
    }
}

/// Reached only if an application rewrites the path after routing.
fn not_found() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
