//! Keys that others put there: AWS's own rotation step by step, by hand, and what a replica asks for meanwhile.

use std::time::Duration;

use oneseal_providers::{AwsOptions, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::Aws;
use serde_json::json;
use uuid::Uuid;

use crate::place::{
    QUICK_POLL, RING, document, entries, finish, in_time, labels, made, of, provider, put, ring,
};

fn pairs(of: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    of.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// create, set, test, finish, as the functions do that AWS calls.
#[test]
fn each_step_of_a_rotation_shows_the_keys_that_are_there_and_only_those() {
    let Some(aws) = Aws::start() else { return };
    let first = made(&aws, "one");
    let provider = of(&aws, AwsOptions::secret(RING).poll_every(QUICK_POLL));
    block_on(async {
        let at_rest = provider.load().await.unwrap();
        assert_eq!(entries(&at_rest), pairs(&[("current", "one")]));

        // AWS makes a version without a value, then calls the function, which is to put one there. This account has no
        // functions, so the call fails; the version stays.
        let second = Uuid::new_v4().to_string();
        let function = format!("arn:aws:lambda:eu-central-1:{}:function:rotate", aws.account());
        let rotate = json!({"SecretId": RING, "ClientRequestToken": second, "RotationLambdaARN": function});
        assert!(aws.try_call("RotateSecret", &rotate).is_err());
        assert!(
            labels(&aws).contains(&(second.clone(), vec!["AWSPENDING".to_owned()])),
            "{:?}",
            labels(&aws)
        );
        let begun = provider.load().await.unwrap();
        assert_eq!((entries(&begun), &begun.revision), (pairs(&[("current", "one")]), &at_rest.revision));

        let waiting = in_time("the pending key", provider.changed(&begun.revision));
        let put = async {
            let parameters = json!({
                "SecretId": RING, "SecretString": "two", "ClientRequestToken": second, "VersionStages": ["AWSPENDING"],
            });
            aws.call("PutSecretValue", &parameters)
        };
        futures_util::future::join(waiting, put).await;
        let created = provider.load().await.unwrap();
        assert_eq!(entries(&created), pairs(&[("current", "one"), ("next", "two")]));
        assert_ne!(created.revision, begun.revision);

        finish(&aws, &first, &second);
        in_time("the move", provider.changed(&created.revision)).await;
        let finished = provider.load().await.unwrap();
        // AWS leaves AWSPENDING where it was.
        assert_eq!(entries(&finished), pairs(&[("current", "two"), ("next", "two"), ("previous", "one")]));
        assert_eq!(finished.change_id.map(|id| id.to_string()), Some(second));
    });
}

#[test]
fn two_rotations_between_two_looks_show_the_last_and_what_has_left_is_forgotten() {
    let Some(aws) = Aws::start() else { return };
    let first = made(&aws, "one");
    let provider = of(&aws, AwsOptions::secret(RING).poll_every(QUICK_POLL));
    block_on(async {
        let before = provider.load().await.unwrap();
        let second = put(&aws, "two", "AWSPENDING");
        finish(&aws, &first, &second);
        let third = put(&aws, "three", "AWSPENDING");
        finish(&aws, &second, &third);
        in_time("two rotations", provider.changed(&before.revision)).await;
        let after = provider.load().await.unwrap();
        assert_eq!(entries(&after), pairs(&[("current", "three"), ("next", "three"), ("previous", "two")]));

        aws.reset_counts();
        provider.load().await.unwrap();
        assert_eq!(aws.counts().get("GetSecretValue"), None, "what is known is not read again");
        put(&aws, "one again", "AWSPENDING");
        provider.load().await.unwrap();
        assert_eq!(aws.counts()["GetSecretValue"], 1, "and what is not known, once");
    });
}

#[test]
fn a_ring_document_counts_alone_and_other_labels_are_not_even_read() {
    let Some(aws) = Aws::start() else { return };
    let first = made(&aws, "placeholder");
    let second = put(&aws, &document(1), "AWSPENDING");
    let provider = provider(&aws);
    block_on(async {
        let bare = provider.load().await.unwrap();
        assert_eq!(entries(&bare), pairs(&[("current", "placeholder")]), "a ring waits for AWSCURRENT");

        finish(&aws, &first, &second);
        let put_there = provider.load().await.unwrap();
        assert_eq!(entries(&put_there), [("keyring.json", document(1))]);
        aws.reset_counts();
        put(&aws, "next one's", "AWSPENDING");
        let moved = provider.load().await.unwrap();
        assert_eq!((&moved.revision, aws.counts().get("GetSecretValue")), (&put_there.revision, None));

        // A bare key's place is taken by a ring: what AWSPREVIOUS holds from then on is no key of it.
        provider.replace(&put_there.revision, ring(2), crate::place::change()).await.unwrap();
        assert_eq!(entries(&provider.load().await.unwrap()), [("keyring.json", document(2))]);
    });
}

/// What `docs/aws.md` counts with.
#[test]
fn an_idle_replica_describes_once_a_refresh_and_reads_each_version_once() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let provider = provider(&aws);
    block_on(async {
        aws.reset_counts();
        for _ in 0..20 {
            // As the keystore does: a look, then a wait that is cut short by the next look.
            let record = provider.load().await.unwrap();
            let _ = tokio::time::timeout(Duration::from_millis(20), provider.changed(&record.revision)).await;
        }
        assert_eq!(
            aws.counts(),
            [("DescribeSecret".to_owned(), 20), ("GetSecretValue".to_owned(), 1)].into()
        );
    });
}

#[test]
fn a_change_is_seen_within_the_interval_by_every_replica_and_not_before() {
    let Some(aws) = Aws::start() else { return };
    let first = made(&aws, "one");
    let quick = || of(&aws, AwsOptions::secret(RING).poll_every(QUICK_POLL));
    let replicas = [quick(), quick(), quick()];
    block_on(async {
        let before = replicas[0].load().await.unwrap().revision;
        let waiting = futures_util::future::join_all(replicas.iter().map(|replica| replica.changed(&before)));
        let mut waiting = std::pin::pin!(waiting);
        let early = tokio::time::timeout(QUICK_POLL * 3, &mut waiting).await;
        assert!(early.is_err(), "woken before anything changed");
        let second = put(&aws, "two", "AWSPENDING");
        finish(&aws, &first, &second);
        in_time("the interval", waiting).await;
        for replica in &replicas {
            let seen = replica.load().await.unwrap();
            assert_eq!(seen.change_id.map(|id| id.to_string()), Some(second.clone()));
        }
    });
}
