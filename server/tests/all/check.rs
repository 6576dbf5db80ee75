//! `check`: what its report holds, and which network it asks.

use serde_json::Value;

use crate::support::place::{Place, SELF_CHECK};

/// Runs `check --json` with these arguments: the exit code, and the report, which names it too.
fn checked(place: &Place, args: &[&str]) -> (Option<i32>, Value) {
    let output = place
        .command(["check", "--json", "--config", "oneseal.toml"])
        .args(args)
        .env_remove(SELF_CHECK)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["exit"].as_i64(), output.status.code().map(i64::from));
    (output.status.code(), report)
}

fn codes(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

/// With bare keys for a loopback issuer at which nobody listens.
fn loopback() -> Place {
    let place = Place::with_ring("ES256");
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    place.write("key.jwk", &place.private_jwk().to_string());
    place.write(
        "oneseal.toml",
        &format!(
            "[issuer]\nurl = \"http://{address}\"\nalgorithms = [\"ES256\"]\n\
             [provider]\nkind = \"file\"\npath = \"key.jwk\"\n\
             [listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = \"none\"\n"
        ),
    );
    place
}

#[test]
fn who_asks_nobody_has_nothing_to_say_of_the_issuers_url() {
    let place = loopback();
    let (exit, report) = checked(&place, &["--offline"]);
    assert_eq!((exit, codes(&report)), (Some(0), vec!["rule.none", "issuer.no_rs256"]));
}

#[test]
fn the_same_silence_is_a_warning_to_the_start_and_an_error_to_who_asks_for_it() {
    let place = loopback();
    let (exit, report) = checked(&place, &[]);
    assert_eq!((exit, codes(&report)), (Some(0), vec!["rule.none", "issuer.no_rs256", "issuer.unreachable"]));
    let (exit, report) = checked(&place, &["--online"]);
    assert_eq!((exit, codes(&report)), (Some(69), vec!["issuer.no_rs256", "online.unreachable"]));
    assert_eq!(report["online"][0]["bytes"], Value::Null);
    let (exit, _) = checked(&place, &["--strict"]);
    assert_eq!(exit, Some(78));
}

/// Behind a Service every second replay would find a replica that has not seen the first.
#[test]
fn assertions_without_a_database_are_refused_with_whatever_else_is_wrong_with_them() {
    let place = loopback();
    let text = std::fs::read_to_string(place.path("oneseal.toml")).unwrap();
    let issuer =
        "[[assertion_issuer]]\nname = \"ci\"\nissuer = \"https://ci.example\"\njwks_file = \"none.json\"\n";
    place.write("oneseal.toml", &format!("{text}{issuer}"));
    let (exit, report) = checked(&place, &["--offline"]);
    let found = codes(&report);
    assert_eq!(exit, Some(78));
    assert!(found.contains(&"assertion.no_replay_guard") && found.contains(&"assertion.keys"), "{found:?}");
    let served = place.command(["serve", "--config", "oneseal.toml"]).output().unwrap();
    assert_eq!(served.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&served.stderr).contains("assertion.no_replay_guard"), "{served:?}");
}

#[test]
fn a_running_server_is_a_good_issuer_to_relying_parties() {
    let place = loopback();
    let text = std::fs::read_to_string(place.path("oneseal.toml")).unwrap();
    let address = text.split("http://").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let server = crate::support::server::Server::start(&place, &["--listen-documents", &address]);
    let (exit, report) = checked(&place, &["--online", "--no-bind", "--explain"]);
    assert_eq!((exit, codes(&report)), (Some(0), vec!["rule.none", "issuer.no_rs256"]), "{}", server.log());
    let kid = &place.ring()["keys"][0]["kid"];
    assert_eq!(
        (&report["key"]["keys"][0]["kid"], &report["key"]["keys"][0]["state"]),
        (kid, &"active".into())
    );
    assert_eq!(report["key"]["provider"], "file");
    assert!(report["online"][1]["bytes"].as_u64().unwrap() > 100);
}

#[test]
fn an_issuer_behind_a_private_authority_is_good_for_who_names_it_and_untrusted_for_others() {
    let place = loopback();
    let text = std::fs::read_to_string(place.path("oneseal.toml")).unwrap();
    let address = text.split("http://").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let port = address.rsplit(':').next().unwrap();
    let text = text.replace(&format!("http://{address}"), &format!("https://localhost:{port}"));
    place.write("oneseal.toml", &text);
    let server =
        crate::support::server::Server::start(&place, &["--dev-tls", "--listen-documents", &address]);
    let known = ["rule.none", "issuer.no_rs256", "issuer.port"];
    let (exit, report) = checked(&place, &["--online", "--no-bind", "--ca", "oneseal-dev-ca.pem"]);
    let found: Vec<_> = codes(&report).into_iter().filter(|code| !known.contains(code)).collect();
    assert_eq!((exit, found), (Some(0), vec![]), "{report:#} {}", server.log());
    let (exit, report) = checked(&place, &["--online", "--no-bind"]);
    assert_eq!(exit, Some(78), "{report:#}");
    assert!(codes(&report).contains(&"online.certificate"), "{report:#}");
    // To the start it is a warning: a load balancer in front may have a certificate that this host does not know.
    let (exit, report) = checked(&place, &["--no-bind"]);
    assert_eq!((exit, codes(&report).contains(&"issuer.unreachable")), (Some(0), true), "{report:#}");
    let bundle = text.replace("[provider]", "ca_bundle = \"oneseal-dev-ca.pem\"\n[provider]");
    place.write("oneseal.toml", &bundle);
    let (exit, report) = checked(&place, &["--no-bind"]);
    assert_eq!((exit, codes(&report).contains(&"issuer.unreachable")), (Some(0), false), "{report:#}");
    // The keys are had, by the certificates of the same file: so the token is judged.
    let header = "eyJhbGciOiJFUzI1NiIsImtpZCI6Im9sZCJ9"; // {"alg":"ES256","kid":"old"}
    let payload = segment(&format!("{{\"iss\":\"https://localhost:{port}\"}}"));
    let verified = |config: &str| {
        let output = place
            .command(["verify", &format!("{header}.{payload}.AAAA"), "--aud", "rp", "--config", config])
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (exit, said) = verified("oneseal.toml");
    assert_eq!((exit, said.contains("(unknown_kid): kid \"old\", published [")), (Some(1), true), "{said}");
    place.write("without.toml", &text);
    let (exit, said) = verified("without.toml");
    assert_eq!((exit, said.contains("issuer.ca_bundle")), (Some(69), true), "{said}");
    assert!(!said.contains("reachable from here"), "{said}");
}

/// As a segment of a token.
fn segment(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

#[test]
fn an_unusable_ca_bundle_is_a_mistake_of_the_configuration() {
    let place = loopback();
    place.write("empty.pem", "");
    for (path, code) in [("empty.pem", "config.bad_value"), ("nowhere.pem", "config.unreadable")] {
        let (exit, report) = checked(&place, &["--ca", path]);
        assert_eq!((exit, codes(&report)), (Some(78), vec![code]), "{report:#}");
        assert_eq!(report["findings"][0]["place"], "--ca");
    }
}

#[test]
fn the_table_of_codes_says_of_each_how_it_ends() {
    let place = Place::empty();
    let output = place.run(["check", "--codes", "--json"]);
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    let exit = |name: &str| {
        let row = table["codes"].as_array().unwrap().iter().find(|row| row["code"] == name);
        row.unwrap_or_else(|| panic!("no {name}"))["exit"].clone()
    };
    assert_eq!(exit("issuer.serves_other_keys"), 78);
    assert_eq!(exit("online.unreachable"), 69);
    assert_eq!(exit("issuer.unreachable"), Value::Null);
}

#[test]
fn online_and_offline_exclude_each_other() {
    let output = Place::empty().run(["check", "--online", "--offline"]);
    assert_eq!(output.status.code(), Some(64));
}
