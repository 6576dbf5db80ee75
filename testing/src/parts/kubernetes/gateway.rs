//! An HTTP gateway before the API server, spoken to without TLS.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use futures_util::future::{Either, select};
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::HOST;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::KubeApiserver;
use super::client::{Client, Connected};

/// Passes requests on to one API server, or does to them what gateways, networks and busy servers do. Dropped, it closes
/// its connections and listens no more.
///
/// It works on a thread of its own. Requests are told apart by RBAC's verbs: `get`, `watch`, `update` (PUT), `create`
/// (POST).
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
    thread: Option<JoinHandle<()>>,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meddling {
    /// The gateway answers, and the API server sees nothing of it.
    Answer {
        /// The status.
        status: u16,
        /// Name and value of each header.
        headers: Vec<(&'static str, &'static str)>,
        /// The body, whole; of a watch: what is told until it ends.
        body: String,
    },
    /// The connection is closed, and the API server sees nothing of it.
    CutBefore,
    /// The API server does as asked, and its answer is not passed on: the connection is closed.
    CutAfter,
    /// The API server sees nothing of it, and no answer comes. The connection stays open.
    Hang,
    /// It is passed on at the next [`Gateway::release`], as if it had been on its way that long.
    Hold,
    /// It is answered with 200 and a body that does not begin and does not end.
    Silence,
}

#[derive(Debug)]
struct Shared {
    upstream: Client,
    state: Mutex<State>,
    released: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// For the next requests with that verb, and how many of them.
    meddlings: BTreeMap<&'static str, (Meddling, usize)>,
    seen: BTreeMap<&'static str, usize>,
}

#[derive(Debug)]
enum Order {
    Cut,
    End,
}

impl KubeApiserver {
    /// A gateway before this server, on a free port of the loopback address.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn gateway(&self) -> Gateway {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        listener.set_nonblocking(true).expect("a socket can be set");
        let shared = Arc::new(Shared {
            upstream: self.client.clone(),
            state: Mutex::default(),
            released: watch::Sender::default(),
        });
        let (orders, taken) = mpsc::unbounded_channel();
        let work = {
            let shared = Arc::clone(&shared);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime can be started").block_on(serve(listener, &shared, taken));
            }
        };
        let thread = std::thread::Builder::new().name("gateway".to_owned()).spawn(work);
        Gateway { address, shared, orders, thread: Some(thread.expect("a thread can be started")) }
    }
}

impl Gateway {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The text of a kubeconfig that leads by way of it, of whoever bears `token`.
    pub fn kubeconfig(&self, token: &str) -> String {
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: test
  cluster: {{server: 'http://{}'}}
users:
- name: test
  user: {{token: '{token}'}}
contexts:
- name: test
  context: {{cluster: test, user: test}}
current-context: test
",
            self.address
        )
    }

    /// Does that to the next `times` requests with `verb`, instead of what was to be done to them.
    pub fn meddle(&self, verb: &'static str, meddling: Meddling, times: usize) {
        self.shared.state().meddlings.insert(verb, (meddling, times));
    }

    /// Passes everything on from now on.
    pub fn pass(&self) {
        self.shared.state().meddlings.clear();
    }

    /// How many requests with `verb` have come so far.
    pub fn seen(&self, verb: &str) -> usize {
        self.shared.state().seen.get(verb).copied().unwrap_or_default()
    }

    /// Passes on what is held.
    pub fn release(&self) {
        self.shared.released.send_modify(|released| *released += 1);
    }

    /// Closes every open connection.
    pub fn cut(&self) {
        let _ = self.orders.send(Order::Cut);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the request, and says what is to be done to it.
    fn take(&self, verb: &'static str) -> Option<Meddling> {
        let mut state = self.state();
        *state.seen.entry(verb).or_default() += 1;
        let (meddling, times) = state.meddlings.get_mut(verb)?;
        *times = times.checked_sub(1)?;
        Some(meddling.clone())
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        upstream: &Upstream,
    ) -> Result<Response<UnsyncBoxBody<Bytes, hyper::Error>>, Cut> {
        match self.take(verb(&request)) {
            None => self.pass_on(request, upstream).await,
            Some(Meddling::Answer { status, headers, body }) => {
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                let body = Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {});
                response.body(body.boxed_unsync()).map_err(|_| Cut)
            }
            Some(Meddling::CutBefore) => Err(Cut),
            Some(Meddling::CutAfter) => {
                let response = self.pass_on(request, upstream).await?;
                response.into_body().collect().await.map_err(|_| Cut)?;
                Err(Cut)
            }
            Some(Meddling::Hang) => std::future::pending().await,
            Some(Meddling::Hold) => {
                let now = *self.released.borrow();
                let released = self.released.subscribe().wait_for(|released| *released != now).await.is_ok();
                if released { self.pass_on(request, upstream).await } else { Err(Cut) }
            }
            Some(Meddling::Silence) => {
                let nothing = stream::pending::<Result<Frame<Bytes>, hyper::Error>>();
                Ok(Response::new(StreamBody::new(nothing).boxed_unsync()))
            }
        }
    }

    async fn pass_on(
        &self,
        mut request: Request<Incoming>,
        upstream: &Upstream,
    ) -> Result<Response<UnsyncBoxBody<Bytes, hyper::Error>>, Cut> {
        let host = self.upstream.address().to_string().parse().map_err(|_| Cut)?;
        request.headers_mut().insert(HOST, host);
        let mut sender = match upstream.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => {
                let Connected { sender, connection } = self.upstream.connect().await.map_err(|_| Cut)?;
                upstream.drive(async move { drop(connection.await) });
                sender
            }
        };
        sender.ready().await.map_err(|_| Cut)?;
        let response = sender.send_request(request).await.map_err(|_| Cut)?;
        upstream.keep(sender);
        Ok(response.map(BodyExt::boxed_unsync))
    }
}

/// The connection to the API server behind one client's, whose requests come one after the other.
#[derive(Debug, Default)]
struct Upstream {
    sender: Mutex<Option<SendRequest<Incoming>>>,
    driven: Mutex<JoinSet<()>>,
}

impl Upstream {
    fn take(&self) -> Option<SendRequest<Incoming>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, sender: SendRequest<Incoming>) {
        *self.sender.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    }

    /// It ends with its last answer, or with the client's connection.
    fn drive(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner).spawn(connection);
    }
}

/// Closes the connection without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut")
    }
}

impl std::error::Error for Cut {}

async fn serve(
    listener: std::net::TcpListener,
    shared: &Arc<Shared>,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let listener = TcpListener::from_std(listener).expect("the listener of a runtime");
    let mut connections = JoinSet::new();
    loop {
        let next = {
            let (accept, order) = (std::pin::pin!(listener.accept()), std::pin::pin!(orders.recv()));
            match select(accept, order).await {
                Either::Left((Ok((stream, _)), _)) => Either::Left(stream),
                Either::Left((Err(_), _)) => continue,
                Either::Right((order, _)) => Either::Right(order),
            }
        };
        match next {
            Either::Left(stream) => {
                let shared = Arc::clone(shared);
                connections.spawn(async move {
                    let upstream = Upstream::default();
                    let service = service_fn(|request| shared.answer(request, &upstream));
                    let http = hyper::server::conn::http1::Builder::new();
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                });
            }
            Either::Right(Some(Order::Cut)) => connections.shutdown().await,
            Either::Right(Some(Order::End) | None) => return,
        }
    }
}

/// As the audit log has it.
fn verb(request: &Request<Incoming>) -> &'static str {
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=1"));
    match request.method().as_str() {
        "GET" if is_watch => "watch",
        "GET" => "get",
        "PUT" => "update",
        "POST" => "create",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}
