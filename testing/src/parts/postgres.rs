//! A PostgreSQL server of one's own, its standbys, and what can happen to them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::place::{Part, Place, eventually, free_address, program, skip};
use super::psql::Database;

/// How a server is set up.
///
/// # Defaults
/// No TLS, the settings of [`SETTINGS`].
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    /// Lines of `postgresql.conf`, such as `("max_connections", "10")`.
    pub settings: Vec<(String, String)>,
    /// With one, TCP is answered with TLS alone.
    pub certificate: Option<Certificate>,
}

/// What a server shows to its clients, in PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The server's certificate, then the intermediate ones.
    pub chain: String,
    /// Its private key.
    pub key: String,
}

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Clients are disconnected, transactions rolled back, and a checkpoint is written (SIGINT).
    Fast,
    /// As in a crash: nothing is said to clients, and the next start recovers (SIGQUIT).
    Immediate,
}

/// A running PostgreSQL. Dropped, it ends and leaves nothing behind.
///
/// Its superuser `postgres` has a password over TCP ([`Postgres::url`]) and none over the socket.
#[derive(Debug)]
pub struct Postgres {
    programs: Programs,
    home: PathBuf,
    address: SocketAddr,
    part: Option<Part>,
}

/// What every test that asks for no other server shares.
const SETTINGS: &[(&str, &str)] = &[
    // A crash of the server loses nothing without it, only one of the machine.
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("shared_buffers", "16MB"),
    ("max_connections", "150"),
    ("superuser_reserved_connections", "10"),
    ("max_wal_senders", "8"),
    ("wal_level", "replica"),
    ("hot_standby", "on"),
    // A standby asks for its first bytes again soon.
    ("wal_retrieve_retry_interval", "100ms"),
    ("listen_addresses", "'127.0.0.1'"),
    ("logging_collector", "off"),
    ("log_destination", "stderr"),
    ("password_encryption", "'scram-sha-256'"),
];

impl Postgres {
    /// The server that all tests of this process share; each takes a database of its own. It cannot be stopped.
    ///
    /// `None` where PostgreSQL is not installed, which the test's output then says.
    ///
    /// # Panics
    /// If it does not start, or is missing with `TEST_REQUIRE=all`.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(PostgresOptions::default())).as_ref()
    }

    /// A server of the test's own. `None` where PostgreSQL is not installed, which the test's output then says.
    ///
    /// # Panics
    /// If it does not start, or is missing with `TEST_REQUIRE=all`.
    pub fn start(options: PostgresOptions) -> Option<Self> {
        let programs = Programs::find()?;
        let place = Place::of_this_process();
        let home = place.directory("pg");
        let copy = ["-a", "--reflink=auto"];
        let mut command = place.command(Path::new("cp"));
        command.args(copy).arg(programs.template()).arg(home.join(DATA));
        place.run(command);
        let ssl = options.certificate.as_ref().map(|certificate| {
            place.write(&home.join(DATA).join("server.crt"), &certificate.chain);
            place.write(&home.join(DATA).join("server.key"), &certificate.key);
            ("ssl".to_owned(), "on".to_owned())
        });
        let host = if ssl.is_some() { "hostssl" } else { "host" };
        let settings: Vec<_> = options.settings.into_iter().chain(ssl).collect();
        write_access(&home, host);
        let mut server = Self { programs, home, address: free_address(), part: None };
        server.write_settings(&settings);
        server.start_again();
        Some(server)
    }

    /// The database `postgres` over TCP, with the password.
    pub fn url(&self) -> String {
        self.database("postgres").url()
    }

    /// The database `postgres` over the server's socket.
    pub fn socket_url(&self) -> String {
        self.database("postgres").socket_url()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The directory of its socket.
    pub fn socket_directory(&self) -> &Path {
        &self.home
    }

    /// A new, empty database with a name of its own.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn create_database(&self) -> Database {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.execute(&format!("CREATE DATABASE {name} STRATEGY file_copy"));
        self.database(&name)
    }

    /// The database `name`, which may not exist yet.
    pub fn database(&self, name: &str) -> Database {
        Database::new(self.programs.file("psql"), self.home.clone(), self.address, name)
    }

    /// Runs `sql` as the superuser in the database `postgres`, each statement by itself. See [`Database::execute`].
    ///
    /// # Panics
    /// If the server does not answer or refuses it, with what it says.
    pub fn execute(&self, sql: &str) -> String {
        self.database("postgres").execute(sql)
    }

    /// Stops it. Its port stays its own.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&mut self, how: Stop) {
        if let Some(mut part) = self.part.take() {
            part.end(match how {
                Stop::Fast => Signal::INT,
                Stop::Immediate => Signal::QUIT,
            });
        }
    }

    /// Starts it again after [`Postgres::stop`], where it was, and returns when it takes connections.
    ///
    /// # Panics
    /// If it does not start, with what it says.
    pub fn start_again(&mut self) {
        let place = Place::of_this_process();
        let mut command = place.command(&self.programs.file("postgres"));
        command.arg("-D").arg(self.home.join(DATA));
        command.arg("-c").arg(format!("port={}", self.address.port()));
        command.arg("-k").arg(&self.home);
        let mut part = place.start(command, &self.home.join("log"));
        let pid_file = self.home.join(DATA).join("postmaster.pid");
        let state = eventually(|| {
            let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
            let status = text.lines().nth(7).map(str::trim);
            if part.has_ended() {
                return Some(Err(()));
            }
            matches!(status, Some("ready" | "standby")).then_some(Ok(()))
        });
        assert_eq!(state, Some(Ok(())), "PostgreSQL does not start:\n{}", part.log_text());
        self.part = Some(part);
    }

    /// [`Postgres::stop`], then [`Postgres::start_again`].
    ///
    /// # Panics
    /// As they do.
    pub fn restart(&mut self, how: Stop) {
        self.stop(how);
        self.start_again();
    }

    /// Stops every process of it in its tracks (SIGSTOP): connections stay open, nothing answers.
    pub fn pause(&self) {
        if let Some(part) = &self.part {
            part.signal_all(Signal::STOP);
        }
    }

    /// Ends [`Postgres::pause`].
    pub fn resume(&self) {
        if let Some(part) = &self.part {
            part.signal_all(Signal::CONT);
        }
    }

    /// Reads `postgresql.auto.conf` and the files of access and TLS again.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn reload(&self) {
        self.execute("SELECT pg_reload_conf()");
    }

    /// A server that follows this one by streaming, up to date when this returns.
    ///
    /// # Panics
    /// If it cannot be made, with what the programs say.
    #[must_use = "it ends when it is dropped"]
    pub fn standby(&self) -> Self {
        let place = Place::of_this_process();
        let home = place.directory("pg");
        let mut command = place.command(&self.programs.file("pg_basebackup"));
        command.args(["--no-sync", "--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf"]);
        command.args(["--username=postgres", "--port", &self.address.port().to_string(), "--host"]);
        command.arg(&self.home).arg("--pgdata").arg(home.join(DATA));
        place.run(command);
        let mut standby = Self { programs: self.programs.clone(), home, address: free_address(), part: None };
        standby.start_again();
        standby.catch_up(self);
        standby
    }

    /// Waits until this standby has replayed all that `primary` has written so far.
    ///
    /// # Panics
    /// If it does not come that far.
    pub fn catch_up(&self, primary: &Self) {
        let written = primary.execute("SELECT pg_current_wal_lsn()");
        let question = format!("SELECT coalesce(pg_last_wal_replay_lsn() >= '{written}', false)");
        let there = eventually(|| (self.execute(&question) == "t").then_some(()));
        assert!(there.is_some(), "the standby does not come to {written}:\n{}", self.log_text());
    }

    /// Cuts this standby off from its primary for good: what that writes from now on never comes here.
    ///
    /// # Panics
    /// If the stream does not end.
    pub fn cut_off(&self) {
        self.execute("ALTER SYSTEM SET primary_conninfo = ''");
        self.reload();
        let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
        let ended = eventually(|| (self.execute(receivers) == "0").then_some(()));
        assert!(ended.is_some(), "the stream goes on:\n{}", self.log_text());
    }

    /// Makes this standby a primary, with what it has received.
    ///
    /// # Panics
    /// If it does not become one.
    pub fn promote(&self) {
        assert_eq!(self.execute("SELECT pg_promote(true, 30)"), "t", "{}", self.log_text());
    }

    /// All that it has said so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    fn write_settings(&self, more: &[(String, String)]) {
        let usual = SETTINGS.iter().map(|(name, value)| format!("{name} = {value}\n"));
        let own = more.iter().map(|(name, value)| format!("{name} = {value}\n"));
        let text: String = usual.chain(own).collect();
        Place::of_this_process().write(&self.home.join(DATA).join("postgresql.conf"), &text);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its data is of no use to anybody: no checkpoint.
        self.stop(Stop::Immediate);
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// The superuser's over TCP. It is for tests, on the loopback address.
pub(super) const PASSWORD: &str = "correct-horse-battery";

const DATA: &str = "data";

fn write_access(home: &Path, host: &str) {
    let text = format!(
        "local all all trust\n\
         local replication all trust\n\
         {host} all all 127.0.0.1/32 scram-sha-256\n\
         {host} replication all 127.0.0.1/32 scram-sha-256\n"
    );
    Place::of_this_process().write(&home.join(DATA).join("pg_hba.conf"), &text);
}

/// The programs of one PostgreSQL.
#[derive(Clone, Debug)]
struct Programs {
    bin: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        // What PATH has may be a wrapper or a link to one of them.
        let on_path =
            program("postgres", &[]).and_then(|file| file.canonicalize().ok()?.parent().map(Path::to_owned));
        let has_all = |bin: &PathBuf| NEEDED.iter().all(|name| bin.join(name).is_file());
        let bin = directories().into_iter().chain(on_path).find(has_all);
        if bin.is_none() {
            skip("PostgreSQL", "not installed (Debian: apt-get install postgresql)");
        }
        bin.map(|bin| Self { bin })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// A data directory that servers of this process start from: copying one is twenty times faster than making one.
    fn template(&self) -> &'static Path {
        static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
        TEMPLATE.get_or_init(|| {
            let place = Place::of_this_process();
            let home = place.directory("template");
            let password = home.join("password");
            place.write(&password, PASSWORD);
            let mut command: Command = place.command(&self.file("initdb"));
            command.args(["--no-sync", "--no-locale", "--encoding=UTF8", "--username=postgres"]);
            command.args(["--auth=trust", "--pwfile"]).arg(&password).arg("--pgdata").arg(home.join(DATA));
            place.run(command);
            home.join(DATA)
        })
    }
}

/// What is run here.
const NEEDED: &[&str] = &["postgres", "initdb", "pg_basebackup", "psql"];

/// Where distributions put the programs that are not for everybody, the newest version first.
fn directories() -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for versions in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        if let Some(version) = versions.file_name().to_str().and_then(|name| name.parse().ok()) {
            found.push((version, versions.path().join("bin")));
        }
    }
    found.sort_unstable_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, path)| path).collect()
}
