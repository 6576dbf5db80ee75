//! Connections in numbers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oneseal_tests::state;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::target::{CAPACITY, JWKS, Target, room_for, soaked};

/// Opens `count` connections, `TOGETHER` at a time, each by `open`, and keeps what that gives.
pub(crate) async fn opened<T: Send + 'static, F: Future<Output = Option<T>> + Send + 'static>(
    count: usize,
    open: impl Fn() -> F + Send + Sync + 'static,
) -> Vec<T> {
    let (open, next) = (Arc::new(open), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..TOGETHER {
        let (open, next) = (Arc::clone(&open), Arc::clone(&next));
        tasks.spawn(async move {
            let mut kept = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < count {
                kept.extend(open().await);
            }
            kept
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

const TOGETHER: usize = 32;

/// A connection that has been used once and is kept.
pub(crate) async fn idle(address: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {JWKS} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = [0; 2048];
    (stream.read(&mut answer).await.ok()? > 0).then_some(stream)
}

/// Whether the other side still has it: neither an end nor a reset has come.
fn is_kept(stream: &TcpStream) -> bool {
    let mut byte = [0];
    matches!(stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_lock_nobody_out() {
    let target = Target::plain().await;
    let (address, room) = (target.documents, room_for(10_000).await);
    let count = room.count;
    let idle = target.beside(opened(count, move || idle(address))).await;
    assert_eq!(idle.len(), count, "each was served when it came");
    let open = target.connections().await;
    assert!(open <= CAPACITY as u64, "{open}");
    let displaced = target.metric("oneseal_http_connections_displaced_total{listener=\"documents\"}").await;
    assert!(displaced >= count.saturating_sub(CAPACITY) as u64, "{displaced}");
    assert!(is_kept(idle.last().unwrap()), "the last to come are not those to go");
    target.assert_grew_below(140, &format!("{count} idle connections"));
    drop(idle);
    target.has_at_most(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_that_say_nothing_lock_nobody_out() {
    let target = Target::plain().await;
    let (address, room) = (target.documents, room_for(8_000).await);
    let count = room.count;
    let silent =
        target.beside(opened(count, move || async move { TcpStream::connect(address).await.ok() })).await;
    assert!(target.connections().await <= CAPACITY as u64);
    target.assert_grew_below(60, &format!("{count} silent connections"));
    drop(silent);
    target.has_at_most(0).await;
}

/// Used and closed, opened and closed, opened and reset: none of them leaves anything behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_connections_that_come_and_go_leave_nothing() {
    let target = Target::plain().await;
    let (address, count) = (target.documents, soaked(1_500));
    let files = target.metric("process_open_fds").await;
    let churn = async || {
        let used = opened(count, move || async move { idle(address).await.map(|_| ()) }).await;
        let reset = opened(count, move || async move {
            let socket = TcpSocket::new_v4().ok()?;
            socket.set_zero_linger().ok()?;
            socket.connect(address).await.ok().map(drop)
        })
        .await;
        opened(count, move || async move { TcpStream::connect(address).await.ok().map(drop) }).await;
        assert_eq!((used.len(), reset.len()), (count, count));
        target.has_at_most(0).await;
        target.memory("VmRSS")
    };
    let (first, second) = target.beside(async { (churn().await, churn().await) }).await;
    assert!(second < first + 4 * 1024, "the second round as the first: {first} and {second} KiB");
    let is_as_before = async || (target.metric("process_open_fds").await <= files).then_some(());
    state::until("every file of theirs to be closed", is_as_before).await;
    target.assert_grew_below(40, &format!("{} connections that came and went", 6 * count));
}
