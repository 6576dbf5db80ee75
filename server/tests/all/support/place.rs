//! A directory with a ring and a configuration.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::server::Server;

/// The issuer of every test: nothing listens there, and nothing has to.
pub(crate) const ISSUER: &str = "https://oidc.example";

/// Says that a place is durable that does not look like it.
pub(crate) const DURABLE: &str = "ONESEAL__PROVIDER__DURABLE";

/// Whether a start asks its issuer's URL, which here would be a question to the network of whoever runs the tests.
/// What comes of asking is tested on loopback: `gate/tests/`, and `self_check.rs` of the workspace's tests.
pub(crate) const SELF_CHECK: &str = "ONESEAL__ISSUER__SELF_CHECK";

/// A directory of a test's own.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    /// With nothing in it.
    pub(crate) fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// With a ring for these algorithms.
    pub(crate) fn with_ring(algorithms: &str) -> Self {
        let place = Self::empty();
        let ring = format!("file:{}", place.path("ring.json").display());
        let made = place.run(["keys", "init", "--provider", &ring, "--issuer", ISSUER, "--alg", algorithms]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        place
    }

    /// With an ES256 ring whose times are those of a laboratory.
    pub(crate) fn with_lab_ring() -> Self {
        let place = Self::empty();
        let ring = format!("file:{}", place.path("ring.json").display());
        let mut init =
            place.command(["keys", "init", "--provider", &ring, "--issuer", ISSUER, "--alg", "ES256"]);
        let made = init.arg("--yes").env("ONESEAL__ROTATION__PRESET", "lab").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        set_mode(&path, 0o600);
        path
    }

    pub(crate) fn ring(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("ring.json")).unwrap()).unwrap()
    }

    /// The private half of the ring's first key, as JWK.
    pub(crate) fn private_jwk(&self) -> Value {
        self.ring()["keys"][0]["private"].clone()
    }

    /// Configuration for a server on this ring with ES256, free ports, the admin socket in this directory, and
    /// `more`, whole tables.
    pub(crate) fn configure(&self, more: &str) -> PathBuf {
        let text = format!(
            "[issuer]\nurl = \"{ISSUER}\"\nalgorithms = [\"ES256\"]\n\
             [provider]\nkind = \"file\"\npath = \"{}\"\n\
             [listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = \"{}\"\n{more}\n",
            self.path("ring.json").display(),
            self.path("admin.sock").display(),
        );
        self.write("oneseal.toml", &text)
    }

    /// A server on a ring with an ES256 key.
    pub(crate) fn serve(&self, more: &str) -> Server {
        self.configure(more);
        Server::start(self, &[])
    }

    /// The program, in this directory and an environment with two words of ours: that this directory will do for a key,
    /// which may lie in memory or in a container's own layer where tests run, and that nobody else is asked.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oneseal"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONESEAL"))
        {
            command.env_remove(name);
        }
        command.env(DURABLE, "true").env(SELF_CHECK, "false");
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.command(args).output().unwrap()
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
