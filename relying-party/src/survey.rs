//! What stands at an issuer's own URL, seen once and from outside, and how it compares with the keys one holds.
//!
//! For who runs an issuer: before a replica publishes its keys it can look what relying parties see now. A
//! [`RelyingParty`](crate::RelyingParty) would not do: it stops at the first fault and keeps no measure, and it drops
//! what it cannot use, while here a foreign key matters most.
//!
//! It goes the way that relying parties go: anonymously, to the discovery document and then to its `jwks_uri`. It
//! sends nothing but two GETs.

use std::time::Duration;

use bytes::Bytes;
use oneseal_coordination::Clock;
use oneseal_keystore::jwk::{JwkError, PublicJwk};
use oneseal_keystore::snapshot::PublishedKey;
use oneseal_keystore::{Algorithm, IssuerUrl, KeyId, PublicKey, json};
use serde_json::Value;

use crate::discovery::Discovery;
use crate::error::{Document, SourceError};
use crate::fetch::{Fetched, Fetcher};
use crate::keyset::MAX_KEYS;
use crate::source;

/// What was seen at an issuer's URL.
#[derive(Debug)]
#[non_exhaustive]
pub struct Survey {
    /// At the discovery URL.
    pub discovery: Look,
    /// What stands there, if it is strict JSON.
    pub document: Option<Discovery>,
    /// At its `jwks_uri`, if it has one that may be fetched.
    pub jwks: Option<Look>,
    /// What stands there, if it is a key set.
    pub keys: Option<ServedKeys>,
    /// Why a relying party would not take these keys, in the order of finding; none if it would.
    pub faults: Vec<SourceError>,
}

/// One GET.
#[derive(Debug)]
#[non_exhaustive]
pub struct Look {
    /// Of what.
    pub document: Document,
    /// From where.
    pub url: String,
    /// From name lookup to the last byte, or to giving up.
    pub took: Duration,
    /// A whole answer of status 200.
    pub fetched: Option<Fetched>,
}

/// Looks at the URL of `issuer` and follows its `jwks_uri`, even that of a document which names another issuer, so
/// that one look tells every fault. Takes up to two of the fetcher's deadlines.
///
/// # Cancel safety
/// Dropping the future closes the connection; nothing else is changed.
pub async fn survey(fetcher: &Fetcher, issuer: &IssuerUrl, clock: &dyn Clock) -> Survey {
    let mut faults = Vec::new();
    let url = issuer.url_of(&issuer.discovery_path());
    let discovery = look(fetcher, Document::Discovery, url, clock, &mut faults).await;
    let document = discovery.fetched.as_ref().map(|fetched| Discovery::read(&fetched.body));
    let document = kept(document, &mut faults);
    if document.as_ref().is_some_and(|document| !document.is_of(issuer)) {
        faults.push(SourceError::IssuerMismatch);
    }
    let jwks_uri = document.as_ref().map(|document| document.jwks_uri(issuer));
    let jwks_uri = jwks_uri.and_then(|uri| uri.map(str::to_owned).map_err(|fault| faults.push(fault)).ok());
    let jwks = match jwks_uri {
        Some(uri) => Some(look(fetcher, Document::Jwks, uri, clock, &mut faults).await),
        None => None,
    };
    let set = jwks.as_ref().and_then(|jwks| jwks.fetched.as_ref()).map(|fetched| fetched.body.clone());
    let keys = match set {
        Some(set) => kept(Some(read_apart(set).await), &mut faults),
        None => None,
    };
    Survey { discovery, document, jwks, keys, faults }
}

async fn look(
    fetcher: &Fetcher,
    document: Document,
    url: String,
    clock: &dyn Clock,
    faults: &mut Vec<SourceError>,
) -> Look {
    let began = clock.boot();
    let outcome = source::document(fetcher, document, &url).await;
    let took = clock.boot().since(began);
    Look { document, url, took, fetched: outcome.map_err(|fault| faults.push(fault)).ok() }
}

/// Whether a modulus is weak takes milliseconds a key, and a hostile set has hundreds: off the async workers, so that
/// whoever waits for the answer can still give up.
async fn read_apart(set: Bytes) -> Result<ServedKeys, SourceError> {
    match tokio::task::spawn_blocking(move || ServedKeys::read(&set)).await {
        Ok(read) => read,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn kept<T>(read: Option<Result<T, SourceError>>, faults: &mut Vec<SourceError>) -> Option<T> {
    read?.map_err(|fault| faults.push(fault)).ok()
}

/// The keys of a served set, whether or not one could verify with them.
#[derive(Clone, Debug)]
pub struct ServedKeys {
    entries: usize,
    private: usize,
    keys: Vec<Served>,
}

#[derive(Clone, Debug)]
struct Served {
    kid: KeyId,
    public: PublicKey,
    /// The one algorithm that its entry allows; `None` if the entry does not say.
    algorithm: Option<Algorithm>,
}

impl ServedKeys {
    /// Reads a key set (RFC 7517 section 5). Entries that are no public signature key with a `kid` count, and are
    /// otherwise left out: no token of ours could name them.
    ///
    /// # Errors
    /// [`SourceError::Json`], [`SourceError::NoKeysMember`], [`SourceError::TooManyKeys`];
    /// [`SourceError::NoUsableKey`] if nothing is left.
    pub fn read(body: &[u8]) -> Result<Self, SourceError> {
        let document = json::parse_object(body)
            .map_err(|source| SourceError::Json { document: Document::Jwks, source })?;
        let entries = document.get("keys").and_then(Value::as_array).ok_or(SourceError::NoKeysMember)?;
        if entries.len() > MAX_KEYS {
            return Err(SourceError::TooManyKeys { found: entries.len(), limit: MAX_KEYS });
        }
        let (mut keys, mut private) = (Vec::new(), 0);
        for entry in entries {
            match PublicJwk::from_json(entry) {
                Ok(jwk) => keys.extend(named(jwk)),
                Err(JwkError::PrivateMember(_) | JwkError::Symmetric) => private += 1,
                Err(_) => {}
            }
        }
        if keys.is_empty() {
            return Err(SourceError::NoUsableKey { entries: entries.len(), private });
        }
        Ok(Self { entries: entries.len(), private, keys })
    }

    /// How many entries the set has.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// How many of them hold a private or symmetric key, which is compromised by being there.
    pub fn private(&self) -> usize {
        self.private
    }

    /// The named keys, in the document's order.
    pub fn kids(&self) -> impl Iterator<Item = &KeyId> {
        self.keys.iter().map(|served| &served.kid)
    }

    /// How these keys compare with `ours`. A key is the same only if its name and its parameters are.
    pub fn compare(&self, ours: &[PublishedKey]) -> Comparison {
        let mut comparison = Comparison::default();
        for key in ours {
            let served: Vec<_> = self.keys.iter().filter(|served| served.kid == key.kid).collect();
            // A kid that stands there twice names another key for whoever reads the other entry.
            let fits = |served: &&Served| served.algorithm.is_none_or(|only| only == key.algorithm);
            if !served.is_empty() && !served.iter().any(fits) {
                comparison.other_algorithm.push(key.kid.clone());
            }
            let list = if served.iter().any(|served| served.public != key.public) {
                &mut comparison.reused
            } else if served.is_empty() {
                &mut comparison.missing
            } else {
                &mut comparison.common
            };
            list.push(key.kid.clone());
        }
        let is_foreign = |kid: &&KeyId| ours.iter().all(|key| key.kid != **kid);
        comparison.beyond = self.kids().filter(is_foreign).cloned().collect();
        comparison
    }
}

/// Our keys beside the served ones, each list in its own document's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// Ours that are served.
    pub common: Vec<KeyId>,
    /// Names of ours under which another key is served.
    pub reused: Vec<KeyId>,
    /// Names of ours whose entries allow another algorithm than we sign with, and not ours: tokens are refused.
    pub other_algorithm: Vec<KeyId>,
    /// Ours that are not served.
    pub missing: Vec<KeyId>,
    /// Served ones that are not ours.
    pub beyond: Vec<KeyId>,
}

fn named(jwk: PublicJwk) -> Option<Served> {
    let kid = KeyId::parse(jwk.kid.as_deref()?).ok()?;
    jwk.may_verify().then_some(Served { kid, public: jwk.key, algorithm: jwk.algorithm })
}
