//! Where a reader stands: a number, and enough of its hash to notice that it is another log.
//!
//! A number alone would go on silently in a database that was restored to an earlier day and has since written other
//! events under the same numbers. Four bytes of the hash tell the two apart.

use std::fmt;
use std::str::FromStr;

use super::line::{Hash, nibble};

/// A place in a log: after the event `seq`, whose hash is `hash`. The place before the first has `seq` 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of the event that was last read.
    pub seq: i64,
    /// Its hash.
    pub hash: Hash,
}

impl Position {
    /// Before the first event that there ever was.
    pub const START: Self = Self { seq: 0, hash: Hash::ZERO };

    /// The text by which a reader comes back: `<seq>-<8 hex>`.
    pub fn cursor(&self) -> Cursor {
        let [a, b, c, d, ..] = *self.hash.as_bytes();
        Cursor { seq: self.seq, check: Some([a, b, c, d]) }
    }
}

/// What a reader says of where it stands: `41-9f86d081`, or the number alone, which is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    seq: i64,
    check: Option<[u8; 4]>,
}

impl Cursor {
    /// After the event `seq`, whatever it was.
    pub fn after(seq: i64) -> Self {
        Self { seq, check: None }
    }

    /// The number.
    pub fn seq(&self) -> i64 {
        self.seq
    }

    /// Whether it stands at an event with this hash.
    pub fn is_at(&self, hash: &Hash) -> bool {
        self.check.is_none_or(|check| hash.as_bytes().starts_with(&check))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seq)?;
        let Some(check) = self.check else { return Ok(()) };
        f.write_str("-")?;
        check.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Not a cursor of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a place in the event log is written as 41-9f86d081, the id of the last event that was read, or as 41"
)]
pub struct NotACursor;

impl FromStr for Cursor {
    type Err = NotACursor;

    /// In one form alone: no sign, no zeros before the number, small hex.
    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let (number, check) = match text.split_once('-') {
            Some((number, check)) => (number, Some(check)),
            None => (text, None),
        };
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        if !is_plain || number.len() > 1 && number.starts_with('0') {
            return Err(NotACursor);
        }
        let seq = number.parse().map_err(|_| NotACursor)?;
        Ok(Self { seq, check: check.map(parse_check).transpose()? })
    }
}

fn parse_check(text: &str) -> Result<[u8; 4], NotACursor> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut check = [0; 4];
    if !rest.is_empty() || pairs.len() != check.len() {
        return Err(NotACursor);
    }
    for (byte, [high, low]) in check.iter_mut().zip(pairs) {
        let digit = |digit: u8| nibble(digit).map_err(|_| NotACursor);
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_has_one_form() {
        for good in ["0", "41", "9223372036854775807", "0-00000000", "41-9f86d081"] {
            assert_eq!(good.parse::<Cursor>().map(|cursor| cursor.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "-",
            "41-",
            "-9f86d081",
            "41-9f86d08",
            "41-9f86d0811",
            "41-9F86D081",
            "41-9f86d08g",
            "041",
            "+41",
            " 41",
            "41 ",
            "4 1",
            "-1",
            "41-9f86d081-1",
            "9223372036854775808",
            "99999999999999999999999",
            "0x29",
            "41.0",
            "é-9f86d081",
            "41-ééé",
            "41\n",
            "x",
        ] {
            assert_eq!(bad.parse::<Cursor>(), Err(NotACursor), "{bad:?}");
        }
    }

    #[test]
    fn a_cursor_knows_its_event_again() {
        let hash = |first: &str| (first.to_owned() + &"0".repeat(56)).parse::<Hash>().expect("a hash");
        let position = Position { seq: 41, hash: hash("9f86d081") };
        assert_eq!(position.cursor().to_string(), "41-9f86d081");
        assert!(position.cursor().is_at(&position.hash) && !position.cursor().is_at(&hash("9f86d082")));
        assert!(Cursor::after(41).is_at(&hash("9f86d082")));
        assert_eq!(Position::START.cursor().to_string(), "0-00000000");
    }
}
