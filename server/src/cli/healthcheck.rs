//! `oneseal healthcheck`: asks a replica's `/readyz`, for a container whose image has no other HTTP client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::{StatusCode, Uri};
use oneseal_keystore::findings::chain;
use oneseal_relying_party::fetch::{ConnectTo, FetchError, FetchOptions, Fetched, Fetcher};
use serde_json::json;

use super::Globals;
use crate::exit::{Exit, Failure};
use crate::output;

/// Whom to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ops listener's address [default: configuration's listen.ops]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "url")]
    ops: Option<SocketAddr>,
    /// Ask this URL instead
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// With an https URL: trust the certificates in this PEM file beside the system's
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
}

/// 0 if it is ready, 1 if it is not or does not answer within two seconds.
///
/// # Errors
/// It is not ready, or the configuration that should say where to ask is wrong.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { ops, url, json, ca } = args;
    if let Some(url) = url {
        let is_url = url.parse::<Uri>().is_ok_and(|url| {
            matches!(url.scheme_str(), Some("http" | "https"))
                && url.host().is_some_and(|host| !host.is_empty())
        });
        if !is_url {
            return Err(Failure::usage(
                "--url is no URL; write it whole, such as http://127.0.0.1:8081/readyz",
            ));
        }
        let mut roots = ca.iter().map(|path| super::read_ca(path)).collect::<Result<Vec<_>, _>>()?;
        // A configuration that is named is one of the server asked for, authorities included.
        if globals.config.is_some() && url.starts_with("https:") {
            roots.extend(globals.partial_config()?.settings.self_check.extra_roots);
        }
        return ask(&url, None, roots, json).await;
    }
    let ops = match ops {
        Some(ops) => ops,
        None => globals.partial_config()?.settings.listen.ops,
    };
    if ops.port() == 0 {
        return Err(Failure::usage(
            "listen.ops has port 0, so the system has chosen one: name it by --ops ADDRESS",
        ));
    }
    let url = format!("http://localhost:{}/readyz", ops.port());
    let mut last = Ok(Exit::No);
    for address in reachable(ops) {
        last = ask(&url, Some(address), Vec::new(), json).await;
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Where a listener that is bound to `bound` answers on this host. `[::]` takes IPv4 too, where there is no IPv6 alone.
fn reachable(bound: SocketAddr) -> Vec<SocketAddr> {
    let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
    let hosts = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![v4],
        IpAddr::V6(ip) if ip.is_unspecified() => vec![v4, v6],
        ip => vec![ip],
    };
    hosts.into_iter().map(|host| SocketAddr::new(host, bound.port())).collect()
}

async fn ask(
    url: &str,
    connect_to: Option<SocketAddr>,
    roots: Vec<String>,
    json: bool,
) -> Result<Exit, Failure> {
    let mut options = FetchOptions::default();
    options.connect_to = connect_to.map(ConnectTo::AsUrl);
    options.deadline = DEADLINE;
    options.extra_roots = roots;
    options.https = url.starts_with("https:");
    let no = |message: String| Failure::new(Exit::No, message);
    let fetcher = Fetcher::new(&options).map_err(|error| no("no client".to_owned()).because(error))?;
    let place = connect_to.map_or_else(|| url.to_owned(), |address| format!("{address}/readyz"));
    match fetcher.get(url).await {
        Ok(Fetched { status: StatusCode::OK, .. }) => {
            if json {
                return output::answer(json!({ "ready": true, "asked": place }), Exit::Done);
            }
            output::print_line("ready")?;
            Ok(Exit::Done)
        }
        Ok(Fetched { status, body, .. }) => {
            Err(no(format!("not ready: {place} answers {status}: {}", said(&body))))
        }
        Err(FetchError::Certificate(error)) => {
            Err(no(format!("no answer from {place}: {}: {}", super::UNTRUSTED, chain(&*error))))
        }
        Err(error) => Err(no(format!("no answer from {place}: {}", chain(&error)))),
    }
}

/// The first line of an answer, as far as it is fit for a log.
fn said(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MAX_SAID).filter(|letter| !letter.is_control()).collect()
}

/// Docker and Kubernetes give a probe a few seconds at most; a replica answers from memory, in microseconds.
const DEADLINE: Duration = Duration::from_secs(2);
const MAX_SAID: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_asked_on_loopback() {
        let asked = |text: &str| -> Vec<String> {
            reachable(text.parse().expect("an address")).iter().map(ToString::to_string).collect()
        };
        assert_eq!(asked("[::]:8081"), ["127.0.0.1:8081", "[::1]:8081"]);
        assert_eq!(asked("0.0.0.0:1"), ["127.0.0.1:1"]);
        assert_eq!(asked("10.1.2.3:8081"), ["10.1.2.3:8081"]);
    }

    #[test]
    fn only_one_line_of_an_answer_is_repeated() {
        assert_eq!(said(b"stale\x1b[31m\nmore"), "stale[31m");
        assert_eq!(said(&[b'a'; 1000]).len(), 200);
    }
}
