//! The beat: this replica's row out, everybody's rows in, every four seconds and at once when another ring is served.

use std::sync::Arc;
use std::time::Duration;

use oneseal::{Clock, SystemClock};
use oneseal_coordination::EventDraft;
use oneseal_keystore::findings::chain;
use oneseal_keystore::fleet::{Fleet, Own, PeerState, judge};
use tokio_util::sync::CancellationToken;

use super::membership::{Membership, View};
use super::news::{Known, Told, is_reporter, of_replica};
use super::store::{Beaten, StoreError};
use crate::gate::CLOCK_SKEWED;
use crate::state::State;

/// Beats until `stop`. Changes nothing that is served: what fails is counted and told.
///
/// # Cancel safety
/// May be dropped at any point: a beat under way is done or not.
pub(crate) async fn run(membership: Arc<Membership>, state: Arc<State>, stop: CancellationToken) {
    let known =
        membership.view().map(|view| Known::of(&view.fleet, membership.instance())).unwrap_or_default();
    let mut beater =
        Beater { membership, state, told: Told::default(), known, is_clock_off: false, untold: Vec::new() };
    beater.untell_joined();
    loop {
        let served = *beater.state.issuer.snapshot().identity();
        tokio::select! {
            // A beat that is cut short is done or not; the row says it either way.
            () = stop.cancelled() => return,
            () = beater.beat() => {}
        }
        tokio::select! {
            // Nothing is under way.
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
            // The others wait for it, so they hear of it now.
            () = beater.state.issuer.changed(&served) => {}
        }
    }
}

struct Beater {
    membership: Arc<Membership>,
    state: Arc<State>,
    told: Told,
    known: Known,
    is_clock_off: bool,
    /// Events that the database has not taken yet.
    untold: Vec<EventDraft>,
}

impl Beater {
    /// What this replica has become by being here, or by being here again.
    fn untell_joined(&mut self) {
        let view = self.membership.view();
        let own = view
            .iter()
            .flat_map(|view| &view.fleet.peers)
            .find(|peer| peer.instance == self.membership.instance());
        self.untold.push(of_replica(
            "replica.joined",
            self.membership.fleet(),
            self.membership.instance(),
            own,
        ));
    }

    async fn beat(&mut self) {
        let facts = self.membership.facts(&self.state.issuer, self.state.is_ready());
        let at = SystemClock.boot();
        let answer = tokio::time::timeout(PATIENCE, self.membership.store().beat(&facts)).await;
        match answer {
            Ok(Ok(beaten)) => {
                let took = SystemClock.boot().since(at);
                self.state.issuer.set_reference_clock(beaten.database_now_ms, at + took / 2, took / 2);
                self.tell_clock();
                let has_joined_again = beaten.has_joined_again;
                self.learn(&facts, beaten, at);
                if has_joined_again {
                    self.untell_joined();
                }
                if facts.is_public_only() {
                    // Its role may not write there: who it is and what it serves stands in its row.
                    self.untold.clear();
                }
                self.tell_events().await;
            }
            Ok(Err(StoreError::InUse { by })) => {
                self.known.lost();
                self.membership.beat_failed();
                tracing::error!(
                    by,
                    instance = self.membership.instance(),
                    code = "fleet.instance_in_use",
                    "another process has taken this replica's name; this one serves on and is not seen by the others"
                );
            }
            Ok(Err(error)) => self.failed(&chain(&error)),
            Err(_) => self.failed(&format!("no answer within {PATIENCE:?}")),
        }
    }

    fn failed(&mut self, why: &str) {
        self.known.lost();
        if self.membership.beat_failed() {
            tracing::warn!(
                why,
                database = self.membership.store().location(),
                "the database does not answer; serving goes on, and minting until the staleness limit"
            );
        }
    }

    fn learn(&mut self, facts: &oneseal_keystore::fleet::Facts, beaten: Beaten, at: oneseal::BootTime) {
        let Beaten { fleet, event_head, stored, .. } = beaten;
        let membership = Arc::clone(&self.membership);
        let own = Own { instance: membership.instance(), facts, allow_key_replacement: false, stored };
        let judgement = judge(own, &fleet);
        self.tell_news(&fleet, at);
        if let Some(event) = self.told.tell(&judgement.findings, membership.fleet(), membership.instance()) {
            self.untold.push(event);
        }
        if membership.learn(View { fleet, judgement, event_head, stored, at }) {
            tracing::info!(database = membership.store().location(), "the database answers");
        }
    }

    fn tell_news(&mut self, now: &Fleet, at: oneseal::BootTime) {
        let own = self.membership.instance();
        for change in self.known.learn(now, own, at) {
            change.tell();
            if change.now == Some(PeerState::Silent) && is_reporter(now, own) {
                let peer = now.peers.iter().find(|peer| peer.instance == change.instance);
                self.untold.push(of_replica(
                    "replica.silent",
                    self.membership.fleet(),
                    &change.instance,
                    peer,
                ));
            }
        }
    }

    /// Once when the clock leaves the bounds, and once when it is back.
    fn tell_clock(&mut self) {
        let issuer = &self.state.issuer;
        let Some(offset_ms) = issuer.clock_offset_ms() else { return };
        let (backdate_s, skew_s) = {
            let snapshot = issuer.snapshot();
            (snapshot.rotation().backdate_s, snapshot.rotation().skew_s)
        };
        // Our own reading is of whole seconds.
        let is_off = offset_ms.unsigned_abs() > (backdate_s * 500).max(1000);
        match (std::mem::replace(&mut self.is_clock_off, is_off), is_off) {
            (false, true) => tracing::error!(
                code = CLOCK_SKEWED.name,
                offset_ms,
                skew_s,
                cure = CLOCK_SKEWED.cure,
                "this host's clock differs from the database's by more than half of rotation.backdate; beyond \
                 rotation.skew nothing is minted here"
            ),
            (true, false) => tracing::info!(offset_ms, "this host's clock is right again"),
            _ => {}
        }
    }

    /// Those that are not taken are tried again with the next beat.
    async fn tell_events(&mut self) {
        self.untold.truncate(MOST_UNTOLD);
        while let Some(draft) = self.untold.first() {
            let told = self.membership.store().tell(self.state.issuer.url().as_str(), draft).await;
            if let Err(error) = told {
                tracing::warn!(kind = draft.kind, why = chain(&error), "an event could not be logged yet");
                return;
            }
            self.untold.remove(0);
        }
    }
}

/// How often; the registry calls a replica silent after three of it.
const PERIOD: Duration = Duration::from_secs(4);
/// Longer than the database's own time-outs together would make a beat late for the next one.
const PATIENCE: Duration = Duration::from_secs(4);
/// More come only in an outage, and then the first ones tell the story.
const MOST_UNTOLD: usize = 32;
