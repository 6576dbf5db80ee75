//! What may become an event: checked before it is sent, so that the log never holds what its reader would refuse.
//!
//! An event is for ever, and many may read it. So the one thing that must not get into it, a secret, is looked for here
//! once more, although no caller puts one in: by the names that private parts have in a JWK and in a ring document.

use serde_json::Value;

use crate::EventDraft;

/// Why a draft is refused. Nothing of it is quoted but the names of its members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// The kind is not of dotted words.
    #[error(
        "an event's kind is of dotted lower-case words, such as key.published, and has at most {MAX_KIND} bytes"
    )]
    Kind,
    /// Actor or issuer is too long, or has a character that the database does not keep.
    #[error("an event's {member} has at most {limit} bytes and no NUL character")]
    Text {
        /// `actor` or `issuer`.
        member: &'static str,
        /// The most bytes.
        limit: usize,
    },
    /// The payload is no JSON object.
    #[error("an event's payload is a JSON object")]
    Payload,
    /// The payload is larger than an event may be.
    #[error("an event's payload has {len} bytes, and at most {MAX_PAYLOAD} are kept")]
    TooLarge {
        /// How many there were.
        len: usize,
    },
    /// The payload has a member that could hold a secret.
    #[error(
        "an event never holds secrets, and the member {member:?} of its payload is named or looks like one"
    )]
    Secret {
        /// Its name.
        member: String,
    },
}

/// A draft that may be appended: its payload in one line, with members in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked<'a> {
    pub(super) kind: &'a str,
    pub(super) actor: &'a str,
    pub(super) issuer: &'a str,
    pub(super) payload: String,
}

/// Judges an event before it is written.
pub(super) fn check<'a>(
    actor: &'a str,
    issuer: &'a str,
    draft: &'a EventDraft,
) -> Result<Checked<'a>, DraftError> {
    if !is_kind(&draft.kind) {
        return Err(DraftError::Kind);
    }
    for (member, text, limit) in [("actor", actor, MAX_ACTOR), ("issuer", issuer, MAX_ISSUER)] {
        if text.len() > limit || text.contains('\0') {
            return Err(DraftError::Text { member, limit });
        }
    }
    let mut payload: Value = serde_json::from_str(&draft.payload).map_err(|_| DraftError::Payload)?;
    if !payload.is_object() {
        return Err(DraftError::Payload);
    }
    if let Some(member) = secret_in("payload", &payload) {
        return Err(DraftError::Secret { member: member.to_owned() });
    }
    // The order of members depends on the features of a build otherwise.
    payload.sort_all_objects();
    let payload = payload.to_string();
    if payload.len() > MAX_PAYLOAD {
        return Err(DraftError::TooLarge { len: payload.len() });
    }
    Ok(Checked { kind: &draft.kind, actor, issuer, payload })
}

/// Whether it is `word.word`, with more words if need be.
fn is_kind(kind: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    kind.len() <= MAX_KIND && kind.contains('.') && kind.split('.').all(is_word)
}

/// Whether it is a moment as the log writes it: UTC, with microseconds. Such texts sort as the moments do.
pub(super) fn is_moment(text: &str) -> bool {
    text.len() == MOMENT.len()
        && text.bytes().zip(MOMENT.bytes()).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

/// The name of a member that holds, or is named like, a secret.
fn secret_in<'v>(name: &'v str, value: &'v Value) -> Option<&'v str> {
    match value {
        Value::Object(members) => {
            let is_key = members.contains_key("kty");
            members.iter().find_map(|(name, value)| {
                let is_secret = SECRET.contains(&name.as_str()) || is_key && PRIVATE.contains(&name.as_str());
                if is_secret { Some(name.as_str()) } else { secret_in(name, value) }
            })
        }
        Value::Array(values) => values.iter().find_map(|value| secret_in(name, value)),
        Value::String(text) => text.contains("PRIVATE KEY-----").then_some(name),
        _ => None,
    }
}

/// Of any object.
const SECRET: [&str; 6] = ["private", "sealed", "secret", "password", "passphrase", "token"];
/// Of a JWK (RFC 7518 section 6).
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
const MOMENT: &str = "0000-00-00T00:00:00.000000Z";
const MAX_KIND: usize = 64;
/// A token's name and an address fit several times.
const MAX_ACTOR: usize = 512;
/// As long as URLs are anywhere.
const MAX_ISSUER: usize = 2048;
/// The public part of a ring is the largest there is, and stays below a tenth of it.
pub(super) const MAX_PAYLOAD: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kind: &str, payload: &str) -> Result<String, DraftError> {
        check("me", "https://oidc.example", &EventDraft::new(kind, payload)).map(|checked| checked.payload)
    }

    #[test]
    fn a_payload_becomes_one_line_with_sorted_members() {
        let payload = "{ \"b\": [1,\n 2], \"a\": {\"y\":1.50,\"x\":\"\\u00e9\\u0000\"} }";
        assert_eq!(judged("a.b", payload).as_deref(), Ok(r#"{"a":{"x":"é\u0000","y":1.5},"b":[1,2]}"#));
        for bad in ["", "[]", "1", "null", "{", "{}{}", "{\"a\":NaN}", &"[".repeat(100_000)] {
            assert_eq!(judged("a.b", bad), Err(DraftError::Payload), "{bad:.20}");
        }
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_PAYLOAD));
        assert!(matches!(judged("a.b", &large), Err(DraftError::TooLarge { .. })));
    }

    #[test]
    fn a_kind_is_of_dotted_words() {
        for good in ["ring.created", "key.private_erased", "a.b.c2"] {
            assert!(judged(good, "{}").is_ok(), "{good}");
        }
        for bad in
            ["", "ring", ".a", "a.", "a..b", "A.b", "a.b c", "a.1", "a.b\n", &format!("a.{}", "b".repeat(64))]
        {
            assert_eq!(judged(bad, "{}"), Err(DraftError::Kind), "{bad}");
        }
    }

    #[test]
    fn what_could_be_a_secret_is_refused_wherever_it_stands_and_not_quoted() {
        for (payload, member) in [
            (r#"{"private":{}}"#, "private"),
            (r#"{"keys":[{"kid":"k","sealed":"canary"}]}"#, "sealed"),
            (r#"{"a":[[{"kty":"EC","d":"canary"}]]}"#, "d"),
            (r#"{"a":{"kty":"oct","k":"canary"}}"#, "k"),
            (r#"{"a":["-----BEGIN RSA PRIVATE KEY-----canary"]}"#, "a"),
        ] {
            let error = judged("a.b", payload).expect_err(payload);
            assert_eq!(error, DraftError::Secret { member: member.to_owned() });
            assert!(!error.to_string().contains("canary"));
        }
        assert!(judged("a.b", r#"{"d":1,"k":2,"kty":"RSA"}"#).is_err());
        assert!(judged("a.b", r#"{"d":1,"jwk":{"kty":"RSA","n":"AQ","e":"AQAB"}}"#).is_ok());
    }

    #[test]
    fn texts_that_the_database_does_not_keep_are_refused() {
        let draft = EventDraft::new("a.b", "{}");
        assert!(check("\0", "", &draft).is_err() && check("", "\0", &draft).is_err());
        assert!(check(&"x".repeat(MAX_ACTOR + 1), "", &draft).is_err());
        assert!(check(&"x".repeat(MAX_ACTOR), "", &draft).is_ok());
    }

    #[test]
    fn a_moment_has_microseconds_and_a_z() {
        assert!(is_moment("2026-11-30T01:02:03.123456Z"));
        for bad in ["2026-11-30T01:02:03Z", "2026-11-30 01:02:03.123456Z", "2026-11-30T01:02:03.123456+", ""]
        {
            assert!(!is_moment(bad), "{bad}");
        }
    }
}
