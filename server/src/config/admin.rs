//! `[admin]` and where it listens: what it may do, for whom, and what must be true before a token crosses a network.

use std::net::SocketAddr;
use std::path::PathBuf;

use oneseal::UnixTime;
use oneseal_keystore::{Findings, IssuerUrl};

use super::value::Value;
use super::values::{Values, mismatch};
use super::{Admin, AdminToken, TlsSource, codes};
use crate::admin_token::Scope;
use crate::times;

/// Makes `[admin]`.
pub(super) fn choose(
    values: &Values,
    issuer: Option<&IssuerUrl>,
    tls: &TlsSource,
    has_rules: bool,
    findings: &mut Findings,
) -> Admin {
    let admin = Admin {
        mint: values.bool("admin.mint"),
        mint_audiences: mint_audiences(values),
        tokens: tokens(values),
        hosts: hosts(values),
    };
    check_minting(&admin, values, issuer, has_rules, findings);
    match tcp(values) {
        Some(address) => check_tcp(&admin, address, values, tls, findings),
        None => check_without_tcp(values, findings),
    }
    admin
}

impl Admin {
    /// What time has done to the tokens: told at the start and by `check`, which have a clock.
    pub(crate) fn advice(&self, now: UnixTime) -> Findings {
        let mut findings = Findings::new();
        for AdminToken { name, expires, .. } in self.tokens.iter().filter(|token| token.has_expired(now)) {
            let expired = expires.map(times::rfc3339).unwrap_or_default();
            findings.push(&codes::ADMIN_TOKEN_EXPIRED, "admin.tokens", format!("\"{name}\" since {expired}"));
        }
        findings
    }
}

/// `listen.admin`.
pub(super) fn socket(values: &Values) -> Option<PathBuf> {
    match values.with_default("listen.admin") {
        Value::Socket(path) => path.clone(),
        other => mismatch("listen.admin", other),
    }
}

/// `listen.admin_tcp`.
pub(super) fn tcp(values: &Values) -> Option<SocketAddr> {
    match &values.find(TCP)?.value {
        Value::Address(address) => Some(*address),
        other => mismatch(TCP, other),
    }
}

fn check_minting(
    admin: &Admin,
    values: &Values,
    issuer: Option<&IssuerUrl>,
    has_rules: bool,
    findings: &mut Findings,
) {
    let Admin { mint, mint_audiences: audiences, tokens, .. } = admin;
    if *mint && socket(values).is_none() && tcp(values).is_none() && !values.is_faulty(TCP) {
        findings.push(&codes::NO_EFFECT, values.place("admin.mint"), "listen.admin is off");
    }
    if *mint && audiences.is_empty() && !has_rules && !values.is_faulty("admin.mint_audiences") {
        let message = "admin.mint_audiences is empty, so every request to mint is refused";
        findings.push(&codes::NO_EFFECT, values.place("admin.mint"), message);
    }
    if !mint && !values.is_faulty("admin.mint") {
        if !audiences.is_empty() {
            findings.push(&codes::NO_EFFECT, values.place("admin.mint_audiences"), "admin.mint is off");
        }
        for token in tokens.iter().filter(|token| token.scopes.has(Scope::Mint)) {
            let message = format!("\"{}\" has the scope mint, and admin.mint is off", token.name);
            findings.push(&codes::NO_EFFECT, values.place(TOKENS), message);
        }
    }
    let Some(issuer) = issuer else { return };
    let ours = [issuer.as_str().to_owned(), issuer.url_of(&issuer.token_path())];
    for audience in audiences.iter().filter(|audience| ours.contains(audience)) {
        let message = format!("{audience} is this issuer itself: its own token must not be a proof to it");
        findings.push(&codes::BAD_VALUE, values.place("admin.mint_audiences"), message);
    }
}

fn check_tcp(admin: &Admin, address: SocketAddr, values: &Values, tls: &TlsSource, findings: &mut Findings) {
    if admin.tokens.is_empty() && !values.is_faulty(TOKENS) {
        let message = format!("{address}, and admin.tokens names nobody");
        findings.push(&codes::ADMIN_NO_TOKENS, values.place(TCP), message);
    }
    // A certificate that was meant and is wrong has been told.
    let is_tls_meant = ["tls.certificate", "tls.private_key"]
        .iter()
        .any(|path| values.find(path).is_some() || values.is_faulty(path));
    let is_plain = *tls == TlsSource::Off && !is_tls_meant;
    let is_local = address.ip().to_canonical().is_loopback();
    let is_declared = values.bool(DANGER);
    match (is_plain && !is_local, is_declared) {
        (true, false) if !values.is_faulty(DANGER) => {
            findings.push(&codes::ADMIN_PLAINTEXT, values.place(TCP), format!("{address} is not loopback"));
        }
        (true, true) => {
            let message = format!("listen.admin_tcp is {address}");
            findings.push(&codes::ADMIN_PLAINTEXT_DECLARED, values.place(DANGER), message);
        }
        (false, true) => {
            let why = if is_plain { "listen.admin_tcp is loopback" } else { "listen.admin_tcp speaks TLS" };
            findings.push(&codes::NO_EFFECT, values.place(DANGER), why);
        }
        _ => {}
    }
}

/// What is only for TCP has no effect; a fault of the address has been told, and may be why.
fn check_without_tcp(values: &Values, findings: &mut Findings) {
    if values.is_faulty(TCP) {
        return;
    }
    let is_set = [
        (TOKENS, !tokens(values).is_empty()),
        (HOSTS, !hosts(values).is_empty()),
        (DANGER, values.bool(DANGER)),
    ];
    for (path, _) in is_set.iter().filter(|(_, is_set)| *is_set) {
        let message = "listen.admin_tcp is not set, and the Unix socket asks nobody";
        findings.push(&codes::NO_EFFECT, values.place(path), message);
    }
}

fn mint_audiences(values: &Values) -> Vec<String> {
    match values.with_default("admin.mint_audiences") {
        Value::Audiences(audiences) => audiences.clone(),
        other => mismatch("admin.mint_audiences", other),
    }
}

fn tokens(values: &Values) -> Vec<AdminToken> {
    match values.find(TOKENS).map(|set| &set.value) {
        None => Vec::new(),
        Some(Value::AdminTokens(tokens)) => tokens.clone(),
        Some(other) => mismatch(TOKENS, other),
    }
}

fn hosts(values: &Values) -> Vec<String> {
    match values.with_default(HOSTS) {
        Value::Hosts(hosts) => hosts.clone(),
        other => mismatch(HOSTS, other),
    }
}

const TCP: &str = "listen.admin_tcp";
const TOKENS: &str = "admin.tokens";
const HOSTS: &str = "admin.hosts";
const DANGER: &str = "admin.danger_plaintext";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PartialConfig, Sources};

    const ONE: &str = "[{name='ci',scopes=['read'],sha256='n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg'}]";

    fn found(pairs: &[(&'static str, &str)]) -> Vec<String> {
        let sources = Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())]);
        let sources = pairs
            .iter()
            .fold(sources, |sources, (key, value)| sources.flag("--flag", key, Some((*value).into())));
        let findings = match PartialConfig::load(sources) {
            Ok((_, findings)) | Err(findings) => findings,
        };
        findings.iter().map(|finding| format!("{} {}", finding.code.name, finding.message)).collect()
    }

    #[track_caller]
    fn assert_found(pairs: &[(&'static str, &str)], codes: &[&str]) {
        let found = found(pairs);
        let names: Vec<_> = found.iter().filter_map(|text| text.split(' ').next()).collect();
        assert_eq!(names, codes, "{pairs:?}: {found:?}");
    }

    #[test]
    fn tcp_wants_a_token_and_off_loopback_tls_or_a_word() {
        let (tokens, tls) = (("admin.tokens", ONE), [("tls.certificate", "/c"), ("tls.private_key", "/k")]);
        for local in ["127.0.0.1:9090", "[::1]:9090", "127.8.8.8:0", "[::ffff:127.0.0.1]:1"] {
            assert_found(&[("listen.admin_tcp", local), tokens], &[]);
            assert_found(&[("listen.admin_tcp", local)], &["admin.no_tokens"]);
            assert_found(
                &[("listen.admin_tcp", local), tokens, ("admin.danger_plaintext", "true")],
                &["config.no_effect"],
            );
        }
        for wide in ["0.0.0.0:9090", "[::]:9090", "10.1.2.3:9090"] {
            let wide = ("listen.admin_tcp", wide);
            assert_found(&[wide, tokens], &["admin.plaintext"]);
            assert_found(&[wide], &["admin.no_tokens", "admin.plaintext"]);
            assert_found(&[wide, tokens, tls[0], tls[1]], &[]);
            assert_found(&[wide, tokens, tls[0]], &["tls.incomplete"]);
            assert_found(&[wide, tokens, ("admin.danger_plaintext", "true")], &["admin.plaintext_declared"]);
            assert_found(&[wide, tokens, ("admin.danger_plaintext", "yes")], &["config.bad_value"]);
            let both = [wide, tokens, tls[0], tls[1], ("admin.danger_plaintext", "true")];
            assert_found(&both, &["config.no_effect"]);
        }
    }

    #[test]
    fn what_is_faulty_is_told_once() {
        assert_found(&[("listen.admin_tcp", "127.0.0.1:1"), ("admin.tokens", "x")], &["config.bad_value"]);
        assert_found(&[("listen.admin_tcp", ":9090"), ("admin.tokens", ONE)], &["config.bad_value"]);
        assert!(found(&[("listen.admin_tcp", ":9090")])[0].contains("did you mean \"[::]:9090\"?"));
        assert!(found(&[("listen.admin", "127.0.0.1:9090")])[0].contains("goes into listen.admin_tcp"));
        assert_found(&[("admin.hosts", "https://a:1/")], &["config.bad_value"]);
    }

    #[test]
    fn what_nobody_can_use_is_a_warning() {
        let no_effect = ["config.no_effect"];
        assert_found(&[("admin.tokens", ONE)], &no_effect);
        assert_found(&[("admin.hosts", "admin.internal")], &no_effect);
        assert_found(&[("admin.danger_plaintext", "true")], &no_effect);
        let minting = ONE.replace("'read'", "'mint','keys'");
        let tcp = ("listen.admin_tcp", "127.0.0.1:1");
        assert_found(&[tcp, ("admin.tokens", &minting)], &no_effect);
        let mint = [("admin.mint", "true"), ("admin.mint_audiences", "rp"), ("listen.admin", "none")];
        assert_found(&mint, &no_effect);
        assert_found(&[mint[0], mint[1], mint[2], tcp, ("admin.tokens", ONE)], &[]);
    }

    #[test]
    fn three_listeners_have_three_addresses() {
        let of = |tcp: &'static str| {
            [
                ("admin.tokens", ONE),
                ("listen.admin_tcp", tcp),
                ("listen.documents", "127.0.0.1:5"),
                ("listen.ops", "127.0.0.1:6"),
            ]
        };
        assert_found(&of("127.0.0.1:5"), &["config.conflict"]);
        assert_found(&of("127.0.0.1:6"), &["config.conflict"]);
        assert_found(&of("127.0.0.1:7"), &[]);
    }

    #[test]
    fn a_token_whose_time_is_over_is_told() {
        let expiring = ONE.replace("}]", ",expires='2027-01-31'}]");
        let sources = Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())]).flag(
            "--flag",
            "admin.tokens",
            Some(expiring),
        );
        let admin = PartialConfig::load(sources).expect("good").0.settings.admin;
        assert!(admin.advice(UnixTime(1_801_353_599)).is_empty());
        let told = admin.advice(UnixTime(1_801_353_600)).to_string();
        assert!(told.contains("admin.token_expired") && told.contains("\"ci\" since 2027-01-31"), "{told}");
    }
}
