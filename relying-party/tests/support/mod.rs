//! A real issuer over HTTP or HTTPS on a free port, whose answers the test writes, and the tokens of the vectors.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(dead_code, reason = "each test file uses its part")]

pub(crate) mod proxy;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response, header};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use oneseal_coordination::UnixTime;
use oneseal_keystore::IssuerUrl;
use oneseal_relying_party::{Builder, RelyingParty};
use oneseal_testing::FixedClock;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What the vectors' tokens are about.
pub(crate) const ISSUER: &str = "https://issuer.example/tenant";
pub(crate) const AUDIENCE: &str = "api://payments";
pub(crate) const CLOCK: UnixTime = UnixTime(1_700_000_000);
pub(crate) const DISCOVERY: &str = "/tenant/.well-known/openid-configuration";
pub(crate) const JWKS: &str = "/tenant/jwks";

/// What the issuer answers on one path.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// This status, these header fields, this body.
    Whole { status: u16, fields: Vec<(&'static str, String)>, body: Vec<u8> },
    /// Half of the body that was announced, then the connection is closed.
    Broken(Vec<u8>),
    /// A 200 whose body begins and never goes on.
    Slow,
    /// A body of this length, in chunks, its length not announced.
    Endless,
    /// Nothing until [`FakeIssuer::release`], then a 200 with this body.
    Held(Vec<u8>),
}

impl Answer {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Whole {
            status: 200,
            fields: vec![("content-type", "application/json".to_owned())],
            body: body.into(),
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Whole { status, fields: Vec::new(), body: b"error".to_vec() }
    }

    pub(crate) fn with_field(self, name: &'static str, value: &str) -> Self {
        match self {
            Self::Whole { status, mut fields, body } => {
                fields.push((name, value.to_owned()));
                Self::Whole { status, fields, body }
            }
            other => other,
        }
    }
}

/// One request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) host: String,
}

/// Ends with its value.
pub(crate) struct FakeIssuer {
    address: SocketAddr,
    certificate: Option<String>,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    answers: Mutex<HashMap<String, Answer>>,
    seen: watch::Sender<Vec<Seen>>,
    released: watch::Sender<bool>,
}

impl FakeIssuer {
    /// `https://issuer.example/tenant` with a good discovery document and this key set.
    pub(crate) async fn https(jwks: Answer) -> Self {
        Self::https_as(rcgen::IsCa::NoCa, jwks).await
    }

    /// The same with a self-signed certificate that is, or is not, an authority's.
    pub(crate) async fn https_as(is_ca: rcgen::IsCa, jwks: Answer) -> Self {
        let signing_key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["issuer.example".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let cert = params.self_signed(&signing_key).unwrap();
        let key = rcgen::CertifiedKey { cert, signing_key };
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private)
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        let issuer = Self::start(Some(tls), Some(key.cert.pem())).await;
        issuer.answer(DISCOVERY, Answer::ok(discovery(ISSUER, "https://issuer.example/tenant/jwks")));
        issuer.answer(JWKS, jwks);
        issuer
    }

    /// The same with the keys of the token vectors.
    pub(crate) async fn good() -> Self {
        Self::https(Answer::ok(vectors()["jwks"].to_string())).await
    }

    /// Plain HTTP on loopback; answers 404 until told otherwise.
    pub(crate) async fn http() -> Self {
        Self::start(None, None).await
    }

    async fn start(tls: Option<TlsAcceptor>, certificate: Option<String>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answers: Mutex::default(),
            seen: watch::Sender::new(Vec::new()),
            released: watch::Sender::new(false),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, tls, Arc::clone(&shared)));
        Self { address, certificate, shared, _tasks: tasks }
    }

    pub(crate) fn certificate(&self) -> &str {
        self.certificate.as_deref().unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on.
    pub(crate) fn answer(&self, path: &str, answer: Answer) {
        self.shared.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// Lets everything go that is held.
    pub(crate) fn release(&self) {
        self.shared.released.send_replace(true);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.borrow().clone()
    }

    /// How many requests came for `path`.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.seen().iter().filter(|seen| seen.path == path).count()
    }

    /// Waits until `n` requests have come for `path`.
    pub(crate) async fn until_seen(&self, path: &str, n: usize) {
        let mut seen = self.shared.seen.subscribe();
        let enough = |seen: &Vec<Seen>| seen.iter().filter(|one| one.path == path).count() >= n;
        seen.wait_for(enough).await.unwrap();
    }

    /// A relying party of the vectors' issuer that reaches this one.
    pub(crate) fn relying_party(&self, clock: &Arc<FixedClock>) -> Builder {
        RelyingParty::builder(issuer_url(ISSUER))
            .audience(AUDIENCE)
            .connect_to(self.address)
            .add_root_certificate(self.certificate.clone().unwrap())
            .clock(Arc::clone(clock) as Arc<_>)
    }
}

pub(crate) fn issuer_url(text: &str) -> IssuerUrl {
    IssuerUrl::parse(text, "issuer").unwrap()
}

pub(crate) fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::at(CLOCK))
}

pub(crate) fn discovery(issuer: &str, jwks_uri: &str) -> String {
    serde_json::json!({ "issuer": issuer, "jwks_uri": jwks_uri }).to_string()
}

/// `tokens.json`.
pub(crate) fn vectors() -> &'static Value {
    static VECTORS: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(include_str!("../vectors/tokens.json")).unwrap());
    &VECTORS
}

/// The token of the vector of this name.
pub(crate) fn token(id: &str) -> String {
    let case = vectors()["cases"].as_array().unwrap().iter().find(|case| case["id"] == id);
    case.unwrap_or_else(|| panic!("no vector {id}"))["token"].as_str().unwrap().to_owned()
}

/// A key set of those keys of the token vectors that have these kids.
pub(crate) fn jwks_of(kids: &[&str]) -> String {
    let keys: Vec<&Value> = vectors()["jwks"]["keys"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| kids.contains(&key["kid"].as_str().unwrap()))
        .collect();
    serde_json::json!({ "keys": keys }).to_string()
}

/// A good vector's payload under another header, so that its signature is worthless.
pub(crate) fn with_header(header: &Value) -> String {
    let good = token("ok-es256");
    let mut parts = good.split('.').skip(1);
    let (payload, signature) = (parts.next().unwrap(), parts.next().unwrap());
    format!("{}.{payload}.{signature}", URL_SAFE_NO_PAD.encode(header.to_string()))
}

/// A good vector's payload under a header that names this kid.
pub(crate) fn with_kid(kid: &str) -> String {
    with_header(&serde_json::json!({ "alg": "ES256", "kid": kid, "typ": "JWT" }))
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(connection(stream, tls.clone(), Arc::clone(&shared)));
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let service = service_fn(move |request| respond(request, Arc::clone(&shared)));
    let http = hyper::server::conn::http1::Builder::new();
    // A client that hangs up, or a handshake that it refuses, is part of the tests.
    match tls {
        None => drop(http.serve_connection(TokioIo::new(stream), service).await),
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                drop(http.serve_connection(TokioIo::new(stream), service).await);
            }
        }
    }
}

async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Scripted>, Infallible> {
    let path = request.uri().path().to_owned();
    let host = request.headers()[header::HOST].to_str().unwrap().to_owned();
    let answer = shared.answers.lock().unwrap().get(&path).cloned().unwrap_or_else(|| Answer::status(404));
    shared.seen.send_modify(|seen| seen.push(Seen { path, host }));
    let response = Response::builder();
    Ok(match answer {
        Answer::Whole { status, fields, body } => {
            let response =
                fields.iter().fold(response.status(status), |r, (name, value)| r.header(*name, value));
            response.body(Scripted::Once(Some(body))).unwrap()
        }
        Answer::Broken(body) => {
            let response = response.header(header::CONTENT_LENGTH, body.len() * 2);
            response.body(Scripted::Broken(Some(body))).unwrap()
        }
        Answer::Slow => response.body(Scripted::Slow(Some(b"{".to_vec()))).unwrap(),
        Answer::Endless => response.body(Scripted::Endless).unwrap(),
        Answer::Held(body) => {
            let _ = shared.released.subscribe().wait_for(|released| *released).await;
            response.body(Scripted::Once(Some(body))).unwrap()
        }
    })
}

/// The bodies of [`Answer`].
enum Scripted {
    Once(Option<Vec<u8>>),
    Broken(Option<Vec<u8>>),
    Slow(Option<Vec<u8>>),
    Endless,
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = |bytes: Vec<u8>| Poll::Ready(Some(Ok(Frame::data(Bytes::from(bytes)))));
        match &mut *self {
            Self::Once(body) => body.take().map_or(Poll::Ready(None), frame),
            Self::Broken(body) => match body.take() {
                Some(body) => frame(body),
                None => Poll::Ready(Some(Err(std::io::Error::other("scripted")))),
            },
            Self::Slow(body) => body.take().map_or(Poll::Pending, frame),
            Self::Endless => frame(vec![b' '; 8192]),
        }
    }
}
