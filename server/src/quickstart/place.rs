//! The directory that a quickstart keeps: its ring, its port, and a home for each replica.
//!
//! ```text
//! oneseal-data/            0700
//!   keyring.json           0600, made once and used ever after
//!   port                   the issuer's port: with another one it would be another issuer
//!   .lock                  held while a quickstart runs here
//!   replicas/N/            written anew at each start: oneseal.toml, ready.json, admin.sock, log
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use oneseal_keystore::IssuerUrl;
use uuid::Uuid;

use crate::exit::{Exit, Failure};

/// A data directory, locked for this process.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    _lock: File,
    /// Where the admin sockets are when `dir` is too long a path for them.
    short: Option<ShortDir>,
}

impl Place {
    /// Makes the directory if it is not there, and locks it.
    ///
    /// # Errors
    /// Another quickstart runs there (75), or it cannot be made or written (77, 78).
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        if dir.to_str().is_none() {
            return Err(Failure::usage(format!("{} is not UTF-8; name another --dir", dir.display())));
        }
        make_private_dir(dir).map_err(|error| unusable(dir, error))?;
        let lock = lock(dir)?;
        // What rests here must not be committed by accident: the ring is a private key.
        write_new(&dir.join(".gitignore"), "*\n").map_err(|error| unusable(dir, error))?;
        let longest = dir.join("replicas/9/admin.sock");
        let is_too_long = longest.as_os_str().as_bytes().len() > MAX_SOCKET_PATH;
        let short = is_too_long.then(ShortDir::make).transpose().map_err(|error| unusable(dir, error))?;
        Ok(Self { dir: dir.to_owned(), _lock: lock, short })
    }

    /// The directory, as it was named.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The ring document.
    pub(crate) fn ring(&self) -> PathBuf {
        self.dir.join("keyring.json")
    }

    /// The home of replica `number`, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn home(&self, number: usize) -> Result<PathBuf, Failure> {
        let home = self.dir.join("replicas").join(number.to_string());
        make_private_dir(&home).map_err(|error| unusable(&home, error))?;
        Ok(home)
    }

    /// The admin socket of replica `number`.
    pub(crate) fn admin_socket(&self, number: usize) -> PathBuf {
        match &self.short {
            Some(short) => short.0.join(format!("{number}.sock")),
            None => self.dir.join("replicas").join(number.to_string()).join("admin.sock"),
        }
    }

    /// Binds the issuer's port: the one kept here, else `asked`, else a free one. Before there is a ring the port is
    /// kept at once, so that a ring never stands here without it.
    ///
    /// # Errors
    /// The port is taken (71), or it is not the one that the ring here was made for, or the ring has gone (78).
    pub(crate) fn bind(&self, asked: Option<u16>) -> Result<(TcpListener, IssuerUrl), Failure> {
        if !self.ring().exists() && self.dir.join("replicas").exists() {
            return Err(lost_ring(&self.ring(), &self.dir));
        }
        let file = self.dir.join("port");
        let kept = read_port(&file)?;
        let listener = match (kept, asked) {
            (Some(kept), Some(asked)) if kept != asked => return Err(other_port(&file, kept, asked)),
            (None, None) if self.ring().exists() => return Err(lost_port(&file, &self.ring())),
            (Some(port), _) | (None, Some(port)) => bind(port).map_err(|error| taken(&file, port, error))?,
            (None, None) => bind_free().map_err(|error| taken(&file, 0, error))?,
        };
        let port = listener.local_addr().map_err(|error| taken(&file, 0, error))?.port();
        if !self.ring().exists() {
            self.keep_port(port)?;
        }
        let issuer = IssuerUrl::parse(&format!("http://{}:{port}", Ipv4Addr::LOCALHOST), "the issuer");
        let issuer = issuer.map_err(|findings| Failure::internal(findings.to_string()))?;
        Ok((listener, issuer))
    }

    /// Keeps `port` for the next start, unless one is kept already.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep_port(&self, port: u16) -> Result<(), Failure> {
        let file = self.dir.join("port");
        write_new(&file, &format!("{port}\n")).map_err(|error| unusable(&file, error))
    }
}

/// A short directory of our own for sockets, removed with the value.
#[derive(Debug)]
struct ShortDir(PathBuf);

impl ShortDir {
    fn make() -> io::Result<Self> {
        let name: String = Uuid::new_v4().simple().to_string().chars().take(12).collect();
        let dir = std::env::temp_dir().join(format!("oneseal-{name}"));
        DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for ShortDir {
    fn drop(&mut self) {
        // Nobody is left to tell; the system clears its temporary directory.
        drop(fs::remove_dir_all(&self.0));
    }
}

fn make_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(dir)
}

/// The kernel's lock, not the file's existence: a quickstart that was killed leaves none behind.
fn lock(dir: &Path) -> Result<File, Failure> {
    let path = dir.join(".lock");
    let options = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).to_owned();
    let file = options.open(&path).map_err(|error| unusable(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let dir = dir.display();
            let message =
                format!("another quickstart runs in {dir}: end it, or give this one its own place by --dir");
            Err(Failure::new(Exit::TryLater, message))
        }
        Err(TryLockError::Error(error)) => Err(unusable(&path, error)),
    }
}

/// Writes `text` unless the file is there already.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn read_port(file: &Path) -> Result<Option<u16>, Failure> {
    let text = match fs::read(file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(file, error)),
    };
    match text.trim().parse() {
        Ok(port) if port > 0 => Ok(Some(port)),
        _ => Err(Failure::refused(format!(
            "{} holds no port number: write the port of the ring's `issuer` into it, or remove the file and give \
             that port once by --port",
            file.display()
        ))),
    }
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// A free port below those that the kernel lends to outgoing connections (`net.ipv4.ip_local_port_range` begins at
/// 32768): what is free there today is likely to be free at the next start.
fn bind_free() -> io::Result<TcpListener> {
    for _ in 0..BIND_ATTEMPTS {
        let [low, high, ..] = *Uuid::new_v4().as_bytes();
        let port = FIRST_PORT + u16::from_le_bytes([low, high]) % PORTS;
        if let Ok(listener) = bind(port) {
            return Ok(listener);
        }
    }
    bind(0)
}

fn taken(file: &Path, port: u16, error: io::Error) -> Failure {
    let file = file.display();
    let message = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "port {port}, which {file} keeps for this issuer, is taken by another program: end that program \
             (`ss -ltnp 'sport = :{port}'` names it), or start another issuer by --dir OTHER, with --port if the \
             port matters"
        ),
        _ => format!("port {port} of 127.0.0.1 cannot be bound; name another one by --port, in a new --dir"),
    };
    Failure::new(Exit::CannotBind, message).because(error)
}

fn other_port(file: &Path, kept: u16, asked: u16) -> Failure {
    Failure::refused(format!(
        "the issuer here has port {kept} (kept in {}), not {asked}: relying parties know it by that port. Leave \
         --port out, or start another issuer by --dir OTHER --port {asked}",
        file.display()
    ))
}

/// Replicas have run here, so there was a key: another one in its place would be another issuer under the same name.
fn lost_ring(ring: &Path, dir: &Path) -> Failure {
    let (ring, dir) = (ring.display(), dir.display());
    Failure::refused(format!(
        "{ring} is gone: restore it, or remove {dir} to begin with a new issuer and key"
    ))
}

fn lost_port(file: &Path, ring: &Path) -> Failure {
    Failure::refused(format!(
        "{} is there and {} is gone: give the port of the ring's `issuer` once by --port",
        ring.display(),
        file.display()
    ))
}

fn unusable(path: &Path, error: io::Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Exit::Denied,
        _ => Exit::Refused,
    };
    Failure::new(exit, format!("{} cannot be used; name another place by --dir", path.display()))
        .because(error)
}

/// `sun_path` has 108 bytes with its NUL (unix(7)).
const MAX_SOCKET_PATH: usize = 107;
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;
const BIND_ATTEMPTS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// An empty directory of this test's own, removed at its end.
    fn scratch() -> ShortDir {
        ShortDir::make().expect("a temporary directory")
    }

    fn exit_of<T: std::fmt::Debug>(result: Result<T, Failure>) -> (Exit, String) {
        let failure = result.expect_err("refused");
        (failure.exit(), failure.in_full())
    }

    #[test]
    fn the_directory_is_private_and_one_quickstart_holds_it() {
        let scratch = scratch();
        let dir = scratch.0.join("data");
        let place = Place::open(&dir).expect("made");
        assert_eq!(fs::metadata(&dir).expect("there").permissions().mode() & 0o777, 0o700);
        let (exit, message) = exit_of(Place::open(&dir));
        assert_eq!(exit, Exit::TryLater);
        assert!(message.contains("--dir"), "{message}");
        drop(place);
        Place::open(&dir).expect("free again");
    }

    #[test]
    fn the_port_is_kept_and_another_one_is_refused() {
        let scratch = scratch();
        let place = Place::open(&scratch.0).expect("made");
        let (listener, issuer) = place.bind(None).expect("a free port");
        drop(listener);
        let port = issuer.port();
        let (_listener, again) = place.bind(None).expect("the same port");
        assert_eq!(again, issuer);
        let (exit, message) = exit_of(place.bind(Some(port - 1)));
        assert_eq!(exit, Exit::Refused);
        assert!(message.contains(&port.to_string()) && message.contains("--dir"), "{message}");
    }

    #[test]
    fn a_taken_port_is_a_refusal_with_its_cure() {
        let scratch = scratch();
        let place = Place::open(&scratch.0).expect("made");
        let (_holder, issuer) = place.bind(None).expect("a free port");
        let (exit, message) = exit_of(place.bind(None));
        assert_eq!(exit, Exit::CannotBind);
        let file = scratch.0.join("port");
        for part in [&issuer.port().to_string(), file.to_str().expect("UTF-8"), "--dir", "--port"] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_ring_without_its_port_and_a_port_that_is_none_are_refused() {
        let scratch = scratch();
        let place = Place::open(&scratch.0).expect("made");
        for text in ["", "0", "65536", "http", "-1"] {
            fs::write(scratch.0.join("port"), text).expect("written");
            assert_eq!(exit_of(place.bind(None)).0, Exit::Refused, "{text}");
        }
        fs::remove_file(scratch.0.join("port")).expect("removed");
        fs::write(place.ring(), "{}").expect("written");
        assert_eq!(exit_of(place.bind(None)).0, Exit::Refused);
        assert!(!scratch.0.join("port").exists());
    }

    #[test]
    fn sockets_move_to_a_short_place_when_the_path_is_long() {
        let scratch = scratch();
        let near = Place::open(&scratch.0.join("near")).expect("made");
        assert!(near.admin_socket(1).starts_with(near.dir()));
        let far = Place::open(&scratch.0.join("f".repeat(100))).expect("made");
        let socket = far.admin_socket(9);
        assert!(socket.as_os_str().as_bytes().len() <= MAX_SOCKET_PATH);
        let short = socket.parent().expect("has one").to_owned();
        assert!(short.is_dir());
        drop(far);
        assert!(!short.exists());
    }
}
