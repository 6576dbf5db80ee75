//! Whether the clusters can be asked, before a pod finds out: for `oneseal check`, and to warm up.

use futures_util::future::{join_all, join3};
use oneseal_keystore::findings::{Code, Findings, chain};
#[cfg(feature = "kubernetes")]
use oneseal_keystore::json;

use super::cluster::place_of;
use super::codes::*;
#[cfg(feature = "kubernetes")]
use super::reviewer::Missing;
use super::{Cluster, KubernetesProof};

impl KubernetesProof {
    /// Reads the keys of each cluster, asks each API server for its issuer, and has each that is reviewed look at a token
    /// that is none, all at once.
    ///
    /// What is found are warnings: a cluster that cannot be asked now may be in a minute, and the others, and the
    /// documents, are served without it.
    ///
    /// # Cancel safety
    /// Changes nothing but which keys are held; may be dropped at any time.
    pub async fn probe(&self) -> Findings {
        let mut found = Findings::new();
        for findings in join_all(self.clusters().iter().map(probe)).await {
            found.extend(findings);
        }
        self.compare().await;
        found
    }

    /// Reads those with one issuer once more, each after all the others, so that each key's place is known before a
    /// neighbour can claim it. One that could not be read has been told of.
    async fn compare(&self) {
        let clusters = self.clusters();
        let is_namesake = |one: &&Cluster| {
            let mut others = clusters.iter().filter(|other| !std::ptr::eq(*one, *other));
            others.any(|other| other.issuer == one.issuer)
        };
        join_all(clusters.iter().filter(is_namesake).map(|cluster| cluster.verifier.refresh())).await;
    }
}

async fn probe(cluster: &Cluster) -> Findings {
    let (mut found, place) = (Findings::new(), place_of(&cluster.name));
    let (issuer, keys, review) =
        join3(other_issuer(cluster), cluster.verifier.refresh(), review(cluster)).await;
    if let Some(issuer) = issuer {
        let message = format!("its API server says {issuer}, not {}", shown(cluster.issuer.as_str()));
        found.push(&CLUSTER_ISSUER_DIFFERS, place.as_str(), message);
    }
    if let Err(unavailable) = keys {
        found.push(&CLUSTER_KEYS_UNREADABLE, place.as_str(), chain(&unavailable));
    }
    if let Err((code, why)) = review {
        found.push(code, place, why);
    }
    found
}

/// What the API server calls itself, as text that can be shown, if that is not what is configured. One that cannot be asked
/// for it says nothing against the configuration; what stands in the way is told of keys and reviews.
#[cfg(feature = "kubernetes")]
async fn other_issuer(cluster: &Cluster) -> Option<String> {
    let document = cluster.api.as_ref()?.get(DISCOVERY).await.ok()?;
    let document = json::parse_object(&document).ok()?;
    let issuer = document.get("issuer")?.as_str()?;
    (issuer != cluster.issuer.as_str()).then(|| shown(issuer))
}

#[cfg(not(feature = "kubernetes"))]
async fn other_issuer(_: &Cluster) -> Option<String> {
    None
}

/// In one line, cut, and its end plain to see.
fn shown(issuer: &str) -> String {
    let cut: String = issuer.chars().take(MAX_SHOWN).collect();
    let dots = if cut.len() < issuer.len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.escape_debug())
}

/// Where an API server has what it says of its issuer (`service-account-issuer-discovery`).
#[cfg(feature = "kubernetes")]
const DISCOVERY: &str = "/.well-known/openid-configuration";
const MAX_SHOWN: usize = 256;

#[cfg(feature = "kubernetes")]
async fn review(cluster: &Cluster) -> Result<(), (&'static Code, String)> {
    let Some(reviewer) = &cluster.reviewer else { return Ok(()) };
    reviewer.probe().await.map_err(|(missing, why)| match missing {
        Missing::Right => (&CLUSTER_REVIEW_DENIED, why),
        Missing::Answer => (&CLUSTER_REVIEW_UNAVAILABLE, why),
    })
}

#[cfg(not(feature = "kubernetes"))]
async fn review(_: &Cluster) -> Result<(), (&'static Code, String)> {
    Ok(())
}
