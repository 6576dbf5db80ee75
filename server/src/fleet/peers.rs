//! What a replica that does not mint asks the others before it leaves readiness.
//!
//! A replica that cannot look at its provider any more, or cannot open the key that signs, publishes on and is as good as
//! any other for relying parties. It only does not mint, and callers should go to one that does, if there is one. So it leaves readiness only when
//! another one says, at this moment, that it mints: where the outage is everybody's nobody says so, all stay ready, and
//! the key set is served on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use oneseal::Minting;
use oneseal_keystore::Snapshot;
use oneseal_keystore::fleet::PeerState;
use oneseal_keystore::ring::KeyState;
use oneseal_keystore::snapshot::PublishedKey;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::Membership;
use crate::state::State;

/// Asks whenever it is called for, until `stop`.
///
/// # Cancel safety
/// May be dropped at any point: readiness stays as it was last decided.
pub(crate) async fn run(membership: Arc<Membership>, state: Arc<State>, stop: CancellationToken) {
    loop {
        let health = state.issuer.health();
        let refresh = state.issuer.snapshot().rotation().refresh();
        let is_idle = may_yield(health.minting, &state.issuer.snapshot());
        let minting = if is_idle { first_that_mints(&membership).await } else { None };
        tell(&membership, health.minting, minting.as_deref());
        membership.set_yielding(minting.is_some());
        let until_stale = health.staleness_limit.unwrap_or(refresh).saturating_sub(health.age);
        let pause = if is_idle { refresh } else { until_stale.min(refresh) };
        tokio::select! {
            // Nothing is under way.
            () = stop.cancelled() => return,
            // A little more, so that what was about to pass has passed.
            () = tokio::time::sleep(pause + SLACK) => {}
            // Another key may sign in it, which does not open here.
            () = state.issuer.changed(&health.identity) => {}
        }
    }
}

/// Whether it is this replica alone that may not mint. A ring without a key that signs is nobody's fault here, and a
/// public-only replica is there to publish.
fn may_yield(minting: Minting, snapshot: &Snapshot) -> bool {
    let is_unopened = |algorithm| {
        let signs = |key: &&PublishedKey| key.state == KeyState::Active && key.algorithm == algorithm;
        snapshot.keys().iter().find(signs).is_some_and(|key| !key.has_private)
    };
    match minting {
        Minting::Stale => true,
        Minting::NoKey(algorithm) => is_unopened(algorithm),
        _ => false,
    }
}

/// Once for each change.
fn tell(membership: &Membership, own: Minting, minting: Option<&str>) {
    match (membership.is_yielding(), minting) {
        (false, Some(instance)) => tracing::warn!(
            instance,
            why = own.as_str(),
            "this replica does not mint and another one does: not ready until it does too; it publishes on"
        ),
        (true, None) => tracing::info!("ready again: this replica mints, or no other one does"),
        _ => {}
    }
}

/// The first by name of those that mint now, among those that beat when the registry was last read.
async fn first_that_mints(membership: &Membership) -> Option<String> {
    let view = membership.view()?;
    let others = view
        .fleet
        .peers
        .iter()
        .filter(|peer| peer.state == PeerState::Live && peer.instance != membership.instance());
    let asked = others.filter_map(|peer| Some((peer.instance.clone(), peer.ops_address.clone()?))).take(MOST);
    let answers = join_all(asked.map(async |(instance, address)| mints(&address).await.then_some(instance)));
    answers.await.into_iter().flatten().next()
}

/// A 200 of something that is no replica does not count.
async fn mints(address: &str) -> bool {
    let Some(authority) = address.strip_prefix("http://") else { return false };
    let Ok(Some((status, body))) = tokio::time::timeout(PATIENCE, get(authority)).await else { return false };
    let said = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    status == StatusCode::OK && said["ready"] == true && said["minting"] == "on"
}

/// One exchange in plain HTTP, which is what kubelet speaks there too; nothing in it is secret, and all that a liar
/// could gain is that this replica, which does not mint anyway, leaves readiness.
async fn get(authority: &str) -> Option<(StatusCode, Bytes)> {
    let stream = TcpStream::connect(authority).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request =
        Request::get("/readyz?for=mint").header(header::HOST, authority).body(Empty::<Bytes>::new()).ok()?;
    let answer = async move {
        let response = sender.send_request(request).await.ok()?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.ok()?;
        Some((status, body.to_bytes()))
    };
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        // Both make one exchange: the connection moves the bytes that the answer waits for.
        outcome = &mut answer => outcome,
        _ = &mut connection => answer.await,
    }
}

/// A replica answers from memory, so this is for the way.
const PATIENCE: Duration = Duration::from_secs(2);
/// One that mints is enough, and there is one among so many unless the outage is everybody's.
const MOST: usize = 32;
/// What a probe says is one line.
const MAX_ANSWER: usize = 4096;
const SLACK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What is made of `answer`.
    async fn judged(answer: &'static str) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a call");
            let mut head = [0; 1024];
            let read = stream.read(&mut head).await.expect("a request");
            assert!(head[..read].starts_with(b"GET /readyz?for=mint HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).await.expect("sent");
        };
        tokio::join!(mints(&address), serve).0
    }

    #[tokio::test]
    async fn only_a_replica_that_says_that_it_mints_does() {
        for (answer, is_good) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n{\"ready\":true,\"minting\":\"on\"}\n", true),
            ("HTTP/1.1 503 No\r\ncontent-length: 30\r\n\r\n{\"ready\":true,\"minting\":\"on\"}\n", false),
            ("HTTP/1.1 200 OK\r\ncontent-length: 34\r\n\r\n{\"ready\":false,\"minting\":\"stale\"}\n", false),
            ("HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n<html>hi</html>", false),
            ("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n", false),
            ("SSH-2.0-OpenSSH_9.2\r\n", false),
            ("", false),
        ] {
            assert_eq!(judged(answer).await, is_good, "{answer}");
        }
    }

    #[tokio::test]
    async fn nobody_there_and_nonsense_are_no_answer() {
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
        assert!(!mints(&format!("http://{closed}")).await);
        for address in ["", "https://127.0.0.1:1", "http://", "http://[::1", "file:///etc/passwd"] {
            assert!(!mints(address).await, "{address}");
        }
    }
}
