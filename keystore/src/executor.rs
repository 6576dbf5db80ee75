//! Carries out one key verb: load, open, decide, replace by compare-and-swap.
//!
//! Whoever receives a verb executes it: there is no leader. Two that come at the same time are put in order by the
//! store: the loser loads what the winner has written and decides again. The change's id is the idempotency key: it
//! stands in the ring's log, so that a repeated order finds what it has done, and one whose answer was lost
//! (`OutcomeUnknown`) finds out by looking.

mod answer;
mod error;
mod recover;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::{Clock, EventDraft, UnixTime};
use oneseal_providers::{Change, Entries, ErrorKind, Record, Revision, SecretBytes, SecretProvider};
use serde_json::json;
use uuid::Uuid;

pub use self::answer::{Changed, Done, Keys};
pub use self::error::ExecuteError;
pub use self::recover::{NotRecovered, RECOVERED, Recovered, Recovery};
use crate::fleet::Fleet;
use crate::material::{self, PrivateKey};
use crate::place::load;
use crate::reading::off_worker;
use crate::ring::document;
use crate::ring::edit::{Draft, Signature};
use crate::ring::{Mode, Reading};
use crate::seal::{self, Keks};
use crate::steps::{self, Adoption, Conditions, Edit, Next, Observation, Request, State, Step};
use crate::{Algorithm, GenerationPermit, IssuerUrl, KeyId, KeyType, KeystoreOptions, Snapshot, ring};

/// Tells who publishes, each time that something is to be decided.
pub trait Observer: std::fmt::Debug + Send + Sync + 'static {
    /// The fleet as it is now.
    ///
    /// # Errors
    /// The registry gives no answer: nothing is decided without one.
    fn observe(&self) -> Pin<Box<dyn Future<Output = Result<Observed, ObserveError>> + Send + '_>>;
}

/// What an [`Observer`] has seen.
#[derive(Clone, Debug)]
pub enum Observed {
    /// The registry's rows.
    Fleet(Fleet),
    /// There is no registry.
    Nobody,
}

/// Why the fleet could not be seen.
#[derive(Debug, thiserror::Error)]
#[error("the registry of replicas gives no answer")]
pub struct ObserveError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Without a database there is no registry.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRegistry;

impl Observer for NoRegistry {
    fn observe(&self) -> Pin<Box<dyn Future<Output = Result<Observed, ObserveError>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(Observed::Nobody)))
    }
}

/// Who may change which ring, and by what it is judged.
#[derive(Clone, Debug)]
pub struct Executor {
    provider: Arc<dyn SecretProvider>,
    options: KeystoreOptions,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
}

/// One verb, with who asks and why.
#[derive(Debug)]
pub struct Order {
    /// The idempotency key.
    pub change_id: Uuid,
    /// Who asks, for the ring's log.
    pub actor: String,
    /// Why, for the ring's log: at most 200 bytes.
    pub reason: String,
    /// What.
    pub request: Request,
    /// Whether time alone is trusted where there is no registry.
    pub unproven_replicas: bool,
    /// Whether only to say what would be done: all of it is tried, up to the write.
    pub dry_run: bool,
}

impl Executor {
    /// For the ring at `provider`. The `options` are those of a replica: whose ring it is, the algorithms that discovery
    /// announces, and the times of configuration, which the next change takes over if their generation is higher.
    pub fn new(
        provider: Arc<dyn SecretProvider>,
        options: KeystoreOptions,
        observer: Arc<dyn Observer>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { provider, options, observer, clock }
    }

    /// Whose ring it is.
    pub fn issuer(&self) -> &IssuerUrl {
        &self.options.issuer
    }

    /// The ring as the store holds it, and what may come next.
    ///
    /// # Errors
    /// It cannot be read, or the registry does not answer.
    pub async fn look(&self) -> Result<Keys, ExecuteError> {
        let (observed, Loaded { draft, .. }) = self.see().await?;
        let state = draft.state().map_err(ExecuteError::Draft)?;
        let next = steps::outlook(&state, &self.conditions(&state, &observed, true));
        Ok(Keys { state, next })
    }

    /// Does what `order` asks for.
    ///
    /// # Errors
    /// Nothing has been changed then, except where [`ExecuteError::OutcomeUnknown`] says so: order the same again, with the
    /// same id.
    ///
    /// # Cancel safety
    /// Dropped, a whole revision was written or nothing; the same order again tells which.
    pub async fn execute(&self, order: &Order) -> Result<Done, ExecuteError> {
        check(order)?;
        if self.options.mode == Mode::PublicOnly {
            return Err(ExecuteError::PublicOnly);
        }
        let mut made = Made::default();
        let mut lost: Option<oneseal_providers::ProviderError> = None;
        for attempt in 0..ATTEMPTS {
            tokio::time::sleep(pause(attempt)).await;
            let (observed, loaded) = match (self.see().await, lost.take()) {
                (Ok(seen), _) => seen,
                (Err(_), Some(error)) => return Err(ExecuteError::OutcomeUnknown(error)),
                (Err(error), None) => return Err(error),
            };
            let state = loaded.draft.state().map_err(ExecuteError::Draft)?;
            if let Some(told) = loaded.draft.told(order.change_id).map_err(ExecuteError::Draft)? {
                let next = steps::outlook(&state, &self.conditions(&state, &observed, true));
                return answer::repeated(order, told, state, next);
            }
            let mut conditions = self.conditions(&state, &observed, order.unproven_replicas);
            conditions.seals_under = loaded.keks.current().map(|kek| kek.id().to_owned());
            let mut step =
                steps::decide(&state, &order.request, &conditions).map_err(ExecuteError::Refused)?;
            if step.makes_half() {
                step.notes.extend(loaded.draft.sealed_apart(&loaded.keks));
            }
            let now = conditions.now;
            if step.edits.is_empty() {
                let next = steps::outlook(&state, &self.conditions(&state, &observed, true));
                return Ok(answer::done_before(order, &step, state, next, now));
            }
            let Loaded { mut draft, name, record, keks } = loaded;
            draft.unlock(&keks).map_err(ExecuteError::Draft)?;
            made.see(&step, draft.permit()).await?;
            let written = self.write(draft, &step, order, &made, now, keks).await?;
            let event = event(order, &written.changes, &state, &written.state);
            if order.dry_run {
                let conditions = self.conditions(&written.state, &observed, true);
                let next = written.without_new_keys(steps::outlook(&written.state, &conditions));
                self.try_write(&record, &name, written.bytes, order, event).await?;
                return Ok(answer::dry(order, &step, state, next, now));
            }
            let outcome = self.replace(&record, &name, written.bytes, order, event).await;
            match outcome {
                Ok(_) => {
                    let conditions = self.conditions(&written.state, &observed, true);
                    let next = steps::outlook(&written.state, &conditions);
                    return Ok(answer::done(order, &step, written.changes, written.state, next, now));
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => lost = Some(error),
                Err(error) if error.kind() == ErrorKind::ChangeIdUsed => {
                    return Err(ExecuteError::ChangeIdOld(error));
                }
                Err(error) => return Err(ExecuteError::Write(error)),
            }
        }
        Err(lost.map_or(ExecuteError::Contended, ExecuteError::OutcomeUnknown))
    }

    /// Whether a change could be written at all: everything but the rules of the verbs, which are for the moment of an order.
    /// Nothing is changed.
    ///
    /// # Errors
    /// As [`execute`](Self::execute); an emergency would meet the same.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn rehearse(&self) -> Result<(), ExecuteError> {
        let order = Order {
            change_id: Uuid::new_v4(),
            actor: "a rehearsal".to_owned(),
            reason: String::new(),
            request: Request::Retire { kid: None },
            unproven_replicas: true,
            dry_run: true,
        };
        let loaded = self.load().await?;
        let state = loaded.draft.state().map_err(ExecuteError::Draft)?;
        let now = self.clock.wall();
        self.try_out(loaded, &order, &state, now).await
    }

    /// Does with a revision that changes nothing what is done with every other one, and takes it back.
    async fn try_out(
        &self,
        loaded: Loaded,
        order: &Order,
        state: &State,
        now: UnixTime,
    ) -> Result<(), ExecuteError> {
        let Loaded { mut draft, name, record, keks } = loaded;
        draft.unlock(&keks).map_err(ExecuteError::Draft)?;
        let by = Signature {
            change_id: order.change_id,
            actor: &order.actor,
            reason: &order.reason,
            request: None,
        };
        let mut bytes = draft.commit(&by, now).map_err(ExecuteError::Draft)?;
        let document = SecretBytes::new(std::mem::take(&mut *bytes));
        self.try_write(&record, &name, document, order, event(order, &[], state, state)).await
    }

    /// All of a write but its end.
    async fn try_write(
        &self,
        record: &Record,
        name: &str,
        document: SecretBytes,
        order: &Order,
        event: EventDraft,
    ) -> Result<(), ExecuteError> {
        let (entries, change) = written(record, name, document, order, event);
        match self.provider.rehearse(&record.revision, entries, change).await {
            // Somebody has just written: so it can be done.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            Err(error) if error.kind() == ErrorKind::ChangeIdUsed => Err(ExecuteError::ChangeIdOld(error)),
            outcome => outcome.map_err(ExecuteError::Write),
        }
    }

    fn conditions<'a>(&'a self, state: &State, observed: &'a Observed, is_accepted: bool) -> Conditions<'a> {
        let (observation, now) = match observed {
            Observed::Fleet(fleet) => (Observation::Fleet(fleet), fleet.now),
            Observed::Nobody => (Observation::Nobody { is_accepted }, self.clock.wall()),
        };
        let options = &self.options;
        let mut conditions =
            Conditions::new(state, observation, Some(&options.rotation), &options.algorithms, now);
        conditions.floors = conditions.floors.lagging(options.max_lag);
        conditions
    }

    /// The fleet, and then the ring: whatever a replica has told that it serves was in the store before, and one that
    /// still serves more than the store holds has got what the store has lost.
    async fn see(&self) -> Result<(Observed, Loaded), ExecuteError> {
        let observed = self.observer.observe().await.map_err(ExecuteError::Registry)?;
        Ok((observed, self.load().await?))
    }

    async fn load(&self) -> Result<Loaded, ExecuteError> {
        let record = load(&*self.provider).await.map_err(ExecuteError::Unreadable)?;
        let (keks, _) = seal::load(&self.options.keks).await.map_err(ExecuteError::Unreadable)?;
        let KeystoreOptions { issuer, pin, mode, .. } = self.options.clone();
        off_worker(move || open(record, &issuer, keks, pin.as_ref(), mode)).await
    }

    /// The next revision's bytes, read back and judged as every replica will: what one would refuse is never written.
    async fn write(
        &self,
        mut draft: Draft,
        step: &Step,
        order: &Order,
        made: &Made,
        now: UnixTime,
        keks: Keks,
    ) -> Result<Written, ExecuteError> {
        let keys: Vec<&PrivateKey> = made.for_step(step, &order.request);
        let request = order.request.fingerprint();
        let by = Signature {
            change_id: order.change_id,
            actor: &order.actor,
            reason: &order.reason,
            request: Some(&request),
        };
        draft.apply(step, &keys, &by, now).map_err(ExecuteError::Draft)?;
        let told = draft.told(order.change_id).map_err(ExecuteError::Draft)?;
        let changes = told.map(|told| told.changes).unwrap_or_default();
        let mut bytes = draft.commit(&by, now).map_err(ExecuteError::Draft)?;
        let entries = Entries::single(Entries::KEYRING, std::mem::take(&mut *bytes));
        let KeystoreOptions { issuer, algorithms, rotation, .. } = self.options.clone();
        let judged = move || {
            let reading = Reading { keks: Some(&keks), ..Reading::default() };
            let (ring, _) = ring::read_with(&entries, &issuer, &reading)?;
            Snapshot::build(ring, &algorithms, &rotation)?;
            Ok(entries)
        };
        let entries = off_worker(judged).await.map_err(ExecuteError::WouldBeRefused)?;
        let bytes = entries.get(Entries::KEYRING).map(SecretBytes::expose).unwrap_or_default();
        let state = Draft::open(bytes, &self.options.issuer).and_then(|draft| draft.state());
        let bytes = SecretBytes::new(bytes.to_vec());
        Ok(Written { bytes, changes, state: state.map_err(ExecuteError::Draft)? })
    }

    async fn replace(
        &self,
        record: &Record,
        name: &str,
        document: SecretBytes,
        order: &Order,
        event: EventDraft,
    ) -> Result<Revision, oneseal_providers::ProviderError> {
        let (entries, change) = written(record, name, document, order, event);
        self.provider.replace(&record.revision, entries, change).await
    }
}

/// What a provider is given: `document` under `name`, and the other entries as they are.
fn written(
    record: &Record,
    name: &str,
    document: SecretBytes,
    order: &Order,
    event: EventDraft,
) -> (Entries, Change) {
    let mut entries = Entries::new();
    for (other, value) in record.entries.iter().filter(|(other, _)| *other != name) {
        entries.insert(other, value.expose().to_vec());
    }
    entries.insert(name, document);
    let change = Change {
        id: order.change_id,
        actor: order.actor.clone(),
        reason: order.reason.clone(),
        event,
        fence: None,
    };
    (entries, change)
}

/// A record whose ring was read and found good.
struct Loaded {
    draft: Draft,
    /// The entry that holds it.
    name: String,
    record: Record,
    keks: Keks,
}

/// The next revision, not in the store yet.
struct Written {
    bytes: SecretBytes,
    changes: Vec<(String, Option<String>)>,
    state: State,
}

impl Written {
    /// What may come next for keys that would be there under the same name if it were done again: one that was made for a
    /// dry run goes away with it.
    fn without_new_keys(&self, mut next: Vec<Next>) -> Vec<Next> {
        let is_new = |next: &Next| {
            self.changes.iter().any(|(kind, kid)| kind == "key.published" && kid.as_ref() == Some(&next.kid))
        };
        next.retain(|next| !is_new(next));
        next
    }
}

fn open(
    record: Record,
    issuer: &IssuerUrl,
    keks: Keks,
    pin: Option<&KeyId>,
    mode: Mode,
) -> Result<Loaded, ExecuteError> {
    let reading = Reading { keks: Some(&keks), pin, mode, ..Reading::default() };
    let (ring, _) = ring::read_with(&record.entries, issuer, &reading).map_err(ExecuteError::Unreadable)?;
    if ring.origin == ring::Origin::Bare {
        return Err(ExecuteError::BareKeys);
    }
    let is_ring = |(name, value): &(&str, &SecretBytes)| document::is_document(name, value.expose());
    let found = record.entries.iter().find(is_ring);
    let (name, draft) = match found {
        Some((name, value)) => (name.to_owned(), Draft::open(value.expose(), issuer)),
        None => return Err(ExecuteError::BareKeys),
    };
    Ok(Loaded { draft: draft.map_err(ExecuteError::Draft)?, name, record, keks })
}

/// Public facts alone. The kind is that of what was asked for; what was due besides is among the changes. A key that has
/// left is one of the ring `before`.
fn event(order: &Order, changes: &[(String, Option<String>)], before: &State, after: &State) -> EventDraft {
    let kinds = order.request.kinds();
    let main = changes.iter().map(|(kind, _)| kind.as_str()).find(|kind| kinds.contains(kind));
    let main = main.or(changes.first().map(|(kind, _)| kind.as_str())).unwrap_or("ring.changed");
    let list: Vec<_> = changes
        .iter()
        .map(|(kind, kid)| {
            let key = after.keys.iter().chain(&before.keys).find(|key| Some(&key.kid) == kid.as_ref());
            let alg = key.map(|key| key.algorithm.as_str());
            json!({ "kind": kind, "kid": kid, "alg": alg })
        })
        .collect();
    let mut payload = json!({
        "change_id": order.change_id.to_string(),
        "changes": list,
        "digest": after.digest.to_string(),
        "incarnation": after.incarnation,
        "reason": order.reason,
        "revision": after.revision,
    });
    payload.sort_all_objects();
    EventDraft::new(main, payload.to_string())
}

/// Keys that were made for an order: a second attempt uses them again.
#[derive(Debug, Default)]
struct Made(Vec<(Algorithm, usize, PrivateKey)>);

impl Made {
    /// Makes what `step` asks for and is not there yet.
    async fn see(&mut self, step: &Step, permit: Option<GenerationPermit>) -> Result<(), ExecuteError> {
        let is_there =
            |made: &Self, algorithm, bits| made.0.iter().any(|(a, b, _)| (*a, *b) == (algorithm, bits));
        let wanted: Vec<_> = step
            .edits
            .iter()
            .filter_map(|edit| match edit {
                Edit::Publish { algorithm, rsa_bits, .. } => Some((*algorithm, *rsa_bits)),
                _ => None,
            })
            .filter(|(algorithm, bits)| !is_there(self, *algorithm, *bits))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let permit = permit.ok_or(ExecuteError::NoPermit)?;
        let generate = move || {
            let make = |(algorithm, bits): (Algorithm, usize)| {
                let key = if algorithm.key_type() == KeyType::Rsa {
                    material::generate_rsa(&permit, algorithm, bits)
                } else {
                    material::generate(&permit, algorithm)
                };
                Ok((algorithm, bits, key?))
            };
            wanted.into_iter().map(make).collect::<Result<Vec<_>, _>>()
        };
        self.0.extend(off_worker(generate).await.map_err(ExecuteError::Generate)?);
        Ok(())
    }

    /// The private keys in the order of the edits that want one.
    fn for_step<'a>(&'a self, step: &Step, request: &'a Request) -> Vec<&'a PrivateKey> {
        let of_edit = |edit: &Edit| match (edit, request) {
            (Edit::Publish { algorithm, rsa_bits, .. }, _) => {
                self.0.iter().find(|(a, b, _)| a == algorithm && b == rsa_bits).map(|(_, _, key)| key)
            }
            (Edit::Adopt(adopted), Request::Adopt(Adoption::Key { key, .. })) if adopted.with_private => {
                Some(key)
            }
            _ => None,
        };
        step.edits.iter().filter_map(of_edit).collect()
    }
}

fn check(order: &Order) -> Result<(), ExecuteError> {
    if bad_reason(&order.reason) { Err(ExecuteError::BadReason) } else { Ok(()) }
}

fn bad_reason(text: &str) -> bool {
    text.len() > MAX_REASON || text.chars().any(char::is_control)
}

/// Longer with each attempt, and never the same for two that meet.
fn pause(attempt: u32) -> Duration {
    let mut byte = [0];
    // Without randomness they meet again, which costs an attempt.
    aws_lc_rs::rand::fill(&mut byte).unwrap_or_default();
    Duration::from_millis(u64::from(attempt) * (5 + u64::from(byte[0]) / 8))
}

/// As many writers as ever act by hand at once.
const ATTEMPTS: u32 = 16;
/// As the ring's log keeps of it.
const MAX_REASON: usize = 200;
