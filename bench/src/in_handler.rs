//! What oneseal would be without its signing threads: the same key, the same documents, and each token signed where its
//! request is read.
//!
//! A small server on the library's own keystore. It does less for a request than the real one (no rules, no audit line,
//! no counters), so it keeps the key set waiting less than the real one would if it signed there: what we are better by
//! is rather told too small.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use oneseal_coordination::SystemClock;
use oneseal_keystore::{Algorithm, IssuerUrl, Keystore, KeystoreOptions, Snapshot};
use oneseal_providers::FileProvider;
use serde_json::{Value, json};

use crate::hyper_raw::{accept, runtime};
use crate::minting::MINT;
use crate::server::{ALGORITHMS, JWKS};

/// Serves the ring in the file at `ring`, at a free port of loopback, until the process ends.
///
/// # Panics
/// If it is no ring, or nothing can be bound.
pub fn serve(ring: &Path) {
    runtime().block_on(async {
        let provider = FileProvider::new(ring).assume_durable(true);
        let issuer = IssuerUrl::parse("https://localhost", "bench").expect("a good issuer");
        let mut options = KeystoreOptions::new(issuer);
        options.algorithms = ALGORITHMS.to_vec();
        let opened = Keystore::open(Arc::new(provider), options, Arc::new(SystemClock)).await;
        // Nobody changes the ring of a bench: there is nothing to follow.
        let (keystore, _follower) = opened.expect("a good ring");
        let snapshot = keystore.snapshot();
        accept(move |stream| {
            let snapshot = Arc::clone(&snapshot);
            async move {
                let service = service_fn(move |request| {
                    let snapshot = Arc::clone(&snapshot);
                    async move { Ok::<_, Infallible>(answer(&snapshot, request).await) }
                });
                // A client that went away is nobody's fault.
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
            }
        })
        .await;
    });
}

async fn answer(snapshot: &Snapshot, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = match (request.method(), request.uri().path()) {
        (&Method::GET, JWKS) => Some(snapshot.jwks().clone()),
        (&Method::POST, MINT) => mint(snapshot, request).await.map(|answer| answer.to_string().into()),
        _ => None,
    };
    let mut response = Response::new(Full::new(body.clone().unwrap_or_default()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if body.is_none() {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    response
}

async fn mint(snapshot: &Snapshot, request: Request<Incoming>) -> Option<Value> {
    let body = request.into_body().collect().await.ok()?.to_bytes();
    let asked: Value = serde_json::from_slice(&body).ok()?;
    let algorithm = asked["alg"].as_str()?;
    let algorithm = Algorithm::ALL.into_iter().find(|known| known.as_str() == algorithm)?;
    let token = snapshot.sign(algorithm, &crate::raw::claims()).await.ok()?;
    Some(json!({ "token": token, "kid": snapshot.signer(algorithm)?.kid().as_str(), "exp": 0 }))
}
