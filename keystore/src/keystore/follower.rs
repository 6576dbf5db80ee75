//! The one task that asks the provider, on a timer and when the provider nudges, by one and the same path.
//!
//! What it cannot read or may not accept changes nothing but the age of what is served.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use oneseal_coordination::BootTime;
use oneseal_providers::{Record, Revision, SecretProvider};
use tokio_util::sync::CancellationToken;

use super::{Fault, KeystoreOptions, Shared, Shielded, build, millis, named};
use crate::accept::{SeenKids, Verdict, accept};
use crate::codes::{
    FLEET_KEY_REPLACED, PROVIDER_NEARLY_FULL, RING_ACTIVATED_UNPUBLISHED, RING_HALF_UNOPENED,
    RING_SEALED_WITHOUT_KEK,
};
use crate::findings::{Finding, Severity};
use crate::place::load;
use crate::seal::Keks;
use crate::{Findings, KeyId, Snapshot};

/// The task that keeps a [`Keystore`](super::Keystore) up to date.
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
    /// From the record that was accepted first; `kids` are those it publishes.
    pub(super) fn new(
        shared: Arc<Shared>,
        provider: Arc<dyn SecretProvider>,
        options: KeystoreOptions,
        accepted: Revision,
        kids: SeenKids,
    ) -> Self {
        Self {
            shared,
            provider,
            options,
            seen: accepted.clone(),
            accepted,
            hold: None,
            told: Age::Fresh,
            has_refused: false,
            kids,
        }
    }

    /// Follows the provider until `cancel`. `on_swap` sees each new snapshot before [`Keystore::snapshot`](super::Keystore::snapshot) does.
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

    /// Until the next look is due: a nudge of the provider's (not before `pause`) or of this process's, the timer, or the
    /// end of a hold.
    async fn wait(&self, pause: Duration) {
        let timer = jittered(self.refresh());
        let held = self.hold.as_ref().map(|hold| hold.until.since(self.shared.clock.boot()));
        let due = held.map_or(timer, |held| held.min(timer));
        let nudged = async {
            tokio::time::sleep(pause).await;
            self.provider.changed(&self.seen).await;
        };
        // Either way a look follows, and it compares with the provider itself.
        tokio::select! {
            _ = tokio::time::timeout(due.max(pause), nudged) => {}
            // One that came during the last look is kept, since that may have been too early to see it.
            () = self.shared.nudged.notified() => {}
        }
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
        let record = Arc::new(record);
        let (snapshot, notes) = self.build(Arc::clone(&record)).await?;
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
                tell_notes(&notes);
                let hold = self.hold.take().map(|hold| (hold.until, hold.kids));
                self.serve(snapshot, hold, on_swap);
            }
            Verdict::ServeSigningOn(kids) => {
                let span = snapshot.rotation().propagation() + self.options.max_lag;
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
        self.shared.keep(Shielded::of(&record.entries));
        Ok(())
    }

    /// Reads the record with the KEKs that are at hand, and once more with those that are there now if it names another.
    async fn build(&self, record: Arc<Record>) -> Result<(Snapshot, Findings), Findings> {
        let known = self.shared.snapshot.load_full();
        let description = self.provider.describe();
        let run = async |keks: &Keks| {
            let opening = self.options.opening(keks, Some(Arc::clone(&known)));
            build(Arc::clone(&record), &description, &self.options, &opening).await.result
        };
        let keks = self.shared.keks.load_full();
        let built = run(&keks).await;
        let (Ok((_, found)) | Err(found)) = &built;
        let wants_another = found.contains(&RING_HALF_UNOPENED) || found.contains(&RING_SEALED_WITHOUT_KEK);
        if !wants_another || self.options.keks.is_empty() {
            return built;
        }
        match self.options.load_keks().await {
            Ok((now, _)) if !now.ids().eq(keks.ids()) => {
                tracing::info!(
                    keks = now.ids().collect::<Vec<_>>().join(", "),
                    "other key-encryption keys are here now"
                );
                self.shared.keks.store(Arc::new(now.clone()));
                run(&now).await
            }
            Ok(_) => built,
            Err(faults) => {
                tell(&faults, "the key-encryption keys could not be read again; those from the start stay");
                built
            }
        }
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
        match (now, self.shared.fault()) {
            (Age::Fresh, _) => tracing::info!("the last good look at the provider is fresh; minting goes on"),
            (Age::Old, None) => {
                tracing::warn!(age_s, limit_s, "the last good look at the provider is getting old");
            }
            (Age::Old, Some((Finding { code, place, message }, is_refusal))) => tracing::warn!(
                age_s,
                limit_s,
                code = code.name,
                place,
                cure = code.cure,
                "minting will stop at the limit: {} ({}): {message}",
                what_is_wrong(is_refusal),
                code.name
            ),
            (Age::Stale, None) => tracing::error!(
                age_s,
                limit_s,
                "minting stops until the provider answers; publishing goes on"
            ),
            (Age::Stale, Some((Finding { code, place, message }, is_refusal))) => tracing::error!(
                age_s,
                limit_s,
                code = code.name,
                place,
                cure = code.cure,
                "minting stops: {} ({}): {message}; publishing goes on",
                what_is_wrong(is_refusal),
                code.name
            ),
        }
    }

    fn fault(&self, fault: Option<Fault>) {
        *self.shared.last_fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}

fn what_is_wrong(is_refusal: bool) -> &'static str {
    if is_refusal { "the provider's record is refused" } else { "the provider gives no record" }
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

/// The alarms of a replica that serves on.
fn tell_notes(notes: &Findings) {
    for Finding { code, place, message } in notes.iter() {
        if *code == &RING_HALF_UNOPENED {
            tracing::error!(code = code.name, place, fault = message, cure = code.cure, "{}", code.meaning);
        } else if *code == &PROVIDER_NEARLY_FULL {
            tracing::warn!(code = code.name, place, fault = message, cure = code.cure, "{}", code.meaning);
        }
    }
}

fn join(kids: &[KeyId]) -> String {
    kids.iter().map(KeyId::as_str).collect::<Vec<_>>().join(", ")
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

const FIRST_PAUSE: Duration = Duration::from_millis(250);
