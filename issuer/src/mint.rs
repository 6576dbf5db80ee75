//! Makes a token: who is vouched for, what the rules allow, what the key signs.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::UnixTime;
use oneseal_keystore::ring::KeyState;
use oneseal_keystore::{Algorithm, KeyId, KeyType, Mode, Rotation, Signer, Snapshot};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Issuer;
use crate::claims::set::ClaimSet;
use crate::claims::{Audience, ExtraClaims, Subject};
use crate::error::MintError;
use crate::pool::PoolError;
use crate::published::Published;
use crate::rules::{Grant, Known};
use crate::workload::VerifiedWorkload;

/// What is asked for beside whom it is for. Everything left out is decided by the rule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MintRequest {
    /// The relying party.
    pub audience: Audience,
    /// The life, if it is to be shorter than the rule's; more than is allowed is refused, not cut.
    pub ttl: Option<Duration>,
    /// The algorithm, if the rule leaves it open.
    pub algorithm: Option<Algorithm>,
    /// Claims of this one token, besides the workload's own.
    pub claims: Map<String, Value>,
}

impl MintRequest {
    /// A token for `audience` as the rule has it.
    pub fn new(audience: Audience) -> Self {
        Self { audience, ttl: None, algorithm: None, claims: Map::new() }
    }

    /// With this life.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Signed with this algorithm.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = Some(algorithm);
        self
    }

    /// With these claims besides the workload's own.
    #[must_use]
    pub fn claims(mut self, claims: Map<String, Value>) -> Self {
        self.claims = claims;
        self
    }
}

/// A new token. `Debug` leaves the token out: whoever has it is the workload.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Minted {
    /// The compact JWS, at most [`MAX_TOKEN_LEN`](crate::MAX_TOKEN_LEN) bytes.
    pub token: String,
    /// Which key signed it.
    pub kid: KeyId,
    /// With which algorithm.
    pub algorithm: Algorithm,
    /// Its `exp`.
    pub exp: UnixTime,
    /// Its `jti`, in the token with hyphens.
    pub jti: Uuid,
    /// Its `sub`.
    pub subject: Subject,
    /// The rule that allowed it, by its name; `admin.mint_audiences` where that did.
    pub rule: Arc<str>,
}

/// What a token would say: everything that minting decides and checks, without a signature. It is no token, and none
/// can be made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// The claims, as JSON in the bytes that would be signed. A token that is minted later has times and a `jti` of its
    /// own.
    pub claims: String,
    /// Which key would sign.
    pub kid: KeyId,
    /// With which algorithm.
    pub algorithm: Algorithm,
    /// The `exp`.
    pub exp: UnixTime,
    /// The rule that would allow it, by its name; `admin.mint_audiences` where that would.
    pub rule: Arc<str>,
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minted")
            .field("token", &"<redacted>")
            .field("kid", &self.kid.as_str())
            .field("algorithm", &self.algorithm)
            .field("exp", &self.exp)
            .field("jti", &self.jti)
            .field("subject", &self.subject.as_str())
            .field("rule", &self.rule)
            .finish()
    }
}

impl Issuer {
    /// Mints a token for `audience` as the first matching rule has it.
    ///
    /// # Errors
    /// A [`MintError`]: what is wrong and what to do. [`MintError::is_retryable`] tells a 503 from a refusal.
    ///
    /// # Cancel safety
    /// A dropped call leaves no token behind; a signature under way is finished and thrown away.
    pub async fn mint(&self, workload: &VerifiedWorkload, audience: &Audience) -> Result<Minted, MintError> {
        self.mint_with(workload, MintRequest::new(audience.clone())).await
    }

    /// Mints a token with wishes for life, algorithm and claims, within the rule.
    ///
    /// # Errors
    /// As [`mint`](Self::mint).
    ///
    /// # Cancel safety
    /// As [`mint`](Self::mint).
    pub async fn mint_with(
        &self,
        workload: &VerifiedWorkload,
        request: MintRequest,
    ) -> Result<Minted, MintError> {
        let began = self.clock().boot();
        let result = self.issue(workload, &request).await;
        let algorithm = match &result {
            Ok(minted) => minted.algorithm,
            Err(_) => request.algorithm.unwrap_or_else(|| self.rules().default_algorithm()),
        };
        let took = self.clock().boot().since(began);
        self.metrics().count_mint(algorithm, took, result.as_ref().err());
        result
    }

    /// What [`mint_with`](Self::mint_with) would sign at this moment; refused as that would be, except that no signature
    /// can fail or find the signing threads busy. Not counted among the mints.
    ///
    /// # Errors
    /// As [`mint`](Self::mint).
    pub fn preview_with(
        &self,
        workload: &VerifiedWorkload,
        request: &MintRequest,
    ) -> Result<Preview, MintError> {
        let Draft { signer, claims, exp, rule, .. } = self.draft(workload, request)?;
        Ok(Preview { claims, kid: signer.kid().clone(), algorithm: signer.algorithm(), exp, rule })
    }

    async fn issue(&self, workload: &VerifiedWorkload, request: &MintRequest) -> Result<Minted, MintError> {
        let Draft { published, signer, claims, exp, jti, subject, rule } = self.draft(workload, request)?;
        let token = self.sign(&signer, claims).await?;
        // It waited for its signature, and its key may have been burned meanwhile: nobody could verify it.
        let now = self.live().published();
        if now.snapshot.verifier(signer.kid().as_str()).is_none() {
            return Err(no_signer(&now.snapshot, signer.algorithm()));
        }
        published.signed(signer.kid(), exp);
        Ok(Minted {
            token,
            kid: signer.kid().clone(),
            algorithm: signer.algorithm(),
            exp,
            jti,
            subject,
            rule,
        })
    }

    fn draft(&self, workload: &VerifiedWorkload, request: &MintRequest) -> Result<Draft, MintError> {
        // In this order: a process that is suspended between the two has read a time that is older, so its token
        // dies earlier; the other way round a stale key could sign a token that looks new.
        let now = self.clock().wall();
        self.check_minting()?;
        let published = self.live().published_full();
        let rotation = published.snapshot.rotation();
        self.check_clock(rotation)?;
        let grant = self.rules().decide(&Known::of(workload), request, rotation)?;
        let extra = extra_claims(workload, &grant.claims, &request.claims)?;
        let signer = published
            .snapshot
            .signer(grant.algorithm)
            .ok_or_else(|| no_signer(&published.snapshot, grant.algorithm))?;
        let issued_at = now - Duration::from_secs(rotation.backdate_s);
        let exp = issued_at + grant.ttl.as_duration();
        let jti = Uuid::new_v4();
        let claims = ClaimSet {
            issuer_json: self.issuer_json(),
            subject: &grant.subject,
            audience: &request.audience,
            issued_at,
            expires_at: exp,
            id: jti,
            extra: &extra,
        };
        let claims = claims.to_json();
        let Grant { subject, rule, .. } = grant;
        Ok(Draft { claims, signer: Arc::clone(signer), exp, jti, subject, rule, published })
    }

    /// Whether anything can be minted here now, whoever asks.
    pub(crate) fn check_minting(&self) -> Result<(), MintError> {
        if self.keystore().snapshot().mode() == Mode::PublicOnly {
            return Err(MintError::PublicOnly);
        }
        if !self.live().are_tasks_running() {
            return Err(MintError::TasksNotRunning);
        }
        let freshness = self.keystore().freshness();
        if freshness.is_stale() {
            let limit_s = freshness.limit.unwrap_or_default().as_secs();
            let fault = self.keystore().fault().map(|finding| finding.code);
            return Err(MintError::Stale { age_s: freshness.age.as_secs(), limit_s, fault });
        }
        Ok(())
    }

    fn check_clock(&self, rotation: &Rotation) -> Result<(), MintError> {
        let reference = self.live().reference();
        if !reference.is_off(rotation) {
            return Ok(());
        }
        let offset_s = reference.offset_ms().unwrap_or_default() / 1000;
        Err(MintError::ClockSkewed { offset_s, skew_s: rotation.skew_s })
    }

    /// EC and Ed25519 take some 20 µs and sign here; RSA takes long enough to hold others up and goes to the pool.
    async fn sign(&self, signer: &Arc<Signer>, payload: String) -> Result<String, MintError> {
        if signer.algorithm().key_type() != KeyType::Rsa {
            return signer.sign(payload.as_bytes()).await.map_err(|_| MintError::Failed);
        }
        let signer = Arc::clone(signer);
        match self.pool().run(move || signer.sign_blocking(payload.as_bytes())).await {
            Ok(signed) => signed.map_err(|_| MintError::Failed),
            Err(PoolError::Busy) => Err(MintError::Busy),
            Err(PoolError::Lost) => Err(MintError::Failed),
        }
    }
}

/// A token but for its signature, and what it belongs to.
struct Draft {
    published: Arc<Published>,
    signer: Arc<Signer>,
    claims: String,
    exp: UnixTime,
    jti: Uuid,
    subject: Subject,
    rule: Arc<str>,
}

/// Why `snapshot` has nothing to sign with for `algorithm`.
pub(crate) fn no_signer(snapshot: &Snapshot, algorithm: Algorithm) -> MintError {
    let is_successor = |state, of| state == KeyState::Pending && of == algorithm;
    let mut successors = snapshot.keys().iter().filter(|key| is_successor(key.state, key.algorithm));
    match successors.find_map(|key| key.history.as_ref()?.emergency_at) {
        Some(burned_at) => {
            // The second that a written time may be short of.
            let wait = Duration::from_secs(snapshot.rotation().emergency_wait_s + 1);
            MintError::Emergency { algorithm, burned_at, until: burned_at + wait }
        }
        None => MintError::NoKey(algorithm),
    }
}

/// The workload's claims, the rule's and those asked for; none of them may name a claim of another.
fn extra_claims<'a>(
    workload: &'a VerifiedWorkload,
    ruled: &'a ExtraClaims,
    asked: &Map<String, Value>,
) -> Result<Cow<'a, ExtraClaims>, MintError> {
    let known = match (workload.claims().is_empty(), ruled.is_empty()) {
        (true, _) => Cow::Borrowed(ruled),
        (false, true) => Cow::Borrowed(workload.claims()),
        (false, false) => Cow::Owned(workload.claims().clone().merged(ruled)?),
    };
    if asked.is_empty() {
        return Ok(known);
    }
    Ok(Cow::Owned(ExtraClaims::parse(asked.clone())?.merged(&known)?))
}
