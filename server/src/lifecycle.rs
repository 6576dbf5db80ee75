//! From the first request to the last: starts the parts of a server, and ends them in order.
//!
//! ```text
//! SIGTERM ─► readiness off ─► drain_delay, still serving ─► listeners close ─► connections finish ─► ops and tasks end ─► deregistered
//!            SIGINT skips ────────────────┘                                    (all of it within shutdown_timeout)
//! ```
//! The order exists because load balancers learn late: who stops listening when the signal comes refuses requests
//! that are already on their way. A second signal ends it at once.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use oneseal::{BootTime, Clock, Issuer, SystemClock, Tasks};
use oneseal_coordination::database::Database;
use oneseal_coordination::events::Follower;
use oneseal_keystore::executor::Executor;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, oneshot};
use tokio::task::{Id, JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::{self, Process};
use crate::exit::{Exit, Failure};
use crate::fleet::{self, Membership};
use crate::http::admin::{Guard, Guarded};
use crate::http::bind::{SocketFile, Sockets};
use crate::http::capacity::Capacity;
use crate::http::handshake::{self, Plain};
use crate::http::listener::serve;
use crate::http::token::Tokens;
use crate::http::{admin, documents, ops};
use crate::metrics::Listener;
use crate::notify::Notifier;
use crate::rules_file::RulesFile;
use crate::state::State;
use crate::tls::Tls;

/// A server that serves.
#[derive(Debug)]
#[must_use = "a server ends when it is dropped: run it"]
pub(crate) struct Server {
    state: Arc<State>,
    parts: JoinSet<()>,
    running: Vec<(Id, Part)>,
    /// Ends documents, tokens and admin.
    close: CancellationToken,
    /// Ends ops, which tells probes that this replica is on its way out for as long as it is.
    close_ops: CancellationToken,
    /// Ends what keeps the issuer up to date.
    stop_tasks: CancellationToken,
    admin_file: Option<SocketFile>,
    /// Told by SIGHUP: look at the files of TLS again.
    look_again: Arc<Notify>,
    /// Told by SIGHUP: look at the rules again.
    reread_rules: Arc<Notify>,
}

/// What may differ from one server to another.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// What the admin API may do, and who may call it.
    pub(crate) admin: config::Admin,
    /// What the token endpoint takes.
    pub(crate) tokens: config::Tokens,
    /// Changes the ring.
    pub(crate) executor: Executor,
    /// By which name this replica is known.
    pub(crate) instance: String,
    /// Connections at a time.
    pub(crate) capacity: Capacity,
    /// The fleet that it has joined, if there is one.
    pub(crate) fleet: Option<Arc<Membership>>,
    /// Where others of the fleet reach its ops listener, if that is known.
    pub(crate) ops_url: Option<String>,
    /// What the fleet shares, if it does.
    pub(crate) database: Option<Database>,
    /// Where its rules stand, if in a file.
    pub(crate) rules: Option<RulesFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Documents,
    Token,
    Ops,
    Admin,
    AdminTcp,
    Tasks,
    Certificate,
    Rules,
    Beat,
    Peers,
    Events,
}

impl Server {
    /// Starts every part and returns when all of them run: from then on readiness says yes and tokens are minted.
    /// `tls`: what the documents and the admin TCP listener speak, if not plain HTTP.
    pub(crate) async fn start(
        issuer: Issuer,
        tasks: Tasks,
        sockets: Sockets,
        tls: Option<&Tls>,
        limits: Limits,
    ) -> Self {
        let mut server = Self {
            state: Arc::new(
                State::new(issuer)
                    .with_fleet(limits.fleet.clone())
                    .with_events(limits.database.clone().map(Follower::new)),
            ),
            parts: JoinSet::new(),
            running: Vec::new(),
            close: CancellationToken::new(),
            close_ops: CancellationToken::new(),
            stop_tasks: CancellationToken::new(),
            admin_file: None,
            look_again: Arc::new(Notify::new()),
            reread_rules: Arc::new(Notify::new()),
        };
        server.follow(tasks).await;
        server.follow_events();
        server.follow_rules(limits.rules.clone());
        server.listen(sockets, tls, &limits);
        server.beat(limits.ops_url.as_deref());
        server.state.set_ready();
        server
    }

    /// Serves until a signal comes or a part ends by itself, then ends the rest in order. The service manager hears of
    /// it when it begins.
    ///
    /// 0 after a signal, 70 if a part ended by itself, 128 + its number if a second signal cut the end short.
    pub(crate) async fn run(mut self, times: &Process, signals: &mut Signals, notifier: &Notifier) -> Exit {
        signals.on_hangup([&self.look_again, &self.reread_rules].map(Arc::clone));
        let (exit, delay, why) = tokio::select! {
            // Both only say that the end has come; neither can be lost.
            stop = signals.next() => {
                tracing::info!(signal = stop.name(), "shutting down; a second signal ends it at once");
                let delay = if stop == Stop::Terminate { times.drain_delay } else { Duration::ZERO };
                (Exit::Done, delay, stop.name())
            }
            part = self.join() => {
                tracing::error!(?part, "a part of the server ended by itself; shutting down");
                (Exit::Internal, Duration::ZERO, "a part of the server ended by itself")
            }
        };
        let status = format!("shutting down: {why}");
        let told = notifier.stopping(&status, times.shutdown_timeout);
        let stopped = self.stop(delay, times.shutdown_timeout);
        tokio::select! {
            // At the same time: a manager that does not read must not hold up the end.
            _ = async { tokio::join!(biased; told, stopped) } => exit,
            // Dropping the rest closes every socket; nothing here is written that could be torn.
            stop = signals.next() => {
                tracing::warn!(signal = stop.name(), "second signal; ending at once");
                stop.exit_at_once()
            }
        }
    }

    async fn follow(&mut self, tasks: Tasks) {
        let (running, is_running) = oneshot::channel();
        let stop = self.stop_tasks.clone();
        // Polled in this order, so that whoever waits knows that the tasks have begun.
        self.spawn(Part::Tasks, async move {
            tokio::join!(biased; tasks.run(stop), async { running.send(()).is_ok() });
        });
        // An error would mean that the tasks are gone already, which `run` finds and tells.
        drop(is_running.await);
    }

    /// From here on others know that this replica serves.
    fn beat(&mut self, ops_url: Option<&str>) {
        let Some(membership) = self.state.fleet.clone() else { return };
        membership.set_serving(ops_url);
        let (state, stop) = (Arc::clone(&self.state), self.stop_tasks.clone());
        self.spawn(Part::Beat, fleet::beat(Arc::clone(&membership), Arc::clone(&state), stop.clone()));
        self.spawn(Part::Peers, fleet::peers::run(membership, state, stop));
    }

    fn follow_events(&mut self) {
        if let Some(follower) = self.state.events.clone() {
            let stop = self.stop_tasks.clone();
            self.spawn(Part::Events, async move { follower.run(stop).await });
        }
    }

    fn follow_rules(&mut self, file: Option<RulesFile>) {
        self.state.metrics.set_rules(self.state.issuer.current_rules().len(), SystemClock.wall());
        if let Some(file) = file {
            let (state, stop) = (Arc::clone(&self.state), self.stop_tasks.clone());
            let nudge = Arc::clone(&self.reread_rules);
            self.spawn(Part::Rules, file.follow(state, nudge, stop));
        }
    }

    fn listen(&mut self, sockets: Sockets, tls: Option<&Tls>, limits: &Limits) {
        let Sockets { documents, token, ops, admin, admin_tcp } = sockets;
        let state = Arc::clone(&self.state);
        self.listen_to_documents(documents, tls, limits, token.is_none());
        if let Some(token) = token {
            self.listen_for_tokens(token, tls, limits);
        }
        let app = ops::app(Arc::clone(&state));
        let close = self.close_ops.clone();
        self.spawn(
            Part::Ops,
            serve(ops, Plain, app, Listener::Ops, Arc::clone(&state), limits.capacity.ops, close),
        );
        if let Some(admin) = admin {
            let (socket, file) = admin.into_parts();
            let app = admin_app(&state, limits);
            let close = self.close.clone();
            self.spawn(
                Part::Admin,
                serve(socket, Plain, app, Listener::Admin, state, limits.capacity.admin, close),
            );
            self.admin_file = Some(file);
        }
        if let Some(socket) = admin_tcp {
            self.listen_to_remote_admins(socket, tls, limits);
        }
    }

    fn listen_to_remote_admins(&mut self, socket: TcpListener, tls: Option<&Tls>, limits: &Limits) {
        let admin = &limits.admin;
        let (state, close) = (Arc::clone(&self.state), self.close.clone());
        let guard = Guard::new(admin, tls.is_some(), Arc::clone(&state));
        let app = Guarded::new(admin_app(&state, limits), guard);
        let (listener, most) = (Listener::AdminTcp, limits.capacity.admin_tcp);
        match tls {
            None => self.spawn(Part::AdminTcp, serve(socket, Plain, app, listener, state, most, close)),
            Some(tls) => {
                let transport = handshake::Tls::new(Arc::clone(&tls.server), Arc::clone(&state));
                self.spawn(Part::AdminTcp, serve(socket, transport, app, listener, state, most, close));
            }
        }
    }

    fn listen_to_documents(
        &mut self,
        socket: TcpListener,
        tls: Option<&Tls>,
        limits: &Limits,
        with_tokens: bool,
    ) {
        let (state, close) = (Arc::clone(&self.state), self.close.clone());
        let most = limits.capacity.documents;
        let tokens = with_tokens.then(|| Tokens::new(&state, most, &limits.tokens));
        let app = documents::app(&state.issuer, tokens);
        let Some(tls) = tls else {
            return self
                .spawn(Part::Documents, serve(socket, Plain, app, Listener::Documents, state, most, close));
        };
        state.metrics.set_tls_certificate(tls.certificates.current().facts.not_after);
        if let Some(follower) = tls.follower() {
            let stop = self.stop_tasks.clone();
            let look_again = Arc::clone(&self.look_again);
            self.spawn(Part::Certificate, follower.run(Arc::clone(&state), look_again, stop));
        }
        let transport = handshake::Tls::new(Arc::clone(&tls.server), Arc::clone(&state));
        self.spawn(Part::Documents, serve(socket, transport, app, Listener::Documents, state, most, close));
    }

    fn listen_for_tokens(&mut self, socket: TcpListener, tls: Option<&Tls>, limits: &Limits) {
        let (state, close) = (Arc::clone(&self.state), self.close.clone());
        let most = limits.capacity.token;
        let app = Tokens::new(&state, most, &limits.tokens);
        match tls {
            None => self.spawn(Part::Token, serve(socket, Plain, app, Listener::Token, state, most, close)),
            Some(tls) => {
                let transport = handshake::Tls::new(Arc::clone(&tls.server), Arc::clone(&state));
                self.spawn(Part::Token, serve(socket, transport, app, Listener::Token, state, most, close));
            }
        }
    }

    fn spawn(&mut self, part: Part, work: impl Future<Output = ()> + Send + 'static) {
        let id = self.parts.spawn(work).id();
        self.running.push((id, part));
    }

    /// The next part that ends, by itself or by a panic.
    async fn join(&mut self) -> Option<Part> {
        let id = match self.parts.join_next_with_id().await? {
            Ok((id, ())) => id,
            Err(error) => error.id(),
        };
        let at = self.running.iter().position(|(running, _)| *running == id)?;
        Some(self.running.swap_remove(at).1)
    }

    async fn join_all_of(&mut self, parts: &[Part]) {
        while self.running.iter().any(|(_, part)| parts.contains(part)) {
            self.join().await;
        }
    }

    async fn stop(&mut self, delay: Duration, all: Duration) {
        let began = SystemClock.boot();
        let but_last = all - (all / 10).min(LAST_PHASE);
        let left_of = |limit: Duration| limit.saturating_sub(SystemClock.boot().since(began));
        let phase = Phase::begin("readiness off");
        self.state.set_draining();
        phase.end();

        let phase = Phase::begin("drain delay");
        sleep(delay.min(but_last)).await;
        phase.end();

        let phase = Phase::begin("close");
        self.close.cancel();
        self.admin_file = None;
        phase.end();

        let phase = Phase::begin("drain");
        if timeout(
            left_of(but_last),
            self.join_all_of(&[Part::Documents, Part::Token, Part::Admin, Part::AdminTcp]),
        )
        .await
        .is_err()
        {
            tracing::warn!("connections are still busy; they are cut off");
        }
        phase.end();

        let phase = Phase::begin("stop");
        self.close_ops.cancel();
        self.stop_tasks.cancel();
        if timeout(
            left_of(all),
            self.join_all_of(&[
                Part::Ops,
                Part::Tasks,
                Part::Certificate,
                Part::Rules,
                Part::Beat,
                Part::Peers,
                Part::Events,
            ]),
        )
        .await
        .is_err()
        {
            tracing::warn!("not everything has ended in time; it is cut off");
        }
        phase.end();
        if let Some(membership) = self.state.fleet.clone() {
            let phase = Phase::begin("deregister");
            membership.leave(&self.state.issuer, left_of(all).min(LAST_PHASE)).await;
            phase.end();
        }
        tracing::info!(duration_ms = millis_since(began), "shut down");
    }
}

fn admin_app(state: &Arc<State>, limits: &Limits) -> axum::Router {
    let Limits { admin, executor, instance, .. } = limits;
    admin::app(Arc::clone(state), admin.mint, executor.clone(), instance.clone())
}

/// One step of the end, logged with how long it took.
struct Phase {
    name: &'static str,
    began: BootTime,
}

impl Phase {
    fn begin(name: &'static str) -> Self {
        Self { name, began: SystemClock.boot() }
    }

    fn end(self) {
        tracing::info!(phase = self.name, duration_ms = millis_since(self.began), "shutdown phase done");
    }
}

fn millis_since(began: BootTime) -> u64 {
    u64::try_from(SystemClock.boot().since(began).as_millis()).unwrap_or(u64::MAX)
}

/// What asks for an end: signals, and, for a server that a program has started, the end of standard input.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    on_hangup: Vec<Arc<Notify>>,
    input: Option<JoinHandle<()>>,
}

impl Signals {
    /// Listens to them from now on. As process 1 of a container a program that does not is not stopped by SIGTERM at
    /// all. `with_input`: also to standard input, whose other end goes when the starting program does, however that
    /// ends.
    ///
    /// # Errors
    /// The operating system does not let us.
    pub(crate) fn listen(with_input: bool) -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::internal("signals cannot be listened to").because(error))
        };
        let input = with_input.then(|| spawn_blocking(read_to_end_of_input));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
            on_hangup: Vec::new(),
            input,
        })
    }

    /// Tells these of each SIGHUP from now on.
    fn on_hangup(&mut self, tell: impl IntoIterator<Item = Arc<Notify>>) {
        self.on_hangup = tell.into_iter().collect();
    }

    /// The next one.
    ///
    /// # Cancel safety
    /// Dropped, it loses none.
    pub(crate) async fn next(&mut self) -> Stop {
        loop {
            let input = async {
                match &mut self.input {
                    Some(input) => drop(input.await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.terminate.recv() => return Stop::Terminate,
                _ = self.interrupt.recv() => return Stop::Interrupt,
                // Once: afterwards there is nobody who could send more.
                () = input => {
                    self.input = None;
                    return Stop::InputEnd;
                }
                // It means: read your files again. All of them are followed anyhow; ending would be the default.
                _ = self.hangup.recv() => {
                    tracing::info!("SIGHUP: looking at the TLS files, if any, and at the rules; the signing key is followed by itself");
                    self.on_hangup.iter().for_each(|tell| tell.notify_one());
                }
            }
        }
    }
}

/// What is written to us is nothing to us; that nothing can be written any more is.
fn read_to_end_of_input() {
    drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
}

/// Something that asks for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// SIGTERM, from a supervisor.
    Terminate,
    /// SIGINT, from a terminal.
    Interrupt,
    /// Standard input has ended: whoever started this process is gone.
    InputEnd,
}

impl Stop {
    /// How a process ends that this stops before it is done: as a shell tells a process killed by the signal (POSIX.1
    /// has the numbers).
    pub(crate) fn exit_at_once(self) -> Exit {
        match self {
            Self::Terminate => Exit::Signal(15),
            Self::Interrupt => Exit::Signal(2),
            Self::InputEnd => Exit::Done,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::InputEnd => "end of standard input",
        }
    }
}

/// Kept back from draining, so that the last phase fits into the time too.
const LAST_PHASE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use oneseal::keystore::{InitRequest, init};
    use oneseal::{Algorithm, FileProvider, IssuerUrl};

    use oneseal_keystore::KeystoreOptions;
    use oneseal_keystore::executor::NoRegistry;

    use super::*;
    use crate::config::{Admin, Listen, LogFormat};
    use crate::http::capacity::MOST;

    const ISSUER: &str = "https://oidc.example";

    fn times() -> Process {
        let hour = Duration::from_secs(3600);
        Process {
            boot_timeout: hour,
            drain_delay: hour,
            shutdown_timeout: 2 * hour,
            log_format: LogFormat::Auto,
        }
    }

    async fn server(dir: &std::path::Path) -> Server {
        let provider = || FileProvider::new(dir.join("ring.json")).assume_durable(true);
        let mut request = InitRequest::new(IssuerUrl::parse(ISSUER, "issuer").expect("good"));
        request.algorithms = vec![Algorithm::Es256];
        init(&provider(), request, &SystemClock).await.expect("a ring");
        let built = Issuer::builder(ISSUER, provider()).algorithms([Algorithm::Es256]).build().await;
        let (issuer, tasks) = built.expect("an issuer");
        let any = "127.0.0.1:0".parse().expect("an address");
        let listen = Listen {
            documents: any,
            token: None,
            ops: any,
            admin: Some(dir.join("admin.sock")),
            admin_tcp: None,
        };
        let (sockets, _) = Sockets::bind(&listen).expect("free ports");
        let executor = Executor::new(
            Arc::new(provider()),
            KeystoreOptions::new(IssuerUrl::parse(ISSUER, "issuer").expect("good")),
            Arc::new(NoRegistry),
            Arc::new(SystemClock),
        );
        let admin = Admin { mint: false, mint_audiences: Vec::new(), tokens: Vec::new(), hosts: Vec::new() };
        Server::start(
            issuer,
            tasks,
            sockets,
            None,
            Limits {
                admin,
                tokens: config::Tokens::default(),
                instance: "a".to_owned(),
                executor,
                capacity: Capacity { documents: 8, ..MOST },
                fleet: None,
                ops_url: None,
                database: None,
                rules: None,
            },
        )
        .await
    }

    #[tokio::test]
    async fn once_started_it_is_ready_and_mints() {
        let dir = tempfile::tempdir().expect("a directory");
        let server = server(dir.path()).await;
        assert!(server.state.is_ready());
        assert!(server.state.issuer.health().minting.is_on());
        assert_eq!(server.running.len(), 4);
    }

    #[tokio::test]
    async fn a_part_that_ends_by_itself_ends_all_and_is_an_internal_fault() {
        for end in [|server: &Server| server.stop_tasks.cancel(), |server: &Server| server.close_ops.cancel()]
        {
            let dir = tempfile::tempdir().expect("a directory");
            let server = server(dir.path()).await;
            let state = Arc::clone(&server.state);
            end(&server);
            let mut signals = Signals::listen(false).expect("signals");
            assert_eq!(
                server.run(&times(), &mut signals, &Notifier::none()).await,
                Exit::Internal,
                "at once, without the delay"
            );
            assert!(!state.is_ready());
            assert!(!dir.path().join("admin.sock").exists());
        }
    }
}
