//! What a token claims, and the checks on it (RFC 7519 section 4.1, OpenID Connect Core 1.0 section 3.1.3.7).

use std::time::Duration;

use oneseal_coordination::UnixTime;
use oneseal_keystore::json;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::Invalid;

/// The claims of a verified token: `iss`, `sub`, `aud` and `exp` are there and well formed.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// `iss`: the trusted issuer, byte for byte.
    pub fn issuer(&self) -> &str {
        self.text("iss")
    }

    /// `sub`: not empty, without control characters. Compare it byte for byte: nothing is folded or normalised.
    pub fn subject(&self) -> &str {
        self.text("sub")
    }

    /// `aud`, whether it was written as a string or as an array.
    pub fn audiences(&self) -> Vec<&str> {
        match self.0.get("aud") {
            Some(Value::String(only)) => vec![only],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// `exp`, its fraction dropped.
    pub fn expires_at(&self) -> UnixTime {
        // Checked to lie within the years 1 to 9999, so it fits.
        let seconds = self.0.get("exp").and_then(Value::as_f64).unwrap_or_default().floor() as i64;
        UnixTime(seconds)
    }

    /// Any claim.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// All claims.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// All claims as a type of yours.
    ///
    /// # Errors
    /// What serde says. The error may quote claims.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(Value::Object(self.0.clone()))
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// In what form `aud` must hold the audience.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AudienceForm {
    /// A string, or an array that others may stand in too (RFC 7519 section 4.1.3).
    #[default]
    Member,
    /// A string, or an array of exactly this one: the token is for nobody else.
    Only,
    /// A string.
    OnlyString,
}

/// What is asked of the claims.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) audience_form: AudienceForm,
    pub(crate) leeway: Duration,
    pub(crate) max_lifetime: Option<Duration>,
    pub(crate) max_age: Option<Duration>,
    pub(crate) required: Vec<&'static str>,
}

impl Expected {
    /// Reads a payload that nobody has vouched for yet and checks its issuer: before any key is looked up, so that
    /// tokens of other issuers cost neither a request nor a signature check.
    ///
    /// # Errors
    /// [`Invalid::Payload`], [`Invalid::Issuer`], or what is wrong with `iss`.
    pub(crate) fn peek(&self, payload: &[u8]) -> Result<Map<String, Value>, Invalid> {
        let claims = json::parse_object(payload).map_err(Invalid::Payload)?;
        if required_text(&claims, "iss")? != self.issuer {
            return Err(Invalid::Issuer);
        }
        Ok(claims)
    }

    /// Checks the other claims at `now`, once the signature is known to be good.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn check(&self, claims: Map<String, Value>, now: UnixTime) -> Result<Claims, Invalid> {
        check_subject(&claims)?;
        self.check_audience(&claims)?;
        self.check_presence(&claims)?;
        self.check_times(&claims, now)?;
        Ok(Claims(claims))
    }

    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), Invalid> {
        let malformed = Invalid::Malformed("aud");
        let one = |value: &Value| match value.as_str() {
            Some(text) if !text.is_empty() => Ok(text == self.audience),
            _ => Err(malformed.clone()),
        };
        let matches = match claims.get("aud").ok_or(Invalid::Missing("aud"))? {
            Value::Array(several) => {
                let each = several.iter().map(one).collect::<Result<Vec<bool>, _>>()?;
                match self.audience_form {
                    AudienceForm::Member => each.contains(&true),
                    AudienceForm::Only => each == [true],
                    AudienceForm::OnlyString => false,
                }
            }
            single => one(single)?,
        };
        if matches { Ok(()) } else { Err(Invalid::Audience) }
    }

    fn check_presence(&self, claims: &Map<String, Value>) -> Result<(), Invalid> {
        for &name in &self.required {
            match claims.get(name) {
                None => return Err(Invalid::Missing(name)),
                Some(Value::Null) => return Err(Invalid::Malformed(name)),
                Some(Value::String(text)) if text.is_empty() => return Err(Invalid::Malformed(name)),
                // A number would be another name for whoever compares texts (RFC 7519 section 4.1.7).
                Some(value) if name == "jti" && !value.is_string() => return Err(Invalid::Malformed(name)),
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn check_times(&self, claims: &Map<String, Value>, now: UnixTime) -> Result<(), Invalid> {
        let (now, leeway) = (exact(now.as_secs()), self.leeway.as_secs_f64());
        let exp = date(claims, "exp")?.ok_or(Invalid::Missing("exp"))?;
        let nbf = date(claims, "nbf")?;
        let iat = date(claims, "iat")?;
        if now >= exp + leeway {
            return Err(Invalid::Expired);
        }
        if nbf.is_some_and(|nbf| nbf > now + leeway) {
            return Err(Invalid::NotYetValid);
        }
        if iat.is_some_and(|iat| iat > now + leeway) {
            return Err(Invalid::IssuedInFuture);
        }
        // Without `iat` it has lived no longer than from now on, which bounds it as well.
        let lifetime = exp - iat.unwrap_or(now);
        if self.max_lifetime.is_some_and(|longest| lifetime > longest.as_secs_f64()) {
            return Err(Invalid::Lifetime);
        }
        if let Some(oldest) = self.max_age {
            let age = now - iat.ok_or(Invalid::Missing("iat"))?;
            if age > oldest.as_secs_f64() + leeway {
                return Err(Invalid::TooOld);
            }
        }
        Ok(())
    }
}

/// A subject goes into logs and policies: no control character may split a line or end a C string.
fn check_subject(claims: &Map<String, Value>) -> Result<(), Invalid> {
    let subject = required_text(claims, "sub")?;
    if subject.chars().any(char::is_control) {
        return Err(Invalid::Malformed("sub"));
    }
    Ok(())
}

/// A string that is there and not empty.
fn required_text<'a>(claims: &'a Map<String, Value>, name: &'static str) -> Result<&'a str, Invalid> {
    let value = claims.get(name).ok_or(Invalid::Missing(name))?;
    value.as_str().filter(|text| !text.is_empty()).ok_or(Invalid::Malformed(name))
}

/// A NumericDate (RFC 7519 section 2) with its fraction, in any notation. Outside the years 1 to 9999 it is refused
/// rather than saturated: milliseconds, or one past `i64::MAX`, must not come to mean "never expires".
fn date(claims: &Map<String, Value>, name: &'static str) -> Result<Option<f64>, Invalid> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (YEAR_1..YEAR_10000).contains(seconds));
    seconds.map(Some).ok_or(Invalid::Malformed(name))
}

/// Whole seconds as a double: exact up to 2^53, far beyond the year 9999.
fn exact(seconds: i64) -> f64 {
    seconds as f64
}

/// 0001-01-01T00:00:00Z, the earliest that RFC 3339 can write.
const YEAR_1: f64 = -62_135_596_800.0;
/// 10000-01-01T00:00:00Z, one past the latest that RFC 3339 can write.
const YEAR_10000: f64 = 253_402_300_800.0;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime(1_700_000_000);

    fn expected() -> Expected {
        Expected {
            issuer: "https://i.example".to_owned(),
            audience: "a".to_owned(),
            audience_form: AudienceForm::Member,
            leeway: Duration::from_secs(60),
            max_lifetime: None,
            max_age: None,
            required: Vec::new(),
        }
    }

    fn judged(expected: &Expected, payload: &str) -> Result<Claims, Invalid> {
        expected.check(expected.peek(payload.as_bytes())?, NOW)
    }

    /// The verdict on otherwise good claims with `rest` in place of some of them.
    fn verdict(rest: &str) -> &'static str {
        verdict_of(&expected(), rest)
    }

    fn verdict_of(expected: &Expected, rest: &str) -> &'static str {
        let mut members = vec![];
        for (name, good) in
            [("iss", r#""https://i.example""#), ("sub", r#""s""#), ("aud", r#""a""#), ("exp", "1700000300")]
        {
            if !rest.contains(&format!("\"{name}\"")) {
                members.push(format!("\"{name}\":{good}"));
            }
        }
        members.push(rest.to_owned());
        let payload = format!("{{{}}}", members.join(","));
        judged(expected, &payload).map_or_else(|invalid| invalid.reason(), |_| "ok")
    }

    #[test]
    fn audiences_are_a_string_or_an_array_of_strings() {
        for aud in [r#""a""#, r#"["a"]"#, r#"["x","a"]"#] {
            assert_eq!(verdict(&format!(r#""aud":{aud}"#)), "ok", "{aud}");
        }
        for aud in [r#""A""#, r#""a ""#, r#""a/""#, r#"[]"#, r#"["x"]"#] {
            assert_eq!(verdict(&format!(r#""aud":{aud}"#)), "audience", "{aud}");
        }
        for aud in [r#""""#, "null", "7", "{}", r#"["a",7]"#, r#"["a",""]"#, r#"[["a"]]"#, "true"] {
            assert_eq!(verdict(&format!(r#""aud":{aud}"#)), "claim_malformed", "{aud}");
        }
    }

    #[test]
    fn an_audience_may_have_to_stand_alone() {
        use AudienceForm::{Only, OnlyString};
        for (form, aud, wanted) in [
            (Only, r#""a""#, "ok"),
            (Only, r#"["a"]"#, "ok"),
            (Only, r#"["a","a"]"#, "audience"),
            (Only, r#"["a","evil"]"#, "audience"),
            (Only, r#"[]"#, "audience"),
            (Only, r#"["b"]"#, "audience"),
            (OnlyString, r#""a""#, "ok"),
            (OnlyString, r#"["a"]"#, "audience"),
            (OnlyString, r#"["a","evil"]"#, "audience"),
            (OnlyString, r#""b""#, "audience"),
            (OnlyString, "[7]", "claim_malformed"),
        ] {
            let expected = Expected { audience_form: form, ..expected() };
            assert_eq!(verdict_of(&expected, &format!(r#""aud":{aud}"#)), wanted, "{form:?} {aud}");
        }
    }

    #[test]
    fn what_is_required_is_there_and_says_something() {
        let expected = Expected { required: vec!["jti", "iat", "tenant"], ..expected() };
        let others = r#""iat":1700000000,"tenant":{"id":7}"#;
        assert_eq!(verdict_of(&expected, &format!(r#""jti":"j",{others}"#)), "ok");
        assert_eq!(verdict_of(&expected, others), "claim_missing");
        assert_eq!(verdict_of(&expected, r#""jti":"j","tenant":1"#), "claim_missing");
        for jti in [r#""""#, "null", "7", r#"["j"]"#] {
            assert_eq!(
                verdict_of(&expected, &format!(r#""jti":{jti},{others}"#)),
                "claim_malformed",
                "{jti}"
            );
        }
    }

    #[test]
    fn age_is_counted_from_iat_with_the_leeway() {
        let expected = Expected { max_age: Some(Duration::from_secs(300)), ..expected() };
        for (iat, wanted) in [("1700000060", "ok"), ("1699999640", "ok"), ("1699999639.9", "too_old")] {
            assert_eq!(verdict_of(&expected, &format!(r#""iat":{iat}"#)), wanted, "{iat}");
        }
        assert_eq!(verdict_of(&expected, r#""x":1"#), "claim_missing");
    }

    #[test]
    fn subjects_are_plain_text() {
        for sub in [r#""""#, "null", "42", r#"["s"]"#, r#""a\u0000""#, r#""a\nb""#, r#""\u0085""#] {
            assert_eq!(verdict(&format!(r#""sub":{sub}"#)), "claim_malformed", "{sub}");
        }
        assert_eq!(verdict(r#""sub":"cafe\u0301 / 日本""#), "ok");
    }

    #[test]
    fn dates_are_numbers_in_any_notation_within_bounds() {
        for exp in ["1700000300.5", "1.7000003e9", "253402300799", "1699999940.001"] {
            assert_eq!(verdict(&format!(r#""exp":{exp}"#)), "ok", "{exp}");
        }
        for exp in ["-1", "-0", "0", "1699999940", "1699999939.9"] {
            assert_eq!(verdict(&format!(r#""exp":{exp}"#)), "expired", "{exp}");
        }
        for exp in [
            "null",
            r#""1700000300""#,
            "true",
            "[]",
            "9223372036854775807",
            "9223372036854775808",
            "1e50",
            "1700000300000",
            "253402300800",
        ] {
            assert_eq!(verdict(&format!(r#""exp":{exp}"#)), "claim_malformed", "{exp}");
        }
        assert_eq!(verdict(r#""exp":1e400"#), "payload");
        assert_eq!(verdict(r#""iat":null"#), "claim_malformed");
        assert_eq!(verdict(r#""nbf":"0""#), "claim_malformed");
    }

    #[test]
    fn leeway_counts_to_its_very_end_and_no_further() {
        assert_eq!(verdict(r#""nbf":1700000060"#), "ok");
        assert_eq!(verdict(r#""nbf":1700000060.1"#), "not_yet_valid");
        assert_eq!(verdict(r#""iat":1700000060"#), "ok");
        assert_eq!(verdict(r#""iat":1700000061"#), "issued_in_future");
    }

    #[test]
    fn the_longest_life_is_counted_from_iat_or_else_from_now() {
        let hour = Expected { max_lifetime: Some(Duration::from_secs(3600)), ..expected() };
        let check = |times: &str| {
            let payload = format!(r#"{{"iss":"https://i.example","sub":"s","aud":"a",{times}}}"#);
            judged(&hour, &payload).map_or_else(|invalid| invalid.reason(), |_| "ok")
        };
        assert_eq!(check(r#""exp":1700003600"#), "ok");
        assert_eq!(check(r#""exp":1700003601"#), "lifetime");
        assert_eq!(check(r#""iat":1700000060,"exp":253402300799"#), "lifetime");
        assert_eq!(check(r#""iat":-62135596800,"exp":1700000300"#), "lifetime");
        assert_eq!(check(r#""exp":9223372036854775807"#), "claim_malformed");
        assert_eq!(check(r#""iat":1699999990,"exp":1700003590"#), "ok");
        assert_eq!(check(r#""iat":1699999989,"exp":1700003590"#), "lifetime");
    }

    #[test]
    fn verified_claims_read_back() {
        let payload =
            r#"{"iss":"https://i.example","sub":"s","aud":["b","a"],"exp":1700000300.7,"x":{"y":1}}"#;
        let claims = judged(&expected(), payload).expect("good");
        assert_eq!((claims.issuer(), claims.subject()), ("https://i.example", "s"));
        assert_eq!((claims.audiences(), claims.expires_at()), (vec!["b", "a"], UnixTime(1_700_000_300)));
        assert_eq!(claims.claim("x").and_then(|x| x["y"].as_i64()), Some(1));
    }
}
