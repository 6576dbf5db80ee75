//! A PgBouncer before a server.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::place::{Part, Place, eventually, free_address, program, skip};
use super::postgres::{PASSWORD, Postgres};

/// When a client's server connection goes back to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// When the client disconnects.
    Session,
    /// When its transaction ends.
    Transaction,
    /// When its statement ends; transactions of several statements are refused.
    Statement,
}

/// A running PgBouncer, which passes every database of one server on under its own name. Dropped, it ends.
///
/// It is set up as its package has it: no startup parameter is ignored, and prepared statements are not its business
/// (before version 1.21 they never were).
#[derive(Debug)]
pub struct PgBouncer {
    program: PathBuf,
    home: PathBuf,
    address: SocketAddr,
    part: Option<Part>,
}

impl PgBouncer {
    /// Before `server`, with `pool_size` connections for each database. `None` where PgBouncer is not installed, which
    /// the test's output then says.
    ///
    /// # Panics
    /// If it does not start, or is missing with `TEST_REQUIRE=all`.
    pub fn start(server: &Postgres, pooling: Pooling, pool_size: u32) -> Option<Self> {
        let elsewhere = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        let Some(program) = program("pgbouncer", &elsewhere) else {
            skip("PgBouncer", "not installed (Debian: apt-get install pgbouncer)");
            return None;
        };
        let place = Place::of_this_process();
        let home = place.directory("bouncer");
        let address = free_address();
        place.write(&home.join("users"), &format!("\"postgres\" \"{PASSWORD}\"\n"));
        place.write(&home.join("pgbouncer.ini"), &config(server, address, pooling, pool_size, &home));
        let mut bouncer = Self { program, home, address, part: None };
        bouncer.start_again();
        Some(bouncer)
    }

    /// Where it listens. [`Database::url_at`](super::Database::url_at) makes the URL.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it: clients are disconnected.
    pub fn stop(&mut self) {
        if let Some(mut part) = self.part.take() {
            part.end(Signal::TERM);
        }
    }

    /// Starts it again after [`PgBouncer::stop`], where it was.
    ///
    /// # Panics
    /// If it does not start, with what it says.
    pub fn start_again(&mut self) {
        let place = Place::of_this_process();
        let mut command = place.command(&self.program);
        command.arg(self.home.join("pgbouncer.ini"));
        let mut part = place.start(command, &self.home.join("log"));
        let state = eventually(|| {
            if part.has_ended() {
                return Some(Err(()));
            }
            TcpStream::connect(self.address).is_ok().then_some(Ok(()))
        });
        assert_eq!(state, Some(Ok(())), "PgBouncer does not start:\n{}", part.log_text());
        self.part = Some(part);
    }

    /// All that it has said so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn config(server: &Postgres, address: SocketAddr, pooling: Pooling, pool_size: u32, home: &Path) -> String {
    let mode = match pooling {
        Pooling::Session => "session",
        Pooling::Transaction => "transaction",
        Pooling::Statement => "statement",
    };
    format!(
        "[databases]
* = host={} port={}
[pgbouncer]
listen_addr = {}
listen_port = {}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {home}/users
admin_users = postgres
pool_mode = {mode}
default_pool_size = {pool_size}
max_client_conn = 200
server_login_retry = 0.2
",
        server.socket_directory().display(),
        server.address().port(),
        address.ip(),
        address.port(),
        home = home.display(),
    )
}
