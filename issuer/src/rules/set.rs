//! The rules of an issuer, in their order, and what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};

use oneseal_keystore::{Algorithm, Findings, Rotation};

use super::is_own;
use super::rule::{Rule, Whom};
use crate::claims::Audience;
use crate::codes::{
    RULE_ALGORITHM_UNLISTED, RULE_NAME_TAKEN, RULE_OWN_AUDIENCE, RULE_SUBJECT_SHARED, RULE_TTL_CLAMPED,
    RULE_UNKNOWN_VOUCHER, RULE_UNREACHABLE,
};

/// Rules in the order in which they are tried: the first that matches decides, and where none does nothing is minted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSet(Vec<Rule>);

impl RuleSet {
    /// These rules.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self(rules.into_iter().collect())
    }

    /// Each rule.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none, so that nobody gets anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which rules are for a cluster or an assertion issuer that is none of these: nobody else could ever vouch for
    /// them, and a mistyped name must not look like one that lets nobody in on purpose.
    pub fn check_vouchers<'a>(
        &self,
        clusters: impl IntoIterator<Item = &'a str>,
        assertion_issuers: impl IntoIterator<Item = &'a str>,
    ) -> Findings {
        let known: [BTreeSet<&str>; 2] =
            [clusters.into_iter().collect(), assertion_issuers.into_iter().collect()];
        let mut findings = Findings::new();
        for rule in self.iter() {
            for ((names, known), word) in rule.vouchers().into_iter().zip(&known).zip(VOUCHERS) {
                for name in names.iter().filter(|name| !known.contains(name.as_str())) {
                    let among = known.iter().copied().collect::<Vec<_>>().join(", ");
                    let hint = if among.is_empty() {
                        "there is none".to_owned()
                    } else {
                        format!("there are {among}")
                    };
                    let name = super::field::shown(name);
                    findings.push(
                        &RULE_UNKNOWN_VOUCHER,
                        rule.place(),
                        format!("{word}: {name} is none; {hint}"),
                    );
                }
            }
        }
        findings
    }

    /// What is wrong with the rules themselves. `own` are the issuer's identifiers, without a slash at the end.
    pub(super) fn check(&self, own: &[String], algorithms: &[Algorithm]) -> Findings {
        let mut findings = Findings::new();
        for (at, rule) in self.0.iter().enumerate() {
            let place = rule.place();
            for fault in rule.faults() {
                findings.push(fault.code, &place, fault.message);
            }
            for audience in rule.audiences.iter().filter(|audience| is_own(own, audience)) {
                findings.push(&RULE_OWN_AUDIENCE, &place, format!("the audience {audience} is this issuer"));
            }
            if let Some(algorithm) = rule.algorithm.filter(|algorithm| !algorithms.contains(algorithm)) {
                let message = format!("{algorithm} is not among the issuer's");
                findings.push(&RULE_ALGORITHM_UNLISTED, &place, message);
            }
            findings.extend(unreachable(&self.0[..at], rule));
        }
        findings.extend(self.shared_names());
        findings.extend(self.shared_subjects());
        findings.extend(self.mixed_namespaces());
        findings
    }

    /// Which rules the times in force will cut short.
    pub(crate) fn check_against(&self, rotation: &Rotation) -> Findings {
        let mut findings = Findings::new();
        let limit = rotation.max_token_ttl_s;
        for rule in self.0.iter().filter(|rule| rule.ttl.as_secs() > limit) {
            findings.push(&RULE_TTL_CLAMPED, rule.place(), format!("{} is above {limit} s", rule.ttl));
        }
        findings
    }

    /// An embedder's rules are called by their audiences, of which the first rule decides: that is told already.
    fn shared_names(&self) -> Findings {
        let mut findings = Findings::new();
        let mut seen = BTreeSet::new();
        for rule in self.0.iter().filter(|rule| rule.whom != Whom::Embedder) {
            if !seen.insert(rule.name()) {
                let name = super::field::shown(rule.name());
                findings.push(&RULE_NAME_TAKEN, rule.place(), format!("{name} is another rule's name"));
            }
        }
        findings
    }

    /// Where whoever may make a service account in any namespace can get the `sub` of another's.
    fn mixed_namespaces(&self) -> Findings {
        let mut findings = Findings::new();
        for rule in self.iter().filter(|rule| rule.mixes_namespaces()) {
            let message = "sub: it can be the same for service accounts of different namespaces";
            findings.push(&RULE_SUBJECT_SHARED, rule.place(), message);
        }
        findings
    }

    /// Where two clusters, or two assertion issuers, can give one `sub`.
    fn shared_subjects(&self) -> Findings {
        let mut findings = Findings::new();
        let mut givers: BTreeMap<String, BTreeSet<(&str, &String)>> = BTreeMap::new();
        for rule in self.iter() {
            let Some(template) = &rule.subject else { continue };
            let vouchers = rule.vouchers().into_iter().zip(VOUCHERS);
            let mut own: BTreeSet<_> =
                vouchers.flat_map(|(names, word)| names.iter().map(move |name| (word, name))).collect();
            if own.is_empty() || VOUCHERS.into_iter().any(|word| template.names(word)) {
                continue;
            }
            let text = format!("{template:?}");
            let others = givers.entry(text).or_default();
            own.extend(others.iter());
            if own.len() > 1 {
                let names: Vec<_> = own.iter().map(|(word, name)| format!("the {word} {name}")).collect();
                let message = format!("sub: it can be the same for workloads of {}", names.join(" and of "));
                findings.push(&RULE_SUBJECT_SHARED, rule.place(), message);
            }
            *others = own;
        }
        findings
    }
}

/// The audiences of `rule` that one of `earlier` decides, if that leaves it none.
fn unreachable(earlier: &[Rule], rule: &Rule) -> Findings {
    let mut findings = Findings::new();
    let decides = |audience: &Audience| {
        earlier.iter().find(|earlier| earlier.audiences.contains(audience) && earlier.includes(rule))
    };
    let decided: Vec<_> =
        rule.audiences.iter().filter_map(|audience| Some((audience, decides(audience)?))).collect();
    if decided.len() == rule.audiences.len() {
        for (audience, earlier) in decided {
            let message = match rule.whom {
                Whom::Embedder => format!("{audience} is allowed before"),
                _ => format!("whatever it matches for {audience} the rule {} matches before", earlier.name()),
            };
            findings.push(&RULE_UNREACHABLE, rule.place(), message);
        }
    }
    findings
}

/// As the configuration and the templates call them.
const VOUCHERS: [&str; 2] = ["cluster", "assertion_issuer"];
