//! Where a passphrase rests and which member holds the key.

use super::super::{Config, PassphraseChoice};
use super::Case;

const HEAD: &str = "[issuer]\nurl = \"https://oidc.example\"\n[provider]\nuri = \"file:/k\"\n";

fn loaded(case: &Case) -> Config {
    Config::load(case.sources()).unwrap_or_else(|mistakes| panic!("{}", mistakes.findings)).0
}

#[test]
fn a_passphrase_is_named_by_its_place() {
    let by_file = loaded(&Case::file(format!("{HEAD}passphrase = \"file:/p\"\n"))).unlocking.passphrase;
    assert!(matches!(by_file, Some(PassphraseChoice::File(path)) if path.as_os_str() == "/p"));
    let by_env = loaded(&Case::file(HEAD).flag("--passphrase", "provider.passphrase", "env:PASS"));
    assert!(matches!(by_env.unlocking.passphrase, Some(PassphraseChoice::Env(name)) if name == "PASS"));
    assert!(loaded(&Case::file(HEAD)).unlocking.passphrase.is_none());
}

#[test]
fn a_passphrase_pasted_there_is_not_repeated_and_the_cure_says_what_to_write() {
    for pasted in ["canary", "canary:horse", "env:canary horse", "file:", "-canary", "aws:canary", ":canary"]
    {
        for case in [
            Case::file(format!("{HEAD}passphrase = \"{pasted}\"\n")),
            Case::file(HEAD).var("ONESEAL__PROVIDER__PASSPHRASE", pasted),
            Case::file(HEAD).flag("--passphrase", "provider.passphrase", pasted),
        ] {
            let mistakes = Config::load(case.sources()).expect_err(pasted);
            let told = format!("{} {:?}", mistakes.findings, mistakes.findings);
            assert!(!told.contains("canary"), "{told}");
            assert!(told.contains("file:PATH") && told.contains("env:NAME"), "{told}");
        }
    }
}

#[test]
fn the_variable_of_a_passphrase_is_not_called_ignored() {
    let case = Case::file(format!("{HEAD}passphrase = \"env:ONESEAL_KEY_PASSPHRASE\"\n"))
        .var("ONESEAL_KEY_PASSPHRASE", "x")
        .var("ONESEAL_OTHER", "x");
    let (_, warnings) = Config::load(case.sources()).unwrap();
    let places: Vec<_> = warnings.iter().map(|finding| finding.place.as_str()).collect();
    assert!(places.contains(&"ONESEAL_OTHER"), "{warnings}");
    assert!(!places.contains(&"ONESEAL_KEY_PASSPHRASE"), "{warnings}");
}

#[test]
fn a_member_is_of_the_place_it_was_written_for() {
    let file = format!("{HEAD}member = \"key\"\npassphrase = \"file:/p\"\n");
    assert_eq!(loaded(&Case::file(&file)).unlocking.member.as_deref(), Some("key"));
    let elsewhere = loaded(&Case::file(&file).flag("--provider", "provider.uri", "file:/other")).unlocking;
    assert_eq!(elsewhere.member, None);
    assert!(elsewhere.passphrase.is_some(), "a copy of an encrypted key is encrypted too");
    let named = Case::file(file).flag("--provider", "provider.uri", "file:/other");
    let named = loaded(&named.flag("--member", "provider.member", "other")).unlocking;
    assert_eq!(named.member.as_deref(), Some("other"));
}

#[test]
fn a_lag_is_of_the_replicas_wherever_a_command_reaches_the_ring() {
    let file = format!("{HEAD}max_lag = \"2m30s\"\n");
    assert_eq!(loaded(&Case::file(&file)).unlocking.max_lag.as_secs(), 150);
    let elsewhere = loaded(&Case::file(&file).flag("--provider", "provider.uri", "file:/other")).unlocking;
    assert_eq!(elsewhere.max_lag.as_secs(), 150);
    assert!(loaded(&Case::file(HEAD)).unlocking.max_lag.is_zero());
    let found = |case: Case| Config::load(case.sources()).unwrap().1;
    let of_variable = found(Case::file(&file).flag("--provider", "provider.uri", "env:KEY"));
    let no_effect = of_variable.iter().find(|finding| finding.place.starts_with("provider.max_lag"));
    assert_eq!(no_effect.unwrap().code.name, "config.no_effect");
    assert!(!found(Case::file(file)).to_string().contains("provider.max_lag"));
}
