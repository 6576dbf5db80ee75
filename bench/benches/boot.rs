//! From nothing to the first key set: a real process with its key in a file.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use oneseal_bench::proc::resident_mb;
use oneseal_bench::report::{self, Report};
use oneseal_bench::rounds::Plan;
use oneseal_bench::server::binary;
use oneseal_bench::verdict::Target;
use oneseal_bench::{median, now};

const STARTS: usize = 21;

fn main() -> ExitCode {
    report::run("boot", measure)
}

fn measure(_: Plan, report: &mut Report) {
    let server = binary();
    let place = tempfile::tempdir().expect("a temporary directory");
    let port = free_port();
    let config = configure(place.path(), port, &server);
    let starts: Vec<_> = (0..STARTS).map(|_| start(&server, &config, port)).collect();
    let spans = starts.iter().map(|(span, _)| span.as_secs_f64() * 1e3).collect();
    let sizes = starts.iter().map(|(_, resident)| *resident).collect();
    report.verdict("spawn to first JWKS 200, ms (median)", median(spans), Target::Below(20.0));
    report.verdict("resident after it, MB (median)", median(sizes), Target::Below(12.0));
}

fn configure(place: &Path, port: u16, server: &Path) -> PathBuf {
    let config = place.join("oneseal.toml");
    let key = place.join("keyring.json");
    let text = format!(
        "[issuer]\nurl = \"http://127.0.0.1:{port}\"\n\
         [provider]\nkind = \"file\"\npath = {key:?}\ndurable = true\n\
         [listen]\ndocuments = \"127.0.0.1:{port}\"\nops = \"127.0.0.1:0\"\nadmin = \"\"\n"
    );
    std::fs::write(&config, text).expect("the configuration can be written");
    let made =
        Command::new(server).args(["keys", "init", "--config"]).arg(&config).stdout(Stdio::null()).status();
    assert!(made.expect("the server can be run").success(), "keys init failed");
    config
}

/// Time to the first 200, and the memory then resident in MB.
fn start(server: &Path, config: &Path, port: u16) -> (Duration, f64) {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let started = now();
    let mut child = Command::new(server)
        .args(["serve", "--config"])
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server can be run");
    while !answers(address) {
        assert!(started.elapsed() < Duration::from_secs(10), "no answer");
        assert!(child.try_wait().expect("a child").is_none(), "the server ended");
    }
    let span = started.elapsed();
    let resident = resident_mb(child.id());
    child.kill().expect("it was running");
    child.wait().expect("it ended");
    (span, resident)
}

fn answers(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let request = "GET /.well-known/jwks.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}
