//! An OIDC issuer whose replicas share one persistent signing key, for a controller that embeds it.
//!
//! **What it is.** An [`Issuer`] in your own process: it mints ID tokens for the workloads you launch, and publishes
//! the discovery document and key set by which AWS, GCP, Entra, Vault or Kubernetes verify them. Every replica that
//! reads the same key publishes the same bytes, and a token minted on one verifies by all.
//!
//! **What it will not do.** Make a key: without a persistent one [`Builder::build`] fails, and only
//! [`keystore::init`], which you call in a command of your own, creates the first. Read configuration files, start a
//! listener, spawn tasks behind your back. Touch anything process-wide: no crypto provider, subscriber, metrics
//! recorder, panic hook or signal handler. Log people in.
//!
//! ```text
//! provider ─► keystore ─► Snapshot ─┬─► documents   GET discovery, jwks.json
//!                                   └─► signer ◄─── claims ◄── rules ◄── mint(&VerifiedWorkload, &Audience)
//! ```
//!
//! **The smallest program.** A controller with its own routes beside the issuer's:
//! ```no_run
//! use std::time::Duration;
//! use oneseal::{Audience, FileProvider, Issuer, Subject, VerifiedWorkload};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn serve<S>(_: S) {}
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = FileProvider::new("/var/lib/controller/keyring.json");
//! let (issuer, tasks) = Issuer::builder("https://oidc.example", provider)
//!     .allow("sts.amazonaws.com", Duration::from_secs(3600))
//!     .build()
//!     .await?;
//! let stop = CancellationToken::new();
//! let follower = tokio::task::JoinSet::from_iter([tasks.run(stop.clone())]);
//!
//! let app: axum::Router = axum::Router::new().merge(issuer.router()); // and your own routes
//! serve(tower::Layer::layer(&issuer.documents_layer(), app)).await;
//!
//! // Your controller has just launched this pod, so it can vouch for it.
//! let pod = VerifiedWorkload::vouched_by_embedder(Subject::parse("project:42:env:prod")?);
//! let minted = issuer.mint(&pod, &Audience::parse("sts.amazonaws.com")?).await?;
//! # drop((minted, follower));
//! # Ok(())
//! # }
//! ```
//!
//! **Pods that prove themselves.** With the feature `proofs`, [`Builder::proof`] takes one or more ways to know a
//! workload, and [`Issuer::router`] has `POST /token`, where pods fetch their tokens. The example `controller` mints for the
//! pods that it has launched and for no others, by their uids; `docs/embedding.md` says what is yours to bring.
//!
//! # Features
//! | feature | brings |
//! |---|---|
//! | `file` (default) | [`FileProvider`]: a file, or a directory as kubelet mounts it |
//! | `inline` | `EnvProvider` and `InlineProvider`: one value, read once |
//! | `aws` | `providers::AwsProvider`: a secret in AWS Secrets Manager |
//! | `proofs` | `proofs::KubernetesProof` and `proofs::AssertionProof`; `POST /token` is there for any [proof](proofs) |

mod builder;
mod claims;
mod codes;
mod error;
mod health;
mod http;
mod issuer;
mod metrics;
mod mint;
mod pool;
pub mod proofs;
mod published;
mod reference;
mod rules;
mod tasks;
pub mod token;
mod verify;
mod workload;

pub use builder::Builder;
pub use claims::set::MAX_TOKEN_LEN;
pub use claims::{Audience, ClaimError, ExtraClaims, Subject, TokenLifetime};
pub use codes::all_codes;
pub use error::{MintError, VerifyError};
pub use health::{Health, Minting};
pub use http::layer::{DocumentsLayer, DocumentsService};
pub use issuer::Issuer;
pub use metrics::METRICS_CONTENT_TYPE;
pub use mint::{MintRequest, Minted, Preview};
pub use rules::{Considered, Mismatch, NoRule, Pattern, Rehearsal, Rehearsed, Rule, RuleSet, Unwritable};
pub use tasks::Tasks;
pub use verify::Claims;
pub use workload::{Facts, Strength, VerifiedWorkload, Voucher};

pub use oneseal_coordination::{BootTime, Clock, SystemClock, UnixTime};
pub use oneseal_keystore as keystore;
pub use oneseal_keystore::{
    Algorithm, Digest, Finding, Findings, Identity, IssuerUrl, KeyId, Mode, Rotation, Snapshot,
};
pub use oneseal_providers as providers;
#[cfg(feature = "file")]
pub use oneseal_providers::FileProvider;
pub use oneseal_providers::SecretProvider;
#[cfg(feature = "inline")]
pub use oneseal_providers::{EnvProvider, InlineProvider};
