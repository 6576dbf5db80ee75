//! Signing and minting against the raw primitive: the same JSON, the same base64, the same clock and `jti`.

use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use oneseal::{Audience, Issuer, Subject, VerifiedWorkload};
use oneseal_bench::{Verdict, conclude, ratio};
use oneseal_coordination::{Clock, SystemClock};
use oneseal_keystore::{Algorithm, IssuerUrl, Keystore, KeystoreOptions};
use oneseal_providers::InlineProvider;
use tokio_util::sync::CancellationToken;

const ISSUER: &str = "https://oidc.example";
const AUDIENCE: &str = "sts.amazonaws.com";
const SUBJECT: &str = "system:serviceaccount:builds:runner";

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => panic!("no runtime: {error}"),
    };
    let mut verdicts = Vec::new();
    for (algorithm, target) in [(Algorithm::Rs256, 0.97), (Algorithm::Es256, 0.95), (Algorithm::EdDsa, 0.95)]
    {
        let raw = Raw::generate(algorithm);
        verdicts.push(snapshot_sign(&runtime, &raw, algorithm, target));
        if algorithm == Algorithm::Rs256 {
            verdicts.push(mint(&runtime, &raw));
        }
    }
    conclude(&verdicts)
}

fn snapshot_sign(runtime: &tokio::runtime::Runtime, raw: &Raw, algorithm: Algorithm, target: f64) -> Verdict {
    let mut options = KeystoreOptions::new(IssuerUrl::parse(ISSUER, "bench").expect("a good issuer"));
    options.algorithms = vec![algorithm];
    let opened = Keystore::open(Arc::new(raw.provider()), options, Arc::new(SystemClock));
    // The provider is read once: there is nothing to follow.
    let (keystore, _follower) = runtime.block_on(opened).expect("a good key");
    let snapshot = keystore.snapshot();
    let name = format!("snapshot.sign {algorithm} / raw aws-lc-rs");
    let ours = || {
        let payload = claims();
        std::hint::black_box(ready(snapshot.sign(algorithm, &payload)).expect("it signs"));
    };
    ratio(&name, target, ours, || drop(std::hint::black_box(raw.token())))
}

fn mint(runtime: &tokio::runtime::Runtime, raw: &Raw) -> Verdict {
    let (issuer, tasks) = runtime.block_on(async {
        Issuer::builder(ISSUER, raw.provider())
            .allow(AUDIENCE, Duration::from_secs(3600))
            .build()
            .await
            .expect("a good key")
    });
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "joined below")]
    let task = runtime.spawn(tasks.run(cancel.clone()));
    let workload = VerifiedWorkload::vouched_by_embedder(Subject::parse(SUBJECT).expect("a good subject"));
    let audience = Audience::parse(AUDIENCE).expect("a good audience");
    let ours = || {
        std::hint::black_box(runtime.block_on(issuer.mint(&workload, &audience)).expect("it mints"));
    };
    let verdict = ratio("mint().await RS256 through the pool / raw aws-lc-rs", 0.90, ours, || {
        drop(std::hint::black_box(raw.token()));
    });
    cancel.cancel();
    runtime.block_on(task).expect("the task ends");
    verdict
}

/// The result of a future that does not wait, as an `.await` in a task gets it: entering a runtime for each call would
/// cost more than the signature may.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("signing in place does not wait"),
    }
}

/// What every token costs anybody: a clock, an id and JSON.
fn claims() -> Vec<u8> {
    let now = SystemClock.wall().as_secs();
    let claims = serde_json::json!({
        "iss": ISSUER,
        "sub": SUBJECT,
        "aud": AUDIENCE,
        "iat": now,
        "nbf": now,
        "exp": now + 3600,
        "jti": uuid::Uuid::new_v4().to_string(),
    });
    serde_json::to_vec(&claims).expect("plain data")
}

/// The limit: the primitive with its parsed key, JSON and base64, and nothing else.
struct Raw {
    random: SystemRandom,
    /// The header, encoded already, since it never changes.
    header: String,
    key: RawKey,
    pkcs8: Vec<u8>,
}

enum RawKey {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Raw {
    fn generate(algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = match algorithm {
            Algorithm::Rs256 => {
                let key = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
                let der: Pkcs8V1Der<'_> = key.as_der().expect("DER");
                der.as_ref().to_vec()
            }
            Algorithm::Es256 => {
                let key =
                    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
                key.as_ref().to_vec()
            }
            _ => Ed25519KeyPair::generate_pkcs8(&random).expect("a key").as_ref().to_vec(),
        };
        let key = match algorithm {
            Algorithm::Rs256 => RawKey::Rsa(Box::new(RsaKeyPair::from_pkcs8(&pkcs8).expect("its own key"))),
            Algorithm::Es256 => RawKey::P256(
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8).expect("its own key"),
            ),
            _ => RawKey::Ed25519(Ed25519KeyPair::from_pkcs8(&pkcs8).expect("its own key")),
        };
        let kid = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";
        let header = serde_json::json!({ "alg": algorithm.as_str(), "kid": kid, "typ": "JWT" });
        Self { random, header: URL_SAFE_NO_PAD.encode(header.to_string()), key, pkcs8 }
    }

    fn token(&self) -> String {
        let mut token = self.header.clone();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims(), &mut token);
        let signature = match &self.key {
            RawKey::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &self.random, token.as_bytes(), &mut signature)
                    .expect("it signs");
                signature
            }
            RawKey::P256(key) => {
                key.sign(&self.random, token.as_bytes()).expect("it signs").as_ref().to_vec()
            }
            RawKey::Ed25519(key) => key.sign(token.as_bytes()).as_ref().to_vec(),
        };
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// The same key, as oneseal reads it.
    fn provider(&self) -> InlineProvider {
        InlineProvider::new(STANDARD.encode(&self.pkcs8))
    }
}
