//! The keys of one issuer, kept: the last good set, the one running attempt, and who waits for it.
//!
//! What to do is decided in `cache`; here it is done. An attempt is a task of its own, because a caller who gives up
//! must not take it along: whoever sends a token and hangs up could otherwise keep new keys out for ever. The tasks
//! are owned by [`Live`] and end with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use oneseal_coordination::{BootTime, Clock};
use oneseal_keystore::KeyId;
use oneseal_keystore::findings::chain;
use oneseal_keystore::verify::UnverifiedJws;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cache::{Action, Need, Observation, State};
use crate::error::{Invalid, SourceError, Unavailable, VerifyError};
use crate::keyset::KeySet;
use crate::sightings::{Moment, Sighting, Sightings};
use crate::source::{Fresh, Source};

/// The keys of one issuer.
#[derive(Debug)]
pub(crate) struct Live {
    shared: Arc<Shared>,
    attempts: Mutex<JoinSet<()>>,
}

impl Live {
    pub(crate) fn new(source: Source, clock: Arc<dyn Clock>, stale_limit: Duration) -> Self {
        let book = Mutex::new(Book { state: State::new(stale_limit), cause: None });
        let shared =
            Shared { source, clock, book, good: ArcSwapOption::empty(), ended: watch::Sender::new(0) };
        Self { shared: Arc::new(shared), attempts: Mutex::new(JoinSet::new()) }
    }

    /// The set to judge `jws` by; its key is in there, or nothing that could be fetched now would bring it.
    ///
    /// # Errors
    /// [`Unavailable`], or [`Invalid::UnknownKid`].
    pub(crate) async fn keys_for(&self, jws: &UnverifiedJws<'_>) -> Result<Arc<KeySet>, VerifyError> {
        if let Some(keys) = self.shared.fresh_keys_with(jws) {
            return Ok(keys);
        }
        let mut awaited = false;
        loop {
            let (keys, action) = self.shared.wanted(jws, awaited);
            match (action, keys) {
                (Action::Use, Some(keys)) => return Ok(keys),
                (Action::UseAndStart(number), Some(keys)) => {
                    self.launch(number);
                    return Ok(keys);
                }
                (Action::Start(number), _) => {
                    self.launch(number);
                    self.shared.ended(number).await;
                }
                (Action::Wait(number), _) => self.shared.ended(number).await,
                (Action::Unknown, _) => return Err(Invalid::UnknownKid.into()),
                (Action::Unavailable { retry_after }, _) => return Err(self.shared.unavailable(retry_after)),
                // State and set change under one lock, so there is a set whenever the state says so.
                (Action::Use | Action::UseAndStart(_), None) => {
                    return Err(self.shared.unavailable(Duration::ZERO));
                }
            }
            awaited = true;
        }
    }

    /// Lets the keys be read again, if that is due for a token which other keys might have verified. Waits for nothing.
    pub(crate) fn doubt(&self) {
        let now = self.shared.clock.boot();
        let action = self.shared.book().state.step(Observation::Doubted, now);
        if let Action::UseAndStart(number) = action {
            self.launch(number);
        }
    }

    /// Fetches now, or joins the attempt that runs.
    ///
    /// # Errors
    /// [`Unavailable`] if that attempt failed; the last good set stays.
    pub(crate) async fn refresh(&self) -> Result<(), Unavailable> {
        self.carry_out(Observation::Refresh).await;
        self.shared.last_outcome()
    }

    /// Fetches if it is time to, and says how long until it is again.
    pub(crate) async fn tick(&self) -> Duration {
        self.carry_out(Observation::Tick).await;
        self.shared.book().state.next_tick(self.shared.clock.boot())
    }

    /// The last good set, if it may still be judged by.
    pub(crate) fn keys_in_use(&self) -> Option<Arc<KeySet>> {
        let now = self.shared.clock.boot();
        let book = self.shared.book();
        book.state.is_usable(now).then(|| self.keys())?
    }

    /// The last good set.
    pub(crate) fn keys(&self) -> Option<Arc<KeySet>> {
        self.shared.good.load().as_ref().map(|good| Arc::clone(&good.keys))
    }

    /// What the reads until now say of a key; none before the first good one.
    pub(crate) fn sighting(&self, key: &KeyId) -> Option<Sighting> {
        self.shared.good.load().as_ref().map(|good| good.sightings.of(key))
    }

    /// Sees to it that a good read began after `moment`.
    ///
    /// # Errors
    /// [`Unavailable`] if none did, and none may be made just now.
    pub(crate) async fn look_again(&self, moment: Moment) -> Result<(), Unavailable> {
        while self.shared.good.load().as_ref().is_none_or(|good| good.sightings.last_read() <= moment) {
            let now = self.shared.clock.boot();
            let action = self.shared.book().state.step(Observation::LookAgain, now);
            match action {
                Action::Start(number) => {
                    self.launch(number);
                    self.shared.ended(number).await;
                }
                Action::Wait(number) => self.shared.ended(number).await,
                Action::Unavailable { retry_after } => {
                    return Err(Unavailable { cause: self.shared.book().cause.clone(), retry_after });
                }
                Action::Use | Action::UseAndStart(_) | Action::Unknown => return Ok(()),
            }
        }
        Ok(())
    }

    async fn carry_out(&self, observation: Observation<'_>) {
        let action = {
            let now = self.shared.clock.boot();
            self.shared.book().state.step(observation, now)
        };
        match action {
            Action::Start(number) => {
                self.launch(number);
                self.shared.ended(number).await;
            }
            Action::Wait(number) => self.shared.ended(number).await,
            Action::Use | Action::UseAndStart(_) | Action::Unknown | Action::Unavailable { .. } => {}
        }
    }

    fn launch(&self, number: u64) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        while attempts.try_join_next().is_some() {}
        let attempt = Attempt { shared: Arc::clone(&self.shared), number, ended: false };
        attempts.spawn(attempt.run());
    }
}

#[derive(Debug)]
struct Shared {
    source: Source,
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
    good: ArcSwapOption<GoodSet>,
    /// The number of the last attempt that ended.
    ended: watch::Sender<u64>,
}

/// What changes together.
#[derive(Debug)]
struct Book {
    state: State,
    /// Why the last attempt failed, if it did.
    cause: Option<Arc<SourceError>>,
}

/// A set, and until when it may be used without asking the state.
#[derive(Debug)]
struct GoodSet {
    keys: Arc<KeySet>,
    refresh_at: BootTime,
    sightings: Sightings,
}

impl Shared {
    /// The path of nearly every token: no lock.
    fn fresh_keys_with(&self, jws: &UnverifiedJws<'_>) -> Option<Arc<KeySet>> {
        let good = self.good.load();
        let now = self.clock.boot();
        let good = good.as_ref().filter(|good| now < good.refresh_at)?;
        is_settled(&good.keys, jws, now).then(|| Arc::clone(&good.keys))
    }

    /// The set is read under the lock, so that it is the one which the state speaks of.
    fn wanted(&self, jws: &UnverifiedJws<'_>, awaited: bool) -> (Option<Arc<KeySet>>, Action) {
        let now = self.clock.boot();
        let kid = jws.kid().map(KeyId::parse);
        let mut book = self.book();
        let keys = self.good.load().as_ref().map(|good| Arc::clone(&good.keys));
        let need = match (&keys, &kid) {
            (Some(keys), _) if is_settled(keys, jws, now) => Need::Settled,
            (_, Some(Ok(kid))) => Need::Missing(kid),
            (_, Some(Err(_))) => Need::Impossible,
            (_, None) => Need::Settled,
        };
        let action = book.state.step(Observation::Wanted { need, awaited }, now);
        (keys, action)
    }

    /// Waits until attempt `number` has ended.
    async fn ended(&self, number: u64) {
        // The sender lives as long as we do, so this only ends when the number is reached.
        let _ = self.ended.subscribe().wait_for(|ended| *ended >= number).await;
    }

    fn end(&self, number: u64, outcome: Result<(Fresh, Moment), Option<SourceError>>) {
        let now = self.clock.boot();
        {
            let mut book = self.book();
            match outcome {
                Ok((fresh, began)) => self.publish(&mut book, fresh, began, now),
                Err(cause) => {
                    book.state.step(Observation::Ended(Err(())), now);
                    book.cause = cause.map(Arc::new);
                }
            }
        }
        self.ended.send_replace(number);
    }

    fn publish(&self, book: &mut Book, fresh: Fresh, began: Moment, now: BootTime) {
        let Fresh { mut keys, mut max_age } = fresh;
        let before = self.good.load();
        // Whose a key is does not end with the limit up to which a set is used.
        let known = before.as_ref().map(|before| &before.sightings);
        let sightings = Sightings::after(known, began, keys.thumbprints());
        if let Some(before) = before.as_ref().filter(|_| book.state.is_usable(now)) {
            keys = keys.after(&before.keys, book.state.started_at().unwrap_or(now));
        }
        if !keys.held_over().is_empty() {
            let kids =
                keys.held_over().iter().map(|held| held.key.kid().as_str()).collect::<Vec<_>>().join(" ");
            tracing::info!(issuer = %self.source.issuer(), kids, "keys are missing; looking again before they end");
            max_age = Some(Duration::ZERO);
        }
        book.state.step(Observation::Ended(Ok(max_age)), now);
        book.cause = None;
        let refresh_at = book.state.refresh_at().unwrap_or(now);
        self.good.store(Some(Arc::new(GoodSet { keys: Arc::new(keys), refresh_at, sightings })));
    }

    fn unavailable(&self, retry_after: Duration) -> VerifyError {
        VerifyError::Unavailable(Unavailable { cause: self.book().cause.clone(), retry_after })
    }

    fn last_outcome(&self) -> Result<(), Unavailable> {
        let now = self.clock.boot();
        let book = self.book();
        if book.state.has_failed() {
            return Err(Unavailable { cause: book.cause.clone(), retry_after: book.state.next_tick(now) });
        }
        Ok(())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether fresh keys would change nothing for this token.
fn is_settled(keys: &KeySet, jws: &UnverifiedJws<'_>, now: BootTime) -> bool {
    jws.kid().is_none_or(|kid| keys.has(kid, now))
}

/// The running attempt. However it ends, also by being dropped with its runtime, those who wait are told.
struct Attempt {
    shared: Arc<Shared>,
    number: u64,
    ended: bool,
}

impl Attempt {
    async fn run(mut self) {
        let began = Moment::next();
        let outcome = self.shared.source.read(self.shared.clock.boot()).await;
        self.log(&outcome);
        self.ended = true;
        self.shared.end(self.number, outcome.map(|fresh| (fresh, began)).map_err(Some));
    }

    fn log(&self, outcome: &Result<Fresh, SourceError>) {
        let issuer = self.shared.source.issuer();
        match outcome {
            Ok(fresh) => {
                let dropped = fresh.keys.dropped();
                tracing::debug!(%issuer, dropped = dropped.total(), "keys read");
                if dropped.private > 0 {
                    let count = dropped.private;
                    tracing::warn!(%issuer, count, "the issuer publishes private or symmetric keys; it should be told");
                }
            }
            Err(error) => {
                tracing::warn!(%issuer, reason = error.reason(), error = %chain(error), "keys not read")
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.end(self.number, Err(None));
        }
    }
}
