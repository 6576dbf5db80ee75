//! A document taken apart: the public half as a map, and the private halves where they lie, as text that is never
//! copied.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::Digest;
use crate::json::{self, JsonError};

/// A document, taken apart.
#[derive(Debug)]
pub(crate) struct Split<'a> {
    pub(crate) public: Map<String, Value>,
    /// By position in `keys`.
    pub(crate) privates: BTreeMap<usize, Half<'a>>,
    pub(crate) ring_private: Option<Half<'a>>,
    pub(crate) sig: String,
}

/// A private half as it rests in the document.
#[derive(Clone, Copy)]
pub(crate) enum Half<'a> {
    /// The JSON text of a private JWK.
    Plain(&'a RawValue),
    /// The JSON text of a string, a JWE.
    Sealed(&'a RawValue),
    /// Both forms: which one counts must not be a matter of taste.
    Both,
}

/// Shows no half.
impl std::fmt::Debug for Half<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain(***)",
            Self::Sealed(_) => "Sealed(***)",
            Self::Both => "Both",
        })
    }
}

impl<'a> Half<'a> {
    /// The JWE of a sealed half. It has no letter that JSON would escape, so a text with one is none.
    pub(crate) fn jwe(raw: &'a RawValue) -> Option<&'a str> {
        serde_json::from_str(raw.get()).ok()
    }

    /// Tells this half from every other one: two that are equal need be opened and judged once.
    pub(super) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Plain(raw) => Some(Digest::of_parts(&[b"plain", raw.get().as_bytes()])),
            Self::Sealed(raw) => Some(Digest::of_parts(&[b"sealed", raw.get().as_bytes()])),
            Self::Both => None,
        }
    }
}

/// The text, without the mark that some editors put before it (RFC 8259 section 8.1 lets a reader pass over it).
pub(super) fn text_of(value: &[u8]) -> Result<&str, std::str::Utf8Error> {
    std::str::from_utf8(value.strip_prefix(b"\xef\xbb\xbf").unwrap_or(value))
}

/// Takes a document apart.
///
/// # Errors
/// It is no JSON object, or an object in it names a member twice.
pub(crate) fn split(value: &[u8]) -> Result<Split<'_>, JsonError> {
    let text = text_of(value).map_err(|_| JsonError::Syntax { line: 1, column: 1 })?;
    let mut split =
        Split { public: Map::new(), privates: BTreeMap::new(), ring_private: None, sig: String::new() };
    for (name, raw) in json::members(text)? {
        match name.as_str() {
            "sig" => split.sig = json::parse(raw.get().as_bytes())?.as_str().unwrap_or_default().to_owned(),
            "ring_key" => {
                let (public, half) = split_half(raw)?;
                split.ring_private = half;
                split.public.insert(name, public);
            }
            "keys" => {
                let raws: Vec<&RawValue> =
                    serde_json::from_str(raw.get()).map_err(|error| JsonError::from(&error))?;
                let mut keys = Vec::new();
                for (i, raw) in raws.into_iter().enumerate() {
                    let (public, half) = split_half(raw)?;
                    keys.push(public);
                    split.privates.extend(half.map(|half| (i, half)));
                }
                split.public.insert(name, Value::Array(keys));
            }
            _ => {
                split.public.insert(name, json::parse(raw.get().as_bytes())?);
            }
        }
    }
    Ok(split)
}

/// An object without its `private` and `sealed`, and what was there.
fn split_half(raw: &RawValue) -> Result<(Value, Option<Half<'_>>), JsonError> {
    let mut public = Map::new();
    let mut half = None;
    for (name, raw) in json::members(raw.get())? {
        match name.as_str() {
            "private" => half = Some(half.map_or(Half::Plain(raw), |_| Half::Both)),
            "sealed" => half = Some(half.map_or(Half::Sealed(raw), |_| Half::Both)),
            _ => {
                public.insert(name, json::parse(raw.get().as_bytes())?);
            }
        }
    }
    Ok((Value::Object(public), half))
}
