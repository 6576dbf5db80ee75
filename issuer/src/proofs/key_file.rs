//! Keys in a file: a JWKS that somebody puts there, read again as it changes.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use oneseal_relying_party::fetch::MAX_DOCUMENT;
use oneseal_relying_party::{KeyDocument, KeySource, KeySourceError};

/// The key set in a file.
#[derive(Clone, Debug)]
pub(crate) struct KeyFile(PathBuf);

impl KeyFile {
    /// In this file.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// What it holds now.
    ///
    /// # Errors
    /// In words, with the path: it cannot be read, or is too large.
    pub(crate) fn read_now(&self) -> Result<Bytes, String> {
        read(&self.0)
    }
}

impl KeySource for KeyFile {
    fn read(&self) -> BoxFuture<'_, Result<KeyDocument, KeySourceError>> {
        let path = self.0.clone();
        Box::pin(async move {
            // A file on a network that is gone can take for ever: off the async workers.
            let read = tokio::task::spawn_blocking(move || read(&path)).await;
            let jwks = read
                .map_err(|error| KeySourceError(error.into()))?
                .map_err(|why| KeySourceError(why.into()))?;
            Ok(KeyDocument { jwks, max_age: Some(LOOKED_AT_EVERY) })
        })
    }
}

fn read(path: &Path) -> Result<Bytes, String> {
    let told = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(told)?;
    if !file.metadata().map_err(told)?.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    let mut content = Vec::new();
    file.take(MAX_DOCUMENT as u64 + 1).read_to_end(&mut content).map_err(told)?;
    if content.len() > MAX_DOCUMENT {
        return Err(format!("{} has more than {MAX_DOCUMENT} bytes", path.display()));
    }
    Ok(content.into())
}

/// To look costs next to nothing, and a key that was taken out is taken out soon.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(15);
