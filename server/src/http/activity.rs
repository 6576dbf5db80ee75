//! Which connections are of no more use: those that send a request too slowly and those that nobody uses.
//!
//! hyper's own header time-out also ends a kept-alive connection after that time without a request, which would race
//! with the proxies that keep theirs for a minute, and nothing of it guards the first bytes of a connection whose
//! protocol is not known yet. So each connection has a small record of what has happened, and its task looks at that
//! now and then: on the path of a request there are a few atomic operations and no clock.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// What has happened on one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Requests begun; wraps around.
    begun: AtomicU32,
    /// Requests that have no response yet.
    open: AtomicU32,
    /// Whether bytes have come that are not a whole request yet.
    is_reading: AtomicBool,
    /// Whether it speaks HTTP/2, where bytes come that are part of no request: acknowledgements, pings, windows.
    is_multiplexed: AtomicBool,
    multiplexed: Notify,
    /// How many connections its listener has accepted, this one among them.
    accepted: Arc<AtomicU64>,
    /// What that was when this one came or was last used.
    last_used: AtomicU64,
    /// Whether its task has run, and so has read what had come by then.
    has_begun: AtomicBool,
    /// Whether a caller has been let in who needs more than a connection for it.
    is_trusted: AtomicBool,
    is_displaced: AtomicBool,
    displaced: Notify,
}

impl Activity {
    /// A connection whose first request is due: the `number`th of a listener that counts them in `accepted`.
    pub(crate) fn new(accepted: Arc<AtomicU64>, number: u64) -> Arc<Self> {
        Arc::new(Self {
            begun: AtomicU32::new(0),
            open: AtomicU32::new(0),
            is_reading: AtomicBool::new(true),
            is_multiplexed: AtomicBool::new(false),
            multiplexed: Notify::new(),
            accepted,
            last_used: AtomicU64::new(number),
            has_begun: AtomicBool::new(false),
            is_trusted: AtomicBool::new(false),
            is_displaced: AtomicBool::new(false),
            displaced: Notify::new(),
        })
    }

    /// A whole request head has come. The response counts as open until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenRequest {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        self.is_reading.store(false, Ordering::Relaxed);
        OpenRequest { activity: Arc::clone(self), is_use: true }
    }

    /// Its task runs: what the kernel holds of a request is read now.
    pub(crate) fn start(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Whether its task has run.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Whether it has shown who it is: see [`OpenRequest::judged`].
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }

    /// Whether a request has no response yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Whether it speaks HTTP/2.
    pub(crate) fn is_multiplexed(&self) -> bool {
        self.is_multiplexed.load(Ordering::Relaxed)
    }

    /// The first bytes say that it does.
    pub(crate) fn multiplex(&self) {
        self.is_multiplexed.store(true, Ordering::Relaxed);
        self.multiplexed.notify_one();
    }

    /// Returns, once, when they do.
    ///
    /// # Cancel safety
    /// Dropped, it loses nothing.
    pub(crate) async fn multiplexed(&self) {
        self.multiplexed.notified().await;
    }

    /// Grows from one use to the next, of all connections of a listener.
    pub(crate) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// Asks it to make room for another one.
    pub(crate) fn displace(&self) {
        self.is_displaced.store(true, Ordering::Relaxed);
        self.displaced.notify_one();
    }

    /// Whether it was asked to.
    pub(crate) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }

    /// Returns, once, when it is asked to.
    ///
    /// # Cancel safety
    /// Dropped, it loses nothing.
    pub(crate) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

/// A request without a response yet.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    activity: Arc<Activity>,
    /// Whether it counts as a use of the connection.
    is_use: bool,
}

impl OpenRequest {
    /// Where callers must show who they are: one who has is trusted from now on, and a request that was refused keeps no
    /// connection from making room.
    pub(crate) fn judged(&mut self, is_good: bool) {
        self.is_use = is_good;
        if is_good {
            self.activity.is_trusted.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if self.is_use {
            let accepted = self.activity.accepted.load(Ordering::Relaxed);
            self.activity.last_used.store(accepted, Ordering::Relaxed);
        }
        self.activity.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells that an answer without an end is still being read: each part of it that is written counts as a use of the
/// connection. One that nobody reads is thus idle, as soon as what it has written does not leave.
#[derive(Clone, Debug)]
pub(crate) struct InUse(pub(crate) Arc<Activity>);

impl InUse {
    /// A part was asked for, or came.
    pub(crate) fn touch(&self) {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.0.last_used.store(self.0.accepted.load(Ordering::Relaxed), Ordering::Relaxed);
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
        let is_busy = activity.is_busy() || begun != self.begun;
        let is_reading =
            activity.is_reading.load(Ordering::Relaxed) && !activity.is_multiplexed.load(Ordering::Relaxed);
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

/// A transport that tells its activity when bytes come, and whether the first are those of HTTP/2.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    inner: T,
    activity: Arc<Activity>,
    /// What is still to come of [`PREFACE`]; empty when the question is settled.
    preface: &'static [u8],
}

impl<T> Watched<T> {
    /// `inner`, watched by `activity`.
    pub(crate) fn new(inner: T, activity: Arc<Activity>) -> Self {
        Self { inner, activity, preface: PREFACE }
    }

    fn look_for_preface(&mut self, came: &[u8]) {
        let len = came.len().min(self.preface.len());
        if came[..len] != self.preface[..len] {
            self.preface = &[];
        } else if len > 0 {
            self.preface = &self.preface[len..];
            if self.preface.is_empty() {
                self.activity.multiplex();
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if polled.is_ready() {
            self.activity.is_reading.store(true, Ordering::Relaxed);
            if !self.preface.is_empty() {
                self.look_for_preface(&buf.filled()[before..]);
            }
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
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

/// What every HTTP/2 connection begins with (RFC 9113 section 3.4), and no request of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";
/// A request head may take 10 to 15 s: longer than any network needs for a few hundred bytes, short enough that
/// holding connections open half sent is no bargain.
const MAX_LOOKS_READING: u32 = 3;
/// 80 s without a request: proxies and load balancers keep a connection for 60 s (AWS ALB, nginx) and must be the
/// ones who close, or a request of theirs meets a closing connection.
const MAX_LOOKS_IDLE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn activity() -> Arc<Activity> {
        Activity::new(Arc::default(), 1)
    }

    fn looks(watch: &mut Watch, activity: &Activity, times: u32) -> Vec<Verdict> {
        (0..times).map(|_| watch.look(activity)).collect()
    }

    #[test]
    fn a_connection_that_sends_nothing_is_dropped() {
        let (activity, mut watch) = (activity(), Watch::default());
        assert_eq!(looks(&mut watch, &activity, 3), [Verdict::Keep, Verdict::Keep, Verdict::TooSlow]);
    }

    #[test]
    fn a_connection_in_use_is_kept_and_an_idle_one_is_closed() {
        let (activity, mut watch) = (activity(), Watch::default());
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
        let (activity, mut watch) = (activity(), Watch::default());
        let open = activity.begin();
        assert!(looks(&mut watch, &activity, 100).iter().all(|verdict| *verdict == Verdict::Keep));
        drop(open);
        activity.is_reading.store(true, Ordering::Relaxed);
        assert_eq!(looks(&mut watch, &activity, 3).last(), Some(&Verdict::TooSlow));
    }

    /// RFC 9113 sections 6.5.3, 6.7 and 6.9: what a client sends besides requests says nothing about one.
    #[test]
    fn http_2_frames_between_requests_are_no_slow_request() {
        let (activity, mut watch) = (activity(), Watch::default());
        activity.multiplex();
        drop(activity.begin());
        let mut verdicts = Vec::new();
        for _ in 0..=MAX_LOOKS_IDLE {
            activity.is_reading.store(true, Ordering::Relaxed);
            verdicts.push(watch.look(&activity));
        }
        assert_eq!(verdicts.pop(), Some(Verdict::Idle));
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Keep), "{verdicts:?}");
    }

    #[test]
    fn use_is_dated_by_the_connections_that_have_come() {
        let accepted = Arc::new(AtomicU64::new(7));
        let activity = Activity::new(Arc::clone(&accepted), 7);
        let open = activity.begin();
        accepted.store(9, Ordering::Relaxed);
        assert_eq!((activity.is_busy(), activity.last_used()), (true, 7));
        drop(open);
        assert_eq!((activity.is_busy(), activity.last_used()), (false, 9));
    }

    #[test]
    fn a_refused_request_is_no_use_and_a_good_one_is_remembered() {
        let accepted = Arc::new(AtomicU64::new(7));
        let activity = Activity::new(Arc::clone(&accepted), 7);
        accepted.store(9, Ordering::Relaxed);
        activity.begin().judged(false);
        assert_eq!((activity.is_trusted(), activity.is_busy(), activity.last_used()), (false, false, 7));
        activity.begin().judged(true);
        assert_eq!((activity.is_trusted(), activity.is_busy(), activity.last_used()), (true, false, 9));
        activity.begin().judged(false);
        assert!(activity.is_trusted(), "a mistake takes nothing back");
    }

    #[tokio::test]
    async fn http_2_is_known_by_its_first_bytes_however_they_come() {
        use tokio::io::AsyncReadExt;
        for (pieces, is_multiplexed) in [
            (&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]][..], true),
            (&[b"P", b"RI * HTTP/2", b".0\r\n"], true),
            (&[b"PRI * HTTP/1.1\r\n"], false),
            (&[b"GET /PRI * HTTP/2.0"], false),
            (&[b"PR", b"OPFIND / HTTP/1.1\r\n"], false),
            (&[b""], false),
        ] {
            let activity = activity();
            let mut watched = Watched::new(Pieces(pieces.iter()), Arc::clone(&activity));
            let mut all = Vec::new();
            watched.read_to_end(&mut all).await.expect("bytes");
            assert_eq!(all, pieces.concat());
            assert_eq!(activity.is_multiplexed(), is_multiplexed, "{:?}", String::from_utf8_lossy(&all));
        }
    }

    /// Gives one piece at a time, then its end.
    struct Pieces<'a>(std::slice::Iter<'a, &'a [u8]>);

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(piece) = self.0.next() {
                buf.put_slice(piece);
            }
            Poll::Ready(Ok(()))
        }
    }
}
