//! P1: no persistent key, no boot. Every way a key can be missing or unusable ends with its code and binds nothing.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::http::get;
use crate::support::place::{DURABLE, ISSUER, Place, SELF_CHECK, set_mode};
use crate::support::server::Server;
use crate::support::until;

/// What is wrong, and how the start must end.
struct Case {
    name: &'static str,
    exit: i32,
    code: &'static str,
    /// Makes it wrong, and gives the arguments of `serve`.
    prepare: fn(&Place) -> Vec<String>,
}

/// With this provider.
fn on(provider: &str) -> Vec<String> {
    ["--issuer", ISSUER, "--provider", provider].map(str::to_owned).to_vec()
}

fn on_file(place: &Place, name: &str) -> Vec<String> {
    on(&format!("file:{}", place.path(name).display()))
}

fn on_text(place: &Place, text: &str) -> Vec<String> {
    place.write("key.jwk", text);
    on_file(place, "key.jwk")
}

const CASES: &[Case] = &[
    Case { name: "nothing is configured", exit: 78, code: "config.missing", prepare: |_| Vec::new() },
    Case {
        name: "an issuer and no provider",
        exit: 78,
        code: "provider.not_configured",
        prepare: |_| vec!["--issuer".to_owned(), ISSUER.to_owned()],
    },
    Case {
        name: "no such file",
        exit: 78,
        code: "provider.not_found",
        prepare: |place| on_file(place, "nowhere.pem"),
    },
    Case {
        name: "an empty directory",
        exit: 78,
        code: "provider.not_found",
        prepare: |place| {
            fs::create_dir(place.path("keys")).unwrap();
            set_mode(&place.path("keys"), 0o700);
            on_file(place, "keys")
        },
    },
    Case {
        name: "an unset variable",
        exit: 78,
        code: "provider.not_found",
        prepare: |_| on("env:NO_SUCH_KEY"),
    },
    Case { name: "an empty file", exit: 78, code: "provider.malformed", prepare: |place| on_text(place, "") },
    Case { name: "no key at all", exit: 78, code: "key.", prepare: |place| on_text(place, "hello, world") },
    Case {
        name: "half a key",
        exit: 78,
        code: "key.",
        prepare: |place| {
            let whole = place.private_jwk().to_string();
            on_text(place, &whole[..whole.len() / 2])
        },
    },
    Case {
        name: "a public key",
        exit: 78,
        code: "key.",
        prepare: |place| {
            let mut key = place.private_jwk();
            key.as_object_mut().unwrap().remove("d");
            on_text(place, &key.to_string())
        },
    },
    Case {
        name: "a symmetric key",
        exit: 78,
        code: "key.",
        prepare: |place| {
            on_text(
                place,
                &json!({ "kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }).to_string(),
            )
        },
    },
    Case {
        name: "a key of an algorithm that discovery does not name",
        exit: 78,
        code: "issuer.algorithm_unlisted",
        prepare: |place| on_file(place, "ring.json"),
    },
    Case {
        name: "the ring of another issuer",
        exit: 78,
        code: "ring.issuer_mismatch",
        prepare: |place| {
            let mut args = on_file(place, "ring.json");
            args[1] = "https://other.example".to_owned();
            args
        },
    },
    Case {
        name: "an altered ring",
        exit: 78,
        code: "ring.",
        prepare: |place| {
            let mut ring = place.ring();
            ring["revision"] = json!(7);
            place.write("altered.json", &ring.to_string());
            on_file(place, "altered.json")
        },
    },
    Case {
        name: "a key that others may read",
        exit: 78,
        code: "provider.exposed",
        prepare: |place| {
            set_mode(&place.path("ring.json"), 0o644);
            on_file(place, "ring.json")
        },
    },
    Case {
        name: "several faults: the strongest code decides",
        exit: 78,
        code: "issuer.not_https",
        prepare: |place| {
            set_mode(&place.path("ring.json"), 0o644);
            let mut args = on_file(place, "ring.json");
            args[1] = "http://oidc.example".to_owned();
            args
        },
    },
];

#[test]
fn every_unusable_key_ends_with_its_code_and_binds_nothing() {
    for case in CASES {
        let place = Place::with_ring("ES256");
        let args = (case.prepare)(&place);
        let (exit, log) = refused(&place, &args);
        assert_eq!(exit, Some(case.exit), "{}: {log}", case.name);
        assert!(log.contains(case.code), "{}: {log}", case.name);
        assert!(log.contains("docs/findings.md#"), "{}: {log}", case.name);
        assert!(!place.path("admin.sock").exists(), "{}", case.name);
    }
}

#[test]
fn a_key_in_memory_is_ephemeral_unless_somebody_says_otherwise() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let place = Place::with_ring("ES256");
    let ring = memory.path().join("ring.json");
    fs::copy(place.path("ring.json"), &ring).unwrap();
    let mut args = on(&format!("file:{}", ring.display()));
    args.push("--no-bind".to_owned());
    let check = |durable: &str| {
        let output =
            place.command(["check".to_owned()].iter().chain(&args)).env(DURABLE, durable).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (exit, report) = check("false");
    assert_eq!(exit, Some(78), "{report}");
    assert!(report.contains("provider.ephemeral"), "{report}");
    let (_, report) = check("true");
    assert!(!report.contains("provider.ephemeral"), "{report}");
}

#[test]
fn a_provider_that_does_not_answer_is_asked_until_the_time_is_over() {
    let place = Place::with_ring("ES256");
    place.write("patience.toml", "[process]\nboot_timeout = \"1s\"\n[provider]\ndurable = true\n");
    // Kubelet's link between two states: the one thing that may come right in a moment, also for root.
    fs::create_dir(place.path("volume")).unwrap();
    symlink("..gone", place.path("volume/..data")).unwrap();
    let mut args = on_file(&place, "volume");
    args.extend(["--config".to_owned(), place.path("patience.toml").display().to_string()]);
    let (exit, log) = refused(&place, &args);
    assert_eq!(exit, Some(69), "{log}");
    assert!(log.contains("provider.unavailable"), "{log}");
    let attempts = log.lines().filter(|line| line.contains("does not answer yet")).count();
    assert!(attempts >= 1, "one line for each attempt: {log}");
}

#[test]
fn a_taken_address_ends_with_71_and_leaves_the_others_free() {
    let place = Place::with_ring("ES256");
    place.configure("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = place.run(["serve", "--config", "oneseal.toml", "--listen-documents", &address]);
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(71), "{log}");
    assert!(log.contains("listen.in_use"), "{log}");
    assert!(!place.path("admin.sock").exists(), "the admin socket goes again");

    let checked = place.run(["check", "--config", "oneseal.toml", "--listen-documents", &address]);
    assert_eq!(checked.status.code(), Some(71));
    let beside =
        place.run(["check", "--config", "oneseal.toml", "--listen-documents", &address, "--no-bind"]);
    assert_eq!(beside.status.code(), Some(0), "{}", String::from_utf8_lossy(&beside.stdout));
}

#[test]
fn check_reports_what_serve_would_end_with() {
    for case in CASES {
        let place = Place::with_ring("ES256");
        let args = (case.prepare)(&place);
        let checked =
            place.run(["check".to_owned(), "--json".to_owned(), "--no-bind".to_owned()].iter().chain(&args));
        assert_eq!(checked.status.code(), Some(case.exit), "{}", case.name);
        let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
        assert_eq!(report["exit"], case.exit, "{}", case.name);
        let found = report["findings"].as_array().unwrap();
        let names: Vec<_> = found.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
        assert!(names.iter().any(|name| name.starts_with(case.code)), "{}: {names:?}", case.name);
    }
}

#[test]
fn strict_makes_a_warning_an_error_and_explain_says_where_values_come_from() {
    let place = Place::with_ring("ES256");
    place.configure("");
    let relaxed = place.run(["check", "--config", "oneseal.toml"]);
    assert_eq!(relaxed.status.code(), Some(0), "{}", String::from_utf8_lossy(&relaxed.stdout));
    let strict = place.run(["check", "--config", "oneseal.toml", "--strict"]);
    assert_eq!(strict.status.code(), Some(78), "no RS256 is a warning");
    let explained =
        place.run(["check", "--config", "oneseal.toml", "--explain", "--listen-ops", "127.0.0.1:0"]);
    let text = String::from_utf8(explained.stdout).unwrap();
    for part in ["issuer.url = \"https://oidc.example\"", "oneseal.toml:2", "--listen-ops", "default"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_environment_full_of_service_links_boots_without_a_word() {
    let place = Place::with_ring("ES256");
    place.configure("");
    let links = [
        ("ONESEAL_PORT", "tcp://10.0.0.7:8080"),
        ("ONESEAL_SERVICE_HOST", "10.0.0.7"),
        ("ONESEAL_SERVICE_PORT", "8080"),
        ("ONESEAL_SERVICE_PORT_HTTP", "8080"),
        ("ONESEAL_PORT_8080_TCP", "tcp://10.0.0.7:8080"),
        ("ONESEAL_PORT_8080_TCP_ADDR", "10.0.0.7"),
        ("ONESEAL_CONFIG_SERVICE_HOST", "10.0.0.8"),
    ];
    let server = Server::start_with(&place, &[], &links);
    assert!(!server.log().contains("ONESEAL_"), "{}", server.log());
    drop(server);
    let server = Server::start_with(&place, &[], &[("ONESEAL_ISSUER_URL", "https://x.example")]);
    assert!(server.log().contains("ONESEAL__ISSUER__URL"), "a near miss is told: {}", server.log());
}

#[test]
fn the_start_names_every_address_and_the_issuer() {
    let place = Place::with_ring("ES256");
    let server = place.serve("");
    let lines = until("the line", || Some(server.log_lines()).filter(|lines| lines.iter().any(is_serving)));
    let line = lines.iter().find(|line| is_serving(line)).unwrap();
    assert_eq!(line["issuer"], ISSUER);
    assert_eq!(line["documents"], format!("http://{}", server.documents));
    assert_eq!(line["ops"], format!("http://{}", server.ops));
    assert_eq!(line["admin"], server.admin.display().to_string());
}

#[test]
fn a_bare_key_in_a_variable_is_enough() {
    let place = Place::with_ring("ES256");
    let key = place.private_jwk().to_string();
    place.write("oneseal.toml", "[issuer]\nalgorithms = [\"ES256\"]\n[listen]\nadmin = \"none\"\n");
    let args = [
        "--issuer",
        ISSUER,
        "--provider",
        "env:SIGNING_KEY",
        "--listen-documents",
        "127.0.0.1:0",
        "--listen-ops",
        "127.0.0.1:0",
    ];
    let server = Server::start_with(&place, &args, &[("SIGNING_KEY", &key)]);
    let kid = place.ring()["keys"][0]["kid"].clone();
    assert_eq!(get(server.documents, "/.well-known/jwks.json").json()["keys"][0]["kid"], kid);
}

fn is_serving(line: &serde_json::Value) -> bool {
    line["message"] == "serving"
}

/// Runs `serve` on a port of its own to its end, and proves that nobody ever listened there. Gives exit code and log.
fn refused(place: &Place, args: &[String]) -> (Option<i32>, String) {
    let port = free_port();
    let mut command = place.command(["serve", "--listen-ops", "127.0.0.1:0", "--listen-admin"]);
    command.arg(place.path("admin.sock")).args(["--listen-documents", &port.to_string()]).args(args);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let status = until("the server to refuse", || {
        assert!(TcpStream::connect(port).is_err(), "somebody listens at {port}");
        child.try_wait().unwrap()
    });
    let output = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(output.stderr).unwrap())
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// What a connection cannot have is kept back for the key's file, probes and the admin socket, and told.
#[test]
fn too_few_open_files_are_told_and_leave_room_for_the_key() {
    let place = Place::with_ring("ES256");
    place.configure("");
    let mut child = Command::new("bash")
        .args(["-c", "ulimit -n 600; exec \"$0\" serve --config oneseal.toml --ready-file ready.json"])
        .arg(env!("CARGO_BIN_EXE_oneseal"))
        .current_dir(place.path(""))
        .envs([(DURABLE, "true"), (SELF_CHECK, "false")])
        .stderr(File::create(place.path("log")).unwrap())
        .spawn()
        .unwrap();
    until("the server to be ready", || place.path("ready.json").exists().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let log = fs::read_to_string(place.path("log")).unwrap();
    let line =
        log.lines().find(|line| line.contains("may open 600 files")).unwrap_or_else(|| panic!("{log}"));
    // 600 without 256, 128 and 64.
    assert!(line.contains("room for 152 connections of the documents listener in place of 4096"), "{line}");
    assert!(line.contains("a limit of 4544 is enough"), "{line}");
}

#[test]
fn where_no_listener_would_have_enough_files_it_does_not_start() {
    let place = Place::with_ring("ES256");
    place.configure("");
    let output = Command::new("bash")
        .args(["-c", "ulimit -n 100; exec \"$0\" serve --config oneseal.toml --ready-file ready.json"])
        .arg(env!("CARGO_BIN_EXE_oneseal"))
        .current_dir(place.path(""))
        .envs([(DURABLE, "true"), (SELF_CHECK, "false")])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !place.path("ready.json").exists(), "{said}");
    assert!(said.contains("may open 100 files, and a server needs 128"), "{said}");
    assert!(said.contains("ulimit -Hn"), "{said}");
}
