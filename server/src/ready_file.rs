//! Where a server can be reached, for programs that start one: `--ready-file`.
//!
//! With port 0 the system chooses, so a caller has to be told; and a file that appears whole says at the same time
//! that the server is ready.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::exit::Failure;
use crate::http::bind::Sockets;
use crate::whole_file::{self, WholeFile};

/// What is bound, by whom, for which issuer. Written as one line of JSON.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Addresses {
    /// The issuer's URL.
    pub(crate) issuer: String,
    /// Discovery and JWKS.
    pub(crate) documents: SocketAddr,
    /// Probes and metrics.
    pub(crate) ops: SocketAddr,
    /// What `documents` speaks, and where: `https://` or `http://` and the address.
    pub(crate) documents_url: String,
    /// The same of `ops`, which is always plain HTTP.
    pub(crate) ops_url: String,
    /// Tokens, if they have a listener of their own; else they are asked for at `documents`.
    pub(crate) token: Option<SocketAddr>,
    /// What `token` speaks, and where, as `documents_url`.
    pub(crate) token_url: Option<String>,
    /// The admin API's socket, if it is on.
    pub(crate) admin: Option<PathBuf>,
    /// The admin API on TCP, if it is there.
    pub(crate) admin_tcp: Option<SocketAddr>,
    /// What `admin_tcp` speaks, and where, as `documents_url`; where it is bound to every address, by `localhost`.
    pub(crate) admin_tcp_url: Option<String>,
    /// The process.
    pub(crate) pid: u32,
}

impl Addresses {
    /// Of these sockets.
    ///
    /// # Errors
    /// The kernel does not know its own socket.
    pub(crate) fn of(issuer: &str, sockets: &Sockets, with_tls: bool) -> io::Result<Self> {
        let (documents, ops) = (sockets.documents.local_addr()?, sockets.ops.local_addr()?);
        let admin_tcp = sockets.admin_tcp.as_ref().map(TcpListener::local_addr).transpose()?;
        let token = sockets.token.as_ref().map(TcpListener::local_addr).transpose()?;
        let scheme = if with_tls { "https" } else { "http" };
        Ok(Self {
            issuer: issuer.to_owned(),
            documents,
            ops,
            documents_url: format!("{scheme}://{documents}"),
            ops_url: format!("http://{ops}"),
            token,
            token_url: token.map(|address| format!("{scheme}://{address}")),
            admin: sockets.admin.as_ref().map(|admin| admin.path().to_owned()),
            admin_tcp,
            admin_tcp_url: admin_tcp.map(|address| format!("{scheme}://{}", callable(address))),
            pid: std::process::id(),
        })
    }
}

/// Host and port by which the admin API answers. The address that stands for all of them is nobody's name, so that a
/// request which calls it by that one is refused.
fn callable(address: SocketAddr) -> String {
    if address.ip().is_unspecified() { format!("localhost:{}", address.port()) } else { address.to_string() }
}

/// The file, gone again when this is dropped.
#[derive(Debug)]
#[must_use = "the file goes when this is dropped"]
pub(crate) struct ReadyFile {
    _file: WholeFile,
}

impl ReadyFile {
    /// Removes what an earlier server left at `path`, which would be taken for ours.
    ///
    /// # Errors
    /// It cannot be removed, or is no such file: nothing else is ever replaced.
    pub(crate) fn clear(path: &Path) -> Result<(), Failure> {
        whole_file::clear(path, is_ready_file).map_err(|error| failure(path, error))
    }

    /// Writes it whole: nobody ever reads half of it.
    ///
    /// # Errors
    /// It cannot be written, or what is there by now is no ready file.
    pub(crate) fn write(path: PathBuf, addresses: &Addresses) -> Result<Self, Failure> {
        let line = serde_json::to_string(addresses).map_err(|error| failure(&path, error))? + "\n";
        let written = WholeFile::write(path.clone(), line.as_bytes(), is_ready_file);
        Ok(Self { _file: written.map_err(|error| failure(&path, error))? })
    }
}

/// By what every version writes. A ring document names an issuer too, and no process.
fn is_ready_file(content: &[u8]) -> bool {
    let told = serde_json::from_slice::<Value>(content).unwrap_or_default();
    told["issuer"].is_string() && told["documents"].is_string() && told["pid"].is_u64()
}

fn failure(path: &Path, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    let words =
        format!("the ready file {} cannot be written; name another with --ready-file", path.display());
    Failure::refused(words).because(error)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_admin_api_is_named_as_it_may_be_called() {
        for (bound, named) in [
            ("0.0.0.0:9090", "localhost:9090"),
            ("[::]:9090", "localhost:9090"),
            ("127.0.0.1:9090", "127.0.0.1:9090"),
            ("[::1]:9090", "[::1]:9090"),
            ("10.1.2.3:9090", "10.1.2.3:9090"),
        ] {
            assert_eq!(callable(bound.parse().expect("an address")), named);
        }
    }

    #[test]
    fn it_is_there_while_the_server_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ready.json");
        let address = "127.0.0.1:8080".parse().expect("an address");
        let addresses = Addresses {
            issuer: "http://127.0.0.1:8080".to_owned(),
            documents: address,
            ops: address,
            documents_url: format!("https://{address}"),
            ops_url: format!("http://{address}"),
            token: Some(address),
            token_url: Some(format!("https://{address}")),
            admin: None,
            admin_tcp: Some(address),
            admin_tcp_url: Some(format!("https://{address}")),
            pid: 7,
        };
        ReadyFile::clear(&path).expect("nothing to clear");
        let file = ReadyFile::write(path.clone(), &addresses).expect("written");
        let text = fs::read_to_string(&path).expect("readable");
        assert_eq!(
            text,
            "{\"issuer\":\"http://127.0.0.1:8080\",\"documents\":\"127.0.0.1:8080\",\
             \"ops\":\"127.0.0.1:8080\",\
             \"documents_url\":\"https://127.0.0.1:8080\",\"ops_url\":\"http://127.0.0.1:8080\",\
             \"token\":\"127.0.0.1:8080\",\"token_url\":\"https://127.0.0.1:8080\",\"admin\":null,\
             \"admin_tcp\":\"127.0.0.1:8080\",\"admin_tcp_url\":\"https://127.0.0.1:8080\",\"pid\":7}\n"
        );
        drop(file);
        fs::write(&path, text).expect("left by one that was killed");
        ReadyFile::clear(&path).expect("of its kind");
        for other in
            ["{\"issuer\":\"https://oidc.example\",\"keys\":[]}", "[1]", "-----BEGIN PRIVATE KEY-----", ""]
        {
            fs::write(&path, other).expect("written");
            let refused = ReadyFile::clear(&path).expect_err(other).in_full();
            assert!(refused.contains("--ready-file") && refused.contains("left alone"), "{refused}");
            assert_eq!(fs::read_to_string(&path).expect("there"), other);
        }
        fs::remove_file(&path).expect("there");
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
        let nowhere = ReadyFile::write(dir.path().join("no/such/dir"), &addresses).expect_err("no directory");
        assert!(nowhere.in_full().contains("--ready-file"));
    }
}
