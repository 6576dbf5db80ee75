//! Why no rule decides.

use std::fmt;

use super::{Considered, Known, Mismatch, RuleSet};
use crate::claims::Audience;
use crate::error::MintError;

/// Of what keeps a workload from a token the least, over all rules. Whoever has proved to be that workload may know it: it
/// names no rule and nothing that one asks for, and of rules for other clusters and issuers it says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoRule {
    /// None that is for those whom its voucher vouches for lists the audience.
    Audience,
    /// Some do, and a condition of each does not hold.
    Workload,
    /// One would, were the token that proved the workload bound to a pod.
    Unbound,
}

impl NoRule {
    /// A short name in snake_case.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Audience => "no_rule_for_audience",
            Self::Workload => "no_rule_for_workload",
            Self::Unbound => "bound_to_no_pod",
        }
    }
}

impl fmt::Display for NoRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Audience => {
                "none of the rules for its cluster, or for whoever else vouches for it, lists this audience; have a [[rule]] \
                 list it among its `audiences`, or ask for another"
            }
            Self::Workload => {
                "rules list this audience, but none of them takes this workload; have a [[rule]] name it, by namespace and \
                 service account or by what else is known of it"
            }
            Self::Unbound => {
                "a rule would, were the workload's own token bound to a pod; send one that kubelet projects into a pod, or \
                 let the [[rule]] say `unbound = true`"
            }
        })
    }
}

impl RuleSet {
    /// That none of them lets `known` have a token for `audience`, and why.
    pub(super) fn denial(&self, known: &Known<'_>, audience: &Audience) -> MintError {
        let against: Vec<_> = self
            .iter()
            .filter_map(|rule| {
                let mismatch = rule.mismatch(known.voucher, known.facts, audience)?;
                let is_near = !matches!(mismatch, Mismatch::Voucher | Mismatch::Audience);
                is_near.then(|| Considered { rule: rule.shared_name(), mismatch: Some(mismatch) })
            })
            .collect();
        let is_unbound = |one: &Considered| one.mismatch == Some(Mismatch::Unbound);
        let why = match against.as_slice() {
            [] => NoRule::Audience,
            several if several.iter().any(is_unbound) => NoRule::Unbound,
            _ => NoRule::Workload,
        };
        MintError::NotAllowed { audience: audience.clone(), why, against }
    }
}
