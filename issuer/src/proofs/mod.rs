//! How a workload proves who it is: a token that somebody else has signed becomes a [`VerifiedWorkload`].
//!
//! ```text
//! token ─► iss, not believed yet ─► ours? refused: our token is never our proof
//!                                └► the one proof that takes this issuer's tokens ─► VerifiedWorkload ─► rules
//! ```
//! A proof is named by whoever configures it and by nothing in the token: the `iss` only finds it, its pinned keys
//! decide. A token goes to nobody before its signature is found good, and then to nobody but the cluster whose key
//! that was.

#[cfg(feature = "proofs")]
pub(crate) mod assertion;
#[cfg(feature = "proofs")]
mod key_file;
#[cfg(feature = "proofs")]
pub(crate) mod kubernetes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

#[cfg(feature = "proofs")]
pub use assertion::{
    ASSERTION_NO_REPLAY_GUARD, AssertionIssuer, AssertionProof, ReplayGuard, ReplayUnavailable, SingleProcess,
};
#[cfg(feature = "proofs")]
pub use kubernetes::{Cluster, ClusterBuilder, KubernetesProof, Review};

use crate::Issuer;
use crate::workload::VerifiedWorkload;

/// One way to prove who a workload is. The proofs of this crate are `KubernetesProof` and `AssertionProof`; an
/// embedder's own gives [`VerifiedWorkload::vouched_by_embedder`].
///
/// What it gets is hostile until it has judged it: it follows no address and no key that stands in the token, and it
/// tells [`ProofError::Unavailable`] from [`ProofError::Invalid`], since a client gives up at the second one.
pub trait Proof: fmt::Debug + Send + Sync + 'static {
    /// What logs and metrics call it, such as `kubernetes`.
    fn name(&self) -> &'static str;

    /// By which grant tokens come to it.
    fn grant(&self) -> Grant;

    /// Whether tokens with this `iss`, which nobody has verified, are for it. No I/O.
    fn is_for(&self, issuer: &str) -> bool;

    /// Judges a token.
    ///
    /// # Cancel safety
    /// A future that is dropped may have used up a token that can be used once.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<VerifiedWorkload, ProofError>>;

    /// Appends what it counts as OpenMetrics text, without the `# EOF` that ends it. By default nothing.
    fn write_metrics(&self, out: &mut String) {
        let _ = out;
    }
}

/// How a proof is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Grant {
    /// As the subject token of a token exchange (RFC 8693).
    TokenExchange,
    /// As the assertion of an authorization grant (RFC 7523 section 2.1).
    JwtBearer,
}

impl Grant {
    /// The `grant_type` of the request.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TokenExchange => "urn:ietf:params:oauth:grant-type:token-exchange",
            Self::JwtBearer => "urn:ietf:params:oauth:grant-type:jwt-bearer",
        }
    }

    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::TokenExchange, Self::JwtBearer];

    /// Its word in logs, and the `grant` label of metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::TokenExchange => "token_exchange",
            Self::JwtBearer => "jwt_bearer",
        }
    }
}

/// Why a token proves nothing. Holds nothing of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// It is refused, for good.
    #[error("{message}")]
    Invalid {
        /// A short name in snake_case, for metrics and logs.
        reason: &'static str,
        /// What is wrong, in words for whoever sent it.
        message: String,
    },
    /// Whether it is good cannot be told now.
    #[error("{message}")]
    Unavailable {
        /// A short name in snake_case, for metrics and logs.
        reason: &'static str,
        /// What is missing, in words that say nothing of the inside.
        message: String,
        /// When it may be asked again.
        retry_after: Duration,
    },
}

impl ProofError {
    /// Refused because of `reason`, which `message` explains to whoever sent it.
    pub fn invalid(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { reason, message: message.into() }
    }

    /// Not to be told before `retry_after`.
    pub fn unavailable(reason: &'static str, message: impl Into<String>, retry_after: Duration) -> Self {
        Self::Unavailable { reason, message: message.into(), retry_after }
    }

    /// A short name in snake_case, for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { reason, .. } | Self::Unavailable { reason, .. } => reason,
        }
    }

    /// When asking again may help; `None` if it will not.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => Some(*retry_after),
            Self::Invalid { .. } => None,
        }
    }
}

/// The proofs of one issuer.
#[derive(Debug, Default)]
pub(crate) struct Proofs(Vec<Arc<dyn Proof>>);

impl Proofs {
    pub(crate) fn new(proofs: Vec<Arc<dyn Proof>>) -> Self {
        Self(proofs)
    }

    /// The grants that are taken, each once.
    pub(crate) fn grants(&self) -> impl Iterator<Item = Grant> + Clone {
        Grant::ALL.into_iter().filter(|grant| self.0.iter().any(|proof| proof.grant() == *grant))
    }

    /// What each of them counts.
    pub(crate) fn write_metrics(&self, out: &mut String) {
        for proof in &self.0 {
            proof.write_metrics(out);
        }
    }

    fn find(&self, grant: Grant, issuer: &str) -> Option<&Arc<dyn Proof>> {
        self.0.iter().find(|proof| proof.grant() == grant && proof.is_for(issuer))
    }
}

impl Issuer {
    /// Judges a token that a workload proves itself with, by the proof that takes its issuer's tokens. With what comes
    /// out of it, [`mint`](Self::mint).
    ///
    /// # Errors
    /// A [`ProofError`].
    ///
    /// # Cancel safety
    /// As [`Proof::verify`].
    pub async fn prove(&self, grant: Grant, token: &str) -> Result<VerifiedWorkload, ProofError> {
        let issuer = unverified::issuer(token)?;
        if issuer == self.url().as_str() {
            return Err(ProofError::invalid(
                "own_token",
                "the token is this issuer's own, which proves nothing here; send the one that the platform gave",
            ));
        }
        let proof = self.proofs().find(grant, &issuer).ok_or_else(|| {
            ProofError::invalid(
                "unknown_issuer",
                "nobody is configured here who vouches for tokens of this `iss`; look at the token's `iss` and at \
                 [[cluster]] or [[assertion_issuer]]",
            )
        })?;
        proof.verify(token).await
    }
}

/// What a token says before anybody vouches for it.
mod unverified {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use oneseal_keystore::{json, verify};

    use super::ProofError;

    /// Its `iss`, from a payload that is strict JSON, inside a token of bounded length.
    pub(super) fn issuer(token: &str) -> Result<String, ProofError> {
        verify::UnverifiedJws::parse(token).map_err(|error| ProofError::invalid(error.reason(), SHAPE))?;
        let payload = token.split('.').nth(1).unwrap_or_default();
        let not_json = || {
            ProofError::invalid(
                "payload",
                "the token's payload is no JSON object with distinct names; send it as it was given out",
            )
        };
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| not_json())?;
        let claims = json::parse_object(&payload).map_err(|_| not_json())?;
        let issuer = claims.get("iss").and_then(|issuer| issuer.as_str());
        issuer
            .map(str::to_owned)
            .ok_or_else(|| ProofError::invalid("claim_missing", "the claim `iss` is missing or no string; send a token of the platform's, as it was given out"))
    }

    const SHAPE: &str = "the token is no compact JWS as RFC 7515 has it, or too long: send its three parts with the dots between \
                         them and nothing else, as the platform gave it out";
}
