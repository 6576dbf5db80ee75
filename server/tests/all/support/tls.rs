//! An authority that issues certificates for the test issuer, and a client that trusts it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use super::http::{Client, READ_TIMEOUT};

/// The host of the test issuer.
pub(crate) const HOST: &str = "oidc.example";

/// Issues certificates.
pub(crate) struct Authority {
    params: CertificateParams,
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

/// A certificate and its key, as they stand in files.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) private_key: String,
    pub(crate) der: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { params, key, certificate }
    }

    /// Its certificate, as clients take it from a file.
    pub(crate) fn pem(&self) -> String {
        let body = STANDARD.encode(&self.certificate);
        format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    }

    /// A good pair, each time another.
    pub(crate) fn issue(&self) -> Pair {
        self.issue_until(2999)
    }

    /// A pair that ends with this year's first day.
    pub(crate) fn issue_until(&self, year: i32) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key)).unwrap();
        Pair {
            certificate: certificate.pem(),
            private_key: key.serialize_pem(),
            der: certificate.der().clone(),
        }
    }

    /// A client that offers these protocols (RFC 7301).
    pub(crate) fn client(
        &self,
        alpn: &[&str],
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A connection whose handshake is done.
    pub(crate) fn connect(
        &self,
        address: SocketAddr,
    ) -> io::Result<Client<StreamOwned<ClientConnection, TcpStream>>> {
        connect(&self.client(&["http/1.1"], &[&TLS13, &TLS12]), address)
    }

    /// The certificate that a new connection is shown.
    pub(crate) fn shown(&self, address: SocketAddr) -> CertificateDer<'static> {
        let client = self.connect(address).unwrap();
        client.stream().conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

/// A connection whose handshake is done.
pub(crate) fn connect(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
) -> io::Result<Client<StreamOwned<ClientConnection, TcpStream>>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    let name = ServerName::try_from(HOST).unwrap();
    let mut connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(Client::over(StreamOwned::new(connection, stream)))
}
