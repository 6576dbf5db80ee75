//! Every finding about a pair, each from a pair that has this fault and no other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oneseal::{Algorithm, InlineProvider, Issuer, SystemClock, UnixTime};
use oneseal_keystore::{Findings, IssuerUrl};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::Tls;
use super::certificate::{Certificate, judge};
use super::files::Content;
use crate::config::{self, TlsSource};
use crate::state::State;

/// 2027-01-15T08:00:00Z.
const NOW: UnixTime = UnixTime(1_800_000_000);
const DAY: i64 = 24 * 3600;
const HOST: &str = "oidc.example.com";

fn issuer() -> IssuerUrl {
    IssuerUrl::parse("https://oidc.example.com", "issuer").unwrap()
}

/// A certificate for `host` that is valid for these seconds around [`NOW`], and its key.
fn signed(key: &KeyPair, host: &str, (from, to): (i64, i64), change: fn(&mut CertificateParams)) -> String {
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let at =
        |offset: i64| date_time_ymd(1970, 1, 1) + Duration::from_secs((NOW.0 + offset).try_into().unwrap());
    (params.not_before, params.not_after) = (at(from), at(to));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "a test");
    change(&mut params);
    params.self_signed(key).unwrap().pem()
}

fn good() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    (signed(&key, HOST, (-DAY, 90 * DAY), |_| {}), key.serialize_pem())
}

fn judged(certificate: &str, private_key: &str) -> (Option<Certificate>, Findings) {
    let content = Content {
        certificate: certificate.as_bytes().to_vec(),
        private_key: Zeroizing::new(private_key.as_bytes().to_vec()),
        is_exposed: false,
    };
    judge(&content, &issuer(), &default_provider(), NOW)
}

/// The codes with their places; and whether it may be served, which only warnings leave.
fn verdict(certificate: &str, private_key: &str) -> (Vec<String>, bool) {
    let (judged, findings) = judged(certificate, private_key);
    assert_eq!(judged.is_some(), !findings.has_errors());
    for finding in findings.iter() {
        assert!(!finding.message.contains("BEGIN"), "{}", finding.message);
    }
    let codes = findings.iter().map(|finding| format!("{} {}", finding.code.name, finding.place)).collect();
    (codes, judged.is_some())
}

fn refused(certificate: &str, private_key: &str, codes: &[&str]) {
    assert_eq!(
        verdict(certificate, private_key),
        (codes.iter().map(|code| (*code).to_owned()).collect(), false)
    );
}

fn warned(certificate: &str, private_key: &str, codes: &[&str]) {
    assert_eq!(
        verdict(certificate, private_key),
        (codes.iter().map(|code| (*code).to_owned()).collect(), true)
    );
}

#[test]
fn a_good_pair_passes_and_tells_what_it_is() {
    let (certificate, key) = good();
    let (judged, findings) = judged(&certificate, &key);
    assert!(findings.is_empty(), "{findings}");
    let facts = judged.unwrap().facts;
    assert_eq!(facts.subject, "CN=a test");
    assert_eq!(facts.not_after, UnixTime(NOW.0 + 90 * DAY));
    assert_eq!(facts.not_after_text(), "2027-04-15T08:00:00Z");
    assert_eq!(facts.margin(), Duration::from_secs(7 * 24 * 3600));
}

#[test]
fn without_a_subject_the_names_are_told() {
    let key = KeyPair::generate().unwrap();
    let certificate = signed(&key, HOST, (-DAY, 90 * DAY), |params| {
        params.distinguished_name = DistinguishedName::new();
    });
    assert_eq!(judged(&certificate, &key.serialize_pem()).0.unwrap().facts.subject, HOST);
}

#[test]
fn all_three_forms_of_a_key_and_a_combined_file_are_taken() {
    for name in ["plain-rsa1.pem", "plain-ec.pem", "plain-rsa.pem"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../keystore/tests/vectors/mangled-keys").join(name);
        let pem = std::fs::read_to_string(path).unwrap();
        let key = KeyPair::from_pem(&pem).unwrap();
        let certificate = signed(&key, HOST, (-DAY, 90 * DAY), |_| {});
        warned(&certificate, &pem, &[]);
        let both = format!("{pem}{certificate}");
        warned(&both, &both, &[]);
    }
}

#[test]
fn a_file_without_its_half_is_refused_and_swapped_ones_are_known() {
    let (certificate, key) = good();
    refused(
        "",
        "",
        &["tls.certificate_unusable tls.certificate", "tls.private_key_unusable tls.private_key"],
    );
    refused(
        &key,
        &certificate,
        &["tls.certificate_unusable tls.certificate", "tls.private_key_unusable tls.private_key"],
    );
    let (_, findings) = judged(&key, &certificate);
    assert_eq!(
        findings.iter().filter(|finding| finding.message.contains("swapped")).count(),
        2,
        "{findings}"
    );
    let half = &certificate[..certificate.len() / 2];
    refused(half, &key, &["tls.certificate_unusable tls.certificate"]);
    refused(&certificate, &key[..key.len() / 2], &["tls.private_key_unusable tls.private_key"]);
    let other = KeyPair::generate().unwrap().serialize_pem();
    refused(&certificate, &format!("{key}{other}"), &["tls.private_key_unusable tls.private_key"]);
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let (_, findings) = judged(&certificate, locked);
    assert!(findings.to_string().contains("passphrase"), "{findings}");
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    refused(nonsense, &key, &["tls.certificate_unusable tls.certificate"]);
    refused(&format!("{certificate}{nonsense}"), &key, &["tls.certificate_unusable tls.certificate"]);
    let nonsense = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    refused(&certificate, nonsense, &["tls.private_key_unusable tls.private_key"]);
}

#[test]
fn the_key_of_another_certificate_is_refused_and_a_reversed_chain_is_known() {
    let (certificate, _) = good();
    let (other, other_key) = good();
    refused(&certificate, &other_key, &["tls.key_mismatch tls.private_key"]);
    let (_, findings) = judged(&format!("{certificate}{other}"), &other_key);
    let said = findings.to_string();
    assert!(
        said.contains("certificate 2 of the chain") && said.contains("give the server's own key"),
        "{said}"
    );
}

#[test]
fn times_are_held_against_the_clock() {
    let key = KeyPair::generate().unwrap();
    let pem = key.serialize_pem();
    let at = |from, to| signed(&key, HOST, (from, to), |_| {});
    refused(&at(-90 * DAY, -1), &pem, &["tls.expired tls.certificate"]);
    refused(&at(1, 90 * DAY), &pem, &["tls.not_yet_valid tls.certificate"]);
    warned(&at(-DAY, 0), &pem, &["tls.expires_soon tls.certificate"]);
    warned(&at(-83 * DAY, 7 * DAY - 1), &pem, &["tls.expires_soon tls.certificate"]);
    warned(&at(-83 * DAY, 7 * DAY), &pem, &[]);
    // A certificate for a day is new for sixteen hours of it.
    warned(&at(0, DAY), &pem, &[]);
    warned(&at(-17 * 3600, 7 * 3600), &pem, &["tls.expires_soon tls.certificate"]);
}

#[test]
fn what_clients_would_refuse_is_a_warning() {
    let key = KeyPair::generate().unwrap();
    let pem = key.serialize_pem();
    let life = (-DAY, 90 * DAY);
    warned(&signed(&key, "other.example", life, |_| {}), &pem, &["tls.host_not_covered tls.certificate"]);
    warned(&signed(&key, "*.example.com", life, |_| {}), &pem, &[]);
    let without_names = signed(&key, HOST, life, |params| params.subject_alt_names.clear());
    warned(&without_names, &pem, &["tls.host_not_covered tls.certificate"]);
    let for_clients = signed(&key, HOST, life, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    warned(&for_clients, &pem, &["tls.not_for_servers tls.certificate"]);
    let of_authority = signed(&key, HOST, life, |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    warned(&of_authority, &pem, &["tls.certificate_is_authority tls.certificate"]);
    let explicitly_none = signed(&key, HOST, life, |params| params.is_ca = IsCa::ExplicitNoCa);
    warned(&explicitly_none, &pem, &[]);
    let authority = signed(&KeyPair::generate().unwrap(), HOST, life, |params| {
        params.distinguished_name.push(DnType::CommonName, "somebody else");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let unrelated = format!("{}{authority}", signed(&key, HOST, life, |_| {}));
    warned(&unrelated, &pem, &["tls.chain_out_of_order tls.certificate"]);
}

#[test]
fn a_key_that_everybody_can_read_is_a_warning_beside_all_else() {
    let (certificate, _) = good();
    let content = Content {
        certificate: certificate.into_bytes(),
        private_key: Zeroizing::new(Vec::new()),
        is_exposed: true,
    };
    let (_, findings) = judge(&content, &issuer(), &default_provider(), NOW);
    let names: Vec<_> = findings.iter().map(|finding| finding.code.name).collect();
    assert_eq!(names, ["tls.private_key_unusable", "tls.private_key_exposed"]);
}

#[tokio::test]
async fn a_key_that_also_signs_tokens_is_a_warning() {
    let key = KeyPair::generate().unwrap();
    let built = Issuer::builder("https://oidc.example.com", InlineProvider::new(key.serialize_pem()))
        .algorithms([Algorithm::Es256])
        .build()
        .await;
    let (issuer, _tasks) = built.unwrap();
    let certificate = signed(&key, HOST, (-DAY, 90 * DAY), |_| {});
    let shared = judged(&certificate, &key.serialize_pem()).0.unwrap();
    let findings = shared.shared_with(&issuer.snapshot());
    assert_eq!(
        findings.iter().map(|finding| finding.code.name).collect::<Vec<_>>(),
        ["tls.signing_key_shared"]
    );
    let (certificate, key) = good();
    let apart = judged(&certificate, &key).0.unwrap();
    assert!(apart.shared_with(&issuer.snapshot()).is_empty());
}

/// A directory of two links: no watch on the files or their directory sees the outer one swapped.
#[tokio::test]
async fn what_no_event_tells_is_found_by_looking() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, (certificate, key): &(String, String)| {
        std::fs::create_dir_all(dir.path().join(name).join("pair")).unwrap();
        std::fs::write(dir.path().join(name).join("pair/tls.crt"), certificate).unwrap();
        std::fs::write(dir.path().join(name).join("pair/tls.key"), key).unwrap();
        std::os::unix::fs::symlink(name, dir.path().join("new")).unwrap();
        std::fs::rename(dir.path().join("new"), dir.path().join("live")).unwrap();
    };
    let now = || {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
        params.not_after = date_time_ymd(2999, 1, 1);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    put("first", &now());
    let live = dir.path().join("live/pair");
    let source = TlsSource::Files { certificate: live.join("tls.crt"), private_key: live.join("tls.key") };
    let settings = config::Tls { source, only_1_3: false };
    let (tls, findings) = Tls::open(&settings, &issuer(), &SystemClock).await;
    let tls = tls.unwrap_or_else(|| panic!("{findings}"));
    let signing = KeyPair::generate().unwrap().serialize_pem();
    let built = Issuer::builder("https://oidc.example.com", InlineProvider::new(signing))
        .algorithms([Algorithm::Es256])
        .build()
        .await;
    let state = Arc::new(State::new(built.unwrap().0));
    let (nudge, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let first = tls.certificates.current().facts.fingerprint;
    let follower = tls.follower().unwrap().polling_every(Duration::from_millis(20));
    let mut tasks = JoinSet::new();
    tasks.spawn(follower.run(state, nudge, stop.clone()));
    put("second", &now());
    let renewed = async {
        while tls.certificates.current().facts.fingerprint == first {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), renewed).await.unwrap();
    assert!(CryptoProvider::get_default().is_none(), "nothing was set for the whole process");
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap();
}

#[test]
fn no_debug_text_holds_a_key() {
    let (certificate, key) = good();
    let judged = judged(&certificate, &key).0.unwrap();
    let body: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    let shown = format!("{judged:?}");
    assert!(!shown.contains(&body) && !shown.contains(&body[40..80]), "{shown}");
}
