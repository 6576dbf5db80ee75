//! Whether the times agree with each other: each violation with its knob and the smallest value that would do.

use std::time::Duration;

use super::{DAY, HOUR, INEQUALITY, MINUTE, PROVIDER_TIMEOUT, Rotation};
use crate::Findings;

impl Rotation {
    /// Checks each number against the others and names the knob and the smallest value that would do.
    pub fn check(&self, place: &str) -> Findings {
        let mut findings = Findings::new();
        for Bound { knob, value, least, most, why } in self.bounds() {
            if (least..=most).contains(&value) {
                continue;
            }
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
        findings
    }

    /// Checks that a copy of the ring which is up to `max_lag` older than the ring leaves time to mint: what was read just
    /// now counts as that old.
    pub fn check_lag(&self, max_lag: Duration, place: &str) -> Findings {
        let (lag, limit) = (max_lag.as_secs(), self.staleness_limit_s);
        let looks = self.staleness_floor_s();
        let mut findings = Findings::new();
        if lag > 0 && looks.saturating_add(lag) > limit {
            let least = looks.saturating_add(lag);
            findings.push(
                &INEQUALITY,
                place,
                format!(
                    "{lag} s, but it must be at most {} s: staleness_limit ({limit} s) less 3 x refresh and the provider's \
                     time-out, or no token would be minted; with a staleness_limit of {least} s it would do",
                    limit.saturating_sub(looks)
                ),
            );
        }
        findings
    }

    /// The least staleness limit of who reads the ring itself: three looks, the last of which takes as long as it may.
    fn staleness_floor_s(&self) -> u64 {
        self.refresh_s.saturating_mul(3).saturating_add(PROVIDER_TIMEOUT.as_secs())
    }

    fn bounds(&self) -> Vec<Bound> {
        let bound = |knob, value, least, most, why| Bound { knob, value, least, most, why };
        let staleness = self.staleness_floor_s();
        let removal = self.removal_s(self.max_token_ttl_s);
        let mut bounds = vec![
            bound("refresh", self.refresh_s, 1, DAY, "a replica must notice a changed key"),
            bound(
                "staleness_limit",
                self.staleness_limit_s,
                staleness,
                MOST,
                "3 x refresh + the provider's time-out",
            ),
            bound(
                "jwks_max_age",
                self.jwks_max_age_s,
                1,
                DAY,
                "no cache may hold a key set longer than a day",
            ),
            bound("skew", self.skew_s, 0, HOUR, "clocks further apart are broken"),
            bound(
                "rp_propagation",
                self.rp_propagation_s,
                0,
                MONTH,
                "a relying party that takes longer has to be told of a new key by hand",
            ),
            bound("token_ttl", self.token_ttl_s, MINUTE, self.max_token_ttl_s, "at most max_token_ttl"),
            bound(
                "max_token_ttl",
                self.max_token_ttl_s,
                MINUTE,
                DAY,
                "relying parties refuse tokens older than a day",
            ),
            bound("backdate", self.backdate_s, 0, 300, "a token must not look old when it is new"),
        ];
        if let Some(lead) = self.publish_lead_s {
            let why = "jwks_max_age + stale-if-error + rp_propagation: every relying party must know the key";
            bounds.push(bound("publish_lead", lead, self.spread_s(), MOST, why));
        }
        bounds.push(bound(
            "rotate_every",
            self.rotate_every_s,
            self.lead_s().saturating_add(1),
            MOST,
            "above publish_lead, or two keys would be on their way at once",
        ));
        bounds.push(bound(
            "rollback_window",
            self.rollback_window_s,
            0,
            MONTH,
            "the old key's private half lies there so long",
        ));
        if let Some(erase) = self.erase_private_after_s {
            let why = "above 0, and no longer than the key is published after it stopped signing: staleness_limit + \
                       request deadline + max_token_ttl + 2 x skew + rp_leeway";
            bounds.push(bound("erase_private_after", erase, 1, removal, why));
        }
        bounds.push(bound(
            "emergency_wait",
            self.emergency_wait_s,
            1,
            HOUR,
            "a replica needs a moment to see the new set, and nothing is minted meanwhile",
        ));
        bounds
    }
}

/// What one of the times may be.
struct Bound {
    knob: &'static str,
    value: u64,
    least: u64,
    most: u64,
    why: &'static str,
}

const MOST: u64 = u64::MAX;
const MONTH: u64 = 31 * DAY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_and_the_laboratory_agree_with_themselves() {
        assert!(Rotation::default().check("rotation").is_empty());
        let lab = Rotation::lab();
        assert!(lab.check("rotation").is_empty(), "{}", lab.check("rotation"));
        assert_eq!((lab.jwks_max_age_s, lab.rp_propagation_s, lab.lead_s()), (2, 2, 5));
    }

    #[test]
    fn each_violation_names_its_knob_and_the_value_that_would_do() {
        let good = Rotation::default();
        let cases = [
            (Rotation { refresh_s: 0, ..good.clone() }, "refresh", "1 s to"),
            (Rotation { staleness_limit_s: 20, ..good.clone() }, "staleness_limit", "at least 55 s"),
            (Rotation { jwks_max_age_s: 0, ..good.clone() }, "jwks_max_age", "1 s to"),
            (Rotation { skew_s: 3601, ..good.clone() }, "skew", "0 s to 3600 s"),
            (
                Rotation { rp_propagation_s: 32 * DAY, rotate_every_s: 99 * DAY, ..good.clone() },
                "rp_propagation",
                "0 s to 2678400 s",
            ),
            (Rotation { token_ttl_s: 86_401, ..good.clone() }, "token_ttl", "60 s to 86400 s"),
            (Rotation { max_token_ttl_s: 86_401, ..good.clone() }, "max_token_ttl", "60 s to 86400 s"),
            (Rotation { backdate_s: 301, ..good.clone() }, "backdate", "0 s to 300 s"),
            (Rotation { publish_lead_s: Some(91_019), ..good.clone() }, "publish_lead", "at least 91020 s"),
            (Rotation { rotate_every_s: 91_020, ..good.clone() }, "rotate_every", "at least 91021 s"),
            (Rotation { rollback_window_s: 32 * DAY, ..good.clone() }, "rollback_window", "0 s to"),
            (
                Rotation { erase_private_after_s: Some(0), ..good.clone() },
                "erase_private_after",
                "1 s to 90450 s",
            ),
            (
                Rotation { erase_private_after_s: Some(90_451), ..good.clone() },
                "erase_private_after",
                "1 s to 90450 s",
            ),
            (Rotation { emergency_wait_s: 0, ..good }, "emergency_wait", "1 s to 3600 s"),
        ];
        for (times, knob, range) in cases {
            let findings = times.check("rotation");
            let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
            assert_eq!(places, [format!("rotation.{knob}")], "{findings}");
            assert!(findings.to_string().contains(range), "{findings}");
        }
    }

    #[test]
    fn a_lag_leaves_three_looks_of_the_staleness_limit_or_is_refused_with_what_would_do() {
        let found = |limit, lag| {
            let times = Rotation { staleness_limit_s: limit, ..Rotation::default() };
            times.check_lag(Duration::from_secs(lag), "provider.max_lag")
        };
        assert!(found(3600, 150).is_empty() && found(205, 150).is_empty() && found(55, 0).is_empty());
        let findings = found(204, 150);
        let told = findings.to_string();
        assert!(
            told.contains("provider.max_lag") && told.contains("at most 149 s") && told.contains("205 s"),
            "{told}"
        );
    }

    #[test]
    fn the_value_that_would_do_does() {
        let lead = |shared_cache, lead| {
            let times = Rotation { shared_cache, publish_lead_s: Some(lead), ..Rotation::default() };
            times.check("rotation").is_empty()
        };
        assert!(lead(false, 91_020) && lead(true, 94_620) && !lead(true, 94_619));
        let every = |rotate_every_s| Rotation { rotate_every_s, ..Rotation::default() }.check("r").is_empty();
        assert!(every(91_021));
    }
}
