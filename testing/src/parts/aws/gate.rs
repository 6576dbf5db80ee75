//! The HTTP server that clients speak to: it counts, judges, breaks, and passes on to moto one call at a time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use oneseal_coordination::{Clock, SystemClock};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::super::thread::runtime;
use super::asked::{Asked, Dialect};
use super::callers::Callers;
use super::fault::Fault;
use super::moto::Moto;
use super::refusal::Refusal;
use super::{rules, sts};

/// A running gate. Dropped, it closes its connections and listens no more.
#[derive(Debug)]
pub(super) struct Gate {
    address: SocketAddr,
    pub(super) shared: Arc<Shared>,
    _stop: oneshot::Sender<Infallible>,
}

#[derive(Debug)]
pub(super) struct Shared {
    moto: &'static Moto,
    account: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) faults: Vec<Planned>,
    pub(super) counts: BTreeMap<String, usize>,
    pub(super) callers: Callers,
    pub(super) trust: sts::Trust,
}

/// A fault that waits for its calls.
#[derive(Debug)]
pub(super) struct Planned {
    /// `*` for any.
    pub(super) action: String,
    pub(super) fault: Fault,
    /// How many calls are left to it.
    pub(super) times: usize,
}

/// The connection is closed without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is cut")
    }
}

impl std::error::Error for Cut {}

impl Gate {
    pub(super) fn start(moto: &'static Moto, account: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        listener.set_nonblocking(true).expect("a socket of a runtime's");
        let shared = Arc::new(Shared { moto, account, state: Mutex::default() });
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("aws".to_owned());
        let work = move || runtime().block_on(serve(listener, serving, stopped));
        // It ends when the sender goes.
        drop(thread.spawn(work).expect("a thread can be started"));
        Self { address, shared, _stop: stop }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries `asked` out as AWS would, whoever asks.
    pub(super) async fn carry_out(&self, asked: &Asked) -> Response<Bytes> {
        let _turn = self.moto.turn.lock().await;
        let answer = rules::answer(self.moto, &self.account, asked).await;
        answer.unwrap_or_else(|error| Refusal::new(500, "InternalFailure", error).answer(asked.dialect))
    }

    async fn handle(&self, request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Cut>>, Cut> {
        let asked = Asked::read(request).await.map_err(|_| Cut)?;
        let fault = self.count(&asked.action);
        match &fault {
            Some(Fault::CutBefore) => return Err(Cut),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Delay(time)) => tokio::time::sleep(*time).await,
            Some(fault) => {
                if let Some(answer) = fault.answer(asked.dialect) {
                    return Ok(whole(answer));
                }
            }
            None => {}
        }
        let answer = self.admit(&asked).await;
        match fault {
            Some(Fault::CutAfter) => Err(Cut),
            Some(Fault::CutMidway) => Ok(half(answer)),
            _ => Ok(whole(answer)),
        }
    }

    /// Notes the call and takes what waits for it.
    fn count(&self, action: &str) -> Option<Fault> {
        let mut state = self.state();
        *state.counts.entry(action.to_owned()).or_default() += 1;
        let of_it = |planned: &Planned| planned.action == "*" || planned.action == action;
        let planned = state.faults.iter_mut().find(|planned| of_it(planned))?;
        let fault = planned.fault.clone();
        planned.times -= 1;
        state.faults.retain(|planned| planned.times > 0);
        Some(fault)
    }

    async fn admit(&self, asked: &Asked) -> Response<Bytes> {
        if asked.dialect == Dialect::Xml && asked.action == sts::ACTION {
            return self.hand_out(asked).await.unwrap_or_else(|refusal| refusal.answer(asked.dialect));
        }
        let verdict = self.state().callers.judge(asked.access_key_id().as_deref());
        match verdict {
            Ok(()) => self.carry_out(asked).await,
            Err(refusal) => refusal.answer(asked.dialect),
        }
    }

    /// Credentials for a token of an issuer's.
    ///
    /// # Errors
    /// Why AWS gives none.
    pub(super) async fn hand_out(&self, asked: &Asked) -> Result<Response<Bytes>, Refusal> {
        let trust = self.state().trust.clone();
        // Before it is anybody's turn: the issuer may need AWS to answer.
        trust.verify(asked, &self.account).await?;
        let (head, body) = self.carry_out(asked).await.into_parts();
        let until = SystemClock.wall() + trust.session.unwrap_or(HOUR);
        let Some((id, body)) = sts::session(&body, until) else {
            return Ok(Response::from_parts(head, body));
        };
        self.state().callers.remember(id, until);
        Ok(Response::from_parts(head, body.into()))
    }
}

const HOUR: Duration = Duration::from_secs(3600);

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<Infallible>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listening socket");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // The gate is gone; with the set go its connections.
            _ = &mut stopped => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(|request| shared.handle(request));
                    // How a connection ends is its client's business.
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
                });
            }
        }
    }
}

fn whole(answer: Response<Bytes>) -> Response<BoxBody<Bytes, Cut>> {
    answer.map(|body| Full::new(body).map_err(|never| match never {}).boxed())
}

/// Its length is announced and half of it comes.
fn half(answer: Response<Bytes>) -> Response<BoxBody<Bytes, Cut>> {
    let (mut head, body) = answer.into_parts();
    head.headers.insert(CONTENT_LENGTH, body.len().into());
    let first = futures_util::stream::once(std::future::ready(Ok(Frame::data(body.slice(..body.len() / 2)))));
    // What was written goes out while the rest is waited for, and not once that has failed.
    let rest = futures_util::stream::once(async {
        tokio::task::yield_now().await;
        Err(Cut)
    });
    let begun = futures_util::StreamExt::chain(first, rest);
    Response::from_parts(head, BodyExt::boxed(StreamBody::new(begun)))
}
