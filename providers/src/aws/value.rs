//! What a version holds: the key or the ring itself, or a JSON object with it in a member.
//!
//! A provider parses no key, so all of this goes by shape, and nothing of a value is repeated in a refusal. Names of
//! members are.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::SecretBytes;

/// How many names of members a refusal lists, and how much of each.
const NAMES: usize = 16;
const NAME_CHARS: usize = 64;

/// Why the value has not the member that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Unfit {
    /// No object of key/value pairs.
    #[error("the value is no JSON object of key/value pairs, so it has no member {0}")]
    NoObject(String),
    /// A name stands in it twice.
    #[error("the JSON object holds a member twice, so it is not clear which one counts")]
    Duplicate,
    /// It has others.
    #[error("the JSON object has no member {wanted}{}", others(.names))]
    NoMember {
        /// The name that was looked for.
        wanted: String,
        /// The names that are there.
        names: Vec<String>,
    },
    /// It is a number, a list or the like.
    #[error("the member {0} is neither a text nor an object")]
    Kind(String),
    /// It holds nothing.
    #[error("the member {0} is empty")]
    Empty(String),
    /// What is to be written there is no text.
    #[error("a JSON object holds text alone, and what is to be written into its member {0} is none")]
    Bytes(String),
}

/// Whether the value is a ring document, or was meant to be one: as the keystore sees it.
pub(super) fn is_document(value: &[u8]) -> bool {
    let Some(text) = text_of(value) else { return false };
    match members(text) {
        Ok(members) => {
            let has = |wanted: &str, test: fn(&str) -> bool| {
                members.iter().any(|(name, value)| name == wanted && test(value.get()))
            };
            has("format", |text| text.parse::<i64>().is_ok()) && has("keys", |text| text.starts_with('['))
        }
        Err(_) => {
            text.trim_start().starts_with('{') && text.contains("\"format\"") && text.contains("\"keys\"")
        }
    }
}

/// What the member `name` of the object `value` holds: the content of a text, or an object as it stands.
pub(super) fn member(value: &[u8], name: &str) -> Result<SecretBytes, Unfit> {
    let members = object(value, name)?;
    let Some((_, raw)) = members.iter().find(|(known, _)| known == name) else {
        let names = members.iter().take(NAMES).map(|(name, _)| shown(name)).collect();
        return Err(Unfit::NoMember { wanted: shown(name), names });
    };
    let raw = raw.get();
    let content = if raw.starts_with('{') {
        SecretBytes::from(raw)
    } else {
        let content: String = serde_json::from_str(raw).map_err(|_| Unfit::Kind(shown(name)))?;
        SecretBytes::from(content)
    };
    if content.is_empty() { Err(Unfit::Empty(shown(name))) } else { Ok(content) }
}

/// The object `value`, or a new one, with `content` as the text of its member `name`. Other members stay as they are.
pub(super) fn with_member(
    value: Option<&SecretBytes>,
    name: &str,
    content: &SecretBytes,
) -> Result<SecretBytes, Unfit> {
    let text = str::from_utf8(content.expose()).map_err(|_| Unfit::Bytes(shown(name)))?;
    let quoted = |text: &str| serde_json::to_string(text).map(Zeroizing::new).unwrap_or_default();
    let members = value.map_or(Ok(Vec::new()), |value| object(value.expose(), name))?;
    let length: usize = members.iter().map(|(name, raw)| 6 * name.len() + raw.get().len() + 4).sum();
    let content = quoted(text);
    // Of its full size at once: a buffer that grows leaves copies behind.
    let mut out = Zeroizing::new(String::with_capacity(length + content.len() + 6 * name.len() + 16));
    let mut is_written = false;
    let mut append = |name: &str, raw: &str| {
        let before = if out.is_empty() { '{' } else { ',' };
        out.push(before);
        out.push_str(&quoted(name));
        out.push(':');
        out.push_str(raw);
    };
    for (known, raw) in &members {
        let is_ours = known == name;
        append(known, if is_ours { &content } else { raw.get() });
        is_written |= is_ours;
    }
    if !is_written {
        append(name, &content);
    }
    out.push('}');
    Ok(SecretBytes::from(out.as_str()))
}

fn object<'v>(value: &'v [u8], wanted: &str) -> Result<Vec<(String, &'v RawValue)>, Unfit> {
    let nothing = || Unfit::NoObject(shown(wanted));
    let text = text_of(value).filter(|text| text.trim_start().starts_with('{')).ok_or_else(nothing)?;
    members(text).map_err(|error| match error.to_string().starts_with(DUPLICATE) {
        true => Unfit::Duplicate,
        false => nothing(),
    })
}

/// Without the mark that some editors put before a text (RFC 8259 section 8.1).
fn text_of(value: &[u8]) -> Option<&str> {
    str::from_utf8(value.strip_prefix(b"\xef\xbb\xbf").unwrap_or(value)).ok()
}

/// The members of an object with their values left as text, so that secret ones are not copied.
fn members(text: &str) -> Result<Vec<(String, &RawValue)>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader.deserialize_map(Members)?;
    reader.end()?;
    Ok(members)
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut members: Self::Value = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if members.iter().any(|(known, _)| *known == name) {
                return Err(de::Error::custom(DUPLICATE));
            }
            members.push((name, value));
        }
        Ok(members)
    }
}

const DUPLICATE: &str = "duplicate member";

/// The names that are there, any of which may be the one that is meant.
fn others(names: &[String]) -> String {
    match names {
        [] => " yet, nor any other".to_owned(),
        names => format!("; its members are: {}. Is one of these meant?", names.join(", ")),
    }
}

/// A member's name for a message, which stays on its line and is no longer than a name.
fn shown(name: &str) -> String {
    let mut shown: String = name.chars().take(NAME_CHARS).flat_map(char::escape_debug).collect();
    if name.chars().nth(NAME_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_taken_out_as_text_or_as_an_object() {
        let value = b"\xef\xbb\xbf {\"a\":\"x\\ny\",\"b\":{\"kty\": \"OKP\"},\"c\":7,\"d\":\"\"} ";
        assert_eq!(member(value, "a").expect("text").expose(), b"x\ny");
        assert_eq!(member(value, "b").expect("an object").expose(), b"{\"kty\": \"OKP\"}");
        assert_eq!(member(value, "c").expect_err("a number"), Unfit::Kind("c".to_owned()));
        assert_eq!(member(value, "d").expect_err("nothing"), Unfit::Empty("d".to_owned()));
    }

    #[test]
    fn a_refusal_names_members_and_repeats_no_value() {
        let canary = "s3cret-value";
        let value =
            format!("{{\"user\":\"{canary}\",\"private_\\u0000key\":\"{canary}\",\"n\":[\"{canary}\"]}}");
        let refused = member(value.as_bytes(), "key").expect_err("another name").to_string();
        assert_eq!(
            refused,
            "the JSON object has no member key; its members are: user, private_\\0key, n. Is one of these meant?"
        );
        let none = member(b"{}", "key").expect_err("nothing").to_string();
        assert_eq!(none, "the JSON object has no member key yet, nor any other");
        let long = format!("{{\"{}\":1}}", "x".repeat(100));
        assert!(member(long.as_bytes(), "key").expect_err("another").to_string().contains("xx…. Is one"));
        for value in
            [canary.to_owned(), format!("[\"{canary}\"]"), format!("{{\"a\":\"{canary}"), String::new()]
        {
            let refused = member(value.as_bytes(), "key").expect_err("no object");
            assert_eq!(refused, Unfit::NoObject("key".to_owned()));
        }
        assert_eq!(member(b"{\"key\":\"a\",\"key\":\"b\"}", "key").expect_err("twice"), Unfit::Duplicate);
        assert_eq!(member(b"\xff\xfe", "key").expect_err("bytes"), Unfit::NoObject("key".to_owned()));
    }

    #[test]
    fn a_member_is_written_and_the_others_stay() {
        let written = |value: Option<&str>, content: &str| {
            let value = value.map(SecretBytes::from);
            let written =
                with_member(value.as_ref(), "ring", &SecretBytes::from(content)).expect("an object");
            String::from_utf8(written.expose().to_vec()).expect("text")
        };
        assert_eq!(written(None, "{\"a\":1}\n"), r#"{"ring":"{\"a\":1}\n"}"#);
        assert_eq!(
            written(Some(" {\"n\": [1, 2], \"ring\": \"old\", \"b\":\"é\"}"), "new"),
            r#"{"n":[1, 2],"ring":"new","b":"é"}"#
        );
        assert_eq!(written(Some("{\"other\":1.0}"), "new"), r#"{"other":1.0,"ring":"new"}"#);
        assert_eq!(written(Some("{}"), "x"), r#"{"ring":"x"}"#);
        let bytes = SecretBytes::new(vec![0xff]);
        assert_eq!(with_member(None, "ring", &bytes).expect_err("bytes"), Unfit::Bytes("ring".to_owned()));
    }

    #[test]
    fn a_ring_document_is_told_by_its_shape() {
        for value in [
            r#"{"format":1,"keys":[]}"#,
            "\u{feff} {\"keys\":[{}],\"x\":1,\"format\":2}",
            r#"{"format":1,"keys":["#,
        ] {
            assert!(is_document(value.as_bytes()), "{value}");
        }
        for value in [
            "-----BEGIN PRIVATE KEY-----",
            r#"{"kty":"OKP","d":"x"}"#,
            r#"{"keys":[{"kty":"OKP"}]}"#,
            r#"{"format":"1","keys":[]}"#,
            r#"{"ring":"{\"format\":1,\"keys\":[]}"}"#,
            "",
        ] {
            assert!(!is_document(value.as_bytes()), "{value}");
        }
        assert!(!is_document(b"\x30\x82"));
    }
}
