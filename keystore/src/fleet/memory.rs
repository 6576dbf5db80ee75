//! What a replica remembers of what it has served, on its own boot clock.
//!
//! A new key may sign only once nobody could have answered without it for so long that no cache can be without it. How
//! long a key has been served is counted here as a span, never as a time of day: a span can be taken from the store's
//! clock, however far the replica's own is off.

use std::collections::BTreeMap;
use std::time::Duration;

use oneseal_coordination::BootTime;

use crate::{KeyId, Snapshot};

/// Since when each published key has been served, and under which max-age answers may rest in caches.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// `None`: since the start.
    keys: BTreeMap<KeyId, Option<BootTime>>,
    /// The max-age of answers until now, and until when they may be kept.
    max_ages: Vec<(u64, BootTime)>,
    max_age_s: u64,
}

impl Memory {
    /// Of a process that has served nothing but `snapshot`.
    pub fn new(snapshot: &Snapshot) -> Self {
        let keys = snapshot.keys().iter().map(|key| (key.kid.clone(), None)).collect();
        Self { keys, max_ages: Vec::new(), max_age_s: snapshot.rotation().jwks_max_age_s }
    }

    /// `snapshot` is what is served at `now`. To be told of soon after each change: what is told late is counted late,
    /// which makes others wait longer than they need to.
    pub fn see(&mut self, snapshot: &Snapshot, now: BootTime) {
        let kept = snapshot
            .keys()
            .iter()
            .map(|key| (key.kid.clone(), self.keys.get(&key.kid).copied().unwrap_or(Some(now))));
        self.keys = kept.collect();
        let max_age_s = snapshot.rotation().jwks_max_age_s;
        if max_age_s != self.max_age_s {
            self.max_ages.push((self.max_age_s, now + Duration::from_secs(self.max_age_s)));
            self.max_age_s = max_age_s;
        }
        self.max_ages.retain(|(_, until)| *until > now);
    }

    /// For how long `kid` has been served; `None` for as long as this process has served. One that has not been seen
    /// here yet has been served for no time.
    pub fn served_for(&self, kid: &KeyId, now: BootTime) -> Option<Duration> {
        match self.keys.get(kid) {
            Some(since) => since.map(|since| now.since(since)),
            None => Some(Duration::ZERO),
        }
    }

    /// The largest max-age under which an answer may still rest in a cache, in seconds.
    pub fn max_age_s(&self, now: BootTime) -> u64 {
        let earlier = self.max_ages.iter().filter(|(_, until)| *until > now).map(|(max_age, _)| *max_age);
        earlier.max().unwrap_or_default().max(self.max_age_s)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oneseal_providers::Entries;

    use super::*;
    use crate::{Algorithm, IssuerUrl, Rotation, ring};

    /// The bare keys of the golden ring at these positions, under this max-age.
    fn snapshot(kept: &[usize], jwks_max_age_s: u64) -> Snapshot {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/ring-1.json")).expect("JSON");
        let mut entries = Entries::new();
        for (at, name) in kept.iter().zip(["current.jwk", "next.jwk"]) {
            entries.insert(name, golden["keys"][*at]["private"].to_string());
        }
        let issuer = IssuerUrl::parse("https://oidc.example", "test").expect("good");
        let (ring, _) = ring::read(&entries, &issuer).unwrap_or_else(|found| panic!("{found}"));
        let rotation = Rotation { jwks_max_age_s, ..Rotation::default() };
        Snapshot::build(ring, &Algorithm::ALL, &rotation).unwrap_or_else(|found| panic!("{found}")).0
    }

    fn at(seconds: u64) -> BootTime {
        BootTime(Duration::from_secs(seconds))
    }

    #[test]
    fn keys_of_the_start_have_always_been_served_and_later_ones_since_they_were_seen() {
        let (first, both) = (snapshot(&[0], 300), snapshot(&[0, 1], 300));
        let (old, new) = (&both.keys()[0].kid, &both.keys()[1].kid);
        let mut memory = Memory::new(&first);
        assert_eq!(memory.served_for(new, at(5)), Some(Duration::ZERO), "not seen here yet");
        memory.see(&both, at(10));
        memory.see(&both, at(12));
        assert_eq!(memory.served_for(old, at(15)), None);
        assert_eq!(memory.served_for(new, at(15)), Some(Duration::from_secs(5)));
        memory.see(&first, at(20));
        memory.see(&both, at(30));
        assert_eq!(memory.served_for(new, at(31)), Some(Duration::from_secs(1)), "there was a gap");
    }

    #[test]
    fn a_longer_max_age_counts_until_the_last_answer_under_it_is_void() {
        let mut memory = Memory::new(&snapshot(&[0], 300));
        memory.see(&snapshot(&[0], 2), at(100));
        assert_eq!(memory.max_age_s(at(100)), 300);
        assert_eq!(memory.max_age_s(at(399)), 300);
        assert_eq!(memory.max_age_s(at(400)), 2);
    }
}
