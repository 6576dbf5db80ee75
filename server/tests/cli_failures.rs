//! How verbs fail: one text for people, one object for scripts, causes once, no backtrace.

mod cli_support;

use std::fs;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cli_support::{Said, oneseal, run};
use serde_json::Value;
use tempfile::TempDir;

const ISSUER: &str = "https://oidc.example";

/// One failing call of each verb, with its exit code.
const FAILING: [(&[&str], i32); 13] = [
    (&["brew"], 64),
    (&["keys", "list", "--bogus"], 64),
    (&["keys", "init", "--config", "/dev/null"], 78),
    (&["keys", "list", "--config", "/dev/null"], 78),
    (&["keys", "export", "--provider", "file:/no/such", "--issuer", "https://oidc.example"], 78),
    (&["keys", "show", "--config", "/dev/null"], 78),
    (&["verify", "a.b.c", "--aud", "rp", "--config", "/dev/null"], 64),
    (&["verify", "a.b.c", "--aud", "rp", "--issuer", "http://127.0.0.1:9", "--connect-to", "nowhere"], 64),
    (&["mint", "--admin", "/no/such.sock", "--sub", "pod", "--aud", "rp"], 69),
    (&["healthcheck", "--url", "x"], 64),
    (&["healthcheck", "--url", "http://127.0.0.1:9/readyz"], 1),
    (&["config", "init", "--output", "/no/such/dir/x"], 78),
    (&["healthcheck", "--config", "/no/such/file"], 78),
];

#[test]
fn under_json_every_failure_is_one_object_where_the_answer_would_have_been() {
    for (arguments, code) in FAILING {
        let said = run(oneseal(arguments).arg("--json"));
        assert_eq!((said.code, said.err.as_str()), (Some(code), ""), "{arguments:?}: {said:?}");
        assert_eq!(said.out.lines().count(), 1, "{arguments:?}: {said:?}");
        let told = said.json();
        assert_eq!((&told["ok"], &told["exit"]), (&Value::from(false), &code.into()), "{arguments:?}");
        let error = &told["error"];
        for member in ["kind", "message"] {
            assert!(error[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {told}");
        }
        assert!(error["causes"].is_array() && error["findings"].is_array(), "{told}");
    }
}

#[test]
fn people_are_told_once_on_standard_error_whatever_backtraces_are_asked_for() {
    for (arguments, code) in FAILING {
        let said = run(oneseal(arguments).env("RUST_BACKTRACE", "full").env("RUST_LIB_BACKTRACE", "1"));
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{arguments:?}: {said:?}");
        assert!(!said.err.contains("stack backtrace") && !said.err.contains("panicked"), "{said:?}");
        for line in said.err.lines() {
            let parts: Vec<_> = line.split(": ").collect();
            let twice = parts.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "{line}");
        }
    }
}

/// Where a key may be pasted by mistake: `KEY` stands for it.
const DOORS: &[&[&str]] = &[
    &["KEY"],
    &["--log-format", "KEY", "version"],
    &["--config", "KEY", "check"],
    &["check", "KEY"],
    &["check", "--offline", "--issuer", "KEY"],
    &["check", "--offline", "--issuer", ISSUER, "--provider", "KEY"],
    &["check", "--offline", "--issuer", ISSUER, "--provider", "file:KEY"],
    &["check", "--offline", "--issuer", ISSUER, "--provider", "file:/no/such", "--passphrase", "file:KEY"],
    &["check", "--offline", "--issuer", ISSUER, "--provider", "file:/no/such", "--member", "KEY"],
    &["check", "--ca", "KEY"],
    &["check", "--listen-admin", "KEY"],
    &["check", "--tls-private-key=KEY"],
    &["completions", "KEY"],
    &["config", "init", "--output", "KEY"],
    &["keys", "init", "--issuer", ISSUER, "--provider", "file:KEY"],
    &["keys", "init", "--alg", "KEY"],
    &["keys", "list", "--issuer", "KEY", "--provider", "file:/no/such"],
    &["keys", "export", "--out", "KEY"],
    &["keys", "show", "KEY"],
    &["man", "KEY"],
    &["mint", "--admin", "KEY", "--sub", "a", "--aud", "rp"],
    &["mint", "--admin", "/no/such.sock", "--sub", "a", "--aud", "rp", "--ttl", "KEY"],
    &["mint", "--admin", "/no/such.sock", "--sub", "a", "--aud", "rp", "--claim", "KEY"],
    &["quickstart", "--replicas", "KEY"],
    &["serve", "--ready-file", "KEY"],
    &["verify", "a.b.c", "--issuer", "KEY", "--aud", "rp"],
    &["verify", "a.b.c", "--issuer", ISSUER, "--aud", "rp", "--jwks", "KEY"],
    &["verify", "a.b.c", "--issuer", ISSUER, "--aud", "rp", "--jwks", "https://oidc.example/KEY"],
    &["verify", "a.b.c", "--issuer", ISSUER, "--aud", "rp", "--connect-to", "KEY"],
    &["verify", "KEY", "--issuer", ISSUER, "--aud", "rp"],
    &["verify", "a.b.c", "--ca", "KEY", "--issuer", ISSUER, "--aud", "rp"],
    &["healthcheck", "--url", "KEY"],
    &["healthcheck", "--url", "https://127.0.0.1:9/KEY"],
    &["healthcheck", "--ops", "KEY"],
];

/// The same, of variables that `check` reads.
const VARIABLES: &[&str] = &[
    "ONESEAL_CONFIG",
    "ONESEAL_LOG",
    "ONESEAL_WORKERS",
    "ONESEAL__ADMIN__MINT_AUDIENCES",
    "ONESEAL__ISSUER__CA_BUNDLE",
    "ONESEAL__ISSUER__URL",
    "ONESEAL__PROVIDER__KIND",
    "ONESEAL__PROVIDER__MEMBER",
    "ONESEAL__PROVIDER__PASSPHRASE",
    "ONESEAL__PROVIDER__PATH",
    "ONESEAL__PROVIDER__PATH_FILE",
    "ONESEAL__PROVIDER__URI",
    "ONESEAL__TLS__CERTIFICATE",
];

/// Keys of openssl's making in the forms in which they lie on clipboards.
fn pasted_keys() -> Vec<String> {
    let kinds = [
        &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"][..],
        &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        &["ED25519"],
    ];
    kinds
        .into_iter()
        .flat_map(|kind| {
            let made = Command::new("openssl").args(["genpkey", "-algorithm"]).args(kind).output();
            let pem = String::from_utf8(made.expect("openssl is there").stdout).expect("PEM");
            let der: String = pem.lines().filter(|line| !line.starts_with("--")).collect();
            let jwk = format!(r#"{{"kty":"{}","d":"{}"}}"#, kind[0], der.replace('+', "-").replace('/', "_"));
            [STANDARD.encode(&pem), STANDARD.encode(&jwk), pem, der, jwk]
        })
        .collect()
}

/// Every stretch of the key that is long enough to be one.
#[track_caller]
fn assert_silent(said: &Said, key: &str) {
    let told = format!("{}{}", said.out, said.err);
    for stretch in key.as_bytes().windows(20) {
        let stretch = String::from_utf8_lossy(stretch);
        assert!(!told.contains(&*stretch), "{stretch:?} of {key:?}: {said:?}");
    }
}

#[test]
fn a_pasted_key_is_repeated_behind_no_door() {
    let dir = TempDir::new().expect("a directory");
    let keys = pasted_keys();
    assert!(keys.iter().all(|key| key.len() > 60));
    for key in &keys {
        for door in DOORS {
            let arguments = door.iter().map(|argument| argument.replace("KEY", key));
            for json in [None, Some("--json")] {
                let said = run(oneseal(arguments.clone()).args(json).current_dir(&dir));
                assert!(said.code.is_some_and(|code| code != 0 && code != 70), "{said:?}");
                assert_silent(&said, key);
            }
        }
        for variable in VARIABLES {
            let mut check = oneseal(["check", "--offline", "--no-bind", "--explain"]);
            check.env("ONESEAL__ISSUER__URL", ISSUER).env("ONESEAL__PROVIDER__KIND", "file");
            let said = run(check.env(variable, key).current_dir(&dir));
            assert!(said.code.is_some_and(|code| code != 0 && code != 70), "{variable}: {said:?}");
            assert_silent(&said, key);
        }
    }
    assert_eq!(fs::read_dir(&dir).expect("there").count(), 0, "no file has a key for its name");
}

#[test]
fn a_pasted_key_is_in_no_failure_of_either_form() {
    for pasted in ["-----BEGIN PRIVATE KEY-----\ncanary\n", r#"{"kty":"EC","d":"canary"}"#] {
        for arguments in [["keys", "list", pasted], ["mint", "--ttl", pasted], ["verify", "--ca", pasted]] {
            let said = run(oneseal(arguments).arg("--json"));
            assert_eq!(said.code, Some(64), "{said:?}");
            assert!(!said.out.contains("canary") && said.err.is_empty(), "{said:?}");
        }
    }
}
