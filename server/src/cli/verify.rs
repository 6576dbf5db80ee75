//! `oneseal verify`: judges a token as a relying party does, from discovery to the last claim.
//!
//! The issuer is never taken from the token: whoever can write a token could then choose who vouches for it.

use std::io::{self, IsTerminal, Read};
use std::net::SocketAddr;
use std::path::PathBuf;

use oneseal_keystore::IssuerUrl;
use oneseal_keystore::findings::chain;
use oneseal_relying_party::{RelyingParty, VerifiedToken, VerifyError};
use serde_json::{Value, json};

use super::Globals;
use crate::exit::{Exit, Failure};
use crate::output;

/// What to verify, and what must hold of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The token; `-` reads it from standard input, where other users' process lists do not show it
    #[arg(value_name = "TOKEN", default_value = "-", hide_default_value = true)]
    token: String,
    /// Who must have issued it [default: configuration's issuer.url]
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// The audience that it must be for
    #[arg(long, value_name = "AUDIENCE")]
    aud: String,
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
    let Args { token, issuer, aud, connect_to, ca, json } = args;
    let issuer = configured(issuer, globals)?;
    let token = if token == "-" { from_standard_input()? } else { token };
    let mut builder = RelyingParty::builder(issuer.clone()).audience(aud);
    if let Some(address) = connect_to {
        builder = match address.strip_prefix("http://") {
            Some(address) => builder.connect_to_plaintext(resolve(address).await?),
            None => builder.connect_to(resolve(&address).await?),
        };
    }
    if let Some(path) = ca {
        builder = builder.add_root_certificate(super::read_ca(&path)?);
    }
    let relying_party =
        builder.build().map_err(|error| Failure::refused("this cannot be verified").because(error))?;
    let outcome = relying_party.verify(token.trim()).await;
    if json {
        return output::answer(as_json(&outcome), exit_of(&outcome));
    }
    match outcome {
        Ok(verified) => {
            let claims = serde_json::to_string_pretty(verified.claims.as_map());
            output::print_line(&claims.map_err(|error| Failure::internal("no JSON").because(error))?)?;
            output::complain(&format!("verified: signed by {} with {}", verified.kid, verified.algorithm));
            Ok(Exit::Done)
        }
        Err(error) => Err(failure(error, &issuer)),
    }
}

fn configured(flag: Option<String>, globals: &Globals) -> Result<IssuerUrl, Failure> {
    if let Some(url) = flag {
        return IssuerUrl::parse(&url, "--issuer").map_err(Failure::found);
    }
    globals.partial_config()?.issuer.ok_or_else(|| {
        let message = "whose token must it be? Name the issuer by --issuer URL, or configure issuer.url; the token's \
                       own `iss` is not believed";
        Failure::usage(message)
    })
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

async fn resolve(address: &str) -> Result<SocketAddr, Failure> {
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

fn failure(error: VerifyError, issuer: &IssuerUrl) -> Failure {
    if !error.is_unavailable() {
        return Failure::new(Exit::No, "not valid").because(error);
    }
    let cure = if error.reason() == "not_tls" {
        "a replica that leaves TLS to a proxy is reached by --connect-to http://HOST:PORT"
    } else {
        "look whether it is reachable from here"
    };
    let message = format!("the token is not judged: {issuer} cannot be asked; {cure}");
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
fn as_json(outcome: &Result<VerifiedToken, VerifyError>) -> Value {
    match outcome {
        Ok(VerifiedToken { kid, algorithm, claims, .. }) => {
            json!({ "valid": true, "kid": kid.as_str(), "alg": algorithm.as_str(), "claims": claims.as_map() })
        }
        Err(error) => {
            let valid = if error.is_unavailable() { Value::Null } else { Value::Bool(false) };
            json!({ "valid": valid, "reason": error.reason(), "message": chain(error) })
        }
    }
}

/// Far above what any header carries.
const MAX_TOKEN: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use oneseal_relying_party::Unavailable;
    use oneseal_relying_party::error::{Document, SourceError};
    use oneseal_relying_party::fetch::FetchError;

    use super::*;

    #[test]
    fn who_meets_plain_http_is_told_how_to_speak_it() {
        let said = |source| {
            let url = "https://oidc.example/.well-known/openid-configuration".to_owned();
            let cause = SourceError::Fetch { document: Document::Discovery, url, source };
            let unavailable = Unavailable { cause: Some(Arc::new(cause)), retry_after: Duration::ZERO };
            let issuer = IssuerUrl::parse("https://oidc.example", "--issuer").expect("good");
            failure(VerifyError::Unavailable(unavailable), &issuer).in_full()
        };
        let hint = "--connect-to http://HOST:PORT";
        assert!(said(FetchError::NotTls("no TLS".into())).contains(hint));
        assert!(!said(FetchError::Connect("refused".into())).contains(hint));
    }
}
