//! The server under attack: what it needs of memory, and whether others are still served.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use oneseal::{Algorithm, FileProvider, IssuerUrl, SystemClock};
use oneseal_keystore::{InitRequest, init};
use oneseal_tests::http::{Answer, get};
use oneseal_tests::{Replica, Start, state};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

pub(crate) const JWKS: &str = "/.well-known/jwks.json";
/// As many as the documents listener takes at a time.
pub(crate) const CAPACITY: usize = 4096;

/// One server with an ES256 key.
pub(crate) struct Target {
    pub(crate) replica: Replica,
    pub(crate) documents: SocketAddr,
    /// What it publishes.
    pub(crate) jwks: Bytes,
    /// Memory before anything happened, in KiB.
    before: u64,
    _place: TempDir,
}

impl Target {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| String::new()).await
    }

    /// With more configuration, which may name files of its directory.
    pub(crate) async fn start_with(more: impl FnOnce(&std::path::Path) -> String) -> Self {
        let place = tempfile::tempdir().unwrap();
        // Nobody listens there: a server that starts asks its own issuer, and goes on without an answer.
        let issuer = IssuerUrl::parse("http://127.0.0.1:9", "test").unwrap();
        let key = place.path().join("keyring.json");
        let mut request = InitRequest::new(issuer.clone());
        request.algorithms = vec![Algorithm::Es256];
        init(&FileProvider::new(&key).assume_durable(true), request, &SystemClock).await.unwrap();
        let mut start = Start::with_file(place.path().join("1"), issuer.as_str(), &key);
        start.more.push_str(&more(place.path()));
        start.log = "warn";
        let replica = start.ready().await;
        let documents = replica.documents;
        let mut target = Self { replica, documents, jwks: Bytes::new(), before: 0, _place: place };
        target.before = target.memory("VmRSS");
        target
    }

    /// One over plain HTTP, whose key set is known.
    pub(crate) async fn plain() -> Self {
        let mut target = Self::start().await;
        target.jwks = get(target.documents, JWKS).await.unwrap().body;
        target
    }

    /// A sample of its metrics.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let text = get(self.replica.ops, "/metrics").await.unwrap().body;
        let text = String::from_utf8(text.to_vec()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Connections of the documents listener.
    pub(crate) async fn connections(&self) -> u64 {
        self.metric("oneseal_http_connections{listener=\"documents\"}").await
    }

    /// Waits until it has no more than `most` connections.
    pub(crate) async fn has_at_most(&self, most: u64) {
        state::until("connections to end", async || (self.connections().await <= most).then_some(())).await;
    }

    /// Runs `attack` while somebody else keeps asking for the key set, over a connection of its own each time, and
    /// gets it.
    pub(crate) async fn beside<T>(&self, attack: impl Future<Output = T>) -> T {
        let mut attack = std::pin::pin!(attack);
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        loop {
            let neighbour = async {
                ticks.tick().await;
                let answer = timeout(PATIENCE, get(self.documents, JWKS)).await.expect("served in time");
                self.assert_served(&answer.expect("served"));
            };
            tokio::select! {
                biased;
                () = neighbour => {}
                done = &mut attack => {
                    self.assert_served(&timeout(PATIENCE, get(self.documents, JWKS)).await.unwrap().unwrap());
                    return done;
                }
            }
        }
    }

    fn assert_served(&self, answer: &Answer) {
        assert_eq!((answer.status.as_u16(), &answer.body), (200, &self.jwks));
    }

    /// Tells what `what` has cost, and holds it against its bound.
    #[expect(clippy::print_stderr, reason = "the figures are what one runs it for")]
    pub(crate) fn assert_grew_below(&self, mib: u64, what: &str) {
        let (now, peak) = (self.memory("VmRSS"), self.memory("VmHWM"));
        let grown = peak.saturating_sub(self.before);
        eprintln!(
            "{what}: {} MiB before, {} MiB at most, {} MiB at the end",
            self.before / 1024,
            peak / 1024,
            now / 1024
        );
        assert!(grown < mib * 1024, "{what}: memory grew by {grown} KiB, above {mib} MiB");
    }

    /// Of `/proc/PID/status`, in KiB.
    pub(crate) fn memory(&self, field: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.replica.pid())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// How many times a loop runs: `times`, or as often more as `make soak` says.
pub(crate) fn soaked(times: usize) -> usize {
    let factor = std::env::var("TEST_SOAK").ok().and_then(|text| text.parse::<usize>().ok());
    times * factor.map_or(1, |soak| (soak / 20).max(1))
}

/// So many connections that a test may open.
pub(crate) struct Room {
    pub(crate) count: usize,
    _files: SemaphorePermit<'static>,
}

/// Room for as many connections as this process may open, up to `wanted`; says so if those are fewer. Tests run side by
/// side in one process, so that one may have to wait for another.
pub(crate) async fn room_for(wanted: usize) -> Room {
    static FILES: OnceLock<(usize, Semaphore)> = OnceLock::new();
    let (most, files) = FILES.get_or_init(|| {
        let most = raised_limit().saturating_sub(OTHER_FILES).min(MANY);
        (most, Semaphore::new(most))
    });
    let count = wanted.min(*most);
    if count < wanted {
        #[expect(clippy::print_stderr, reason = "what a test leaves out is named in its output")]
        {
            eprintln!("SCALED DOWN: {count} connections in place of {wanted}: RLIMIT_NOFILE is too low");
        }
    }
    let permits = u32::try_from(count).unwrap();
    Room { count, _files: files.acquire_many(permits).await.unwrap() }
}

fn raised_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Whoever may not raise it has what it had.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.map_or(MANY, |files| usize::try_from(files).unwrap_or(MANY))
}

/// For everything that is not counted.
const OTHER_FILES: usize = 1_000;
/// A client's port is one of some 28,000.
const MANY: usize = 18_000;

/// Sends everything, or as much as is taken before the other side closes; then reads until it does.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let stream = TcpStream::connect(address).await.unwrap();
    finish(stream, bytes).await
}

/// The same on a connection that is there.
pub(crate) async fn finish(stream: impl AsyncRead + AsyncWrite, bytes: &[u8]) -> Vec<u8> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut answer = Vec::new();
    let read = async {
        // A reset ends it as well: the other side has closed with bytes of ours unread.
        let _ = reader.read_to_end(&mut answer).await;
    };
    let write = async {
        let _ = writer.write_all(bytes).await;
        std::future::pending::<()>().await;
    };
    let both = async {
        tokio::select! {
            () = read => {}
            () = write => {}
        }
    };
    timeout(PATIENCE, both).await.expect("the connection is closed in time");
    answer
}

/// Ten times what a request takes on a busy machine, and above the 15 s after which a slow request is dropped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
