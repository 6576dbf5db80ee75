//! A process of ours that ends with the bench.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child as Process, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// It is told to end, and waited for, when this is dropped.
#[derive(Debug)]
pub struct Child {
    process: Process,
    /// Kept open: who writes to a closed pipe may end of it.
    _said: Option<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts it, with nothing to read.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        Ok(Self { process: command.stdin(Stdio::null()).spawn()?, _said: None })
    }

    /// Starts it and reads the address that it serves at, which is the first line of its output that is one.
    ///
    /// # Errors
    /// It cannot be started, or ended without one.
    pub fn start_serving(command: &mut Command) -> Result<(Self, SocketAddr), String> {
        let mut child = Self::start(command.stdout(Stdio::piped())).map_err(|error| error.to_string())?;
        let mut said = BufReader::new(child.process.stdout.take().ok_or("no pipe")?);
        let address = said.by_ref().lines().map_while(Result::ok).find_map(|line| line.parse().ok());
        child._said = Some(said);
        Ok((child, address.ok_or("it ended without serving anywhere")?))
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If the kernel does not say.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("a child").is_some()
    }
}

impl Drop for Child {
    /// In order, so that children of its own end too.
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        drop(self.process.wait());
    }
}
