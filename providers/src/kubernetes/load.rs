//! Reading the Secret.

use super::KubernetesProvider;
use super::ask::{Ask, Reply, Verb};
use super::fault::Trouble;
use super::place::Place;
use super::secret::Secret;
use crate::{ErrorKind, ProviderError, Record, Revision};

impl KubernetesProvider {
    /// The Secret as it stands now.
    pub(super) async fn read(&self) -> Result<Record, ProviderError> {
        Ok(self.see().await?.into_record())
    }

    /// What it is at.
    pub(super) async fn look(&self) -> Result<Revision, ProviderError> {
        Ok(self.see().await?.revision())
    }

    async fn see(&self) -> Result<Secret, ProviderError> {
        let heard = self.hints.heard();
        let secret = self.place.get().await.inspect_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                self.hints.is_gone();
            }
        })?;
        self.hints.looked(&secret, heard);
        if secret.is_empty() {
            let detail = "the Secret is there and has no data yet; `oneseal keys init` fills it";
            return Err(self.place.fault(ErrorKind::NotFound, detail));
        }
        Ok(secret)
    }
}

impl Place {
    /// The Secret, of a type that is read here; with or without data.
    pub(super) async fn get(&self) -> Result<Secret, ProviderError> {
        let answered = match self.ask(&Ask::get()).await {
            Ok(reply) => secret_in(reply),
            Err(trouble) => Err(trouble),
        };
        let secret = answered.map_err(|trouble| self.told(Verb::Get, trouble))?;
        if let Some(kind) = secret.foreign_type() {
            let kind: String = kind.chars().take(80).collect();
            let detail = format!(
                "the Secret is of the type {kind}; keys are kept in Opaque or kubernetes.io/tls ones"
            );
            return Err(self.fault(ErrorKind::Malformed, detail));
        }
        Ok(secret)
    }
}

/// What a good answer holds.
pub(super) fn secret_in(reply: Reply) -> Result<Secret, Trouble> {
    Secret::read(&reply.body).map_err(|why| Trouble::Strange(why, reply))
}
