//! Makes the first ring: the one place where a signing key comes into being without another one before it.

use std::sync::Arc;

use oneseal_coordination::{Clock, EventDraft};
use oneseal_providers::{Change, Entries, ErrorKind, ProviderError, Record, SecretBytes, SecretProvider};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::codes::{PROVIDER_INIT_IN_IMAGE, PROVIDER_NOT_FOUND};
use crate::material::{self, KeyError, PrivateKey};
use crate::place::{judge_place, load};
use crate::reading::{self, Opening};
use crate::ring::{self, Origin, Reading, Ring, write};
use crate::seal::{self, Keks, SealError};
use crate::{Algorithm, Findings, GenerationPermit, Identity, IssuerUrl, KeyId, KeyType, Rotation};

/// What the first ring is to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InitRequest {
    /// The issuer it is for; written into the ring.
    pub issuer: IssuerUrl,
    /// One key for each. Default: RS256.
    pub algorithms: Vec<Algorithm>,
    /// Bits of the RSA keys among them: 2048, 3072 or 4096. Default: `None`, 2048.
    pub rsa_bits: Option<usize>,
    /// The fleet's times; written into the ring.
    pub rotation: Rotation,
    /// Who asks, for the ring's log.
    pub actor: String,
    /// Why, for the ring's log.
    pub reason: String,
    /// Where the passphrase rests, for a key that is there already and encrypted; see
    /// [`KeystoreOptions::passphrase`](crate::KeystoreOptions::passphrase). The ring that is made is not encrypted.
    pub passphrase: Option<Arc<dyn SecretProvider>>,
    /// The member that holds the key, for one that is there already.
    pub member: Option<String>,
    /// Where the key-encryption keys rest, as in [`KeystoreOptions::keks`](crate::KeystoreOptions::keks): with any, the
    /// ring is sealed under the first. Default: none, and the right to write the place is the trust.
    pub keks: Vec<Arc<dyn SecretProvider>>,
    /// The ring key that is believed of a ring that is there already; see
    /// [`KeystoreOptions::pin`](crate::KeystoreOptions::pin).
    pub pin: Option<KeyId>,
}

impl InitRequest {
    /// One RS256 key for `issuer`, with the default times.
    pub fn new(issuer: IssuerUrl) -> Self {
        Self {
            issuer,
            algorithms: vec![Algorithm::Rs256],
            rsa_bits: None,
            rotation: Rotation::default(),
            actor: "keystore::init".to_owned(),
            reason: "first key".to_owned(),
            passphrase: None,
            member: None,
            keks: Vec::new(),
            pin: None,
        }
    }
}

/// A key that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Making {
    /// What it will sign with.
    pub algorithm: Algorithm,
    /// Bits of its modulus; `None` for the other kinds, which take no time.
    pub rsa_bits: Option<usize>,
    /// Which of them, counted from 1.
    pub number: usize,
    /// How many there will be, the ring's own key left out.
    pub of: usize,
}

/// What is there now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Initialised {
    /// Whether this call made it; otherwise it was there, or somebody else was faster.
    pub created: bool,
    /// The keys in it.
    pub keys: Vec<(KeyId, Algorithm)>,
    /// Thumbprint of the ring key: what a public-only replica pins. `None` for bare keys.
    pub ring_key: Option<KeyId>,
    /// The id of the key-encryption key that its private halves are sealed under; `None` where they are not sealed.
    pub sealed_under: Option<String>,
    /// Which ring it is.
    pub identity: Identity,
}

/// Writes the first ring to `provider`, unless there is a key already: then that one is read and reported. Of
/// several that try at once one writes, and all report the same ring.
///
/// # Errors
/// The place is not fit for a key, what rests there is not readable as one, or the write failed. Nothing has been
/// changed then, except where [`InitError::is_outcome_unknown`] says so.
///
/// # Cancel safety
/// Dropped, it has written a whole ring or nothing.
pub async fn init(
    provider: &dyn SecretProvider,
    request: InitRequest,
    clock: &dyn Clock,
) -> Result<Initialised, InitError> {
    init_telling(provider, request, clock, |_| ()).await
}

/// As [`init`], and calls `tell` before each key is made: an RSA key of 4096 bits can take many seconds. It is called
/// on the thread that makes the keys, and not at all where there is a ring already.
///
/// # Errors
/// As there.
///
/// # Cancel safety
/// As there. A key that is being made is made to its end, and dropped.
pub async fn init_telling(
    provider: &dyn SecretProvider,
    request: InitRequest,
    clock: &dyn Clock,
    tell: impl FnMut(Making) + Send + 'static,
) -> Result<Initialised, InitError> {
    check_rsa_bits(&request).map_err(InitError::Generate)?;
    let description = provider.describe();
    let mut findings = judge_place(&description, &PROVIDER_INIT_IN_IMAGE);
    findings.extend(request.rotation.check("rotation"));
    // Before anything is made: a ring that was sealed under what is no KEK could not be opened again.
    let (keks, _) = seal::load(&request.keks).await.map_err(InitError::Refused)?;
    if !cfg!(feature = "seal") && !keks.is_empty() {
        return Err(InitError::Internal(SealError::NotBuilt.into()));
    }
    match load(provider).await {
        Ok(record) => return read(record, &request, &keks, false).await,
        Err(found) if found.contains(&PROVIDER_NOT_FOUND) => {}
        Err(found) => findings.extend(found),
    }
    if findings.has_errors() {
        return Err(InitError::Refused(findings));
    }
    let made = generate(&request, tell).await?;
    let change_id = Uuid::new_v4();
    let bytes = document(&made, &request, &keks, clock, change_id)?;
    let entries = Entries::single(Entries::KEYRING, bytes);
    match provider.create(entries, change(change_id, &request)).await {
        Ok(_) => reload(provider, &request, &keks, true).await,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            reload(provider, &request, &keks, false).await
        }
        Err(error) => Err(InitError::Write(error)),
    }
}

/// Why there is no first ring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The place, or what rests there, is not fit.
    #[error("{0}")]
    Refused(Findings),
    /// The provider did not write.
    #[error("the ring was not written")]
    Write(#[source] ProviderError),
    /// No key could be made.
    #[error("no key could be made")]
    Generate(#[source] KeyError),
    /// The document could not be made, or a worker died.
    #[error("the ring could not be made")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl InitError {
    /// Whether the ring may have been written all the same: look before trying again.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == ErrorKind::OutcomeUnknown)
    }
}

struct Made {
    keys: Vec<(Algorithm, PrivateKey)>,
    ring_key: PrivateKey,
}

/// A size that is not generated, or one for keys that have none: asked for by mistake, and not to be passed over.
fn check_rsa_bits(request: &InitRequest) -> Result<(), KeyError> {
    let Some(bits) = request.rsa_bits else { return Ok(()) };
    if !material::GENERATED_RSA_BITS.contains(&bits) {
        return Err(KeyError::GenerateSize { bits });
    }
    let is_rsa = |algorithm: &Algorithm| algorithm.key_type() == KeyType::Rsa;
    match request.algorithms.first() {
        Some(&algorithm) if !request.algorithms.iter().any(is_rsa) => {
            Err(KeyError::AlgorithmUnfit { key_type: KeyType::Rsa, algorithm })
        }
        _ => Ok(()),
    }
}

/// One key after the other, off the async workers: RSA takes from a tenth of a second to many seconds.
async fn generate(
    request: &InitRequest,
    mut tell: impl FnMut(Making) + Send + 'static,
) -> Result<Made, InitError> {
    let algorithms = request.algorithms.clone();
    let bits = request.rsa_bits.unwrap_or(material::DEFAULT_RSA_BITS);
    let work = move || {
        let permit = GenerationPermit::for_first_ring();
        let mut keys = Vec::with_capacity(algorithms.len());
        for (i, &algorithm) in algorithms.iter().enumerate() {
            let rsa_bits = (algorithm.key_type() == KeyType::Rsa).then_some(bits);
            tell(Making { algorithm, rsa_bits, number: i + 1, of: algorithms.len() });
            let key = match rsa_bits {
                Some(bits) => material::generate_rsa(&permit, algorithm, bits),
                None => material::generate(&permit, algorithm),
            };
            keys.push((algorithm, key?));
        }
        Ok(Made { keys, ring_key: material::generate(&permit, Algorithm::EdDsa)? })
    };
    let made = tokio::task::spawn_blocking(work).await.map_err(|error| InitError::Internal(error.into()))?;
    made.map_err(InitError::Generate)
}

fn document(
    made: &Made,
    request: &InitRequest,
    keks: &Keks,
    clock: &dyn Clock,
    change_id: Uuid,
) -> Result<SecretBytes, InitError> {
    let mut bytes: Zeroizing<Vec<u8>> = write::first(&write::FirstRing {
        issuer: &request.issuer,
        rotation: &request.rotation,
        keys: &made.keys,
        ring_key: &made.ring_key,
        kek: keks.current().map(|kek| &**kek),
        actor: &request.actor,
        reason: &request.reason,
        now: clock.wall(),
        change_id,
        incarnation_id: Uuid::new_v4(),
    })
    .map_err(|error| InitError::Internal(error.into()))?;
    Ok(SecretBytes::new(std::mem::take(&mut *bytes)))
}

fn change(id: Uuid, request: &InitRequest) -> Change {
    let payload = serde_json::json!({ "issuer": request.issuer.as_str(), "revision": 1 });
    Change {
        id,
        actor: request.actor.clone(),
        reason: request.reason.clone(),
        event: EventDraft::new("ring.created", payload.to_string()),
        fence: None,
    }
}

async fn reload(
    provider: &dyn SecretProvider,
    request: &InitRequest,
    keks: &Keks,
    created: bool,
) -> Result<Initialised, InitError> {
    let record = load(provider).await.map_err(InitError::Refused)?;
    read(record, request, keks, created).await
}

async fn read(
    record: Record,
    request: &InitRequest,
    keks: &Keks,
    created: bool,
) -> Result<Initialised, InitError> {
    let opening = Opening {
        passphrase: request.passphrase.clone(),
        member: request.member.clone(),
        keks: keks.clone(),
        pin: request.pin.clone(),
        ..Opening::default()
    };
    let issuer = request.issuer.clone();
    let work = move |entries: &Entries, reading: &Reading<'_>| ring::read_with(entries, &issuer, reading);
    let (ring, _) =
        reading::read(Arc::new(record), &opening, work).await.result.map_err(InitError::Refused)?;
    let sealed_under = ring.keys.iter().find_map(|key| key.sealed_under.clone());
    let (keys, ring_key) = (kids(&ring), pin(&ring.origin));
    Ok(Initialised { created, keys, ring_key, sealed_under, identity: ring.identity })
}

fn kids(ring: &Ring) -> Vec<(KeyId, Algorithm)> {
    ring.in_jwks_order().into_iter().map(|key| (key.kid.clone(), key.algorithm)).collect()
}

fn pin(origin: &Origin) -> Option<KeyId> {
    match origin {
        Origin::Document { ring_key, .. } => Some(ring_key.clone()),
        Origin::Bare => None,
    }
}
