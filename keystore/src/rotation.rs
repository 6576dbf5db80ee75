//! The times that a fleet agrees on: how often it looks, how long others may cache, how long tokens live.
//!
//! They live in the ring document, so that every replica of every version computes with the same numbers;
//! configuration only proposes them. Bare keys have no document and take them from configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::findings::{Code, Findings};

/// All times in whole seconds, as they stand in the ring document's `rotation`.
///
/// # Defaults
/// refresh 15 s · staleness limit 1 h · JWKS max-age 300 s · no shared cache · skew 60 s · relying-party leeway
/// 300 s · token life 1 h, at most 24 h · publish lead computed · rotation every 30 d · rollback window 24 h ·
/// backdate 30 s.
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
            token_ttl_s: HOUR,
            // Google refuses an iat older than 24 h; Entra a life above 25 h.
            max_token_ttl_s: 24 * HOUR,
            publish_lead_s: None,
            rotate_every_s: 30 * 24 * HOUR,
            rollback_window_s: 24 * HOUR,
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

    /// How long after its first publication a key may be unknown to a cache that follows our headers: H + E and
    /// one refresh of the slowest replica.
    pub fn propagation(&self) -> Duration {
        Duration::from_secs(self.jwks_max_age_s + self.stale_if_error_s() + self.refresh_s)
    }

    /// Checks each number against the others and names the knob and the smallest value that would do.
    pub fn check(&self, place: &str) -> Findings {
        let mut findings = Findings::new();
        for (knob, value, least, most, why) in self.bounds() {
            if value < least || value > most {
                let range = if most == u64::MAX {
                    format!("at least {least} s")
                } else {
                    format!("{least} s to {most} s")
                };
                findings.push(
                    &INEQUALITY,
                    format!("{place}.{knob}"),
                    format!("{value} s, but it must be {range}: {why}"),
                );
            }
        }
        findings
    }

    /// Which members of `other` are not these, in words: "token_ttl_s is 3600, not 600".
    pub(crate) fn differences(&self, other: &Self) -> String {
        let members = |rotation| match serde_json::to_value(rotation) {
            Ok(serde_json::Value::Object(members)) => members,
            _ => serde_json::Map::new(),
        };
        let others = members(other);
        let differences = members(self)
            .into_iter()
            .filter(|(name, own)| others.get(name) != Some(own))
            .map(|(name, own)| format!("{name} is {own}, not {}", others[&name]));
        differences.collect::<Vec<_>>().join("; ")
    }

    /// Knob, value, smallest, largest, reason.
    fn bounds(&self) -> [(&'static str, u64, u64, u64, &'static str); 9] {
        let lead = self.publish_lead_s.unwrap_or_default();
        let propagation = self.jwks_max_age_s.saturating_add(self.stale_if_error_s());
        let least_lead = if self.publish_lead_s.is_some() { propagation } else { 0 };
        let least_staleness = self.refresh_s.saturating_mul(3).saturating_add(PROVIDER_TIMEOUT.as_secs());
        [
            ("refresh", self.refresh_s, 1, DAY, "a replica must notice a changed key"),
            (
                "staleness_limit",
                self.staleness_limit_s,
                least_staleness,
                u64::MAX,
                "3 x refresh + the provider's time-out",
            ),
            ("jwks_max_age", self.jwks_max_age_s, 1, DAY, "no cache may hold a key set longer than a day"),
            ("skew", self.skew_s, 0, HOUR, "clocks further apart are broken"),
            ("token_ttl", self.token_ttl_s, 60, self.max_token_ttl_s, "at most max_token_ttl"),
            (
                "max_token_ttl",
                self.max_token_ttl_s,
                60,
                DAY,
                "relying parties refuse tokens older than a day",
            ),
            ("backdate", self.backdate_s, 0, 300, "a token must not look old when it is new"),
            (
                "publish_lead",
                lead,
                least_lead,
                u64::MAX,
                "jwks_max_age + stale-if-error: caches must have expired",
            ),
            ("rotate_every", self.rotate_every_s, lead.saturating_add(1), u64::MAX, "above publish_lead"),
        ]
    }
}

/// How long one read of a provider may take.
pub const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);

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
        let with_lead = |shared_cache, lead| {
            let rotation = Rotation { shared_cache, publish_lead_s: Some(lead), ..Rotation::default() };
            rotation.check("rotation").is_empty()
        };
        assert!(with_lead(true, 3900) && !with_lead(true, 3899));
        assert!(with_lead(false, 300) && !with_lead(false, 299));
    }

    #[test]
    fn each_violation_names_its_knob_and_the_value_that_would_do() {
        let rotation = Rotation {
            staleness_limit_s: 20,
            token_ttl_s: 100_000,
            max_token_ttl_s: 90_000,
            publish_lead_s: Some(10),
            ..Rotation::default()
        };
        let findings = rotation.check("rotation");
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(
            places,
            [
                "rotation.staleness_limit",
                "rotation.token_ttl",
                "rotation.max_token_ttl",
                "rotation.publish_lead"
            ]
        );
        assert!(findings.to_string().contains("at least 55 s"));
    }
}
