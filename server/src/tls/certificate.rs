//! A certificate with its key, judged as those who connect will judge it, before one of them does.

use std::sync::Arc;
use std::time::Duration;

use oneseal::UnixTime;
use oneseal_keystore::findings::Code;
use oneseal_keystore::{Digest, Findings, IssuerUrl, Snapshot};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SigningKey};
use x509_cert::der::oid::db::rfc5280::{ANY_EXTENDED_KEY_USAGE, ID_KP_SERVER_AUTH};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName};
use zeroize::{Zeroize, Zeroizing};

use super::codes::{
    CERTIFICATE_IS_AUTHORITY, CERTIFICATE_UNUSABLE, CHAIN_OUT_OF_ORDER, EXPIRED, EXPIRES_SOON,
    HOST_NOT_COVERED, KEY_MISMATCH, NOT_FOR_SERVERS, NOT_YET_VALID, PRIVATE_KEY_EXPOSED,
    PRIVATE_KEY_UNUSABLE, SIGNING_KEY_SHARED,
};
use super::files::{CERTIFICATE, Content, PRIVATE_KEY};
use crate::times;

/// A pair that may be served.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    /// Chain and key, as rustls wants them. Its `Debug` shows no key.
    pub(super) pair: Arc<CertifiedKey>,
    /// What logs and metrics tell of it.
    pub(crate) facts: Facts,
}

/// What is told of a certificate. All of it is public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its subject (RFC 4514), or, since today's have none, its names.
    pub(crate) subject: String,
    /// The first second in which it is valid.
    pub(crate) not_before: UnixTime,
    /// The last one.
    pub(crate) not_after: UnixTime,
    /// SHA-256 of its DER, as `openssl x509 -fingerprint -sha256` has it.
    pub(crate) fingerprint: Digest,
    /// DER of its SubjectPublicKeyInfo.
    spki: Vec<u8>,
}

impl Certificate {
    /// Whether its key is one of those that sign tokens, as a finding.
    pub(crate) fn shared_with(&self, snapshot: &Snapshot) -> Findings {
        let mut findings = Findings::new();
        for published in snapshot.keys().iter().filter(|published| published.spki == self.facts.spki) {
            findings.push(&SIGNING_KEY_SHARED, PRIVATE_KEY, format!("it is the key {}", published.kid));
        }
        findings
    }
}

impl Facts {
    /// How long before its end a certificate should have been renewed: seven days, or a third of a shorter life.
    pub(super) fn margin(&self) -> Duration {
        let life = u64::try_from(self.not_after.0.saturating_sub(self.not_before.0)).unwrap_or_default();
        WEEK.min(Duration::from_secs(life) / 3)
    }

    /// The last second of validity as RFC 3339.
    pub(crate) fn not_after_text(&self) -> String {
        times::rfc3339(self.not_after)
    }
}

/// Judges what was read: all faults at once. A pair with warnings alone is returned with them.
pub(super) fn judge(
    content: &Content,
    issuer: &IssuerUrl,
    provider: &CryptoProvider,
    now: UnixTime,
) -> (Option<Certificate>, Findings) {
    let mut findings = Findings::new();
    let chain = chain_of(&content.certificate, &mut findings);
    let key = key_of(&content.private_key, provider, &mut findings);
    if content.is_exposed {
        findings.push(&PRIVATE_KEY_EXPOSED, PRIVATE_KEY, "its file is readable by everyone");
    }
    let Some(chain) = chain else { return (None, findings) };
    let facts = facts_of(&chain, issuer, now, &mut findings);
    let (Some(facts), Some(key)) = (facts, key) else { return (None, findings) };
    let pair = CertifiedKey::new(chain, key);
    if let Err(error) = pair.keys_match() {
        findings.push(&KEY_MISMATCH, PRIVATE_KEY, whose_key(&pair).unwrap_or_else(|| error.to_string()));
    }
    let certificate = Certificate { pair: Arc::new(pair), facts };
    ((!findings.has_errors()).then_some(certificate), findings)
}

/// A pair that was just made, taken as it is.
pub(super) fn made(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    issuer: &IssuerUrl,
    provider: &CryptoProvider,
    now: UnixTime,
) -> Result<Certificate, Findings> {
    let mut findings = Findings::new();
    let facts = facts_of(&chain, issuer, now, &mut findings);
    match (facts, CertifiedKey::from_der(chain, key, provider)) {
        (Some(facts), Ok(pair)) if findings.is_empty() => Ok(Certificate { pair: Arc::new(pair), facts }),
        (_, Err(error)) => {
            refuse(&PRIVATE_KEY_UNUSABLE, PRIVATE_KEY, &error.to_string(), &mut findings);
            Err(findings)
        }
        _ => Err(findings),
    }
}

fn chain_of(pem: &[u8], findings: &mut Findings) -> Option<Vec<CertificateDer<'static>>> {
    match CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>() {
        Ok(chain) if !chain.is_empty() => return Some(chain),
        Ok(_) => {
            let why = if has(pem, "PRIVATE KEY-----") {
                "it holds a private key; are the two files swapped?"
            } else {
                "it holds no certificate in PEM form"
            };
            refuse(&CERTIFICATE_UNUSABLE, CERTIFICATE, why, findings);
        }
        Err(error) => {
            refuse(
                &CERTIFICATE_UNUSABLE,
                CERTIFICATE,
                &format!("it is no whole PEM file: {error}"),
                findings,
            );
        }
    }
    None
}

fn key_of(pem: &[u8], provider: &CryptoProvider, findings: &mut Findings) -> Option<Arc<dyn SigningKey>> {
    let mut keys = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
        match section {
            Ok((kind, der)) => {
                let mut der = Zeroizing::new(der);
                keys.extend(PrivateKeyDer::from_pem(kind, std::mem::take(&mut *der)));
            }
            // The cause may quote what stands there, and what stands there may be the key.
            Err(_) => {
                refuse(&PRIVATE_KEY_UNUSABLE, PRIVATE_KEY, "it is no whole PEM file", findings);
                return None;
            }
        }
    }
    let why = match keys.len() {
        0 if has(pem, "ENCRYPTED") => "it is encrypted with a passphrase: `openssl pkey` writes it without",
        0 if has(pem, "CERTIFICATE-----") => "it holds a certificate and no key; are the two files swapped?",
        0 => "it holds no private key in PEM form",
        1 => match provider.key_provider.load_private_key(keys[0].clone_key()) {
            Ok(key) => {
                keys.iter_mut().for_each(Zeroize::zeroize);
                return Some(key);
            }
            Err(_) => {
                "it is damaged, or of a kind or size that TLS does not use (RSA has at least 2048 bits)"
            }
        },
        _ => "it holds more than one private key",
    };
    keys.iter_mut().for_each(Zeroize::zeroize);
    refuse(&PRIVATE_KEY_UNUSABLE, PRIVATE_KEY, why, findings);
    None
}

/// What the server's own certificate says, and what is wrong with it.
fn facts_of(
    chain: &[CertificateDer<'static>],
    issuer: &IssuerUrl,
    now: UnixTime,
    findings: &mut Findings,
) -> Option<Facts> {
    let own = chain.first()?;
    let (parsed, checked) = match (x509_cert::Certificate::from_der(own), ParsedCertificate::try_from(own)) {
        (Ok(parsed), Ok(checked)) => (parsed, checked),
        (Err(error), _) => {
            refuse(
                &CERTIFICATE_UNUSABLE,
                CERTIFICATE,
                &format!("it is no X.509 certificate: {error}"),
                findings,
            );
            return None;
        }
        (_, Err(error)) => {
            refuse(&CERTIFICATE_UNUSABLE, CERTIFICATE, &error.to_string(), findings);
            return None;
        }
    };
    let tbs = parsed.tbs_certificate();
    let names = names_of(&parsed);
    let subject = tbs.subject().to_string();
    let facts = Facts {
        subject: if subject.is_empty() { names.join(", ") } else { subject },
        not_before: unix(tbs.validity().not_before.to_unix_duration()),
        not_after: unix(tbs.validity().not_after.to_unix_duration()),
        fingerprint: Digest::of(own),
        spki: tbs.subject_public_key_info().to_der().unwrap_or_default(),
    };
    check_times(&facts, now, findings);
    check_usage(&parsed, findings);
    check_kind(&parsed, findings);
    let host = ServerName::try_from(issuer.host());
    if !host.is_ok_and(|host| verify_server_name(&checked, &host).is_ok()) {
        let named = if names.is_empty() { "no host at all".to_owned() } else { names.join(", ") };
        let message = format!("it names {named}; the issuer's host is {}", issuer.host());
        findings.push(&HOST_NOT_COVERED, CERTIFICATE, message);
    }
    check_order(chain, findings);
    Some(facts)
}

fn check_times(facts: &Facts, now: UnixTime, findings: &mut Findings) {
    let Facts { not_before, not_after, .. } = *facts;
    let (code, words, moment) = if now > not_after {
        (&EXPIRED, "its last moment was", not_after)
    } else if now < not_before {
        (&NOT_YET_VALID, "its first moment is", not_before)
    } else if now + facts.margin() > not_after {
        (&EXPIRES_SOON, "its last moment is", not_after)
    } else {
        return;
    };
    let message =
        format!("{words} {}; this host's clock says {}", times::rfc3339(moment), times::rfc3339(now));
    findings.push(code, CERTIFICATE, message);
}

fn check_usage(parsed: &x509_cert::Certificate, findings: &mut Findings) {
    // Without the extension every usage is allowed (RFC 5280 section 4.2.1.12).
    let Ok(Some((_, usage))) = parsed.tbs_certificate().get_extension::<ExtendedKeyUsage>() else { return };
    if !usage.0.iter().any(|oid| [ID_KP_SERVER_AUTH, ANY_EXTENDED_KEY_USAGE].contains(oid)) {
        findings.push(&NOT_FOR_SERVERS, CERTIFICATE, "serverAuth is not among its extended key usages");
    }
}

fn check_kind(parsed: &x509_cert::Certificate, findings: &mut Findings) {
    // Without the extension it is no authority's (RFC 5280 section 4.2.1.9).
    let Ok(Some((_, constraints))) = parsed.tbs_certificate().get_extension::<BasicConstraints>() else {
        return;
    };
    if constraints.ca {
        findings.push(&CERTIFICATE_IS_AUTHORITY, CERTIFICATE, "the first certificate says CA:TRUE");
    }
}

fn check_order(chain: &[CertificateDer<'static>], findings: &mut Findings) {
    let parsed: Result<Vec<_>, _> = chain.iter().map(|der| x509_cert::Certificate::from_der(der)).collect();
    let Ok(parsed) = parsed else {
        refuse(&CERTIFICATE_UNUSABLE, CERTIFICATE, "a later certificate of the chain is damaged", findings);
        return;
    };
    let broken = parsed
        .windows(2)
        .position(|pair| pair[0].tbs_certificate().issuer() != pair[1].tbs_certificate().subject());
    if let Some(at) = broken {
        let message = format!("certificate {} was not issued by certificate {}", at + 1, at + 2);
        findings.push(&CHAIN_OUT_OF_ORDER, CERTIFICATE, message);
    }
}

/// The hosts and addresses that it vouches for, the first few.
fn names_of(parsed: &x509_cert::Certificate) -> Vec<String> {
    let Ok(Some((_, names))) = parsed.tbs_certificate().get_extension::<SubjectAltName>() else {
        return Vec::new();
    };
    let named = names.0.iter().filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(octets) => address_of(octets.as_bytes()),
        _ => None,
    });
    named.take(MAX_NAMES_SHOWN).collect()
}

fn address_of(octets: &[u8]) -> Option<String> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(std::net::Ipv4Addr::from(v4).to_string());
    }
    <[u8; 16]>::try_from(octets).ok().map(|v6| std::net::Ipv6Addr::from(v6).to_string())
}

/// If the key is that of another certificate of the chain, its words.
fn whose_key(pair: &CertifiedKey) -> Option<String> {
    let spki = pair.key.public_key()?;
    let of_key = |der: &CertificateDer<'_>| {
        ParsedCertificate::try_from(der).is_ok_and(|parsed| parsed.subject_public_key_info() == spki)
    };
    let at = pair.cert.iter().position(of_key);
    Some(at.map_or_else(
        || "it belongs to none of the certificates in tls.certificate".to_owned(),
        |at| {
            format!(
                "it belongs to certificate {} of the chain: if that is the server's own, it must come first; if it is \
                 an authority's, give the server's own key",
                at + 1
            )
        },
    ))
}

fn refuse(code: &'static Code, place: &str, why: &str, findings: &mut Findings) {
    findings.push(code, place, why);
}

fn has(pem: &[u8], mark: &str) -> bool {
    pem.windows(mark.len()).any(|window| window == mark.as_bytes())
}

fn unix(since_epoch: Duration) -> UnixTime {
    UnixTime(i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX))
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const MAX_NAMES_SHOWN: usize = 8;
