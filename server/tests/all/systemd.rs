//! The unit that ships, judged by systemd and run by it: a real systemd as process 1 of namespaces of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::confined::{can, path, skipped};
use crate::support::place::{ISSUER, Place};
use crate::support::within;

const TOOLS: &[&str] = &["unshare", "ip", "systemd-analyze", "systemctl"];

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd").canonicalize().unwrap()
}

fn has(tool: &str) -> bool {
    if std::env::split_paths(&path()).any(|dir| dir.join(tool).exists()) {
        return true;
    }
    assert!(std::env::var("TEST_REQUIRE").as_deref() != Ok("all"), "required, but there is no {tool}");
    skipped("the judgement of the unit", &format!("there is no {tool}"));
    false
}

/// The unit as it ships, but for the place of the program, which is not installed here.
fn judged(args: &[&str]) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let unit = fs::read_to_string(units().join("oneseal.service")).unwrap();
    let ours =
        unit.replace("ExecStart=/usr/bin/oneseal", concat!("ExecStart=", env!("CARGO_BIN_EXE_oneseal")));
    assert_ne!(unit, ours, "the unit starts the program");
    let at = dir.path().join("oneseal.service");
    fs::write(&at, ours).unwrap();
    let told = Command::new("systemd-analyze").args(args).arg("--no-pager").arg(&at).output().unwrap();
    let text = [told.stdout, told.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (told.status.success(), text)
}

#[test]
fn systemd_finds_nothing_to_say_about_the_unit() {
    if !has("systemd-analyze") {
        return;
    }
    let (is_good, said) = judged(&["verify"]);
    let said: Vec<_> = said.lines().filter(|line| line.contains("oneseal")).collect();
    assert!(is_good && said.is_empty(), "{said:?}");
    // Of 10, where 10 is a program that may do everything. What is left is the network, which it is there for.
    let (is_good, said) = judged(&["security", "--offline=true", "--threshold=15"]);
    println!("{}", said.lines().last().unwrap_or_default());
    assert!(is_good, "{said}");
}

/// Restarts cannot cure what these exit codes say, and the time to end must be longer than the server's own.
#[test]
fn the_unit_and_the_server_agree_on_exit_codes_and_times() {
    let unit = fs::read_to_string(units().join("oneseal.service")).unwrap();
    let setting = |name: &str| {
        unit.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(setting("RestartPreventExitStatus"), "64 77 78");
    assert_eq!((setting("Type"), setting("Restart")), ("notify", "on-failure"));
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
    let docs = fs::read_to_string(docs).unwrap();
    for (key, limit) in [("shutdown_timeout", "TimeoutStopSec"), ("boot_timeout", "TimeoutStartSec")] {
        let row = docs.lines().find(|line| line.starts_with(&format!("| `{key}`"))).unwrap();
        let default = row.split_once("`\"").unwrap().1.split_once('"').unwrap().0;
        assert!(seconds(default) < seconds(setting(limit)), "{limit}: {row}");
    }
}

/// Of `25s` or `1m`.
fn seconds(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.len() - 1);
    number.parse::<u64>().unwrap() * if unit == "m" { 60 } else { 1 }
}

/// A host that systemd runs. Everything in it ends when this is dropped.
struct Host {
    child: Child,
    place: Place,
}

impl Host {
    /// With the unit, `drop_in` beside it, this key and configuration, and `script` for a shell that systemd starts.
    fn start(configuration: &str, drop_ins: &[(&str, &str)], script: &str) -> Self {
        let place = Place::with_ring("ES256");
        fs::copy(place.path("ring.json"), place.path("signing-key")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_oneseal"), place.path("oneseal")).unwrap();
        place.write(
            "oneseal.toml",
            &format!("[issuer]\nurl = \"{ISSUER}\"\nalgorithms = [\"ES256\"]\n{configuration}\n"),
        );
        fs::create_dir(place.path("oneseal.service.d")).unwrap();
        // There is no journal here.
        place.write("oneseal.service.d/log.conf", "[Service]\nStandardError=append:/run/host/log\n");
        for (name, text) in drop_ins {
            place.write(&format!("oneseal.service.d/{name}"), text);
        }
        place.write("test.sh", &format!("{HELPERS}{script}\necho end\n"));
        let boot = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/systemd/boot.sh");
        let child = Command::new("unshare")
            .args(["--pid", "--fork", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--mount-proc"])
            .args(["--kill-child", "sh", boot])
            .args([place.path(""), units()])
            .env("PATH", path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(place.path("boot")).unwrap())
            .spawn()
            .unwrap();
        Self { child, place }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.place.path(name)).unwrap_or_default()
    }

    /// What the script has said when it is done.
    fn said(&mut self) -> String {
        within(std::time::Duration::from_secs(60), "the script to end", || {
            let (ended, said) = (self.child.try_wait().unwrap(), self.read("said"));
            let all = || format!("{said}\n{}\n{}", self.read("boot"), self.read("log"));
            assert!(ended.is_none(), "systemd has ended: {}", all());
            assert!(!said.contains("gave up"), "{}", all());
            said.lines().any(|line| line == "end").then_some(said)
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// `show PROPERTY`, and `until PROPERTY=VALUE`, which gives up after some 30 seconds.
const HELPERS: &str = r#"
show() { systemctl show oneseal -p "$1"; }
until_is() {
    looks=0
    until [ "$(show "${1%%=*}")" = "$1" ]; do
        looks=$((looks + 1))
        if [ $looks -gt 300 ]; then echo "gave up: $1"; systemctl status oneseal --no-pager; exit 1; fi
        sleep 0.1
    done
}
status_of() { grep -E '^(Uid|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' "/proc/$1/status"; }
pid() { systemctl show oneseal -p MainPID --value; }
"#;

/// Whether this system lets us have a host of our own.
fn can_host(test: &str) -> bool {
    let cgroups =
        "mount --make-rprivate /; umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup";
    if !can(test, TOOLS) {
        return false;
    }
    let made = Command::new("unshare")
        .args(["--mount", "--cgroup", "sh", "-c", cgroups])
        .stderr(Stdio::null())
        .status();
    let is_there =
        ["/lib/systemd/systemd", "/usr/lib/systemd/systemd"].iter().any(|path| Path::new(path).exists());
    if !is_there || !made.is_ok_and(|status| status.success()) {
        skipped(test, "no systemd can be run in namespaces here");
        return false;
    }
    true
}

#[test]
fn under_the_unit_it_starts_serves_and_stops_without_any_right() {
    if !can_host("the unit under systemd") {
        return;
    }
    let script = r#"
systemctl start oneseal
show ActiveState; show SubState; show StatusText; show NRestarts
status_of "$(pid)"
grep 'Max core file size' "/proc/$(pid)/limits"
oneseal healthcheck --ops 127.0.0.1:8081 && echo ready
stat -c '%a %F' /run/oneseal/admin.sock
systemctl stop oneseal
show ActiveState; show Result; show ExecMainStatus
ls /run/oneseal /run/credentials/oneseal.service 2>&1 || :
"#;
    let mut host = Host::start("[process]\ndrain_delay = \"0s\"", &[], script);
    let said = host.said();
    for line in [
        "ActiveState=active",
        "SubState=running",
        "NRestarts=0",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "ready",
        "600 socket",
        "ActiveState=inactive",
        "Result=success",
        "ExecMainStatus=0",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}\n{}", host.read("log"));
    }
    let uid = said.lines().find_map(|line| line.strip_prefix("Uid:\t")).unwrap();
    assert!(!uid.starts_with("0\t"), "{said}");
    assert!(said.contains("StatusText=serving https://oidc.example with 1 active key"), "{said}");
    let core: Vec<_> =
        said.lines().find(|line| line.starts_with("Max core")).unwrap().split_whitespace().collect();
    assert_eq!(&core[4..6], ["0", "0"]);
    let log = host.read("log");
    assert!(!log.contains("could not be denied"), "{log}");
    assert!(!log.contains("ephemeral") && !log.contains("provider.") && !log.contains("listen."), "{log}");
}

#[test]
fn port_443_takes_the_drop_in_and_no_more() {
    if !can_host("the drop-in for low ports") {
        return;
    }
    let drop_in = fs::read_to_string(units().join("low-ports.conf")).unwrap();
    let script = r#"
systemctl start oneseal
show StatusText
status_of "$(pid)"
oneseal healthcheck --ops 127.0.0.1:8081 && echo ready
"#;
    let listen = "[listen]\ndocuments = \"[::]:443\"";
    let mut host = Host::start(listen, &[("low-ports.conf", &drop_in)], script);
    let said = host.said();
    for line in ["CapEff:\t0000000000000400", "CapBnd:\t0000000000000400", "NoNewPrivs:\t1", "ready"] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert!(said.contains("documents http://[::]:443"), "{said}");
    drop(host);
    // Without it the refusal is final: 71 is none of 64, 77, 78, but the address stays as it is.
    let script = "systemctl start oneseal || echo failed\nshow ExecMainStatus\nshow StatusText";
    let said = Host::start(listen, &[], script).said();
    assert!(said.contains("failed") && said.contains("ExecMainStatus=71"), "{said}");
    assert!(said.contains("StatusText=refused to start: listen.privileged"), "{said}");
}

/// `RestrictAddressFamilies=` is how a process meets a kernel without IPv6.
#[test]
fn without_the_address_family_all_addresses_are_those_of_ipv4() {
    if !can_host("a process without AF_INET6") {
        return;
    }
    let families = "[Service]\nRestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX AF_INET\n";
    let script =
        "systemctl start oneseal\nshow StatusText\noneseal healthcheck --ops 127.0.0.1:8081 && echo ready";
    let mut host = Host::start("", &[("families.conf", families)], script);
    let said = host.said();
    assert!(
        said.contains("documents http://0.0.0.0:8080, ops http://0.0.0.0:8081") && said.contains("\nready"),
        "{said}"
    );
    assert!(host.read("log").contains("listen.no_ipv6"), "{}", host.read("log"));
    drop(host);
    let script = "systemctl start oneseal || echo failed\nshow StatusText";
    let listen = "[listen]\ndocuments = \"[::1]:8080\"";
    let said = Host::start(listen, &[("families.conf", families)], script).said();
    assert!(said.contains("failed") && said.contains("listen.ipv6_missing"), "{said}");
}

#[test]
fn a_crash_and_a_standstill_are_restarted_and_a_refusal_is_not() {
    if !can_host("restarts") {
        return;
    }
    let quick = "[Service]\nRestartSec=100ms\nWatchdogSec=1s\nTimeoutAbortSec=1s\n";
    let script = r#"
systemctl start oneseal
kill -KILL "$(pid)"
until_is NRestarts=1
until_is SubState=running
kill -STOP "$(pid)"
until_is NRestarts=2
until_is SubState=running
oneseal healthcheck --ops 127.0.0.1:8081 && echo ready
systemctl stop oneseal
echo 'no key' >/etc/oneseal/signing-key
systemctl reset-failed oneseal || :
systemctl start oneseal || echo failed
until_is ActiveState=failed
show ExecMainStatus; show NRestarts; show StatusText
"#;
    let mut host = Host::start("[process]\ndrain_delay = \"0s\"", &[("quick.conf", quick)], script);
    let said = host.said();
    for line in ["ready", "failed", "ExecMainStatus=78", "NRestarts=0"] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}\n{}", host.read("log"));
    }
    assert!(said.contains("StatusText=refused to start: key."), "{said}");
}
