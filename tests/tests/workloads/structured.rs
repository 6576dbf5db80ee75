//! kube-apiserver takes tokens of ours for users of its own, by its structured authentication.
//!
//! It asks for the key set when a token names a kid that it has not, but only in the last 30 s of `max-age` or later; a
//! key that it has serves until then, in the set or not.

use std::process::Command;

use oneseal::Algorithm;
use oneseal_testing::parts::{KubeApiserver, KubeApiserverOptions};
use oneseal_tests::{require, state};
use serde_json::{Value, json};

use crate::issuer::Issuer;
use crate::page::{self, CLUSTER};

const MINT: &str = "[admin]\nmint = true\nmint_audiences = [\"https://kubernetes.example.com\", \"other\"]\n";

/// One issuer with the times of a laboratory, and one whose key set may be kept for 40 s, so for 10 s against an unknown kid.
#[tokio::test(flavor = "multi_thread")]
async fn what_it_takes_follows_a_rotation_with_its_lead_and_lags_behind_one_without() {
    let (mut lab, mut slow) = (Issuer::new().await, Issuer::new().await);
    let slow_times = "preset = \"lab\"\njwks_max_age = \"40s\"\npublish_lead = \"45s\"\n";
    let (rsa, elliptic) = (Algorithm::Rs256, Algorithm::Es256);
    tokio::join!(lab.serve(2, rsa, "preset = \"lab\"\n", MINT), slow.serve(1, elliptic, slow_times, MINT));
    let trusts = page::authentication(&[(lab.url.as_str(), &lab.ca), (slow.url.as_str(), &slow.ca)]);
    let options = KubeApiserverOptions { authentication_config: Some(trusts), ..Default::default() };
    let Some(server) = KubeApiserver::start(options) else { return };
    knows(&server, &lab).await;
    only_its_own_audience_and_issuer(&server, &lab, &slow).await;
    as_kubectl(&server, &token(&lab).await);
    tokio::join!(rotation_with_its_lead(&server, &lab), emergency_before_it_looks_again(&server, &slow));
}

async fn only_its_own_audience_and_issuer(server: &KubeApiserver, lab: &Issuer, slow: &Issuer) {
    let other = lab.try_mint(&json!({"sub": "ci", "aud": "other"})).await.json()["token"].clone();
    assert_eq!(user(server, other.as_str().unwrap()), None, "another audience");
    let (ours, theirs) = (token(lab).await, token(slow).await);
    let (said, _) = ours.rsplit_once('.').unwrap();
    let (_, signature) = theirs.rsplit_once('.').unwrap();
    assert_eq!(user(server, &format!("{said}.{signature}")), None, "another one's signature");
}

fn as_kubectl(server: &KubeApiserver, token: &str) {
    let Some(kubectl) = require::program("kubectl") else {
        return require::skip("kubectl", "it is not installed");
    };
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("config");
    std::fs::write(&kubeconfig, server.kubeconfig_for(token)).unwrap();
    let mut command = Command::new(kubectl);
    command.args(["auth", "whoami", "--output=json"]).env("KUBECONFIG", kubeconfig).env("HOME", home.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let review: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(review["status"]["userInfo"]["username"], "oneseal:ci");
}

/// Every call is authenticated, whichever replica minted its token: before the new key is published, while it waits for
/// its lead, and when it signs.
async fn rotation_with_its_lead(server: &KubeApiserver, issuer: &Issuer) {
    let mut calls = 0;
    let old = kid(&token(issuer).await);
    let published = issuer.verb("rotate", &json!({})).await;
    assert_eq!(published.status, 200, "{:?}", published.body);
    state::until("the lead is over", async || {
        calls += call_with_each(server, issuer).await;
        let answer = issuer.verb("activate", &json!({"unproven_replicas": true})).await;
        assert!([200, 409].contains(&answer.status.as_u16()), "{:?}", answer.body);
        (answer.status == 200).then_some(())
    })
    .await;
    state::until("both replicas sign with the new key", async || {
        calls += call_with_each(server, issuer).await;
        let mut kids = Vec::new();
        for replica in &issuer.replicas {
            kids.push(kid(&replica.mint(&claims()).await));
        }
        kids.iter().all(|kid| *kid != old).then_some(())
    })
    .await;
    assert!(calls > 20, "{calls}");
}

async fn call_with_each(server: &KubeApiserver, issuer: &Issuer) -> u32 {
    let mut calls = 0;
    for replica in &issuer.replicas {
        let token = replica.mint(&claims()).await;
        assert_eq!(user(server, &token).as_deref(), Some("oneseal:ci"), "call {calls}, {}", kid(&token));
        calls += 1;
    }
    calls
}

/// The new key signs some seconds after the server has fetched the set, which may be kept for longer.
async fn emergency_before_it_looks_again(server: &KubeApiserver, issuer: &Issuer) {
    let burned = token(issuer).await;
    state::until("the API server fetches the set", async || user(server, &burned)).await;
    let revoked = issuer.verb("revoke", &json!({"reason": "a test"})).await;
    assert_eq!(revoked.status, 200, "{:?}", revoked.body);
    let new = state::until("the new key signs", async || {
        let _too_early = issuer.verb("activate", &json!({"unproven_replicas": true})).await;
        let answer = issuer.try_mint(&claims()).await;
        answer.status.is_success().then(|| answer.json()["token"].as_str().unwrap().to_owned())
    })
    .await;
    assert_ne!(kid(&new), kid(&burned));
    assert_eq!(user(server, &new), None, "its lead is not over");
    assert_eq!(user(server, &burned).as_deref(), Some("oneseal:ci"), "what it has, it takes");
    state::until("the server looks again", async || user(server, &new)).await;
    assert_eq!(user(server, &burned), None, "what was burned went when it looked");
}

/// It has found the issuer and its keys.
async fn knows(server: &KubeApiserver, issuer: &Issuer) {
    let token = token(issuer).await;
    state::until("the API server knows the issuer", async || user(server, &token)).await;
}

/// Whom the server takes the bearer of `token` for.
pub(crate) fn user(server: &KubeApiserver, token: &str) -> Option<String> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (status, answer) = server.request_as(Some(token), "POST", path, Some(&review));
    assert!(matches!(status, 201 | 401), "{status} {answer}");
    (status == 201).then(|| answer["status"]["userInfo"]["username"].as_str().unwrap().to_owned())
}

async fn token(issuer: &Issuer) -> String {
    issuer.replicas[0].mint(&claims()).await
}

fn claims() -> Value {
    json!({"sub": "ci", "aud": CLUSTER})
}

fn kid(token: &str) -> String {
    oneseal_keystore::verify::UnverifiedJws::parse(token).unwrap().kid().unwrap().to_owned()
}
