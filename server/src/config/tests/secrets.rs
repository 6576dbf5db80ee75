//! No secret in errors, `Debug` or reports, however it was misplaced.

use std::fs;

use super::super::Config;
use super::super::table;
use super::Case;

/// Half a private key of nobody.
const CANARY: &str = "MC4CAQAwBQYDK2VwBCIEICanary";

/// Everything that a load of this case can show to anybody.
fn all_text(case: &Case) -> String {
    let sources = case.sources();
    let before = format!("{sources:?}");
    let after = match Config::load(sources) {
        Ok((config, warnings)) => {
            let json = serde_json::to_string(&config.settings.effective).unwrap();
            format!("{config:?}{warnings}{warnings:?}{}{json}", config.settings.effective)
        }
        Err(mistakes) => format!("{}{mistakes:?}", mistakes.findings),
    };
    before + &after
}

#[test]
fn an_accepted_secret_is_shown_nowhere() {
    let head = "[issuer]\nurl = \"https://oidc.example\"\n[provider]\nkind = \"inline\"\n";
    let in_file = Case::file(format!("{head}value = \"{CANARY}\"\n"));
    let by_variable = Case::file(head).var("ONESEAL__PROVIDER__VALUE", CANARY);
    let by_file = Case::file(head);
    fs::write(by_file.path("secret"), CANARY).unwrap();
    let path = by_file.path("secret");
    let by_file = by_file.var("ONESEAL__PROVIDER__VALUE_FILE", path);
    for case in [in_file, by_variable, by_file] {
        assert!(Config::load(case.sources()).is_ok());
        let text = all_text(&case);
        assert!(text.contains("***"), "{text}");
        assert!(!text.contains(CANARY), "{text}");
        let gathered = format!("{:?}", case.sources().gather());
        assert!(!gathered.contains(CANARY), "{gathered}");
    }
}

#[test]
fn a_refused_secret_is_shown_nowhere() {
    for file in [
        format!("provider.value = [\"{CANARY}\"]"),
        format!("provider.value = {{ x = \"{CANARY}\" }}"),
        format!("provider.value = \"a\\u0000{CANARY}\""),
        format!("provider.value = {CANARY}"),
        format!("provider.value = \"{CANARY}"),
        format!("provider.value = \"\"\"\n{CANARY}=\n"),
        format!("provider.value = \"\"\"\n{CANARY}=\\q\n\"\"\""),
        format!("provider.value = \"{CANARY}\" \"{CANARY}\""),
        format!("provider.value = \"{CANARY}\"\nprovider.value = \"{CANARY}\""),
        format!("provider.uri = \"inline:{CANARY}\""),
        format!("provider.uri = \"{CANARY}\""),
        format!("provider.uri = \"postgres://u:{CANARY}@h/d\""),
        format!("provider.path = \"-----BEGIN PRIVATE KEY-----\\n{CANARY}\""),
        format!("provider.kind = \"-----BEGIN PRIVATE KEY-----{CANARY}\""),
        format!("issuer.url = \"https://u:{CANARY}@oidc.example\""),
        format!("database.url = \"postgres://u:{CANARY}@h/d?sslmode=require\""),
        format!("database.direct_url = \"{CANARY}\""),
        format!("provider.key = \"{CANARY}\""),
        format!("key = \"{CANARY}\""),
    ] {
        let case = Case::file(&file);
        assert!(Config::load(case.sources()).is_err(), "{file}");
        let text = all_text(&case);
        assert!(!text.contains(CANARY), "{file}\n{text}");
    }
}

#[test]
fn a_key_pasted_into_any_variable_is_not_repeated() {
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n");
    for key in table::keys() {
        for name in [key.variable(), format!("{}_FILE", key.variable()), key.variable().replace("__", "_")] {
            let text = all_text(&Case::empty().var(&name, &pem));
            assert!(!text.contains(CANARY), "{name}\n{text}");
        }
    }
}

#[test]
fn a_file_that_everybody_may_read_is_told_where_it_holds_a_secret() {
    use std::os::unix::fs::PermissionsExt as _;

    for (url, is_told) in [
        (format!("postgres://u:{CANARY}@127.0.0.1/d"), true),
        // The form for a file, with the password elsewhere.
        ("postgres://u@127.0.0.1/d".to_owned(), false),
        ("no-url".to_owned(), true),
    ] {
        let case = Case::file(format!("[database]\nurl = \"{url}\"\n"));
        let file = case.dir.path().join("oneseal.toml");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let found = case.partial();
        assert_eq!(found.iter().any(|line| line.starts_with("config.exposed")), is_told, "{url}: {found:?}");
    }
}
