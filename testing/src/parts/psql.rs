//! One database of a server: its URLs, and statements run by psql.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Output;

use super::place::Place;
use super::postgres::PASSWORD;

/// A database, by name. It is the test's own and goes with its server.
#[derive(Clone, Debug)]
pub struct Database {
    psql: PathBuf,
    socket: PathBuf,
    address: SocketAddr,
    name: String,
}

impl Database {
    pub(super) fn new(psql: PathBuf, socket: PathBuf, address: SocketAddr, name: &str) -> Self {
        Self { psql, socket, address, name: name.to_owned() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Over TCP, as the superuser, with the password.
    pub fn url(&self) -> String {
        self.url_at(self.address)
    }

    /// As [`Database::url`], but at `address`: that of a pooler or a proxy.
    pub fn url_at(&self, address: SocketAddr) -> String {
        format!("postgres://postgres:{PASSWORD}@{address}/{}", self.name)
    }

    /// Over the server's socket, as the superuser, without a password.
    pub fn socket_url(&self) -> String {
        let directory = self.socket.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{directory}:{}/{}", self.address.port(), self.name)
    }

    /// Runs `sql` as the superuser over the socket, each statement by itself, and gives back the rows: a line each, the
    /// columns separated by `|`, without names.
    ///
    /// # Panics
    /// If the server does not answer or refuses a statement, with what it says.
    pub fn execute(&self, sql: &str) -> String {
        self.try_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// As [`Database::execute`].
    ///
    /// # Errors
    /// What psql says.
    pub fn try_execute(&self, sql: &str) -> Result<String, String> {
        let mut command = Place::of_this_process().command(&self.psql);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]);
        command.arg(&self.socket).args(["-p", &self.address.port().to_string(), "-d", &self.name]);
        // Several statements after -c would be one transaction; those of a file are not.
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        std::fs::write(file.path(), sql).map_err(|error| error.to_string())?;
        command.stdin(file.reopen().map_err(|error| error.to_string())?);
        let Output { status, stdout, stderr } = command.output().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(String::from_utf8_lossy(&stderr).into_owned());
        }
        Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned())
    }
}
