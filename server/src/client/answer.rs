//! What the token endpoint answered: the token that was asked for, or why there is none.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use oneseal::UnixTime;
use oneseal_keystore::json;
use oneseal_keystore::verify::UnverifiedJws;
use oneseal_relying_party::fetch::delta_seconds;
use serde_json::Value;
use zeroize::Zeroizing;

use super::Request;
use super::proof::unverified;
use super::setback::Setback;
use crate::exit::{Exit, Failure};
use crate::output::fit_for_terminal;
use crate::refusals::{
    TOKEN_AUDIENCE, TOKEN_NO_ENDPOINT, TOKEN_NOT_ALLOWED, TOKEN_NOT_OFFERED, TOKEN_PROOF_REFUSED,
    TOKEN_UNSOUND,
};

/// A token, and what it says of itself.
pub(crate) struct Exchanged {
    /// In compact form.
    pub(crate) token: Zeroizing<String>,
    /// The key that signed it.
    pub(crate) kid: String,
    /// Of whom it speaks.
    pub(crate) subject: String,
    /// Until when it is good.
    pub(crate) expires_at: UnixTime,
    /// By how many seconds the issuer's clock is ahead of this machine's, as far as the answer tells.
    pub(crate) clock_ahead_s: i64,
    /// Host and port of the endpoint, where the issuer's discovery document names one that is not on the issuer's own.
    pub(crate) endpoint_host: Option<String>,
}

impl fmt::Debug for Exchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchanged")
            .field("kid", &self.kid)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// What came from the endpoint, whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered<'a> {
    pub(super) status: StatusCode,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
}

/// Takes an answer for what it is. `proof` is what was sent, so that nothing of it is repeated.
pub(super) fn judge(
    request: &Request,
    url: &str,
    proof: &str,
    answered: Answered<'_>,
    now: UnixTime,
) -> Result<Exchanged, Setback> {
    let status = answered.status;
    if status == StatusCode::OK {
        return exchanged(request, answered.body, now).map_err(|why| {
            Setback::never(Failure::refused(format!("{url}: {why}")).with_code(TOKEN_UNSOUND))
        });
    }
    let said = Said::read(answered, proof);
    if is_for_now(status) {
        let message = format!("{url} has no token for now ({}{said})", status.as_u16());
        return Err(Setback::answered(message, retry_after(answered.headers)));
    }
    Err(Setback::never(refusal(request, url, proof, &said, status, now)))
}

/// A status that says nothing of what was asked.
pub(super) fn is_for_now(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// `Retry-After` in seconds (RFC 9110 section 10.2.3), of which a day is as long as any more; a date is as good as nothing
/// here.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    delta_seconds(text).map(|asked| asked.min(LONGEST_ASKED))
}

/// Whether the token is the one that was asked for, as a relying party would see it that has the keys: it came from the
/// issuer itself, so what is looked for is a mistake of a configuration's.
fn exchanged(request: &Request, body: &[u8], now: UnixTime) -> Result<Exchanged, String> {
    let members = json::parse_object(body).map_err(|_| "the answer is no JSON object".to_owned())?;
    let token =
        members.get("access_token").and_then(Value::as_str).ok_or("the answer holds no access_token")?;
    let jws =
        UnverifiedJws::parse(token).map_err(|error| format!("what came is no JWT ({})", error.reason()))?;
    let kid = jws.kid().ok_or("the token names no key")?.to_owned();
    let claims = unverified(token);
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(request.issuer.as_str()) {
        return Err(format!("the token that came is another issuer's than {}", request.issuer));
    }
    if text("aud") != Some(&request.audience) {
        return Err(format!("the token that came is not for {:?} alone", request.audience));
    }
    let subject = text("sub").filter(|subject| !subject.is_empty()).ok_or("the token names no subject")?;
    let expires_at = claims
        .get("exp")
        .and_then(Value::as_i64)
        .filter(|exp| (0..YEAR_10000).contains(exp))
        .ok_or("the token does not say when it expires")?;
    // Nothing but a hint: what is no life of a token says nothing of clocks.
    let left =
        members.get("expires_in").and_then(Value::as_i64).filter(|left| (0..YEAR_10000).contains(left));
    let clock_ahead_s = left.map_or(0, |left| expires_at.saturating_sub(left).saturating_sub(now.as_secs()));
    if expires_at <= now.as_secs() {
        let clock = match clock_ahead_s {
            ..=-2 => format!(", which is {} s ahead of the issuer's: set it", clock_ahead_s.unsigned_abs()),
            _ => ": compare it with the issuer's".to_owned(),
        };
        return Err(format!("the token that came has expired by this machine's clock{clock}"));
    }
    Ok(Exchanged {
        token: Zeroizing::new(token.to_owned()),
        kid,
        subject: subject.to_owned(),
        expires_at: UnixTime(expires_at),
        clock_ahead_s,
        endpoint_host: None,
    })
}

/// An error answer (RFC 6749 section 5.2), of which nothing is believed.
#[derive(Debug, Default)]
struct Said {
    error: String,
    description: String,
    request_id: String,
}

impl Said {
    fn read(answered: Answered<'_>, proof: &str) -> Self {
        let members = json::parse_object(answered.body).unwrap_or_default();
        let text = |name: &str| told(members.get(name).and_then(Value::as_str).unwrap_or_default(), proof);
        let id = answered.headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
        Self { error: text("error"), description: text("error_description"), request_id: told(id, proof) }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (before, text) in
            [(" ", &self.error), (": ", &self.description), ("; request ", &self.request_id)]
        {
            if !text.is_empty() {
                write!(f, "{before}{text}")?;
            }
        }
        Ok(())
    }
}

impl Said {
    /// Whether nobody has said what to do.
    fn is_mute(&self) -> bool {
        self.description.is_empty() || self.description == NOT_REPEATED
    }
}

/// What somebody else said, in one line and not much of it; nothing where a part of the proof, or any token, stands in it.
fn told(text: &str, proof: &str) -> String {
    let repeats = proof.split('.').any(|part| part.len() >= SHORTEST_PART && text.contains(part));
    if repeats || text.contains("eyJ") {
        return NOT_REPEATED.to_owned();
    }
    let cut: String = text.chars().take(MAX_TOLD).collect();
    fit_for_terminal(&cut)
}

fn refusal(
    request: &Request,
    url: &str,
    proof: &str,
    said: &Said,
    status: StatusCode,
    now: UnixTime,
) -> Failure {
    let suspicions = || {
        request
            .proof
            .suspicions(proof, &request.issuer, now, |word| said.is_mute() || said.description.contains(word))
    };
    let is_of_no_endpoint = matches!(
        status,
        StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::GONE
            | StatusCode::NOT_IMPLEMENTED
    );
    let (exit, code, message, hint) = match said.error.as_str() {
        _ if is_of_no_endpoint => no_endpoint(),
        "invalid_target" => (
            Exit::Denied,
            TOKEN_AUDIENCE,
            format!("no token for {:?} is given to this workload", request.audience),
            said.is_mute().then(|| {
                "A [[rule]] of the issuer's that takes this workload must have it among its `audiences`.".to_owned()
            }),
        ),
        "invalid_request" | "invalid_grant" => {
            (Exit::Denied, TOKEN_PROOF_REFUSED, "the proof is not taken".to_owned(), suspicions())
        }
        "unsupported_grant_type" => (
            Exit::Refused,
            TOKEN_NOT_OFFERED,
            "this kind of proof is not taken there".to_owned(),
            Some(
                "--source wants a [[cluster]] in the issuer's configuration, and --assertion an [[assertion_issuer]]."
                    .to_owned(),
            ),
        ),
        "" => no_endpoint(),
        _ => (Exit::Denied, TOKEN_NOT_ALLOWED, "no token is given".to_owned(), suspicions()),
    };
    let failure = Failure::new(exit, format!("{url}: {message} ({}{said})", status.as_u16())).with_code(code);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn no_endpoint() -> (Exit, &'static str, String, Option<String>) {
    let words = "what answers there is no token endpoint: look at --issuer, or name it by --token-endpoint";
    (Exit::Refused, TOKEN_NO_ENDPOINT, words.to_owned(), None)
}

const NOT_REPEATED: &str = "(not repeated: it has a token in it)";
/// Of a few letters any text has some.
const SHORTEST_PART: usize = 12;
/// An issuer's own words with an audience of 255 bytes and the name of a rule in them.
const MAX_TOLD: usize = 800;
/// Who asks for more means "not today".
const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3600);
/// 10000-01-01T00:00:00Z, one past the latest that RFC 3339 can write: as the verifier has it, "never expires" is no time.
const YEAR_10000: i64 = 253_402_300_800;

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use oneseal_keystore::IssuerUrl;
    use serde_json::{Map, json};

    use super::super::Proof;
    use super::super::setback::Again;
    use super::*;

    const NOW: UnixTime = UnixTime(1_000_000);
    const PROOF: &str = "e30.Y2FuYXJ5LWNhbmFyeS1jYW5hcnk.c2lnbmF0dXJlLXNpZ25hdHVyZQ";

    fn request() -> Request {
        Request {
            issuer: IssuerUrl::parse("https://oidc.example", "test").expect("good"),
            audience: "rp".to_owned(),
            proof: Proof::SubjectToken("x".into()),
            endpoint: None,
            roots: Vec::new(),
            patience: Duration::ZERO,
        }
    }

    fn body(change: impl FnOnce(&mut Map<String, Value>, &mut Map<String, Value>)) -> Vec<u8> {
        let claims =
            json!({"iss": "https://oidc.example", "aud": "rp", "sub": "s", "exp": NOW.as_secs() + 3600});
        let mut claims = claims.as_object().expect("an object").clone();
        let mut members = json!({"expires_in": 3600}).as_object().expect("an object").clone();
        change(&mut members, &mut claims);
        let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let token = format!("{}.{}.c2ln", encode(json!({"alg": "RS256", "kid": "k"})), encode(claims.into()));
        members.entry("access_token").or_insert(token.into());
        Value::Object(members).to_string().into_bytes()
    }

    #[test]
    fn a_token_as_it_was_asked_for_is_taken() {
        let taken = exchanged(&request(), &body(|_, _| ()), NOW).expect("as asked for");
        assert_eq!((&*taken.kid, &*taken.subject, taken.clock_ahead_s), ("k", "s", 0));
        assert_eq!(taken.expires_at, UnixTime(NOW.as_secs() + 3600));
        assert!(!format!("{taken:?}").contains("eyJ"), "{taken:?}");
        let slow = exchanged(&request(), &body(|_, _| ()), UnixTime(NOW.as_secs() - 90)).expect("still good");
        assert_eq!(slow.clock_ahead_s, 90);
    }

    #[test]
    fn what_was_not_asked_for_is_refused_and_not_repeated() {
        let set = |name: &'static str, value: Value| {
            body(move |_, claims| drop(claims.insert(name.to_owned(), value)))
        };
        for (body, told) in [
            (set("iss", json!("https://oidc.example/")), "another issuer"),
            (set("aud", json!("canary")), "not for \"rp\" alone"),
            (set("aud", json!(["rp"])), "not for \"rp\" alone"),
            (set("sub", json!("")), "no subject"),
            (set("exp", json!("soon")), "when it expires"),
            (set("exp", json!(NOW.as_secs())), "3600 s ahead of the issuer's: set it"),
            (set("exp", json!(1)), "ahead of the issuer's: set it"),
            (set("exp", json!(i64::MAX)), "when it expires"),
            (set("exp", json!(i64::MIN)), "when it expires"),
            (set("exp", json!(u64::MAX)), "when it expires"),
            (set("exp", json!(YEAR_10000)), "when it expires"),
            (set("exp", json!(1e300)), "when it expires"),
            (body(|members, _| drop(members.insert("access_token".to_owned(), json!("canary")))), "no JWT"),
            (body(|members, _| drop(members.insert("access_token".to_owned(), json!(1)))), "no access_token"),
            (b"[]".to_vec(), "no JSON object"),
            (b"{\"a\":1,\"a\":2}".to_vec(), "no JSON object"),
            (Vec::new(), "no JSON object"),
        ] {
            let said = exchanged(&request(), &body, NOW).expect_err(told);
            assert!(said.contains(told) && !said.contains("canary") && !said.contains("eyJ"), "{said}");
        }
    }

    #[test]
    fn each_refusal_has_its_name_its_exit_code_and_what_to_do() {
        let judged = |status: u16, body: &str| {
            let (mut headers, status) = (HeaderMap::new(), StatusCode::from_u16(status).expect("a status"));
            headers.insert("retry-after", http::HeaderValue::from_static("7"));
            headers.insert("x-request-id", http::HeaderValue::from_static("r-1"));
            let answered = Answered { status, headers: &headers, body: body.as_bytes() };
            judge(&request(), "https://oidc.example/token", PROOF, answered, NOW).expect_err("refused")
        };
        let error = |name: &str| format!(r#"{{"error":"{name}","error_description":"because"}}"#);
        for (status, body, code, exit, told) in [
            (400, error("invalid_target"), TOKEN_AUDIENCE, Exit::Denied, "because"),
            (400, r#"{"error":"invalid_target"}"#.to_owned(), TOKEN_AUDIENCE, Exit::Denied, "`audiences`"),
            (
                400,
                r#"{"error":"invalid_request"}"#.to_owned(),
                TOKEN_PROOF_REFUSED,
                Exit::Denied,
                "does not name",
            ),
            (400, error("invalid_grant"), TOKEN_PROOF_REFUSED, Exit::Denied, "request r-1"),
            (400, error("unsupported_grant_type"), TOKEN_NOT_OFFERED, Exit::Refused, "[[cluster]]"),
            (403, error("unauthorized_client"), TOKEN_NOT_ALLOWED, Exit::Denied, "because"),
            (404, error("not_found"), TOKEN_NO_ENDPOINT, Exit::Refused, "--token-endpoint"),
            (405, error("method_not_allowed"), TOKEN_NO_ENDPOINT, Exit::Refused, "--token-endpoint"),
            (404, "<html>".to_owned(), TOKEN_NO_ENDPOINT, Exit::Refused, "--token-endpoint"),
        ] {
            let Setback { failure, again, .. } = judged(status, &body);
            assert_eq!((failure.code(), failure.exit(), again), (code, exit, Again::Never), "{body}");
            assert!(failure.in_full().contains(told), "{}", failure.in_full());
        }
        for status in [429, 500, 502, 503, 504] {
            let Setback { failure, again, .. } = judged(status, &error("temporarily_unavailable"));
            assert_eq!(
                (failure.exit(), again),
                (Exit::Unavailable, Again::Later(Some(Duration::from_secs(7))))
            );
        }
    }

    #[test]
    fn what_the_issuer_says_is_handed_on_and_only_guessed_at_where_it_is_about_that() {
        let said = |error: &str, description: &str| {
            let body = format!(r#"{{"error":"{error}","error_description":"{description}"}}"#);
            let (headers, status) = (HeaderMap::new(), StatusCode::BAD_REQUEST);
            let answered = Answered { status, headers: &headers, body: body.as_bytes() };
            judge(&request(), "https://oidc.example/token", PROOF, answered, NOW)
                .expect_err("refused")
                .failure
                .in_full()
        };
        for (error, description, is_guessed) in [
            ("invalid_target", "a rule would, were the token bound to a pod", false),
            ("invalid_target", "the rule builders cannot write `sub`", false),
            ("invalid_request", "the token is this issuer's own, which proves nothing here", false),
            ("invalid_client", "no client authentication is taken here", false),
            ("invalid_request", "`aud` does not hold the audience", true),
        ] {
            let told = said(error, description);
            assert!(told.contains(description), "{told}");
            let guesses = ["Of the proof", "A [[rule]] of the issuer's"];
            assert_eq!(guesses.iter().any(|guess| told.contains(guess)), is_guessed, "{told}");
        }
    }

    #[test]
    fn a_life_that_is_none_says_nothing_of_clocks() {
        for left in
            [json!(i64::MIN), json!(i64::MAX), json!(u64::MAX), json!(-1), json!(1e300), json!("3600")]
        {
            let body = body(|members, _| drop(members.insert("expires_in".to_owned(), left.clone())));
            assert_eq!(exchanged(&request(), &body, NOW).expect("good").clock_ahead_s, 0, "{left}");
        }
    }

    #[test]
    fn whatever_pause_is_asked_for_is_a_day_at_most() {
        let asked = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", http::HeaderValue::from_static(text));
            retry_after(&headers).map(|asked| asked.as_secs())
        };
        assert_eq!(asked(" 7 "), Some(7));
        for text in ["18446744073709551615", "18446744073709551616", "99999999999999999999999", "86401"] {
            assert_eq!(asked(text), Some(24 * 3600), "{text}");
        }
        for text in ["", "-1", "+1", "1.5", "1e3", "soon", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(asked(text), None, "{text}");
        }
    }

    #[test]
    fn nothing_of_the_proof_or_of_any_token_is_repeated_and_never_much() {
        for text in [
            PROOF,
            &format!("x {} y", PROOF.split('.').nth(1).expect("a payload")),
            "got eyJhbGciOiJub25lIn0",
        ] {
            assert_eq!(told(text, PROOF), "(not repeated: it has a token in it)");
        }
        assert_eq!(told("a\u{1b}[31m\nb", PROOF), "a\\u{1b}[31m\\nb");
        assert_eq!(told(&"x".repeat(10_000), PROOF).len(), MAX_TOLD);
    }
}
