//! `oneseal quickstart` as a whole: real replicas, a ring that stays, and what happens when something is in the way.

mod cli_support;

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cli_support::{Said, is_alive, oneseal, run, text, until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use tempfile::TempDir;

fn quickstart(dir: &Path) -> Command {
    oneseal(["quickstart", "--dir", text(dir), "--once"])
}

fn as_json(dir: &Path) -> Said {
    run(quickstart(dir).arg("--json"))
}

/// A port that was free a moment ago.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port().to_string()
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

/// The process of a replica that is ready.
fn pid_of(dir: &Path, number: usize) -> Option<u64> {
    let ready = fs::read(dir.join(format!("replicas/{number}/ready.json"))).ok()?;
    serde_json::from_slice::<Value>(&ready).ok()?["pid"].as_u64()
}

fn kill_nine(pid: u64) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it is there");
}

/// A quickstart that is under way, with the processes of its replicas. It is killed with its test.
struct Running {
    child: Child,
    pids: Vec<u64>,
}

impl Running {
    /// Started, and caught when all replicas are ready: `count` is large enough for the round to be still under way.
    fn with_replicas(dir: &Path, count: usize) -> Self {
        Self::start(quickstart(dir), dir, count)
    }

    fn start(mut command: Command, dir: &Path, count: usize) -> Self {
        command.args(["--replicas", &count.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the program starts");
        let pids = until("ready replicas", || (1..=count).map(|number| pid_of(dir, number)).collect());
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

/// Secrets may have any name, so a replica gets only what is known to be none. Root alone may look: a replica does not
/// let others of its own user.
#[cfg(target_os = "linux")]
#[test]
fn replicas_get_an_environment_without_secrets() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the environment of replicas (only root can read it)");
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let mut command = quickstart(dir.path());
    let canary = "canary-of-the-environment";
    for name in [
        "SIGNING_KEY",
        "ONESEAL__PROVIDER__VALUE",
        "ONESEAL__PROVIDER__VALUE_FILE",
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "CREDENTIALS_DIRECTORY",
        "AWS_SECRET_ACCESS_KEY",
    ] {
        command.env(name, canary);
    }
    command.env("ONESEAL__PROVIDER__URI", "env:SIGNING_KEY").env("TZ", "Europe/Zurich");
    let running = Running::start(command, dir.path(), 2);
    for pid in &running.pids {
        let environment = fs::read(format!("/proc/{pid}/environ")).expect("root may read it");
        let environment = String::from_utf8(environment).expect("text");
        assert!(environment.contains("TZ=Europe/Zurich"), "it is a whole environment: {environment:?}");
        assert!(!environment.contains(canary) && !environment.contains("SIGNING_KEY"), "{environment:?}");
    }
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
    let holder = TcpListener::bind("127.0.0.1:0").expect("a free port");
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
    fs::write(dir.path().join("port"), "8123\n").expect("written");
    run(quickstart(dir.path()).args(["--port", "8124"])).refused(78, &["8123", "8124", "--dir"]);
}

#[test]
fn a_ring_that_is_not_one_is_refused_and_left_as_it_is() {
    for content in ["", "{", "nonsense", r#"{"format":1,"keys":[]}"#] {
        let dir = TempDir::new().expect("a directory");
        let ring = dir.path().join("keyring.json");
        fs::write(dir.path().join("port"), free_port()).expect("written");
        fs::write(&ring, content).expect("written");
        fs::set_permissions(&ring, Permissions::from_mode(0o600)).expect("set");
        as_json(dir.path()).refused(78, &["cure"]);
        assert_eq!(fs::read_to_string(&ring).expect("there"), content);
        assert!(!dir.path().join("replicas").exists());
    }
}

#[test]
fn a_ring_that_has_gone_is_not_made_again() {
    let dir = TempDir::new().expect("a directory");
    as_json(dir.path()).done();
    let ring = dir.path().join("keyring.json");
    fs::remove_file(&ring).expect("removed");
    as_json(dir.path()).refused(78, &["is gone", "restore it"]);
    assert!(!ring.exists());
}

#[test]
fn a_ring_that_others_can_read_is_refused() {
    let dir = TempDir::new().expect("a directory");
    as_json(dir.path()).done();
    let ring = dir.path().join("keyring.json");
    fs::set_permissions(&ring, Permissions::from_mode(0o644)).expect("set");
    as_json(dir.path()).refused(78, &["provider.exposed", "chmod 0600"]);
}

#[test]
fn a_ring_of_another_issuer_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let ring = format!("file:{}", text(&dir.path().join("keyring.json")));
    let mut init = oneseal(["keys", "init", "--provider", &ring, "--issuer", "https://other.example"]);
    run(init.env("ONESEAL__PROVIDER__DURABLE", "true")).done();
    as_json(dir.path()).refused(78, &["port", "--port"]);
    run(quickstart(dir.path()).args(["--port", &free_port()]))
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

#[test]
fn a_replica_that_is_gone_is_a_difference() {
    let dir = TempDir::new().expect("a directory");
    let mut command = quickstart(dir.path());
    let child = command.args(["--replicas", "9", "--json"]).stdout(Stdio::piped()).spawn().expect("starts");
    // The last one: everything is asked of it last, so it is dead by then.
    kill_nine(until("the last replica", || pid_of(dir.path(), 9)));
    let output = child.wait_with_output().expect("ends");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &told["ok"]), (Some(1), &Value::from(false)), "{told}");
    let differences = told["differences"].as_array().expect("differences");
    assert!(
        differences.iter().all(|told| told.as_str().is_some_and(|told| told.contains("replica 9"))),
        "{told}"
    );
    assert!(!differences.is_empty() && told["kill"].is_null(), "{told}");
}

#[test]
fn on_a_terminal_it_lives_until_ctrl_c_and_revives_what_is_killed() {
    let dir = TempDir::new().expect("a directory");
    let mut terminal = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("granted");
    let name = ptsname(&terminal, Vec::new()).expect("named").into_string().expect("UTF-8");
    let screen = File::options().read(true).write(true).open(name).expect("opened");
    let mut command = oneseal(["quickstart", "--dir", text(dir.path()), "--replicas", "2"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR").stdout(screen);
    let mut child = command.spawn().expect("starts");
    // The last open screen is the child's: with it the terminal's reader ends.
    drop(command);

    let mut shown = String::new();
    let mut read_until = |what: &str| {
        let mut buffer = [0; 4096];
        while !shown.contains(what) {
            let read =
                terminal.read(&mut buffer).unwrap_or_else(|error| panic!("{error}, no {what}: {shown}"));
            shown.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        shown.clone()
    };
    let first = read_until("2 rounds so far");
    assert!(first.contains("\x1b[") && first.contains("kill -9"), "{first}");
    kill_nine(pid_of(dir.path(), 1).expect("it is ready"));
    read_until("1 restart, replica 1 last");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
    read_until("ended:");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert!((1..=2).all(|number| pid_of(dir.path(), number).is_none()), "a replica has not ended in order");
}
