//! JSON read strictly: a member name may stand once in an object, at any depth.
//!
//! `serde_json` keeps the last of two equal names silently, and other readers the first: whoever checks one and
//! uses the other has been fooled (RFC 8259 section 4 leaves it open; RFC 7515 section 4 and RFC 7519 section 4
//! want them refused). Everything that we verify, or hash, goes through here.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

/// Parses one JSON text and refuses duplicate names at any depth.
///
/// # Errors
/// What `serde_json` says of it, without any part of the input: position and kind of fault.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = StrictValue.deserialize(&mut reader).map_err(|error| JsonError::from(&error))?;
    reader.end().map_err(|error| JsonError::from(&error))?;
    Ok(value)
}

/// [`parse`], and the value must be an object.
///
/// # Errors
/// As [`parse`], or [`JsonError::NotAnObject`].
pub fn parse_object(text: &[u8]) -> Result<Map<String, Value>, JsonError> {
    match parse(text)? {
        Value::Object(map) => Ok(map),
        _ => Err(JsonError::NotAnObject),
    }
}

/// The members of an object with their values left as text, so that secret ones are never copied.
///
/// Duplicates are refused at this level alone: parse the values strictly as well.
///
/// # Errors
/// As [`parse_object`].
pub(crate) fn members(text: &str) -> Result<Vec<(String, &RawValue)>, JsonError> {
    if !text.trim_start().starts_with('{') {
        return Err(JsonError::NotAnObject);
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader.deserialize_map(Members).map_err(|error| JsonError::from(&error))?;
    reader.end().map_err(|error| JsonError::from(&error))?;
    Ok(members)
}

/// Why a text is no JSON we take. Never quotes the input, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text breaks off.
    #[error("the JSON ends too early, at line {line} column {column}")]
    Truncated {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// It is no JSON.
    #[error("not JSON, at line {line} column {column}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// An object holds a name twice.
    #[error("an object holds the same member twice, at line {line} column {column}")]
    Duplicate {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// It is JSON, but no object.
    #[error("not a JSON object")]
    NotAnObject,
}

impl From<&serde_json::Error> for JsonError {
    fn from(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            serde_json::error::Category::Eof => Self::Truncated { line, column },
            // The only data error that our visitors raise.
            serde_json::error::Category::Data if error.to_string().starts_with(DUPLICATE) => {
                Self::Duplicate { line, column }
            }
            _ => Self::Syntax { line, column },
        }
    }
}

const DUPLICATE: &str = "duplicate member";

struct StrictValue;

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Self)?;
            if map.insert(name, value).is_some() {
                return Err(de::Error::custom(DUPLICATE));
            }
        }
        Ok(Value::Object(map))
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found: Self::Value = Vec::new();
        // A set beside the list: an object of a hundred thousand members must not cost the square of that.
        let mut names = BTreeSet::new();
        while let Some((name, value)) = members.next_entry::<String, &RawValue>()? {
            if !names.insert(name.clone()) {
                return Err(de::Error::custom(DUPLICATE));
            }
            found.push((name, value));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"x":{"a":1,"a":2}}"#, r#"[{"b":[{"a":1,"\u0061":2}]}]"#] {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::Duplicate { .. })), "{text}");
        }
        assert!(parse(br#"{"a":{"a":1},"b":{"a":2}}"#).is_ok());
    }

    #[test]
    fn trailing_text_truncation_and_depth_are_refused() {
        assert!(matches!(parse(b"{} x"), Err(JsonError::Syntax { .. })));
        assert!(matches!(parse(b"{\"a\":"), Err(JsonError::Truncated { .. })));
        assert!(matches!(parse(b""), Err(JsonError::Truncated { .. })));
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert_eq!(parse_object(b"[]"), Err(JsonError::NotAnObject));
    }

    #[test]
    fn errors_quote_nothing_of_the_input() {
        let error = parse(br#"{"d":"canary" canary}"#).expect_err("no JSON");
        assert!(!error.to_string().contains("canary"));
    }

    #[test]
    fn members_leave_values_as_text() {
        let found = members(r#" {"a":[1, 2],"b":"x"} "#).expect("an object");
        let shown: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        assert_eq!(shown, [("a", "[1, 2]"), ("b", "\"x\"")]);
        assert!(matches!(members(r#"{"a":1,"a":2}"#), Err(JsonError::Duplicate { .. })));
        assert_eq!(members("[]").err(), Some(JsonError::NotAnObject));
    }
}
