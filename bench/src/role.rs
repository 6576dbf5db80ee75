//! Yardsticks that are small servers of our own run in a process of their own, like every other contender: the bench
//! starts itself with `--role NAME`.

use std::net::SocketAddr;
use std::process::{Command, ExitCode};

use crate::child::Child;
use crate::{hyper_raw, in_handler};

/// What this program can be besides a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// [`hyper_raw`].
    HyperRaw,
    /// [`in_handler`].
    InHandler,
}

impl Role {
    const ALL: [Self; 2] = [Self::HyperRaw, Self::InHandler];

    fn as_str(self) -> &'static str {
        match self {
            Self::HyperRaw => "hyper-raw",
            Self::InHandler => "in-handler",
        }
    }

    /// Starts this program in the role, with one argument of its own.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn start(self, argument: &std::ffi::OsStr) -> (Child, SocketAddr) {
        let own = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(own);
        command.args(["--role", self.as_str()]).arg(argument);
        Child::start_serving(&mut command).unwrap_or_else(|error| panic!("{}: {error}", self.as_str()))
    }
}

/// Plays the role that the command line asks for, if it asks for one: the first thing in `main`.
pub fn play() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip_while(|argument| argument != "--role").skip(1);
    let name = arguments.next()?;
    let role = Role::ALL.into_iter().find(|role| name == role.as_str()).expect("a role of ours");
    let argument = arguments.next().expect("the role's argument");
    match role {
        Role::HyperRaw => hyper_raw::serve(argument.as_ref()),
        Role::InHandler => in_handler::serve(argument.as_ref()),
    }
    Some(ExitCode::SUCCESS)
}
