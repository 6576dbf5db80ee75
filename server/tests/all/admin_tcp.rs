//! The admin API over TCP: a token or nothing, whoever asks and from where.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use crate::support::http::{Answer, Client};
use crate::support::place::Place;
use crate::support::server::Server;
use crate::support::tls::Authority;
use crate::support::{now, until};

const STATUS: &str = "/admin/v1/status";
const MINT: &str = "/admin/v1/mint";
const BODY: &str = r#"{"sub":"pod","aud":"rp"}"#;
const CHALLENGE: &str = r#"Bearer realm="oneseal admin""#;
const INVALID: &str = r#"Bearer realm="oneseal admin", error="invalid_token""#;

/// A token, and its table for the configuration.
struct Made {
    token: String,
    table: String,
}

fn text(output: &Output) -> (String, String) {
    assert!(output.status.success(), "{output:?}");
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap()).into()
}

fn make(place: &Place, name: &str, scopes: &str) -> Made {
    let (token, table) = text(&place.run(["admin", "token", "new", "--name", name, "--scopes", scopes]));
    Made { token: token.trim_end().to_owned(), table }
}

/// A server with two callers, and one whose time is over.
struct Scene {
    place: Place,
    server: Server,
    address: SocketAddr,
    ci: String,
    reader: String,
    former: String,
}

fn scene(more: &str) -> Scene {
    scene_with(more, &[])
}

fn scene_with(more: &str, variables: &[(&str, &str)]) -> Scene {
    let place = Place::with_ring("ES256");
    let [ci, reader, former] = [("ci", "mint"), ("reader", "read"), ("former", "read,mint")]
        .map(|(name, scopes)| make(&place, name, scopes));
    let tables = [&ci.table, &reader.table, &former.table].map(String::as_str).concat();
    let admin = "[admin]\nmint = true\nmint_audiences = [\"rp\"]";
    // The last of the tables is the one that it belongs to.
    place.configure(&format!("{admin}\n{more}\n{tables}expires = 2020-01-01\n"));
    let server = Server::start_with(&place, &["--listen-admin-tcp", "127.0.0.1:0"], variables);
    let address = ready(&place)["admin_tcp"].as_str().unwrap().parse().unwrap();
    Scene { place, server, address, ci: ci.token, reader: reader.token, former: former.token }
}

fn ready(place: &Place) -> Value {
    serde_json::from_slice(&std::fs::read(place.path("ready.json")).unwrap()).unwrap()
}

impl Scene {
    /// A request with these header lines and nothing else in its head.
    fn raw(&self, line: &str, fields: &[&str], body: &str) -> Answer {
        let mut head = format!("{line} HTTP/1.1\r\n");
        fields.iter().for_each(|field| head.push_str(&format!("{field}\r\n")));
        if !body.is_empty() {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        let mut client = Client::tcp(self.address).unwrap();
        client.send(format!("{head}\r\n{body}").as_bytes()).unwrap();
        client.answer(false).unwrap()
    }

    fn host(&self) -> String {
        format!("Host: {}", self.address)
    }

    fn status(&self, authorization: &str) -> Answer {
        self.raw(&format!("GET {STATUS}"), &[&self.host(), &format!("Authorization: {authorization}")], "")
    }

    fn mint(&self, token: &str, body: &str) -> Answer {
        self.raw(&format!("POST {MINT}"), &[&self.host(), &format!("Authorization: Bearer {token}")], body)
    }

    fn counted(&self, result: &str) -> u64 {
        let metrics = crate::support::http::get(self.server.ops, "/metrics").text();
        let sample = format!("oneseal_admin_auth_total{{result=\"{result}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&sample)).unwrap().parse().unwrap()
    }
}

#[track_caller]
fn assert_refused(answer: &Answer, status: u16, challenge: Option<&str>, error: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("www-authenticate"), challenge);
    assert_eq!(answer.json()["error"], error, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn a_token_lets_its_holder_do_what_its_scopes_say() {
    let scene = scene("");
    assert_eq!(scene.status(&format!("bearer {}", scene.reader)).status, 200);
    let minted = scene.mint(&scene.ci, BODY);
    assert_eq!(minted.status, 200, "{}", minted.text());
    assert!(minted.json()["token"].as_str().unwrap().split('.').count() == 3);
    let line = until("an audit line", || {
        let lines = scene.server.log_lines();
        lines.into_iter().find(|line| line["message"] == "minted a token for an admin caller")
    });
    assert!(line["caller"].as_str().unwrap().starts_with("token:ci 127.0.0.1:"), "{line}");
    assert_eq!(Some(line["span"]["request_id"].as_str().unwrap()), minted.header("x-request-id"));
    assert_eq!(line["span"]["listener"], "admin_tcp");

    let scope = |scope| format!(r#"{CHALLENGE}, error="insufficient_scope", scope="{scope}""#);
    assert_refused(&scene.mint(&scene.reader, BODY), 403, Some(&scope("mint")), "insufficient_scope");
    assert_refused(
        &scene.status(&format!("Bearer {}", scene.ci)),
        403,
        Some(&scope("read")),
        "insufficient_scope",
    );
    assert_eq!((scene.counted("ok"), scene.counted("insufficient_scope")), (2, 2));
    assert_eq!(scene.server.admin("GET", STATUS, "").status, 200, "the socket asks nobody");
    assert_eq!(scene.server.mint(BODY).status, 200);
}

#[test]
fn no_other_credential_is_one_and_none_is_told_apart() {
    let scene = scene("");
    let (reader, host) = (scene.reader.clone(), scene.host());
    let huge = "x".repeat(15_000);
    let almost = format!("{}{}", &reader[..reader.len() - 1], if reader.ends_with('0') { '1' } else { '0' });
    let other = make(&scene.place, "other", "read").token;
    let mut bodies = Vec::new();
    for token in [
        "",
        "x",
        &huge,
        &reader.to_uppercase(),
        &almost,
        &other,
        &scene.former,
        &format!("{reader} {reader}"),
        "ä",
    ] {
        let answer = scene.status(&format!("Bearer {token}"));
        assert_refused(&answer, 401, Some(INVALID), "invalid_token");
        bodies.push(answer.text());
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "what is wrong with a token is not told");
    assert_eq!((scene.counted("expired_token"), scene.counted("unknown_token")), (1, 8));
    for field in [
        "X-Other: 1",
        "Authorization:",
        "Authorization: Basic eDp4",
        &format!("Authorization: Token {reader}"),
    ] {
        assert_refused(
            &scene.raw(&format!("GET {STATUS}"), &[&host, field], ""),
            401,
            Some(CHALLENGE),
            "unauthorized",
        );
    }
    let good = format!("Authorization: Bearer {reader}");
    let malformed = format!(r#"{CHALLENGE}, error="invalid_request""#);
    let twice = scene.raw(&format!("GET {STATUS}"), &[&host, &good, &good], "");
    assert_refused(&twice, 400, Some(&malformed), "invalid_request");
    for fields in [&[host.as_str()][..], &[&host, &good]] {
        let in_url = scene.raw(&format!("GET {STATUS}?access_token={reader}"), fields, "");
        assert_refused(&in_url, 400, Some(&malformed), "invalid_request");
    }
    let in_body = scene.raw(&format!("POST {MINT}"), &[&host], &format!("access_token={reader}"));
    assert_refused(&in_body, 401, Some(CHALLENGE), "unauthorized");
    let enormous = "x".repeat(1 << 20);
    let mut client = Client::tcp(scene.address).unwrap();
    // The connection may be closed before all of it has been sent.
    drop(client.send(
        format!("GET {STATUS} HTTP/1.1\r\n{host}\r\nAuthorization: Bearer {enormous}\r\n\r\n").as_bytes(),
    ));
    assert!(client.answer(false).map_or(true, |answer| answer.status == 431));
    assert_eq!(scene.status(&format!("Bearer {reader}")).status, 200, "nobody is locked out");
}

#[test]
fn without_a_token_no_path_is_told_from_another_and_no_body_is_read() {
    let scene = scene("");
    let host = scene.host();
    let bodies =
        ["GET /", "GET /admin/v1/nothing", "POST /admin/v1/mint", "DELETE /admin/v1/status", "GET /metrics"]
            .map(|line| {
                let answer = scene.raw(line, &[&host], "");
                assert_refused(&answer, 401, Some(CHALLENGE), "unauthorized");
                answer.text()
            });
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    // A client that waits to be asked for its body is answered, and not asked.
    let mut client = Client::tcp(scene.address).unwrap();
    let head =
        format!("POST {MINT} HTTP/1.1\r\n{host}\r\nContent-Length: 60000\r\nExpect: 100-continue\r\n\r\n");
    client.send(head.as_bytes()).unwrap();
    assert_eq!(client.answer(false).unwrap().status, 401);

    let with_token =
        |line: &str, token: &str| scene.raw(line, &[&host, &format!("Authorization: Bearer {token}")], "");
    for token in [&scene.reader, &scene.ci] {
        for line in
            ["GET /", "GET /admin/v1/nothing", "GET /metrics", "GET /admin/v1/mint/", "GET //admin/v1/mint"]
        {
            assert_eq!(with_token(line, token).status, 404, "{line}");
        }
    }
    assert_eq!(with_token("DELETE /admin/v1/status", &scene.reader).status, 405);
    assert_eq!(with_token("DELETE /admin/v1/status", &scene.ci).status, 403);
}

#[test]
fn only_its_own_names_are_answered_and_no_other_page() {
    let scene = scene("hosts = [\"Admin.Internal\"]\n");
    let (port, good) = (scene.address.port(), format!("Authorization: Bearer {}", scene.reader));
    let get =
        |fields: &[&str]| scene.raw(&format!("GET {STATUS}"), &[&[good.as_str()][..], fields].concat(), "");
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "oidc.example", "admin.internal:443"] {
        assert_eq!(get(&[&format!("Host: {host}")]).status, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "10.1.2.3", "0.0.0.0", ""] {
        assert_refused(&get(&[&format!("Host: {host}")]), 421, None, "misdirected_request");
    }
    for host in ["localhost:x", "localhost:99999", "[127.0.0.1]", "[::1", "localhost@evil.example", "ä"] {
        assert_refused(&get(&[&format!("Host: {host}")]), 400, None, "invalid_request");
    }
    let target = format!("GET http://evil.example{STATUS}");
    assert_refused(&scene.raw(&target, &[&good, "Host: localhost"], ""), 421, None, "misdirected_request");
    let target = format!("GET http://localhost{STATUS}");
    assert_refused(&scene.raw(&target, &[&good, "Host: evil.example"], ""), 421, None, "misdirected_request");
    assert_refused(&get(&["Host: localhost", "Host: localhost"]), 400, None, "invalid_request");
    assert_refused(&get(&[]), 400, None, "invalid_request");

    let host = format!("Host: localhost:{port}");
    assert_eq!(get(&[&host, &format!("Origin: http://localhost:{port}")]).status, 200, "its own page");
    let origins =
        ["http://localhost", "http://localhost:1", "https://evil.example", "null", "", "http://oidc.example"];
    for origin in origins.map(str::to_owned).into_iter().chain([format!("https://localhost:{port}")]) {
        assert_refused(&get(&[&host, &format!("Origin: {origin}")]), 403, None, "access_denied");
    }
    let preflight = scene.raw(
        &format!("OPTIONS {MINT}"),
        &[&host, "Origin: https://evil.example", "Access-Control-Request-Method: POST"],
        "",
    );
    assert_refused(&preflight, 403, None, "access_denied");
    assert_eq!((scene.counted("wrong_host"), scene.counted("wrong_origin")), (7, 8));
}

#[test]
fn at_the_usual_level_no_token_is_told_wherever_it_stands() {
    let scene = scene("");
    let (ci, host) = (&scene.ci, scene.host());
    let good = format!("Authorization: Bearer {ci}");
    let id = format!("X-Request-Id: {ci}");
    for line in [format!("GET /{ci}"), format!("GET /{}", ci.replace('_', "%5F")), format!("{ci} {STATUS}")] {
        for fields in [&[host.as_str()][..], &[&host, &good], &[&host, &id]] {
            assert_ne!(scene.raw(&line, fields, "").status, 200, "{line}");
        }
        scene.raw(&line, &["Host: evil.example", &id], "");
    }
    for body in [
        format!(r#"{{"sub":"{ci}","aud":"rp"}}"#),
        format!(r#"{{"sub":"pod","aud":"{ci}"}}"#),
        format!(r#"{{"sub":"pod","aud":"rp","{ci}":1}}"#),
    ] {
        scene.mint(ci, &body);
        scene.server.mint(&body);
    }
    let log = scene.server.log();
    assert!(log.contains("minted a token") && log.contains("refused an admin caller"), "{log}");
    assert!(log.contains("not repeated"), "{log}");
    assert!(!log.contains(&ci[14..40]), "a token is told: {log}");
}

#[test]
fn refusals_of_one_second_are_one_short_line_whoever_is_refused() {
    let scene = scene("");
    let (host, target) = (scene.host(), format!("GET /{}", "\"".repeat(15_000)));
    let lines = |server: &Server| {
        let log = server.log();
        log.lines().filter(|line| line.contains("refused a caller")).map(str::len).collect::<Vec<_>>()
    };
    for (line, token) in [(&target, "x"), (&target, &scene.former), (&format!("POST {MINT}"), &scene.reader)]
    {
        let (before, began) = (lines(&scene.server).len(), now());
        let bearer = format!("Authorization: Bearer {token}");
        for _ in 0..100 {
            assert!(matches!(scene.raw(line, &[&host, &bearer], "").status, 401 | 403));
        }
        let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
        let told = lines(&scene.server)[before..].to_vec();
        assert!((1..=seconds + 2).contains(&told.len()), "{told:?} in {seconds} s");
        assert!(told.iter().all(|length| *length < 1200), "{told:?}");
    }
}

/// One request over HTTP/2 with prior knowledge.
fn over_http_2(address: SocketAddr, target: &str, tokens: &[&str]) -> (StatusCode, Bytes) {
    let uri = if target.starts_with('/') {
        format!("http://localhost:{}{target}", address.port())
    } else {
        target.to_owned()
    };
    let mut request = Request::post(uri).header("content-type", "application/json");
    for token in tokens {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from_static(BODY.as_bytes()))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp)).await.unwrap();
        let answer = async {
            let response = sender.send_request(request).await.unwrap();
            (response.status(), response.into_body().collect().await.unwrap().to_bytes())
        };
        tokio::select! {
            answer = answer => answer,
            ended = connection => panic!("it ended first: {ended:?}"),
        }
    })
}

#[test]
fn http_2_is_judged_as_http_1_is() {
    let scene = scene("");
    let (ci, reader) = (scene.ci.as_str(), scene.reader.as_str());
    for (target, tokens, status) in [
        (MINT, &[ci][..], 200),
        (MINT, &[], 401),
        (MINT, &[reader], 403),
        (MINT, &[ci, ci], 400),
        ("http://evil.example/admin/v1/mint", &[ci], 421),
    ] {
        let (got, body) = over_http_2(scene.address, target, tokens);
        assert_eq!(got, status, "{target} {tokens:?}: {body:?}");
    }
}

#[test]
fn at_trace_level_no_token_is_told_whatever_becomes_of_it() {
    let scene = scene_with("", &[("ONESEAL_LOG", "trace")]);
    let stranger = make(&scene.place, "stranger", "mint").token;
    let tokens = [&scene.ci, &scene.reader, &scene.former, &stranger];
    let mut said = String::new();
    for token in tokens {
        said.push_str(&scene.mint(token, BODY).text());
        let in_url = format!("POST {MINT}?access_token={token}");
        said.push_str(&scene.raw(&in_url, &[&scene.host()], BODY).text());
        let twice = format!("Authorization: Bearer {token}");
        said.push_str(&scene.raw(&format!("POST {MINT}"), &[&scene.host(), &twice, &twice], BODY).text());
        assert!(
            over_http_2(scene.address, MINT, &[token.as_str()]).0 != StatusCode::OK || token == &scene.ci
        );
    }
    let checked =
        scene.place.run(["check", "--config", "oneseal.toml", "--explain", "--offline", "--no-bind"]);
    said.push_str(&text(&checked).0);
    let log = scene.server.log();
    assert!(log.contains("\"level\":\"DEBUG\"") && log.contains("former"), "more is told than usual");
    for token in tokens {
        for place in [&log, &said] {
            assert!(!place.contains(&token[14..40]), "a token is told");
        }
    }
}

#[test]
fn a_preview_tells_all_but_a_token() {
    let scene = scene("");
    let wanted = r#"{"sub":"pod","aud":"rp","ttl_s":600,"claims":{"team":"a"},"dry_run":true}"#;
    let answer = scene.mint(&scene.ci, wanted);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let preview = answer.json();
    assert_eq!(
        (&preview["dry_run"], &preview["alg"], &preview["token"]),
        (&json!(true), &json!("ES256"), &Value::Null)
    );
    assert_eq!(preview["kid"], scene.place.ring()["keys"][0]["kid"]);
    let claims = &preview["claims"];
    assert_eq!((&claims["sub"], &claims["aud"], &claims["team"]), (&json!("pod"), &json!("rp"), &json!("a")));
    assert_eq!(claims["exp"], preview["exp"]);
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 600);
    let refused = scene.mint(&scene.ci, r#"{"sub":"pod","aud":"other","dry_run":true}"#);
    assert_eq!(refused.status, 403);
    assert_eq!(scene.mint(&scene.reader, wanted).status, 403);
    let line = until("an audit line", || {
        let lines = scene.server.log_lines();
        lines.into_iter().find(|line| line["message"] == "previewed a token for an admin caller")
    });
    assert_eq!((&line["sub"], &line["kid"]), (&json!("pod"), &preview["kid"]));
    let metrics = crate::support::http::get(scene.server.ops, "/metrics").text();
    assert!(metrics.contains(r#"oneseal_mints_total{alg="ES256",result="ok"} 0"#), "{metrics}");
}

#[test]
fn the_start_says_where_it_is_and_whose_time_is_over() {
    let scene = scene("");
    let (ready, url) = (ready(&scene.place), format!("http://{}", scene.address));
    assert_eq!(ready["admin_tcp_url"], url);
    let lines = scene.server.log_lines();
    let serving = lines.iter().find(|line| line["message"] == "serving").unwrap();
    assert_eq!(serving["admin_tcp"], url);
    let expired = lines.iter().find(|line| line["code"] == "admin.token_expired").unwrap();
    assert!(expired["message"].as_str().unwrap().contains("\"former\""), "{expired}");
    let taken = scene.address.to_string();
    let check = ["check", "--config", "oneseal.toml", "--offline", "--json", "--listen-admin-tcp", &taken];
    let checked = scene.place.run(check);
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let place = |code: &str| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["code"] == code).map(|finding| finding["place"].clone())
    };
    assert_eq!(place("listen.in_use").unwrap(), "listen.admin_tcp", "{report}");
    assert!(place("admin.token_expired").is_some(), "{report}");
}

#[test]
fn without_a_token_or_tls_it_is_not_bound() {
    let place = Place::with_ring("ES256");
    let made = make(&place, "ci", "mint");
    let refused = |admin: &str, address: &str, code: &str| {
        place.configure(admin);
        let output = place.run(["serve", "--config", "oneseal.toml", "--listen-admin-tcp", address]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(78), "{said}");
        assert!(said.contains(code), "{said}");
        said
    };
    let said = refused("", "127.0.0.1:0", "admin.no_tokens");
    assert!(said.contains("oneseal admin token new"), "{said}");
    refused(&made.table, "0.0.0.0:0", "admin.plaintext");
    let clear = made.table.replace("name = \"ci\"", &format!("name = \"{}\"", made.token));
    let said = refused(&clear, "127.0.0.1:0", "admin.token_in_clear");
    assert!(!said.contains(&made.token[14..]), "{said}");
}

#[test]
fn over_tls_other_hosts_may_ask() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let (pair, made) = (authority.issue(), make(&place, "ci", "mint"));
    let [certificate, private_key] = [("tls.crt", &pair.certificate), ("tls.key", &pair.private_key)]
        .map(|(name, text)| place.write(name, text));
    place.write("ca.pem", &authority.pem());
    place.configure(&format!(
        "[tls]\ncertificate = {certificate:?}\nprivate_key = {private_key:?}\n\
         [admin]\nmint = true\nmint_audiences = [\"rp\"]\n{}",
        made.table
    ));
    place.write("admin.token", &made.token);
    let _server = Server::start(&place, &["--listen-admin-tcp", "[::]:0"]);
    let ready = ready(&place);
    let port = ready["admin_tcp"].as_str().unwrap().parse::<SocketAddr>().unwrap().port();
    assert_eq!(ready["admin_tcp_url"], format!("https://localhost:{port}"), "by a name that it is called by");

    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.write_all(format!("GET {STATUS} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    let mut said = String::new();
    plain.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("use https"), "{said}");

    let url = format!("https://oidc.example:{port}");
    let local = format!("127.0.0.1:{port}");
    let mint = ["mint", "--admin", &url, "--connect-to", &local, "--admin-token-file", "admin.token"];
    let mint = [&mint[..], &["--sub", "pod", "--aud", "rp"]].concat();
    let (token, _) = text(&place.run([&mint[..], &["--ca", "ca.pem"]].concat()));
    assert_eq!(token.trim_end().split('.').count(), 3);
    let untrusted = place.run(mint);
    assert_eq!(untrusted.status.code(), Some(69), "{untrusted:?}");
    assert!(String::from_utf8(untrusted.stderr).unwrap().contains("--ca FILE"));
}
