//! `GET /admin/v1/status`: which keys this replica serves, and how fresh they are.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use oneseal_keystore::findings::Severity;
use serde_json::{Value, json};

use super::Admin;
use crate::fleet::Membership;

/// ```json
/// {
///   "issuer": "https://oidc.example",
///   "incarnation": 1, "revision": 7, "digest": "…hex…", "jwks_etag": "\"…\"",
///   "minting": "on", "age_s": 3, "staleness_limit_s": 3600, "readiness": "ready", "draining": false, "version": "0.1.0",
///   "clock_offset_ms": -120 | null,
///   "fleet": { "name", "instance", "boot_id", "database": "up", "beat_age_s": 2, "replicas": 3, "behind": false,
///              "conflicts": [ "fleet.jwks_differs" ], "event_head": 17 } | null,
///   "rules": { "count": 3, "loaded_at": 1764450000, "refused": [ { "code", "place", "message" } ], "restart_for": [ "listen.ops" ] },
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
        "readiness": state.readiness().as_str(),
        "draining": state.is_draining(),
        "clock_offset_ms": state.issuer.clock_offset_ms(),
        "fleet": state.fleet.as_deref().map(fleet),
        "rules": state.rules.as_json(state.issuer.current_rules().len()),
        "version": env!("CARGO_PKG_VERSION"),
        "keys": keys,
    });
    ([(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// This replica among the others, as of its last beat.
fn fleet(membership: &Membership) -> Value {
    let view = membership.view();
    let judgement = view.as_ref().map(|view| &view.judgement);
    let errors = judgement.into_iter().flat_map(|judgement| judgement.findings.iter());
    let errors = errors.filter(|finding| finding.code.severity == Severity::Error);
    json!({
        "name": membership.fleet(),
        "instance": membership.instance(),
        "boot_id": membership.boot_id().to_string(),
        "database": if membership.is_store_up() { "up" } else { "down" },
        "beat_age_s": membership.beat_age().map(|age| age.as_secs()),
        "replicas": view.as_ref().map(|view| view.fleet.publish_points().count()),
        "behind": judgement.is_some_and(|judgement| judgement.ahead.is_some()),
        "conflicts": errors.map(|finding| finding.code.name).collect::<Vec<_>>(),
        "event_head": view.as_ref().map(|view| view.event_head),
    })
}
