//! The boot gate: everything that keeps a server from starting, found before anything is bound.
//!
//! `check` and the start of `serve` go the same way through here, so that what one reports the other does too. The
//! issuer's own part is in [`oneseal::Builder::build`]; configuration and sockets add theirs.

#[cfg(test)]
mod tests;

use std::time::Duration;

use oneseal::{Clock, Findings, Issuer, IssuerUrl, SystemClock, Tasks};
use oneseal_keystore::findings::{self, chain};

use crate::app;
use crate::config::{Config, Mistakes, Sources};
use crate::exit::Exit;
use crate::http::bind::Sockets;
use crate::notify::Notifier;
use crate::tls::Tls;

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
/// start at once, since waiting would not cure it, and so do errors among `remarks`.
///
/// # Errors
/// All that was found, `remarks` of configuration and TLS included.
///
/// # Cancel safety
/// Changes nothing outside itself.
pub(crate) async fn open(
    build: impl AsyncFn() -> Result<(Issuer, Tasks), Findings>,
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
                let findings = together(remarks, issuer.findings());
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
            "the key's provider does not answer yet"
        );
        let status = format!("the key's provider does not answer: attempt {attempt}, {left_s} s left; {why}");
        notifier.waiting(&status, left).await;
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(MAX_PAUSE);
        attempt = attempt.saturating_add(1);
    }
}

/// Everything that can be said without starting: configuration, key, and whether the sockets could be bound. One
/// attempt; a check is asked again by whoever wants to.
///
/// # Errors
/// Nothing but the report: the effective configuration comes with it if there is one.
pub(crate) async fn check(sources: Sources, allow_key_replacement: bool, with_sockets: bool) -> Report {
    let (config, mut remarks) = match Config::load(sources) {
        Ok(loaded) => loaded,
        Err(mistakes) => return Report { findings: refused(mistakes).await, config: None },
    };
    let (tls, found) = Tls::open(&config.settings.tls, &config.issuer, &SystemClock).await;
    remarks.extend(found);
    let mut findings = match app::issuer(&config, allow_key_replacement).build().await {
        Ok((issuer, _tasks)) => {
            remarks.extend(tls.map(|tls| tls.advice(&issuer)).unwrap_or_default());
            together(remarks, issuer.findings())
        }
        Err(found) => together(remarks, &found),
    };
    if with_sockets {
        findings.extend(Sockets::probe(&config.settings.listen));
    }
    Report { findings, config: Some(config) }
}

/// All that is wrong where the configuration is refused: with it and, if it says where the key rests, with the key.
/// One attempt, since waiting for a provider would not cure the configuration.
///
/// # Cancel safety
/// Changes nothing outside itself.
pub(crate) async fn refused(mistakes: Mistakes) -> Findings {
    let Mistakes { findings, issuer, provider, unlocking, algorithms } = mistakes;
    let Some(provider) = provider else { return findings };
    // Without a name the key alone is judged; that the name is missing or wrong has been told.
    let url = issuer.as_ref().map_or("", IssuerUrl::as_str);
    let found = app::key_only(url, &provider, &unlocking, &algorithms).build().await;
    let found = found.map_or_else(|found| found, |(issuer, _tasks)| issuer.findings().clone());
    with_others(findings, &found, is_of_key)
}

/// What `check` found.
#[derive(Debug)]
pub(crate) struct Report {
    /// Everything.
    pub(crate) findings: Findings,
    /// The configuration, if it could be made.
    pub(crate) config: Option<Config>,
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
    let known: Vec<_> =
        remarks.iter().map(|finding| finding.code.name).filter(|name| is_of_url(name)).collect();
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

/// A provider that is just starting is asked again soon.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// One that is down for longer costs some twelve log lines a minute at most.
const MAX_PAUSE: Duration = Duration::from_secs(5);
