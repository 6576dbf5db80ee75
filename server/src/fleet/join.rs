//! The way in: before anything is bound, this replica's row, everybody's rows, and the question whether it may stand
//! beside them.

use std::time::Duration;

use oneseal::{BootTime, Clock, Findings, Issuer};
use oneseal_coordination::events::AppendError;
use oneseal_keystore::findings::chain;
use oneseal_keystore::fleet::{FLEET_INSTANCE_IN_USE, FLEET_UNREADABLE, Own, judge};

use super::membership::{Membership, View};
use super::news::of_replica;
use super::store::{Beaten, StoreError};
use crate::gate::of_database_error;

impl Membership {
    /// Joins the fleet with what `issuer` would serve. A database that does not answer, and an older process of the same
    /// name that still beats, are waited for until `timeout` after `began`. A replica that must not join leaves again.
    ///
    /// # Errors
    /// What keeps it out. Warnings come with it, and alone where it may join.
    ///
    /// # Cancel safety
    /// Dropped, it may leave a row behind that is joining and falls silent: never a publish point.
    pub(crate) async fn join(
        &self,
        issuer: &Issuer,
        allow_key_replacement: bool,
        began: BootTime,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> Findings {
        self.begin(issuer);
        self.set_row(true);
        let at = clock.boot();
        let entered = match self.enter(issuer, began, timeout, clock).await {
            Ok(entered) => entered,
            Err(found) => return found,
        };
        let facts = self.facts(issuer, false);
        let own =
            Own { instance: self.instance(), facts: &facts, allow_key_replacement, stored: entered.stored };
        let judgement = judge(own, &entered.fleet);
        let findings = judgement.findings.clone();
        if judgement.is_conflict() {
            self.withdraw().await;
            return findings;
        }
        self.learn(View {
            fleet: entered.fleet,
            judgement,
            event_head: entered.event_head,
            stored: entered.stored,
            at,
        });
        findings
    }

    /// Says that this replica serves no more, now that its listener has closed, and logs it. A database that does not answer
    /// within `patience` leaves the row to fall silent.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may have left.
    pub(crate) async fn leave(&self, issuer: &Issuer, patience: Duration) {
        self.set_closed();
        self.set_row(false);
        let leaving = async {
            self.store().leave().await?;
            if self.facts(issuer, false).is_public_only() {
                return Ok(());
            }
            let view = self.view();
            let mut peers = view.iter().flat_map(|view| &view.fleet.peers);
            let own = peers.find(|peer| peer.instance == self.instance());
            let draft = of_replica("replica.left", self.fleet(), self.instance(), own);
            self.store().tell(issuer.url().as_str(), &draft).await
        };
        let why = match tokio::time::timeout(patience, leaving).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => chain(&error),
            Err(_) => format!("no answer within {patience:?}"),
        };
        tracing::warn!(
            why,
            instance = self.instance(),
            "this replica could not leave the registry: it will be silent there until it is back or forgotten"
        );
    }

    /// Takes the row of a replica that does not serve after all out of everybody's way, if it has one.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may have left; a row that stays has never served and falls silent, and nothing waits for it.
    pub(crate) async fn withdraw(&self) {
        if !self.may_have_row() {
            return;
        }
        self.set_row(false);
        if let Ok(Err(error)) = tokio::time::timeout(FIRST_PAUSE * 4, self.store().leave()).await {
            tracing::debug!(error = chain(&error), "the row of a replica that does not start stays behind");
        }
    }

    /// Whether nobody else in the fleet serves, so that only the issuer's own URL can tell of others.
    pub(crate) fn is_alone(&self) -> bool {
        let view = self.view();
        let mut others = view.iter().flat_map(|view| view.fleet.publish_points());
        !others.any(|peer| peer.instance != self.instance())
    }

    async fn enter(
        &self,
        issuer: &Issuer,
        began: BootTime,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> Result<Beaten, Findings> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1_u32;
        loop {
            let error = match self.store().join(&self.facts(issuer, false)).await {
                Ok(entered) => return Ok(entered),
                Err(error) => error,
            };
            let left = timeout.saturating_sub(clock.boot().since(began));
            if !error.is_transient() || left.is_zero() {
                return Err(self.refusal(&error));
            }
            let wait = pause.min(left);
            tracing::warn!(
                attempt,
                left_s = left.as_secs(),
                why = chain(&error),
                "this replica cannot join its fleet yet"
            );
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(MAX_PAUSE);
            attempt = attempt.saturating_add(1);
        }
    }

    fn refusal(&self, error: &StoreError) -> Findings {
        let mut findings = Findings::new();
        match error {
            StoreError::InUse { by } => {
                findings.push(&FLEET_INSTANCE_IN_USE, "ops.instance", by);
            }
            StoreError::Database(error) | StoreError::Event(AppendError::Database(error)) => {
                findings.extend(of_database_error(error));
            }
            StoreError::TooLong(_) | StoreError::Event(_) => {
                findings.push(&FLEET_UNREADABLE, self.store().location(), chain(error));
            }
        }
        findings
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Short enough that a restarted database, or the end of an older process, costs little.
const MAX_PAUSE: Duration = Duration::from_secs(2);
