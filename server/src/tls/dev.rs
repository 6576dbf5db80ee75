//! A certificate for a developer's machine: `serve --dev-tls`.
//!
//! A certificate authority is made and vouches for one server; then its key is gone, so whoever trusts it trusts that
//! one certificate and nothing that somebody could issue later. One self-signed certificate would be simpler, and some
//! libraries refuse it as an authority (Python's with strict flags, OpenSSL where it is not marked as one). Neither key
//! is ever written, and neither has anything to do with the key that signs tokens.

use std::time::Duration;

use oneseal::UnixTime;
use oneseal_keystore::{Findings, IssuerUrl};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_cert::der::Decode as _;
use zeroize::Zeroize;

use super::certificate::{self, Certificate};
use super::codes::CERTIFICATE_UNUSABLE;

/// A certificate for the issuer's host, `localhost` and the loopback addresses, and its authority's certificate as PEM.
pub(super) fn make(
    issuer: &IssuerUrl,
    provider: &CryptoProvider,
    now: UnixTime,
) -> Result<(Certificate, String), Findings> {
    let Generated { chain, key, ca } = generate(issuer.host(), now).map_err(|error| {
        let mut findings = Findings::new();
        findings.push(&CERTIFICATE_UNUSABLE, "--dev-tls", format!("none could be made: {error}"));
        findings
    })?;
    Ok((certificate::made(vec![chain], key, issuer, provider, now)?, ca))
}

/// Whether `pem` is the certificate of such an authority and nothing else, of this process or another one.
pub(crate) fn is_authority(pem: &[u8]) -> bool {
    let sections: Result<Vec<(SectionKind, Vec<u8>)>, _> = PemObject::pem_slice_iter(pem).collect();
    let Ok([(SectionKind::Certificate, der)]) = sections.as_deref() else { return false };
    x509_cert::Certificate::from_der(der).is_ok_and(|certificate| {
        certificate.tbs_certificate().subject().to_string() == format!("CN={AUTHORITY}")
    })
}

struct Generated {
    chain: rustls::pki_types::CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    ca: String,
}

fn generate(host: &str, now: UnixTime) -> Result<Generated, rcgen::Error> {
    let mut ca_key = KeyPair::generate()?;
    let mut ca = params(Vec::new(), AUTHORITY, now)?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_certificate = ca.self_signed(&ca_key)?;

    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    if !names.iter().any(|name| name == host) {
        names.push(host.to_owned());
    }
    let mut key = KeyPair::generate()?;
    let mut server = params(names, "oneseal development server", now)?;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    let chain = server.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?.der().clone();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ca_key.zeroize();
    key.zeroize();
    Ok(Generated { chain, key: private, ca: ca_certificate.pem() })
}

fn params(names: Vec<String>, common_name: &str, now: UnixTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now.0).unwrap_or_default());
    params.not_before = now - BACKDATE;
    params.not_after = now + LIFE;
    Ok(params)
}

/// By which its file is known again.
const AUTHORITY: &str = "oneseal development authority";
/// A container or virtual machine on the same host may have another clock.
const BACKDATE: Duration = Duration::from_secs(3600);
/// Longer than any process that a developer leaves running; it is made anew at each start.
const LIFE: Duration = Duration::from_secs(90 * 24 * 3600);

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime as RustlsTime};

    use super::*;

    const NOW: UnixTime = UnixTime(1_800_000_000);

    #[test]
    fn it_holds_for_the_issuer_and_loopback_and_for_nothing_else() {
        let issuer = IssuerUrl::parse("https://127.0.0.2:8443", "issuer").unwrap();
        let (made, ca) = make(&issuer, &default_provider(), NOW).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        let provider = std::sync::Arc::new(default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        let verdict = |host: &str, now: i64| {
            let time = RustlsTime::since_unix_epoch(Duration::from_secs(now.try_into().unwrap()));
            let name = ServerName::try_from(host.to_owned()).unwrap();
            verifier.verify_server_cert(&made.pair.cert[0], &[], &name, &[], time)
        };
        for host in ["127.0.0.2", "127.0.0.1", "::1", "localhost"] {
            verdict(host, NOW.0).unwrap_or_else(|error| panic!("{host}: {error}"));
        }
        verdict("oidc.example", NOW.0).unwrap_err();
        verdict("localhost", NOW.0 + 91 * 24 * 3600).unwrap_err();
        assert!(!ca.contains("PRIVATE"));
    }

    #[test]
    fn each_start_makes_another() {
        let issuer = IssuerUrl::parse("https://localhost:8443", "issuer").unwrap();
        let made = || make(&issuer, &default_provider(), NOW).unwrap().0.facts.fingerprint;
        assert_ne!(made(), made());
    }
}
