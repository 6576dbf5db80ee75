//! HTTP/1.1 as nobody should speak it.

use crate::target::{JWKS, Target, exchange};

/// What comes of something odd.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// This answer, and the next request on the connection is answered too.
    Served(u16),
    /// This answer, and then the connection is closed: whatever follows is not read as a request.
    ServedLast(u16),
    /// One of these, without a body, or only the end of the connection, since more was on its way.
    Refused(&'static [u16]),
}
use Then::{Refused, Served, ServedLast};

/// What stands behind each case. It is answered with 404 if it is taken for a request.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const MIB: usize = 1024 * 1024;

fn get(headers: &str, rest: &str) -> Vec<u8> {
    format!("GET {JWKS} HTTP/1.1\r\nHost: x\r\n{headers}\r\n{rest}").into_bytes()
}

fn post(headers: &str, rest: &str) -> Vec<u8> {
    format!("POST {JWKS} HTTP/1.1\r\nHost: x\r\n{headers}\r\n{rest}").into_bytes()
}

fn cases() -> Vec<(&'static str, Vec<u8>, Then)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let many = |count: usize| (0..count).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    vec![
        // size
        ("a header of 1 MB", get(&format!("Cookie: {}\r\n", "x".repeat(MIB)), ""), Refused(&[431])),
        ("100,000 headers", get(&many(100_000), ""), Refused(&[431])),
        ("99 headers", get(&many(98), ""), Served(200)),
        ("101 headers", get(&many(100), ""), Refused(&[431])),
        (
            "a target of 1 MB",
            text(&format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(MIB))),
            Refused(&[414, 431]),
        ),
        (
            "a method of 1 MB",
            text(&format!("{} / HTTP/1.1\r\nHost: x\r\n\r\n", "A".repeat(MIB))),
            Refused(&[400, 431]),
        ),
        ("1 MB of blank lines", text(&"\r\n".repeat(MIB / 2)), Refused(&[400, 431])),
        (
            "1 MB of nothing in particular",
            (0..MIB).map(|n| (n * 7 % 251) as u8).collect(),
            Refused(&[400, 431]),
        ),
        // what is no HTTP/1.1
        ("HTTP/0.9", text("GET /\r\n\r\n"), Refused(&[400])),
        ("HTTP/1.2", text("GET / HTTP/1.2\r\nHost: x\r\n\r\n"), Refused(&[400, 505])),
        ("HTTP/2.0 as text", text("GET / HTTP/2.0\r\nHost: x\r\n\r\n"), Refused(&[400, 505])),
        (
            "a TLS record",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\r\n\r\n".to_vec(),
            Refused(&[400]),
        ),
        ("half a preface", text("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"), Refused(&[400, 505])),
        // headers by which parsers differ
        ("a folded header", get("X-A: b\r\n c\r\n", ""), Refused(&[400])),
        ("white space before the colon", get("X-A : b\r\n", ""), Refused(&[400])),
        ("a line without a colon", get("X-A\r\n", ""), Refused(&[400])),
        ("NUL in a value", get("X-A: b\0c\r\n", ""), Refused(&[400])),
        ("CR in a value", get("X-A: b\rc: d\r\n", ""), Refused(&[400])),
        ("a name with a slash and quotes", get("X\"A: b\r\n", ""), Refused(&[400])),
        // one host (RFC 9112 section 3.2)
        ("no Host", text(&format!("GET {JWKS} HTTP/1.1\r\n\r\n")), Served(400)),
        ("two Hosts", get("Host: y\r\n", ""), Served(400)),
        ("the same Host twice", get("Host: x\r\n", ""), Served(400)),
        ("no Host in a whole URL", text(&format!("GET http://x{JWKS} HTTP/1.1\r\n\r\n")), Served(400)),
        ("a Host that is none", text(&format!("GET {JWKS} HTTP/1.1\r\nHost: a@b/c d\r\n\r\n")), Served(400)),
        ("a Host that breaks off", text(&format!("GET {JWKS} HTTP/1.1\r\nHost: [::1\r\n\r\n")), Served(400)),
        (
            "two Hosts in HTTP/1.0",
            text(&format!("GET {JWKS} HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n")),
            ServedLast(400),
        ),
        ("no Host in HTTP/1.0", text(&format!("GET {JWKS} HTTP/1.0\r\n\r\n")), ServedLast(200)),
        // bodies that nobody reads
        ("a body on GET", get("Content-Length: 5\r\n", "hello"), Served(200)),
        (
            "a chunked body on GET",
            get("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
            Served(200),
        ),
        ("a body that does not come", get("Content-Length: 1000000000\r\n", ""), ServedLast(200)),
        (
            "Expect: 100-continue",
            post("Content-Length: 1000000\r\nExpect: 100-continue\r\n", ""),
            ServedLast(405),
        ),
        (
            "Expect: 100-continue, and the body at once",
            post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"),
            Served(405),
        ),
        ("an unknown expectation", get("Expect: tea\r\n", ""), Served(200)),
        // lengths by which requests are smuggled past a proxy (RFC 9112 section 6.3)
        (
            "both lengths, the other way round",
            post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n"),
            ServedLast(405),
        ),
        (
            "both lengths",
            post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            ServedLast(405),
        ),
        (
            "two lengths that differ",
            post("Content-Length: 4\r\nContent-Length: 5\r\n", "hello"),
            Refused(&[400]),
        ),
        ("a list of lengths", post("Content-Length: 5, 5\r\n", "hello"), Refused(&[400])),
        ("a length with a sign", post("Content-Length: +5\r\n", "hello"), Refused(&[400])),
        ("a length below zero", post("Content-Length: -1\r\n", ""), Refused(&[400])),
        ("a length in hexadecimal", post("Content-Length: 0x5\r\n", "hello"), Refused(&[400])),
        ("a length above 2^64", post("Content-Length: 99999999999999999999\r\n", ""), Refused(&[400, 413])),
        ("a coding that is not chunked", post("Transfer-Encoding: gzip\r\n", "hello"), Refused(&[400])),
        (
            "chunked and then another",
            post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"),
            Refused(&[400]),
        ),
        (
            "a coding after a vertical tab",
            post("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"),
            Refused(&[400]),
        ),
        (
            "chunked in HTTP/1.0",
            text(&format!("POST {JWKS} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
            Refused(&[400]),
        ),
        (
            "a chunk above 2^64",
            post("Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFFF\r\nhello"),
            ServedLast(405),
        ),
        (
            "a chunk of a terabyte",
            post("Transfer-Encoding: chunked\r\n", "FFFFFFFFFF\r\nhello"),
            ServedLast(405),
        ),
        (
            "a chunk without a size",
            post("Transfer-Encoding: chunked\r\n", "\r\nhello\r\n0\r\n\r\n"),
            ServedLast(405),
        ),
        (
            "a chunk longer than it says",
            post("Transfer-Encoding: chunked\r\n", "2\r\nhello\r\n0\r\n\r\n"),
            ServedLast(405),
        ),
        (
            "a chunk extension without end",
            post("Transfer-Encoding: chunked\r\n", &format!("5;{}", "x".repeat(100_000))),
            ServedLast(405),
        ),
        // targets
        (
            "another host in the target",
            text(&format!("GET http://evil.example{JWKS} HTTP/1.1\r\nHost: x\r\n\r\n")),
            Served(200),
        ),
        ("OPTIONS *", text("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"), Served(404)),
        ("CONNECT", text("CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"), Served(404)),
        (
            "an upgrade to HTTP/2",
            get(
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
                "",
            ),
            Served(200),
        ),
    ]
}

/// The status lines that stand in what came, in order.
fn statuses(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    text.split("HTTP/1.").skip(1).filter_map(|rest| rest.get(2..5)?.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_odd_is_served_or_refused_and_nothing_is_smuggled_behind_it() {
    let target = Target::plain().await;
    let mut faults = Vec::new();
    target
        .beside(async {
            for (name, mut bytes, then) in cases() {
                bytes.extend(NEXT.as_bytes());
                let answer = exchange(target.documents, &bytes).await;
                let found = statuses(&answer);
                let is_right = match then {
                    Served(status) => found == [status, 404],
                    ServedLast(status) => found == [status],
                    Refused(_) if found.is_empty() => answer.is_empty(),
                    Refused(allowed) => matches!(&*found, [one] if allowed.contains(one)),
                };
                if !is_right {
                    faults.push(format!("{name}: {found:?}, wanted {then:?}"));
                }
            }
        })
        .await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    target.has_at_most(0).await;
    target.assert_grew_below(8, "odd requests");
}

/// In one segment, and each answer is that of its own request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    let target = Target::plain().await;
    let count = 500;
    let mut bytes = Vec::new();
    for n in 0..count {
        let path = if n % 3 == 0 { JWKS } else { "/nowhere" };
        bytes.extend(format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: n-{n}\r\n\r\n").bytes());
    }
    bytes.extend(NEXT.as_bytes());
    let answer = target.beside(exchange(target.documents, &bytes)).await;
    let found = statuses(&answer);
    let wanted: Vec<_> = (0..count).map(|n| if n % 3 == 0 { 200 } else { 404 }).chain([404]).collect();
    assert_eq!(found, wanted);
    let text = String::from_utf8(answer).unwrap();
    let ids = text
        .lines()
        .filter_map(|line| line.strip_prefix("x-request-id: n-"))
        .map(|id| id.parse::<usize>().unwrap());
    assert!(ids.eq(0..count));
    target.assert_grew_below(8, "500 requests in one segment");
}

/// RFC 9112 section 9.6: who has nothing more to send may still want the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_closed_connection_gets_its_answer_or_its_end() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let target = Target::plain().await;
    for (sent, served) in [(get("", ""), true), (get("", "GET /half"), true), (b"GET /half".to_vec(), false)]
    {
        let mut stream = tokio::net::TcpStream::connect(target.documents).await.unwrap();
        stream.write_all(&sent).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(statuses(&answer).first() == Some(&200), served, "{}", String::from_utf8_lossy(&sent));
    }
    target.has_at_most(0).await;
}
