//! What a token says: the parts that cannot be swapped for one another, and what may stand beside them.
//!
//! Each part is checked once, when it is made, against the strictest relying party that has to read it. Minting
//! takes the checked types, so a subject can never end up as an audience and a limit can never be forgotten.

pub(crate) mod set;

use std::fmt;
use std::time::Duration;

pub use set::ExtraClaims;

/// The `sub` of a token: who the workload is. 1–127 bytes without white space and control characters.
///
/// 127 bytes is what Google's workload identity federation takes for `google.subject`, the smallest limit among
/// common relying parties. It is compared code point by code point, never normalised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject(String);

impl Subject {
    /// The longest, in bytes.
    pub const MAX_LEN: usize = 127;

    /// Checks `text` and keeps it byte for byte.
    ///
    /// # Errors
    /// [`ClaimError::Length`] and [`ClaimError::Characters`].
    pub fn parse(text: impl Into<String>) -> Result<Self, ClaimError> {
        word("sub", text.into(), Self::MAX_LEN).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The `aud` of a token: the one relying party it is for. 1–255 bytes without white space and control characters.
///
/// A token has exactly one, written as a string, since Entra, PyPI and others refuse arrays. 255 bytes is the limit
/// of an AWS client id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Audience(String);

impl Audience {
    /// The longest, in bytes.
    pub const MAX_LEN: usize = 255;

    /// Checks `text` and keeps it byte for byte.
    ///
    /// # Errors
    /// [`ClaimError::Length`] and [`ClaimError::Characters`].
    pub fn parse(text: impl Into<String>) -> Result<Self, ClaimError> {
        word("aud", text.into(), Self::MAX_LEN).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How long a token lives, `exp − iat`: 60 s to 24 h, in whole seconds (fractions are dropped).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenLifetime(u64);

impl TokenLifetime {
    /// One minute: a shorter life is within the clock differences that relying parties see.
    pub const MIN: Self = Self(60);
    /// One day: Google refuses an older `iat`, Entra a life above 25 h.
    pub const MAX: Self = Self(24 * 3600);
    /// What a rule gives that names no life.
    pub(crate) const HOUR: Self = Self(3600);

    /// Checks the bounds.
    ///
    /// # Errors
    /// [`ClaimError::Lifetime`].
    pub fn new(life: Duration) -> Result<Self, ClaimError> {
        let life = Self(life.as_secs());
        if life < Self::MIN || life > Self::MAX {
            return Err(ClaimError::Lifetime { asked_s: life.0 });
        }
        Ok(life)
    }

    /// In seconds.
    pub fn as_secs(self) -> u64 {
        self.0
    }

    /// As a span.
    pub fn as_duration(self) -> Duration {
        Duration::from_secs(self.0)
    }

    /// The shorter of this and `limit_s` seconds, which a ring may set below a minute.
    pub(crate) fn at_most(self, limit_s: u64) -> Self {
        Self(self.0.min(limit_s))
    }
}

impl fmt::Display for TokenLifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

/// Why a part of a token was refused. Quotes names, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Empty, or longer than relying parties take.
    #[error("`{claim}` is {len} bytes long; it must have 1 to {max}")]
    Length {
        /// Which claim.
        claim: &'static str,
        /// How long it is.
        len: usize,
        /// How long it may be.
        max: usize,
    },
    /// White space or control characters.
    #[error("`{claim}` holds white space or a control character; leave it out or encode it")]
    Characters {
        /// Which claim.
        claim: &'static str,
    },
    /// A life out of bounds.
    #[error("a token cannot live {asked_s} s; ask for {min} to {max}", min = TokenLifetime::MIN, max = TokenLifetime::MAX)]
    Lifetime {
        /// What was asked for.
        asked_s: u64,
    },
    /// A name that only the issuer writes.
    #[error("the claim `{0}` is the issuer's own and cannot be set; choose another name")]
    Reserved(String),
    /// A name that is empty, longer than 256 bytes, or has control characters.
    #[error("a claim's name must have 1 to 256 bytes and no control characters")]
    Name,
    /// Given twice, by the workload and by the request, or in two spellings.
    #[error("the claim `{0}` is given twice; names that differ in case alone count as one")]
    Twice(String),
    /// A number that not every reader would keep.
    #[error("the claim `{0}` holds a number beyond 2^53 - 1, which readers round; write it as a string")]
    Number(String),
    /// Too large together.
    #[error("the extra claims take {len} bytes of JSON; the limit is {max}", max = ExtraClaims::MAX_LEN)]
    TooLarge {
        /// Their length as JSON.
        len: usize,
    },
    /// Too deeply nested.
    #[error("the claim `{0}` is nested deeper than {max} levels", max = ExtraClaims::MAX_DEPTH)]
    TooDeep(String),
}

fn word(claim: &'static str, text: String, max: usize) -> Result<String, ClaimError> {
    if text.is_empty() || text.len() > max {
        return Err(ClaimError::Length { claim, len: text.len(), max });
    }
    if text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        return Err(ClaimError::Characters { claim });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_1_to_127_bytes() {
        assert!(Subject::parse("a").is_ok());
        assert!(Subject::parse("a".repeat(127)).is_ok());
        assert_eq!(Subject::parse(""), Err(ClaimError::Length { claim: "sub", len: 0, max: 127 }));
        // Bytes, not characters: 64 times two bytes.
        assert_eq!(
            Subject::parse("é".repeat(64)),
            Err(ClaimError::Length { claim: "sub", len: 128, max: 127 })
        );
    }

    #[test]
    fn white_space_and_control_characters_are_refused_everywhere() {
        for text in ["a b", " a", "a\n", "a\0b", "a\u{7f}", "a\u{85}", "a\u{2003}b", "\t"] {
            assert_eq!(Subject::parse(text), Err(ClaimError::Characters { claim: "sub" }), "{text:?}");
            assert_eq!(Audience::parse(text), Err(ClaimError::Characters { claim: "aud" }), "{text:?}");
        }
    }

    #[test]
    fn audiences_of_the_clouds_are_taken() {
        let gcp = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x";
        for text in ["sts.amazonaws.com", "api://AzureADTokenExchange", gcp, "https://vault.example:8200/v1"]
        {
            assert_eq!(Audience::parse(text).expect("good").as_str(), text);
        }
    }

    #[test]
    fn composed_and_decomposed_letters_stay_different() {
        assert_ne!(Subject::parse("caf\u{e9}"), Subject::parse("cafe\u{301}"));
    }

    #[test]
    fn a_life_has_bounds_and_drops_fractions() {
        assert_eq!(TokenLifetime::new(Duration::from_millis(60_900)).map(TokenLifetime::as_secs), Ok(60));
        assert_eq!(TokenLifetime::new(Duration::from_secs(59)), Err(ClaimError::Lifetime { asked_s: 59 }));
        assert!(TokenLifetime::new(Duration::from_secs(86_400)).is_ok());
        assert!(TokenLifetime::new(Duration::from_secs(86_401)).is_err());
    }
}
