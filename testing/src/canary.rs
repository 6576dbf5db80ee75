//! A secret to search for: in a log, an error, a `Debug` text, a response, in whatever form it may have got there.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use uuid::Uuid;

/// Secret bytes and every form in which they could show.
///
/// The bytes are searched for in pieces of [`PIECE`] bytes, so that a truncated or wrapped text is found out too.
///
/// ```
/// use oneseal_testing::Canary;
///
/// let canary = Canary::random();
/// canary.assert_absent("the log", "key loaded, 1704 bytes");
/// assert!(canary.found_in(&format!("{:?}", canary.text().as_bytes())).is_some());
/// ```
pub struct Canary {
    bytes: Vec<u8>,
    forms: Vec<Form>,
}

/// How many bytes at a time are searched for: no chance hit, and no longer than what a careless log line shows.
pub const PIECE: usize = 16;

/// One text that would give the secret away.
#[derive(Clone, PartialEq, Eq)]
pub struct Form {
    /// What form it is, such as `hex` or `base64`.
    pub name: &'static str,
    /// The text itself.
    pub text: String,
}

impl Canary {
    /// A new secret of 64 printable characters, never the same twice.
    pub fn random() -> Self {
        let text = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self::of(text.as_bytes())
    }

    /// A secret that exists, such as the private scalar of a key. Give the secret part alone: PEM armour or DER
    /// headers are in public places too.
    ///
    /// # Panics
    /// If there are fewer than [`PIECE`] bytes: too few to be told from chance.
    pub fn of(secret: &[u8]) -> Self {
        assert!(secret.len() >= PIECE, "a canary needs at least {PIECE} bytes");
        let mut forms = vec![Form { name: "decimal number", text: decimal(secret) }];
        let last = secret.len() - PIECE;
        for start in (0..last).step_by(PIECE).chain([last]) {
            forms.extend(forms_of(&secret[start..start + PIECE]));
        }
        Self { bytes: secret.to_vec(), forms }
    }

    /// The secret, to be put where secrets go.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The secret as text.
    ///
    /// # Panics
    /// If it was made from bytes that are not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("a random canary is text")
    }

    /// Every text that would give it away.
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// The form in which it stands in `text`, if it does. White space and escaped newlines within are seen through.
    pub fn found_in(&self, text: &str) -> Option<&'static str> {
        let joined: String = text.replace("\\n", "").replace("\\r", "").split_whitespace().collect();
        let is_shown = |form: &&Form| {
            let form_joined: String = form.text.split_whitespace().collect();
            text.contains(&form.text) || joined.contains(&form_joined)
        };
        self.forms.iter().find(is_shown).map(|form| form.name)
    }

    /// Asserts that the secret is nowhere in `text`. `place` says what the text is; the text is not repeated.
    ///
    /// # Panics
    /// If it is, naming place and form.
    #[track_caller]
    pub fn assert_absent(&self, place: &str, text: &str) {
        if let Some(form) = self.found_in(text) {
            panic!("the secret shows in {place}, as {form}");
        }
    }
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Canary({} bytes)", self.bytes.len())
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Form({})", self.name)
    }
}

fn forms_of(piece: &[u8]) -> Vec<Form> {
    let form = |name, text| Form { name, text };
    let hex =
        |separator: &str| piece.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(separator);
    let list = |separator: &str, byte: &dyn Fn(&u8) -> String| {
        piece.iter().map(byte).collect::<Vec<_>>().join(separator)
    };
    let mut forms = vec![
        form("hex", hex("")),
        form("hex", hex("").to_uppercase()),
        form("hex with colons", hex(":")),
        form("hex with colons", hex(":").to_uppercase()),
        form("a list of decimal bytes", list(", ", &|byte| byte.to_string())),
        form("a list of hexadecimal bytes", list(", ", &|byte| format!("{byte:02x}"))),
        form("a list of hexadecimal bytes", list(", ", &|byte| format!("{byte:#04x}"))),
        form("escaped bytes", piece.escape_ascii().to_string()),
    ];
    forms.extend(std::str::from_utf8(piece).ok().map(|text| form("plain text", text.to_owned())));
    for offset in 0..3 {
        forms.push(form("base64", base64_core(&STANDARD_NO_PAD, piece, offset)));
        forms.push(form("base64url", base64_core(&URL_SAFE_NO_PAD, piece, offset)));
    }
    forms
}

/// The characters that `piece` alone decides when it starts `offset` bytes after a multiple of three.
fn base64_core(engine: &impl Engine, piece: &[u8], offset: usize) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(piece.iter().copied()).collect();
    let encoded = engine.encode(&padded);
    let shared_with_before = [0, 2, 3][offset];
    let shared_with_after = usize::from(!padded.len().is_multiple_of(3));
    encoded[shared_with_before..encoded.len() - shared_with_after].to_owned()
}

/// The bytes as one big-endian number, as a big-integer type prints it.
fn decimal(bytes: &[u8]) -> String {
    // Base 10^9, least significant first.
    let mut digits: Vec<u64> = vec![0];
    for byte in bytes {
        let mut carry = u64::from(*byte);
        for digit in &mut digits {
            let value = *digit * 256 + carry;
            *digit = value % 1_000_000_000;
            carry = value / 1_000_000_000;
        }
        if carry > 0 {
            digits.push(carry);
        }
    }
    let (first, rest) = digits.split_last().expect("there is one digit at least");
    rest.iter().rev().fold(first.to_string(), |text, digit| format!("{text}{digit:09}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn it_is_found_in_every_form_and_alignment() {
        let canary = Canary::random();
        let secret = canary.bytes();
        let mut texts = vec![
            canary.text().to_owned(),
            format!("{secret:?}"),
            format!("{secret:#?}"),
            format!("{secret:02x?}"),
            secret.iter().map(|byte| format!("{byte:02X}")).collect(),
            secret.iter().map(|byte| format!("{byte:02x}:")).collect(),
            decimal(secret),
        ];
        for before in 0..3 {
            for after in 0..3 {
                let around = [&b"xyz"[..before], secret, &b"abc"[..after]].concat();
                let encoded = STANDARD.encode(&around);
                texts.push(format!("{}\\n{}", &encoded[..40], &encoded[40..]));
                texts.push(format!("{}\n  {}", &encoded[..17], &encoded[17..]));
            }
        }
        for text in texts {
            assert!(canary.found_in(&text).is_some(), "missed in {text}");
        }
    }

    #[test]
    fn a_part_of_it_is_found() {
        let canary = Canary::random();
        assert!(canary.found_in(&format!("key {}…", &canary.text()[..20])).is_some());
        assert!(canary.found_in(&format!("…{}", &canary.text()[48..])).is_some());
    }

    #[test]
    fn innocent_text_and_its_own_debug_do_not_hold_it() {
        let canary = Canary::random();
        canary.assert_absent("prose", "its mode is 0644; 1234567890 0123456789abcdef");
        canary.assert_absent("its own Debug", &format!("{canary:?} {:?}", canary.forms()));
    }

    #[test]
    fn a_number_is_written_as_a_number() {
        assert_eq!(decimal(&[0, 0]), "0");
        assert_eq!(decimal(&[1, 0]), "256");
        assert_eq!(decimal(&[0xff; 16]), u128::MAX.to_string());
        assert_eq!(decimal(&1_000_000_000_000_000_007_u128.to_be_bytes()), "1000000000000000007");
    }
}
