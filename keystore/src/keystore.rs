//! The live handle: follows its provider, judges what it finds, and swaps the snapshot.
//!
//! Reading and serving are apart. [`Keystore`] only ever hands out the last good [`Snapshot`], without lock or I/O.
//! The [`Follower`] is the one task that asks the provider: on a timer and when the provider nudges, by one and the
//! same path. What it cannot read or may not accept changes nothing but the age of what is served: past the
//! staleness limit minting stops, publishing never does.

mod follower;
mod kept;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use oneseal_coordination::{BootTime, Clock};
use oneseal_providers::{Description, Entries, Record, Revision, SecretProvider};
use tokio::sync::Notify;

pub use self::follower::Follower;
pub use self::kept::Kept;
use self::kept::Shielded;
use crate::codes::PROVIDER_IMAGE_LAYER;
use crate::findings::Finding;
use crate::findings::Severity;
use crate::material::PASSPHRASE_UNUSED;
use crate::place::{advised, judge_advice, judge_fill, judge_place, load, where_to_put_a_key};
use crate::reading::{self, Opening, Read};
use crate::ring::{Mode, Reading};
use crate::seal::{self, Keks};
use crate::{Algorithm, Findings, IssuerUrl, KeyId, PublicKey, Rotation, Snapshot, ring};

/// What the keystore needs to know besides its provider.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeystoreOptions {
    /// The issuer whose keys these must be.
    pub issuer: IssuerUrl,
    /// What discovery names; a key of another algorithm is refused. Default: RS256.
    pub algorithms: Vec<Algorithm>,
    /// The times for bare keys; a ring document brings its own.
    pub rotation: Rotation,
    /// How much older than its source what the provider gives may be, in whole seconds: kubelet's copy of a Secret in a
    /// volume, a sidecar's or a mirror's. What is read just now may be that old, so it is taken off the staleness limit,
    /// and replicas that nobody sees are waited for that much longer. Default: zero, the provider gives what is there.
    pub max_lag: Duration,
    /// Accept a key set that shares no key with the one served: once, by hand. Breaks every token in use, so it is
    /// spent with the first such set.
    pub allow_key_replacement: bool,
    /// Where the passphrase of encrypted keys rests: the only entry, or the one called `passphrase`; one line end at
    /// its end is dropped. It is read at the start, and again for each new record that needs it. Default: none, and
    /// an encrypted key is refused.
    pub passphrase: Option<Arc<dyn SecretProvider>>,
    /// The member that holds the key, where the value of each entry is a JSON object, as a key/value secret is.
    /// Default: none, the value is the key.
    pub member: Option<String>,
    /// Where the key-encryption keys of a sealed ring rest: the first is the current one, which seals; the others only
    /// open. They are read at the start, and again when a record names one that is not among them. With any, nothing
    /// unsealed is believed. Default: none, and a sealed ring is refused.
    pub keks: Vec<Arc<dyn SecretProvider>>,
    /// The thumbprint of the ring key that is believed, or of one whose endorsements lead to it. With one, nothing
    /// unsealed is believed. Default: none; with a KEK that is what vouches for the ring.
    pub pin: Option<KeyId>,
    /// Whether this replica signs. In [`Mode::PublicOnly`] it opens no private half and needs no KEK, and a sealed
    /// ring needs the pin. Default: [`Mode::Full`].
    pub mode: Mode,
}

impl KeystoreOptions {
    /// The defaults for `issuer`.
    pub fn new(issuer: IssuerUrl) -> Self {
        Self {
            issuer,
            algorithms: vec![Algorithm::Rs256],
            rotation: Rotation::default(),
            max_lag: Duration::ZERO,
            allow_key_replacement: false,
            passphrase: None,
            member: None,
            keks: Vec::new(),
            pin: None,
            mode: Mode::Full,
        }
    }

    fn opening(&self, keks: &Keks, known: Option<Arc<Snapshot>>) -> Opening {
        Opening {
            passphrase: self.passphrase.clone(),
            member: self.member.clone(),
            keks: keks.clone(),
            pin: self.pin.clone(),
            mode: self.mode,
            believe_unsealed: false,
            known,
        }
    }

    /// The KEKs as they are now; none where nothing is opened.
    async fn load_keks(&self) -> Result<(Keks, Findings), Findings> {
        match self.mode {
            Mode::Full => seal::load(&self.keks).await,
            Mode::PublicOnly => Ok((Keks::default(), Findings::new())),
        }
    }
}

/// The keys of one issuer as this replica serves them now. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Keystore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    snapshot: ArcSwap<Snapshot>,
    keks: ArcSwap<Keks>,
    /// The record that was accepted last; none of a provider that is read once.
    kept: ArcSwapOption<Kept>,
    clock: Arc<dyn Clock>,
    /// Boot time of the last good look, in milliseconds.
    fresh_at_ms: AtomicU64,
    /// How much older than that what was seen may have been.
    max_lag: Duration,
    is_static: bool,
    refreshes_ok: AtomicU64,
    refreshes_failed: AtomicU64,
    records_refused: AtomicU64,
    last_fault: Mutex<Option<Fault>>,
    advice: Findings,
    /// Somebody knows that the provider holds something new.
    nudged: Notify,
}

/// Why the last look served nothing new.
#[derive(Clone, Debug)]
struct Fault {
    findings: Findings,
    /// Whether the provider gave a record, and that is what is wrong.
    is_refusal: bool,
}

impl Shared {
    /// What is served now came from `shielded`.
    fn keep(&self, shielded: Option<Shielded>) {
        let Some(shielded) = shielded.filter(|_| !self.is_static) else { return };
        self.kept.store(Some(Arc::new(Kept::new(self.snapshot.load_full(), shielded))));
    }

    fn last_fault(&self) -> Option<Fault> {
        self.last_fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first thing that is wrong since the last good look, and whether it is the record's.
    fn fault(&self) -> Option<(Finding, bool)> {
        let Fault { findings, is_refusal } = self.last_fault()?;
        let error = findings.iter().find(|finding| finding.code.severity == Severity::Error);
        error.map(|finding| (finding.clone(), is_refusal))
    }

    fn freshness(&self) -> Freshness {
        let fresh_at = BootTime(Duration::from_millis(self.fresh_at_ms.load(Ordering::Acquire)));
        let limit = self.snapshot.load().rotation().staleness_limit().saturating_sub(self.max_lag);
        Freshness { age: self.clock.boot().since(fresh_at), limit: (!self.is_static).then_some(limit) }
    }
}

/// How old what is served is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freshness {
    /// Time since the last good look at the provider began.
    pub age: Duration,
    /// Past this, minting stops: the staleness limit, less what the provider may lag behind. `None` for providers that
    /// are read once.
    pub limit: Option<Duration>,
}

impl Freshness {
    /// Whether minting must stop.
    pub fn is_stale(&self) -> bool {
        self.limit.is_some_and(|limit| self.age > limit)
    }
}

/// How following has gone so far.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Looks that ended in a served or unchanged record.
    pub refreshes_ok: u64,
    /// Looks to which the provider gave no record.
    pub refreshes_failed: u64,
    /// Records that were read and refused.
    pub records_refused: u64,
    /// Why the last look failed or was refused, if the last one did.
    pub last_fault: Option<Findings>,
}

impl Keystore {
    /// Loads, judges and probes the keys, and hands out the handle with the task that follows the provider.
    ///
    /// # Errors
    /// Every fault found, with warnings among them.
    ///
    /// # Cancel safety
    /// Changes nothing outside itself.
    pub async fn open(
        provider: Arc<dyn SecretProvider>,
        options: KeystoreOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Follower), Findings> {
        let description = provider.describe();
        let mut findings = judge_place(&description, &PROVIDER_IMAGE_LAYER);
        let asked_at = clock.boot();
        let (keks, of_keks) = match options.load_keks().await {
            Ok(loaded) => loaded,
            Err(found) => {
                findings.extend(found);
                // What the ring is like without the KEK would be guessed; whether it is there at all is not.
                findings.extend(load(&*provider).await.err().unwrap_or_default());
                return Err(findings);
            }
        };
        findings.extend(of_keks);
        let opened = first(&*provider, &description, &options, &keks).await;
        let (First { revision, shielded }, (snapshot, found)) = match opened {
            Ok(opened) => opened,
            Err(found) => {
                findings.extend(found);
                return Err(findings);
            }
        };
        findings.extend(found);
        findings.extend(told_by_reading(&*provider, &description, &options.keks));
        if findings.has_errors() {
            return Err(findings);
        }
        let kids = named(&snapshot).collect();
        let shared = Arc::new(Shared {
            snapshot: ArcSwap::from_pointee(snapshot),
            keks: ArcSwap::from_pointee(keks),
            kept: ArcSwapOption::empty(),
            clock,
            fresh_at_ms: AtomicU64::new(millis(asked_at)),
            max_lag: options.max_lag,
            is_static: description.is_static,
            refreshes_ok: AtomicU64::new(1),
            refreshes_failed: AtomicU64::new(0),
            records_refused: AtomicU64::new(0),
            last_fault: Mutex::new(None),
            advice: findings,
            nudged: Notify::new(),
        });
        shared.keep(shielded);
        let follower = Follower::new(Arc::clone(&shared), provider, options, revision, kids);
        Ok((Self { shared }, follower))
    }

    /// The last good snapshot. No lock, no I/O.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.load_full()
    }

    /// Lets the follower look at the provider now: for whoever has just written there.
    pub fn look_now(&self) {
        self.shared.nudged.notify_one();
    }

    /// The key-encryption keys that this replica has: what it can open, the first of them what it seals with.
    pub fn keks(&self) -> Arc<Keks> {
        self.shared.keks.load_full()
    }

    /// The record that was accepted last, as it came: what [`Executor::recover`](crate::executor::Executor::recover) writes
    /// back. `None` where the provider is read once.
    pub fn kept(&self) -> Option<Arc<Kept>> {
        self.shared.kept.load_full()
    }

    /// How old it is.
    pub fn freshness(&self) -> Freshness {
        self.shared.freshness()
    }

    /// How following has gone so far.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        Status {
            refreshes_ok: shared.refreshes_ok.load(Ordering::Relaxed),
            refreshes_failed: shared.refreshes_failed.load(Ordering::Relaxed),
            records_refused: shared.records_refused.load(Ordering::Relaxed),
            last_fault: shared.last_fault().map(|fault| fault.findings),
        }
    }

    /// The first thing that is wrong with the provider's record, if the last look found one and refused it; `None`
    /// while all is well, and where the provider gives no record at all.
    pub fn refusal(&self) -> Option<Finding> {
        self.shared.fault().and_then(|(finding, is_refusal)| is_refusal.then_some(finding))
    }

    /// The first thing that was wrong at the last look: that the provider gave no record, or what is wrong with the one that
    /// it gave. `None` while all is well.
    pub fn fault(&self) -> Option<Finding> {
        self.shared.fault().map(|(finding, _)| finding)
    }

    /// The warnings found when it was opened.
    pub fn advice(&self) -> &Findings {
        &self.shared.advice
    }
}

/// What places tell of themselves only once they have been read, such as a Secret's namespace.
fn told_by_reading(
    provider: &dyn SecretProvider,
    before: &Description,
    keks: &[Arc<dyn SecretProvider>],
) -> Findings {
    let mut now = provider.describe();
    now.advice.retain(|advice| !before.advice.contains(advice));
    let mut findings = judge_advice(&now);
    findings.extend(seal::judge_neighbours(&now, keks));
    findings
}

/// What else is known of the record that was read first.
struct First {
    revision: Revision,
    shielded: Option<Shielded>,
}

/// The first look: the passphrase is judged whether it is needed or not, so that its faults are found at the start.
async fn first(
    provider: &dyn SecretProvider,
    description: &Description,
    options: &KeystoreOptions,
    keks: &Keks,
) -> Result<(First, (Snapshot, Findings)), Findings> {
    let loaded = load(provider).await.map_err(|found| advised(&found, where_to_put_a_key(description)));
    let Read { mut result, asked_passphrase } = match loaded {
        Ok(record) => {
            let record = Arc::new(record);
            let opening = options.opening(keks, None);
            let Read { result, asked_passphrase } =
                build(Arc::clone(&record), description, options, &opening).await;
            let first = || First {
                revision: record.revision.clone(),
                shielded: (!description.is_static).then(|| Shielded::of(&record.entries)).flatten(),
            };
            Read { result: result.map(|built| (first(), built)), asked_passphrase }
        }
        Err(found) => Read { result: Err(found), asked_passphrase: false },
    };
    let Some(passphrase) = &options.passphrase else { return result };
    let mut more = reading::judge_passphrase_place(&**passphrase);
    if !asked_passphrase {
        match reading::passphrase(&**passphrase).await {
            Ok(_) if result.is_ok() => {
                more.push(&PASSPHRASE_UNUSED, reading::place(&passphrase.describe()), "no key is encrypted")
            }
            Ok(_) => {}
            Err(faults) => more.extend(faults),
        }
    }
    match &mut result {
        Ok((_, (_, notes))) => notes.extend(more),
        Err(found) => found.extend(more),
    }
    result
}

/// Ring and snapshot of a record, off the async workers. What is found in an entry is told with the provider's place:
/// `current` alone would not say which file it is.
async fn build(
    record: Arc<Record>,
    description: &Description,
    options: &KeystoreOptions,
    opening: &Opening,
) -> Read<(Snapshot, Findings)> {
    let (kind, location) = (description.kind, description.location.clone());
    let located = move |found: Findings| {
        let mut located = Findings::new();
        for Finding { code, place, message } in found.iter() {
            located.push(code, format!("{place} ({kind}:{location})"), message.clone());
        }
        located
    };
    let (issuer, algorithms, rotation) =
        (options.issuer.clone(), options.algorithms.clone(), options.rotation.clone());
    let max_lag = if description.is_static { Duration::ZERO } else { options.max_lag };
    let of_fill = judge_fill(description, &record.entries);
    let work = move |entries: &Entries, reading: &Reading<'_>| {
        let (ring, notes) = ring::read_with(entries, &issuer, reading).map_err(&located)?;
        let mut notes = located(notes);
        notes.extend(of_fill.clone());
        let (snapshot, found) = Snapshot::build(ring, &algorithms, &rotation)?;
        notes.extend(found);
        let of_lag = snapshot.rotation().check_lag(max_lag, "provider.max_lag");
        if of_lag.has_errors() {
            notes.extend(of_lag);
            return Err(notes);
        }
        Ok((snapshot, notes))
    };
    reading::read(record, opening, work).await
}

fn named(snapshot: &Snapshot) -> impl Iterator<Item = (KeyId, PublicKey)> {
    snapshot.keys().iter().map(|key| (key.kid.clone(), key.public.clone()))
}

fn millis(at: BootTime) -> u64 {
    u64::try_from(at.0.as_millis()).unwrap_or(u64::MAX)
}
