//! `POST ISS/token` as its clients see it, with another issuer's tokens as proof.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use oneseal::proofs::{Grant, Proof, ProofError};
use oneseal::token::{Rate, TokenLimits};
use oneseal::{Algorithm, Builder, Issuer, MintRequest, Subject, VerifiedWorkload};
use serde_json::{Map, Value};
use tower::ServiceExt;

use crate::support::{ES256, ES256_OTHER, HOUR, NOW, Running, URL, audience, bare, metric, segment, start};

const NEIGHBOUR: &str = "https://platform.example";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TYPE_JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const TYPE_ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const TARGET: &str = "payments";

/// An embedder's own proof: the tokens of an issuer next door.
#[derive(Debug)]
struct Neighbour(Issuer, Grant);

impl Proof for Neighbour {
    fn name(&self) -> &'static str {
        "neighbour"
    }

    fn grant(&self) -> Grant {
        self.1
    }

    fn is_for(&self, issuer: &str) -> bool {
        issuer == self.0.url().as_str()
    }

    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<VerifiedWorkload, ProofError>> {
        Box::pin(async move {
            let claims = self
                .0
                .verify(token, &audience(URL))
                .map_err(|error| ProofError::invalid("neighbour", error.to_string()))?;
            match claims.subject() {
                "unknown" => Err(ProofError::unavailable(
                    "neighbour_down",
                    "the neighbour does not say whether it is there",
                    Duration::from_millis(2500),
                )),
                "stalled" => std::future::pending().await,
                name => Ok(VerifiedWorkload::vouched_by_embedder(Subject::parse(name).expect("good"))),
            }
        })
    }
}

/// The issuer under test, the one next door, and what the latter's workloads have.
struct World {
    running: Running,
    neighbour: Running,
}

impl World {
    async fn new(adjust: impl FnOnce(Builder) -> Builder) -> Self {
        let neighbour = start(NEIGHBOUR, bare(&[("current.pem", ES256_OTHER)]), |builder| {
            builder.algorithms([Algorithm::Es256]).allow(URL, HOUR).allow("else", HOUR)
        })
        .await;
        let [exchange, assertion] =
            [Grant::TokenExchange, Grant::JwtBearer].map(|grant| Neighbour(neighbour.issuer.clone(), grant));
        let running = start(URL, bare(&[("current.pem", ES256)]), |builder| {
            let builder = builder
                .algorithms([Algorithm::Es256])
                .allow(TARGET, HOUR)
                .allow("urn:payments", HOUR)
                .proof(exchange)
                .proof(assertion);
            adjust(builder)
        })
        .await;
        Self { running, neighbour }
    }

    async fn token_of(&self, name: &str) -> String {
        self.token_for(name, URL).await
    }

    async fn token_for(&self, name: &str, aud: &str) -> String {
        let workload = VerifiedWorkload::vouched_by_embedder(Subject::parse(name).expect("good"));
        let minted = self.neighbour.issuer.mint_with(&workload, MintRequest::new(audience(aud))).await;
        minted.expect("minted next door").token
    }

    async fn expired(&self) -> String {
        self.neighbour.clock.set_wall(NOW - 2 * HOUR);
        let token = self.token_of("pod").await;
        self.neighbour.clock.set_wall(NOW);
        token
    }

    /// Sends a form to the router, as an application has it.
    async fn post(&self, pairs: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.send(Method::POST, &[("content-type", FORM)], body).await
    }

    /// The exchange that works, with `others` behind.
    async fn exchange(&self, token: &str, others: &[(&str, &str)]) -> Answer {
        let mut pairs =
            vec![("grant_type", EXCHANGE), ("subject_token", token), ("subject_token_type", TYPE_JWT)];
        pairs.extend(others);
        self.post(&pairs).await
    }

    async fn send(&self, method: Method, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let mut request = Request::builder().method(method).uri("/token?grant_type=x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let router: axum::Router = self.running.issuer.router();
        let response =
            router.oneshot(request.body(body.into()).expect("a request")).await.expect("infallible");
        Answer::of(response).await
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

/// An answer that has been held against what every answer must have.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Map<String, Value>,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let answer = Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&body).expect("a JSON object"),
        };
        for (name, value) in [
            ("content-type", "application/json"),
            ("cache-control", "no-store"),
            ("pragma", "no-cache"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(answer.headers[name], value, "{answer:?}");
        }
        assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control")), "{answer:?}");
        if answer.status != 200 {
            assert!(answer.text("error_description").len() > 20, "{answer:?}");
        }
        answer
    }

    fn text(&self, name: &str) -> &str {
        self.body.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    fn refused(&self) -> (u16, &str) {
        (self.status, self.text("error"))
    }
}

#[tokio::test]
async fn every_case_gets_the_answer_that_it_wants() {
    let world = World::new(|builder| builder).await;
    let cases: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/token/token-exchange-forms.json"))
            .expect("JSON");
    let cases = cases["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 33);
    let (good, expired) = (world.token_of("pod").await, world.expired().await);
    for case in cases {
        let text = |name: &str| case[name].as_str().unwrap_or_default();
        let body = text("body").replace("$EXPIRED", &expired).replace("$T", &good).replace("$A", &good);
        let method = case["method"].as_str().unwrap_or("POST").parse().expect("a method");
        let mut headers = vec![("content-type", text("content_type"))];
        for (name, value) in case["headers"].as_object().into_iter().flatten() {
            headers.push((name, value.as_str().expect("text")));
        }
        let answer = world.send(method, &headers, body).await;
        let got =
            format!("{} {}", answer.status, answer.body.get("error").and_then(Value::as_str).unwrap_or(""));
        let expected = match (text("id"), text("expect")) {
            // Of two that are right, the one that is chosen here.
            ("json-body", "400 invalid_request (or 415)") => "400 invalid_request",
            ("audience-twice", "200 or 400 invalid_target") => "400 invalid_target",
            ("nul", "400 invalid_scope or invalid_request") => "400 invalid_request",
            ("array-syntax", "200 or 400, audience unset") => "400 invalid_request",
            ("get", "405 with Allow: POST") => "405 method_not_allowed",
            (_, expected) => expected,
        };
        assert_eq!(got.trim(), expected, "{}: {answer:?}", text("id"));
        assert_eq!(answer.headers.contains_key("allow"), answer.status == 405);
        let said = Value::Object(answer.body).to_string();
        assert!(answer.status == 200 || !said.contains(good.split('.').nth(1).expect("a payload")), "{said}");
    }
}

#[tokio::test]
async fn a_token_is_given_out_as_what_was_asked_for() {
    let world = World::new(|builder| builder).await;
    let token = world.token_of("pod").await;
    for (asked, issued) in
        [(None, TYPE_ID_TOKEN), (Some(TYPE_ID_TOKEN), TYPE_ID_TOKEN), (Some(TYPE_JWT), TYPE_JWT)]
    {
        let mut others = vec![("audience", TARGET), ("scope", "openid"), ("client_id", "anything")];
        others.extend(asked.map(|asked| ("requested_token_type", asked)));
        let answer = world.exchange(&token, &others).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body.keys().collect::<Vec<_>>().len(), 4);
        assert_eq!((answer.text("issued_token_type"), answer.text("token_type")), (issued, "N_A"));
        let claims =
            world.running.issuer.verify(answer.text("access_token"), &audience(TARGET)).expect("one of ours");
        assert_eq!(claims.subject(), "pod");
        let exp = segment(answer.text("access_token"), 1)["exp"].as_i64().expect("a number");
        assert_eq!(answer.body["expires_in"].as_i64(), Some(exp - NOW.as_secs()));
    }
    let answer =
        world.post(&[("grant_type", JWT_BEARER), ("assertion", &token), ("resource", "urn:payments")]).await;
    assert_eq!((answer.status, answer.text("token_type")), (200, "Bearer"), "{answer:?}");
    assert!(!answer.body.contains_key("issued_token_type"));
    world.running.issuer.verify(answer.text("access_token"), &audience("urn:payments")).expect("one of ours");
}

#[tokio::test]
async fn the_same_fault_has_the_error_of_its_grant() {
    let world = World::new(|builder| builder).await;
    let expired = world.expired().await;
    let tampered = format!("{}x", world.token_of("pod").await);
    let elsewhere = world.token_for("pod", "else").await;
    for token in [expired.as_str(), &tampered, &elsewhere, "x", "a.b.c", "..", &"a".repeat(20_000)] {
        let answer = world.exchange(token, &[("audience", TARGET)]).await;
        assert_eq!(answer.refused(), (400, "invalid_request"), "{answer:?}");
        let answer =
            world.post(&[("grant_type", JWT_BEARER), ("assertion", token), ("audience", TARGET)]).await;
        assert_eq!(answer.refused(), (400, "invalid_grant"), "{answer:?}");
    }
    let answer = world.post(&[("grant_type", JWT_BEARER), ("audience", TARGET)]).await;
    assert_eq!(answer.refused(), (400, "invalid_request"));
    assert!(answer.text("error_description").contains("assertion"));
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_named() {
    let world = World::new(|builder| builder.token_endpoint("https://token.example/t")).await;
    let token = world.token_of("pod").await;
    for (others, error, words) in [
        (&[] as &[_], "invalid_request", "audience is missing"),
        (&[("audience", "a"), ("resource", "urn:b")], "invalid_target", "one relying party"),
        (&[("audience", "a b")], "invalid_target", "audience: "),
        (&[("resource", "https://a#b")], "invalid_target", "fragment"),
        (&[("resource", "payments")], "invalid_target", "no absolute URI"),
        (&[("audience", "other")], "invalid_target", "lists this audience"),
        (&[("audience", URL)], "invalid_target", "this issuer itself"),
        (&[("audience", "https://oidc.example/token")], "invalid_target", "this issuer itself"),
        (&[("resource", "https://token.example/t")], "invalid_target", "this issuer itself"),
        (&[("audience", TARGET), ("scope", "openid email")], "invalid_scope", "openid"),
        (
            &[
                ("audience", TARGET),
                ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ],
            "invalid_request",
            "requested_token_type",
        ),
        (
            &[("audience", TARGET), ("actor_token", "x"), ("actor_token_type", TYPE_JWT)],
            "invalid_request",
            "delegation is not supported",
        ),
        (&[("audience", TARGET), ("actor_token", "x")], "invalid_request", "delegation is not supported"),
        (&[("audience", TARGET), ("client_secret", "x")], "invalid_client", "client_secret"),
        (&[("audience", TARGET), ("client_assertion", "x")], "invalid_client", "client_assertion"),
    ] {
        let answer = world.exchange(&token, others).await;
        assert_eq!(answer.refused(), (400, error), "{others:?}");
        let said = answer.text("error_description");
        assert!(said.contains(words), "{others:?}: {said}");
    }
    let same = [("audience", "urn:payments"), ("resource", "urn:payments"), ("audience", "urn:payments")];
    assert_eq!(world.exchange(&token, &same).await.status, 200, "one value, named three times");
    let answer = world.exchange(&format!("{token}\n"), &[("audience", TARGET)]).await;
    assert!(answer.text("error_description").contains("line break"), "{answer:?}");
    let own =
        world.running.issuer.mint(&crate::support::pod(), &audience(TARGET)).await.expect("minted").token;
    let answer = world.exchange(&own, &[("audience", TARGET)]).await;
    assert_eq!(answer.refused(), (400, "invalid_request"));
    assert!(answer.text("error_description").contains("this issuer's own"), "{answer:?}");
}

#[tokio::test]
async fn only_a_plain_form_by_post_is_read() {
    let world = World::new(|builder| builder).await;
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let request = Request::builder().method(method.clone()).uri("/token").body(Body::empty());
        let router: axum::Router = world.running.issuer.router();
        let response = router.oneshot(request.expect("a request")).await.expect("infallible");
        assert_eq!(response.status(), 405, "{method}");
        assert_eq!(response.headers()["allow"], "POST");
        assert!(!response.headers().contains_key("access-control-allow-origin"));
    }
    let send = async |headers: &[(&str, &str)], body: &str| {
        let answer = world.send(Method::POST, headers, body.to_owned()).await;
        (answer.status, answer.text("error").to_owned(), answer.headers)
    };
    let (status, error, headers) = send(&[("content-type", FORM), ("content-encoding", "gzip")], "a=b").await;
    assert_eq!(
        (status, error.as_str(), headers["accept-encoding"].as_bytes()),
        (415, "invalid_request", &b"identity"[..])
    );
    for headers in
        [&[] as &[_], &[("content-type", "text/plain")], &[("content-type", FORM), ("content-type", FORM)]]
    {
        assert_eq!(send(headers, "a=b").await.0, 400, "{headers:?}");
    }
    for (scheme, challenge) in
        [("Basic eDp5", "Basic realm=\"token\""), ("bearer x", "Bearer realm=\"token\"")]
    {
        let (status, error, headers) =
            send(&[("content-type", FORM), ("authorization", scheme)], "grant_type=x").await;
        assert_eq!((status, error.as_str()), (401, "invalid_client"));
        assert_eq!(headers["www-authenticate"], challenge);
    }
    let huge = format!("a={}", "x".repeat(64 * 1024));
    assert_eq!(send(&[("content-type", FORM)], &huge).await.0, 413);
    let unsized_body = Body::from_stream(futures_util::stream::iter(std::iter::repeat_n(
        Ok::<_, std::convert::Infallible>("x".repeat(1000)),
        100,
    )));
    let answer = world.send(Method::POST, &[("content-type", FORM)], unsized_body).await;
    assert_eq!(answer.status, 413, "told no length");
    let cut = Body::from_stream(futures_util::stream::iter([
        Ok("grant_type=x"),
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
    ]));
    let answer = world.send(Method::POST, &[("content-type", FORM)], cut).await;
    assert_eq!(answer.refused(), (400, "invalid_request"));
    let largest =
        format!("grant_type={EXCHANGE}&subject_token={}&x={}", "a".repeat(16 * 1024), "b".repeat(48_000));
    let answer = world.send(Method::POST, &[("content-type", FORM)], largest).await;
    assert!(answer.text("error_description").contains("subject_token_type"), "read whole: {answer:?}");
}

#[tokio::test]
async fn what_cannot_be_told_now_is_503_and_uses_nothing_up() {
    let world = World::new(|builder| builder).await;
    let unknown = world.token_of("unknown").await;
    for (grant, name) in [(EXCHANGE, "subject_token"), (JWT_BEARER, "assertion")] {
        let pairs =
            [("grant_type", grant), (name, &unknown), ("subject_token_type", TYPE_JWT), ("audience", TARGET)];
        let answer = world.post(&pairs).await;
        assert_eq!(answer.refused(), (503, "temporarily_unavailable"));
        assert_eq!(
            (&answer.headers["retry-after"], &answer.headers["connection"]),
            (&"3".parse().expect("a value"), &"close".parse().expect("a value"))
        );
    }
    let good = world.token_of("pod").await;
    world.running.clock.advance(2 * HOUR);
    let answer = world.exchange(&good, &[("audience", TARGET)]).await;
    assert_eq!(answer.refused(), (503, "temporarily_unavailable"), "stale, before the proof is judged");
    assert_eq!(
        (&answer.headers["retry-after"], &answer.headers["connection"]),
        (&"15".parse().expect("a value"), &"close".parse().expect("a value"))
    );
}

#[tokio::test(start_paused = true)]
async fn who_vouches_and_never_answers_is_waited_for_so_long() {
    let world = World::new(|builder| builder).await;
    let stalled = world.token_of("stalled").await;
    let asked =
        tokio::time::timeout(Duration::from_secs(16), world.exchange(&stalled, &[("audience", TARGET)]));
    assert_eq!(asked.await.expect("an answer").refused(), (503, "temporarily_unavailable"));
}

#[tokio::test]
async fn a_workload_that_asks_too_often_is_told_when_to_come_back() {
    let mut limits = TokenLimits::default();
    limits.subject = Rate::new(60, 3);
    let world = World::new(|builder| builder.token_limits(limits)).await;
    let (pod, other) = (world.token_of("pod").await, world.token_of("other").await);
    for _ in 0..3 {
        assert_eq!(world.exchange(&pod, &[("audience", TARGET)]).await.status, 200);
    }
    let answer = world.exchange(&pod, &[("audience", TARGET)]).await;
    assert_eq!(answer.refused(), (429, "too_many_requests"));
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(!answer.headers.contains_key("connection"), "another replica is not asked in its place");
    let denied = world.exchange(&other, &[("audience", "denied")]).await;
    assert_eq!(denied.refused(), (400, "invalid_target"), "another's budget is its own");
    let forged = format!("{pod}x");
    for _ in 0..5 {
        assert_eq!(world.exchange(&forged, &[("audience", TARGET)]).await.status, 400);
    }
    world.running.clock.advance(Duration::from_secs(1));
    assert_eq!(world.exchange(&pod, &[("audience", TARGET)]).await.status, 200, "forgeries took nothing");
}

#[tokio::test]
async fn requests_are_counted_by_grant_and_result() {
    let world = World::new(|builder| builder).await;
    let token = world.token_of("pod").await;
    world.exchange(&token, &[("audience", TARGET)]).await;
    world.exchange(&token, &[("audience", "denied")]).await;
    world.post(&[("grant_type", JWT_BEARER), ("assertion", "x"), ("audience", TARGET)]).await;
    world.post(&[("grant_type", "x")]).await;
    let issuer = &world.running.issuer;
    for (grant, result) in [
        ("token_exchange", "ok"),
        ("token_exchange", "invalid_target"),
        ("jwt_bearer", "invalid_grant"),
        ("none", "unsupported_grant_type"),
    ] {
        let sample = format!("oneseal_token_requests_total{{grant=\"{grant}\",result=\"{result}\"}}");
        assert_eq!(metric(issuer, &sample), "1", "{sample}");
    }
    let sample = "oneseal_token_request_duration_seconds_count{grant=\"token_exchange\"}";
    assert_eq!(metric(issuer, sample), "2");
}

#[tokio::test]
async fn discovery_names_the_endpoint_once_something_can_be_proved() {
    let discovery = |issuer: &Issuer| -> Value {
        let response = crate::support::get(issuer, "/.well-known/openid-configuration");
        serde_json::from_slice(response.body()).expect("JSON")
    };
    let without = crate::support::es256().await;
    assert!(discovery(&without.issuer).get("token_endpoint").is_none());
    let world = World::new(|builder| builder).await;
    let response = crate::support::get(&world.running.issuer, "/.well-known/openid-configuration");
    let written = std::str::from_utf8(response.body()).expect("text");
    crate::support::golden("discovery-token.json", written);
    let elsewhere = World::new(|builder| builder.token_endpoint("https://token.internal/t")).await;
    assert_eq!(discovery(&elsewhere.running.issuer)["token_endpoint"], "https://token.internal/t");
    let alone = Arc::new(world.neighbour.issuer.clone());
    let only = start(URL, bare(&[("current.pem", ES256)]), |builder| {
        builder.algorithms([Algorithm::Es256]).proof(Neighbour((*alone).clone(), Grant::JwtBearer))
    })
    .await;
    assert_eq!(discovery(&only.issuer)["grant_types_supported"], serde_json::json!([JWT_BEARER]));
    let request = Request::post("/else").body(String::new()).expect("a request");
    assert!(only.issuer.respond_token(request).await.is_none());
}
