//! Why a token was not minted, or not believed.

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::UnixTime;
use oneseal_keystore::findings::Code;
use oneseal_keystore::{Algorithm, verify};

use crate::claims::{Audience, ClaimError, TokenLifetime};
use crate::rules::{Considered, NoRule, Unwritable};

/// Why a token was not minted. Every text says what to do about it; none holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// `Tasks` is not running, so this replica would never notice a changed key.
    #[error(
        "this issuer's background tasks are not running, so a changed key would go unnoticed; \
         start `Tasks::run`, which came with the issuer, and keep it running as long as tokens are minted"
    )]
    TasksNotRunning,
    /// The key was last seen too long ago to be sure that it still is the fleet's.
    #[error(
        "the key provider was last read {age_s} s ago, above the staleness limit of {limit_s} s; \
         minting resumes by itself once {}: see the log", awaited(*.fault)
    )]
    Stale {
        /// How long ago, in seconds.
        age_s: u64,
        /// The limit, in seconds.
        limit_s: u64,
        /// Why the last look at the provider failed, such as `provider.not_found`, or its record was refused, such as
        /// `fleet.key_replaced`; `None` where it has not come to an end yet.
        fault: Option<&'static Code>,
    },
    /// This host's clock is too far from the reference: tokens would be from the future, or dead too late.
    #[error(
        "this host's clock is {offset_s} s ahead of the reference clock (negative: behind), and the ring's skew allows \
         {skew_s} s; minting resumes by itself once a time service has set it right"
    )]
    ClockSkewed {
        /// By how much it is ahead, in seconds.
        offset_s: i64,
        /// What is allowed, in seconds.
        skew_s: u64,
    },
    /// More tokens are asked for than can be signed.
    #[error("all RSA signing threads are busy and their queue is full; try again in {} s", BUSY_RETRY_AFTER.as_secs())]
    Busy,
    /// No key of this algorithm is active and has its private half here.
    #[error("no {0} key is active on this replica; add one, or ask for an algorithm that has one")]
    NoKey(Algorithm),
    /// Its key was burned, and the key in its place does not sign yet.
    #[error(
        "ring.emergency: the {algorithm} key was burned at {burned_at}, and its successor does not sign yet; minting comes \
         back with `oneseal keys activate`, which may be done once every replica serves the successor, and at the latest \
         from {until} on"
    )]
    Emergency {
        /// Whose.
        algorithm: Algorithm,
        /// When it was burned.
        burned_at: UnixTime,
        /// From then on the successor may sign, whoever is not heard of.
        until: UnixTime,
    },
    /// This replica is `public-only`: it publishes and verifies, and has no private half.
    #[error(
        "this replica is public-only and mints nothing; ask one with the key-encryption key (ring.mode = \"full\")"
    )]
    PublicOnly,
    /// No rule allows this.
    #[error("no rule lets this workload have tokens for the audience {audience}: {why}")]
    NotAllowed {
        /// For whom one was asked for.
        audience: Audience,
        /// The least that is in the way.
        why: NoRule,
        /// What each rule that is for its voucher's workloads and lists the audience has against it. For the operator:
        /// names rules and what they ask for.
        against: Vec<Considered>,
    },
    /// Nobody has said what its `sub` is.
    #[error(
        "neither whoever vouches for the workload nor the rule says what its `sub` is; give the rule a `sub`"
    )]
    NoSubject,
    /// A rule matches, and what it has to write cannot be made of what is known of the workload.
    #[error(
        "the rule {rule} cannot write `{part}`: {why}; correct the rule, or what is said of the workload"
    )]
    Unwritable {
        /// Which rule, by its name.
        rule: Arc<str>,
        /// Which part of it, such as `sub` or `claims.team`.
        part: String,
        /// Why.
        why: Unwritable,
    },
    /// The audience is this issuer or its token endpoint.
    #[error(
        "the audience {0} is this issuer itself, whose token must not be its own proof; name the relying party"
    )]
    OwnAudience(Audience),
    /// The algorithm asked for is not the rule's, or not among the issuer's.
    #[error("{asked} was asked for, but here tokens are signed with {}; ask for that, or for none", list(.allowed))]
    AlgorithmNotAllowed {
        /// What was asked for.
        asked: Algorithm,
        /// What could have been.
        allowed: Vec<Algorithm>,
    },
    /// The life asked for exceeds the rule's, or the ring's `max_token_ttl`.
    #[error("a life of {asked} was asked for, but at most {limit} is allowed; ask for less")]
    LifetimeTooLong {
        /// What was asked for.
        asked: TokenLifetime,
        /// The smaller of the rule's limit and the ring's.
        limit: TokenLifetime,
    },
    /// The token would have expired when it was made, because its times are set back.
    #[error("a life of {life} is over at once, since tokens are backdated by {backdate_s} s; ask for more")]
    LifetimeTooShort {
        /// The life it would have had.
        life: TokenLifetime,
        /// How far times are set back, in seconds.
        backdate_s: u64,
    },
    /// A part of the request cannot stand in a token.
    #[error("the request is refused: {0}")]
    Invalid(#[from] ClaimError),
    /// The signature primitive failed, which no input explains.
    #[error(
        "signing failed for no reason that the request could explain; the log and the host's health may tell"
    )]
    Failed,
}

impl MintError {
    /// Whether the same request can succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        self.retry_after().is_some()
    }

    /// How long to wait before trying again; `None` if that cannot help.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy | Self::Failed => Some(BUSY_RETRY_AFTER),
            Self::Stale { .. } | Self::ClockSkewed { .. } => Some(STALE_RETRY_AFTER),
            Self::Emergency { .. } => Some(EMERGENCY_RETRY_AFTER),
            Self::TasksNotRunning
            | Self::NoKey(_)
            | Self::PublicOnly
            | Self::NotAllowed { .. }
            | Self::NoSubject
            | Self::Unwritable { .. }
            | Self::OwnAudience(_)
            | Self::AlgorithmNotAllowed { .. }
            | Self::LifetimeTooLong { .. }
            | Self::LifetimeTooShort { .. }
            | Self::Invalid(_) => None,
        }
    }

    /// The `result` label of the mint counter.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::TasksNotRunning => "tasks_not_running",
            Self::Stale { .. } => "stale",
            Self::ClockSkewed { .. } => "clock_skewed",
            Self::Busy => "busy",
            Self::NoKey(_) => "no_key",
            Self::Emergency { .. } => "emergency",
            Self::PublicOnly => "public_only",
            Self::NotAllowed { .. }
            | Self::NoSubject
            | Self::Unwritable { .. }
            | Self::OwnAudience(_)
            | Self::AlgorithmNotAllowed { .. } => "not_allowed",
            Self::LifetimeTooLong { .. } | Self::LifetimeTooShort { .. } | Self::Invalid(_) => "invalid",
            Self::Failed => "failed",
        }
    }

    /// Every `result` that a failure can have.
    pub(crate) const LABELS: [&str; 10] = [
        "tasks_not_running",
        "stale",
        "clock_skewed",
        "busy",
        "no_key",
        "emergency",
        "public_only",
        "not_allowed",
        "invalid",
        "failed",
    ];
}

/// Why a token of ours was not believed. Holds no text of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The signature, or the form of the token.
    #[error("the token is not one that this issuer's published keys verify")]
    Signature(#[source] verify::VerifyError),
    /// The payload is no claim set as this issuer writes it.
    #[error("the claim `{0}` is missing or has the wrong type")]
    Claim(&'static str),
    /// The payload is no strict JSON object.
    #[error("the token's payload is no JSON object with distinct names")]
    Payload,
    /// `iss` is another issuer.
    #[error("the token names another issuer")]
    Issuer,
    /// `aud` is another relying party.
    #[error("the token is for another audience")]
    Audience,
    /// `exp` has passed.
    #[error("the token expired {ago_s} s ago")]
    Expired {
        /// How long ago, in seconds.
        ago_s: i64,
    },
    /// `nbf` or `iat` lies ahead by more than clocks may differ.
    #[error("the token is from the future by {ahead_s} s; compare the clocks")]
    NotYetValid {
        /// By how much, in seconds.
        ahead_s: i64,
    },
}

/// What has to happen before a stale replica mints again.
fn awaited(fault: Option<&Code>) -> String {
    match fault {
        None => "the provider answers".to_owned(),
        Some(code) => format!("what the last look ended with, {}, has been put right", code.name),
    }
}

fn list(algorithms: &[Algorithm]) -> String {
    algorithms.iter().map(|algorithm| algorithm.as_str()).collect::<Vec<_>>().join(" or ")
}

/// A full queue of RSA-2048 signatures is worked off well within this.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);
/// The second commit of an emergency takes a few seconds where every replica answers.
const EMERGENCY_RETRY_AFTER: Duration = Duration::from_secs(5);
/// As long as a replica needs to look at its provider again, by default.
const STALE_RETRY_AFTER: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_by_itself_is_retryable() {
        assert!(MintError::Busy.is_retryable());
        assert_eq!(
            MintError::Stale { age_s: 4000, limit_s: 3600, fault: None }.retry_after(),
            Some(Duration::from_secs(15))
        );
        assert!(!MintError::TasksNotRunning.is_retryable());
        assert!(!MintError::NoKey(Algorithm::Es256).is_retryable());
    }

    #[test]
    fn the_texts_name_their_cure() {
        assert!(MintError::TasksNotRunning.to_string().contains("Tasks::run"));
        let refused = MintError::AlgorithmNotAllowed {
            asked: Algorithm::EdDsa,
            allowed: vec![Algorithm::Rs256, Algorithm::Es256],
        };
        assert!(refused.to_string().contains("RS256 or ES256"), "{refused}");
    }
}
