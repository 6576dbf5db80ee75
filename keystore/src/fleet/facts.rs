//! What one replica tells of itself.

use oneseal_coordination::Clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Memory;
use crate::ring::{KeyState, Origin};
use crate::{Digest, KeyId, Snapshot};

/// What a replica tells of itself with each beat. Holds no secret.
///
/// Read with a default for what an older version does not tell; what a newer one tells besides is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Facts {
    /// Its version of oneseal.
    pub version: String,
    /// The issuer that it serves.
    pub issuer: String,
    /// Which ring it serves.
    pub ring: RingFacts,
    /// The published keys, in the order of the JWKS.
    pub keys: Vec<FactKey>,
    /// The largest max-age under which a cache may still hold one of its answers, in seconds: that of an answer given
    /// before the last change of the times counts as long as it is good.
    pub max_age_s: u64,
    /// Whether its listener is open: whether it is a publish point.
    #[serde(default)]
    pub serving: bool,
    /// Whether its readiness says yes.
    #[serde(default)]
    pub ready: bool,
    /// Whether it mints, in a word: `on`, or why not.
    #[serde(default)]
    pub minting: String,
    /// Time since its last good look at the provider began, in seconds.
    #[serde(default)]
    pub age_s: u64,
    /// The key-encryption keys that it has, by id.
    #[serde(default)]
    pub kek_ids: Vec<String>,
    /// How far its wall clock lies ahead of the store's, in milliseconds, as measured by its last beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_ms: Option<i64>,
}

impl Facts {
    /// [`minting`](Self::minting) of a replica that only publishes.
    pub const PUBLIC_ONLY: &'static str = "public_only";

    /// Whether it only publishes: it signs nothing, and writes no ring and no event.
    pub fn is_public_only(&self) -> bool {
        self.minting == Self::PUBLIC_ONLY
    }
}

/// Which ring is served. Of bare keys all is 0 or absent but the digests, which are both that of the JWKS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingFacts {
    /// Its life between restores; 0 for bare keys.
    pub incarnation: u64,
    /// The id of that life; `None` for bare keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation_id: Option<String>,
    /// Its revision; 0 for bare keys.
    pub revision: u64,
    /// SHA-256 of the canonical public document, in hex.
    pub digest: String,
    /// SHA-256 of the JWKS, in hex.
    pub jwks_digest: String,
}

/// One published key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactKey {
    /// Its name.
    pub kid: String,
    /// Its RFC 7638 thumbprint.
    pub thumbprint: String,
    /// Its algorithm.
    pub alg: String,
    /// Its state in the ring.
    pub state: KeyState,
    /// Whether this replica signs with it.
    #[serde(default)]
    pub signs: bool,
    /// Whether this replica has its private half.
    #[serde(default)]
    pub has_private: bool,
    /// For how long it has been served without a gap, in whole seconds, rounded down; `None` for as long as this
    /// process has served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_for_s: Option<u64>,
}

/// Why a row says nothing that could be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FactsError(String);

impl FactsError {
    /// A row that nothing can be read from, for the reason `why`, which the store that holds it has found.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl Facts {
    /// What a replica of `issuer` tells that serves `snapshot`, remembers `memory` and neither serves nor mints yet.
    pub fn of(issuer: &str, snapshot: &Snapshot, memory: &Memory, clock: &dyn Clock) -> Self {
        let now = clock.boot();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            issuer: issuer.to_owned(),
            ring: RingFacts::of(snapshot),
            keys: snapshot
                .keys()
                .iter()
                .map(|key| FactKey {
                    kid: key.kid.to_string(),
                    thumbprint: key.public.thumbprint().to_string(),
                    alg: key.algorithm.as_str().to_owned(),
                    state: key.state,
                    signs: snapshot.signer(key.algorithm).is_some_and(|signer| *signer.kid() == key.kid),
                    has_private: key.has_private,
                    served_for_s: memory.served_for(&key.kid, now).map(|span| span.as_secs()),
                })
                .collect(),
            max_age_s: memory.max_age_s(now).max(snapshot.rotation().jwks_max_age_s),
            serving: false,
            ready: false,
            minting: String::new(),
            age_s: 0,
            kek_ids: Vec::new(),
            clock_offset_ms: None,
        }
    }

    /// Reads what a row holds.
    ///
    /// # Errors
    /// It is not what a replica tells, or more than one ever tells.
    pub fn read(value: &Value) -> Result<Self, FactsError> {
        let facts = Self::deserialize(value).map_err(|error| FactsError(error.to_string()))?;
        if facts.keys.len() > MAX_KEYS {
            return Err(FactsError(format!("it tells of {} keys", facts.keys.len())));
        }
        let names = facts.keys.iter().flat_map(|key| [&key.kid, &key.thumbprint]);
        if names.into_iter().any(|name| KeyId::parse(name).is_err()) {
            return Err(FactsError("a kid in it is not 1 to 128 printable ASCII characters".to_owned()));
        }
        let digests = [&facts.ring.digest, &facts.ring.jwks_digest];
        if digests.into_iter().any(|digest| Digest::from_hex(digest).is_none()) {
            return Err(FactsError("a digest in it is not 64 hex digits".to_owned()));
        }
        Ok(facts)
    }

    /// As it stands in the row.
    pub fn to_value(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value.sort_all_objects();
        value
    }

    /// The kids that it signs with.
    pub fn signing_kids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter(|key| key.signs).map(|key| key.kid.as_str())
    }

    /// The key called `kid`, if it is published.
    pub fn key(&self, kid: &str) -> Option<&FactKey> {
        self.keys.iter().find(|key| key.kid == kid)
    }
}

impl RingFacts {
    fn of(snapshot: &Snapshot) -> Self {
        let identity = snapshot.identity();
        let incarnation_id = match snapshot.origin() {
            Origin::Document { incarnation_id, .. } => Some(incarnation_id.clone()),
            Origin::Bare => None,
        };
        Self {
            incarnation: identity.incarnation,
            incarnation_id,
            revision: identity.revision,
            digest: identity.digest.to_string(),
            jwks_digest: Digest::of(snapshot.jwks()).to_string(),
        }
    }

    /// Whether these are key files without a document.
    pub fn is_bare(&self) -> bool {
        self.incarnation_id.is_none()
    }

    /// What rises: incarnation, then revision.
    pub fn number(&self) -> (u64, u64) {
        (self.incarnation, self.revision)
    }
}

/// Several times what a ring may hold.
const MAX_KEYS: usize = 100;
