//! One cluster whose service accounts prove who they are: what it is called, whose tokens it signs, how it is asked.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oneseal_coordination::{Clock, SystemClock};
use oneseal_keystore::findings::{Code, Findings, chain};
use oneseal_keystore::{IssuerUrl, KeyId, PublicKey, json};
#[cfg(feature = "kubernetes")]
use oneseal_providers::kubernetes::{ApiServer, ApiServerError, ApiServerOptions};
use oneseal_relying_party::{AudienceForm, Builder as Verifier, KeySource, RelyingParty};

use super::codes::*;
#[cfg(feature = "kubernetes")]
use super::reviewer::{ApiKeys, Reviewer};
use crate::proofs::key_file::KeyFile;

/// Collects what a [`Cluster`] needs. Only its name, its issuer and the audience cannot be defaulted.
///
/// # Defaults
/// The keys are read at the API server; [`Review::Required`]; the API server is the one that `kubectl` would ask, in a pod
/// the cluster's own; [`DEFAULT_MAX_REVIEWS`](Self::DEFAULT_MAX_REVIEWS),
/// [`DEFAULT_MAX_LIFETIME`](Self::DEFAULT_MAX_LIFETIME), [`DEFAULT_TIMEOUT`](Self::DEFAULT_TIMEOUT); the system's roots and
/// clock, no proxy.
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterBuilder {
    name: String,
    issuer: String,
    audience: String,
    keys: Keys,
    review: Review,
    #[cfg(feature = "kubernetes")]
    access: ApiServerOptions,
    max_reviews: usize,
    max_lifetime: Duration,
    ca_file: Option<PathBuf>,
    proxy: Option<String>,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

/// Whether a cluster's API server is asked about each token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Review {
    /// It is, by TokenReview: who is gone proves nothing any more, 10 s later at the latest.
    #[default]
    Required,
    /// It is not: a good signature is enough until the token expires.
    Off,
}

#[derive(Clone, Debug)]
enum Keys {
    Api,
    Discovery,
    Uri(String),
    File(KeyFile),
    Given(Bytes),
    From(Arc<dyn KeySource>),
}

/// A cluster whose service accounts' tokens prove who a workload is.
pub struct Cluster {
    pub(super) name: String,
    pub(super) issuer: IssuerUrl,
    pub(super) audience: String,
    pub(super) verifier: RelyingParty,
    pub(super) max_lifetime: Duration,
    /// Thumbprints of the keys that it was given, if it was.
    pub(super) given: BTreeSet<KeyId>,
    #[cfg(feature = "kubernetes")]
    pub(super) reviewer: Option<Reviewer>,
    /// Its API server, if that is asked.
    #[cfg(feature = "kubernetes")]
    pub(super) api: Option<ApiServer>,
    /// How its API server is asked, if it is.
    #[cfg(feature = "kubernetes")]
    pub(super) access: Option<ApiServerOptions>,
}

impl ClusterBuilder {
    /// How many reviews run at once: an API server gives a client about as many requests in flight without harm to
    /// others.
    pub const DEFAULT_MAX_REVIEWS: usize = 32;
    /// A projected token lives an hour, and 7 s more where the server wants to know who uses it longer; one that lives a
    /// year was extended for old clients of the API server (`--service-account-extend-token-expiration`).
    pub const DEFAULT_MAX_LIFETIME: Duration = Duration::from_secs(3607);
    /// For one exchange with the API server, or one fetch of its keys.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    fn new(name: String, issuer: String) -> Self {
        Self {
            name,
            issuer,
            audience: String::new(),
            keys: if cfg!(feature = "kubernetes") { Keys::Api } else { Keys::Discovery },
            review: Review::default(),
            #[cfg(feature = "kubernetes")]
            access: ApiServerOptions::default(),
            max_reviews: Self::DEFAULT_MAX_REVIEWS,
            max_lifetime: Self::DEFAULT_MAX_LIFETIME,
            ca_file: None,
            proxy: None,
            timeout: Self::DEFAULT_TIMEOUT,
            clock: Arc::new(SystemClock),
        }
    }

    /// The one audience that a token must have: the issuer's URL, as a rule.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = audience.into();
        self
    }

    /// Reads its keys where the discovery document at its issuer says, as anybody may: no credentials are sent there.
    pub fn keys_by_discovery(mut self) -> Self {
        self.keys = Keys::Discovery;
        self
    }

    /// Reads its keys at `uri`, https or on loopback, as anybody may: no credentials are sent there.
    pub fn jwks_uri(mut self, uri: impl Into<String>) -> Self {
        self.keys = Keys::Uri(uri.into());
        self
    }

    /// Reads its keys from this file, again as it changes.
    pub fn jwks_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.keys = Keys::File(KeyFile::new(path.into()));
        self
    }

    /// Its keys are those of this JWKS (`kubectl get --raw /openid/v1/jwks`), for ever.
    pub fn jwks(mut self, jwks: impl Into<Bytes>) -> Self {
        self.keys = Keys::Given(jwks.into());
        self
    }

    /// Reads its keys in a way of the caller's own.
    pub fn keys_from(mut self, source: Arc<dyn KeySource>) -> Self {
        self.keys = Keys::From(source);
        self
    }

    /// Whether its API server is asked about each token.
    pub fn review(mut self, review: Review) -> Self {
        self.review = review;
        self
    }

    /// How its API server is reached, and as whom. The timeout is this builder's own.
    #[cfg(feature = "kubernetes")]
    pub fn api_server(mut self, access: ApiServerOptions) -> Self {
        self.access = access;
        self
    }

    /// How many reviews run at once, 1 to 4096; four times as many wait, and whoever comes then is told to come again.
    pub fn max_reviews(mut self, limit: usize) -> Self {
        self.max_reviews = limit;
        self
    }

    /// The longest life of a token that is taken, 10 minutes to a year.
    pub fn max_lifetime(mut self, longest: Duration) -> Self {
        self.max_lifetime = longest;
        self
    }

    /// Trusts the PEM certificates in this file, and no others, where keys are fetched by discovery or at a URL. A kubeconfig
    /// and a pod name the API server's authority themselves.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Fetches keys by discovery or at a URL through this HTTP proxy, such as `http://proxy.example:3128`.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// How long one exchange with the API server, or one fetch of its keys, may take: 100 ms to a minute.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Where the time comes from.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks everything and asks nobody. May block for some milliseconds: certificates and a kubeconfig are read.
    ///
    /// # Errors
    /// All that is wrong, as `cluster.*`, each at `cluster NAME`.
    pub fn build(self) -> Result<Cluster, Findings> {
        let place = place_of(&self.name);
        let mut faults = self.faults(&place);
        let issuer = IssuerUrl::parse(&self.issuer, &place).map_err(|found| {
            let why: Vec<_> = found.iter().map(|finding| finding.message.as_str()).collect();
            faults.push(&CLUSTER_ISSUER, place.as_str(), why.join("; "));
        });
        let Ok(issuer) = issuer else { return Err(faults) };
        // That there is no audience has been said.
        let verifier = match self.verifier(&issuer) {
            Err(error) if !self.audience.is_empty() => {
                faults.push(&CLUSTER_KEYS, place.as_str(), chain(&error));
                None
            }
            verifier => verifier.ok(),
        };
        let given = self.given().map_err(|why| faults.push(&CLUSTER_KEYS, place.as_str(), why));
        #[cfg(feature = "kubernetes")]
        if let Err(error) = self.way() {
            faults.push(&CLUSTER_ACCESS, place.as_str(), chain(&error));
        }
        let (Some(verifier), Ok(given), false) = (verifier, given, faults.has_errors()) else {
            return Err(faults);
        };
        #[cfg(feature = "kubernetes")]
        let api = self.is_asked().then(|| self.api_client());
        Ok(Cluster {
            #[cfg(feature = "kubernetes")]
            reviewer: api.clone().filter(|_| self.is_reviewed()).map(|api| self.reviewer(api)),
            #[cfg(feature = "kubernetes")]
            api,
            #[cfg(feature = "kubernetes")]
            access: self.is_asked().then(|| self.access.clone()),
            given,
            name: self.name,
            issuer,
            audience: self.audience,
            verifier,
            max_lifetime: self.max_lifetime,
        })
    }

    fn faults(&self, place: &str) -> Findings {
        let mut faults = Findings::new();
        let mut fault = |is_wrong: bool, code: &'static Code, message: &str| {
            if is_wrong {
                faults.push(code, place, message);
            }
        };
        let is_lived = (SHORTEST_LIFE..=LONGEST_LIFE).contains(&self.max_lifetime);
        let is_timely = (SHORTEST_TIMEOUT..=LONGEST_TIMEOUT).contains(&self.timeout);
        let is_fetched = matches!(self.keys, Keys::Discovery | Keys::Uri(_));
        let is_default = self.audience == self.issuer || API_AUDIENCES.contains(&&*self.audience);
        fault(!is_name(&self.name), &CLUSTER_MALFORMED, NAME);
        fault(!(1..=4096).contains(&self.max_reviews), &CLUSTER_MALFORMED, "max_reviews is 1 to 4096");
        fault(!is_lived, &CLUSTER_MALFORMED, "max_lifetime is 10 minutes to a year");
        fault(!is_timely, &CLUSTER_MALFORMED, "timeout is 100 ms to a minute");
        fault(self.audience.is_empty(), &CLUSTER_AUDIENCE, "no audience is named");
        fault(is_default, &CLUSTER_AUDIENCE, "tokens for the API server itself have this audience");
        fault(
            !is_fetched && (self.ca_file.is_some() || self.proxy.is_some()),
            &CLUSTER_KEYS,
            "a CA bundle and a proxy are for keys that are fetched (discovery, jwks_uri); for the API server a kubeconfig \
             names its authority, and no proxy is used",
        );
        let is_asked = self.review == Review::Required || matches!(self.keys, Keys::Api);
        fault(
            is_asked && !cfg!(feature = "kubernetes"),
            &CLUSTER_NO_REVIEWER,
            "this program has no client of the Kubernetes API",
        );
        faults
    }

    fn verifier(&self, issuer: &IssuerUrl) -> Result<RelyingParty, oneseal_relying_party::BuildError> {
        let mut verifier = RelyingParty::builder(issuer.clone())
            .audience(&self.audience)
            .sole_audience(AudienceForm::Only)
            // Without it nobody knows how long the token lives in all.
            .require(["iat"])
            .max_lifetime(self.max_lifetime)
            .fetch_deadline(self.timeout)
            .clock(Arc::clone(&self.clock));
        if let Some(path) = &self.ca_file {
            verifier = verifier.root_certificate_file(path).only_these_roots();
        }
        if let Some(proxy) = &self.proxy {
            verifier = verifier.proxy(proxy);
        }
        self.with_keys(verifier).build()
    }

    /// The keys that are there already. What is wrong with those that were given is the verifier's to say.
    fn given(&self) -> Result<BTreeSet<KeyId>, String> {
        match &self.keys {
            Keys::Given(jwks) => Ok(thumbprints(jwks).unwrap_or_default()),
            Keys::File(file) => file.read_now().and_then(|jwks| thumbprints(&jwks)),
            Keys::Api | Keys::Discovery | Keys::Uri(_) | Keys::From(_) => Ok(BTreeSet::new()),
        }
    }

    fn with_keys(&self, verifier: Verifier) -> Verifier {
        match &self.keys {
            #[cfg(feature = "kubernetes")]
            Keys::Api => verifier.keys_from(Arc::new(ApiKeys::new(self.api_client()))),
            #[cfg(not(feature = "kubernetes"))]
            Keys::Api => verifier,
            Keys::Discovery => verifier,
            Keys::Uri(uri) => verifier.jwks_uri(uri),
            Keys::File(file) => verifier.keys_from(Arc::new(file.clone())),
            Keys::Given(jwks) => verifier.jwks(jwks.clone()),
            Keys::From(source) => verifier.keys_from(Arc::clone(source)),
        }
    }
}

#[cfg(feature = "kubernetes")]
impl ClusterBuilder {
    fn is_reviewed(&self) -> bool {
        self.review == Review::Required
    }

    fn is_asked(&self) -> bool {
        self.is_reviewed() || matches!(self.keys, Keys::Api)
    }

    /// Whether the kubeconfig or context that is named leads somewhere. What is there by default may come later.
    fn way(&self) -> Result<(), ApiServerError> {
        let is_named = self.access.kubeconfig.is_some() || self.access.context.is_some();
        if is_named && self.is_asked() { self.api_client().look() } else { Ok(()) }
    }

    fn reviewer(&self, api: ApiServer) -> Reviewer {
        let clock = Arc::clone(&self.clock);
        Reviewer::new(api, &self.audience, self.max_reviews, self.timeout, clock)
    }

    fn api_client(&self) -> ApiServer {
        ApiServer::new(self.access.clone().timeout(self.timeout))
    }
}

impl Cluster {
    /// Begins with what rules, logs and metrics call the cluster, and the `iss` of its tokens, byte for byte: the API
    /// server's first `--service-account-issuer`.
    pub fn builder(name: impl Into<String>, issuer: impl Into<String>) -> ClusterBuilder {
        ClusterBuilder::new(name.into(), issuer.into())
    }

    /// What rules, logs and metrics call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_reviewed(&self) -> bool {
        #[cfg(feature = "kubernetes")]
        return self.reviewer.is_some();
        #[cfg(not(feature = "kubernetes"))]
        false
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, issuer, audience, .. } = self;
        let issuer = issuer.as_str();
        f.debug_struct("Cluster")
            .field("name", name)
            .field("issuer", &issuer)
            .field("audience", audience)
            .field("is_reviewed", &self.is_reviewed())
            .finish_non_exhaustive()
    }
}

/// The names of the keys of a JWKS, whatever it calls them.
fn thumbprints(jwks: &[u8]) -> Result<BTreeSet<KeyId>, String> {
    let jwks = json::parse_object(jwks).map_err(|error| format!("the key set is no JSON object: {error}"))?;
    let keys = jwks.get("keys").and_then(|keys| keys.as_array()).into_iter().flatten();
    let keys = keys.filter_map(|key| PublicKey::from_foreign_jwk(key.as_object()?).ok());
    let thumbprints: BTreeSet<_> = keys.map(|key| key.thumbprint()).collect();
    if thumbprints.is_empty() { Err("the key set has no usable key".to_owned()) } else { Ok(thumbprints) }
}

/// Where findings are told to be.
pub(super) fn place_of(name: &str) -> String {
    format!("cluster {}", if is_name(name) { name } else { "?" })
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
}

const NAME: &str = "a cluster's name is 1 to 64 letters, digits, `-`, `_` and `.`";

/// What API servers are set up to take for themselves beside their issuer (kubeadm, kubespray, Cluster API).
const API_AUDIENCES: [&str; 6] = [
    "https://kubernetes.default.svc.cluster.local",
    "https://kubernetes.default.svc",
    "https://kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes",
    "api",
];

/// TokenRequest gives no shorter one.
const SHORTEST_LIFE: Duration = Duration::from_secs(600);
const LONGEST_LIFE: Duration = Duration::from_secs(366 * 24 * 3600);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
