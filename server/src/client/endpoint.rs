//! Where the proof is sent, and what it means when nobody answers there.

use http::uri::Scheme;
use http::{StatusCode, Uri};
use oneseal_keystore::IssuerUrl;
use oneseal_relying_party::Discovery;
use oneseal_relying_party::fetch::{FetchError, Fetched, Fetcher};

use super::setback::Setback;
use super::{Request, answer};
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

/// Host and port of `url`, if discovery named it and they are not the issuer's.
pub(super) fn elsewhere(request: &Request, url: &str) -> Option<String> {
    let named = place(url)?;
    let is_elsewhere = request.endpoint.is_none() && place(request.issuer.as_str()).as_ref() != Some(&named);
    let (host, port) = named;
    is_elsewhere.then(|| format!("{host}:{port}"))
}

fn place(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let standard = if uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    Some((uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(standard)))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Proof;
    use super::*;

    #[test]
    fn an_endpoint_that_is_not_on_the_issuers_host_is_told_unless_it_was_named_here() {
        let mut request = Request {
            issuer: IssuerUrl::parse("https://oidc.example/a", "test").expect("good"),
            audience: "rp".to_owned(),
            proof: Proof::SubjectToken("x".into()),
            endpoint: None,
            roots: Vec::new(),
            patience: Duration::ZERO,
        };
        for own in ["https://oidc.example/token", "https://OIDC.example:443/a/token"] {
            assert_eq!(elsewhere(&request, own), None, "{own}");
        }
        for (url, host) in [
            ("https://sts.example/token", "sts.example:443"),
            ("https://oidc.example:8443/a/token", "oidc.example:8443"),
            ("http://oidc.example/token", "oidc.example:80"),
            ("https://oidc.example.evil.example/token", "oidc.example.evil.example:443"),
        ] {
            assert_eq!(elsewhere(&request, url).as_deref(), Some(host));
        }
        request.endpoint = Some("https://sts.example/token".to_owned());
        assert_eq!(elsewhere(&request, "https://sts.example/token"), None);
    }
}
