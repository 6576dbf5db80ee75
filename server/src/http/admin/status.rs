//! `GET /admin/v1/status`: which keys this replica serves, and how fresh they are.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use serde_json::{Value, json};

use super::Admin;

/// ```json
/// {
///   "issuer": "https://oidc.example",
///   "incarnation": 1, "revision": 7, "digest": "…hex…", "jwks_etag": "\"…\"",
///   "minting": "on", "age_s": 3, "staleness_limit_s": 3600, "draining": false, "version": "0.1.0",
///   "keys": [ { "kid", "alg", "state", "signs", "has_private" } ]
/// }
/// ```
pub(super) async fn status(Shared(admin): Shared<Arc<Admin>>) -> Response {
    let state = &admin.state;
    let (snapshot, health) = (state.issuer.snapshot(), state.issuer.health());
    let identity = snapshot.identity();
    let keys: Vec<_> = snapshot
        .keys()
        .iter()
        .map(|key| {
            json!({
                "kid": key.kid.as_str(),
                "alg": key.algorithm.as_str(),
                "state": key.state.as_str(),
                "signs": snapshot.signer(key.algorithm).is_some_and(|signer| *signer.kid() == key.kid),
                "has_private": key.has_private,
            })
        })
        .collect();
    let body: Value = json!({
        "issuer": state.issuer.url().as_str(),
        "incarnation": identity.incarnation,
        "revision": identity.revision,
        "digest": identity.digest.to_string(),
        "jwks_etag": snapshot.etag(),
        "minting": health.minting.as_str(),
        "age_s": health.age.as_secs(),
        "staleness_limit_s": health.staleness_limit.map(|limit| limit.as_secs()),
        "draining": state.is_draining(),
        "version": env!("CARGO_PKG_VERSION"),
        "keys": keys,
    });
    ([(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
