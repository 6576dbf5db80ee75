//! AWS is slow, throttles, or is not there.

use std::time::Duration;

use oneseal_providers::{AwsOptions, ErrorKind, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::{Aws, Fault};

use crate::place::{QUICK_POLL, RING, change, document, finish, in_time, made, of, provider, put, ring};

#[test]
fn while_aws_throttles_nothing_changes_and_afterwards_the_last_change_is_seen() {
    let Some(aws) = Aws::start() else { return };
    let first = made(&aws, "one");
    let waiting = of(&aws, AwsOptions::secret(RING).poll_every(QUICK_POLL));
    block_on(async {
        let before = waiting.load().await.unwrap().revision;
        aws.fault("*", Fault::Throttle, usize::MAX);
        let second = put(&aws, "two", "AWSPENDING");
        finish(&aws, &first, &second);
        for _ in 0..20 {
            assert_eq!(waiting.load().await.unwrap_err().kind(), ErrorKind::Unavailable);
        }
        let mut woken = std::pin::pin!(waiting.changed(&before));
        let early = tokio::time::timeout(QUICK_POLL * 3, &mut woken).await;
        assert!(early.is_err(), "what cannot be asked is no newer revision");
        aws.clear_faults();
        in_time("AWS answers again", woken).await;
        assert_eq!(waiting.load().await.unwrap().change_id.map(|id| id.to_string()), Some(second));
    });
}

#[test]
fn a_call_that_hangs_ends_in_time_and_a_move_that_does_is_not_known() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let provider = of(&aws, AwsOptions::secret(RING).timeout(Duration::from_millis(400)));
    block_on(async {
        let at = provider.load().await.unwrap().revision;
        aws.fault("DescribeSecret", Fault::Hang, 1);
        let hung = provider.load().await.unwrap_err();
        assert!(hung.kind() == ErrorKind::Unavailable && hung.to_string().contains("in time"), "{hung}");
        aws.fault("UpdateSecretVersionStage", Fault::Hang, 1);
        let hung = provider.replace(&at, ring(2), change()).await.unwrap_err();
        assert_eq!(hung.kind(), ErrorKind::OutcomeUnknown, "{hung}");
        assert_eq!(provider.load().await.unwrap().revision, at);
        aws.network().black_hole(true);
        assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::Unavailable);
        aws.network().black_hole(false);
    });
}

#[test]
fn each_call_is_made_once_and_an_endpoint_that_is_gone_is_found_again() {
    let Some(aws) = Aws::start() else { return };
    made(&aws, &document(1));
    let provider = provider(&aws);
    block_on(async {
        aws.fault("DescribeSecret", Fault::Throttle, usize::MAX);
        provider.load().await.unwrap_err();
        assert_eq!(aws.counts()["DescribeSecret"], 1, "the keystore's refresh is the retry");
        aws.clear_faults();
        provider.load().await.unwrap();
        aws.network().refuse(true);
        aws.network().cut();
        assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::Unavailable);
        aws.network().refuse(false);
        provider.load().await.unwrap();
    });
}
