//! Reads an issuer's keys: one attempt, from where they are to a set that can verify.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use oneseal_coordination::BootTime;
use oneseal_keystore::{Algorithm, IssuerUrl};

use crate::discovery;
use crate::error::{Document, SourceError};
use crate::fetch::{Fetched, Fetcher, MAX_DOCUMENT, delta_seconds};
use crate::key_source::{KeyDocument, KeySource, KeySourceError};
use crate::keyset::KeySet;

/// Reads the issuer's keys.
#[derive(Debug)]
pub(crate) struct Source {
    issuer: IssuerUrl,
    allowed: Vec<Algorithm>,
    keys: Keys,
    discovered: Mutex<Option<Discovered>>,
}

/// Where the key set is.
#[derive(Debug)]
pub(crate) enum Keys {
    /// Where the issuer's discovery document says.
    Discovered(Fetcher),
    /// At this URL, whatever the issuer's discovery says.
    At(Fetcher, String),
    /// Here; it never changes.
    Given(Bytes),
    /// Where this one finds them, and how long that may take.
    Read(Arc<dyn KeySource>, Duration),
}

impl Source {
    pub(crate) fn new(issuer: IssuerUrl, keys: Keys, allowed: Vec<Algorithm>) -> Self {
        Self { issuer, allowed, keys, discovered: Mutex::new(None) }
    }

    /// Whose keys they are.
    pub(crate) fn issuer(&self) -> &IssuerUrl {
        &self.issuer
    }

    /// Reads the key set, and before it the discovery document if it is not known where the keys are.
    ///
    /// # Errors
    /// A [`SourceError`], also for a set without a single usable key.
    pub(crate) async fn read(&self, now: BootTime) -> Result<Fresh, SourceError> {
        match &self.keys {
            Keys::Given(jwks) => Ok(Fresh { keys: self.key_set(jwks.clone()).await?, max_age: None }),
            Keys::Read(source, deadline) => {
                let document = read_apart(&**source, *deadline).await.map_err(SourceError::KeySource)?;
                Ok(Fresh { keys: self.key_set(document.jwks).await?, max_age: document.max_age })
            }
            Keys::At(fetcher, jwks_uri) => self.read_from(fetcher, jwks_uri).await,
            Keys::Discovered(fetcher) => {
                let jwks_uri = self.jwks_uri(fetcher, now).await?;
                let outcome = self.read_from(fetcher, &jwks_uri).await;
                if outcome.is_err() {
                    // It may have moved: ask again where it is.
                    *self.discovered() = None;
                }
                outcome
            }
        }
    }

    async fn jwks_uri(&self, fetcher: &Fetcher, now: BootTime) -> Result<String, SourceError> {
        let known = self.discovered().clone();
        if let Some(known) = known.filter(|known| now.since(known.at) < DISCOVERY_LIFE) {
            return Ok(known.jwks_uri);
        }
        let url = self.issuer.url_of(&self.issuer.discovery_path());
        let fetched = document(fetcher, Document::Discovery, &url).await?;
        let jwks_uri = discovery::jwks_uri(&fetched.body, &self.issuer)?;
        *self.discovered() = Some(Discovered { jwks_uri: jwks_uri.clone(), at: now });
        Ok(jwks_uri)
    }

    async fn read_from(&self, fetcher: &Fetcher, jwks_uri: &str) -> Result<Fresh, SourceError> {
        let fetched = document(fetcher, Document::Jwks, jwks_uri).await?;
        let max_age = max_age(&fetched.headers);
        Ok(Fresh { keys: self.key_set(fetched.body).await?, max_age })
    }

    /// Whether a modulus is weak takes milliseconds a key, and a hostile set has hundreds: off the async workers.
    async fn key_set(&self, jwks: Bytes) -> Result<KeySet, SourceError> {
        let allowed = self.allowed.clone();
        match tokio::task::spawn_blocking(move || KeySet::read(&jwks, &allowed)).await {
            Ok(read) => read,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn discovered(&self) -> MutexGuard<'_, Option<Discovered>> {
        self.discovered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The document at `url`; every status but 200 is an error.
///
/// # Errors
/// [`SourceError::Fetch`], [`SourceError::Status`].
pub(crate) async fn document(
    fetcher: &Fetcher,
    document: Document,
    url: &str,
) -> Result<Fetched, SourceError> {
    let outcome = fetcher.get(url).await;
    let url = || url.to_owned();
    let fetched = outcome.map_err(|source| SourceError::Fetch { document, url: url(), source })?;
    if fetched.status != StatusCode::OK {
        return Err(SourceError::Status { document, url: url(), status: fetched.status.as_u16() });
    }
    Ok(fetched)
}

/// One read of a source that is not ours, as bounded as a fetch.
async fn read_apart(source: &dyn KeySource, deadline: Duration) -> Result<KeyDocument, KeySourceError> {
    let read = tokio::time::timeout(deadline, source.read()).await;
    let document = read.map_err(|_| KeySourceError(format!("no answer within {deadline:?}").into()))??;
    if document.jwks.len() > MAX_DOCUMENT {
        return Err(KeySourceError(format!("the key set is longer than {MAX_DOCUMENT} bytes").into()));
    }
    Ok(document)
}

/// A good set and what is left of the `max-age` it came with.
pub(crate) struct Fresh {
    pub(crate) keys: KeySet,
    pub(crate) max_age: Option<Duration>,
}

/// Where the key set is, as of then.
#[derive(Clone, Debug)]
struct Discovered {
    jwks_uri: String,
    at: BootTime,
}

/// What is left of `max-age` (RFC 9111 section 5.2.2.1) after the `Age` that a cache has added (section 5.1).
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |text: &str| delta_seconds(text.trim().trim_matches('"'));
    let directives =
        headers.get_all(header::CACHE_CONTROL).into_iter().filter_map(|value| value.to_str().ok());
    let max_age = directives
        .flat_map(|value| value.split(','))
        .filter_map(|directive| directive.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("max-age"))
        .and_then(|(_, value)| seconds(value))?;
    let age =
        headers.get(header::AGE).and_then(|age| age.to_str().ok()).and_then(seconds).unwrap_or_default();
    Some(max_age.saturating_sub(age))
}

/// How long a `jwks_uri` is believed without asking again; after a failure it is asked for at once.
const DISCOVERY_LIFE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn max_age_is_read_and_age_taken_off() {
        let read = |cache_control: &'static str, age: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
            if let Some(age) = age {
                headers.insert(header::AGE, HeaderValue::from_static(age));
            }
            max_age(&headers).map(|age| age.as_secs())
        };
        assert_eq!(read("public, max-age=300", None), Some(300));
        assert_eq!(read("Max-Age=\"60\",public", None), Some(60));
        assert_eq!(read("max-age=300", Some("100")), Some(200));
        assert_eq!(read("max-age=300", Some("900")), Some(0));
        let endless = "99999999999999999999";
        assert_eq!(read("max-age=300", Some(endless)), Some(0));
        assert_eq!(read("max-age=99999999999999999999", None), Some(u64::MAX));
        assert_eq!(read("max-age=99999999999999999999", Some(endless)), Some(0));
        assert_eq!(read("s-maxage=5", None), None);
        assert_eq!(read("max-age=soon", None), None);
        assert_eq!(read("max-age=-1", None), None);
    }
}
