//! The whole promise on one machine: several real servers, one persisted ring, one JWKS.
//!
//! ```text
//!                      ┌─► replica 1 ─┐
//! client ─► forwarder ─┼─► replica 2 ─┼─► oneseal-data/keyring.json
//!          (the issuer)└─► replica 3 ─┘
//! ```
//! Nothing here is simulated, and nothing is known that a stranger could not see: the replicas are `oneseal serve`
//! processes, and what is said of them was asked over HTTP.

mod fleet;
mod forwarder;
mod place;
mod round;
mod table;
mod tell;

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use oneseal_coordination::SystemClock;
use oneseal_keystore::{InitRequest, Initialised, IssuerUrl};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app;
use crate::cli::keys::init;
use crate::config::ProviderChoice;
use crate::exit::{Exit, Failure};
use crate::output;
use fleet::Fleet;
use forwarder::Backends;
use place::Place;
use round::{Round, Survival};
use tell::{Live, Scene};

/// What to show, and to whom.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How many replicas; at least two.
    pub(crate) replicas: usize,
    /// The data directory.
    pub(crate) dir: PathBuf,
    /// The issuer's port, if it matters.
    pub(crate) port: Option<u16>,
    /// For whom.
    pub(crate) view: View,
}

/// How it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// One round in lines of text.
    Once,
    /// One round as one JSON object.
    Json,
    /// A table that is drawn again and again, until a signal ends it.
    Live,
}

/// Runs it until it is shown, or until a signal.
///
/// # Errors
/// The port is taken, the directory is in use, the ring is refused, a replica does not start.
///
/// # Cancel safety
/// Dropped, the replicas are killed. The ring stays, whole or not made yet.
pub(crate) async fn run(options: Options) -> Result<Exit, Failure> {
    let mut signals = Signals::catch()?;
    let place = Place::open(&options.dir)?;
    let (listener, issuer) = place.bind(options.port)?;
    let initialised = ring(&place, &issuer).await?;
    place.keep_port(issuer.port())?;

    let backends = Backends::new(options.replicas);
    let listener = listening(listener)?;
    let mut forwarding = pin!(forwarder::run(listener, backends.clone(), CancellationToken::new()));
    let mut fleet = tokio::select! {
        fleet = Fleet::start(&place, &issuer, options.replicas, backends) => fleet?,
        // What has been started is killed with its future.
        number = signals.next() => return Ok(Exit::Signal(number)),
        () = &mut forwarding => return Err(stopped_forwarding()),
    };
    let scene = Scene { issuer: &issuer, place: &place, initialised: &initialised };
    let mut live = Live::default();
    let outcome = tokio::select! {
        outcome = show(&mut fleet, &scene, options.view, &mut live) => outcome,
        // Between two looks or within one, nothing is lost: the fleet is still ours to end.
        number = signals.next() => interrupted(options.view, number, &live),
        () = &mut forwarding => Err(stopped_forwarding()),
    };
    fleet.stop().await;
    outcome
}

/// What was seen: all replicas, and how the death of one went. There is no second part where the first has failed.
#[derive(Debug)]
pub(crate) struct Proof {
    /// Before anything was killed.
    pub(crate) round: Round,
    /// After it.
    pub(crate) survival: Option<Survival>,
}

impl Proof {
    /// Whatever is not as it is to be, in sentences; none if all is well.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut told = self.round.differences();
        told.extend(self.survival.iter().flat_map(|survival| survival.differences(&self.round)));
        told
    }
}

async fn show(fleet: &mut Fleet, scene: &Scene<'_>, view: View, live: &mut Live) -> Result<Exit, Failure> {
    if view != View::Json {
        output::print(&scene.header())?;
    }
    if view == View::Live {
        output::print(&scene.live_hints(fleet))?;
    }
    let proof = prove(fleet, scene.issuer).await?;
    let differences = proof.differences();
    let exit = if differences.is_empty() { Exit::Done } else { Exit::No };
    match view {
        View::Json => return output::answer(scene.as_json(&proof), exit),
        View::Once => output::print(&scene.as_text(&proof))?,
        View::Live if differences.is_empty() => return watch(fleet, scene, &proof, live).await,
        View::Live => output::print(&scene.as_text(&proof))?,
    }
    Ok(exit)
}

async fn prove(fleet: &mut Fleet, issuer: &IssuerUrl) -> Result<Proof, Failure> {
    let round = round::look(fleet, issuer).await;
    let survival = if round.differences().is_empty() {
        Some(round::kill_one(fleet, VICTIM, issuer, &round, &SystemClock).await?)
    } else {
        None
    };
    Ok(Proof { round, survival })
}

/// Looks again and again, and starts what somebody else has killed. Ends only with a difference.
async fn watch(
    fleet: &mut Fleet,
    scene: &Scene<'_>,
    proof: &Proof,
    live: &mut Live,
) -> Result<Exit, Failure> {
    loop {
        for index in fleet.revive().await? {
            live.revived(fleet.replicas()[index].number());
        }
        let round = round::look(fleet, scene.issuer).await;
        // A replica that somebody kills while it is looked at is no difference, only gone: look again.
        if fleet.has_lost_one() {
            continue;
        }
        let mut differences = round.differences();
        if round.published() != proof.round.published() {
            differences.push("the JWKS is another one than in the first round".to_owned());
        }
        live.seen(&round);
        output::print(&live.draw(&round, proof, &differences))?;
        if !differences.is_empty() {
            return Ok(Exit::No);
        }
        tokio::time::sleep(ROUND_EVERY).await;
    }
}

fn interrupted(view: View, number: u8, live: &Live) -> Result<Exit, Failure> {
    if view != View::Live {
        return Ok(Exit::Signal(number));
    }
    output::print(&live.farewell())?;
    Ok(Exit::Done)
}

/// Makes the ring, or reads the one that is there.
async fn ring(place: &Place, issuer: &IssuerUrl) -> Result<Initialised, Failure> {
    // Durable by our word: in a container's own layer the ring lives as long as the container, and so does this.
    let provider = app::provider(&ProviderChoice::File { path: place.ring(), durable: true });
    let mut request = InitRequest::new(issuer.clone());
    "oneseal quickstart".clone_into(&mut request.actor);
    init::with_progress(&*provider, request).await
}

fn listening(listener: std::net::TcpListener) -> Result<TcpListener, Failure> {
    let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
    listener.map_err(|error| Failure::internal("the forwarder cannot listen").because(error))
}

fn stopped_forwarding() -> Failure {
    Failure::internal("the forwarder has stopped")
}

/// The signals that end a quickstart: of a terminal, of a supervisor, of a terminal that is closed.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn catch() -> Result<Self, Failure> {
        let catch =
            |kind| signal(kind).map_err(|error| Failure::internal("signals cannot be caught").because(error));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hangup: catch(SignalKind::hangup())?,
        })
    }

    /// The number of the next one.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}

/// Which replica is killed: not the first, which stands for all others in the comparison.
const VICTIM: usize = 1;
const ROUND_EVERY: Duration = Duration::from_secs(1);
