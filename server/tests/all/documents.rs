//! The public listener, on the wire.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::http::{Client, ask, get};
use crate::support::place::{ISSUER, Place};
use crate::support::server::Server;

const JWKS: &str = "/.well-known/jwks.json";
const DISCOVERY: &str = "/.well-known/openid-configuration";
const OAUTH: &str = "/.well-known/oauth-authorization-server";

fn server() -> (Place, Server) {
    let place = Place::with_ring("ES256");
    let server = place.serve("");
    (place, server)
}

#[test]
fn each_method_at_each_path_has_its_answer() {
    let (_place, server) = server();
    for path in [JWKS, DISCOVERY, OAUTH] {
        let whole = get(server.documents, path);
        assert_eq!(whole.status, 200, "{path}");
        let head = ask(server.documents, "HEAD", path, &[]);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), whole.header("content-length"), "{path}");
        assert_eq!(head.header("etag"), whole.header("etag"), "{path}");
        let etag = whole.header("etag").unwrap();
        assert_eq!(ask(server.documents, "GET", path, &[("If-None-Match", etag)]).status, 304, "{path}");
        assert_eq!(
            ask(server.documents, "OPTIONS", path, &[("Origin", "https://app.example")]).status,
            204,
            "{path}"
        );
        for method in ["POST", "PUT", "DELETE", "PATCH", "BREW"] {
            let refused = ask(server.documents, method, path, &[]);
            assert_eq!(
                (refused.status, refused.header("allow")),
                (405, Some("GET, HEAD, OPTIONS")),
                "{method} {path}"
            );
            assert_eq!(refused.json()["error"], "method_not_allowed");
        }
        assert_eq!(get(server.documents, &format!("{path}/")).status, 404, "{path}");
    }
    let refused = get(server.documents, "/authorize?response_type=id_token");
    assert_eq!((refused.status, refused.json()["error"].as_str()), (400, Some("unsupported_response_type")));
    let missing = get(server.documents, "/");
    assert_eq!((missing.status, missing.json()["error"].as_str()), (404, Some("not_found")));
    for path in ["/livez", "/readyz", "/metrics", "/admin/v1/status", "/admin/v1/mint"] {
        assert_eq!(get(server.documents, path).status, 404, "{path} is not public");
    }
}

#[test]
fn nothing_in_a_request_changes_what_is_said() {
    let (_place, server) = server();
    let plain = get(server.documents, DISCOVERY);
    assert_eq!(plain.json()["issuer"], ISSUER);
    for headers in [
        [("X-Forwarded-Host", "evil.example"), ("X-Forwarded-Proto", "http")],
        [("Forwarded", "host=evil.example;proto=http"), ("X-Forwarded-Port", "1")],
        [("Accept-Encoding", "gzip, br"), ("Accept", "text/html")],
    ] {
        let other = ask(server.documents, "GET", DISCOVERY, &headers);
        assert_eq!(other.body, plain.body, "{headers:?}");
        assert_eq!(other.header("content-encoding"), None);
        assert_eq!(other.header("vary"), None);
    }
}

#[test]
fn requests_have_a_name_and_a_sane_one_is_kept() {
    let (_place, server) = server();
    let (first, second) = (get(server.documents, JWKS), get(server.documents, JWKS));
    let id = first.header("x-request-id").unwrap();
    assert!(!id.is_empty() && Some(id) != second.header("x-request-id"));
    let kept = ask(server.documents, "GET", JWKS, &[("X-Request-Id", "trace-4711")]);
    assert_eq!(kept.header("x-request-id"), Some("trace-4711"));
    let replaced = ask(server.documents, "GET", JWKS, &[("X-Request-Id", "a b\"c")]);
    assert_ne!(replaced.header("x-request-id"), Some("a b\"c"));
}

#[test]
fn a_connection_is_used_again_and_a_body_is_never_read() {
    let (_place, server) = server();
    let mut client = Client::tcp(server.documents).unwrap();
    for _ in 0..3 {
        assert_eq!(client.ask("GET", JWKS, &[], "").unwrap().status, 200);
    }
    // A body of a gigabyte is announced and none of it sent: the answer comes all the same.
    client
        .send(format!("GET {JWKS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n").as_bytes())
        .unwrap();
    assert_eq!(client.answer(false).unwrap().status, 200);
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let (_place, server) = server();
    let mut client = Client::tcp(server.documents).unwrap();
    let cookie = "x".repeat(20_000);
    let answer = client.ask("GET", JWKS, &[("Cookie", &cookie)], "");
    // Refused before all of it is sent, so the connection may be gone when the answer is read.
    assert!(answer.map_or(true, |answer| answer.status == 431));
    assert_eq!(get(server.documents, JWKS).status, 200, "others are not touched");
}

#[test]
fn who_sends_too_slowly_is_dropped() {
    let (_place, server) = server();
    let mut silent = Client::tcp(server.documents).unwrap();
    let mut slow = Client::tcp(server.documents).unwrap();
    slow.send(b"GET /.well-known/jwks.json HTTP/1.1\r\nHost: x\r\n").unwrap();
    let mut fast = Client::tcp(server.documents).unwrap();
    assert_eq!(fast.ask("GET", JWKS, &[], "").unwrap().status, 200);
    assert!(silent.is_closed());
    assert!(slow.is_closed());
    assert_eq!(fast.ask("GET", JWKS, &[], "").unwrap().status, 200, "an idle connection stays");
}

/// RFC 9113 by hand: the preface, empty settings, one request with an HPACK block (RFC 7541) of literals.
#[test]
fn http2_is_spoken_to_whoever_begins_with_it() {
    let (_place, server) = server();
    let plain = get(server.documents, JWKS);
    let mut block = vec![0x82, 0x86];
    for (index, value) in [(0x04, JWKS), (0x01, "oidc.example")] {
        block.extend([index, u8::try_from(value.len()).unwrap()]);
        block.extend(value.as_bytes());
    }
    let mut stream = TcpStream::connect(server.documents).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)).unwrap();
    let mut body = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut payload =
            vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload).unwrap();
        if head[3] == DATA {
            body.extend(payload);
        }
        if head[8] == 1 && head[4] & END_STREAM != 0 {
            break;
        }
    }
    assert_eq!(body, plain.body);
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [0, length[0], length[1], kind, flags, 0, 0, 0, stream];
    [&head, payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
