//! The five calls of Secrets Manager that are made, and nothing else of the SDK.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_secretsmanager::config::Builder;
use aws_sdk_secretsmanager::operation::describe_secret::DescribeSecretOutput;
use aws_sdk_secretsmanager::primitives::Blob;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;
use uuid::Uuid;

use super::AwsOptions;
use super::fault::{Action, Failed};
use super::options::{NO_REGION_NAME, is_region};
use super::stages::CURRENT;
use crate::SecretBytes;

/// Connecting takes one round trip or two; who has not answered by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

const NO_REGION: &str = "no region is known: set AWS_REGION, `region` beside the secret's name (provider.region, kek.region, \
                         `?region=R` in a URI), or name the secret by its ARN";

/// Asks about one secret.
pub(super) struct Client {
    sdk: aws_sdk_secretsmanager::Client,
    secret: String,
    region: String,
}

/// What DescribeSecret tells, as far as it is used. No value is in it.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) labels: HashMap<String, Vec<String>>,
    /// `DeletedDate` of one that waits for its deletion, in RFC 3339.
    pub(super) deleted: Option<String>,
    /// Where it is written, if it is a copy of a secret in another region.
    pub(super) primary_region: Option<String>,
    /// Whether AWS calls a function now and then that writes another value.
    pub(super) is_rotated_by_aws: bool,
    pub(super) kms_key: Option<String>,
}

impl Client {
    /// Reads configuration and environment, and where these do not name a region asks the instance for it. The error says
    /// what is missing.
    pub(super) async fn connect(options: &AwsOptions, config: Option<&SdkConfig>) -> Result<Self, String> {
        let timeouts = timeouts(options.timeout);
        let config = match config {
            Some(config) => config.clone(),
            None => {
                // Also those of credentials: they go through the same clients.
                let mut loader = aws_config::defaults(BehaviorVersion::latest())
                    .retry_config(RetryConfig::disabled())
                    .timeout_config(timeouts.clone());
                if let Some(region) = options.known_region() {
                    loader = loader.region(Region::new(region.to_owned()));
                }
                quietly(loader.load()).await
            }
        };
        let region = options.known_region().map(str::to_owned).or(config.region().map(Region::to_string));
        let region = region.filter(|region| !region.is_empty()).ok_or_else(|| NO_REGION.to_owned())?;
        // What the options say has been looked at: this one is the environment's.
        if !is_region(&region) {
            return Err(format!("AWS_REGION, or the profile's `region`, names none: {NO_REGION_NAME}"));
        }
        let mut builder = Builder::from(&config)
            .region(Region::new(region.clone()))
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.endpoint_url(endpoint);
        }
        let sdk = aws_sdk_secretsmanager::Client::from_conf(builder.build());
        Ok(Self { sdk, secret: options.secret.clone(), region })
    }

    pub(super) fn region(&self) -> &str {
        &self.region
    }

    pub(super) async fn describe(&self) -> Result<Described, Failed> {
        let call = self.sdk.describe_secret().secret_id(&self.secret);
        let told = quietly(call.send()).await;
        told.map(Described::from).map_err(|error| Failed::of(Action::DescribeSecret, error))
    }

    /// The value of a version; `None` if it holds neither text nor bytes.
    pub(super) async fn value(&self, version: &str) -> Result<Option<SecretBytes>, Failed> {
        let call = self.sdk.get_secret_value().secret_id(&self.secret).version_id(version);
        let told = quietly(call.send()).await;
        let told = told.map_err(|error| Failed::of(Action::GetSecretValue, error))?;
        // Moved out of the answer, so that there is no second copy to wipe.
        let value = match (told.secret_string, told.secret_binary) {
            (Some(text), _) => Some(SecretBytes::from(text)),
            (None, Some(bytes)) => Some(SecretBytes::new(bytes.into_inner())),
            (None, None) => None,
        };
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// Makes a version called `id`, under `label` alone.
    pub(super) async fn put(&self, id: Uuid, label: &str, value: &SecretBytes) -> Result<(), Failed> {
        let call = self.sdk.put_secret_value().secret_id(&self.secret);
        let call = call.client_request_token(id.to_string()).version_stages(label);
        let (text, bytes) = parts(value);
        let told = quietly(call.set_secret_string(text).set_secret_binary(bytes).send()).await;
        told.map(drop).map_err(|error| Failed::of(Action::PutSecretValue, error))
    }

    /// Moves AWSCURRENT to the version `to`, away from `from`, and from no other.
    pub(super) async fn make_current(&self, to: Uuid, from: Option<&str>) -> Result<(), Failed> {
        let call = self.sdk.update_secret_version_stage().secret_id(&self.secret).version_stage(CURRENT);
        let call =
            call.move_to_version_id(to.to_string()).set_remove_from_version_id(from.map(str::to_owned));
        let told = quietly(call.send()).await;
        told.map(drop).map_err(|error| Failed::of(Action::UpdateSecretVersionStage, error))
    }

    /// Takes a label of ours off a version.
    pub(super) async fn take_label(&self, label: &str, version: &str) -> Result<(), Failed> {
        let call = self.sdk.update_secret_version_stage().secret_id(&self.secret).version_stage(label);
        let told = quietly(call.remove_from_version_id(version).send()).await;
        told.map(drop).map_err(|error| Failed::of(Action::UpdateSecretVersionStage, error))
    }

    /// Makes the secret, with the version `id` under AWSCURRENT.
    pub(super) async fn create(&self, id: Uuid, value: &SecretBytes) -> Result<(), Failed> {
        let call = self.sdk.create_secret().name(&self.secret).client_request_token(id.to_string());
        let (text, bytes) = parts(value);
        let told = quietly(call.set_secret_string(text).set_secret_binary(bytes).send()).await;
        told.map(drop).map_err(|error| Failed::of(Action::CreateSecret, error))
    }
}

/// Nothing of credentials.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("region", &self.region).finish_non_exhaustive()
    }
}

impl From<DescribeSecretOutput> for Described {
    fn from(told: DescribeSecretOutput) -> Self {
        use aws_sdk_secretsmanager::primitives::DateTimeFormat;

        Self {
            deleted: told.deleted_date().map(|at| at.fmt(DateTimeFormat::DateTime).unwrap_or_default()),
            is_rotated_by_aws: told.rotation_enabled().unwrap_or_default(),
            labels: told.version_ids_to_stages.unwrap_or_default(),
            primary_region: told.primary_region,
            kms_key: told.kms_key_id,
        }
    }
}

/// Text as text, anything else as bytes: what the console shows, an operator can read.
fn parts(value: &SecretBytes) -> (Option<String>, Option<Blob>) {
    match str::from_utf8(value.expose()) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(Blob::new(value.expose()))),
    }
}

fn timeouts(limit: Duration) -> TimeoutConfig {
    let connect = limit.min(CONNECT_TIMEOUT);
    TimeoutConfig::builder().connect_timeout(connect).read_timeout(limit).operation_timeout(limit).build()
}

/// Without any subscriber: at `trace` the SDK shows the body of each request, and with `LOG_SENSITIVE_BODIES` in the
/// environment that of each answer. What went wrong is told by the error.
async fn quietly<F: Future>(call: F) -> F::Output {
    call.with_subscriber(NoSubscriber::new()).await
}
