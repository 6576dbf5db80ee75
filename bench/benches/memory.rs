//! What is in memory after all kinds of load, on every core that there is: documents, handshakes, tokens.

use std::process::ExitCode;

use oneseal_bench::handshakes::Handshakes;
use oneseal_bench::minting::{Ask, Minting};
use oneseal_bench::proc::resident_mb;
use oneseal_bench::report::{self, Report, Table};
use oneseal_bench::rounds::Plan;
use oneseal_bench::server::{ALGORITHMS, JWKS, Place, Server};
use oneseal_bench::verdict::Target;
use oneseal_bench::wrk::Wrk;

const CONNECTIONS: usize = 64;
const LIMIT: Target = Target::Below(40.0);
const PLAIN: &str = "resident after JWKS and token load, MB";
const TLS: &str = "resident after TLS load and handshakes, MB";

fn main() -> ExitCode {
    report::run("memory", measure)
}

fn measure(plan: Plan, report: &mut Report) {
    let place = Place::make();
    let mut table = Table::new("Resident memory", &["after", "MB"]);
    for (name, outcome) in [(PLAIN, plain(plan, &place, &mut table)), (TLS, tls(plan, &place, &mut table))] {
        match outcome {
            Ok(resident) => report.verdict(name, resident, LIMIT),
            Err(why) => report.not_measured(name, &why, LIMIT),
        }
    }
    report.table(table);
}

fn plain(plan: Plan, place: &Place, table: &mut Table) -> Result<f64, String> {
    let caller = Minting::caller();
    let server = Server::start(&place.configuration("plain", &caller.tables()));
    let mut tell = |after: &str| table.row([after.to_owned(), format!("{:.1}", resident_mb(server.pid()))]);
    tell("the start");
    let jwks = Wrk::get(format!("http://{}{JWKS}", server.documents), &[], CONNECTIONS)?;
    jwks.run(plan.turn);
    tell("JWKS");
    let address = server.address("admin_tcp").expect("an admin listener");
    for algorithm in ALGORITHMS {
        let tokens = caller.load(address, algorithm.as_str(), Ask::Token, CONNECTIONS)?;
        let minting = tokens.begin(plan.turn);
        jwks.run(plan.turn);
        minting.end();
        tell(&format!("{algorithm} tokens and JWKS"));
    }
    Ok(resident_mb(server.pid()))
}

fn tls(plan: Plan, place: &Place, table: &mut Table) -> Result<f64, String> {
    let listen = oneseal_bench::server::LISTEN;
    let server = Server::start(&place.configuration("tls", &format!("{listen}{}", place.tls_table())));
    let mut tell = |after: &str| table.row([after.to_owned(), format!("{:.1}", resident_mb(server.pid()))]);
    tell("the start, with TLS");
    Wrk::get(format!("https://{}{JWKS}", server.documents), &[], CONNECTIONS)?.run(plan.turn);
    tell("JWKS over TLS");
    let certificate = std::fs::read(place.certificate()).expect("the certificate");
    Handshakes::new(&certificate).load(server.documents, JWKS, CONNECTIONS, plan.turn);
    tell("full handshakes");
    Ok(resident_mb(server.pid()))
}
