//! Whether STS takes a token of ours, by a verifier that is not ours: it fetches discovery and keys over https.

use oneseal::Algorithm;
use oneseal_coordination::Clock;
use oneseal_testing::parts::Aws;
use oneseal_tests::keys::{self, TestKey};
use oneseal_tests::{Forwarder, Replica, Start};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::signing::{decode, encode, sign};
use crate::support::certificate;

pub(crate) const STS: &str = "sts.amazonaws.com";

/// An issuer behind https, with its ring in a file.
pub(crate) struct Issuer {
    pub(crate) url: String,
    /// In PEM.
    pub(crate) ca: String,
    pub(crate) replica: Replica,
    pub(crate) keys: Vec<TestKey>,
    forwarder: Forwarder,
    _dir: TempDir,
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let forwarder = Forwarder::start().await;
        let url = format!("https://{}", forwarder.address());
        let (tls, ca) = certificate(dir.path());
        let ring = dir.path().join("ring.json");
        let algorithms = vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
        keys::init_ring(&ring, &url, &algorithms).await;
        let mut start = Start::with_file(dir.path().join("issuer"), &url, &ring);
        start.algorithms = algorithms;
        start.more = format!(
            "[admin]\nmint = true\nmint_audiences = [{STS:?}, \"other\"]\n[process]\ndrain_delay = \"0s\"\n{tls}"
        );
        let replica = start.ready().await;
        forwarder.set_backends(vec![replica.documents]);
        let keys = keys::of_ring(&ring);
        Self { url, ca, replica, keys, forwarder, _dir: dir }
    }

    pub(crate) async fn mint(&self, subject: &str, audience: &str) -> String {
        self.replica.mint(&json!({"sub": subject, "aud": audience})).await
    }

    /// A token that no replica would mint, under a good signature.
    pub(crate) fn sign(&self, change: impl FnOnce(&mut Value, &mut Value)) -> String {
        let now = oneseal::SystemClock.wall().as_secs();
        let key = self.keys.iter().find(|key| key.algorithm == Algorithm::Rs256).unwrap();
        let mut header = json!({"alg": "RS256", "kid": key.kid.as_str(), "typ": "JWT"});
        let mut claims =
            json!({"iss": self.url, "sub": "worker", "aud": STS, "iat": now - 60, "exp": now + 600});
        change(&mut header, &mut claims);
        sign(key, Algorithm::Rs256, &header, &claims)
    }
}

/// The token with another subject, under the signature that it had.
pub(crate) fn tampered(token: &str) -> String {
    let parts: Vec<_> = token.split('.').collect();
    let mut claims: Value = serde_json::from_slice(&decode(parts[1])).unwrap();
    claims["sub"] = json!("admin");
    format!("{}.{}.{}", parts[0], encode(claims.to_string()), parts[2])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_taken_for_the_role_that_names_its_audience_and_subject_and_no_other_one_is() {
    let Some(aws) = Aws::start() else { return };
    let issuer = Issuer::start().await;
    aws.trust_issuer(&issuer.url, &[STS], &issuer.ca);
    let role = aws.create_role("reader", &issuer.url, STS, "worker");
    let good = issuer.mint("worker", STS).await;
    aws.assume_role(&role, &good).unwrap();
    let es256 = json!({"sub": "worker", "aud": STS, "alg": "ES256"});
    aws.assume_role(&role, &issuer.replica.mint(&es256).await).unwrap();
    aws.assume_role(&role, &issuer.sign(|_, _| ())).unwrap();

    let eddsa = json!({"sub": "worker", "aud": STS, "alg": "EdDSA"});
    let eddsa = issuer.replica.mint(&eddsa).await;
    let invalid = "InvalidIdentityToken";
    for (what, token, code, cause) in [
        ("tampered", tampered(&good), invalid, "signature"),
        ("for somebody else", issuer.mint("worker", "other").await, invalid, "Incorrect token audience"),
        (
            "expired",
            issuer.sign(|_, claims| claims["exp"] = 1_700_000_000.into()),
            "ExpiredTokenException",
            "expired",
        ),
        (
            "not yet valid",
            issuer.sign(|_, claims| claims["nbf"] = 4_000_000_000_u64.into()),
            invalid,
            "not valid",
        ),
        ("of another subject", issuer.mint("admin", STS).await, "AccessDenied", "Not authorized"),
        ("EdDSA", eddsa, invalid, "EdDSA"),
        (
            "without a subject",
            issuer.sign(|_, claims| drop(claims.as_object_mut().unwrap().remove("sub"))),
            invalid,
            "sub",
        ),
        (
            "with a time in parts",
            issuer.sign(|_, claims| claims["exp"] = 4_000_000_000.5.into()),
            invalid,
            "exp",
        ),
        (
            "for an authorized party",
            issuer.sign(|_, claims| claims["azp"] = "other".into()),
            "AccessDenied",
            "Not authorized",
        ),
        (
            "of an unknown key",
            issuer.sign(|header, _| header["kid"] = "nobody".into()),
            invalid,
            "verification key",
        ),
        (
            "without a kid",
            issuer.sign(|header, _| drop(header.as_object_mut().unwrap().remove("kid"))),
            invalid,
            "kid",
        ),
        ("unsigned", issuer.sign(|header, _| header["alg"] = "none".into()), invalid, "not a valid JWT"),
        (
            "of nobody",
            issuer.sign(|_, claims| claims["iss"] = "https://other.example".into()),
            invalid,
            "No OpenIDConnect provider",
        ),
        ("nothing", "no.token".to_owned(), invalid, "not a valid JWT"),
        ("too short", "abc".to_owned(), "ValidationError", "webIdentityToken"),
    ] {
        let refusal = aws.assume_role(&role, &token).expect_err(what);
        assert_eq!(refusal.code, code, "{what}: {refusal}");
        assert!(refusal.message.contains(cause), "{what}: {refusal}");
    }
    let elsewhere = role.replace("reader", "writer");
    assert_eq!(aws.assume_role(&elsewhere, &good).unwrap_err().code, "AccessDenied");

    // Who vouches for somebody else does not vouch for this one.
    let (_, stranger) = certificate(tempfile::tempdir().unwrap().path());
    aws.trust_issuer(&issuer.url, &[STS], &stranger);
    let refusal = aws.assume_role(&role, &good).unwrap_err();
    assert!(refusal.code == invalid && refusal.message.contains("verification key"), "{refusal}");
    aws.trust_issuer(&issuer.url, &[STS], &issuer.ca);
    aws.assume_role(&role, &good).unwrap();
    issuer.forwarder.set_backends(Vec::new());
    let refusal = aws.assume_role(&role, &good).unwrap_err();
    assert!(refusal.code == invalid && refusal.message.contains("verification key"), "{refusal}");
}
