//! The reference provider: a record in memory, and every way it can fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oneseal_coordination::{EventDraft, FenceToken};
use oneseal_providers::{
    BoxFuture, Change, Description, Durability, Entries, ErrorKind, ProviderError, Record, Revision,
    SecretProvider,
};
use tokio::sync::watch;
use uuid::Uuid;

/// Keeps the record in memory. A clone is another handle on the same record, as another replica has.
///
/// # Defaults
/// Empty, writable, said to be durable, without a journal, the limit of a Kubernetes Secret.
#[derive(Clone, Debug)]
pub struct MemoryProvider {
    description: Description,
    store: Arc<Store>,
}

/// Whether a write whose answer is lost took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Committed,
    /// It did not.
    Dropped,
}

impl MemoryProvider {
    /// Nothing in it.
    pub fn new() -> Self {
        let mut description = Description::new("memory", "memory");
        description.writable = true;
        Self { description, store: Arc::default() }
    }

    /// `entries` in it.
    pub fn with(entries: Entries) -> Self {
        let provider = Self::new();
        provider.set(entries);
        provider
    }

    /// What it says of its durability.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.description.durability = durability;
        self
    }

    /// It refuses to be written through the contract; [`set`](Self::set) still does.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.description.writable = false;
        self
    }

    /// It commits events and honours fences.
    #[must_use]
    pub fn journaling(mut self) -> Self {
        self.description.journals = true;
        self
    }

    /// It takes records of up to `max_bytes`.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.description.max_bytes = max_bytes;
        self
    }

    /// Changes the record from outside, as an operator would; returns the new revision.
    pub fn set(&self, entries: Entries) -> Revision {
        let revision = self.store.lock().put(entries, None);
        self.store.wake();
        revision
    }

    /// Removes the record.
    pub fn remove(&self) {
        self.store.lock().current = None;
        self.store.wake();
    }

    /// Every load and write fails with `kind` until this is called with `None`.
    pub fn set_outage(&self, kind: Option<ErrorKind>) {
        self.store.lock().outage = kind;
        self.store.wake();
    }

    /// The next load fails with `kind`.
    pub fn fail_next_load(&self, kind: ErrorKind) {
        self.store.lock().next_load = Some(kind);
    }

    /// The next `replace` or `create` fails with `kind` and changes nothing.
    pub fn fail_next_write(&self, kind: ErrorKind) {
        self.store.lock().next_write = Some(Fault::Fail(kind));
    }

    /// The next `replace` or `create` that would succeed fails with `OutcomeUnknown` instead, and did or did not
    /// take place.
    pub fn lose_next_answer(&self, outcome: Outcome) {
        self.store.lock().next_write = Some(Fault::LoseAnswer(outcome));
    }

    /// A later leadership has been committed: with [`journaling`](Self::journaling), writes under a lower epoch of
    /// this fleet and worker are fenced from now on.
    pub fn supersede(&self, by: &FenceToken) {
        self.store.lock().raise_epoch(by);
    }

    /// The events committed so far, in order. Empty without [`journaling`](Self::journaling).
    pub fn events(&self) -> Vec<EventDraft> {
        self.store.lock().events.clone()
    }

    /// How many loads were tried.
    pub fn loads(&self) -> u64 {
        self.store.lock().loads
    }

    /// How many writes were tried.
    pub fn writes(&self) -> u64 {
        self.store.lock().writes
    }

    fn error(&self, kind: ErrorKind, detail: &str) -> ProviderError {
        ProviderError::new(kind, self.description.location.clone(), detail)
    }

    fn load_now(&self) -> Result<Record, ProviderError> {
        let mut state = self.store.lock();
        state.loads += 1;
        let next = state.next_load.take();
        if let Some(kind) = next.or(state.outage) {
            return Err(self.error(kind, "the test asked for this failure"));
        }
        let Some(current) = &state.current else {
            return Err(self.error(ErrorKind::NotFound, "there is no record"));
        };
        Ok(Record::new(current.revision.clone(), current.change_id, copy(&current.entries)))
    }

    fn write_now(
        &self,
        expected: Option<&Revision>,
        entries: Entries,
        change: Change,
    ) -> Result<Revision, ProviderError> {
        let mut state = self.store.lock();
        state.writes += 1;
        self.refuse(&mut state, expected, &entries, &change)?;
        let lost = match state.next_write.take() {
            Some(Fault::LoseAnswer(outcome)) => Some(outcome),
            _ => None,
        };
        if lost == Some(Outcome::Dropped) {
            return Err(self.error(ErrorKind::OutcomeUnknown, "the test lost the request"));
        }
        let revision = state.put(entries, Some(change.id));
        if self.description.journals {
            state.events.push(change.event);
            change.fence.iter().for_each(|fence| state.raise_epoch(fence));
        }
        drop(state);
        self.store.wake();
        match lost {
            Some(_) => Err(self.error(ErrorKind::OutcomeUnknown, "the test lost the answer")),
            None => Ok(revision),
        }
    }

    fn refuse(
        &self,
        state: &mut State,
        expected: Option<&Revision>,
        entries: &Entries,
        change: &Change,
    ) -> Result<(), ProviderError> {
        if !self.description.writable {
            return Err(self.error(ErrorKind::ReadOnly, "it was made read-only"));
        }
        if entries.total_bytes() > self.description.max_bytes {
            return Err(self.error(ErrorKind::TooLarge, "the record is larger than the limit"));
        }
        if let Some(Fault::Fail(kind)) = state.next_write {
            state.next_write = None;
            return Err(self.error(kind, "the test asked for this failure"));
        }
        if let Some(kind) = state.outage {
            return Err(self.error(kind, "the test asked for this failure"));
        }
        if self.description.journals && change.fence.as_ref().is_some_and(|fence| state.is_superseded(fence))
        {
            return Err(self.error(ErrorKind::Fenced, "a later leadership has been committed"));
        }
        match (expected, &state.current) {
            (None, Some(_)) => Err(self.error(ErrorKind::AlreadyExists, "there is a record already")),
            (Some(_), None) => Err(self.error(ErrorKind::NotFound, "there is no record to replace")),
            (Some(expected), Some(current)) if *expected != current.revision => {
                Err(self.error(ErrorKind::Conflict, "it is no longer at the expected revision"))
            }
            _ => Ok(()),
        }
    }

    /// What the next write would come to, and it still would afterwards, unless it would be refused.
    fn rehearse_now(&self) -> Result<(), ProviderError> {
        let fault = self.store.lock().next_write.take();
        match fault {
            Some(Fault::Fail(kind)) => Err(self.error(kind, "the test asked for this failure")),
            other => {
                self.store.lock().next_write = other;
                Ok(())
            }
        }
    }
}

impl Default for MemoryProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl SecretProvider for MemoryProvider {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>> {
        Box::pin(async { self.load_now() })
    }

    fn changed<'a>(&'a self, since: &'a Revision) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut changes = self.store.changes.subscribe();
            while !self.store.lock().has_other_than(since) {
                // The sender lives in the store that we hold.
                let _ = changes.changed().await;
            }
        })
    }

    fn replace<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>> {
        Box::pin(async move { self.write_now(Some(expected), entries, change) })
    }

    fn create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>> {
        Box::pin(async move { self.write_now(None, entries, change) })
    }

    fn rehearse<'a>(
        &'a self,
        _: &'a Revision,
        _: Entries,
        _: Change,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move { self.rehearse_now() })
    }

    fn rehearse_create(&self, _: Entries, _: Change) -> BoxFuture<'_, Result<(), ProviderError>> {
        Box::pin(async move { self.rehearse_now() })
    }
}

/// What all handles share.
#[derive(Debug, Default)]
struct Store {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.changes.send_replace(());
    }
}

#[derive(Debug, Default)]
struct State {
    current: Option<Stored>,
    /// How many records there have been: each gets a revision of its own.
    written: u64,
    outage: Option<ErrorKind>,
    next_load: Option<ErrorKind>,
    next_write: Option<Fault>,
    /// The latest leadership of each fleet's worker.
    epochs: Vec<FenceToken>,
    events: Vec<EventDraft>,
    loads: u64,
    writes: u64,
}

#[derive(Debug)]
struct Stored {
    revision: Revision,
    change_id: Option<Uuid>,
    entries: Entries,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Fail(ErrorKind),
    LoseAnswer(Outcome),
}

impl State {
    fn put(&mut self, entries: Entries, change_id: Option<Uuid>) -> Revision {
        self.written += 1;
        let revision = Revision::new(format!("memory-{}", self.written));
        self.current = Some(Stored { revision: revision.clone(), change_id, entries });
        revision
    }

    fn has_other_than(&self, since: &Revision) -> bool {
        self.outage.is_none() && self.current.as_ref().is_some_and(|current| current.revision != *since)
    }

    fn is_superseded(&self, fence: &FenceToken) -> bool {
        self.epochs.iter().any(|latest| is_same_worker(latest, fence) && latest.epoch > fence.epoch)
    }

    fn raise_epoch(&mut self, to: &FenceToken) {
        if !self.is_superseded(to) {
            self.epochs.retain(|latest| !is_same_worker(latest, to));
            self.epochs.push(to.clone());
        }
    }
}

fn is_same_worker(one: &FenceToken, other: &FenceToken) -> bool {
    one.fleet == other.fleet && one.worker == other.worker
}

fn copy(entries: &Entries) -> Entries {
    let mut copied = Entries::new();
    for (name, value) in entries.iter() {
        copied.insert(name, value.expose().to_vec());
    }
    copied
}
