//! The boot gate: everything that keeps a server from starting, found before anything is bound.
//!
//! `check` and the start of `serve` go the same way through here, so that what one reports the other does too. The
//! issuer's own part is in [`oneseal::Builder::build`]; configuration, the issuer's own URL and sockets add theirs.
//!
//! ```text
//! configuration ─► database ─► key ─► the issuer's own URL: self_check, or online ─► sockets
//! ```
//! The key is asked for before the network: who has no key has nothing to compare.

mod check;
mod codes;
mod database;
mod online;
mod rights;
mod self_check;
#[cfg(test)]
mod tests;

use std::time::Duration;

use oneseal::{Clock, Findings, Issuer, Tasks};
use oneseal_keystore::findings::{self, chain};
use oneseal_keystore::{DATABASE_BELOW_MIN_BINARY, DATABASE_MIGRATION_PENDING, DATABASE_UNUSABLE};

pub(crate) use check::{Network, Report, Scope, check, refused};
pub(crate) use codes::CLOCK_SKEWED;
pub(crate) use database::{
    COMPONENTS, DATABASE_IN_CLEAR, advise as database_advice, judge as database,
    of_error as of_database_error, of_fault as of_schema_fault,
};
pub(crate) use self_check::{ask, fetcher};

use crate::exit::Exit;
use crate::notify::Notifier;

/// The rows of this room.
pub(crate) fn codes() -> Vec<&'static findings::Code> {
    [codes::CODES, database::CODES].concat()
}

/// What has passed the gate.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The issuer, with its key loaded and judged.
    pub(crate) issuer: Issuer,
    /// What keeps it up to date.
    pub(crate) tasks: Tasks,
    /// The warnings.
    pub(crate) findings: Findings,
}

/// Builds the issuer, and with it loads and judges the key. A provider that does not answer is asked again until
/// `timeout` is over, with one log line for each attempt and as much to the service manager; every other fault ends the
/// start at once, since waiting would not cure it, and so do errors among `remarks`. The issuer that has been built may
/// then `ask` around, unless it is refused already.
///
/// # Errors
/// All that was found, `remarks` of configuration and TLS included.
///
/// # Cancel safety
/// Changes nothing outside itself.
pub(crate) async fn open(
    build: impl AsyncFn() -> Result<(Issuer, Tasks), Findings>,
    ask: impl AsyncFnOnce(&Issuer) -> Findings,
    remarks: Findings,
    timeout: Duration,
    clock: &dyn Clock,
    notifier: &Notifier,
) -> Result<Opened, Findings> {
    let began = clock.boot();
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1_u32;
    loop {
        let found = match build().await {
            Ok((issuer, tasks)) => {
                let mut findings = together(remarks, issuer.findings());
                if !findings.has_errors() {
                    findings.extend(ask(&issuer).await);
                }
                findings.drop_if_refused(RULE_NONE);
                return if findings.has_errors() {
                    Err(findings)
                } else {
                    Ok(Opened { issuer, tasks, findings })
                };
            }
            Err(found) => found,
        };
        if remarks.has_errors() {
            return Err(together(remarks, &found));
        }
        let left = timeout.saturating_sub(clock.boot().since(began));
        if found.exit() != Some(findings::Exit::Unavailable) || left.is_zero() {
            return Err(together(remarks, &found));
        }
        let wait = pause.min(left);
        let (left_s, why) = (left.as_secs(), first_error(&found));
        tracing::warn!(
            attempt,
            left_s,
            retry_in_ms = millis(wait),
            why = why.as_str(),
            "the key's provider, or the database, does not answer yet"
        );
        let status = format!(
            "the key's provider, or the database, does not answer: attempt {attempt}, {left_s} s left; {why}"
        );
        notifier.waiting(&status, left).await;
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(MAX_PAUSE);
        attempt = attempt.saturating_add(1);
    }
}

/// The exit code that findings ask for; `strict` takes warnings for errors.
pub(crate) fn exit_of(findings: &Findings, strict: bool) -> Exit {
    let has_warnings = findings.iter().any(|finding| finding.code.severity == findings::Severity::Warning);
    match findings.exit() {
        Some(exit) => exit.into(),
        None if strict && has_warnings => Exit::Refused,
        None => Exit::Done,
    }
}

/// Configuration has looked at the issuer's URL before the issuer did, and its place is the better one: file and line.
fn together(remarks: Findings, found: &Findings) -> Findings {
    // So is its word on the database in which the ring rests.
    let of_database =
        [DATABASE_MIGRATION_PENDING.name, DATABASE_BELOW_MIN_BINARY.name, DATABASE_UNUSABLE.name];
    let is_told = |name: &str| is_of_url(name) || of_database.contains(&name);
    let known: Vec<_> =
        remarks.iter().map(|finding| finding.code.name).filter(|name| is_told(name)).collect();
    with_others(remarks, found, |name| !known.contains(&name))
}

/// With those of `found` whose code is wanted.
fn with_others(mut findings: Findings, found: &Findings, is_wanted: impl Fn(&str) -> bool) -> Findings {
    for finding in found.iter().filter(|finding| is_wanted(finding.code.name)) {
        findings.push(finding.code, finding.place.clone(), finding.message.clone());
    }
    findings
}

fn is_of_url(code: &str) -> bool {
    oneseal_keystore::issuer_url::CODES.iter().any(|known| known.name == code)
}

fn is_of_key(code: &str) -> bool {
    code.split_once('.').is_some_and(|(part, _)| ["provider", "key", "ring"].contains(&part))
}

/// The first fault, in one line.
pub(crate) fn first_error(findings: &Findings) -> String {
    let error = findings.iter().find(|finding| finding.code.severity == findings::Severity::Error);
    error.map_or_else(
        || chain(findings),
        |finding| format!("{} at {}: {}", finding.code.name, finding.place, finding.message),
    )
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A remark on what a running server will not do. Beside a refusal it is noise.
pub(super) const RULE_NONE: &str = "rule.none";
/// A provider that is just starting is asked again soon.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// One that is down for longer costs some twelve log lines a minute at most.
const MAX_PAUSE: Duration = Duration::from_secs(5);
