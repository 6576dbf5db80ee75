//! Service accounts' tokens judged offline: which are taken, whose they are, and what clusters may not have in common.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use oneseal::keystore::material::PrivateKey;
use oneseal::keystore::{KeyId, Signer, findings::Code};
use oneseal::proofs::{Cluster, ClusterBuilder, Grant, KubernetesProof, Proof, ProofError, Review};
use oneseal::{Algorithm, Findings, Strength, Voucher};
use oneseal_relying_party::{KeyDocument, KeySource, KeySourceError};
use oneseal_testing::FixedClock;
use serde_json::{Value, json};

use crate::support::{
    AUDIENCE, ES256, ES256_OTHER, ES256_THIRD, NOW, URL, audience, bare, pod, segment, start,
};

const CLUSTER: &str = "https://kubernetes.default.svc.cluster.local";

/// A cluster's signing key.
struct Authority(Signer, PrivateKey);

impl Authority {
    fn new(pem: &str) -> Self {
        let key = PrivateKey::parse(pem.as_bytes()).unwrap();
        Self(Signer::new(&key, Algorithm::Es256, key.public().thumbprint()).unwrap(), key)
    }

    fn jwk(&self) -> String {
        let mut key = String::new();
        self.1.public().write_jwk(&mut key, Algorithm::Es256, self.0.kid());
        key
    }

    fn jwks(&self) -> String {
        format!(r#"{{"keys":[{}]}}"#, self.jwk())
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

/// What stands at a cluster's key endpoint, and how often it was read. None: it cannot be read.
#[derive(Debug, Default)]
struct Endpoint {
    keys: Mutex<Option<String>>,
    reads: AtomicUsize,
}

impl Endpoint {
    fn publish(&self, authorities: &[&Authority]) {
        let keys: Vec<String> = authorities.iter().map(|authority| authority.jwk()).collect();
        *self.keys.lock().unwrap() = Some(format!(r#"{{"keys":[{}]}}"#, keys.join(",")));
    }

    fn break_down(&self) {
        *self.keys.lock().unwrap() = None;
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

impl KeySource for Endpoint {
    fn read(&self) -> BoxFuture<'_, Result<KeyDocument, KeySourceError>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let keys = self.keys.lock().unwrap().clone();
        Box::pin(async move {
            let jwks = keys.ok_or_else(|| KeySourceError("it is down".into()))?;
            Ok(KeyDocument { jwks: jwks.into(), max_age: None })
        })
    }
}

/// Two clusters with one issuer: `a`, and `b`, which is hostile in some tests.
struct Namesakes {
    a: Arc<Endpoint>,
    b: Arc<Endpoint>,
    clock: Arc<FixedClock>,
    proof: KubernetesProof,
}

impl Namesakes {
    fn new(a: &[&Authority], b: &[&Authority]) -> Self {
        let (clock, endpoint) = (Arc::new(FixedClock::at(NOW)), Arc::<Endpoint>::default);
        let (one, other) = (endpoint(), endpoint());
        one.publish(a);
        other.publish(b);
        let cluster = |name: &str, endpoint: &Arc<Endpoint>| {
            offline(name).keys_from(endpoint.clone()).clock(clock.clone())
        };
        let proof = proof([cluster("a", &one), cluster("b", &other)]);
        Self { a: one, b: other, clock, proof }
    }

    /// Whose a token of `authority` is, or why it is nobody's.
    async fn whose(&self, authority: &Authority) -> String {
        match self.proof.verify(&authority.sign(&claims())).await {
            Ok(workload) => match workload.vouched_by() {
                Voucher::Cluster(name) => name.clone(),
                other => panic!("{other:?}"),
            },
            Err(error) if error.retry_after().is_some() => format!("later: {}", error.reason()),
            Err(error) => error.reason().to_owned(),
        }
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance_boot(Duration::from_secs(seconds));
    }

    fn reads(&self) -> (usize, usize) {
        (self.a.reads(), self.b.reads())
    }
}

fn authorities() -> [Authority; 3] {
    [ES256, ES256_OTHER, ES256_THIRD].map(Authority::new)
}

#[tokio::test]
async fn who_publishes_a_neighbours_next_key_first_gets_none_of_its_tokens() {
    let [a1, b1, a2] = authorities();
    let world = Namesakes::new(&[&a1], &[&b1]);
    assert_eq!([world.whose(&a1).await, world.whose(&b1).await], ["a", "b"]);
    // a signs with a new key, b has published it before we have read it at a.
    world.a.break_down();
    world.b.publish(&[&b1, &a2]);
    world.pass(31);
    world.proof.probe().await;
    world.a.publish(&[&a1, &a2]);
    assert_eq!(world.whose(&a2).await, "shared_key", "a is read anew, and has it as well");
    assert_eq!([world.whose(&a1).await, world.whose(&b1).await], ["a", "b"]);
    // The same with a that cannot be read: nobody can tell, and nobody is asked.
    let world = Namesakes::new(&[&a1], &[&b1]);
    assert_eq!([world.whose(&a1).await, world.whose(&b1).await], ["a", "b"]);
    world.a.break_down();
    world.b.publish(&[&b1, &a2]);
    world.pass(31);
    assert_eq!(world.whose(&a2).await, "later: keys_unavailable");
    assert_eq!([world.whose(&a1).await, world.whose(&b1).await], ["a", "b"]);
    // b drops it again, a is there again: a's.
    world.a.publish(&[&a1, &a2]);
    world.b.publish(&[&b1]);
    world.pass(31);
    assert_eq!(world.whose(&a2).await, "shared_key", "one read without it is none that counts");
    world.pass(31);
    assert_eq!(world.whose(&a2).await, "a");
}

#[tokio::test]
async fn who_publishes_a_neighbours_current_key_stops_nobody() {
    let [a1, b1, _] = authorities();
    let world = Namesakes::new(&[&a1], &[&b1]);
    assert!(world.proof.probe().await.is_empty());
    world.b.publish(&[&b1, &a1]);
    for _ in 0..3 {
        world.pass(301);
        assert!(world.proof.probe().await.is_empty());
        assert_eq!([world.whose(&a1).await, world.whose(&b1).await], ["a", "b"]);
    }
    // Not even while a's own set lacks it for a moment, or for good.
    world.a.publish(&[&authorities()[2]]);
    world.pass(31);
    assert!(world.proof.probe().await.is_empty());
    assert_eq!(world.whose(&a1).await, "a", "held until a second read");
    world.pass(31);
    assert!(world.proof.probe().await.is_empty());
    assert_eq!(world.whose(&a1).await, "shared_key", "it was a's, so it is not b's");
}

#[tokio::test]
async fn at_a_fresh_start_a_key_of_two_is_nobodys_until_one_drops_it() {
    let [a1, b1, _] = authorities();
    let world = Namesakes::new(&[&a1], &[&b1, &a1]);
    assert_eq!(world.whose(&a1).await, "shared_key");
    assert_eq!(world.whose(&b1).await, "b");
    world.b.publish(&[&b1]);
    world.pass(31);
    assert_eq!(world.whose(&a1).await, "a");
}

#[tokio::test]
async fn a_namesake_that_was_never_read_leaves_the_keys_of_the_other_open() {
    let [a1, b1, _] = authorities();
    let world = Namesakes::new(&[&a1], &[&b1, &a1]);
    world.a.break_down();
    for _ in 0..3 {
        assert_eq!(world.whose(&a1).await, "later: keys_unavailable");
        assert_eq!(world.whose(&b1).await, "later: keys_unavailable");
        world.pass(31);
    }
    world.a.publish(&[&a1]);
    assert_eq!(world.whose(&b1).await, "b");
    assert_eq!(world.whose(&a1).await, "shared_key");
    world.a.break_down();
    world.pass(3600);
    assert_eq!(world.whose(&b1).await, "b", "an outage of a later on is not one of b");
}

#[tokio::test]
async fn an_honest_new_key_works_at_once_and_costs_the_other_one_more_read() {
    let [a1, b1, a2] = authorities();
    let world = Namesakes::new(&[&a1], &[&b1]);
    assert!(world.proof.probe().await.is_empty());
    assert_eq!(world.reads(), (2, 2));
    assert_eq!([world.whose(&a1).await, world.whose(&b1).await], ["a", "b"]);
    assert_eq!(world.reads(), (2, 2));
    world.a.publish(&[&a1, &a2]);
    world.pass(31);
    assert_eq!(world.whose(&a2).await, "a");
    let reads = world.reads();
    assert_eq!(reads.0, 3, "for the unknown kid");
    assert!(
        (3..=4).contains(&reads.1),
        "b once more, unless its first read began after that of a: {reads:?}"
    );
    assert_eq!([world.whose(&a1).await, world.whose(&b1).await, world.whose(&a2).await], ["a", "b", "a"]);
    assert_eq!(world.reads(), reads);
}

#[tokio::test]
async fn a_flood_of_unknown_kids_costs_each_namesake_a_read_in_thirty_seconds() {
    let [a1, b1, stranger] = authorities();
    let world = Namesakes::new(&[&a1], &[&b1]);
    assert_eq!([world.whose(&a1).await, world.whose(&b1).await], ["a", "b"]);
    let before = world.reads();
    for round in 1..=3 {
        world.pass(30);
        for n in 0..50 {
            let kid = KeyId::parse(&format!("k{round}-{n}")).unwrap();
            let signer = Signer::new(&stranger.1, Algorithm::Es256, kid).unwrap();
            let token = signer.sign_blocking(claims().to_string().as_bytes()).unwrap();
            assert_eq!(reason(world.proof.verify(&token).await), "unknown_kid");
        }
        assert_eq!(world.reads(), (before.0 + round, before.1 + round));
    }
}
