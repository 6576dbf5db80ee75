//! Which Secret, of which cluster, asked how often.

use std::path::PathBuf;
use std::time::Duration;

/// Longer than an API server takes unless something is wrong: its own requests to its webhooks may take as long.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the Secret is read although no hint came: a little above the keystore's refresh, which looks as well, so that
/// the two do not add up.
pub const DEFAULT_POLL: Duration = Duration::from_secs(20);

/// How long one watch lasts: as long as other clients ask for.
pub const DEFAULT_WATCH: Duration = Duration::from_secs(450);

/// Polling faster than this would be a load on the API server.
const FASTEST_POLL: Duration = Duration::from_millis(50);

/// Which Secret, and how it is reached.
///
/// # Defaults
/// The namespace and the credentials are those that `kubectl` would use: `$KUBECONFIG` or `~/.kube/config` if there is
/// one, else the pod's own service account. Times: [`DEFAULT_TIMEOUT`], [`DEFAULT_POLL`], [`DEFAULT_WATCH`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KubernetesOptions {
    /// The Secret's namespace; by default the pod's own, or the kubeconfig context's.
    pub namespace: Option<String>,
    /// The Secret's name.
    pub name: String,
    /// The kubeconfig to use instead of the default one.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use instead of its current one.
    pub context: Option<String>,
    /// How long one exchange with the API server may take, connecting included.
    pub timeout: Duration,
    /// How often to read although no hint came, give or take a tenth.
    pub poll: Duration,
    /// How long one watch lasts before the next one is begun, give or take a tenth; one that has gone silent is over by
    /// then.
    pub watch: Duration,
}

impl KubernetesOptions {
    /// The Secret called `name`, all else as by default.
    pub fn secret(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
            kubeconfig: None,
            context: None,
            timeout: DEFAULT_TIMEOUT,
            poll: DEFAULT_POLL,
            watch: DEFAULT_WATCH,
        }
    }

    /// In this namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

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

    /// How long one exchange with the API server may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How often to read although no hint came, give or take a tenth; at most twenty times a second.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll = interval.max(FASTEST_POLL);
        self
    }

    /// How long one watch lasts before the next one is begun, give or take a tenth.
    #[must_use]
    pub fn watch_for(mut self, life: Duration) -> Self {
        self.watch = life;
        self
    }
}
