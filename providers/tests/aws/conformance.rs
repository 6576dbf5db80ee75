//! The one suite. What is written into a member of a JSON object is in `values`: quoted, a document grows.

use std::sync::Arc;

use oneseal_providers::{AwsOptions, Entries, SecretProvider};
use oneseal_testing::conformance::{Capabilities, ProviderFixture};
use oneseal_testing::parts::{Aws, Fault};
use oneseal_testing::{MemoryProvider, Outcome, conformance_suite};

use crate::place::{self, QUICK_POLL, RING};

conformance_suite!(suite, Secret::new());

/// A secret in an account of its own.
struct Secret {
    /// `None` where moto is missing, which the output then says: memory stands in, and proves nothing.
    real: Option<Aws>,
    stand_in: MemoryProvider,
}

impl Secret {
    fn new() -> Self {
        Self { real: Aws::start(), stand_in: MemoryProvider::new() }
    }
}

impl ProviderFixture for Secret {
    fn capabilities(&self) -> Capabilities {
        Capabilities::writable().of_documents().of_one_entry(Entries::KEYRING).losing_answers()
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        match &self.real {
            Some(aws) => Arc::new(place::of(aws, AwsOptions::secret(RING).poll_every(QUICK_POLL))),
            None => Arc::new(self.stand_in.clone()),
        }
    }

    /// Of the two calls of a write the second one counts.
    fn lose_next_answer(&self, outcome: Outcome) {
        let Some(aws) = &self.real else { return self.stand_in.lose_next_answer(outcome) };
        let fault = match outcome {
            Outcome::Dropped => Fault::CutBefore,
            Outcome::Committed => Fault::CutAfter,
        };
        aws.fault("UpdateSecretVersionStage", fault, 1);
    }
}
