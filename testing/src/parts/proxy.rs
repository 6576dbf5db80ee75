//! A TCP proxy that does to connections what networks do.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A proxy before one server. Dropped, it closes its connections and listens no more.
///
/// It works on threads of its own, outside any runtime, and knows no protocol: what to look for are bytes, so a client
/// that is to be cut at a word of its own must speak without TLS.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What becomes of the connection whose client has sent the bytes asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They never reach the server; both ends are closed.
    CutBefore,
    /// They reach the server, and both ends are closed when it answers: it has done as asked, the client cannot know.
    CutAfter,
    /// They reach the server, and nothing goes through any more. The connection stays open.
    HangAfter,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    accepted: AtomicUsize,
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct State {
    backend: SocketAddr,
    is_refusing: bool,
    is_black_hole: bool,
    delay: Duration,
    trap: Option<(Vec<u8>, Fate)>,
    open: Vec<TcpStream>,
}

impl Proxy {
    /// Listens on a free port of the loopback address and passes connections on to `backend`.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn start(backend: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = State {
            backend,
            is_refusing: false,
            is_black_hole: false,
            delay: Duration::ZERO,
            trap: None,
            open: Vec::new(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            accepted: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread("proxy", move || accept(&listener, &accepting));
        Self { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes new connections on to `backend`. Open ones stay where they are: see [`Proxy::cut`].
    pub fn set_backend(&self, backend: SocketAddr) {
        self.shared.state().backend = backend;
    }

    /// Closes new connections at once, or no more. Open ones stay.
    pub fn refuse(&self, is_refusing: bool) {
        self.shared.state().is_refusing = is_refusing;
    }

    /// Swallows all bytes of all connections in both directions, or no more; what was swallowed does not come back, so
    /// [`Proxy::cut`] what was open. New connections are taken and get no answer.
    pub fn black_hole(&self, is_black_hole: bool) {
        self.shared.state().is_black_hole = is_black_hole;
    }

    /// Holds back whatever comes, in either direction, for as long.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Does `fate` to the first connection whose client sends `bytes`, once.
    pub fn when_client_sends(&self, bytes: &[u8], fate: Fate) {
        self.shared.state().trap = Some((bytes.to_vec(), fate));
    }

    /// Whether nothing waits any more for what [`Proxy::when_client_sends`] was told.
    pub fn has_sprung(&self) -> bool {
        self.shared.state().trap.is_none()
    }

    /// Closes every open connection.
    pub fn cut(&self) {
        self.shared.state().cut();
    }

    /// How many connections it has taken so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the thread that accepts, which then sees that it is over.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do with `seen`, the latest bytes of a client. A trap springs once.
    fn spring(&self, seen: &[u8]) -> Option<Fate> {
        let mut state = self.state();
        let (bytes, fate) = state.trap.as_ref()?;
        let fate = *fate;
        if !seen.windows(bytes.len().max(1)).any(|window| window == bytes) {
            return None;
        }
        state.trap = None;
        Some(fate)
    }
}

impl State {
    fn cut(&mut self) {
        for connection in self.open.drain(..) {
            drop(connection.shutdown(Shutdown::Both));
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.is_closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        let (backend, is_refusing) = {
            let state = shared.state();
            (state.backend, state.is_refusing)
        };
        if is_refusing {
            continue;
        }
        let shared = Arc::clone(shared);
        thread("proxy-connection", move || drop(connect(client, backend, &shared)));
    }
}

fn connect(client: TcpStream, backend: SocketAddr, shared: &Arc<Shared>) -> std::io::Result<()> {
    let server = TcpStream::connect(backend)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    shared.state().open.extend([client.try_clone()?, server.try_clone()?]);
    let pair = Arc::new(Pair { client, server, fate: Mutex::new(None) });
    let (back, state) = (Arc::clone(&pair), Arc::clone(shared));
    thread("proxy-answers", move || {
        drop(answers(&back, &state));
        back.close();
    });
    let result = requests(&pair, shared);
    // A client that has said all may still be read to.
    drop(pair.server.shutdown(Shutdown::Write));
    if result.is_err() {
        pair.close();
    }
    result
}

#[derive(Debug)]
struct Pair {
    client: TcpStream,
    server: TcpStream,
    fate: Mutex<Option<Fate>>,
}

impl Pair {
    fn close(&self) {
        drop(self.client.shutdown(Shutdown::Both));
        drop(self.server.shutdown(Shutdown::Both));
    }

    fn fate(&self) -> MutexGuard<'_, Option<Fate>> {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn requests(pair: &Pair, shared: &Shared) -> std::io::Result<()> {
    const TAIL: usize = 256;
    let mut buffer = vec![0; 64 * 1024];
    // What is looked for may come in two pieces.
    let mut seen = Vec::new();
    loop {
        let len = (&pair.client).read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        let bytes = &buffer[..len];
        seen.extend_from_slice(bytes);
        if let Some(fate) = shared.spring(&seen) {
            if fate == Fate::CutBefore {
                pair.close();
                return Ok(());
            }
            // Before the bytes go out, so that no answer to them can go through.
            *pair.fate() = Some(fate);
        }
        seen.drain(..seen.len().saturating_sub(TAIL));
        if !passes(shared) {
            continue;
        }
        (&pair.server).write_all(bytes)?;
    }
}

fn answers(pair: &Pair, shared: &Shared) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let len = (&pair.server).read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        let passes = passes(shared);
        match *pair.fate() {
            Some(Fate::CutAfter) => return Ok(()),
            Some(_) => continue,
            None if passes => {}
            None => continue,
        }
        (&pair.client).write_all(&buffer[..len])?;
    }
}

/// Whether bytes go through now, after the delay.
fn passes(shared: &Shared) -> bool {
    let delay = shared.state().delay;
    if !delay.is_zero() {
        #[expect(clippy::disallowed_methods, reason = "a slow network is what this thread plays")]
        std::thread::sleep(delay);
    }
    !shared.state().is_black_hole
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) {
    // Each ends with its connection, or with its listener.
    let handle = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    drop(handle.expect("a thread can be started"));
}
