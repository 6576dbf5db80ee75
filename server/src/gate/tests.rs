//! The gate from configuration to exit code, and in its folder the parts that ask the network.

mod online;
mod self_check;
mod site;

use std::cell::Cell;

use oneseal::{BootTime, IssuerUrl, UnixTime};
use tokio::time::Instant;

use super::*;
use crate::codes::{LISTEN_IN_USE, LISTEN_NO_IPV6};
use crate::config::Sources;

const OFFLINE: Scope = Scope { network: Network::Offline, sockets: false };

/// For starts that never come so far.
async fn nobody(_issuer: &Issuer) -> Findings {
    panic!("asked although there is no key");
}

/// Tokio's own clock, which a test can stop.
#[derive(Debug)]
struct Stopped(Instant);

impl Stopped {
    #[expect(clippy::disallowed_methods, reason = "it stands still, which the machine's own clocks do not")]
    fn now() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Stopped {
    fn wall(&self) -> UnixTime {
        UnixTime(0)
    }

    fn boot(&self) -> BootTime {
        BootTime(self.0.elapsed())
    }
}

fn found(name: &str) -> Findings {
    let code = oneseal::all_codes().into_iter().find(|code| code.name == name).expect(name);
    let mut findings = Findings::new();
    findings.push(code, "file:/ring.json", "for a test");
    findings
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_is_asked_with_growing_pauses_until_the_time_is_over() {
    let (attempts, clock) = (Cell::new(0), Stopped::now());
    let build = async || {
        attempts.set(attempts.get() + 1);
        Err(found("provider.unavailable"))
    };
    let remarks = found("issuer.port");
    let findings = open(build, nobody, remarks, Duration::from_secs(60), &clock, &Notifier::none())
        .await
        .expect_err("never");
    assert_eq!(exit_of(&findings, false), Exit::Unavailable);
    assert!(findings.iter().any(|finding| finding.code.name == "issuer.port"), "remarks are told as well");
    // After 0, 0.5, 1.5, 3.5 and 7.5 s, then every five seconds, and once when the time is over.
    assert_eq!(attempts.get(), 5 + 10 + 1);
    assert_eq!(clock.0.elapsed(), Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn what_waiting_cannot_cure_ends_the_start_at_once() {
    for (name, exit) in [("provider.not_found", Exit::Refused), ("provider.denied", Exit::Denied)] {
        let attempts = Cell::new(0);
        let build = async || {
            attempts.set(attempts.get() + 1);
            let mut both = found("provider.unavailable");
            both.extend(found(name));
            Err(if attempts.get() == 1 { found("provider.unavailable") } else { both })
        };
        let clock = Stopped::now();
        let findings =
            open(build, nobody, Findings::new(), Duration::from_secs(60), &clock, &Notifier::none())
                .await
                .expect_err(name);
        assert_eq!(exit_of(&findings, false), exit);
        assert_eq!(attempts.get(), 2);
    }
}

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

async fn checked(pairs: &[(&'static str, &str)]) -> Vec<&'static str> {
    let sources = Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())]);
    let sources = pairs
        .iter()
        .fold(sources, |sources, (key, value)| sources.flag("--flag", key, Some((*value).into())));
    let report = check(sources, OFFLINE).await;
    report.findings.iter().map(|finding| finding.code.name).collect()
}

#[tokio::test]
async fn a_refused_configuration_does_not_hide_the_faults_of_the_key() {
    let absent = ("provider.uri", "file:/nowhere/ring.json");
    let plain = ("issuer.url", "http://oidc.example");
    assert_eq!(checked(&[plain, absent]).await, ["issuer.not_https", "provider.not_found"]);
    assert_eq!(checked(&[absent]).await, ["config.missing", "provider.not_found"]);
    let odd = ("issuer.url", "https://oidc.example:8443");
    let late = ("process.drain_delay", "1h");
    assert_eq!(
        checked(&[odd, late, absent]).await,
        ["issuer.port", "config.inequality", "provider.not_found"]
    );
    let inline = [("provider.kind", "inline"), ("provider.value", "no key")];
    assert_eq!(checked(&[plain, inline[0], inline[1]]).await, ["issuer.not_https", "key.unrecognised"]);
}

#[tokio::test]
async fn without_a_clear_provider_there_is_no_key_to_judge() {
    let plain = ("issuer.url", "http://oidc.example");
    assert_eq!(checked(&[plain]).await, ["issuer.not_https", "provider.not_configured"]);
    let (kind, uri) = (("provider.kind", "env"), ("provider.uri", "file:/nowhere"));
    assert_eq!(checked(&[plain, kind, uri]).await, ["issuer.not_https", "config.conflict"]);
    let durable = ("provider.durable", "perhaps");
    assert_eq!(checked(&[plain, uri, durable]).await, ["config.bad_value", "issuer.not_https"]);
}

#[test]
fn what_both_say_of_the_url_is_told_once() {
    let url = IssuerUrl::parse("https://oidc.example:8443", "issuer.url").expect("odd but good");
    let (config, issuer) = (url.advice("issuer.url (oneseal.toml:2)"), url.advice("issuer.url"));
    let both = together(config, &issuer);
    let places: Vec<_> = both.iter().map(|finding| finding.place.as_str()).collect();
    assert_eq!(places, ["issuer.url (oneseal.toml:2)"]);
}

/// Every exit code that a finding can ask for, strongest first.
const BY_STRENGTH: [(&str, Exit); 5] = [
    ("key.public_only", Exit::Refused),
    ("provider.denied", Exit::Denied),
    ("provider.unavailable", Exit::Unavailable),
    ("listen.in_use", Exit::CannotBind),
    ("test.later", Exit::TryLater),
];

static LATER: findings::Code =
    findings::Code::error("test.later", findings::Exit::TryLater, "It is too early.", "Wait.");

#[test]
fn of_several_faults_the_strongest_exit_code_decides_in_any_order() {
    let code = |name: &str| crate::codes::all().into_iter().find(|code| code.name == name).unwrap_or(&LATER);
    for (at, (strong, exit)) in BY_STRENGTH.iter().enumerate() {
        for (weak, _) in &BY_STRENGTH[at..] {
            for pair in [[strong, weak], [weak, strong]] {
                let mut findings = Findings::new();
                findings.push(&LISTEN_NO_IPV6, "listen.ops", "a warning decides nothing");
                pair.iter().for_each(|name| findings.push(code(name), "here", "for a test"));
                assert_eq!(exit_of(&findings, false), *exit, "{pair:?}");
                assert_eq!(exit_of(&findings, true), *exit, "{pair:?}: strict weakens nothing");
            }
        }
    }
    let codes: Vec<_> = BY_STRENGTH.iter().map(|(_, exit)| exit.code()).collect();
    assert_eq!(codes, [78, 77, 69, 71, 75]);
}

#[test]
fn every_exit_code_of_the_table_is_one_of_these() {
    for code in crate::codes::all() {
        let exit: Exit = code.exit.into();
        assert!(BY_STRENGTH.iter().any(|(_, known)| *known == exit), "{}", code.name);
    }
}

#[tokio::test]
async fn configuration_key_issuer_and_sockets_tell_their_faults_in_one_report() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (address, closed) = (taken.local_addr().expect("bound").to_string(), site::closed().await);
    let sources = Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())]);
    let pairs = [
        ("issuer.url", closed.as_str()),
        ("process.drain_delay", "1h"),
        ("provider.uri", "file:/nowhere/ring.json"),
        ("listen.documents", &address),
        ("listen.ops", "127.0.0.1:0"),
        ("listen.admin", "none"),
    ];
    let sources = pairs
        .iter()
        .fold(sources, |sources, (key, value)| sources.flag("--flag", key, Some((*value).to_owned())));
    let report = check(sources, Scope { network: Network::Online, sockets: true }).await;
    let names: Vec<_> = report.findings.iter().map(|finding| finding.code.name).collect();
    assert_eq!(names, ["config.inequality", "provider.not_found", "online.unreachable", "listen.in_use"]);
    assert_eq!(exit_of(&report.findings, false), Exit::Refused);
}

#[tokio::test]
async fn a_faulty_listen_table_is_not_tried_with_its_defaults() {
    let sources = Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())])
        .flag("--flag", "listen.ops", Some("nowhere".to_owned()))
        .flag("--flag", "listen.documents", Some("192.0.2.1:1".to_owned()));
    let report = check(sources, Scope { network: Network::Offline, sockets: true }).await;
    assert!(report.findings.iter().all(|finding| !finding.code.name.starts_with("listen.cannot")));
}
