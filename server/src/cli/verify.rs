//! `oneseal verify`: judges a token as a relying party does, from discovery to the last claim; or, with `--jwks`, by a
//! key set that is at hand, and with `--at` as of another time.
//!
//! The issuer is never taken from the token: whoever can write a token could then choose who vouches for it.

use std::io::{self, IsTerminal, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::{BootTime, Clock, SystemClock, UnixTime};
use oneseal_keystore::IssuerUrl;
use oneseal_keystore::findings::chain;
use oneseal_relying_party::reasons::REASONS;
use oneseal_relying_party::{Builder, RelyingParty, VerifiedToken, VerifyError, fetch};
use serde_json::{Map, Value, json};

mod facts;

use self::facts::Asked;
use super::Globals;
use crate::config::disk;
use crate::exit::{Exit, Failure};
use crate::{output, times};

/// Which token, and against what.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The token; `-` reads it from standard input, where other users' process lists do not show it
    #[arg(value_name = "TOKEN", default_value = "-", hide_default_value = true)]
    token: String,
    /// Who must have issued it [default: configuration's issuer.url]
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// The audience that it must be for
    #[arg(long, visible_alias = "audience", value_name = "AUDIENCE")]
    aud: String,
    /// Verify by this key set and ask no discovery document: a file (nothing is fetched), or an http(s) URL
    #[arg(long, value_name = "FILE|URL")]
    jwks: Option<String>,
    /// Judge as of this time: Unix seconds, or UTC as 2026-01-01T00:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_hyphen_values = true)]
    at: Option<UnixTime>,
    /// How far exp, nbf and iat may be off, at most 10m
    #[arg(long, value_name = "DURATION", value_parser = leeway, default_value = "60s")]
    leeway: Duration,
    /// Reach the issuer at this address instead of its own, such as one replica's; the issuer stays what it is. With
    /// http:// before it in plain HTTP, for a replica behind a TLS proxy: whoever answers is believed
    #[arg(long, value_name = "[http://]HOST:PORT")]
    connect_to: Option<String>,
    /// Trust the certificates in this PEM file beside the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print one JSON object, whatever the answer is
    #[arg(long)]
    json: bool,
}

/// Verifies and prints the claims, or why it is refused (1), or why that cannot be known (69).
///
/// # Errors
/// The token is refused, the issuer does not answer, or the question makes no sense.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { token, issuer, aud, jwks, at, leeway, connect_to, ca, json } = args;
    let (issuer, roots) = configured(issuer, globals)?;
    let keys = Keys::of(jwks);
    let is_offline = matches!(keys, Keys::File(_));
    let token = if token == "-" { from_standard_input()? } else { no_file(token)? };
    let mut builder = keys.into_builder(RelyingParty::builder(issuer.clone()), &connect_to, &ca)?;
    let asked =
        Asked { issuer: issuer.clone(), audience: aud.clone(), at: at.unwrap_or_else(|| SystemClock.wall()) };
    builder = builder.audience(aud).leeway(leeway);
    if let Some(at) = at {
        builder = builder.clock(Arc::new(AsOf(at)));
    }
    if let Some(address) = connect_to {
        builder = match address.strip_prefix("http://") {
            Some(address) => builder.connect_to_plaintext(resolve(address).await?),
            None => builder.connect_to(resolve(&address).await?),
        };
    }
    // Nothing is fetched where the keys are at hand, so nobody need be trusted.
    for pem in roots.into_iter().filter(|_| !is_offline) {
        builder = builder.add_root_certificate(pem);
    }
    if let Some(path) = ca {
        builder = builder.add_root_certificate(super::read_ca(&path)?);
    }
    let relying_party = builder.build().map_err(|error| {
        let failure = Failure::refused("this cannot be verified").because(error);
        if is_offline { failure.with_hint(EXPORT) } else { failure }
    })?;
    let outcome = relying_party.verify(token.trim()).await;
    let facts = match &outcome {
        Err(error) => facts::of(error.reason(), token.trim(), &asked, &relying_party.held_kids()),
        Ok(_) => Map::new(),
    };
    if json {
        return output::answer(as_json(&outcome, facts), exit_of(&outcome));
    }
    match outcome {
        Ok(verified) => {
            let claims = serde_json::to_string_pretty(verified.claims.as_map());
            output::print_line(&claims.map_err(|error| Failure::internal("no JSON").because(error))?)?;
            output::complain(&format!("verified: signed by {} with {}", verified.kid, verified.algorithm));
            Ok(Exit::Done)
        }
        Err(error) => Err(failure(error, &issuer, &facts)),
    }
}

/// Where the keys come from.
#[derive(Debug)]
enum Keys {
    Discovery,
    Url(String),
    File(PathBuf),
}

impl Keys {
    fn of(jwks: Option<String>) -> Self {
        match jwks {
            None => Self::Discovery,
            Some(url) if ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) => {
                Self::Url(url)
            }
            Some(path) => Self::File(path.into()),
        }
    }

    fn into_builder(
        self,
        builder: Builder,
        connect_to: &Option<String>,
        ca: &Option<PathBuf>,
    ) -> Result<Builder, Failure> {
        match self {
            Self::Discovery => Ok(builder),
            Self::Url(url) => Ok(builder.jwks_uri(url)),
            Self::File(_) if connect_to.is_some() || ca.is_some() => Err(Failure::usage(
                "with a --jwks file nothing is fetched: leave --connect-to and --ca out, or give --jwks a URL",
            )),
            Self::File(path) => {
                let jwks = disk::read_bytes(&path, fetch::MAX_DOCUMENT).map_err(|error| {
                    Failure::refused(format!("--jwks {} cannot be read", path.display())).because(error)
                })?;
                Ok(builder.jwks(jwks.to_vec()))
            }
        }
    }
}

/// A clock whose wall time stands still; pauses are measured as ever.
#[derive(Debug)]
struct AsOf(UnixTime);

impl Clock for AsOf {
    fn wall(&self) -> UnixTime {
        self.0
    }

    fn boot(&self) -> BootTime {
        SystemClock.boot()
    }
}

fn leeway(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(span) if span <= Builder::MAX_LEEWAY => Ok(span),
        Ok(_) => Err("at most 10m is taken: more would be a longer life under another name".to_owned()),
        Err(error) => Err(format!("{error}; write it as 0s, 90s or 5m")),
    }
}

/// Whose token it must be, and whom the configuration trusts besides the system's authorities (issuer.ca_bundle). With
/// --issuer a configuration is read only if one is named.
pub(super) fn configured(
    flag: Option<String>,
    globals: &Globals,
) -> Result<(IssuerUrl, Vec<String>), Failure> {
    let flag = flag.map(|url| IssuerUrl::parse(&url, "--issuer").map_err(Failure::found)).transpose()?;
    let config =
        if flag.is_none() || globals.config.is_some() { Some(globals.partial_config()?) } else { None };
    let (configured, roots) = config
        .map_or_else(|| (None, Vec::new()), |config| (config.issuer, config.settings.self_check.extra_roots));
    let issuer = flag.or(configured).ok_or_else(|| {
        let message = "whose token must it be? Name the issuer by --issuer URL, or configure issuer.url; the token's \
                       own `iss` is not believed";
        Failure::usage(message)
    })?;
    Ok((issuer, roots))
}

/// A file's name in the token's place would be judged as a token, letter by letter.
fn no_file(token: String) -> Result<String, Failure> {
    if !Path::new(&token).is_file() {
        return Ok(token);
    }
    Err(Failure::usage(format!(
        "{token} is a file, and a token is wanted: `-` reads the token from standard input, as in oneseal verify - --aud … \
         < {token}"
    )))
}

fn from_standard_input() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        return Err(Failure::usage(
            "no token: give it as an argument, or pipe it in: … | oneseal verify - --aud …",
        ));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().take(MAX_TOKEN + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::internal("standard input cannot be read").because(error))?;
    if bytes.len() as u64 > MAX_TOKEN {
        return Err(Failure::usage(format!(
            "standard input has more than {MAX_TOKEN} bytes: that is no token"
        )));
    }
    // What is not UTF-8 is refused as a token, in the words of the one who judges tokens.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) async fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let found = tokio::net::lookup_host(address).await.map(|mut addresses| addresses.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Failure::new(Exit::Unavailable, format!("--connect-to {address:?} has no address"))),
        Err(error) => {
            let message =
                format!("--connect-to {address:?} is not found; write HOST:PORT, such as 10.0.0.7:8080");
            Err(Failure::usage(message).because(error))
        }
    }
}

fn failure(error: VerifyError, issuer: &IssuerUrl, facts: &Map<String, Value>) -> Failure {
    if !error.is_unavailable() {
        let told = if facts.is_empty() { String::new() } else { format!(": {}", facts::told(facts)) };
        return Failure::new(Exit::No, format!("not valid ({}){told}", error.reason())).because(error);
    }
    let cure = match error.reason() {
        "not_tls" => "a replica that leaves TLS to a proxy is reached by --connect-to http://HOST:PORT",
        "certificate" => super::UNTRUSTED,
        "certificate_of_authority" => "its server needs another certificate",
        _ => "look whether it is reachable from here",
    };
    let message =
        format!("the token is not judged ({}): the keys of {issuer} cannot be had; {cure}", error.reason());
    Failure::new(Exit::Unavailable, message).because(error)
}

fn exit_of(outcome: &Result<VerifiedToken, VerifyError>) -> Exit {
    match outcome {
        Ok(_) => Exit::Done,
        Err(error) if error.is_unavailable() => Exit::Unavailable,
        Err(_) => Exit::No,
    }
}

/// `valid` is `null` when it is not known.
fn as_json(outcome: &Result<VerifiedToken, VerifyError>, facts: Map<String, Value>) -> Value {
    match outcome {
        Ok(VerifiedToken { kid, algorithm, claims, .. }) => {
            json!({ "valid": true, "kid": kid.as_str(), "alg": algorithm.as_str(), "claims": claims.as_map() })
        }
        Err(error) => {
            let valid = if error.is_unavailable() { Value::Null } else { Value::Bool(false) };
            let reason = REASONS.iter().find(|reason| reason.word == error.reason());
            let meaning = reason.map(|reason| reason.meaning);
            let mut answer = json!({ "valid": valid, "reason": error.reason(), "message": chain(error), "meaning": meaning });
            if !facts.is_empty() {
                answer["facts"] = facts.into();
            }
            answer
        }
    }
}

/// The page of all reasons: `docs/verify.md`.
#[cfg(test)]
fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    for (title, is_unavailable) in
        [("The token is refused (exit code 1)", false), ("The token is not judged (exit code 69)", true)]
    {
        page.push_str(&format!("\n## {title}\n\n| reason | meaning |\n|---|---|\n"));
        for reason in REASONS.iter().filter(|reason| reason.is_unavailable == is_unavailable) {
            page.push_str(&format!("| `{}` | {} |\n", reason.word, reason.meaning));
        }
    }
    page
}

#[cfg(test)]
const INTRODUCTION: &str = "\
# Why a token is not accepted

The reasons of `oneseal verify`, in `reason` with `--json` and in parentheses without, and of the library
`oneseal-relying-party` (`VerifyError::reason`). They are looked for in this order, and the first one decides. This page is
made from the table in the program.

* By discovery, as relying parties do: `oneseal verify - --issuer https://oidc.example --aud rp`
* Offline, by a key set at hand: `--jwks jwks.json`; by one at a URL, without discovery: `--jwks https://…`
* As of another time, such as that of an incident: `--at 2026-01-01T00:00:00Z`, with `--leeway 0s` to the second
";

/// A ring document and a PEM file are other things than a key set.
const EXPORT: &str =
    "--jwks takes a JWK Set: `oneseal keys export --out jwks.json` writes the one of a ring or of bare keys";
/// Far above what any header carries.
const MAX_TOKEN: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use oneseal_relying_party::Unavailable;
    use oneseal_relying_party::error::{Document, SourceError};
    use oneseal_relying_party::fetch::FetchError;

    use super::*;

    #[test]
    fn the_page_in_the_repository_is_the_table_of_the_program() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/verify.md");
        if std::env::var_os("TEST_BLESS").is_some() {
            std::fs::write(&path, page()).expect("docs/ can be written");
        }
        let written = std::fs::read_to_string(&path).expect("docs/verify.md");
        assert!(written == page(), "docs/verify.md is out of date: run the tests once with TEST_BLESS=1");
    }

    #[test]
    fn a_leeway_is_bounded() {
        assert_eq!(leeway("0s"), Ok(Duration::ZERO));
        for text in ["", "10", "-1s", "601s", "11m", "1y"] {
            assert!(leeway(text).is_err(), "{text}");
        }
    }

    #[test]
    fn who_meets_plain_http_is_told_how_to_speak_it() {
        let said = |source| {
            let url = "https://oidc.example/.well-known/openid-configuration".to_owned();
            let cause = SourceError::Fetch { document: Document::Discovery, url, source };
            let unavailable = Unavailable { cause: Some(Arc::new(cause)), retry_after: Duration::ZERO };
            let issuer = IssuerUrl::parse("https://oidc.example", "--issuer").expect("good");
            failure(VerifyError::Unavailable(unavailable), &issuer, &Map::new()).in_full()
        };
        let hint = "--connect-to http://HOST:PORT";
        assert!(said(FetchError::NotTls("no TLS".into())).contains(hint));
        assert!(!said(FetchError::Connect("refused".into())).contains(hint));
        let untrusted = said(FetchError::Certificate("unknown".into()));
        assert!(untrusted.contains("--ca FILE") && untrusted.contains("issuer.ca_bundle"), "{untrusted}");
        assert!(!untrusted.contains("reachable"), "{untrusted}");
        let of_authority = said(FetchError::AuthorityAsServer);
        assert!(of_authority.contains("basicConstraints=CA:FALSE"), "{of_authority}");
        assert!(!of_authority.contains("--ca") && !of_authority.contains("reachable"), "{of_authority}");
    }
}
