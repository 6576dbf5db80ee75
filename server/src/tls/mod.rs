//! TLS of the documents listener: which certificate it shows, and how that one is renewed while the server runs.
//!
//! ```text
//! files ─read as one unit─► judge ─► Certificates ◄─── each handshake asks: which one now?
//!   ▲                         │ bad: the last good pair stays, one alarm line for each change
//!   └── follow: event, poll, SIGHUP
//! ```
//! rustls is given its cryptography by name; nothing here sets a default for the process.
//!
//! **Sessions are not resumed.** A ticket is of use only where it comes back to the same replica, and relying parties
//! read a document every few minutes from whichever answers; a proxy in front keeps its connections. Against that
//! stand keys in memory whose loss would open recorded sessions, and, measured, more processor time for a resumed
//! handshake (182 µs) than for a full one with an ECDSA P-256 certificate (165 µs).

mod certificate;
pub(crate) mod codes;
mod dev;
mod files;
mod follow;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;
use oneseal::{Clock, Findings, Issuer, IssuerUrl};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

use certificate::Certificate;
use files::Files;

pub(crate) use certificate::Facts;
pub(crate) use codes::CODES;
pub(crate) use dev::is_authority;
pub(crate) use follow::Follower;

use crate::config::{self, TlsSource};

/// TLS as the gate has let it pass.
#[derive(Debug)]
pub(crate) struct Tls {
    /// What handshakes are made with.
    pub(crate) server: Arc<ServerConfig>,
    /// The certificate in use.
    pub(crate) certificates: Arc<Certificates>,
    /// The certificate that vouches for it, as PEM, if it was made at this start.
    pub(crate) development_ca: Option<String>,
    files: Option<Files>,
}

impl Tls {
    /// Reads and judges what `[tls]` names, or makes what `--dev-tls` asks for. `None` is plain HTTP.
    ///
    /// # Errors
    /// Never: what is wrong is in the findings, and with an error among them there is no TLS.
    ///
    /// # Cancel safety
    /// Changes nothing outside itself.
    pub(crate) async fn open(
        tls: &config::Tls,
        issuer: &IssuerUrl,
        clock: &dyn Clock,
    ) -> (Option<Self>, Findings) {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut findings = Findings::new();
        let (certificate, files, development_ca) = match &tls.source {
            TlsSource::Off => return (None, findings),
            // Refused with the configuration: there is no certificate of which anything could be said.
            TlsSource::Development if !issuer.is_loopback() => return (None, findings),
            TlsSource::Files { certificate, private_key } => {
                let files = Files { certificate: certificate.clone(), private_key: private_key.clone() };
                let judged = match files.read().await {
                    Ok(content) => certificate::judge(&content, issuer, &provider, clock.wall()),
                    Err(unreadable) => (None, unreadable),
                };
                findings.extend(judged.1);
                (judged.0, Some(files), None)
            }
            TlsSource::Development => match dev::make(issuer, &provider, clock.wall()) {
                Ok((certificate, ca)) => {
                    let (host, not_after) = (issuer.host(), certificate.facts.not_after_text());
                    let message = format!("a certificate for {host} and loopback, until {not_after}");
                    findings.push(&codes::DEV_TLS, "--dev-tls", message);
                    (Some(certificate), None, Some(ca))
                }
                Err(refused) => {
                    findings.extend(refused);
                    (None, None, None)
                }
            },
        };
        let tls = certificate.and_then(|certificate| {
            let certificates = Arc::new(Certificates(ArcSwap::from_pointee(certificate)));
            let server = server_config(provider, tls.only_1_3, Arc::clone(&certificates), &mut findings)?;
            Some(Self { server, certificates, development_ca, files })
        });
        (tls, findings)
    }

    /// What can be said of the certificate only beside the keys that sign tokens.
    pub(crate) fn advice(&self, issuer: &Issuer) -> Findings {
        self.certificates.current().shared_with(&issuer.snapshot())
    }

    /// What keeps the certificate up to date; `None` if it cannot change.
    pub(crate) fn follower(&self) -> Option<Follower> {
        self.files.clone().map(|files| Follower::new(files, Arc::clone(&self.certificates)))
    }
}

/// The certificate that new connections are shown. Established ones are not touched when it changes.
#[derive(Debug)]
pub(crate) struct Certificates(ArcSwap<Certificate>);

impl Certificates {
    /// The one in use.
    pub(crate) fn current(&self) -> Arc<Certificate> {
        self.0.load_full()
    }

    /// Shows this one from now on.
    fn replace(&self, certificate: Certificate) {
        self.0.store(Arc::new(certificate));
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.load().pair))
    }
}

fn server_config(
    provider: Arc<CryptoProvider>,
    only_1_3: bool,
    certificates: Arc<Certificates>,
    findings: &mut Findings,
) -> Option<Arc<ServerConfig>> {
    let versions: &[&'static SupportedProtocolVersion] = if only_1_3 { &[&TLS13] } else { &[&TLS13, &TLS12] };
    let builder = match ServerConfig::builder_with_provider(provider).with_protocol_versions(versions) {
        Ok(builder) => builder,
        Err(error) => {
            findings.push(&codes::PRIVATE_KEY_UNUSABLE, "tls.min_version", error.to_string());
            return None;
        }
    };
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Some(Arc::new(config))
}
