//! The program in a network of its own, or as a user of its own: what only root can arrange.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::place::{Place, set_mode};

/// A user without rights, as containers have it.
pub(crate) const NOBODY: u32 = 65532;

/// Whether `tools` are there and this is root, who alone may make namespaces and change users. Names what is skipped;
/// tools can be had, so with `TEST_REQUIRE=all` they must be there.
pub(crate) fn can(test: &str, tools: &[&str]) -> bool {
    let is_there = |tool: &&&str| std::env::split_paths(&path()).any(|dir| dir.join(tool).exists());
    let lacking: Vec<_> = tools.iter().filter(|tool| !is_there(tool)).copied().collect();
    if !lacking.is_empty() {
        let why = format!("there is no {}", lacking.join(", no "));
        assert!(std::env::var("TEST_REQUIRE").as_deref() != Ok("all"), "required, but {why}: {test}");
        skipped(test, &why);
        return false;
    }
    let makes = || Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success());
    if !rustix::process::geteuid().is_root() || !makes() {
        skipped(test, "it needs root and namespaces");
        return false;
    }
    true
}

/// Names a test that is not run.
#[expect(clippy::print_stderr, reason = "a skipped test is named in the test's output")]
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("skipped: {test}: {why}");
}

/// System programs are not on everybody's `PATH`.
pub(crate) fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

impl Place {
    /// Gives all of it to [`NOBODY`], with a copy of the program, since the built one may lie where only we can go.
    pub(crate) fn give_away(&self) -> PathBuf {
        let program = self.path("oneseal");
        if !program.exists() {
            fs::copy(env!("CARGO_BIN_EXE_oneseal"), &program).unwrap();
            set_mode(&program, 0o755);
        }
        give(&self.path(""));
        program
    }

    /// `sh -c script` in a network of its own, where nothing is up and every port is free. The script finds what to
    /// start in `"$@"`.
    pub(crate) fn in_network<A: AsRef<OsStr>>(
        &self,
        script: &str,
        program: impl IntoIterator<Item = A>,
    ) -> Command {
        let plain = self.command([""; 0]);
        let mut command = Command::new("unshare");
        command.args(["-n", "--", "sh", "-ec", script, "sh"]).args(program);
        command.current_dir(self.path("")).stdin(Stdio::null()).env("PATH", path());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}
