//! One real `oneseal serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use oneseal::Algorithm;
use tokio::process::{Child, Command};

use crate::http::{self, Answer, NoAnswer};
use crate::state;

/// How a replica is to be started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its own directory: configuration, ready file, socket, log.
    pub home: PathBuf,
    /// The issuer's URL.
    pub issuer: String,
    /// The `[provider]` table, without its header.
    pub provider: String,
    /// More configuration, as whole tables.
    pub more: String,
    /// More of its environment.
    pub variables: Vec<(String, String)>,
    /// The value of `ONESEAL_LOG`.
    pub log: &'static str,
    /// `issuer.algorithms`.
    pub algorithms: Vec<Algorithm>,
    /// Variables of its environment, beside those of the test.
    pub environment: Vec<(String, String)>,
}

impl Start {
    /// A replica in `home` for `issuer`, with its key in the file `key`, that mints for the audience `test`.
    pub fn with_file(home: PathBuf, issuer: impl Into<String>, key: &Path) -> Self {
        Self {
            home,
            issuer: issuer.into(),
            provider: format!("kind = \"file\"\npath = {key:?}\ndurable = true\n"),
            more: "[admin]\nmint = true\nmint_audiences = [\"test\", \"other\"]\n".to_owned(),
            variables: Vec::new(),
            log: "info",
            algorithms: vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa],
            environment: Vec::new(),
        }
    }

    /// Writes the configuration, and says where it is, for a command line.
    ///
    /// # Panics
    /// If the directory cannot be written.
    pub fn configure(&self) -> PathBuf {
        std::fs::create_dir_all(&self.home).expect("a directory for the replica");
        std::fs::write(self.config(), self.text()).expect("its configuration");
        self.config()
    }

    /// Writes the configuration and starts the process, without waiting for anything.
    ///
    /// # Panics
    /// If the directory cannot be written or the process not be started.
    pub fn spawn(&self) -> Child {
        self.configure();
        drop(std::fs::remove_file(self.ready_file()));
        let log = std::fs::File::options().create(true).append(true).open(self.log_file()).expect("its log");
        let mut command = self.command(&["serve", "--config"]);
        command
            .arg(self.config())
            .arg("--ready-file")
            .arg(self.ready_file())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("ONESEAL_LOG", self.log)
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .kill_on_drop(true);
        command.spawn().expect("the server can be started")
    }

    /// The program with `arguments`, in the environment that a replica has: settings of oneseal's and of AWS's are its
    /// own alone.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        for (name, _) in std::env::vars_os() {
            if ["ONESEAL", "AWS_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.args(arguments).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the process and waits until it is ready.
    ///
    /// # Panics
    /// If it ends instead, with its log.
    pub async fn ready(self) -> Replica {
        let mut child = self.spawn();
        let ready = state::until("a ready replica", async || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the replica ended with {status}:\n{}", self.log_text());
            }
            let text = std::fs::read(self.ready_file()).ok()?;
            serde_json::from_slice::<serde_json::Value>(&text).ok()
        })
        .await;
        let address = |name: &str| ready[name].as_str().and_then(|text| text.parse().ok());
        let documents = address("documents").expect("the ready file names the documents listener");
        let ops = address("ops").expect("the ready file names the ops listener");
        Replica { start: self, child, documents, ops }
    }

    /// What it has logged so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The admin socket.
    pub fn admin(&self) -> PathBuf {
        self.home.join("admin.sock")
    }

    fn text(&self) -> String {
        format!(
            "[issuer]\nurl = {:?}\nalgorithms = {:?}\n\
             [provider]\n{}\
             [listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = {:?}\n{}",
            self.issuer,
            self.algorithms.iter().map(|algorithm| algorithm.as_str()).collect::<Vec<_>>(),
            self.provider,
            self.admin(),
            self.more
        )
    }

    fn config(&self) -> PathBuf {
        self.home.join("oneseal.toml")
    }

    fn ready_file(&self) -> PathBuf {
        self.home.join("ready.json")
    }

    fn log_file(&self) -> PathBuf {
        self.home.join("log")
    }
}

/// A replica that serves.
#[derive(Debug)]
pub struct Replica {
    start: Start,
    child: Child,
    /// Where discovery and JWKS are.
    pub documents: SocketAddr,
    /// Where probes and metrics are.
    pub ops: SocketAddr,
}

impl Replica {
    /// GET from its documents listener.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn get(&self, path: &str) -> Result<Answer, NoAnswer> {
        http::get(self.documents, path).await
    }

    /// A token minted on this replica through its admin socket.
    ///
    /// # Panics
    /// If it refuses.
    pub async fn mint(&self, body: &serde_json::Value) -> String {
        let answer = self.try_mint(body).await;
        assert!(answer.status.is_success(), "{} {:?}", answer.status, answer.body);
        answer.json()["token"].as_str().expect("a token").to_owned()
    }

    /// The process's number.
    ///
    /// # Panics
    /// If it has ended.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// What it answers to the same, refusals included.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn try_mint(&self, body: &serde_json::Value) -> Answer {
        http::post_json(&self.start.admin(), "/admin/v1/mint", body).await.expect("an answer")
    }

    /// SIGKILL, waited for.
    ///
    /// # Panics
    /// If the process cannot be killed.
    pub async fn kill(mut self) -> Start {
        self.child.kill().await.expect("it could be killed");
        self.start
    }

    /// What it has logged so far.
    pub fn log_text(&self) -> String {
        self.start.log_text()
    }

    /// Its admin socket.
    pub fn admin(&self) -> PathBuf {
        self.start.admin()
    }
}

/// The binary under test: `TEST_BIN`, or the one built beside the tests; it is built if it is missing.
///
/// # Panics
/// If it cannot be built.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("TEST_BIN") {
            return path.into();
        }
        let own = std::env::current_exe().expect("a test has a path");
        let folder = own.parent().and_then(Path::parent).expect("it lies in target/PROFILE/deps");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = std::process::Command::new(cargo);
        // Always asked: cargo knows whether it is up to date, and an old server would prove nothing.
        build.args(["build", "--quiet", "-p", "oneseal-server", "--bin", "oneseal"]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "the server does not build");
        folder.join(format!("oneseal{}", std::env::consts::EXE_SUFFIX))
    })
}
