//! Service accounts: a pod's projected token becomes a [`VerifiedWorkload`].
//!
//! ```text
//! token ─► iss ─► the clusters that have this issuer ─► whose key is it? ─► that cluster's claims, and its review
//!                 (offline, by each one's own keys)     one cluster's, or refused
//! ```
//!
//! Offline first: only a token whose signature, audience, life and account are good costs its API server a question, and
//! nobody else ever sees it. The cluster whose key verified it *is* its cluster: several may have one issuer string, as
//! every cluster of kubeadm has, and a token of one says nothing to another. Among those a key is of the one where it was
//! first, see `owner`.
//!
//! The review (TokenReview) is there for what a signature cannot say: that the pod and the account still are. A server that
//! cannot be asked, or that answers anything but what it was asked, leaves the token undecided: 503, never a refusal.
//! A cluster with [`Review::Off`] gives [`Strength::Signed`].

mod account;
mod cluster;
mod codes;
mod owner;
mod probe;
#[cfg(feature = "kubernetes")]
mod review;
#[cfg(feature = "kubernetes")]
mod reviewer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use oneseal_keystore::findings::Findings;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

pub use cluster::{Cluster, ClusterBuilder, Review};
pub(crate) use codes::CODES;

use super::{Grant, Proof, ProofError};
use crate::workload::{Strength, VerifiedWorkload, Voucher};
use account::Account;
use cluster::place_of;

/// Takes the tokens of service accounts of some clusters as proof. Clones share everything.
///
/// ```
/// use oneseal::proofs::{Cluster, KubernetesProof, Review};
///
/// # let jwks = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
/// let cluster = Cluster::builder("prod", "https://kubernetes.default.svc.cluster.local")
///     .audience("https://oidc.example")
///     .jwks(jwks) // kubectl get --raw /openid/v1/jwks
///     .review(Review::Off)
///     .build()?;
/// let proof = KubernetesProof::new(vec![cluster])?;
/// # Ok::<(), oneseal::Findings>(())
/// ```
#[derive(Clone)]
pub struct KubernetesProof {
    inner: Arc<Inner>,
}

struct Inner {
    clusters: Vec<Cluster>,
    told: owner::Told,
    metrics: Registry,
}

impl KubernetesProof {
    /// Takes the tokens of these clusters.
    ///
    /// # Errors
    /// What they contradict each other in: `cluster.name_twice`, `cluster.same_access`, `cluster.key_shared`.
    pub fn new(
        #[cfg_attr(
            not(feature = "kubernetes"),
            expect(unused_mut, reason = "nothing but reviews is counted")
        )]
        mut clusters: Vec<Cluster>,
    ) -> Result<Self, Findings> {
        let found = contradictions(&clusters);
        if found.has_errors() {
            return Err(found);
        }
        #[cfg_attr(
            not(feature = "kubernetes"),
            expect(unused_mut, reason = "nothing but reviews is counted")
        )]
        let mut metrics = Registry::with_prefix("oneseal");
        #[cfg(feature = "kubernetes")]
        reviewer::register(&mut metrics, &mut clusters);
        Ok(Self { inner: Arc::new(Inner { clusters, told: owner::Told::default(), metrics }) })
    }

    /// What is worth knowing about how they are set up: `cluster.unreviewed`.
    pub fn advice(&self) -> Findings {
        let mut found = Findings::new();
        for cluster in self.clusters().iter().filter(|cluster| !cluster.is_reviewed()) {
            found.push(&codes::CLUSTER_UNREVIEWED, place_of(&cluster.name), "review is off");
        }
        found
    }

    /// The clusters, in the order in which they were given.
    pub fn clusters(&self) -> &[Cluster] {
        &self.inner.clusters
    }

    async fn prove(&self, token: &str) -> Result<VerifiedWorkload, ProofError> {
        let (cluster, verified) = owner::judge(self.clusters(), &self.inner.told, token).await?;
        let claims = verified.claims.as_map();
        let account = Account::read(claims).map_err(|why| {
            ProofError::invalid("not_a_service_account", format!("the token is no service account's: {why}"))
        })?;
        let strength = strength(cluster, token, &account).await?;
        let facts = account.facts(&cluster.name).with_claims(claims.clone());
        let voucher = Voucher::Cluster(cluster.name.clone());
        Ok(VerifiedWorkload::proved(account.username(), voucher, strength, facts))
    }
}

#[cfg(feature = "kubernetes")]
async fn strength(cluster: &Cluster, token: &str, account: &Account) -> Result<Strength, ProofError> {
    let Some(reviewer) = &cluster.reviewer else { return Ok(Strength::Signed) };
    reviewer.review(&cluster.name, token, account).await?;
    Ok(Strength::Reviewed)
}

#[cfg(not(feature = "kubernetes"))]
async fn strength(_: &Cluster, _: &str, _: &Account) -> Result<Strength, ProofError> {
    Ok(Strength::Signed)
}

impl Proof for KubernetesProof {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn grant(&self) -> Grant {
        Grant::TokenExchange
    }

    fn is_for(&self, issuer: &str) -> bool {
        self.clusters().iter().any(|cluster| cluster.issuer.as_str() == issuer)
    }

    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<VerifiedWorkload, ProofError>> {
        Box::pin(self.prove(token))
    }

    fn write_metrics(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = encode_registry(out, &self.inner.metrics);
    }
}

impl fmt::Debug for KubernetesProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesProof").field("clusters", &self.inner.clusters).finish()
    }
}

/// Within what a client waits for and a dependency may ask for.
fn bounded(wait: Duration) -> Duration {
    wait.clamp(Duration::from_secs(1), Duration::from_secs(60))
}

/// What is wrong with them together.
fn contradictions(clusters: &[Cluster]) -> Findings {
    let mut found = Findings::new();
    for (i, one) in clusters.iter().enumerate() {
        for other in &clusters[..i] {
            let place = place_of(&one.name);
            if one.name == other.name {
                found.push(
                    &codes::CLUSTER_NAME_TWICE,
                    place.as_str(),
                    "the name stands at another cluster as well",
                );
            }
            #[cfg(feature = "kubernetes")]
            if one.access.is_some() && one.access == other.access {
                let message = format!("it is asked at the API server of {}", other.name);
                found.push(&codes::CLUSTER_SAME_ACCESS, place.as_str(), message);
            }
            if one.issuer == other.issuer && owner::share_a_key(one, other) {
                let message = format!("it shares a key with {}", other.name);
                found.push(&codes::CLUSTER_KEY_SHARED, place, message);
            }
        }
    }
    found
}
