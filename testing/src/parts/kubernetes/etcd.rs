//! The store behind an API server.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::super::place::{Part, Place, eventually, free_address};
use super::tail;

/// A running etcd with one member. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Etcd {
    program: PathBuf,
    home: PathBuf,
    address: SocketAddr,
    part: Option<Part>,
}

impl Etcd {
    /// One that lives in `home` and is not started yet.
    pub(super) fn new(program: PathBuf, home: PathBuf) -> Self {
        Self { program, home, address: free_address(), part: None }
    }

    /// Without TLS.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn start_again(&mut self) {
        let place = Place::of_this_process();
        let mut command = place.own_command(&self.program);
        command.arg("--data-dir").arg(self.data());
        for flag in ["--listen-client-urls", "--advertise-client-urls"] {
            command.arg(flag).arg(self.url());
        }
        // No other member ever calls it there.
        command.args(["--listen-peer-urls", "http://127.0.0.1:0"]);
        // It has nobody to lose an election to, and need not wait for others when it starts again.
        command.args(["--heartbeat-interval", "10", "--election-timeout", "100"]);
        // A crash of the program loses nothing without it, only one of the machine.
        command.arg("--unsafe-no-fsync");
        let mut part = place.start(command, &self.home.join("etcd.log"));
        let state = eventually(|| {
            if part.has_ended() {
                return Some(Err(()));
            }
            TcpStream::connect(self.address).is_ok().then_some(Ok(()))
        });
        assert_eq!(state, Some(Ok(())), "etcd does not start:\n{}", tail(&part.log_text()));
        self.part = Some(part);
    }

    pub(super) fn stop(&mut self, signal: Signal) {
        if let Some(mut part) = self.part.take() {
            part.end(signal);
        }
    }

    /// Copies what it has stored to `copy`, stopped in its tracks: as after a crash, what was acknowledged is there.
    pub(super) fn copy_to(&self, copy: &Path) {
        let part = self.part.as_ref().expect("etcd is running");
        part.pause();
        copy_directory(&self.data(), copy);
        part.signal(Signal::CONT);
    }

    /// Takes `copy` for what it has stored. It must not be running.
    pub(super) fn take(&self, copy: &Path) {
        std::fs::remove_dir_all(self.data()).expect("the store can be removed");
        copy_directory(copy, &self.data());
    }

    fn data(&self) -> PathBuf {
        self.home.join("etcd")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop(Signal::KILL);
    }
}

fn copy_directory(from: &Path, to: &Path) {
    let place = Place::of_this_process();
    let mut command = place.own_command(Path::new("cp"));
    command.args(["-a", "--reflink=auto"]).arg(from).arg(to);
    place.run(command);
}
