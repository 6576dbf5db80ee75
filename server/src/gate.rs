//! The boot gate: everything that keeps a server from starting, found before anything is bound.
//!
//! `check` and the start of `serve` go the same way through here, so that what one reports the other does too. The
//! issuer's own part is in [`oneseal::Builder::build`]; configuration and sockets add theirs.

use std::time::Duration;

use oneseal::{Clock, Findings, Issuer, Tasks};
use oneseal_keystore::findings;

use crate::app;
use crate::config::{Config, Sources};
use crate::exit::{Exit, chain};
use crate::http::bind::Sockets;

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

/// Loads and judges the key of `config`. A provider that does not answer is asked again until `boot_timeout` is over,
/// with one log line for each attempt; every other fault ends the start at once, since waiting would not cure it.
///
/// # Errors
/// All that was found, `remarks` of the configuration included.
///
/// # Cancel safety
/// Changes nothing outside itself.
pub(crate) async fn open(
    config: &Config,
    remarks: Findings,
    allow_key_replacement: bool,
    clock: &dyn Clock,
) -> Result<Opened, Findings> {
    let timeout = config.settings.process.boot_timeout;
    let began = clock.boot();
    let mut pause = FIRST_PAUSE;
    for attempt in 1_u32.. {
        let found = match app::issuer(config, allow_key_replacement).build().await {
            Ok((issuer, tasks)) => {
                let findings = together(remarks, issuer.findings());
                return Ok(Opened { issuer, tasks, findings });
            }
            Err(found) => found,
        };
        let left = timeout.saturating_sub(clock.boot().since(began));
        if found.exit() != Some(findings::Exit::Unavailable) || left.is_zero() {
            return Err(together(remarks, &found));
        }
        let pause_now = pause.min(left);
        tracing::warn!(attempt, left_s = left.as_secs(), retry_in_ms = millis(pause_now), why = %first_error(&found), "the key's provider does not answer yet");
        tokio::time::sleep(pause_now).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
    Err(remarks)
}

/// Everything that can be said without starting: configuration, key, and whether the sockets could be bound. One
/// attempt; a check is asked again by whoever wants to.
///
/// # Errors
/// Nothing but the report: the effective configuration comes with it if there is one.
pub(crate) async fn check(sources: Sources, allow_key_replacement: bool, with_sockets: bool) -> Report {
    let (config, remarks) = match Config::load(sources) {
        Ok(loaded) => loaded,
        Err(findings) => return Report { findings, config: None },
    };
    let mut findings = match app::issuer(&config, allow_key_replacement).build().await {
        Ok((issuer, _tasks)) => together(remarks, issuer.findings()),
        Err(found) => together(remarks, &found),
    };
    if with_sockets {
        findings.extend(Sockets::probe(&config.settings.listen));
    }
    Report { findings, config: Some(config) }
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
fn together(mut remarks: Findings, found: &Findings) -> Findings {
    let known: Vec<_> =
        remarks.iter().map(|finding| finding.code.name).filter(|name| is_of_url(name)).collect();
    for finding in found.iter().filter(|finding| !known.contains(&finding.code.name)) {
        remarks.push(finding.code, finding.place.clone(), finding.message.clone());
    }
    remarks
}

fn is_of_url(code: &str) -> bool {
    oneseal_keystore::issuer_url::CODES.iter().any(|known| known.name == code)
}

fn first_error(findings: &Findings) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::{LISTEN_IN_USE, LISTEN_NO_IPV6};

    #[test]
    fn warnings_are_errors_only_for_the_strict() {
        let mut findings = Findings::new();
        assert_eq!(exit_of(&findings, true), Exit::Done);
        findings.push(&LISTEN_NO_IPV6, "listen.ops", "none");
        assert_eq!(exit_of(&findings, false), Exit::Done);
        assert_eq!(exit_of(&findings, true), Exit::Refused);
        findings.push(&LISTEN_IN_USE, "listen.ops", "taken");
        assert_eq!(exit_of(&findings, true), Exit::CannotBind);
    }

    #[test]
    fn what_both_say_of_the_url_is_told_once() {
        let url = oneseal::IssuerUrl::parse("https://oidc.example:8443", "issuer.url").expect("odd but good");
        let (config, issuer) = (url.advice("issuer.url (oneseal.toml:2)"), url.advice("issuer.url"));
        let both = together(config, &issuer);
        let places: Vec<_> = both.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["issuer.url (oneseal.toml:2)"]);
    }
}
