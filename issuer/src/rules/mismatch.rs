//! Why a rule does not decide.

use std::fmt;

/// The first thing by which a rule does not let a workload have a token. Names what the rule wants, never what the
/// workload has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// It is for workloads that somebody else vouches for.
    Voucher,
    /// It does not list the audience.
    Audience,
    /// The workload's token is bound to no pod.
    Unbound,
    /// A condition does not hold.
    Condition {
        /// Of which fact or claim.
        field: String,
        /// What would do, in words.
        wanted: String,
        /// Whether anything is known there.
        is_known: bool,
    },
}

impl Mismatch {
    /// A short name in snake_case.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Voucher => "voucher",
            Self::Audience => "audience",
            Self::Unbound => "unbound",
            Self::Condition { .. } => "condition",
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voucher => f.write_str("it is for workloads of others"),
            Self::Audience => f.write_str("it does not list the audience"),
            Self::Unbound => {
                f.write_str("it wants a token that is bound to a pod (pod_uid), unless unbound = true")
            }
            Self::Condition { field, wanted, is_known: true } => write!(f, "{field} is not {wanted}"),
            Self::Condition { field, wanted, is_known: false } => {
                write!(f, "{field} is not known, and must be {wanted}")
            }
        }
    }
}
