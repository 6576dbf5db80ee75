//! Accepts connections, serves each in a task of its own, and ends them in order.
//!
//! hyper-util's automatic builder speaks HTTP/1.1 and, to whoever begins with its preface, HTTP/2. `axum::serve` would
//! do the same without any of the limits.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use oneseal::{BootTime, Clock, SystemClock};
use oneseal_keystore::findings::chain;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::activity::{Verdict, Watch, Watched};
use super::caller::{Caller, Ends};
use super::crowd::{Crowd, Member};
use super::front::Front;
use super::handshake::Begin;
use crate::metrics::Listener;
use crate::state::State;

/// A socket that connections come in by.
pub(crate) trait Accept: Send + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next one, with who is at its other end where the kernel knows.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, Option<Caller>)>>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, Option<Caller>)>> {
        let (stream, peer) = ready!(Self::poll_accept(self, cx))?;
        // Answers are one small write: nothing is gained by waiting for more, and 40 ms are lost.
        stream.set_nodelay(true)?;
        let caller = Caller::Remote(Ends::new(peer, stream.local_addr()?));
        Poll::Ready(Ok((stream, Some(caller))))
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, Option<Caller>)>> {
        let (stream, _) = ready!(Self::poll_accept(self, cx))?;
        let caller = stream.peer_cred()?.into();
        Poll::Ready(Ok((stream, Some(caller))))
    }
}

/// Serves `app` on `socket`, over what `transport` begins each connection with, until `close`; then closes the socket, lets every connection finish what it has begun,
/// and returns when the last one has.
///
/// # Cancel safety
/// Dropping it drops the socket and every connection at once.
pub(crate) async fn serve<L, H, S, B>(
    socket: L,
    transport: H,
    app: S,
    listener: Listener,
    state: Arc<State>,
    capacity: usize,
    close: CancellationToken,
) where
    L: Accept,
    H: Begin<L::Stream>,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let crowd = Arc::new(Crowd::new(listener, capacity, state.metrics.displaced(listener)));
    let builder = builder();
    let mut connections = JoinSet::new();
    let mut told = None;
    loop {
        // The one that has no place yet holds up the others, which wait in the kernel's queue.
        let next = async {
            let (stream, caller) = accept(&socket, &mut told).await;
            (stream, caller, crowd.admit().await)
        };
        let (stream, caller, member) = tokio::select! {
            // Where there is no place, the one that waits for it is closed like those in the queue; otherwise nothing
            // is awaited between accepting and spawning, and no connection is lost.
            () = close.cancelled() => break,
            next = next => next,
        };
        let front =
            Front::new(app.clone(), Arc::clone(&state), listener, caller, Arc::clone(&member.activity));
        let connection =
            Connection { member, close: close.clone(), counted: state.metrics.open_connection(listener) };
        connections.spawn(connection.begin(stream, transport.clone(), builder.clone(), front));
        // Those that have ended; a panic among them has been logged by the hook.
        while connections.try_join_next().is_some() {}
    }
    drop(socket);
    while connections.join_next().await.is_some() {}
}

/// The next connection, however long it takes.
async fn accept<L: Accept>(socket: &L, told: &mut Option<BootTime>) -> (L::Stream, Option<Caller>) {
    loop {
        match poll_fn(|cx| socket.poll_accept(cx)).await {
            Ok(accepted) => return accepted,
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "a connection came to nothing")
            }
            Err(error) => {
                // No more file descriptors or memory: accepting at once again would only burn the processor.
                let now = SystemClock.boot();
                if told.is_none_or(|told| now.since(told) >= TELL_EVERY) {
                    tracing::warn!(%error, "connections cannot be accepted; told once a minute");
                    *told = Some(now);
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput, NotConnected};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | NotConnected | InvalidInput
    )
}

/// One accepted connection.
struct Connection<C> {
    /// Held for as long as the connection lives.
    member: Member,
    close: CancellationToken,
    /// Counts it for as long as it lives.
    counted: C,
}

impl<C> Connection<C> {
    /// Begins it, and serves it if that came to something. While it begins, nothing has been asked, so closing, or
    /// another one that needs its place, cuts it off.
    async fn begin<T, H, S, B>(
        self,
        stream: T,
        transport: H,
        builder: auto::Builder<TokioExecutor>,
        front: Front<S>,
    ) where
        H: Begin<T>,
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.member.activity.start();
        let stream = tokio::select! {
            stream = transport.begin(stream) => stream,
            () = self.close.cancelled() => None,
            () = self.member.activity.displaced() => None,
        };
        let Some(stream) = stream else { return };
        let io = Watched::new(stream, Arc::clone(&self.member.activity));
        self.serve(builder, TokioIo::new(io), front).await;
    }

    async fn serve<T, S, B>(
        self,
        builder: auto::Builder<TokioExecutor>,
        io: TokioIo<Watched<T>>,
        front: Front<S>,
    ) where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { member, close, counted: _counted } = self;
        let activity = &member.activity;
        let service = service_fn(move |request| front.clone().answer(request));
        let mut connection = pin!(builder.serve_connection(io, service));
        let mut watch = Watch::default();
        let mut looks = tokio::time::interval(Watch::EVERY);
        // Not at once: a new connection gets its whole first period.
        looks.reset();
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_closing = false;
        loop {
            tokio::select! {
                // It has ended by itself, whatever the reason: a client that went away is nobody's fault.
                ended = connection.as_mut() => return ended.unwrap_or_else(|error| {
                    tracing::debug!(error = %chain(&*error), "a connection broke");
                }),
                // The request under way is answered, then it ends.
                () = close.cancelled(), if !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = activity.multiplexed() => member.limit_multiplexed(),
                // Another one needs its place. What is written gets a moment to leave.
                () = activity.displaced() => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                    looks = tokio::time::interval(GRACE);
                    looks.reset();
                }
                _ = looks.tick() => match watch.look(activity) {
                    _ if activity.is_displaced() && !activity.is_busy() => return,
                    Verdict::Keep => {}
                    Verdict::Idle if !is_closing => {
                        is_closing = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    // Told to close and still there: its client does not read.
                    Verdict::Idle | Verdict::TooSlow => return,
                },
            }
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // `activity` measures both the slow and the idle.
        .header_read_timeout(None)
        // Who has nothing more to send may still want the answer (RFC 9112 section 9.6).
        .half_close(true)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD_H2)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(MAX_STREAMS);
    builder
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Of what lasts, ten lines a second say no more than one a minute.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// For the last words of a connection whose place another one needs: they need no more than a buffer.
const GRACE: Duration = Duration::from_millis(200);
/// Request line and headers. A request for a document has some hundred bytes; cookies of a shared domain and the
/// headers of several proxies fit as well.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEAD_H2: u32 = 16 * 1024;
/// The least there is (RFC 9113 section 6.9.2): no body that anybody wants here is larger.
const WINDOW: u32 = 64 * 1024 - 1;
/// Requests under way on one HTTP/2 connection (RFC 9113 section 6.5.2 wants at least 100).
const MAX_STREAMS: u32 = 100;
