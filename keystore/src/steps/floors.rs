//! How long each thing must last, at the least: what the times of a ring come to.

use std::time::Duration;

use oneseal_coordination::UnixTime;

use crate::Rotation;

/// The least spans. A decision takes them from the ring's times and, where other times are proposed, from both, whichever
/// is longer: what caches were told before a change still holds for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floors {
    /// H: the longest that a cache that follows the header keeps a set.
    pub max_age_s: u64,
    /// E: how much longer a shared cache may where it gets no answer.
    pub stale_if_error_s: u64,
    /// C: how long the slowest relying party takes otherwise.
    pub propagation_s: u64,
    /// From the first publication of a key to its first signature.
    pub lead_s: u64,
    /// How long a replica may answer with the set before a commit, where nobody sees it.
    pub blind_s: u64,
    /// How long an emergency waits for replicas that do not answer.
    pub emergency_wait_s: u64,
    /// What is added to the life of a key's tokens before it leaves the set.
    pub afterlife_s: u64,
    /// How long a retired key keeps its private half, if it stays in the set so long.
    pub keep_private_s: u64,
    /// How long a retired key can be made active again, if its private half stays so long.
    pub rollback_s: u64,
}

impl Floors {
    /// What `times` come to.
    pub fn of(times: &Rotation) -> Self {
        Self {
            max_age_s: times.jwks_max_age_s,
            stale_if_error_s: times.stale_if_error_s(),
            propagation_s: times.rp_propagation_s,
            lead_s: times.lead_s(),
            blind_s: times.blind_s(),
            emergency_wait_s: times.emergency_wait_s,
            afterlife_s: times.removal_s(0),
            keep_private_s: times.erase_private_after_s.unwrap_or(times.rollback_window_s),
            rollback_s: times.rollback_window_s,
        }
    }

    /// The longer of each that protects relying parties.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self {
            max_age_s: self.max_age_s.max(other.max_age_s),
            stale_if_error_s: self.stale_if_error_s.max(other.stale_if_error_s),
            propagation_s: self.propagation_s.max(other.propagation_s),
            lead_s: self.lead_s.max(other.lead_s),
            blind_s: self.blind_s.max(other.blind_s),
            emergency_wait_s: self.emergency_wait_s.max(other.emergency_wait_s),
            afterlife_s: self.afterlife_s.max(other.afterlife_s),
            keep_private_s: other.keep_private_s,
            rollback_s: other.rollback_s,
        }
    }

    /// Where replicas read a copy that may be `max_lag` older than the ring: those that nobody sees answer with the set
    /// before for that much longer, and an emergency's second commit does not overtake its first on the way.
    #[must_use]
    pub fn lagging(self, max_lag: Duration) -> Self {
        let max_lag_s = max_lag.as_secs();
        Self {
            blind_s: self.blind_s.saturating_add(max_lag_s),
            emergency_wait_s: self.emergency_wait_s.max(max_lag_s),
            ..self
        }
    }

    /// From retiring to removal, for a key whose tokens live `ttl_high_water_s` at most.
    pub fn removal(&self, ttl_high_water_s: u64) -> Duration {
        Duration::from_secs(self.afterlife_s.saturating_add(ttl_high_water_s))
    }

    /// From retiring to the end of the private half.
    pub fn erasure(&self, ttl_high_water_s: u64) -> Duration {
        self.removal(ttl_high_water_s).min(Duration::from_secs(self.keep_private_s))
    }

    /// From retiring to the end of the rollback window.
    pub fn rollback(&self, ttl_high_water_s: u64) -> Duration {
        self.erasure(ttl_high_water_s).min(Duration::from_secs(self.rollback_s))
    }

    /// When a key may sign that came into the set at `published_at`, and without which nobody could answer after
    /// `known_by_all`; `max_age_s` is the longest that anybody has served, if that is known. With what costs most of it.
    pub fn activation(
        &self,
        published_at: UnixTime,
        known_by_all: UnixTime,
        max_age_s: u64,
    ) -> (UnixTime, Cost) {
        let max_age_s = self.max_age_s.max(max_age_s);
        let spread = [
            Cost { knob: "rotation.jwks_max_age", seconds: max_age_s },
            Cost { knob: "rotation.shared_cache", seconds: self.stale_if_error_s },
            Cost { knob: "rotation.rp_propagation", seconds: self.propagation_s },
        ];
        let total: u64 = spread.iter().map(|cost| cost.seconds).fold(0, u64::saturating_add);
        let of_spread = known_by_all + Duration::from_secs(total);
        let of_lead = published_at + Duration::from_secs(self.lead_s);
        let most = spread.into_iter().max_by_key(|cost| cost.seconds).unwrap_or(LEAD);
        let (at, cost) = match of_lead > of_spread {
            // A lead that is computed follows what costs most of it.
            true if self.lead_s > total => (of_lead, Cost { seconds: self.lead_s, ..LEAD }),
            true => (of_lead, most),
            false => (of_spread, most),
        };
        (at + ROUNDING, cost)
    }
}

/// A setting, and how many seconds of a wait are its.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Its key in the configuration.
    pub knob: &'static str,
    /// Its share.
    pub seconds: u64,
}

const LEAD: Cost = Cost { knob: "rotation.publish_lead", seconds: 0 };
/// A time that is written down is up to a second before what it tells of.
const ROUNDING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const T: UnixTime = UnixTime(1_800_000_000);

    fn after(seconds: u64) -> UnixTime {
        T + Duration::from_secs(seconds)
    }

    #[test]
    fn what_costs_most_is_named() {
        let of = |times: Rotation| Floors::of(&times).activation(T, T, 0);
        let mut times = Rotation::default();
        assert_eq!(
            of(times.clone()),
            (after(91_021), Cost { knob: "rotation.rp_propagation", seconds: 90_720 })
        );
        times.rp_propagation_s = 0;
        assert_eq!(of(times.clone()), (after(3601), Cost { knob: "rotation.publish_lead", seconds: 3600 }));
        times.shared_cache = true;
        assert_eq!(of(times.clone()), (after(3901), Cost { knob: "rotation.shared_cache", seconds: 3600 }));
        times.publish_lead_s = Some(90_000);
        assert_eq!(of(times), (after(90_001), Cost { knob: "rotation.publish_lead", seconds: 90_000 }));
    }

    #[test]
    fn who_answered_without_the_key_last_and_what_was_served_count() {
        let floors = Floors::of(&Rotation::lab());
        assert_eq!(floors.activation(T, T, 0).0, after(6), "the lead");
        assert_eq!(
            floors.activation(T, after(3), 0).0,
            after(3 + 2 + 2 + 1),
            "the spread, from the last answer"
        );
        assert_eq!(
            floors.activation(T, T, 600),
            (after(603), Cost { knob: "rotation.jwks_max_age", seconds: 600 })
        );
    }

    #[test]
    fn a_copy_that_lags_is_waited_for_and_takes_nothing_off_what_follows() {
        let lab = Floors::of(&Rotation::lab());
        let lagging = lab.clone().lagging(Duration::from_secs(150));
        assert_eq!((lagging.blind_s, lagging.emergency_wait_s), (lab.blind_s + 150, 150));
        assert_eq!(lab.clone().lagging(Duration::from_secs(1)).emergency_wait_s, lab.emergency_wait_s);
        let same = Floors { blind_s: lab.blind_s, emergency_wait_s: lab.emergency_wait_s, ..lagging };
        assert_eq!(same, lab);
    }

    #[test]
    fn a_change_of_times_waits_for_the_longer() {
        let (long, short) = (Floors::of(&Rotation::default()), Floors::of(&Rotation::lab()));
        let both = long.clone().and(&short);
        assert_eq!((both.lead_s, both.max_age_s, both.afterlife_s), (long.lead_s, 300, long.afterlife_s));
        assert_eq!(both.rollback_s, short.rollback_s, "what is a right and no duty is as proposed");
    }
}
