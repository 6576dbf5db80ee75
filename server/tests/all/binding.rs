//! Every way an address is not to be had, in a network of the test's own: each with its code and its cure, whose texts
//! are golden.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output};

use serde_json::Value;

use crate::support::confined::{NOBODY, can, path};
use crate::support::place::{Place, set_mode};
use crate::support::until;

const TOOLS: &[&str] = &["unshare", "nsenter", "setpriv", "ip", "sysctl"];
const UP: &str = "ip link set lo up; exec \"$@\"";
/// As an administrator switches it off on a running host.
const WITHOUT_IPV6: &str = "ip link set lo up; sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.lo.disable_ipv6=1; exec \"$@\"";

/// The program as [`NOBODY`], with or without the one capability.
fn as_nobody(may_bind: bool) -> Vec<String> {
    let id = NOBODY.to_string();
    let capabilities = if may_bind { "-all,+net_bind_service" } else { "-all" };
    let mut words = vec!["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--no-new-privs"];
    words.extend(["--bounding-set", capabilities, "--inh-caps", capabilities]);
    if may_bind {
        words.extend(["--ambient-caps", "+net_bind_service"]);
    }
    words.into_iter().map(str::to_owned).collect()
}

fn serve(program: &str, documents: &str, ops: &str) -> Vec<String> {
    let words = [program, "serve", "--config", "oneseal.toml", "--log-format", "human"];
    let listen = ["--listen-documents", documents, "--listen-ops", ops, "--ready-file", "ready.json"];
    words.into_iter().chain(listen).map(str::to_owned).collect()
}

fn place() -> (Place, String) {
    let place = Place::with_ring("ES256");
    place.configure("");
    let program = place.give_away().display().to_string();
    (place, program)
}

/// A server in a network of its own. Killed when dropped.
struct Apart {
    child: Child,
    told: Value,
    log: PathBuf,
}

impl Apart {
    fn start(place: &Place, script: &str, words: &[String]) -> Self {
        let (log, ready) = (place.path("log"), place.path("ready.json"));
        let mut child = place.in_network(script, words).stderr(File::create(&log).unwrap()).spawn().unwrap();
        let told = until("the server to be ready", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the server ended with {status}: {}", fs::read_to_string(&log).unwrap());
            }
            serde_json::from_slice(&fs::read(&ready).ok()?).ok()
        });
        Self { child, told, log }
    }

    /// A command in the same network.
    fn beside(&self, place: &Place, words: &[String]) -> Command {
        let mut command = place.in_network("", [""; 0]);
        let pid = self.child.id().to_string();
        let mut inside = Command::new("nsenter");
        inside.args(["-t", &pid, "-n", "--"]).args(words).env("PATH", path()).current_dir(place.path(""));
        for (name, value) in command.env_remove("PATH").get_envs() {
            value.map(|value| inside.env(name, value));
        }
        inside
    }

    /// Whether it answers at this address of its ops listener.
    fn answers(&self, place: &Place, program: &str, address: &str) -> bool {
        let words = [program, "healthcheck", "--ops", address].map(str::to_owned);
        self.beside(place, &words).output().unwrap().status.success()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What it has said of the addresses, with the test's own directory taken out.
fn refusal(place: &Place, output: Output) -> String {
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(71), "{said}");
    assert!(!place.path("ready.json").exists());
    // Before it stand the log lines of the key, which has passed.
    let said = &said[said.find("error listen.").unwrap()..];
    said.replace(&*place.path("").to_string_lossy(), "DIR/")
}

#[test]
fn each_refusal_names_the_address_and_its_own_cure() {
    if !can("refusals of addresses", TOOLS) {
        return;
    }
    let (place, program) = place();
    let root = |documents: &str, ops: &str| serve(&program, documents, ops);
    let nobody = |documents: &str, ops: &str| [as_nobody(false), serve(&program, documents, ops)].concat();
    let mut told = String::new();
    let mut tell = |heading: &str, output: Output| {
        told.push_str(&format!("## {heading}\n{}\n", refusal(&place, output)));
    };

    let without = place.in_network(WITHOUT_IPV6, root("[::1]:8080", "[::1]:8081")).output().unwrap();
    tell("a host without IPv6", without);
    let local = place.in_network(UP, root("192.0.2.1:8080", "[2001:db8::1]:8081")).output().unwrap();
    tell("addresses of another host", local);
    let low = place.in_network(UP, nobody("0.0.0.0:443", "[::]:80")).output().unwrap();
    tell("privileged ports without the right", low);
    tell("one address twice", place.in_network(UP, root("[::]:8080", "127.0.0.1:8080")).output().unwrap());
    let first = Apart::start(&place, UP, &root("127.0.0.1:8080", "[::]:8081"));
    fs::remove_file(place.path("ready.json")).unwrap();
    let mut second = root("127.0.0.1:8080", "127.0.0.1:8081");
    second.extend(["--listen-admin".to_owned(), "none".to_owned()]);
    tell("both ports in use", first.beside(&place, &second).output().unwrap());
    drop(first);
    fs::create_dir(place.path("closed")).unwrap();
    set_mode(&place.path("closed"), 0o755);
    let mut closed = nobody("127.0.0.1:8080", "127.0.0.1:8081");
    closed.extend(["--listen-admin".to_owned(), place.path("closed/admin.sock").display().to_string()]);
    tell("an admin socket in somebody else's directory", place.in_network(UP, closed).output().unwrap());

    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/binding.txt");
    if std::env::var_os("TEST_BLESS").is_some() {
        fs::write(golden, &told).unwrap();
    }
    assert_eq!(told, fs::read_to_string(golden).unwrap(), "TEST_BLESS=1 writes it anew");
}

/// Switched off in a running kernel, `[::]` can still be bound and takes IPv4.
#[test]
fn all_addresses_are_those_of_ipv4_where_ipv6_is_switched_off() {
    if !can("a host without IPv6", TOOLS) {
        return;
    }
    let (place, program) = place();
    let server = Apart::start(&place, WITHOUT_IPV6, &serve(&program, "[::]:8080", "[::]:8081"));
    assert!(server.answers(&place, &program, "127.0.0.1:8081"));
    assert!(!server.answers(&place, &program, "[::1]:8081"));
}

#[test]
fn privileged_ports_take_one_capability_or_one_sysctl() {
    if !can("privileged ports", TOOLS) {
        return;
    }
    let open = format!("sysctl -qw net.ipv4.ip_unprivileged_port_start=0; {UP}");
    for (script, may_bind) in [(UP, true), (open.as_str(), false)] {
        let (place, program) = place();
        let words = [as_nobody(may_bind), serve(&program, "[::]:443", "[::]:80")].concat();
        let server = Apart::start(&place, script, &words);
        assert_eq!(server.told["documents"], "[::]:443");
        assert!(server.answers(&place, &program, "127.0.0.1:80"), "{:?}", fs::read_to_string(&server.log));
    }
}

#[test]
fn port_zero_is_a_port_of_the_systems_choice_for_each_listener() {
    if !can("port 0", TOOLS) {
        return;
    }
    let (place, program) = place();
    let server = Apart::start(&place, UP, &serve(&program, "127.0.0.1:0", "127.0.0.1:0"));
    let address = |name: &str| server.told[name].as_str().unwrap().to_owned();
    assert_ne!(address("documents"), address("ops"));
    assert!(!address("ops").ends_with(":0"));
    assert!(server.answers(&place, &program, &address("ops")));
}
