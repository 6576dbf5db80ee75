//! Asks the issuer's own URL which keys it serves now, before this replica serves others.
//!
//! Without a registry of replicas this is the only way to learn that another key is in use: a fleet of two keys
//! answers each relying party by turns, and half of all tokens fail. Only an answer that proves it refuses. Whoever
//! cannot be asked may be the first replica's own future self, so that is a warning.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, header};
use oneseal::{Clock, IssuerUrl, Snapshot, UnixTime};
use oneseal_keystore::findings::chain;
use oneseal_keystore::snapshot::PublishedKey;
use oneseal_keystore::{FLEET_KID_REUSED, Findings, KeyId};
use oneseal_relying_party::error::SourceError;
use oneseal_relying_party::fetch::{FetchOptions, Fetcher, SetupError};
use oneseal_relying_party::survey::{ServedKeys, Survey, survey};

use super::codes::{
    CLOCK_SKEWED, ISSUER_PUBLISHES_PRIVATE_KEY, ISSUER_SERVES_OTHER_KEYS, ISSUER_UNREACHABLE,
};
use crate::config::SelfCheck;

/// What the answer of `issuer` says of a replica that would publish `ours`.
///
/// # Cancel safety
/// Changes nothing; dropping the future closes the connection.
pub(crate) async fn ask(
    issuer: &IssuerUrl,
    how: &SelfCheck,
    ours: &Snapshot,
    allow_key_replacement: bool,
    clock: &dyn Clock,
) -> Findings {
    if !how.enabled {
        return Findings::new();
    }
    let fetcher = match fetcher(issuer, how, PATIENCE) {
        Ok(fetcher) => fetcher,
        Err(error) => return unreachable(issuer, &chain(&error)),
    };
    match tokio::time::timeout(PATIENCE, survey(&fetcher, issuer, clock)).await {
        Ok(seen) => judge(issuer, &seen, ours, allow_key_replacement, clock.wall()),
        Err(_) => unreachable(issuer, &format!("no complete answer within {PATIENCE:?}")),
    }
}

/// A client that asks as relying parties do, and trusts what the operator says beside the system's certificates.
pub(crate) fn fetcher(
    issuer: &IssuerUrl,
    how: &SelfCheck,
    deadline: Duration,
) -> Result<Fetcher, SetupError> {
    let mut options = FetchOptions::default();
    options.deadline = deadline;
    options.https = issuer.is_https();
    options.extra_roots.clone_from(&how.extra_roots);
    Fetcher::new(&options)
}

fn judge(
    issuer: &IssuerUrl,
    seen: &Survey,
    ours: &Snapshot,
    allow_key_replacement: bool,
    now: UnixTime,
) -> Findings {
    let mut findings = Findings::new();
    let is_private = |fault: &&SourceError| matches!(fault, SourceError::NoUsableKey { private: 1.., .. });
    let told = seen.faults.iter().find(is_private).map(|fault| chain(fault));
    let held = seen.keys.as_ref().filter(|keys| keys.private() > 0);
    if let Some(message) = told.or_else(|| held.map(|keys| format!("{} of its entries", keys.private()))) {
        findings.push(&ISSUER_PUBLISHES_PRIVATE_KEY, issuer.as_str(), message);
    }
    if let Some(fault) = seen.faults.iter().find(|fault| !is_private(fault)) {
        findings.extend(unreachable(issuer, &chain(fault)));
        return findings;
    }
    if let Some(keys) = &seen.keys {
        findings.extend(judge_keys(issuer, keys, ours.keys(), allow_key_replacement));
    }
    findings.extend(judge_clock(seen, now, Duration::from_secs(ours.rotation().skew_s)));
    findings
}

/// Served keys of whom the fleet of `ours` cannot be.
pub(super) fn judge_keys(
    issuer: &IssuerUrl,
    served: &ServedKeys,
    ours: &[PublishedKey],
    allow_key_replacement: bool,
) -> Findings {
    let mut findings = Findings::new();
    let comparison = served.compare(ours);
    for kid in &comparison.reused {
        let message = format!("another key is served there under the kid {kid} than this replica has");
        findings.push(&FLEET_KID_REUSED, issuer.as_str(), message);
    }
    if comparison.common.is_empty() && comparison.reused.is_empty() {
        let (theirs, ours) = (list(served.kids()), list(ours.iter().map(|key| &key.kid)));
        if allow_key_replacement {
            tracing::warn!(served = theirs, ours, "the key set that the issuer serves is being replaced");
        } else {
            let message = format!("served there: {theirs}; this replica's: {ours}");
            findings.push(&ISSUER_SERVES_OTHER_KEYS, issuer.as_str(), message);
        }
    }
    findings
}

/// By the `Date` of the answer (RFC 9110 section 6.6.1) and the `Age` that a cache has added. Both are whole seconds,
/// and the answer was some time on its way.
pub(super) fn judge_clock(seen: &Survey, now: UnixTime, skew: Duration) -> Findings {
    let mut findings = Findings::new();
    let looks = [seen.jwks.as_ref(), Some(&seen.discovery)];
    let told = looks.into_iter().flatten().find_map(|look| {
        let fetched = look.fetched.as_ref()?;
        Some((look, date(&fetched.headers)?))
    });
    let Some((look, date)) = told else { return findings };
    let off = date.as_secs().saturating_sub(now.as_secs());
    let allowed = skew + look.took + ROUNDING;
    if u128::from(off.unsigned_abs()) > u128::from(allowed.as_secs()) {
        let (span, side) = (
            humantime::format_duration(Duration::from_secs(off.unsigned_abs())),
            if off < 0 { "ahead of" } else { "behind" },
        );
        findings.push(
            &CLOCK_SKEWED,
            look.url.as_str(),
            format!("this host's clock is {span} {side} the issuer's"),
        );
    }
    findings
}

fn date(headers: &HeaderMap) -> Option<UnixTime> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let date = httpdate::parse_http_date(text(header::DATE)?).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let age =
        text(header::AGE).and_then(|age| age.trim().parse().ok()).map_or(Duration::ZERO, Duration::from_secs);
    i64::try_from(date.saturating_add(age).as_secs()).ok().map(UnixTime)
}

fn unreachable(issuer: &IssuerUrl, why: &str) -> Findings {
    let mut findings = Findings::new();
    findings.push(&ISSUER_UNREACHABLE, issuer.as_str(), why);
    findings
}

/// Names in a sentence; of very many only the first, since another's document decides how many there are.
pub(super) fn list<'a>(kids: impl Iterator<Item = &'a KeyId>) -> String {
    let kids: Vec<_> = kids.map(KeyId::as_str).collect();
    let shown = kids.iter().take(MAX_SHOWN).copied().collect::<Vec<_>>().join(", ");
    if kids.len() > MAX_SHOWN { format!("{shown} and {} more", kids.len() - MAX_SHOWN) } else { shown }
}

/// For both documents together: a start must not hang on somebody who does not answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// `Date` and our own wall clock drop the fraction.
const ROUNDING: Duration = Duration::from_secs(1);
const MAX_SHOWN: usize = 10;
