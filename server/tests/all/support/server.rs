//! A running server.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::http::{Answer, Client};
use super::place::Place;
use super::until;

/// Killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) documents: SocketAddr,
    pub(crate) ops: SocketAddr,
    pub(crate) admin: PathBuf,
    log: PathBuf,
}

impl Server {
    /// Starts `serve --config oneseal.toml` with further arguments and waits until it is ready.
    pub(crate) fn start(place: &Place, args: &[&str]) -> Self {
        Self::start_with(place, args, &[])
    }

    /// The same, with variables in its environment.
    pub(crate) fn start_with(place: &Place, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let (ready, log) = (place.path("ready.json"), place.path("log"));
        // Left by a server that was killed.
        drop(fs::remove_file(&ready));
        let mut command = place.command(["serve", "--config", "oneseal.toml", "--ready-file", "ready.json"]);
        command
            .args(args)
            .envs(variables.iter().copied())
            .stderr(File::create(&log).unwrap())
            .stdout(Stdio::piped());
        if args.contains(&"--exit-on-stdin-eof") {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        let addresses: Value = until("the server to be ready", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the server ended with {status}: {}", fs::read_to_string(&log).unwrap());
            }
            serde_json::from_slice(&fs::read(&ready).ok()?).ok()
        });
        let address = |name: &str| addresses[name].as_str().unwrap().parse().unwrap();
        assert_eq!(addresses["pid"], child.id());
        Self {
            documents: address("documents"),
            ops: address("ops"),
            admin: place.path("admin.sock"),
            child,
            log,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// One request to the admin socket.
    pub(crate) fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        let headers = [("Content-Type", "application/json")];
        let headers = if body.is_empty() { &[][..] } else { &headers[..] };
        Client::unix(&self.admin).unwrap().ask(method, path, headers, body).unwrap()
    }

    pub(crate) fn mint(&self, body: &str) -> Answer {
        self.admin("POST", "/admin/v1/mint", body)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Closes the server's standard input.
    pub(crate) fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the server to end", || self.child.try_wait().unwrap())
    }

    /// Everything it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The log lines so far that are whole.
    pub(crate) fn log_lines(&self) -> Vec<Value> {
        let log = self.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
