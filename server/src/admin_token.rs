//! The bearer tokens of the admin API as text: what they look like, and what is kept of one.
//!
//! ```text
//! oneseal_admin_ 43 letters of base64url _ 8 hexadecimal digits
//!    a prefix       32 random bytes          the beginning of SHA-256 over all before it
//! ```
//! The form is fixed so that secret scanners can find a leaked token by the prefix and tell it from a look-alike by the
//! checksum (the regular expression is in `docs/http.md`), and so that nobody can configure the hash of a password:
//! what does not have this form is refused before it is hashed. A hash shows nothing of the bits behind it; the form is
//! what promises 256 of them, as long as the token is one that [`Token::generate`] made.
//!
//! The server keeps SHA-256 of the whole text. It needs no salt and no slow hash, which are for guessable secrets.

mod scope;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_keystore::Digest;
use secrecy::{ExposeSecret, SecretString};

pub(crate) use scope::{Scope, Scopes};

/// A token in clear. `Debug` does not show it.
#[derive(Debug)]
pub(crate) struct Token(SecretString);

impl Token {
    /// A new one of 256 random bits.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn generate() -> Result<Self, aws_lc_rs::error::Unspecified> {
        let mut random = [0; RANDOM_BYTES];
        rand::fill(&mut random)?;
        let body = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let checksum = checksum(body.as_bytes()).map(char::from);
        Ok(Self(format!("{body}_{}", String::from_iter(checksum)).into()))
    }

    /// Takes `text` if it has the form of a token.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        digest_of(text.as_bytes()).map(|_| Self(text.into()))
    }

    /// What a configuration keeps of it.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.expose().as_bytes())
    }

    /// The text itself: for the one who asked for it, and for the server it is sent to.
    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// SHA-256 of a text that has the form of a token; `None` for any other, without hashing more than a token's length.
pub(crate) fn digest_of(text: &[u8]) -> Option<Digest> {
    let is_sized = text.len() == LEN && text.starts_with(PREFIX.as_bytes());
    let (body, end) = text.split_at_checked(LEN - CHECKSUM_LEN - 1).filter(|_| is_sized)?;
    let is_whole = is_random_part(&body[PREFIX.len()..]) && end[0] == b'_';
    (is_whole && end[1..] == checksum(body)).then(|| Digest::of(text))
}

/// Whether a token, or most of one, stands somewhere in `text`: such a text is not repeated.
pub(crate) fn is_in(text: &str) -> bool {
    text.match_indices(PREFIX).any(|(at, _)| {
        let rest = &text.as_bytes()[at + PREFIX.len()..];
        rest.get(..SUSPICIOUS_LEN).is_some_and(is_random_part)
    })
}

fn is_random_part(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Without a text of its own: each request with a token comes by here.
fn checksum(body: &[u8]) -> [u8; CHECKSUM_LEN] {
    let digest = Digest::of(body);
    std::array::from_fn(|at| {
        let byte = digest.as_bytes()[at / 2];
        HEX[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 0xf })]
    })
}

/// How every token begins.
pub(crate) const PREFIX: &str = "oneseal_admin_";
const RANDOM_BYTES: usize = 32;
/// 32 bytes in base64url without padding.
const RANDOM_LEN: usize = 43;
const CHECKSUM_LEN: usize = 8;
const HEX: &[u8; 16] = b"0123456789abcdef";
const LEN: usize = PREFIX.len() + RANDOM_LEN + 1 + CHECKSUM_LEN;
/// So much of a token that no name or path of a file looks like it.
const SUSPICIOUS_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::generate().expect("random bytes")
    }

    #[test]
    fn a_new_token_has_the_form_that_scanners_look_for_and_differs_from_the_next() {
        let (one, other) = (token(), token());
        let text = one.expose();
        assert_eq!(text.len(), LEN);
        assert!(text.starts_with(PREFIX) && is_in(text));
        assert_ne!(text, other.expose());
        assert_eq!(digest_of(text.as_bytes()), Some(one.digest()));
        assert_eq!(Token::parse(text).expect("a token").digest(), Digest::of(text.as_bytes()));
        assert!(!format!("{one:?}").contains(&text[PREFIX.len()..]));
    }

    #[test]
    fn the_form_is_golden() {
        let body = format!("{PREFIX}{}", "A".repeat(RANDOM_LEN));
        let text = format!("{body}_{}", String::from_iter(checksum(body.as_bytes()).map(char::from)));
        assert!(Token::parse(&text).is_some());
        assert_eq!(text, "oneseal_admin_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_aebf5954");
    }

    #[test]
    fn what_is_not_one_is_not_hashed_whatever_it_is() {
        let good = token();
        let good = good.expose();
        let upper = good.to_ascii_uppercase();
        let swapped = format!("{}{}", &good[..LEN - 1], if good.ends_with('0') { '1' } else { '0' });
        let space = good.replacen('_', " ", 1);
        let more = format!("{good}0");
        let huge = "x".repeat(1 << 20);
        let umlaut = format!("{PREFIX}{}_00000000", "ä".repeat(21) + "a");
        let passwords = ["", "password", PREFIX, &good[..LEN - 1], &good[1..], "é"];
        let odd = [&upper, &swapped, &space, &more, &huge, &umlaut].map(String::as_str);
        for text in passwords.iter().chain(&odd) {
            assert_eq!(digest_of(text.as_bytes()), None, "{}", &text[..text.len().min(80)]);
            assert!(Token::parse(text).is_none());
        }
        assert_eq!(digest_of(&[0xff; LEN]), None);
    }

    #[test]
    fn a_token_is_known_inside_other_words_and_a_file_of_one_is_not_taken_for_it() {
        let good = token();
        let cut = &good.expose()[..LEN - 12];
        for text in [good.expose(), cut, &format!("x={}\n", good.expose()), &format!("{PREFIX}{cut}")] {
            assert!(is_in(text));
        }
        for text in ["", PREFIX, "/run/secrets/oneseal_admin_token", "oneseal_admin_token_of_the_ci_runner"] {
            assert!(!is_in(text), "{text}");
        }
    }
}
