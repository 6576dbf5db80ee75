//! The pod's side of a token endpoint: shows a proof, gets a token for one audience.
//!
//! ```text
//! discovery ─► token_endpoint      proof file ─► POST ─┬─► 200: looked at, given back
//!    (once)                        (read each time)    ├─► 429, 5xx, no answer: again, while there is time
//!                                                      └─► any other refusal: told with what may be wrong, never again
//! ```
//! The proof goes to the endpoint that the issuer's own discovery document names, read over https, or to the one that is
//! named here, and nowhere else: no redirect is followed, and plain http is for this machine. That endpoint may be on
//! another host than the issuer, which an issuer behind a CDN wants; then it is told which. Neither proof nor token stands
//! in any error.

mod answer;
mod endpoint;
mod proof;
mod setback;

use std::time::Duration;

use bytes::Bytes;
use oneseal_coordination::Clock;
use oneseal_keystore::IssuerUrl;
use oneseal_relying_party::fetch::{FetchOptions, Fetched, Fetcher};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::exit::Failure;

use answer::Answered;
pub(crate) use answer::Exchanged;
pub(crate) use proof::Proof;
use setback::{Again, Setback};

/// What is asked, and of whom.
#[derive(Debug)]
pub(crate) struct Request {
    /// Whose token it must be.
    pub(crate) issuer: IssuerUrl,
    /// For whom.
    pub(crate) audience: String,
    /// What shows who asks.
    pub(crate) proof: Proof,
    /// Where it is sent, if discovery is not to say it.
    pub(crate) endpoint: Option<String>,
    /// PEM certificates that are trusted beside the system's.
    pub(crate) roots: Vec<String>,
    /// For everything, further attempts included.
    pub(crate) patience: Duration,
}

/// Asks until there is a token, a refusal, or no time left.
///
/// # Errors
/// Refused (77, 78), or no answer in time (69); each with what to do about it.
///
/// # Cancel safety
/// Dropped, a token may have been minted that nobody has.
pub(crate) async fn exchange(request: &Request, clock: &dyn Clock) -> Result<Exchanged, Failure> {
    let end = clock.boot() + request.patience;
    let mut endpoint = request.endpoint.clone();
    let (mut attempt, mut answered) = (0_u32, None);
    loop {
        let left = end.since(clock.boot());
        let setback = match one(request, &mut endpoint, left, clock).await {
            Ok(exchanged) => {
                let endpoint_host = endpoint.and_then(|url| endpoint::elsewhere(request, &url));
                return Ok(Exchanged { endpoint_host, ..exchanged });
            }
            Err(setback) => setback,
        };
        let pause = match setback.again {
            Again::Never => return Err(*setback.failure),
            Again::Later(asked) => setback::pause(attempt, asked, random()),
        };
        if pause >= end.since(clock.boot()) {
            return Err(setback.out_of_time(answered, request.patience));
        }
        if setback.is_answer {
            answered = Some(setback);
        }
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}

async fn one(
    request: &Request,
    endpoint: &mut Option<String>,
    left: Duration,
    clock: &dyn Clock,
) -> Result<Exchanged, Setback> {
    let proof = request.proof.read()?;
    let fetcher = fetcher(request, left)?;
    let url = match endpoint {
        Some(url) => &*url,
        None => endpoint.insert(endpoint::of(&fetcher, &request.issuer).await?),
    };
    let answered = fetcher.post_form(url, form(request, &proof)).await;
    let answered = answered.map_err(|error| endpoint::no_answer(url, error))?;
    let Fetched { status, headers, body, .. } = &answered;
    answer::judge(request, url, &proof, Answered { status: *status, headers, body }, clock.wall())
}

fn fetcher(request: &Request, left: Duration) -> Result<Fetcher, Setback> {
    let mut options = FetchOptions::default();
    options.deadline = left.min(ONE_EXCHANGE);
    options.https = request.issuer.is_https();
    options.extra_roots.clone_from(&request.roots);
    Fetcher::new(&options)
        .map_err(|error| Setback::never(Failure::refused("no connection can be made").because(error)))
}

/// The parameters of RFC 8693 section 2.1, or of RFC 7523 section 2.1 with an `audience` besides.
fn form(request: &Request, proof: &str) -> Bytes {
    let parameters: &[(&str, &str)] = match request.proof {
        Proof::SubjectToken(_) => &[
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", proof),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:id_token"),
            ("audience", &request.audience),
        ],
        Proof::Assertion(_) => &[
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", proof),
            ("audience", &request.audience),
        ],
    };
    let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let parts = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    Bytes::from(parts.collect::<Vec<_>>().join("&"))
}

/// Spread over its range; without randomness nothing is spread, which is all that would be lost.
fn random() -> u8 {
    let mut byte = [0];
    aws_lc_rs::rand::fill(&mut byte).unwrap_or_default();
    byte[0]
}

/// For one request, from name lookup to the last byte: a replica that hangs costs no more of the time for all.
const ONE_EXCHANGE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_each_parameter_once_and_nothing_of_a_value_is_taken_for_another() {
        let request = |proof| Request {
            issuer: IssuerUrl::parse("https://oidc.example", "test").expect("good"),
            audience: "api://a&b=ü +".to_owned(),
            proof,
            endpoint: None,
            roots: Vec::new(),
            patience: Duration::ZERO,
        };
        let exchange = form(&request(Proof::SubjectToken("x".into())), "a.b-c_d.e");
        let exchange = std::str::from_utf8(&exchange).expect("text");
        assert!(exchange.contains("&subject_token=a%2Eb%2Dc%5Fd%2Ee&"), "{exchange}");
        assert!(exchange.ends_with("&audience=api%3A%2F%2Fa%26b%3D%C3%BC%20%2B"), "{exchange}");
        let assertion = form(&request(Proof::Assertion("x".into())), "a.b.c");
        assert!(
            assertion
                .ends_with(b"jwt%2Dbearer&assertion=a%2Eb%2Ec&audience=api%3A%2F%2Fa%26b%3D%C3%BC%20%2B")
        );
    }
}
