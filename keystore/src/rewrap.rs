//! Seals a ring anew: under another KEK, with another ring key, or for the first time.
//!
//! All halves go in one write, by compare-and-swap: whoever reads sees the ring before or after, and an attempt that
//! was cut short has changed nothing or everything. So it is resumed by being run again, and once it is done it changes
//! nothing any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use oneseal_coordination::{Clock, EventDraft, UnixTime};
use oneseal_providers::{Change, Entries, ErrorKind, ProviderError, SecretBytes, SecretProvider};
use serde_json::{Map, Value, json};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::codes::of_provider_error;
use crate::findings::{Code, chain};
use crate::fleet::Fleet;
use crate::material::{self, PrivateKey};
use crate::place::load;
use crate::reading::{self, Opening};
use crate::ring::document::is_document;
use crate::ring::halves::{Half, Split, split};
use crate::ring::log::{self, Entry};
use crate::ring::write::{HalfText, sign_and_render};
use crate::ring::{self, Origin, Reading, Ring, endorsement};
use crate::seal::{self, Kek, Keks, Purpose, SealedFor};
use crate::{Algorithm, Findings, GenerationPermit, Identity, IssuerUrl, KeyId};

mod guard;
mod uses;

pub use uses::{KekUse, kek_uses};

/// What is to be sealed, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RewrapRequest {
    /// Whose ring it is.
    pub issuer: IssuerUrl,
    /// Where the KEKs rest: the first is the one to seal under, all of them open.
    pub keks: Vec<Arc<dyn SecretProvider>>,
    /// Seal under this one instead; those of `keks` open. Needed where the ring is under another KEK than the first of
    /// `keks`. Default: none, the first of `keks`.
    pub to_kek: Option<Arc<dyn SecretProvider>>,
    /// The ring key that is believed. Default: none, the KEK vouches for it.
    pub pin: Option<KeyId>,
    /// Believe a ring that is not sealed, and seal it. Whoever could write the place until now could have put a key of
    /// theirs there: look at what `keys list` shows first.
    pub from_unsealed: bool,
    /// Make another ring key, which the one that is there endorses.
    pub new_ring_key: bool,
    /// The replicas, where there is a registry: each that signs must be able to open what is there and what will be.
    /// Default: none, and nobody is asked.
    pub fleet: Option<Fleet>,
    /// Look at everything, and write nothing.
    pub dry_run: bool,
    /// Who asks, for the ring's log.
    pub actor: String,
    /// Why, for the ring's log.
    pub reason: String,
}

impl RewrapRequest {
    /// Seals under the first of `keks` what is not sealed; what is under another of them wants `to_kek`.
    pub fn new(issuer: IssuerUrl, keks: Vec<Arc<dyn SecretProvider>>) -> Self {
        Self {
            issuer,
            keks,
            to_kek: None,
            pin: None,
            from_unsealed: false,
            new_ring_key: false,
            fleet: None,
            dry_run: false,
            actor: "keystore::rewrap".to_owned(),
            reason: "rewrap".to_owned(),
        }
    }
}

/// A private half that is about to be sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewrapping {
    /// Whose: a kid.
    pub kid: KeyId,
    /// Which of them, counted from 1, the ring key last.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// What is there now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rewrapped {
    /// Whether this call wrote it; otherwise it was so already, or it was to be looked at alone.
    pub changed: bool,
    /// Whether it was not so already.
    pub is_due: bool,
    /// The KEK that everything is sealed under.
    pub kek: String,
    /// The KEKs that halves were sealed under before, without that one.
    pub kek_before: Vec<String>,
    /// Thumbprint of the ring key: what a public-only replica pins.
    pub ring_key: KeyId,
    /// The ring key before, if this call replaced it.
    pub ring_key_before: Option<KeyId>,
    /// Which ring it is.
    pub identity: Identity,
    /// What else was found of the ring that was read.
    pub notes: Findings,
}

/// Seals the ring in `provider` as `request` says, and calls `tell` before each half is sealed.
///
/// # Errors
/// The ring is not believed or does not open, a replica could not open the new one, or the write failed. Nothing has
/// changed then, except where [`RewrapError::is_outcome_unknown`] says so: run it again.
///
/// # Cancel safety
/// Dropped, it has written the whole ring anew or nothing.
pub async fn rewrap(
    provider: &dyn SecretProvider,
    request: RewrapRequest,
    clock: &dyn Clock,
    tell: impl Fn(Rewrapping) + Send + Sync + 'static,
) -> Result<Rewrapped, RewrapError> {
    let target = request.to_kek.iter().chain(&request.keks).cloned().collect::<Vec<_>>();
    let (keks, _) = seal::load(&target).await.map_err(RewrapError::Refused)?;
    if keks.is_empty() {
        return Err(refused(&KEK_NOT_CONFIGURED, "kek", "no KEK is named"));
    }
    let record = load(provider).await.map_err(RewrapError::Refused)?;
    let revision = record.revision.clone();
    let opening = Opening {
        keks: keks.clone(),
        pin: request.pin.clone(),
        believe_unsealed: request.from_unsealed,
        ..Opening::default()
    };
    let (now, change_id) = (clock.wall(), Uuid::new_v4());
    let asked = request.clone();
    let work = move |entries: &Entries, reading: &Reading<'_>| {
        Job { request: &asked, keks: &keks, now, change_id, tell: &tell }.run(entries, reading)
    };
    let made = reading::read(Arc::new(record), &opening, work).await.result.map_err(RewrapError::Refused)?;
    let Made { mut report, entries } = made;
    let Some(entries) = entries else { return Ok(report) };
    provider
        .replace(&revision, entries, change(change_id, &request, &report))
        .await
        .map_err(RewrapError::Write)?;
    report.changed = true;
    Ok(report)
}

/// Why a ring was not sealed anew.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewrapError {
    /// The ring, a KEK or the fleet is not fit.
    #[error("{0}")]
    Refused(Findings),
    /// The provider did not write.
    #[error("the ring was not written")]
    Write(#[source] ProviderError),
}

impl RewrapError {
    /// Whether the ring may have been written all the same: run it again.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == ErrorKind::OutcomeUnknown)
    }

    /// Everything that is wrong, as findings.
    pub fn into_findings(self) -> Findings {
        match self {
            Self::Refused(findings) => findings,
            Self::Write(error) => {
                let mut findings = Findings::new();
                findings.push(of_provider_error(error.kind()), error.location(), chain(&error));
                findings
            }
        }
    }
}

/// The rows of this file.
pub(crate) fn codes() -> Vec<&'static Code> {
    [&[&KEK_NOT_CONFIGURED, &RING_BARE, &RING_NOT_REWRAPPED], guard::CODES].concat()
}

static KEK_NOT_CONFIGURED: Code = Code::refused(
    "kek.not_configured",
    "There is no key-encryption key to seal under.",
    "Configure [kek], or name one with --kek or --to-kek; `oneseal keys new-kek` makes one.",
);
static RING_BARE: Code = Code::refused(
    "ring.bare",
    "Bare keys have no ring document that could be sealed.",
    "Make a ring with `oneseal keys init` in a place of its own, and bring the key into it with `oneseal keys adopt`.",
);
static RING_NOT_REWRAPPED: Code = Code::refused(
    "ring.not_rewrapped",
    "The ring could not be sealed anew, and was left as it is.",
    "The finding says which key; a half that no KEK opens can only be restored from a backup, or its key be revoked.",
);
struct Made {
    report: Rewrapped,
    /// What is to be written; `None` if it is there already.
    entries: Option<Entries>,
}

struct Job<'a> {
    request: &'a RewrapRequest,
    keks: &'a Keks,
    now: UnixTime,
    change_id: Uuid,
    tell: &'a (dyn Fn(Rewrapping) + Sync),
}

impl Job<'_> {
    fn run(&self, entries: &Entries, reading: &Reading<'_>) -> Result<Made, Findings> {
        let document = entries.iter().find(|(name, value)| is_document(name, value.expose()));
        let Some((name, value)) = document else {
            return Err(one(&RING_BARE, "entries", "there is no ring document"));
        };
        let (ring, notes) = ring::read_with(entries, &self.request.issuer, reading)?;
        let split =
            split(value.expose()).map_err(|error| one(&RING_NOT_REWRAPPED, name, error.to_string()))?;
        let Some(target) = self.keks.current() else {
            return Err(one(&KEK_NOT_CONFIGURED, "kek", "no KEK is named"));
        };
        let Origin::Document { ring_key, .. } = &ring.origin else {
            return Err(one(&RING_BARE, "entries", "there is no ring document"));
        };
        let halves = || split.privates.values().chain(&split.ring_private);
        let under: BTreeSet<String> = halves().filter_map(kek_of).collect();
        let is_done = halves().all(|half| kek_of(half).as_deref() == Some(target.id()));
        let mut report = Rewrapped {
            changed: false,
            is_due: !is_done || self.request.new_ring_key,
            kek: target.id().to_owned(),
            kek_before: under.iter().filter(|id| *id != target.id()).cloned().collect(),
            ring_key: ring_key.clone(),
            ring_key_before: None,
            identity: ring.identity,
            notes,
        };
        if !report.is_due {
            return Ok(Made { report, entries: None });
        }
        if self.request.to_kek.is_none() {
            guard::check_direction(&under, target.id())?;
        }
        if let Some(fleet) = &self.request.fleet {
            let needed = under.iter().map(String::as_str).chain([target.id()]).collect();
            guard::check_fleet(fleet, &report.identity, &needed)?;
        }
        if self.request.dry_run {
            return Ok(Made { report, entries: None });
        }
        let bytes = self.write(&ring, split, target, &mut report)?;
        let mut written = Entries::new();
        for (other, value) in entries.iter().filter(|(other, _)| *other != name) {
            written.insert(other, SecretBytes::new(value.expose().to_vec()));
        }
        written.insert(name, bytes);
        let (after, _) = ring::read_with(
            &written,
            &self.request.issuer,
            &Reading { keks: Some(self.keks), ..Reading::default() },
        )?;
        report.identity = after.identity;
        Ok(Made { report, entries: Some(written) })
    }

    fn write(
        &self,
        ring: &Ring,
        split: Split<'_>,
        target: &Kek,
        report: &mut Rewrapped,
    ) -> Result<SecretBytes, Findings> {
        let of = split.privates.len() + 1;
        let mut halves = Vec::with_capacity(ring.keys.len());
        for (i, key) in ring.keys.iter().enumerate() {
            let Some(half) = split.privates.get(&i) else {
                halves.push(None);
                continue;
            };
            (self.tell)(Rewrapping { kid: key.kid.clone(), number: halves.iter().flatten().count() + 1, of });
            let sealed_for = self.sealed_for(Purpose::Signing, &key.kid, key.algorithm);
            halves.push(Some(self.seal(half, &sealed_for, target)?));
        }
        let Some(half) = &split.ring_private else {
            return Err(failed(&report.ring_key, "the ring key's private half is not in the document"));
        };
        let sealed_for = self.sealed_for(Purpose::Ring, &report.ring_key, Algorithm::EdDsa);
        let old = self.text(half, &sealed_for).and_then(|jwk| {
            PrivateKey::parse(jwk.as_bytes()).map_err(|error| failed(&report.ring_key, error.to_string()))
        })?;
        let mut public = split.public;
        let new = if self.request.new_ring_key {
            let new = self.new_ring_key(ring, &old, &mut public)?;
            report.ring_key_before = Some(std::mem::replace(&mut report.ring_key, new.public().thumbprint()));
            new
        } else {
            old
        };
        (self.tell)(Rewrapping { kid: report.ring_key.clone(), number: of, of });
        let ring_half = HalfText::of(
            &new,
            Some(target),
            &self.sealed_for(Purpose::Ring, &report.ring_key, Algorithm::EdDsa),
        );
        let ring_half = ring_half.map_err(|error| failed(&report.ring_key, chain(&error)))?;
        self.advance(&mut public, ring, report);
        let bytes = sign_and_render(Value::Object(public), &halves, Some(&ring_half), &new);
        let mut bytes = bytes.map_err(|error| failed(&report.ring_key, chain(&error)))?;
        Ok(SecretBytes::new(std::mem::take(&mut *bytes)))
    }

    fn sealed_for<'k>(&'k self, purpose: Purpose, key_kid: &'k KeyId, key_alg: Algorithm) -> SealedFor<'k> {
        SealedFor { purpose, key_kid, key_alg, issuer: &self.request.issuer }
    }

    fn seal(&self, half: &Half<'_>, sealed_for: &SealedFor<'_>, target: &Kek) -> Result<HalfText, Findings> {
        let jwk = self.text(half, sealed_for)?;
        let jwe =
            target.seal(sealed_for, &jwk).map_err(|error| failed(sealed_for.key_kid, error.to_string()))?;
        Ok(HalfText::sealed(&jwe))
    }

    /// The text of the private JWK in a half.
    fn text(&self, half: &Half<'_>, sealed_for: &SealedFor<'_>) -> Result<Zeroizing<String>, Findings> {
        match half {
            Half::Plain(raw) => Ok(Zeroizing::new(raw.get().to_owned())),
            Half::Sealed(raw) => {
                let jwe = Half::jwe(raw).unwrap_or_default();
                self.keks.open(sealed_for, jwe).map_err(|error| failed(sealed_for.key_kid, error.to_string()))
            }
            Half::Both => Err(failed(sealed_for.key_kid, "it has both `private` and `sealed`")),
        }
    }

    /// Makes another ring key, has the one that is there endorse it, and puts it into the document.
    fn new_ring_key(
        &self,
        ring: &Ring,
        old: &PrivateKey,
        public: &mut Map<String, Value>,
    ) -> Result<PrivateKey, Findings> {
        let kid = old.public().thumbprint();
        let permit = GenerationPermit::for_opened_ring(ring)
            .ok_or_else(|| failed(&kid, "no key that signs is open, so no other key is made"))?;
        let new =
            material::generate(&permit, Algorithm::EdDsa).map_err(|error| failed(&kid, error.to_string()))?;
        let endorsement = endorsement::write(old, new.public(), &self.request.issuer);
        let endorsement = endorsement.map_err(|error| failed(&kid, chain(&error)))?;
        let Some(Value::Object(member)) = public.get_mut("ring_key") else {
            return Err(failed(&kid, "there is no ring_key"));
        };
        let mut endorsements = match member.remove("endorsements") {
            Some(Value::Array(endorsements)) => endorsements,
            _ => Vec::new(),
        };
        endorsements.push(endorsement.into());
        let surplus = endorsements.len().saturating_sub(endorsement::MAX);
        endorsements.drain(..surplus);
        member.insert("kid".to_owned(), new.public().thumbprint().as_str().into());
        member.insert("public".to_owned(), new.public().to_jwk_map().into());
        member.insert("endorsements".to_owned(), endorsements.into());
        Ok(new)
    }

    /// The next revision of the document, with what was done in its log.
    fn advance(&self, public: &mut Map<String, Value>, ring: &Ring, report: &Rewrapped) {
        let change_id = self.change_id.to_string();
        let written_at = public.get("written_at").and_then(Value::as_i64).unwrap_or_default();
        // Never before the revision that it follows, whatever this host's clock says.
        let now = self.now.as_secs().max(written_at);
        public.insert("revision".to_owned(), (ring.identity.revision + 1).into());
        public.insert("prev_digest".to_owned(), ring.identity.digest.to_string().into());
        public.insert("change_id".to_owned(), change_id.as_str().into());
        public.insert("written_at".to_owned(), now.into());
        let Some(Value::Array(log)) = public.get_mut("log") else { return };
        let replaced =
            report.ring_key_before.is_some().then_some(("ring.key_replaced", Some(report.ring_key.as_str())));
        for (kind, kid) in replaced.into_iter().chain([("ring.rewrapped", None)]) {
            let entry = Entry {
                at: now,
                kind,
                kid,
                actor: &self.request.actor,
                reason: &self.request.reason,
                change_id: &change_id,
                request: None,
            };
            log::append_to(log, &entry);
        }
    }
}

fn kek_of(half: &Half<'_>) -> Option<String> {
    match half {
        Half::Sealed(raw) => seal::kek_of(Half::jwe(raw)?).ok(),
        Half::Plain(_) | Half::Both => None,
    }
}

fn change(id: Uuid, request: &RewrapRequest, report: &Rewrapped) -> Change {
    let payload = json!({
        "issuer": request.issuer.as_str(),
        "revision": report.identity.revision,
        "kek": report.kek,
        "kek_before": report.kek_before,
        "ring_key": report.ring_key.as_str(),
        "ring_key_before": report.ring_key_before.as_ref().map(KeyId::as_str),
        "from_unsealed": request.from_unsealed,
    });
    Change {
        id,
        actor: request.actor.clone(),
        reason: request.reason.clone(),
        event: EventDraft::new("ring.rewrapped", payload.to_string()),
        fence: None,
    }
}

fn failed(kid: &KeyId, why: impl Into<String>) -> Findings {
    one(&RING_NOT_REWRAPPED, kid.as_str(), why)
}

fn refused(code: &'static Code, place: &str, why: &str) -> RewrapError {
    RewrapError::Refused(one(code, place, why))
}

fn one(code: &'static Code, place: &str, why: impl Into<String>) -> Findings {
    let mut findings = Findings::new();
    findings.push(code, place, why);
    findings
}
