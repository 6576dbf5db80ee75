//! The real parts do what their names say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use oneseal_testing::parts::{Fate, PgBouncer, Pooling, Postgres, PostgresOptions, Proxy, Stop};

#[test]
fn each_test_has_a_database_of_its_own() {
    let Some(server) = Postgres::shared() else { return };
    let (one, other) = (server.create_database(), server.create_database());
    one.execute("CREATE TABLE kept (word text); INSERT INTO kept VALUES ('a'), ('b')");
    assert_eq!(one.execute("SELECT word, 1 FROM kept ORDER BY word"), "a|1\nb|1");
    assert!(other.try_execute("SELECT word FROM kept").unwrap_err().contains("does not exist"));
}

#[test]
fn what_is_committed_outlives_a_crash_and_the_port_stays() {
    let Some(mut server) = Postgres::start(PostgresOptions::default()) else { return };
    let (address, database) = (server.address(), server.create_database());
    database.execute("CREATE TABLE kept AS SELECT 7 AS number");
    server.restart(Stop::Immediate);
    assert_eq!((database.execute("SELECT number FROM kept"), server.address()), ("7".into(), address));
    server.stop(Stop::Fast);
    assert!(database.try_execute("SELECT 1").is_err());
    server.start_again();
    assert_eq!(database.execute("SELECT number FROM kept"), "7");
}

#[test]
fn a_standby_follows_and_takes_over_without_what_it_never_got() {
    let Some(mut primary) = Postgres::start(PostgresOptions::default()) else { return };
    let standby = primary.standby();
    primary.execute("CREATE TABLE kept AS SELECT 1 AS number");
    standby.catch_up(&primary);
    assert_eq!(standby.execute("SELECT pg_is_in_recovery(), number FROM kept"), "t|1");
    standby.cut_off();
    primary.execute("UPDATE kept SET number = 2");
    primary.stop(Stop::Immediate);
    standby.promote();
    assert_eq!(standby.execute("SELECT pg_is_in_recovery(), number FROM kept"), "f|1");
    standby.execute("UPDATE kept SET number = 3");
}

#[test]
fn a_paused_server_answers_nobody_until_it_is_resumed() {
    let Some(server) = Postgres::start(PostgresOptions::default()) else { return };
    server.pause();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    stream.write_all(SSL_REQUEST).unwrap();
    stream.read_exact(&mut [0]).unwrap_err();
    server.resume();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
}

/// What a client of PostgreSQL begins with; a server without TLS answers `N`.
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];

#[test]
fn a_pooler_is_in_the_mode_asked_for() {
    let Some(server) = Postgres::shared() else { return };
    for (pooling, mode) in [
        (Pooling::Session, "session"),
        (Pooling::Transaction, "transaction"),
        (Pooling::Statement, "statement"),
    ] {
        let Some(mut pooler) = PgBouncer::start(server, pooling, 3) else { return };
        let database = server.create_database();
        let ask = |sql: &str| {
            std::process::Command::new("psql")
                .args(["-XAqt", &database.url_at(pooler.address()), "-c", sql])
                .output()
        };
        let output = ask("SELECT 'by way of the pooler'").unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "by way of the pooler", "{output:?}");
        // In statement mode a transaction that the client opens is refused.
        let output = ask("BEGIN").unwrap();
        assert_eq!(output.status.success(), mode != "statement", "{mode}: {output:?}");
        pooler.stop();
        TcpStream::connect(pooler.address()).unwrap_err();
        pooler.start_again();
    }
}

#[test]
fn a_proxy_cuts_before_or_after_the_bytes_asked_for_once() {
    let (backend, mut seen) = echo();
    let proxy = Proxy::start(backend);
    let ask = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = vec![0; bytes.len()];
        stream.read_exact(&mut answer).map(|()| answer)
    };
    proxy.when_client_sends(b"COMMIT", Fate::CutAfter);
    assert_eq!(ask(b"hello").unwrap(), b"hello");
    assert!(!proxy.has_sprung());
    ask(b"xCOMMITx").unwrap_err();
    assert!(proxy.has_sprung());
    assert_eq!(ask(b"COMMIT").unwrap(), b"COMMIT");
    proxy.when_client_sends(b"COMMIT", Fate::CutBefore);
    ask(b"COMMIT2").unwrap_err();
    let reached: Vec<Vec<u8>> = std::iter::from_fn(&mut seen).collect();
    assert_eq!(reached, [&b"hello"[..], b"xCOMMITx", b"COMMIT"]);
    assert_eq!(proxy.accepted(), 4);
}

#[test]
fn a_black_hole_keeps_connections_open_and_a_cut_ends_them() {
    let (backend, _) = echo();
    let proxy = Proxy::start(backend);
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    proxy.black_hole(true);
    stream.write_all(b"lost").unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
    proxy.black_hole(false);
    stream.write_all(b"again").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
    proxy.cut();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    proxy.refuse(true);
    let mut refused = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap_or(0), 0);
}

/// A server that sends back what comes, and what it has seen so far.
fn echo() -> (std::net::SocketAddr, impl FnMut() -> Option<Vec<u8>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let serve = move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            let answer = move || {
                let mut buffer = [0; 1024];
                while let Ok(len @ 1..) = stream.read(&mut buffer) {
                    tell.send(buffer[..len].to_vec()).unwrap_or_default();
                    stream.write_all(&buffer[..len]).unwrap_or_default();
                }
            };
            drop(std::thread::Builder::new().spawn(answer).unwrap());
        }
    };
    drop(std::thread::Builder::new().spawn(serve).unwrap());
    (address, move || told.try_recv().ok())
}
