//! `oneseal mint`: a token from one running replica, through its admin socket or over TCP.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use oneseal_keystore::Algorithm;
use serde::Serialize;
use serde_json::{Map, Value};

use self::client::{Answer, MintRequest, Minted, Preview};
use self::remote::Remote;
use super::Globals;
use crate::config;
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) mod client;
mod remote;

/// What to mint, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The replica's admin socket, or the URL of its admin API over TCP [default: configuration's listen.admin]
    #[arg(long, value_name = "SOCKET|URL")]
    admin: Option<String>,
    #[command(flatten)]
    remote: remote::Args,
    /// Who the token speaks of
    #[arg(long, value_name = "SUBJECT")]
    sub: String,
    /// Whom it is for; one of the server's `admin.mint_audiences`
    #[arg(long, value_name = "AUDIENCE")]
    aud: String,
    /// How long it lives, such as 10m: 1m to 24h, and no more than rotation.max_token_ttl [default: the fleet's rotation.token_ttl]
    #[arg(long, value_name = "DURATION", value_parser = whole_seconds)]
    ttl: Option<Duration>,
    /// What to sign with [default: the first of issuer.algorithms]
    #[arg(long, value_name = "ALG")]
    alg: Option<Algorithm>,
    /// A further claim: `name=text`, or `name:=JSON`; may be repeated
    #[arg(long = "claim", value_name = "NAME=TEXT|NAME:=JSON")]
    claims: Vec<Claim>,
    /// Print the claims that a token would have, and mint none
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object: token, kid, exp
    #[arg(long)]
    json: bool,
}

/// Mints and prints.
///
/// # Errors
/// The socket is not known or cannot be opened, or the server refuses; each with what to do about it.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { admin, remote, sub, aud, ttl, alg, claims, dry_run, json } = args;
    let request = MintRequest {
        sub,
        aud,
        ttl_s: ttl.map(|ttl| ttl.as_secs()),
        alg: alg.map(|alg| alg.as_str().to_owned()),
        claims: collect(claims)?,
        dry_run,
    };
    let replica = Replica::of(admin, remote, globals).await?;
    if dry_run {
        let preview: Preview = replica.ask(&request).await?;
        let claims = preview.claims.to_string();
        return tell(&preview, &claims, json);
    }
    let minted: Minted = replica.ask(&request).await?;
    tell(&minted, &minted.token, json)
}

fn tell(answer: &impl Serialize, line: &str, json: bool) -> Result<Exit, Failure> {
    if json {
        let members = serde_json::to_value(answer);
        let members = members.map_err(|error| Failure::internal("no JSON").because(error))?;
        return output::answer(members, Exit::Done);
    }
    output::print_line(line)?;
    Ok(Exit::Done)
}

/// Whom to ask.
enum Replica {
    Socket(PathBuf),
    Url(Remote),
}

impl Replica {
    async fn of(admin: Option<String>, remote: remote::Args, globals: &Globals) -> Result<Self, Failure> {
        match admin {
            Some(url) if remote::is_url(&url) => Ok(Self::Url(Remote::new(&url, remote, globals).await?)),
            Some(path) if remote.is_empty() => Ok(Self::Socket(path.into())),
            Some(address) if client::is_address(Path::new(&address)) => Err(Failure::usage(format!(
                "--admin {address} has no scheme, so it is the path of a socket, which asks for no token and speaks no TLS: \
                 an address of TCP begins with https:// or http://"
            ))),
            Some(_) => Err(Failure::usage(ONLY_TCP)),
            None => {
                let path = configured(globals)?;
                if remote.is_empty() { Ok(Self::Socket(path)) } else { Err(Failure::usage(ONLY_TCP)) }
            }
        }
    }

    async fn ask<T: Answer>(&self, request: &MintRequest) -> Result<T, Failure> {
        match self {
            Self::Socket(path) => client::mint(path, request).await,
            Self::Url(remote) => remote.mint(request).await,
        }
    }
}

/// The socket of the configuration.
fn configured(globals: &Globals) -> Result<PathBuf, Failure> {
    let config::Settings { listen, tls, .. } = globals.partial_config()?.settings;
    listen.admin.ok_or_else(|| {
        Failure::usage(match listen.admin_tcp {
            None => "listen.admin is \"none\", so there is no socket: name a replica's by --admin SOCKET|URL"
                .to_owned(),
            Some(address) => {
                let scheme = if tls.source == config::TlsSource::Off { "http" } else { "https" };
                format!(
                    "listen.admin is \"none\", so there is no socket; listen.admin_tcp is {address}: name \
                     --admin {scheme}://HOST:{} and --admin-token-file FILE",
                    address.port()
                )
            }
        })
    })
}

const ONLY_TCP: &str = "a socket asks for no token and speaks no TLS: leave out what is for TCP, or name \
                        --admin https://HOST:PORT";

/// One claim of the command line.
#[derive(Clone, Debug, PartialEq)]
struct Claim {
    name: String,
    value: Value,
}

impl FromStr for Claim {
    type Err = String;

    /// `name=text` is a string whatever it looks like; `name:=JSON` is what the JSON says.
    fn from_str(text: &str) -> Result<Self, String> {
        let (before, after) = text.split_once('=').ok_or("want name=text or name:=JSON")?;
        let (name, value) = match before.strip_suffix(':') {
            Some(name) => {
                let value = serde_json::from_str(after);
                (
                    name,
                    value.map_err(|error| {
                        format!("what follows := is no JSON ({error}); name=text takes a text as it is")
                    })?,
                )
            }
            None => (before, Value::from(after)),
        };
        if name.is_empty() {
            return Err("the claim's name is missing before the =".to_owned());
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

fn collect(claims: Vec<Claim>) -> Result<Map<String, Value>, Failure> {
    let mut map = Map::new();
    for Claim { name, value } in claims {
        if map.contains_key(&name) {
            return Err(Failure::usage(format!("--claim {name} is given twice; a claim has one value")));
        }
        map.insert(name, value);
    }
    Ok(map)
}

fn whole_seconds(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(span) if span.subsec_nanos() == 0 && !span.is_zero() => Ok(span),
        Ok(_) => Err("want one second or more, and whole ones".to_owned()),
        Err(error) => Err(format!("{error}; write it as 90s, 10m or 1h")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_a_text_or_json_as_its_sign_says() {
        for (text, name, value) in [
            ("a=b", "a", json!("b")),
            ("a=", "a", json!("")),
            ("a=1", "a", json!("1")),
            ("a=b=c", "a", json!("b=c")),
            ("a:=1", "a", json!(1)),
            (r#"a:={"b":[true]}"#, "a", json!({"b": [true]})),
            (r#"a:="x:=y""#, "a", json!("x:=y")),
            ("https://aws.amazon.com/tags=x", "https://aws.amazon.com/tags", json!("x")),
        ] {
            assert_eq!(text.parse(), Ok(Claim { name: name.to_owned(), value }), "{text}");
        }
        for text in ["", "a", "=b", ":=1", "a:=", "a:=b", "a:={"] {
            assert!(text.parse::<Claim>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_claim_given_twice_is_refused() {
        let claim = |text: &str| text.parse::<Claim>().expect("a claim");
        assert_eq!(collect(vec![claim("a=1"), claim("b=2")]).expect("two").len(), 2);
        assert!(collect(vec![claim("a=1"), claim("a=1")]).is_err());
    }

    #[test]
    fn a_life_is_of_whole_seconds() {
        assert_eq!(whole_seconds("10m"), Ok(Duration::from_secs(600)));
        for text in ["", "10", "0s", "1500ms", "-1s", "soon"] {
            assert!(whole_seconds(text).is_err(), "{text}");
        }
    }
}
