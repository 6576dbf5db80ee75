//! The fleet as the key verbs see it: the registry's rows, read at the moment of the decision.

use std::pin::Pin;

use oneseal_keystore::executor::{ObserveError, Observed, Observer};

use super::Membership;

impl Observer for Membership {
    fn observe(&self) -> Pin<Box<dyn Future<Output = Result<Observed, ObserveError>> + Send + '_>> {
        Box::pin(async {
            let fleet = self.store().rows().await.map_err(|error| ObserveError(Box::new(error)))?;
            Ok(Observed::Fleet(fleet))
        })
    }
}
