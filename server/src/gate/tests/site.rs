//! An issuer's URL whose answers a test writes, byte for byte, and keys to serve there.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use oneseal::{Algorithm, InlineProvider, Issuer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(super) const DISCOVERY: &str = "/.well-known/openid-configuration";
pub(super) const JWKS: &str = "/.well-known/jwks.json";

/// Serves until it is dropped. What has no answer is held open without one.
pub(super) struct Site {
    address: SocketAddr,
    answers: Arc<Mutex<HashMap<String, String>>>,
    seen: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Site {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (answers, seen): (Arc<Mutex<HashMap<_, _>>>, Arc<Mutex<Vec<_>>>) = Default::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::clone(&answers), Arc::clone(&seen)));
        Self { address, answers, seen, _tasks: tasks }
    }

    /// That serves the documents of this issuer, as a replica does.
    pub(super) async fn of(pem: &str) -> (Self, Issuer) {
        let site = Self::start().await;
        let issuer = issuer(&site.url(), pem).await;
        site.serve_keys(&issuer);
        (site, issuer)
    }

    /// Serves discovery, and the key set of `issuer`, whoever that is.
    pub(super) fn serve_keys(&self, issuer: &Issuer) {
        self.answer(DISCOVERY, &answer("", &self.discovery(&self.url())));
        let set = String::from_utf8(issuer.snapshot().jwks().to_vec()).expect("JSON");
        self.answer(JWKS, &answer("", &set));
    }

    pub(super) fn discovery(&self, issuer: &str) -> String {
        let jwks_uri = format!("{}{JWKS}", self.url());
        serde_json::json!({
            "issuer": issuer,
            "jwks_uri": jwks_uri,
            "id_token_signing_alg_values_supported": ["ES256"],
        })
        .to_string()
    }

    /// From now on: GET is answered so, and HEAD with the same up to the body.
    pub(super) fn answer(&self, path: &str, whole: &str) {
        self.answers.lock().expect("whole").insert(path.to_owned(), whole.to_owned());
    }

    /// No longer.
    pub(super) fn forget(&self, path: &str) {
        self.answers.lock().expect("whole").remove(path);
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The request lines so far.
    pub(super) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("whole").clone()
    }
}

/// A 200 as a replica gives it, with these header lines in place of its own, each ended by CRLF.
pub(super) fn answer(fields: &str, body: &str) -> String {
    let fields = if fields.is_empty() { GOOD_FIELDS } else { fields };
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

const GOOD_FIELDS: &str = "Content-Type: application/json\r\nCache-Control: public, max-age=300\r\n";

/// An issuer's URL at which nobody listens.
pub(super) async fn closed() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    format!("http://{}", listener.local_addr().expect("bound"))
}

/// A new EC key as PEM.
pub(super) fn key() -> String {
    rcgen::KeyPair::generate().expect("a key").serialize_pem()
}

/// An issuer with this key as its only one.
pub(super) async fn issuer(url: &str, pem: &str) -> Issuer {
    let builder = Issuer::builder(url, InlineProvider::new(pem.as_bytes().to_vec()));
    builder.algorithms([Algorithm::Es256]).build().await.expect("a good key").0
}

async fn serve(
    listener: TcpListener,
    answers: Arc<Mutex<HashMap<String, String>>>,
    seen: Arc<Mutex<Vec<String>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(exchange(stream, Arc::clone(&answers), Arc::clone(&seen)));
    }
}

async fn exchange(
    mut stream: TcpStream,
    answers: Arc<Mutex<HashMap<String, String>>>,
    seen: Arc<Mutex<Vec<String>>>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return,
        }
    }
    let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    seen.lock().expect("whole").push(format!("{method} {path}"));
    let by_method = format!("{method} {path}");
    let answer = {
        let answers = answers.lock().expect("whole");
        answers.get(&by_method).or_else(|| answers.get(path)).cloned()
    };
    let Some(answer) = answer else {
        return std::future::pending().await;
    };
    let end = answer.find("\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let sent = if method == "HEAD" { &answer[..end] } else { &answer };
    // The client may have heard enough.
    drop(stream.write_all(sent.as_bytes()).await);
}
