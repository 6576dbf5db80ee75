//! What a service manager hears: sd_notify(3), read by a socket such as its own.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Stdio;

use rustix::process::Signal;

use crate::support::http::get;
use crate::support::place::{ISSUER, Place};
use crate::support::server::Server;
use crate::support::until;

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    /// For `NOTIFY_SOCKET`.
    name: String,
}

impl Manager {
    fn at_path(place: &Place) -> Self {
        let path = place.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Self::reading(socket, path.display().to_string())
    }

    /// Without a file: as older managers and container runtimes have it.
    fn without_file(place: &Place) -> Self {
        let name = format!("oneseal-test{}", place.path("notify").display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self::reading(UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
    }

    fn reading(socket: UnixDatagram, name: String) -> Self {
        socket.set_nonblocking(true).unwrap();
        Self { socket, name }
    }

    /// The next message, if one has come.
    fn hear(&self) -> Option<String> {
        let mut buffer = [0; 4096];
        let len = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..len].to_vec()).unwrap())
    }

    /// The next message, waited for.
    fn next(&self) -> String {
        until("a notification", || self.hear())
    }

    /// Everything that has come so far.
    fn all(&self) -> Vec<String> {
        std::iter::from_fn(|| self.hear()).collect()
    }
}

fn has(message: &str, assignment: &str) -> bool {
    message.lines().any(|line| line == assignment)
}

fn status(message: &str) -> &str {
    message.lines().find_map(|line| line.strip_prefix("STATUS=")).unwrap()
}

fn extended_us(message: &str) -> u64 {
    let told = message.lines().find_map(|line| line.strip_prefix("EXTEND_TIMEOUT_USEC=")).unwrap();
    told.parse().unwrap()
}

#[test]
fn ready_is_told_when_it_serves_and_stopping_when_the_end_begins() {
    let managers: [fn(&Place) -> Manager; 2] = [Manager::at_path, Manager::without_file];
    for manager in managers {
        let place = Place::with_ring("ES256");
        place.configure("[process]\ndrain_delay = \"10m\"\nshutdown_timeout = \"20m\"");
        let manager = manager(&place);
        let mut server = Server::start_with(&place, &[], &[("NOTIFY_SOCKET", &manager.name)]);
        let ready = manager.next();
        assert_eq!(get(server.documents, "/.well-known/jwks.json").status, 200, "ready is ready");
        assert!(has(&ready, "READY=1"), "{ready}");
        let status_line = status(&ready);
        for part in
            [ISSUER, "1 active key:", &server.documents.to_string(), &server.ops.to_string(), "admin.sock"]
        {
            assert!(status_line.contains(part), "{part}: {status_line}");
        }
        server.signal(Signal::TERM);
        let stopping = manager.next();
        assert!(has(&stopping, "STOPPING=1") && !has(&stopping, "READY=1"), "{stopping}");
        assert!(status(&stopping).contains("SIGTERM"), "{stopping}");
        assert!(extended_us(&stopping) > 20 * 60 * 1_000_000, "as long as the end may take: {stopping}");
        assert_eq!(get(server.documents, "/.well-known/jwks.json").status, 200, "it is told before the end");
        server.signal(Signal::INT);
        assert_eq!(server.wait().code(), Some(130));
        assert_eq!(manager.all(), [""; 0], "nothing else, and no watchdog that nobody asked for");
    }
}

#[test]
fn a_refused_start_is_never_ready_and_says_why() {
    let place = Place::with_ring("ES256");
    place.configure("");
    let manager = Manager::at_path(&place);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let nowhere = format!("file:{}", place.path("nowhere").display());
    let cases: [(&[&str], i32, &str); 3] = [
        (&["--issuer", ISSUER, "--provider", &nowhere], 78, "provider.not_found"),
        (&["--config", "oneseal.toml", "--listen-documents", &taken], 71, "listen.in_use"),
        (&["--issuer", "https://oidc.example/?x"], 78, "issuer.query"),
    ];
    for (args, exit, code) in cases {
        let mut command = place.command([&["serve"], args].concat());
        let ended = command.env("NOTIFY_SOCKET", &manager.name).output().unwrap();
        let heard = manager.all();
        assert_eq!(ended.status.code(), Some(exit), "{heard:?} {}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(!has(&heard[0], "READY=1"), "{heard:?}");
        assert!(status(&heard[0]).starts_with("refused to start: ") && heard[0].contains(code), "{heard:?}");
    }
}

#[test]
fn waiting_for_a_provider_is_told_with_the_time_that_is_left() {
    let place = Place::empty();
    // Kubelet's link between two states: the one thing that may come right in a moment, also for root.
    let path = place.path("volume");
    std::fs::create_dir(&path).unwrap();
    std::os::unix::fs::symlink("..gone", path.join("..data")).unwrap();
    place.write(
        "oneseal.toml",
        &format!(
            "[issuer]\nurl = \"{ISSUER}\"\n[provider]\nkind = \"file\"\npath = \"{}\"\n[process]\nboot_timeout = \"10m\"\n",
            path.display()
        ),
    );
    let manager = Manager::at_path(&place);
    let mut command = place.command(["serve", "--config", "oneseal.toml"]);
    let mut child = command.env("NOTIFY_SOCKET", &manager.name).stderr(Stdio::null()).spawn().unwrap();
    let (first, second) = (manager.next(), manager.next());
    for (message, attempt) in [(&first, "attempt 1,"), (&second, "attempt 2,")] {
        assert!(status(message).contains(attempt) && status(message).contains("s left"), "{message}");
        assert!(status(message).contains("provider.unavailable"), "{message}");
        assert!(
            extended_us(message) > 9 * 60 * 1_000_000,
            "the manager must wait as long as we do: {message}"
        );
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    let last = until("the end", || manager.all().pop().filter(|message| has(message, "STOPPING=1")));
    assert!(!has(&last, "READY=1"));
    assert_eq!(until("the end", || child.try_wait().unwrap()).code(), Some(143));
}

#[test]
fn a_watchdog_hears_from_a_server_that_is_ready_and_from_no_stopped_one() {
    let place = Place::with_ring("ES256");
    place.configure("");
    let manager = Manager::at_path(&place);
    let watched = [("NOTIFY_SOCKET", manager.name.as_str()), ("WATCHDOG_USEC", "200000")];
    let server = Server::start_with(&place, &[], &watched);
    assert!(has(&manager.next(), "READY=1"), "first of all");
    for _ in 0..3 {
        assert!(has(&manager.next(), "WATCHDOG=1"));
    }
    // A process that gets no turn says nothing, and that is the whole use of it.
    server.signal(Signal::STOP);
    until("it to stand still", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        stat.rsplit_once(')').unwrap().1.trim_start().starts_with('T').then_some(())
    });
    manager.all();
    assert!(get_nothing(&manager));
    server.signal(Signal::CONT);
    assert!(has(&manager.next(), "WATCHDOG=1"));
    drop(server);

    // A limit that is another process's is none of ours.
    let other = Place::with_ring("ES256");
    other.configure("");
    let watched =
        [("NOTIFY_SOCKET", manager.name.as_str()), ("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "1")];
    manager.all();
    let mut server = Server::start_with(&other, &[], &watched);
    server.signal(Signal::INT);
    server.wait();
    let heard = manager.all();
    assert!(!heard.iter().any(|message| has(message, "WATCHDOG=1")), "{heard:?}");
}

/// Three of the watchdog's periods, measured by the kernel's own wait for a datagram.
fn get_nothing(manager: &Manager) -> bool {
    manager.socket.set_nonblocking(false).unwrap();
    manager.socket.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let nothing = manager.socket.recv(&mut [0; 64]).is_err();
    manager.socket.set_nonblocking(true).unwrap();
    nothing
}

#[test]
fn a_manager_that_is_gone_or_unknown_keeps_no_server_from_serving() {
    for name in ["/nonexistent/notify", "@nobody-listens-here", "vsock:2:9999", ""] {
        let place = Place::with_ring("ES256");
        place.configure("");
        let mut server = Server::start_with(&place, &[], &[("NOTIFY_SOCKET", name)]);
        assert_eq!(get(server.ops, "/readyz").status, 200, "{name}");
        server.signal(Signal::INT);
        assert_eq!(server.wait().code(), Some(0), "{name}");
        assert_eq!(server.log().contains("notified"), !name.is_empty(), "{name}: {}", server.log());
    }
}
