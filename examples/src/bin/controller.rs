//! A controller that is an issuer too: its pods prove who they are to AWS without a stored secret.
//!
//! The key is made once, by an operator, for all replicas:
//! ```sh
//! oneseal keys init --provider file:keyring.json --issuer http://127.0.0.1:8080
//! cargo run -p oneseal-examples --bin controller -- keyring.json http://127.0.0.1:8080
//! curl -X POST http://127.0.0.1:8080/pods/build-7
//! ```

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use oneseal::{Audience, FileProvider, Issuer, MintError, Subject, VerifiedWorkload};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let key = args.next().ok_or("which key file?")?;
    let url = args.next().ok_or("which issuer URL?")?;
    let (issuer, tasks) = Issuer::builder(url, FileProvider::new(key))
        .allow("sts.amazonaws.com", Duration::from_secs(15 * 60))
        .build()
        .await?;
    let cancel = CancellationToken::new();
    let mut work = JoinSet::new();
    work.spawn(tasks.run(cancel.clone()));

    let app = Router::new()
        .route("/pods/{name}", post(launch))
        .route("/metrics", get(metrics))
        .fallback(async || (StatusCode::NOT_FOUND, "the controller has no such page"))
        .with_state(issuer.clone())
        .merge(issuer.router());
    let listener = tokio::net::TcpListener::bind((issuer.url().host(), issuer.url().port())).await?;
    axum::serve(listener, app).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;
    cancel.cancel();
    work.join_all().await;
    Ok(())
}

/// Launches a pod and hands it its token. The controller made the pod, so it can vouch for it.
async fn launch(State(issuer): State<Issuer>, Path(name): Path<String>) -> impl IntoResponse {
    let Ok(subject) = Subject::parse(format!("controller:pod:{name}")) else {
        return (StatusCode::BAD_REQUEST, "a pod's name has no blanks and at most 112 bytes".to_owned());
    };
    let workload = VerifiedWorkload::vouched_by_embedder(subject);
    let audience = Audience::parse("sts.amazonaws.com").expect("a constant");
    match issuer.mint(&workload, &audience).await {
        Ok(minted) => (StatusCode::CREATED, minted.token),
        Err(error) => (status(&error), error.to_string()),
    }
}

fn status(error: &MintError) -> StatusCode {
    if error.is_retryable() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR }
}

/// The controller's own metrics, and the issuer's beside them.
async fn metrics(State(issuer): State<Issuer>) -> impl IntoResponse {
    let own = "# TYPE controller_up gauge\ncontroller_up 1\n";
    ([(header::CONTENT_TYPE, oneseal::METRICS_CONTENT_TYPE)], format!("{own}{}", issuer.encode_metrics()))
}
