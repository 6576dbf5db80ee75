//! An outside relying party: `jose` on Node.js, by discovery and `createRemoteJWKSet`, against three real replicas.
//!
//! By hand: `cd tests/interop/node && npm ci`, then `cargo test -p oneseal-tests --test node_jose`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_coordination::{Clock, SystemClock};
use oneseal_tests::Fleet;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// One long-lived process of the relying party.
struct Jose {
    _child: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Jose {
    /// `None` where Node.js or the package is not there, unless `TEST_REQUIRE=all` wants it.
    async fn start() -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/node");
        if let Err(why) = install(&folder).await {
            assert!(std::env::var("TEST_REQUIRE").as_deref() != Ok("all"), "required, but {why}");
            #[expect(clippy::print_stderr, reason = "a skipped part is named in the test's output")]
            {
                eprintln!("SKIPPED: the relying party jose on Node.js: {why}");
            }
            return None;
        }
        let mut child = Command::new("node")
            .arg(folder.join("verify.mjs"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node can be started");
        let requests = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Some(Self { _child: child, requests, answers })
    }

    async fn verify(&mut self, request: &Value) -> Value {
        self.requests.write_all(format!("{request}\n").as_bytes()).await.expect("node reads");
        let line = self.answers.next_line().await.expect("node writes").expect("node is alive");
        serde_json::from_str(&line).expect("a line of JSON")
    }
}

/// `npm ci` by the lock file, unless it has been done.
async fn install(folder: &Path) -> Result<(), String> {
    let installed: PathBuf = folder.join("node_modules/jose/package.json");
    if installed.exists() {
        return Ok(());
    }
    let npm = Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(folder).output().await;
    match npm {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("npm ci failed: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("npm cannot be run: {error}")),
    }
}

/// Another signature of the same length.
fn tampered(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').expect("a compact JWS");
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    bytes[10] ^= 1;
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// The same signature under other claims.
fn promoted(token: &str) -> String {
    let parts: Vec<_> = token.split('.').collect();
    let payload = URL_SAFE_NO_PAD.decode(parts[1]).expect("base64url");
    let mut claims: Value = serde_json::from_slice(&payload).expect("claims");
    claims["sub"] = "admin".into();
    format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(claims.to_string()), parts[2])
}

#[tokio::test]
async fn jose_verifies_tokens_of_every_replica_and_refuses_what_it_must() {
    let Some(mut jose) = Jose::start().await else { return };
    let mut fleet = Fleet::start(3).await;
    for round in 0..2 {
        for replica in &fleet.replicas {
            for alg in ["RS256", "ES256", "EdDSA"] {
                let mint = json!({ "sub": "pod-1", "aud": "test", "ttl_s": 600, "alg": alg });
                let token = replica.mint(&mint).await;
                let request = |token: &str, audience: &str| json!({ "issuer": fleet.issuer.as_str(), "token": token, "audience": audience });
                let good = jose.verify(&request(&token, "test")).await;
                assert_eq!((&good["ok"], &good["alg"]), (&json!(true), &json!(alg)), "{good}");
                assert_eq!(good["claims"]["sub"], "pod-1");

                let forged = jose.verify(&request(&tampered(&token), "test")).await;
                assert_eq!(forged["code"], "ERR_JWS_SIGNATURE_VERIFICATION_FAILED");
                let promoted = jose.verify(&request(&promoted(&token), "test")).await;
                assert_eq!(promoted["code"], "ERR_JWS_SIGNATURE_VERIFICATION_FAILED");
                let elsewhere = jose.verify(&request(&token, "other")).await;
                assert_eq!(elsewhere["code"], "ERR_JWT_CLAIM_VALIDATION_FAILED");

                let mut late = request(&token, "test");
                late["now"] = (SystemClock.wall().as_secs() + 601).into();
                assert_eq!(jose.verify(&late).await["code"], "ERR_JWT_EXPIRED");
            }
        }
        // The same relying party, its cache warm, after a crash.
        fleet.restart(round).await;
    }
}
