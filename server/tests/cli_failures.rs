//! How verbs fail: one text for people, one object for scripts, causes once, no backtrace.

mod cli_support;

use cli_support::{oneseal, run};
use serde_json::Value;

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
