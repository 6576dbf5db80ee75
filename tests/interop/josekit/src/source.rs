//! Discovery and the key set, over HTTP: what josekit leaves to its user.
//!
//! The key set is fetched once, and again when a token names a key that is not in it, at most once in 30 seconds.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use josekit::JoseError;
use josekit::jwk::{Jwk, JwkSet};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::Instant;

const COOLDOWN: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(5);
/// Larger than any key set, small enough to be harmless.
const MAX_BYTES: usize = 64 * 1024;

/// The published keys of one issuer.
pub(crate) struct KeySource {
    http: Http,
    jwks_uri: String,
    keys: JwkSet,
    fetched: Instant,
}

/// Why the keys are not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{0}")]
    Fetch(String),
    #[error("discovery names another issuer: {0}")]
    IssuerMismatch(String),
    #[error("the key set cannot be read")]
    KeySet(#[source] JoseError),
}

impl KeySource {
    /// Reads discovery, and the key set it names.
    pub(crate) fn discover(issuer: &str) -> Result<Self, SourceError> {
        let http = Http::new()?;
        let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let metadata: Value = serde_json::from_slice(&http.fetch(&place)?).map_err(fetch)?;
        if metadata["issuer"] != issuer {
            return Err(SourceError::IssuerMismatch(metadata["issuer"].to_string()));
        }
        let jwks_uri = metadata["jwks_uri"].as_str().unwrap_or_default().to_owned();
        let keys = read(&http.fetch(&jwks_uri)?)?;
        Ok(Self { http, jwks_uri, keys, fetched: now() })
    }

    /// The keys called `kid`.
    pub(crate) fn named(&mut self, kid: &str) -> Result<Vec<Jwk>, SourceError> {
        let is_due = self.fetched.elapsed() >= COOLDOWN;
        if self.keys.get(kid).is_empty() && is_due {
            self.fetched = now();
            self.keys = read(&self.http.fetch(&self.jwks_uri)?)?;
        }
        Ok(self.keys.get(kid).into_iter().cloned().collect())
    }
}

#[expect(clippy::disallowed_methods, reason = "this program stands outside: its clock is the machine's")]
fn now() -> Instant {
    Instant::now()
}

fn read(bytes: &[u8]) -> Result<JwkSet, SourceError> {
    JwkSet::from_bytes(bytes).map_err(SourceError::KeySet)
}

/// An HTTP client that waits.
struct Http {
    runtime: Runtime,
    client: Client<
        hyper_rustls::HttpsConnector<hyper_util::client::legacy::connect::HttpConnector>,
        Empty<Bytes>,
    >,
}

impl Http {
    fn new() -> Result<Self, SourceError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fetch)?;
        let builder = hyper_rustls::HttpsConnectorBuilder::new().with_native_roots().map_err(fetch)?;
        let client =
            Client::builder(TokioExecutor::new()).build(builder.https_or_http().enable_http1().build());
        Ok(Self { runtime, client })
    }

    /// The body of a 200; no redirect is followed.
    fn fetch(&self, place: &str) -> Result<Bytes, SourceError> {
        let exchange = async {
            let answer = self
                .client
                .get(place.parse().map_err(fetch)?)
                .await
                .map_err(|error| fetch(format!("{place}: {}", with_causes(&error))))?;
            if answer.status() != 200 {
                return Err(fetch(format!("{place} answered {}", answer.status())));
            }
            Ok(Limited::new(answer.into_body(), MAX_BYTES).collect().await.map_err(fetch)?.to_bytes())
        };
        self.runtime
            .block_on(async { tokio::time::timeout(TIMEOUT, exchange).await })
            .map_err(|_| fetch(format!("{place} did not answer within {} s", TIMEOUT.as_secs())))?
    }
}

/// The client's own text says that it could not connect, and not why.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn fetch(error: impl std::fmt::Display) -> SourceError {
    SourceError::Fetch(error.to_string())
}
