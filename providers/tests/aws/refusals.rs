//! Each way in which AWS says no is told apart, with what would allow it.

use oneseal_providers::{Entries, ErrorKind, ProviderError, SecretProvider};
use oneseal_testing::parts::{Aws, Fault};
use oneseal_testing::{Canary, block_on};
use serde_json::json;

use crate::place::{RING, change, document, made, provider, ring};

fn error(status: u16, code: &str, message: &str) -> Fault {
    Fault::Error(status, code.to_owned(), message.to_owned())
}

#[test]
fn each_refusal_of_a_read_is_told_by_its_cause_and_cure() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let html =
        |status| Fault::Answer(status, "text/html".to_owned(), "<html>a proxy's page</html>".to_owned());
    let deletion = "You can't perform this operation on the secret because it was marked for deletion.";
    let cases: Vec<(&str, Fault, ErrorKind, &str)> = vec![
        (
            "DescribeSecret",
            Fault::denied("secretsmanager:DescribeSecret", "arn:x:ring"),
            ErrorKind::Denied,
            "IAM does not allow secretsmanager:DescribeSecret on arn:x:ring",
        ),
        (
            "GetSecretValue",
            Fault::denied("secretsmanager:GetSecretValue", "arn:x:ring"),
            ErrorKind::Denied,
            "IAM does not allow secretsmanager:GetSecretValue on arn:x:ring",
        ),
        // A policy of the secret's own, or of the organisation, says less.
        (
            "GetSecretValue",
            error(400, "AccessDeniedException", "Access denied"),
            ErrorKind::Denied,
            "IAM does not allow secretsmanager:GetSecretValue on prod/ring",
        ),
        ("GetSecretValue", Fault::kms_denied(), ErrorKind::Denied, "allow kms:Decrypt in the role's policy"),
        (
            "GetSecretValue",
            error(400, "DecryptionFailure", "Secrets Manager can't decrypt"),
            ErrorKind::Denied,
            "kms:Decrypt",
        ),
        (
            "DescribeSecret",
            error(400, "ExpiredTokenException", "The security token included in the request is expired"),
            ErrorKind::Unauthenticated,
            "have expired",
        ),
        (
            "DescribeSecret",
            error(400, "UnrecognizedClientException", "invalid"),
            ErrorKind::Unauthenticated,
            "does not know these credentials",
        ),
        (
            "DescribeSecret",
            error(400, "InvalidSignatureException", "Signature expired"),
            ErrorKind::Unauthenticated,
            "clock is wrong",
        ),
        (
            "GetSecretValue",
            error(400, "InvalidRequestException", deletion),
            ErrorKind::Unusable,
            "restore-secret --secret-id prod/ring --region eu-central-1`",
        ),
        (
            "DescribeSecret",
            Fault::Throttle,
            ErrorKind::Unavailable,
            "throttles secretsmanager:DescribeSecret",
        ),
        ("GetSecretValue", error(429, "", ""), ErrorKind::Unavailable, "secretsmanager:GetSecretValue"),
        ("DescribeSecret", error(500, "InternalServiceError", "oh"), ErrorKind::Unavailable, "AWS fails"),
        ("DescribeSecret", html(503), ErrorKind::Unavailable, "HTTP 503"),
        ("DescribeSecret", html(200), ErrorKind::Unavailable, "is not Secrets Manager (HTTP 200)"),
        ("GetSecretValue", html(403), ErrorKind::Unavailable, "is not Secrets Manager"),
        ("DescribeSecret", Fault::CutBefore, ErrorKind::Unavailable, "was not answered"),
        ("GetSecretValue", Fault::CutMidway, ErrorKind::Unavailable, "secretsmanager:GetSecretValue"),
        (
            "DescribeSecret",
            error(400, "InvalidParameterException", "odd"),
            ErrorKind::Unusable,
            "AWS says: odd",
        ),
    ];
    block_on(async {
        for (action, fault, kind, wanted) in cases {
            let shown = format!("{fault:?}");
            aws.fault(action, fault, 1);
            // A new one each time: a value that is known is not asked for.
            let refused = provider(&aws).load().await.unwrap_err();
            assert_eq!(refused.kind(), kind, "{shown}: {refused}");
            assert!(refused.to_string().contains(wanted), "{shown}: {refused}");
            assert!(!refused.to_string().contains("a proxy's page"), "{refused}");
            provider(&aws).load().await.unwrap();
        }
        aws.delete_access_key();
        let unknown = provider(&aws).load().await.unwrap_err();
        assert!(
            unknown.kind() == ErrorKind::Unauthenticated
                && unknown.to_string().contains("get-caller-identity"),
            "{unknown}"
        );
    });
}

#[test]
fn each_refusal_of_a_write_names_the_right_that_is_missing_and_changes_nothing() {
    let Some(aws) = Aws::start() else { return };
    let first = made(&aws, &document(1));
    let provider = provider(&aws);
    let denied = |action: &str| Fault::denied(&format!("secretsmanager:{action}"), "arn:x:ring");
    block_on(async {
        let at = provider.load().await.unwrap().revision;
        for (action, fault, kind, wanted) in [
            (
                "PutSecretValue",
                denied("PutSecretValue"),
                ErrorKind::Denied,
                "secretsmanager:PutSecretValue on arn:x:ring",
            ),
            ("PutSecretValue", Fault::kms_denied(), ErrorKind::Denied, "kms:GenerateDataKey"),
            (
                "PutSecretValue",
                error(400, "EncryptionFailure", "no"),
                ErrorKind::Denied,
                "kms:GenerateDataKey",
            ),
            ("PutSecretValue", error(400, "LimitExceededException", "20"), ErrorKind::Unusable, "at a limit"),
            (
                "UpdateSecretVersionStage",
                denied("UpdateSecretVersionStage"),
                ErrorKind::Denied,
                "secretsmanager:UpdateSecretVersionStage",
            ),
            ("UpdateSecretVersionStage", Fault::Throttle, ErrorKind::Unavailable, "throttles"),
        ] {
            aws.fault(action, fault, 1);
            let refused = provider.replace(&at, ring(2), change()).await.unwrap_err();
            assert_eq!(refused.kind(), kind, "{refused}");
            assert!(refused.to_string().contains(wanted), "{refused}");
            assert_eq!(provider.load().await.unwrap().revision, at);
        }
        assert_eq!(crate::place::own_labels(&aws), Vec::<String>::new(), "and leaves no label");
        assert!(at.as_str().contains(&first));
    });
}

#[test]
fn what_a_deleted_secret_wants_is_said() {
    let Some(aws) = Aws::start() else { return };
    let provider = provider(&aws);
    block_on(async {
        let missing = provider.load().await.unwrap_err();
        assert!(
            missing.kind() == ErrorKind::NotFound && missing.to_string().contains("no such secret"),
            "{missing}"
        );
        let at = oneseal_providers::Revision::new("AWSCURRENT=x");
        assert_eq!(provider.replace(&at, ring(1), change()).await.unwrap_err().kind(), ErrorKind::NotFound);

        made(&aws, &document(1));
        let at = provider.load().await.unwrap().revision;
        aws.call("DeleteSecret", &json!({"SecretId": RING}));
        let is_said =
            |refused: &ProviderError| refused.to_string().contains("scheduled for deletion (DeletedDate ");
        let deleted = provider.load().await.unwrap_err();
        assert!(deleted.kind() == ErrorKind::Unusable && is_said(&deleted), "{deleted}");
        let replaced = provider.replace(&at, ring(2), change()).await.unwrap_err();
        assert!(replaced.kind() == ErrorKind::Unusable && is_said(&replaced), "{replaced}");
        let created = provider.create(ring(2), change()).await.unwrap_err();
        assert!(created.kind() == ErrorKind::Unusable && is_said(&created), "{created}");
        aws.call("RestoreSecret", &json!({"SecretId": RING}));
        assert_eq!(provider.load().await.unwrap().revision, at);
    });
}

/// AWS's own messages about parameters repeat them, and so may whatever stands before it.
#[test]
fn an_endpoint_that_repeats_what_it_was_sent_is_not_quoted() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let canary = Canary::random();
    let document = format!(r#"{{"format":1,"keys":[],"d":"{}"}}"#, canary.text());
    let provider = provider(&aws);
    block_on(async {
        let at = provider.load().await.unwrap().revision;
        for fault in [
            error(
                400,
                "ValidationException",
                &format!("Value '{document}' at 'secretString' failed to satisfy"),
            ),
            Fault::Answer(500, "text/plain".to_owned(), document.clone()),
            Fault::Answer(200, "text/plain".to_owned(), document.clone()),
        ] {
            aws.fault("PutSecretValue", fault, 1);
            let entries = Entries::single(Entries::KEYRING, document.clone());
            let refused = provider.replace(&at, entries, change()).await;
            // An answer that is no JSON of its own may be taken for one without members: then the write went on.
            let Err(refused) = refused else { panic!("there is no such version") };
            canary.assert_absent("an error", &format!("{refused} {refused:?} {refused:#?}"));
        }
    });
}
