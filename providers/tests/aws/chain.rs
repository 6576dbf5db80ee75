//! Credentials and region as the SDK finds them: in the environment of a process of its own.

use std::path::Path;

use oneseal_providers::{AwsOptions, AwsProvider, ProviderUri, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::Aws;

use crate::place::{RING, document, made, told_in};

/// What is read by the default chain: run by the tests below.
#[test]
#[ignore = "wants an environment of its own"]
fn as_the_environment_says() {
    let outcome = match AwsProvider::new(AwsOptions::secret(RING)) {
        Ok(provider) => block_on(provider.load()),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(record) => println!("read {}", record.revision),
        Err(error) => println!("{:?}: {error}", error.kind()),
    }
}

fn told(environment: Vec<(String, String)>) -> String {
    told_in(&environment, "chain::as_the_environment_says")
}

fn with(mut environment: Vec<(String, String)>, name: &str, value: &str) -> Vec<(String, String)> {
    environment.retain(|(known, _)| known != name);
    environment.push((name.to_owned(), value.to_owned()));
    environment
}

fn without(mut environment: Vec<(String, String)>, names: &str) -> Vec<(String, String)> {
    environment.retain(|(known, _)| !names.split(' ').any(|name| name == known));
    environment
}

#[test]
fn variables_are_honoured_as_the_sdk_does_and_what_is_missing_is_said() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let environment = || aws.environment();
    let read = told(environment());
    assert!(read.contains("read AWSCURRENT="), "{read}");

    // The endpoint of the service alone counts before the one of all.
    let elsewhere = with(environment(), "AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    let refused = told(elsewhere.clone());
    assert!(refused.contains("Unavailable: "), "{refused}");
    let by_service = with(elsewhere, "AWS_ENDPOINT_URL_SECRETS_MANAGER", &aws.url());
    assert!(told(by_service).contains("read AWSCURRENT="));

    let nobody = told(without(environment(), "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY"));
    assert!(nobody.contains("Unauthenticated: ") && nobody.contains("no AWS credentials"), "{nobody}");
    let empty = with(environment(), "AWS_REGION", "");
    for nowhere in [told(without(environment(), "AWS_REGION")), told(empty)] {
        assert!(nowhere.contains("Misconfigured: ") && nowhere.contains("no region is known"), "{nowhere}");
    }
    let odd = told(with(environment(), "AWS_REGION", "eu west"));
    assert!(odd.contains("Misconfigured: ") && odd.contains("AWS_REGION, or the profile's"), "{odd}");
}

#[test]
fn a_web_identity_that_is_not_taken_is_told_by_what_sts_says() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let role = aws.create_role(
        "replica",
        "https://issuer.invalid",
        "sts.amazonaws.com",
        "system:serviceaccount:a:b",
    );
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.").unwrap();
    let by = |file: &Path| aws.web_identity_environment(&role, file);
    let refused = told(by(token.path()));
    assert!(refused.contains("Unauthenticated: ") && refused.contains("InvalidIdentityToken"), "{refused}");
    assert!(!refused.contains("eyJ"), "{refused}");
    let missing = told(by(Path::new("/nonexistent/token")));
    assert!(missing.contains("no AWS credentials") && missing.contains("No such file"), "{missing}");
    // STS may be elsewhere than the rest.
    let no_sts = told(with(by(token.path()), "AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1"));
    assert!(no_sts.contains("NoCredentials: ") && no_sts.contains("no AWS credentials"), "{no_sts}");
}

#[test]
fn nobody_is_asked_before_the_first_call() {
    let Some(aws) = Aws::start() else { return };
    let uri = format!("aws:{RING}?region=eu-central-1&endpoint={}", aws.url());
    let provider = ProviderUri::parse(&uri).unwrap().open().unwrap();
    assert_eq!(provider.describe().location, "prod/ring in eu-central-1");
    let held = crate::place::provider(&aws);
    assert!(format!("{held:?}").contains(RING));
    drop((provider, held));
    assert_eq!((aws.counts().len(), aws.network().accepted()), (0, 0));
}
