//! What may rest in the row: one ring document, without a private half in plain text.
//!
//! A provider parses no key, so all of this goes by shape: which members there are, and what they are called. It is
//! judged before a connection is asked for, because what has been sent may stand in a server's log: with
//! `log_statement = 'all'` Postgres writes the parameters of every statement there.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use thiserror::Error;

use crate::Entries;

/// A ring document as the row wants it.
pub(super) struct Document<'a> {
    /// What is stored, byte for byte.
    pub(super) bytes: &'a [u8],
    /// The ring's life, from the document.
    pub(super) incarnation: i64,
    /// Its revision within that life, from the document.
    pub(super) revision: i64,
    /// The issuer whose ring it is: it names the chain of events.
    pub(super) issuer: String,
    /// The document without any private half, sealed or not, for the history.
    pub(super) public: String,
}

/// Sizes and numbers, no content.
impl fmt::Debug for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("bytes", &self.bytes.len())
            .field("incarnation", &self.incarnation)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// Why entries do not go into the row. Nothing of their values is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Unfit {
    /// A private half in plain text, at this place of the document.
    #[error(
        "{0} is a private half in plain text, and Postgres takes sealed ones alone; configure [kek], and seal a ring \
         that is there already with `oneseal keys rewrap --from-unsealed`"
    )]
    Unsealed(String),
    /// No JSON object, so perhaps a key as it is.
    #[error(
        "it is no ring document, and Postgres takes nothing else: a key file goes into a provider of another kind, or \
         into a sealed ring by `oneseal keys adopt`"
    )]
    NoDocument,
    /// Not one value.
    #[error("Postgres keeps one value, the ring document, and here are {0}")]
    NotOne(usize),
    /// A ring document without what every ring document has.
    #[error("the ring document has no {0}")]
    Lacks(&'static str),
}

impl<'a> Document<'a> {
    /// The only entry, if it is a ring document and holds no private half in plain text.
    pub(super) fn of(entries: &'a Entries) -> Result<Self, Unfit> {
        let mut all = entries.iter();
        let (Some((_, value)), None) = (all.next(), all.next()) else {
            return Err(Unfit::NotOne(entries.len()));
        };
        let bytes = value.expose();
        // Some editors put this mark before the text; a reader of JSON may pass over it (RFC 8259 section 8.1).
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        // By its own pass, which keeps no value: what is refused here may be a key.
        if let Some(place) = find_private_half(text).map_err(|_| Unfit::NoDocument)? {
            return Err(Unfit::Unsealed(place));
        }
        let document: Value = serde_json::from_slice(text).map_err(|_| Unfit::NoDocument)?;
        if !document.is_object() {
            return Err(Unfit::NoDocument);
        }
        Self::read(bytes, document)
    }

    fn read(bytes: &'a [u8], mut document: Value) -> Result<Self, Unfit> {
        if document["format"].as_i64().is_none() {
            return Err(Unfit::Lacks("integer `format`"));
        }
        if !document["keys"].is_array() {
            return Err(Unfit::Lacks("list `keys`"));
        }
        let incarnation = document["incarnation"]["number"].as_i64();
        let incarnation = incarnation.ok_or(Unfit::Lacks("integer `incarnation.number`"))?;
        let revision = document["revision"].as_i64().ok_or(Unfit::Lacks("integer `revision`"))?;
        let issuer = document["issuer"].as_str().ok_or(Unfit::Lacks("text `issuer`"))?.to_owned();
        strip(&mut document);
        document.sort_all_objects();
        Ok(Self { bytes, incarnation, revision, issuer, public: document.to_string() })
    }
}

/// Takes out private halves in either form, wherever they stand.
fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !matches!(name.as_str(), PLAIN | SEALED));
            members.values_mut().for_each(strip);
        }
        Value::Array(elements) => elements.iter_mut().for_each(strip),
        _ => {}
    }
}

/// The member that holds a private half in plain text.
const PLAIN: &str = "private";
/// The member that holds a sealed one.
const SEALED: &str = "sealed";
/// The private parameters of a JWK (RFC 7518 sections 6.2.2, 6.3.2 and 6.4.1), which may stand in no public half.
const PRIVATE_PARAMETERS: [&str; 9] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"];

/// Where the first private half in plain text stands, if there is one. Reads the text once, whatever it repeats or
/// escapes, and keeps none of its values.
fn find_private_half(text: &[u8]) -> Result<Option<String>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let mut found = None;
    Search { place: String::new(), found: &mut found }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

struct Search<'f> {
    place: String,
    found: &'f mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let (mut is_jwk, mut parameter) = (false, None);
        while let Some(name) = members.next_key::<Name<'de>>()? {
            let name = name.0;
            let shown = shown(&name);
            let place =
                if self.place.is_empty() { shown.to_owned() } else { format!("{}.{shown}", self.place) };
            is_jwk |= name == "kty";
            if name == PLAIN {
                self.found.get_or_insert_with(|| place.clone());
            } else if PRIVATE_PARAMETERS.contains(&&*name) {
                parameter.get_or_insert_with(|| place.clone());
            }
            members.next_value_seed(Search { place, found: self.found })?;
        }
        if is_jwk && self.found.is_none() {
            *self.found = parameter;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let mut position = 0_usize;
        loop {
            let place = format!("{}[{position}]", self.place);
            if elements.next_element_seed(Search { place, found: self.found })?.is_none() {
                return Ok(());
            }
            position += 1;
        }
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A name as messages show it: whatever is there in place of one may be a key.
fn shown(name: &str) -> &str {
    let is_plain =
        name.len() <= 32 && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_plain { name } else { "?" }
}

/// A member's name, borrowed where it has no escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> de::Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(name: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_borrowed_str<E: de::Error>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        name.deserialize_str(Take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &str = "canary-c4f1";

    fn ring(keys: &str, more: &str) -> String {
        format!(
            r#"{{"format":1,"issuer":"https://i.example","incarnation":{{"number":2,"id":"x"}},"revision":41,"keys":[{keys}]{more}}}"#
        )
    }

    fn judged(text: &str) -> Result<String, Unfit> {
        Document::of(&Entries::single("keyring.json", text)).map(|document| document.public)
    }

    #[test]
    fn a_sealed_ring_is_taken_as_it_is_and_told_without_its_private_halves() {
        let text = ring(
            r#"{"sealed":"eyJ","kid":"a","public":{"x":"1","kty":"OKP"}}"#,
            r#","ring_key":{"sealed":"eyK","kid":"r"}"#,
        );
        let entries = Entries::single("whatever", text.as_str());
        let document = Document::of(&entries).expect("it is sealed");
        assert_eq!((document.incarnation, document.revision), (2, 41));
        assert_eq!((document.issuer.as_str(), document.bytes), ("https://i.example", text.as_bytes()));
        assert_eq!(
            document.public,
            r#"{"format":1,"incarnation":{"id":"x","number":2},"issuer":"https://i.example","keys":[{"kid":"a","public":{"kty":"OKP","x":"1"}}],"revision":41,"ring_key":{"kid":"r"}}"#
        );
    }

    #[test]
    fn a_private_half_is_found_wherever_and_however_it_is_written() {
        let private = format!(r#""private":{{"kty":"OKP","d":"{CANARY}"}}"#);
        for (text, place) in [
            (ring(&format!("{{{private}}}"), ""), "keys[0].private"),
            (ring(&format!(r#"{{"sealed":"eyJ"}},{{{private},"sealed":"eyJ"}}"#), ""), "keys[1].private"),
            (ring("", &format!(r#","ring_key":{{{private}}}"#)), "ring_key.private"),
            (ring("", &format!(r#","later":[[{{"deep":{{{private}}}}}]]"#)), "later[0][0].deep.private"),
            // Told twice, the second time without: which one counts must not be a matter of taste.
            (ring("", &format!(r#","ring_key":{{{private}}},"ring_key":{{}}"#)), "ring_key.private"),
            (ring(&format!(r#"{{"\u0070rivate":"{CANARY}"}}"#), ""), "keys[0].private"),
            (ring(r#"{"private":null}"#, ""), "keys[0].private"),
            (ring(&format!(r#"{{"{CANARY} {CANARY}":{{{private}}}}}"#), ""), "keys[0].?.private"),
            (ring(&format!(r#"{{"public":{{"d":"{CANARY}","kty":"OKP"}}}}"#), ""), "keys[0].public.d"),
            (format!(r#"{{"keys":[{{"kty":"RSA","p":"{CANARY}"}}]}}"#), "keys[0].p"),
            (format!(r#"{{"kty":"oct","k":"{CANARY}"}}"#), "k"),
            (format!("\u{feff}{{{private}}}"), "private"),
        ] {
            let refused = judged(&text).expect_err(&text);
            assert_eq!(refused, Unfit::Unsealed(place.to_owned()), "{text}");
            assert!(!refused.to_string().contains(CANARY));
        }
    }

    #[test]
    fn what_is_no_ring_document_is_refused_and_not_repeated() {
        let bare = format!("-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n");
        let twice = format!("{}{}", ring("", ""), ring("", ""));
        for text in ["", "null", "[]", "{", CANARY, &bare, &twice, "\"text\"", &"[".repeat(100_000)] {
            let refused = judged(text).expect_err("no document");
            assert_eq!(refused, Unfit::NoDocument, "{text:.40}");
            assert!(!refused.to_string().contains(CANARY));
        }
        for (text, lacks) in [
            ("{}", "format"),
            (r#"{"format":1}"#, "keys"),
            (r#"{"format":"1","keys":[]}"#, "format"),
            (r#"{"format":1,"keys":[]}"#, "incarnation"),
            (r#"{"format":1,"keys":[],"incarnation":{"number":1}}"#, "revision"),
            (r#"{"format":1,"keys":[],"incarnation":{"number":1},"revision":1e3}"#, "revision"),
            (
                r#"{"format":1,"keys":[],"incarnation":{"number":1},"revision":9223372036854775808}"#,
                "revision",
            ),
            (r#"{"format":1,"keys":[],"incarnation":{"number":1},"revision":1}"#, "issuer"),
        ] {
            let refused = judged(text).expect_err(text).to_string();
            assert!(refused.contains("has no") && refused.contains(lacks), "{text}: {refused}");
        }
    }

    #[test]
    fn several_entries_or_none_are_refused_by_their_number() {
        assert_eq!(Document::of(&Entries::new()).expect_err("none"), Unfit::NotOne(0));
        let mut two = Entries::single("keyring.json", ring("", ""));
        two.insert("current.pem", CANARY);
        assert_eq!(Document::of(&two).expect_err("two"), Unfit::NotOne(2));
    }

    #[test]
    fn what_may_stand_in_a_public_half_is_no_private_one() {
        let public = r#"{"public":{"kty":"RSA","n":"1","e":"AQAB","kid":"d"},"d":1}"#;
        judged(&ring(public, r#","rotation":{"k":2}"#)).expect("no private half");
    }
}
