//! Why a provider could not do what was asked.

use std::error::Error as StdError;
use std::fmt;

use crate::Revision;

/// A provider's failure: what kind, where, and in words. The cause, if any, is its `source()`.
#[derive(Debug)]
pub struct ProviderError {
    kind: ErrorKind,
    location: String,
    detail: String,
    revision: Option<Revision>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no record. Not a transient state: nobody has put it there.
    NotFound,
    /// The store knows us and says no, or the file's permissions do.
    Denied,
    /// The store does not know who asks, or there is nobody to ask as: credentials that are missing, expired, revoked or
    /// another store's. No right would mend it, and neither would waiting.
    Unauthenticated,
    /// There are no credentials just now: what would give them out is not there or does not answer; trying again may help.
    NoCredentials,
    /// Others could read the secret: its permission bits are too wide.
    Exposed,
    /// The store cannot be asked just now; trying again may help.
    Unavailable,
    /// The store answers, and has not, or not any more, the form in which this version keeps records: it has to be
    /// migrated.
    Unprepared,
    /// The store answers, and has a form that this version is too old for.
    Outgrown,
    /// What rests there is not a record: empty, too large to be one, not readable as one.
    Malformed,
    /// The store keeps several records, and it was not said which one.
    Ambiguous,
    /// The store answers, and in the state it is in it takes no such request, whoever asks: a limit of its own, a record
    /// that is being deleted. Waiting mends nothing.
    Unusable,
    /// There is no such database, what stands before it is set up so that transactions cannot work, or its event log does
    /// not hold together.
    DatabaseUnusable,
    /// The way to the store is set up so that it cannot be gone: a name that cannot be one, credentials that are not
    /// there, no TLS. Waiting mends nothing.
    Misconfigured,
    /// The record is no longer at the expected revision; reload and decide again.
    Conflict,
    /// A change with this id was written before, as another revision; nothing was changed. The store remembers it
    /// longer than the record itself may.
    ChangeIdUsed,
    /// `create` found a record; load it.
    AlreadyExists,
    /// The write came from a leadership that has been superseded.
    Fenced,
    /// This provider cannot write, or not in the layout it found.
    ReadOnly,
    /// The record is larger than the store takes; nothing was sent.
    TooLarge,
    /// The record holds a private half in plain text, and the store takes sealed ones alone; nothing was sent.
    Unsealed,
    /// The write may or may not have happened; reload and look for the change's id.
    OutcomeUnknown,
}

impl ProviderError {
    /// An error of `kind` at `location` (no secret in it), explained by `detail`, which must hold no secret either.
    pub fn new(kind: ErrorKind, location: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind, location: location.into(), detail: detail.into(), revision: None, source: None }
    }

    /// The same with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same, of what rests at `revision`: so a record that is [`Malformed`](ErrorKind::Malformed) can be replaced.
    #[must_use]
    pub fn at(self, revision: Revision) -> Self {
        Self { revision: Some(revision), ..self }
    }

    /// The same, with more said behind its detail, which must hold no secret either.
    #[must_use]
    #[cfg(feature = "file")]
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.detail.push_str(more);
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The revision at which what it speaks of rests, where that can be told: what
    /// [`replace`](crate::SecretProvider::replace) may be given for it.
    pub fn revision(&self) -> Option<&Revision> {
        self.revision.as_ref()
    }

    /// Where it happened.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// What happened, in words.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.detail)
    }
}

impl StdError for ProviderError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
