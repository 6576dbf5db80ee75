//! Where values come from, and which of several holds.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use secrecy::ExposeSecret as _;

use super::super::table::{self, Kind, Literal};
use super::super::{Config, ProviderChoice, Sources};
use super::{Case, LEAST};

#[test]
fn the_strongest_source_holds_and_explain_says_which() {
    let case =
        Case::file(format!("{LEAST}[listen]\ndocuments = \"[::]:1\"\nops = \"[::]:2\"\nadmin = \"none\"\n"))
            .var("ONESEAL__LISTEN__OPS", "[::]:3")
            .var("ONESEAL__LISTEN__ADMIN", "/a.sock")
            .flag("--listen-admin", "listen.admin", "/b.sock");
    let (config, _) = case.load();
    assert_eq!(config.settings.listen.documents.port(), 1);
    assert_eq!(config.settings.listen.ops.port(), 3);
    assert_eq!(config.settings.listen.admin.as_deref(), Some(Path::new("/b.sock")));
    let explained = config.settings.effective.to_string();
    let line = |key: &str| {
        let line = explained.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(line("listen.documents").ends_with("oneseal.toml:6"));
    assert_eq!(line("listen.ops"), "listen.ops = \"[::]:3\" # ONESEAL__LISTEN__OPS");
    assert_eq!(line("listen.admin"), "listen.admin = \"/b.sock\" # --listen-admin");
    assert_eq!(line("rotation.skew"), "rotation.skew = \"1m\" # default");
}

#[test]
fn a_mistake_in_a_weaker_source_is_reported_too() {
    let case = Case::file(format!("{LEAST}[listen]\nops = \"x\"\n")).var("ONESEAL__LISTEN__OPS", "[::]:3");
    assert_eq!(case.refused().len(), 1);
}

#[test]
fn every_key_can_be_set_by_file_by_variable_and_by_flag_with_the_same_result() {
    for key in table::keys() {
        let text = match key.example {
            Literal::Text(text) => text.to_owned(),
            Literal::Bool(value) => value.to_string(),
            Literal::Integer(value) => value.to_string(),
            Literal::List(items) => items.join(","),
            Literal::Tables(_) | Literal::Table(_) | Literal::Mixed(_) => key.example.toml(),
        };
        let (section, name) = key.path.split_once('.').unwrap();
        let file = format!("[{section}]\n{name} = {}\n", key.example.toml());
        let (by_file, empty) = (Case::file(file), Case::empty());
        let by_flag = empty.sources().flag("--flag", key.path, Some(text.clone()));
        let by_variable = empty.var(&key.variable(), &text);
        let values = [by_file.sources(), by_variable.sources(), by_flag]
            .map(|sources| sources.gather().values.find(key.path).unwrap().clone());
        let [file, variable, flag] = &values;
        assert_eq!(format!("{:?}", file.value), format!("{:?}", variable.value), "{}", key.path);
        assert_eq!(format!("{:?}", file.value), format!("{:?}", flag.value), "{}", key.path);
        if matches!(key.kind, Kind::Secret) {
            continue;
        }
        let default = Case::empty().sources().gather().values.find(key.path).map(|set| set.value.shown());
        assert_ne!(default, Some(file.value.shown()), "the example of {} is its default", key.path);
    }
}

#[test]
fn a_provider_is_named_in_one_way() {
    let case = |provider: &str| {
        Case::file(format!("[issuer]\nurl = \"https://oidc.example\"\n[provider]\n{provider}"))
    };
    let choice = |provider: &str| case(provider).load().0.provider;
    assert!(matches!(
        choice("kind = \"file\"\npath = \"/k\"\ndurable = true\n"),
        ProviderChoice::File { path, durable: true } if path == Path::new("/k")
    ));
    assert!(matches!(
        choice("uri = \"file:///k\"\n"),
        ProviderChoice::File { path, durable: false } if path == Path::new("/k")
    ));
    for provider in ["kind = \"env\"\nvariable = \"K\"\n", "uri = \"env:K\"\n"] {
        assert!(matches!(choice(provider), ProviderChoice::Env { variable } if variable == "K"));
    }
    let ProviderChoice::Inline { value } = choice("kind = \"inline\"\nvalue = \"pem\"\n") else { panic!() };
    assert_eq!(value.expose_secret(), "pem");

    for (provider, expected) in [
        (
            "kind = \"file\"\npath = \"/k\"\nuri = \"file:/k\"\n",
            "config.conflict at provider.uri (oneseal.toml:6): provider.kind (oneseal.toml:4) names a provider as well",
        ),
        (
            "uri = \"file:/k\"\npath = \"/k\"\n",
            "config.conflict at provider.path (oneseal.toml:5): it belongs to kind \"file\"; provider.uri (oneseal.toml:4) says otherwise",
        ),
        (
            "kind = \"file\"\npath = \"/k\"\nvariable = \"K\"\n",
            "config.conflict at provider.variable (oneseal.toml:6): it belongs to kind \"env\"; provider.kind (oneseal.toml:4) says otherwise",
        ),
        (
            "kind = \"env\"\n",
            "config.missing at provider.variable: provider.kind (oneseal.toml:4) says kind \"env\", which needs it",
        ),
        (
            "kind = \"postgres\"\n",
            "config.missing at database.url: provider.kind (oneseal.toml:4) says kind \"postgres\", which is the row in this database; another one is named by provider.uri",
        ),
        (
            "path = \"/k\"\n",
            "config.missing at provider.kind: provider.path (oneseal.toml:4) is set; it belongs to kind = \"file\"",
        ),
        (
            "kind = \"kubernetes\"\n",
            "config.missing at provider.name: provider.kind (oneseal.toml:4) says kind \"kubernetes\", which needs it",
        ),
    ] {
        assert_eq!(case(provider).refused(), [expected], "{provider}");
    }
    // One fault is told once: a database whose URL is wrong is not missing besides.
    let of_url = case("kind = \"postgres\"\n[database]\nurl = \"mysql://db/x\"\n").refused();
    let codes: Vec<_> = of_url.iter().filter_map(|line| line.split(' ').next()).collect();
    assert!(codes.contains(&"config.bad_value") && !codes.contains(&"config.missing"), "{of_url:?}");
    assert_eq!(
        case("uri = \"env:K\"\ndurable = true\n").load().1,
        [
            "config.no_effect at provider.durable (oneseal.toml:5): only a file may look as if it would not last"
        ]
    );
}

#[test]
fn a_row_of_postgres_is_the_fleets_and_its_password_is_not_shown() {
    let case = |ring: &str, query: &str| {
        Case::file(format!(
            "[issuer]\nurl = \"https://oidc.example\"\n{ring}\
             [provider]\nuri = \"postgres://u:s3cret@127.0.0.1/db{query}\"\n"
        ))
    };
    for (ring, query, wanted) in [
        ("", "", "oidc.example"),
        ("[ring]\nfleet = \"mine\"\n", "", "mine"),
        ("[ring]\nfleet = \"mine\"\n", "?fleet=other", "other"),
    ] {
        let (config, _) = case(ring, query).load();
        let ProviderChoice::Postgres { database, fleet } = &config.provider else { panic!("{ring}{query}") };
        assert_eq!((fleet.as_deref(), &*database.location()), (Some(wanted), "127.0.0.1:5432/db"));
        assert!(!format!("{config:?} {}", config.settings.effective).contains("s3cret"));
        // It is the registry's as well: no replica of a shared ring is left alone.
        let registry = config.settings.database.as_ref().expect("the ring's own");
        assert_eq!(registry.url.location(), "127.0.0.1:5432/db");
        assert_eq!(config.fleet(), if ring.is_empty() { wanted } else { "mine" });
    }
    let text = "[issuer]\nurl = \"https://oidc.example\"\n[provider]\nkind = \"postgres\"\n\
                [database]\nurl = \"postgres://u:s3cret@127.0.0.1/shared\"\n";
    let (config, _) = Case::file(text).load();
    let ProviderChoice::Postgres { database, fleet } = &config.provider else { panic!("the [database]") };
    assert_eq!((fleet.as_deref(), &*database.location()), (Some("oidc.example"), "127.0.0.1:5432/shared"));
    assert!(!format!("{config:?} {}", config.settings.effective).contains("s3cret"));

    let refused = case("", "?sslmode=require").refused().join(" ");
    assert!(
        refused.contains("config.bad_value at provider.uri") && refused.contains("verify-full"),
        "{refused}"
    );
    assert!(!refused.contains("s3cret"), "{refused}");
}

#[test]
fn a_stronger_source_replaces_the_provider_as_a_whole() {
    let file = "[issuer]\nurl = \"https://oidc.example\"\n[provider]\nkind = \"file\"\npath = \"/k\"\n";
    let by_uri = Case::file(file).var("ONESEAL__PROVIDER__URI", "env:K").load().0;
    assert!(matches!(by_uri.provider, ProviderChoice::Env { .. }));
    assert!(
        !by_uri.settings.effective.to_string().contains("provider.path"),
        "what is out of force is not shown"
    );
    let by_kind = Case::file(LEAST)
        .var("ONESEAL__PROVIDER__KIND", "inline")
        .var("ONESEAL__PROVIDER__VALUE", "pem")
        .load()
        .0;
    assert!(matches!(by_kind.provider, ProviderChoice::Inline { .. }));
    let other_path = Case::file(file).var("ONESEAL__PROVIDER__PATH", "/other").load().0;
    assert!(matches!(other_path.provider, ProviderChoice::File { path, .. } if path == Path::new("/other")));
}

#[test]
fn service_links_pass_in_silence_and_the_rest_is_named() {
    let case = Case::file(LEAST)
        .var("ONESEAL_PORT", "tcp://10.0.0.7:8080")
        .var("ONESEAL_SERVICE_HOST", "10.0.0.7")
        .var("ONESEAL_SERVICE_PORT_HTTP", "8080")
        .var("ONESEAL_PORT_8080_TCP_ADDR", "10.0.0.7")
        .var("ONESEAL_OPS_SERVICE_HOST", "fd00::7")
        .var("ONESEAL__X_SERVICE_HOST", "10.0.0.7")
        .var("ONESEALX", "1")
        .var("PATH", "/bin");
    assert_eq!(case.load().1, [] as [&str; 0]);
    let case = case
        .var("ONESEAL_ISSUER_URL", "https://x")
        .var("ONESEAL_TOKEN", "CANARY")
        .var("oneseal_log", "debug")
        .var("ONESEAL_PORT", "8080");
    assert_eq!(
        case.load().1,
        [
            "config.ignored_variable at ONESEAL_ISSUER_URL: it is ignored; did you mean ONESEAL__ISSUER__URL, with two underscores?",
            "config.ignored_variable at ONESEAL_PORT: it is ignored",
            "config.ignored_variable at ONESEAL_TOKEN: it is ignored",
            "config.ignored_variable at oneseal_log: it is ignored; variable names have capital letters only: ONESEAL_LOG",
        ]
    );
}

#[test]
fn the_variable_that_holds_the_key_is_not_warned_about() {
    let least = LEAST.replace("file:/k", "env:ONESEAL_SIGNING_KEY");
    assert_eq!(Case::file(least).var("ONESEAL_SIGNING_KEY", "pem").load().1, [] as [&str; 0]);
}

#[test]
fn misspelt_variables_are_errors_with_a_hint() {
    for (name, message) in [
        ("oneseal__issuer__url", "variable names have capital letters only: ONESEAL__ISSUER__URL"),
        ("ONESEAL__issuer__url", "variable names have capital letters only: ONESEAL__ISSUER__URL"),
        ("ONESEAL__ISSUER__ULR", "unknown key; did you mean ONESEAL__ISSUER__URL?"),
        ("ONESEAL__ISSUER_URL", "unknown key; did you mean ONESEAL__ISSUER__URL?"),
        ("ONESEAL__ISSUER", "it is a table; its keys are set one by one, ONESEAL__ISSUER__KEY"),
        ("ONESEAL__", "unknown key"),
        ("ONESEAL____", "unknown key"),
    ] {
        assert_eq!(
            Case::file(LEAST).var(name, "x").refused(),
            [format!("config.unknown_key at {name}: {message}")]
        );
    }
    assert_eq!(
        Case::file(LEAST).var("ONESEAL__RING__ANCHOR", "CANARY").refused(),
        ["config.not_available at ONESEAL__RING__ANCHOR: `ring.anchor` is not in this version"]
    );
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_matter() {
    let bytes = || OsString::from_vec(vec![b'a', 0xff]);
    assert_eq!(
        Case::file(LEAST).var("ONESEAL__RING__FLEET", bytes()).refused(),
        ["config.bad_value at ONESEAL__RING__FLEET: its value is not UTF-8"]
    );
    assert_eq!(
        Case::file(LEAST).var("ONESEAL_LOG", bytes()).refused(),
        ["config.bad_value at ONESEAL_LOG: its value is not UTF-8"]
    );
    assert_eq!(Case::file(LEAST).var("OTHER", bytes()).load().1, [] as [&str; 0]);
    let mut case = Case::file(LEAST);
    case.variables.push((OsString::from_vec(b"ONESEAL__ISSUER__\xff".to_vec()), "x".into()));
    assert_eq!(case.refused().len(), 1);
    assert_eq!(
        Case::file(b"# one\n[issuer]\nurl = \"\xff\"\n").refused(),
        ["config.syntax at oneseal.toml: line 3 is not UTF-8"]
    );
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_do_no_harm() {
    let text = format!("\u{feff}{}", LEAST.replace('\n', "\r\n"));
    assert_eq!(Case::file(&text).load().0.issuer.as_str(), "https://oidc.example");
    assert!(Case::file(text.replace("uri", "ury")).refused()[0].contains("oneseal.toml:4"));
}

#[test]
fn a_named_file_must_be_a_readable_file_of_ordinary_size() {
    let case = Case::empty();
    let refused = |path: &Path| {
        let findings =
            Config::load(Sources::new([]).config(Some(path.to_owned()))).map(|_| ()).unwrap_err().findings;
        case.lines(&findings)
    };
    assert_eq!(refused(&case.path("none.toml")), ["config.not_found at --config: none.toml does not exist"]);
    assert_eq!(
        refused(Path::new("")),
        ["config.bad_value at --config: it is empty; leave it out if no file is meant"]
    );
    fs::create_dir(case.path("dir")).unwrap();
    assert_eq!(
        refused(&case.path("dir")),
        ["config.unreadable at --config: cannot read dir: it is a directory"]
    );
    fs::write(case.path("huge"), "#".repeat(1024 * 1024 + 1)).unwrap();
    assert_eq!(
        refused(&case.path("huge")),
        ["config.unreadable at --config: cannot read huge: it is larger than 1024 KiB"]
    );
    fs::write(case.path("large"), format!("{LEAST}#{}", "#".repeat(1024 * 1024 - LEAST.len() - 1))).unwrap();
    assert!(Config::load(Sources::new([]).config(Some(case.path("large")))).is_ok());
    let through_file = case.path("oneseal.toml").join("x");
    assert!(refused(&through_file)[0].starts_with("config.unreadable at --config"));
}

#[test]
fn the_file_is_named_by_flag_then_variable_then_default() {
    let case = Case::file(LEAST);
    let named = case.path("oneseal.toml");
    let by_variable = Sources::new([("ONESEAL_CONFIG".into(), named.clone().into())]);
    assert!(Config::load(by_variable).is_ok());
    let by_flag = Sources::new([("ONESEAL_CONFIG".into(), "/nowhere".into())]).config(Some(named.clone()));
    assert!(Config::load(by_flag).is_ok());
    assert!(Config::load(Sources::new([]).default_file(named)).is_ok());
    let absent = Sources::new([
        ("ONESEAL__ISSUER__URL".into(), "https://oidc.example".into()),
        ("ONESEAL__PROVIDER__URI".into(), "file:/k".into()),
    ]);
    assert!(Config::load(absent.default_file(case.path("absent.toml"))).is_ok());
    let missing = Config::load(Sources::new([("ONESEAL_CONFIG".into(), "/nowhere".into())]))
        .map(|_| ())
        .unwrap_err()
        .findings;
    assert_eq!(case.lines(&missing), ["config.not_found at ONESEAL_CONFIG: /nowhere does not exist"]);
}

#[test]
fn secrets_come_from_files_without_their_last_line_break() {
    let inline = LEAST.replace("uri = \"file:/k\"", "kind = \"inline\"");
    for (content, value) in
        [("pem\n", "pem"), ("pem\r\n", "pem"), ("pem", "pem"), ("pem\n\n", "pem\n"), ("\u{feff}pem", "pem")]
    {
        let case = Case::file(&inline);
        let path = case.path("secret");
        fs::write(&path, content).unwrap();
        let case = case.var("ONESEAL__PROVIDER__VALUE_FILE", path);
        let ProviderChoice::Inline { value: read } = case.load().0.provider else { panic!() };
        assert_eq!(read.expose_secret(), value);
    }
    let case = Case::file(&inline);
    let absent = case.path("absent");
    let case = case.var("ONESEAL__PROVIDER__VALUE_FILE", absent);
    assert_eq!(
        case.refused(),
        ["config.unreadable at ONESEAL__PROVIDER__VALUE_FILE: cannot read absent: it does not exist"]
    );
    let both = case.var("ONESEAL__PROVIDER__VALUE", "pem");
    assert_eq!(
        both.refused(),
        ["config.conflict at ONESEAL__PROVIDER__VALUE_FILE: ONESEAL__PROVIDER__VALUE is set as well"]
    );
}

#[test]
fn a_secret_in_a_file_that_everybody_reads_is_a_warning() {
    let case = Case::file(LEAST.replace("uri = \"file:/k\"", "kind = \"inline\"\nvalue = \"pem\""));
    for (mode, warnings) in [(0o644, 1), (0o640, 0), (0o600, 0)] {
        fs::set_permissions(case.path("oneseal.toml"), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(case.load().1.len(), warnings, "{mode:o}");
    }
}
