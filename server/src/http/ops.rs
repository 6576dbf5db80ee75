//! Probes and metrics, for the orchestrator.
//!
//! Liveness says that the process runs and nothing else: a probe that asked a provider or a database would restart
//! every replica in their outage. Readiness says that this replica can answer, which it can from memory; that it has
//! gone stale takes it out only while another one of its fleet says that it mints, or one outage would take out all of
//! them at once.

use std::sync::Arc;

use axum::extract::{RawQuery, State as Shared};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use oneseal::METRICS_CONTENT_TYPE;
use serde_json::json;

use super::error::ApiError;
use crate::state::{Readiness, State};

/// The application.
pub(crate) fn app(state: Arc<State>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed("GET, HEAD"))
        .fallback(async || ApiError::not_found())
        .with_state(state)
}

async fn livez() -> Response {
    probe(StatusCode::OK, json!({ "live": true }))
}

/// `/readyz`: whether requests should come here. `/readyz?for=mint`: whether this replica mints now.
async fn readyz(Shared(state): Shared<Arc<State>>, RawQuery(query): RawQuery) -> Response {
    let minting = state.issuer.health().minting;
    let readiness = state.readiness();
    let is_ready = match query.as_deref() {
        None | Some("") => readiness == Readiness::Ready,
        Some("for=mint") => readiness == Readiness::Ready && minting.is_on(),
        Some(_) => return ApiError::invalid("the only query here is for=mint").into_response(),
    };
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    probe(
        status,
        json!({
            "ready": is_ready,
            "reason": readiness.as_str(),
            "draining": state.is_draining(),
            "minting": minting.as_str(),
        }),
    )
}

async fn metrics(Shared(state): Shared<Arc<State>>) -> Response {
    let mut text = String::new();
    state.issuer.write_metrics(&mut text);
    state.metrics.write_last(&mut text);
    ([(CONTENT_TYPE, METRICS_CONTENT_TYPE), (CACHE_CONTROL, "no-store")], text).into_response()
}

fn probe(status: StatusCode, body: serde_json::Value) -> Response {
    (status, [(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
