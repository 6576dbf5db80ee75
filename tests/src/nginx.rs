//! A real nginx in front of the replicas: round robin, with or without a cache.
//!
//! ```no_run
//! # async fn example(replicas: Vec<std::net::SocketAddr>) -> Option<()> {
//! use oneseal_tests::nginx::{Options, Proxy};
//!
//! let mut proxy = Proxy::start(Options { show_cache_status: true, ..Options::default() }).await?;
//! proxy.set_backends(replicas).await;
//! let answer = oneseal_tests::http::get(proxy.address(), "/.well-known/jwks.json").await.ok()?;
//! assert_eq!(answer.header("x-cache-status"), "MISS");
//! # Some(())
//! # }
//! ```
//! Its listening socket is bound here, on port 0, and handed over as nginx's standard input (the variable `NGINX`, by
//! which an nginx hands its sockets to its successor), so that no port is guessed and none is ever lost to another
//! test. Its directory is its own; nothing of a system's nginx is read or written.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{http, require, state};

/// How the proxy treats what the replicas say.
///
/// # Defaults
/// What a platform team would write first: a cache that follows `Cache-Control`, validates by `ETag`, collapses
/// simultaneous misses and serves stale only where the answer itself allows it.
#[derive(Clone, Debug)]
pub struct Options {
    /// `proxy_cache`. Without it every request reaches a replica.
    pub cache: bool,
    /// `proxy_cache_revalidate`: an expired entry is asked for with `If-None-Match`.
    pub revalidate: bool,
    /// `proxy_cache_use_stale`, such as `["error", "timeout", "http_503"]`. Empty: off, and then nginx follows
    /// `stale-if-error` of the answer itself.
    pub use_stale: &'static [&'static str],
    /// `proxy_cache_lock`: of simultaneous misses one goes to a replica.
    pub lock: bool,
    /// Somebody else's lines of `location /`, in place of all that the fields above say; the replicas are
    /// `http://oneseal` there, and the cache is `documents`.
    pub location: Option<String>,
    /// `X-Cache-Status` on each answer: MISS, HIT, EXPIRED, REVALIDATED, STALE, UPDATING or BYPASS.
    pub show_cache_status: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache: true,
            revalidate: true,
            use_stale: &[],
            lock: true,
            location: None,
            show_cache_status: false,
        }
    }
}

/// One request that the proxy has answered, from its access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The path asked for.
    pub path: String,
    /// The status answered.
    pub status: u64,
    /// What the cache did (`MISS`, `HIT`, …); empty without a cache.
    pub cache: String,
    /// Which replicas were asked, in nginx's words; empty when none was.
    pub upstream: String,
    /// The client's `User-Agent`.
    pub agent: String,
}

impl Seen {
    /// Whether it went on to a replica.
    pub fn reached_a_replica(&self) -> bool {
        !self.upstream.is_empty()
    }
}

/// A running nginx. Dropped, it ends with its workers.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    options: Options,
    generation: u32,
    child: Child,
    place: TempDir,
}

impl Proxy {
    /// Starts it with no backend yet: until [`Proxy::set_backends`] it answers 503. `None` where nginx is not
    /// installed, which the test's output then says.
    ///
    /// # Panics
    /// If nginx refuses its configuration or ends, with what it says; or if it is missing with `TEST_REQUIRE=all`.
    pub async fn start(options: Options) -> Option<Self> {
        let Some(nginx) = require::program("nginx") else {
            require::skip("nginx", "not installed (Debian: apt-get install nginx-light)");
            return None;
        };
        let place = tempfile::tempdir().expect("a temporary directory");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        // nginx waits for its sockets by epoll.
        listener.set_nonblocking(true).expect("a socket that does not block");
        std::fs::write(place.path().join("nginx.conf"), config(&options, address, &[], 0))
            .expect("its config");
        let errors = std::fs::File::create(place.path().join("stderr")).expect("a file for its errors");
        let child = Command::new(nginx)
            .args(["-e", "stderr", "-c", "nginx.conf", "-p"])
            .arg(place.path())
            .env("NGINX", "0;")
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .expect("nginx can be started");
        let mut proxy = Self { address, options, generation: 0, child, place };
        proxy.serves_generation(0).await;
        Some(proxy)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the replicas behind it, and returns when the new ones are in use. The cache stays.
    ///
    /// # Panics
    /// If nginx refuses the new configuration or has ended, with what it says.
    pub async fn set_backends(&mut self, backends: Vec<SocketAddr>) {
        self.generation += 1;
        let text = config(&self.options, self.address, &backends, self.generation);
        std::fs::write(self.place.path().join("nginx.conf"), text).expect("its config");
        self.signal(Signal::HUP);
        self.serves_generation(self.generation).await;
    }

    /// Every request it has answered so far, oldest first.
    ///
    /// # Panics
    /// If its log cannot be read.
    pub fn seen(&self) -> Vec<Seen> {
        let log = std::fs::read_to_string(self.place.path().join("access.log")).expect("its access log");
        // A line that is being written has no end yet.
        log.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(seen).collect()
    }

    /// What it has said on standard error so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.place.path().join("stderr")).unwrap_or_default()
    }

    /// Waits for the answers of the new worker, and for the old one to accept no more.
    async fn serves_generation(&mut self, generation: u32) {
        let wanted = generation.to_string();
        state::until("nginx to serve its configuration", async || {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("nginx ended with {status}:\n{}", self.log_text());
            }
            let log = self.log_text();
            assert!(!log.contains("[emerg]"), "nginx refuses its configuration:\n{log}");
            let left = log.matches("gracefully shutting down").count();
            let answer = http::get(self.address, GENERATION).await.ok()?;
            (answer.body == wanted && left >= generation as usize).then_some(())
        })
        .await;
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        if let Some(pid) = pid {
            // It may just have ended; who waits for it finds out.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Proxy {
    /// By SIGTERM: the master takes its workers with it, whereas a SIGKILL would leave them behind.
    fn drop(&mut self) {
        self.signal(Signal::TERM);
    }
}

fn seen(line: &str) -> Seen {
    let line: Value = serde_json::from_str(line).expect("a line of JSON");
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let without_dash = |name: &str| text(name).replace('-', "");
    Seen {
        path: text("path"),
        status: line["status"].as_u64().unwrap_or_default(),
        cache: without_dash("cache"),
        upstream: text("upstream").trim_matches('-').to_owned(),
        agent: text("agent"),
    }
}

/// Answered by nginx itself, so that a reload can be waited for.
const GENERATION: &str = "/-/generation";

fn config(options: &Options, address: SocketAddr, backends: &[SocketAddr], generation: u32) -> String {
    // A worker of root's would otherwise be `nobody`, who may not enter the test's own directory.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("    {what}_temp_path {what};\n"))
        .concat();
    let mut upstream = String::new();
    if !backends.is_empty() {
        upstream.push_str("    upstream oneseal {\n");
        for backend in backends {
            // No replica is left out for having failed once: each request asks the next one in turn.
            let _ = writeln!(upstream, "        server {backend} max_fails=0;");
        }
        upstream.push_str("    }\n");
    }
    format!(
        "{user}
worker_processes 1;
daemon off;
pid nginx.pid;
error_log stderr notice;
events {{}}
http {{
{temporary}\
    log_format seen escape=json '{{\"path\":\"$uri\",\"status\":$status,\"cache\":\"$upstream_cache_status\",\"upstream\":\"$upstream_addr\",\"agent\":\"$http_user_agent\"}}';
    proxy_cache_path cache levels=1 keys_zone=documents:1m max_size=10m inactive=1h use_temp_path=off;
{upstream}\
    server {{
        listen {address};
        access_log access.log seen;
        location = {GENERATION} {{
            access_log off;
            return 200 {generation};
        }}
        location / {{
{}        }}
    }}
}}
",
        location(options, backends.is_empty())
    )
}

fn location(options: &Options, is_empty: bool) -> String {
    if is_empty {
        return "            return 503;\n".to_owned();
    }
    let mut lines = options.location.clone().unwrap_or_else(|| own_location(options));
    if options.show_cache_status {
        lines.push_str("            add_header X-Cache-Status $upstream_cache_status always;\n");
    }
    lines
}

fn own_location(options: &Options) -> String {
    let mut lines = vec![
        "proxy_pass http://oneseal".to_owned(),
        "proxy_http_version 1.1".to_owned(),
        "proxy_set_header Host $http_host".to_owned(),
        "proxy_next_upstream error timeout http_502 http_503 http_504".to_owned(),
        "proxy_connect_timeout 5s".to_owned(),
    ];
    let on = |flag: bool| if flag { "on" } else { "off" };
    if options.cache {
        let stale = if options.use_stale.is_empty() { "off".to_owned() } else { options.use_stale.join(" ") };
        lines.extend([
            "proxy_cache documents".to_owned(),
            "proxy_cache_key $request_method$uri".to_owned(),
            "proxy_cache_convert_head off".to_owned(),
            format!("proxy_cache_revalidate {}", on(options.revalidate)),
            format!("proxy_cache_use_stale {stale}"),
            format!("proxy_cache_lock {}", on(options.lock)),
        ]);
    }
    lines.iter().map(|line| format!("            {line};\n")).collect()
}
