//! One side of a migration: the ring that a provider holds, with what must be the same on the other side.

use std::sync::Arc;

use oneseal_keystore::ring::{self, Reading};
use oneseal_keystore::{
    Algorithm, Digest, Findings, IssuerUrl, KeyId, Mode, Rotation, Snapshot, provider_findings,
};
use oneseal_providers::{Entries, ProviderError, Record, Revision, SecretBytes, SecretProvider};
use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use crate::config;
use crate::exit::Failure;

/// A ring document, judged.
#[derive(Debug)]
pub(super) struct Held {
    /// Where the provider has it.
    pub(super) revision: Revision,
    /// SHA-256 of the document as it rests there.
    pub(super) document: Digest,
    /// Whose it is.
    pub(super) issuer: IssuerUrl,
    /// What it says of itself.
    pub(super) head: Head,
    /// SHA-256 of the JWKS that is made of it.
    pub(super) jwks: Digest,
    /// How many keys that has.
    pub(super) keys: usize,
    /// The document alone, to be written elsewhere.
    pub(super) entries: Entries,
    /// The change that made it.
    pub(super) change_id: Option<Uuid>,
}

/// The members of a document that say which it is. Private halves are passed over without being read.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    pub(super) issuer: String,
    pub(super) incarnation: Incarnation,
    pub(super) revision: u64,
    pub(super) ring_key: RingKey,
    #[serde(default)]
    pub(super) log: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RingKey {
    pub(super) kid: String,
    /// Whether its private half is sealed; what it is, is not read.
    #[serde(default)]
    pub(super) sealed: Option<IgnoredAny>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Incarnation {
    pub(super) number: u64,
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) hash: String,
}

impl Held {
    /// The fleet's name, where nothing else names it.
    pub(super) fn fleet(&self) -> String {
        config::fleet_of(&self.issuer)
    }

    /// The document once more.
    pub(super) fn copy(&self) -> Entries {
        let mut copy = Entries::new();
        for (name, value) in self.entries.iter() {
            copy.insert(name, value.expose().to_vec());
        }
        copy
    }
}

/// The ring that `provider` holds.
///
/// # Errors
/// It cannot be had, or it is no ring document that a replica would serve.
pub(super) async fn read(provider: &Arc<dyn SecretProvider>) -> Result<Held, Failure> {
    let record = provider.load().await.map_err(|error| refused(&error))?;
    let description = provider.describe();
    let location = format!("{}:{}", description.kind, description.location);
    let judging = tokio::task::spawn_blocking(move || judge(record, &location));
    judging.await.map_err(|error| Failure::internal("the ring was not judged to its end").because(error))?
}

/// A provider's failure with its code and cure.
pub(super) fn refused(error: &ProviderError) -> Failure {
    Failure::found(provider_findings(error))
}

fn judge(record: Record, location: &str) -> Result<Held, Failure> {
    let bare = "here is no ring document, and nothing else is migrated; a key as it is comes into a ring by `oneseal \
                keys adopt`";
    let document = record.entries.iter().find_map(|(_, value)| {
        let text = value.expose();
        let head = serde_json::from_slice::<Head>(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)).ok()?;
        Some((head, Digest::of(text), SecretBytes::new(text.to_vec())))
    });
    let (head, digest, document) = document.ok_or_else(|| Failure::refused(format!("{location}: {bare}")))?;
    let issuer = IssuerUrl::parse(&head.issuer, location).map_err(Failure::found)?;
    let entries = Entries::single(Entries::KEYRING, document);
    let snapshot = snapshot(&entries, &issuer, &head.ring_key).map_err(Failure::found)?;
    Ok(Held {
        revision: record.revision,
        document: digest,
        issuer,
        head,
        jwks: Digest::of(snapshot.jwks()),
        keys: snapshot.keys().len(),
        entries,
        change_id: record.change_id,
    })
}

/// What a replica would serve of it. A sealed ring is judged by the ring key that it names itself, without opening
/// anything: whether that is the fleet's is for the replicas to judge, which have the KEK or the pin.
fn snapshot(entries: &Entries, issuer: &IssuerUrl, ring_key: &RingKey) -> Result<Snapshot, Findings> {
    let pin = KeyId::parse(&ring_key.kid).ok().filter(|_| ring_key.sealed.is_some());
    let mut reading = Reading { pin: pin.as_ref(), ..Reading::default() };
    if pin.is_some() {
        reading.mode = Mode::PublicOnly;
    }
    let (ring, _) = ring::read_with(entries, issuer, &reading)?;
    let (snapshot, _) = Snapshot::build(ring, &Algorithm::ALL, &Rotation::default())?;
    Ok(snapshot)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One that says so much of itself.
    pub(in crate::cli::migrate) fn held(issuer: &str, incarnation: u64, revision: u64, log: &[&str]) -> Held {
        let head = Head {
            issuer: issuer.to_owned(),
            incarnation: Incarnation { number: incarnation, id: format!("life-{incarnation}") },
            revision,
            ring_key: RingKey { kid: "r".to_owned(), sealed: None },
            log: log.iter().map(|hash| Entry { hash: (*hash).to_owned() }).collect(),
        };
        Held {
            revision: Revision::new("a"),
            document: Digest::of(format!("{head:?}").as_bytes()),
            issuer: IssuerUrl::parse(issuer, "a test").expect("an issuer"),
            head,
            jwks: Digest::ZERO,
            keys: 1,
            entries: Entries::new(),
            change_id: None,
        }
    }
}
