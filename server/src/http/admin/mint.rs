//! `POST /admin/v1/mint`: a token on the word of whoever has been let in.
//!
//! ```json
//! {"sub": "…", "aud": "…", "ttl_s": 900, "alg": "ES256", "claims": {"team": "a"}}
//! {"token": "…", "kid": "…", "exp": 1764450000}
//! ```
//! With `"dry_run": true` everything is done but the signature, and the answer is what would have been signed:
//! ```json
//! {"dry_run": true, "kid": "…", "alg": "ES256", "exp": 1764450000, "claims": {"iss": "…", …}}
//! ```
//! `ttl_s`, `alg`, `claims` and `dry_run` may be left out. Everything else is refused rather than ignored: a misspelt limit must
//! not turn into none. Each request leaves one audit line, with the caller and without the token.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Request, State as Shared};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use oneseal::keystore::json;
use oneseal::{Algorithm, Audience, MintError, MintRequest, Minted, Preview, Subject, VerifiedWorkload};
use oneseal_keystore::Mode;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{Admin, body};
use crate::http::caller::Caller;
use crate::http::error::ApiError;
use crate::http::quoted::quoted;
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
    let answered = match timeout(DEADLINE, answer(&admin, &caller, request, &mut asked)).await {
        Ok(answered) => answered,
        Err(_) => Err(ApiError::too_slow()),
    };
    let written = answered.and_then(|outcome| {
        outcome.write_down(&caller, &asked);
        outcome.body()
    });
    match written {
        Ok(body) => {
            let json = HeaderValue::from_static("application/json");
            ([(CONTENT_TYPE, json), (CACHE_CONTROL, HeaderValue::from_static("no-store"))], body)
                .into_response()
        }
        Err(error) => {
            tracing::warn!(
                target: AUDIT, %caller, sub = asked.sub, aud = asked.aud,
                reason = &*quoted(error.description(), MAX_REASON),
                "refused an admin caller a token"
            );
            error.into_response()
        }
    }
}

/// What came of a request that was not refused.
#[derive(Debug)]
enum Outcome {
    Minted(Minted),
    Preview(Preview),
}

impl Outcome {
    fn write_down(&self, caller: &Caller, asked: &Asked) {
        match self {
            Self::Minted(minted) => tracing::info!(
                target: AUDIT, %caller, sub = asked.sub, aud = asked.aud, kid = minted.kid.as_str(),
                alg = minted.algorithm.as_str(), exp = minted.exp.as_secs(), jti = %minted.jti,
                "minted a token for an admin caller"
            ),
            Self::Preview(preview) => tracing::info!(
                target: AUDIT, %caller, sub = asked.sub, aud = asked.aud, kid = preview.kid.as_str(),
                alg = preview.algorithm.as_str(), exp = preview.exp.as_secs(),
                "previewed a token for an admin caller"
            ),
        }
    }

    fn body(&self) -> Result<Vec<u8>, ApiError> {
        let body = match self {
            Self::Minted(minted) => {
                let (kid, exp) = (minted.kid.as_str(), minted.exp.as_secs());
                serde_json::to_vec(&MintedBody { token: &minted.token, kid, exp })
            }
            Self::Preview(preview) => serde_json::from_str(&preview.claims).and_then(|claims| {
                let (kid, exp) = (preview.kid.as_str(), preview.exp.as_secs());
                let alg = preview.algorithm.as_str();
                serde_json::to_vec(&PreviewBody { dry_run: true, kid, alg, exp, claims })
            }),
        };
        body.map_err(|_| ApiError::unavailable("the answer could not be written", DEADLINE))
    }
}

#[derive(Serialize)]
struct MintedBody<'a> {
    token: &'a str,
    kid: &'a str,
    exp: i64,
}

#[derive(Serialize)]
struct PreviewBody<'a> {
    dry_run: bool,
    kid: &'a str,
    alg: &'a str,
    exp: i64,
    claims: &'a RawValue,
}

/// What was asked for, as far as it could be read: for the audit line.
#[derive(Debug, Default)]
struct Asked {
    sub: Option<String>,
    aud: Option<String>,
}

async fn answer(
    admin: &Admin,
    caller: &Caller,
    request: Request,
    asked: &mut Asked,
) -> Result<Outcome, ApiError> {
    // Nothing that is set here would make it mint.
    if admin.state.issuer.snapshot().mode() == Mode::PublicOnly {
        return Err(MintError::PublicOnly.into());
    }
    if !admin.may_mint {
        return Err(ApiError::denied(
            "minting here is off; set admin.mint = true and name admin.mint_audiences",
        )
        .named("mint.off"));
    }
    let body = body::json(request).await?;
    let wanted = Wanted::parse(&body, asked)?;
    let workload = VerifiedWorkload::vouched_by_admin(caller.to_string(), wanted.subject);
    let issuer = &admin.state.issuer;
    Ok(if wanted.dry_run {
        Outcome::Preview(issuer.preview_with(&workload, &wanted.request)?)
    } else {
        Outcome::Minted(issuer.mint_with(&workload, wanted.request).await?)
    })
}

/// A request whose every part is what it should be.
#[derive(Debug)]
struct Wanted {
    subject: Subject,
    request: MintRequest,
    dry_run: bool,
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
        let dry_run = match members.remove("dry_run") {
            None => false,
            Some(Value::Bool(dry_run)) => dry_run,
            Some(_) => return Err(wrong_type("dry_run", "true or false")),
        };
        match members.keys().next() {
            None => Ok(Self { subject, request, dry_run }),
            Some(unknown) => Err(ApiError::invalid(format!(
                "there is no member {:?}; known are sub, aud, ttl_s, alg, claims and dry_run",
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

/// A name as the audit line has it: a refused one may be of any length.
fn audited(text: &str) -> String {
    quoted(text, MAX_AUDITED).into_owned()
}

fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// For all of it, with the signature: an answer that says nothing is worse than one that says no.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest audience that is accepted.
const MAX_AUDITED: usize = 255;
/// Our own words, with an audience in them.
const MAX_REASON: usize = 1024;
const MAX_NAME_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin_token::Token;

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
            (r#"{"sub":"a","aud":"rp","dry_run":1}"#, "dry_run must be true or false"),
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
        assert_eq!(
            asked.sub.as_deref().map(|sub| sub.chars().count()),
            Some(MAX_AUDITED + 1),
            "cut, and said so"
        );
        let token = Token::generate().expect("random bytes");
        let body = format!(r#"{{"sub":"{0}","aud":"x-{0}"}}"#, token.expose());
        Wanted::parse(body.as_bytes(), &mut asked).expect("nothing says that it is no name");
        for told in [asked.sub, asked.aud] {
            assert!(told.expect("asked").contains("not repeated"));
        }
    }
}
