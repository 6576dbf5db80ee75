//! Reading the labels, and the values of versions that have not been seen yet.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use oneseal_coordination::{Clock, SystemClock};
use uuid::Uuid;

use super::AwsProvider;
use super::client::{Client, Described};
use super::fault::Missing;
use super::stages::{self, Role, Stages};
use super::value::{self, Unfit};
use super::watch::Look;
use crate::{Entries, ErrorKind, ProviderError, Record, Revision, SecretBytes};

/// How often a secret is looked at anew that was made again in between.
const ATTEMPTS: usize = 3;

/// The values of the versions that have a role now, by version. They leave with their last label.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<String, Value>);

/// What a version holds, as far as it is the record.
#[derive(Debug)]
struct Value {
    content: SecretBytes,
    is_document: bool,
}

/// What the secret is at.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) stages: Stages,
    pub(super) described: Described,
    /// The roles that tell the record, each with its version.
    roles: Vec<(Role, String)>,
    is_document: bool,
}

impl Observed {
    pub(super) fn revision(&self) -> Revision {
        stages::revision(self.roles.iter().map(|(role, version)| (*role, version.as_str())))
    }

    /// The version under AWSCURRENT.
    pub(super) fn current(&self) -> Option<&str> {
        self.stages.version(Role::Current)
    }
}

impl AwsProvider {
    /// The record as its labels are now.
    pub(super) async fn read(&self) -> Result<Record, ProviderError> {
        for _ in 0..ATTEMPTS {
            let observed = self.observe().await?;
            // Another reader may have let go of a value meanwhile, because the labels have moved again.
            if let Some(entries) = self.entries(&observed) {
                let change_id = observed.current().and_then(|version| Uuid::parse_str(version).ok());
                return Ok(Record::new(observed.revision(), change_id, entries));
            }
        }
        Err(self.fault(ErrorKind::Unavailable, "its labels moved each time it was read"))
    }

    /// What the labels are, once every value that they want has been read.
    pub(super) async fn observe(&self) -> Result<Observed, ProviderError> {
        let client = self.client().await?;
        for _ in 0..ATTEMPTS {
            let begun = SystemClock.boot();
            let described = self.ask(client).await?;
            let stages = self.stages(&described)?;
            self.warn_of_rotation(&described);
            let Some(version) = stages.version(Role::Current) else { return Err(self.no_current(&stages)) };
            match self.learn(client, Role::Current, version, &described).await? {
                Some(is_document) => {
                    let roles = self.roles(client, &stages, is_document, &described).await?;
                    let observed = Observed { stages, described, roles, is_document };
                    self.settle(&observed);
                    self.note(Look { revision: observed.revision(), at: begun });
                    return Ok(observed);
                }
                // Deleted and made again under the same name, or deleted just now: the next look tells.
                None => continue,
            }
        }
        Err(self.fault(ErrorKind::Malformed, "the version under AWSCURRENT has no value; put one there"))
    }

    pub(super) async fn ask(&self, client: &Client) -> Result<Described, ProviderError> {
        let described = client.describe().await.map_err(|failed| self.failed(failed, None))?;
        match described.deleted.as_deref() {
            Some(at) => Err(self.scheduled_for_deletion(Some(at))),
            None => Ok(described),
        }
    }

    pub(super) fn stages(&self, described: &Described) -> Result<Stages, ProviderError> {
        Stages::of(&described.labels).map_err(|label| {
            self.fault(ErrorKind::Unavailable, format!("{label} is on two versions, which AWS does not do"))
        })
    }

    /// The roles of which the record consists: with a ring document under AWSCURRENT that alone, else all that have a
    /// value. A ring under another label is what AWSCURRENT was before somebody wrote over it: taken for the record, it
    /// would hide that.
    async fn roles(
        &self,
        client: &Client,
        stages: &Stages,
        is_document: bool,
        described: &Described,
    ) -> Result<Vec<(Role, String)>, ProviderError> {
        let mut roles = Vec::new();
        for (role, version) in stages.roles() {
            let counts = role == Role::Current
                || !is_document && self.learn(client, role, version, described).await? == Some(false);
            if counts {
                roles.push((role, version.to_owned()));
            }
        }
        Ok(roles)
    }

    /// Reads a version that has not been read yet, and says whether it holds a ring document; `None` if AWS has no value
    /// of it.
    async fn learn(
        &self,
        client: &Client,
        role: Role,
        version: &str,
        described: &Described,
    ) -> Result<Option<bool>, ProviderError> {
        if let Some(known) = self.values().0.get(version) {
            return Ok(Some(known.is_document));
        }
        let whole = match client.value(version).await {
            Ok(whole) => whole,
            Err(failed) if failed.missing() == Some(Missing::Value) => return Ok(None),
            Err(failed) => return Err(self.failed(failed, described.kms_key.as_deref())),
        };
        let unfit = |why: String| self.fault(ErrorKind::Malformed, format!("{}: {why}", role.label()));
        let whole = whole.ok_or_else(|| unfit("the version holds neither text nor bytes".to_owned()))?;
        let content = match &self.options.member {
            Some(name) => value::member(whole.expose(), name).map_err(|why| match (&why, role) {
                // Others are there, and the record is not: a first one is put beside them.
                (Unfit::NoMember { .. }, Role::Current) => self.fault(ErrorKind::NotFound, why.to_string()),
                _ => unfit(why.to_string()),
            })?,
            None => whole,
        };
        let is_document = value::is_document(content.expose());
        self.values().0.insert(version.to_owned(), Value { content, is_document });
        Ok(Some(is_document))
    }

    /// Lets go of every value that the record does not consist of any more.
    fn settle(&self, observed: &Observed) {
        let counts = |version: &str| observed.roles.iter().any(|(_, wanted)| wanted == version);
        // A ring that was looked at and does not count: it would be read again at each look.
        let is_passed_over = |version: &str| {
            !observed.is_document && observed.stages.roles().any(|(_, labelled)| labelled == version)
        };
        self.values().0.retain(|version, _| counts(version) || is_passed_over(version));
    }

    fn entries(&self, observed: &Observed) -> Option<Entries> {
        let values = self.values();
        let mut entries = Entries::new();
        for (role, version) in &observed.roles {
            let name = if observed.is_document { Entries::KEYRING } else { role.entry() };
            entries.insert(name, values.0.get(version)?.content.expose().to_vec());
        }
        Some(entries)
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Once, and again if it was turned off in between.
    fn warn_of_rotation(&self, described: &Described) {
        let was = self.is_rotated.swap(described.is_rotated_by_aws, Ordering::Relaxed);
        if described.is_rotated_by_aws && !was {
            tracing::warn!(
                secret = self.location(),
                "AWS rotates this secret by a schedule of its own, which waits for nobody to have fetched a new key and \
                 writes over a ring; turn it off: aws secretsmanager cancel-rotate-secret"
            );
        }
    }

    fn no_current(&self, stages: &Stages) -> ProviderError {
        let others: Vec<_> = stages.roles().map(|(role, _)| role.label()).collect();
        if others.is_empty() {
            let detail = "the secret is there and has no value yet; `oneseal keys init` writes the first one";
            return self.fault(ErrorKind::NotFound, detail);
        }
        let detail = format!(
            "no version has the label AWSCURRENT, only {}: finish or cancel that rotation (`aws secretsmanager \
             update-secret-version-stage --version-stage AWSCURRENT --move-to-version-id …`)",
            others.join(" and ")
        );
        self.fault(ErrorKind::Malformed, detail)
    }
}
