//! What is logged at the most talkative level there is.

use std::time::Duration;

use oneseal_providers::{AwsOptions, AwsProvider, Entries, SecretProvider};
use oneseal_testing::parts::{Aws, Fault};
use oneseal_testing::{Canary, block_on};
use serde_json::json;

use crate::place::{RING, change, told_in};

/// A life at `trace`: run by the test below.
#[test]
#[ignore = "wants a process of its own, whose log it takes"]
fn a_life_at_trace() {
    tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE).init();
    let secret = |name: &str| std::env::var(name).unwrap();
    let provider = AwsProvider::new(AwsOptions::secret(RING)).unwrap();
    block_on(async {
        let record = provider.load().await.unwrap();
        println!("{record:?} {provider:?}");
        let entries = || Entries::single(Entries::KEYRING, secret("TEST_DOCUMENT"));
        let at = provider.replace(&record.revision, entries(), change()).await.unwrap();
        println!("{:?}", provider.replace(&record.revision, entries(), change()).await);
        println!("{:?}", provider.load().await);
        // These the test refuses and cuts.
        for _ in 0..3 {
            println!("{:?}", provider.replace(&at, entries(), change()).await);
        }
    });
}

#[test]
fn neither_logs_at_trace_nor_errors_show_what_was_read_or_written() {
    let Some(aws) = Aws::start() else { return };
    let (read, written) = (Canary::random(), Canary::random());
    let of = |canary: &Canary| format!(r#"{{"format":1,"keys":[],"d":"{}"}}"#, canary.text());
    aws.call("CreateSecret", &json!({"Name": RING, "SecretString": of(&read)}));
    let mut environment = aws.environment();
    environment.push(("TEST_DOCUMENT".to_owned(), of(&written)));
    // What the SDK shows answers by.
    environment.push(("LOG_SENSITIVE_BODIES".to_owned(), "true".to_owned()));
    let refused = Fault::Error(400, "ValidationException".to_owned(), of(&written));
    for fault in [Fault::Delay(Duration::ZERO), refused, Fault::CutMidway, Fault::CutBefore] {
        aws.fault("PutSecretValue", fault, 1);
    }
    let told = told_in(&environment, "silence::a_life_at_trace");
    assert!(told.contains("TRACE"), "the log is there: {told}");
    read.assert_absent("the log", &told);
    written.assert_absent("the log", &told);
}
