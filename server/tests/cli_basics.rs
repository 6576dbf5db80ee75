//! The verbs that need neither key nor server, and the golden texts of the others.

mod cli_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cli_support::{oneseal, run, text};
use tempfile::TempDir;

#[test]
fn the_version_names_all_that_a_report_of_a_fault_needs() {
    let facts = run(&mut oneseal(["version", "--json"])).done().json();
    assert_eq!(facts["version"], env!("CARGO_PKG_VERSION"));
    for (member, begin) in
        [("rustc", "rustc 1."), ("crypto", "aws-lc-rs 1."), ("target", std::env::consts::ARCH)]
    {
        assert!(facts[member].as_str().is_some_and(|text| text.starts_with(begin)), "{member}: {facts}");
    }
    assert!(facts["providers"].as_array().is_some_and(|kinds| kinds.contains(&"file".into())), "{facts}");
    let members: Vec<_> = facts.as_object().expect("an object").keys().cloned().collect();
    assert_eq!(members, ["crypto", "exit", "ok", "profile", "providers", "rustc", "target", "version"]);
    let plain = run(&mut oneseal(["version"])).done();
    assert!(plain.out.starts_with(&format!("oneseal {}\n", env!("CARGO_PKG_VERSION"))), "{plain:?}");
}

#[test]
fn each_shell_gets_a_script_that_knows_the_verbs() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&mut oneseal(["completions", shell])).done().out;
        for verb in ["serve", "quickstart", "mint"] {
            assert!(script.contains(verb), "{shell} does not know {verb}");
        }
    }
}

#[test]
fn a_configuration_is_written_once() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("oneseal.toml");
    let arguments = ["config", "init", "--output", text(&path)];
    run(&mut oneseal(arguments)).done();
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let written = fs::read_to_string(&path).expect("there");
    assert_eq!(written, run(&mut oneseal(["config", "init"])).done().out);
    fs::write(&path, "mine").expect("written");
    run(&mut oneseal(arguments)).refused(78, &[text(&path), "is there already"]);
    assert_eq!(fs::read_to_string(&path).expect("there"), "mine");
    run(&mut oneseal(["config", "init", "--output", "/no/such/dir/x"])).refused(78, &["/no/such/dir"]);
}

#[test]
fn the_schema_is_json_and_knows_the_tables() {
    let schema = run(&mut oneseal(["config", "schema"])).done().json();
    for table in ["issuer", "provider", "listen", "admin"] {
        assert!(schema["properties"][table].is_object(), "{table}: {schema}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", r#""$0" config init | head -c 1 >/dev/null; "$0" completions bash | true"#]);
    let said = run(command.arg(env!("CARGO_BIN_EXE_oneseal")));
    assert!(said.err.is_empty(), "{said:?}");
}

/// What is said stays what it is: each text here is somebody's script or search result.
#[test]
fn golden() {
    let cases = trycmd::TestCases::new();
    for verb in ["keys", "mint", "verify", "version", "config", "completions", "quickstart", "healthcheck"] {
        cases.case(format!("tests/cmd/{verb}*.trycmd"));
    }
}

/// At whichever place it is missing, nobody is told of a database.
#[test]
fn a_region_that_is_missing_or_cannot_be_one_is_told_as_such() {
    let dir = TempDir::new().expect("a directory");
    let ring = format!("file:{}", text(&dir.path().join("ring")));
    let issuer = "https://oidc.example.com";
    let aws = "aws:prod/oneseal-ring";
    let at_ring = ["keys", "list", "--issuer", issuer, "--provider", aws];
    let at_kek = ["keys", "init", "--issuer", issuer, "--provider", &ring, "--kek", aws];
    for (arguments, region, words) in [
        (&at_ring[..], None, "no region is known: set AWS_REGION"),
        (&at_kek[..], None, "no region is known: set AWS_REGION"),
        (&at_ring[..], Some(""), "no region is known: set AWS_REGION"),
        (&at_kek[..], Some("eu west"), "a region is named as in `eu-west-1`"),
    ] {
        let mut command = oneseal(arguments);
        command.env_remove("AWS_DEFAULT_REGION").env_remove("AWS_REGION").env_remove("AWS_PROFILE");
        command.env("HOME", dir.path()).env("AWS_EC2_METADATA_DISABLED", "true");
        command.envs(region.map(|region| ("AWS_REGION", region)));
        let said = run(&mut command);
        said.refused(78, &["provider.misconfigured", words]);
        assert!(!said.err.contains("database") && !said.err.contains("pool_mode"), "{said:?}");
    }
}
