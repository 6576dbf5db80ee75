//! One issuer's tokens, checked for one audience.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_coordination::Clock;
use oneseal_keystore::verify::{UnverifiedJws, Verifier, VerifyError as JwsError};
use oneseal_keystore::{Algorithm, IssuerUrl, KeyId};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::builder::{Builder, Types};
use crate::claims::{Claims, Expected};
use crate::error::{Invalid, Unavailable, VerifyError};
use crate::keyset::{Dropped, KeySet};
use crate::live::Live;
use crate::sightings::{Moment, Sighting};

/// Trusts one issuer for one audience. Cheap to clone; all clones share the keys, and two relying parties never do,
/// so a `kid` of one issuer means nothing at another.
///
/// Runs inside a tokio runtime with time and I/O enabled.
#[derive(Clone, Debug)]
pub struct RelyingParty {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    live: Live,
    types: Types,
    expected: Expected,
    clock: Arc<dyn Clock>,
}

impl RelyingParty {
    /// Begins with the issuer to trust.
    pub fn builder(issuer: IssuerUrl) -> Builder {
        Builder::new(issuer)
    }

    pub(crate) fn new(live: Live, types: Types, expected: Expected, clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(Inner { live, types, expected, clock }) }
    }

    /// Judges a compact JWS: shape and size, header, `iss`, key, signature, the other claims, in this order and each
    /// only if the ones before hold. Fetches keys if none are held or the token names one that is not.
    ///
    /// # Errors
    /// [`VerifyError::Unavailable`] if the token cannot be judged for want of keys, whatever it is worth;
    /// [`VerifyError::Invalid`] if it is refused.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: a fetch that it began goes on for the others.
    pub async fn verify(&self, token: &str) -> Result<VerifiedToken, VerifyError> {
        let inner = &*self.inner;
        let (jws, claims) = inner.open(token)?;
        let keys = inner.live.keys_for(&jws).await?;
        let verifier = inner.verify(&jws, &keys).inspect_err(|invalid| {
            if invalid.may_be_cured_by_other_keys() {
                inner.live.doubt();
            }
        })?;
        // Read from the very segment that was signed.
        let claims = inner.expected.check(claims, inner.clock.wall())?;
        Ok(VerifiedToken { kid: verifier.kid().clone(), algorithm: verifier.algorithm(), claims })
    }

    /// Whether a key that is held now has signed this token of our issuer, however it may otherwise be judged. Fetches
    /// nothing. Where several relying parties trust one issuer's name with keys of different places, such as clusters
    /// that all call themselves `https://kubernetes.default.svc`, this tells whose token it is before anybody is asked.
    pub fn holds_key_of(&self, token: &str) -> bool {
        let Ok((jws, _)) = self.inner.open(token) else { return false };
        let Some(keys) = self.inner.live.keys_in_use() else { return false };
        self.inner.verify(&jws, &keys).is_ok()
    }

    /// The key that is held now and has signed this token of our issuer, by its RFC 7638 thumbprint: the name by which
    /// [`sighting`](Self::sighting) knows it. Fetches nothing.
    pub fn signing_key(&self, token: &str) -> Option<KeyId> {
        let (jws, _) = self.inner.open(token).ok()?;
        let keys = self.inner.live.keys_in_use()?;
        let (held, verifier) = keys.choose_held(&jws, self.inner.clock.boot()).ok()?;
        jws.verify(verifier).ok()?;
        Some(held.thumbprint())
    }

    /// Since when a key is in the issuer's set, among all reads of all relying parties of this process; none before the
    /// first good read. The key is named by its RFC 7638 thumbprint.
    pub fn sighting(&self, key: &KeyId) -> Option<Sighting> {
        self.inner.live.sighting(key)
    }

    /// Sees to it that a good read of the keys began after `moment`: fetches, or joins a fetch that runs, unless one did.
    /// At most one fetch in 30 s is made for it.
    ///
    /// # Errors
    /// [`Unavailable`] if there is none yet; the last good set stays.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the fetch goes on.
    pub async fn look_again(&self, moment: Moment) -> Result<(), Unavailable> {
        self.inner.live.look_again(moment).await
    }

    /// Fetches the issuer's keys now, or joins a fetch that runs: to warm up before serving, not once per token.
    ///
    /// # Errors
    /// [`Unavailable`]; the last good set stays.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the fetch goes on.
    pub async fn refresh(&self) -> Result<(), Unavailable> {
        self.inner.live.refresh().await
    }

    /// Refreshes the keys whenever it is due, until `cancel`. Optional: without it a token that finds them due
    /// starts the refresh, and is judged by what is held meanwhile.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn keep_fresh(&self, cancel: CancellationToken) {
        let run = async {
            loop {
                let next = self.inner.live.tick().await;
                tokio::time::sleep(next.max(SHORTEST_SLEEP)).await;
            }
        };
        // Cancelling drops a sleep or a wait; neither holds anything.
        let _: Option<()> = cancel.run_until_cancelled(run).await;
    }

    /// The `kid`s of the last good key set, in its order; none before the first fetch.
    pub fn held_kids(&self) -> Vec<KeyId> {
        self.inner.live.keys().map_or_else(Vec::new, |keys| keys.kids().cloned().collect())
    }

    /// What the last good key set held besides usable keys.
    pub fn dropped_keys(&self) -> Dropped {
        self.inner.live.keys().map_or_else(Dropped::default, |keys| keys.dropped())
    }
}

impl Inner {
    /// What can be said of a token without any key.
    fn open<'a>(&self, token: &'a str) -> Result<(UnverifiedJws<'a>, Map<String, Value>), VerifyError> {
        let jws = UnverifiedJws::parse(token)?;
        if !self.types.take(jws.typ()) {
            return Err(Invalid::Type.into());
        }
        let claims = self.expected.peek(&unverified_payload(token)?)?;
        Ok((jws, claims))
    }

    /// The key that has signed the token.
    fn verify<'k>(&self, jws: &UnverifiedJws<'_>, keys: &'k KeySet) -> Result<&'k Verifier, Invalid> {
        let verifier = keys.choose(jws, self.clock.boot())?;
        jws.verify(verifier).map_err(Invalid::Jws)?;
        Ok(verifier)
    }
}

/// A token that was accepted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VerifiedToken {
    /// The key that verified it; for a key without `kid` its RFC 7638 thumbprint.
    pub kid: KeyId,
    /// The algorithm it verified with.
    pub algorithm: Algorithm,
    /// What it claims.
    pub claims: Claims,
}

/// The middle segment, before anybody vouches for it.
fn unverified_payload(token: &str) -> Result<Vec<u8>, JwsError> {
    let segment = token.split('.').nth(1).ok_or(JwsError::Shape)?;
    URL_SAFE_NO_PAD.decode(segment).map_err(|_| JwsError::Encoding)
}

/// A floor under the loop's sleep, should a clock stand still.
const SHORTEST_SLEEP: Duration = Duration::from_secs(1);
