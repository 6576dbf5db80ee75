//! Since which read an issuer has a key, so that those who hold the keys of several issuers under one name can tell whose a
//! key is: at whose place it stood first.
//!
//! Order is what counts, not time: each begin and each end of a read takes the next number, across all relying parties of
//! the process. A key that went away is remembered, so that nobody can take it over while its issuer's replicas disagree.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use oneseal_keystore::KeyId;

/// A place in the order of all reads of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// After all that were taken before.
    pub(crate) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::SeqCst))
    }
}

/// What the reads of one key set say of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sighting {
    /// The begin of the last good read.
    pub last_read: Moment,
    /// The key, if a read ever had it.
    pub key: Option<Seen>,
}

/// A key that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// The end of the first read that had it: at this moment at the latest it was there.
    pub since: Moment,
    /// The begin of the good read before that, if there was one: at this moment or later it was not there.
    pub lacked: Option<Moment>,
    /// Whether the last read had it.
    pub is_published: bool,
}

/// All keys that one set ever had, by RFC 7638 thumbprint.
#[derive(Debug)]
pub(crate) struct Sightings {
    last_read: Moment,
    keys: HashMap<KeyId, Seen>,
}

impl Sightings {
    /// With a good read that began then, has just ended and found `keys`.
    pub(crate) fn after(before: Option<&Self>, began: Moment, keys: impl Iterator<Item = KeyId>) -> Self {
        let (since, lacked) = (Moment::next(), before.map(|before| before.last_read));
        let mut known = before.map(|before| before.keys.clone()).unwrap_or_default();
        for seen in known.values_mut() {
            seen.is_published = false;
        }
        for key in keys {
            known.entry(key).or_insert(Seen { since, lacked, is_published: true }).is_published = true;
        }
        if known.len() > MAX_KNOWN {
            known.retain(|_, seen| seen.is_published);
        }
        Self { last_read: began, keys: known }
    }

    pub(crate) fn of(&self, key: &KeyId) -> Sighting {
        Sighting { last_read: self.last_read, key: self.keys.get(key).copied() }
    }

    pub(crate) fn last_read(&self) -> Moment {
        self.last_read
    }
}

/// Four whole sets. Beyond it only those that are published are known: who changes keys so often forgets its own alone.
const MAX_KNOWN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> KeyId {
        KeyId::parse(&format!("k{n}")).expect("good")
    }

    #[test]
    fn the_first_read_that_had_a_key_is_remembered_and_so_is_the_one_before() {
        let began = Moment::next();
        let first = Sightings::after(None, began, [key(1)].into_iter());
        let one = first.of(&key(1)).key.expect("seen");
        assert_eq!((one.lacked, one.is_published, first.of(&key(2)).key), (None, true, None));
        assert!(one.since > began);
        let second = Sightings::after(Some(&first), Moment::next(), [key(2)].into_iter());
        let two = second.of(&key(2)).key.expect("seen");
        assert_eq!(
            (two.lacked, second.of(&key(1)).key),
            (Some(began), Some(Seen { is_published: false, ..one }))
        );
        assert!(second.last_read() > one.since && two.since > second.last_read());
        let third = Sightings::after(Some(&second), Moment::next(), [key(1)].into_iter());
        assert_eq!(third.of(&key(1)).key, Some(one), "it was there first, and is again");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = Sightings::after(None, Moment::next(), [key(0)].into_iter());
        for n in 1..5_000 {
            known = Sightings::after(Some(&known), Moment::next(), [key(n)].into_iter());
            assert!(known.keys.len() <= MAX_KNOWN);
        }
        assert!(known.of(&key(4_999)).key.expect("seen").is_published);
    }
}
