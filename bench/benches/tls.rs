//! The key set over TLS beside nginx with the same certificate: kept-alive connections, and full handshakes.

use std::process::{Command, ExitCode, Stdio};

use oneseal_bench::handshakes::Handshakes;
use oneseal_bench::nginx::Nginx;
use oneseal_bench::pin::Cores;
use oneseal_bench::probe;
use oneseal_bench::probe::Answer;
use oneseal_bench::report::{self, Report};
use oneseal_bench::rounds::{Contender, Plan, Rounds};
use oneseal_bench::server::{JWKS, LISTEN, Place, Server};
use oneseal_bench::verdict::Target;
use oneseal_bench::wrk::{Wrk, missing};
use std::net::SocketAddr;

const CONNECTIONS: usize = 64;
/// Enough to keep one core of a server busy, and few enough that none waits long.
const AT_A_TIME: usize = 16;

const KEPT_ALIVE: (&str, Target) =
    ("JWKS over kept-alive TLS: processor time for one, of nginx's", Target::AtMost(0.9));
const FULL: (&str, Target) =
    ("full TLS 1.3 handshake, GET, close: processor time, of nginx's", Target::AtMost(0.6));

fn main() -> ExitCode {
    report::run("tls", measure)
}

fn measure(plan: Plan, report: &mut Report) {
    let cores = Cores::choose().expect("two cores");
    let place = Place::make();
    let answer = document(&place);
    let config = place.configuration("tls", &format!("{LISTEN}{}", place.tls_table()));
    let ours = cores.for_server(|| Server::start(&config));
    let nginx = match place.tls(|pair| Nginx::start(cores, JWKS, &answer, Some(pair))) {
        Ok(nginx) => nginx,
        Err(why) => {
            for (name, target) in [KEPT_ALIVE, FULL] {
                report.not_measured(name, &why, target);
            }
            return;
        }
    };
    let servers = [("oneseal", ours.pid(), ours.documents), ("nginx", nginx.pid(), nginx.address)];
    full_handshakes(plan, &place, servers, report);
    kept_alive(plan, servers, report);
}

/// The key set and its headers, which nginx is to have too; asked for without TLS.
fn document(place: &Place) -> Answer {
    let plain = Server::start(&place.configuration("plain", LISTEN));
    probe::get(plain.documents, JWKS, ("", ""))
}

fn full_handshakes(plan: Plan, place: &Place, servers: [(&str, u32, SocketAddr); 2], report: &mut Report) {
    let certificate = std::fs::read(place.certificate()).expect("the certificate");
    let client = Handshakes::new(&certificate);
    let [ours, theirs] = servers.map(|(_, _, address)| client.negotiated(address));
    assert_eq!(ours, theirs, "the same work, or nothing can be compared");
    report.note(format!(
        "Handshakes: {ours}, one ECDSA P-256 certificate, no session resumed, by a client of our own on {AT_A_TIME} \
         connections at a time."
    ));
    let client = &client;
    let mut contenders = servers.map(|(name, pid, address)| {
        Contender::new(name, pid, move |time| client.load(address, JWKS, AT_A_TIME, time))
    });
    let rounds = Rounds::run(plan, &mut contenders);
    rounds.tell("Full handshake, one GET, close", report);
    report.verdict(FULL.0, rounds.ratio(0, 1, |sample| sample.cpu_us), FULL.1);
}

fn kept_alive(plan: Plan, servers: [(&str, u32, SocketAddr); 2], report: &mut Report) {
    let negotiated = servers.map(|(_, _, address)| negotiated_by_openssl(address));
    let loads = servers.map(|(_, _, address)| Wrk::get(format!("https://{address}{JWKS}"), &[], CONNECTIONS));
    let (ours, theirs, [Ok(to_ours), Ok(to_theirs)]) = (&negotiated[0], &negotiated[1], &loads) else {
        report.not_measured(KEPT_ALIVE.0, &missing("wrk"), KEPT_ALIVE.1);
        return;
    };
    let agreed = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(ours, theirs, "the same work, or nothing can be compared");
            ours
        }
        (Err(why), _) | (_, Err(why)) => {
            report.not_measured(KEPT_ALIVE.0, why, KEPT_ALIVE.1);
            return;
        }
    };
    report.note(format!("Kept alive: {agreed}, by wrk on {CONNECTIONS} connections."));
    let mut contenders: Vec<_> = servers
        .into_iter()
        .zip([to_ours, to_theirs])
        .map(|((name, pid, _), wrk)| Contender::new(name, pid, |time| wrk.run(time)))
        .collect();
    let rounds = Rounds::run(plan, &mut contenders);
    rounds.tell("JWKS over kept-alive TLS", report);
    report.verdict(KEPT_ALIVE.0, rounds.ratio(0, 1, |sample| sample.cpu_us), KEPT_ALIVE.1);
    let more = "JWKS over kept-alive TLS: requests/s, of nginx's";
    report.verdict(more, rounds.ratio(0, 1, |sample| sample.per_s), Target::AtLeast(1.0));
}

/// What a client that speaks as wrk does, with the same library and its defaults, agrees on.
fn negotiated_by_openssl(address: SocketAddr) -> Result<String, String> {
    let output = Command::new("openssl")
        .args(["s_client", "-brief", "-connect", &address.to_string(), "-servername", "localhost"])
        .stdin(Stdio::null())
        .output()
        .map_err(|_| missing("openssl"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let of = |name: &str| {
        let value = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map(str::to_owned).ok_or_else(|| format!("openssl s_client names no {name}: {said}"))
    };
    Ok(format!("{}, {}, {}", of("Protocol version")?, of("Ciphersuite")?, of("Server Temp Key")?))
}
