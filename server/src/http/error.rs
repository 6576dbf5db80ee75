//! The one place where a fault becomes an answer: a status, an OAuth error object (RFC 6749 section 5.2), and words
//! that are meant for the caller.
//!
//! What a provider, a key or a library had to say goes to the log; a caller gets what it can act on.

use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use oneseal::MintError;
use oneseal_keystore::executor::ExecuteError;
use oneseal_keystore::findings::Exit;
use serde_json::{Map, Value, json};

use crate::admin_token::Scope;
use crate::{key_answers, refusals};

/// An answer that is no success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    error: &'static str,
    description: String,
    allow: Option<&'static str>,
    challenge: Option<&'static str>,
    retry_after: Option<Duration>,
    /// Boxed: every handler passes this by value, and few errors have any.
    details: Box<Map<String, Value>>,
}

impl ApiError {
    /// 404.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path")
    }

    /// 405, with the methods that the path takes.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let description = "see the Allow header for the methods of this path";
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", description)
        }
    }

    /// 400: the request makes no sense as it stands.
    pub(crate) fn invalid(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", description)
    }

    /// 400: not one `Host` that is one (RFC 9112 section 3.2).
    pub(crate) fn one_host() -> Self {
        Self::invalid("a request has exactly one Host header, and in it a host and perhaps its port")
    }

    /// 403: it makes sense, and is not allowed.
    pub(crate) fn denied(description: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "access_denied", description)
    }

    /// 401: nobody has said who asks. No error code stands in the challenge (RFC 6750 section 3.1).
    pub(crate) fn unauthorized() -> Self {
        let description = "send one of admin.tokens as Authorization: Bearer TOKEN";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", description).challenging(CHALLENGE)
    }

    /// 401: not a token, not one of ours, or not any more; which of them is not told.
    pub(crate) fn invalid_token() -> Self {
        let description = "the token is none of admin.tokens, or has expired; `oneseal admin token new` makes one, and \
                           the table that it prints goes into the configuration";
        Self::new(StatusCode::UNAUTHORIZED, "invalid_token", description).challenging(INVALID_TOKEN)
    }

    /// 400: a credential that is sent in a way of which RFC 6750 section 3.1 says that the request is malformed.
    pub(crate) fn malformed_credential(description: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", description).challenging(INVALID_REQUEST)
    }

    /// 403: a good token that may do something else.
    pub(crate) fn insufficient_scope(wanted: Scope) -> Self {
        let description = format!(
            "this token does not have the scope {wanted}; its table in admin.tokens says what it has"
        );
        Self::new(StatusCode::FORBIDDEN, "insufficient_scope", description).challenging(match wanted {
            Scope::Read => INSUFFICIENT_READ,
            Scope::Keys => INSUFFICIENT_KEYS,
            Scope::Mint => INSUFFICIENT_MINT,
        })
    }

    /// 421: the request is for somebody of another name.
    pub(crate) fn misdirected() -> Self {
        let description = "this listener is not called by the name in Host; call it by its address or localhost, or add \
                           the name to admin.hosts";
        Self::new(StatusCode::MISDIRECTED_REQUEST, "misdirected_request", description)
    }

    /// 403: a web page of somebody else's asks.
    pub(crate) fn foreign_origin() -> Self {
        Self::denied(
            "requests of other web pages are not answered: there is an Origin header that is not this listener's",
        )
    }

    /// 409: it makes sense, and contradicts how things are now.
    pub(crate) fn conflict(description: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", description)
    }

    /// 408: the body did not come in time.
    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request", "the request body did not come in time")
    }

    /// 413.
    pub(crate) fn too_large(limit: usize) -> Self {
        let description = format!("the request body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request", description)
    }

    /// 415.
    pub(crate) fn not_json() -> Self {
        let description = "the body must be JSON: send Content-Type: application/json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request", description)
    }

    /// 404: there is no event log without a database.
    pub(crate) fn no_event_log() -> Self {
        let description = "this replica has no database, and so no event log: configure [database]";
        Self::new(StatusCode::NOT_FOUND, "no_event_log", description)
    }

    /// 429.
    pub(crate) fn too_many(description: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", description)
    }

    /// 503 that may pass.
    pub(crate) fn unavailable(description: impl Into<String>, retry_after: Duration) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", description);
        Self { retry_after: Some(retry_after), ..error }
    }

    /// With the time after which to come back. The connection stays.
    pub(crate) fn after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// With its name.
    pub(crate) fn named(mut self, code: &'static str) -> Self {
        self.details.insert("code".to_owned(), code.into());
        self
    }

    /// Where the status does not say how a command ends that was refused so.
    pub(crate) fn ending(mut self, exit: Exit) -> Self {
        self.details.insert("exit".to_owned(), exit.code().into());
        self
    }

    /// The words.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// The answer. No cache may keep it; one that asks to come back also closes the connection, so that the next
    /// attempt can reach another replica.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let mut body = json!({ "error": self.error, "error_description": self.description });
        if let Value::Object(members) = &mut body {
            members.extend((*self.details).clone());
        }
        body.sort_all_objects();
        let body = body.to_string();
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(retry_after) = self.retry_after {
            let whole = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(whole.max(1)));
            // Where somebody asks too often, another replica is not to be asked in its place.
            if self.status != StatusCode::TOO_MANY_REQUESTS {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        response
    }

    fn new(status: StatusCode, error: &'static str, description: impl Into<String>) -> Self {
        let description = description.into();
        Self {
            status,
            error,
            description,
            allow: None,
            challenge: None,
            retry_after: None,
            details: Box::default(),
        }
    }

    fn challenging(self, challenge: &'static str) -> Self {
        Self { challenge: Some(challenge), ..self }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> axum::response::Response {
        self.response().map(Body::from)
    }
}

impl From<MintError> for ApiError {
    fn from(error: MintError) -> Self {
        let retry_after = error.retry_after().unwrap_or(LATER);
        let code = name(&error);
        let answer = match error {
            MintError::NotAllowed { audience, .. } => Self::denied(format!(
                "tokens for the audience {audience} are not allowed here; admin.mint_audiences names those that are"
            )),
            MintError::OwnAudience(_)
            | MintError::NoSubject
            | MintError::Unwritable { .. }
            | MintError::AlgorithmNotAllowed { .. }
            | MintError::LifetimeTooLong { .. } => Self::denied(error.to_string()),
            MintError::LifetimeTooShort { .. } | MintError::Invalid(_) => Self::invalid(error.to_string()),
            MintError::Stale { age_s, limit_s, fault } => {
                let awaited = match fault {
                    None => "its key provider answers".to_owned(),
                    Some(code) => format!(
                        "what its last look at its key provider ended with, {}, has been put right, of which its log says \
                         more. {} {}",
                        code.name, code.meaning, code.cure
                    ),
                };
                let words = format!(
                    "this replica last saw good keys {age_s} s ago, above its limit of {limit_s} s; \
                     it mints again once {awaited}"
                );
                Self::unavailable(words, retry_after)
            }
            MintError::ClockSkewed { .. } => Self::unavailable(
                "this replica's clock is off, so its tokens would be refused; others may mint",
                retry_after,
            ),
            MintError::Busy => {
                Self::unavailable("this replica signs as fast as it can; try again", retry_after)
            }
            MintError::NoKey(algorithm) => {
                Self::unavailable(format!("no {algorithm} key signs on this replica"), retry_after)
            }
            // Whoever asks for a token cannot activate a key, and learns how long to wait.
            MintError::Emergency { .. } => {
                let words = error.to_string();
                // That it begins with its name is for logs: here the name is a member of its own.
                Self::unavailable(words.strip_prefix("ring.emergency: ").unwrap_or(&words), retry_after)
            }
            // Behind a load balancer the next attempt can reach one that mints; this one never will.
            MintError::PublicOnly => Self::unavailable(
                "this replica is public-only: it publishes the keys and never mints; ask one with ring.mode = \"full\"",
                retry_after,
            )
            .ending(Exit::Refused),
            // That the tasks do not run, that a signature failed, and whatever later versions add: ours to repair.
            _ => Self::unavailable("this replica cannot mint at the moment; its log says why", retry_after),
        };
        answer.named(code)
    }
}

/// What a script goes by.
fn name(error: &MintError) -> &'static str {
    match error {
        MintError::NotAllowed { .. } | MintError::OwnAudience(_) => "mint.audience",
        MintError::AlgorithmNotAllowed { .. } => "mint.algorithm",
        MintError::LifetimeTooLong { .. } | MintError::LifetimeTooShort { .. } => "mint.lifetime",
        MintError::Invalid(_) => "mint.invalid",
        MintError::Stale { .. } => "mint.stale",
        MintError::ClockSkewed { .. } => "mint.clock_skewed",
        MintError::Busy => "mint.busy",
        MintError::NoKey(_) => "mint.no_key",
        MintError::Emergency { .. } => "ring.emergency",
        MintError::PublicOnly => refusals::KEYS_PUBLIC_ONLY,
        _ => "mint.failed",
    }
}

/// Why a key verb was not carried out: 409 where the same may work later, 503 where nobody answers, 422 else. The operator
/// who asks may know all of it.
impl From<ExecuteError> for ApiError {
    fn from(error: ExecuteError) -> Self {
        let words = key_answers::words(&error);
        let is_early = matches!(&error, ExecuteError::Refused(refusal) if refusal.not_before().is_some());
        let answer = match error.exit() {
            _ if matches!(error, ExecuteError::ChangeIdTaken | ExecuteError::ChangeIdOld(_)) => {
                Self::new(StatusCode::CONFLICT, "conflict", words)
            }
            Some(Exit::TryLater) if is_early => Self::new(StatusCode::CONFLICT, "too_early", words),
            Some(Exit::TryLater) => Self::new(StatusCode::CONFLICT, "conflict", words),
            Some(Exit::Unavailable) => Self::unavailable(words, LATER),
            Some(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", words),
            None => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", words),
        };
        Self { details: Box::new(key_answers::of_error(&error)), ..answer }
    }
}

// RFC 6750 section 3.
const CHALLENGE: &str = r#"Bearer realm="oneseal admin""#;
const INVALID_TOKEN: &str = r#"Bearer realm="oneseal admin", error="invalid_token""#;
const INVALID_REQUEST: &str = r#"Bearer realm="oneseal admin", error="invalid_request""#;
const INSUFFICIENT_READ: &str = r#"Bearer realm="oneseal admin", error="insufficient_scope", scope="read""#;
const INSUFFICIENT_KEYS: &str = r#"Bearer realm="oneseal admin", error="insufficient_scope", scope="keys""#;
const INSUFFICIENT_MINT: &str = r#"Bearer realm="oneseal admin", error="insufficient_scope", scope="mint""#;
/// As long as a replica needs to look at its provider again, by default.
const LATER: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use oneseal::{Algorithm, Audience, ClaimError, NoRule, Subject, TokenLifetime, UnixTime};

    use super::*;

    fn lifetime(seconds: u64) -> TokenLifetime {
        TokenLifetime::new(Duration::from_secs(seconds)).expect("a good life")
    }

    fn invalid() -> ClaimError {
        Subject::parse("").expect_err("empty")
    }

    #[test]
    fn each_refusal_has_its_status_and_error() {
        let audience = || Audience::parse("rp").expect("good");
        let allowed = vec![Algorithm::Rs256];
        let not_allowed =
            MintError::NotAllowed { audience: audience(), why: NoRule::Audience, against: Vec::new() };
        let cases = [
            (not_allowed, 403, "access_denied"),
            (MintError::OwnAudience(audience()), 403, "access_denied"),
            (MintError::AlgorithmNotAllowed { asked: Algorithm::EdDsa, allowed }, 403, "access_denied"),
            (
                MintError::LifetimeTooLong { asked: lifetime(7200), limit: lifetime(3600) },
                403,
                "access_denied",
            ),
            (MintError::LifetimeTooShort { life: lifetime(60), backdate_s: 60 }, 400, "invalid_request"),
            (MintError::Invalid(invalid()), 400, "invalid_request"),
            (MintError::Stale { age_s: 4000, limit_s: 3600, fault: None }, 503, "temporarily_unavailable"),
            (MintError::ClockSkewed { offset_s: 90, skew_s: 60 }, 503, "temporarily_unavailable"),
            (MintError::Busy, 503, "temporarily_unavailable"),
            (MintError::NoKey(Algorithm::Es256), 503, "temporarily_unavailable"),
            (
                MintError::Emergency {
                    algorithm: Algorithm::Es256,
                    burned_at: UnixTime(0),
                    until: UnixTime(3),
                },
                503,
                "temporarily_unavailable",
            ),
            (MintError::PublicOnly, 503, "temporarily_unavailable"),
            (MintError::TasksNotRunning, 503, "temporarily_unavailable"),
            (MintError::Failed, 503, "temporarily_unavailable"),
        ];
        for (error, status, word) in cases {
            let response = ApiError::from(error.clone()).response();
            let body: Value = serde_json::from_slice(response.body()).expect("JSON");
            assert_eq!(
                (response.status().as_u16(), body["error"].as_str()),
                (status, Some(word)),
                "{error:?}"
            );
            let is_unavailable = status == 503;
            assert_eq!(response.headers().contains_key(RETRY_AFTER), is_unavailable, "{error:?}");
            assert_eq!(response.headers().contains_key(CONNECTION), is_unavailable, "{error:?}");
            assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
            let code = body["code"].as_str().expect("a name");
            assert!(include_str!("../../../docs/json/README.md").contains(&format!("`{code}`")), "{code}");
            let exit = matches!(error, MintError::PublicOnly).then_some(78);
            assert_eq!(body["exit"].as_u64(), exit, "{error:?}");
        }
    }

    #[test]
    fn our_own_faults_are_not_explained_to_callers() {
        for error in [
            MintError::TasksNotRunning,
            MintError::Failed,
            MintError::Stale { age_s: 9, limit_s: 8, fault: None },
        ] {
            let said = ApiError::from(error.clone()).description().to_owned();
            assert_ne!(said, error.to_string());
            for internal in ["Tasks", "thread", "provider was", "primitive"] {
                assert!(!said.contains(internal), "{said}");
            }
        }
    }

    #[test]
    fn who_cannot_mint_learns_why_the_provider_gives_nothing_and_what_mends_it() {
        let said =
            |fault| ApiError::from(MintError::Stale { age_s: 9, limit_s: 8, fault }).description().to_owned();
        assert!(said(None).contains("once its key provider answers"), "{}", said(None));
        for name in ["fleet.key_replaced", "provider.not_found", "provider.denied"] {
            let code =
                oneseal_keystore::all_codes().into_iter().find(|code| code.name == name).expect("a code");
            let told = said(Some(code));
            assert!(told.contains(name) && told.contains(code.cure) && !told.contains("answers"), "{told}");
        }
    }

    #[test]
    fn each_challenge_is_that_of_its_refusal() {
        for (error, status, challenge) in [
            (ApiError::unauthorized(), 401, r#"Bearer realm="oneseal admin""#),
            (ApiError::invalid_token(), 401, r#"Bearer realm="oneseal admin", error="invalid_token""#),
            (
                ApiError::malformed_credential("x"),
                400,
                r#"Bearer realm="oneseal admin", error="invalid_request""#,
            ),
            (
                ApiError::insufficient_scope(Scope::Mint),
                403,
                r#"Bearer realm="oneseal admin", error="insufficient_scope", scope="mint""#,
            ),
        ] {
            let response = error.response();
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()[WWW_AUTHENTICATE], challenge);
        }
        for scope in Scope::ALL {
            let challenge = ApiError::insufficient_scope(scope).challenge.expect("one");
            assert!(challenge.ends_with(&format!("scope=\"{scope}\"")));
        }
    }

    #[test]
    fn a_405_names_what_is_allowed() {
        let response = ApiError::method_not_allowed("GET, HEAD").response();
        assert_eq!(response.headers()[ALLOW], "GET, HEAD");
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
