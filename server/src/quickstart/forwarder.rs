//! One address in front of several replicas, as a Kubernetes Service is in front of its pods.
//!
//! It balances connections, not requests, and speaks no HTTP: what reaches a replica is what the client sent. It has
//! no health checks either. A backend that does not take a connection is passed over for that connection, so a
//! killed replica costs its clients nothing but one refused dial on loopback.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Where the replicas are. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Backends {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    addresses: Mutex<Vec<Option<SocketAddr>>>,
    turn: AtomicUsize,
}

impl Backends {
    /// Room for `count` replicas, none of which is there yet.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            shared: Arc::new(Shared { addresses: Mutex::new(vec![None; count]), turn: AtomicUsize::new(0) }),
        }
    }

    /// Says where replica `index` is now; `None` for nowhere.
    pub(crate) fn set(&self, index: usize, address: Option<SocketAddr>) {
        let mut addresses = self.shared.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = addresses.get_mut(index) {
            *place = address;
        }
    }

    /// The known addresses in the order in which the next connection tries them: each call begins one further.
    fn in_turn(&self) -> Vec<SocketAddr> {
        let addresses = self.shared.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known: Vec<SocketAddr> = addresses.iter().copied().flatten().collect();
        if !known.is_empty() {
            let turn = self.shared.turn.fetch_add(1, Ordering::Relaxed);
            let begin = turn % known.len();
            known.rotate_left(begin);
        }
        known
    }
}

/// Carries connections from `listener` to `backends` until `cancel`; the connections end with it.
///
/// # Cancel safety
/// Dropping the future closes the listener and every connection.
pub(crate) async fn run(listener: TcpListener, backends: Backends, cancel: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Nothing is left behind: the set aborts its connections when it is dropped.
            () = cancel.cancelled() => return,
            // A finished connection makes room for another.
            Some(_) = connections.join_next() => {}
            // Not accepted yet, a client waits in the kernel's queue: that is the bound.
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((client, _)) => drop(connections.spawn(carry(client, backends.in_turn()))),
                // Out of file descriptors, or the client is gone again: neither is helped by asking at once.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

/// One connection, to the first of `candidates` that answers. When none does, the client sees its connection closed.
async fn carry(mut client: TcpStream, candidates: Vec<SocketAddr>) {
    let Some(mut backend) = dial(&candidates).await else { return };
    // An error is the end of the connection for both sides, and theirs to notice.
    let _ = copy_bidirectional(&mut client, &mut backend).await;
}

async fn dial(candidates: &[SocketAddr]) -> Option<TcpStream> {
    for address in candidates {
        if let Ok(Ok(stream)) = tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await {
            // Small answers: without this the second packet of each waits for an acknowledgement.
            let _ = stream.set_nodelay(true);
            return Some(stream);
        }
    }
    None
}

/// Twice as many sockets as this are open at once, within the usual limit of 1024 descriptors.
const MAX_CONNECTIONS: usize = 256;
/// Loopback refuses at once; only a stopped process (SIGSTOP) with a full queue takes this long.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that answers every connection with `name` and closes it.
    async fn named(name: &'static str, running: &mut JoinSet<()>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        running.spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let _ = client.write_all(name.as_bytes()).await;
            }
        });
        address
    }

    /// An address where nobody listens any more.
    async fn dead() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        listener.local_addr().expect("bound")
    }

    async fn in_front_of(
        backends: &Backends,
        running: &mut JoinSet<()>,
        cancel: &CancellationToken,
    ) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        running.spawn(run(listener, backends.clone(), cancel.clone()));
        address
    }

    async fn ask(address: SocketAddr) -> String {
        let mut client = TcpStream::connect(address).await.expect("the forwarder listens");
        let mut said = String::new();
        // A reset is an end like any other here.
        let _ = client.read_to_string(&mut said).await;
        said
    }

    #[tokio::test]
    async fn connections_go_round_and_follow_a_replica_that_moved() {
        let mut running = JoinSet::new();
        let backends = Backends::new(2);
        backends.set(0, Some(named("a", &mut running).await));
        backends.set(1, Some(named("b", &mut running).await));
        let front = in_front_of(&backends, &mut running, &CancellationToken::new()).await;
        let said = [ask(front).await, ask(front).await, ask(front).await, ask(front).await];
        assert_eq!(said, ["a", "b", "a", "b"]);
        backends.set(0, Some(named("c", &mut running).await));
        let mut said = [ask(front).await, ask(front).await];
        said.sort();
        assert_eq!(said, ["b", "c"]);
    }

    #[tokio::test]
    async fn a_dead_backend_is_passed_over() {
        let mut running = JoinSet::new();
        let backends = Backends::new(3);
        backends.set(0, Some(dead().await));
        backends.set(1, Some(named("alive", &mut running).await));
        let front = in_front_of(&backends, &mut running, &CancellationToken::new()).await;
        for _ in 0..6 {
            assert_eq!(ask(front).await, "alive");
        }
    }

    #[tokio::test]
    async fn with_no_backend_alive_the_connection_is_closed() {
        let mut running = JoinSet::new();
        let backends = Backends::new(2);
        let front = in_front_of(&backends, &mut running, &CancellationToken::new()).await;
        assert_eq!(ask(front).await, "");
        backends.set(0, Some(dead().await));
        backends.set(1, Some(dead().await));
        assert_eq!(ask(front).await, "");
    }

    #[tokio::test]
    async fn both_directions_are_carried_to_their_ends() {
        let mut running = JoinSet::new();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let backends = Backends::new(1);
        backends.set(0, Some(listener.local_addr().expect("bound")));
        running.spawn(async move {
            let (mut client, _) = listener.accept().await.expect("a connection");
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.expect("the client half-closes");
            client.write_all(&all).await.expect("the client still reads");
        });
        let front = in_front_of(&backends, &mut running, &CancellationToken::new()).await;
        let sent = vec![7_u8; 300_000];
        let mut client = TcpStream::connect(front).await.expect("the forwarder listens");
        client.write_all(&sent).await.expect("sent");
        client.shutdown().await.expect("half-closed");
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.expect("answered");
        assert_eq!(received, sent);
    }

    #[tokio::test]
    async fn cancelling_closes_the_listener_and_what_it_carries() {
        let mut running = JoinSet::new();
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let backends = Backends::new(1);
        backends.set(0, Some(silent.local_addr().expect("bound")));
        let cancel = CancellationToken::new();
        let front = in_front_of(&backends, &mut running, &cancel).await;
        let mut client = TcpStream::connect(front).await.expect("the forwarder listens");
        let _carried = silent.accept().await.expect("carried");
        cancel.cancel();
        running.join_next().await.expect("one task").expect("no panic");
        let mut nothing = Vec::new();
        let _ = client.read_to_end(&mut nothing).await;
        assert!(TcpStream::connect(front).await.is_err());
    }
}
