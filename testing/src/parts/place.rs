//! Where parts live, as whom they run, and how they end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

/// Says that `what` is skipped and `why`.
pub(super) fn skip(what: &str, why: &str) {
    assert!(std::env::var("TEST_REQUIRE").as_deref() != Ok("all"), "required, but missing: {what}: {why}");
    #[expect(clippy::print_stderr, reason = "a skipped part is named in the test's output")]
    {
        eprintln!("SKIPPED: {what}: {why}");
    }
}

/// The program `name` on `PATH`, or in one of `elsewhere`.
pub(super) fn program(name: &str, elsewhere: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(elsewhere.iter().cloned());
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

/// The directory of this process's parts. It goes when the process does.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    user: Option<User>,
    names: AtomicU32,
    /// It waits for the end of its standard input, which is that of this process.
    _shell: Child,
}

/// An unprivileged user: PostgreSQL and PgBouncer refuse to run as root.
#[derive(Clone, Copy, Debug)]
struct User {
    uid: u32,
    gid: u32,
}

impl Place {
    pub(super) fn of_this_process() -> &'static Self {
        static PLACE: OnceLock<Place> = OnceLock::new();
        PLACE.get_or_init(Self::make)
    }

    fn make() -> Self {
        let user = rustix::process::geteuid().is_root().then(unprivileged);
        let root = short_temporary_directory().keep();
        std::fs::create_dir(root.join(PIDS)).expect("a directory for process ids");
        let shell = Command::new("sh")
            .args(["-c", SHELL, "parts"])
            .arg(&root)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C on the terminal is for the tests; the shell clears up after them.
            .process_group(0)
            .spawn()
            .expect("sh can be started");
        let place = Self { root, user, names: AtomicU32::new(0), _shell: shell };
        place.own(&place.root);
        place
    }

    /// A new directory for one part, which the user of the parts owns.
    pub(super) fn directory(&self, what: &str) -> PathBuf {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        let directory = self.root.join(format!("{what}{number}"));
        std::fs::create_dir(&directory).expect("a directory for a part");
        self.own(&directory);
        directory
    }

    /// Gives `file` to the user of the parts.
    pub(super) fn own(&self, file: &Path) {
        if let Some(user) = self.user {
            std::os::unix::fs::chown(file, Some(user.uid), Some(user.gid)).expect("root may give files away");
        }
    }

    /// Writes a file that only the user of the parts reads.
    pub(super) fn write(&self, file: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(file, text).expect("a part's file can be written");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        self.own(file);
    }

    /// `program`, to be run as the user of the parts.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = self.own_command(program);
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    /// `program`, to be run as the user of the test, who alone may be let into the directory it lies in.
    pub(super) fn own_command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        // The directory a test is run in may be closed to the user of the parts.
        command.current_dir(&self.root);
        command
    }

    /// Runs `command` to its end.
    pub(super) fn run(&self, mut command: Command) -> String {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// Starts a part that writes what it says into `log`.
    pub(super) fn start(&self, mut command: Command, log: &Path) -> Part {
        let said = std::fs::File::options().create(true).append(true).open(log).expect("a log");
        let too = said.try_clone().expect("a second handle");
        let child = command
            .stdout(said)
            .stderr(too)
            // Signals of the terminal are not for it: its order of going down is the harness's.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mark = self.root.join(PIDS).join(child.id().to_string());
        std::fs::write(&mark, "").expect("its process id can be noted");
        Part { child, mark, log: log.to_owned() }
    }
}

const PIDS: &str = "pids";

/// Waits for the end of the process that started it, then ends whatever that left running.
const SHELL: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
each() { for mark in "$1"/pids/*; do [ -e "$mark" ] && kill "$2" "${mark##*/}"; done; }
each "$1" -CONT
each "$1" -QUIT
tries=0
while [ $tries -lt 50 ]; do
    left=
    for mark in "$1"/pids/*; do [ -e "$mark" ] && kill -0 "${mark##*/}" && left=yes; done
    [ -n "$left" ] || break
    tries=$((tries + 1))
    sleep 0.1
done
each "$1" -KILL
rm -rf "$1"
"#;

/// A running program.
#[derive(Debug)]
pub(super) struct Part {
    child: Child,
    mark: PathBuf,
    log: PathBuf,
}

impl Part {
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may just have ended; who waits for it finds out.
            let _ = kill_process(pid, signal);
        }
    }

    /// Signals it and its children, which PostgreSQL puts into sessions of their own.
    pub(super) fn signal_all(&self, signal: Signal) {
        self.signal(signal);
        for child in self.pid().map(children).unwrap_or_default() {
            let _ = kill_process(child, signal);
        }
    }

    /// Stops it in its tracks; when this returns, none of its threads runs any more.
    pub(super) fn pause(&self) {
        let pid = self.pid().expect("a process id");
        self.signal(Signal::STOP);
        let look = || waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG).ok().flatten();
        assert!(eventually(look).is_some(), "it does not stop:\n{}", self.log_text());
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id().try_into().ok()?)
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    pub(super) fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends `signal` and waits for the end.
    pub(super) fn end(&mut self, signal: Signal) {
        self.signal_all(Signal::CONT);
        self.signal(signal);
        let ended = eventually(|| self.has_ended().then_some(()));
        if ended.is_none() {
            self.signal_all(Signal::KILL);
            let _ = self.child.wait();
        }
        let _ = std::fs::remove_file(&self.mark);
        assert!(ended.is_some() || std::thread::panicking(), "it does not end:\n{}", self.log_text());
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}

fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name, in brackets, may hold anything: what follows it is "state ppid".
        let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        after.split(' ').nth(1) == Some(&*parent)
    };
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_child).filter_map(Pid::from_raw).collect()
}

/// Looks until `look` finds something, for as long as a part may take on a busy machine.
pub(super) fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    const TICK: Duration = Duration::from_millis(5);
    const TICKS: u32 = 6000;
    for _ in 0..TICKS {
        if let Some(found) = look() {
            return Some(found);
        }
        #[expect(clippy::disallowed_methods, reason = "between two looks at another process's state")]
        std::thread::sleep(TICK);
    }
    None
}

/// A port that is free now. It is none of those that the system gives out by itself, so that a part that is stopped for
/// a while finds it free again.
pub(super) fn free_address() -> SocketAddr {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that run side by side start far apart.
    let start = std::process::id().wrapping_mul(97) % u32::from(COUNT);
    let start = u16::try_from(start).unwrap_or_default();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % COUNT;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// The name of a socket in it must stay below the 108 bytes of `sun_path`.
fn short_temporary_directory() -> TempDir {
    const LONGEST: usize = 60;
    let usual = std::env::temp_dir();
    let base = if usual.as_os_str().len() > LONGEST { PathBuf::from("/tmp") } else { usual };
    tempfile::Builder::new()
        .prefix("parts-")
        .tempdir_in(&base)
        .unwrap_or_else(|error: io::Error| panic!("{}: {error}", base.display()))
}

/// `postgres` where the system has that user, else `nobody`.
fn unprivileged() -> User {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let mut fields =
            users.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(name))?;
        let (uid, gid) = (fields.nth(2)?, fields.next()?);
        Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
    };
    find("postgres").or_else(|| find("nobody")).expect("a user who is not root: postgres or nobody")
}
