//! Service accounts' tokens judged offline: which are taken, whose they are, and what clusters may not have in common.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use oneseal::keystore::material::PrivateKey;
use oneseal::keystore::{Signer, findings::Code};
use oneseal::proofs::{Cluster, ClusterBuilder, Grant, KubernetesProof, Proof, ProofError, Review};
use oneseal::{Algorithm, Findings, Strength, Voucher};
use oneseal_testing::FixedClock;
use serde_json::{Value, json};

use crate::support::{AUDIENCE, ES256, ES256_OTHER, NOW, URL, audience, bare, pod, segment, start};

const CLUSTER: &str = "https://kubernetes.default.svc.cluster.local";

/// A cluster's signing key.
struct Authority(Signer, PrivateKey);

impl Authority {
    fn new(pem: &str) -> Self {
        let key = PrivateKey::parse(pem.as_bytes()).unwrap();
        Self(Signer::new(&key, Algorithm::Es256, key.public().thumbprint()).unwrap(), key)
    }

    fn jwks(&self) -> String {
        let mut key = String::new();
        self.1.public().write_jwk(&mut key, Algorithm::Es256, self.0.kid());
        format!(r#"{{"keys":[{key}]}}"#)
    }

    fn sign(&self, claims: &Value) -> String {
        self.0.sign_blocking(claims.to_string().as_bytes()).unwrap()
    }

    fn cluster(&self, name: &str) -> ClusterBuilder {
        offline(name).jwks(self.jwks()).clock(Arc::new(FixedClock::at(NOW)))
    }
}

fn offline(name: &str) -> ClusterBuilder {
    Cluster::builder(name, CLUSTER).audience(URL).review(Review::Off)
}

fn proof(clusters: impl IntoIterator<Item = ClusterBuilder>) -> KubernetesProof {
    KubernetesProof::new(clusters.into_iter().map(|cluster| cluster.build().unwrap()).collect()).unwrap()
}

fn claims() -> Value {
    let now = NOW.as_secs();
    json!({
        "iss": CLUSTER, "sub": "system:serviceaccount:ci:builder", "aud": [URL], "jti": "j",
        "iat": now - 10, "nbf": now - 10, "exp": now + 3590,
        "kubernetes.io": {
            "namespace": "ci", "serviceaccount": {"name": "builder", "uid": "a-1"},
            "pod": {"name": "job-7", "uid": "p-1"}, "node": {"name": "n1", "uid": "n-1"},
        },
    })
}

/// The usual claims, with these in place of some of them; null takes one away.
fn with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn reason(refused: Result<oneseal::VerifiedWorkload, ProofError>) -> &'static str {
    refused.map_or_else(|error| error.reason(), |_| "ok")
}

#[tokio::test]
async fn a_token_that_is_good_says_who_bears_it_and_that_nobody_was_asked() {
    let authority = Authority::new(ES256);
    let proof = proof([authority.cluster("prod")]);
    assert_eq!(
        (proof.grant(), proof.is_for(CLUSTER), proof.is_for("https://x.example")),
        (Grant::TokenExchange, true, false)
    );
    let workload = proof.verify(&authority.sign(&claims())).await.unwrap();
    assert_eq!(workload.principal(), "system:serviceaccount:ci:builder");
    assert_eq!(workload.strength(), Strength::Signed);
    assert_eq!(workload.vouched_by(), &Voucher::Cluster("prod".to_owned()));
    assert_eq!((workload.facts().named("pod_uid"), workload.subject()), (Some("p-1"), None));
    assert_eq!(workload.facts().claims()["jti"], "j");
    assert!(proof.advice().iter().any(|found| found.code.name == "cluster.unreviewed"));
}

/// Legacy Secrets, extended tokens, tokens for others too, and users of other authenticators.
#[tokio::test]
async fn a_token_that_is_not_exactly_for_us_and_of_a_pods_life_is_refused_by_name() {
    let authority = Authority::new(ES256);
    let proof = proof([authority.cluster("prod")]);
    let now = NOW.as_secs();
    for (changes, why) in [
        (json!({"aud": URL}), "ok"),
        (json!({"exp": now + 3597}), "ok"),
        (json!({"aud": [URL, AUDIENCE]}), "audience"),
        (json!({"aud": [AUDIENCE]}), "audience"),
        (json!({"aud": [CLUSTER]}), "audience"),
        (json!({"aud": [format!("{URL}/")]}), "audience"),
        (json!({"aud": []}), "audience"),
        (json!({"aud": null}), "claim_missing"),
        (json!({"exp": null}), "claim_missing"),
        (json!({"iat": null}), "claim_missing"),
        (json!({"exp": now + 3598}), "lifetime"),
        (json!({"exp": now + 365 * 24 * 3600}), "lifetime"),
        (json!({"iat": now - 9000, "nbf": now - 9000, "exp": now - 60}), "expired"),
        (json!({"nbf": now + 61}), "not_yet_valid"),
        (json!({"iss": format!("{CLUSTER}/")}), "unknown_issuer"),
        (json!({"iss": null}), "claim_missing"),
        (json!({"sub": "system:node:n1"}), "not_a_service_account"),
        (json!({"sub": "alice"}), "not_a_service_account"),
        (json!({"sub": "system:serviceaccount:ci:other"}), "not_a_service_account"),
        (json!({"kubernetes.io": null}), "not_a_service_account"),
        (json!({"kubernetes.io": {"namespace": "ci"}}), "not_a_service_account"),
    ] {
        let judged = proof.verify(&authority.sign(&with(&changes))).await;
        assert_eq!(reason(judged), why, "{changes}");
    }
    let told = proof.verify(&authority.sign(&with(&json!({"aud": [AUDIENCE]})))).await.unwrap_err();
    assert!(told.to_string().contains(&format!("one audience is {URL}")), "{told}");
}

#[tokio::test]
async fn hostile_texts_are_refused_and_not_quoted() {
    let authority = Authority::new(ES256);
    let proof = proof([authority.cluster("prod")]);
    let good = authority.sign(&claims());
    let (head, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = head.split_once('.').unwrap();
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let many = with(&Value::Object((0..10_000).map(|n| (format!("c{n}"), json!(n))).collect()));
    for text in [
        String::new(),
        "canary".to_owned(),
        "a".repeat(1 << 20),
        format!("{header}.{}.{signature}", "A".repeat(1 << 20)),
        format!("{header}.{payload}."),
        format!(
            "{header}.{}.{signature}",
            segment_of(&with(&json!({"sub": "system:serviceaccount:ci:canary"})))
        ),
        format!("{header}.{}.{signature}", segment_of(&many)),
        Authority::new(ES256_OTHER).sign(&claims()),
    ] {
        let refused = proof.verify(&text).await.unwrap_err();
        assert_eq!(refused.retry_after(), None, "{refused}");
        assert!(!format!("{refused} {refused:?}").contains("canary"), "{refused}");
    }
    let nested = proof.verify(&format!("{header}.{}.{signature}", encode(deep.as_bytes()))).await;
    assert!(nested.unwrap_err().retry_after().is_none());
}

fn segment_of(claims: &Value) -> String {
    encode(claims.to_string().as_bytes())
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

#[tokio::test]
async fn of_several_clusters_with_one_issuer_the_one_whose_key_it_is_says_so() {
    let (one, other) = (Authority::new(ES256), Authority::new(ES256_OTHER));
    let proof = proof([one.cluster("one"), other.cluster("other")]);
    for _ in 0..2 {
        for (authority, name) in [(&one, "one"), (&other, "other")] {
            let workload = proof.verify(&authority.sign(&claims())).await.unwrap();
            assert_eq!(workload.vouched_by(), &Voucher::Cluster(name.to_owned()));
            let late = proof.verify(&authority.sign(&with(&json!({"aud": [AUDIENCE]})))).await;
            assert_eq!(reason(late), "audience");
        }
    }
}

#[tokio::test]
async fn our_own_token_is_no_proof_even_where_a_cluster_has_our_name() {
    let authority = Authority::new(ES256);
    let ours = Cluster::builder("odd", URL).audience("other").jwks(authority.jwks()).review(Review::Off);
    let proof = proof([authority.cluster("prod"), ours]);
    let running = start(URL, bare(&[("current.pem", ES256)]), |builder| {
        builder.algorithms([Algorithm::Es256]).proof(proof)
    })
    .await;
    let token = running.issuer.mint(&pod(), &audience(AUDIENCE)).await.unwrap().token;
    assert_eq!(reason(running.issuer.prove(Grant::TokenExchange, &token).await), "own_token");
    assert_eq!(segment(&token, 1)["iss"], URL);
    let good = running.issuer.prove(Grant::TokenExchange, &authority.sign(&claims())).await.unwrap();
    assert_eq!(good.vouched_by(), &Voucher::Cluster("prod".to_owned()));
    assert_eq!(
        reason(running.issuer.prove(Grant::JwtBearer, &authority.sign(&claims())).await),
        "unknown_issuer"
    );
}

#[test]
fn what_is_wrong_with_a_cluster_is_told_at_once_and_by_name() {
    let codes = |found: Findings| -> Vec<&'static str> {
        let codes: Vec<&'static Code> = found.iter().map(|finding| finding.code).collect();
        codes.into_iter().map(|code| code.name).collect()
    };
    let fault = |builder: ClusterBuilder| codes(builder.build().unwrap_err());
    let good = || Authority::new(ES256).cluster("prod");
    assert!(good().build().is_ok());
    for name in ["", "a b", "a/b", &"a".repeat(65), "a\n"] {
        let named = Cluster::builder(name, CLUSTER).audience(URL).jwks(Authority::new(ES256).jwks());
        assert_eq!(fault(named.review(Review::Off)), ["cluster.malformed"], "{name:?}");
    }
    assert_eq!(fault(good().max_reviews(0).timeout(Duration::ZERO)), ["cluster.malformed"; 2]);
    assert_eq!(fault(good().max_lifetime(Duration::from_secs(599))), ["cluster.malformed"]);
    for audience in ["", CLUSTER, "https://kubernetes.default.svc", "kubernetes"] {
        assert_eq!(fault(good().audience(audience)), ["cluster.audience"], "{audience}");
    }
    for jwks in ["", "{}", r#"{"keys":[]}"#, "<html>"] {
        assert_eq!(fault(good().jwks(jwks)), ["cluster.keys"], "{jwks}");
    }
    assert_eq!(fault(good().jwks_file("/nowhere/jwks.json")), ["cluster.keys"]);
    assert_eq!(fault(good().jwks_uri("http://keys.example")), ["cluster.keys"]);
    assert_eq!(fault(good().jwks_uri("https://keys.example").ca_file("/nowhere/ca.pem")), ["cluster.keys"]);
    assert_eq!(fault(good().proxy("http://proxy.example:1")), ["cluster.keys"], "nothing is fetched");
    for issuer in
        ["", "kubernetes/serviceaccount", "http://cluster.example", "https://Cluster.example", "https://a?b"]
    {
        let odd = Cluster::builder("prod", issuer).audience(URL).jwks(Authority::new(ES256).jwks());
        assert_eq!(fault(odd.review(Review::Off)), ["cluster.issuer"], "{issuer}");
    }
    let together = |clusters: Vec<ClusterBuilder>| {
        let built = clusters.into_iter().map(|cluster| cluster.build().unwrap()).collect();
        codes(KubernetesProof::new(built).unwrap_err())
    };
    assert_eq!(
        together(vec![good(), offline("prod").jwks(Authority::new(ES256_OTHER).jwks())]),
        ["cluster.name_twice"]
    );
    assert_eq!(together(vec![good(), Authority::new(ES256).cluster("other")]), ["cluster.key_shared"]);
}

/// Nothing but a change of the configuration would put that right, so it is no warning.
#[cfg(feature = "kubernetes")]
#[test]
fn a_way_to_the_api_server_that_leads_nowhere_is_refused_before_anybody_is_asked() {
    use oneseal::providers::kubernetes::ApiServerOptions;

    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = |name: &str, server: &str, authority: &str| {
        let path = dir.path().join(name);
        let text = json!({
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": authority}}],
            "users": [{"name": "u", "user": {"exec": {
                "apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/plugin", "interactiveMode": "Never",
            }}}],
        });
        std::fs::write(&path, text.to_string()).unwrap();
        path
    };
    let authority = dir.path().join("ca.pem");
    std::fs::write(&authority, "").unwrap();
    let good = kubeconfig("good", "https://127.0.0.1:1", authority.to_str().unwrap());
    let built = |access: ApiServerOptions, review: Review| {
        let cluster = Cluster::builder("prod", CLUSTER).audience(URL).api_server(access).review(review);
        cluster.build().map(drop).map_err(|found| found.to_string())
    };
    let by = |path| ApiServerOptions::default().by_kubeconfig(path);
    for (access, words) in [
        (by("/nowhere/kubeconfig".into()), "/nowhere/kubeconfig"),
        (by(kubeconfig("ca", "https://127.0.0.1:1", "/nowhere/ca.pem")), "/nowhere/ca.pem"),
        (by(kubeconfig("http", "http://10.0.0.1", authority.to_str().unwrap())), "without TLS"),
        (by(good.clone()).by_context("other"), "no context"),
    ] {
        for review in [Review::Required, Review::Off] {
            let told = built(access.clone(), review).unwrap_err();
            assert!(told.contains("cluster.access") && told.contains(words), "{told}");
        }
    }
    assert_eq!(built(by(good), Review::Required), Ok(()), "no plugin is run and no server is asked");
    let unasked = Authority::new(ES256).cluster("prod").api_server(by("/nowhere/kubeconfig".into()));
    assert!(unasked.build().is_ok(), "neither keys nor reviews");
}

#[cfg(feature = "kubernetes")]
#[test]
fn every_metric_of_reviews_is_documented() {
    const BEGIN: &str = "<!-- reviews: written by a test, see issuer/tests/all/clusters.rs -->\n";
    const END: &str = "<!-- end of reviews -->\n";
    let reviewed = Cluster::builder("prod", CLUSTER).audience(URL).jwks(Authority::new(ES256).jwks());
    let mut told = String::new();
    proof([reviewed]).write_metrics(&mut told);
    let path = format!("{}/../docs/metrics.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let table = crate::metrics::table(&told);
    crate::support::compare_with_file(&path, &format!("{before}{BEGIN}{table}{END}{after}"));
    for result in
        ["authenticated", "refused", "full", "throttled", "denied", "unauthenticated", "unavailable"]
    {
        assert!(told.contains(&format!("cluster=\"prod\",result=\"{result}\"}} 0\n")), "{result}: {told}");
    }
}
