//! The key set while RSA signatures saturate the server: what relying parties wait while pods get their tokens.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use oneseal_bench::minting::{Ask, Minting};
use oneseal_bench::pin::Cores;
use oneseal_bench::proc::cpu_s;
use oneseal_bench::report::{self, Report, Table};
use oneseal_bench::role::{self, Role};
use oneseal_bench::rounds::Plan;
use oneseal_bench::server::{JWKS, Place, Server};
use oneseal_bench::verdict::Target;
use oneseal_bench::wrk::{Load, Wrk};
use oneseal_bench::{median, until};

/// That wait for tokens at a time.
const MINTING: usize = 64;

const P99: (&str, Target) = ("JWKS p99 under RS256 minting, of signing in the handler", Target::AtMost(0.3));
const P50: (&str, Target) = ("JWKS p50 under RS256 minting, of signing in the handler", Target::None);
const RATE: (&str, Target) = ("tokens/s meanwhile, of signing in the handler", Target::None);

fn main() -> ExitCode {
    role::play().unwrap_or_else(|| report::run("under_load", measure))
}

fn measure(plan: Plan, report: &mut Report) {
    let cores = Cores::choose().expect("two cores");
    let place = Place::make();
    let caller = Minting::caller();
    let ours = cores.for_server(|| Server::start(&place.configuration("under_load", &caller.tables())));
    let (inline, inline_address) = cores.for_server(|| Role::InHandler.start(place.ring().as_os_str()));
    let ours_tcp = ours.address("admin_tcp").expect("an admin listener");
    let mut all = Vec::new();
    for (name, pid, documents, mint) in [
        ("oneseal", ours.pid(), ours.documents, ours_tcp),
        ("signing in the handler", inline.pid(), inline_address, inline_address),
    ] {
        match Contender::new(name, pid, documents, mint, &caller) {
            Ok(contender) => all.push(contender),
            Err(why) => {
                for (name, target) in [P99, P50, RATE] {
                    report.not_measured(name, &why, target);
                }
                return;
            }
        }
    }
    report.note(format!(
        "{MINTING} connections mint without a pause, one more asks for the key set. Server on core {}, load on core {}.",
        cores.server, cores.load
    ));
    let samples = rounds(plan, &all);
    tell(&all, &samples, report);
    let ratio = |figure: fn(&Sample) -> f64| {
        median(samples[0].iter().zip(&samples[1]).map(|(ours, other)| figure(ours) / figure(other)).collect())
    };
    report.verdict(P99.0, ratio(|sample| sample.jwks.p99_us), P99.1);
    report.verdict(P50.0, ratio(|sample| sample.jwks.p50_us), P50.1);
    report.verdict(RATE.0, ratio(|sample| sample.tokens_per_s()), RATE.1);
}

struct Contender {
    name: &'static str,
    pid: u32,
    jwks: Wrk,
    tokens: Wrk,
}

#[derive(Clone, Copy)]
struct Sample {
    /// Nobody minting.
    idle: Load,
    jwks: Load,
    tokens: Load,
}

impl Sample {
    fn tokens_per_s(&self) -> f64 {
        self.tokens.requests as f64 / self.tokens.seconds
    }
}

impl Contender {
    fn new(
        name: &'static str,
        pid: u32,
        documents: SocketAddr,
        mint: SocketAddr,
        caller: &Minting,
    ) -> Result<Self, String> {
        let jwks = Wrk::get(format!("http://{documents}{JWKS}"), &[], 1)?;
        Ok(Self { name, pid, jwks, tokens: caller.load(mint, "RS256", Ask::Token, MINTING)? })
    }

    /// The key set alone, then the key set while tokens are made; minting begins before and ends after.
    fn turn(&self, time: Duration) -> Sample {
        let idle = self.jwks.run(Duration::from_secs(1));
        let before = cpu_s(self.pid);
        let minting = self.tokens.begin(time + MARGIN);
        until("a busy server", || (cpu_s(self.pid) - before > WARM_S).then_some(()));
        let jwks = self.jwks.run(time);
        Sample { idle, jwks, tokens: minting.end() }
    }
}

/// By contender, then by round; who is first turns around.
fn rounds(plan: Plan, all: &[Contender]) -> [Vec<Sample>; 2] {
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..plan.rounds {
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            samples[at].push(all[at].turn(plan.turn));
        }
    }
    samples
}

fn tell(all: &[Contender], samples: &[Vec<Sample>; 2], report: &mut Report) {
    let columns = ["", "JWKS idle p50 µs", "idle p99 µs", "minting p50 µs", "minting p99 µs", "tokens/s"];
    let mut table = Table::new("JWKS beside RS256 minting", &columns);
    for (contender, samples) in all.iter().zip(samples) {
        let of = |figure: fn(&Sample) -> f64| format!("{:.0}", median(samples.iter().map(figure).collect()));
        table.row([
            contender.name.to_owned(),
            of(|sample| sample.idle.p50_us),
            of(|sample| sample.idle.p99_us),
            of(|sample| sample.jwks.p50_us),
            of(|sample| sample.jwks.p99_us),
            of(Sample::tokens_per_s),
        ]);
    }
    report.table(table);
}

/// Minting goes on for longer than the key set is asked for.
const MARGIN: Duration = Duration::from_secs(2);
/// Processor time after which a server is taken to be at full load.
const WARM_S: f64 = 0.3;
