//! Which of the configured KEKs is which, and what of a ring is sealed under each.

use std::sync::Arc;

use oneseal_providers::SecretProvider;

use super::{RING_NOT_REWRAPPED, kek_of, one};
use crate::codes::PROVIDER_NOT_FOUND;
use crate::place::load;
use crate::ring::document::is_document;
use crate::ring::halves::split;
use crate::{Findings, seal};

/// A key-encryption key, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KekUse {
    /// Which KEK: no secret.
    pub id: String,
    /// Where it stands among those that were named: 0 is the current one; `None` for one that the ring names alone.
    pub position: Option<usize>,
    /// Whose private halves are sealed under it: kids, and `ring_key`.
    pub seals: Vec<String>,
}

/// Loads `keks`, the current one first, and looks under which of them the ring in `provider` is sealed. The ring is not
/// judged: it is asked for names alone. Without a ring nothing is sealed.
///
/// # Errors
/// A KEK cannot be had, or the ring's place does not answer or holds no readable document.
///
/// # Cancel safety
/// Changes nothing.
pub async fn kek_uses(
    provider: &dyn SecretProvider,
    keks: &[Arc<dyn SecretProvider>],
) -> Result<Vec<KekUse>, Findings> {
    let mut uses = Vec::new();
    for (position, kek) in seal::load_each(keks).await?.iter().enumerate() {
        uses.push(KekUse { id: kek.id().to_owned(), position: Some(position), seals: Vec::new() });
    }
    for (id, name) in sealed_in(provider).await? {
        match uses.iter_mut().find(|kek| kek.id == id) {
            Some(kek) => kek.seals.push(name),
            None => uses.push(KekUse { id, position: None, seals: vec![name] }),
        }
    }
    Ok(uses)
}

/// The id of the KEK and the name, for every sealed half.
async fn sealed_in(provider: &dyn SecretProvider) -> Result<Vec<(String, String)>, Findings> {
    let record = match load(provider).await {
        Ok(record) => record,
        Err(found) if found.contains(&PROVIDER_NOT_FOUND) => return Ok(Vec::new()),
        Err(found) => return Err(found),
    };
    let document = record.entries.iter().find(|(name, value)| is_document(name, value.expose()));
    let Some((name, value)) = document else { return Ok(Vec::new()) };
    let split = split(value.expose()).map_err(|error| one(&RING_NOT_REWRAPPED, name, error.to_string()))?;
    let kid = |i: usize| {
        split.public.get("keys").and_then(|keys| keys[i]["kid"].as_str()).unwrap_or("?").to_owned()
    };
    let halves = split.privates.iter().map(|(i, half)| (kid(*i), half));
    let all = halves.chain(split.ring_private.iter().map(|half| ("ring_key".to_owned(), half)));
    Ok(all.filter_map(|(name, half)| Some((kek_of(half)?, name))).collect())
}
