//! A round-robin TCP forwarder: what a Service does in a cluster. Its port is the issuer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Forwards each connection to the next backend that takes it.
#[derive(Debug)]
pub struct Forwarder {
    address: SocketAddr,
    backends: Arc<Mutex<Vec<SocketAddr>>>,
    _work: JoinSet<()>,
}

impl Forwarder {
    /// Listens on a free port of the loopback address, with no backend yet.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let backends: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let mut work = JoinSet::new();
        work.spawn(forward(listener, Arc::clone(&backends)));
        Self { address, backends, _work: work }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the backends.
    pub fn set_backends(&self, backends: Vec<SocketAddr>) {
        *self.backends.lock().unwrap_or_else(PoisonError::into_inner) = backends;
    }
}

async fn forward(listener: TcpListener, backends: Arc<Mutex<Vec<SocketAddr>>>) {
    let mut connections = JoinSet::new();
    let mut turn = 0;
    while let Ok((mut client, _)) = listener.accept().await {
        let order = in_turn(&backends.lock().unwrap_or_else(PoisonError::into_inner), turn);
        turn += 1;
        connections.spawn(async move {
            for backend in order {
                if let Ok(mut server) = TcpStream::connect(backend).await {
                    // Either side may hang up at any time.
                    drop(copy_bidirectional(&mut client, &mut server).await);
                    return;
                }
            }
        });
    }
}

fn in_turn(backends: &[SocketAddr], turn: usize) -> Vec<SocketAddr> {
    let len = backends.len().max(1);
    backends.iter().cycle().skip(turn % len).take(backends.len()).copied().collect()
}
