//! TLS of the documents listener, as its clients and its operator meet it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use oneseal_testing::Canary;
use rustix::process::Signal;
use rustls::HandshakeKind;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use serde_json::Value;
use tokio_rustls::TlsConnector;

use crate::support::http::{Client, get};
use crate::support::place::{ISSUER, Place};
use crate::support::server::Server;
use crate::support::tls::{Authority, HOST, Pair, connect};
use crate::support::until;

const JWKS: &str = "/.well-known/jwks.json";

/// A pair in two files of the place, and the table that names them.
fn put(place: &Place, pair: &Pair) -> String {
    place.write("tls.crt", &pair.certificate);
    place.write("tls.key", &pair.private_key);
    table(&place.path("tls.crt"), &place.path("tls.key"))
}

fn table(certificate: &Path, private_key: &Path) -> String {
    format!("[tls]\ncertificate = {certificate:?}\nprivate_key = {private_key:?}\n")
}

/// Replaces a file as certbot and every careful writer does.
fn rename_over(place: &Place, name: &str, text: &str) {
    let new = place.write(&format!("{name}.new"), text);
    fs::rename(new, place.path(name)).unwrap();
}

fn metric(server: &Server, name: &str) -> String {
    let text = get(server.ops, "/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

fn lines(server: &Server, message: &str) -> Vec<Value> {
    server
        .log_lines()
        .into_iter()
        .filter(|line| line["message"].as_str().unwrap().contains(message))
        .collect()
}

fn is_answered(client: &mut Client<impl Read + Write>) -> bool {
    client.ask("GET", JWKS, &[], "").is_ok_and(|answer| answer.status == 200)
}

#[test]
fn documents_come_over_tls_and_everything_says_so() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let pair = authority.issue_until(2100);
    let server = place.serve(&put(&place, &pair));
    let mut client = authority.connect(server.documents).unwrap();
    assert_eq!(client.stream().conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(is_answered(&mut client) && is_answered(&mut client), "kept alive");
    assert_eq!(authority.shown(server.documents), pair.der);

    let ready: Value = serde_json::from_slice(&fs::read(place.path("ready.json")).unwrap()).unwrap();
    assert_eq!(ready["documents_url"], format!("https://{}", server.documents));
    assert_eq!(ready["ops_url"], format!("http://{}", server.ops));
    assert_eq!(lines(&server, "serving")[0]["documents"], ready["documents_url"]);
    let told = &lines(&server, "TLS certificate")[0];
    assert_eq!(told["not_after"], "2100-01-01T00:00:00Z");
    assert_eq!(told["fingerprint"].as_str().unwrap().len(), 64);
    let not_after = "oneseal_tls_certificate_not_after_seconds{listener=\"documents\"}";
    assert_eq!(metric(&server, not_after), "4102444800");
    let health = place.run(["healthcheck", "--ops", &server.ops.to_string()]);
    assert!(health.status.success(), "ops stay plain HTTP: {health:?}");
}

#[test]
fn http_2_is_agreed_on_and_spoken() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let server = place.serve(&put(&place, &authority.issue()));
    let config = authority.client(&["h2", "http/1.1"], &[&TLS13]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tcp = tokio::net::TcpStream::connect(server.documents).await.unwrap();
        let name = ServerName::try_from(HOST).unwrap();
        let tls = TlsConnector::from(config).connect(name, tcp).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let io = TokioIo::new(tls);
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        let asked = async {
            let request = Request::get(format!("{ISSUER}{JWKS}")).body(Empty::<Bytes>::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_2));
            response.into_body().collect().await.unwrap().to_bytes()
        };
        tokio::select! {
            body = asked => assert!(body.starts_with(b"{\"keys\":[{")),
            ended = connection => panic!("it ended first: {ended:?}"),
        }
    });
}

#[test]
fn the_oldest_version_is_what_the_operator_says() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let tls = put(&place, &authority.issue());
    let old = authority.client(&[], &[&TLS12]);
    let server = place.serve(&tls);
    assert!(is_answered(&mut connect(&old, server.documents).unwrap()));
    drop(server);
    let server = place.serve(&format!("{tls}min_version = \"1.3\"\n"));
    connect(&old, server.documents).err().unwrap();
    assert!(is_answered(&mut authority.connect(server.documents).unwrap()));
    assert_eq!(metric(&server, "oneseal_tls_handshake_failures_total{reason=\"protocol\"}"), "1");
}

/// A ticket would be good on this replica alone, and its key would open what was recorded.
#[test]
fn every_handshake_is_a_full_one() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let server = place.serve(&put(&place, &authority.issue()));
    for version in [&TLS12, &TLS13] {
        let config = authority.client(&["http/1.1"], &[version]);
        for _ in 0..3 {
            let mut client = connect(&config, server.documents).unwrap();
            assert!(is_answered(&mut client), "tickets come after the handshake");
            assert_eq!(client.stream().conn.handshake_kind(), Some(HandshakeKind::Full));
        }
    }
}

#[test]
fn a_pair_renewed_by_rename_or_in_place_is_shown_to_new_connections_alone() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let first = authority.issue();
    let server = place.serve(&put(&place, &first));
    let mut open = authority.connect(server.documents).unwrap();
    assert!(is_answered(&mut open));

    let second = authority.issue();
    rename_over(&place, "tls.crt", &second.certificate);
    rename_over(&place, "tls.key", &second.private_key);
    let is_shown = |pair: &Pair| (authority.shown(server.documents) == pair.der).then_some(());
    until("the second pair", || is_shown(&second));
    let third = authority.issue();
    put(&place, &third);
    until("the third pair", || is_shown(&third));

    assert!(is_answered(&mut open), "an open connection lives on");
    assert_eq!(open.stream().conn.peer_certificates().unwrap()[0], first.der);
    let renewals =
        until("both lines", || Some(lines(&server, "new TLS cert")).filter(|lines| lines.len() == 2));
    assert!(renewals.iter().all(|line| line["fingerprint"].is_string() && line["not_after"].is_string()));
    assert_eq!(metric(&server, "oneseal_tls_reloads_total{outcome=\"ok\"}"), "2");
}

#[test]
fn a_pair_behind_kubelets_link_changes_as_one() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let mount = place.path("mount");
    fs::create_dir(&mount).unwrap();
    let swap = |unit: &str, pair: &Pair| {
        fs::create_dir(mount.join(unit)).unwrap();
        fs::write(mount.join(unit).join("tls.crt"), &pair.certificate).unwrap();
        fs::write(mount.join(unit).join("tls.key"), &pair.private_key).unwrap();
        symlink(unit, mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    let (first, second) = (authority.issue(), authority.issue());
    swap("..1", &first);
    for name in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), mount.join(name)).unwrap();
    }
    let server = place.serve(&table(&mount.join("tls.crt"), &mount.join("tls.key")));
    let mut open = authority.connect(server.documents).unwrap();
    assert_eq!(authority.shown(server.documents), first.der);
    swap("..2", &second);
    fs::remove_dir_all(mount.join("..1")).unwrap();
    until("the second pair", || (authority.shown(server.documents) == second.der).then_some(()));
    assert!(is_answered(&mut open));
    // Written with 0644, as kubelet does: said, and no more than that.
    assert!(server.log().contains("tls.private_key_exposed"), "{}", server.log());
    assert_eq!(metric(&server, "oneseal_tls_reloads_total{outcome=\"failed\"}"), "0");
}

#[test]
fn what_does_not_fit_keeps_the_last_good_pair_and_is_told_once_for_each_change() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let first = authority.issue();
    let server = place.serve(&put(&place, &first));
    let alarms = || lines(&server, "no usable pair");
    let alarm = |count: usize, code: &str| {
        let found = until(code, || Some(alarms()).filter(|lines| lines.len() == count));
        assert!(found[count - 1]["why"].as_str().unwrap().contains(code), "{found:?}");
        assert_eq!(found[count - 1]["level"], "ERROR");
        assert_eq!(authority.shown(server.documents), first.der);
    };
    let second = authority.issue();
    rename_over(&place, "tls.crt", &second.certificate);
    alarm(1, "tls.key_mismatch");
    rename_over(&place, "tls.key", "no key at all");
    alarm(2, "tls.private_key_unusable");
    fs::remove_file(place.path("tls.crt")).unwrap();
    alarm(3, "tls.unreadable");
    put(&place, &authority.issue_until(2021));
    until("the expired pair", || {
        alarms().iter().any(|line| line.to_string().contains("tls.expired")).then_some(())
    });
    assert_eq!(authority.shown(server.documents), first.der);

    rename_over(&place, "tls.crt", &second.certificate);
    rename_over(&place, "tls.key", &second.private_key);
    until("the good pair", || (authority.shown(server.documents) == second.der).then_some(()));
    let told = alarms();
    let mut whys: Vec<_> = told.iter().map(|line| line["why"].as_str().unwrap()).collect();
    whys.dedup();
    assert_eq!(whys.len(), told.len(), "no alarm twice in a row: {told:?}");
    assert_eq!(metric(&server, "oneseal_tls_reloads_total{outcome=\"failed\"}"), told.len().to_string());
}

/// The outer of two links is swapped, which no watch sees, and the next poll is fifteen seconds away.
#[test]
fn sighup_makes_the_server_look_at_once() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let swap = |name: &str, pair: &Pair| {
        let unit = place.path(name).join("pair");
        fs::create_dir_all(&unit).unwrap();
        fs::write(unit.join("tls.crt"), &pair.certificate).unwrap();
        fs::write(unit.join("tls.key"), &pair.private_key).unwrap();
        symlink(name, place.path("new")).unwrap();
        fs::rename(place.path("new"), place.path("live")).unwrap();
    };
    let (first, second) = (authority.issue(), authority.issue());
    swap("first", &first);
    let live = place.path("live/pair");
    let server = place.serve(&table(&live.join("tls.crt"), &live.join("tls.key")));
    assert_eq!(authority.shown(server.documents), first.der);
    swap("second", &second);
    server.signal(Signal::HUP);
    until("the second pair", || (authority.shown(server.documents) == second.der).then_some(()));
}

#[test]
fn who_says_nothing_or_half_of_it_holds_nobody_back() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let server = place.serve(&put(&place, &authority.issue()));
    let half_hello = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00];
    let mut held: Vec<_> = (0..64)
        .map(|i| {
            let mut client = Client::tcp(server.documents).unwrap();
            client.send(if i % 2 == 0 { &half_hello } else { &[] }).unwrap();
            client
        })
        .collect();
    until("all of them", || {
        (metric(&server, "oneseal_http_connections{listener=\"documents\"}") == "64").then_some(())
    });
    for _ in 0..8 {
        assert!(is_answered(&mut authority.connect(server.documents).unwrap()));
    }
    assert!(held.iter_mut().all(Client::is_closed), "after the deadline");
    until("their count", || {
        (metric(&server, "oneseal_tls_handshake_failures_total{reason=\"deadline\"}") == "64").then_some(())
    });
    assert_eq!(metric(&server, "oneseal_http_connections{listener=\"documents\"}"), "0");
}

#[test]
fn plain_http_is_told_to_use_tls_and_garbage_gets_an_alert() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let server = place.serve(&put(&place, &authority.issue()));
    for (method, body) in [("GET", String::new()), ("POST", "x".repeat(20_000))] {
        let mut client = Client::tcp(server.documents).unwrap();
        let answer = client.ask(method, JWKS, &[], &body).unwrap();
        assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
        assert!(answer.json()["error_description"].as_str().unwrap().contains("https"));
        assert!(client.is_closed());
    }
    let mut garbage = TcpStream::connect(server.documents).unwrap();
    garbage.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    garbage.write_all(&[0xff; 64]).unwrap();
    let mut said = Vec::new();
    garbage.read_to_end(&mut said).unwrap();
    assert_eq!(said.first(), Some(&21), "a TLS alert (RFC 8446 section 5.1): {said:?}");
    drop(TcpStream::connect(server.documents).unwrap());
    for (reason, count) in [("plain_http", "2"), ("protocol", "1"), ("gone", "1"), ("deadline", "0")] {
        let name = format!("oneseal_tls_handshake_failures_total{{reason=\"{reason}\"}}");
        until(reason, || (metric(&server, &name) == count).then_some(()));
    }
    assert!(is_answered(&mut authority.connect(server.documents).unwrap()));
}

#[test]
fn draining_says_close_and_ends_each_connection_in_order() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let tls = put(&place, &authority.issue());
    let mut server =
        place.serve(&format!("[process]\ndrain_delay = \"1s\"\nshutdown_timeout = \"10s\"\n{tls}"));
    let mut used = authority.connect(server.documents).unwrap();
    let mut idle = authority.connect(server.documents).unwrap();
    let silent = TcpStream::connect(server.documents).unwrap();
    assert!(is_answered(&mut used) && is_answered(&mut idle));
    server.signal(Signal::TERM);
    until("readiness to be off", || (get(server.ops, "/readyz").status == 503).then_some(()));
    let answer = used.ask("GET", JWKS, &[], "").unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    // rustls calls an end without close_notify an error (RFC 8446 section 6.1), and `is_closed` lets none pass.
    assert!(used.is_closed() && idle.is_closed());
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.log().contains("cut off"), "a handshake that never came holds nothing: {}", server.log());
    drop(silent);
}

#[test]
fn all_faults_are_told_at_once_and_nothing_is_bound() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let expired = authority.issue_until(2021);
    place.write("tls.crt", &expired.certificate);
    place.configure(&table(&place.path("tls.crt"), &place.path("no.key")));
    fs::remove_file(place.path("ring.json")).unwrap();
    for verb in ["serve", "check"] {
        let said = place.run([verb, "--config", "oneseal.toml"]);
        let text =
            format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert_eq!(said.status.code(), Some(78), "{text}");
        for code in ["tls.unreadable", "provider.not_found"] {
            assert!(text.contains(code), "{verb}: {code} in {text}");
        }
    }
    assert!(!place.path("admin.sock").exists());
    let place = Place::with_ring("ES256");
    place.configure(&put(&place, &Pair { private_key: authority.issue().private_key, ..expired }));
    let said = place.run(["serve", "--config", "oneseal.toml"]);
    let text = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(78), "{text}");
    assert!(text.contains("tls.expired") && text.contains("tls.key_mismatch"), "{text}");
}

#[test]
fn the_private_key_is_in_no_log_however_noisy() {
    let (place, authority) = (Place::with_ring("ES256"), Authority::new());
    let (first, second) = (authority.issue(), authority.issue());
    place.configure(&put(&place, &first));
    let server = Server::start_with(&place, &[], &[("ONESEAL_LOG", "trace")]);
    assert!(is_answered(&mut authority.connect(server.documents).unwrap()));
    rename_over(&place, "tls.key", &second.private_key);
    until("the alarm", || (!lines(&server, "no usable pair").is_empty()).then_some(()));
    let log = server.log();
    assert!(log.contains("\"DEBUG\""), "it was noisy: {log}");
    for pair in [first, second] {
        let body: String = pair.private_key.lines().filter(|line| !line.starts_with('-')).collect();
        // PKCS#8 of P-256: the 32 bytes of the number stand at 36.
        let der = STANDARD.decode(body).unwrap();
        Canary::of(&der[36..68]).assert_absent("the log", &log);
    }
}

const DEV_ISSUER: &str = "https://localhost:8443";

#[test]
fn dev_tls_is_verified_with_the_authority_that_it_writes() {
    let place = Place::empty();
    let ring = format!("file:{}", place.path("ring.json").display());
    let made = place.run(["keys", "init", "--provider", &ring, "--issuer", DEV_ISSUER, "--alg", "ES256"]);
    assert!(made.status.success(), "{made:?}");
    let text =
        fs::read_to_string(place.configure("[admin]\nmint = true\nmint_audiences = [\"rp\"]\n")).unwrap();
    place.write("oneseal.toml", &text.replace(ISSUER, DEV_ISSUER));
    let mut server = Server::start(&place, &["--dev-tls"]);
    let minted = server.mint(r#"{"sub":"a","aud":"rp"}"#).json();
    let token = minted["token"].as_str().unwrap();
    let address = server.documents.to_string();
    let verify = |more: &[&str]| {
        let mut command = place.command(["verify", token, "--issuer", DEV_ISSUER, "--aud", "rp"]);
        command.args(["--connect-to", &address]).args(more).stdin(Stdio::null()).output().unwrap()
    };
    let verified = verify(&["--ca", "oneseal-dev-ca.pem"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    assert!(!verify(&[]).status.success(), "nobody trusts it without");
    let url = format!("https://localhost:{}{JWKS}", server.documents.port());
    let health = place.run(["healthcheck", "--url", &url, "--ca", "oneseal-dev-ca.pem"]);
    assert!(health.status.success(), "{health:?}");
    assert!(server.log().contains("tls.development") && !server.log().contains("signing_key_shared"));
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!place.path("oneseal-dev-ca.pem").exists(), "its key is gone, so it is of no use");
}

/// At the default path, in one directory; and at paths that hold what is not to be lost.
#[test]
fn dev_tls_takes_no_file_away_that_is_another_ones() {
    let place = Place::empty();
    let ring = format!("file:{}", place.path("ring.json").display());
    let made = place.run(["keys", "init", "--provider", &ring, "--issuer", DEV_ISSUER, "--alg", "ES256"]);
    assert!(made.status.success(), "{made:?}");
    let text = fs::read_to_string(place.configure("")).unwrap();
    place.write("oneseal.toml", &text.replace(ISSUER, DEV_ISSUER));
    let mut server = Server::start(&place, &["--dev-tls"]);
    let (ca, ring) = (place.path("oneseal-dev-ca.pem"), place.path("ring.json"));
    let before = (fs::read(&ca).unwrap(), fs::read(&ring).unwrap());
    symlink("oneseal-dev-ca.pem", place.path("link")).unwrap();
    let serve = ["serve", "--config", "oneseal.toml", "--dev-tls", "--listen-admin", "none"];
    for (more, word) in [
        (&[][..], "--dev-tls-ca"),
        (&["--dev-tls-ca", "ring.json"], "--dev-tls-ca"),
        (&["--dev-tls-ca", "link"], "--dev-tls-ca"),
        (&["--dev-tls-ca", "/dev/null"], "--dev-tls-ca"),
        (&["--ready-file", "ring.json"], "--ready-file"),
        (&["--ready-file", "ready.json"], "--ready-file"),
        (&["--ready-file", "/dev/null"], "--ready-file"),
    ] {
        let said = place.run(serve.iter().chain(more));
        let text = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(78), "{text}");
        assert!(text.contains(word) && text.contains("left alone"), "{text}");
        assert!(!text.contains("\"serving\""), "{text}");
    }
    assert_eq!((fs::read(&ca).unwrap(), fs::read(&ring).unwrap()), before);
    server.signal(Signal::KILL);
    server.wait();
    assert!(ca.exists(), "it could not take it away");
    let mut next = Server::start(&place, &["--dev-tls"]);
    assert_ne!(fs::read(&ca).unwrap(), before.0);
    next.signal(Signal::INT);
    assert_eq!(next.wait().code(), Some(0));
    assert!(!ca.exists() && !place.path("ready.json").exists());
}

#[test]
fn dev_tls_is_refused_for_an_issuer_that_others_could_trust() {
    let place = Place::with_ring("ES256");
    place.configure("");
    let said = place.run(["serve", "--config", "oneseal.toml", "--dev-tls"]);
    let text = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(78), "{text}");
    assert!(text.contains("tls.dev_not_loopback"), "{text}");
    assert!(!text.contains("tls.development"), "{text}");
    assert!(!place.path("oneseal-dev-ca.pem").exists());
}

#[test]
fn a_development_authority_that_cannot_be_written_is_a_refusal() {
    let place = Place::with_ring("ES256");
    let text = fs::read_to_string(place.configure("")).unwrap().replace(ISSUER, DEV_ISSUER);
    place.write("oneseal.toml", &text);
    fs::remove_file(place.path("ring.json")).unwrap();
    let ring = format!("file:{}", place.path("ring.json").display());
    assert!(
        place
            .run(["keys", "init", "--provider", &ring, "--issuer", DEV_ISSUER, "--alg", "ES256"])
            .status
            .success()
    );
    let args = ["serve", "--config", "oneseal.toml", "--dev-tls", "--dev-tls-ca", "no/such/ca.pem"];
    let said = place.run(args);
    let text = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(78), "{text}");
    assert!(text.contains("--dev-tls-ca"), "{text}");
}

#[test]
fn clients_at_once_all_get_through_while_pairs_change() {
    let (place, authority) = (Place::with_ring("ES256"), Arc::new(Authority::new()));
    let server = place.serve(&put(&place, &authority.issue()));
    let address = server.documents;
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let authority = Arc::clone(&authority);
            let ask = move || (0..50).all(|_| is_answered(&mut authority.connect(address).unwrap()));
            std::thread::Builder::new().name("client".to_owned()).spawn(ask).unwrap()
        })
        .collect();
    for _ in 0..5 {
        let pair = authority.issue();
        rename_over(&place, "tls.crt", &pair.certificate);
        rename_over(&place, "tls.key", &pair.private_key);
        until("the new pair", || (authority.shown(address) == pair.der).then_some(()));
    }
    assert!(clients.into_iter().all(|client| client.join().unwrap()));
}
