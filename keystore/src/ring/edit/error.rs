//! Why a draft could not be made or written.

use crate::json::JsonError;
use crate::material::KeyError;
use crate::ring::write::WriteError;
use crate::seal::SealError;

/// Why a document cannot be changed. Holds no part of it that may be secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// It is no JSON, or a member is of another kind.
    #[error("the ring document is not of format 1")]
    Json,
    /// It is no JSON.
    #[error("the ring document is no JSON")]
    Syntax(#[from] JsonError),
    /// A part of it is missing or another.
    #[error("the ring document cannot be changed: {0}")]
    Shape(&'static str),
    /// The private half of the ring key is not here, or sealed.
    #[error("the ring key cannot be opened, which signs every change: this process only reads the ring")]
    Locked,
    /// A private half was not sealed, or does not open.
    #[error("a private half of the ring is not as it must be")]
    Seal(#[source] SealError),
    /// The key that was to sign is not the ring's.
    #[error("the ring document is signed by another ring key")]
    RingKey,
    /// A step names a key that is not there.
    #[error("a key of the step is not in the ring")]
    NoKey,
    /// It could not be signed or put together.
    #[error("the ring document could not be written")]
    Write(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Without its cause, which may quote what stands there.
impl From<serde_json::Error> for DraftError {
    fn from(_: serde_json::Error) -> Self {
        Self::Json
    }
}

impl From<WriteError> for DraftError {
    fn from(error: WriteError) -> Self {
        Self::Write(error.into())
    }
}

impl From<KeyError> for DraftError {
    fn from(error: KeyError) -> Self {
        Self::Write(error.into())
    }
}
