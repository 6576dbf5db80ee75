//! `[[rule]]`: who gets which tokens.

use std::time::Duration;

use oneseal::{Pattern, Rehearsal, Rule, RuleSet};
use oneseal_keystore::findings::Severity;
use oneseal_keystore::{Algorithm, Findings, IssuerUrl, Rotation};
use serde_json::{Map, Value as Json};

use super::codes;
use super::compound::Match;
use super::list::Item;
use super::value::Value;
use super::values::mismatch;

/// What rules are judged by.
pub(super) struct Around<'a> {
    pub(super) issuer: Option<&'a IssuerUrl>,
    /// Where tokens are asked for, if not below the issuer's URL.
    pub(super) token_endpoint: Option<&'a str>,
    pub(super) algorithms: &'a [Algorithm],
    pub(super) rotation: &'a Rotation,
    /// The names of all clusters, also of those in which something is wrong.
    pub(super) clusters: Vec<String>,
    /// The names of all assertion issuers.
    pub(super) assertion_issuers: Vec<String>,
}

/// Makes them of the tables, and reports what is wrong with them. Warnings are told by whoever uses them.
pub(super) fn choose(items: Vec<Item>, around: &Around<'_>, findings: &mut Findings) -> RuleSet {
    let rules: Vec<_> = items.into_iter().filter_map(|item| one(item, findings)).collect();
    let rules = RuleSet::new(rules);
    let [clusters, issuers] =
        [&around.clusters, &around.assertion_issuers].map(|names| names.iter().map(String::as_str));
    findings.extend(rules.check_vouchers(clusters, issuers));
    if let Some(issuer) = around.issuer {
        let (algorithms, rotation) = (around.algorithms.to_vec(), around.rotation.clone());
        let rehearsal = Rehearsal::new(issuer, around.token_endpoint, algorithms, rotation, rules.clone());
        let found = rehearsal.check();
        for finding in found.iter().filter(|finding| finding.code.severity == Severity::Error) {
            findings.push(finding.code, &finding.place, &finding.message);
        }
    }
    rules
}

fn one(mut item: Item, findings: &mut Findings) -> Option<Rule> {
    let (clusters, issuers) = (names(&item, "cluster"), names(&item, "assertion_issuer"));
    match (&clusters, &issuers) {
        (None, None) => {
            let message =
                "it is for nobody: name the `cluster` or the `assertion_issuer` that vouches for them";
            item.refuse(&codes::MISSING, "cluster", message, findings);
        }
        (Some(_), Some(_)) => {
            let message = "`cluster` is set as well; write a rule for each";
            item.refuse(&codes::CONFLICT, "assertion_issuer", message, findings);
        }
        _ => {}
    }
    if item.is_faulty() {
        return None;
    }
    let (name, sub) = (item.text("name")?, item.text("sub")?);
    let mut rule = match (clusters, issuers) {
        (Some(clusters), _) => Rule::of_clusters(name, clusters, sub),
        (None, issuers) => Rule::of_assertion_issuers(name, issuers?, sub),
    };
    rule = rule.at(item.place()).audiences(texts(&item, "audiences"));
    for field in ["namespace", "service_account"] {
        if let Some(Value::Matches(any_of)) = item.value(field) {
            rule = rule.when(field, patterns(any_of));
        }
    }
    if let Some(Value::Conditions(conditions)) = item.value("when") {
        for (field, any_of) in conditions {
            rule = rule.when(field, patterns(any_of));
        }
    }
    if matches!(item.value("unbound"), Some(Value::Bool(true))) {
        rule = rule.unbound(true);
    }
    if let Some(Value::Algorithm(algorithm)) = item.value("algorithm") {
        rule = rule.algorithm(*algorithm);
    }
    rule = rule.ttl(item.duration("ttl").unwrap_or(HOUR));
    if let Some(claims) = table(&item, "claims") {
        rule = rule.claims(claims);
    }
    let tags = table(&item, "aws_session_tags").into_iter().flatten();
    let tags = tags.filter_map(|(key, value)| Some((key, value.as_str()?)));
    Some(rule.aws_session_tags(tags).aws_transitive_tags(texts(&item, "aws_transitive_tags")))
}

fn patterns(any_of: &[Match]) -> Vec<Pattern> {
    let pattern = |wanted: &Match| match wanted {
        Match::Exactly(value) => Pattern::exactly(value.clone()),
        Match::Prefix(prefix) => Pattern::prefix(prefix),
    };
    any_of.iter().map(pattern).collect()
}

fn names(item: &Item, key: &str) -> Option<Vec<String>> {
    match item.value(key)? {
        Value::Names(names) => Some(names.clone()),
        other => mismatch(key, other),
    }
}

fn texts(item: &Item, key: &str) -> Vec<String> {
    match item.value(key) {
        None => Vec::new(),
        Some(Value::Audiences(texts) | Value::TagKeys(texts)) => texts.clone(),
        Some(other) => mismatch(key, other),
    }
}

fn table<'a>(item: &'a Item, key: &str) -> Option<&'a Map<String, Json>> {
    match item.value(key)? {
        Value::Table(members) => Some(members),
        other => mismatch(key, other),
    }
}

/// As the row has it.
const HOUR: Duration = Duration::from_secs(3600);
