//! One event as one line of NDJSON, byte for byte.
//!
//! ```text
//! {"seq":7,"at":"2026-11-30T01:02:03.123456Z","kind":"key.published","actor":"uid:0","issuer":"https://…",
//!  "payload":{"kid":"…"},"prev_hash":"…64 hex…","hash":"…64 hex…"}
//! └───────────────── what is hashed, after the 32 bytes of prev_hash ────────────┘
//! ```
//! The hash is over text, not over values, so that nobody needs our JSON writer to check it: cut the line before
//! `,"hash":`. The same bytes must come out of the row again, which is why the columns hold text and why a line that is
//! written in any other way, however equal its values, is refused.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::draft::is_moment;

/// An event as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its number: 1 for the first, and no number is ever left out.
    pub seq: i64,
    /// When, by the database's clock, as `2026-11-30T01:02:03.123456Z`. Never before the event that went before.
    pub at: String,
    /// What happened, dotted, such as `key.published`.
    pub kind: String,
    /// Who did it.
    pub actor: String,
    /// Whose ring it concerns.
    pub issuer: String,
    /// More of it, as the text of a JSON object.
    pub payload: String,
    /// The hash of the event before; of the first, 32 zero bytes.
    pub prev_hash: Hash,
    /// SHA-256 over `prev_hash` and the line as far as `prev_hash` stands in it.
    pub hash: Hash,
}

impl Event {
    /// The line, without its end.
    pub fn line(&self) -> String {
        format!("{},\"hash\":\"{}\"}}", self.hashed_text(), self.hash)
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// It is not an event, or is written in another way than [`Event::line`] writes it.
    pub fn parse(line: &[u8]) -> Result<Self, NotALine> {
        let text = std::str::from_utf8(line).map_err(|_| NotALine("it is not UTF-8".to_owned()))?;
        let written: Written<'_> = serde_json::from_str(text).map_err(|error| NotALine(error.to_string()))?;
        let hash = |member: &str, text: &str| {
            text.parse::<Hash>().map_err(|_| NotALine(format!("{member} is not 64 lower-case hex digits")))
        };
        let event = Self {
            seq: written.seq,
            prev_hash: hash("prev_hash", &written.prev_hash)?,
            hash: hash("hash", &written.hash)?,
            at: written.at,
            kind: written.kind,
            actor: written.actor,
            issuer: written.issuer,
            payload: written.payload.get().to_owned(),
        };
        if event.seq < 1 {
            return Err(NotALine(format!("seq is {}, and the first event is 1", event.seq)));
        }
        if !is_moment(&event.at) {
            return Err(NotALine("at is not written as 2026-11-30T01:02:03.123456Z".to_owned()));
        }
        if !event.payload.starts_with('{') {
            return Err(NotALine("payload is not an object".to_owned()));
        }
        // Blank space within the payload is as it was hashed, but one event is one line.
        if event.line() != text || text.contains(['\n', '\r']) {
            return Err(NotALine(OTHERWISE.to_owned()));
        }
        Ok(event)
    }

    /// What the hash must be.
    pub fn computed_hash(&self) -> Hash {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.prev_hash.0);
        context.update(self.hashed_text().as_bytes());
        Hash::from_slice(context.finish().as_ref()).unwrap_or(Hash::ZERO)
    }

    fn hashed_text(&self) -> String {
        let middle = middle(&self.kind, &self.actor, &self.issuer, &self.payload);
        format!(
            "{{\"seq\":{},\"at\":{},{middle},\"prev_hash\":\"{}\"",
            self.seq,
            quoted(&self.at),
            self.prev_hash
        )
    }
}

/// The members that a writer chooses, as they stand in the line: the database adds number, time and hashes around them.
pub(super) fn middle(kind: &str, actor: &str, issuer: &str, payload: &str) -> String {
    format!(
        "\"kind\":{},\"actor\":{},\"issuer\":{},\"payload\":{payload}",
        quoted(kind),
        quoted(actor),
        quoted(issuer)
    )
}

/// A JSON string: escaped are the quotation mark, the backslash and the control characters below U+0020 alone, in their
/// short forms where there are some (RFC 8259 section 7).
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Thirty-two bytes of SHA-256, written as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// What the first event is chained to.
    pub const ZERO: Self = Self([0; 32]);

    /// The hash that `bytes` are, if they are as many as one has.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Not 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 64 lower-case hex digits")]
pub struct NotAHash;

impl FromStr for Hash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let bytes = text.as_bytes();
        let (pairs, rest) = bytes.as_chunks::<2>();
        let mut hash = [0; 32];
        if !rest.is_empty() || pairs.len() != hash.len() {
            return Err(NotAHash);
        }
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(hash))
    }
}

/// The value of one lower-case hex digit.
pub(super) fn nibble(digit: u8) -> Result<u8, NotAHash> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NotAHash),
    }
}

/// Why a line is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotALine(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    seq: i64,
    at: String,
    kind: String,
    actor: String,
    issuer: String,
    #[serde(borrow)]
    payload: &'a RawValue,
    prev_hash: String,
    hash: String,
}

const OTHERWISE: &str =
    "its members are there, but not as the log writes them: other order, blanks or escapes";

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn event() -> Event {
        let mut event = Event {
            seq: 1,
            at: "2026-11-30T01:02:03.123456Z".to_owned(),
            kind: "ring.created".to_owned(),
            actor: "a \"b\"\\\n\u{1}\u{7f}é€😀</>".to_owned(),
            issuer: "https://oidc.example".to_owned(),
            payload: r#"{"a":1,"b":{}}"#.to_owned(),
            prev_hash: Hash::ZERO,
            hash: Hash::ZERO,
        };
        event.hash = event.computed_hash();
        event
    }

    #[test]
    fn a_line_is_read_as_it_was_written_and_in_no_other_form() {
        let event = event();
        let line = event.line();
        assert!(line.contains(r#""actor":"a \"b\"\\\n\u0001"#), "{line}");
        assert!(line.contains("\u{7f}é€😀</>\",\"issuer\""), "{line}");
        assert_eq!(Event::parse(line.as_bytes()), Ok(event));
        let others = [
            line.replace(":1,\"at\"", ": 1,\"at\""),
            line.replace("\\u0001", "\\u0001 ").replace("\\n", "\\u000a"),
            line.replace("é", "\\u00e9"),
            line.replace("\"seq\":1", "\"seq\":1,\"seq\":1"),
            line.replace("\"seq\":1,", ""),
            line.replace("\"seq\":1", "\"seq\":1.0"),
            line.replace("\"seq\":1", "\"seq\":0"),
            line.replace("\"seq\":1", "\"seq\":99999999999999999999"),
            line.replace("{\"a\":1,\"b\":{}}", "[]"),
            line.replace("\"prev_hash\":\"0", "\"prev_hash\":\""),
            line.replace("01:02:03.123456Z", "01:02:03Z"),
            line.to_uppercase(),
            line.replace("{\"a\":1", "{\"a\":\n1"),
            format!("{line}\r"),
            format!(" {line}"),
            format!("{line}{line}"),
            line[..line.len() - 1].to_owned(),
            format!("{},\"more\":1}}", &line[..line.len() - 1]),
            String::new(),
            "null".to_owned(),
            "[".repeat(100_000),
        ];
        for other in others {
            assert!(Event::parse(other.as_bytes()).is_err(), "{other:.200}");
        }
        assert!(Event::parse(b"\xff").is_err());
    }

    #[test]
    fn every_member_is_under_the_hash() {
        let good = event();
        let changed: [fn(&mut Event); 7] = [
            |event| event.seq = 2,
            |event| event.at.replace_range(..4, "2027"),
            |event| event.kind.push('x'),
            |event| event.actor.push(' '),
            |event| event.issuer.push('/'),
            |event| event.payload = "{}".to_owned(),
            |event| event.prev_hash = event.hash,
        ];
        for change in changed {
            let mut event = good.clone();
            change(&mut event);
            assert_ne!(event.computed_hash(), good.hash, "{event:?}");
        }
    }

    #[test]
    fn a_hash_is_sixty_four_small_hex_digits() {
        let text = "00ff0123456789abcdef".to_owned() + &"0".repeat(44);
        assert_eq!(text.parse::<Hash>().map(|hash| hash.to_string()), Ok(text.clone()));
        for bad in [&text[1..], &text.to_uppercase(), &format!("{text}00"), "", &"é".repeat(32)] {
            assert_eq!(bad.parse::<Hash>(), Err(NotAHash), "{bad}");
        }
        assert_eq!(Hash::from_slice(&[0; 31]), None);
    }
}
