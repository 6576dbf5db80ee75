//! The live handle: follows its provider, judges what it finds, and swaps the snapshot.
//!
//! Reading and serving are apart. [`Keystore`] only ever hands out the last good [`Snapshot`], without lock or I/O.
//! The [`Follower`] is the one task that asks the provider: on a timer and when the provider nudges, by one and the
//! same path. What it cannot read or may not accept changes nothing but the age of what is served: past the
//! staleness limit minting stops, publishing never does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use oneseal_coordination::{BootTime, Clock};
use oneseal_providers::{
    Advice, Description, Durability, Entries, ProviderError, Record, Revision, SecretProvider,
};
use tokio_util::sync::CancellationToken;

use crate::accept::{SeenKids, Verdict, accept};
use crate::codes::{
    FLEET_KEY_REPLACED, PROVIDER_EPHEMERAL, PROVIDER_IMAGE_LAYER, PROVIDER_NEVER_UPDATES, PROVIDER_NOT_FOUND,
    PROVIDER_REPLACEABLE, PROVIDER_UNAVAILABLE, PROVIDER_WORLD_READABLE, RING_ACTIVATED_UNPUBLISHED,
    of_provider_error,
};
use crate::findings::{Code, Finding, Severity, chain};
use crate::material::PASSPHRASE_UNUSED;
use crate::reading::{self, Opening, Read};
use crate::ring::Reading;
use crate::rotation::PROVIDER_TIMEOUT;
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
}

impl KeystoreOptions {
    /// The defaults for `issuer`.
    pub fn new(issuer: IssuerUrl) -> Self {
        Self {
            issuer,
            algorithms: vec![Algorithm::Rs256],
            rotation: Rotation::default(),
            allow_key_replacement: false,
            passphrase: None,
            member: None,
        }
    }

    fn opening(&self) -> Opening {
        Opening { passphrase: self.passphrase.clone(), member: self.member.clone() }
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
    clock: Arc<dyn Clock>,
    /// Boot time of the last good look, in milliseconds.
    fresh_at_ms: AtomicU64,
    is_static: bool,
    refreshes_ok: AtomicU64,
    refreshes_failed: AtomicU64,
    records_refused: AtomicU64,
    last_fault: Mutex<Option<Fault>>,
    advice: Findings,
}

/// Why the last look served nothing new.
#[derive(Clone, Debug)]
struct Fault {
    findings: Findings,
    /// Whether the provider gave a record, and that is what is wrong.
    is_refusal: bool,
}

impl Shared {
    fn last_fault(&self) -> Option<Fault> {
        self.last_fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refusal(&self) -> Option<Finding> {
        let Fault { findings, is_refusal } = self.last_fault()?;
        let error = findings.iter().find(|finding| finding.code.severity == Severity::Error);
        error.filter(|_| is_refusal).cloned()
    }

    fn freshness(&self) -> Freshness {
        let fresh_at = BootTime(Duration::from_millis(self.fresh_at_ms.load(Ordering::Acquire)));
        let limit = self.snapshot.load().rotation().staleness_limit();
        Freshness { age: self.clock.boot().since(fresh_at), limit: (!self.is_static).then_some(limit) }
    }
}

/// How old what is served is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freshness {
    /// Time since the last good look at the provider began.
    pub age: Duration,
    /// Past this, minting stops; `None` for providers that are read once.
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
        let opened = first(&*provider, &description, &options).await;
        let (revision, (snapshot, found)) = match opened {
            Ok(opened) => opened,
            Err(found) => {
                findings.extend(found);
                return Err(findings);
            }
        };
        findings.extend(found);
        if findings.has_errors() {
            return Err(findings);
        }
        let kids = named(&snapshot).collect();
        let shared = Arc::new(Shared {
            snapshot: ArcSwap::from_pointee(snapshot),
            clock,
            fresh_at_ms: AtomicU64::new(millis(asked_at)),
            is_static: description.is_static,
            refreshes_ok: AtomicU64::new(1),
            refreshes_failed: AtomicU64::new(0),
            records_refused: AtomicU64::new(0),
            last_fault: Mutex::new(None),
            advice: findings,
        });
        let follower = Follower {
            shared: Arc::clone(&shared),
            provider,
            options,
            seen: revision.clone(),
            accepted: revision,
            hold: None,
            told: Age::Fresh,
            has_refused: false,
            kids,
        };
        Ok((Self { shared }, follower))
    }

    /// The last good snapshot. No lock, no I/O.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.load_full()
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
        self.shared.refusal()
    }

    /// The warnings found when it was opened.
    pub fn advice(&self) -> &Findings {
        &self.shared.advice
    }
}

/// The task that keeps a [`Keystore`] up to date.
#[derive(Debug)]
#[must_use = "without its task the keystore goes stale: run it"]
pub struct Follower {
    shared: Arc<Shared>,
    provider: Arc<dyn SecretProvider>,
    options: KeystoreOptions,
    /// The revision read last, whether it was accepted or not.
    seen: Revision,
    /// The one that is served: when it is read again, nothing need be built or judged.
    accepted: Revision,
    /// Keys that sign on although they are no longer current.
    hold: Option<Hold>,
    /// What was last said of the snapshot's age.
    told: Age,
    /// Whether a record has been refused since the last good one.
    has_refused: bool,
    /// Every kid that was served, with its key.
    kids: SeenKids,
}

/// How old the last good look is, in the words of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Fresh,
    /// More than three refreshes.
    Old,
    /// Past the limit.
    Stale,
}

/// A new current key is published but nobody can have fetched it yet: the ones before it sign on.
#[derive(Debug)]
struct Hold {
    until: BootTime,
    kids: Vec<KeyId>,
    /// What to serve when it is over.
    then: Arc<Snapshot>,
}

impl Follower {
    /// Follows the provider until `cancel`. `on_swap` sees each new snapshot before [`Keystore::snapshot`] does.
    ///
    /// # Cancel safety
    /// May be dropped at any point: the served snapshot is always whole.
    pub async fn run(mut self, cancel: CancellationToken, mut on_swap: impl FnMut(&Arc<Snapshot>) + Send) {
        if self.shared.is_static {
            cancel.cancelled().await;
            return;
        }
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                // Nothing is under way between two looks.
                () = cancel.cancelled() => return,
                // A nudge or the timer: both end in the same look. Dropping the other loses nothing.
                () = self.wait(pause) => {}
            }
            tokio::select! {
                // A look cut short has swapped nothing yet.
                () = cancel.cancelled() => return,
                answered = self.look(&mut on_swap) => {
                    pause = if answered { Duration::ZERO } else { next_pause(pause, self.refresh()) };
                }
            }
        }
    }

    fn refresh(&self) -> Duration {
        self.shared.snapshot.load().rotation().refresh()
    }

    /// Until the next look is due: a nudge (not before `pause`), the timer, or the end of a hold.
    async fn wait(&self, pause: Duration) {
        let timer = jittered(self.refresh());
        let held = self.hold.as_ref().map(|hold| hold.until.since(self.shared.clock.boot()));
        let due = held.map_or(timer, |held| held.min(timer));
        let nudged = async {
            tokio::time::sleep(pause).await;
            self.provider.changed(&self.seen).await;
        };
        // Either way a look follows, and it compares with the provider itself.
        drop(tokio::time::timeout(due.max(pause), nudged).await);
    }

    /// One look; whether the provider gave a record, be it one that is refused. A refused one is not asked for
    /// again before it changes, so only silence calls for a pause.
    async fn look(&mut self, on_swap: &mut (impl FnMut(&Arc<Snapshot>) + Send)) -> bool {
        self.release_hold(on_swap);
        let asked_at = self.shared.clock.boot();
        let record = match load(&*self.provider).await {
            Ok(record) => record,
            Err(findings) => {
                self.shared.refreshes_failed.fetch_add(1, Ordering::Relaxed);
                tell(&findings, "the provider gave no record; the last good keys stay");
                self.fault(Some(Fault { findings, is_refusal: false }));
                self.tell_staleness();
                return false;
            }
        };
        let first_sight = self.seen != record.revision;
        let revision = record.revision.clone();
        self.seen = revision.clone();
        let considered =
            if revision == self.accepted { Ok(()) } else { self.consider(record, on_swap).await };
        match considered {
            Ok(()) => {
                self.accepted = revision;
                self.shared.fresh_at_ms.store(millis(asked_at), Ordering::Release);
                self.shared.refreshes_ok.fetch_add(1, Ordering::Relaxed);
                self.fault(None);
                if std::mem::take(&mut self.has_refused) {
                    tracing::info!("the record that was refused has been put right: the provider's is good");
                }
            }
            Err(findings) => {
                self.shared.records_refused.fetch_add(1, Ordering::Relaxed);
                if first_sight {
                    tell(&findings, "the record is refused; the last good keys stay");
                }
                self.has_refused = true;
                self.fault(Some(Fault { findings, is_refusal: true }));
            }
        }
        self.tell_staleness();
        true
    }

    async fn consider(
        &mut self,
        record: Record,
        on_swap: &mut (impl FnMut(&Arc<Snapshot>) + Send),
    ) -> Result<(), Findings> {
        let (snapshot, _) = build(record, &self.provider.describe(), &self.options).await.result?;
        let served = self.shared.snapshot.load_full();
        match accept(&served, &self.kids, &snapshot, self.options.allow_key_replacement) {
            Verdict::Unchanged => {}
            Verdict::Replace => {
                self.options.allow_key_replacement = false;
                tracing::warn!(
                    code = FLEET_KEY_REPLACED.name,
                    "the whole key set is replaced, as was allowed: every token in use is void; not allowed again"
                );
                self.serve(snapshot, None, on_swap);
            }
            // A hold outlasts later changes: what it waits for is the caches.
            Verdict::Serve => {
                let hold = self.hold.take().map(|hold| (hold.until, hold.kids));
                self.serve(snapshot, hold, on_swap);
            }
            Verdict::ServeSigningOn(kids) => {
                let span = snapshot.rotation().propagation();
                tracing::error!(
                    code = RING_ACTIVATED_UNPUBLISHED.name,
                    signing_on = join(&kids),
                    for_s = span.as_secs(),
                    "{}",
                    RING_ACTIVATED_UNPUBLISHED.meaning
                );
                let until = self.shared.clock.boot() + span;
                self.serve(snapshot, Some((until, kids)), on_swap);
            }
            Verdict::Refuse(finding) => {
                let Finding { code, place, message } = finding;
                let mut findings = Findings::new();
                findings.push(code, place, message);
                return Err(findings);
            }
        }
        Ok(())
    }

    /// Serves `snapshot`; under a hold its older keys sign on as long as their private halves are here.
    fn serve(
        &mut self,
        snapshot: Snapshot,
        hold: Option<(BootTime, Vec<KeyId>)>,
        on_swap: &mut (impl FnMut(&Arc<Snapshot>) + Send),
    ) {
        let held = hold.and_then(|(until, kids)| Some((until, snapshot.signing_with(&kids)?, kids)));
        let then = Arc::new(snapshot);
        match held {
            Some((until, interim, kids)) => {
                self.hold = Some(Hold { until, kids, then });
                self.swap(Arc::new(interim), on_swap);
            }
            None => {
                self.hold = None;
                self.swap(then, on_swap);
            }
        }
    }

    fn release_hold(&mut self, on_swap: &mut (impl FnMut(&Arc<Snapshot>) + Send)) {
        let now = self.shared.clock.boot();
        if let Some(hold) = self.hold.take_if(|hold| now >= hold.until) {
            let kids: Vec<_> = hold.then.signing_kids().cloned().collect();
            tracing::info!(kids = join(&kids), "the new current key signs from now on");
            self.swap(hold.then, on_swap);
        }
    }

    fn swap(&mut self, snapshot: Arc<Snapshot>, on_swap: &mut (impl FnMut(&Arc<Snapshot>) + Send)) {
        let identity = *snapshot.identity();
        self.kids.extend(named(&snapshot));
        on_swap(&snapshot);
        self.shared.snapshot.store(snapshot);
        tracing::info!(revision = identity.revision, digest = %identity.digest, "serving another key set");
    }

    /// Says once when the last good look becomes old, when minting stops, and when all is well again.
    fn tell_staleness(&mut self) {
        let freshness = self.shared.freshness();
        let (age_s, limit_s) = (freshness.age.as_secs(), freshness.limit.unwrap_or_default().as_secs());
        let now = if freshness.is_stale() {
            Age::Stale
        } else if freshness.age > 3 * self.refresh() {
            Age::Old
        } else {
            Age::Fresh
        };
        if now == std::mem::replace(&mut self.told, now) {
            return;
        }
        match (now, self.shared.refusal()) {
            (Age::Fresh, _) => tracing::info!("the last good look at the provider is fresh; minting goes on"),
            (Age::Old, None) => {
                tracing::warn!(age_s, limit_s, "the last good look at the provider is getting old");
            }
            (Age::Old, Some(Finding { code, place, message })) => tracing::warn!(
                age_s,
                limit_s,
                code = code.name,
                place,
                cure = code.cure,
                "minting will stop at the limit: the provider's record is refused ({}): {message}",
                code.name
            ),
            (Age::Stale, None) => tracing::error!(
                age_s,
                limit_s,
                "minting stops until the provider answers; publishing goes on"
            ),
            (Age::Stale, Some(Finding { code, place, message })) => tracing::error!(
                age_s,
                limit_s,
                code = code.name,
                place,
                cure = code.cure,
                "minting stops: the provider's record is refused ({}): {message}; publishing goes on",
                code.name
            ),
        }
    }

    fn fault(&self, fault: Option<Fault>) {
        *self.shared.last_fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

/// What can be said of the place before anything is read; `in_image` is what a container's own layer comes to.
pub(crate) fn judge_place(description: &Description, in_image: &'static Code) -> Findings {
    let mut findings = Findings::new();
    match &description.durability {
        Durability::Ephemeral(why) => findings.push(&PROVIDER_EPHEMERAL, &description.location, why),
        Durability::ImageLayer(why) => findings.push(in_image, &description.location, why),
        // Durable, and whatever later kinds mean less.
        _ => {}
    }
    findings.extend(judge_advice(description));
    findings
}

/// What the operator should know of the place although it is no error.
pub(crate) fn judge_advice(description: &Description) -> Findings {
    let mut findings = Findings::new();
    for advice in &description.advice {
        match advice {
            Advice::WorldReadable { path, mode } => {
                findings.push(&PROVIDER_WORLD_READABLE, path, format!("its mode is {mode:04o}"));
            }
            Advice::Replaceable { directory, mode } => {
                findings.push(&PROVIDER_REPLACEABLE, directory, format!("its mode is {mode:04o}"));
            }
            Advice::NeverUpdates { path, is_replaced } => {
                let message = if *is_replaced {
                    "it is mounted by itself, and where it comes from it has been replaced or removed since"
                } else {
                    "it is mounted by itself"
                };
                findings.push(&PROVIDER_NEVER_UPDATES, path, message);
            }
            // Whatever later providers advise is for those who know it.
            _ => {}
        }
    }
    findings
}

/// One bounded read, its failure told as a finding.
pub(crate) async fn load(provider: &dyn SecretProvider) -> Result<Record, Findings> {
    let mut findings = Findings::new();
    match tokio::time::timeout(PROVIDER_TIMEOUT, provider.load()).await {
        Ok(Ok(record)) => return Ok(record),
        Ok(Err(error)) => findings.push(of_provider_error(error.kind()), error.location(), in_full(&error)),
        Err(_) => findings.push(
            &PROVIDER_UNAVAILABLE,
            provider.describe().location,
            format!("no answer within {} s", PROVIDER_TIMEOUT.as_secs()),
        ),
    }
    Err(findings)
}

/// With what to do about it where nothing was found. That depends on the place, and on whether a key has ever been
/// there: a replica that runs has lost its own, and must not be told to make another.
pub(crate) fn advised(found: &Findings, advice: &str) -> Findings {
    let mut advised = Findings::new();
    for Finding { code, place, message } in found.iter() {
        let is_missing = code.name == PROVIDER_NOT_FOUND.name;
        let message = match message.strip_suffix('?') {
            _ if !is_missing => message.clone(),
            Some(question) => format!("{question}? If not, {advice}"),
            None => format!("{message}; {advice}"),
        };
        advised.push(code, place, message);
    }
    advised
}

/// What makes a first key at such a place.
fn where_to_put_a_key(description: &Description) -> &'static str {
    if description.writable {
        "make the first ring with `oneseal keys init` (once, for all replicas), or correct the provider's location"
    } else if description.kind == "env" {
        "give this process the variable with the key in it, or name the right one as the provider"
    } else {
        "put the key there, or correct the provider's location"
    }
}

/// The first look: the passphrase is judged whether it is needed or not, so that its faults are found at the start.
async fn first(
    provider: &dyn SecretProvider,
    description: &Description,
    options: &KeystoreOptions,
) -> Result<(Revision, (Snapshot, Findings)), Findings> {
    let loaded = load(provider).await.map_err(|found| advised(&found, where_to_put_a_key(description)));
    let Read { mut result, asked_passphrase } = match loaded {
        Ok(record) => {
            let revision = record.revision.clone();
            let Read { result, asked_passphrase } = build(record, description, options).await;
            Read { result: result.map(|built| (revision, built)), asked_passphrase }
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
    record: Record,
    description: &Description,
    options: &KeystoreOptions,
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
    let work = move |entries: &Entries, reading: &Reading<'_>| {
        let (ring, notes) = ring::read_with(entries, &issuer, reading).map_err(&located)?;
        let mut notes = located(notes);
        let (snapshot, found) = Snapshot::build(ring, &algorithms, &rotation)?;
        notes.extend(found);
        Ok((snapshot, notes))
    };
    reading::read(record, &options.opening(), work).await
}

/// One log line a finding, with what scripts match on as fields of their own.
fn tell(findings: &Findings, what: &str) {
    for Finding { code, place, message } in findings.iter() {
        let (code, severity, cure) = (code.name, code.severity, code.cure);
        match severity {
            Severity::Error => tracing::error!(code, place, fault = message, cure, "{what}"),
            Severity::Warning => tracing::warn!(code, place, fault = message, cure, "{what}"),
            Severity::Info => {}
        }
    }
}

fn named(snapshot: &Snapshot) -> impl Iterator<Item = (KeyId, PublicKey)> {
    snapshot.keys().iter().map(|key| (key.kid.clone(), key.public.clone()))
}

fn join(kids: &[KeyId]) -> String {
    kids.iter().map(KeyId::as_str).collect::<Vec<_>>().join(", ")
}

/// The provider's words with those of their causes.
fn in_full(error: &ProviderError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{}: {}", error.detail(), chain(cause)),
        None => error.detail().to_owned(),
    }
}

/// Doubles up to the refresh interval, so that a provider that fails at once is not asked in a loop.
fn next_pause(pause: Duration, refresh: Duration) -> Duration {
    (pause * 2).clamp(FIRST_PAUSE, refresh.max(FIRST_PAUSE))
}

/// Up to a tenth earlier, so that replicas started together do not ask together.
fn jittered(refresh: Duration) -> Duration {
    let mut byte = [0];
    // Without randomness there is no jitter, which is all that would be lost.
    aws_lc_rs::rand::fill(&mut byte).unwrap_or_default();
    refresh - refresh * u32::from(byte[0]) / 2550
}

fn millis(at: BootTime) -> u64 {
    u64::try_from(at.0.as_millis()).unwrap_or(u64::MAX)
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
