//! The replicas: real `oneseal serve` processes, one home each, ended with this process however it ends.
//!
//! A replica's standard input is a pipe that is never written to. It closes when this process ends, by whatever
//! cause, and the replica ends on that; so a `kill -9` of the quickstart leaves no process behind, and no unsafe call
//! before `exec` is needed. Each is in a process group of its own: the Ctrl-C of a terminal reaches the quickstart
//! alone, which then ends them in order.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use oneseal_keystore::IssuerUrl;
use serde::Deserialize;
use tokio::process::{Child, Command};

use super::forwarder::Backends;
use super::place::Place;
use crate::exit::{Exit, Failure};

/// The audience that the replicas mint for.
pub(crate) const AUDIENCE: &str = "quickstart";

/// All replicas, by index; their numbers are one higher.
#[derive(Debug)]
pub(crate) struct Fleet {
    replicas: Vec<Replica>,
    backends: Backends,
}

impl Fleet {
    /// Starts `count` replicas of `issuer` at once and waits until each serves.
    ///
    /// # Errors
    /// One of them did not come up; the others are ended.
    ///
    /// # Cancel safety
    /// Dropping the future kills what has been started.
    pub(crate) async fn start(
        place: &Place,
        issuer: &IssuerUrl,
        count: usize,
        backends: Backends,
    ) -> Result<Self, Failure> {
        let mut launched = Vec::with_capacity(count);
        for number in 1..=count {
            launched.push(Launch::prepare(place, issuer, number)?.spawn()?);
        }
        let mut replicas = Vec::with_capacity(count);
        for starting in launched {
            let replica = starting.ready().await?;
            backends.set(replica.launch.number - 1, Some(replica.documents));
            replicas.push(replica);
        }
        Ok(Self { replicas, backends })
    }

    /// Each replica, in order.
    pub(crate) fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// Whether one of them has ended that has not been started again.
    pub(crate) fn has_lost_one(&mut self) -> bool {
        self.replicas.iter_mut().any(Replica::has_ended)
    }

    /// Kills replica `index` with SIGKILL and waits until it is gone. Until [`Fleet::revive`] it is missing.
    ///
    /// # Errors
    /// The system did not kill it.
    ///
    /// # Cancel safety
    /// The signal may have been sent.
    pub(crate) async fn kill(&mut self, index: usize) -> Result<(), Failure> {
        let Some(replica) = self.replicas.get_mut(index) else { return Ok(()) };
        let number = replica.launch.number;
        let killed = replica.child.kill().await;
        killed.map_err(|error| Failure::internal(format!("replica {number} cannot be killed")).because(error))
    }

    /// Starts every replica again that has ended, and says which.
    ///
    /// # Errors
    /// One of them did not come up again.
    ///
    /// # Cancel safety
    /// A replica that was on its way is killed; the next call starts it.
    pub(crate) async fn revive(&mut self) -> Result<Vec<usize>, Failure> {
        let mut revived = Vec::new();
        for (index, replica) in self.replicas.iter_mut().enumerate() {
            if !replica.has_ended() {
                continue;
            }
            self.backends.set(index, None);
            *replica = replica.launch.clone().spawn()?.ready().await?;
            self.backends.set(index, Some(replica.documents));
            revived.push(index);
        }
        Ok(revived)
    }

    /// Ends all replicas: asks by closing their input, and kills what is still there after a while.
    ///
    /// # Cancel safety
    /// Dropping the future kills what is still there.
    pub(crate) async fn stop(self) {
        let mut ending = self.replicas;
        for replica in &mut ending {
            drop(replica.child.stdin.take());
        }
        let all = async {
            for replica in &mut ending {
                // It was ours to wait for, and nobody is left who would act on how it ended.
                drop(replica.child.wait().await);
            }
        };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            for replica in &mut ending {
                drop(replica.child.kill().await);
            }
        }
    }
}

/// One running replica.
#[derive(Debug)]
pub(crate) struct Replica {
    launch: Launch,
    child: Child,
    pid: u32,
    documents: SocketAddr,
}

impl Replica {
    /// Its number, from 1.
    pub(crate) fn number(&self) -> usize {
        self.launch.number
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Where it serves discovery and JWKS.
    pub(crate) fn documents(&self) -> SocketAddr {
        self.documents
    }

    /// Its admin socket.
    pub(crate) fn admin(&self) -> &Path {
        &self.launch.admin
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// What is needed to start a replica, and to start it again.
#[derive(Clone, Debug)]
struct Launch {
    number: usize,
    home: PathBuf,
    admin: PathBuf,
}

impl Launch {
    /// Writes the replica's configuration and begins its log anew: it would grow with every quickstart.
    fn prepare(place: &Place, issuer: &IssuerUrl, number: usize) -> Result<Self, Failure> {
        let launch = Self { number, home: place.home(number)?, admin: place.admin_socket(number) };
        let text = configuration(issuer, &place.ring(), &launch.admin);
        for (file, text) in [(launch.config(), text.as_str()), (launch.log(), "")] {
            fs::write(&file, text).map_err(|error| unwritable(&file, error))?;
        }
        Ok(launch)
    }

    fn spawn(self) -> Result<Starting, Failure> {
        // Left by a process that was killed: the one would mislead us, the other the replica.
        for stale in [self.ready_file(), self.admin.clone()] {
            match fs::remove_file(&stale) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(&stale, error)),
                _ => {}
            }
        }
        let log = File::options().create(true).append(true).open(self.log());
        let log = log.map_err(|error| unwritable(&self.log(), error))?;
        let log_begins = log.metadata().map_or(0, |metadata| metadata.len());
        let output = log.try_clone().map_err(|error| unwritable(&self.log(), error))?;
        let program = std::env::current_exe();
        let program =
            program.map_err(|error| Failure::internal("our own program is not found").because(error))?;
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg("--config")
            .arg(self.config())
            .arg("--ready-file")
            .arg(self.ready_file())
            .arg("--exit-on-stdin-eof")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true);
        // What configures the operator's own oneseal is not for these, and neither are secrets, of which our own
        // environment may hold any number under any name.
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_passed_on(name)));
        let child = command.spawn();
        let child = child.map_err(|error| Failure::internal("a replica cannot be started").because(error))?;
        Ok(Starting { launch: self, child, log_begins })
    }

    fn config(&self) -> PathBuf {
        self.home.join("oneseal.toml")
    }

    fn ready_file(&self) -> PathBuf {
        self.home.join("ready.json")
    }

    fn log(&self) -> PathBuf {
        self.home.join("log")
    }
}

/// What a replica may need of our environment: where things are, and how to speak.
fn is_passed_on(variable: &OsStr) -> bool {
    variable.to_str().is_some_and(|name| PASSED_ON.contains(&name))
}

/// A replica that does not serve yet.
#[derive(Debug)]
struct Starting {
    launch: Launch,
    child: Child,
    log_begins: u64,
}

impl Starting {
    async fn ready(mut self) -> Result<Replica, Failure> {
        let pid = self.child.id().ok_or_else(|| self.failed("ended at once", None))?;
        match tokio::time::timeout(READY_TIMEOUT, self.wait()).await {
            Ok(Ok(ready)) => {
                Ok(Replica { launch: self.launch, child: self.child, pid, documents: ready.documents })
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(self.failed(&format!("is not ready after {} s", READY_TIMEOUT.as_secs()), None)),
        }
    }

    /// Until the ready file is there, or the process is not any more.
    async fn wait(&mut self) -> Result<Ready, Failure> {
        loop {
            // Asked before the file is read: a file that is there counts even if the process has just ended.
            let ended = self.child.try_wait().ok().flatten();
            if let Ok(bytes) = fs::read(self.launch.ready_file()) {
                let ready = serde_json::from_slice(&bytes);
                return ready
                    .map_err(|error| Failure::internal("a ready file is not readable").because(error));
            }
            if let Some(status) = ended {
                return Err(self.failed("did not start", Some(status)));
            }
            tokio::time::sleep(READY_POLL).await;
        }
    }

    fn failed(&self, what: &str, status: Option<ExitStatus>) -> Failure {
        let log = self.launch.log();
        let tail = tail(&log, self.log_begins).unwrap_or_default();
        let how = status.map(|status| format!(" ({status})")).unwrap_or_default();
        let message =
            format!("replica {} {what}{how}; its log {} ends:\n{tail}", self.launch.number, log.display());
        Failure::new(exit_of(status), message)
    }
}

/// The ready file, as far as it is of interest here.
#[derive(Deserialize)]
struct Ready {
    documents: SocketAddr,
}

/// A replica that refuses to start is our refusal too.
fn exit_of(status: Option<ExitStatus>) -> Exit {
    let all = [Exit::Unavailable, Exit::CannotBind, Exit::TryLater, Exit::Denied, Exit::Refused];
    let code = status.and_then(|status| status.code());
    all.into_iter().find(|exit| Some(i32::from(exit.code())) == code).unwrap_or(Exit::Internal)
}

/// The configuration of one replica. Only the port that clients see is fixed: it is in the issuer.
fn configuration(issuer: &IssuerUrl, ring: &Path, admin: &Path) -> String {
    let [issuer, audience] = [issuer.as_str(), AUDIENCE].map(quoted);
    let [ring, admin] = [ring, admin].map(|path| quoted(&path.to_string_lossy()));
    format!(
        "# Written by `oneseal quickstart`, anew at each of its starts.
[issuer]
url = {issuer}

[provider]
kind = \"file\"
path = {ring}
# The ring is to stay where it is, be it in a container's own layer.
durable = true

[listen]
documents = \"127.0.0.1:0\"
ops = \"127.0.0.1:0\"
admin = {admin}

[process]
drain_delay = \"0s\"
shutdown_timeout = \"2s\"
log_format = \"json\"

[admin]
mint = true
mint_audiences = [{audience}]
"
    )
}

/// A TOML basic string. JSON's escapes are a part of TOML's; what JSON leaves as it is and TOML does not take is
/// DEL alone.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// The last lines that were written to `log` after its first `begins` bytes.
fn tail(log: &Path, begins: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(begins.max(length.saturating_sub(MAX_TAIL))))?;
    let mut bytes = Vec::new();
    file.take(MAX_TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(|line| format!("  {line}")).collect();
    Ok(lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n"))
}

fn unwritable(path: &Path, error: io::Error) -> Failure {
    Failure::refused(format!("{} cannot be written; name another place by --dir", path.display()))
        .because(error)
}

/// Ten times what a loaded machine has been seen to take.
/// Where programs, libraries and places are, how to speak, and what makes a replica tell more.
const PASSED_ON: [&str; 13] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
    "NO_COLOR",
    "ONESEAL_LOG",
    "PATH",
    "RUST_BACKTRACE",
    "TERM",
    "TMPDIR",
    "TZ",
];
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(5);
/// One second above the `shutdown_timeout` of the replicas.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_TAIL: u64 = 8 * 1024;
const TAIL_LINES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_any_kind_are_toml_strings() {
        for path in ["/a b", "/q\"uote", "/back\\slash", "/ümlaut", "/nl\n", "/del\u{7f}", "/bell\u{7}"] {
            let text = format!("path = {}", quoted(path));
            let table: toml::Table = toml::from_str(&text).expect("TOML");
            assert_eq!(table["path"].as_str(), Some(path), "{text}");
        }
    }

    #[test]
    fn the_configuration_names_ring_socket_and_issuer() {
        let issuer = IssuerUrl::parse("http://127.0.0.1:20001", "issuer").expect("good");
        let text = configuration(&issuer, Path::new("d/keyring.json"), Path::new("d/1.sock"));
        let table: toml::Table = toml::from_str(&text).expect("TOML");
        assert_eq!(table["issuer"]["url"].as_str(), Some("http://127.0.0.1:20001"));
        assert_eq!(table["provider"]["path"].as_str(), Some("d/keyring.json"));
        assert_eq!(table["provider"]["durable"].as_bool(), Some(true));
        assert_eq!(table["listen"]["admin"].as_str(), Some("d/1.sock"));
    }

    #[test]
    fn only_the_last_lines_of_this_start_are_shown() {
        let path = std::env::temp_dir().join(format!("oneseal-{}.log", uuid::Uuid::new_v4().simple()));
        let old = "old\n".repeat(3);
        let new: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        fs::write(&path, format!("{old}{new}")).expect("written");
        let told = tail(&path, old.len() as u64).expect("readable");
        fs::remove_file(&path).expect("removed");
        assert!(told.starts_with("  line 9\n") && told.ends_with("  line 20"), "{told}");
    }
}
