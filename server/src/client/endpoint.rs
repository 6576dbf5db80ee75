//! Where the proof is sent, and what it means when nobody answers there.

use http::StatusCode;
use oneseal_keystore::IssuerUrl;
use oneseal_relying_party::Discovery;
use oneseal_relying_party::fetch::{FetchError, Fetched, Fetcher};

use super::answer;
use super::setback::Setback;
use crate::cli::UNTRUSTED;
use crate::exit::Failure;
use crate::refusals::TOKEN_NO_ENDPOINT;

/// The `token_endpoint` of the issuer's discovery document.
///
/// # Errors
/// No answer for now; or a document that names none, or is another issuer's.
///
/// # Cancel safety
/// Dropping the future closes the connection; nothing else is changed.
pub(super) async fn of(fetcher: &Fetcher, issuer: &IssuerUrl) -> Result<String, Setback> {
    let url = issuer.url_of(&issuer.discovery_path());
    let answered = fetcher.get(&url).await.map_err(|error| no_answer(&url, error))?;
    if answered.status != StatusCode::OK {
        return Err(not_there(&url, &answered));
    }
    let document = Discovery::read(&answered.body).map_err(|error| {
        none(format!("{url} is no discovery document: is {issuer} the issuer?")).because(error)
    })?;
    if !document.is_of(issuer) {
        return Err(none(format!(
            "{url} is the document of another issuer than {issuer}: name the issuer as it names itself, byte for byte"
        )));
    }
    match document.token_endpoint(issuer) {
        Ok(Some(endpoint)) => Ok(endpoint.to_owned()),
        Ok(None) => Err(none(format!(
            "{issuer} names no token_endpoint, so it takes no proofs: let its operator configure [[cluster]] or \
             [[assertion_issuer]], and a [[rule]]"
        ))),
        Err(error) => {
            let message = format!("the token_endpoint of {issuer} is none that a proof is sent to");
            Err(none(message).because(error))
        }
    }
}

/// What it means that nothing came from `url`.
pub(super) fn no_answer(url: &str, error: FetchError) -> Setback {
    let never = |message| Setback::never(Failure::refused(message).with_code(TOKEN_NO_ENDPOINT));
    let setback = match &error {
        FetchError::Connect(_) | FetchError::Proxy(_) | FetchError::Deadline(_) | FetchError::Http(_) => {
            Setback::later(format!("no answer from {url}: is it reachable from here?"), None)
        }
        FetchError::Certificate(_) => never(format!("{url}: {UNTRUSTED}")),
        FetchError::PlainHttp => never(format!(
            "{url}: the proof would cross the network in clear, and has not been sent; use https://"
        )),
        FetchError::Redirect(_) => never(format!("{url} leads elsewhere: a proof goes to nobody else")),
        _ => never(format!("{url} is no token endpoint of an issuer")),
    };
    setback.because(error)
}

fn not_there(url: &str, answered: &Fetched) -> Setback {
    let status = answered.status;
    if answer::is_for_now(status) {
        let message = format!("{url} was answered with status {}", status.as_u16());
        return Setback::later(message, answer::retry_after(&answered.headers));
    }
    none(format!("{url} was answered with status {}: is this the issuer's URL?", status.as_u16()))
}

fn none(message: String) -> Setback {
    Setback::never(Failure::refused(message).with_code(TOKEN_NO_ENDPOINT))
}
