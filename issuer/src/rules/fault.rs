//! What is wrong with a part of a rule, and why a good one cannot write a token for some workload.

use oneseal_keystore::findings::Code;

use crate::claims::ClaimError;

/// A mistake in a rule, kept with it until all are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: &'static Code,
    /// In words, the part first.
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(code: &'static Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The same, found in `part` of a rule.
    pub(crate) fn in_part(self, part: &str) -> Self {
        Self { message: format!("{part}: {}", self.message), ..self }
    }
}

/// Why a rule cannot write what it has to about a workload. Names parts and placeholders, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unwritable {
    /// Nothing is known under this name.
    #[error("`{{{0}}}` is not known of this workload")]
    Missing(String),
    /// What is known is a list, an object, null, or a number without one exact text.
    #[error("`{{{0}}}` is no string, whole number or boolean")]
    NotText(String),
    /// An empty text would make two names look like one.
    #[error("`{{{0}}}` is empty")]
    Empty(String),
    /// The whole cannot stand in a token.
    #[error("{0}")]
    Claim(#[from] ClaimError),
    /// AWS would refuse the whole of it.
    #[error("as the value of an AWS session tag it {0}")]
    Tag(&'static str),
}
