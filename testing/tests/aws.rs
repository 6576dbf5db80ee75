//! The part that plays AWS: what moto does, what the gate before it sets right, and what it breaks.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use oneseal_testing::parts::{Aws, Fault};
use serde_json::{Value, json};

#[test]
fn a_secret_is_made_changed_and_found_and_each_account_has_its_own() {
    let (Some(aws), Some(other)) = (Aws::start(), Aws::start()) else { return };
    let made = aws.call("CreateSecret", &json!({"Name": "ring", "SecretString": "one"}));
    let arn = made["ARN"].as_str().unwrap();
    assert!(
        arn.starts_with(&format!("arn:aws:secretsmanager:eu-central-1:{}:secret:ring-", aws.account())),
        "{arn}"
    );
    aws.call("PutSecretValue", &json!({"SecretId": arn, "SecretString": "two"}));
    let partial = &arn[..arn.len() - 7];
    for (id, stage, expected) in [("ring", "AWSCURRENT", "two"), (partial, "AWSPREVIOUS", "one")] {
        let found = aws.call("GetSecretValue", &json!({"SecretId": id, "VersionStage": stage}));
        assert_eq!(found["SecretString"], expected);
    }
    let refusal = other.try_call("GetSecretValue", &json!({"SecretId": "ring"})).unwrap_err();
    assert_eq!(refusal.code, "ResourceNotFoundException");
    assert_eq!(aws.counts(), [].into(), "the test's own calls do not count");
}

#[test]
fn a_label_moves_only_from_where_it_is() {
    let Some(aws) = Aws::start() else { return };
    let [first, second, third] = versions(&aws);
    let moved = |label: &str, to: Option<&str>, from: Option<&str>| {
        let parameters = json!({
            "SecretId": "ring", "VersionStage": label, "MoveToVersionId": to, "RemoveFromVersionId": from,
        });
        aws.try_call("UpdateSecretVersionStage", &parameters)
            .map_err(|refusal| (refusal.code, refusal.message))
    };
    for (label, to, from, code, cause) in [
        (
            "AWSCURRENT",
            Some(&second),
            None,
            "InvalidParameterException",
            "RemoveFromVersionId can't be empty",
        ),
        ("two", Some(&third), None, "InvalidParameterException", &*format!("attached to version {second}")),
        ("AWSCURRENT", Some(&second), Some(&third), "InvalidParameterException", "not currently attached"),
        ("AWSCURRENT", None, Some(&first), "InvalidParameterException", "can't be completely removed"),
        ("AWSCURRENT", Some(&"0".repeat(32)), Some(&first), "ResourceNotFoundException", "version"),
        ("nobody's", Some(&second), Some(&first), "InvalidParameterException", "not currently attached"),
    ] {
        let refusal = moved(label, to.map(|to| &**to), from.map(|from| &**from)).unwrap_err();
        assert_eq!(refusal.0, code, "{refusal:?}");
        assert!(refusal.1.contains(cause), "{refusal:?}");
    }
    let before = labels(&aws);
    assert_eq!(
        before,
        json!({first.clone(): ["AWSCURRENT"], second.clone(): ["two"], third.clone(): ["three"]})
    );

    moved("AWSCURRENT", Some(&second), Some(&first)).unwrap();
    assert_eq!(moved("AWSCURRENT", Some(&third), Some(&first)).unwrap_err().0, "InvalidParameterException");
    moved("AWSCURRENT", Some(&second), None).unwrap();
    moved("three", None, Some(&third)).unwrap();
    let after = labels(&aws);
    assert_eq!(
        after,
        json!({first: ["AWSPREVIOUS"], second: ["two", "AWSCURRENT"]}),
        "a version without labels is gone"
    );
}

/// A secret `ring` with three versions: the first has AWSCURRENT, the others the labels `two` and `three`.
fn versions(aws: &Aws) -> [String; 3] {
    let id = |answer: Value| answer["VersionId"].as_str().unwrap().to_owned();
    let put = |label: &str| {
        let parameters = json!({"SecretId": "ring", "SecretString": label, "VersionStages": [label]});
        id(aws.call("PutSecretValue", &parameters))
    };
    let first = id(aws.call("CreateSecret", &json!({"Name": "ring", "SecretString": "one"})));
    [first, put("two"), put("three")]
}

fn labels(aws: &Aws) -> Value {
    aws.call("DescribeSecret", &json!({"SecretId": "ring"}))["VersionIdsToStages"].clone()
}

#[test]
fn of_writers_that_move_one_label_at_once_one_wins() {
    let Some(aws) = Aws::start() else { return };
    let [first, second, third] = versions(&aws);
    let attempt = |to: &str| {
        let parameters = json!({
            "SecretId": "ring", "VersionStage": "AWSCURRENT", "MoveToVersionId": to, "RemoveFromVersionId": first,
        });
        post(&aws, "UpdateSecretVersionStage", &parameters).0
    };
    let won = std::thread::scope(|scope| {
        let attempt = &attempt;
        let both = [&second, &third].map(|to| scope.spawn(move || attempt(to)));
        both.map(|thread| thread.join().unwrap())
    });
    assert!(won == [200, 400] || won == [400, 200], "{won:?}");
}

#[test]
fn what_aws_refuses_and_moto_does_not_is_refused() {
    let Some(aws) = Aws::start() else { return };
    versions(&aws);
    let large = json!({"SecretId": "ring", "SecretString": "a".repeat(65_537)});
    assert_eq!(aws.try_call("PutSecretValue", &large).unwrap_err().code, "ValidationException");
    let largest = json!({"SecretId": "ring", "SecretString": "a".repeat(65_536)});
    aws.call("PutSecretValue", &largest);
    aws.call("DeleteSecret", &json!({"SecretId": "ring"}));
    for action in ["GetSecretValue", "PutSecretValue"] {
        let refusal = aws.try_call(action, &json!({"SecretId": "ring", "SecretString": "x"})).unwrap_err();
        assert_eq!(refusal.code, "InvalidRequestException");
        assert!(refusal.message.contains("marked for deletion"), "{refusal}");
    }
    aws.call("RestoreSecret", &json!({"SecretId": "ring"}));
    aws.call("GetSecretValue", &json!({"SecretId": "ring"}));
}

#[test]
fn calls_are_counted_and_faults_meet_those_they_are_meant_for() {
    let Some(aws) = Aws::start() else { return };
    versions(&aws);
    let ring = json!({"SecretId": "ring"});
    let read = || post(&aws, "GetSecretValue", &ring);
    aws.fault("GetSecretValue", Fault::Throttle, 2);
    aws.fault("GetSecretValue", Fault::denied("secretsmanager:GetSecretValue", "ring"), 1);
    aws.fault("*", Fault::Answer(503, "text/html".to_owned(), "<html>busy</html>".to_owned()), 1);
    assert_eq!(post(&aws, "DescribeSecret", &ring), (503, Value::Null));
    for code in ["ThrottlingException", "ThrottlingException", "AccessDeniedException"] {
        let (status, answer) = read();
        assert_eq!((status, &answer["__type"]), (400, &json!(code)));
    }
    assert_eq!(read().1["SecretString"], "one");
    aws.fault("*", Fault::Throttle, usize::MAX);
    assert_eq!((read().0, read().0), (400, 400));
    aws.clear_faults();
    aws.fault("GetSecretValue", Fault::Delay(Duration::from_millis(30)), 1);
    assert_eq!(read().0, 200);
    assert_eq!(aws.counts(), [("DescribeSecret".to_owned(), 1), ("GetSecretValue".to_owned(), 7)].into());
    aws.reset_counts();
    assert_eq!(aws.counts(), [].into());
}

#[test]
fn a_call_is_cut_before_or_after_it_is_carried_out_or_in_the_middle_of_its_answer() {
    let Some(aws) = Aws::start() else { return };
    versions(&aws);
    let current = || aws.call("GetSecretValue", &json!({"SecretId": "ring"}))["SecretString"].clone();
    for (fault, expected) in
        [(Fault::CutBefore, "one"), (Fault::CutAfter, "CutAfter"), (Fault::CutMidway, "CutMidway")]
    {
        let word = format!("{fault:?}");
        aws.fault("PutSecretValue", fault.clone(), 1);
        let answer = exchange(&aws, "PutSecretValue", &json!({"SecretId": "ring", "SecretString": word}));
        assert_eq!(answer.starts_with("HTTP/1.1 200"), fault == Fault::CutMidway, "{answer}");
        assert!(!answer.ends_with('}'), "{answer}");
        assert_eq!(current(), expected);
    }
    aws.network().refuse(true);
    assert_eq!(exchange(&aws, "GetSecretValue", &json!({"SecretId": "ring"})), "");
    aws.network().refuse(false);
    assert_eq!(post(&aws, "GetSecretValue", &json!({"SecretId": "ring"})).0, 200);
}

#[test]
fn a_call_that_hangs_gets_no_answer_until_it_is_cut() {
    let Some(aws) = Aws::start() else { return };
    versions(&aws);
    aws.fault("GetSecretValue", Fault::Hang, 1);
    let ring = json!({"SecretId": "ring"});
    let mut stream = send(&aws, KNOWN, "GetSecretValue", &ring);
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    stream.read_exact(&mut [0]).unwrap_err();
    assert_eq!(post(&aws, "GetSecretValue", &ring).0, 200, "the next one does not wait for it");
    aws.network().cut();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn only_known_callers_are_served() {
    let Some(aws) = Aws::start() else { return };
    versions(&aws);
    let code = |by: Option<&str>| {
        let ring = json!({"SecretId": "ring"});
        let answer = parse(&read(send(&aws, by, "DescribeSecret", &ring)));
        answer.1["__type"].as_str().unwrap_or_default().to_owned()
    };
    let environment = aws.environment();
    let key = environment.iter().find(|(name, _)| name == "AWS_ACCESS_KEY_ID").unwrap();
    assert_eq!(code(Some(&key.1)), "");
    assert_eq!(code(Some("somebody")), "UnrecognizedClientException");
    assert_eq!(code(None), "MissingAuthenticationTokenException");
    aws.delete_access_key();
    assert_eq!(code(Some(&key.1)), "UnrecognizedClientException");
}

fn post(aws: &Aws, action: &str, parameters: &Value) -> (u16, Value) {
    parse(&exchange(aws, action, parameters))
}

/// The status and the JSON of an answer.
fn parse(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// The key of [`Aws::environment`].
const KNOWN: Option<&str> = Some("test-access-key");

/// All that comes until the connection is closed.
fn exchange(aws: &Aws, action: &str, parameters: &Value) -> String {
    read(send(aws, KNOWN, action, parameters))
}

fn read(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // Of a connection that is cut, what came before counts.
    drop(stream.read_to_end(&mut answer));
    String::from_utf8(answer).unwrap()
}

fn send(aws: &Aws, by: Option<&str>, action: &str, parameters: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(aws.network().address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let body = parameters.to_string();
    let signed = by.map_or(String::new(), |id| {
        let scope = format!("{id}/20261130/{}/secretsmanager/aws4_request", Aws::REGION);
        format!("Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0\r\n")
    });
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{signed}X-Amz-Target: secretsmanager.{action}\r\n\
         Content-Type: application/x-amz-json-1.1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}
