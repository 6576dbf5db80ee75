//! Listening sockets: made once the key has been judged, and every one that cannot be made is told at once.

mod reason;

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use oneseal_keystore::Findings;
use oneseal_keystore::findings::Code;
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use crate::codes::{
    LISTEN_ADMIN_DENIED, LISTEN_ADMIN_OFF, LISTEN_IN_USE, LISTEN_NO_DIRECTORY, LISTEN_NO_IPV6,
    LISTEN_NOT_A_SOCKET, LISTEN_TWICE,
};
use crate::config::Listen;

/// The sockets of one server, bound and listening.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// Discovery and JWKS.
    pub(crate) documents: TcpListener,
    /// Tokens, if they are asked for elsewhere.
    pub(crate) token: Option<TcpListener>,
    /// Probes and metrics.
    pub(crate) ops: TcpListener,
    /// The admin API, if it is on.
    pub(crate) admin: Option<AdminSocket>,
    /// The admin API on TCP, if it is there too.
    pub(crate) admin_tcp: Option<TcpListener>,
}

impl Sockets {
    /// Binds all of `listen`. Warnings come beside the sockets.
    ///
    /// # Errors
    /// Every socket that cannot be bound, as findings; those that could be are closed again.
    pub(crate) fn bind(listen: &Listen) -> Result<(Self, Findings), Findings> {
        let mut findings = Findings::new();
        let mut taken = Vec::new();
        let mut bind = |address, place| bind_beside(&mut taken, address, place, &mut findings);
        let documents = bind(listen.documents, "listen.documents");
        let ops = bind(listen.ops, "listen.ops");
        let token = listen.token.and_then(|address| bind(address, "listen.token"));
        let admin_tcp = listen.admin_tcp.and_then(|address| bind(address, "listen.admin_tcp"));
        let admin = listen.admin.as_deref().and_then(|path| bind_admin(path, &mut findings));
        match (documents, ops) {
            (Some(documents), Some(ops)) if !findings.has_errors() => {
                Ok((Self { documents, token, ops, admin, admin_tcp }, findings))
            }
            _ => Err(findings),
        }
    }

    /// Whether all of `listen` could be bound now, without leaving anything behind.
    pub(crate) fn probe(listen: &Listen) -> Findings {
        match Self::bind(listen) {
            Ok((_, findings)) | Err(findings) => findings,
        }
    }
}

/// The admin API's socket. Its file goes when this is dropped, unless another process has put its own there.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    listener: UnixListener,
    file: SocketFile,
}

impl AdminSocket {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The listener, and the guard that removes its file.
    pub(crate) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

/// Removes the file of a Unix socket when dropped.
#[derive(Debug)]
#[must_use = "the socket's file goes when this is dropped"]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Binds `address`, unless it is that of one in `taken`, and notes it there.
fn bind_beside(
    taken: &mut Vec<(SocketAddr, &'static str)>,
    address: SocketAddr,
    place: &'static str,
    findings: &mut Findings,
) -> Option<TcpListener> {
    let other = taken.iter().find(|(other, _)| overlap(*other, address)).copied();
    taken.push((address, place));
    if let Some((other, its)) = other {
        findings.push(&LISTEN_TWICE, place, format!("{address} and {its} {other}"));
        return None;
    }
    bind_tcp(address, place, findings)
}

fn bind_tcp(address: SocketAddr, place: &str, findings: &mut Findings) -> Option<TcpListener> {
    let failed = match listen_tcp(address) {
        Ok(listener) => return Some(listener),
        Err(error) => error,
    };
    if address.is_ipv6() && address.ip().is_unspecified() && reason::is_without_ipv6(&failed) {
        let all_ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        findings.push(&LISTEN_NO_IPV6, place, format!("{all_ipv4} in place of {address}: {failed}"));
        return bind_tcp(all_ipv4, place, findings);
    }
    findings.push(reason::of_tcp(address, &failed), place, format!("{address}: {failed}"));
    None
}

fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    // A restarted server must not wait for connections of the former one to time out.
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // Both families, whatever the host's net.ipv6.bindv6only says.
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG.unsigned_abs())
}

/// Whether one socket would take what the other is to have. Port 0 is another port each time; `[::]` takes IPv4 too.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_wide = |address: SocketAddr| address.ip().is_unspecified();
    let takes = |wide: SocketAddr, other: SocketAddr| is_wide(wide) && (wide.is_ipv6() || other.is_ipv4());
    let is_same_place = one.ip() == other.ip() || takes(one, other) || takes(other, one);
    one.port() == other.port() && one.port() != 0 && is_same_place
}

fn bind_admin(path: &Path, findings: &mut Findings) -> Option<AdminSocket> {
    let refused = match listen_unix(path) {
        Ok(socket) => return Some(socket),
        Err(refused) => refused,
    };
    let message = format!("{}: {}", path.display(), refused.message);
    // The default place is made by a package or a manifest. Without either, a server that serves is worth more.
    let is_nobodys_choice = path == Path::new(DEFAULT_ADMIN)
        && [LISTEN_NO_DIRECTORY.name, LISTEN_ADMIN_DENIED.name].contains(&refused.code.name);
    findings.push(if is_nobodys_choice { &LISTEN_ADMIN_OFF } else { refused.code }, "listen.admin", message);
    None
}

struct Refused {
    code: &'static Code,
    message: String,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self { code: reason::of_unix(&error), message: error.to_string() }
    }
}

fn listen_unix(path: &Path) -> Result<AdminSocket, Refused> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        let message = format!("there is no directory {}", directory.display());
        return Err(Refused { code: &LISTEN_NO_DIRECTORY, message });
    }
    remove_stale(path)?;
    let listener = bind_private(path)?;
    let inode = inode(path)?;
    Ok(AdminSocket { listener, file: SocketFile { path: path.to_owned(), inode } })
}

/// Removes the socket that a killed server left, and nothing else: not one that somebody answers on, not a file.
fn remove_stale(path: &Path) -> Result<(), Refused> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !found.file_type().is_socket() {
        return Err(Refused { code: &LISTEN_NOT_A_SOCKET, message: "it is not a socket".to_owned() });
    }
    match UnixStream::connect(path) {
        Ok(_) => return Err(Refused { code: &LISTEN_IN_USE, message: "somebody answers there".to_owned() }),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        Err(error) => return Err(error.into()),
    }
    // Another server may have bound the same path meanwhile: its socket is not the one that was asked.
    if inode(path)? == found.ino() {
        fs::remove_file(path)?;
        tracing::info!(path = %path.display(), "removed the socket that an earlier process left");
    }
    Ok(())
}

/// The socket has mode 0600 from its first moment: setting the mode afterwards would leave one in which others could
/// connect. On Linux a socket's file takes the mode that the socket has when it is bound; elsewhere the directory's
/// mode has to guard that moment.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let _linux_alone = rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR);
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

fn inode(path: &Path) -> io::Result<u64> {
    Ok(fs::symlink_metadata(path)?.ino())
}

/// Connections that wait to be accepted. The kernel cuts it to net.core.somaxconn.
const BACKLOG: i32 = 1024;
/// The default of `listen.admin`.
const DEFAULT_ADMIN: &str = "/run/oneseal/admin.sock";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn names(findings: &Findings) -> Vec<&'static str> {
        findings.iter().map(|finding| finding.code.name).collect()
    }

    fn listen(documents: SocketAddr, admin: Option<PathBuf>) -> Listen {
        Listen { documents, token: None, ops: free(), admin, admin_tcp: None }
    }

    fn free() -> SocketAddr {
        "127.0.0.1:0".parse().expect("an address")
    }

    #[tokio::test]
    async fn all_that_cannot_be_bound_is_told_at_once() {
        let taken = std::net::TcpListener::bind(free()).expect("a free port");
        let missing = PathBuf::from("/nonexistent/oneseal/admin.sock");
        let both = Listen {
            ops: "192.0.2.1:0".parse().expect("an address"),
            ..listen(taken.local_addr().expect("bound"), Some(missing))
        };
        let findings = Sockets::bind(&both).expect_err("none of them");
        assert_eq!(names(&findings), ["listen.in_use", "listen.not_local", "listen.no_directory"]);
        assert_eq!(findings.exit().map(oneseal_keystore::findings::Exit::code), Some(71));
    }

    #[tokio::test]
    async fn the_default_admin_socket_may_be_missing_and_another_may_not() {
        if Path::new(DEFAULT_ADMIN).parent().is_some_and(Path::exists) {
            return;
        }
        let (sockets, findings) =
            Sockets::bind(&listen(free(), Some(DEFAULT_ADMIN.into()))).expect("a warning");
        assert!(sockets.admin.is_none());
        assert_eq!(names(&findings), ["listen.admin_off"]);
    }

    #[tokio::test]
    async fn the_admin_socket_is_private_and_goes_with_its_server() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("admin.sock");
        let (sockets, _) = Sockets::bind(&listen(free(), Some(path.clone()))).expect("bound");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        let again = Sockets::bind(&listen(free(), Some(path.clone()))).expect_err("somebody answers");
        assert_eq!(names(&again), ["listen.in_use"]);
        drop(sockets);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_file_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("admin.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "a killed server leaves it");
        let (sockets, findings) = Sockets::bind(&listen(free(), Some(path.clone()))).expect("replaced");
        assert!(findings.is_empty());
        // Somebody else's socket at the same path is not ours to remove.
        fs::remove_file(&path).expect("removed");
        let _other = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        drop(sockets);
        assert!(path.exists());

        let file = dir.path().join("notes.txt");
        fs::write(&file, "keep").expect("written");
        let refused = Sockets::bind(&listen(free(), Some(file.clone()))).expect_err("no socket");
        assert_eq!(names(&refused), ["listen.not_a_socket"]);
        assert_eq!(fs::read_to_string(&file).expect("still there"), "keep");
    }

    #[tokio::test]
    async fn a_probe_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("admin.sock");
        assert!(Sockets::probe(&listen(free(), Some(path.clone()))).is_empty());
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn both_families_are_bound_by_the_default() {
        let all = "[::]:0".parse().expect("an address");
        let (sockets, findings) = Sockets::bind(&listen(all, None)).expect("bound");
        let port = sockets.documents.local_addr().expect("bound").port();
        std::net::TcpStream::connect(("127.0.0.1", port)).expect("IPv4 reaches it");
        if findings.is_empty() {
            std::net::TcpStream::connect(("::1", port)).expect("IPv6 reaches it");
        } else {
            assert_eq!(names(&findings), ["listen.no_ipv6"]);
        }
    }

    #[tokio::test]
    async fn one_address_for_both_listeners_is_a_mistake_of_its_own() {
        let address = |text: &str| text.parse().expect("an address");
        for (one, other, is_one) in [
            ("127.0.0.1:8080", "127.0.0.1:8080", true),
            ("[::]:8080", "127.0.0.1:8080", true),
            ("127.0.0.1:8080", "[::]:8080", true),
            ("0.0.0.0:8080", "127.0.0.1:8080", true),
            ("0.0.0.0:8080", "[::1]:8080", false),
            ("127.0.0.1:8080", "127.0.0.2:8080", false),
            ("127.0.0.1:8080", "127.0.0.1:8081", false),
            ("[::]:0", "[::]:0", false),
        ] {
            assert_eq!(overlap(address(one), address(other)), is_one, "{one} {other}");
        }
        let twice = Listen { ops: address("[::]:8080"), ..listen(address("127.0.0.1:8080"), None) };
        let findings = Sockets::probe(&twice);
        assert!(names(&findings).contains(&"listen.twice"), "{findings}");
        let port = std::net::TcpListener::bind(free()).expect("free").local_addr().expect("bound").port();
        let wide = SocketAddr::from(([0, 0, 0, 0], port));
        let admin = Listen { admin_tcp: Some(address(&format!("127.0.0.1:{port}"))), ..listen(wide, None) };
        let findings = Sockets::probe(&admin);
        assert!(findings.to_string().contains("listen.admin_tcp"), "{findings}");
        assert!(names(&findings).contains(&"listen.twice"), "{findings}");
    }

    #[test]
    fn the_default_of_the_admin_socket_is_the_one_of_the_table() {
        assert!(config::docs().contains(DEFAULT_ADMIN));
    }
}
