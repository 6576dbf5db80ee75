//! What secrets hold, and how they are named.

use oneseal_providers::{AwsOptions, Entries, ErrorKind, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{Aws, Fault};
use serde_json::json;

use crate::place::{RING, change, document, entries, finish, made, of, provider, put};

const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI…\n-----END PRIVATE KEY-----\n";

#[test]
fn text_bytes_and_members_of_an_object_are_read_as_they_are() {
    let Some(aws) = Aws::start() else { return };
    let der = [0x30, 0x2e, 0x02, 0x01, 0x00, 0xff];
    let create = |name: &str, kind: &str, value: &str| {
        aws.call("CreateSecret", &json!({"Name": name, kind: value}));
    };
    create("pem", "SecretString", PEM);
    create("der", "SecretBinary", "MC4CAQD/");
    create(
        "pairs",
        "SecretString",
        &json!({"user": "u", "private_key": PEM, "ring": document(1)}).to_string(),
    );
    create("nested", "SecretString", r#"{"jwk": {"kty": "OKP"}}"#);
    let read = async |name: &str, member: Option<&str>| {
        let mut options = AwsOptions::secret(name);
        options.member = member.map(str::to_owned);
        let record = of(&aws, options).load().await.unwrap();
        let (name, value) = record.entries.iter().next().unwrap();
        (record.entries.len(), name.to_owned(), value.expose().to_vec())
    };
    block_on(async {
        let current = Entries::CURRENT.to_owned();
        assert_eq!(read("pem", None).await, (1, current.clone(), PEM.into()));
        assert_eq!(read("der", None).await, (1, current.clone(), der.to_vec()));
        assert_eq!(read("pairs", Some("private_key")).await, (1, current.clone(), PEM.into()));
        assert_eq!(read("nested", Some("jwk")).await, (1, current, br#"{"kty": "OKP"}"#.to_vec()));
        assert_eq!(read("pairs", Some("ring")).await, (1, Entries::KEYRING.to_owned(), document(1).into()));
    });
}

#[test]
fn a_secret_is_found_by_name_arn_and_partial_arn() {
    let Some(aws) = Aws::start() else { return };
    let made = aws.call("CreateSecret", &json!({"Name": RING, "SecretString": PEM}));
    let arn = made["ARN"].as_str().unwrap();
    block_on(async {
        for id in [RING, arn, &arn[..arn.len() - 7]] {
            let record = of(&aws, AwsOptions::secret(id)).load().await.unwrap();
            assert_eq!(entries(&record), [("current", PEM.to_owned())], "{id}");
        }
        let region = AwsOptions::secret(RING).region("us-east-1");
        let elsewhere = of(&aws, region).load().await.unwrap_err();
        assert_eq!(elsewhere.kind(), ErrorKind::NotFound);
        assert!(
            elsewhere.to_string().contains("no such secret in us-east-1; it may be in another region"),
            "{elsewhere}"
        );
        // An ARN says where it is, whatever region the environment is set to.
        let mut config = crate::place::config(&aws).into_builder();
        config.set_region(Some(aws_config::Region::new("us-east-1")));
        let by_arn =
            oneseal_providers::AwsProvider::with_config(AwsOptions::secret(arn), config.build()).unwrap();
        by_arn.load().await.unwrap();
        // Made anew, a secret has another ARN.
        let gone = of(&aws, AwsOptions::secret(format!("{}AAAAAA", &arn[..arn.len() - 6])))
            .load()
            .await
            .unwrap_err();
        assert!(gone.kind() == ErrorKind::NotFound && gone.to_string().contains("six characters"), "{gone}");
    });
}

#[test]
fn what_is_no_record_is_told_by_its_label_and_without_its_value() {
    let Some(aws) = Aws::start() else { return };
    let canary = "s3cret-canary";
    let first = made(&aws, &format!(r#"{{"user":"{canary}","key":"{canary}"}}"#));
    let by = |member: &str| of(&aws, AwsOptions::secret(RING).member(member));
    block_on(async {
        let other = by("private_key").load().await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::NotFound);
        let told = other.to_string();
        assert!(
            told.contains(
                "the JSON object has no member private_key; its members are: user, key. Is one of these meant?"
            ),
            "{told}"
        );
        assert!(!format!("{other:?}").contains(canary), "{other:?}");

        // The members are there, and in the next key's value they are not.
        let pending = put(&aws, canary, "AWSPENDING");
        let broken = by("key").load().await.unwrap_err();
        assert!(broken.to_string().contains("AWSPENDING: the value is no JSON object"), "{broken}");
        assert!(!format!("{broken:?}").contains(canary));

        // Of neither kind: not even AWS's own tools make such a version.
        let empty = json!({"ARN": "x", "Name": RING, "VersionId": first}).to_string();
        aws.fault("GetSecretValue", Fault::Answer(200, "application/x-amz-json-1.1".to_owned(), empty), 1);
        let empty = provider(&aws).load().await.unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::Malformed);
        assert!(
            empty.to_string().contains("AWSCURRENT: the version holds neither text nor bytes"),
            "{empty}"
        );

        // A rotation that began before there ever was a key.
        let described = json!({"Name": RING, "VersionIdsToStages": {pending: ["AWSPENDING"]}}).to_string();
        aws.fault(
            "DescribeSecret",
            Fault::Answer(200, "application/x-amz-json-1.1".to_owned(), described),
            1,
        );
        let none = provider(&aws).load().await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::Malformed);
        assert!(none.to_string().contains("no version has the label AWSCURRENT, only AWSPENDING"), "{none}");
    });
}

#[test]
fn a_ring_counts_under_awscurrent_alone_and_no_version_is_read_twice() {
    let Some(aws) = Aws::start() else { return };
    let ring = made(&aws, &document(1));
    block_on(async {
        let provider = provider(&aws);
        let first = provider.load().await.unwrap();
        // What it was before is under AWSPREVIOUS then.
        let other = put(&aws, "no key", "AWSCURRENT");
        aws.reset_counts();
        for _ in 0..3 {
            let record = provider.load().await.unwrap();
            assert_eq!(entries(&record), [("current", "no key".to_owned())]);
        }
        assert_eq!(aws.counts()["GetSecretValue"], 1, "the ring had been read before");

        finish(&aws, &other, &ring);
        let back = provider.load().await.unwrap();
        assert_eq!(entries(&back), [(Entries::KEYRING, document(1))]);
        assert_eq!(back.revision, first.revision);
    });
}

#[test]
fn a_write_into_a_member_leaves_the_others_and_counts_them() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &json!({"owner": "platform", "ring": document(1), "size": 3}).to_string());
    let provider = of(&aws, AwsOptions::secret(RING).member("ring"));
    block_on(async {
        let at = provider.load().await.unwrap().revision;
        let at = provider.replace(&at, crate::place::ring(2), change()).await.unwrap();
        let value = aws.call("GetSecretValue", &json!({"SecretId": RING, "VersionStage": "AWSCURRENT"}))["SecretString"].clone();
        let value: serde_json::Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
        assert_eq!(value, json!({"owner": "platform", "ring": document(2), "size": 3}));
        assert_eq!(provider.load().await.unwrap().revision, at);

        // Quotes double when they are quoted.
        let large = format!(r#"{{"format":1,"keys":[],"filler":[{}"x"]}}"#, "\"x\",".repeat(15_000));
        let refused =
            provider.replace(&at, Entries::single(Entries::KEYRING, large), change()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
        assert!(refused.to_string().contains("with its other members"), "{refused}");
    });
}

/// As whoever keeps other things in the same secret would expect.
#[test]
fn a_first_ring_is_put_beside_the_members_that_are_there_and_over_none() {
    let Some(aws) = Aws::start() else { return };
    let by = |name: &str| of(&aws, AwsOptions::secret(name).member("ring"));
    let value = |name: &str| {
        let told = aws.call("GetSecretValue", &json!({"SecretId": name, "VersionStage": "AWSCURRENT"}));
        serde_json::from_str::<serde_json::Value>(told["SecretString"].as_str().unwrap()).unwrap()
    };
    block_on(async {
        for (name, before) in [("none", json!({})), ("others", json!({"owner": "platform", "size": 3}))] {
            aws.call("CreateSecret", &json!({"Name": name, "SecretString": before.to_string()}));
            assert_eq!(by(name).load().await.unwrap_err().kind(), ErrorKind::NotFound, "{name}");
            let mut after = before;
            after["ring"] = document(1).into();
            let at = by(name).create(crate::place::ring(1), change()).await.unwrap();
            assert_eq!((value(name), by(name).load().await.unwrap().revision), (after.clone(), at), "{name}");
            let again = by(name).create(crate::place::ring(2), change()).await.unwrap_err();
            assert_eq!((again.kind(), value(name)), (ErrorKind::AlreadyExists, after), "{name}");
        }
        // Of several, one; and whoever writes another member meanwhile loses nothing by it.
        aws.call("CreateSecret", &json!({"Name": "raced", "SecretString": "{\"owner\":\"platform\"}"}));
        let (one, two) = (by("raced"), by("raced"));
        let race = futures_util::future::join(
            one.create(crate::place::ring(1), change()),
            two.create(crate::place::ring(2), change()),
        );
        let (one, two) = race.await;
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
        let lost = one.and(two).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::AlreadyExists, "{lost}");
        assert_eq!(value("raced")["owner"], "platform");
        // What is no object has no room for a member.
        aws.call("CreateSecret", &json!({"Name": "text", "SecretString": PEM}));
        let refused = by("text").create(crate::place::ring(1), change()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Malformed, "{refused}");
    });
}
