//! P2 and P3 on real processes: one key set byte for byte, and a token minted on any replica verifies by every other.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use oneseal::Algorithm;
use oneseal_relying_party::RelyingParty;
use oneseal_tests::{Fleet, http};
use serde_json::json;

const JWKS: &str = "/.well-known/jwks.json";

/// What three hundred reads through the forwarder have shown: bodies and entity tags.
async fn read(address: SocketAddr, times: usize) -> (BTreeSet<Vec<u8>>, BTreeSet<String>) {
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..times {
        let answer = http::get(address, JWKS).await.expect("an answer");
        assert_eq!(answer.status, 200);
        seen.0.insert(answer.body.to_vec());
        seen.1.insert(answer.header("etag").to_owned());
    }
    seen
}

/// Mints on each replica with each algorithm and verifies at each replica by discovery over HTTP.
async fn cross_verify(fleet: &Fleet) {
    for minter in &fleet.replicas {
        for alg in ["RS256", "ES256", "EdDSA"] {
            let token =
                minter.mint(&json!({ "sub": "pod-1", "aud": "test", "ttl_s": 600, "alg": alg })).await;
            for verifier in &fleet.replicas {
                let relying_party = RelyingParty::builder(fleet.issuer.clone())
                    .audience("test")
                    .algorithms([Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa])
                    .connect_to(verifier.documents)
                    .build()
                    .expect("a relying party");
                let verified = relying_party.verify(&token).await.expect("the token verifies");
                assert_eq!(verified.claims.subject(), "pod-1");
            }
        }
    }
}

#[tokio::test]
async fn three_replicas_publish_one_body_and_verify_each_others_tokens_through_a_kill() {
    let mut fleet = Fleet::start(3).await;
    let front = fleet.forwarder.address();
    let (bodies, tags) = read(front, 300).await;
    assert_eq!((bodies.len(), tags.len()), (1, 1), "one body, one ETag");
    cross_verify(&fleet).await;

    fleet.restart(1).await;
    assert_eq!(read(front, 300).await, (bodies, tags), "the same bytes after kill -9 and restart");
    cross_verify(&fleet).await;
}

/// `make soak` sets how often; here a few rounds show that the loop itself holds.
#[tokio::test]
async fn soak_the_key_set_survives_every_kill() {
    let rounds = std::env::var("TEST_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let mut fleet = Fleet::start(2).await;
    let first = read(fleet.forwarder.address(), 2).await;
    for round in 0..rounds {
        fleet.restart(round % 2).await;
        assert_eq!(read(fleet.forwarder.address(), 4).await, first, "round {round}");
    }
}
