//! Who vouches for the server, for its administrator and for its tokens.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize,
};

use super::super::postgres::Certificate;

/// All that one server is set up with, in PEM.
#[derive(Debug)]
pub(super) struct Credentials {
    /// The authority's certificate. Its key is gone.
    pub(super) ca: String,
    /// What the server shows.
    pub(super) server: Certificate,
    /// What its administrator shows: of the group that no rule binds.
    pub(super) admin: Certificate,
    /// What signs service account tokens (RS256, as kubeadm sets it up), private and public.
    pub(super) token_key: (String, String),
}

impl Credentials {
    pub(super) fn new() -> Self {
        Self::generate().expect("certificates can be made")
    }

    fn generate() -> Result<Self, rcgen::Error> {
        let mut ca = named("the test's authority", None);
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;
        let mut server = named("kube-apiserver", None);
        server.subject_alt_names = CertificateParams::new(NAMES.map(str::to_owned))?.subject_alt_names;
        let mut admin = named("admin", Some("system:masters"));
        let issue = |params: &mut CertificateParams, usage| {
            params.extended_key_usages = vec![usage];
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &ca)?;
            Ok::<_, rcgen::Error>(Certificate { chain: certificate.pem(), key: key.serialize_pem() })
        };
        let token_key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        Ok(Self {
            ca: ca.pem(),
            server: issue(&mut server, ExtendedKeyUsagePurpose::ServerAuth)?,
            admin: issue(&mut admin, ExtendedKeyUsagePurpose::ClientAuth)?,
            token_key: (token_key.serialize_pem(), token_key.public_key_pem()),
        })
    }
}

/// By which clients inside and outside of a cluster call the server.
const NAMES: [&str; 6] =
    ["127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

fn named(user: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params
}
