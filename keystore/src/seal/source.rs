//! KEKs from their providers.

use std::sync::Arc;

use oneseal_providers::{Description, SecretProvider};

use super::codes::{KEK_MALFORMED, KEK_NEAR_RING, KEK_WEAK, KEK_WITH_RING};
use super::{Kek, KekError, Keks};
use crate::Findings;
use crate::codes::PROVIDER_MALFORMED;
use crate::findings::Finding;
use crate::place::{advised, judge_advice, load as load_record, only_value};

impl Kek {
    /// Loads one from its provider: the only entry, or of several the one called `kek`.
    ///
    /// # Errors
    /// Each fault as a finding at the place `kek`; `provider.*` where it cannot be read, `kek.*` where it is none.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn load(provider: &dyn SecretProvider) -> Result<Self, Findings> {
        load_one(provider, CURRENT).await
    }
}

/// All of them, the current one first. A process whose KEK cannot be had must not start, whatever the others are.
///
/// # Errors
/// Every fault of every one.
pub(crate) async fn load(providers: &[Arc<dyn SecretProvider>]) -> Result<(Keks, Findings), Findings> {
    let mut findings = Findings::new();
    let mut keks = Vec::new();
    for (i, provider) in providers.iter().enumerate() {
        let name = name(i);
        let description = provider.describe();
        findings.extend(at(&name, &judge_advice(&description), &description));
        match load_one(&**provider, &name).await {
            Ok(kek) => keks.push(kek),
            Err(found) => findings.extend(found),
        }
    }
    if findings.has_errors() { Err(findings) } else { Ok((Keks::from_all(keks), findings)) }
}

/// What is said of KEKs that rest with the ring, or near it: `ring` and they have been read, as far as they are.
pub(crate) fn judge_neighbours(ring: &Description, providers: &[Arc<dyn SecretProvider>]) -> Findings {
    let mut findings = Findings::new();
    for (i, provider) in providers.iter().enumerate() {
        let kek = provider.describe();
        let Some(realm) = kek.realm.as_ref().filter(|realm| ring.realm.as_ref() == Some(*realm)) else {
            continue;
        };
        let place = place(&name(i), &kek);
        if kek.location == ring.location {
            findings.push(&KEK_WITH_RING, place, "the ring rests there too");
        } else {
            findings.push(
                &KEK_NEAR_RING,
                place,
                format!("the ring rests in {realm} too, at {}", ring.location),
            );
        }
    }
    findings
}

/// Each of them, in their order, be it there twice.
///
/// # Errors
/// Every fault of every one.
pub(crate) async fn load_each(providers: &[Arc<dyn SecretProvider>]) -> Result<Vec<Kek>, Findings> {
    let (mut findings, mut keks) = (Findings::new(), Vec::new());
    for (i, provider) in providers.iter().enumerate() {
        match load_one(&**provider, &name(i)).await {
            Ok(kek) => keks.push(kek),
            Err(found) => findings.extend(found),
        }
    }
    if findings.has_errors() { Err(findings) } else { Ok(keks) }
}

/// Where the provider at this position stands in a configuration.
fn name(position: usize) -> String {
    match position.checked_sub(1) {
        None => CURRENT.to_owned(),
        Some(previous) => format!("kek.previous[{previous}]"),
    }
}

async fn load_one(provider: &dyn SecretProvider, name: &str) -> Result<Kek, Findings> {
    let description = provider.describe();
    let record = load_record(provider)
        .await
        .map_err(|found| at(name, &advised(&found, WHERE_TO_PUT_A_KEK), &description))?;
    let mut findings = Findings::new();
    let place = place(name, &description);
    let Some(value) = only_value(&record.entries, "kek") else {
        let names: Vec<_> = record.entries.iter().map(|(name, _)| name).collect();
        let names = names.join(", ");
        let message = format!(
            "a KEK is one value, and this is a directory of several, none called kek: {names}; name the file itself"
        );
        findings.push(&PROVIDER_MALFORMED, place, message);
        return Err(findings);
    };
    Kek::read(value).map_err(|error| {
        let code = if matches!(error, KekError::Weak(_)) { &KEK_WEAK } else { &KEK_MALFORMED };
        findings.push(code, place, error.to_string());
        findings
    })
}

fn at(name: &str, found: &Findings, description: &Description) -> Findings {
    let mut moved = Findings::new();
    for Finding { code, message, .. } in found.iter() {
        moved.push(code, place(name, description), message.clone());
    }
    moved
}

fn place(name: &str, description: &Description) -> String {
    format!("{name} ({}:{})", description.kind, description.location)
}

const CURRENT: &str = "kek";
const WHERE_TO_PUT_A_KEK: &str = "put the KEK there that the ring is sealed under, or correct [kek]; a lost KEK is not \
                                  replaced by a new one";

#[cfg(test)]
mod tests {
    use oneseal_providers::{InlineProvider, KubernetesOptions, KubernetesProvider};

    use super::*;

    #[test]
    fn a_kek_with_the_ring_or_near_it_is_told_and_one_elsewhere_is_not() {
        let secret = |namespace: &str, name: &str| -> Arc<dyn SecretProvider> {
            let options = KubernetesOptions::secret(name).in_namespace(namespace);
            Arc::new(KubernetesProvider::new(options).expect("names"))
        };
        let inline = || -> Arc<dyn SecretProvider> { Arc::new(InlineProvider::new(vec![7; 32])) };
        let ring = secret("a", "ring").describe();
        let keks = [secret("a", "kek"), secret("b", "ring"), secret("a", "ring"), inline()];
        let found = judge_neighbours(&ring, &keks);
        let found: Vec<_> = found.iter().map(|finding| (finding.code.name, finding.place.as_str())).collect();
        assert_eq!(
            found,
            [("kek.near_ring", "kek (k8s:a/kek)"), ("kek.with_ring", "kek.previous[1] (k8s:a/ring)")]
        );
        let anywhere = judge_neighbours(&inline().describe(), &[inline()]);
        assert!(anywhere.is_empty(), "two values that are nowhere are not together: {anywhere}");
    }
}
