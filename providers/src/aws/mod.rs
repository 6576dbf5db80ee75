//! A secret in AWS Secrets Manager, by the staging labels of its versions.
//!
//! ```text
//! load      DescribeSecret, then GetSecretValue for the versions that have not been seen yet
//! changed   the same, now and then
//! replace   PutSecretValue under a label of our own → UpdateSecretVersionStage(AWSCURRENT, from the expected version)
//! create    CreateSecret; into a secret without a value, or without our member, the same two calls: the first writer wins
//! ```
//!
//! # What is believed
//! - **The labels of one DescribeSecret belong together.** A version's value never changes and is asked for by its id,
//!   so a record is whole however many rotations run meanwhile.
//! - **The revision is which label is on which version**, of those labels that tell the record. A label whose version
//!   has no value yet, as AWSPENDING between the first two steps of AWS's own rotation, is not there.
//! - **A ring document under AWSCURRENT is the record, alone.** What other labels hold is then not even read. Else each
//!   label is a bare key: AWSCURRENT is `current`, AWSPENDING `next`, AWSPREVIOUS `previous`.
//! - **Moving AWSCURRENT is the compare-and-swap.** AWS refuses to take the label from another version than the one that
//!   is named. Putting a value moves nothing, because it always brings a label of its own: without one AWS would move
//!   AWSCURRENT at once, whoever had it.
//! - **A move without an answer is `OutcomeUnknown`**; [`Record::change_id`], the id of the version, tells. Before it was
//!   sent, the record cannot have changed.
//! - **The keystore's refresh is the retry.** The SDK's own is off and its time-outs are on.
//!
//! # What the SDK keeps
//! Values are taken out of the SDK's answers without a copy, and wiped when they are dropped. The SDK does not wipe the
//! body that it has parsed them from, nor the request that a write is sent in, nor the pages of TLS and HTTP below: they
//! are freed as they are. Its logs would show a request's body at `trace`, so its calls are made without any
//! subscriber.

mod client;
mod fault;
mod load;
mod options;
mod stages;
mod value;
mod watch;
mod write;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;

use crate::{
    BoxFuture, Change, Description, Entries, ErrorKind, ProviderError, Record, Revision, SecretProvider,
};
use client::Client;
use load::Values;
use watch::Look;

pub use aws_config::SdkConfig;
pub use options::{AwsOptions, DEFAULT_POLL, DEFAULT_TIMEOUT};

/// The largest value that a version takes (`PutSecretValue`, SecretString and SecretBinary).
pub const MAX_BYTES: usize = 65_536;

/// Keeps the record in a secret of AWS Secrets Manager.
///
/// Clones share their connections and what they have read. Nothing is opened, and nobody asked, before the first call.
#[derive(Clone)]
pub struct AwsProvider {
    options: Arc<AwsOptions>,
    /// Where credentials and region come from, if not from the environment.
    config: Option<SdkConfig>,
    client: Arc<OnceCell<Client>>,
    values: Arc<Mutex<Values>>,
    looked: Arc<Mutex<Option<Look>>>,
    /// Whether AWS was seen to rotate it, and that was said.
    is_rotated: Arc<AtomicBool>,
}

impl AwsProvider {
    /// By the SDK's default chain: environment, profile, web identity (`AWS_ROLE_ARN` with
    /// `AWS_WEB_IDENTITY_TOKEN_FILE`), container, instance.
    ///
    /// # Errors
    /// `Misconfigured` if the options name no secret that could be, or contradict each other.
    pub fn new(options: AwsOptions) -> Result<Self, ProviderError> {
        Self::of(options, None)
    }

    /// With the credentials, the region and the HTTP client of a configuration that is there already. Its retries and
    /// time-outs are not used.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_config(options: AwsOptions, config: SdkConfig) -> Result<Self, ProviderError> {
        Self::of(options, Some(config))
    }

    fn of(options: AwsOptions, config: Option<SdkConfig>) -> Result<Self, ProviderError> {
        options.check()?;
        if options.looks_like_arn() {
            tracing::warn!(
                secret = options.secret,
                "the name ends like an ARN, in a hyphen and six characters; AWS advises against that, since it may take \
                 one for the other: name the secret by its whole ARN"
            );
        }
        Ok(Self {
            options: Arc::new(options),
            config,
            client: Arc::default(),
            values: Arc::default(),
            looked: Arc::default(),
            is_rotated: Arc::default(),
        })
    }

    /// Made at the first call: until then neither environment nor network is asked for anything.
    async fn client(&self) -> Result<&Client, ProviderError> {
        let client = self.client.get_or_try_init(|| Client::connect(&self.options, self.config.as_ref()));
        client.await.map_err(|detail| self.fault(ErrorKind::Misconfigured, detail))
    }

    fn location(&self) -> String {
        match self.client.get() {
            Some(client) if !self.options.is_arn() => {
                format!("{} in {}", self.options.secret, client.region())
            }
            _ => self.options.location(),
        }
    }

    fn fault(&self, kind: ErrorKind, detail: impl Into<String>) -> ProviderError {
        ProviderError::new(kind, self.location(), detail)
    }
}

/// Without anything that was read.
impl fmt::Debug for AwsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsProvider").field("options", &self.options).finish_non_exhaustive()
    }
}

impl SecretProvider for AwsProvider {
    fn describe(&self) -> Description {
        let mut description = Description::new("aws", self.location());
        description.realm = Some(format!("the secret {}", description.location));
        description.writable = true;
        description.max_bytes = MAX_BYTES;
        description
    }

    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>> {
        Box::pin(self.read())
    }

    /// A secret that is gone or cannot be asked does not wake: it is no newer revision. A change made within a second
    /// after a look is seen by the next poll.
    fn changed<'a>(&'a self, since: &'a Revision) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_for_other_than(since))
    }

    /// Ring documents alone: bare keys are rotated by their labels, which one write cannot move together.
    fn replace<'a>(
        &'a self,
        expected: &'a Revision,
        entries: Entries,
        change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>> {
        Box::pin(self.write_over(expected, entries, change))
    }

    fn create(&self, entries: Entries, change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>> {
        Box::pin(self.write_first(entries, change))
    }
}
