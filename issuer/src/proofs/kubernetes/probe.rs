//! Whether the clusters can be asked, before a pod finds out: for `oneseal check`, and to warm up.

use futures_util::future::{join, join_all};
use oneseal_keystore::findings::{Code, Findings, chain};

use super::cluster::place_of;
use super::codes::*;
#[cfg(feature = "kubernetes")]
use super::reviewer::Missing;
use super::{Cluster, KubernetesProof};

impl KubernetesProof {
    /// Reads the keys of each cluster, and has each that is reviewed look at a token that is none, all at once.
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
        found
    }
}

async fn probe(cluster: &Cluster) -> Findings {
    let (mut found, place) = (Findings::new(), place_of(&cluster.name));
    let (keys, review) = join(cluster.verifier.refresh(), review(cluster)).await;
    if let Err(unavailable) = keys {
        found.push(&CLUSTER_KEYS_UNREADABLE, place.as_str(), chain(&unavailable));
    }
    if let Err((code, why)) = review {
        found.push(code, place, why);
    }
    found
}

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
