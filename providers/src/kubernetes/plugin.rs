//! The credential plugin of a kubeconfig: a program that prints who asks (client.authentication.k8s.io, ExecCredential).
//!
//! kube would run it as well, without an end, with all of our environment and with our standard error. Here it has a
//! time-out, a process group of its own that ends with it, no variable that holds a key, and no terminal: what it says
//! goes into our log, cut short.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use kube::config::{ExecConfig, ExecInteractiveMode};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use secrecy::SecretString;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::connect::Unusable;
use crate::withheld::is_withheld;
use crate::{ErrorKind, looks_like_key};

/// What a plugin gives.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Credential {
    #[serde(default, deserialize_with = "secret")]
    pub(super) token: Option<SecretString>,
    /// PEM.
    pub(super) client_certificate_data: Option<String>,
    /// PEM.
    #[serde(default, deserialize_with = "secret")]
    pub(super) client_key_data: Option<SecretString>,
    expiration_timestamp: Option<String>,
    /// Until when, in Unix seconds.
    #[serde(skip)]
    pub(super) until: Option<i64>,
}

/// Runs the plugin. Blocking, for `limit` at most.
pub(super) fn ask(exec: &ExecConfig, limit: Duration) -> Result<Credential, Unusable> {
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(Unusable::misconfigured(
            "the credential plugin of the kubeconfig wants a terminal (interactiveMode: Always), and gets none here; log in \
             with kubectl and use what that leaves behind",
        ));
    }
    let answer = run(&mut command(exec)?, limit)?;
    if answer.status.success() {
        tell(&answer.errors, false);
        credential(&answer.output, exec.api_version.as_deref())
    } else {
        tell(&answer.errors, true);
        // Neither its arguments nor what it has printed.
        let detail = format!(
            "the credential plugin of the kubeconfig failed ({}); what it said is in the log",
            answer.status
        );
        Err(Unusable::new(ErrorKind::Unauthenticated, detail))
    }
}

/// Ends every plugin that still runs, for whoever ends the process without waiting for its threads.
pub fn end_credential_plugins() {
    for group in &*groups() {
        let _ = kill_process_group(*group, Signal::KILL);
    }
}

fn command(exec: &ExecConfig) -> Result<Command, Unusable> {
    let program = exec.command.as_deref().filter(|program| !program.is_empty());
    let program = program
        .ok_or_else(|| Unusable::misconfigured("the credential plugin of the kubeconfig has no command"))?;
    let mut spec = serde_json::json!({"interactive": false});
    if exec.provide_cluster_info
        && let Some(cluster) = &exec.cluster
    {
        spec["cluster"] = serde_json::json!(cluster);
    }
    let info = serde_json::json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_withheld) {
            command.env_remove(name);
        }
    }
    // The kubeconfig's own come last: they are meant for it.
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    Ok(command)
}

struct Answer {
    status: ExitStatus,
    output: Zeroizing<Vec<u8>>,
    errors: Vec<u8>,
}

fn run(command: &mut Command, limit: Duration) -> Result<Answer, Unusable> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut running = Running::start(command).map_err(|error| {
        let detail = format!("the credential plugin of the kubeconfig does not start: {error}");
        Unusable::new(ErrorKind::Unauthenticated, detail)
    })?;
    match running.answer(limit) {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => {
            let detail = format!(
                "the credential plugin of the kubeconfig did not end within {} s, and was killed",
                limit.as_secs_f32()
            );
            Err(Unusable::new(ErrorKind::Unavailable, detail))
        }
        Err(error) => {
            let detail = format!("the credential plugin of the kubeconfig could not be followed: {error}");
            Err(Unusable::new(ErrorKind::Unavailable, detail))
        }
    }
}

/// A plugin and what it has started. Dropped, they are killed.
struct Running {
    child: Child,
    group: Pid,
}

impl Running {
    fn start(command: &mut Command) -> io::Result<Self> {
        // Together, so that whoever ends them all misses none.
        let mut groups = groups();
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        groups.push(group);
        Ok(Self { child, group })
    }

    /// `None` if it has not ended, or its output has not, within `limit`.
    fn answer(&mut self, limit: Duration) -> io::Result<Option<Answer>> {
        let (output, errors) = (self.child.stdout.take(), self.child.stderr.take());
        let group = self.group;
        let (done, ended) = mpsc::channel();
        let log = thread::Builder::new().name("plugin-log".to_owned()).spawn(move || {
            let mut told = Vec::new();
            let _ = first_of(errors, LONGEST_LOG, &mut told);
            told
        })?;
        // It ends with its end of the pipe, at the latest when the group is killed.
        thread::Builder::new().name("plugin".to_owned()).spawn(move || {
            let mut printed = Zeroizing::new(Vec::with_capacity(LONGEST_OUTPUT));
            let read = first_of(output, LONGEST_OUTPUT, &mut printed);
            // Not collected yet, so that its number is nobody else's.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let exited = waitid(WaitId::Pid(group), options).map_err(io::Error::from);
            let errors = log.join().unwrap_or_default();
            let _ = done.send(read.and(exited).map(|_| (printed, errors)));
        })?;
        match ended.recv_timeout(limit) {
            Ok(read) => {
                let (output, errors) = read?;
                self.is_out();
                let status = self.child.wait()?;
                Ok(Some(Answer { status, output, errors }))
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
        }
    }
}

impl Running {
    /// Takes it out of those that run; whether it was among them.
    fn is_out(&self) -> bool {
        let mut groups = groups();
        let before = groups.len();
        groups.retain(|group| *group != self.group);
        groups.len() < before
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What has ended by itself was taken out, and may leave something behind that it has detached.
        if self.is_out() {
            let _ = kill_process_group(self.group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// The beginning of what comes; all of it is taken.
fn first_of(from: Option<impl Read>, most: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let Some(mut from) = from else { return Ok(()) };
    let mut piece = Zeroizing::new([0; 4096]);
    loop {
        match from.read(&mut *piece) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                let room = most.saturating_sub(into.len()).min(length);
                into.extend_from_slice(&piece[..room]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// In one line; a word that is as long as a token is none that a person needs.
fn tell(errors: &[u8], is_failure: bool) {
    let errors = String::from_utf8_lossy(errors);
    let words = errors.split_whitespace().map(|word| if word.len() > LONGEST_WORD { "…" } else { word });
    let said: String = words.collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_control()).collect();
    if said.is_empty() || looks_like_key(&said) {
        return;
    }
    if is_failure {
        tracing::warn!(said, "the credential plugin of the kubeconfig failed");
    } else {
        tracing::debug!(said, "the credential plugin of the kubeconfig");
    }
}

fn credential(output: &[u8], version: Option<&str>) -> Result<Credential, Unusable> {
    let unusable = || {
        let detail = "the credential plugin of the kubeconfig gives no credentials that can be used here: an ExecCredential \
                      of the configured apiVersion, with a token or with a certificate and its key";
        Unusable::new(ErrorKind::Unauthenticated, detail)
    };
    let printed: Printed = serde_json::from_slice(output).map_err(|_| unusable())?;
    let is_of_version = version.is_none_or(|version| printed.api_version == version);
    let mut credential =
        printed.status.filter(|_| is_of_version && printed.kind == "ExecCredential").ok_or_else(unusable)?;
    let has_certificate =
        credential.client_certificate_data.is_some() && credential.client_key_data.is_some();
    if credential.token.is_none() && !has_certificate {
        return Err(unusable());
    }
    if let Some(until) = &credential.expiration_timestamp {
        let until: k8s_openapi::jiff::Timestamp = until.parse().map_err(|_| unusable())?;
        credential.until = Some(until.as_second());
    }
    Ok(credential)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    kind: String,
    api_version: String,
    status: Option<Credential>,
}

fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(SecretString::from))
}

fn groups() -> MutexGuard<'static, Vec<Pid>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of the plugins that run.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A token and a chain of certificates are some kilobytes.
const LONGEST_OUTPUT: usize = 256 * 1024;
const LONGEST_LOG: usize = 1000;
const LONGEST_WORD: usize = 80;
