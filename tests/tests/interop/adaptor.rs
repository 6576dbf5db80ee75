//! One long-lived process of a library, driven line by line.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use oneseal_tests::require;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::install;
use crate::libraries::Library;

/// Ten times what a JVM needs to start on a busy machine of two cores.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running adaptor. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Adaptor {
    library: &'static Library,
    child: Child,
    requests: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    /// Of ours, those that it can verify.
    pub(crate) algorithms: Vec<String>,
    /// What it says it is.
    pub(crate) version: String,
    place: TempDir,
}

/// What a library says to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// With these claims.
    Accepted(Value),
    /// With its own name for why, and its text.
    Refused(String, String),
}

impl Verdict {
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted(_))
    }

    /// In words, and the library's own name for it.
    pub(crate) fn outcome(&self) -> (&'static str, &str) {
        match self {
            Self::Accepted(_) => ("accepted", ""),
            Self::Refused(error, _) => ("refused", error),
        }
    }
}

impl Adaptor {
    /// Installs the library if need be and starts it. `None` where it is missing.
    ///
    /// # Panics
    /// If it does not say what it is.
    pub(crate) async fn start(library: &'static Library) -> Option<Self> {
        let mut command = command(library).await?;
        let place = tempfile::tempdir().unwrap();
        let errors = std::fs::File::create(place.path().join("stderr")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let (algorithms, version) = (Vec::new(), String::new());
        let mut adaptor = Self { library, child, requests, answers, algorithms, version, place };
        let hello = adaptor.line().await;
        assert_eq!(hello["library"], library.name, "{hello}");
        let told = hello["algorithms"].as_array().unwrap();
        adaptor.algorithms = told.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        adaptor.version = hello["version"].as_str().unwrap().trim_start_matches('v').to_owned();
        Some(adaptor)
    }

    /// Builds its verifier afresh. `algorithms` absent: its own default.
    ///
    /// # Panics
    /// If it cannot.
    pub(crate) async fn configure(&mut self, issuer: &str, algorithms: Option<&[&str]>) {
        let mut request = json!({ "verb": "configure", "issuer": issuer, "audience": "test" });
        if let Some(algorithms) = algorithms {
            request["algorithms"] = algorithms.into();
        }
        let answer = self.ask(&request).await;
        assert_eq!(answer["ok"], true, "{}: {answer}", self.library.name);
    }

    /// Its verdict on `token`.
    ///
    /// # Panics
    /// If it answers by other rules than the protocol's.
    pub(crate) async fn verify(&mut self, token: &str) -> Verdict {
        let answer = self.ask(&json!({ "verb": "verify", "token": token })).await;
        if answer["ok"] == true {
            assert!(answer["claims"].is_object(), "{}: {answer}", self.library.name);
            return Verdict::Accepted(answer["claims"].clone());
        }
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        let error = text("error").unwrap_or_else(|| panic!("{}: {answer}", self.library.name));
        Verdict::Refused(error, text("message").unwrap_or_default())
    }

    /// Ends its input and waits for its end.
    ///
    /// # Panics
    /// If it does not end, or not with 0.
    pub(crate) async fn end(mut self) {
        self.requests = None;
        let ended = tokio::time::timeout(DEADLINE, self.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("{} did not end", self.library.name)).unwrap();
        assert_eq!(status.code(), Some(0), "{}: {}", self.library.name, self.errors());
    }

    async fn ask(&mut self, request: &Value) -> Value {
        self.answer_to(request.to_string().as_bytes()).await
    }

    /// What it answers to any line, given without its end.
    ///
    /// # Panics
    /// If it does not answer.
    pub(crate) async fn answer_to(&mut self, line: &[u8]) -> Value {
        let pipe = self.requests.as_mut().unwrap();
        pipe.write_all(&[line, b"\n"].concat()).await.unwrap();
        pipe.flush().await.unwrap();
        self.line().await
    }

    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(DEADLINE, self.answers.next_line()).await;
        let name = self.library.name;
        match line {
            Ok(Ok(Some(line))) => {
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"))
            }
            Ok(Ok(None)) => panic!("{name} ended:\n{}", self.errors()),
            Ok(Err(error)) => panic!("{name}: {error}:\n{}", self.errors()),
            Err(_) => panic!("{name} did not answer within {} s:\n{}", DEADLINE.as_secs(), self.errors()),
        }
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.place.path().join("stderr")).unwrap_or_default()
    }
}

/// The adaptor's program, in its folder, to be given words or pipes. `None` where the library is missing.
///
/// # Panics
/// If it cannot be installed.
pub(crate) async fn command(library: &'static Library) -> Option<Command> {
    let out = install::installed(library).await?;
    let mut command = Command::new(program(library, &out));
    command
        .args(library.program[1..].iter().map(|word| install::fill(word, &out)))
        .current_dir(library.place())
        // The issuer is on this machine, whatever stands between it and the world.
        .env("NO_PROXY", "127.0.0.1")
        .env("no_proxy", "127.0.0.1")
        .kill_on_drop(true);
    Some(command)
}

fn program(library: &Library, out: &Path) -> PathBuf {
    let word = install::fill(library.program[0], out);
    require::program(&word).unwrap_or_else(|| library.place().join(word))
}
