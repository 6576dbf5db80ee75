//! The fleet as the key verbs see it: the registry's rows, read at the moment of the decision.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use oneseal::Issuer;
use oneseal_keystore::executor::{ObserveError, Observed, Observer};
use oneseal_keystore::fleet::{Fleet, PeerState};

use super::Membership;

/// A verb that is carried out beside the replicas.
impl Observer for Membership {
    fn observe(&self) -> Pin<Box<dyn Future<Output = Result<Observed, ObserveError>> + Send + '_>> {
        Box::pin(async {
            let fleet = self.store().rows().await.map_err(|error| ObserveError(Box::new(error)))?;
            Ok(Observed::Fleet(fleet))
        })
    }
}

/// A replica that carries out verbs itself: of itself it knows more than its last beat has told.
#[derive(Debug)]
pub(crate) struct Witness {
    membership: Arc<Membership>,
    issuer: Issuer,
}

impl Witness {
    /// The replica that serves `issuer`.
    pub(crate) fn new(membership: Arc<Membership>, issuer: Issuer) -> Self {
        Self { membership, issuer }
    }

    /// Its own row as the next beat will have it. One of another boot is left: somebody else has its place.
    fn correct(&self, fleet: &mut Fleet) {
        let (name, boot_id) = (self.membership.instance(), self.membership.boot_id().to_string());
        let now = fleet.now;
        let is_own = |instance: &str, boot: &str| instance == name && boot == boot_id;
        let own = fleet.peers.iter_mut().find(|peer| is_own(&peer.instance, &peer.boot_id));
        if let Some(own) = own.filter(|peer| peer.state == PeerState::Live) {
            // Both are of whole seconds, rounded down, as those of a row.
            own.seen_at = now + Duration::from_secs(1);
            own.facts = Ok(self.membership.facts(&self.issuer, true));
        }
    }
}

impl Observer for Witness {
    fn observe(&self) -> Pin<Box<dyn Future<Output = Result<Observed, ObserveError>> + Send + '_>> {
        Box::pin(async {
            let mut observed = self.membership.observe().await?;
            if let Observed::Fleet(fleet) = &mut observed {
                self.correct(fleet);
            }
            Ok(observed)
        })
    }
}
