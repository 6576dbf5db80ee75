//! Who is let in over TCP, decided from the head of a request alone.
//!
//! In this order, so that each step tells nothing to whom the one before has refused: is the request meant for this
//! listener (`Host`), does a web page send it (`Origin`), who asks (`Authorization`), may they (scope), is there such a
//! path. A browser that has been led here by a name of somebody else's (DNS rebinding) or by a form (CSRF) fails at the
//! first two; it has no token anyway, since there are no cookies here.
//!
//! A guess costs two hashes of 66 bytes and a comparison with each configured hash, the same for all of them, without a
//! lock or memory of its own. Nobody is locked out for the guesses of others: with 256 random bits there is nothing to
//! be gained by guessing.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Request};
use oneseal::{Clock, SystemClock};
use percent_encoding::percent_decode_str;

use super::scope_of;
use crate::admin_token;
use crate::config::{self, AdminToken};
use crate::http::caller::{Caller, Ends};
use crate::http::error::ApiError;
use crate::http::host;
use crate::http::quoted::holds_token;
use crate::logging::AUDIT;
use crate::state::State;

/// What becomes of a request, for the metric `oneseal_admin_auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Let in.
    Ok,
    /// Called by a name that is not ours.
    Host,
    /// Sent by another's web page.
    Origin,
    /// No token.
    Missing,
    /// Not one token in one `Authorization` header.
    Malformed,
    /// No token of ours.
    Unknown,
    /// One whose time is over.
    Expired,
    /// One that may do something else.
    Scope,
}

impl Verdict {
    /// All of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Ok,
        Self::Host,
        Self::Origin,
        Self::Missing,
        Self::Malformed,
        Self::Unknown,
        Self::Expired,
        Self::Scope,
    ];

    /// The `result` label, and the reason in the audit line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Host => "wrong_host",
            Self::Origin => "wrong_origin",
            Self::Missing => "no_token",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown_token",
            Self::Expired => "expired_token",
            Self::Scope => "insufficient_scope",
        }
    }
}

/// Knows the tokens and the names.
#[derive(Debug)]
pub(crate) struct Guard {
    tokens: Vec<Known>,
    /// In lower case, without port.
    hosts: Vec<String>,
    scheme: &'static str,
    state: Arc<State>,
    told: Told,
}

#[derive(Debug)]
struct Known {
    name: Arc<str>,
    token: AdminToken,
    /// What is written about its refusals.
    told: Told,
}

impl Guard {
    /// For the tokens and names of `admin`, on a listener that speaks TLS or not.
    pub(crate) fn new(admin: &config::Admin, with_tls: bool, state: Arc<State>) -> Self {
        let known = |token: &AdminToken| Known {
            name: token.name.as_str().into(),
            token: token.clone(),
            told: Told::default(),
        };
        let ours = ["localhost".to_owned(), state.issuer.url().host().to_ascii_lowercase()];
        Self {
            tokens: admin.tokens.iter().map(known).collect(),
            hosts: ours.into_iter().chain(admin.hosts.iter().cloned()).collect(),
            scheme: if with_tls { "https" } else { "http" },
            state,
            told: Told::default(),
        }
    }

    /// Whoever asks, if they may ask this. The credential is taken out of the request: nobody behind needs it.
    ///
    /// # Errors
    /// The answer that they get instead.
    pub(super) fn admit<B>(&self, request: &mut Request<B>, ends: Ends) -> Result<Caller, ApiError> {
        let judged = self.judge(request, ends);
        request.headers_mut().remove(AUTHORIZATION);
        let verdict = judged.as_ref().map_or_else(|refused| refused.verdict, |_| Verdict::Ok);
        self.state.metrics.count_admin_auth(verdict);
        let caller = |name| Caller::Token { name, peer: ends.peer };
        judged.map(caller).map_err(|Refused { verdict, holder, answer }| {
            match holder {
                None => self.told.tell(verdict, &Caller::Remote(ends)),
                Some(Known { name, told, .. }) => told.tell(verdict, &caller(Arc::clone(name))),
            }
            *answer
        })
    }

    /// The name of the token, if all is well.
    fn judge<B>(&self, request: &Request<B>, ends: Ends) -> Result<Arc<str>, Refused<'_>> {
        let called = self.called(request, ends)?;
        self.check_origin(request.headers(), called)?;
        let known @ Known { name, token, .. } = self.holder(request)?;
        let of_holder = |verdict, answer| Refused { holder: Some(known), ..refused(verdict, answer) };
        if token.expires.is_some() && token.has_expired(SystemClock.wall()) {
            // In the words for a token that was never known: what is over is nobody's business.
            return Err(of_holder(Verdict::Expired, ApiError::invalid_token()));
        }
        match scope_of(request.uri().path()) {
            None => Err(refused(Verdict::Ok, ApiError::not_found())),
            Some(scope) if !token.scopes.has(scope) => {
                Err(of_holder(Verdict::Scope, ApiError::insufficient_scope(scope)))
            }
            Some(_) => Ok(Arc::clone(name)),
        }
    }

    /// By which name, and port, the request calls us: the target's, which HTTP/2 and absolute targets have, and the
    /// header's (RFC 9112 section 3.2, RFC 9113 section 8.3.1). All that are there must be ours.
    fn called<'a, B>(&self, request: &'a Request<B>, ends: Ends) -> Result<&'a str, Refused<'static>> {
        let target = request.uri().authority().map(|authority| Some(authority.as_str()));
        let mut fields = request.headers().get_all(HOST).iter();
        let field = fields.next().map(|value| value.to_str().ok());
        if fields.next().is_some() {
            return Err(refused(Verdict::Host, ApiError::invalid("there is more than one Host header")));
        }
        let Some(called) = target.or(field) else {
            return Err(refused(Verdict::Host, ApiError::invalid("the Host header is missing")));
        };
        let is_ours = |authority: Option<&str>| {
            authority
                .and_then(|authority| host::of(authority.as_bytes()))
                .is_some_and(|host| self.is_own(host, ends.local.ip()))
        };
        match called {
            Some(called) if is_ours(Some(called)) && field.is_none_or(is_ours) => Ok(called),
            _ => Err(refused(Verdict::Host, ApiError::misdirected())),
        }
    }

    fn is_own(&self, host: &str, local: IpAddr) -> bool {
        if self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return true;
        }
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.is_ok_and(|address| {
            let address = address.to_canonical();
            address == local || (address.is_loopback() && local.is_loopback())
        })
    }

    /// Only a page of this very listener may ask by script, and no answer of ours lets another page read it.
    fn check_origin(&self, headers: &HeaderMap, called: &str) -> Result<(), Refused<'static>> {
        let is_ours = |origin: &HeaderValue| {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            origin.is_some_and(|(scheme, rest)| scheme == self.scheme && rest.eq_ignore_ascii_case(called))
        };
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if is_ours(origin) => Ok(()),
            _ => Err(refused(Verdict::Origin, ApiError::foreign_origin())),
        }
    }

    fn holder<B>(&self, request: &Request<B>) -> Result<&Known, Refused<'_>> {
        let token = credential(request)?;
        let unknown = || refused(Verdict::Unknown, ApiError::invalid_token());
        let digest = admin_token::digest_of(token).ok_or_else(unknown)?;
        let is_it = |known: &&Known| {
            verify_slices_are_equal(known.token.digest.as_bytes(), digest.as_bytes()).is_ok()
        };
        // All of them are compared, whichever it is.
        self.tokens.iter().filter(is_it).fold(None, |_, known| Some(known)).ok_or_else(unknown)
    }
}

/// The bytes of the one bearer token in the head (RFC 6750 section 2.1). A token in the query is refused in words of its
/// own, since it has been written into logs on the way; one in a body is not looked for.
fn credential<B>(request: &Request<B>) -> Result<&[u8], Refused<'static>> {
    let query = request.uri().query().unwrap_or_default();
    if has_token(query) {
        let words = "a token does not belong into the URL, where logs have it: send it as Authorization: Bearer, \
                     and make a new one";
        return Err(refused(Verdict::Malformed, ApiError::malformed_credential(words)));
    }
    let mut fields = request.headers().get_all(AUTHORIZATION).iter();
    let field = match (fields.next(), fields.next()) {
        (None, _) => return Err(refused(Verdict::Missing, ApiError::unauthorized())),
        (Some(field), None) => field.as_bytes(),
        (Some(_), Some(_)) => {
            let words = "there is more than one Authorization header";
            return Err(refused(Verdict::Malformed, ApiError::malformed_credential(words)));
        }
    };
    let (scheme, rest) = field.split_at(field.iter().position(|byte| *byte == b' ').unwrap_or(field.len()));
    if !scheme.eq_ignore_ascii_case(b"Bearer") {
        return Err(refused(Verdict::Missing, ApiError::unauthorized()));
    }
    Ok(rest.trim_ascii())
}

/// Whether a token stands in the query, or a parameter is named like one in whatever spelling.
fn has_token(query: &str) -> bool {
    let is_named = |pair: &str| {
        let name = percent_decode_str(pair.split('=').next().unwrap_or_default());
        name.map(|byte| byte.to_ascii_lowercase()).eq(b"access_token".iter().copied())
    };
    query.split(['&', ';']).any(is_named) || holds_token(query)
}

/// A refusal, with the token where it is one of ours.
struct Refused<'a> {
    verdict: Verdict,
    holder: Option<&'a Known>,
    answer: Box<ApiError>,
}

fn refused(verdict: Verdict, answer: ApiError) -> Refused<'static> {
    Refused { verdict, holder: None, answer: Box::new(answer) }
}

/// Writes down who was refused, once a second at most, so that nobody can fill a disk: each token has one of its own, and
/// all strangers share one. How many there were stands in the metric.
#[derive(Debug, Default)]
struct Told {
    last_s: AtomicU64,
}

impl Told {
    fn tell(&self, verdict: Verdict, caller: &Caller) {
        if verdict != Verdict::Ok && self.is_due(SystemClock.wall().as_secs()) {
            let reason = verdict.as_str();
            tracing::warn!(target: AUDIT, %caller, reason, "refused a caller of the admin API");
        }
    }

    fn is_due(&self, now_s: i64) -> bool {
        let now_s = now_s.unsigned_abs();
        self.last_s.swap(now_s, Ordering::Relaxed) != now_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bearer_token_in_one_header_is_a_credential_and_nothing_else() {
        let ask = |uri: &str, fields: &[&[u8]]| {
            let mut request = Request::get(uri).body(()).expect("a request");
            for field in fields {
                request.headers_mut().append(AUTHORIZATION, HeaderValue::from_bytes(field).expect("a value"));
            }
            credential(&request).map(<[u8]>::to_vec).map_err(|refused| refused.verdict)
        };
        for scheme in [&b"Bearer"[..], b"bearer", b"BEARER"] {
            assert_eq!(ask("/", &[&[scheme, b" x"].concat()]), Ok(b"x".to_vec()));
        }
        assert_eq!(ask("/?a=access_token", &[b"Bearer   x "]), Ok(b"x".to_vec()));
        assert_eq!(ask("/", &[b"Bearer"]), Ok(Vec::new()), "which is no token");
        assert_eq!(ask("/", &[]), Err(Verdict::Missing));
        for none in [&b""[..], b"Basic eDp4", b"BearerX x", b"Token x", b"\xff"] {
            assert_eq!(ask("/", &[none]), Err(Verdict::Missing), "{none:?}");
        }
        let token = admin_token::Token::generate().expect("random bytes");
        let token = token.expose();
        for (uri, fields) in [
            ("/", &[&b"Bearer x"[..], b"Bearer x"][..]),
            ("/", &[b"Bearer x", b"Basic x"]),
            ("/?access_token=x", &[b"Bearer x"]),
            ("/?a=b&access_token=x", &[]),
            ("/?access_token", &[]),
            ("/?ACCESS_Token=x", &[b"Bearer x"]),
            ("/?access%5ftoken=x", &[]),
            ("/?;access_token=x", &[]),
            (&format!("/?token={token}"), &[]),
            (&format!("/?{}", token.replace('_', "%5F")), &[b"Bearer x"]),
        ] {
            assert_eq!(ask(uri, fields), Err(Verdict::Malformed), "{uri} {fields:?}");
        }
    }

    #[test]
    fn refusals_are_written_down_once_a_second() {
        let told = Told::default();
        assert!(told.is_due(100) && !told.is_due(100) && told.is_due(101) && told.is_due(100));
    }

    #[test]
    fn verdicts_are_counted_each_by_itself() {
        for (place, verdict) in Verdict::ALL.into_iter().enumerate() {
            assert_eq!(verdict as usize, place);
        }
    }
}
