//! Who is at the other end of a Unix socket, by the kernel's word.

use std::fmt;

use tokio::net::unix::UCred;

/// The process that opened the connection, as it was at that moment (`SO_PEERCRED`, unix(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Its user.
    pub(crate) uid: u32,
    /// Its group.
    pub(crate) gid: u32,
    /// Its number, where the system tells it.
    pub(crate) pid: Option<i32>,
}

impl From<UCred> for Caller {
    fn from(credentials: UCred) -> Self {
        Self { uid: credentials.uid(), gid: credentials.gid(), pid: credentials.pid() }
    }
}

/// `uid:1000 gid:1000 pid:4711`.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid:{} gid:{}", self.uid, self.gid)?;
        match self.pid {
            Some(pid) => write!(f, " pid:{pid}"),
            None => Ok(()),
        }
    }
}
