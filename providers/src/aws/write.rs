//! Writing: a version under a label of our own, then AWSCURRENT moved to it from the version that was expected.
//!
//! ```text
//! Describe ─ not as expected ──────────────────────────────────────────► Conflict, nothing was sent
//!    │
//!   Put(id, oneseal-…) ─ refused, or no answer ────────────────────────► the record is as it was
//!    │
//!   Move(AWSCURRENT, to id, from expected) ─ another version had it ───► Conflict, and our label is taken away
//!    │                                     └ no answer ────────────────► OutcomeUnknown
//!   our label is taken away
//! ```
//! A version without a label is AWS's to collect. One that keeps its label, because the writer died or was not answered,
//! is found by a later write: of 20 labels that a secret may have, ours are never more than a few.

use uuid::Uuid;

use super::client::{Client, Described};
use super::fault::Missing;
use super::load::Observed;
use super::stages::{self, Role, Stages, own_label};
use super::value::{self, Unfit};
use super::{AwsProvider, MAX_BYTES};
use crate::{Change, Entries, ErrorKind, ProviderError, Revision, SecretBytes};

/// How many labels of ours may be there before a write takes away those that were left. Above the number of writers that
/// are at work at the same time; should one of theirs go, their move works all the same.
const OWN_LABELS: usize = 6;

impl AwsProvider {
    pub(super) async fn write_over(
        &self,
        expected: &Revision,
        entries: Entries,
        change: Change,
    ) -> Result<Revision, ProviderError> {
        let content = self.fit(&entries)?;
        if !value::is_document(content.expose()) {
            let detail = "a bare key is replaced by its labels (AWSPENDING, then AWSCURRENT), not by a write: one key would \
                          take the other's place before anybody has seen it; a ring document is written";
            return Err(self.fault(ErrorKind::ReadOnly, detail));
        }
        let client = self.client().await?;
        let observed = self.observe().await?;
        self.check_place(client, &observed.described)?;
        let current = observed.current().filter(|_| observed.revision() == *expected);
        let current = current.ok_or_else(|| self.conflict())?;
        self.check_unused(&observed.described, change.id)?;
        let content = self.within(client, &observed, content).await?;
        self.sweep(client, &observed.stages).await;
        self.put(client, change.id, &content, &observed.described).await?;
        self.make_current(client, change.id, Some(current)).await
    }

    pub(super) async fn write_first(
        &self,
        entries: Entries,
        change: Change,
    ) -> Result<Revision, ProviderError> {
        let content = self.fit(&entries)?;
        let client = self.client().await?;
        match client.describe().await {
            Ok(described) => return self.write_first_value(client, &described, content, change.id).await,
            Err(failed) if failed.missing() == Some(Missing::Secret) && !self.options.is_arn() => {}
            Err(failed) => return Err(self.failed(failed, None)),
        }
        match client.create(change.id, &self.wrapped(None, &content)?).await {
            Ok(()) => Ok(written(change.id)),
            Err(failed) if failed.is_taken() => {
                let described = client.describe().await.map_err(|failed| self.failed(failed, None))?;
                self.write_first_value(client, &described, content, change.id).await
            }
            Err(failed) if failed.may_have_happened() => Err(self.unknown_outcome(failed)),
            Err(failed) => Err(self.failed(failed, None)),
        }
    }

    /// Into a secret that is there and has no value yet, as one made by whoever gives out permissions. AWS puts AWSCURRENT
    /// on a secret's first version by itself.
    async fn write_first_value(
        &self,
        client: &Client,
        described: &Described,
        content: SecretBytes,
        id: Uuid,
    ) -> Result<Revision, ProviderError> {
        if let Some(at) = described.deleted.as_deref() {
            return Err(self.scheduled_for_deletion(Some(at)));
        }
        self.check_place(client, described)?;
        let taken = || self.fault(ErrorKind::AlreadyExists, TAKEN);
        if let Some(current) = self.stages(described)?.version(Role::Current) {
            return self.write_first_member(client, described, current, content, id).await;
        }
        let content = self.wrapped(None, &content)?;
        match client.put(id, &own_label(id), &content).await {
            Ok(()) => {}
            Err(failed) if failed.may_have_happened() => return Err(self.unknown_outcome(failed)),
            Err(failed) => return Err(self.failed(failed, described.kms_key.as_deref())),
        }
        let described = client.describe().await.map_err(|failed| self.unknown_outcome(failed))?;
        match self.stages(&described)?.version(Role::Current) {
            Some(version) if version == id.to_string() => {
                self.take_label(client, id).await;
                Ok(written(id))
            }
            Some(_) => {
                self.take_label(client, id).await;
                Err(taken())
            }
            None => self.make_current(client, id, None).await,
        }
    }

    /// Into a JSON object that has other members and not ours yet, as long as that is the version under AWSCURRENT. A member
    /// that is there is never written over.
    async fn write_first_member(
        &self,
        client: &Client,
        described: &Described,
        current: &str,
        content: SecretBytes,
        id: Uuid,
    ) -> Result<Revision, ProviderError> {
        let taken = || self.fault(ErrorKind::AlreadyExists, TAKEN);
        let Some(name) = &self.options.member else { return Err(taken()) };
        let whole = client.value(current).await;
        let whole = whole.map_err(|failed| self.failed(failed, described.kms_key.as_deref()))?;
        let whole = whole.ok_or_else(taken)?;
        match value::member(whole.expose(), name) {
            Err(Unfit::NoMember { .. }) => {}
            Ok(_) => return Err(taken()),
            Err(why) => return Err(self.fault(ErrorKind::Malformed, why.to_string())),
        }
        let content = self.wrapped(Some(&whole), &content)?;
        self.check_unused(described, id)?;
        self.put(client, id, &content, described).await?;
        let moved = self.make_current(client, id, Some(current)).await;
        match moved {
            // Somebody else has written: our member, or another one.
            Err(error) if error.kind() == ErrorKind::Conflict && self.observe().await.is_ok() => Err(taken()),
            moved => moved,
        }
    }

    /// The only entry, if AWS takes as much.
    fn fit(&self, entries: &Entries) -> Result<SecretBytes, ProviderError> {
        let size = entries.total_bytes();
        if size > MAX_BYTES {
            let detail = format!("the record has {size} bytes, the limit is {MAX_BYTES}; nothing was sent");
            return Err(self.fault(ErrorKind::TooLarge, detail));
        }
        let mut all = entries.iter();
        match (all.next(), all.next()) {
            (Some((_, value)), None) if !value.is_empty() => Ok(SecretBytes::new(value.expose().to_vec())),
            (Some(_), None) | (None, _) => {
                Err(self.fault(ErrorKind::Malformed, "what is to be written is empty"))
            }
            _ => {
                let detail = format!(
                    "a version of a secret holds one value, and here are {}; put keys there by their labels, or make a ring \
                     of them",
                    entries.len()
                );
                Err(self.fault(ErrorKind::ReadOnly, detail))
            }
        }
    }

    /// The content as the value has to be: with a member it goes beside the others, which are read for it.
    async fn within(
        &self,
        client: &Client,
        observed: &Observed,
        content: SecretBytes,
    ) -> Result<SecretBytes, ProviderError> {
        let (Some(_), Some(version)) = (&self.options.member, observed.current()) else { return Ok(content) };
        let whole = client.value(version).await;
        let whole = whole.map_err(|failed| self.failed(failed, observed.described.kms_key.as_deref()))?;
        self.wrapped(whole.as_ref(), &content)
    }

    fn wrapped(
        &self,
        whole: Option<&SecretBytes>,
        content: &SecretBytes,
    ) -> Result<SecretBytes, ProviderError> {
        let Some(name) = &self.options.member else { return Ok(SecretBytes::new(content.expose().to_vec())) };
        let value = value::with_member(whole, name, content);
        let value = value.map_err(|why| self.fault(ErrorKind::Malformed, why.to_string()))?;
        if value.len() > MAX_BYTES {
            let detail = format!(
                "with its other members the value would have {} bytes, the limit is {MAX_BYTES}; nothing was sent",
                value.len()
            );
            return Err(self.fault(ErrorKind::TooLarge, detail));
        }
        Ok(value)
    }

    /// A copy in another region is written where it is copied from.
    fn check_place(&self, client: &Client, described: &Described) -> Result<(), ProviderError> {
        match &described.primary_region {
            Some(primary) if primary != client.region() => {
                let detail = format!("this is a copy of a secret in {primary}, and is written there alone");
                Err(self.fault(ErrorKind::ReadOnly, detail))
            }
            _ => Ok(()),
        }
    }

    /// A change is carried out once. One that was put and never came to its move may go on.
    fn check_unused(&self, described: &Described, id: Uuid) -> Result<(), ProviderError> {
        let on = described.labels.get(&id.to_string());
        let is_used = on.is_some_and(|on| on.iter().any(|label| label.starts_with("AWS")));
        if is_used { Err(self.used(id)) } else { Ok(()) }
    }

    async fn put(
        &self,
        client: &Client,
        id: Uuid,
        content: &SecretBytes,
        described: &Described,
    ) -> Result<(), ProviderError> {
        match client.put(id, &own_label(id), content).await {
            Ok(()) => Ok(()),
            Err(failed) if failed.is_taken() => Err(self.used(id)),
            // The record is as it was, whether or not there is a version more.
            Err(failed) => Err(self.failed(failed, described.kms_key.as_deref())),
        }
    }

    /// The compare-and-swap.
    async fn make_current(
        &self,
        client: &Client,
        id: Uuid,
        from: Option<&str>,
    ) -> Result<Revision, ProviderError> {
        let failed = match client.make_current(id, from).await {
            Ok(()) => {
                self.take_label(client, id).await;
                return Ok(written(id));
            }
            Err(failed) if failed.may_have_happened() => return Err(self.unknown_outcome(failed)),
            Err(failed) => failed,
        };
        self.take_label(client, id).await;
        if !failed.is_about_the_request() {
            return Err(self.failed(failed, None));
        }
        // What AWS says about labels that have moved is meant for people: the labels themselves tell.
        match client.describe().await.ok().and_then(|described| Stages::of(&described.labels).ok()) {
            Some(now) if now.version(Role::Current) == Some(&*id.to_string()) => Ok(written(id)),
            Some(now) if now.version(Role::Current) != from => Err(self.lost(from.is_none())),
            _ => Err(self.failed(failed, None)),
        }
    }

    /// If that fails, a later write does it.
    async fn take_label(&self, client: &Client, id: Uuid) {
        if let Err(failed) = client.take_label(&own_label(id), &id.to_string()).await {
            tracing::debug!(?failed, "a label of a finished write is left for a later one to take away");
        }
    }

    /// Takes away the labels of writers that did not come to their end, once there are some.
    async fn sweep(&self, client: &Client, stages: &Stages) {
        if stages.own().len() <= OWN_LABELS {
            return;
        }
        for (label, version) in stages.own() {
            if let Err(failed) = client.take_label(label, version).await {
                tracing::debug!(
                    ?failed,
                    label,
                    "a label that an unfinished write left could not be taken away"
                );
            }
        }
    }

    fn lost(&self, is_first: bool) -> ProviderError {
        if is_first { self.fault(ErrorKind::AlreadyExists, TAKEN) } else { self.conflict() }
    }

    fn conflict(&self) -> ProviderError {
        self.fault(ErrorKind::Conflict, "it is no longer at the expected revision")
    }

    fn used(&self, id: Uuid) -> ProviderError {
        self.fault(ErrorKind::ChangeIdUsed, format!("the change {id} was carried out before"))
    }
}

const TAKEN: &str = "there is a value already";

fn written(id: Uuid) -> Revision {
    stages::revision([(Role::Current, &*id.to_string())])
}
