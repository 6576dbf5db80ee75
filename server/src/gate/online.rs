//! Judges the issuer as relying parties reach it: `check --online`.
//!
//! The limits are those of known relying parties, each named in its code's own row. What is looked at is what they
//! see, from where this runs: an issuer that is good from inside the cluster may be unreachable from a cloud.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode, header};
use oneseal::{Algorithm, Clock, IssuerUrl, Snapshot};
use oneseal_keystore::Findings;
use oneseal_keystore::findings::{Code, chain};
use oneseal_relying_party::error::{Document, SourceError};
use oneseal_relying_party::fetch::{FetchError, Fetched, Fetcher};
use oneseal_relying_party::survey::{Look, ServedKeys, Survey, survey};
use serde::Serialize;

use super::codes::*;
use super::self_check::{self, fetcher, list};
use crate::config::Settings;

/// What was found, and what was measured.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What is wrong with it.
    pub(crate) findings: Findings,
    /// Both documents, as far as they came.
    pub(crate) measures: Vec<Measure>,
}

/// One document as it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Measure {
    /// `discovery` or `jwks`.
    pub(crate) document: &'static str,
    /// Where.
    pub(crate) url: String,
    /// From name lookup to the last byte.
    pub(crate) ms: u64,
    /// The length of a whole answer of status 200; `null` if there was none.
    pub(crate) bytes: Option<usize>,
    /// Its field `Content-Type`.
    pub(crate) content_type: Option<String>,
    /// Its field `Cache-Control`.
    pub(crate) cache_control: Option<String>,
}

/// For people, in one line.
impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { document, url, ms, bytes, .. } = self;
        let bytes = bytes.map_or_else(|| "no document".to_owned(), |bytes| format!("{bytes} bytes"));
        write!(f, "{document} {url}: {ms} ms, {bytes}")
    }
}

/// Looks at `issuer` from outside. `ours` is what this configuration's replica would publish, if its key is good.
///
/// # Cancel safety
/// Changes nothing; dropping the future closes the connection.
pub(crate) async fn look(
    issuer: &IssuerUrl,
    settings: &Settings,
    ours: Option<&Snapshot>,
    clock: &dyn Clock,
) -> Seen {
    let mut findings = Findings::new();
    let fetcher = match fetcher(issuer, &settings.self_check, PATIENCE) {
        Ok(fetcher) => fetcher,
        Err(error) => {
            findings.push(&ONLINE_UNREACHABLE, issuer.as_str(), chain(&error));
            return Seen { findings, measures: Vec::new() };
        }
    };
    let seen = survey(&fetcher, issuer, clock).await;
    findings.extend(judge(issuer, settings, &seen, ours));
    let skew = ours.map_or(settings.rotation.skew_s, |ours| ours.rotation().skew_s);
    findings.extend(self_check::judge_clock(&seen, clock.wall(), Duration::from_secs(skew)));
    for look in looks(&seen) {
        findings.extend(judge_head(&fetcher, look).await);
    }
    Seen { findings, measures: looks(&seen).map(measure).collect() }
}

/// All that can be said of what was seen.
fn judge(issuer: &IssuerUrl, settings: &Settings, seen: &Survey, ours: Option<&Snapshot>) -> Findings {
    let mut findings = Findings::new();
    for fault in &seen.faults {
        let (code, place) = code_of(fault);
        findings.push(code, place.map_or_else(|| place_of(seen, fault), str::to_owned), chain(fault));
    }
    let max_age = ours.map_or(settings.rotation.jwks_max_age_s, |ours| ours.rotation().jwks_max_age_s);
    for look in looks(seen) {
        findings.extend(judge_time(look));
        if let Some(fetched) = &look.fetched {
            findings.extend(judge_answer(look, fetched, max_age));
        }
    }
    if let (Some(keys), Some(jwks)) = (&seen.keys, &seen.jwks) {
        findings.extend(judge_set(&jwks.url, keys));
        if let Some(ours) = ours {
            findings.extend(judge_ours(issuer, &jwks.url, keys, ours));
        }
    }
    if let Some(document) = &seen.document {
        let silent: Vec<_> =
            settings.algorithms.iter().filter(|alg| !document.names_algorithm(**alg)).collect();
        if !silent.is_empty() {
            let names =
                silent.into_iter().map(|algorithm: &Algorithm| algorithm.as_str()).collect::<Vec<_>>();
            let message = format!("it does not name {}", names.join(", "));
            findings.push(&ONLINE_ALGORITHM_MISSING, seen.discovery.url.as_str(), message);
        }
    }
    findings
}

/// The row of a fault, and its place where the fault knows that itself.
fn code_of(fault: &SourceError) -> (&'static Code, Option<&str>) {
    match fault {
        SourceError::Fetch { source, url, .. } => (code_of_fetch(source), Some(url)),
        SourceError::Status { status: 401 | 403 | 407, url, .. } => (&ONLINE_CREDENTIALS, Some(url)),
        SourceError::Status { url, .. } => (&ONLINE_STATUS, Some(url)),
        SourceError::IssuerMismatch => (&ONLINE_ISSUER_DIFFERS, None),
        SourceError::JwksUri => (&ONLINE_JWKS_URI, None),
        SourceError::TooManyKeys { .. } => (&ONLINE_TOO_MANY_KEYS, None),
        SourceError::NoUsableKey { private: 1.., .. } => (&ONLINE_PRIVATE_KEY, None),
        _ => (&ONLINE_NOT_AN_ISSUER, None),
    }
}

fn code_of_fetch(error: &FetchError) -> &'static Code {
    match error {
        FetchError::Certificate(_) | FetchError::AuthorityAsServer => &ONLINE_CERTIFICATE,
        FetchError::Redirect(_) => &ONLINE_REDIRECT,
        FetchError::Encoded => &ONLINE_ENCODED,
        FetchError::TooLarge(_) => &ONLINE_NOT_AN_ISSUER,
        _ => &ONLINE_UNREACHABLE,
    }
}

/// The document that the fault is in.
fn place_of(seen: &Survey, fault: &SourceError) -> String {
    let is_of_discovery = matches!(
        fault,
        SourceError::IssuerMismatch
            | SourceError::JwksUri
            | SourceError::Json { document: Document::Discovery, .. }
    );
    let jwks = seen.jwks.as_ref().filter(|_| !is_of_discovery);
    jwks.unwrap_or(&seen.discovery).url.clone()
}

fn judge_time(look: &Look) -> Findings {
    let mut findings = Findings::new();
    // Who has not answered at all has been told of already.
    if look.fetched.is_some() && look.took > SLOW {
        findings.push(&ONLINE_SLOW, look.url.as_str(), format!("it took {} ms", look.took.as_millis()));
    }
    findings
}

/// Length and header fields of one document.
fn judge_answer(look: &Look, fetched: &Fetched, max_age_s: u64) -> Findings {
    let mut findings = Findings::new();
    let mut fault = |code, message: String| findings.push(code, look.url.as_str(), message);
    let headers = &fetched.headers;
    if fetched.body.len() > MAX_BYTES {
        fault(&ONLINE_TOO_LARGE, format!("it has {} bytes", fetched.body.len()));
    }
    match text(headers, header::CONTENT_TYPE) {
        Some(kind) if is_json(&kind, look.document) => {}
        Some(kind) => fault(&ONLINE_CONTENT_TYPE, format!("its Content-Type is {}", shown(&kind))),
        None => fault(&ONLINE_CONTENT_TYPE, "it has no Content-Type".to_owned()),
    }
    match text(headers, header::CACHE_CONTROL) {
        None => fault(&ONLINE_NO_CACHE_CONTROL, "it has no Cache-Control".to_owned()),
        Some(said) => match longest_life(&said) {
            None => fault(&ONLINE_NO_CACHE_CONTROL, format!("its Cache-Control is {}", shown(&said))),
            Some(life) if life > max_age_s => {
                let message =
                    format!("it may be cached for {life} s, and the configuration says {max_age_s} s");
                fault(&ONLINE_CACHED_LONGER, message);
            }
            Some(_) => {}
        },
    }
    if let Some(vary) = text(headers, header::VARY) {
        fault(&ONLINE_VARIES, format!("it says Vary: {}", shown(&vary)));
    }
    if headers.contains_key(header::SET_COOKIE) {
        fault(&ONLINE_COOKIE, "it has a Set-Cookie".to_owned());
    }
    findings
}

/// The set itself.
fn judge_set(url: &str, keys: &ServedKeys) -> Findings {
    let mut findings = Findings::new();
    if keys.entries() > MAX_KEYS {
        findings.push(&ONLINE_TOO_MANY_KEYS, url, format!("it has {} keys", keys.entries()));
    }
    if keys.private() > 0 {
        findings.push(
            &ONLINE_PRIVATE_KEY,
            url,
            format!("{} of its entries are no public key", keys.private()),
        );
    }
    findings
}

/// The set beside the one that this configuration publishes.
fn judge_ours(issuer: &IssuerUrl, url: &str, served: &ServedKeys, ours: &Snapshot) -> Findings {
    let mut findings = self_check::judge_keys(issuer, served, ours.keys(), false);
    let comparison = served.compare(ours.keys());
    if !comparison.other_algorithm.is_empty() {
        let message = format!("served for another algorithm: {}", list(comparison.other_algorithm.iter()));
        findings.push(&ONLINE_ALGORITHM_DIFFERS, url, message);
    }
    // Of wholly other keys that has been said, with all their names.
    if comparison.common.is_empty() {
        return findings;
    }
    if !comparison.missing.is_empty() {
        let message = format!("not served: {}", list(comparison.missing.iter()));
        findings.push(&ONLINE_KEYS_MISSING, url, message);
    }
    if !comparison.beyond.is_empty() {
        let message = format!("served besides: {}", list(comparison.beyond.iter()));
        findings.push(&ONLINE_KEYS_BEYOND, url, message);
    }
    findings
}

async fn judge_head(fetcher: &Fetcher, look: &Look) -> Findings {
    let mut findings = Findings::new();
    if look.fetched.is_none() {
        return findings;
    }
    let message = match fetcher.head(&look.url).await {
        Ok(answer) if answer.status == StatusCode::OK => return findings,
        Ok(answer) => format!("HEAD is answered with status {}", answer.status.as_u16()),
        Err(error) => format!("HEAD fails: {}", chain(&error)),
    };
    findings.push(&ONLINE_HEAD, look.url.as_str(), message);
    findings
}

fn looks(seen: &Survey) -> impl Iterator<Item = &Look> {
    [Some(&seen.discovery), seen.jwks.as_ref()].into_iter().flatten()
}

fn measure(look: &Look) -> Measure {
    let field = |name| look.fetched.as_ref().and_then(|fetched| text(&fetched.headers, name));
    Measure {
        document: match look.document {
            Document::Discovery => "discovery",
            Document::Jwks => "jwks",
        },
        url: look.url.clone(),
        ms: u64::try_from(look.took.as_millis()).unwrap_or(u64::MAX),
        bytes: look.fetched.as_ref().map(|fetched| fetched.body.len()),
        content_type: field(header::CONTENT_TYPE),
        cache_control: field(header::CACHE_CONTROL),
    }
}

/// All values of a field, as one (RFC 9110 section 5.2); what is no text counts as a question mark.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values: Vec<_> =
        headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?")).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

fn is_json(content_type: &str, document: Document) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (document == Document::Jwks && kind == "application/jwk-set+json")
}

/// The largest of `max-age` and `s-maxage`, in seconds: how long some cache may keep it (RFC 9111 section 5.2.2). Zero
/// where nobody may.
fn longest_life(cache_control: &str) -> Option<u64> {
    let directives = cache_control.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    let lives = directives.filter_map(|directive| match directive.split_once('=') {
        Some(("max-age" | "s-maxage", value)) => value.trim_matches('"').parse().ok(),
        None if directive == "no-store" || directive == "no-cache" => Some(0),
        _ => None,
    });
    lives.max()
}

/// Somebody else's words, cut short and escaped since they may be anything.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    format!("\"{}\"", cut.escape_debug())
}

/// The patience of AWS, PyPI and jose with each document.
const PATIENCE: Duration = Duration::from_secs(5);
/// Nimbus connects and reads with a time-out of 500 ms each.
const SLOW: Duration = Duration::from_millis(500);
/// Nimbus' limit (`RemoteJWKSet.DEFAULT_HTTP_SIZE_LIMIT`).
const MAX_BYTES: usize = 50 * 1024;
/// OCI API Gateway's limit, and ours for a ring.
const MAX_KEYS: usize = 10;
