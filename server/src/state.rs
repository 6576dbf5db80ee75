//! What the listeners and the lifecycle of one server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oneseal::{Issuer, Minting};
use oneseal_coordination::events::Follower;
use tokio_util::sync::CancellationToken;

use crate::fleet::Membership;
use crate::http::admin::EventSeats;
use crate::http::request_id::RequestIds;
use crate::metrics::ServerMetrics;
use crate::rules_file::Standing;

/// The state of a running server. One for each process; everything in it is changed by atomic operations alone.
#[derive(Debug)]
pub(crate) struct State {
    /// The issuer that is served.
    pub(crate) issuer: Issuer,
    /// Names for requests.
    pub(crate) request_ids: RequestIds,
    /// The server's own metrics.
    pub(crate) metrics: ServerMetrics,
    /// Follows the event log, where there is a database.
    pub(crate) events: Option<Follower>,
    /// Who listens to it.
    pub(crate) event_seats: Arc<EventSeats>,
    /// This replica among the others, where there is a database.
    pub(crate) fleet: Option<Arc<Membership>>,
    /// What has become of the rules.
    pub(crate) rules: Standing,
    /// Ends what would go on for ever: cancelled when the end begins.
    ending: CancellationToken,
    is_ready: AtomicBool,
    is_draining: AtomicBool,
}

impl State {
    /// A server that is not ready yet.
    pub(crate) fn new(issuer: Issuer) -> Self {
        Self {
            issuer,
            request_ids: RequestIds::new(),
            metrics: ServerMetrics::new(),
            events: None,
            event_seats: Arc::default(),
            fleet: None,
            rules: Standing::new(),
            ending: CancellationToken::new(),
            is_ready: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
        }
    }

    /// The same, with an event log.
    pub(crate) fn with_events(self, events: Option<Follower>) -> Self {
        Self { events, ..self }
    }

    /// The same, as one of a fleet.
    pub(crate) fn with_fleet(self, fleet: Option<Arc<Membership>>) -> Self {
        let metrics = ServerMetrics::of_fleet(fleet.clone());
        Self { fleet, metrics, ..self }
    }

    /// Every part runs.
    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// The end has begun: readiness says no, and each answer asks its client to connect elsewhere.
    pub(crate) fn set_draining(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.ending.cancel();
    }

    /// Cancelled when the end begins.
    pub(crate) fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    /// Whether the end has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Whether requests should be sent here.
    pub(crate) fn is_ready(&self) -> bool {
        self.readiness() == Readiness::Ready
    }

    /// The same, with the reason.
    pub(crate) fn readiness(&self) -> Readiness {
        if !self.is_ready.load(Ordering::Acquire) {
            return Readiness::Starting;
        }
        if self.is_draining.load(Ordering::Acquire) {
            return Readiness::Draining;
        }
        let Some(fleet) = &self.fleet else { return Readiness::Ready };
        if !fleet.has_caught_up() {
            return Readiness::Behind;
        }
        match self.issuer.health().minting {
            Minting::Stale if fleet.is_yielding() => Readiness::Stale,
            Minting::NoKey(_) if fleet.is_yielding() => Readiness::Unopened,
            _ => Readiness::Ready,
        }
    }
}

/// Whether requests should come here, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// They should.
    Ready,
    /// Not every part runs yet.
    Starting,
    /// The end has begun.
    Draining,
    /// Others serve a newer revision, and this one has never served the newest.
    Behind,
    /// It is stale, and another one mints.
    Stale,
    /// It cannot open the key that signs, and another one mints.
    Unopened,
}

impl Readiness {
    /// Its word in probes.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Draining => "draining",
            Self::Behind => "behind",
            Self::Stale => "stale_and_another_mints",
            Self::Unopened => "no_key_and_another_mints",
        }
    }
}
