//! Full TLS handshakes, one after the other on several connections, each with one GET.
//!
//! A client of our own: it never resumes a session, offers exactly one version, group and cipher suite, so that both
//! servers do the same work, and sees from each handshake that it was a full one. It also needs less time for one than
//! wrk, which on two cores would be the bottleneck.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::wrk::Load;
use crate::{median, now};

/// The client, ready to load a server.
pub struct Handshakes {
    connector: TlsConnector,
    runtime: Runtime,
}

impl std::fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handshakes")
    }
}

/// What a connection came to: the same for every contender, or the comparison means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Such as `TLSv1_3`.
    pub version: String,
    /// Such as `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// Such as `X25519`.
    pub group: String,
}

impl std::fmt::Display for Negotiated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}, {}", self.version, self.suite, self.group)
    }
}

impl Handshakes {
    /// A client that trusts the certificate `pem` and offers TLS 1.3, X25519 and AES-256-GCM alone.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(pem: &[u8]) -> Self {
        let provider = CryptoProvider {
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384],
            kx_groups: vec![aws_lc_rs::kx_group::X25519],
            ..aws_lc_rs::default_provider()
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem).expect("a certificate")).expect("a trust anchor");
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { connector: TlsConnector::from(Arc::new(config)), runtime }
    }

    /// What the server at `address` agrees to.
    ///
    /// # Panics
    /// If there is no handshake.
    pub fn negotiated(&self, address: SocketAddr) -> Negotiated {
        self.runtime.block_on(async {
            let stream = self.connect(address).await;
            let (_, session) = stream.get_ref();
            Negotiated {
                version: format!("{:?}", session.protocol_version().expect("done")),
                suite: format!("{:?}", session.negotiated_cipher_suite().expect("done").suite()),
                group: format!("{:?}", session.negotiated_key_exchange_group().expect("done").name()),
            }
        })
    }

    /// Connects, GETs `path` and closes, on each of `connections` at a time, for about `time`.
    ///
    /// # Panics
    /// If a handshake was not full, or an answer no 200.
    pub fn load(&self, address: SocketAddr, path: &str, connections: usize, time: Duration) -> Load {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let begun = now();
        let one_after_the_other = || async {
            let mut spans_us = Vec::new();
            while begun.elapsed() < time {
                let started = now();
                self.exchange(address, request.as_bytes()).await;
                spans_us.push(started.elapsed().as_secs_f64() * 1e6);
            }
            spans_us
        };
        let all = futures_util::future::join_all((0..connections).map(|_| one_after_the_other()));
        let mut spans_us: Vec<f64> = self.runtime.block_on(all).concat();
        let seconds = begun.elapsed().as_secs_f64();
        spans_us.sort_by(f64::total_cmp);
        let p99_us = spans_us[spans_us.len() * 99 / 100];
        Load { requests: spans_us.len() as u64, seconds, p50_us: median(spans_us), p99_us }
    }

    async fn exchange(&self, address: SocketAddr, request: &[u8]) {
        let mut stream = self.connect(address).await;
        stream.write_all(request).await.expect("a request can be sent");
        stream.flush().await.expect("a request can be sent");
        let mut answer = Vec::with_capacity(4096);
        // A server that closes without a TLS goodbye has said everything already.
        let ended = stream.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{ended:?}: {}", String::from_utf8_lossy(&answer));
    }

    async fn connect(&self, address: SocketAddr) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(address).await.unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_nodelay(true).expect("a socket");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream =
            self.connector.connect(name, stream).await.unwrap_or_else(|error| panic!("{address}: {error}"));
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
        stream
    }
}
