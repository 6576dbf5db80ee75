//! `oneseal quickstart` as a whole: real replicas, a ring that stays, and what happens when something is in the way.

mod cli_support;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cli_support::{Said, is_alive, oneseal, run, text, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

fn quickstart(dir: &Path) -> Command {
    oneseal(["quickstart", "--dir", text(dir), "--once"])
}

fn as_json(dir: &Path) -> Said {
    run(quickstart(dir).arg("--json"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

/// The processes that a round tells of.
fn pids(told: &Value) -> Vec<u64> {
    let replicas = told["replicas"].as_array().expect("replicas");
    let pids = replicas.iter().map(|replica| replica["pid"].as_u64().expect("a pid"));
    pids.chain(told["kill"]["pid"].as_u64()).collect()
}

/// A quickstart that is under way, with the processes of its replicas. It is killed with its test.
struct Running {
    child: Child,
    pids: Vec<u64>,
}

impl Running {
    /// Started, and caught when all replicas are ready: `count` is large enough for the round to be still under way.
    fn with_replicas(dir: &Path, count: usize) -> Self {
        let mut command = quickstart(dir);
        command.args(["--replicas", &count.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the program starts");
        let pid_of = |number| {
            let ready = fs::read(dir.join(format!("replicas/{number}/ready.json"))).ok()?;
            serde_json::from_slice::<Value>(&ready).ok()?["pid"].as_u64()
        };
        let pids = until("ready replicas", || (1..=count).map(pid_of).collect());
        Self { child, pids }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn three_replicas_are_one_issuer_and_stay_the_same_one() {
    let scratch = TempDir::new().expect("a directory");
    let dir = scratch.path().join("oneseal-data");
    // What configures the operator's own oneseal is not for a quickstart.
    let mut first = quickstart(&dir);
    let first =
        run(first.arg("--json").env("ONESEAL__ISSUER__URL", "https://elsewhere.example")).done().json();
    assert_eq!(first["ok"], true, "{first}");
    assert_eq!(first["summary"], "3 replicas, 1 JWKS, 6 of 6 cross-verifications, kill -9 survived");
    assert_eq!(first["ring"]["created"], true);
    assert_eq!(first["verifications"].as_array().map(Vec::len), Some(6));
    assert_eq!(first["kill"]["jwks"], first["replicas"][0]["jwks"]);
    assert_eq!(first["kill"]["issuer_jwks_meanwhile"], first["issuer_jwks"]);
    assert_ne!(first["kill"]["pid"], first["kill"]["killed_pid"]);
    assert_eq!((mode(&dir), mode(&dir.join("keyring.json"))), (0o700, 0o600));
    for pid in pids(&first) {
        assert!(!is_alive(pid), "replica {pid} has outlived the quickstart");
    }

    let second = as_json(&dir).done().json();
    assert_eq!(second["ring"]["created"], false);
    assert_eq!((&second["issuer"], &second["ring"]["keys"]), (&first["issuer"], &first["ring"]["keys"]));
    assert_eq!(second["issuer_jwks"], first["issuer_jwks"]);

    let ring = format!("file:{}", text(&dir.join("keyring.json")));
    let issuer = first["issuer"].as_str().expect("an issuer");
    let exported = run(&mut oneseal(["keys", "export", "--provider", &ring, "--issuer", issuer])).done();
    let digest = oneseal_keystore::Digest::of(exported.out.as_bytes()).to_string();
    assert_eq!(first["issuer_jwks"]["sha256"], digest.as_str(), "the export is the served JWKS");
}

#[test]
fn without_a_terminal_it_is_one_round_in_plain_text() {
    let dir = TempDir::new().expect("a directory");
    let said = run(&mut oneseal(["quickstart", "--dir", text(dir.path()), "--replicas", "2"])).done();
    assert!(!said.out.contains('\x1b') && !said.err.contains('\x1b'), "{said:?}");
    let lines: Vec<_> = said.out.lines().collect();
    let heading = lines.iter().position(|line| line.starts_with("replica")).expect("a table");
    let digest_at = lines[heading].find("JWKS").expect("a column");
    let digests: Vec<_> =
        lines[heading + 1..heading + 4].iter().map(|line| &line[digest_at..digest_at + 16]).collect();
    assert!(
        digests.iter().all(|digest| *digest == digests[0] && digest.bytes().all(|b| b.is_ascii_hexdigit()))
    );
    assert_eq!(lines[heading + 1].matches('✓').count(), 1, "{said:?}");
    let summary = "2 replicas, 1 JWKS, 2 of 2 cross-verifications, kill -9 survived";
    assert!(lines.contains(&summary), "{said:?}");
}

#[test]
fn a_taken_port_is_a_refusal_and_nothing_is_started() {
    let dir = TempDir::new().expect("a directory");
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = holder.local_addr().expect("bound").port().to_string();
    let said = run(quickstart(dir.path()).args(["--port", &port]));
    said.refused(71, &[&port, "--dir", "--port"]);
    assert!(!dir.path().join("keyring.json").exists() && !dir.path().join("replicas").exists());

    fs::write(dir.path().join("port"), &port).expect("written");
    as_json(dir.path()).refused(71, &[&port, text(&dir.path().join("port")), "--dir"]);
}

#[test]
fn the_issuer_keeps_its_port() {
    let dir = TempDir::new().expect("a directory");
    fs::write(dir.path().join("port"), "20123\n").expect("written");
    run(quickstart(dir.path()).args(["--port", "20124"])).refused(78, &["20123", "20124", "--dir"]);
}

#[test]
fn a_ring_that_is_not_one_is_refused_and_left_as_it_is() {
    for content in ["", "{", "nonsense", r#"{"format":1,"keys":[]}"#] {
        let dir = TempDir::new().expect("a directory");
        let ring = dir.path().join("keyring.json");
        fs::write(dir.path().join("port"), "20125\n").expect("written");
        fs::write(&ring, content).expect("written");
        fs::set_permissions(&ring, Permissions::from_mode(0o600)).expect("set");
        as_json(dir.path()).refused(78, &["cure"]);
        assert_eq!(fs::read_to_string(&ring).expect("there"), content);
        assert!(!dir.path().join("replicas").exists());
    }
}

#[test]
fn a_ring_that_others_can_read_is_refused() {
    let dir = TempDir::new().expect("a directory");
    as_json(dir.path()).done();
    let ring = dir.path().join("keyring.json");
    fs::set_permissions(&ring, Permissions::from_mode(0o644)).expect("set");
    as_json(dir.path()).refused(77, &["provider.exposed", "chmod 0600"]);
}

#[test]
fn a_ring_of_another_issuer_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let ring = format!("file:{}", text(&dir.path().join("keyring.json")));
    let mut init = oneseal(["keys", "init", "--provider", &ring, "--issuer", "https://other.example"]);
    run(init.env("ONESEAL__PROVIDER__DURABLE", "true")).done();
    as_json(dir.path()).refused(78, &["port", "--port"]);
    run(quickstart(dir.path()).args(["--port", "20126"]))
        .refused(78, &["ring.issuer_mismatch", "https://other.example"]);
    assert!(!dir.path().join("port").exists(), "a port that was not the right one is not kept");
}

#[test]
fn one_quickstart_runs_in_a_place() {
    let dir = TempDir::new().expect("a directory");
    let lock = File::create(dir.path().join(".lock")).expect("made");
    lock.try_lock().expect("free");
    as_json(dir.path()).refused(75, &["another quickstart", "--dir"]);
}

#[test]
fn killed_itself_it_leaves_no_replica_and_starts_again() {
    let dir = TempDir::new().expect("a directory");
    let mut running = Running::with_replicas(dir.path(), 6);
    running.signal(Signal::KILL);
    running.child.wait().expect("ends");
    until("the replicas' end", || running.pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
    // What a killed replica leaves where the next one wants to be.
    fs::write(dir.path().join("replicas/1/ready.json"), r#"{"documents":"127.0.0.1:1"}"#).expect("written");
    drop(std::os::unix::net::UnixListener::bind(dir.path().join("replicas/2/admin.sock")));
    as_json(dir.path()).done();
}

#[test]
fn terminated_it_leaves_no_replica() {
    let dir = TempDir::new().expect("a directory");
    let mut running = Running::with_replicas(dir.path(), 6);
    running.signal(Signal::TERM);
    let status = running.child.wait().expect("ends");
    // 0 if the round was over before the signal came.
    assert!(matches!(status.code(), Some(143 | 0)), "{status}");
    until("the replicas' end", || running.pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
}

#[test]
fn a_long_path_is_no_obstacle() {
    let scratch = TempDir::new().expect("a directory");
    let dir = scratch.path().join("d".repeat(120));
    let told = run(quickstart(&dir).args(["--replicas", "2", "--json"])).done().json();
    assert_eq!(told["ok"], true, "{told}");
}
