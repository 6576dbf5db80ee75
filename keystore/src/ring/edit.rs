//! A ring document on its way to its next revision.
//!
//! A draft is the document taken apart: its public members as they stand, those of a later version among them, and the
//! private halves as raw text, so that a sealed one is carried over unopened and a plain one byte for byte. A
//! [`Step`] changes it, and [`Draft::commit`] puts it together again: one revision higher, chained to
//! the one before, and signed by the ring key.

mod error;
mod parts;

use std::collections::BTreeSet;
use std::sync::Arc;

use oneseal_coordination::UnixTime;
use serde_json::{Map, Value};
use uuid::Uuid;
use zeroize::Zeroizing;

pub use self::error::DraftError;
use self::parts::{Half, Parts, write_with_half};
use super::KeyState;
use super::document::{SIG_TYP, canonical};
use super::log::{self, Entry};
use super::view::{KeyView, LogEntry, TombstoneState, TombstoneView};
use super::write::WriteError;
use crate::json;
use crate::material::PrivateKey;
use crate::seal::{Kek, Keks, Purpose, SealedFor};
use crate::signer::Signer;
use crate::steps::{Edit, Key, State, Step};
use crate::{Algorithm, Digest, GenerationPermit, IssuerUrl, KeyId, PublicKey, Rotation};

/// A document that is being changed. `Debug` shows no private half.
pub struct Draft {
    /// The public members but for `keys`, `tombstones`, `rotation` and `log`.
    members: Map<String, Value>,
    keys: Vec<DraftKey>,
    tombstones: Vec<Value>,
    rotation: Value,
    log: Vec<Value>,
    ring_half: Option<Half>,
    ring_kid: KeyId,
    /// Once it is unlocked.
    ring_key: Option<PrivateKey>,
    /// The digest of the revision that this was read from.
    digest: Digest,
    issuer: IssuerUrl,
    /// What new halves are sealed under, once it is unlocked; `None` where the ring is not sealed.
    kek: Option<Arc<Kek>>,
}

/// One key, with the members that this version does not know.
struct DraftKey {
    members: Map<String, Value>,
    view: KeyView,
    half: Option<Half>,
}

/// Who changes a ring, and why: for its log.
#[derive(Clone, Debug)]
pub struct Signature<'a> {
    /// The change's id, by which it is found again.
    pub change_id: Uuid,
    /// Who.
    pub actor: &'a str,
    /// Why; cut at 200 bytes.
    pub reason: &'a str,
    /// What was asked for, as [`Request::fingerprint`](crate::steps::Request::fingerprint) names it, if it was a request.
    pub request: Option<&'a str>,
}

/// What the log tells of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Kind and kid of each of its entries, in order.
    pub changes: Vec<(String, Option<String>)>,
    /// When it was.
    pub at: UnixTime,
    /// What was asked for, by its fingerprint; `None` if it was no request, or the log reaches not back so far.
    pub request: Option<String>,
}

impl Draft {
    /// Takes `document` apart, which must have been read and found good as the ring of `issuer` before: nothing of it is
    /// judged here.
    ///
    /// # Errors
    /// It is not such a document.
    pub fn open(document: &[u8], issuer: &IssuerUrl) -> Result<Self, DraftError> {
        let text = std::str::from_utf8(document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document))
            .map_err(|_| DraftError::Shape("it is not UTF-8"))?;
        let mut parts = Parts::default();
        for (name, raw) in json::members(text)? {
            parts.take(name, raw)?;
        }
        let mut public = parts.members;
        if public.get("issuer").and_then(Value::as_str) != Some(issuer.as_str()) {
            return Err(DraftError::Shape("it is the ring of another issuer"));
        }
        let ring_kid = public.get("ring_key").and_then(|key| key.get("kid")).and_then(Value::as_str);
        let ring_kid = ring_kid.and_then(|kid| KeyId::parse(kid).ok());
        let ring_kid = ring_kid.ok_or(DraftError::Shape("ring_key has no kid"))?;
        let raw: Vec<_> = parts.keys.iter().map(|(members, _)| Value::Object(members.clone())).collect();
        public.insert("keys".to_owned(), Value::Array(raw));
        let digest = Digest::of(&canonical(&public));
        public.remove("keys");
        let mut keys = Vec::new();
        for (members, half) in parts.keys {
            let view = serde_json::from_value(Value::Object(members.clone()))?;
            keys.push(DraftKey { members, view, half });
        }
        let mut list = |name: &str| match public.remove(name) {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(DraftError::Shape("a list is missing")),
        };
        let (tombstones, log) = (list("tombstones")?, list("log")?);
        let rotation = public.remove("rotation").ok_or(DraftError::Shape("rotation is missing"))?;
        let ring_half = parts.ring_half;
        let members = public;
        let issuer = issuer.clone();
        let (ring_key, kek) = (None, None);
        Ok(Self {
            members,
            keys,
            tombstones,
            rotation,
            log,
            ring_half,
            ring_kid,
            ring_key,
            digest,
            issuer,
            kek,
        })
    }

    /// Opens the ring key, a sealed one by `keks`: without it nothing can be signed, and no key made. New halves are
    /// sealed under the first of them, where there is one.
    ///
    /// # Errors
    /// Its private half is not here, does not open, or is that of another key.
    pub fn unlock(&mut self, keks: &Keks) -> Result<(), DraftError> {
        let half = self.ring_half.as_ref().ok_or(DraftError::Locked)?;
        let sealed_for = SealedFor {
            purpose: Purpose::Ring,
            key_kid: &self.ring_kid,
            key_alg: Algorithm::EdDsa,
            issuer: &self.issuer,
        };
        let key = half.open(&sealed_for, keks)?;
        self.kek = keks.current().cloned();
        if key.public().thumbprint() != self.ring_kid {
            return Err(DraftError::RingKey);
        }
        self.ring_key = Some(key);
        Ok(())
    }

    /// What is to be told where new halves would be sealed under another KEK than the ring key is, which every rewrap
    /// takes along.
    pub fn sealed_apart(&self, keks: &Keks) -> Option<String> {
        let (theirs, ours) = (self.ring_half.as_ref()?.kek()?, keks.current()?.id());
        (theirs != ours).then(|| {
            format!(
                "the new keys are sealed under the KEK {ours}, which is [kek] here, and the ring key under {theirs}: if \
                 {theirs} is the newer one, make it [kek] everywhere, then `oneseal keys rewrap --to-kek` with its URI; \
                 if {ours} has leaked, revoke these keys too after that"
            )
        })
    }

    /// What a decision looks at: public facts alone.
    ///
    /// # Errors
    /// A member is not what it must be.
    pub fn state(&self) -> Result<State, DraftError> {
        let rotation: Rotation = serde_json::from_value(self.rotation.clone())?;
        let stones: Vec<TombstoneView> = serde_json::from_value(Value::Array(self.tombstones.clone()))?;
        let log = self.log()?;
        let keys = self.keys.iter().map(|key| key.state(&log)).collect::<Result<Vec<_>, _>>()?;
        let buried: BTreeSet<String> =
            stones.into_iter().flat_map(|stone| [stone.kid, stone.thumbprint]).collect();
        Ok(State {
            rotation,
            keys,
            buried,
            ring_key: self.ring_kid.clone(),
            incarnation: self.number_of().0,
            revision: self.number_of().1,
            digest: self.digest,
            latest: self.latest(),
        })
    }

    /// The licence to make keys for this ring: it is unlocked, and has a key that signs or is about to.
    pub fn permit(&self) -> Option<GenerationPermit> {
        self.ring_key.as_ref()?;
        let is_alive = |key: &DraftKey| {
            key.half.is_some() && matches!(key.view.state, KeyState::Active | KeyState::Pending)
        };
        self.keys.iter().any(is_alive).then(GenerationPermit::for_next_key)
    }

    /// What the log tells of the change `id`, if anything.
    ///
    /// # Errors
    /// The log is not what it must be.
    pub fn told(&self, id: Uuid) -> Result<Option<Told>, DraftError> {
        let id = id.to_string();
        let entries: Vec<_> = self.log()?.into_iter().filter(|entry| entry.change_id == id).collect();
        let Some(first) = entries.first() else { return Ok(None) };
        let (at, request) = (UnixTime(first.at), first.request.clone());
        let changes = entries.into_iter().map(|entry| (entry.kind, entry.kid)).collect();
        Ok(Some(Told { changes, at, request }))
    }

    /// Its incarnation's number, and its revision.
    pub fn number_of(&self) -> (u64, u64) {
        let incarnation = self.members.get("incarnation").and_then(|part| part.get("number"));
        (incarnation.and_then(Value::as_u64).unwrap_or_default(), self.number("revision"))
    }

    /// The digest of the revision that it was read from.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Does what was decided, each edit with an entry in the log. `made` are the private keys that the step asks for, in
    /// the order of its edits; `now` is the time of the decision.
    ///
    /// # Errors
    /// A key that the step names is not there, or too few were made. The draft is then of no more use.
    pub fn apply(
        &mut self,
        step: &Step,
        made: &[&PrivateKey],
        by: &Signature<'_>,
        now: UnixTime,
    ) -> Result<(), DraftError> {
        let mut made = made.iter().copied();
        // In the first entry alone: the log is short.
        let mut request = by.request;
        for edit in &step.edits {
            let kid = self.edit(edit, &mut made, by, now)?;
            let entry = Entry {
                at: now.as_secs(),
                kind: edit.kind(),
                kid: kid.as_deref(),
                actor: by.actor,
                reason: by.reason,
                change_id: &by.change_id.to_string(),
                request: request.take(),
            };
            log::append_to(&mut self.log, &entry);
        }
        Ok(())
    }

    /// The document's bytes, as the revision after the one that it was read from.
    ///
    /// # Errors
    /// It could not be signed or written.
    pub fn commit(mut self, by: &Signature<'_>, now: UnixTime) -> Result<Zeroizing<Vec<u8>>, DraftError> {
        let now = now.max(self.latest());
        let revision = self.number("revision") + 1;
        for (name, value) in [
            ("revision", revision.into()),
            ("prev_digest", self.digest.to_string().into()),
            ("change_id", by.change_id.to_string().into()),
            ("written_at", now.as_secs().into()),
            // Written by hand: nobody leads.
            ("writer", Value::Null),
            ("rotation", self.rotation.clone()),
            ("tombstones", Value::Array(std::mem::take(&mut self.tombstones))),
            ("log", Value::Array(std::mem::take(&mut self.log))),
        ] {
            self.members.insert(name.to_owned(), value);
        }
        let mut keys = Vec::new();
        for key in &self.keys {
            keys.push(Value::Object(key.written()?));
        }
        self.members.insert("keys".to_owned(), Value::Array(keys));
        let mut public = Value::Object(std::mem::take(&mut self.members));
        public.sort_all_objects();
        let Value::Object(public) = public else { return Err(WriteError::Shape.into()) };
        let ring_key = self.ring_key.as_ref().ok_or(DraftError::Locked)?;
        let signer =
            Signer::new(ring_key, Algorithm::EdDsa, self.ring_kid.clone()).map_err(WriteError::from)?;
        let sig = signer.sign_detached(SIG_TYP, &canonical(&public)).map_err(WriteError::from)?;
        self.render(&public, &sig)
    }

    /// One edit; the kid that it is about.
    fn edit<'a>(
        &mut self,
        edit: &Edit,
        made: &mut impl Iterator<Item = &'a PrivateKey>,
        by: &Signature<'_>,
        now: UnixTime,
    ) -> Result<Option<String>, DraftError> {
        let now_s = now.as_secs();
        match edit {
            Edit::Times(times) => self.set_times(times)?,
            // Its entry in the log is all there is.
            Edit::JoinEmergency => {}
            Edit::Publish { algorithm, activate_after, emergency, .. } => {
                let key = made.next().ok_or(DraftError::Shape("a key was not made"))?;
                let mut view = published(key.public(), *algorithm, now_s);
                view.activate_after = Some(activate_after.as_secs());
                view.emergency_at = emergency.then_some(now_s);
                return Ok(Some(self.push(view, Some(key), *algorithm)?));
            }
            Edit::Adopt(adopted) => {
                let key = if adopted.with_private { made.next() } else { None };
                let mut view = published(&adopted.public, adopted.algorithm, now_s);
                view.kid = adopted.kid.to_string();
                view.adopted_kid = adopted.kid != adopted.public.thumbprint();
                view.state = adopted.state;
                view.activate_after = adopted.activate_after.map(UnixTime::as_secs);
                match adopted.state {
                    KeyState::Pending => {}
                    KeyState::Active => {
                        view.activated_at = Some(now_s);
                        view.ttl_high_water_s = adopted.ttl_high_water_s;
                    }
                    KeyState::Retiring => {
                        view.retiring_at = Some(now_s);
                        view.remove_after = adopted.remove_after.map(UnixTime::as_secs);
                    }
                }
                view.reason = Some(by.reason.to_owned()).filter(|reason| !reason.is_empty());
                return Ok(Some(self.push(view, key, adopted.algorithm)?));
            }
            Edit::Activate { kid, ttl_high_water_s } | Edit::RollBack { kid, ttl_high_water_s } => {
                let view = &mut self.find(kid)?.view;
                view.state = KeyState::Active;
                view.activated_at = Some(now_s);
                view.ttl_high_water_s = view.ttl_high_water_s.max(Some(*ttl_high_water_s));
                (view.activate_after, view.emergency_at) = (None, None);
                (view.retiring_at, view.erase_private_after, view.remove_after) = (None, None, None);
                view.reason = None;
            }
            Edit::Retire { kid, erase_private_after, remove_after } => {
                let view = &mut self.find(kid)?.view;
                view.state = KeyState::Retiring;
                view.retiring_at = Some(now_s);
                view.erase_private_after = Some(erase_private_after.as_secs());
                view.remove_after = Some(remove_after.as_secs());
                view.reason = Some(by.reason.to_owned()).filter(|reason| !reason.is_empty());
            }
            Edit::Extend { kid, remove_after } => {
                self.find(kid)?.view.remove_after = Some(remove_after.as_secs());
            }
            Edit::Hasten { kid } => self.find(kid)?.view.emergency_at = Some(now_s),
            Edit::ErasePrivate { kid } => self.find(kid)?.half = None,
            Edit::Remove { kid } => self.bury(kid, TombstoneState::Retired, now_s)?,
            Edit::Revoke { kid } => self.bury(kid, TombstoneState::Revoked, now_s)?,
        }
        Ok(edit.kid().map(ToOwned::to_owned))
    }

    /// Other times; a key that signs may sign longer tokens from now on.
    fn set_times(&mut self, times: &Rotation) -> Result<(), DraftError> {
        let (Value::Object(known), Value::Object(all)) = (serde_json::to_value(times)?, &mut self.rotation)
        else {
            return Err(WriteError::Shape.into());
        };
        all.extend(known);
        for key in self.keys.iter_mut().filter(|key| key.view.state == KeyState::Active) {
            key.view.ttl_high_water_s = key.view.ttl_high_water_s.max(Some(times.max_token_ttl_s));
        }
        Ok(())
    }

    fn push(
        &mut self,
        view: KeyView,
        key: Option<&PrivateKey>,
        algorithm: Algorithm,
    ) -> Result<String, DraftError> {
        let kid = view.kid.clone();
        let key_kid = KeyId::parse(&kid).map_err(|_| DraftError::Shape("a kid is none"))?;
        let sealed_for = SealedFor {
            purpose: Purpose::Signing,
            key_kid: &key_kid,
            key_alg: algorithm,
            issuer: &self.issuer,
        };
        let half = key.map(|key| Half::of(key, &sealed_for, self.kek.as_deref())).transpose()?;
        self.keys.push(DraftKey { members: Map::new(), view, half });
        Ok(kid)
    }

    fn bury(&mut self, kid: &str, state: TombstoneState, at: i64) -> Result<(), DraftError> {
        let position = self.keys.iter().position(|key| key.view.kid == kid).ok_or(DraftError::NoKey)?;
        let key = self.keys.remove(position);
        let thumbprint = key.public()?.thumbprint().to_string();
        let stone = TombstoneView { kid: key.view.kid, thumbprint, state, at };
        self.tombstones.push(serde_json::to_value(stone)?);
        Ok(())
    }

    fn find(&mut self, kid: &str) -> Result<&mut DraftKey, DraftError> {
        self.keys.iter_mut().find(|key| key.view.kid == kid).ok_or(DraftError::NoKey)
    }

    fn log(&self) -> Result<Vec<LogEntry>, DraftError> {
        Ok(serde_json::from_value(Value::Array(self.log.clone()))?)
    }

    fn number(&self, name: &str) -> u64 {
        self.members.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// The latest moment at which something happened, by the document's own word.
    fn latest(&self) -> UnixTime {
        let written = self.members.get("written_at").and_then(Value::as_i64);
        let told = self.log.last().and_then(|entry| entry.get("at")).and_then(Value::as_i64);
        let of_key = self.keys.iter().flat_map(|key| {
            let view = &key.view;
            [Some(view.created_at), view.published_at, view.activated_at, view.retiring_at]
        });
        UnixTime(of_key.chain([written, told]).flatten().max().unwrap_or_default())
    }

    /// The whole document as JSON text, in a buffer that never moves: a reallocation would leave a copy behind.
    fn render(&self, public: &Map<String, Value>, sig: &str) -> Result<Zeroizing<Vec<u8>>, DraftError> {
        let halves = self.keys.iter().filter_map(|key| key.half.as_ref()).chain(&self.ring_half);
        let secret: usize = halves.map(|half| half.text.len() + half.name.len() + 8).sum();
        let fixed = serde_json::to_vec(public)?.len() + sig.len() + 64;
        let mut out = Zeroizing::new(Vec::with_capacity(fixed + secret));
        out.push(b'{');
        for (name, value) in public {
            serde_json::to_writer(&mut *out, name)?;
            out.push(b':');
            match (name.as_str(), value) {
                ("keys", Value::Array(keys)) => {
                    out.push(b'[');
                    for (i, (key, draft)) in keys.iter().zip(&self.keys).enumerate() {
                        if i > 0 {
                            out.push(b',');
                        }
                        write_with_half(&mut out, key, draft.half.as_ref())?;
                    }
                    out.push(b']');
                }
                ("ring_key", key) => write_with_half(&mut out, key, self.ring_half.as_ref())?,
                _ => serde_json::to_writer(&mut *out, value)?,
            }
            out.push(b',');
        }
        out.extend_from_slice(b"\"sig\":");
        serde_json::to_writer(&mut *out, sig)?;
        out.extend_from_slice(b"}\n");
        debug_assert!(out.len() <= fixed + secret, "the buffer moved");
        Ok(out)
    }
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kids: Vec<_> = self.keys.iter().map(|key| (&key.view.kid, key.view.state)).collect();
        f.debug_struct("Draft").field("revision", &self.number("revision")).field("keys", &kids).finish()
    }
}

impl DraftKey {
    fn public(&self) -> Result<PublicKey, DraftError> {
        PublicKey::from_jwk(&self.view.public).map_err(|_| DraftError::Shape("a public half is none"))
    }

    fn state(&self, log: &[LogEntry]) -> Result<Key, DraftError> {
        let (view, public) = (&self.view, self.public()?);
        let algorithm = view.alg.parse().map_err(|_| DraftError::Shape("an algorithm is none"))?;
        let erased = log
            .iter()
            .rev()
            .find(|entry| entry.kind == ERASED && entry.kid.as_deref() == Some(view.kid.as_str()));
        Ok(Key {
            kid: view.kid.clone(),
            thumbprint: public.thumbprint(),
            algorithm,
            rsa_bits: public.rsa_bits(),
            state: view.state,
            has_private: self.half.is_some(),
            sealed_under: self.half.as_ref().and_then(Half::kek),
            created_at: UnixTime(view.created_at),
            published_at: view.published_at.map(UnixTime),
            activate_after: view.activate_after.map(UnixTime),
            emergency_at: view.emergency_at.map(UnixTime),
            activated_at: view.activated_at.map(UnixTime),
            retiring_at: view.retiring_at.map(UnixTime),
            erase_private_after: view.erase_private_after.map(UnixTime),
            erased_at: erased.map(|entry| UnixTime(entry.at)),
            remove_after: view.remove_after.map(UnixTime),
            ttl_high_water_s: view.ttl_high_water_s,
        })
    }

    /// What this version knows, over what it does not.
    fn written(&self) -> Result<Map<String, Value>, DraftError> {
        let Value::Object(known) = serde_json::to_value(&self.view)? else {
            return Err(WriteError::Shape.into());
        };
        let mut all = self.members.clone();
        for optional in ["activate_after", "emergency_at", "adopted_kid", "reason"] {
            all.remove(optional);
        }
        all.extend(known);
        Ok(all)
    }
}

fn published(public: &PublicKey, algorithm: Algorithm, now_s: i64) -> KeyView {
    KeyView {
        kid: public.thumbprint().to_string(),
        alg: algorithm.as_str().to_owned(),
        state: KeyState::Pending,
        public: public.to_jwk_map(),
        created_at: now_s,
        published_at: Some(now_s),
        activated_at: None,
        retiring_at: None,
        erase_private_after: None,
        remove_after: None,
        ttl_high_water_s: None,
        activate_after: None,
        emergency_at: None,
        adopted_kid: false,
        reason: None,
    }
}

const ERASED: &str = "key.private_erased";
