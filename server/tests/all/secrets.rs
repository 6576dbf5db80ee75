//! P10: private material reaches no log, error, metric or answer, at the noisiest level and through a whole life.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_testing::Canary;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::http::get;
use crate::support::place::{ISSUER, Place};
use crate::support::server::Server;
use crate::support::until;

/// Every private number of a ring: of its keys and of the key that signs the document.
fn canaries(ring: &Value) -> Vec<Canary> {
    let keys = ring["keys"].as_array().unwrap().iter().chain([&ring["ring_key"]]);
    let members = keys.flat_map(|key| ["d", "p", "q", "dp", "dq", "qi"].map(|name| &key["private"][name]));
    let found: Vec<_> = members
        .filter_map(Value::as_str)
        .map(|text| Canary::of(&URL_SAFE_NO_PAD.decode(text).unwrap()))
        .collect();
    assert_eq!(found.len(), 6 + 1 + 1 + 1, "RSA has six, an EC key and both Ed25519 keys one each");
    found
}

fn assert_silent(canaries: &[Canary], place: &str, text: &str) {
    assert!(!text.is_empty(), "{place} says something");
    for canary in canaries {
        canary.assert_absent(place, text);
    }
}

const ALL: &str = "RS256,ES256,EdDSA";

fn configured() -> Place {
    let place = Place::with_ring(ALL);
    place.configure("[admin]\nmint = true\nmint_audiences = [\"rp\"]\n");
    let text = fs::read_to_string(place.path("oneseal.toml")).unwrap();
    place.write("oneseal.toml", &text.replace("[\"ES256\"]", "[\"RS256\", \"ES256\", \"EdDSA\"]"));
    place
}

#[test]
fn a_whole_life_at_trace_level_tells_nothing() {
    let place = configured();
    let ring = fs::read_to_string(place.path("ring.json")).unwrap();
    let canaries = canaries(&place.ring());
    let mut server = Server::start_with(&place, &[], &[("ONESEAL_LOG", "trace")]);
    let mut said = String::new();
    for alg in ["RS256", "ES256", "EdDSA"] {
        let minted = server.mint(&format!(r#"{{"sub":"pod","aud":"rp","alg":"{alg}"}}"#));
        assert_eq!(minted.status, 200, "{}", minted.text());
        said.push_str(&minted.text());
    }
    // What a provider may have to say while its record is spoilt, in the ways that parsers quote.
    let half = &ring[..ring.len() / 2];
    let doubled = ring.replacen("\"private\"", "\"d\":\"x\",\"d\":\"y\",\"private\"", 1);
    for spoilt in [half, &format!("{ring} trailing"), &doubled, &ring.replace("RSA", "RSX")] {
        let before = server.log().matches("last good keys stay").count();
        place.write("ring.json", spoilt);
        until("the record to be refused", || {
            (server.log().matches("last good keys stay").count() > before).then_some(())
        });
    }
    place.write("ring.json", &ring);
    for path in ["/metrics", "/readyz", "/livez"] {
        said.push_str(&get(server.ops, path).text());
    }
    for path in ["/.well-known/jwks.json", "/.well-known/openid-configuration", "/nowhere"] {
        said.push_str(&get(server.documents, path).text());
    }
    said.push_str(&server.admin("GET", "/admin/v1/status", "").text());
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
    let log = server.log();
    assert!(log.contains("\"level\":\"DEBUG\""), "more is told than usual");
    assert_silent(&canaries, "the log", &log);
    assert_silent(&canaries, "the answers", &said);
}

#[test]
fn a_key_in_the_configuration_is_told_by_nobody() {
    let place = Place::with_ring(ALL);
    let canaries = canaries(&place.ring());
    let keys = place.ring()["keys"].clone();
    for key in keys.as_array().unwrap() {
        let (jwk, alg) = (key["private"].to_string(), key["alg"].as_str().unwrap());
        let with_key = |jwk: &str, args: &[&str]| {
            let output = place
                .command(args)
                .envs([("ONESEAL__PROVIDER__KIND", "inline"), ("ONESEAL__PROVIDER__VALUE", jwk)])
                .envs([("ONESEAL__ISSUER__URL", ISSUER), ("ONESEAL__ISSUER__ALGORITHMS", alg)])
                .output()
                .unwrap();
            let text = [output.stdout, output.stderr]
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .concat();
            (output.status.code(), text)
        };
        let (exit, text) = with_key(&jwk, &["check", "--explain", "--no-bind"]);
        assert_eq!(exit, Some(0), "{text}");
        assert_silent(&canaries, "check --explain", &text);
        for spoilt in [&jwk[..jwk.len() - 1], &jwk.replace("\"d\":\"", "\"d\":\"!"), &format!("{jwk}{jwk}")] {
            let (exit, text) = with_key(spoilt, &["check", "--explain", "--json", "--no-bind"]);
            assert_eq!(exit, Some(78), "{text}");
            assert_silent(&canaries, "a refusal", &text);
            let (exit, text) = with_key(spoilt, &["serve", "--log-format", "human"]);
            assert_eq!(exit, Some(78), "{text}");
            assert_silent(&canaries, "a refused start", &text);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_leaves_no_core_and_lets_no_debugger_in() {
    let place = Place::with_ring("ES256");
    let limit_of = |server: &Server| {
        let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap().to_owned();
        line.split_whitespace().nth(4).unwrap().to_owned()
    };
    let server = place.serve("");
    assert_eq!(limit_of(&server), "0");
    drop(server);
    let allowed = Server::start(&place, &["--allow-debugging"]);
    let ours = fs::read_to_string("/proc/self/limits").unwrap();
    let ours = ours.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(limit_of(&allowed), ours.split_whitespace().nth(4).unwrap());
}
