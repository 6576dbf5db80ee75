//! What these tests share: a secret in an account of its own, handles on it, and what to put there.

use std::process::Command;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use oneseal_coordination::EventDraft;
use oneseal_providers::aws::SdkConfig;
use oneseal_providers::{AwsOptions, AwsProvider, Change, Entries, Record};
use oneseal_testing::parts::Aws;
use serde_json::{Value, json};
use uuid::Uuid;

/// The secret's name in all tests.
pub(crate) const RING: &str = "prod/ring";

/// A poll so slow that a test that waits for it fails.
pub(crate) const NO_POLL: Duration = Duration::from_secs(3600);

/// Often enough to wait for.
pub(crate) const QUICK_POLL: Duration = Duration::from_millis(100);

/// Credentials and endpoint of the account, without the environment of this process.
pub(crate) fn config(aws: &Aws) -> SdkConfig {
    let environment = aws.environment();
    let of = |wanted: &str| environment.iter().find(|(name, _)| name == wanted).unwrap().1.clone();
    let key = Credentials::new(of("AWS_ACCESS_KEY_ID"), of("AWS_SECRET_ACCESS_KEY"), None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(of("AWS_REGION")))
        .endpoint_url(aws.url())
        .credentials_provider(SharedCredentialsProvider::new(key))
        .build()
}

pub(crate) fn provider(aws: &Aws) -> AwsProvider {
    of(aws, AwsOptions::secret(RING))
}

pub(crate) fn of(aws: &Aws, options: AwsOptions) -> AwsProvider {
    let options = if options.poll == QUICK_POLL { options } else { options.poll_every(NO_POLL) };
    AwsProvider::with_config(options, config(aws)).unwrap()
}

/// A ring document as far as a provider looks into one.
pub(crate) fn ring(revision: u64) -> Entries {
    Entries::single(Entries::KEYRING, document(revision))
}

pub(crate) fn document(revision: u64) -> String {
    format!(r#"{{"format":1,"revision":{revision},"keys":[]}}"#)
}

pub(crate) fn change() -> Change {
    change_of(Uuid::new_v4())
}

pub(crate) fn change_of(id: Uuid) -> Change {
    Change {
        id,
        actor: "test".to_owned(),
        reason: "a test".to_owned(),
        event: EventDraft::new("test.changed", "{}"),
        fence: None,
    }
}

/// Names and values of a record, as text.
pub(crate) fn entries(record: &Record) -> Vec<(&str, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    record.entries.iter().map(|(name, value)| (name, text(value.expose()))).collect()
}

/// Makes the secret, as an operator would, and says which version it has.
pub(crate) fn made(aws: &Aws, text: &str) -> String {
    let made = aws.call("CreateSecret", &json!({"Name": RING, "SecretString": text}));
    made["VersionId"].as_str().unwrap().to_owned()
}

/// Puts another version there, under `label`.
pub(crate) fn put(aws: &Aws, text: &str, label: &str) -> String {
    let parameters = json!({"SecretId": RING, "SecretString": text, "VersionStages": [label]});
    aws.call("PutSecretValue", &parameters)["VersionId"].as_str().unwrap().to_owned()
}

/// Moves AWSCURRENT, as the last step of a rotation does.
pub(crate) fn finish(aws: &Aws, from: &str, to: &str) {
    let parameters = json!({
        "SecretId": RING, "VersionStage": "AWSCURRENT", "RemoveFromVersionId": from, "MoveToVersionId": to,
    });
    aws.call("UpdateSecretVersionStage", &parameters);
}

/// Every version with its labels.
pub(crate) fn labels(aws: &Aws) -> Vec<(String, Vec<String>)> {
    let described = aws.call("DescribeSecret", &json!({"SecretId": RING}));
    let versions: &Value = &described["VersionIdsToStages"];
    let of = |labels: &Value| serde_json::from_value(labels.clone()).unwrap();
    versions.as_object().unwrap().iter().map(|(version, on)| (version.clone(), of(on))).collect()
}

/// The labels that this program has left.
pub(crate) fn own_labels(aws: &Aws) -> Vec<String> {
    let all = labels(aws).into_iter().flat_map(|(_, on)| on);
    all.filter(|label| label.starts_with("oneseal-")).collect()
}

/// Runs the ignored test `name` of this binary in an environment of its own, and gives back all that it tells.
pub(crate) fn told_in(environment: &[(String, String)], name: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env_clear();
    let output = command.envs(environment.iter().cloned()).output().unwrap();
    let told =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    told
}

/// Ends a test that would hang.
pub(crate) async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    let limit = Duration::from_secs(60);
    let outcome = tokio::time::timeout(limit, future).await;
    outcome.unwrap_or_else(|_| panic!("{what}: nothing happened for {limit:?}"))
}
