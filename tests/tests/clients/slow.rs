//! Clients that take their time: with what they send, and with what they should read.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::connections::opened;
use crate::target::{CAPACITY, JWKS, Target, room_for};

/// Half a head, as long as the longest that is taken.
async fn half_sent(address: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let head = format!("GET {JWKS} HTTP/1.1\r\nHost: x\r\nCookie: {}", "x".repeat(15 * 1024));
    stream.write_all(head.as_bytes()).await.ok()?;
    Some(stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_never_end_are_dropped_after_a_while_and_lock_nobody_out() {
    let target = Target::plain().await;
    let (address, room) = (target.documents, room_for(CAPACITY + 500).await);
    let count = room.count;
    target
        .beside(async {
            let slow = opened(count, move || half_sent(address)).await;
            assert!(target.connections().await <= CAPACITY as u64);
            // Kept open on this side: it is the server that ends them.
            target.has_at_most(1).await;
            drop(slow);
        })
        .await;
    target.assert_grew_below(140, &format!("{count} heads of 15 KiB without end"));
}

/// As many requests as the connection takes, and not one answer read.
async fn unread(address: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    // Or the kernel would hold the answers of many for a long time.
    socket.set_recv_buffer_size(4096).ok()?;
    let stream = socket.connect(address).await.ok()?;
    let requests = format!("GET {JWKS} HTTP/1.1\r\nHost: x\r\n\r\n").repeat(100);
    let mut sent = 0;
    while sent < 10_000_000 {
        match stream.try_write(requests.as_bytes()) {
            Ok(written) => sent += written,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // Room again within a moment, or the other side has stopped reading.
                let room = tokio::time::timeout(std::time::Duration::from_millis(300), stream.writable());
                if room.await.is_err() {
                    return Some(stream);
                }
            }
            Err(_) => return None,
        }
    }
    panic!("the server reads on although nobody reads its answers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_are_not_piled_up() {
    let target = Target::plain().await;
    let (address, room) = (target.documents, room_for(300 + CAPACITY).await);
    let count = 300;
    let unread = target.beside(opened(count, move || unread(address))).await;
    assert_eq!(unread.len(), count);
    target.assert_grew_below(20, &format!("{count} clients that ask and never read"));
    // They make room like any other that is of no use.
    let others = room.count - count;
    let idle = target.beside(opened(others, move || crate::connections::idle(address))).await;
    assert_eq!(idle.len(), others);
    target.assert_grew_below(140, "and as many idle ones as there may be");
}
