//! What is found of the place where keys rest, and the bounded read from it.

use oneseal_providers::{
    Advice, Description, Durability, Entries, ErrorKind, ProviderError, Record, SecretProvider,
};

use crate::Findings;
use crate::codes::{
    PROVIDER_COPIED, PROVIDER_EPHEMERAL, PROVIDER_NEARLY_FULL, PROVIDER_NEVER_UPDATES, PROVIDER_NOT_FOUND,
    PROVIDER_REPLACEABLE, PROVIDER_WORLD_READABLE, of_provider_error,
};
use crate::findings::{Code, Finding, chain_after};
use crate::rotation::PROVIDER_TIMEOUT;

/// What can be said of the place before anything is read; `in_image` is what a container's own layer comes to.
pub(crate) fn judge_place(description: &Description, in_image: &'static Code) -> Findings {
    let mut findings = Findings::new();
    match &description.durability {
        Durability::Ephemeral(why) => findings.push(&PROVIDER_EPHEMERAL, &description.location, why),
        Durability::ImageLayer(why) => findings.push(in_image, &description.location, why),
        // Durable, and whatever later kinds mean less.
        _ => {}
    }
    findings.extend(judge_advice(description));
    findings
}

/// What the operator should know of the place although it is no error.
pub(crate) fn judge_advice(description: &Description) -> Findings {
    let mut findings = Findings::new();
    for advice in &description.advice {
        match advice {
            Advice::WorldReadable { path, mode } => {
                findings.push(&PROVIDER_WORLD_READABLE, path, format!("its mode is {mode:04o}"));
            }
            Advice::Replaceable { directory, mode } => {
                findings.push(&PROVIDER_REPLACEABLE, directory, format!("its mode is {mode:04o}"));
            }
            Advice::NeverUpdates { path, is_replaced } => {
                let message = if *is_replaced {
                    "it is mounted by itself, and where it comes from it has been replaced or removed since"
                } else {
                    "it is mounted by itself"
                };
                findings.push(&PROVIDER_NEVER_UPDATES, path, message);
            }
            Advice::Copied { copy } => {
                let message =
                    format!("values are kept a second time {copy}, and stay there when the ring changes");
                findings.push(&PROVIDER_COPIED, &description.location, message);
            }
            // Whatever later providers advise is for those who know it.
            _ => {}
        }
    }
    findings
}

/// Whether the next record may be too large for its place.
pub(crate) fn judge_fill(description: &Description, entries: &Entries) -> Findings {
    let mut findings = Findings::new();
    let (size, most) = (entries.total_bytes(), description.max_bytes);
    if description.writable && size > most / 4 * 3 {
        let message = format!("it has {size} bytes of {most}");
        findings.push(&PROVIDER_NEARLY_FULL, &description.location, message);
    }
    findings
}

/// One bounded read, its failure told as a finding.
pub(crate) async fn load(provider: &dyn SecretProvider) -> Result<Record, Findings> {
    read(provider).await.map_err(|error| provider_findings(&error))
}

/// One bounded read.
pub(crate) async fn read(provider: &dyn SecretProvider) -> Result<Record, ProviderError> {
    tokio::time::timeout(PROVIDER_TIMEOUT, provider.load()).await.unwrap_or_else(|_| {
        let words = format!("no answer within {} s", PROVIDER_TIMEOUT.as_secs());
        Err(ProviderError::new(ErrorKind::Unavailable, provider.describe().location, words))
    })
}

/// The only entry, or of several the one called `name`, else `current`, beside which a secret of AWS keeps its previous
/// value.
pub(crate) fn only_value<'e>(entries: &'e Entries, name: &str) -> Option<&'e [u8]> {
    let mut all = entries.iter();
    match (all.next(), all.next()) {
        (Some((_, value)), None) => Some(value.expose()),
        _ => entries.get(name).or(entries.get(Entries::CURRENT)).map(|value| value.expose()),
    }
}

/// A provider's failure as a finding, for whoever asks a provider by itself.
pub fn provider_findings(error: &ProviderError) -> Findings {
    let mut findings = Findings::new();
    findings.push(of_provider_error(error.kind()), error.location(), in_full(error));
    findings
}

/// With what to do about it where nothing was found. That depends on the place, and on whether a key has ever been
/// there: a replica that runs has lost its own, and must not be told to make another.
pub(crate) fn advised(found: &Findings, advice: &str) -> Findings {
    let mut advised = Findings::new();
    for Finding { code, place, message } in found.iter() {
        let is_missing = code.name == PROVIDER_NOT_FOUND.name;
        let message = match message.strip_suffix('?') {
            _ if !is_missing => message.clone(),
            Some(question) => format!("{question}? If not, {advice}"),
            None => format!("{message}; {advice}"),
        };
        advised.push(code, place, message);
    }
    advised
}

/// What makes a first key at such a place.
pub(crate) fn where_to_put_a_key(description: &Description) -> &'static str {
    if description.writable {
        "make the first ring with `oneseal keys init` (once, for all replicas), or correct the provider's location"
    } else if description.kind == "env" {
        "give this process the variable with the key in it, or name the right one as the provider"
    } else {
        "put the key there, or correct the provider's location"
    }
}

/// The provider's words with those of their causes.
fn in_full(error: &ProviderError) -> String {
    chain_after(error.detail(), std::error::Error::source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_values_the_named_one_counts_or_the_current_one() {
        let of = |names: &[&str]| {
            let mut entries = Entries::new();
            names.iter().for_each(|name| entries.insert(*name, *name));
            only_value(&entries, "kek").map(|value| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(of(&["any"]).as_deref(), Some("any"));
        assert_eq!(of(&["current", "previous"]).as_deref(), Some("current"));
        assert_eq!(of(&["current", "kek"]).as_deref(), Some("kek"));
        assert_eq!((of(&["a", "b"]), of(&[])), (None, None));
    }
}
