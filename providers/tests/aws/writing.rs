//! Writes: cut at every place, two at once, many in a row, into secrets without a value.

use std::sync::Arc;

use oneseal_providers::{AwsOptions, Entries, ErrorKind, SecretBytes, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{Aws, Fault};
use serde_json::json;
use uuid::Uuid;

use crate::place::{
    RING, change, change_of, document, entries, labels, made, of, own_labels, provider, put, ring,
};

#[test]
fn a_write_cut_before_its_move_has_changed_nothing_and_may_be_made_again() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let provider = provider(&aws);
    block_on(async {
        for (number, fault) in [Fault::CutBefore, Fault::CutAfter, Fault::CutMidway].into_iter().enumerate() {
            let before = provider.load().await.unwrap();
            let id = Uuid::new_v4();
            aws.fault("PutSecretValue", fault.clone(), 1);
            let next = || ring(number as u64 + 2);
            let cut = provider.replace(&before.revision, next(), change_of(id)).await.unwrap_err();
            assert_eq!(cut.kind(), ErrorKind::Unavailable, "{fault:?}: {cut}");
            let after = provider.load().await.unwrap();
            assert_eq!((&after.revision, after.change_id), (&before.revision, before.change_id), "{fault:?}");

            // The same change again, whether or not AWS has its version already.
            let made = provider.replace(&before.revision, next(), change_of(id)).await.unwrap();
            let after = provider.load().await.unwrap();
            assert_eq!((after.revision, after.change_id), (made, Some(id)), "{fault:?}");
        }
        assert_eq!(own_labels(&aws), Vec::<String>::new());
    });
}

#[test]
fn a_move_without_an_answer_is_told_by_a_reload() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let provider = provider(&aws);
    block_on(async {
        let failing = Fault::Error(500, "InternalServiceError".to_owned(), "oh".to_owned());
        for (fault, is_made) in
            [(Fault::CutBefore, false), (Fault::CutAfter, true), (Fault::CutMidway, true), (failing, false)]
        {
            let before = provider.load().await.unwrap();
            let id = Uuid::new_v4();
            aws.fault("UpdateSecretVersionStage", fault.clone(), 1);
            let cut = provider.replace(&before.revision, ring(2), change_of(id)).await.unwrap_err();
            assert_eq!(cut.kind(), ErrorKind::OutcomeUnknown, "{fault:?}: {cut}");
            let after = provider.load().await.unwrap();
            assert_eq!(after.change_id == Some(id), is_made, "{fault:?}");
            assert_eq!(after.revision != before.revision, is_made, "{fault:?}");
        }
    });
}

#[test]
fn a_change_is_carried_out_once() {
    let Some(aws) = Aws::start() else { return };
    let provider = provider(&aws);
    block_on(async {
        let id = Uuid::new_v4();
        let first = provider.create(ring(1), change_of(id)).await.unwrap();
        let second = provider.replace(&first, ring(2), change()).await.unwrap();
        let again = provider.replace(&second, ring(3), change_of(id)).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::ChangeIdUsed, "{again}");
        let late = provider.replace(&first, ring(3), change()).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
        assert_eq!(provider.load().await.unwrap().revision, second);
    });
}

/// The loser has put its version when it learns that AWSCURRENT is elsewhere: its label goes.
#[test]
fn of_two_writers_one_wins_and_the_losers_label_is_gone() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let (one, two) = (provider(&aws), provider(&aws));
    block_on(async {
        for _ in 0..5 {
            let at = one.load().await.unwrap().revision;
            let (first, second) = futures_util::future::join(
                one.replace(&at, ring(2), change()),
                two.replace(&at, ring(3), change()),
            )
            .await;
            let (won, lost) = if first.is_ok() { (first, second) } else { (second, first) };
            assert_eq!(lost.unwrap_err().kind(), ErrorKind::Conflict);
            assert_eq!(one.load().await.unwrap().revision, won.unwrap());
            assert_eq!(own_labels(&aws), Vec::<String>::new());
        }
    });
}

#[test]
fn somebody_who_moves_the_label_by_hand_in_between_wins() {
    let Some(aws) = Aws::start() else { return };
    let first = made(&aws, &document(1));
    let by_hand = put(&aws, &document(9), "by-hand");
    let provider = provider(&aws);
    block_on(async {
        let at = provider.load().await.unwrap().revision;
        aws.fault("PutSecretValue", Fault::Delay(std::time::Duration::from_millis(300)), 1);
        let write = provider.replace(&at, ring(2), change());
        let hand = async {
            while !own_labels(&aws).iter().any(|label| label.starts_with("oneseal-")) {
                tokio::task::yield_now().await;
            }
            crate::place::finish(&aws, &first, &by_hand);
        };
        let (written, ()) = futures_util::future::join(write, hand).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(entries(&provider.load().await.unwrap()), [("keyring.json", document(9))]);
        assert_eq!(own_labels(&aws), Vec::<String>::new());
    });
}

/// AWS takes 20 labels on all versions of a secret together.
#[test]
fn fifty_writes_and_twenty_that_died_leave_few_labels() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let provider = provider(&aws);
    let most = || labels(&aws).iter().map(|(_, on)| on.len()).sum::<usize>();
    block_on(async {
        let mut at = provider.load().await.unwrap().revision;
        for number in 0..50 {
            at = provider.replace(&at, ring(number), change()).await.unwrap();
        }
        assert_eq!((most(), labels(&aws).len()), (2, 2), "AWSCURRENT and AWSPREVIOUS: {:?}", labels(&aws));
        for number in 0..20 {
            // As a writer that dies between its two calls.
            aws.fault("PutSecretValue", Fault::CutAfter, 1);
            provider.replace(&at, ring(number), change()).await.unwrap_err();
            assert!(most() <= 10, "{:?}", labels(&aws));
        }
        at = provider.replace(&at, ring(99), change()).await.unwrap();
        assert_eq!(provider.load().await.unwrap().revision, at);
    });
}

#[test]
fn the_first_value_goes_into_a_secret_that_is_there_without_one_and_one_writer_wins() {
    let Some(aws) = Aws::start() else { return };
    aws.call("CreateSecret", &json!({"Name": RING}));
    let empty = provider(&aws);
    block_on(async {
        let none = empty.load().await.unwrap_err();
        assert!(
            none.kind() == ErrorKind::NotFound && none.to_string().contains("has no value yet"),
            "{none}"
        );
        let writers: Vec<_> = (0..4).map(|_| Arc::new(provider(&aws))).collect();
        let writes =
            writers.iter().enumerate().map(|(number, writer)| writer.create(ring(number as u64), change()));
        let (won, lost): (Vec<_>, Vec<_>) =
            futures_util::future::join_all(writes).await.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 3), "{lost:?}");
        for lost in lost {
            assert_eq!(lost.unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(Some(&empty.load().await.unwrap().revision), won[0].as_ref().ok());
        assert_eq!(own_labels(&aws), Vec::<String>::new());
    });
}

#[test]
fn a_first_value_without_an_answer_is_told_by_a_reload() {
    let Some(aws) = Aws::start() else { return };
    let provider = provider(&aws);
    block_on(async {
        let id = Uuid::new_v4();
        aws.fault("CreateSecret", Fault::CutAfter, 1);
        let cut = provider.create(ring(1), change_of(id)).await.unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::OutcomeUnknown, "{cut}");
        assert_eq!(provider.load().await.unwrap().change_id, Some(id));
        let denied = of(&aws, AwsOptions::secret("other"));
        aws.fault("CreateSecret", Fault::denied("secretsmanager:CreateSecret", "other"), 1);
        let refused = denied.create(ring(1), change()).await.unwrap_err();
        assert!(refused.to_string().contains("secretsmanager:CreateSecret"), "{refused}");
    });
}

#[test]
fn a_copy_in_another_region_is_read_there_and_written_where_it_comes_from() {
    let Some(aws) = Aws::start() else { return };
    let version = made(&aws, &document(1));
    let regions = json!({"SecretId": RING, "AddReplicaRegions": [{"Region": "us-east-1"}]});
    aws.call("ReplicateSecretToRegions", &regions);
    let copy = of(&aws, AwsOptions::secret(RING).region("us-east-1"));
    block_on(async {
        let record = copy.load().await.unwrap();
        assert_eq!(record.change_id.map(|id| id.to_string()), Some(version));
        let refused = copy.replace(&record.revision, ring(2), change()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
        assert!(refused.to_string().contains("a copy of a secret in eu-central-1"), "{refused}");
    });
}

#[test]
fn one_value_of_any_kind_may_come_first_and_only_a_ring_goes_over_another() {
    let Some(aws) = Aws::start() else { return };
    let kek = of(&aws, AwsOptions::secret("kek"));
    let bytes = || Entries::single("kek", SecretBytes::new((0..=255).collect()));
    block_on(async {
        let at = kek.create(bytes(), change()).await.unwrap();
        let record = kek.load().await.unwrap();
        assert_eq!(record.revision, at);
        assert_eq!(record.entries.get("current").unwrap().expose(), (0..=255).collect::<Vec<u8>>());
        let bare = kek.replace(&at, bytes(), change()).await.unwrap_err();
        assert!(bare.kind() == ErrorKind::ReadOnly && bare.to_string().contains("AWSPENDING"), "{bare}");

        let several = || {
            let mut entries = Entries::single("current.pem", "one");
            entries.insert("next.pem", "two");
            entries
        };
        let many = provider(&aws).create(several(), change()).await.unwrap_err();
        assert!(many.kind() == ErrorKind::ReadOnly && many.to_string().contains("here are 2"), "{many}");
        let nothing = provider(&aws).create(Entries::single("current", ""), change()).await.unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::Malformed);
        // By an ARN nothing can be made: AWS chooses its end.
        let arn = format!("arn:aws:secretsmanager:eu-central-1:{}:secret:new", aws.account());
        let by_arn = of(&aws, AwsOptions::secret(arn)).create(ring(1), change()).await.unwrap_err();
        assert_eq!(by_arn.kind(), ErrorKind::NotFound, "{by_arn}");
    });
}
