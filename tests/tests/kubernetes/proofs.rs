//! Pods of a real cluster prove who they are: what its API server signs and says is taken, and nothing else.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oneseal::proofs::{Cluster, ClusterBuilder, KubernetesProof, Proof, ProofError, Review};
use oneseal::{Clock, Strength, SystemClock, UnixTime, VerifiedWorkload, Voucher};
use oneseal_providers::kubernetes::ApiServerOptions;
use oneseal_testing::FixedClock;
use oneseal_testing::parts::{Gateway, KubeApiserver, KubeApiserverOptions, Meddling, Pod};
use oneseal_tests::{Start, state};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::shipped::{moved, text};
use crate::support::run;

const US: &str = "https://oidc.example";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A namespace of a cluster, with the account that the replicas have, and the shipped rights.
struct World<'s> {
    server: &'s KubeApiserver,
    namespace: String,
    dir: TempDir,
}

impl<'s> World<'s> {
    fn of(server: &'s KubeApiserver) -> Self {
        let namespace = server.create_namespace();
        let world = Self { server, namespace, dir: tempfile::tempdir().unwrap() };
        server.service_account(&world.namespace, "oneseal");
        let rights = moved(&text("kubernetes/tokenreview.yaml"), &world.namespace);
        server.apply(&rights.replace("oneseal-tokenreview", &format!("review-{}", world.namespace)), false);
        let may = json!({"verb": "create", "group": "authentication.k8s.io", "resource": "tokenreviews"});
        while !server.is_allowed(&world.user(), &may) {}
        server.service_account(&world.namespace, "builder");
        world
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:oneseal", self.namespace)
    }

    fn ours(&self) -> String {
        self.server.token(&self.namespace, "oneseal", &[], 3600, None)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Its pods' cluster, asked with the rights that are shipped.
    fn cluster(&self, name: &str) -> ClusterBuilder {
        let kubeconfig = self.file(name, &self.server.kubeconfig_for(&self.ours()));
        self.cluster_by(name, ApiServerOptions::default().by_kubeconfig(kubeconfig))
    }

    fn cluster_by(&self, name: &str, access: ApiServerOptions) -> ClusterBuilder {
        Cluster::builder(name, self.server_issuer()).audience(US).api_server(access)
    }

    /// The same by way of a gateway.
    fn cluster_behind(&self, gateway: &Gateway) -> ClusterBuilder {
        let kubeconfig = self.file("gateway", &gateway.kubeconfig(&self.ours()));
        self.cluster_by("here", ApiServerOptions::default().by_kubeconfig(kubeconfig))
    }

    fn server_issuer(&self) -> String {
        let (_, discovery) = self.server.request("GET", "/.well-known/openid-configuration", None);
        discovery["issuer"].as_str().unwrap().to_owned()
    }

    fn pod(&self, name: &str) -> Pod {
        self.server.create_pod(&self.namespace, name, "builder")
    }

    fn token(&self, audiences: &[&str], pod: Option<&Pod>) -> String {
        self.server.token(&self.namespace, "builder", audiences, 600, pod)
    }

    /// A token that is bound to some other object.
    fn bound_to(&self, kind: &str, object: &Value) -> String {
        let bound = json!({
            "apiVersion": "v1", "kind": kind, "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
        });
        let spec = json!({"spec": {"audiences": [US], "expirationSeconds": 600, "boundObjectRef": bound}});
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/builder/token", self.namespace);
        let (status, answer) = self.server.request("POST", &path, Some(&spec));
        assert_eq!(status, 201, "{answer}");
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    fn delete(&self, path: &str) {
        let path = format!("/api/v1/namespaces/{}/{path}", self.namespace);
        assert_eq!(self.server.request("DELETE", &path, None).0, 200);
    }

    fn reviews_asked(&self) -> usize {
        let lines = self.server.audit();
        lines.iter().filter(|line| line.user == self.user() && line.resource == "tokenreviews").count()
    }
}

fn proof(clusters: impl IntoIterator<Item = ClusterBuilder>) -> KubernetesProof {
    KubernetesProof::new(clusters.into_iter().map(|cluster| cluster.build().unwrap()).collect()).unwrap()
}

fn reason(judged: &Result<VerifiedWorkload, ProofError>) -> &'static str {
    judged.as_ref().map_or_else(ProofError::reason, |_| "ok")
}

async fn reason_of(proof: &KubernetesProof, token: &str) -> &'static str {
    reason(&proof.verify(token).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_token_proves_its_account_and_pod_by_exactly_the_shipped_rights() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let pod = world.pod("job");
    let reviewed = proof([world.cluster("here")]);
    let workload = reviewed.verify(&world.token(&[US], Some(&pod))).await.unwrap();
    assert_eq!(workload.strength(), Strength::Reviewed);
    assert_eq!(workload.vouched_by(), &Voucher::Cluster("here".to_owned()));
    assert_eq!(workload.principal(), format!("system:serviceaccount:{}:builder", world.namespace));
    let facts = workload.facts();
    for (name, text) in
        [("cluster", "here"), ("service_account", "builder"), ("pod", "job"), ("pod_uid", &*pod.uid)]
    {
        assert_eq!(facts.named(name), Some(text), "{name}");
    }
    assert_eq!(facts.claims()["kubernetes.io"]["namespace"], world.namespace.as_str());
    assert!(reviewed.probe().await.is_empty());

    // What the shipped ClusterRole allows is what was asked, no more and no less.
    server.wait_for_audited("both reviews", |_| world.reviews_asked() == 2);
    let lines = server.audit();
    let asked = lines.iter().filter(|line| line.user == world.user());
    let mut asked: Vec<_> =
        asked.map(|line| (&*line.verb, line.uri.split('?').next().unwrap(), line.code)).collect();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(
        asked,
        [
            ("create", REVIEWS, 201),
            ("get", "/.well-known/openid-configuration", 200),
            ("get", "/openid/v1/jwks", 200),
        ]
    );

    let signed = proof([world.cluster("unasked").review(Review::Off)]);
    assert_eq!(signed.verify(&world.token(&[US], Some(&pod))).await.unwrap().strength(), Strength::Signed);
    assert_eq!(world.reviews_asked(), 2, "review is off");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_for_others_of_other_kinds_tampered_or_past_are_refused_and_never_sent_to_anybody() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let pod = world.pod("job");
    let proof_now = proof([world.cluster("here")]);
    let good = world.token(&[US], Some(&pod));
    let (head, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = head.split_once('.').unwrap();
    let (_, payload_of_other, _) = parts(&world.token(&[US], None));
    let mut swapped = signature.to_owned().into_bytes();
    swapped.swap(10, 20);
    swapped.swap(30, 50);
    for (token, why) in [
        (world.token(&[], Some(&pod)), "audience"),
        (world.token(&[US, "vault"], Some(&pod)), "audience"),
        (world.token(&["vault"], Some(&pod)), "audience"),
        (world.token(&[&format!("{US}/")], Some(&pod)), "audience"),
        (format!("{head}.{}", String::from_utf8(swapped).unwrap()), "signature"),
        (format!("{header}.{payload_of_other}.{signature}"), "signature"),
    ] {
        assert_eq!(reason_of(&proof_now, &token).await, why, "{token}");
    }
    let clock = FixedClock::at(UnixTime(SystemClock.wall().as_secs() + 3600));
    let later = proof([world.cluster("later").clock(Arc::new(clock))]);
    assert_eq!(reason_of(&later, &good).await, "expired");
    let day = server.token(&world.namespace, "builder", &[US], 86_400, None);
    assert_eq!(reason_of(&proof_now, &day).await, "lifetime");
    assert_eq!(world.reviews_asked(), 0, "what is refused offline costs the API server nothing");

    // Good tokens of accounts that are bound to something else than a pod say so by what they lack.
    let secret = server.create_secret(&world.namespace, "bound", "Opaque", &[]);
    let node = json!({"metadata": {"name": format!("node-{}", world.namespace)}});
    let (_, node) = server.request("POST", "/api/v1/nodes", Some(&node));
    for (token, has_node) in [
        (world.token(&[US], None), false),
        (world.bound_to("Secret", &secret), false),
        (world.bound_to("Node", &node), true),
    ] {
        let workload = proof_now.verify(&token).await.unwrap();
        assert_eq!(
            (workload.facts().named("pod"), workload.facts().named("node").is_some()),
            (None, has_node)
        );
    }
}

fn parts(token: &str) -> (&str, String, &str) {
    let mut parts = token.split('.');
    let (header, payload, signature) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    (header, payload.to_owned(), signature)
}

/// The server's own success cache is 10 s long.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_gone_proves_nothing_any_more_within_twelve_seconds() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let proof = proof([world.cluster("here")]);
    let (pod, other) = (world.pod("job"), world.pod("other"));
    let of_pod = world.token(&[US], Some(&pod));
    server.service_account(&world.namespace, "renewed");
    let of_account = server.token(&world.namespace, "renewed", &[US], 600, None);
    for token in [&of_pod, &of_account] {
        assert_eq!(reason_of(&proof, token).await, "ok");
    }
    world.delete("pods/job?gracePeriodSeconds=0");
    // Another account of the same name, with another uid.
    world.delete("serviceaccounts/renewed");
    server.service_account(&world.namespace, "renewed");
    let gone = SystemClock.boot();
    for token in [&of_pod, &of_account] {
        let refused = state::until("a refusal", async || {
            let judged = proof.verify(token).await;
            (reason(&judged) != "ok").then_some(judged)
        })
        .await;
        assert_eq!(reason(&refused), "not_authenticated");
        assert_eq!(refused.unwrap_err().retry_after(), None, "for good");
    }
    let took = SystemClock.boot().since(gone);
    assert!(took <= Duration::from_secs(12), "{took:?}");
    assert_eq!(reason_of(&proof, &world.token(&[US], Some(&other))).await, "ok");
    let anew = server.token(&world.namespace, "renewed", &[US], 600, None);
    assert_eq!(reason_of(&proof, &anew).await, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_clusters_that_share_every_name_each_vouches_for_its_own_tokens_alone() {
    let Some(here) = KubeApiserver::shared() else { return };
    let flags = vec![
        format!("--service-account-issuer={}", here.url()),
        // As behind a load balancer that pods do not reach; the keys are read at the API server all the same.
        "--service-account-jwks-uri=https://unroutable.invalid/openid/v1/jwks".to_owned(),
    ];
    let Some(there) = KubeApiserver::start(KubeApiserverOptions { flags, ..Default::default() }) else {
        return;
    };
    let (one, other) = (World::of(here), World::of(&there));
    let both = proof([one.cluster("one"), other.cluster("other")]);
    let (of_one, of_other) = (one.token(&[US], None), other.token(&[US], None));
    for _ in 0..2 {
        for (token, name) in [(&of_one, "one"), (&of_other, "other")] {
            let workload = both.verify(token).await.unwrap();
            assert_eq!(workload.vouched_by(), &Voucher::Cluster(name.to_owned()));
        }
    }
    // Each has reviewed its own, and has seen no other.
    assert_eq!((one.reviews_asked(), other.reviews_asked()), (2, 2));
    let alone = proof([one.cluster("alone")]);
    assert_eq!(reason_of(&alone, &of_other).await, "unknown_kid");

    // One that cannot be asked does not hold up the other, and is not answered for by it.
    drop(there);
    assert_eq!(reason_of(&both, &of_one).await, "ok");
    let undecided = both.verify(&of_other).await.unwrap_err();
    assert_eq!((undecided.reason(), undecided.retry_after().is_some()), ("review_unavailable", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_two_clusters_turn_out_to_share_is_refused_by_their_names() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let gateway = server.gateway();
    let shared = proof([world.cluster("one"), world.cluster_behind(&gateway)]);
    assert!(shared.probe().await.is_empty());
    let refused = shared.verify(&world.token(&[US], None)).await.unwrap_err();
    assert_eq!(refused.reason(), "shared_key");
    assert!(refused.to_string().contains("one and here have one issuer"), "{refused}");
    assert_eq!(world.reviews_asked(), 2, "the probes alone: the token goes to neither");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_busy_or_lies_leaves_a_token_undecided() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let gateway = server.gateway();
    let proof = proof([world.cluster_behind(&gateway).timeout(Duration::from_millis(700))]);
    let pod = world.pod("job");
    let token = world.token(&[US], Some(&pod));
    assert_eq!(reason_of(&proof, &token).await, "ok");
    let spec = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, "audiences": [US]}});
    let (_, honest) = server.request("POST", REVIEWS, Some(&spec));
    assert_eq!(honest["status"]["authenticated"], true);
    let lie = |pointer: &str, value: Value| {
        let mut lie = honest.clone();
        *lie.pointer_mut(pointer).unwrap() = value;
        answer(201, "application/json", &lie.to_string())
    };
    let status = |code: u16| {
        answer(
            code,
            "application/json",
            &json!({"kind": "Status", "message": "canary", "code": code}).to_string(),
        )
    };
    let other = format!("system:serviceaccount:{}:oneseal", world.namespace);
    for (meddling, why) in [
        (status(429), "review_throttled"),
        (status(500), "review_unavailable"),
        (status(401), "review_unauthenticated"),
        (status(403), "review_denied"),
        (status(404), "review_unavailable"),
        (answer(200, "text/html", "<html>canary</html>"), "review_contradiction"),
        (answer(302, "text/html", "canary"), "review_unavailable"),
        (Meddling::CutBefore, "review_unavailable"),
        (Meddling::CutAfter, "review_unavailable"),
        (Meddling::Hang, "review_unavailable"),
        (lie("/status/user/username", json!(other)), "review_contradiction"),
        (lie("/status/audiences", json!([])), "review_contradiction"),
        (lie("/status/audiences", json!(["https://kubernetes.default.svc"])), "review_contradiction"),
        (
            lie("/status/user/extra/authentication.kubernetes.io~1pod-uid", json!(["other"])),
            "review_contradiction",
        ),
    ] {
        // A 401 is asked once more.
        gateway.meddle("create", meddling.clone(), 2);
        let undecided = proof.verify(&token).await.unwrap_err();
        gateway.pass();
        assert_eq!(undecided.reason(), why, "{meddling:?}");
        let wait = undecided.retry_after().unwrap();
        assert!((1..=60).contains(&wait.as_secs()), "{wait:?}");
        assert!(!format!("{undecided} {undecided:?}").contains("canary"), "{undecided:?}");
    }
    gateway.meddle("create", lie("/status", json!({"user": {}, "error": "[invalid bearer token]"})), 1);
    assert_eq!(proof.verify(&token).await.unwrap_err().retry_after(), None, "an honest no is one");
    assert_eq!(reason_of(&proof, &token).await, "ok");
    let mut told = String::new();
    proof.write_metrics(&mut told);
    for (result, times) in
        [("authenticated", 2), ("refused", 1), ("throttled", 1), ("denied", 1), ("contradiction", 5)]
    {
        let line = format!("oneseal_token_reviews_total{{cluster=\"here\",result=\"{result}\"}} {times}\n");
        assert!(told.contains(&line), "{line}{told}");
    }
}

fn answer(status: u16, media_type: &'static str, body: &str) -> Meddling {
    Meddling::Answer { status, headers: vec![("content-type", media_type)], body: body.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_reviews_run_and_wait_and_who_comes_then_is_told_to_come_again() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let gateway = server.gateway();
    let proof = proof([world.cluster_behind(&gateway).max_reviews(1).timeout(Duration::from_secs(30))]);
    let token = world.token(&[US], None);
    gateway.meddle("create", Meddling::Hold, 1);
    let mut asked = JoinSet::new();
    // One is asked, four wait, and nobody else does.
    for _ in 0..6 {
        let (proof, token) = (proof.clone(), token.clone());
        asked.spawn(async move { proof.verify(&token).await });
    }
    let full = asked.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!((full.reason(), full.retry_after()), ("reviews_full", Some(Duration::from_secs(1))));
    state::until("the one that is asked", async || (gateway.seen("create") == 1).then_some(())).await;
    // One who gives up makes room at once.
    gateway.release();
    for judged in asked.join_all().await {
        assert_eq!(reason(&judged), "ok");
    }
    assert_eq!(gateway.seen("create"), 5);
}

/// As of EKS, whose issuer is nobody's API server: what is ours goes to the API server and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn no_credentials_reach_whoever_serves_the_keys_from_elsewhere() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let (_, jwks) = server.request("GET", "/openid/v1/jwks", None);
    let elsewhere = Elsewhere::serve(&jwks.to_string(), 3);
    let proof_by_uri = proof([world.cluster("here").jwks_uri(format!("{}/jwks", elsewhere.url))]);
    assert_eq!(reason_of(&proof_by_uri, &world.token(&[US], None)).await, "ok");
    let access = ApiServerOptions::default().by_kubeconfig(world.dir.path().join("here"));
    let discovered =
        Cluster::builder("eks", elsewhere.url.as_str()).audience(US).api_server(access).keys_by_discovery();
    let found = proof([discovered]).probe().await;
    let found: Vec<_> = found.iter().map(|finding| finding.code.name).collect();
    assert_eq!(found, ["cluster.issuer_differs"], "and keys and reviews are there");
    let heads = elsewhere.heads();
    let paths: Vec<_> = heads.iter().map(|head| head.split(' ').nth(1).unwrap()).collect();
    assert_eq!(paths, ["/jwks", "/.well-known/openid-configuration", "/jwks"]);
    for head in heads {
        assert!(!head.to_lowercase().contains("authorization"), "{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_not_the_api_servers_is_told_with_both_and_nothing_a_server_says_is_believed_to_be_one()
 {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let gateway = server.gateway();
    let behind = |issuer: &str| {
        let kubeconfig = world.file("gateway", &gateway.kubeconfig(&world.ours()));
        let access = ApiServerOptions::default().by_kubeconfig(kubeconfig);
        let cluster = Cluster::builder("here", issuer).audience(US).api_server(access);
        proof([cluster.timeout(Duration::from_millis(700))])
    };
    let differs = |found: &oneseal::Findings| -> Vec<String> {
        let found = found.iter().filter(|finding| finding.code.name == "cluster.issuer_differs");
        found.map(|finding| format!("{}: {}", finding.place, finding.message)).collect()
    };
    let usual = "https://kubernetes.default.svc.cluster.local";
    let own = world.server_issuer();
    let found = behind(usual).probe().await;
    assert_eq!(differs(&found), [format!("cluster here: its API server says \"{own}\", not \"{usual}\"")]);
    assert!(!found.has_errors(), "{found}");
    assert!(behind(&own).probe().await.is_empty());

    let discovery = |body: &str| answer(200, "application/json", body);
    for (answer, differences) in [
        (discovery(&format!("{{\"issuer\": {:?}}}", "https://long.example/".repeat(500))), 1),
        (discovery(r#"{"issuer": "https://a\u001b[2J\nb"}"#), 1),
        (discovery(r#"{"issuer": 1}"#), 0),
        (discovery(r#"{"issuer": "x", "issuer": "y"}"#), 0),
        (discovery("<html>"), 0),
        (answer(403, "application/json", "{\"kind\": \"Status\"}"), 0),
        (Meddling::CutAfter, 0),
        (Meddling::Hang, 0),
    ] {
        // The keys are asked for at the same time; what is found of them is not looked at here.
        gateway.meddle("get", answer, 4);
        let told = differs(&behind(&own).probe().await);
        gateway.pass();
        assert_eq!(told.len(), differences, "{told:?}");
        for line in told {
            assert!(line.len() < 600 && !line.contains(['\u{1b}', '\n']), "{line:?}");
        }
    }
}

/// An issuer on the loopback address, for so many requests.
struct Elsewhere {
    url: String,
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Elsewhere {
    fn serve(jwks: &str, times: usize) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let discovery = json!({"issuer": url, "jwks_uri": format!("{url}/jwks")}).to_string();
        let jwks = jwks.to_owned();
        let serve = move || {
            let mut heads = Vec::new();
            for _ in 0..times {
                let (mut stream, _) = listener.accept().unwrap();
                let head = head_of(&mut stream);
                let body = if head.contains("/jwks ") { &jwks } else { &discovery };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).unwrap();
                heads.push(head);
            }
            heads
        };
        let thread = std::thread::Builder::new().name("elsewhere".to_owned()).spawn(serve).unwrap();
        Self { url, thread }
    }

    fn heads(self) -> Vec<String> {
        self.thread.join().unwrap()
    }
}

fn head_of(stream: &mut std::net::TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_names_what_a_cluster_lacks_and_its_cure() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    server.service_account(&world.namespace, "stranger");
    let token = server.token(&world.namespace, "stranger", &[], 600, None);
    let stranger = world.file("stranger", &server.kubeconfig_for(&token));
    let nobody = world.file("nobody", &server.kubeconfig_at("127.0.0.1:1".parse().unwrap(), "token"));
    let access = |path| ApiServerOptions::default().by_kubeconfig(path);
    let found =
        proof([world.cluster_by("strange", access(stranger)), world.cluster_by("gone", access(nobody))]);
    let found = found.probe().await;
    let told: Vec<_> = found.iter().map(|finding| (finding.code.name, &*finding.place)).collect();
    assert_eq!(
        told,
        [
            // Every service account may read the keys, unless somebody has changed what clusters begin with.
            ("cluster.review_denied", "cluster strange"),
            ("cluster.keys_unreadable", "cluster gone"),
            ("cluster.review_unavailable", "cluster gone"),
        ]
    );
    assert!(!found.has_errors(), "documents are served without it");
    let denied = found.iter().find(|finding| finding.code.name == "cluster.review_denied").unwrap();
    let user = format!("system:serviceaccount:{}:stranger may not create", world.namespace);
    assert!(denied.message.contains(&user) && denied.code.cure.contains("ClusterRole"), "{denied}");
}

/// A cluster is a warning, and no reason not to serve what has nothing to do with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_without_its_clusters_and_check_tells_what_they_lack() {
    let Some(server) = KubeApiserver::shared() else { return };
    let world = World::of(server);
    let here = world.file("here", &server.kubeconfig_for(&world.ours()));
    let nobody = world.file("nobody", &server.kubeconfig_at("127.0.0.1:1".parse().unwrap(), "token"));
    let key = world.dir.path().join("key");
    let mut start = Start::with_file(world.dir.path().join("home"), "http://127.0.0.1:1", &key);
    start.algorithms = vec![oneseal::Algorithm::Es256];
    let cluster = |name: &str, kubeconfig: &std::path::Path| {
        let issuer = server.url();
        format!("[[cluster]]\nname = {name:?}\nissuer = {issuer:?}\nkubeconfig = {kubeconfig:?}\n")
    };
    let (exit, _, err) = run(&start, &["keys", "init"]).await;
    assert_eq!(exit, Some(0), "{err}");
    start.more = [
        cluster("here", &here),
        cluster("gone", &nobody),
        cluster("unasked", &nobody).replace("kubeconfig", "review = \"off\"\nkeys = \"discovery\"\n# "),
    ]
    .concat();
    let (exit, out, err) = run(&start, &["check", "--json", "--no-bind", "--offline"]).await;
    assert_eq!(exit, Some(0), "{out}{err}");
    let codes = |out: &str| -> Vec<String> {
        let report: Value = serde_json::from_str(out).unwrap();
        let found = report["findings"].as_array().unwrap().clone();
        let told = |finding: &Value| {
            format!("{} {}", finding["code"].as_str().unwrap(), finding["place"].as_str().unwrap())
        };
        found.iter().map(told).filter(|line| line.starts_with("cluster.")).collect()
    };
    assert_eq!(codes(&out), ["cluster.unreviewed cluster unasked"], "nobody is asked");
    let (exit, out, err) = run(&start, &["check", "--json", "--no-bind"]).await;
    assert_eq!(exit, Some(0), "{out}{err}");
    let mut told = codes(&out);
    told.sort();
    assert_eq!(
        told,
        [
            "cluster.keys_unreadable cluster gone",
            "cluster.keys_unreadable cluster unasked",
            "cluster.review_unavailable cluster gone",
            "cluster.unreviewed cluster unasked",
        ]
    );
    // Where two are asked at one API server, nothing starts.
    start.more = [cluster("one", &nobody), cluster("two", &nobody)].concat();
    let (exit, out, _) = run(&start, &["check", "--json", "--no-bind", "--offline"]).await;
    assert_eq!((exit, codes(&out)), (Some(78), vec!["cluster.same_access cluster two".to_owned()]), "{out}");
}
