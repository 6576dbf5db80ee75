//! Opens the connection that TLS is put over: to the URL's host, to one fixed address, or through a proxy.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::{CertificateError, InvalidMessage, OtherError};
use tokio::net::TcpStream;
use tower::{Service, ServiceExt};

use crate::trust::SetupError;

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

/// Speaks TCP, and CONNECT to a proxy; TLS is put over it by its owner.
#[derive(Clone)]
pub(crate) struct Dialer {
    by_name: HttpConnector,
    way: Way,
}

#[derive(Clone)]
enum Way {
    ByName,
    Fixed(SocketAddr),
    /// For https alone: plain http is for loopback hosts, which no proxy is needed for.
    Through(Tunnel<HttpConnector>),
}

impl Dialer {
    /// # Errors
    /// [`SetupError::Proxy`], [`SetupError::ProxyAndAddress`].
    pub(crate) fn new(connect_to: Option<ConnectTo>, proxy: Option<&str>) -> Result<Self, SetupError> {
        let mut by_name = HttpConnector::new();
        by_name.enforce_http(false);
        let way = match (connect_to, proxy) {
            (None, None) => Way::ByName,
            (Some(to), None) => Way::Fixed(to.address()),
            (None, Some(proxy)) => Way::Through(Tunnel::new(parse_proxy(proxy)?, by_name.clone())),
            (Some(_), Some(_)) => return Err(SetupError::ProxyAndAddress),
        };
        Ok(Self { by_name, way })
    }
}

/// The proxy is at fault, and not who was to be reached through it.
#[derive(Debug)]
pub(crate) struct ProxyFault(pub(crate) Box<dyn StdError + Send + Sync>);

impl fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the proxy opens no connection")
    }
}

impl StdError for ProxyFault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0)
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
        match &self.way {
            Way::Fixed(address) => {
                let address = *address;
                Box::pin(async move { Ok(TokioIo::new(TcpStream::connect(address).await?)) })
            }
            Way::Through(tunnel) if uri.scheme() == Some(&Scheme::HTTPS) => {
                let dialling = tunnel.clone().oneshot(uri);
                Box::pin(async move { dialling.await.map_err(|error| ProxyFault(error.into()).into()) })
            }
            Way::ByName | Way::Through(_) => {
                let dialling = self.by_name.call(uri);
                Box::pin(async move { dialling.await.map_err(Into::into) })
            }
        }
    }
}

/// A proxy is spoken to in plain HTTP, and sees nothing of what goes through it but host and port.
fn parse_proxy(text: &str) -> Result<Uri, SetupError> {
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['#', '@', '?']) {
        return Err(SetupError::Proxy);
    }
    let uri: Uri = text.parse().map_err(|_| SetupError::Proxy)?;
    let is_plain = uri.scheme() == Some(&Scheme::HTTP) && uri.path() == "/";
    let host = uri.host().filter(|host| !host.is_empty()).ok_or(SetupError::Proxy)?;
    // A port beyond 65535 parses, and would then be taken for none.
    let has_port = uri.port_u16().is_some() || uri.authority().is_some_and(|authority| authority == host);
    if is_plain && has_port { Ok(uri) } else { Err(SetupError::Proxy) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_host_and_port_over_plain_http() {
        for proxy in
            ["http://proxy.example:3128", "http://proxy.example", "http://10.0.0.1:8080/", "http://[::1]:1"]
        {
            assert!(Dialer::new(None, Some(proxy)).is_ok(), "{proxy}");
        }
        for proxy in [
            "",
            "proxy.example:3128",
            "https://p:1",
            "socks5://p:1",
            "http://u:canary@p:1",
            "http://p:1/x",
            "http://p:1?x",
            "http://",
            "http://p:99999",
        ] {
            let refused = Dialer::new(None, Some(proxy)).err().unwrap_or_else(|| panic!("{proxy}"));
            assert!(matches!(refused, SetupError::Proxy), "{proxy}");
            assert!(!format!("{refused} {refused:?}").contains("canary"));
        }
        let address = Some(ConnectTo::AsUrl(([127, 0, 0, 1], 1).into()));
        assert!(matches!(Dialer::new(address, Some("http://p:1")), Err(SetupError::ProxyAndAddress)));
    }
}
