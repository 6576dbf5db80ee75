//! Z4: what a crash, a debugger and a reader of memory get to see of the private key.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::confined::{NOBODY, can, skipped};
use crate::support::place::{ISSUER, Place};
use crate::support::until;

/// Killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts it and waits for the server's ready file.
fn started(place: &Place, command: &mut Command) -> Killed {
    let ready = place.path("ready.json");
    drop(fs::remove_file(&ready));
    let log = place.path("log");
    let mut child =
        Killed(command.stdout(Stdio::null()).stderr(File::create(&log).unwrap()).spawn().unwrap());
    until("the server to be ready", || {
        if let Some(status) = child.0.try_wait().unwrap() {
            panic!("the server ended with {status}: {}", fs::read_to_string(&log).unwrap());
        }
        ready.exists().then_some(())
    });
    child
}

/// Runs it with the limit of core dumps as high as may be, and kills it with `signal`.
fn killed(place: &Place, more: &[&str], signal: Signal) -> ExitStatus {
    let serve = ["serve", "--config", "oneseal.toml", "--ready-file", "ready.json"];
    let plain = place.command([""; 0]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh"])
        .arg(plain.get_program())
        .args(serve)
        .args(more);
    command.current_dir(place.path("")).stdin(Stdio::null()).env(crate::support::place::DURABLE, "true");
    let mut child = started(place, &mut command);
    until("the server to be dead", || {
        // More than once: of a fault that nobody made, Rust's own handler takes the first for a stray one.
        let _ = kill_process(Pid::from_child(&child.0), signal);
        child.0.try_wait().unwrap()
    })
}

#[test]
fn a_crash_leaves_no_core_whatever_the_limit_was() {
    let place = Place::with_ring("ES256");
    place.configure("");
    // Whether this system dumps at all: where it does not, the test below could not fail.
    let dying = ["-c", "ulimit -c unlimited; kill -ABRT $$"];
    let dumps = Command::new("sh").args(dying).current_dir(place.path("")).status().unwrap().core_dumped();
    if !dumps {
        skipped("core dumps", "this system makes none for anybody");
    }
    for signal in [Signal::SEGV, Signal::ABORT, Signal::QUIT, Signal::BUS] {
        let status = killed(&place, &[], signal);
        assert_eq!(status.signal(), Some(signal.as_raw()));
        assert!(!status.core_dumped(), "{signal:?}");
    }
    let allowed = killed(&place, &["--allow-debugging"], Signal::ABORT);
    assert_eq!(allowed.core_dumped(), dumps, "who asks for it gets it");
}

/// The same user may look into every process of theirs, unless the process has said no.
#[test]
fn another_process_of_the_same_user_cannot_read_its_memory_or_environment() {
    if !can("memory of another process", &["setpriv"]) {
        return;
    }
    let place = Place::with_ring("ES256");
    place.configure("");
    let program = place.give_away();
    let id = NOBODY.to_string();
    let as_nobody = |words: &[&OsStr]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            &id,
            "--regid",
            &id,
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ]);
        command.args(words).current_dir(place.path("")).stdin(Stdio::null());
        command.env(crate::support::place::DURABLE, "true");
        command
    };
    // Opening `mem` takes the right that attaching a debugger takes, and `environ` the one to look (ptrace(2), "Ptrace
    // access mode checking").
    let may = |child: &Killed, file: &str| {
        let open = format!("exec 3</proc/{}/{file} && head -c 1 <&3 >/dev/null", child.0.id());
        let open = if file == "mem" { format!("exec 3</proc/{}/mem", child.0.id()) } else { open };
        let words = ["sh", "-c", &open].map(OsStr::new);
        as_nobody(&words).stderr(Stdio::null()).status().unwrap().success()
    };
    let serve = ["serve", "--config", "oneseal.toml", "--ready-file", "ready.json"].map(OsStr::new);
    let words = [&[program.as_os_str()], serve.as_slice()].concat();
    let mut child = started(&place, &mut as_nobody(&words));
    for file in ["mem", "environ", "maps", "auxv"] {
        assert!(!may(&child, file), "{file}");
    }
    kill_process(Pid::from_child(&child.0), Signal::INT).unwrap();
    assert_eq!(until("the end", || child.0.try_wait().unwrap()).code(), Some(0));

    let words = [words.as_slice(), &[OsStr::new("--allow-debugging")]].concat();
    let child = started(&place, &mut as_nobody(&words));
    assert!(may(&child, "environ"), "who allows it allows it");
    // Yama lets parents alone attach where it is on.
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    assert_eq!(may(&child, "mem"), ["", "0"].contains(&yama.trim()));
    drop(child);
}

/// One private key in all its spellings.
struct Key {
    jwk: Value,
}

impl Key {
    fn member(&self, name: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(self.jwk[name].as_str().unwrap()).unwrap()
    }

    /// RFC 8017, A.1.2.
    fn pkcs1(&self) -> Vec<u8> {
        let numbers = ["n", "e", "d", "p", "q", "dp", "dq", "qi"].map(|name| integer(&self.member(name)));
        tagged(0x30, &[integer(&[0]), numbers.concat()].concat())
    }

    fn pem(&self) -> String {
        let text = STANDARD.encode(self.pkcs1());
        let lines: Vec<_> =
            text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n", lines.join("\n"))
    }
}

fn integer(octets: &[u8]) -> Vec<u8> {
    let is_high = octets[0] >= 0x80;
    tagged(2, &[if is_high { &[0][..] } else { &[] }, octets].concat())
}

/// X.690, with lengths up to 65535.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let length = match (high, low) {
        (0, low) if low < 0x80 => vec![low],
        (0, low) => vec![0x81, low],
        (high, low) => vec![0x82, high, low],
    };
    [&[tag], length.as_slice(), content].concat()
}

/// Every piece of memory that the process may write, but for `[stack]`, where the kernel has put the environment.
fn memory(pid: u32) -> Vec<(String, Vec<u8>)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mem = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw") && !line.ends_with("[stack]")) {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        if mem.read_exact_at(&mut bytes, from).is_ok() {
            found.push((line.to_owned(), bytes));
        }
    }
    found
}

fn count(bytes: &[u8], needle: &[u8]) -> usize {
    let mut rest = bytes;
    let mut found = 0;
    while let Some(at) = rest.iter().position(|byte| *byte == needle[0]) {
        found += usize::from(rest[at..].starts_with(needle));
        rest = &rest[at + 1..];
    }
    found
}

/// What the primitive has to keep is the numbers, in its own form. The texts and octets from which they were read must
/// be gone when the server serves. A value that was given directly is kept once, by its provider, which may be asked for
/// it again.
#[test]
fn nothing_of_what_the_key_was_read_from_stays_in_memory() {
    if !can("a scan of memory", &[]) {
        return;
    }
    let place = Place::with_ring("RS256");
    let key = Key { jwk: place.private_jwk() };
    let (pem, der, jwk) = (key.pem(), key.pkcs1(), key.jwk.to_string());
    let listen = "[listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = \"none\"\n";
    let configuration =
        |provider: &str| format!("[issuer]\nurl = \"{ISSUER}\"\n[provider]\n{provider}\n{listen}");
    place.write("key.pem", &pem);
    place.write("key.jwk", &jwk);
    let file = |name: &str| format!("kind = \"file\"\npath = \"{}\"", place.path(name).display());
    let base64 = STANDARD.encode(&der);
    // What is given directly, and so kept, stands last.
    let cases = [
        ("PEM in a file", file("key.pem"), ""),
        ("a JWK in a file", file("key.jwk"), ""),
        ("a ring document in a file", file("ring.json"), ""),
        ("PEM in the configuration", format!("kind = \"inline\"\nvalue = \"\"\"{pem}\"\"\""), pem.as_str()),
        (
            "base64 of DER in a variable",
            "kind = \"env\"\nvariable = \"SIGNING_KEY\"".to_owned(),
            base64.as_str(),
        ),
    ];
    let p = key.member("p");
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let middle = |text: &str| text.as_bytes()[text.len() / 2..text.len() / 2 + 40].to_vec();
    let needles = [
        ("a line of the PEM", pem.lines().nth(12).unwrap().as_bytes().to_vec()),
        ("the base64", middle(&body)),
        ("p of the JWK", middle(key.jwk["p"].as_str().unwrap())),
        ("d of the JWK", middle(key.jwk["d"].as_str().unwrap())),
        ("the octets of p", p[10..50].to_vec()),
        ("the octets of d", key.member("d")[100..140].to_vec()),
    ];
    for (case, provider, given) in cases {
        place.write("memory.toml", &configuration(&provider));
        let mut command = place.command(["serve", "--config", "memory.toml", "--ready-file", "ready.json"]);
        command.arg("--allow-debugging");
        command.env("SIGNING_KEY", if provider.contains("SIGNING_KEY") { given } else { "none" });
        let child = started(&place, &mut command);
        // What a thread has in its hands while it is looked at goes with the next look; what stays, stays.
        until(&format!("{case} to be gone from memory"), || {
            let memory = memory(child.0.id());
            // That we look in the right place: the public number is there.
            let n = middle(key.jwk["n"].as_str().unwrap());
            assert!(memory.iter().any(|(_, bytes)| count(bytes, &n) > 0), "{case}: the JWKS is in memory");
            let left: Vec<_> = needles
                .iter()
                .filter_map(|(what, needle)| {
                    let times: usize = memory.iter().map(|(_, bytes)| count(bytes, needle)).sum();
                    let kept = count(given.as_bytes(), needle);
                    (times != kept).then(|| format!("{case}: {what} is there {times} times, not {kept}"))
                })
                .collect();
            if !left.is_empty() {
                eprintln!("{left:?}");
            }
            left.is_empty().then_some(())
        });
    }
}
