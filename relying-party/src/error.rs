//! Why a token was not accepted, with the two kinds kept apart.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oneseal_keystore::json::JsonError;
use oneseal_keystore::verify::VerifyError as JwsError;

use crate::fetch::FetchError;
use crate::key_source::KeySourceError;

/// Why a token was not accepted. A server answers 503 to the first kind and 401 to the second.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The token could not be judged, because the issuer's keys cannot be had. Says nothing about the token.
    #[error("the issuer's keys are unavailable")]
    Unavailable(#[source] Unavailable),
    /// The token is refused.
    #[error("the token is refused")]
    Invalid(#[source] Invalid),
}

impl VerifyError {
    /// Whether the same token may be accepted later: the keys could not be had.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// A short name in snake_case, for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unavailable(unavailable) => unavailable.reason(),
            Self::Invalid(invalid) => invalid.reason(),
        }
    }

    /// When asking again may help; `None` if it will not.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable(unavailable) => Some(unavailable.retry_after),
            Self::Invalid(_) => None,
        }
    }
}

impl From<Invalid> for VerifyError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<JwsError> for VerifyError {
    fn from(error: JwsError) -> Self {
        Self::Invalid(Invalid::Jws(error))
    }
}

/// The issuer's keys cannot be had just now.
#[derive(Clone, Debug)]
pub struct Unavailable {
    /// What went wrong at the last attempt; `None` if it was cut off before it ended.
    pub cause: Option<Arc<SourceError>>,
    /// When the next attempt may be made.
    pub retry_after: Duration,
}

impl Unavailable {
    /// A short name in snake_case.
    pub fn reason(&self) -> &'static str {
        self.cause.as_ref().map_or("interrupted", |cause| cause.reason())
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what =
            if self.cause.is_some() { "the last attempt failed" } else { "the attempt was interrupted" };
        write!(f, "{what}; the next may be made in {} s", self.retry_after.as_secs_f32().ceil())
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}

/// Which of the issuer's two documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// `ISS/.well-known/openid-configuration`.
    Discovery,
    /// What its `jwks_uri` names.
    Jwks,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discovery => "the discovery document",
            Self::Jwks => "the key set",
        })
    }
}

/// Why an attempt to read the issuer's keys failed. Quotes nothing that the issuer sent but its `jwks_uri`, and that
/// only once it is found to be a plain URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// No answer, or one that is not read.
    #[error("{document} at {url} cannot be fetched")]
    Fetch {
        /// Which.
        document: Document,
        /// Where it was looked for.
        url: String,
        /// Why.
        #[source]
        source: FetchError,
    },
    /// An answer other than 200.
    #[error("{document} at {url} was answered with status {status}")]
    Status {
        /// Which.
        document: Document,
        /// Where it was looked for.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// Not strict JSON, such as the HTML page of a proxy or half a body.
    #[error("{document} is no JSON object")]
    Json {
        /// Which.
        document: Document,
        /// Where it goes wrong.
        #[source]
        source: JsonError,
    },
    /// The [`KeySource`](crate::KeySource) has none.
    #[error("the source of the keys cannot be read")]
    KeySource(#[source] KeySourceError),
    /// The discovery document's `issuer` is missing or not, byte for byte, the one asked for.
    #[error(
        "the discovery document names another issuer than the one asked for (they are compared byte for byte)"
    )]
    IssuerMismatch,
    /// The discovery document's `jwks_uri` is missing, relative or of a kind that is not fetched.
    #[error("the discovery document has no `jwks_uri` that may be fetched: an absolute https URL is wanted")]
    JwksUri,
    /// The key set has no `keys` array.
    #[error("the key set has no array `keys`")]
    NoKeysMember,
    /// The key set has more entries than are read.
    #[error("the key set has {found} entries; at most {limit} are read")]
    TooManyKeys {
        /// How many it has.
        found: usize,
        /// How many are read.
        limit: usize,
    },
    /// No entry of the key set can verify anything.
    #[error("none of the {entries} entries of the key set is a usable key{}", told_private(*.private))]
    NoUsableKey {
        /// How many it has.
        entries: usize,
        /// How many of them hold a private or symmetric key, which is compromised by being there.
        private: usize,
    },
}

fn told_private(private: usize) -> String {
    if private == 0 { String::new() } else { format!("; {private} hold a private or symmetric key") }
}

impl SourceError {
    /// A short name in snake_case.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Fetch { source, .. } => source.reason(),
            Self::Status { .. } => "status",
            Self::Json { .. } => "not_json",
            Self::KeySource(_) => "key_source",
            Self::IssuerMismatch => "issuer_mismatch",
            Self::JwksUri => "jwks_uri",
            Self::NoKeysMember => "no_keys_member",
            Self::TooManyKeys { .. } => "too_many_keys",
            Self::NoUsableKey { .. } => "no_usable_key",
        }
    }
}

/// Why a token is refused. Quotes nothing of the token, which may be hostile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// Shape, header or signature.
    #[error(transparent)]
    Jws(JwsError),
    /// `typ` names another kind of token.
    #[error("the header's `typ` names another kind of token than a JWT")]
    Type,
    /// The payload is no strict JSON object.
    #[error("the payload is no JSON object")]
    Payload(#[source] JsonError),
    /// The issuer is another one.
    #[error("`iss` is not the issuer that is trusted here (they are compared byte for byte)")]
    Issuer,
    /// No key of the issuer has the `kid`, and asking for new ones did not help or is not due.
    #[error("the issuer has no key of the `kid` that the token names")]
    UnknownKid,
    /// The token has no `kid`, and not exactly one key could have signed it.
    #[error("the token names no `kid`, and the issuer has not exactly one key that fits")]
    AmbiguousKey,
    /// The key of this `kid` does not sign with the header's algorithm, or the algorithm is not on the list here.
    #[error(
        "the key that the token names does not sign with the header's algorithm, or it is not allowed here"
    )]
    Algorithm,
    /// A claim that must be there is not.
    #[error("the claim `{0}` is missing")]
    Missing(&'static str),
    /// A claim is of the wrong type, empty, or out of all bounds.
    #[error("the claim `{0}` is malformed")]
    Malformed(&'static str),
    /// The token is for somebody else, or for others too where it must not be.
    #[error("`aud` does not hold the audience that is served here, in the form that is wanted")]
    Audience,
    /// `exp` is past.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is ahead.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `iat` is ahead.
    #[error("the token was issued in the future")]
    IssuedInFuture,
    /// It lives longer than the builder's `max_lifetime`.
    #[error("the token lives longer than is taken here")]
    Lifetime,
    /// It was issued longer ago than the builder's `max_age`.
    #[error("the token was issued longer ago than is taken here")]
    TooOld,
}

impl Invalid {
    /// Whether the issuer may by now have another key under the name that the token gives.
    pub(crate) fn may_be_cured_by_other_keys(&self) -> bool {
        matches!(self, Self::Jws(JwsError::Signature) | Self::Algorithm | Self::AmbiguousKey)
    }

    /// A short name in snake_case.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Jws(error) => error.reason(),
            Self::Type => "type",
            Self::Payload(_) => "payload",
            Self::Issuer => "issuer",
            Self::UnknownKid => "unknown_kid",
            Self::AmbiguousKey => "ambiguous_key",
            Self::Algorithm => "algorithm",
            Self::Missing(_) => "claim_missing",
            Self::Malformed(_) => "claim_malformed",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::IssuedInFuture => "issued_in_future",
            Self::Lifetime => "lifetime",
            Self::TooOld => "too_old",
        }
    }
}
