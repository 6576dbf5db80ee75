//! From the database's failures to the provider's.

use oneseal_coordination::database::{DatabaseError, DatabaseErrorKind};

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
