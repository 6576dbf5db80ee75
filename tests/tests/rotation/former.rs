//! A cluster's own issuer moves here: its URL stays, its keys stay published, its tokens verify until their time.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_coordination::{Clock, UnixTime};
use oneseal_keystore::executor::{Executor, NoRegistry, Order};
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::steps::{Adoption, Foreign, Request};
use oneseal_keystore::{
    Algorithm, Digest, InitRequest, IssuerUrl, KeyId, Keystore, KeystoreOptions, Rotation, Signer, init,
};
use oneseal_relying_party::RelyingParty;
use oneseal_testing::{FixedClock, MemoryProvider};
use serde_json::json;
use uuid::Uuid;

/// A trailing slash counts: it is in the `iss` of every token that there is.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local/";
const T0: UnixTime = UnixTime(1_800_000_000);

/// kube-apiserver's: RS256, `kid` = base64url(SHA-256(SPKI DER)) (keyIDFromPublicKey in
/// kubernetes/pkg/serviceaccount/jwt.go).
fn former_key() -> (PrivateKey, KeyId) {
    let pem = include_bytes!("../../../keystore/tests/vectors/ring/rsa.pem");
    let key = PrivateKey::parse(pem).expect("a key");
    let kid = URL_SAFE_NO_PAD.encode(Digest::of(&key.public().spki_der()).as_bytes());
    (key, KeyId::parse(&kid).expect("a kid"))
}

#[tokio::test]
async fn a_token_of_the_former_issuer_verifies_against_our_set_until_its_time() {
    let issuer = IssuerUrl::parse(ISSUER, "test").expect("good");
    let provider = Arc::new(MemoryProvider::new());
    let clock = Arc::new(FixedClock::at(T0));
    let mut request = InitRequest::new(issuer.clone());
    request.algorithms = vec![Algorithm::Es256];
    request.rotation = Rotation::lab();
    init(&*provider, request, &*clock).await.expect("a ring");
    let mut options = KeystoreOptions::new(issuer.clone());
    options.algorithms = vec![Algorithm::Es256, Algorithm::Rs256];
    options.rotation = Rotation::lab();
    let executor = Executor::new(provider.clone(), options.clone(), Arc::new(NoRegistry), clock.clone());
    let order = async |request| {
        let order = Order {
            change_id: Uuid::new_v4(),
            actor: "test".to_owned(),
            reason: "the cluster moves here".to_owned(),
            request,
            unproven_replicas: false,
            dry_run: false,
        };
        executor.execute(&order).await
    };

    let (key, kid) = former_key();
    assert_ne!(kid, key.public().thumbprint());
    let mut jwk = key.public().to_jwk_map();
    jwk.insert("kid".to_owned(), kid.as_str().into());
    jwk.insert("alg".to_owned(), "RS256".into());
    jwk.insert("use".to_owned(), "sig".into());
    let set = json!({ "keys": [jwk] }).to_string();
    let (keys, left_out) = Foreign::read_set(set.as_bytes()).expect("a set");
    assert!(left_out.is_empty(), "{left_out:?}");
    let until = T0 + Duration::from_secs(3600);
    order(Request::Adopt(Adoption::Public { keys, until })).await.expect("taken in");

    let signer = Signer::new(&key, Algorithm::Rs256, kid).expect("a signer");
    let claims = json!({
        "iss": ISSUER, "aud": "rp", "sub": "system:serviceaccount:ns:sa", "iat": T0.as_secs(), "exp": T0.as_secs() + 7200,
    });
    let token = signer.sign(claims.to_string().as_bytes()).await.expect("a token");
    let verified = async || {
        let opened = Keystore::open(provider.clone(), options.clone(), clock.clone()).await;
        let (keystore, _not_followed) = opened.unwrap_or_else(|found| panic!("{found}"));
        let party = RelyingParty::builder(issuer.clone())
            .audience("rp")
            .jwks(keystore.snapshot().jwks().clone())
            .clock(clock.clone() as Arc<dyn Clock>)
            .build()
            .expect("a relying party");
        party.verify(&token).await.map(drop).map_err(|error| error.reason())
    };
    assert_eq!(verified().await, Ok(()));
    clock.advance(Duration::from_secs(3600));
    assert_eq!(verified().await, Ok(()), "up to the last second");
    let early = order(Request::Retire { kid: None }).await.expect_err("not yet");
    assert_eq!(early.exit().map(|exit| exit.code()), Some(75));
    clock.advance(Duration::from_secs(1));
    order(Request::Retire { kid: None }).await.expect("its time is over");
    assert_eq!(verified().await, Err("unknown_kid"));
}
