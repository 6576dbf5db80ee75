//! The claim set as it is signed, and the claims that others may add to it.

use std::fmt::Write as _;
use std::io;

use oneseal_coordination::UnixTime;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Audience, ClaimError, Subject};

/// Claims beside the issuer's own, checked: names nobody else may set are refused, size and depth are bounded.
///
/// # Reserved names
/// `iss`, `sub`, `aud`, `exp`, `nbf`, `iat`, `jti` (RFC 7519 section 4.1) are the issuer's. `azp` is never written,
/// since AWS STS reads it in place of `aud`. `typ` is refused because some relying parties tell kinds of token apart
/// by it. All of them in any case: Go's `encoding/json`, and go-oidc with it, matches member names without regard to
/// case and keeps the last, so an `AUD` there would stand in for `aud`. For the same reason no two names may differ in
/// case alone.
///
/// # Numbers
/// Those that every reader keeps as they are (RFC 7493 section 2.2): whole numbers up to 2^53 - 1 and fractions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraClaims(Map<String, Value>);

impl ExtraClaims {
    /// All together, in bytes of JSON: well inside every relying party's token limit, with room for session tags.
    pub const MAX_LEN: usize = 4096;
    /// Levels of arrays and objects in one claim. AWS session tags need three.
    pub const MAX_DEPTH: usize = 8;
    /// Names that only the issuer writes, or that are never written.
    pub const RESERVED: [&str; 9] = ["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "typ"];

    /// Checks a JSON object's members.
    ///
    /// # Errors
    /// [`ClaimError::Reserved`], [`ClaimError::Name`], [`ClaimError::TooDeep`], [`ClaimError::TooLarge`].
    pub fn parse(claims: Map<String, Value>) -> Result<Self, ClaimError> {
        let mut checked = Self::default();
        for (name, value) in claims {
            check(&name, &value)?;
            checked.refuse_look_alike(&name)?;
            checked.0.insert(name, value);
        }
        checked.within_limit()
    }

    /// Those that a token can have, and what is wrong with each of the others and with all together.
    pub(crate) fn sift(claims: Map<String, Value>) -> (Self, Vec<ClaimError>) {
        let (mut good, mut faults) = (Self::default(), Vec::new());
        for (name, value) in claims {
            match check(&name, &value).and_then(|()| good.refuse_look_alike(&name)) {
                Ok(()) => drop(good.0.insert(name, value)),
                Err(fault) => faults.push(fault),
            }
        }
        faults.extend(good.refuse_length().err());
        (good, faults)
    }

    /// Adds one claim; a value already there is replaced.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Result<Self, ClaimError> {
        let (name, value) = (name.into(), value.into());
        check(&name, &value)?;
        if !self.0.contains_key(&name) {
            self.refuse_look_alike(&name)?;
        }
        self.0.insert(name, value);
        self.within_limit()
    }

    /// These and `others`, which must not name the same claim.
    ///
    /// # Errors
    /// [`ClaimError::Twice`] and [`ClaimError::TooLarge`].
    pub fn merged(mut self, others: &Self) -> Result<Self, ClaimError> {
        for (name, value) in &others.0 {
            self.refuse_look_alike(name)?;
            self.0.insert(name.clone(), value.clone());
        }
        self.within_limit()
    }

    /// Name and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn refuse_look_alike(&self, name: &str) -> Result<(), ClaimError> {
        let is_taken = self.0.keys().any(|known| folded(known) == folded(name));
        if is_taken { Err(ClaimError::Twice(name.to_owned())) } else { Ok(()) }
    }

    fn within_limit(self) -> Result<Self, ClaimError> {
        self.refuse_length().map(|()| self)
    }

    fn refuse_length(&self) -> Result<(), ClaimError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut counter = ByteCounter(0);
        // A JSON map of strings and finite numbers always serialises; the counter never fails.
        let written = serde_json::to_writer(&mut counter, &self.0);
        if written.is_err() || counter.0 > Self::MAX_LEN {
            return Err(ClaimError::TooLarge { len: counter.0 });
        }
        Ok(())
    }
}

/// The issuer's own claims of one token.
pub(crate) struct ClaimSet<'a> {
    /// `iss`, already as a JSON string.
    pub(crate) issuer_json: &'a str,
    pub(crate) subject: &'a Subject,
    pub(crate) audience: &'a Audience,
    /// `iat` and `nbf`.
    pub(crate) issued_at: UnixTime,
    pub(crate) expires_at: UnixTime,
    /// `jti`: random, so unique over all replicas without asking any.
    pub(crate) id: Uuid,
    pub(crate) extra: &'a ExtraClaims,
}

impl ClaimSet<'_> {
    /// The payload: JSON without white space, the issuer's claims first, times as integers.
    pub(crate) fn to_json(&self) -> String {
        let mut out = String::with_capacity(TYPICAL_LEN);
        out.push_str(r#"{"iss":"#);
        out.push_str(self.issuer_json);
        out.push_str(r#","sub":"#);
        out.push_str(&json_string(self.subject.as_str()));
        out.push_str(r#","aud":"#);
        out.push_str(&json_string(self.audience.as_str()));
        let (iat, exp, id) = (self.issued_at.as_secs(), self.expires_at.as_secs(), self.id.hyphenated());
        // Writing to a String cannot fail.
        let _ = write!(out, r#","iat":{iat},"nbf":{iat},"exp":{exp},"jti":"{id}""#);
        for (name, value) in self.extra.iter() {
            let _ = write!(out, ",{}:{value}", json_string(name));
        }
        out.push('}');
        out
    }
}

/// `text` as a JSON string, quotes included.
pub(crate) fn json_string(text: &str) -> String {
    Value::from(text).to_string()
}

fn check(name: &str, value: &Value) -> Result<(), ClaimError> {
    if ExtraClaims::RESERVED.iter().any(|reserved| folded(reserved) == folded(name)) {
        return Err(ClaimError::Reserved(name.to_owned()));
    }
    if name.is_empty() || name.len() > MAX_NAME_LEN || name.chars().any(char::is_control) {
        return Err(ClaimError::Name);
    }
    if is_deeper_than(value, ExtraClaims::MAX_DEPTH) {
        return Err(ClaimError::TooDeep(name.to_owned()));
    }
    if !has_exact_numbers(value) {
        return Err(ClaimError::Number(name.to_owned()));
    }
    Ok(())
}

/// The name as a reader sees it who ignores case: both ways, since some letters change in one direction alone (the
/// long s becomes S, the Kelvin sign k).
fn folded(name: &str) -> String {
    name.to_lowercase().to_uppercase()
}

fn has_exact_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() <= MAX_EXACT),
        Value::Array(items) => items.iter().all(has_exact_numbers),
        Value::Object(members) => members.values().all(has_exact_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Stops at the limit, so that hostile nesting cannot exhaust the stack.
fn is_deeper_than(value: &Value, limit: usize) -> bool {
    let mut children: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => return false,
    };
    limit == 0 || children.any(|child| is_deeper_than(child, limit - 1))
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// 2^53 - 1: above it a double skips whole numbers.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;
const MAX_NAME_LEN: usize = 256;
/// Room for the issuer's own claims with names of usual length.
const TYPICAL_LEN: usize = 384;

/// The largest token that a relying party of ours is known to take, in bytes.
pub const MAX_TOKEN_LEN: usize = 16 * 1024;

/// Header, payload and signature at their worst: every byte of a name escaped to two, a kid of 128 characters, an
/// RSA key of 8192 bits. So no token can be too large, and nothing has to be measured when one is minted.
const LARGEST_PAYLOAD: usize = 2 * (255 + Subject::MAX_LEN + Audience::MAX_LEN) + 256 + ExtraClaims::MAX_LEN;
const LARGEST_TOKEN: usize =
    base64_len(64 + 2 * 128) + 1 + base64_len(LARGEST_PAYLOAD) + 1 + base64_len(1024);
const _: () = assert!(LARGEST_TOKEN <= MAX_TOKEN_LEN);

const fn base64_len(octets: usize) -> usize {
    octets.div_ceil(3) * 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_issuers_names_and_azp_are_refused() {
        for name in ["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "typ"] {
            for spelt in [name.to_owned(), name.to_uppercase(), name.replace('s', "\u{17f}")] {
                assert_eq!(ExtraClaims::default().with(&spelt, "x"), Err(ClaimError::Reserved(spelt)));
            }
        }
    }

    #[test]
    fn names_sizes_and_depth_are_bounded() {
        let none = ExtraClaims::default();
        assert_eq!(none.clone().with("", 1), Err(ClaimError::Name));
        assert_eq!(none.clone().with("a\nb", 1), Err(ClaimError::Name));
        assert_eq!(none.clone().with("a".repeat(257), 1), Err(ClaimError::Name));
        assert!(none.clone().with("fits", "x".repeat(4096 - r#"{"fits":""}"#.len())).is_ok());
        assert_eq!(
            none.clone().with("fits", "x".repeat(4097 - r#"{"fits":""}"#.len())),
            Err(ClaimError::TooLarge { len: 4097 })
        );
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(none.clone().with("deep", nested(8)).is_ok());
        assert_eq!(none.with("deep", nested(9)), Err(ClaimError::TooDeep("deep".to_owned())));
    }

    #[test]
    fn a_claim_given_by_both_sides_is_refused() {
        let one = ExtraClaims::default().with("team", "a").expect("good");
        assert_eq!(one.clone().merged(&one), Err(ClaimError::Twice("team".to_owned())));
        let other = ExtraClaims::default().with("run", 7).expect("good");
        assert_eq!(one.merged(&other).map(|both| both.iter().count()), Ok(2));
    }

    #[test]
    fn the_payload_is_json_with_integers_and_one_audience() {
        let extra = ExtraClaims::default().with("tags", json!({"team": ["a"]})).expect("good");
        let (subject, audience) =
            (Subject::parse("pod\"1\\é").expect("good"), Audience::parse("rp").expect("good"));
        let set = ClaimSet {
            issuer_json: &json_string("https://oidc.example"),
            subject: &subject,
            audience: &audience,
            issued_at: UnixTime(1_700_000_000),
            expires_at: UnixTime(1_700_003_600),
            id: Uuid::nil(),
            extra: &extra,
        };
        assert_eq!(
            set.to_json(),
            concat!(
                r#"{"iss":"https://oidc.example","sub":"pod\"1\\é","aud":"rp","iat":1700000000,"nbf":1700000000,"#,
                r#""exp":1700003600,"jti":"00000000-0000-0000-0000-000000000000","tags":{"team":["a"]}}"#
            )
        );
    }

    #[test]
    fn names_that_differ_in_case_alone_count_as_one() {
        let one = ExtraClaims::default().with("team", "a").expect("good");
        assert_eq!(one.clone().with("Team", "b"), Err(ClaimError::Twice("Team".to_owned())));
        assert!(one.clone().with("team", "b").is_ok(), "the same name replaces");
        let other = ExtraClaims::default().with("TEAM", "b").expect("good");
        assert_eq!(one.merged(&other), Err(ClaimError::Twice("TEAM".to_owned())));
        let both =
            Map::from_iter([("\u{212a}ey".to_owned(), Value::from(1)), ("key".to_owned(), Value::from(2))]);
        assert!(matches!(ExtraClaims::parse(both), Err(ClaimError::Twice(_))), "the Kelvin sign is a k");
    }

    #[test]
    fn numbers_that_readers_would_round_are_refused_at_any_depth() {
        for good in ["9007199254740991", "-9007199254740991", "1.5", "0"] {
            let value: Value = serde_json::from_str(good).expect("JSON");
            assert!(ExtraClaims::default().with("x", value).is_ok(), "{good}");
        }
        for bad in
            ["9007199254740993", "18446744073709551615", "123456789012345678901234567890", "[{\"a\":1e300}]"]
        {
            let value: Value = serde_json::from_str(bad).expect("JSON");
            let refused = ExtraClaims::default().with("x", value);
            assert_eq!(refused, Err(ClaimError::Number("x".to_owned())), "{bad}");
        }
    }
}
