//! What a refused token says beside what was wanted, for whoever has to find out which of the two is wrong.
//!
//! The library's errors quote nothing of a token, which may be hostile: they go to servers' logs. Here somebody asks
//! about one token that is at hand, so claims are shown: few, cut short and escaped, and never the token itself.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_coordination::UnixTime;
use oneseal_keystore::{IssuerUrl, KeyId, json};
use serde_json::{Map, Value, json};

use crate::times;

/// What was asked of the token.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Whose it must be.
    pub(super) issuer: IssuerUrl,
    /// For whom.
    pub(super) audience: String,
    /// When.
    pub(super) at: UnixTime,
}

/// The facts behind a refusal for `reason`, by name; none for reasons that speak for themselves. `published` are the
/// names of the issuer's keys.
pub(super) fn of(reason: &str, token: &str, asked: &Asked, published: &[KeyId]) -> Map<String, Value> {
    let payload = || segment(token, 1);
    let facts = match reason {
        "issuer" => json!({ "iss": claim(&payload(), "iss"), "wanted": asked.issuer.as_str() }),
        "audience" => json!({ "aud": claim(&payload(), "aud"), "wanted": cut(&asked.audience) }),
        "expired" => time(&payload(), "exp", asked.at),
        "not_yet_valid" => time(&payload(), "nbf", asked.at),
        "issued_in_future" => time(&payload(), "iat", asked.at),
        "unknown_kid" => {
            let kids: Vec<_> = published.iter().take(MAX_LIST).map(|kid| cut(kid.as_str())).collect();
            json!({ "kid": claim(&segment(token, 0), "kid"), "published": kids })
        }
        _ => Value::Null,
    };
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

/// In one line, every text quoted and escaped.
pub(super) fn told(facts: &Map<String, Value>) -> String {
    let parts = facts.iter().map(|(name, value)| format!("{name} {}", shown(value)));
    parts.collect::<Vec<_>>().join(", ")
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", text.escape_debug()),
        Value::Array(several) => {
            format!("[{}]", several.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A moment that a claim names, and how far it is from the one that was asked about.
fn time(claims: &Map<String, Value>, name: &str, at: UnixTime) -> Value {
    let Some(seconds) = claims.get(name).and_then(Value::as_f64) else { return Value::Null };
    // The check before has held it within the years 1 to 9999.
    let moment = UnixTime(seconds.floor() as i64);
    let off = at.as_secs().saturating_sub(moment.as_secs());
    let side = if off < 0 { "ahead_s" } else { "ago_s" };
    json!({ name: times::rfc3339(moment), side: off.unsigned_abs(), "judged_at": times::rfc3339(at) })
}

/// Header or payload, of which nothing is believed; empty if it is no strict JSON object.
fn segment(token: &str, index: usize) -> Map<String, Value> {
    let bytes = token.split('.').nth(index).and_then(|segment| URL_SAFE_NO_PAD.decode(segment).ok());
    bytes.and_then(|bytes| json::parse_object(&bytes).ok()).unwrap_or_default()
}

/// A text, or the first texts of a list.
fn claim(members: &Map<String, Value>, name: &str) -> Value {
    match members.get(name) {
        Some(Value::String(text)) => cut(text).into(),
        Some(Value::Array(several)) => {
            several.iter().filter_map(Value::as_str).take(MAX_LIST).map(cut).collect::<Vec<_>>().into()
        }
        _ => Value::Null,
    }
}

fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_TEXT).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Longer than any issuer's URL that is in use.
const MAX_TEXT: usize = 200;
const MAX_LIST: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, payload: &str) -> String {
        format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload))
    }

    fn said(reason: &str, header: &str, payload: &str) -> String {
        let asked = Asked {
            issuer: IssuerUrl::parse("https://oidc.example", "test").expect("good"),
            audience: "rp".to_owned(),
            at: UnixTime(1_767_225_600),
        };
        let kids: Vec<_> = (0..12).map(|n| KeyId::parse(&format!("k{n}")).expect("good")).collect();
        told(&of(reason, &token(header, payload), &asked, &kids))
    }

    #[test]
    fn each_refusal_by_a_value_names_the_value_and_what_was_wanted() {
        let of_payload = |reason, payload| said(reason, "{}", payload);
        let issuer = of_payload("issuer", r#"{"iss":"https://oidc.example/"}"#);
        assert_eq!(issuer, r#"iss "https://oidc.example/", wanted "https://oidc.example""#);
        assert_eq!(of_payload("audience", r#"{"aud":["a","b"]}"#), r#"aud ["a", "b"], wanted "rp""#);
        let expired = of_payload("expired", r#"{"exp":1767225000.5}"#);
        assert!(
            expired.contains(r#"exp "2025-12-31T23:50:00Z""#) && expired.contains("ago_s 600"),
            "{expired}"
        );
        let early = of_payload("not_yet_valid", r#"{"nbf":1767226200}"#);
        assert!(early.contains(r#"nbf "2026-01-01T00:10:00Z""#) && early.contains("ahead_s 600"), "{early}");
        let kid = said("unknown_kid", r#"{"kid":"old"}"#, "{}");
        assert!(kid.contains(r#"kid "old""#) && kid.contains(r#""k9"]"#) && !kid.contains("k10"), "{kid}");
        assert_eq!(of_payload("signature", r#"{"iss":"x"}"#), "");
    }

    #[test]
    fn hostile_claims_are_cut_and_escaped_and_broken_tokens_have_none() {
        let long = format!(r#"{{"iss":"a\u001b[31m\n{}"}}"#, "x".repeat(10_000));
        let told = said("issuer", "{}", &long);
        assert!(told.len() < 300 && told.contains(r"\u{1b}[31m\n") && !told.contains('\n'), "{told}");
        let many = format!(r#"{{"aud":[{}"z"]}}"#, r#""a","#.repeat(1000));
        assert!(said("audience", "{}", &many).len() < 100);
        assert!(said("issuer", "{}", "no JSON").starts_with("iss null"));
    }
}
