//! Whether the clusters can be asked, before a pod finds out: for `oneseal check`, and to warm up.

use futures_util::future::join_all;
use oneseal_keystore::findings::{Findings, chain};

use super::cluster::place_of;
use super::codes::*;
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
    if let Err(unavailable) = cluster.verifier.refresh().await {
        found.push(&CLUSTER_KEYS_UNREADABLE, place.as_str(), chain(&unavailable));
    }
    #[cfg(feature = "kubernetes")]
    if let Some(reviewer) = &cluster.reviewer
        && let Err((missing, why)) = reviewer.probe().await
    {
        let code = match missing {
            super::reviewer::Missing::Right => &CLUSTER_REVIEW_DENIED,
            super::reviewer::Missing::Answer => &CLUSTER_REVIEW_UNAVAILABLE,
        };
        found.push(code, place, why);
    }
    found
}
