//! Assertions at several replicas that share a database: of all who show one, wherever, one is believed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use oneseal::proofs::{AssertionIssuer, AssertionProof, Proof as _};
use oneseal::{Algorithm, Clock as _, IssuerUrl, SystemClock};
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::once::UsedOnce;
use oneseal_keystore::Signer;
use oneseal_keystore::material::PrivateKey;
use oneseal_testing::parts::Proxy;
use oneseal_tests::Start;
use oneseal_tests::http::{self, Answer};
use serde_json::json;
use tokio::task::JoinSet;

use crate::readers::party;
use crate::support::{Scene, database_address, postgres};

const ES256: &str = include_str!("../../../issuer/tests/fixtures/es256.pem");
const OTHER_ES256: &str = include_str!("../../../issuer/tests/fixtures/es256-other.pem");

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Somebody who signs assertions.
struct Signs {
    name: &'static str,
    signer: Signer,
    jwks: String,
}

impl Signs {
    fn new(name: &'static str, pem: &str) -> Self {
        let key = PrivateKey::parse(pem.as_bytes()).unwrap();
        let kid = key.public().thumbprint();
        let mut jwk = String::new();
        key.public().write_jwk(&mut jwk, Algorithm::Es256, &kid);
        let signer = Signer::new(&key, Algorithm::Es256, kid).unwrap();
        Self { name, signer, jwks: format!("{{\"keys\":[{jwk}]}}") }
    }

    fn url(&self) -> String {
        format!("https://{}.example", self.name)
    }

    fn assertion(&self, audience: &IssuerUrl, jti: &str) -> String {
        let now = SystemClock.wall().as_secs();
        let claims = json!({
            "iss": self.url(), "sub": "job-7", "aud": audience.as_str(), "iat": now, "exp": now + 120, "jti": jti
        });
        self.signer.sign_blocking(claims.to_string().as_bytes()).unwrap()
    }
}

/// What one replica has: its own verifiers, and its own way to the database.
struct Replica {
    proof: AssertionProof,
    way: Proxy,
}

impl Replica {
    fn of(scene: &Scene, issuers: &[&Signs]) -> Self {
        let way = Proxy::start(database_address(&scene.database));
        let mut options =
            DatabaseOptions::new(DatabaseUrl::parse(&scene.database.url_at(way.address())).unwrap());
        options.connect_timeout = Duration::from_secs(2);
        let guard = Arc::new(UsedOnce::new(Database::new(options).unwrap()));
        let issuers = issuers.iter().map(|one| {
            AssertionIssuer::new(one.name, one.url()).jwks(one.jwks.clone()).algorithms([Algorithm::Es256])
        });
        let proof = AssertionProof::new(issuers.collect(), &scene.issuer, guard).unwrap();
        Self { proof, way }
    }

    async fn judge(&self, assertion: &str) -> &'static str {
        self.proof.verify(assertion).await.map_or_else(|error| error.reason(), |_| "ok")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_assertion_shown_to_all_replicas_at_once_is_taken_by_one() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let (ci, batch) = (Signs::new("ci", ES256), Signs::new("batch", OTHER_ES256));
    let replicas = [(); 3].map(|()| Replica::of(&scene, &[&ci, &batch]));
    for turn in 0..30 {
        let jti = format!("j-{turn}");
        let mut shown = JoinSet::new();
        for replica in replicas.iter().chain(&replicas) {
            let (proof, assertion) = (replica.proof.clone(), ci.assertion(&scene.issuer, &jti));
            shown.spawn(async move {
                proof.verify(&assertion).await.map_or_else(|error| error.reason(), |_| "ok")
            });
        }
        let verdicts = shown.join_all().await;
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        assert_eq!((count("ok"), count("replayed")), (1, 5), "{verdicts:?}");
    }
    // In another's books it is another number.
    assert_eq!(replicas[0].judge(&batch.assertion(&scene.issuer, "j-0")).await, "ok");
    // A replica that starts later knows what was used before it.
    let later = Replica::of(&scene, &[&ci, &batch]);
    assert_eq!(later.judge(&ci.assertion(&scene.issuer, "j-0")).await, "replayed");
    assert_eq!(later.judge(&batch.assertion(&scene.issuer, "j-0")).await, "replayed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_without_the_database_takes_none_and_uses_none_up() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let ci = Signs::new("ci", ES256);
    let (one, other) = (Replica::of(&scene, &[&ci]), Replica::of(&scene, &[&ci]));
    assert_eq!(one.judge(&ci.assertion(&scene.issuer, "before")).await, "ok");
    one.way.refuse(true);
    one.way.cut();
    let assertion = ci.assertion(&scene.issuer, "j");
    let error = one.proof.verify(&assertion).await.unwrap_err();
    assert_eq!(error.reason(), "replay_guard");
    assert!(error.retry_after().is_some() && !error.to_string().contains("127.0.0.1"), "{error}");
    // What can be refused is refused without it.
    let foreign = Signs::new("ci", OTHER_ES256).assertion(&scene.issuer, "j");
    assert_eq!(one.judge(&foreign).await, "unknown_kid");
    // It is as good as before, at another replica or at the same one later.
    assert_eq!(other.judge(&assertion).await, "ok");
    one.way.refuse(false);
    assert_eq!(one.judge(&assertion).await, "replayed");
    assert_eq!(one.judge(&ci.assertion(&scene.issuer, "k")).await, "ok");
}

/// What a server is told of `ci`, and of who may have what by it.
fn configured(scene: &Scene, ci: &Signs, start: Start) -> Start {
    let keys = scene.path("ci.jwks.json");
    std::fs::write(&keys, &ci.jwks).unwrap();
    let mut start = start;
    start.more.push_str(&format!(
        "[[assertion_issuer]]\nname = \"ci\"\nissuer = {:?}\njwks_file = {keys:?}\nalgorithms = [\"ES256\"]\n\
         [[rule]]\nname = \"ci\"\nassertion_issuer = [\"ci\"]\nsub = \"ci:{{subject}}\"\naudiences = [\"test\"]\n",
        ci.url()
    ));
    start
}

/// Asks at `replica`'s token endpoint for a token for `test`.
async fn exchange(address: SocketAddr, assertion: &str) -> Answer {
    let form = format!("grant_type={JWT_BEARER}&audience=test&assertion={assertion}");
    http::post_form(address, "/token", &form).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_servers_that_are_sent_one_assertion_at_once_one_gives_a_token() {
    let Some(postgres) = postgres() else { return };
    let scene = Scene::on(postgres).await;
    let ci = Signs::new("ci", ES256);
    let one = scene.member("a", |start| configured(&scene, &ci, start)).await;
    let other = scene.member("b", |start| configured(&scene, &ci, start)).await;
    scene.forwarder.set_backends(vec![one.replica.documents, other.replica.documents]);
    let party = party(&scene.issuer, &other);
    for turn in 0..20 {
        let assertion = ci.assertion(&scene.issuer, &format!("j-{turn}"));
        let (documents, others) = (one.replica.documents, other.replica.documents);
        let answers =
            join_all([documents, others, documents, others].map(|at| exchange(at, &assertion))).await;
        let (good, bad): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!((good.len(), bad.len()), (1, 3), "{answers:?}");
        for answer in bad {
            assert_eq!(
                (answer.status.as_u16(), &answer.json()["error"]),
                (400, &json!("invalid_grant")),
                "{answer:?}"
            );
        }
        let token = good[0].json()["access_token"].as_str().unwrap().to_owned();
        let verified = party.verify(&token).await.unwrap();
        assert_eq!(verified.claims.subject(), "ci:job-7");
    }
    // Without the database the one neither takes an assertion nor uses it up; the documents are served all the same.
    one.cut_off();
    let assertion = ci.assertion(&scene.issuer, "cut");
    let answer = exchange(one.replica.documents, &assertion).await;
    assert_eq!(answer.status.as_u16(), 503, "{answer:?}");
    assert!(!answer.header("retry-after").is_empty());
    assert_eq!(one.jwks().await.status.as_u16(), 200);
    assert_eq!(exchange(other.replica.documents, &assertion).await.status.as_u16(), 200);
    one.proxy.refuse(false);
    assert_eq!(exchange(one.replica.documents, &assertion).await.status.as_u16(), 400);
    // One that starts later knows it too.
    let later = scene.member("c", |start| configured(&scene, &ci, start)).await;
    assert_eq!(exchange(later.replica.documents, &assertion).await.status.as_u16(), 400);
    let log = format!("{}{}", one.replica.log_text(), other.replica.log_text());
    assert!(log.contains("ci:job-7") && !log.contains(&assertion[..40]), "{log}");
}
