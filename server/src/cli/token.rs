//! `oneseal token`: what a pod runs to get a token for one relying party.

use std::path::PathBuf;
use std::time::Duration;

use oneseal::{Audience, SystemClock};
use serde_json::{Value, json};

use super::Globals;
use super::verify::configured;
use crate::client::{self, Exchanged, Proof, Request};
use crate::exit::{Exit, Failure};
use crate::{files, output, times};

/// For whom, from whom, and by what proof.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Whose token it must be [default: configuration's issuer.url]
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Whom it is for
    #[arg(long, visible_alias = "aud", value_name = "AUDIENCE", value_parser = audience)]
    audience: String,
    /// The file with the pod's service account token, projected for the issuer; read anew for each attempt
    #[arg(long, value_name = "FILE", default_value = SOURCE, conflicts_with = "assertion")]
    source: PathBuf,
    /// The file with an assertion of another issuer's, in place of a service account token
    #[arg(long, value_name = "FILE")]
    assertion: Option<PathBuf>,
    /// Put the token into this file, and print nothing: whole at any moment, and without a line end
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Of --out, in octal
    #[arg(long, value_name = "MODE", value_parser = mode, default_value = "0640", requires = "out")]
    mode: Mode,
    /// Send the proof there, and ask no discovery document
    #[arg(long, value_name = "URL")]
    token_endpoint: Option<String>,
    /// Trust the certificates in this PEM file beside the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// For everything, further attempts included
    #[arg(long, value_name = "DURATION", value_parser = patience, default_value = "30s")]
    timeout: Duration,
    /// Print one JSON object: token (or out, the file's name), kid, sub, aud, exp, and endpoint_host if it is not the issuer's
    #[arg(long)]
    json: bool,
}

/// Asks, and prints or writes the token. A file that is there stays as it is unless there is a new token for it.
///
/// # Errors
/// No proof, refused, or no answer; each with what to do about it.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { issuer, audience, source, assertion, out, mode, token_endpoint, ca, timeout, json } = args;
    let (issuer, mut roots) = configured(issuer, globals)?;
    if let Some(path) = ca {
        roots.push(super::read_ca(&path)?);
    }
    let proof = assertion.map_or(Proof::SubjectToken(source), Proof::Assertion);
    let request = Request { issuer, audience, proof, endpoint: token_endpoint, roots, patience: timeout };
    let exchanged = client::exchange(&request, &SystemClock).await?;
    warn_of_clock(&exchanged);
    if let Some(host) = &exchanged.endpoint_host {
        let issuer = &request.issuer;
        output::complain(&format!(
            "the proof went to {host}, which the discovery document of {issuer} names"
        ));
    }
    if let Some(path) = &out {
        files::replace_with_mode(path, exchanged.token.as_bytes(), mode.0)?;
    }
    tell(&request, &exchanged, out, json)
}

fn tell(request: &Request, exchanged: &Exchanged, out: Option<PathBuf>, json: bool) -> Result<Exit, Failure> {
    let Exchanged { token, kid, subject, expires_at, endpoint_host, .. } = exchanged;
    if json {
        let mut members =
            json!({ "kid": kid, "sub": subject, "aud": request.audience, "exp": expires_at.as_secs() });
        match out {
            Some(path) => members["out"] = Value::from(path.to_string_lossy()),
            None => members["token"] = Value::from(token.as_str()),
        }
        if let Some(host) = endpoint_host {
            members["endpoint_host"] = Value::from(host.as_str());
        }
        return output::answer(members, Exit::Done);
    }
    match out {
        Some(path) => {
            let until = times::rfc3339(*expires_at);
            output::complain(&format!("written: {}, good until {until}", path.display()));
        }
        None => output::print_line(token)?,
    }
    Ok(Exit::Done)
}

/// A token that is used when its time is thought to be another one fails at a relying party, where nobody looks for this.
fn warn_of_clock(exchanged: &Exchanged) {
    let ahead = exchanged.clock_ahead_s;
    if ahead.abs() > TOLERABLE_S {
        let side = if ahead > 0 { "behind" } else { "ahead of" };
        output::complain(&format!(
            "warning: this machine's clock is {} s {side} the issuer's",
            ahead.unsigned_abs()
        ));
    }
}

/// Permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode(u32);

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    match mode {
        Some(mode) if mode & 0o022 != 0 => {
            Err("others than its owner must not write a token's file".to_owned())
        }
        Some(mode) if mode & 0o400 == 0 => Err("its owner must be able to read it".to_owned()),
        Some(mode) => Ok(Mode(mode)),
        None => Err("write it in octal, as 0640 or 0600".to_owned()),
    }
}

/// Judged before a proof leaves this machine: an assertion is good for once.
fn audience(text: &str) -> Result<String, String> {
    Audience::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn patience(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(span) if !span.is_zero() && span <= MAX_PATIENCE => Ok(span),
        Ok(_) => Err("want more than nothing, and at most 1h".to_owned()),
        Err(error) => Err(format!("{error}; write it as 30s or 5m")),
    }
}

/// Where `deploy/kubernetes/examples/pod.yaml` has it.
const SOURCE: &str = "/var/run/secrets/oneseal/token";
/// What relying parties allow for at least, most of them.
const TOLERABLE_S: i64 = 30;
const MAX_PATIENCE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_lets_its_owner_read_and_nobody_else_write() {
        assert_eq!(mode("0640"), Ok(Mode(0o640)));
        assert_eq!(mode("400").expect("good").to_string(), "0400");
        for text in ["", "0o640", "rw", "0660", "0642", "0040", "4755", "888"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_timeout_is_a_span_with_an_end() {
        assert_eq!(patience("90s"), Ok(Duration::from_secs(90)));
        for text in ["", "0s", "2h", "30", "soon"] {
            assert!(patience(text).is_err(), "{text}");
        }
    }
}
