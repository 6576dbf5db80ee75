//! `POST ISS/token` of a whole server: where it is answered, what is written down, who is limited.

use std::fs;
use std::net::SocketAddr;

use oneseal::{Algorithm, Clock, SystemClock};
use oneseal_keystore::Signer;
use oneseal_keystore::material::PrivateKey;
use serde_json::{Value, json};

use crate::support::http::{Answer, Client};
use crate::support::place::{ISSUER, Place};
use crate::support::server::Server;

const CLUSTER: &str = "https://kubernetes.default.svc.cluster.local";
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// A cluster whose tokens are judged by its key alone, and a rule for its pods.
struct Cluster {
    place: Place,
    signer: Signer,
}

impl Cluster {
    fn new(tables: &str) -> Self {
        let key =
            PrivateKey::parse(include_bytes!("../../../issuer/tests/fixtures/es256-other.pem")).unwrap();
        let signer = Signer::new(&key, Algorithm::Es256, key.public().thumbprint()).unwrap();
        let mut jwk = String::new();
        key.public().write_jwk(&mut jwk, Algorithm::Es256, signer.kid());
        let place = Place::with_ring("ES256");
        let jwks = place.write("cluster.json", &format!("{{\"keys\":[{jwk}]}}"));
        place.configure(&format!(
            "{tables}\n[[cluster]]\nname = \"prod\"\nissuer = \"{CLUSTER}\"\njwks_file = \"{}\"\nreview = \"off\"\n\
             [[rule]]\nname = \"ci\"\ncluster = [\"prod\"]\nsub = \"k8s:{{namespace}}:{{service_account}}\"\n\
             audiences = [\"payments\", \"urn:payments\"]\n",
            jwks.display(),
        ));
        Self { place, signer }
    }

    fn serve(&self, args: &[&str]) -> Server {
        Server::start(&self.place, args)
    }

    /// The token of a pod, which expires after so many seconds.
    fn token(&self, pod: &str, life_s: i64) -> String {
        let now = SystemClock.wall().as_secs();
        let claims = json!({
            "iss": CLUSTER, "sub": "system:serviceaccount:ci:builder", "aud": [ISSUER], "jti": pod,
            "iat": now - 600, "nbf": now - 600, "exp": now + life_s,
            "kubernetes.io": {
                "namespace": "ci", "serviceaccount": {"name": "builder", "uid": "a"},
                "pod": {"name": pod, "uid": format!("uid-{pod}")},
            },
        });
        self.signer.sign_blocking(claims.to_string().as_bytes()).unwrap()
    }
}

fn form(token: &str, audience: &str) -> String {
    format!(
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={token}\
         &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&audience={audience}"
    )
}

fn post(to: SocketAddr, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut all = vec![FORM];
    all.extend(headers);
    Client::tcp(to).unwrap().ask("POST", "/token", &all, body).unwrap()
}

fn error(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn every_case_gets_the_answer_that_it_wants_from_a_server() {
    let cluster = Cluster::new("");
    let server = cluster.serve(&[]);
    let cases: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/token/token-exchange-forms.json")).unwrap();
    let (good, expired) = (cluster.token("a", 600), cluster.token("a", -300));
    for case in cases["cases"].as_array().unwrap() {
        let text = |name: &str| case[name].as_str().unwrap_or_default();
        let body = text("body").replace("$EXPIRED", &expired).replace("$T", &good).replace("$A", &good);
        let mut headers = vec![("Content-Type", text("content_type"))];
        headers.extend(
            case["headers"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.as_str(), value.as_str().unwrap())),
        );
        let method = case["method"].as_str().unwrap_or("POST");
        let answer = Client::tcp(server.documents).unwrap().ask(method, "/token", &headers, &body).unwrap();
        let (status, error) = error(&answer);
        // Of two that are right, which one is chosen is held to in the issuer's own tests.
        let wanted = text("expect");
        let is_wanted = wanted.contains(&status.to_string())
            && (wanted.contains(&error)
                || ["method_not_allowed", "invalid_request"].contains(&error.as_str()));
        let is_named = !wanted.contains("invalid") || wanted.contains(&error);
        assert!(is_wanted && is_named, "{}: {status} {error}, not {wanted}", text("id"));
        assert_eq!(
            (answer.header("cache-control"), answer.header("pragma")),
            (Some("no-store"), Some("no-cache"))
        );
        assert!(
            answer.header("x-request-id").is_some() && answer.header("access-control-allow-origin").is_none()
        );
    }
    let log = server.log();
    for token in [&good, &expired] {
        let signature = token.rsplit('.').next().unwrap();
        assert!(!log.contains(signature) && !log.contains(token.split('.').nth(1).unwrap()), "{log}");
    }
}

#[test]
fn each_token_has_its_audit_line_and_each_refusal_its_reason() {
    let cluster = Cluster::new("");
    let server = cluster.serve(&[]);
    let answer =
        post(server.documents, &[("X-Request-Id", "mine-1")], &form(&cluster.token("a", 600), "payments"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let token = answer.json()["access_token"].as_str().unwrap().to_owned();
    let refused =
        post(server.documents, &[("X-Request-Id", "mine-2")], &form(&cluster.token("a", 600), "other"));
    assert_eq!(error(&refused), (400, "invalid_target".to_owned()));
    let lines = server.log_lines();
    let of = |id: &str| {
        let mut found = lines.iter().filter(|line| line["span"]["request_id"] == id);
        let line = found.next().unwrap_or_else(|| panic!("no line of {id}: {}", server.log())).clone();
        assert!(found.next().is_none(), "one line each");
        line
    };
    let minted = of("mine-1");
    let claims = payload(&token);
    for (name, value) in [
        ("target", json!("oneseal::audit")),
        ("grant", json!("token_exchange")),
        ("principal", json!("system:serviceaccount:ci:builder")),
        ("pod", json!("a")),
        ("pod_uid", json!("uid-a")),
        ("vouched_by", json!("cluster:prod")),
        ("strength", json!("signed")),
        ("rule", json!("ci")),
        ("sub", json!("k8s:ci:builder")),
        ("aud", json!("payments")),
        ("alg", json!("ES256")),
        ("jti", claims["jti"].clone()),
        ("exp", claims["exp"].clone()),
    ] {
        assert_eq!(minted[name], value, "{name} in {minted}");
    }
    assert!(minted["kid"].is_string());
    let refused = of("mine-2");
    assert_eq!((&refused["level"], &refused["reason"]), (&json!("WARN"), &json!("no_rule_for_audience")));
    assert_eq!(refused["principal"], "system:serviceaccount:ci:builder");
    assert!(!server.log().contains(&token));
}

fn payload(token: &str) -> Value {
    use base64::Engine as _;
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap())
        .unwrap()
}

#[test]
fn with_a_listener_of_its_own_it_is_answered_there_alone() {
    let cluster = Cluster::new("");
    let mut server = cluster.serve(&["--listen-token", "127.0.0.1:0"]);
    let ready: Value = serde_json::from_slice(&fs::read(cluster.place.path("ready.json")).unwrap()).unwrap();
    let at: SocketAddr = ready["token"].as_str().unwrap().parse().unwrap();
    assert_eq!(ready["token_url"], format!("http://{at}"));
    let serving = server.log_lines().into_iter().find(|line| line["message"] == "serving").unwrap();
    assert_eq!(serving["token"], format!("http://{at}"));
    let body = form(&cluster.token("a", 600), "payments");
    assert_eq!(post(at, &[], &body).status, 200);
    assert_eq!(error(&post(server.documents, &[], &body)), (404, "not_found".to_owned()));
    let jwks = Client::tcp(at).unwrap().ask("GET", "/.well-known/jwks.json", &[], "").unwrap();
    assert_eq!(error(&jwks), (404, "not_found".to_owned()));
    let metrics = Client::tcp(server.ops).unwrap().ask("GET", "/metrics", &[], "").unwrap().text();
    assert!(
        metrics.contains("oneseal_http_requests_total{listener=\"token\",status=\"2xx\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("oneseal_token_requests_total{grant=\"token_exchange\",result=\"ok\"} 1"));
    server.signal(rustix::process::Signal::INT);
    assert!(server.wait().success());
    assert!(std::net::TcpStream::connect(at).is_err(), "closed with the others");
}

#[test]
fn behind_known_proxies_an_address_that_asks_too_often_is_told_so_and_documents_are_not() {
    let cluster = Cluster::new(
        "trusted_proxies = [\"127.0.0.0/8\"]\n[token]\naddress_per_minute = 1\naddress_burst = 2",
    );
    let server = cluster.serve(&[]);
    let body = form(&cluster.token("a", 600), "payments");
    let ask = |forwarded: &str| post(server.documents, &[("X-Forwarded-For", forwarded)], &body);
    assert_eq!(ask("192.0.2.1").status, 200);
    assert_eq!(ask("198.51.100.1, 192.0.2.1").status, 200);
    let limited = ask("198.51.100.2, 192.0.2.1, 127.0.0.9");
    assert_eq!(error(&limited), (429, "too_many_requests".to_owned()));
    let wait: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait) && limited.header("connection").is_none());
    assert_eq!(
        (limited.header("cache-control"), limited.header("pragma")),
        (Some("no-store"), Some("no-cache"))
    );
    assert_eq!(ask("192.0.2.2").status, 200, "another address");
    for _ in 0..20 {
        let mut client = Client::tcp(server.documents).unwrap();
        let jwks =
            client.ask("GET", "/.well-known/jwks.json", &[("X-Forwarded-For", "192.0.2.1")], "").unwrap();
        assert_eq!(jwks.status, 200);
    }
    let metrics = Client::tcp(server.ops).unwrap().ask("GET", "/metrics", &[], "").unwrap().text();
    assert!(metrics.contains("oneseal_token_turned_away_total{reason=\"address_limit\"} 1"), "{metrics}");
}
