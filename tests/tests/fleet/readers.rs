//! Those who must not notice: readers of what every replica publishes, and relying parties.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use oneseal::{Algorithm, IssuerUrl};
use oneseal_relying_party::RelyingParty;
use oneseal_tests::http::get;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::Member;

/// One reader for each replica, from [`Readers::start`] to [`Readers::end`].
pub(crate) struct Readers {
    tasks: JoinSet<(usize, Vec<Bytes>)>,
    stop: CancellationToken,
}

impl Readers {
    /// Reads the key set, discovery and liveness of each of `members` over and over. What is no whole key set with a
    /// key, or no 200, is a panic, which [`Readers::end`] passes on.
    pub(crate) fn start(members: &[Member]) -> Self {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        for (at, member) in members.iter().enumerate() {
            let (name, stop) = (member.name, stop.clone());
            let (documents, ops) = (member.replica.documents, member.replica.ops);
            tasks.spawn(async move { (at, read(name, documents, ops, &stop).await) });
        }
        Self { tasks, stop }
    }

    /// For each replica the key sets it has published, one after the other.
    pub(crate) async fn end(mut self) -> Vec<Vec<Bytes>> {
        self.stop.cancel();
        let mut seen = vec![Vec::new(); self.tasks.len()];
        while let Some(ended) = self.tasks.join_next().await {
            let (at, bodies) = ended.unwrap();
            seen[at] = bodies;
        }
        seen
    }
}

async fn read(name: &str, documents: SocketAddr, ops: SocketAddr, stop: &CancellationToken) -> Vec<Bytes> {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let mut bodies: Vec<Bytes> = Vec::new();
    while !stop.is_cancelled() {
        ticks.tick().await;
        let alive = get(ops, "/livez").await.unwrap();
        assert_eq!(alive.status, 200, "{name} lives");
        let discovery = get(documents, "/.well-known/openid-configuration").await.unwrap();
        assert_eq!(discovery.status, 200, "{name}: discovery");
        let answer = get(documents, "/.well-known/jwks.json").await.unwrap();
        assert_eq!(answer.status, 200, "{name}: the key set");
        assert!(!kids(&answer.body).is_empty(), "{name}: an empty key set");
        if bodies.last() != Some(&answer.body) {
            bodies.push(answer.body);
        }
    }
    bodies
}

/// The kids of a key set, in its order.
pub(crate) fn kids(jwks: &[u8]) -> Vec<String> {
    let set: Value = serde_json::from_slice(jwks).unwrap();
    set["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

/// A relying party that gets everything from `member`.
pub(crate) fn party(issuer: &IssuerUrl, member: &Member) -> RelyingParty {
    let builder = RelyingParty::builder(issuer.clone()).audience("test").algorithms([Algorithm::Es256]);
    builder.connect_to(member.replica.documents).build().unwrap()
}

/// That relying parties with nothing in their caches take `token`, wherever they fetch the key set.
pub(crate) async fn verifies_at(issuer: &IssuerUrl, members: &[Member], token: &str) {
    for member in members {
        let verified = party(issuer, member).verify(token).await;
        verified.unwrap_or_else(|error| panic!("by the key set of {}: {error}", member.name));
    }
}
