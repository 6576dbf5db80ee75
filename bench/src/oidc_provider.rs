//! The peer for tokens: oidc-provider on Node.js, what many would build an issuer with (`peers/oidc-provider`).
//!
//! It gives JWT access tokens for `client_credentials`, each client with an algorithm of its own, from its memory
//! adapter: no database, no policy, its fastest.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::child::Child;
use crate::pin::Cores;
use crate::wrk::{Wrk, missing};

/// A running oidc-provider.
#[derive(Debug)]
pub struct OidcProvider {
    child: Child,
    /// Where it serves.
    pub address: SocketAddr,
}

impl OidcProvider {
    /// Installs it by its lock file, if that has not been done, and starts it on the server's core.
    ///
    /// # Errors
    /// Node.js or npm are missing, or it cannot be installed.
    pub fn start(cores: Cores) -> Result<Self, String> {
        let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "peers", "oidc-provider"].iter().collect();
        if !folder.join("node_modules/oidc-provider/package.json").exists() {
            let npm =
                Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder).output();
            let npm = npm.map_err(|_| missing("npm"))?;
            if !npm.status.success() {
                return Err(format!("npm ci failed: {}", String::from_utf8_lossy(&npm.stderr)));
            }
        }
        let mut command = Command::new("node");
        command.arg(folder.join("server.mjs")).env("NODE_ENV", "production").stderr(Stdio::null());
        let (child, address) = cores
            .for_server(|| Child::start_serving(&mut command))
            .map_err(|error| format!("node: {error}"))?;
        Ok(Self { child, address })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Its token endpoint under load by the client that gets tokens of `algorithm`.
    ///
    /// # Errors
    /// wrk is not installed.
    pub fn tokens(&self, algorithm: &str, connections: usize) -> Result<Wrk, String> {
        let url = format!("http://{}/token", self.address);
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        Wrk::post(url, &headers, &Self::form(algorithm), connections)
    }

    /// The request for one token of `algorithm`.
    pub fn form(algorithm: &str) -> String {
        format!(
            "grant_type=client_credentials&client_id=bench&client_secret=bench-secret-of-no-value\
             &resource=urn:bench:{algorithm}"
        )
    }
}
