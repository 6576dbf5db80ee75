//! Who is at the other end of a connection to the admin API.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::unix::UCred;

/// The other end, by whose word we know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The process that opened a Unix socket, as it was at that moment, by the kernel's word (`SO_PEERCRED`, unix(7)).
    Local {
        /// Its user.
        uid: u32,
        /// Its group.
        gid: u32,
        /// Its number, where the system tells it.
        pid: Option<i32>,
    },
    /// Nobody knows who, over TCP.
    Remote(Ends),
    /// The holder of one of `admin.tokens`.
    Token {
        /// The token's name.
        name: Arc<str>,
        /// Where the connection comes from: it may be a proxy.
        peer: SocketAddr,
    },
}

/// Both ends of a TCP connection, with IPv4 as IPv4 also where the socket is of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Theirs.
    pub(crate) peer: SocketAddr,
    /// Ours.
    pub(crate) local: SocketAddr,
}

impl Ends {
    /// Of these addresses.
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Self { peer: canonical(peer), local: canonical(local) }
    }
}

impl From<UCred> for Caller {
    fn from(credentials: UCred) -> Self {
        Self::Local { uid: credentials.uid(), gid: credentials.gid(), pid: credentials.pid() }
    }
}

/// `uid:1000 gid:1000 pid:4711`, `127.0.0.1:50000`, `token:ci 127.0.0.1:50000`.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { uid, gid, pid } => {
                write!(f, "uid:{uid} gid:{gid}")?;
                pid.map_or(Ok(()), |pid| write!(f, " pid:{pid}"))
            }
            Self::Remote(ends) => write!(f, "{}", ends.peer),
            Self::Token { name, peer } => write!(f, "token:{name} {peer}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_caller_has_one_text() {
        let address = |text: &str| text.parse().expect("an address");
        let ends = Ends::new(address("[::ffff:10.1.2.3]:5"), address("[::1]:9090"));
        assert_eq!(Caller::Remote(ends).to_string(), "10.1.2.3:5");
        let token = Caller::Token { name: "ci".into(), peer: ends.peer };
        assert_eq!(token.to_string(), "token:ci 10.1.2.3:5");
        assert_eq!(Caller::Local { uid: 1, gid: 2, pid: None }.to_string(), "uid:1 gid:2");
        assert_eq!(Caller::Local { uid: 1, gid: 2, pid: Some(3) }.to_string(), "uid:1 gid:2 pid:3");
    }
}
