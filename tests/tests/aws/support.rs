//! Certificates.

use std::path::Path;

use rcgen::{CertificateParams, KeyPair};

/// Certificate and key for 127.0.0.1 in files of `place`: the table that names them, and the certificate in PEM, which
/// is its own authority.
pub(crate) fn certificate(place: &Path) -> (String, String) {
    use std::os::unix::fs::PermissionsExt;

    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let (certificate_file, key_file) = (place.join("tls.crt"), place.join("tls.key"));
    std::fs::write(&certificate_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key_file, PermissionsExt::from_mode(0o600)).unwrap();
    let table = format!("[tls]\ncertificate = {certificate_file:?}\nprivate_key = {key_file:?}\n");
    (table, certificate.pem())
}
