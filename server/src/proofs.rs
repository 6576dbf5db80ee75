//! Who vouches for workloads, as the configuration has it: made before anything is bound, asked once before it serves.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use oneseal::proofs::{
    ASSERTION_NO_REPLAY_GUARD, AssertionIssuer, AssertionProof, Cluster, ClusterBuilder, KubernetesProof,
    Review, SingleProcess,
};
use oneseal::{Builder, Findings, IssuerUrl};
use oneseal_coordination::database::{Database, DatabaseOptions};
use oneseal_coordination::once::UsedOnce;
use oneseal_providers::kubernetes::ApiServerOptions;

use crate::config::{AssertionIssuerChoice, AssertionKeys, ClusterChoice, ClusterKeys, Config, Fetch};

/// What tokens are taken as proof.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    clusters: Option<KubernetesProof>,
    assertions: Option<AssertionProof>,
}

impl Proofs {
    /// Those of the configuration. Nobody is asked; files are read.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub(crate) fn open(config: &Config) -> Result<Self, Findings> {
        let settings = &config.settings;
        let database = settings.database.as_ref();
        let clusters = clusters(&settings.clusters, &config.issuer);
        let assertions = assertions(&settings.assertion_issuers, &config.issuer, database);
        match (clusters, assertions) {
            (Ok(clusters), Ok(assertions)) => Ok(Self { clusters, assertions }),
            (Err(mut found), Err(more)) => {
                found.extend(more);
                Err(found)
            }
            (Err(found), _) | (_, Err(found)) => Err(found),
        }
    }

    /// Gives them to the builder of an issuer.
    pub(crate) fn give(&self, builder: Builder) -> Builder {
        let builder = match &self.clusters {
            Some(clusters) => builder.proof(clusters.clone()),
            None => builder,
        };
        match &self.assertions {
            Some(assertions) => builder.proof(assertions.clone()),
            None => builder,
        }
    }

    /// What is worth knowing about how they are set up.
    pub(crate) fn advice(&self) -> Findings {
        self.clusters.as_ref().map(KubernetesProof::advice).unwrap_or_default()
    }

    /// Reads the keys of all who vouch at once, each within its own `timeout`: what is missing now is a warning, and
    /// whoever sends a token meanwhile is told to come again.
    ///
    /// # Cancel safety
    /// Changes nothing but which keys are held.
    pub(crate) async fn probe(&self) -> Findings {
        let clusters = async {
            match &self.clusters {
                Some(clusters) => clusters.probe().await,
                None => Findings::new(),
            }
        };
        let assertions = async {
            match &self.assertions {
                Some(assertions) => assertions.probe().await,
                None => Findings::new(),
            }
        };
        let (mut found, more) = join(clusters, assertions).await;
        found.extend(more);
        found
    }
}

fn clusters(choices: &[ClusterChoice], own: &IssuerUrl) -> Result<Option<KubernetesProof>, Findings> {
    let (mut clusters, mut faults) = (Vec::new(), Findings::new());
    for choice in choices {
        match cluster(choice, own).build() {
            Ok(cluster) => clusters.push(cluster),
            Err(found) => faults.extend(found),
        }
    }
    if faults.has_errors() {
        return Err(faults);
    }
    if clusters.is_empty() { Ok(None) } else { KubernetesProof::new(clusters).map(Some) }
}

fn cluster(choice: &ClusterChoice, own: &IssuerUrl) -> ClusterBuilder {
    let mut access = ApiServerOptions::default();
    access.kubeconfig.clone_from(&choice.kubeconfig);
    access.context.clone_from(&choice.context);
    let audience = choice.audience.as_deref().unwrap_or(own.as_str());
    let cluster = Cluster::builder(&choice.name, &choice.issuer)
        .audience(audience)
        .api_server(access)
        .review(if choice.is_reviewed { Review::Required } else { Review::Off })
        .max_reviews(choice.max_reviews)
        .max_lifetime(choice.max_lifetime)
        .timeout(choice.timeout);
    match &choice.keys {
        ClusterKeys::Api => cluster,
        ClusterKeys::File(path) => cluster.jwks_file(path),
        ClusterKeys::Discovery(fetch) => fetched(cluster.keys_by_discovery(), fetch),
        ClusterKeys::Uri(uri, fetch) => fetched(cluster.jwks_uri(uri), fetch),
    }
}

fn fetched(mut cluster: ClusterBuilder, fetch: &Fetch) -> ClusterBuilder {
    if let Some(path) = &fetch.ca_bundle {
        cluster = cluster.ca_file(path);
    }
    match &fetch.proxy {
        Some(proxy) => cluster.proxy(proxy),
        None => cluster,
    }
}

fn assertions(
    choices: &[AssertionIssuerChoice],
    own: &IssuerUrl,
    database: Option<&DatabaseOptions>,
) -> Result<Option<AssertionProof>, Findings> {
    let Some(first) = choices.first() else { return Ok(None) };
    let issuers = choices.iter().map(issuer).collect();
    let Some(options) = database else {
        let mut found = Findings::new();
        let message = "assertions are to be taken, and no [database] is configured";
        found.push(&ASSERTION_NO_REPLAY_GUARD, first.place.as_str(), message);
        // Whatever else is wrong with them is told with it.
        let others = AssertionProof::new(issuers, own, Arc::new(SingleProcess::new()));
        found.extend(others.err().unwrap_or_default());
        return Err(found);
    };
    // A database that cannot be used at all is refused before anybody asks this one.
    let Ok(database) = Database::new(marks(options)) else { return Ok(None) };
    AssertionProof::new(issuers, own, Arc::new(UsedOnce::new(database))).map(Some)
}

/// Connections of its own: a burst of assertions must not keep the replica from its beat. And less patience: whoever
/// waits for a token waits for nothing else.
fn marks(options: &DatabaseOptions) -> DatabaseOptions {
    let mut options = options.clone();
    options.application_name = format!("{}/once", options.application_name);
    for limit in [
        &mut options.connect_timeout,
        &mut options.acquire_timeout,
        &mut options.statement_timeout,
        &mut options.lock_timeout,
    ] {
        *limit = (*limit).min(PATIENCE);
    }
    options
}

fn issuer(choice: &AssertionIssuerChoice) -> AssertionIssuer {
    let mut issuer = AssertionIssuer::new(&choice.name, &choice.issuer)
        .algorithms(choice.algorithms.iter().copied())
        .timeout(choice.timeout);
    issuer = match &choice.keys {
        AssertionKeys::Discovery => issuer,
        AssertionKeys::Uri(uri) => issuer.jwks_uri(uri),
        AssertionKeys::File(path) => issuer.jwks_file(path),
    };
    if let Some(path) = &choice.ca_bundle {
        issuer = issuer.root_certificate_file(path);
    }
    match &choice.proxy {
        Some(proxy) => issuer.proxy(proxy),
        None => issuer,
    }
}

/// For each step of marking an assertion.
const PATIENCE: Duration = Duration::from_secs(2);
