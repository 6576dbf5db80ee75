//! The contract every backend keeps.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use oneseal_coordination::{EventDraft, FenceToken};
use uuid::Uuid;

use crate::{Entries, ProviderError, Record, Revision};

/// A boxed future, so that the trait stays object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps one secret record and hands it out whole.
///
/// # What an implementation guarantees
/// - **Whole records.** [`load`](Self::load) returns the entries of one revision, never a mixture of two, however
///   many writers there are.
/// - **Revisions name content.** Equal revisions mean equal entries. A revision is opaque: it can be compared for
///   equality, not ordered.
/// - **One winner.** Of any number of concurrent [`replace`](Self::replace) calls with the same `expected`, at most
///   one succeeds; the others get [`ErrorKind::Conflict`](crate::ErrorKind::Conflict). Of concurrent
///   [`create`](Self::create) calls at most one succeeds; the others get
///   [`ErrorKind::AlreadyExists`](crate::ErrorKind::AlreadyExists) and load.
/// - **Known or said.** A write that returned `Ok` is durable: it survives a crash of the process and, where the
///   store can, of the machine. A write that failed has changed nothing, except for
///   [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown): then a reload tells, by whether
///   [`Record::change_id`] is the change's id.
/// - **Fenced.** Where [`Description::journals`] is true, a write whose [`Change::fence`] has been superseded fails
///   with [`ErrorKind::Fenced`](crate::ErrorKind::Fenced).
/// - **Silent.** No secret byte reaches a log, an error or a `Debug` text.
///
/// What the store returns is not trusted: entries may be malformed, hostile or old. The keystore judges them.
pub trait SecretProvider: fmt::Debug + Send + Sync + 'static {
    /// What this provider is and where it keeps the record. Cheap, blocking at most on a local `stat`; called at
    /// boot and for reports, never per request. `location` holds no secret.
    fn describe(&self) -> Description;

    /// Reads the record as it stands now.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Exposed`, `Unavailable` or `Malformed`.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>>;

    /// Resolves when a revision other than `since` may exist; at once if one does already. May wake without
    /// cause and need not wake for every one of several quick changes, but never sleeps through the last. Never
    /// resolves for a provider that is read once. The caller adds its own time limit.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call compares with the store again.
    fn changed<'a>(&'a self, since: &'a Revision) -> BoxFuture<'a, ()>;

    /// Replaces the record if it still is at `expected`, and returns the new revision.
    ///
    /// # Errors
    /// `Conflict`, `ChangeIdUsed`, `NotFound`, `Fenced`, `ReadOnly`, `TooLarge`, `Unsealed`, `Denied`, `Unavailable`, `OutcomeUnknown`.
    ///
    /// # Cancel safety
    /// Dropping the future after its first poll is as `OutcomeUnknown`: the record is the old one or the new one,
    /// whole.
    fn replace<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>>;

    /// Writes the first record. The first writer wins; who loses loads.
    ///
    /// # Errors
    /// `AlreadyExists`, `ReadOnly`, `TooLarge`, `Unsealed`, `Denied`, `Unavailable`, `OutcomeUnknown`.
    ///
    /// # Cancel safety
    /// As for [`replace`](Self::replace).
    fn create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>>;

    /// Does all that [`replace`](Self::replace) would do and takes it back: nothing is left of it, and what would have stood
    /// against it is told. Default: there is nothing that only the writing itself finds out.
    ///
    /// # Errors
    /// As [`replace`](Self::replace), but never with an unknown outcome.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn rehearse<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let _ = (expected, entries, change);
        Box::pin(std::future::ready(Ok(())))
    }

    /// The same for [`create`](Self::create).
    ///
    /// # Errors
    /// As [`create`](Self::create), but never with an unknown outcome.
    ///
    /// # Cancel safety
    /// Changes nothing.
    fn rehearse_create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<(), ProviderError>> {
        let _ = (entries, change);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A shared provider is a provider, whether its kind is known or not.
impl<P: SecretProvider + ?Sized> SecretProvider for Arc<P> {
    fn describe(&self) -> Description {
        P::describe(self)
    }

    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>> {
        P::load(self)
    }

    fn changed<'a>(&'a self, since: &'a Revision) -> BoxFuture<'a, ()> {
        P::changed(self, since)
    }

    fn replace<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>> {
        P::replace(self, expected, entries, change)
    }

    fn create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>> {
        P::create(self, entries, change)
    }

    fn rehearse<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        P::rehearse(self, expected, entries, change)
    }

    fn rehearse_create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<(), ProviderError>> {
        P::rehearse_create(self, entries, change)
    }
}

/// What a provider says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The backend's short name, as in its URI: `file`, `env`, `inline`, …
    pub kind: &'static str,
    /// Where the record rests, without any secret: a path, a variable's name, an ARN.
    pub location: String,
    /// What is usually open as a whole to whoever may read here, such as `the namespace NAME`; once that is known.
    pub realm: Option<String>,
    /// Whether what rests there outlives this process and this machine's memory.
    pub durability: Durability,
    /// Whether [`SecretProvider::replace`] and [`SecretProvider::create`] can succeed at all.
    pub writable: bool,
    /// Whether a write commits [`Change::event`] with the record and honours [`Change::fence`].
    pub journals: bool,
    /// Whether the record is read once and cannot change under a running process; such a one is never stale.
    pub is_static: bool,
    /// The largest record it takes, in bytes, names and values together.
    pub max_bytes: usize,
    /// What the operator should know although it is no error.
    pub advice: Vec<Advice>,
}

impl Description {
    /// A durable, read-only, unjournaled provider of `kind` at `location`; set the other fields from there.
    pub fn new(kind: &'static str, location: impl Into<String>) -> Self {
        Self {
            kind,
            location: location.into(),
            realm: None,
            durability: Durability::Durable,
            writable: false,
            journals: false,
            is_static: false,
            max_bytes: Self::DEFAULT_MAX_BYTES,
            advice: Vec::new(),
        }
    }

    /// 1 MiB, the limit of a Kubernetes Secret, for backends without one of their own.
    pub const DEFAULT_MAX_BYTES: usize = 1024 * 1024;
}

/// Whether a key put here would still be here after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// It outlives the process and the machine's memory, or the operator has said so (`durable = true`).
    Durable,
    /// It does not; the text says why, such as "tmpfs mounted at /run/keys".
    Ephemeral(String),
    /// It lives in a container's writable layer or image and goes with the container.
    ImageLayer(String),
}

/// A remark that does not stop anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Anyone on the host may read it: `path` has permission bits `mode`.
    WorldReadable {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// Anyone on the host may put another key in its place: `directory` has permission bits `mode`.
    Replaceable {
        /// The directory.
        directory: String,
        /// Its permission bits.
        mode: u32,
    },
    /// What is put in its place where it comes from is never seen here: `path` is mounted by itself.
    NeverUpdates {
        /// The file.
        path: String,
        /// Whether that has happened already.
        is_replaced: bool,
    },
    /// A second copy of the values was left beside them: `copy` says where.
    Copied {
        /// Where it is and who made it.
        copy: String,
    },
}

/// One write, with who, why and what it tells.
#[derive(Clone, Debug)]
pub struct Change {
    /// Comes back as [`Record::change_id`] once the write is committed.
    pub id: Uuid,
    /// Who does it, such as `keys init` or a caller's name.
    pub actor: String,
    /// Why, in the operator's words.
    pub reason: String,
    /// The event committed with it where the backend journals.
    pub event: EventDraft,
    /// The leadership under which it is done, if any.
    pub fence: Option<FenceToken>,
}
