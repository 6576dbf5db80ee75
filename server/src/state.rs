//! What the listeners and the lifecycle of one server share.

use std::sync::atomic::{AtomicBool, Ordering};

use oneseal::Issuer;

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
            is_ready: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
        }
    }

    /// Every part runs.
    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// The end has begun: readiness says no, and each answer asks its client to connect elsewhere.
    pub(crate) fn set_draining(&self) {
        self.is_draining.store(true, Ordering::Release);
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
