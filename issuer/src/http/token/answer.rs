//! The one place where a token or a refusal becomes an answer: a status, an OAuth object (RFC 6749 sections 5.1 and 5.2,
//! RFC 8693 section 2.2), and words for whoever asked.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, PRAGMA, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::request::TokenType;
use crate::error::MintError;
use crate::http::documents::JSON;
use crate::proofs::{Grant, ProofError};
use crate::rules::{Considered, NoRule};

/// What is wrong, by what a client does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request makes no sense as it stands, or its subject token proves nothing.
    Request,
    /// The assertion proves nothing (RFC 7521 section 4.1.1).
    Grant,
    /// Nobody takes tokens of this grant.
    GrantType,
    /// A scope that there is not.
    Scope,
    /// The audience is none, too many, or not for this workload (RFC 8693 section 2.2.2).
    Target,
    /// The client sent a credential of its own.
    Client,
    /// The same in a header, in this scheme, which wants an answer of its own (RFC 6749 section 5.2).
    ClientHeader(&'static str),
    /// Another method than POST.
    Method,
    /// The body is too large.
    TooLarge,
    /// The body did not come in time.
    TooSlow,
    /// The body is compressed.
    Coding,
    /// This workload has asked too often.
    Limited,
    /// It may work later, or elsewhere.
    Unavailable,
}

impl Fault {
    fn status(self) -> StatusCode {
        match self {
            Self::Request | Self::Grant | Self::GrantType | Self::Scope | Self::Target | Self::Client => {
                StatusCode::BAD_REQUEST
            }
            Self::ClientHeader(_) => StatusCode::UNAUTHORIZED,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Coding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Limited => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The `error` of the answer, and the `result` label of the request counter.
    pub(crate) fn error(self) -> &'static str {
        match self {
            Self::Request | Self::TooLarge | Self::TooSlow | Self::Coding => "invalid_request",
            Self::Grant => "invalid_grant",
            Self::GrantType => "unsupported_grant_type",
            Self::Scope => "invalid_scope",
            Self::Target => "invalid_target",
            Self::Client | Self::ClientHeader(_) => "invalid_client",
            Self::Method => "method_not_allowed",
            Self::Limited => "too_many_requests",
            Self::Unavailable => "temporarily_unavailable",
        }
    }

    /// All that [`error`](Self::error) can be.
    pub(crate) const ERRORS: [&str; 9] = [
        "invalid_request",
        "invalid_grant",
        "unsupported_grant_type",
        "invalid_scope",
        "invalid_target",
        "invalid_client",
        "method_not_allowed",
        "too_many_requests",
        "temporarily_unavailable",
    ];
}

/// An answer that is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) fault: Fault,
    /// A short name in snake_case, for logs.
    pub(crate) reason: &'static str,
    pub(crate) description: Cow<'static, str>,
    /// What the rules that come nearest have against the workload: for the log alone.
    pub(crate) rules: Option<String>,
    retry_after: Option<Duration>,
}

impl Refusal {
    pub(crate) fn new(fault: Fault, reason: &'static str, description: impl Into<Cow<'static, str>>) -> Self {
        Self { fault, reason, description: description.into(), rules: None, retry_after: None }
    }

    /// One that passes by itself after `retry_after`.
    pub(crate) fn passing(
        fault: Fault,
        reason: &'static str,
        description: impl Into<Cow<'static, str>>,
        retry_after: Duration,
    ) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(fault, reason, description) }
    }

    /// What came of a proof that proves nothing: each grant has an error of its own for it (RFC 8693 section 2.2.2, RFC
    /// 7521 section 4.1.1). That nobody can tell is nobody's fault, and never a refusal.
    pub(crate) fn of_proof(grant: Grant, error: ProofError) -> Self {
        let (reason, words) = (error.reason(), error.to_string());
        match (error, grant) {
            (ProofError::Unavailable { retry_after, .. }, _) => {
                Self::passing(Fault::Unavailable, reason, words, retry_after)
            }
            (ProofError::Invalid { .. }, Grant::TokenExchange) => Self::new(Fault::Request, reason, words),
            (ProofError::Invalid { .. }, Grant::JwtBearer) => Self::new(Fault::Grant, reason, words),
        }
    }

    /// With words about what the request that is refused has done all the same.
    pub(crate) fn and(self, words: &str) -> Self {
        Self { description: format!("{}; {words}", self.description).into(), ..self }
    }

    /// No cache keeps it. One that asks to come back also closes the connection, so that the next attempt can reach
    /// another replica.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let body = ErrorBody { error: self.fault.error(), error_description: &told(&self.description) };
        let mut response = answer(self.fault.status(), &body);
        let headers = response.headers_mut();
        if let Some(retry_after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(retry_after)));
        }
        match self.fault {
            Fault::Unavailable => drop(headers.insert(CONNECTION, HeaderValue::from_static("close"))),
            Fault::Method => drop(headers.insert(ALLOW, HeaderValue::from_static("POST"))),
            Fault::Coding => drop(headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"))),
            Fault::ClientHeader(challenge) => {
                drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge)));
            }
            _ => {}
        }
        response
    }
}

/// A workload that has proved itself, and a rule or a key that gives it nothing.
impl From<MintError> for Refusal {
    fn from(error: MintError) -> Self {
        let (reason, retry_after) = (error.label(), error.retry_after().unwrap_or(LATER));
        let later = |words: &'static str| Self::passing(Fault::Unavailable, reason, words, retry_after);
        match error {
            MintError::NotAllowed { why, ref against, .. } => {
                let words = match why {
                    NoRule::Workload => format!("{error} (`oneseal rules preview` shows what each asks for)"),
                    _ => error.to_string(),
                };
                Self { rules: listed(against), ..Self::new(Fault::Target, why.reason(), words) }
            }
            MintError::OwnAudience(_) => Self::new(Fault::Target, "own_audience", error.to_string()),
            MintError::NoSubject | MintError::Unwritable { .. } => {
                Self::new(Fault::Target, "rule_unwritable", error.to_string())
            }
            MintError::Invalid(error) => Self::new(
                Fault::Target,
                reason,
                format!(
                    "the rule for this workload and audience makes no token that could be signed: {error}"
                ),
            ),
            MintError::Stale { .. } => later(
                "this replica has not seen its keys for too long to be sure of them; try again, another replica may mint",
            ),
            MintError::ClockSkewed { .. } => {
                later("this replica's clock is off, so its tokens would be refused; others may mint")
            }
            MintError::Busy => later("this replica signs as fast as it can; try again"),
            MintError::NoKey(_) => later("no key for this audience signs on this replica; others may mint"),
            MintError::Emergency { .. } => {
                later("the key was replaced and the new one does not sign yet; it will in some seconds")
            }
            MintError::PublicOnly => later("this replica publishes keys and never mints; others do"),
            _ => later("this replica cannot mint at the moment; its log says why"),
        }
    }
}

/// Each rule and what it has against a workload, as far as a line has room for them.
fn listed(against: &[Considered]) -> Option<String> {
    let told = against.iter().take(MAX_RULES).filter_map(|one| {
        let mismatch = one.mismatch.as_ref()?.to_string();
        Some(format!("{}: {}", one.rule, mismatch.chars().take(MAX_MISMATCH).collect::<String>()))
    });
    let mut told: Vec<_> = told.collect();
    let left_out = against.len().saturating_sub(MAX_RULES);
    if left_out > 0 {
        told.push(format!("and {left_out} more"));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// The answer with a token.
pub(crate) fn granted(token: &str, token_type: TokenType, expires_in: u64) -> Response<Bytes> {
    answer(
        StatusCode::OK,
        &TokenBody {
            access_token: token,
            issued_token_type: token_type.issued(),
            token_type: token_type.how_used(),
            expires_in,
        },
    )
}

#[derive(Serialize)]
struct TokenBody<'a> {
    access_token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_token_type: Option<&'static str>,
    token_type: &'static str,
    expires_in: u64,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'static str,
    error_description: &'a str,
}

fn answer(status: StatusCode, body: &impl Serialize) -> Response<Bytes> {
    // Strings and a number always serialise.
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let fixed: [(HeaderName, &'static str); 4] = [
        (CONTENT_TYPE, JSON),
        (CACHE_CONTROL, "no-store"),
        (PRAGMA, "no-cache"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    *response.body_mut() = Bytes::from(body);
    response
}

/// The characters that RFC 6749 section 5.2 lets a description have.
fn told(words: &str) -> String {
    words
        .chars()
        .map(|char| match char {
            '"' => '\'',
            '\\' => '/',
            ' '..='~' => char,
            _ => '?',
        })
        .collect()
}

/// Never too early, and never at once.
fn whole_seconds(span: Duration) -> u64 {
    (span.as_secs() + u64::from(span.subsec_nanos() > 0)).max(1)
}

/// Of how many rules a line tells, and how much of each: a condition may list a thousand names.
const MAX_RULES: usize = 8;
const MAX_MISMATCH: usize = 200;

/// As long as a replica needs to look at its provider again, by default.
const LATER: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_only_what_clients_can_read() {
        assert_eq!(told("a \"b\" \\ ü\n"), "a 'b' / ??");
    }

    #[test]
    fn a_pause_is_rounded_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds, "{millis}");
        }
    }

    #[test]
    fn what_may_pass_is_503_and_never_a_refusal() {
        for error in [
            MintError::TasksNotRunning,
            MintError::Busy,
            MintError::Failed,
            MintError::PublicOnly,
            MintError::Stale { age_s: 9, limit_s: 8, fault: None },
            MintError::NoKey(oneseal_keystore::Algorithm::Rs256),
        ] {
            let response = Refusal::from(error.clone()).response();
            assert_eq!(response.status(), 503, "{error:?}");
            assert!(response.headers().contains_key(RETRY_AFTER), "{error:?}");
            assert_eq!(response.headers()[CONNECTION], "close", "{error:?}");
        }
        let error =
            ProofError::unavailable("review", "the cluster does not answer", Duration::from_millis(1500));
        for grant in [Grant::TokenExchange, Grant::JwtBearer] {
            let response = Refusal::of_proof(grant, error.clone()).response();
            assert_eq!(
                (response.status().as_u16(), &response.headers()[RETRY_AFTER]),
                (503, &"2".parse().expect("a value"))
            );
        }
    }

    #[test]
    fn every_error_is_one_of_the_list() {
        for fault in [
            Fault::Request,
            Fault::Grant,
            Fault::GrantType,
            Fault::Scope,
            Fault::Target,
            Fault::Client,
            Fault::ClientHeader("Basic"),
            Fault::Method,
            Fault::TooLarge,
            Fault::TooSlow,
            Fault::Coding,
            Fault::Limited,
            Fault::Unavailable,
        ] {
            assert!(Fault::ERRORS.contains(&fault.error()), "{fault:?}");
        }
    }
}
