//! `[tls]` and `--dev-tls`: which certificate, if any, and what that changes for the rest.

use std::path::PathBuf;

use oneseal_keystore::{Findings, IssuerUrl};

use super::choose::text;
use super::value::Value;
use super::values::{Values, mismatch};
use super::{Tls, TlsSource, codes};
use crate::tls::codes::{DEV_NOT_LOOPBACK, INCOMPLETE, ISSUER_NOT_HTTPS};

/// Makes `[tls]`, and moves the default port of the documents listener to the one of TLS.
pub(super) fn choose(
    values: &mut Values,
    issuer: Option<&IssuerUrl>,
    dev_tls: bool,
    findings: &mut Findings,
) -> Tls {
    let source = if dev_tls {
        conflicts(values, findings);
        development(issuer, findings)
    } else {
        files(values, findings)
    };
    let only_1_3 = text(values, "tls.min_version").as_deref() == Some("1.3");
    if source == TlsSource::Off {
        // The default in words, as the commented file has it, asks for nothing.
        if only_1_3 && !values.is_any_faulty("tls.") {
            let message = "without tls.certificate no TLS is spoken";
            findings.push(&codes::NO_EFFECT, values.place("tls.min_version"), message);
        }
    } else {
        let mut address = values.address("listen.documents");
        address.set_port(TLS_PORT);
        values.default_to("listen.documents", Value::Address(address));
        if let Some(issuer) = issuer.filter(|issuer| !issuer.is_https()) {
            let message = format!("{} says plain http, and TLS will answer", issuer.as_str());
            findings.push(&ISSUER_NOT_HTTPS, values.place("issuer.url"), message);
        }
    }
    Tls { source, only_1_3 }
}

fn files(values: &Values, findings: &mut Findings) -> TlsSource {
    match (path(values, CERTIFICATE), path(values, PRIVATE_KEY)) {
        (Some(certificate), Some(private_key)) => TlsSource::Files { certificate, private_key },
        (None, None) => TlsSource::Off,
        (Some(_), None) => incomplete(values, CERTIFICATE, PRIVATE_KEY, findings),
        (None, Some(_)) => incomplete(values, PRIVATE_KEY, CERTIFICATE, findings),
    }
}

fn incomplete(values: &Values, there: &str, missing: &str, findings: &mut Findings) -> TlsSource {
    // A value that is none has been told.
    if !values.is_faulty(missing) {
        findings.push(&INCOMPLETE, missing, format!("{} is set, and {missing} is not", values.place(there)));
    }
    TlsSource::Off
}

fn conflicts(values: &Values, findings: &mut Findings) {
    for key in [CERTIFICATE, PRIVATE_KEY] {
        if values.find(key).is_some() {
            let message = "--dev-tls makes a certificate and a key of its own";
            findings.push(&codes::CONFLICT, values.place(key), message);
        }
    }
}

fn development(issuer: Option<&IssuerUrl>, findings: &mut Findings) -> TlsSource {
    if let Some(issuer) = issuer.filter(|issuer| !issuer.is_loopback()) {
        let message = format!("the issuer's host is {}", issuer.host());
        findings.push(&DEV_NOT_LOOPBACK, "--dev-tls", message);
    }
    TlsSource::Development
}

fn path(values: &Values, key: &str) -> Option<PathBuf> {
    match &values.find(key)?.value {
        Value::Path(path) => Some(path.clone()),
        other => mismatch(key, other),
    }
}

const CERTIFICATE: &str = "tls.certificate";
const PRIVATE_KEY: &str = "tls.private_key";
/// What the design gives the documents listener with TLS.
const TLS_PORT: u16 = 8443;

#[cfg(test)]
mod tests {
    use crate::config::{PartialConfig, Sources, TlsSource};

    fn load(pairs: &[(&'static str, &str)], dev_tls: bool) -> (Option<PartialConfig>, Vec<String>) {
        let sources = Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())]).dev_tls(dev_tls);
        let sources = pairs
            .iter()
            .fold(sources, |sources, (key, value)| sources.flag("--flag", key, Some((*value).into())));
        let (config, findings) = match PartialConfig::load(sources) {
            Ok((config, findings)) => (Some(config), findings),
            Err(findings) => (None, findings),
        };
        (config, findings.iter().map(|finding| format!("{} {}", finding.code.name, finding.place)).collect())
    }

    const BOTH: [(&str, &str); 2] = [("tls.certificate", "/tls.crt"), ("tls.private_key", "/tls.key")];

    #[test]
    fn with_both_files_the_default_port_is_that_of_tls_and_another_is_kept() {
        let (config, findings) = load(&BOTH, false);
        let settings = config.expect("good").settings;
        assert_eq!(settings.listen.documents.to_string(), "[::]:8443");
        assert!(matches!(settings.tls.source, TlsSource::Files { .. }) && !settings.tls.only_1_3);
        assert!(findings.is_empty(), "{findings:?}");
        let chosen = [BOTH[0], BOTH[1], ("listen.documents", "127.0.0.1:8080"), ("tls.min_version", "1.3")];
        let settings = load(&chosen, false).0.expect("good").settings;
        assert_eq!(settings.listen.documents.to_string(), "127.0.0.1:8080");
        assert!(settings.tls.only_1_3);
        let settings = load(&[], false).0.expect("good").settings;
        assert_eq!(settings.listen.documents.to_string(), "[::]:8080");
        assert_eq!(settings.tls.source, TlsSource::Off);
    }

    #[test]
    fn the_moved_default_meets_the_other_listener() {
        let taken = [BOTH[0], BOTH[1], ("listen.ops", "[::]:8443")];
        assert_eq!(load(&taken, false).1, ["config.conflict --flag"]);
    }

    #[test]
    fn one_without_the_other_names_the_missing_one() {
        assert_eq!(load(&BOTH[..1], false).1, ["tls.incomplete tls.private_key"]);
        assert_eq!(load(&BOTH[1..], false).1, ["tls.incomplete tls.certificate"]);
        assert_eq!(load(&[("tls.min_version", "1.3")], false).1, ["config.no_effect --flag"]);
        assert_eq!(load(&[("tls.min_version", "1.1")], false).1, ["config.bad_value --flag"]);
        let pasted = [("tls.certificate", "/tls.crt"), ("tls.private_key", "-----BEGIN PRIVATE KEY-----")];
        assert_eq!(load(&pasted, false).1, ["config.bad_value --flag"], "said once");
    }

    #[test]
    fn a_development_certificate_is_for_loopback_alone_and_stands_by_itself() {
        let (config, findings) = load(&[("issuer.url", "https://localhost:8443")], true);
        let settings = config.expect("good").settings;
        assert_eq!(settings.tls.source, TlsSource::Development);
        assert_eq!(settings.listen.documents.port(), 8443);
        assert!(findings.is_empty(), "{findings:?}");
        let elsewhere = [("issuer.url", "https://oidc.example"), BOTH[0]];
        assert_eq!(load(&elsewhere, true).1, ["config.conflict --flag", "tls.dev_not_loopback --dev-tls"]);
    }

    #[test]
    fn an_issuer_of_plain_http_behind_tls_is_a_warning() {
        let plain = [("issuer.url", "http://127.0.0.1:8443"), BOTH[0], BOTH[1]];
        let (config, findings) = load(&plain, false);
        assert!(config.is_some());
        assert_eq!(findings, ["tls.issuer_not_https --flag"]);
    }
}
