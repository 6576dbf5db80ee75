//! Writing the Secret: one PUT that the server takes only if nobody else has written since our GET.

use super::KubernetesProvider;
use super::ask::{Ask, Verb};
use super::fault::{CERTIFICATE, IMMUTABLE, Trouble};
use super::load::secret_in;
use super::place::Place;
use super::secret::Secret;
use crate::{Change, Description, Entries, ErrorKind, ProviderError, Revision};

/// Whether the server stores what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// It does.
    Real,
    /// It does all but that.
    Dry,
}

/// What a dry run came to. Nothing was to be stored, so whatever is not known of it is whether it would have been.
pub(super) fn rehearsed(outcome: Result<Revision, ProviderError>) -> Result<(), ProviderError> {
    outcome.map(drop).map_err(|error| match error.kind() {
        ErrorKind::OutcomeUnknown => {
            ProviderError::new(ErrorKind::Unavailable, error.location(), error.detail())
        }
        _ => error,
    })
}

impl KubernetesProvider {
    /// Writes over what is at `expected`.
    pub(super) async fn write_over(
        &self,
        expected: &Revision,
        entries: Entries,
        change: Change,
        run: Run,
    ) -> Result<Revision, ProviderError> {
        let secret = self.prepared(expected, entries, &change).await?;
        self.place.put(Verb::Update, &secret, run).await
    }

    /// Makes the Secret, or fills one that was made without data.
    pub(super) async fn write_first(
        &self,
        entries: Entries,
        change: Change,
        run: Run,
    ) -> Result<Revision, ProviderError> {
        self.place.check(&entries)?;
        let mut secret = match self.place.get().await {
            Ok(secret) => secret,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let secret = Secret::first(&self.place.options.name, entries, change.id);
                return self.place.put(Verb::Create, &secret, run).await;
            }
            Err(error) => return Err(error),
        };
        if !secret.is_empty() {
            return Err(self.place.fault(ErrorKind::AlreadyExists, "there is a Secret with data already"));
        }
        self.place.judge(&secret)?;
        secret.put(entries, change.id);
        self.place.put(Verb::Update, &secret, run).await.map_err(|error| match error.kind() {
            // Somebody else was first to fill it.
            ErrorKind::Conflict => self.place.fault(ErrorKind::AlreadyExists, error.detail()),
            _ => error,
        })
    }

    /// The Secret as it will be, if it still is at `expected`.
    async fn prepared(
        &self,
        expected: &Revision,
        entries: Entries,
        change: &Change,
    ) -> Result<Secret, ProviderError> {
        self.place.check(&entries)?;
        let mut secret = self.place.get().await?;
        if secret.is_empty() {
            return Err(self
                .place
                .fault(ErrorKind::NotFound, "the Secret has no data that could be replaced"));
        }
        self.place.judge(&secret)?;
        if secret.revision() != *expected {
            return Err(self.place.fault(ErrorKind::Conflict, "it is no longer at the expected revision"));
        }
        secret.put(entries, change.id);
        Ok(secret)
    }
}

impl Place {
    /// Sends the Secret and tells what it is at then.
    async fn put(&self, verb: Verb, secret: &Secret, run: Run) -> Result<Revision, ProviderError> {
        let answered = match self.ask(&Ask::write(verb, secret.body(), run == Run::Dry)).await {
            Ok(reply) if run == Run::Dry => {
                Secret::unstored(&reply.body).map_err(|why| Trouble::Strange(why, reply))
            }
            Ok(reply) => secret_in(reply),
            Err(trouble) => Err(trouble),
        };
        answered.map(|written| written.revision()).map_err(|trouble| self.told(verb, trouble))
    }

    /// What can be told before anybody is asked.
    fn check(&self, entries: &Entries) -> Result<(), ProviderError> {
        let (size, limit) = (entries.total_bytes(), Description::DEFAULT_MAX_BYTES);
        if size > limit {
            let detail = format!("the record has {size} bytes, a Secret takes {limit}; nothing was sent");
            return Err(self.fault(ErrorKind::TooLarge, detail));
        }
        if entries.is_empty() {
            return Err(self.fault(ErrorKind::Malformed, "what is to be written is empty"));
        }
        match entries.iter().find(|(name, _)| !is_key_of_data(name)) {
            Some((name, _)) => {
                let detail = format!(
                    "the entry name {name:?} cannot be a key of a Secret's data: letters, digits, `-`, `_` and `.`"
                );
                Err(self.fault(ErrorKind::Malformed, detail))
            }
            None => Ok(()),
        }
    }

    /// Whether it is ours to write.
    fn judge(&self, secret: &Secret) -> Result<(), ProviderError> {
        if secret.is_immutable() {
            return Err(self.fault(ErrorKind::ReadOnly, IMMUTABLE));
        }
        if secret.is_certificate() {
            return Err(self.fault(ErrorKind::ReadOnly, CERTIFICATE));
        }
        Ok(())
    }
}

/// As the API has it (`IsConfigMapKey`): no path, and nothing that means one.
fn is_key_of_data(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=253).contains(&name.len()) && name.chars().all(is_allowed) && name != "." && !name.starts_with("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_a_path_is_no_key_of_data() {
        for (name, is_one) in [
            ("keyring.json", true),
            ("current.ES256.pem", true),
            (".hidden", true),
            ("", false),
            (".", false),
            ("..", false),
            ("..data", false),
            ("../up", false),
            ("a/b", false),
            ("a b", false),
        ] {
            assert_eq!(is_key_of_data(name), is_one, "{name}");
        }
        assert!(!is_key_of_data(&"a".repeat(254)));
    }
}
