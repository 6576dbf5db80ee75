//! Whom TLS trusts: the system's root certificates, given ones, and those in a file that is followed.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// What TLS is spoken with. A file of roots is read again before each connection, since whoever mounts one (kubelet,
/// cert-manager) swaps it under running processes; what cannot be read or is no certificate changes nothing.
pub(crate) struct Trust {
    now: Mutex<Arc<ClientConfig>>,
    followed: Option<Followed>,
}

/// A file, with what is trusted beside it.
struct Followed {
    path: PathBuf,
    beside: RootCertStore,
    last: Mutex<Vec<u8>>,
}

impl Trust {
    /// Reads what is to be trusted, which blocks for some milliseconds.
    ///
    /// # Errors
    /// [`SetupError`]; nothing to trust is one only if `roots.needed`.
    pub(crate) fn new(roots: &Roots<'_>) -> Result<Self, SetupError> {
        let mut beside = RootCertStore::empty();
        for pem in roots.extra {
            add_pem(&mut beside, pem.as_bytes())?;
        }
        if roots.needed && roots.system {
            add_system(&mut beside);
        }
        let Some(path) = roots.file else {
            if roots.needed && beside.is_empty() {
                return Err(SetupError::NoRoots);
            }
            return Ok(Self { now: Mutex::new(Arc::new(tls_config(beside)?)), followed: None });
        };
        let unreadable = |source| SetupError::RootFile { path: path.display().to_string(), source };
        let pem = read_file(path).map_err(unreadable)?;
        let config = with_file(&beside, &pem).map_err(|error| match error {
            SetupError::RootCertificate => unreadable(io::Error::new(io::ErrorKind::InvalidData, error)),
            other => other,
        })?;
        let followed = Followed { path: path.to_owned(), beside, last: Mutex::new(pem) };
        Ok(Self { now: Mutex::new(Arc::new(config)), followed: Some(followed) })
    }

    /// What to trust now.
    pub(crate) async fn current(self: &Arc<Self>) -> Arc<ClientConfig> {
        if self.followed.is_some() {
            let trust = Arc::clone(self);
            // A file on a network may hang: the deadline of the exchange must still be kept.
            let looked = tokio::task::spawn_blocking(move || trust.look_again()).await;
            if looked.is_err() {
                tracing::warn!("looking for new root certificates was cut off");
            }
        }
        Arc::clone(&held(&self.now))
    }

    fn look_again(&self) {
        let Some(followed) = &self.followed else { return };
        let path = followed.path.display();
        let pem = match read_file(&followed.path) {
            Ok(pem) if pem == *held(&followed.last) => return,
            Ok(pem) => pem,
            Err(error) => {
                return tracing::warn!(%path, %error, "root certificates not read; the last ones stay");
            }
        };
        match with_file(&followed.beside, &pem) {
            Ok(config) => {
                *held(&self.now) = Arc::new(config);
                *held(&followed.last) = pem;
                tracing::info!(%path, "root certificates read anew");
            }
            Err(error) => tracing::warn!(%path, %error, "root certificates not taken; the last ones stay"),
        }
    }
}

/// What [`Trust`] is made of.
pub(crate) struct Roots<'a> {
    /// PEM certificates.
    pub(crate) extra: &'a [String],
    /// A file of PEM certificates.
    pub(crate) file: Option<&'a Path>,
    /// Whether the system's are trusted.
    pub(crate) system: bool,
    /// Whether TLS will be spoken.
    pub(crate) needed: bool,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An added certificate is not PEM, holds none, or is no certificate.
    #[error("an added root certificate is not a PEM certificate")]
    RootCertificate,
    /// The file of root certificates is missing, unreadable, or holds none.
    #[error("the file of root certificates {path} cannot be used; a PEM file of certificates is wanted")]
    RootFile {
        /// Which.
        path: String,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// There is nothing to trust.
    #[error(
        "the system has no root certificates, or they are not wanted; install them (ca-certificates) or add the issuer's own"
    )]
    NoRoots,
    /// The proxy's address is none.
    #[error(
        "the proxy's address is not a plain http URL of host and port without user name and path, such as http://proxy.example:3128"
    )]
    Proxy,
    /// A proxy, and one address that every connection goes to.
    #[error("a proxy and a fixed address for every connection exclude each other; leave one out")]
    ProxyAndAddress,
    /// The TLS stack refuses its own defaults.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}

fn with_file(beside: &RootCertStore, pem: &[u8]) -> Result<ClientConfig, SetupError> {
    let mut roots = beside.clone();
    add_pem(&mut roots, pem)?;
    tls_config(roots)
}

fn tls_config(roots: RootCertStore) -> Result<ClientConfig, SetupError> {
    // Named explicitly: a process-wide default is the application's to choose.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(SetupError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn add_system(roots: &mut RootCertStore) {
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::debug!(%error, "a system root certificate cannot be read");
    }
    // Single unreadable ones are common in system stores, and harmless: they are not trusted.
    let _ = roots.add_parsable_certificates(native.certs);
}

fn add_pem(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), SetupError> {
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| SetupError::RootCertificate)?;
        roots.add(certificate).map_err(|_| SetupError::RootCertificate)?;
        found = true;
    }
    if found { Ok(()) } else { Err(SetupError::RootCertificate) }
}

/// The whole of a regular file: a pipe or a device would never end.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut pem = Vec::new();
    std::fs::File::open(path)?.take(MAX_ROOT_FILE + 1).read_to_end(&mut pem)?;
    if pem.len() as u64 > MAX_ROOT_FILE {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {MAX_ROOT_FILE} bytes"),
        ));
    }
    Ok(pem)
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In bytes. A system's whole store is a quarter of that.
const MAX_ROOT_FILE: u64 = 1024 * 1024;
