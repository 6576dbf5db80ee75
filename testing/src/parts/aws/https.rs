//! What AWS fetches from an issuer: JSON over TLS, judged by the authorities that it trusts.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

/// AWS gives an issuer five seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches `url`; no redirect is followed.
///
/// # Errors
/// Why there is no JSON.
pub(super) async fn fetch(url: &str, ca: &str) -> Result<Value, String> {
    let answer = tokio::time::timeout(PATIENCE, exchange(url, ca)).await;
    let answer = answer.unwrap_or_else(|_| Err("no answer in time".into()));
    answer.map_err(|error| format!("{url}: {error}"))
}

async fn exchange(url: &str, ca: &str) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
    const LARGEST: usize = 1 << 20;
    let url = Url::parse(url)?;
    if url.scheme() != "https" {
        return Err("it is not https".into());
    }
    let host = url.host_str().ok_or("it names no host")?;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().ok_or("it names no port")?;
    let tcp = TcpStream::connect((name, port)).await?;
    let connector = TlsConnector::from(Arc::new(trusting(ca)?));
    let tls = connector.connect(ServerName::try_from(name.to_owned())?, tcp).await?;
    let request =
        Request::get(url.path()).header(HOST, format!("{host}:{port}")).body(Empty::<Bytes>::new())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
    let exchange = async move {
        let answer = sender.send_request(request).await?;
        if answer.status() != 200 {
            return Err(format!("it answers {}", answer.status()).into());
        }
        let body = Limited::new(answer.into_body(), LARGEST).collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body)?)
    };
    futures_util::future::join(exchange, connection).await.0
}

fn trusting(ca: &str) -> Result<ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
