//! The data of one Secret, over the Kubernetes API.
//!
//! ```text
//! load      GET of the one Secret: its `data`, whole
//! changed   a hint by a watch of the one Secret, the truth by a GET now and then
//! replace   GET, compare with what is expected, PUT with the resourceVersion of that GET
//! create    POST, or the first data of a Secret that was made empty
//! rehearse  the same as replace or create, as a dry run: the server does all but store it
//! ```
//!
//! # What is believed
//! - **The revision is (uid, digest of `data` and of the change's id)**, not the resourceVersion. A restored etcd gives
//!   resourceVersions out a second time, for other data; and a label that somebody sets is no other key. The
//!   resourceVersion is what a PUT is conditional on, and lives no longer than that one write: between its GET and its
//!   PUT nobody can write, or the PUT conflicts.
//! - **An answer is the API server's if it has that form.** An HTML page, a redirect or a JSON document that is no
//!   Secret comes from something in between, and says nothing about the Secret: `Unavailable`.
//! - **A PUT or POST whose answer is lost, is no answer, or is a 5xx, is `OutcomeUnknown`**; the annotation
//!   `oneseal.dev/change-id` tells on the next look. What the server refuses (4xx) has changed nothing.
//! - **Nothing waits for ever and nothing is tried twice.** Each exchange is bounded as a whole; the client's own
//!   retries are off, since whoever asks asks again by itself. The one exception: where the API server does not know who
//!   asks (401), the credentials are read anew and the same is asked once more, for they may have been renewed.
//!
//! # What is asked
//! `get` and `watch` of the one Secret; `update` by whoever rotates; `create` only by whoever writes the first
//! record or puts a deleted one back, and not even then where somebody else makes the Secret, empty. A watch by field selector is of the one object, so a Role with
//! `resourceNames` allows it, and `list` is not needed. The watch asks for metadata alone: values go over the wire when
//! they are read, not when they change.
//!
//! # What is not done
//! A `kubernetes.io/tls` Secret is read and never written: it is another tool's. Of a Secret that is immutable nothing
//! can be changed. Values are wiped here; the buffers of the HTTP and TLS libraries that they came through are not ours.

mod api_server;
mod ask;
mod connect;
mod events;
mod fault;
mod load;
mod options;
mod place;
mod plugin;
mod secret;
mod status;
mod watch;
mod write;

use std::fmt;
use std::sync::Arc;

pub use api_server::{ApiServer, ApiServerError, ApiServerOptions};
pub use options::{DEFAULT_POLL, DEFAULT_TIMEOUT, DEFAULT_WATCH, KubernetesOptions};
pub use plugin::end_credential_plugins;

use crate::{
    Advice, BoxFuture, Change, Description, Entries, ProviderError, Record, Revision, SecretProvider,
};
use place::Place;
use watch::Hints;
use write::{Run, rehearsed};

/// Keeps the record in a Secret.
///
/// Clones share their connection. Nothing is opened before the first use: a pod's own service account, or a kubeconfig,
/// as `kubectl` finds them.
///
/// ```
/// use oneseal_providers::{KubernetesOptions, KubernetesProvider, SecretProvider};
///
/// let options = KubernetesOptions::secret("oneseal-ring").in_namespace("identity");
/// let provider = KubernetesProvider::new(options)?;
/// assert_eq!(provider.describe().location, "identity/oneseal-ring");
/// # Ok::<(), oneseal_providers::ProviderError>(())
/// ```
#[derive(Clone)]
pub struct KubernetesProvider {
    place: Arc<Place>,
    hints: Arc<Hints>,
}

impl KubernetesProvider {
    /// The Secret that `options` name. Nothing is read and nobody is asked yet.
    ///
    /// # Errors
    /// `Misconfigured` if a name cannot be a Secret's or a namespace's.
    pub fn new(options: KubernetesOptions) -> Result<Self, ProviderError> {
        let place = Arc::new(Place::new(options)?);
        let hints = Arc::new(Hints::new(Arc::clone(&place)));
        Ok(Self { place, hints })
    }
}

impl fmt::Debug for KubernetesProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesProvider").field("options", &self.place.options).finish_non_exhaustive()
    }
}

impl SecretProvider for KubernetesProvider {
    /// Whether it is writable, and was applied with its values, is known once the Secret has been seen: until then it is
    /// taken to be the one and not the other.
    fn describe(&self) -> Description {
        let mut description = Description::new("k8s", self.place.location());
        description.writable = !self.hints.is_read_only();
        description.realm = self.place.namespace().map(|namespace| format!("the namespace {namespace}"));
        if self.hints.is_applied() {
            description
                .advice
                .push(Advice::Copied { copy: format!("in the annotation {}", secret::LAST_APPLIED) });
        }
        description
    }

    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>> {
        Box::pin(self.read())
    }

    /// A Secret that is gone wakes once, where the watch tells; later only what comes in its place does.
    fn changed<'a>(&'a self, since: &'a Revision) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_for_other_than(since))
    }

    fn replace<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>> {
        Box::pin(self.write_over(expected, entries, change, Run::Real))
    }

    fn create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>> {
        Box::pin(self.write_first(entries, change, Run::Real))
    }

    fn rehearse<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move { rehearsed(self.write_over(expected, entries, change, Run::Dry).await) })
    }

    fn rehearse_create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<(), ProviderError>> {
        Box::pin(async move { rehearsed(self.write_first(entries, change, Run::Dry).await) })
    }
}
