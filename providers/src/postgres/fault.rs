//! From the database's failures to the provider's. They say what happened in words of their own; the driver's are
//! their cause.

use oneseal_coordination::database::{CommitError, DatabaseError, DatabaseErrorKind};
use oneseal_coordination::events::AppendError;

use super::PostgresProvider;
use super::document::Unfit;
use crate::{ErrorKind, ProviderError};

impl Unfit {
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Unsealed(_) => ErrorKind::Unsealed,
            Self::NoDocument | Self::NotOne(_) | Self::Lacks(_) => ErrorKind::Malformed,
        }
    }
}

impl PostgresProvider {
    /// Before any COMMIT: nothing was changed.
    pub(super) fn failed(&self, error: DatabaseError) -> ProviderError {
        let (kind, mut message) = (kind_of(error.kind()), error.to_string());
        if kind == ErrorKind::Denied {
            message.push_str("; what its role needs is in docs/postgres.md under \"Roles and grants\"");
        }
        self.fault(kind, message).with_source(error)
    }

    /// The event was not taken, and so nothing was changed.
    pub(super) fn untold(&self, error: AppendError) -> ProviderError {
        match error {
            AppendError::Database(error) => self.failed(error),
            error @ AppendError::Changing => {
                self.fault(ErrorKind::Conflict, error.to_string()).with_source(error)
            }
            // A clock is set right, and then the same call works.
            error @ (AppendError::LogAhead { .. } | AppendError::DatabaseAhead) => {
                self.fault(ErrorKind::Unavailable, error.to_string()).with_source(error)
            }
            // A log that does not hold together is no fault of the ring's.
            error @ (AppendError::Broken(_) | AppendError::NoHead) => {
                self.fault(ErrorKind::DatabaseUnusable, error.to_string()).with_source(error)
            }
            // An event that does not fit in: waiting does not mend it.
            error => self.fault(ErrorKind::Malformed, error.to_string()).with_source(error),
        }
    }

    /// The COMMIT was refused, or was not answered.
    pub(super) fn uncommitted(&self, error: CommitError) -> ProviderError {
        match error {
            CommitError::NotCommitted(error) => self.failed(error),
            CommitError::OutcomeUnknown(error) => {
                let detail = "the database did not answer whether it has written; load again to see";
                self.fault(ErrorKind::OutcomeUnknown, detail).with_source(error)
            }
        }
    }
}

fn kind_of(kind: DatabaseErrorKind) -> ErrorKind {
    match kind {
        DatabaseErrorKind::Denied => ErrorKind::Denied,
        DatabaseErrorKind::Fenced => ErrorKind::Fenced,
        DatabaseErrorKind::Conflict => ErrorKind::Conflict,
        DatabaseErrorKind::Schema => ErrorKind::Unprepared,
        DatabaseErrorKind::Outgrown => ErrorKind::Outgrown,
        DatabaseErrorKind::Configuration => ErrorKind::DatabaseUnusable,
        // A wrong certificate is no answer of the database we were told of; the right one may come back.
        _ => ErrorKind::Unavailable,
    }
}
