//! The admin socket: who may, what is refused, what is written down.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http::Client;
use crate::support::place::{ISSUER, Place};
use crate::support::server::Server;
use crate::support::until;

const MINT: &str = "[admin]\nmint = true\nmint_audiences = [\"rp\"]\n";

fn minting() -> (Place, Server) {
    let place = Place::with_ring("ES256");
    let server = place.serve(MINT);
    (place, server)
}

fn claims(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
}

fn audit(server: &Server, message: &str) -> Value {
    until("an audit line", || {
        let lines = server.log_lines();
        lines.into_iter().find(|line| line["target"] == "oneseal::audit" && line["message"] == message)
    })
}

#[test]
fn a_token_is_minted_and_written_down_without_itself() {
    let (place, server) = minting();
    let answer = server.mint(r#"{"sub":"pod-7","aud":"rp","ttl_s":600,"alg":"ES256","claims":{"team":"a"}}"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let minted = answer.json();
    let token = minted["token"].as_str().unwrap();
    let claims = claims(token);
    assert_eq!(claims["iss"], ISSUER);
    assert_eq!(
        (&claims["sub"], &claims["aud"], &claims["team"]),
        (&json!("pod-7"), &json!("rp"), &json!("a"))
    );
    assert_eq!(claims["exp"], minted["exp"]);
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 600);
    assert_eq!(minted["kid"], place.ring()["keys"][0]["kid"]);

    let line = audit(&server, "minted a token for an admin caller");
    let uid = rustix::process::getuid().as_raw();
    assert!(line["caller"].as_str().unwrap().starts_with(&format!("uid:{uid} gid:")), "{line}");
    assert!(line["caller"].as_str().unwrap().contains(&format!("pid:{}", std::process::id())), "{line}");
    assert_eq!((&line["sub"], &line["aud"], &line["kid"]), (&json!("pod-7"), &json!("rp"), &minted["kid"]));
    assert_eq!(line["jti"], claims["jti"]);
    assert_eq!(Some(line["span"]["request_id"].as_str().unwrap()), answer.header("x-request-id"));
    let signature = token.rsplit('.').next().unwrap();
    assert!(!server.log().contains(signature), "the token is not written down");
}

#[test]
fn each_refusal_has_its_status_and_words() {
    let (_place, server) = minting();
    for (body, status, words) in [
        (r#"{"sub":"pod","aud":"other"}"#.to_owned(), 403, "admin.mint_audiences"),
        (format!(r#"{{"sub":"pod","aud":"{ISSUER}"}}"#), 403, "this issuer itself"),
        (format!(r#"{{"sub":"pod","aud":"{ISSUER}/token"}}"#), 403, "this issuer itself"),
        (r#"{"sub":"pod","aud":"rp","alg":"RS256"}"#.to_owned(), 403, "ES256"),
        (r#"{"sub":"pod","aud":"rp","ttl_s":90000}"#.to_owned(), 400, "cannot live 90000 s"),
        (r#"{"sub":"pod","aud":"rp","ttl_s":1}"#.to_owned(), 400, "cannot live 1 s"),
        (format!(r#"{{"sub":"{}","aud":"rp"}}"#, "x".repeat(128)), 400, "sub: "),
        (r#"{"sub":"po\nd","aud":"rp"}"#.to_owned(), 400, "sub: "),
        (r#"{"sub":"pod","aud":"rp","claims":{"azp":"x"}}"#.to_owned(), 400, "azp"),
        (r#"{"sub":"pod","aud":"rp","claims":{"exp":1}}"#.to_owned(), 400, "exp"),
        (r#"{"sub":"pod","sub":"root","aud":"rp"}"#.to_owned(), 400, "twice"),
        (r#"{"sub":"pod","aud":"rp","admin":true}"#.to_owned(), 400, "no member \"admin\""),
        ("not JSON".to_owned(), 400, "not JSON"),
        (
            format!(r#"{{"sub":"pod","aud":"rp","claims":{{"x":"{}"}}}}"#, "x".repeat(70_000)),
            413,
            "65536 bytes",
        ),
    ] {
        let answer = server.mint(&body);
        let shown: String = body.chars().take(80).collect();
        assert_eq!(answer.status, status, "{shown}: {}", answer.text());
        let said = answer.json();
        assert!(said["error_description"].as_str().unwrap().contains(words), "{shown}: {said}");
        assert!(said["error"].is_string());
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let lines = server.log_lines();
    let refusals = lines.iter().filter(|line| line["message"] == "refused an admin caller a token");
    assert_eq!(refusals.count(), 14, "one line each");
}

#[test]
fn only_json_by_post_is_taken() {
    let (_place, server) = minting();
    let mut client = Client::unix(&server.admin).unwrap();
    let body = r#"{"sub":"pod","aud":"rp"}"#;
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(client.ask("POST", "/admin/v1/mint", &form, body).unwrap().status, 415);
    let refused = server.admin("GET", "/admin/v1/mint", "");
    assert_eq!((refused.status, refused.json()["error"].as_str()), (405, Some("method_not_allowed")));
    assert!(refused.header("allow").unwrap().contains("POST"));
    assert_eq!(server.admin("GET", "/admin/v1/nothing", "").status, 404);
    assert_eq!(server.admin("POST", "/admin/v1/status", "{}").status, 405);
    assert_eq!(server.admin("GET", "/.well-known/jwks.json", "").status, 404);
}

#[test]
fn minting_is_off_until_it_is_switched_on() {
    let place = Place::with_ring("ES256");
    let server = place.serve("");
    let answer = server.mint(r#"{"sub":"pod","aud":"rp"}"#);
    assert_eq!((answer.status, answer.json()["error"].as_str()), (403, Some("access_denied")));
    assert!(answer.text().contains("admin.mint = true"), "{}", answer.text());
    audit(&server, "refused an admin caller a token");
}

#[test]
fn audit_lines_stay_when_the_log_is_quiet() {
    let place = Place::with_ring("ES256");
    place.configure(MINT);
    let server = Server::start_with(&place, &[], &[("ONESEAL_LOG", "error")]);
    assert_eq!(server.mint(r#"{"sub":"pod","aud":"rp"}"#).status, 200);
    audit(&server, "minted a token for an admin caller");
    assert!(!server.log().contains("\"serving\""));
}

#[test]
fn status_tells_keys_and_freshness() {
    let (place, server) = minting();
    let answer = server.admin("GET", "/admin/v1/status", "");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let status = answer.json();
    assert_eq!(status["issuer"], ISSUER);
    assert_eq!((&status["incarnation"], &status["revision"]), (&json!(1), &json!(1)));
    assert_eq!(status["minting"], "on");
    assert_eq!(status["keys"][0]["kid"], place.ring()["keys"][0]["kid"]);
    assert_eq!(status["keys"][0]["state"], "active");
    assert_eq!(status["keys"][0]["signs"], true);
}

#[test]
fn the_socket_is_private_replaces_a_dead_one_and_goes_at_the_end() {
    let place = Place::with_ring("ES256");
    let socket = place.path("admin.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let mut server = place.serve("");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o7777, 0o600);

    let second = place.run(["serve", "--config", "oneseal.toml"]);
    assert_eq!(second.status.code(), Some(71));
    assert!(String::from_utf8_lossy(&second.stderr).contains("listen.in_use"));
    assert_eq!(server.admin("GET", "/admin/v1/status", "").status, 200, "the first one is not disturbed");

    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!socket.exists());
    assert!(!place.path("ready.json").exists());
}
