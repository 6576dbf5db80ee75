//! The end: in order for who asks politely, at once for who asks twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::http::{Client, get};
use crate::support::place::Place;
use crate::support::server::Server;
use crate::support::{now, until};

const JWKS: &str = "/.well-known/jwks.json";

fn server(process: &str) -> (Place, Server) {
    let place = Place::with_ring("ES256");
    let mint = "[admin]\nmint = true\nmint_audiences = [\"rp\"]";
    let server = place.serve(&format!("[process]\n{process}\n{mint}\n"));
    (place, server)
}

#[test]
fn sigterm_serves_on_until_load_balancers_know() {
    let (_place, mut server) = server("drain_delay = \"2s\"\nshutdown_timeout = \"10s\"");
    let (documents, ops) = (server.documents, server.ops);
    let is_told = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (is_told, answered) = (Arc::clone(&is_told), Arc::clone(&answered));
            let load = move || load(documents, &is_told, &answered);
            std::thread::Builder::new().name("load".to_owned()).spawn(load).unwrap()
        })
        .collect();
    until("load", || (answered.load(Ordering::Relaxed) > 100).then_some(()));
    server.signal(Signal::TERM);
    until("readiness to be off", || (get(ops, "/readyz").status == 503).then_some(()));
    let draining = get(documents, JWKS);
    assert_eq!((draining.status, draining.header("connection")), (200, Some("close")));
    assert_eq!(get(ops, "/livez").status, 200);
    assert_eq!(get(ops, "/readyz?for=mint").status, 503);
    // Half the delay later, as a prober does that asks every second.
    let before = answered.load(Ordering::Relaxed);
    until("load to go on", || (answered.load(Ordering::Relaxed) > before + 100).then_some(()));
    is_told.store(true, Ordering::Relaxed);
    for client in clients {
        assert_eq!(client.join().unwrap(), None, "no request failed");
    }
    assert_eq!(server.wait().code(), Some(0));
    let phases: Vec<_> = server
        .log_lines()
        .into_iter()
        .filter(|line| line["message"] == "shutdown phase done")
        .map(|line| {
            assert!(line["duration_ms"].is_u64(), "{line}");
            line["phase"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(phases, ["readiness off", "drain delay", "close", "drain", "stop"]);
}

/// Asks until told to stop, on connections that are kept as long as the server keeps them; gives the first failure.
fn load(address: std::net::SocketAddr, is_told: &AtomicBool, answered: &AtomicU64) -> Option<String> {
    while !is_told.load(Ordering::Relaxed) {
        let mut client = match Client::tcp(address) {
            Ok(client) => client,
            Err(error) => return Some(format!("connect: {error}")),
        };
        loop {
            match client.ask("GET", JWKS, &[], "") {
                Ok(answer) if answer.status == 200 => {
                    answered.fetch_add(1, Ordering::Relaxed);
                    if answer.header("connection") == Some("close") || is_told.load(Ordering::Relaxed) {
                        break;
                    }
                }
                other => return Some(format!("{other:?}")),
            }
        }
    }
    None
}

#[test]
fn sigint_skips_the_delay() {
    let (_place, mut server) = server("drain_delay = \"10m\"\nshutdown_timeout = \"20m\"");
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
}

/// Many systems send it to have files read again; by default it would end the process at once.
#[test]
fn a_hangup_changes_nothing() {
    let (_place, server) = server("");
    server.signal(Signal::HUP);
    until("the log line", || server.log().contains("SIGHUP: looking at the TLS files").then_some(()));
    assert_eq!(get(server.documents, JWKS).status, 200);
}

#[test]
fn idle_connections_do_not_hold_up_the_end() {
    let (_place, mut server) = server("drain_delay = \"10m\"\nshutdown_timeout = \"20m\"");
    let mut idle = Client::tcp(server.documents).unwrap();
    assert_eq!(idle.ask("GET", JWKS, &[], "").unwrap().status, 200);
    let mut new = Client::tcp(server.documents).unwrap();
    server.signal(Signal::INT);
    assert!(idle.is_closed());
    assert!(new.is_closed());
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_request_under_way_is_finished() {
    let (_place, mut server) = server("drain_delay = \"0s\"\nshutdown_timeout = \"1m\"");
    let mut client = half_a_request(&server);
    server.signal(Signal::TERM);
    until("listeners to be closed", || Client::tcp(server.documents).is_err().then_some(()));
    client.send(br#""rp"}"#).unwrap();
    let answer = client.answer(false).unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{}", answer.text());
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (_place, mut server) = server("drain_delay = \"10m\"\nshutdown_timeout = \"20m\"");
        let _busy = half_a_request(&server);
        server.signal(Signal::TERM);
        until("the end to begin", || (get(server.ops, "/readyz").status == 503).then_some(()));
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(code));
        assert!(!server.admin.exists(), "the socket's file goes even so");
    }
}

#[test]
fn a_request_that_does_not_end_is_cut_off_in_time() {
    let (_place, mut server) = server("drain_delay = \"0s\"\nshutdown_timeout = \"2s\"");
    let _busy = half_a_request(&server);
    let began = now();
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(server.log().contains("cut off"), "{}", server.log());
}

#[test]
fn the_end_of_standard_input_ends_it_for_who_asked_for_that() {
    let place = Place::with_ring("ES256");
    place.configure("[process]\ndrain_delay = \"10m\"\nshutdown_timeout = \"20m\"\n");
    let mut server = Server::start(&place, &["--exit-on-stdin-eof"]);
    assert_eq!(get(server.ops, "/readyz").status, 200);
    server.close_input();
    assert_eq!(server.wait().code(), Some(0));
    // Who has none from the start is told why it ended, whether before the key was read or after.
    let said = place.run(["serve", "--config", "oneseal.toml", "--exit-on-stdin-eof"]);
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && text.contains("end of standard input"), "{said:?}");
    // Others go on without a standard input: it is /dev/null here from the start.
    let server = place.serve("");
    assert_eq!(get(server.ops, "/readyz").status, 200);
}

/// A mint request that waits for the rest of its body.
fn half_a_request(server: &Server) -> Client<std::os::unix::net::UnixStream> {
    let mut client = Client::unix(&server.admin).unwrap();
    let body = r#"{"sub":"pod","aud":"rp"}"#;
    let head = "POST /admin/v1/mint HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    client.send(format!("{head}Content-Length: {}\r\n\r\n{}", body.len(), &body[..19]).as_bytes()).unwrap();
    until("the request to be under way", || {
        let metrics = get(server.ops, "/metrics").text();
        metrics.contains("oneseal_http_connections{listener=\"admin\"} 1").then_some(())
    });
    client
}
