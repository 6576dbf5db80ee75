//! TLS of the direct session, judged as the pool's driver judges it.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::error::{DatabaseError, DatabaseErrorKind};
use super::url::{DatabaseUrl, TlsMode};

/// What the server's certificate is held against: the system's authorities and those of `sslrootcert`.
///
/// # Errors
/// `Configuration` if the file cannot be read or holds no certificate.
pub(super) fn client_config(url: &DatabaseUrl) -> Result<ClientConfig, DatabaseError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = Arc::new(roots(url.root_certificate.as_deref())?);
    let broken = |error: &dyn std::fmt::Display| {
        DatabaseError::new(
            DatabaseErrorKind::Configuration,
            format!("TLS to the database cannot be set up: {error}"),
        )
    };
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| broken(&error))?;
    if url.tls == TlsMode::VerifyFull {
        return Ok(versions.with_root_certificates(roots).with_no_client_auth());
    }
    let inner = WebPkiServerVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|error| broken(&error))?;
    let verifier = Arc::new(AnyName { inner });
    Ok(versions.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, DatabaseError> {
    let mut store = RootCertStore::empty();
    // One that cannot be read is one that is not trusted.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let Some(file) = file else { return Ok(store) };
    let broken = |what: String| {
        let message = format!("sslrootcert {}: {what}", file.display());
        DatabaseError::new(DatabaseErrorKind::Configuration, message)
    };
    let bytes = std::fs::read(file).map_err(|error| broken(error.to_string()))?;
    let before = store.len();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| broken(format!("no certificate in PEM: {error}")))?;
        store.add(certificate).map_err(|error| broken(error.to_string()))?;
    }
    if store.len() == before {
        return Err(broken("holds no certificate in PEM".to_owned()));
    }
    Ok(store)
}

/// `verify-ca`: some hosted databases show certificates without a name.
#[derive(Debug)]
struct AnyName {
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verdict {
            // The name is looked at last: all else has been found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
