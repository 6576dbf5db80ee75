//! Tokens over HTTP: what of a core's signatures arrives at callers, and how many more than from a peer.
//!
//! The limit of a server that has one core is 1 / (floor + signature): the floor is the processor time of the very same
//! request with `dry_run`, which does everything but sign, and the signature that of the primitive alone, on the same
//! core, in the same round.

use std::process::ExitCode;
use std::time::Duration;

use oneseal_bench::minting::{Ask, Minting};
use oneseal_bench::oidc_provider::OidcProvider;
use oneseal_bench::pin::Cores;
use oneseal_bench::raw::{Raw, claims};
use oneseal_bench::report::{self, Report, Table};
use oneseal_bench::rounds::{Contender, Plan, Sample, rate};
use oneseal_bench::server::{Place, Server};
use oneseal_bench::verdict::Target;
use oneseal_bench::{median, probe};
use oneseal_keystore::Algorithm;

const CONNECTIONS: usize = 32;
const ALGORITHMS: [Algorithm; 2] = [Algorithm::Rs256, Algorithm::Es256];
const OF_LIMIT: Target = Target::AtLeast(0.80);
const OF_PEER: Target = Target::AtLeast(2.0);

fn main() -> ExitCode {
    report::run("mint_http", measure)
}

fn measure(plan: Plan, report: &mut Report) {
    let cores = Cores::choose().expect("two cores");
    let place = Place::make();
    let caller = Minting::caller();
    let ours = cores.for_server(|| Server::start(&place.configuration("mint_http", &caller.tables())));
    let peer = OidcProvider::start(cores);
    report.note(format!(
        "{CONNECTIONS} kept-alive connections, each asking for one token after the other with a bearer token. Server on \
         core {}, load on core {}.",
        cores.server, cores.load
    ));
    for algorithm in ALGORITHMS {
        let measured = Measured::all(plan, cores, &ours, &caller, peer.as_ref().ok(), algorithm);
        judge(algorithm, &measured, peer.as_ref().err(), report);
    }
}

/// One round.
struct Round {
    tokens: Sample,
    dry: Sample,
    /// Processor time of one signature.
    sign_us: f64,
    peer: Option<Sample>,
}

impl Round {
    /// Of the tokens that the core could make, those that came.
    fn of_limit(&self) -> f64 {
        self.tokens.per_s * (self.dry.cpu_us + self.sign_us) / 1e6
    }
}

struct Measured(Vec<Round>);

impl Measured {
    fn all(
        plan: Plan,
        cores: Cores,
        ours: &Server,
        caller: &Minting,
        peer: Option<&OidcProvider>,
        algorithm: Algorithm,
    ) -> Result<Self, String> {
        let address = ours.address("admin_tcp").expect("an admin listener");
        let name = algorithm.as_str();
        let tokens = caller.load(address, name, Ask::Token, CONNECTIONS)?;
        let dry_run = caller.load(address, name, Ask::DryRun, CONNECTIONS)?;
        let from_peer = peer.map(|peer| peer_load(peer, name)).transpose()?;
        let mut tokens = Contender::new("tokens", ours.pid(), |time| tokens.run(time));
        let mut dry = Contender::new("dry run", ours.pid(), |time| dry_run.run(time));
        let mut peer = peer
            .zip(from_peer.as_ref())
            .map(|(peer, wrk)| Contender::new("oidc-provider", peer.pid(), |time| wrk.run(time)));
        let raw = Raw::generate(algorithm);
        tokens.turn(plan.warm_up);
        if let Some(peer) = &mut peer {
            peer.turn(plan.warm_up);
        }
        let round = |_| Round {
            tokens: tokens.turn(plan.turn),
            sign_us: cores.for_server(|| sign_us(&raw, plan.turn / 2)),
            dry: dry.turn(plan.turn),
            peer: peer.as_mut().map(|peer| peer.turn(plan.turn)),
        };
        Ok(Self((0..plan.rounds).map(round).collect()))
    }

    fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.0.iter().map(figure).collect())
    }
}

fn peer_load(peer: &OidcProvider, algorithm: &str) -> Result<oneseal_bench::wrk::Wrk, String> {
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let answer = probe::post(peer.address, "/token", &headers, &OidcProvider::form(algorithm));
    assert!(answer.status == 200 && answer.body.contains("\"access_token\":\"ey"), "{answer:?}");
    peer.tokens(algorithm, CONNECTIONS)
}

/// The primitive over an input of a token's length.
fn sign_us(raw: &Raw, time: Duration) -> f64 {
    let token = raw.token();
    let (input, _) = token.rsplit_once('.').expect("a compact JWS");
    assert!(input.len() > claims().len());
    1e6 / rate(|| drop(std::hint::black_box(raw.sign(input.as_bytes()))), time)
}

fn judge(
    algorithm: Algorithm,
    measured: &Result<Measured, String>,
    no_peer: Option<&String>,
    report: &mut Report,
) {
    let of_limit = format!("{algorithm} tokens/s over HTTP, of 1/(floor + signature)");
    let of_peer = format!("{algorithm} tokens/s over HTTP, of oidc-provider's");
    let measured = match measured {
        Ok(measured) => measured,
        Err(why) => {
            report.not_measured(&of_limit, why, OF_LIMIT);
            report.not_measured(&of_peer, why, OF_PEER);
            return;
        }
    };
    tell(algorithm, measured, report);
    report.verdict(&of_limit, measured.median(Round::of_limit), OF_LIMIT);
    match no_peer {
        Some(why) => report.not_measured(&of_peer, why, OF_PEER),
        None => {
            let of_peer_of =
                |round: &Round| round.tokens.per_s / round.peer.map_or(f64::NAN, |peer| peer.per_s);
            report.verdict(&of_peer, measured.median(of_peer_of), OF_PEER);
        }
    }
}

fn tell(algorithm: Algorithm, measured: &Measured, report: &mut Report) {
    let columns = ["", "requests/s", "server µs each", "p50 µs", "p99 µs"];
    let mut table = Table::new(&format!("Tokens, {algorithm}"), &columns);
    let mut row = |name: &str, sample: fn(&Round) -> Option<Sample>| {
        let of = |figure: fn(Sample) -> f64| measured.median(|round| sample(round).map_or(f64::NAN, figure));
        table.row([
            name.to_owned(),
            format!("{:.0}", of(|sample| sample.per_s)),
            format!("{:.2}", of(|sample| sample.cpu_us)),
            format!("{:.0}", of(|sample| sample.p50_us)),
            format!("{:.0}", of(|sample| sample.p99_us)),
        ]);
    };
    row("oneseal", |round| Some(round.tokens));
    row("the same without the signature", |round| Some(round.dry));
    if measured.0.iter().all(|round| round.peer.is_some()) {
        row("oidc-provider", |round| round.peer);
    }
    let sign_us = measured.median(|round| round.sign_us);
    table.row([
        "the signature alone".to_owned(),
        format!("{:.0}", 1e6 / sign_us),
        format!("{sign_us:.2}"),
        "–".to_owned(),
        "–".to_owned(),
    ]);
    report.table(table);
}
