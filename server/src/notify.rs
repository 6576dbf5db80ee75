//! What a service manager is told, in the protocol of sd_notify(3): ready, busy with what, ending, still alive.
//!
//! The messages are those of the `sd-notify` crate. Sending is ours: the crate knows no abstract sockets, and waits
//! without end, in a worker, for a manager that does not read.
//!
//! The variables stay in our own environment: taking them out is not sound in a program with threads. `serve` starts
//! no program, and what `quickstart` starts is given an environment of its own.

use std::ffi::OsStr;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::net::UnixDatagram;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// A service manager, or none.
#[derive(Clone, Debug)]
pub(crate) struct Notifier {
    manager: Option<Address>,
    watchdog: Option<Duration>,
}

/// Where the manager reads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Path(PathBuf),
    /// The name, without the `@` that stands for its leading zero.
    Abstract(Vec<u8>),
}

impl Notifier {
    /// The one that has started this process: `NOTIFY_SOCKET` and, for this process alone, `WATCHDOG_USEC`.
    pub(crate) fn from_environment() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty());
        let manager = socket.and_then(|socket| {
            let address = Address::of(&socket);
            if address.is_none() {
                tracing::warn!(
                    ?socket,
                    "NOTIFY_SOCKET is neither a path nor an abstract socket; nobody is notified"
                );
            }
            address
        });
        let watchdog = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero() && manager.is_some());
        Self { manager, watchdog }
    }

    /// Nobody is told anything.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { manager: None, watchdog: None }
    }

    /// The server serves. `status` is what `systemctl status` shows.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not have been told.
    pub(crate) async fn ready(&self, status: &str) {
        self.tell(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]).await;
    }

    /// The start goes on, and takes up to `left` longer: the manager's own limit must not end it before ours does.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not have been told.
    pub(crate) async fn waiting(&self, status: &str, left: Duration) {
        let extended = extended(left);
        self.tell(&[NotifyState::Status(&one_line(status)), NotifyState::Custom(&extended)]).await;
    }

    /// The start is refused. The exit code says so too; this one line says why.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not have been told.
    pub(crate) async fn refused(&self, status: &str) {
        self.tell(&[NotifyState::Status(&one_line(status))]).await;
    }

    /// The end has begun and takes up to `left`.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not have been told.
    pub(crate) async fn stopping(&self, status: &str, left: Duration) {
        let extended = extended(left);
        let states =
            [NotifyState::Stopping, NotifyState::Status(&one_line(status)), NotifyState::Custom(&extended)];
        self.tell(&states).await;
    }

    /// Says that we live, twice as often as the manager wants to hear it, for as long as it is polled: it belongs on
    /// the same workers as the connections, so that it falls silent when they no longer get a turn.
    pub(crate) async fn keep_alive(self) {
        let Some(limit) = self.watchdog else { return };
        let mut ticks = interval((limit / 2).max(SHORTEST_TICK));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tell(&[NotifyState::Watchdog]).await;
        }
    }

    /// One datagram. A manager that cannot be told is no reason to end: it ends us itself if it waits for this.
    async fn tell(&self, states: &[NotifyState<'_>]) {
        let Some(manager) = &self.manager else { return };
        let mut text = String::new();
        for state in states {
            // Writing to a string does not fail.
            let _infallible = writeln!(text, "{state}");
        }
        match timeout(PATIENCE, manager.send(text.as_bytes())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the service manager cannot be notified"),
            Err(_) => tracing::warn!("the service manager does not read its notifications"),
        }
    }
}

impl Address {
    /// `/path` or `@abstract`; the other families of newer managers are for virtual machines.
    fn of(socket: &OsStr) -> Option<Self> {
        match socket.as_encoded_bytes() {
            [b'/', ..] => Some(Self::Path(socket.into())),
            [b'@', name @ ..] if !name.is_empty() && cfg!(target_os = "linux") => {
                Some(Self::Abstract(name.to_vec()))
            }
            _ => None,
        }
    }

    /// Each time anew: a manager that restarts makes another socket at the same place.
    async fn send(&self, message: &[u8]) -> io::Result<()> {
        let socket = std::os::unix::net::UnixDatagram::unbound()?;
        match self {
            Self::Path(path) => socket.connect(path)?,
            #[cfg(target_os = "linux")]
            Self::Abstract(name) => {
                use std::os::linux::net::SocketAddrExt;
                socket.connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)?;
            }
            #[cfg(not(target_os = "linux"))]
            Self::Abstract(_) => return Err(io::ErrorKind::Unsupported.into()),
        }
        socket.set_nonblocking(true)?;
        UnixDatagram::from_std(socket)?.send(message).await.map(drop)
    }
}

/// sd_notify(3) separates its assignments by line ends, and what we report may hold some.
fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split(char::is_control).filter(|part| !part.is_empty()).collect();
    words.join(" ")
}

/// With time for the manager to see that we have ended.
fn extended(left: Duration) -> String {
    format!("EXTEND_TIMEOUT_USEC={}", left.saturating_add(MARGIN).as_micros())
}

/// A manager reads at once, and the server has more to do.
const PATIENCE: Duration = Duration::from_secs(1);
/// Beyond what we promise ourselves to need.
const MARGIN: Duration = Duration::from_secs(5);
/// A limit below this is a mistake, and must not keep a processor busy.
const SHORTEST_TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<Address> {
        Address::of(OsStr::new(text))
    }

    #[test]
    fn paths_and_abstract_names_are_understood() {
        assert_eq!(address("/run/notify"), Some(Address::Path("/run/notify".into())));
        #[cfg(target_os = "linux")]
        assert_eq!(address("@/org/notify"), Some(Address::Abstract(b"/org/notify".to_vec())));
        for other in ["", "@", "notify", "vsock:2:9999"] {
            assert_eq!(address(other), None, "{other}");
        }
    }

    #[test]
    fn a_status_cannot_carry_a_second_assignment() {
        assert_eq!(one_line("refused: a\nMAINPID=1\r\n\0b"), "refused: a MAINPID=1 b");
    }

    #[test]
    fn a_span_is_told_in_microseconds_and_with_a_margin() {
        assert_eq!(extended(Duration::from_millis(25_500)), "EXTEND_TIMEOUT_USEC=30500000");
        assert_eq!(extended(Duration::from_secs(7200)), "EXTEND_TIMEOUT_USEC=7205000000", "above 32 bits");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_to_tell_and_a_manager_that_is_gone_hold_nothing_up() {
        Notifier::none().ready("serving").await;
        let gone = Notifier { manager: address("/nonexistent/notify"), watchdog: None };
        gone.ready("serving").await;
        gone.keep_alive().await;
    }

    #[tokio::test]
    async fn a_manager_that_does_not_read_is_given_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let manager = std::os::unix::net::UnixDatagram::bind(&path).expect("bound");
        let sender = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        sender.connect(&path).expect("connected");
        sender.set_nonblocking(true).expect("set");
        while sender.send(b"X=1\n").is_ok() {}
        tokio::time::pause();
        let notifier = Notifier { manager: Some(Address::Path(path)), watchdog: None };
        notifier.ready("serving").await;
        drop(manager);
    }
}
