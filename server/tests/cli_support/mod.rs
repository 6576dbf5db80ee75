//! The program under test, run as a person would: arguments in, exit code and texts out.
#![expect(dead_code, reason = "each test file uses its part of it")]

pub(crate) mod issuer;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The program with `arguments`, in an environment that holds nothing of ours.
pub(crate) fn oneseal<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oneseal"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONESEAL")) {
        command.env_remove(name);
    }
    command
}

/// What a run has said.
#[derive(Debug)]
pub(crate) struct Said {
    /// The exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Said {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the exit code and that standard error has each of `words`.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.told().contains(word), "{word}: {self:?}");
        }
    }

    /// Where a failure is told: on standard error, for scripts on standard output.
    fn told(&self) -> &str {
        if self.err.is_empty() { &self.out } else { &self.err }
    }

    /// Asserts that it went well.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }
}

/// Runs it to its end.
pub(crate) fn run(command: &mut Command) -> Said {
    Said::of(command.output().expect("the program starts"))
}

/// Runs it to its end with `input` on standard input.
pub(crate) fn run_with(command: &mut Command, input: &str) -> Said {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // A program that ends without reading is not at fault here.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    Said::of(child.wait_with_output().expect("ends"))
}

/// Looks until `state` says something: waiting for a state, not for a time.
///
/// # Panics
/// After ten times what the slowest has been seen to take on a busy machine.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut state: impl FnMut() -> Option<T>) -> T {
    const LOOKS: u32 = 6_000;
    let (_held, never) = std::sync::mpsc::channel::<()>();
    for _ in 0..LOOKS {
        if let Some(found) = state() {
            return found;
        }
        // Only the pause between two looks.
        let _ = never.recv_timeout(std::time::Duration::from_millis(10));
    }
    panic!("waited a minute for {what}");
}

/// Whether process `pid` is there and no zombie.
pub(crate) fn is_alive(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// A path as an argument or a URI has it.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Where nobody listens: whoever reaches the replica has been led there by `--connect-to`.
pub(crate) const ISSUER: &str = "http://127.0.0.1:9";

/// Configuration of a replica that mints.
pub(crate) const MINTING: &str = "[admin]\nmint = true\nmint_audiences = [\"rp\"]\n";

/// A replica with a key of its own, killed with its test.
pub(crate) struct Replica {
    /// Its ring, configuration and socket.
    pub(crate) dir: TempDir,
    /// Its process.
    pub(crate) child: Child,
    ready: Value,
}

impl Replica {
    pub(crate) fn start(mint: &str) -> Self {
        Self::start_as(ISSUER, mint)
    }

    pub(crate) fn start_as(issuer: &str, mint: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
        let provider = format!("file:{}", path("keyring.json"));
        let mut init =
            oneseal(["keys", "init", "--issuer", issuer, "--provider", &provider, "--alg", "ES256"]);
        run(init.env("ONESEAL__PROVIDER__DURABLE", "true")).done();
        let configuration = format!(
            "[issuer]\nurl = {issuer:?}\nalgorithms = [\"ES256\"]\n\
             [provider]\nkind = \"file\"\npath = {:?}\ndurable = true\n\
             [listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = {:?}\n{mint}",
            path("keyring.json"),
            path("admin.sock"),
        );
        fs::write(path("oneseal.toml"), configuration).expect("written");
        let mut serve =
            oneseal(["serve", "--config", &path("oneseal.toml"), "--ready-file", &path("ready.json")]);
        let child = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        let ready =
            until("a ready replica", || serde_json::from_slice(&fs::read(path("ready.json")).ok()?).ok());
        Self { dir, child, ready }
    }

    pub(crate) fn minting() -> Self {
        Self::start(MINTING)
    }

    pub(crate) fn admin(&self) -> std::path::PathBuf {
        self.dir.path().join("admin.sock")
    }

    pub(crate) fn address(&self, listener: &str) -> &str {
        self.ready[listener].as_str().expect("an address")
    }

    pub(crate) fn mint(&self, more: &[&str]) -> Said {
        run(oneseal(["mint", "--admin", text(&self.admin()), "--sub", "pod", "--aud", "rp"]).args(more))
    }

    pub(crate) fn verify(&self, token: &str, more: &[&str]) -> Said {
        let connect_to = self.address("documents");
        let arguments = ["verify", "-", "--issuer", ISSUER, "--connect-to", connect_to];
        run_with(oneseal(arguments).args(more), token)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
