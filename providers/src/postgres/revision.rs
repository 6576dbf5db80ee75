//! The revision as text: `incarnation.revision.digest`, the digest being SHA-256 of the stored bytes in hex.

use crate::Revision;

/// What a conditional update compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowRevision {
    pub(super) incarnation: i64,
    pub(super) revision: i64,
    pub(super) digest: String,
}

impl RowRevision {
    /// Back from its text. A text that is none of ours names no row that there could be.
    pub(super) fn parse(revision: &Revision) -> Option<Self> {
        let mut parts = revision.as_str().splitn(3, '.');
        let mut number = || parts.next()?.parse().ok();
        let (incarnation, revision) = (number()?, number()?);
        Some(Self { incarnation, revision, digest: parts.next()?.to_owned() })
    }
}

impl From<RowRevision> for Revision {
    fn from(row: RowRevision) -> Self {
        Self::new(format!("{}.{}.{}", row.incarnation, row.revision, row.digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_numbers_round_trip_and_other_texts_name_no_row() {
        let row = RowRevision { incarnation: 2, revision: 41, digest: "ab".to_owned() };
        let text = Revision::from(row.clone());
        assert_eq!(text.as_str(), "2.41.ab");
        assert_eq!(RowRevision::parse(&text), Some(row));
        for text in ["", "never written", "1.2", "1.x.ab", "9223372036854775808.1.ab"] {
            assert_eq!(RowRevision::parse(&Revision::new(text)), None, "{text}");
        }
    }
}
