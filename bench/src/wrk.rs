//! The load generator `wrk`: closed loop, kept-alive connections, one thread.
//!
//! It is asked for numbers by a script rather than read from its page for people, which rounds. The script has no
//! function that runs for each request: one would cost more than the request.
//!
//! Over TLS wrk resumes sessions where the server lets it and uses 0.5 ms for a handshake where not: it serves for
//! kept-alive connections here, and [`handshakes`](crate::handshakes) for the rest.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// What is asked, over and over.
#[derive(Debug)]
pub struct Wrk {
    url: String,
    script: PathBuf,
    connections: usize,
    _place: TempDir,
}

/// What came of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Answers.
    pub requests: u64,
    /// From the first to the last of them.
    pub seconds: f64,
    /// Median time to an answer.
    pub p50_us: f64,
    /// What one in a hundred took longer than.
    pub p99_us: f64,
}

/// Why the peer or tool called `name` cannot be had, with the way to get it.
pub fn missing(name: &str) -> String {
    format!("{name} is not installed (scripts/need bench)")
}

impl Wrk {
    /// GETs of `url`, `http` or `https`.
    ///
    /// # Errors
    /// wrk is not installed.
    pub fn get(url: impl Into<String>, headers: &[(&str, &str)], connections: usize) -> Result<Self, String> {
        Self::new(url.into(), "GET", headers, None, connections)
    }

    /// POSTs of `body` to `url`.
    ///
    /// # Errors
    /// wrk is not installed.
    pub fn post(
        url: impl Into<String>,
        headers: &[(&str, &str)],
        body: &str,
        connections: usize,
    ) -> Result<Self, String> {
        Self::new(url.into(), "POST", headers, Some(body), connections)
    }

    fn new(
        url: String,
        method: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        connections: usize,
    ) -> Result<Self, String> {
        is_installed()?;
        let place = tempfile::tempdir().expect("a temporary directory");
        let script = place.path().join("load.lua");
        std::fs::write(&script, lua(method, headers, body)).expect("the script can be written");
        Ok(Self { url, script, connections, _place: place })
    }

    /// Runs for `time`, on the core of the caller.
    ///
    /// # Panics
    /// If an answer was an error or did not come: a refusal is quick, and no measure of anything.
    pub fn run(&self, time: Duration) -> Load {
        self.begin(time).end()
    }

    /// Begins to run for `time`.
    ///
    /// # Panics
    /// If wrk cannot be started.
    pub fn begin(&self, time: Duration) -> Running {
        let child = Command::new("wrk")
            .args(["--threads", "1", "--connections", &self.connections.to_string()])
            .args(["--duration", &format!("{}s", time.as_secs().max(1)), "--timeout", "10s", "--script"])
            .arg(&self.script)
            .arg(&self.url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("wrk can be started");
        Running { child, url: self.url.clone() }
    }
}

/// A run that has begun.
#[derive(Debug)]
#[must_use = "nobody hears what it measured"]
pub struct Running {
    child: Child,
    url: String,
}

impl Running {
    /// Waits for its end.
    ///
    /// # Panics
    /// As [`Wrk::run`].
    pub fn end(self) -> Load {
        let output = self.child.wait_with_output().expect("wrk ends");
        let said = String::from_utf8_lossy(&output.stdout);
        let load = said.lines().find_map(parse).unwrap_or_else(|| {
            panic!("wrk at {}: {said}{}", self.url, String::from_utf8_lossy(&output.stderr))
        });
        load.unwrap_or_else(|failed| panic!("{failed} at {}", self.url))
    }
}

fn is_installed() -> Result<(), String> {
    let asked = Command::new("wrk").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.map(drop).map_err(|_| missing("wrk"))
}

fn lua(method: &str, headers: &[(&str, &str)], body: Option<&str>) -> String {
    let mut script = format!("wrk.method = {}\n", quoted(method));
    for (name, value) in headers {
        writeln!(script, "wrk.headers[ {} ] = {}", quoted(name), quoted(value)).expect("a String");
    }
    if let Some(body) = body {
        writeln!(script, "wrk.body = {}", quoted(body)).expect("a String");
    }
    script.push_str(DONE);
    script
}

/// A Lua string that nothing inside can end: what we send has no `]=]`.
fn quoted(text: &str) -> String {
    assert!(!text.contains("]=]"), "{text}");
    format!("[=[{text}]=]")
}

const DONE: &str = r#"
done = function(summary, latency, requests)
    local e = summary.errors
    io.write(string.format("measured %d %d %d %d %d\n", summary.requests, summary.duration,
        latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
"#;

/// Our own line: requests, duration and two percentiles in µs, failures.
fn parse(line: &str) -> Option<Result<Load, String>> {
    let numbers: Option<Vec<u64>> =
        line.strip_prefix("measured ")?.split(' ').map(|number| number.parse().ok()).collect();
    let &[requests, duration_us, p50_us, p99_us, failures] = numbers?.as_slice() else { return None };
    if failures > 0 || requests == 0 {
        return Some(Err(format!("{failures} of {requests} requests failed")));
    }
    Some(Ok(Load {
        requests,
        seconds: duration_us as f64 / 1e6,
        p50_us: p50_us as f64,
        p99_us: p99_us as f64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_writes_is_read() {
        let load = parse("measured 1000 2000000 60 900 0").expect("our line").expect("no failures");
        assert_eq!(load, Load { requests: 1000, seconds: 2.0, p50_us: 60.0, p99_us: 900.0 });
        assert_eq!(parse("Running 2s test @ http://x"), None);
    }

    #[test]
    fn failures_are_no_measurement() {
        for line in ["measured 1000 2000000 60 900 3", "measured 0 2000000 0 0 0"] {
            parse(line).expect("our line").expect_err(line);
        }
    }

    #[test]
    fn the_script_holds_headers_and_body_as_they_are() {
        let script = lua("POST", &[("Content-Type", "application/json")], Some(r#"{"sub":"a\"]]b"}"#));
        assert!(script.contains("wrk.headers[ [=[Content-Type]=] ] = [=[application/json]=]"), "{script}");
        assert!(script.contains(r#"wrk.body = [=[{"sub":"a\"]]b"}]=]"#), "{script}");
    }
}
