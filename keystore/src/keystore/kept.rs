//! The last good record of a replica, for the day on which the store has lost it.
//!
//! What rests in the store is the only copy of the private halves, and a replica that serves has read it. So each keeps
//! what it has accepted last, byte for byte as it came, and `keys recover` has it written back. It is kept *shielded*:
//! sealed under a random key that is used for nothing else, and opened only while it is written. That hides nothing from
//! whoever can read all of this process's memory, who could take the key that signs as well; but a stray read, a buffer
//! that is sent by mistake or a page on a swap disk shows no key in the form in which a reader would take it.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use oneseal_providers::Entries;
use zeroize::Zeroizing;

use crate::Snapshot;

/// A record that was accepted, and what is served of it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Kept {
    snapshot: Arc<Snapshot>,
    shielded: Arc<Shielded>,
}

impl Kept {
    pub(super) fn new(snapshot: Arc<Snapshot>, shielded: Shielded) -> Self {
        Self { snapshot, shielded: Arc::new(shielded) }
    }

    /// What a replica makes of it.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The record itself, to be written. `None` cannot come about: it is what was put in.
    pub(crate) fn entries(&self) -> Option<Entries> {
        self.shielded.open()
    }
}

/// Entries as one sealed text.
pub(super) struct Shielded {
    key: LessSafeKey,
    sealed: Vec<u8>,
}

/// No content.
impl std::fmt::Debug for Shielded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shielded({} bytes)", self.sealed.len())
    }
}

impl Shielded {
    /// `None` where there is no randomness: then nothing is kept.
    pub(super) fn of(entries: &Entries) -> Option<Self> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        aws_lc_rs::rand::fill(&mut *key).ok()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).ok()?);
        let mut text = Zeroizing::new(plain(entries));
        key.seal_in_place_append_tag(once(), Aad::empty(), &mut *text).ok()?;
        Some(Self { key, sealed: std::mem::take(&mut *text) })
    }

    fn open(&self) -> Option<Entries> {
        let mut text = Zeroizing::new(self.sealed.clone());
        let plain = self.key.open_in_place(once(), Aad::empty(), &mut text).ok()?;
        let mut rest: &[u8] = plain;
        let mut entries = Entries::new();
        while !rest.is_empty() {
            let name = std::str::from_utf8(part(&mut rest)?).ok()?;
            entries.insert(name, part(&mut rest)?.to_vec());
        }
        Some(entries)
    }
}

/// Each name and value with its length in front; exactly as large as it will be once it is sealed, since a vector that
/// grows leaves copies of the key behind.
fn plain(entries: &Entries) -> Vec<u8> {
    let lengths = entries.len() * 2 * size_of::<u64>();
    let mut text = Vec::with_capacity(entries.total_bytes() + lengths + AES_256_GCM.tag_len());
    for (name, value) in entries.iter() {
        for part in [name.as_bytes(), value.expose()] {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        }
    }
    text
}

fn part<'t>(rest: &mut &'t [u8]) -> Option<&'t [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
    let (part, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

/// Each key seals one text, so that no nonce can come twice.
fn once() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

const KEY_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_as_it_was_and_shows_nothing_meanwhile() {
        let mut entries = Entries::single("current.pem", "canary-c4f1");
        entries.insert("empty", "");
        entries.insert("next.pem", vec![0, 255, 7]);
        let shielded = Shielded::of(&entries).expect("randomness");
        assert!(!shielded.sealed.windows(6).any(|window| window == b"canary"));
        assert!(!format!("{shielded:?}").contains("canary"));
        let back = shielded.open().expect("it is what was put in");
        let pairs = |entries: &Entries| {
            entries.iter().map(|(name, value)| (name.to_owned(), value.expose().to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(pairs(&back), pairs(&entries));
        let other = Shielded::of(&entries).expect("randomness");
        assert_ne!(shielded.sealed, other.sealed, "each has a key of its own");
    }
}
