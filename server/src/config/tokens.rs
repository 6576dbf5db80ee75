//! `[token]`, where it listens, and by which URL it is known.

use std::net::SocketAddr;

use ipnet::IpNet;
use oneseal::token::{Rate, TokenLimits};
use oneseal_keystore::{Findings, rotation};

use super::list::Lists;
use super::value::Value;
use super::values::{Values, mismatch};
use super::{Tokens, codes};

/// Makes `[token]`.
pub(super) fn choose(values: &Values, lists: &Lists, findings: &mut Findings) -> Tokens {
    let rate = |per_minute, burst| Rate::new(number(values, per_minute), number(values, burst));
    let mut limits = TokenLimits::default();
    limits.subject = rate("token.subject_per_minute", "token.subject_burst");
    limits.max_body = usize::try_from(values.integer(MAX_BODY)).unwrap_or(usize::MAX);
    if limits.max_body < LEAST_BODY && !values.is_faulty(MAX_BODY) {
        let message =
            format!("{} is below {LEAST_BODY}, which a form with the largest token takes", limits.max_body);
        findings.push(&rotation::INEQUALITY, values.place(MAX_BODY), message);
    }
    let tokens = Tokens {
        endpoint: endpoint(values),
        limits,
        address: rate(ADDRESS, "token.address_burst"),
        trusted_proxies: trusted_proxies(values),
    };
    warn_of_no_effect(&tokens, values, lists, findings);
    tokens
}

/// `listen.token`.
pub(super) fn listen(values: &Values) -> Option<SocketAddr> {
    match &values.find(LISTEN)?.value {
        Value::Address(address) => Some(*address),
        other => mismatch(LISTEN, other),
    }
}

/// A listener at which nobody can prove anything, and limits of addresses that nobody knows.
fn warn_of_no_effect(tokens: &Tokens, values: &Values, lists: &Lists, findings: &mut Findings) {
    if ["cluster", "assertion_issuer"].iter().all(|list| lists.of(list).is_empty()) {
        let set = [(LISTEN, listen(values).is_some()), (ENDPOINT, tokens.endpoint.is_some())];
        for (path, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
            let message =
                "there is no [[cluster]] and no [[assertion_issuer]], so no workload can prove who it is";
            findings.push(&codes::NO_EFFECT, values.place(path), message);
        }
    }
    for (path, usual) in [(ADDRESS, 1200), ("token.address_burst", 300)] {
        if values.integer(path) != usual && tokens.trusted_proxies.is_empty() && !values.is_faulty(PROXIES) {
            let message = "listen.trusted_proxies is not set, so nobody's address is known";
            findings.push(&codes::NO_EFFECT, values.place(path), message);
        }
    }
}

fn endpoint(values: &Values) -> Option<String> {
    match &values.find(ENDPOINT)?.value {
        Value::Text(url) => Some(url.clone()),
        other => mismatch(ENDPOINT, other),
    }
}

fn trusted_proxies(values: &Values) -> Vec<IpNet> {
    match values.find(PROXIES).map(|set| &set.value) {
        None => Vec::new(),
        Some(Value::Networks(networks)) => networks.clone(),
        Some(other) => mismatch(PROXIES, other),
    }
}

/// The table allows no more than fits.
fn number(values: &Values, path: &str) -> u32 {
    u32::try_from(values.integer(path)).unwrap_or(u32::MAX)
}

/// Where tokens are asked for.
pub(super) const LISTEN: &str = "listen.token";
const PROXIES: &str = "listen.trusted_proxies";
const ENDPOINT: &str = "issuer.token_endpoint";
const ADDRESS: &str = "token.address_per_minute";
const MAX_BODY: &str = "token.max_body_bytes";
/// The largest token, and 4 KiB for the rest of the form.
const LEAST_BODY: usize = 20 * 1024;

#[cfg(test)]
mod tests {
    use crate::config::{PartialConfig, Sources};

    #[track_caller]
    fn assert_found(pairs: &[(&'static str, &str)], codes: &[&str]) {
        let sources = Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())]);
        let sources = pairs
            .iter()
            .fold(sources, |sources, (key, value)| sources.flag("--flag", key, Some((*value).into())));
        let findings = match PartialConfig::load(sources) {
            Ok((_, findings)) | Err(findings) => findings,
        };
        let names: Vec<_> = findings.iter().map(|finding| finding.code.name).collect();
        assert_eq!(names, codes, "{pairs:?}: {findings}");
    }

    #[test]
    fn what_nobody_can_use_is_a_warning() {
        assert_found(&[("listen.token", "127.0.0.1:1")], &["config.no_effect"]);
        assert_found(&[("issuer.token_endpoint", "https://tokens.example/t")], &["config.no_effect"]);
        assert_found(&[("token.address_per_minute", "5")], &["config.no_effect"]);
        let proxies = ("listen.trusted_proxies", "10.0.0.0/8, fd00::/8");
        assert_found(&[proxies, ("token.address_burst", "5")], &[]);
    }

    #[test]
    fn what_could_not_hold_is_refused() {
        assert_found(&[("issuer.token_endpoint", "http://tokens.example/t")], &["config.bad_value"]);
        assert_found(&[("issuer.token_endpoint", "https://u:p@tokens.example/t")], &["config.bad_value"]);
        assert_found(&[("listen.trusted_proxies", "10.0.0.0/33")], &["config.bad_value"]);
        assert_found(&[("token.max_body_bytes", "20479")], &["config.inequality"]);
        assert_found(&[("token.max_body_bytes", "20480")], &[]);
        assert_found(&[("listen.token", "[::]:8081")], &["config.conflict", "config.no_effect"]);
    }
}
