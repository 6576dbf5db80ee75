//! The times that a fleet agrees on: how often it looks, how long others may cache, how long tokens live.
//!
//! They live in the ring document, so that every replica of every version computes with the same numbers;
//! configuration only proposes them. Bare keys have no document and take them from configuration.
//!
//! The letters are those of the arithmetic in `docs/rotation.md`: `H` the longest that a cache may keep a key set, `E` how
//! much longer it may where it gets no answer, `C` what relying parties take that do not follow the header, `S` how long
//! a replica may sign without a look at its provider.

mod bounds;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::findings::Code;

/// All times in whole seconds, as they stand in the ring document's `rotation`.
///
/// # Defaults
/// refresh 15 s · staleness limit 1 h · JWKS max-age 300 s · no shared cache · skew 60 s · relying-party leeway
/// 300 s · relying-party propagation 25.2 h · token life 1 h, at most 24 h · publish lead computed · rotation every 30 d
/// · rollback window 24 h · private halves erased at its end · emergency wait 10 s · backdate 30 s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rotation {
    /// Which proposal this is: a writer takes configuration's values only if their generation is higher.
    pub generation: u64,
    /// How often a replica looks at its provider, besides being told.
    pub refresh_s: u64,
    /// How old the last good look may be before minting stops (`S`).
    pub staleness_limit_s: u64,
    /// `max-age` of discovery and JWKS (`H`).
    pub jwks_max_age_s: u64,
    /// Whether a shared cache stands in front, which then gets `stale-if-error` (`E` = 1 h, else 0).
    pub shared_cache: bool,
    /// How far replicas' clocks may differ.
    pub skew_s: u64,
    /// How far relying parties forgive an expired token.
    pub rp_leeway_s: u64,
    /// How long the slowest relying party takes to learn of a new key, beyond what the header tells it (`C`): TTL caches
    /// 1.05 × their TTL, those that fetch at an unknown `kid` their cool-down, those that follow the header nothing. A
    /// ring of an earlier version has no such member, which means 25.2 h.
    #[serde(default = "undocumented")]
    pub rp_propagation_s: u64,
    /// Life of a token for which nobody asks otherwise.
    pub token_ttl_s: u64,
    /// The longest life of any token.
    pub max_token_ttl_s: u64,
    /// How long a key is published before it signs; `null` computes the smallest safe time.
    pub publish_lead_s: Option<u64>,
    /// How often a new key comes.
    pub rotate_every_s: u64,
    /// How long a retiring key can be made active again.
    pub rollback_window_s: u64,
    /// How long a retiring key keeps its private half; `null` is the rollback window, or the key's whole time in the
    /// set if that is shorter.
    #[serde(default)]
    pub erase_private_after_s: Option<u64>,
    /// How long an emergency waits for publish points that do not answer before its new keys sign.
    #[serde(default = "emergency_wait")]
    pub emergency_wait_s: u64,
    /// How far `iat` and `nbf` lie before now, for relying parties whose clock is behind.
    pub backdate_s: u64,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            generation: 0,
            refresh_s: 15,
            staleness_limit_s: HOUR,
            // Nimbus and Spring cache 5 minutes, kube-apiserver follows the header: 300 s keeps all of them quick.
            jwks_max_age_s: 300,
            shared_cache: false,
            skew_s: 60,
            // .NET's default ClockSkew, the largest among common relying parties.
            rp_leeway_s: 300,
            rp_propagation_s: undocumented(),
            token_ttl_s: HOUR,
            // Google refuses an iat older than 24 h; Entra a life above 25 h.
            max_token_ttl_s: 24 * HOUR,
            publish_lead_s: None,
            rotate_every_s: 30 * 24 * HOUR,
            rollback_window_s: 24 * HOUR,
            erase_private_after_s: None,
            emergency_wait_s: emergency_wait(),
            backdate_s: 30,
        }
    }
}

impl Rotation {
    /// How often a replica looks at its provider.
    pub fn refresh(&self) -> Duration {
        Duration::from_secs(self.refresh_s)
    }

    /// How old the last good look may be before minting stops.
    pub fn staleness_limit(&self) -> Duration {
        Duration::from_secs(self.staleness_limit_s)
    }

    /// Seconds of `stale-if-error` a shared cache is granted (RFC 5861 section 4).
    pub fn stale_if_error_s(&self) -> u64 {
        if self.shared_cache { HOUR } else { 0 }
    }

    /// How long after its first publication a bare key may be unknown to a cache that follows our headers: H + E and
    /// one refresh of the slowest replica.
    pub fn propagation(&self) -> Duration {
        Duration::from_secs(self.jwks_max_age_s + self.stale_if_error_s() + self.refresh_s)
    }

    /// `H + E + C`: from the last answer without a new key until every relying party knows it.
    pub fn spread_s(&self) -> u64 {
        self.jwks_max_age_s.saturating_add(self.stale_if_error_s()).saturating_add(self.rp_propagation_s)
    }

    /// How long a key is published before it signs: what `publish_lead` says, else max(1 h, H + E + C).
    pub fn lead_s(&self) -> u64 {
        self.publish_lead_s.unwrap_or_else(|| self.spread_s().max(HOUR))
    }

    /// The longest time after a commit at which a replica in order may still answer with the set before it, where no
    /// registry tells: one refresh, counted by clocks that differ.
    pub fn blind_s(&self) -> u64 {
        self.refresh_s.saturating_add(self.skew_s)
    }

    /// How long after it stopped signing a key stays in the set, if none of its tokens lives longer than
    /// `ttl_high_water_s`: S + request deadline + ttl_high_water + 2·skew + rp_leeway.
    pub fn removal_s(&self, ttl_high_water_s: u64) -> u64 {
        [
            self.staleness_limit_s,
            REQUEST_DEADLINE.as_secs(),
            ttl_high_water_s,
            self.skew_s.saturating_mul(2),
            self.rp_leeway_s,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// How long a retiring key keeps its private half; never longer than it is in the set.
    pub fn erasure_s(&self, ttl_high_water_s: u64) -> u64 {
        self.erase_private_after_s.unwrap_or(self.rollback_window_s).min(self.removal_s(ttl_high_water_s))
    }

    /// How long a retiring key can be made active again: the rollback window, while its private half is there.
    pub fn rollback_s(&self, ttl_high_water_s: u64) -> u64 {
        self.rollback_window_s.min(self.erasure_s(ttl_high_water_s))
    }

    /// Times of seconds, for a laboratory: H 2 s, C 2 s, a lead of 5 s, everything else as short as it may be. Tokens
    /// live for a minute, and a retired key leaves the set within two. Relying parties that nobody has told of such
    /// times will fail.
    pub fn lab() -> Self {
        Self {
            refresh_s: 1,
            staleness_limit_s: 3 + PROVIDER_TIMEOUT.as_secs(),
            jwks_max_age_s: 2,
            skew_s: 1,
            rp_leeway_s: 1,
            rp_propagation_s: 2,
            token_ttl_s: MINUTE,
            max_token_ttl_s: MINUTE,
            publish_lead_s: Some(5),
            rotate_every_s: 2 * MINUTE,
            rollback_window_s: MINUTE,
            emergency_wait_s: 2,
            backdate_s: 1,
            ..Self::default()
        }
    }

    /// Which members of `other` are not these, in words: "token_ttl_s is 3600, not 600".
    pub(crate) fn differences(&self, other: &Self) -> String {
        let members = |rotation| match serde_json::to_value(rotation) {
            Ok(serde_json::Value::Object(members)) => members,
            _ => serde_json::Map::new(),
        };
        let others = members(other);
        let differences = members(self).into_iter().filter(|(name, own)| others.get(name) != Some(own)).map(
            |(name, own)| {
                format!("{name} is {own}, not {}", others.get(&name).unwrap_or(&serde_json::Value::Null))
            },
        );
        differences.collect::<Vec<_>>().join("; ")
    }
}

/// How long one read of a provider may take.
pub const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest that a request may take which has begun to mint, whatever the listener.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// What is true of a relying party of which nothing is known: a day, and a twentieth.
fn undocumented() -> u64 {
    252 * HOUR / 10
}

/// Longer than any replica in order needs to see a change of which it is told.
fn emergency_wait() -> u64 {
    10
}

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The rows of this file.
pub static CODES: &[&Code] = &[&INEQUALITY];

/// The row for times that contradict each other; the server uses it for the times of a process.
pub static INEQUALITY: Code = Code::refused(
    "config.inequality",
    "Two times contradict each other.",
    "Set the named value within the named bounds.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_agree_with_each_other() {
        assert!(Rotation::default().check("rotation").is_empty());
    }

    #[test]
    fn differences_name_both_values() {
        let other = Rotation { token_ttl_s: 600, shared_cache: true, ..Rotation::default() };
        let differences = Rotation::default().differences(&other);
        assert_eq!(differences, "shared_cache is false, not true; token_ttl_s is 3600, not 600");
        assert_eq!(other.differences(&other), "");
    }

    /// H + E: what a cache may still serve, a new key must wait for.
    #[test]
    fn a_declared_shared_cache_is_waited_for() {
        let declared = Rotation { shared_cache: true, ..Rotation::default() };
        assert_eq!(declared.propagation(), Duration::from_secs(300 + 3600 + 15));
        assert_eq!(Rotation::default().propagation(), Duration::from_secs(300 + 15));
        assert_eq!(declared.spread_s(), 300 + 3600 + 90_720);
        assert_eq!(Rotation::default().lead_s(), 91_020, "25.2 h and five minutes");
    }

    #[test]
    fn the_lead_is_never_below_an_hour_unless_it_is_said() {
        let quick = Rotation { rp_propagation_s: 30, ..Rotation::default() };
        assert_eq!(quick.lead_s(), 3600);
        assert_eq!(Rotation { publish_lead_s: Some(400), ..quick }.lead_s(), 400);
        assert_eq!(Rotation::lab().lead_s(), 5);
    }

    /// 1 h + 30 s + 24 h + 2 min + 5 min.
    #[test]
    fn a_key_outlives_its_last_token() {
        let times = Rotation::default();
        assert_eq!(times.removal_s(86_400), 3600 + 30 + 86_400 + 120 + 300);
        assert_eq!((times.erasure_s(86_400), times.rollback_s(86_400)), (86_400, 86_400));
        assert_eq!(times.erasure_s(600), 3600 + 30 + 600 + 120 + 300, "it does not outlive the key");
        let early = Rotation { erase_private_after_s: Some(600), ..times };
        assert_eq!((early.erasure_s(86_400), early.rollback_s(86_400)), (600, 600));
    }

    #[test]
    fn the_ring_of_an_earlier_version_means_the_longest() {
        let mut members = serde_json::to_value(Rotation::default()).expect("plain data");
        for added in ["rp_propagation_s", "erase_private_after_s", "emergency_wait_s"] {
            members.as_object_mut().expect("an object").remove(added);
        }
        let read: Rotation = serde_json::from_value(members).expect("readable");
        assert_eq!(read, Rotation::default());
    }
}
