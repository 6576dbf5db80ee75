//! What opens a sealed ring, and whose ring is believed.

use oneseal_keystore::{Kek, Mode};

use super::super::{Config, ProviderChoice};
use super::Case;

const HEAD: &str = "[issuer]\nurl = \"https://oidc.example\"\n[provider]\nuri = \"file:/k\"\n";
const PIN: &str = "50Y6H62Anev9tIZG-40YbXSXl9Q-myc0_FrLkruHMs4";

fn loaded(case: &Case) -> Config {
    Config::load(case.sources()).unwrap_or_else(|mistakes| panic!("{}", mistakes.findings)).0
}

fn refused(case: &Case) -> String {
    Config::load(case.sources()).expect_err("refused").findings.to_string()
}

#[test]
fn a_kek_is_named_by_kind_by_uri_or_by_flag_and_the_stronger_source_holds() {
    let path = |case: &Case| match loaded(case).unlocking.sealing.kek {
        Some(ProviderChoice::File { path, .. }) => path.display().to_string(),
        other => panic!("{other:?}"),
    };
    let by_kind = Case::file(format!("{HEAD}[kek]\nkind = \"file\"\npath = \"/kek\"\n"));
    assert_eq!(path(&by_kind), "/kek");
    assert_eq!(path(&Case::file(format!("{HEAD}[kek]\nuri = \"file:/kek\"\n"))), "/kek");
    assert_eq!(path(&by_kind.flag("--kek", "kek.uri", "file:/other")), "/other");
    let by_env = loaded(&Case::file(format!("{HEAD}[kek]\nkind = \"env\"\nvariable = \"RING_KEK\"\n")));
    assert!(
        matches!(by_env.unlocking.sealing.kek, Some(ProviderChoice::Env { variable }) if variable == "RING_KEK")
    );
    let none = loaded(&Case::file(HEAD)).unlocking.sealing;
    assert!(none.kek.is_none() && none.pin.is_none() && none.mode == Mode::Full);
}

#[test]
fn previous_keks_come_behind_the_current_one_and_not_alone() {
    let file = format!("{HEAD}[kek]\nuri = \"file:/new\"\nprevious = [\"file:/old\", \"env:OLDER\"]\n");
    assert_eq!(loaded(&Case::file(file)).unlocking.sealing.keks().count(), 3);
    assert!(
        refused(&Case::file(format!("{HEAD}[kek]\nprevious = [\"file:/old\"]\n")))
            .contains("config.missing at kek")
    );
}

#[test]
fn contradictions_and_gaps_are_named() {
    for (text, code) in [
        ("[kek]\nkind = \"file\"\nuri = \"file:/k\"\n", "config.conflict"),
        ("[kek]\nkind = \"file\"\nvariable = \"V\"\n", "config.conflict"),
        ("[kek]\nkind = \"file\"\n", "config.missing"),
        ("[kek]\npath = \"/kek\"\n", "config.missing"),
        ("[kek]\nuri = \"file:/k\"\n[ring]\nmode = \"public-only\"\n", "config.conflict"),
        ("[ring]\nmode = \"public\"\n", "config.bad_value"),
        ("[ring]\npin = \"short\"\n", "config.bad_value"),
    ] {
        let told = refused(&Case::file(format!("{HEAD}{text}")));
        assert!(told.contains(code), "{text}: {told}");
    }
    let public = format!("{HEAD}[ring]\nmode = \"public-only\"\npin = \"{PIN}\"\n");
    let sealing = loaded(&Case::file(public)).unlocking.sealing;
    assert_eq!(
        (sealing.mode, sealing.pin.map(|pin| pin.to_string()).as_deref()),
        (Mode::PublicOnly, Some(PIN))
    );
}

#[test]
fn a_kek_pasted_where_its_place_belongs_is_not_repeated() {
    let kek = Kek::generate().expect("randomness").expose_base64url();
    let kek = kek.as_str();
    for text in [
        format!("uri = \"{kek}\""),
        format!("kind = \"file\"\npath = \"{kek}\""),
        format!("kind = \"env\"\nvariable = \"{kek}\""),
        format!("kind = \"{kek}\""),
        format!("previous = [\"{kek}\"]"),
        format!("previous = [\"{kek}\", \"{kek}\"]"),
    ] {
        let mistakes =
            Config::load(Case::file(format!("{HEAD}[kek]\n{text}\n")).sources()).expect_err("refused");
        let told = format!("{} {mistakes:?}", mistakes.findings);
        assert!(!told.contains(kek), "{told}");
    }
    let inline = loaded(&Case::file(format!("{HEAD}[kek]\nkind = \"inline\"\nvalue = \"{kek}\"\n")));
    assert!(!format!("{inline:?}").contains(kek));
    assert!(!format!("{:?}", inline.settings.effective).contains(kek), "check --explain masks it");
}
