//! Whole loads: from files, variables and flags to a configuration or to every mistake at once.

mod golden;
mod lists;
mod properties;
mod remote;
mod rules;
mod sealing;
mod secrets;
mod sources;
mod unlocking;
mod values;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use oneseal_keystore::Findings;
use tempfile::TempDir;

use super::{Config, PartialConfig, Sources};

/// A directory with a configuration file, and an environment.
pub(crate) struct Case {
    dir: TempDir,
    variables: Vec<(OsString, OsString)>,
    flags: Vec<(&'static str, &'static str, &'static str)>,
}

impl Case {
    /// With this file.
    pub(crate) fn file(text: impl AsRef<[u8]>) -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("oneseal.toml"), text).unwrap();
        Self { dir, variables: Vec::new(), flags: Vec::new() }
    }

    /// With an empty file.
    pub(crate) fn empty() -> Self {
        Self::file("")
    }

    /// With this variable besides.
    pub(crate) fn var(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// With this flag besides.
    pub(crate) fn flag(mut self, flag: &'static str, key: &'static str, value: &'static str) -> Self {
        self.flags.push((flag, key, value));
        self
    }

    /// A path beside the file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The sources, with the file named by `--config`.
    pub(crate) fn sources(&self) -> Sources {
        let sources = Sources::new(self.variables.clone()).config(Some(self.path("oneseal.toml")));
        self.flags
            .iter()
            .fold(sources, |sources, (flag, key, value)| sources.flag(flag, key, Some((*value).to_owned())))
    }

    /// The configuration of a server and its warnings.
    pub(crate) fn load(&self) -> (Config, Vec<String>) {
        let (config, warnings) =
            Config::load(self.sources()).map_err(|mistakes| mistakes.findings.to_string()).unwrap();
        (config, self.lines(&warnings))
    }

    /// The findings of a server that is refused.
    pub(crate) fn refused(&self) -> Vec<String> {
        let findings = Config::load(self.sources()).map(|(config, _)| config).unwrap_err().findings;
        assert_eq!(findings.exit().unwrap().code(), 78);
        self.lines(&findings)
    }

    /// The findings of a command that needs neither issuer nor provider.
    pub(crate) fn partial(&self) -> Vec<String> {
        match PartialConfig::load(self.sources()) {
            Ok((_, findings)) | Err(findings) => self.lines(&findings),
        }
    }

    /// Code, place and message, without the name of the directory.
    fn lines(&self, findings: &Findings) -> Vec<String> {
        let dir = format!("{}/", self.dir.path().display());
        let line = |finding: &oneseal_keystore::Finding| {
            format!("{} at {}: {}", finding.code.name, finding.place, finding.message).replace(&dir, "")
        };
        findings.iter().map(line).collect()
    }
}

/// The least that a server needs.
pub(crate) const LEAST: &str = "[issuer]\nurl = \"https://oidc.example\"\n[provider]\nuri = \"file:/k\"\n";

#[test]
fn the_least_configuration_has_every_default() {
    let (config, warnings) = Case::file(LEAST).load();
    assert_eq!(warnings, [] as [&str; 0]);
    assert_eq!(config.settings.rotation, oneseal_keystore::Rotation::default());
    assert_eq!(config.settings.listen.documents, "[::]:8080".parse().unwrap());
    assert_eq!(config.settings.listen.ops, "[::]:8081".parse().unwrap());
    assert_eq!(config.settings.listen.admin, Some("/run/oneseal/admin.sock".into()));
    assert_eq!(config.settings.process.boot_timeout.as_secs(), 60);
    assert_eq!(config.settings.process.drain_delay.as_secs(), 10);
    assert_eq!(config.settings.process.shutdown_timeout.as_secs(), 25);
    assert_eq!(config.settings.algorithms, [oneseal_keystore::Algorithm::Rs256]);
    assert_eq!(config.settings.log_filter, None);
    assert!(!config.settings.admin.mint);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let case = Case::file(
        "colour = 1\n\
         [issuer]\n\
         ulr = \"https://oidc.example\"\n\
         algorithms = [\"RS265\"]\n\
         [provider]\n\
         kind = \"fiel\"\n\
         [listen]\n\
         documents = \":8080\"\n\
         ops = 8081\n\
         [process]\n\
         drain_delay = \"1m\"\n\
         [rotation]\n\
         refresh = 15\n\
         staleness_limit = \"20s\"\n\
         [cluster]\n\
         kind = \"env\"\n\
         [databse]\n\
         [[rule]]\n\
         audience = \"x\"\n",
    )
    .var("ONESEAL__ADMIN__MINT", "yes")
    .var("ONESEAL__ISSUER__NAME", "x")
    .var("ONESEAL__ROTATION__SKEW_FILE", "/x")
    .var("ONESEAL_LOG", "a=b=c")
    .flag("--listen-admin", "listen.admin", "off");
    let mut lines = case.refused();
    lines.sort();
    assert_eq!(
        lines,
        [
            "config.bad_value at --listen-admin: \"off\" is not the path of a Unix socket, or \"none\"; a path in the \
             working directory begins with \"./\"",
            "config.bad_value at ONESEAL_LOG: \"a=b=c\" is not a log filter such as \"info\" or \"oneseal=debug,warn\"",
            "config.bad_value at ONESEAL__ADMIN__MINT: \"yes\" is not true or false",
            "config.bad_value at cluster (oneseal.toml:15): there may be several of it: write [[cluster]], with two brackets",
            "config.bad_value at issuer.algorithms (oneseal.toml:4): \"RS265\" is not one of RS256, RS384, RS512, PS256, ES256, ES384, EdDSA; did you mean \"RS256\"?",
            "config.bad_value at listen.documents (oneseal.toml:8): \":8080\" is not an IP address and a port, such as \"[::]:8080\"; did you mean \"[::]:8080\"?",
            "config.bad_value at listen.ops (oneseal.toml:9): it is an integer, but must be an IP address and a port, such as \"[::]:8080\"",
            "config.bad_value at provider.kind (oneseal.toml:6): \"fiel\" is not one of \"file\", \"env\", \"inline\", \"kubernetes\", \"aws\", \"postgres\"; did you mean \"file\"?",
            "config.bad_value at rotation.refresh (oneseal.toml:13): it is an integer, but must be a duration in whole seconds, such as \"15m\"",
            "config.inequality at process.drain_delay (oneseal.toml:11): 1m, but it must be below process.shutdown_timeout, which is 25s",
            "config.missing at issuer.url: no issuer is configured, so there is nothing to serve",
            "config.missing at rule 1 (oneseal.toml:18): it has no `audiences`: a token is for somebody",
            "config.missing at rule 1 (oneseal.toml:18): it has no `name`: audit lines and `rules test` tell them by it",
            "config.missing at rule 1 (oneseal.toml:18): it has no `sub`: relying parties decide by it, so nobody can guess it",
            "config.missing at rule 1 (oneseal.toml:18): it is for nobody: name the `cluster` or the `assertion_issuer` that vouches for them",
            "config.unknown_key at ONESEAL__ISSUER__NAME: unknown key; did you mean ONESEAL__PROVIDER__NAME?",
            "config.unknown_key at ONESEAL__ROTATION__SKEW_FILE: only secrets are read from a file; set ONESEAL__ROTATION__SKEW itself",
            "config.unknown_key at colour (oneseal.toml:1): unknown key",
            "config.unknown_key at databse (oneseal.toml:17): unknown table; did you mean [database]?",
            "config.unknown_key at issuer.ulr (oneseal.toml:3): unknown key; did you mean `issuer.url`?",
            "config.unknown_key at rule 1, audience (oneseal.toml:19): unknown key; did you mean `audiences`?",
        ]
    );
}

#[test]
fn issuer_mistakes_have_their_own_codes_at_the_right_place() {
    let bad = Case::file(LEAST.replace("https://oidc.example", "http://Oidc.example?x"));
    let codes: Vec<_> = bad.refused().iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(
        codes,
        [
            "issuer.query at issuer.url (oneseal.toml",
            "issuer.host_case at issuer.url (oneseal.toml",
            "issuer.not_https at issuer.url (oneseal.toml"
        ]
    );
    let odd = Case::file(LEAST.replace("oidc.example", "oidc.example/"));
    assert_eq!(
        odd.load().1,
        ["issuer.trailing_slash at issuer.url (oneseal.toml:2): https://oidc.example/ ends in a slash"]
    );
}

#[test]
fn what_nobody_can_default_is_asked_for_by_name() {
    assert_eq!(
        Case::empty().refused(),
        [
            "config.missing at issuer.url: no issuer is configured, so there is nothing to serve",
            "provider.not_configured at provider: neither provider.kind nor provider.uri is set",
        ]
    );
    assert_eq!(Case::empty().partial(), [] as [&str; 0]);
}

#[test]
fn syntax_mistakes_have_line_and_column_and_nothing_is_said_to_be_missing() {
    assert_eq!(
        Case::file("[issuer]\nurl = https://oidc.example\n[issuer]\n").refused().first().unwrap(),
        "config.syntax at oneseal.toml:2:7: string values must be quoted, expected literal string, at the key `url`"
    );
    let twice = Case::file("[issuer]\nurl = \"a\"\nurl = \"b\"\n").refused();
    assert_eq!(twice, ["config.syntax at oneseal.toml:3:1: duplicate key, at the key `url`"]);
    let twice = Case::file(format!("{LEAST}[issuer]\n")).refused();
    assert!(
        matches!(&twice[..], [one] if one.ends_with("duplicate key, at the table [issuer]")),
        "{twice:?}"
    );
    let unknown = Case::file("[hunter2]\n[hunter2]\n").refused();
    assert!(!unknown.concat().contains("hunter2"), "{unknown:?}");
}

#[test]
fn a_flood_of_mistakes_is_cut() {
    let keys: String = (0..200).map(|i| format!("x{i} = 1\n")).collect();
    let lines = Case::file(keys).refused();
    assert!(
        lines.iter().any(|line| line
            == "config.too_many at oneseal.toml: only the first 50 mistakes of the file are shown")
    );
    assert!(lines.len() < 60);
    assert!(Case::file("= =\n".repeat(100_000)).refused().len() < 60);
}

#[test]
fn tables_and_values_cannot_be_swapped() {
    assert_eq!(
        Case::file(
            "issuer = \"https://oidc.example\"\n[provider.uri]\nx = 1\n[[listen]]\nops = \"[::]:1\"\n"
        )
        .partial(),
        [
            "config.bad_value at issuer (oneseal.toml:1): it is a table: write [issuer] once, and its keys below",
            "config.bad_value at listen (oneseal.toml:4): it is a table: write [listen] once, and its keys below",
            "config.bad_value at provider.uri (oneseal.toml:2): it is a table, but must be a provider's URI, such as \"file:PATH\"",
        ]
    );
}

#[test]
fn addresses_must_differ_unless_a_free_port_is_asked_for() {
    let same = |address: &str| {
        Case::file(LEAST).var("ONESEAL__LISTEN__DOCUMENTS", address).var("ONESEAL__LISTEN__OPS", address)
    };
    same("127.0.0.1:0").load();
    assert_eq!(
        same("127.0.0.1:1").refused(),
        [
            "config.conflict at ONESEAL__LISTEN__OPS: ONESEAL__LISTEN__DOCUMENTS has the same address 127.0.0.1:1"
        ]
    );
}

#[test]
fn minting_that_cannot_work_is_said_beforehand() {
    let mint = |text: &str| Case::file(format!("{LEAST}[admin]\n{text}")).load().1;
    assert_eq!(
        mint("mint = true\n"),
        [
            "config.no_effect at admin.mint (oneseal.toml:6): admin.mint_audiences is empty, so every request to mint is refused"
        ]
    );
    assert_eq!(
        mint("mint_audiences = [\"a\"]\n"),
        ["config.no_effect at admin.mint_audiences (oneseal.toml:6): admin.mint is off"]
    );
    let off = mint("mint = true\nmint_audiences = [\"a\"]\n[listen]\nadmin = \"none\"\n");
    assert_eq!(off, ["config.no_effect at admin.mint (oneseal.toml:6): listen.admin is off"]);
    for own in ["https://oidc.example", "https://oidc.example/token"] {
        let case = Case::file(format!("{LEAST}[admin]\nmint = true\nmint_audiences = [\"{own}\"]\n"));
        assert!(case.refused()[0].starts_with("config.bad_value at admin.mint_audiences"));
    }
}

#[test]
fn times_that_contradict_each_other_are_named_with_what_would_do() {
    let case = Case::file(format!("{LEAST}[rotation]\nstaleness_limit = \"20s\"\n"))
        .var("ONESEAL__ROTATION__TOKEN_TTL", "48h");
    assert_eq!(
        case.refused(),
        [
            "config.inequality at rotation.staleness_limit (oneseal.toml:6): 20 s, but it must be at least 55 s: 3 x refresh + the provider's time-out",
            "config.inequality at ONESEAL__ROTATION__TOKEN_TTL: 172800 s, but it must be 60 s to 86400 s: at most max_token_ttl",
        ]
    );
    let one_is_none = case.var("ONESEAL__ROTATION__REFRESH", "x");
    assert_eq!(one_is_none.refused().len(), 1, "no conclusion is drawn from a default in place of a mistake");
}

#[test]
fn workers_of_later_versions_are_refused_by_name() {
    Case::file(LEAST).var("ONESEAL_WORKERS", "").load();
    assert_eq!(
        Case::file(LEAST).var("ONESEAL_WORKERS", "rotator, x").refused(),
        [
            "config.not_available at ONESEAL_WORKERS: this version has no worker \"rotator\"",
            "config.not_available at ONESEAL_WORKERS: this version has no worker \"x\"",
        ]
    );
}

#[test]
fn the_fleet_is_named_after_host_port_and_path() {
    for (issuer, fleet) in [
        ("https://oidc.example", "oidc.example"),
        ("https://oidc.example/Tenants/a/", "oidc.example-tenants-a"),
        ("http://[::1]:8080", "1-8080"),
        ("https://oidc.example:443", "oidc.example"),
        ("http://127.0.0.1:80", "127.0.0.1"),
        ("http://127.0.0.1:28080/a", "127.0.0.1-28080-a"),
        ("https://[::]", "oneseal"),
        ("https://oidc.example/a_b", "oidc.example-a-b"),
    ] {
        assert_eq!(Case::file(LEAST.replace("https://oidc.example", issuer)).load().0.fleet(), fleet);
    }
    let named = Case::file(format!("{LEAST}[ring]\nfleet = \"f\"\n"));
    assert_eq!(named.load().0.fleet(), "f");
}
