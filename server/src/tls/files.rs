//! The two files, read as one unit.
//!
//! Whoever renews a certificate writes two files, and never both at the same instant: by rename (certbot's links), by
//! swapping one link above both (kubelet), or in place. So the pair is read, and both files are looked at again
//! afterwards: had either changed meanwhile, what was read may be half old and half new and counts for nothing. What is
//! still torn after that, because the writer paused between the two, is caught by comparing the key with the
//! certificate.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use oneseal_keystore::{Digest, Findings};
use oneseal_providers::file::Watch;
use rustix::fs::OFlags;
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::codes::{DENIED, UNREADABLE};

/// Where the pair rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The chain.
    pub(crate) certificate: PathBuf,
    /// The key.
    pub(crate) private_key: PathBuf,
}

/// Both files at one moment.
pub(super) struct Content {
    /// PEM, not judged.
    pub(super) certificate: Vec<u8>,
    /// PEM, not judged.
    pub(super) private_key: Zeroizing<Vec<u8>>,
    /// Whether every user of this host may read the key's file.
    pub(super) is_exposed: bool,
}

impl Content {
    /// By which one content is known from another.
    pub(super) fn digest(&self) -> Digest {
        let length = (self.certificate.len() as u64).to_be_bytes();
        Digest::of_parts(&[&length, &self.certificate, &self.private_key])
    }
}

impl Files {
    /// Reads both.
    ///
    /// # Errors
    /// What keeps either from being read, as findings.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(super) async fn read(&self) -> Result<Content, Findings> {
        for _ in 0..ATTEMPTS {
            let files = self.clone();
            match spawn_blocking(move || files.read_once()).await {
                Ok(Ok(Some(content))) => return Ok(content),
                Ok(Ok(None)) => tokio::time::sleep(PAUSE).await,
                Ok(Err(findings)) => return Err(findings),
                Err(error) => return Err(unreadable(CERTIFICATE, &self.certificate, &error.to_string())),
            }
        }
        Err(unreadable(CERTIFICATE, &self.certificate, "it keeps changing while it is read"))
    }

    /// Watches both from now on.
    pub(super) fn watch(&self) -> Watches {
        Watches { certificate: Watch::arm(&self.certificate), private_key: Watch::arm(&self.private_key) }
    }

    /// `None` if either changed meanwhile.
    fn read_once(&self) -> Result<Option<Content>, Findings> {
        let mut findings = Findings::new();
        let certificate = read(CERTIFICATE, &self.certificate, &mut findings);
        let private_key = read(PRIVATE_KEY, &self.private_key, &mut findings);
        let (Some(certificate), Some(private_key)) = (certificate, private_key) else { return Err(findings) };
        let is_whole = certificate.is_still(&self.certificate) && private_key.is_still(&self.private_key);
        Ok(is_whole.then(|| Content {
            certificate: certificate.bytes.to_vec(),
            is_exposed: private_key.found.permissions().mode() & 0o004 != 0,
            private_key: private_key.bytes,
        }))
    }
}

/// A watch on either file.
pub(super) struct Watches {
    certificate: Watch,
    private_key: Watch,
}

impl Watches {
    /// Waits until either may have changed, or for `poll`.
    pub(super) async fn event_or(&mut self, poll: Duration) {
        tokio::select! {
            // Both only say: look again.
            () = self.certificate.event_or(poll) => {}
            () = self.private_key.event_or(poll) => {}
        }
    }
}

/// One file at one moment.
struct Opened {
    bytes: Zeroizing<Vec<u8>>,
    found: Metadata,
}

impl Opened {
    /// Whether the same file, unchanged, is what the path leads to now.
    fn is_still(&self, path: &Path) -> bool {
        let key = |of: &Metadata| (of.dev(), of.ino(), of.len(), of.mtime(), of.mtime_nsec());
        fs::metadata(path).is_ok_and(|now| key(&now) == key(&self.found))
    }
}

fn read(place: &str, path: &Path, findings: &mut Findings) -> Option<Opened> {
    let said = match open(path) {
        Ok(opened) => return Some(opened),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            findings.push(&DENIED, place, format!("{}: {error}", path.display()));
            return None;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => "it does not exist".to_owned(),
        Err(error) => error.to_string(),
    };
    findings.extend(unreadable(place, path, &said));
    None
}

/// Not blocking on a pipe, and never more than the limit, whatever the path leads to.
fn open(path: &Path) -> io::Result<Opened> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(|_| ErrorKind::Unsupported)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no ordinary file"));
    }
    if found.len() > MAX_LEN {
        return Err(io::Error::other(format!("it is larger than {} KiB", MAX_LEN / 1024)));
    }
    let room = usize::try_from(found.len()).unwrap_or_default() + 1;
    // Reserved at once: growing would leave copies of a key behind in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.take(found.len()).read_to_end(&mut bytes)?;
    Ok(Opened { bytes, found })
}

fn unreadable(place: &str, path: &Path, why: &str) -> Findings {
    let mut findings = Findings::new();
    findings.push(&UNREADABLE, place, format!("{}: {why}", path.display()));
    findings
}

/// The place in findings.
pub(super) const CERTIFICATE: &str = "tls.certificate";
/// The place in findings.
pub(super) const PRIVATE_KEY: &str = "tls.private_key";
/// A chain of four RSA-4096 certificates has ten kilobytes.
const MAX_LEN: u64 = 1024 * 1024;
/// How often a pair that changes under our hands is read again, and after which pause: together longer than any tool
/// takes to write some kilobytes.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn names(findings: &Findings) -> Vec<String> {
        findings.iter().map(|finding| format!("{} {}", finding.code.name, finding.place)).collect()
    }

    async fn refused(certificate: &Path, private_key: &Path) -> Vec<String> {
        let files = Files { certificate: certificate.into(), private_key: private_key.into() };
        match files.read().await {
            Ok(_) => panic!("it was read"),
            Err(findings) => names(&findings),
        }
    }

    #[tokio::test]
    async fn what_is_no_ordinary_small_file_is_answered_at_once_and_both_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let both = ["tls.unreadable tls.certificate", "tls.unreadable tls.private_key"];
        let huge = dir.path().join("huge");
        File::create(&huge).unwrap().set_len(1 << 30).unwrap();
        let loops = dir.path().join("loop");
        std::os::unix::fs::symlink(&loops, &loops).unwrap();
        let fifo = dir.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [dir.path(), &huge, &loops, &fifo, Path::new("/dev/zero"), Path::new("/nonexistent/x")] {
            assert_eq!(refused(path, path).await, both, "{}", path.display());
        }
    }

    #[tokio::test]
    async fn a_pair_is_one_content_and_its_mode_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, private_key) = (dir.path().join("crt"), dir.path().join("key"));
        fs::write(&certificate, "ab").unwrap();
        fs::write(&private_key, "c").unwrap();
        fs::set_permissions(&private_key, fs::Permissions::from_mode(0o604)).unwrap();
        let files = Files { certificate: certificate.clone(), private_key: private_key.clone() };
        let first = files.read().await.ok().unwrap();
        assert!(first.is_exposed);
        fs::write(&certificate, "a").unwrap();
        fs::write(&private_key, "bc").unwrap();
        fs::set_permissions(&private_key, fs::Permissions::from_mode(0o640)).unwrap();
        let second = files.read().await.ok().unwrap();
        assert!(!second.is_exposed);
        assert_ne!(first.digest(), second.digest(), "the same bytes, parted elsewhere");
    }
}
