//! The ring's row in Postgres. Yet to come is the row; what may go into it is judged already.

mod document;

use crate::{Description, Entries, ErrorKind, ProviderError};
use document::{Document, Unfit};

/// Whether `entries` could be written, as far as that can be told without asking the database: one ring document, not
/// too large, and no private half in plain text. `location` is what an error names.
///
/// # Errors
/// `Unsealed`, `Malformed` or `TooLarge`.
pub fn check(location: &str, entries: &Entries) -> Result<(), ProviderError> {
    judge(location, entries).map(drop)
}

fn judge<'e>(location: &str, entries: &'e Entries) -> Result<Document<'e>, ProviderError> {
    let (size, limit) = (entries.total_bytes(), Description::DEFAULT_MAX_BYTES);
    if size > limit {
        let detail = format!("the record has {size} bytes, the limit is {limit}; nothing was sent");
        return Err(ProviderError::new(ErrorKind::TooLarge, location, detail));
    }
    Document::of(entries).map_err(|unfit| ProviderError::new(unfit.kind(), location, unfit.to_string()))
}

impl Unfit {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unsealed(_) => ErrorKind::Unsealed,
            Self::NoDocument | Self::NotOne(_) | Self::Lacks(_) => ErrorKind::Malformed,
        }
    }
}
