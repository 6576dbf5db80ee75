//! oneseal itself: the released binary with its own configuration, metrics and log on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use oneseal_coordination::SystemClock;
use oneseal_keystore::{Algorithm, InitRequest, IssuerUrl, init};
use oneseal_providers::FileProvider;
use serde_json::Value;
use tempfile::TempDir;

use crate::child::Child;
use crate::nginx::Pair;
use crate::until;

/// The path of the key set.
pub const JWKS: &str = "/.well-known/jwks.json";
/// What the ring of [`Place`] has keys for: two RSA keys and two others, so that the key set has the size of one in
/// the middle of a rotation.
pub const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Rs256, Algorithm::Es256, Algorithm::Ps256, Algorithm::EdDsa];

/// A directory with a ring and, beside it, a certificate.
#[derive(Debug)]
pub struct Place {
    home: TempDir,
    issuer: IssuerUrl,
}

impl Place {
    /// Makes both.
    ///
    /// # Panics
    /// If that fails.
    pub fn make() -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let issuer = IssuerUrl::parse("https://localhost", "bench").expect("a good issuer");
        let place = Self { home, issuer };
        let mut request = InitRequest::new(place.issuer.clone());
        request.algorithms = ALGORITHMS.to_vec();
        let provider = FileProvider::new(place.ring()).assume_durable(true);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(init(&provider, request, &SystemClock)).expect("a first ring");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        std::fs::write(place.certificate(), made.cert.pem()).expect("its file");
        write_private(&place.private_key(), &made.signing_key.serialize_pem());
        place
    }

    /// The ring's file.
    pub fn ring(&self) -> PathBuf {
        self.home.path().join("keyring.json")
    }

    /// Certificate and key of [`tls`](Self::tls).
    pub fn certificate(&self) -> PathBuf {
        self.home.path().join("tls.crt")
    }

    fn private_key(&self) -> PathBuf {
        self.home.path().join("tls.key")
    }

    /// The same ECDSA P-256 certificate for every contender, handed to `with`.
    pub fn tls<T>(&self, with: impl FnOnce(Pair<'_>) -> T) -> T {
        with(Pair { certificate: &self.certificate(), private_key: &self.private_key() })
    }

    /// Writes a configuration called `name` with `more` tables, and says where it is.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn configuration(&self, name: &str, more: &str) -> PathBuf {
        let config = self.home.path().join(format!("{name}.toml"));
        let algorithms: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.as_str()).collect();
        let text = format!(
            "[issuer]\nurl = {:?}\nalgorithms = {algorithms:?}\nself_check = false\n\
             [provider]\nkind = \"file\"\npath = {:?}\ndurable = true\n\
             [process]\ndrain_delay = \"0s\"\n{more}",
            self.issuer.as_str(),
            self.ring()
        );
        std::fs::write(&config, text).expect("the configuration can be written");
        config
    }

    /// `[tls]` with the certificate of this place.
    pub fn tls_table(&self) -> String {
        format!("[tls]\ncertificate = {:?}\nprivate_key = {:?}\n", self.certificate(), self.private_key())
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where discovery and JWKS are.
    pub documents: SocketAddr,
    ready: Value,
}

/// `[listen]` with free ports and no admin API.
pub const LISTEN: &str = "[listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = \"none\"\n";

impl Server {
    /// Starts it on the cores of the caller, as in production: metrics on, `ONESEAL_LOG=info`, lines as JSON to a file.
    ///
    /// # Panics
    /// If it does not become ready.
    pub fn start(config: &Path) -> Self {
        let ready_file = config.with_extension("ready.json");
        let log = config.with_extension("log");
        let output = std::fs::File::create(&log).expect("a log file");
        let mut command = Command::new(binary());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ONESEAL") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--config"])
            .arg(config)
            .arg("--ready-file")
            .arg(&ready_file)
            .env("ONESEAL_LOG", "info")
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output);
        let mut child = Child::start(&mut command).expect("the server can be started");
        let ready: Value = until("a ready server", || {
            assert!(!child.has_ended(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
            serde_json::from_slice(&std::fs::read(&ready_file).ok()?).ok()
        });
        let mut server = Self { child, documents: SocketAddr::from(([0; 4], 0)), ready };
        server.documents = server.address("documents").expect("a documents listener");
        server
    }

    /// An address of the ready file, by its name there.
    pub fn address(&self, name: &str) -> Option<SocketAddr> {
        self.ready[name].as_str()?.parse().ok()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// The server built with the profile of the bench: its executable lies beside the bench's own folder.
///
/// # Panics
/// If it is not built.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("TEST_BIN") {
        return path.into();
    }
    let own = std::env::current_exe().expect("this program has a path");
    let folder = own.parent().and_then(Path::parent).expect("it lies in target/PROFILE/deps");
    let server = folder.join("oneseal");
    assert!(server.exists(), "{} is not built: cargo build --release -p oneseal-server", server.display());
    server
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).expect("a private file");
    std::io::Write::write_all(&mut file, text.as_bytes()).expect("it can be written");
}
