//! The key set over HTTP: 200 and 304, beside nginx with the same bytes in a file and hyper with them in memory.

use std::process::ExitCode;

use oneseal_bench::child::Child;
use oneseal_bench::nginx::Nginx;
use oneseal_bench::pin::Cores;
use oneseal_bench::probe::{self, Answer};
use oneseal_bench::report::{self, Report};
use oneseal_bench::role::{self, Role};
use oneseal_bench::rounds::{Contender, Plan, Rounds};
use oneseal_bench::server::{JWKS, LISTEN, Place, Server};
use oneseal_bench::verdict::Target;
use oneseal_bench::wrk::Wrk;
use std::net::SocketAddr;

const CONNECTIONS: usize = 64;

fn main() -> ExitCode {
    role::play().unwrap_or_else(|| report::run("documents", measure))
}

fn measure(plan: Plan, report: &mut Report) {
    let cores = Cores::choose().expect("two cores");
    let place = Place::make();
    let ours = cores.for_server(|| Server::start(&place.configuration("documents", LISTEN)));
    let answer = probe::get(ours.documents, JWKS, ("", ""));
    assert_eq!(answer.status, 200, "{answer:?}");
    report.note(format!(
        "A key set of {} bytes, {CONNECTIONS} kept-alive connections. Server on core {}, load on core {}.",
        answer.body.len(),
        cores.server,
        cores.load
    ));
    let (hyper, hyper_address) = start_hyper(cores, &answer);
    let nginx = Nginx::start(cores, JWKS, &answer, None);
    let mut servers = vec![
        Peer { name: "oneseal", pid: ours.pid(), address: ours.documents },
        Peer { name: "hyper, from memory", pid: hyper.pid(), address: hyper_address },
    ];
    match &nginx {
        Ok(nginx) => {
            servers.push(Peer { name: "nginx, from a file", pid: nginx.pid(), address: nginx.address })
        }
        Err(why) => report.note(format!("Without nginx: {why}.")),
    }
    for status in [200, 304] {
        let measured = rounds(plan, &servers, &answer, status);
        judge(status, measured, nginx.as_ref().err().map(String::as_str), report);
    }
}

#[derive(Clone, Copy)]
struct Peer {
    name: &'static str,
    pid: u32,
    address: SocketAddr,
}

fn start_hyper(cores: Cores, answer: &Answer) -> (Child, SocketAddr) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    serde_json::to_writer(&file, answer).expect("it can be written");
    // It has read the file when it says where it serves.
    cores.for_server(|| Role::HyperRaw.start(file.path().as_os_str()))
}

fn rounds(plan: Plan, servers: &[Peer], answer: &Answer, status: u16) -> Result<Rounds, String> {
    let loads: Result<Vec<Wrk>, String> =
        servers.iter().map(|server| load(*server, answer, status)).collect();
    let loads = loads?;
    let mut contenders: Vec<_> = servers
        .iter()
        .zip(&loads)
        .map(|(server, wrk)| Contender::new(server.name, server.pid, |time| wrk.run(time)))
        .collect();
    Ok(Rounds::run(plan, &mut contenders))
}

/// Sees that the server answers as all of them should, before it is measured.
fn load(server: Peer, wanted: &Answer, status: u16) -> Result<Wrk, String> {
    let plain = probe::get(server.address, JWKS, ("", ""));
    assert_eq!(plain.body, wanted.body, "{}", server.name);
    for (name, _) in wanted.headers_of_the_document() {
        assert!(!plain.header(name).is_empty(), "{} has no {name}: {plain:?}", server.name);
    }
    let etag = plain.header("etag").to_owned();
    let headers = if status == 304 { vec![("If-None-Match", etag.as_str())] } else { Vec::new() };
    let header = headers.first().copied().unwrap_or(("", ""));
    assert_eq!(probe::get(server.address, JWKS, header).status, status, "{}", server.name);
    Wrk::get(format!("http://{}{JWKS}", server.address), &headers, CONNECTIONS)
}

fn judge(status: u16, measured: Result<Rounds, String>, no_nginx: Option<&str>, report: &mut Report) {
    let of_hyper = format!("JWKS {status}: requests/s, of raw hyper's");
    let of_nginx = format!("JWKS {status}: requests/s, of nginx's");
    let cpu = format!("JWKS {status}: processor time for one, of nginx's");
    let targets = [Target::AtLeast(0.88), Target::AtLeast(1.2), Target::AtMost(0.85)];
    let names = [&of_hyper, &of_nginx, &cpu];
    let rounds = match measured {
        Ok(rounds) => rounds,
        Err(why) => {
            names.into_iter().zip(targets).for_each(|(name, target)| report.not_measured(name, &why, target));
            return;
        }
    };
    rounds.tell(&format!("JWKS {status}"), report);
    report.verdict(&of_hyper, rounds.ratio(0, 1, |sample| sample.per_s), targets[0]);
    match no_nginx {
        None => {
            report.verdict(&of_nginx, rounds.ratio(0, 2, |sample| sample.per_s), targets[1]);
            report.verdict(&cpu, rounds.ratio(0, 2, |sample| sample.cpu_us), targets[2]);
            // What is left to gain: nothing on this library can be faster.
            let limit = format!("JWKS {status}: raw hyper's requests/s, of nginx's");
            report.verdict(&limit, rounds.ratio(1, 2, |sample| sample.per_s), Target::None);
        }
        Some(why) => {
            report.not_measured(&of_nginx, why, targets[1]);
            report.not_measured(&cpu, why, targets[2]);
        }
    }
}
