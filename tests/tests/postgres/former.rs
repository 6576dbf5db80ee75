//! A former issuer's tokens, after its keys have been taken into the ring in Postgres.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal::SystemClock;
use oneseal_coordination::Clock;
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::{Algorithm, Digest, KeyId, Signer};
use oneseal_relying_party::RelyingParty;
use oneseal_tests::{Replica, state};
use serde_json::json;

use crate::caches::AUDIENCE;
use crate::support::{Place, jwks, run};

/// How long the former issuer's keys are to be published.
const SPAN_S: i64 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_former_issuer_verifies_against_every_replica_until_its_time() {
    let Some(place) = Place::new().await else { return };
    let kek = place.keks(1, &[]);
    let start = |name: &str| {
        let mut start = place.start(name, &kek, "");
        start.algorithms = vec![Algorithm::Es256, Algorithm::Rs256];
        start.more.push_str("[rotation]\npreset = \"lab\"\n");
        start
    };
    // With a replica's own configuration, as on its host.
    let operator = start("a");
    let (exit, out, err) = run(&operator, &["keys", "init", "--alg", "ES256", "--json"]).await;
    assert_eq!(exit, Some(0), "{out}{err}");
    let replicas = [start("a").ready().await, start("b").ready().await];
    place.in_front_of(&replicas.iter().collect::<Vec<_>>());

    let (key, kid) = former_key();
    let mut jwk = key.public().to_jwk_map();
    for (name, value) in [("kid", kid.as_str()), ("alg", "RS256"), ("use", "sig")] {
        jwk.insert(name.to_owned(), value.into());
    }
    let file = operator.home.join("former.json");
    std::fs::write(&file, json!({ "keys": [jwk] }).to_string()).unwrap();
    let now = SystemClock.wall().as_secs();
    let until = (now + SPAN_S).to_string();
    let socket = replicas[0].admin();
    let by_replica = ["--admin", socket.to_str().unwrap()];
    let adopt =
        ["keys", "adopt", "--from-jwks", file.to_str().unwrap(), "--public-only", "--until", &until, "--yes"];
    let (exit, out, err) = run(&operator, &[&adopt[..], &by_replica].concat()).await;
    assert_eq!(exit, Some(0), "{out}{err}");

    let claims = json!({
        "iss": place.issuer.as_str(), "aud": AUDIENCE, "sub": "system:serviceaccount:ns:sa", "iat": now, "exp": now + 600,
    });
    let signer = Signer::new(&key, Algorithm::Rs256, kid).unwrap();
    let token = signer.sign(claims.to_string().as_bytes()).await.unwrap();
    for replica in &replicas {
        state::until("the key is published", async || verified(&place, replica, &token).await.ok()).await;
    }
    // Whoever retires what is due finds it due at its time and no earlier.
    state::until("its time is over", async || {
        let (exit, _, _) = run(&operator, &[&["keys", "retire", "--json"][..], &by_replica].concat()).await;
        if exit == Some(0) {
            return Some(());
        }
        assert_eq!(verified(&place, &replicas[0], &token).await, Ok(()));
        None
    })
    .await;
    assert!(SystemClock.wall().as_secs() > now + SPAN_S);
    for replica in &replicas {
        state::until("the key has gone", async || {
            (verified(&place, replica, &token).await == Err("unknown_kid")).then_some(())
        })
        .await;
    }
    let kinds = place.sql.execute("SELECT kind FROM oneseal.events WHERE kind LIKE 'key.%' ORDER BY seq");
    assert_eq!(kinds.lines().collect::<Vec<_>>(), ["key.adopted", "key.removed"]);
}

/// kube-apiserver's: RS256, `kid` = base64url(SHA-256(SPKI DER)) (keyIDFromPublicKey in
/// kubernetes/pkg/serviceaccount/jwt.go).
fn former_key() -> (PrivateKey, KeyId) {
    let pem = include_bytes!("../../../keystore/tests/vectors/ring/rsa.pem");
    let key = PrivateKey::parse(pem).unwrap();
    let kid = URL_SAFE_NO_PAD.encode(Digest::of(&key.public().spki_der()).as_bytes());
    (key, KeyId::parse(&kid).unwrap())
}

async fn verified(place: &Place, replica: &Replica, token: &str) -> Result<(), &'static str> {
    let party = RelyingParty::builder(place.issuer.clone())
        .audience(AUDIENCE)
        .jwks(jwks(replica).await)
        .clock(Arc::new(SystemClock) as Arc<dyn Clock>)
        .build()
        .unwrap();
    party.verify(token).await.map(drop).map_err(|error| error.reason())
}
