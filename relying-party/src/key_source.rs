//! Keys from elsewhere than an issuer's public documents.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// Reads an issuer's key set by ways of its own, such as an API server that wants a credential. What it returns is
/// judged as a fetched key set is: strict JSON, bounded, and never replacing the last good set unless it is good.
///
/// It is asked when a fetch would be made and never more often: one read at a time, cut off after the builder's
/// [`fetch_deadline`](crate::Builder::fetch_deadline).
pub trait KeySource: fmt::Debug + Send + Sync + 'static {
    /// Reads the key set as it is now.
    ///
    /// # Errors
    /// Whatever kept it from being read. The text goes into logs: no secret belongs there.
    ///
    /// # Cancel safety
    /// Is dropped when it takes too long.
    fn read(&self) -> BoxFuture<'_, Result<KeyDocument, KeySourceError>>;
}

/// What a [`KeySource`] has read.
#[derive(Clone, Debug)]
pub struct KeyDocument {
    /// A JWKS (RFC 7517 section 5), at most [`MAX_DOCUMENT`](crate::fetch::MAX_DOCUMENT) bytes of it.
    pub jwks: Bytes,
    /// How long it may be used without asking again, as `max-age` of a fetched one; `None` if its source does not say.
    pub max_age: Option<Duration>,
}

/// Why a [`KeySource`] has no keys.
#[derive(Debug)]
pub struct KeySourceError(pub Box<dyn Error + Send + Sync>);

impl fmt::Display for KeySourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for KeySourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl From<Box<dyn Error + Send + Sync>> for KeySourceError {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self(error)
    }
}
