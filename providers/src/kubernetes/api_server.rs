//! The API server, for whoever asks it something else than a Secret: one GET, one POST.
//!
//! The way there is the provider's: whose credentials, how they are read anew, how a refusal is told. Nothing that the
//! server or somebody before it says is repeated, since what was sent may stand in it.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use kube::client::Body;
use zeroize::Zeroizing;

use super::DEFAULT_TIMEOUT;
use super::ask::Reply;
use super::connect::{Access, Unusable, Way};
use super::fault::{Trouble, UNAUTHORIZED, after, seen};
use super::status::Status;
use crate::ErrorKind;

/// Which API server, and who asks.
///
/// # Defaults
/// As `kubectl`: `$KUBECONFIG` or `~/.kube/config` if there is one, else the pod's own service account;
/// [`DEFAULT_TIMEOUT`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiServerOptions {
    /// The kubeconfig to use instead of the default one.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use instead of its current one.
    pub context: Option<String>,
    /// How long one exchange may take, connecting included.
    pub timeout: Duration,
}

impl Default for ApiServerOptions {
    fn default() -> Self {
        Self { kubeconfig: None, context: None, timeout: DEFAULT_TIMEOUT }
    }
}

impl ApiServerOptions {
    /// By way of this kubeconfig.
    #[must_use]
    pub fn by_kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(path.into());
        self
    }

    /// By way of this context of the kubeconfig.
    #[must_use]
    pub fn by_context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// How long one exchange may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// One API server, asked with one identity. Clones share their connections.
///
/// Nothing is read and nobody is asked before the first use. Credentials are sent to that server alone; redirects are not
/// followed.
#[derive(Clone)]
pub struct ApiServer {
    way: Arc<Way>,
}

impl ApiServer {
    /// The API server that `options` lead to.
    pub fn new(options: ApiServerOptions) -> Self {
        let ApiServerOptions { kubeconfig, context, timeout } = options;
        Self { way: Arc::new(Way::new(Access { kubeconfig, context, timeout })) }
    }

    /// Whether the kubeconfig and the files that it names can be read, and lead to an API server that can be asked safely.
    /// Nobody is asked and no credential plugin is run. Blocks while files are read.
    ///
    /// # Errors
    /// [`ApiServerError`], of the kind `Misconfigured` as a rule.
    pub fn look(&self) -> Result<(), ApiServerError> {
        self.way.look().map_err(ApiServerError::from)
    }

    /// What stands at `path`, such as `/openid/v1/jwks`: the body of a 200, at most 1 MiB.
    ///
    /// # Errors
    /// [`ApiServerError`].
    pub async fn get(&self, path: &str) -> Result<Bytes, ApiServerError> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// Has an object made at `path`, such as `/apis/authentication.k8s.io/v1/tokenreviews`, and gives back the body of a
    /// 200 or 201, at most 1 MiB.
    ///
    /// # Errors
    /// [`ApiServerError`].
    ///
    /// # Cancel safety
    /// What was sent may have been done.
    pub async fn post(&self, path: &str, object: &serde_json::Value) -> Result<Bytes, ApiServerError> {
        // Wiped when the last of its holders lets go of it.
        let body = Zeroizing::new(object.to_string().into_bytes());
        self.ask(Method::POST, path, Bytes::from_owner(body)).await
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, ApiServerError> {
        let asked = self.way.ask(
            |link| {
                let request = Request::builder()
                    .method(method.clone())
                    .uri(path)
                    .header(ACCEPT, TAKEN)
                    .header(CONTENT_TYPE, "application/json");
                let request = request.body(Body::from(body.clone()));
                request.map_err(|error| Trouble::cut(&link.server, error))
            },
            LONGEST_ANSWER,
        );
        match asked.await {
            Ok(reply) => Ok(Bytes::from_owner(reply.body)),
            Err(trouble) => Err(self.told(&method, path, trouble)),
        }
    }

    fn told(&self, method: &Method, path: &str, trouble: Trouble) -> ApiServerError {
        let unavailable = |detail: String| ApiServerError::new(ErrorKind::Unavailable, detail);
        match trouble {
            Trouble::Unsent(unusable) => unusable.into(),
            Trouble::Cut(cause) => ApiServerError {
                source: Some(cause),
                ..unavailable("the API server did not finish its answer".to_owned())
            },
            Trouble::Silent => {
                let after = self.way.access.timeout.as_secs_f32();
                unavailable(format!("the API server did not answer within {after} s"))
            }
            Trouble::Strange(_, reply) => unavailable(not_it(&reply)),
            Trouble::Refused(reply) => match Status::read(&reply) {
                Some(status) => refused(method, path, &reply, &status),
                // A proxy's 429 has no Status.
                None => ApiServerError {
                    retry_after: reply.seconds_to_wait(),
                    is_throttled: reply.status == 429,
                    ..unavailable(not_it(&reply))
                },
            },
        }
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("access", &self.way.access).finish_non_exhaustive()
    }
}

/// Why there is no good answer, in words that repeat nothing of what was sent or answered.
#[derive(Debug)]
pub struct ApiServerError {
    kind: ErrorKind,
    detail: String,
    retry_after: Option<Duration>,
    is_throttled: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl ApiServerError {
    fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), retry_after: None, is_throttled: false, source: None }
    }

    /// `Unauthenticated`, `Denied`, `NotFound` and `Misconfigured` want a change of rights or configuration; all else is
    /// `Unavailable` or `NoCredentials` and may be tried again.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether it is asked too much, by us or by all (429).
    pub fn is_throttled(&self) -> bool {
        self.is_throttled
    }

    /// When the server itself wants to be asked again, if it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for ApiServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl StdError for ApiServerError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<Unusable> for ApiServerError {
    fn from(unusable: Unusable) -> Self {
        let Unusable { kind, detail, source } = unusable;
        Self { source, ..Self::new(kind, detail) }
    }
}

fn not_it(reply: &Reply) -> String {
    format!("what answered ({}) is not the API server", seen(reply))
}

fn refused(method: &Method, path: &str, reply: &Reply, status: &Status) -> ApiServerError {
    let code = reply.status;
    let (kind, detail) = match code {
        401 => (ErrorKind::Unauthenticated, UNAUTHORIZED.to_owned()),
        403 => (ErrorKind::Denied, forbidden(method, path, status)),
        404 => (ErrorKind::NotFound, format!("the API server has no {path}")),
        429 => (ErrorKind::Unavailable, format!("the API server is asked too much (429{})", after(reply))),
        _ => (
            ErrorKind::Unavailable,
            format!("the API server answers {code}{}: {}", after(reply), status.why()),
        ),
    };
    let (retry_after, is_throttled) = (reply.seconds_to_wait(), code == 429);
    ApiServerError { retry_after, is_throttled, ..ApiServerError::new(kind, detail) }
}

/// With the rule that would allow it.
fn forbidden(method: &Method, path: &str, status: &Status) -> String {
    let verb = if method == Method::POST { "create" } else { "get" };
    let Some(user) = status.without_right_to(verb) else {
        return format!("the cluster forbids {verb} of {path} (403): {}", status.why());
    };
    let rule = match path.strip_prefix("/apis/").map(|path| path.split('/').collect::<Vec<_>>()).as_deref() {
        Some([group, _, resource]) => {
            format!("{{apiGroups: [{group}], resources: [{resource}], verbs: [{verb}]}}")
        }
        _ => format!("{{nonResourceURLs: [{path}], verbs: [{verb}]}}"),
    };
    format!("{user} may not {verb} {path}; a ClusterRole with the rule {rule}, bound to it, would allow that")
}

/// Its keys are served as the second one and refused (406) to who takes the first alone.
const TAKEN: &str = "application/json, application/jwk-set+json";

/// More than any key set or review has.
const LONGEST_ANSWER: usize = 1024 * 1024;
