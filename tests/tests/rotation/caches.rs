//! How relying parties keep key sets, as the table of the design has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use oneseal_coordination::{Clock, UnixTime};
use oneseal_keystore::IssuerUrl;
use oneseal_keystore::verify::UnverifiedJws;
use oneseal_relying_party::RelyingParty;

/// A key set as a replica answers with it.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// Higher for each set that came later.
    pub(crate) revision: u64,
    pub(crate) max_age_s: i64,
    pub(crate) kids: BTreeSet<String>,
    pub(crate) jwks: Bytes,
}

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
    party: Option<(Arc<Served>, RelyingParty)>,
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
        served: &Arc<Served>,
        issuer: &IssuerUrl,
        clock: &Arc<dyn Clock>,
    ) -> Result<(), String> {
        let now = clock.wall().as_secs();
        let kid = UnverifiedJws::parse(token).ok().and_then(|jws| jws.kid().map(str::to_owned));
        if self.wants(kid.as_deref(), served, now) || self.party.is_none() {
            self.fetch(served, now, issuer, clock);
        }
        let (_, party) = self.party.as_ref().expect("fetched");
        party.verify(token).await.map(drop).map_err(|error| error.reason().to_owned())
    }

    fn wants(&mut self, kid: Option<&str>, served: &Arc<Served>, now: i64) -> bool {
        let Some((held, _)) = &self.party else { return true };
        let age_s = now - self.fetched_at;
        match self.kind {
            Kind::UnknownKid { cooldown_s } => {
                age_s >= cooldown_s && kid.is_none_or(|kid| !held.kids.contains(kid))
            }
            Kind::TimeToLive { ttl_s } => age_s >= ttl_s,
            Kind::FollowsHeader => age_s >= self.max_age_s,
            Kind::PinnedCopy { after_s } => {
                let (old, new) = (held.revision, served.revision);
                if new > self.ordered.map_or(old, |(revision, _)| revision) {
                    self.ordered = Some((new, now + after_s));
                }
                self.ordered.take_if(|(_, at)| now >= *at).is_some()
            }
        }
    }

    fn fetch(&mut self, served: &Arc<Served>, now: i64, issuer: &IssuerUrl, clock: &Arc<dyn Clock>) {
        self.fetched_at = now;
        self.max_age_s = served.max_age_s;
        let party = RelyingParty::builder(issuer.clone())
            .audience(AUDIENCE)
            .jwks(served.jwks.clone())
            .clock(Arc::clone(clock))
            .build()
            .expect("a relying party");
        self.party = Some((Arc::clone(served), party));
    }
}

/// The audience of every token here.
pub(crate) const AUDIENCE: &str = "rp";
