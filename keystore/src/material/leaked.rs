//! Keys whose private half everybody has: those of RFCs, test suites and broken generators.
//!
//! They find their way into production by copying an example, and nothing about their numbers is wrong. The table
//! holds public thumbprints alone, each with the place where the private half is published. A relying party is not
//! asked: it must verify with what its issuer publishes, or not trust that issuer.

use crate::jwk::KeyId;

/// Where the private half of the key with this thumbprint is published.
pub(super) fn published_in(thumbprint: &KeyId) -> Option<&'static str> {
    entries().find(|(known, _)| *known == thumbprint.as_str()).map(|(_, source)| source)
}

fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

/// A line a key: thumbprint, space, source. Comments begin with `#`.
const TABLE: &str = include_str!("leaked.txt");

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    #[test]
    fn the_table_is_sorted_unique_and_well_formed() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.count(), entries().count(), "a line without a source");
        assert!(entries().is_sorted_by(|(one, _), (next, _)| one < next), "not sorted, or one twice");
        for (thumbprint, source) in entries() {
            assert_eq!(URL_SAFE_NO_PAD.decode(thumbprint).unwrap().len(), 32, "{thumbprint}");
            assert!(source.trim() == source && !source.is_empty() && source.is_ascii(), "{source:?}");
        }
    }

    #[test]
    fn a_published_key_is_known_by_its_source() {
        let source = |thumbprint: &str| published_in(&KeyId::parse(thumbprint).unwrap());
        assert_eq!(source("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"), Some("RFC 8037 appendix A.1"));
        assert_eq!(source("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4"), None);
        assert_eq!(source("#"), None);
    }
}
