//! What a provider returns: named entries of secret bytes, and the revision that names them.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::{ExposeSecret, SecretSlice};
use uuid::Uuid;
use zeroize::Zeroize;

/// One revision of the secret, whole.
#[derive(Debug)]
#[non_exhaustive]
pub struct Record {
    /// Names this content; see [`Revision`].
    pub revision: Revision,
    /// The [`Change::id`](crate::Change::id) of the write that made it, where the backend can tell.
    pub change_id: Option<Uuid>,
    /// The secret values by name.
    pub entries: Entries,
}

impl Record {
    /// A record of `entries` at `revision`.
    pub fn new(revision: Revision, change_id: Option<Uuid>, entries: Entries) -> Self {
        Self { revision, change_id, entries }
    }
}

/// An opaque name of a record's content: equal revisions, equal content. It has no order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision(String);

impl Revision {
    /// Wraps what the backend uses as its revision.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The backend's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A secret value: redacted in `Debug`, zeroized when dropped. [`SecretBytes::expose`] is the one door.
pub struct SecretBytes(SecretSlice<u8>);

impl SecretBytes {
    /// Takes ownership of `bytes`; they are zeroized when the value is dropped.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        if bytes.len() == bytes.capacity() {
            return Self(SecretSlice::from(bytes));
        }
        // Boxing shrinks the allocation, and the allocator may leave a copy behind: move it ourselves, wipe the old.
        let exact = bytes.as_slice().to_vec();
        bytes.zeroize();
        Self(SecretSlice::from(exact))
    }

    /// The bytes themselves. Every use of this is a place to review.
    pub fn expose(&self) -> &[u8] {
        self.0.expose_secret()
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.expose().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for SecretBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

impl From<String> for SecretBytes {
    fn from(text: String) -> Self {
        Self::new(text.into_bytes())
    }
}

impl From<&str> for SecretBytes {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({} bytes)", self.len())
    }
}

/// Secret values by name, in the order of their names. `Debug` shows names and sizes.
#[derive(Default)]
pub struct Entries {
    values: BTreeMap<String, SecretBytes>,
    unencoded: Option<&'static str>,
}

impl Entries {
    /// The name of the only value of a provider that has no names of its own: a single file, a variable.
    pub const CURRENT: &'static str = "current";
    /// The name under which a ring document is written where values have names.
    pub const KEYRING: &'static str = "keyring.json";

    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// One entry.
    pub fn single(name: impl Into<String>, value: impl Into<SecretBytes>) -> Self {
        let mut entries = Self::new();
        entries.insert(name, value);
        entries
    }

    /// Says that the store keeps every value in base64 of its own, and that these have been decoded from it: one that is
    /// base64 still was encoded twice. `how` tells whoever put it there how to give a value unencoded.
    #[must_use]
    pub fn decoded_by_store(self, how: &'static str) -> Self {
        Self { unencoded: Some(how), ..self }
    }

    /// How a value is given unencoded, where the store keeps all of them in base64 of its own.
    pub fn how_unencoded(&self) -> Option<&'static str> {
        self.unencoded
    }

    /// Adds an entry, replacing one of that name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<SecretBytes>) {
        self.values.insert(name.into(), value.into());
    }

    /// The value called `name`.
    pub fn get(&self, name: &str) -> Option<&SecretBytes> {
        self.values.get(name)
    }

    /// Name and value of each entry, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretBytes)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Names and values together, in bytes: what a backend's limit is compared with.
    pub fn total_bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.values.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_names_and_sizes_but_no_values() {
        let entries = Entries::single("current.pem", "canary-value");
        let shown = format!("{entries:?}");
        assert!(shown.contains("current.pem") && shown.contains("12 bytes"), "{shown}");
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn spare_capacity_is_dropped() {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(b"value");
        assert_eq!(SecretBytes::new(bytes).expose(), b"value");
    }

    #[test]
    fn total_counts_names_and_values() {
        let mut entries = Entries::single("a", "1234");
        entries.insert("bc", "5");
        assert_eq!(entries.total_bytes(), 8);
    }
}
