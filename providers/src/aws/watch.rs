//! Being woken when the labels may have moved. Secrets Manager tells nobody, so this asks: rarely, each replica at a time
//! of its own, and not at all for what has been asked a moment ago.

use std::sync::PoisonError;
use std::time::Duration;

use oneseal_coordination::{BootTime, Clock, SystemClock};
use tokio::time;

use super::AwsProvider;
use crate::Revision;
use crate::jitter::with_jitter;

/// What the secret was at, and when that was asked.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) revision: Revision,
    /// Before the question was sent.
    pub(super) at: BootTime,
}

impl AwsProvider {
    pub(super) async fn wait_for_other_than(&self, since: &Revision) {
        loop {
            if !self.is_known(since)
                && self.observe().await.is_ok_and(|observed| observed.revision() != *since)
            {
                return;
            }
            time::sleep(with_jitter(self.options.poll)).await;
        }
    }

    pub(super) fn note(&self, look: Look) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
    }

    /// Whether the secret was seen at `revision` just now, which spares whoever has loaded it a second question.
    fn is_known(&self, revision: &Revision) -> bool {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked
            .as_ref()
            .is_some_and(|look| look.revision == *revision && SystemClock.boot().since(look.at) < MOMENT)
    }
}

/// How long a look counts.
const MOMENT: Duration = Duration::from_secs(1);
