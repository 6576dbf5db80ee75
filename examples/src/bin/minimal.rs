//! The smallest issuer: two documents on a port, from a key that outlives the process.
//!
//! ```sh
//! oneseal keys init --provider file:keyring.json --issuer http://127.0.0.1:8080
//! cargo run -p oneseal-examples --bin minimal -- keyring.json http://127.0.0.1:8080
//! ```

use std::error::Error;

use axum::ServiceExt;
use axum::extract::Request;
use oneseal::{FileProvider, Issuer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Layer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let key = args.next().ok_or("which key file?")?;
    let url = args.next().ok_or("which issuer URL?")?;
    let (issuer, tasks) = Issuer::builder(url, FileProvider::new(key)).build().await?;

    let cancel = CancellationToken::new();
    let mut work = JoinSet::new();
    work.spawn(tasks.run(cancel.clone()));

    // The layer answers before any routing; the router under it serves everything else: here, nothing.
    let app = issuer.documents_layer().layer(axum::Router::new());
    let listener = tokio::net::TcpListener::bind((issuer.url().host(), issuer.url().port())).await?;
    axum::serve(listener, ServiceExt::<Request>::into_make_service(app))
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    cancel.cancel();
    work.join_all().await;
    Ok(())
}
