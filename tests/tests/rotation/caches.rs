//! How relying parties keep key sets, as the table of the design has it.

use std::sync::Arc;

use oneseal_coordination::{Clock, UnixTime};
use oneseal_keystore::verify::UnverifiedJws;
use oneseal_keystore::{IssuerUrl, Snapshot};
use oneseal_relying_party::RelyingParty;
use oneseal_testing::FixedClock;

/// When a cache asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At a kid that it does not know, once in so many seconds; never otherwise.
    UnknownKid { cooldown_s: i64 },
    /// After so many seconds, whatever the header says.
    TimeToLive { ttl_s: i64 },
    /// When `max-age` is over.
    FollowsHeader,
    /// When somebody brings it the set of a new revision, so many seconds after it came.
    PinnedCopy { after_s: i64 },
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::UnknownKid { .. } => "unknown kid",
            Self::TimeToLive { .. } => "time to live",
            Self::FollowsHeader => "follows the header",
            Self::PinnedCopy { .. } => "pinned copy",
        }
    }
}

/// A relying party with a set.
pub(crate) struct Cache {
    pub(crate) kind: Kind,
    fetched_at: i64,
    max_age_s: i64,
    /// The revision that is to be brought, and when.
    ordered: Option<(u64, i64)>,
    party: Option<(Arc<Snapshot>, RelyingParty)>,
}

impl Cache {
    /// One that has fetched so many seconds before now.
    pub(crate) fn new(kind: Kind, now: UnixTime, age_s: i64) -> Self {
        Self { kind, fetched_at: now.as_secs() - age_s, max_age_s: 0, ordered: None, party: None }
    }

    /// Whether the token verifies; asks `served` for the set where this kind of cache would.
    pub(crate) async fn takes(
        &mut self,
        token: &str,
        served: &Arc<Snapshot>,
        clock: &Arc<FixedClock>,
    ) -> Result<(), String> {
        let now = clock.wall().as_secs();
        let kid = UnverifiedJws::parse(token).ok().and_then(|jws| jws.kid().map(str::to_owned));
        if self.wants(kid.as_deref(), served, now) || self.party.is_none() {
            self.fetch(served, now, clock);
        }
        let (_, party) = self.party.as_ref().expect("fetched");
        party.verify(token).await.map(drop).map_err(|error| error.reason().to_owned())
    }

    fn wants(&mut self, kid: Option<&str>, served: &Arc<Snapshot>, now: i64) -> bool {
        let Some((held, _)) = &self.party else { return true };
        let age_s = now - self.fetched_at;
        match self.kind {
            Kind::UnknownKid { cooldown_s } => {
                age_s >= cooldown_s && kid.is_none_or(|kid| held.verifier(kid).is_none())
            }
            Kind::TimeToLive { ttl_s } => age_s >= ttl_s,
            Kind::FollowsHeader => age_s >= self.max_age_s,
            Kind::PinnedCopy { after_s } => {
                let (old, new) = (held.identity().revision, served.identity().revision);
                if new > self.ordered.map_or(old, |(revision, _)| revision) {
                    self.ordered = Some((new, now + after_s));
                }
                self.ordered.take_if(|(_, at)| now >= *at).is_some()
            }
        }
    }

    fn fetch(&mut self, served: &Arc<Snapshot>, now: i64, clock: &Arc<FixedClock>) {
        self.fetched_at = now;
        self.max_age_s = i64::try_from(served.rotation().jwks_max_age_s).expect("small");
        let issuer = IssuerUrl::parse(super::world::ISSUER, "test").expect("good");
        let party = RelyingParty::builder(issuer)
            .audience("rp")
            .jwks(served.jwks().clone())
            .clock(Arc::clone(clock) as Arc<dyn Clock>)
            .build()
            .expect("a relying party");
        self.party = Some((Arc::clone(served), party));
    }
}
