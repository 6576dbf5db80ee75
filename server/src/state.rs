//! What the listeners and the lifecycle of one server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oneseal::Issuer;
use oneseal_coordination::events::Follower;
use tokio_util::sync::CancellationToken;

use crate::http::admin::EventSeats;
use crate::http::request_id::RequestIds;
use crate::metrics::ServerMetrics;

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
            ending: CancellationToken::new(),
            is_ready: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
        }
    }

    /// The same, with an event log.
    pub(crate) fn with_events(self, events: Option<Follower>) -> Self {
        Self { events, ..self }
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
        self.is_ready.load(Ordering::Acquire) && !self.is_draining.load(Ordering::Acquire)
    }
}
