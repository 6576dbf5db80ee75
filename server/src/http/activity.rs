//! Which connections are of no more use: those that send a request too slowly and those that nobody uses.
//!
//! hyper's own header time-out also ends a kept-alive connection after that time without a request, which would race
//! with the proxies that keep theirs for a minute, and nothing of it guards the first bytes of a connection whose
//! protocol is not known yet. So each connection has a small record of what has happened, and its task looks at that
//! now and then: on the path of a request there are three atomic operations and no clock.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};

/// What has happened on one connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Requests begun; wraps around.
    begun: AtomicU32,
    /// Requests that have no response yet.
    open: AtomicU32,
    /// Whether bytes have come that are not a whole request yet.
    is_reading: AtomicBool,
}

impl Activity {
    /// A connection whose first request is due.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { is_reading: AtomicBool::new(true), ..Self::default() })
    }

    /// A whole request head has come. The response counts as open until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenRequest {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        self.is_reading.store(false, Ordering::Relaxed);
        OpenRequest(Arc::clone(self))
    }
}

/// A request without a response yet.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<Activity>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Looks at an [`Activity`] every [`Watch::EVERY`] and says when it is enough.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    begun: u32,
    /// Looks in a row that found a request half sent.
    reading: u32,
    /// Looks in a row that found nothing at all.
    idle: u32,
}

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is in use, or may be again.
    Keep,
    /// Nobody has used it for a while: close it in order.
    Idle,
    /// A request is being sent too slowly: drop it.
    TooSlow,
}

impl Watch {
    /// How often to look.
    pub(crate) const EVERY: Duration = Duration::from_secs(5);

    /// One look.
    pub(crate) fn look(&mut self, activity: &Activity) -> Verdict {
        let begun = activity.begun.load(Ordering::Relaxed);
        let is_busy = activity.open.load(Ordering::Relaxed) > 0 || begun != self.begun;
        let is_reading = activity.is_reading.load(Ordering::Relaxed);
        self.begun = begun;
        self.reading = if is_reading && !is_busy { self.reading + 1 } else { 0 };
        self.idle = if is_reading || is_busy { 0 } else { self.idle + 1 };
        if self.reading >= MAX_LOOKS_READING {
            Verdict::TooSlow
        } else if self.idle >= MAX_LOOKS_IDLE {
            Verdict::Idle
        } else {
            Verdict::Keep
        }
    }
}

/// A transport that tells its activity when bytes come.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    inner: T,
    activity: Arc<Activity>,
}

impl<T> Watched<T> {
    /// `inner`, watched by `activity`.
    pub(crate) fn new(inner: T, activity: Arc<Activity>) -> Self {
        Self { inner, activity }
    }
}

impl<T: Read + Unpin> Read for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if polled.is_ready() {
            self.activity.is_reading.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl<T: Write + Unpin> Write for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }
}

/// A request head may take 10 to 15 s: longer than any network needs for a few hundred bytes, short enough that
/// holding connections open half sent is no bargain.
const MAX_LOOKS_READING: u32 = 3;
/// 80 s without a request: proxies and load balancers keep a connection for 60 s (AWS ALB, nginx) and must be the
/// ones who close, or a request of theirs meets a closing connection.
const MAX_LOOKS_IDLE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(watch: &mut Watch, activity: &Activity, times: u32) -> Vec<Verdict> {
        (0..times).map(|_| watch.look(activity)).collect()
    }

    #[test]
    fn a_connection_that_sends_nothing_is_dropped() {
        let (activity, mut watch) = (Activity::new(), Watch::default());
        assert_eq!(looks(&mut watch, &activity, 3), [Verdict::Keep, Verdict::Keep, Verdict::TooSlow]);
    }

    #[test]
    fn a_connection_in_use_is_kept_and_an_idle_one_is_closed() {
        let (activity, mut watch) = (Activity::new(), Watch::default());
        for _ in 0..100 {
            drop(activity.begin());
            assert_eq!(watch.look(&activity), Verdict::Keep);
        }
        let last = looks(&mut watch, &activity, MAX_LOOKS_IDLE);
        assert_eq!(last.iter().filter(|verdict| **verdict == Verdict::Keep).count(), last.len() - 1);
        assert_eq!(last.last(), Some(&Verdict::Idle));
    }

    #[test]
    fn a_request_that_is_worked_on_is_neither_slow_nor_idle() {
        let (activity, mut watch) = (Activity::new(), Watch::default());
        let open = activity.begin();
        assert!(looks(&mut watch, &activity, 100).iter().all(|verdict| *verdict == Verdict::Keep));
        drop(open);
        activity.is_reading.store(true, Ordering::Relaxed);
        assert_eq!(looks(&mut watch, &activity, 3).last(), Some(&Verdict::TooSlow));
    }
}
