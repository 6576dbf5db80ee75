//! What a replica serves from: one immutable value that holds the published bytes and the keys that sign.
//!
//! Everything in it comes from one ring, so whoever holds a snapshot can never see a signer apart from the key set
//! that names it. It cannot be built otherwise: a signer whose kid is not in its own JWKS is a build error.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

use crate::codes::{
    ISSUER_ALGORITHM_UNLISTED, ISSUER_ALGORITHM_WITHOUT_KEY, ISSUER_NO_RS256, RING_NO_SIGNER,
    RING_OTHER_TIMES,
};
use crate::ring::{KeyHistory, KeyState, Mode, Origin, Ring, RingKey};
use crate::signer::{SignError, Signer};
use crate::verify::{UnverifiedJws, Verifier, VerifyError};
use crate::{Algorithm, Digest, Findings, KeyId, PublicKey, Rotation};

/// Which ring this is: a life between restores, a revision within it, and what that revision says.
///
/// Bare keys have no life of their own: incarnation and revision are 0, and the digest is that of their JWKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Rises with every restore; from 1.
    pub incarnation: u64,
    /// Rises with every change; from 1.
    pub revision: u64,
    /// SHA-256 of the canonical public document.
    pub digest: Digest,
}

/// One key as relying parties see it, in the order of the JWKS.
#[derive(Debug)]
#[non_exhaustive]
pub struct PublishedKey {
    /// Its name in headers.
    pub kid: KeyId,
    /// The one algorithm it is for.
    pub algorithm: Algorithm,
    /// Its state in the ring.
    pub state: KeyState,
    /// Its public half.
    pub public: PublicKey,
    /// The same as SubjectPublicKeyInfo DER (RFC 5280 section 4.1).
    pub spki: Vec<u8>,
    /// Whether this replica could sign with it.
    pub has_private: bool,
    /// Where it was found: `keys[2]` of a document, an entry's name.
    pub place: String,
    /// What the ring document tells of its life; `None` for bare keys.
    pub history: Option<KeyHistory>,
    /// The id of the key-encryption key that its private half is sealed under, if it is sealed.
    pub sealed_under: Option<String>,
    verifier: Verifier,
}

/// The keys of one ring revision, ready to publish, sign and verify.
#[derive(Debug)]
pub struct Snapshot {
    identity: Identity,
    origin: Origin,
    jwks: Bytes,
    etag: String,
    rotation: Rotation,
    keys: Arc<[PublishedKey]>,
    mode: Mode,
    /// Names the ring key's private half.
    ring_half: Option<Digest>,
    /// Every private half that is here.
    candidates: Arc<[Candidate]>,
    /// The ones that sign.
    signing: BTreeMap<Algorithm, Arc<Signer>>,
}

/// A private half that is open.
#[derive(Clone, Debug)]
struct Candidate {
    signer: Arc<Signer>,
    /// Names the half as it rests in the document; `None` for bare keys.
    half: Option<Digest>,
}

impl Snapshot {
    /// Builds the snapshot of `ring`; `rotation` counts where the ring has none of its own.
    ///
    /// # Errors
    /// A key of an algorithm that is not in `algorithms`, an active key without private half (in [`Mode::Full`], unless
    /// it is sealed and its reader let it pass), a key that fails its probe. The other findings are remarks and come back beside the snapshot.
    pub fn build(
        ring: Ring,
        algorithms: &[Algorithm],
        rotation: &Rotation,
    ) -> Result<(Self, Findings), Findings> {
        let mut findings = check_algorithms(&ring, algorithms);
        findings.extend(check_times(&ring, rotation));
        let jwks = Bytes::from(write_jwks(&ring));
        let (keys, candidates) = parse_keys(&ring, &mut findings);
        let mut signing = BTreeMap::new();
        for key in keys.iter().filter(|key| key.state == KeyState::Active) {
            match candidates.iter().find(|candidate| *candidate.signer.kid() == key.kid) {
                Some(candidate) => drop(signing.insert(key.algorithm, Arc::clone(&candidate.signer))),
                None if ring.mode == Mode::PublicOnly || key.sealed_under.is_some() => {}
                None => findings.push(&RING_NO_SIGNER, key.kid.as_str(), format!("{} is active", key.kid)),
            }
        }
        if findings.has_errors() {
            return Err(findings);
        }
        let snapshot = Self {
            identity: ring.identity,
            origin: ring.origin,
            etag: format!("\"{}\"", URL_SAFE_NO_PAD.encode(Digest::of(&jwks).as_bytes())),
            jwks,
            rotation: ring.rotation.unwrap_or_else(|| rotation.clone()),
            keys: keys.into(),
            mode: ring.mode,
            ring_half: ring.ring_half,
            candidates: candidates.into(),
            signing,
        };
        Ok((snapshot, findings))
    }

    /// The same publication with other signers: each of `kids` signs for its algorithm instead of the active key.
    ///
    /// `None` if none of their private halves is here. Their keys are in the JWKS, as every candidate's is.
    pub(crate) fn signing_with(&self, kids: &[KeyId]) -> Option<Self> {
        let signers = self.candidates.iter().map(|candidate| &candidate.signer);
        let signers: Vec<_> = signers.filter(|signer| kids.contains(signer.kid())).map(Arc::clone).collect();
        if signers.is_empty() {
            return None;
        }
        let mut signing = self.signing.clone();
        signing.extend(signers.into_iter().map(|signer| (signer.algorithm(), signer)));
        Some(Self {
            identity: self.identity,
            origin: self.origin.clone(),
            jwks: self.jwks.clone(),
            etag: self.etag.clone(),
            rotation: self.rotation.clone(),
            keys: Arc::clone(&self.keys),
            mode: self.mode,
            ring_half: self.ring_half,
            candidates: Arc::clone(&self.candidates),
            signing,
        })
    }

    /// Whether it can sign at all.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The signer of the key `kid` if it was made from exactly this private half.
    pub(crate) fn signer_of(&self, kid: &KeyId, half: Digest) -> Option<&Arc<Signer>> {
        let is_it = |candidate: &&Candidate| candidate.half == Some(half) && candidate.signer.kid() == kid;
        self.candidates.iter().find(is_it).map(|candidate| &candidate.signer)
    }

    /// The signer of the key `kid`, from whatever half it was made.
    pub(crate) fn signer_named(&self, kid: &KeyId) -> Option<&Arc<Signer>> {
        self.candidates.iter().map(|candidate| &candidate.signer).find(|signer| signer.kid() == kid)
    }

    /// Whether exactly this half of the ring key `kid` has been opened.
    pub(crate) fn opened_ring_key(&self, kid: &KeyId, half: Option<Digest>) -> bool {
        let is_same = half.is_some() && self.ring_half == half;
        is_same
            && matches!(&self.origin, Origin::Document { ring_key, vouched_by_kek: true, .. } if ring_key == kid)
    }

    /// Which ring revision this is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What the ring was read from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The key set, exactly as every replica publishes it.
    pub fn jwks(&self) -> &Bytes {
        &self.jwks
    }

    /// Strong entity tag of the key set, with its quotes: base64url of its SHA-256 (RFC 9110 section 8.8.3).
    pub fn etag(&self) -> &str {
        &self.etag
    }

    /// The fleet's times.
    pub fn rotation(&self) -> &Rotation {
        &self.rotation
    }

    /// The published keys, in the order of the JWKS.
    pub fn keys(&self) -> &[PublishedKey] {
        &self.keys
    }

    /// The algorithms that can be signed with, in JWKS order.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.signing.keys().copied()
    }

    /// The kids of the keys that sign, by algorithm.
    pub(crate) fn signing_kids(&self) -> impl Iterator<Item = &KeyId> {
        self.signing.values().map(|signer| signer.kid())
    }

    /// The key that signs for `algorithm`.
    pub fn signer(&self, algorithm: Algorithm) -> Option<&Arc<Signer>> {
        self.signing.get(&algorithm)
    }

    /// A compact JWS over `payload` (RFC 7515 section 7.1) under the header `alg`, `kid`, `typ: JWT`.
    ///
    /// Asynchronous so that a remote signer can stand here one day; today it signs in place: 0.25 ms for RSA-2048.
    ///
    /// # Errors
    /// No key is active for `algorithm`, or the primitive failed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn sign(&self, algorithm: Algorithm, payload: &[u8]) -> Result<String, SnapshotSignError> {
        let signer = self.signer(algorithm).ok_or(SnapshotSignError::NoKey(algorithm))?;
        Ok(signer.sign(payload).await?)
    }

    /// The published key called `kid`, ready to verify.
    pub fn verifier(&self, kid: &str) -> Option<&Verifier> {
        self.keys.iter().find(|key| key.kid.as_str() == kid).map(|key| &key.verifier)
    }

    /// Verifies a compact JWS by the published key that its header names and returns the payload. Claims are not
    /// judged here.
    ///
    /// # Errors
    /// What is wrong with its form, key or signature.
    pub fn verify(&self, token: &str) -> Result<Vec<u8>, VerifyError> {
        let jws = UnverifiedJws::parse(token)?;
        let verifier = jws.kid().and_then(|kid| self.verifier(kid)).ok_or(VerifyError::UnknownKid)?;
        jws.verify(verifier)
    }
}

/// Why a snapshot did not sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotSignError {
    /// No key of this algorithm is active here.
    #[error("no active key for {0}")]
    NoKey(Algorithm),
    /// The primitive failed.
    #[error("signing failed")]
    Failed(#[from] SignError),
}

/// JWKS writer 1: `{"keys":[…]}` without white space, in the ring's order. Its bytes are golden: relying parties
/// and mirrors compare them, so a change is a new writer with its own number.
pub(crate) fn write_jwks(ring: &Ring) -> Vec<u8> {
    let mut out = String::from("{\"keys\":[");
    for (i, key) in ring.in_jwks_order().into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        key.public.write_jwk(&mut out, key.algorithm, &key.kid);
    }
    out.push_str("]}");
    out.into_bytes()
}

fn check_algorithms(ring: &Ring, algorithms: &[Algorithm]) -> Findings {
    let mut findings = Findings::new();
    for key in ring.keys.iter().filter(|key| !algorithms.contains(&key.algorithm)) {
        let names: Vec<_> = algorithms.iter().map(|algorithm| algorithm.as_str()).collect();
        let message =
            format!("{} is for {}; issuer.algorithms is [{}]", key.kid, key.algorithm, names.join(", "));
        findings.push(&ISSUER_ALGORITHM_UNLISTED, &key.place, message);
    }
    if !algorithms.contains(&Algorithm::Rs256) {
        findings.push(&ISSUER_NO_RS256, "issuer.algorithms", "RS256 is not listed");
    }
    let has = |state: KeyState, algorithm: Option<Algorithm>| {
        let fits = |key: &&RingKey| algorithm.is_none_or(|algorithm| key.algorithm == algorithm);
        ring.keys.iter().filter(fits).any(|key| key.state == state)
    };
    // Where no key is active at all, the ring's own finding says what to do; to add one or to list less would be wrong.
    for algorithm in algorithms.iter().filter(|_| has(KeyState::Active, None)) {
        if !has(KeyState::Active, Some(*algorithm)) {
            let waits =
                if has(KeyState::Pending, Some(*algorithm)) { "; one waits to be activated" } else { "" };
            let message = format!("no key is active for {algorithm}{waits}");
            findings.push(&ISSUER_ALGORITHM_WITHOUT_KEY, "issuer.algorithms", message);
        }
    }
    findings
}

/// Times that somebody has set and that do not hold. Defaults are nobody's wish.
fn check_times(ring: &Ring, rotation: &Rotation) -> Findings {
    let mut findings = Findings::new();
    if let Some(own) = ring.rotation.as_ref().filter(|own| *own != rotation)
        && *rotation != Rotation::default()
    {
        findings.push(&RING_OTHER_TIMES, "rotation", own.differences(rotation));
    }
    findings
}

fn parse_keys(ring: &Ring, findings: &mut Findings) -> (Vec<PublishedKey>, Vec<Candidate>) {
    let mut keys = Vec::new();
    let mut candidates = Vec::new();
    for key in ring.in_jwks_order() {
        if let Some(signer) = &key.kept {
            candidates.push(Candidate { signer: Arc::clone(signer), half: key.half });
        } else if let Some(private) = &key.private {
            match Signer::new(private, key.algorithm, key.kid.clone()) {
                Ok(signer) => candidates.push(Candidate { signer: Arc::new(signer), half: key.half }),
                Err(error) => findings.push(error.code(), &key.place, error.to_string()),
            }
        }
        match Verifier::new(&key.public, key.algorithm, key.kid.clone()) {
            Ok(verifier) => keys.push(PublishedKey {
                kid: key.kid.clone(),
                algorithm: key.algorithm,
                state: key.state,
                public: key.public.clone(),
                spki: key.public.spki_der(),
                has_private: key.private.is_some() || key.kept.is_some(),
                place: key.place.clone(),
                history: key.history.clone(),
                sealed_under: key.sealed_under.clone(),
                verifier,
            }),
            Err(error) => findings.push(&crate::codes::RING_MALFORMED, &key.place, error.to_string()),
        }
    }
    (keys, candidates)
}
