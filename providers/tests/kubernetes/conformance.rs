//! The one suite, by an account that has exactly the documented rights.

use std::sync::Arc;

use oneseal_providers::{KubernetesProvider, SecretProvider};
use oneseal_testing::conformance::{Capabilities, ProviderFixture};
use oneseal_testing::parts::{Gateway, KubeApiserver, Meddling};
use oneseal_testing::{MemoryProvider, Outcome, conformance_suite};

use crate::place::{QUICK_POLL, Tenant};

conformance_suite!(secret, Secret::new());

/// A Secret in a namespace of its own, reached by way of a gateway that can cut.
struct Secret {
    /// `None` where kube-apiserver is missing, which the output then says: memory stands in, and proves nothing.
    real: Option<(Tenant<'static>, Gateway)>,
    stand_in: MemoryProvider,
}

impl Secret {
    fn new() -> Self {
        let real = KubeApiserver::shared().map(|server| (Tenant::of(server).may_init(), server.gateway()));
        Self { real, stand_in: MemoryProvider::new() }
    }
}

impl ProviderFixture for Secret {
    fn capabilities(&self) -> Capabilities {
        Capabilities::writable().losing_answers()
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        let Some((tenant, gateway)) = &self.real else { return Arc::new(self.stand_in.clone()) };
        let options = tenant.by(&gateway.kubeconfig(tenant.shared_token())).poll_every(QUICK_POLL);
        Arc::new(KubernetesProvider::new(options).unwrap())
    }

    fn lose_next_answer(&self, outcome: Outcome) {
        let Some((_, gateway)) = &self.real else { return self.stand_in.lose_next_answer(outcome) };
        let meddling = match outcome {
            Outcome::Dropped => Meddling::CutBefore,
            Outcome::Committed => Meddling::CutAfter,
        };
        gateway.meddle("update", meddling, 1);
    }
}
