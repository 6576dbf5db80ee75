//! Opens the TCP connection: to the URL's host, or to one fixed address.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::{CertificateError, InvalidMessage, OtherError};
use tokio::net::TcpStream;
use tower::Service;

/// Where every connection goes, whatever the URL's host. URL and `Host` stay those of the issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectTo {
    /// There, speaking what the URL says: for https TLS, with the URL's host as the name in the certificate.
    AsUrl(SocketAddr),
    /// There, speaking plain HTTP even for an https URL. Whoever answers is believed: for one's own replica behind
    /// its TLS proxy, on a network that is trusted.
    Plaintext(SocketAddr),
}

impl ConnectTo {
    fn address(self) -> SocketAddr {
        match self {
            Self::AsUrl(address) | Self::Plaintext(address) => address,
        }
    }
}

/// Speaks TCP alone; TLS is put over it by its owner.
#[derive(Clone)]
pub(crate) struct Dialer {
    by_name: HttpConnector,
    fixed: Option<SocketAddr>,
}

impl Dialer {
    pub(crate) fn new(connect_to: Option<ConnectTo>) -> Self {
        let mut by_name = HttpConnector::new();
        by_name.enforce_http(false);
        Self { by_name, fixed: connect_to.map(ConnectTo::address) }
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.by_name.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self.fixed {
            Some(address) => Box::pin(async move { Ok(TokioIo::new(TcpStream::connect(address).await?)) }),
            None => {
                let dialling = self.by_name.call(uri);
                Box::pin(async move { dialling.await.map_err(Into::into) })
            }
        }
    }
}

/// What a failed handshake failed for, where the cure is another one than for a connection that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsFault {
    /// The answer was no TLS at all.
    NotTls,
    /// The peer's certificate is not to be trusted.
    Certificate,
}

/// Whether the server shows its authority's own certificate, which vouches for others and not for a host (RFC 5280
/// section 4.2.1.9): what `openssl req -x509` makes unless told otherwise. The verifier's own words are a type's name.
pub(crate) fn is_authority_as_server(error: &(dyn StdError + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return error.get_ref().is_some_and(|held| is_authority_as_server(held));
    }
    match error.downcast_ref() {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(error)))) => {
            format!("{error:?}") == "CaUsedAsEndEntity"
        }
        _ => false,
    }
}

/// Which of them, if any. An I/O error hides what it holds from `source`.
pub(crate) fn tls_fault(error: &(dyn StdError + 'static)) -> Option<TlsFault> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return error.get_ref().and_then(|held| tls_fault(held));
    }
    match error.downcast_ref() {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => Some(TlsFault::NotTls),
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Some(TlsFault::Certificate)
        }
        _ => None,
    }
}
