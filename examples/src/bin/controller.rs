//! A controller that is an issuer too: the pods that it launches prove who they are to AWS without a stored secret, and
//! nobody else's pods do.
//!
//! The key is made once, by an operator, for all replicas. The kubeconfig is for the cluster in which the pods run:
//! ```sh
//! oneseal keys init --provider file:keyring.json --issuer http://127.0.0.1:8080
//! cargo run -p oneseal-examples --bin controller -- keyring.json http://127.0.0.1:8080 kubeconfig builds
//! curl -X POST http://127.0.0.1:8080/pods/build-7
//! ```
//! In the pod: `oneseal token --issuer http://127.0.0.1:8080 --audience sts.amazonaws.com`.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use futures_util::future::BoxFuture;
use oneseal::proofs::{Cluster, Grant, KubernetesProof, Proof, ProofError};
use oneseal::providers::kubernetes::{ApiServer, ApiServerOptions};
use oneseal::{FileProvider, Issuer, Subject, VerifiedWorkload};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let key = args.next().ok_or("which key file?")?;
    let url = args.next().ok_or("which issuer URL?")?;
    let cluster = ApiServerOptions::default().by_kubeconfig(args.next().ok_or("which kubeconfig?")?);
    let pods = Pods {
        cluster: ApiServer::new(cluster.clone()),
        namespace: args.next().ok_or("which namespace?")?,
        launched: Launched::default(),
    };
    let proof =
        LaunchedHere { tokens: tokens_of(cluster, &pods, &url).await?, launched: pods.launched.clone() };
    let (issuer, tasks) = Issuer::builder(url, FileProvider::new(key))
        .proof(proof)
        .allow("sts.amazonaws.com", Duration::from_secs(15 * 60))
        .build()
        .await?;
    let cancel = CancellationToken::new();
    let mut work = JoinSet::new();
    work.spawn(tasks.run(cancel.clone()));

    let metrics = Router::new().route("/metrics", get(metrics)).with_state(issuer.clone());
    let app = Router::new()
        .route("/pods/{name}", post(launch))
        .fallback(async || (StatusCode::NOT_FOUND, "the controller has no such page"))
        .with_state(pods)
        .merge(metrics)
        .merge(issuer.router());
    let listener = tokio::net::TcpListener::bind((issuer.url().host(), issuer.url().port())).await?;
    axum::serve(listener, app).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;
    cancel.cancel();
    work.join_all().await;
    Ok(())
}

/// The jobs of the pods that this controller has launched, by the pods' uids: names come again, uids do not. A controller
/// with replicas keeps them where all of these see them.
#[derive(Clone, Debug, Default)]
struct Launched(Arc<Mutex<HashMap<String, String>>>);

impl Launched {
    fn remember(&self, uid: &str, job: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), job);
    }

    fn job(&self, uid: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }
}

/// The cluster, and what was launched there.
#[derive(Clone)]
struct Pods {
    cluster: ApiServer,
    namespace: String,
    launched: Launched,
}

/// Takes tokens of service accounts of one cluster, for this issuer.
async fn tokens_of(
    access: ApiServerOptions,
    pods: &Pods,
    issuer: &str,
) -> Result<KubernetesProof, Box<dyn Error>> {
    let discovery = pods.cluster.get("/.well-known/openid-configuration").await?;
    let discovery: Value = serde_json::from_slice(&discovery)?;
    let issuer_of_tokens =
        discovery["issuer"].as_str().ok_or("the cluster does not say who issues its tokens")?;
    let cluster = Cluster::builder("here", issuer_of_tokens).audience(issuer).api_server(access).build()?;
    Ok(KubernetesProof::new(vec![cluster])?)
}

/// A pod's token proves that it is this pod; whether it is one of ours is known here alone.
#[derive(Debug)]
struct LaunchedHere {
    tokens: KubernetesProof,
    launched: Launched,
}

impl Proof for LaunchedHere {
    fn name(&self) -> &'static str {
        "launched_here"
    }

    fn grant(&self) -> Grant {
        self.tokens.grant()
    }

    fn is_for(&self, issuer: &str) -> bool {
        self.tokens.is_for(issuer)
    }

    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<VerifiedWorkload, ProofError>> {
        Box::pin(async {
            let pod = self.tokens.verify(token).await?;
            let stranger = || ProofError::invalid("not_launched", "the pod is none of this controller's");
            let uid = pod.facts().named("pod_uid").ok_or_else(stranger)?;
            let job = self.launched.job(uid).ok_or_else(stranger)?;
            let subject = Subject::parse(&job).map_err(|_| stranger())?;
            VerifiedWorkload::vouched_by_embedder(subject).with_claim("pod_uid", uid).map_err(|_| stranger())
        })
    }
}

/// Launches a pod whose token is for this issuer. What runs in it is not of this example.
async fn launch(State(pods): State<Pods>, Path(name): Path<String>) -> impl IntoResponse {
    let job = format!("controller:job:{name}");
    if Subject::parse(&job).is_err() {
        return (StatusCode::BAD_REQUEST, "a job's name has no blanks and at most 112 bytes".to_owned());
    }
    let container = json!({"name": "main", "image": "registry.example/job:1"});
    let spec = json!({"serviceAccountName": "default", "containers": [container]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
    let path = format!("/api/v1/namespaces/{}/pods", pods.namespace);
    let made = match pods.cluster.post(&path, &pod).await {
        Ok(made) => made,
        Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()),
    };
    let made: Value = serde_json::from_slice(&made).unwrap_or_default();
    let Some(uid) = made.pointer("/metadata/uid").and_then(Value::as_str) else {
        return (StatusCode::BAD_GATEWAY, "the cluster did not say which pod it made".to_owned());
    };
    pods.launched.remember(uid, job);
    (StatusCode::CREATED, uid.to_owned())
}

/// The controller's own metrics, and the issuer's beside them.
async fn metrics(State(issuer): State<Issuer>) -> impl IntoResponse {
    let own = "# TYPE controller_up gauge\ncontroller_up 1\n";
    ([(header::CONTENT_TYPE, oneseal::METRICS_CONTENT_TYPE)], format!("{own}{}", issuer.encode_metrics()))
}
