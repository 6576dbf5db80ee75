//! `POST /admin/v1/mint`: a token on the word of whoever can open the socket.
//!
//! ```json
//! {"sub": "…", "aud": "…", "ttl_s": 900, "alg": "ES256", "claims": {"team": "a"}}
//! {"token": "…", "kid": "…", "exp": 1764450000}
//! ```
//! `ttl_s`, `alg` and `claims` may be left out. Everything else is refused rather than ignored: a misspelt limit must
//! not turn into none. Each request leaves one audit line, with the caller and without the token.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Request, State as Shared};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use oneseal::keystore::json;
use oneseal::{Algorithm, Audience, MintRequest, Minted, Subject, VerifiedWorkload};
use serde_json::{Map, Value};

use super::Admin;
use crate::http::caller::Caller;
use crate::http::error::ApiError;
use crate::logging::AUDIT;

/// Mints, or says why not; either way with one audit line.
///
/// # Cancel safety
/// A caller that goes away before the answer has no token; the audit line is written with the signature.
pub(super) async fn mint(
    Shared(admin): Shared<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let mut asked = Asked::default();
    match tokio::time::timeout(DEADLINE, answer(&admin, caller, request, &mut asked)).await {
        Ok(Ok(minted)) => {
            tracing::info!(
                target: AUDIT, %caller, sub = asked.sub, aud = asked.aud, kid = minted.kid.as_str(),
                alg = minted.algorithm.as_str(), exp = minted.exp.as_secs(), jti = jti(&minted.token),
                "minted a token for an admin caller"
            );
            let body = serde_json::json!({
                "token": minted.token, "kid": minted.kid.as_str(), "exp": minted.exp.as_secs(),
            });
            ([(CACHE_CONTROL, "no-store")], axum::Json(body)).into_response()
        }
        Ok(Err(error)) => refuse(caller, &asked, error),
        Err(_) => refuse(caller, &asked, ApiError::too_slow()),
    }
}

fn refuse(caller: Caller, asked: &Asked, error: ApiError) -> Response {
    tracing::warn!(
        target: AUDIT, %caller, sub = asked.sub, aud = asked.aud, reason = error.description(),
        "refused an admin caller a token"
    );
    error.into_response()
}

/// What was asked for, as far as it could be read: for the audit line.
#[derive(Debug, Default)]
struct Asked {
    sub: Option<String>,
    aud: Option<String>,
}

async fn answer(
    admin: &Admin,
    caller: Caller,
    request: Request,
    asked: &mut Asked,
) -> Result<Minted, ApiError> {
    if !admin.may_mint {
        return Err(ApiError::denied(
            "minting here is off; set admin.mint = true and name admin.mint_audiences",
        ));
    }
    if !is_json(request.headers()) {
        return Err(ApiError::not_json());
    }
    let body = read(request.into_body()).await?;
    let wanted = Wanted::parse(&body, asked)?;
    let workload = VerifiedWorkload::vouched_by_admin(caller.to_string(), wanted.subject);
    Ok(admin.state.issuer.mint_with(&workload, wanted.request).await?)
}

/// A request whose every part is what it should be.
#[derive(Debug)]
struct Wanted {
    subject: Subject,
    request: MintRequest,
}

impl Wanted {
    fn parse(body: &[u8], asked: &mut Asked) -> Result<Self, ApiError> {
        let mut members = json::parse_object(body).map_err(|error| ApiError::invalid(error.to_string()))?;
        asked.sub = members.get("sub").and_then(Value::as_str).map(audited);
        asked.aud = members.get("aud").and_then(Value::as_str).map(audited);
        let subject = Subject::parse(text(&mut members, "sub")?).map_err(|error| faulty("sub", &error))?;
        let audience = Audience::parse(text(&mut members, "aud")?).map_err(|error| faulty("aud", &error))?;
        let mut request = MintRequest::new(audience);
        if let Some(seconds) = members.remove("ttl_s") {
            let seconds = seconds.as_u64().ok_or_else(|| wrong_type("ttl_s", "a whole number of seconds"))?;
            request = request.ttl(Duration::from_secs(seconds));
        }
        if let Some(name) = members.remove("alg") {
            request = request.algorithm(algorithm(&name)?);
        }
        if let Some(claims) = members.remove("claims") {
            let Value::Object(claims) = claims else { return Err(wrong_type("claims", "an object")) };
            request = request.claims(claims);
        }
        match members.keys().next() {
            None => Ok(Self { subject, request }),
            Some(unknown) => Err(ApiError::invalid(format!(
                "there is no member {:?}; known are sub, aud, ttl_s, alg and claims",
                shortened(unknown, MAX_NAME_SHOWN)
            ))),
        }
    }
}

fn text(members: &mut Map<String, Value>, name: &str) -> Result<String, ApiError> {
    match members.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(wrong_type(name, "a string")),
        None => Err(ApiError::invalid(format!("{name} is missing"))),
    }
}

fn algorithm(name: &Value) -> Result<Algorithm, ApiError> {
    let name = name.as_str().ok_or_else(|| wrong_type("alg", "a string"))?;
    Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == name).ok_or_else(|| {
        let known: Vec<_> = Algorithm::ALL.iter().map(|algorithm| algorithm.as_str()).collect();
        ApiError::invalid(format!("alg is none of {}", known.join(", ")))
    })
}

fn wrong_type(name: &str, wanted: &str) -> ApiError {
    ApiError::invalid(format!("{name} must be {wanted}"))
}

fn faulty(name: &str, error: &impl std::fmt::Display) -> ApiError {
    ApiError::invalid(format!("{name}: {error}"))
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

async fn read(body: Body) -> Result<Bytes, ApiError> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(MAX_BODY)),
        Err(_) => Err(ApiError::invalid("the request body breaks off")),
    }
}

/// The `jti` of a token that we have just signed.
fn jti(token: &str) -> Option<String> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    claims.get("jti")?.as_str().map(str::to_owned)
}

/// A name as the audit line has it: a refused one may be of any length.
fn audited(text: &str) -> String {
    shortened(text, MAX_AUDITED)
}

fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Claims are at most 4 KiB; the rest is room for escapes.
const MAX_BODY: usize = 64 * 1024;
/// Reading the body and signing, both local: more means that somebody holds the connection.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest audience that is accepted.
const MAX_AUDITED: usize = 255;
const MAX_NAME_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Wanted, String> {
        Wanted::parse(body.as_bytes(), &mut Asked::default()).map_err(|error| error.description().to_owned())
    }

    #[test]
    fn the_smallest_and_the_fullest_request_are_read() {
        let wanted = parse(r#"{"sub":"pod","aud":"rp"}"#).expect("the smallest");
        assert_eq!(wanted.request, MintRequest::new(Audience::parse("rp").expect("good")));
        let wanted = parse(r#"{"sub":"pod","aud":"rp","ttl_s":900,"alg":"ES256","claims":{"team":"a"}}"#);
        let request = wanted.expect("the fullest").request;
        assert_eq!(
            (request.ttl, request.algorithm),
            (Some(Duration::from_secs(900)), Some(Algorithm::Es256))
        );
        assert_eq!(request.claims["team"], "a");
    }

    #[test]
    fn each_mistake_is_named() {
        for (body, words) in [
            ("", "ends too early"),
            ("[]", "not a JSON object"),
            (r#"{"sub":"a","sub":"b","aud":"rp"}"#, "the same member twice"),
            (r#"{"sub":"a","aud":"rp","claims":{"x":1,"x":2}}"#, "the same member twice"),
            (r#"{"aud":"rp"}"#, "sub is missing"),
            (r#"{"sub":"a"}"#, "aud is missing"),
            (r#"{"sub":1,"aud":"rp"}"#, "sub must be a string"),
            (r#"{"sub":"a","aud":["rp"]}"#, "aud must be a string"),
            (r#"{"sub":"","aud":"rp"}"#, "sub: "),
            (r#"{"sub":"a","aud":"rp","ttl_s":"900"}"#, "ttl_s must be a whole number"),
            (r#"{"sub":"a","aud":"rp","ttl_s":-1}"#, "ttl_s must be a whole number"),
            (r#"{"sub":"a","aud":"rp","ttl_s":9.5}"#, "ttl_s must be a whole number"),
            (r#"{"sub":"a","aud":"rp","alg":"HS256"}"#, "alg is none of RS256"),
            (r#"{"sub":"a","aud":"rp","alg":null}"#, "alg must be a string"),
            (r#"{"sub":"a","aud":"rp","claims":[]}"#, "claims must be an object"),
            (r#"{"sub":"a","aud":"rp","ttl":900}"#, "there is no member \"ttl\""),
        ] {
            let said = parse(body).expect_err(body);
            assert!(said.contains(words), "{body}: {said}");
        }
    }

    #[test]
    fn what_was_asked_is_known_to_the_audit_even_if_it_is_refused() {
        let mut asked = Asked::default();
        let long = "x".repeat(5000);
        let body = format!(r#"{{"sub":"{long}","aud":"rp"}}"#);
        Wanted::parse(body.as_bytes(), &mut asked).expect_err("too long");
        assert_eq!(asked.aud.as_deref(), Some("rp"));
        assert_eq!(asked.sub.map(|sub| sub.len()), Some(MAX_AUDITED));
    }

    #[test]
    fn the_media_type_is_compared_without_its_parameters() {
        for (value, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/x-www-form-urlencoded", false),
            ("application/jsonp", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().expect("a header value"));
            assert_eq!(is_json(&headers), expected, "{value}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
