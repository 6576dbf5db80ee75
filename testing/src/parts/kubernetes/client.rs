//! Requests to the API server: HTTP/1.1 over TLS, one a connection.
//!
//! They block, as everything of the parts does, and may be made inside a runtime: each runs on a thread and in a runtime
//! of its own.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, WARNING};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::thread::on_a_thread;
use super::certificates::Credentials;

/// Longer than any answer takes on a busy machine; a server that hangs is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks one server.
#[derive(Clone, Debug)]
pub(super) struct Client {
    address: SocketAddr,
    admin: Arc<ClientConfig>,
    anybody: Arc<ClientConfig>,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) method: &'a str,
    /// With its query.
    pub(super) path: &'a str,
    pub(super) media_type: &'a str,
    pub(super) body: &'a str,
    /// Whose request it is.
    pub(super) by: By<'a>,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum By<'a> {
    Admin,
    Token(&'a str),
    Nobody,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) warnings: Vec<String>,
    /// JSON; a text where it is none.
    pub(super) body: Value,
}

impl Client {
    pub(super) fn new(address: SocketAddr, credentials: &Credentials) -> Self {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(credentials.ca.as_bytes()).expect("PEM of the authority");
        roots.add(ca).expect("an authority's certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("the provider has the usual versions").with_root_certificates(roots);
        let chain =
            CertificateDer::from_pem_slice(credentials.admin.chain.as_bytes()).expect("PEM of the admin");
        let key =
            PrivateKeyDer::from_pem_slice(credentials.admin.key.as_bytes()).expect("PEM of the admin's key");
        let admin =
            builder.clone().with_client_auth_cert(vec![chain], key).expect("the key of the certificate");
        Self { address, admin: Arc::new(admin), anybody: Arc::new(builder.with_no_client_auth()) }
    }

    /// # Errors
    /// Why there was no answer, whatever its status would have been.
    pub(super) fn ask(&self, question: Question<'_>) -> Result<Answer, String> {
        let answer = async {
            let timely = tokio::time::timeout(PATIENCE, self.exchange(question)).await;
            timely.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs()).into()))
        };
        let answer = on_a_thread(answer);
        answer.map_err(|error| format!("{} {}: {error}", question.method, question.path))
    }

    async fn exchange(&self, question: Question<'_>) -> Result<Answer, Box<dyn Error + Send + Sync>> {
        let mut request = Request::builder().method(question.method).uri(question.path);
        request = request.header(HOST, self.address.to_string());
        if !question.media_type.is_empty() {
            request = request.header(CONTENT_TYPE, question.media_type);
        }
        if let By::Token(token) = question.by {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::<Bytes>::from(question.body.to_owned()))?;

        let config = if matches!(question.by, By::Admin) { &self.admin } else { &self.anybody };
        let Connected { mut sender, connection } = self.connect_by(config).await?;
        let exchange = async move {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            let warnings = head.headers.get_all(WARNING).iter();
            let warnings =
                warnings.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned()).collect();
            let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
            let body = serde_json::from_slice(&body).unwrap_or_else(|_| text());
            Ok(Answer { status: head.status.as_u16(), warnings, body })
        };
        // With the answer goes the sender, and with that the connection; how it ends after that is of no interest.
        futures_util::future::join(exchange, connection).await.0
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A connection of nobody's: who asks stands in each request.
    pub(super) async fn connect<B>(&self) -> Result<Connected<B>, Box<dyn Error + Send + Sync>>
    where
        B: hyper::body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.connect_by(&self.anybody).await
    }

    async fn connect_by<B>(
        &self,
        config: &Arc<ClientConfig>,
    ) -> Result<Connected<B>, Box<dyn Error + Send + Sync>>
    where
        B: hyper::body::Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let tcp = TcpStream::connect(self.address).await?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let tls = TlsConnector::from(Arc::clone(config)).connect(name, tcp).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        Ok(Connected { sender, connection })
    }
}

/// A connection, which whoever has it must also drive.
#[derive(Debug)]
pub(super) struct Connected<B: hyper::body::Body + 'static> {
    pub(super) sender: http1::SendRequest<B>,
    pub(super) connection: http1::Connection<TokioIo<TlsStream<TcpStream>>, B>,
}
