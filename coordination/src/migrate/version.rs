//! Which of two binaries is the older one.

use std::fmt;
use std::str::FromStr;

/// `MAJOR.MINOR.PATCH` of a binary; what follows them (`-rc.1`, `+build`) decides nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BinaryVersion {
    major: u64,
    minor: u64,
    patch: u64,
}

impl BinaryVersion {
    /// Of this binary: all crates are released together.
    ///
    /// # Panics
    /// Never: the version of a package is one.
    pub fn own() -> Self {
        env!("CARGO_PKG_VERSION").parse().expect("the version of a package")
    }
}

impl FromStr for BinaryVersion {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let numbers = text.split(['-', '+']).next().unwrap_or_default();
        let mut parts = numbers.split('.').map(str::parse);
        let mut next = || parts.next().and_then(Result::ok).ok_or(NotAVersion);
        let version = Self { major: next()?, minor: next()?, patch: next()? };
        if parts.next().is_some() { Err(NotAVersion) } else { Ok(version) }
    }
}

impl fmt::Display for BinaryVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A text is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no version such as 1.2.3")]
pub struct NotAVersion;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let version = |text: &str| text.parse::<BinaryVersion>();
        assert!(version("0.10.0").unwrap() > version("0.9.9").unwrap());
        assert_eq!(version("1.2.3-rc.1+b").unwrap().to_string(), "1.2.3");
        for text in ["", "1", "1.2", "1.2.x", "1.2.3.4", "-1.2.3", "v1.2.3"] {
            assert_eq!(version(text), Err(NotAVersion), "{text}");
        }
    }
}
