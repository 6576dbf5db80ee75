//! Without anything in between: the same bytes from every replica, conditional requests, and no coding.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use oneseal_tests::http::{Answer, ask, get};
use oneseal_tests::{Fleet, FleetOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{CODINGS, DISCOVERY, DOCUMENTS, JWKS};

/// All that comes, byte for byte.
async fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Every kind of answer that the listener has: a request for it, and the names of its headers. A header that is added or
/// lost changes a row here, which is the place to ask whether it is the same on every replica.
fn kinds(etag: &str) -> [(&'static str, String, String); 12] {
    let request = |method: &str, path: &str, headers: &str| {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: one\r\nConnection: close\r\n{headers}\r\n"
        )
    };
    let known = format!("If-None-Match: {etag}\r\n");
    let cookie = format!("Cookie: {}\r\n", "x".repeat(17_000));
    let always = "x-request-id connection date";
    let shared = "etag cache-control access-control-allow-origin x-content-type-options";
    let discovery = format!("{shared} {always} content-type content-length");
    let (jwks, not_modified) =
        (format!("{discovery} x-oneseal-revision"), format!("{shared} {always} x-oneseal-revision"));
    let refusal = format!("content-type cache-control x-content-type-options content-length {always}");
    let cors = "access-control-allow-origin access-control-allow-methods access-control-allow-headers access-control-max-age";
    // What is refused before it is a request.
    let bare = "content-length connection date".to_owned();
    [
        ("GET", request("GET", JWKS, ""), jwks.clone()),
        ("HEAD", request("HEAD", JWKS, ""), jwks.clone()),
        ("a query and a coding", request("GET", &format!("{JWKS}?x=1"), "Accept-Encoding: gzip\r\n"), jwks),
        ("304", request("GET", JWKS, &known), not_modified.clone()),
        ("304 to HEAD", request("HEAD", JWKS, &known), not_modified),
        ("GET of discovery", request("GET", DISCOVERY, ""), discovery),
        (
            "OPTIONS",
            request("OPTIONS", JWKS, "Origin: https://app.example\r\n"),
            format!("allow {cors} {always}"),
        ),
        ("404", request("GET", "/nowhere", ""), refusal.clone()),
        ("405", request("DELETE", JWKS, ""), format!("{refusal} allow")),
        ("authorize", request("GET", "/authorize", ""), refusal),
        ("malformed", "GET /\r\n\r\n".to_owned(), bare.clone()),
        ("too large", request("GET", JWKS, &cookie), bare),
    ]
}

fn names(answer: &str) -> Vec<String> {
    let head = answer.split("\r\n\r\n").next().unwrap();
    let name = |line: &str| line.split(':').next().unwrap().to_ascii_lowercase();
    let mut names: Vec<_> = head.lines().skip(1).map(name).collect();
    names.sort();
    names
}

/// The date is each replica's own; the request's name is the client's here.
fn without_date(answer: &str) -> String {
    answer.split_inclusive("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("date:")).collect()
}

#[tokio::test]
async fn every_kind_of_answer_is_the_same_from_every_replica_byte_for_byte() {
    let fleet = Fleet::start(3).await;
    let etag = fleet.replicas[0].get(JWKS).await.unwrap().header("etag").to_owned();
    for (kind, request, wanted) in kinds(&etag) {
        let mut wanted: Vec<_> = wanted.split(' ').collect();
        wanted.sort_unstable();
        let mut seen = BTreeSet::new();
        for replica in &fleet.replicas {
            let answer = raw(replica.documents, &request).await;
            assert_eq!(names(&answer), wanted, "{kind}: {answer}");
            seen.insert(without_date(&answer));
        }
        assert_eq!(seen.len(), 1, "{kind}: {seen:#?}");
    }
}

/// Who asks by no name gets one, which is another each time and on each replica; nothing else is.
#[tokio::test]
async fn what_must_differ_does() {
    let fleet = Fleet::start(3).await;
    let mut ids = BTreeSet::new();
    for replica in fleet.replicas.iter().chain(&fleet.replicas) {
        let answer = replica.get(JWKS).await.unwrap();
        assert!(answer.header("date").ends_with(" GMT"));
        assert!(ids.insert(answer.header("x-request-id").to_owned()));
    }
}

#[tokio::test]
async fn head_is_get_without_its_body() {
    let fleet = Fleet::start(1).await;
    for path in DOCUMENTS {
        for condition in [vec![], vec![("if-none-match", "*")]] {
            let of = async |method| {
                let mut answer = ask(fleet.replicas[0].documents, method, path, &condition).await.unwrap();
                answer.headers.remove("x-request-id");
                answer.headers.remove("date");
                answer
            };
            let (get, head) = (of("GET").await, of("HEAD").await);
            assert_eq!((get.status, get.headers), (head.status, head.headers), "{path} {condition:?}");
            assert!(head.body.is_empty());
            assert_eq!(get.body.is_empty(), !condition.is_empty());
        }
    }
}

/// RFC 9110 section 13: weak comparison, lists, several lines; what is no entity tag matches nothing; what is about
/// times, ranges or changes is not for these documents, whose time nobody keeps.
#[tokio::test]
async fn conditions_are_those_of_the_entity_tag_alone() {
    let fleet = Fleet::start(1).await;
    let address = fleet.replicas[0].documents;
    for path in DOCUMENTS {
        let whole = get(address, path).await.unwrap();
        let etag = whole.header("etag").to_owned();
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 40, "{etag}");
        assert!(whole.headers.get("last-modified").is_none() && whole.headers.get("accept-ranges").is_none());
        let many = format!("{}{etag}", "\"x\", ".repeat(2_000));
        let (weak, list) = (format!("W/{etag}"), format!("\"a\", W/\"b\" , {etag}"));
        for known in [&*etag, &weak, &list, &many, "*"] {
            assert_is_304(&ask(address, "GET", path, &[("if-none-match", known)]).await.unwrap(), &whole);
        }
        let twice = [("if-none-match", "\"x\""), ("if-none-match", &*etag)];
        assert_is_304(&ask(address, "GET", path, &twice).await.unwrap(), &whole);
        let with_time = [("if-none-match", &*etag), ("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT")];
        assert_is_304(&ask(address, "GET", path, &with_time).await.unwrap(), &whole);
        let (bare, huge) = (etag.trim_matches('"').to_owned(), "x".repeat(15_000));
        let other = [("if-none-match", "\"x\""), ("if-modified-since", "Thu, 01 Jan 2099 00:00:00 GMT")];
        for headers in [
            vec![("if-none-match", &*bare)],
            vec![("if-none-match", "")],
            vec![("if-none-match", "garbage, \"unclosed")],
            vec![("if-none-match", &huge)],
            vec![("if-none-match", "\"\"")],
            vec![("if-modified-since", "Thu, 01 Jan 2099 00:00:00 GMT")],
            vec![("if-modified-since", "yesterday")],
            other.to_vec(),
            vec![("range", "bytes=0-9")],
            vec![("range", "bytes=0-9"), ("if-range", &*etag)],
            vec![("range", "bytes=999999-")],
        ] {
            let answer = ask(address, "GET", path, &headers).await.unwrap();
            assert_eq!((answer.status.as_u16(), &answer.body), (200, &whole.body), "{headers:?}");
            assert!(answer.headers.get("content-range").is_none());
        }
    }
}

fn assert_is_304(answer: &Answer, whole: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.body.len()), (304, 0));
    for name in ["etag", "cache-control", "access-control-allow-origin", "x-oneseal-revision"] {
        assert_eq!(answer.header(name), whole.header(name), "RFC 9110 section 15.4.5: {name}");
    }
}

#[tokio::test]
async fn no_coding_comes_whatever_is_accepted() {
    let fleet = Fleet::start(1).await;
    let address = fleet.replicas[0].documents;
    for path in DOCUMENTS {
        let plain = get(address, path).await.unwrap();
        for coding in CODINGS {
            let answer = ask(address, "GET", path, &[("accept-encoding", coding)]).await.unwrap();
            assert_eq!((answer.status, &answer.body), (plain.status, &plain.body), "{coding}");
            assert_eq!(answer.header("etag"), plain.header("etag"));
            for absent in ["content-encoding", "transfer-encoding", "vary", "age", "expires", "pragma"] {
                assert!(answer.headers.get(absent).is_none(), "{absent}");
            }
        }
    }
}

#[tokio::test]
async fn cache_control_is_what_is_declared() {
    for (jwks_max_age_s, shared_cache, wanted) in [
        (300, false, "public, max-age=300"),
        (300, true, "public, max-age=300, stale-if-error=3600"),
        (1, true, "public, max-age=1, stale-if-error=3600"),
    ] {
        let options = FleetOptions { size: 1, jwks_max_age_s, shared_cache, ..FleetOptions::default() };
        let fleet = Fleet::start_with(options).await.unwrap();
        for path in DOCUMENTS {
            assert_eq!(fleet.replicas[0].get(path).await.unwrap().header("cache-control"), wanted, "{path}");
        }
        for path in ["/nowhere", "/authorize"] {
            assert_eq!(
                fleet.replicas[0].get(path).await.unwrap().header("cache-control"),
                "no-store",
                "{path}"
            );
        }
    }
}
