//! What changes from one look at the fleet to the next, and how it is told: once, in the log and, where it is worth
//! keeping, as an event.

use std::collections::{BTreeMap, BTreeSet};

use oneseal::BootTime;
use oneseal_coordination::EventDraft;
use oneseal_coordination::registry::SILENT_AFTER;
use oneseal_keystore::Findings;
use oneseal_keystore::findings::{Finding, Severity};
use oneseal_keystore::fleet::{Fleet, Peer, PeerState};
use serde_json::{Value, json};

/// One change of another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    /// Whose.
    pub(super) instance: String,
    /// What it was; `None` if it was not there.
    pub(super) before: Option<PeerState>,
    /// What it is; `None` if it is not there any more.
    pub(super) now: Option<PeerState>,
}

/// What was last told of the others, by name.
///
/// A row that nobody beat into while the database was away is as old as the outage, and says nothing of its replica. So
/// silence is believed by one alone whose own beats were answered for as long as silence takes: until then a replica is
/// what it was.
#[derive(Debug, Default)]
pub(super) struct Known {
    states: BTreeMap<String, PeerState>,
    /// Since when every beat of this replica was answered, and when the last one was.
    answered: Option<(BootTime, BootTime)>,
}

impl Known {
    /// What is known from the way in: no news.
    pub(super) fn of(fleet: &Fleet, own: &str) -> Self {
        let states = others(fleet, own).map(|peer| (peer.instance.clone(), peer.state)).collect();
        Self { states, answered: None }
    }

    /// A beat was not answered.
    pub(super) fn lost(&mut self) {
        self.answered = None;
    }

    /// A beat that was sent `at` has brought `fleet`: what has changed since the last time.
    pub(super) fn learn(&mut self, fleet: &Fleet, own: &str, at: BootTime) -> Vec<News> {
        let since = match self.answered {
            Some((since, last)) if at.since(last) < SILENT_AFTER => since,
            _ => at,
        };
        self.answered = Some((since, at));
        let knows_silence = at.since(since) >= SILENT_AFTER;
        let now: BTreeMap<_, _> = others(fleet, own)
            .filter_map(|peer| {
                let is_believed = knows_silence || peer.state != PeerState::Silent;
                let state =
                    if is_believed { Some(peer.state) } else { self.states.get(&peer.instance).copied() };
                Some((peer.instance.clone(), state?))
            })
            .collect();
        let before = std::mem::replace(&mut self.states, now);
        let now = &self.states;
        let names: BTreeSet<_> = before.keys().chain(now.keys()).collect();
        let changes = names.into_iter().map(|name| News {
            instance: name.clone(),
            before: before.get(name).copied(),
            now: now.get(name).copied(),
        });
        changes.filter(|change| change.before != change.now).collect()
    }
}

fn others<'a>(fleet: &'a Fleet, own: &str) -> impl Iterator<Item = &'a Peer> {
    fleet.peers.iter().filter(move |peer| peer.instance != own)
}

impl News {
    /// Writes it to the log.
    pub(super) fn tell(&self) {
        let instance = self.instance.as_str();
        match self.now {
            Some(PeerState::Live) => tracing::info!(instance, "a replica of the fleet is live"),
            Some(PeerState::Silent) => tracing::warn!(
                instance,
                "a replica has missed three beats; it may still serve, and a planned activation waits for it: \
                 `oneseal replicas forget` says that it is gone"
            ),
            Some(PeerState::Joining) => tracing::info!(instance, "a replica is joining the fleet"),
            Some(PeerState::Gone) | None => tracing::info!(instance, "a replica has left the fleet"),
        }
    }
}

/// Whether `own` is the one to put what everybody sees into the event log: of those that beat and may write there, the first
/// by name. Two may do so, or none, while they disagree; what is true stands in the rows.
pub(super) fn is_reporter(fleet: &Fleet, own: &str) -> bool {
    let writes = |peer: &&Peer| peer.facts.as_ref().is_ok_and(|facts| !facts.is_public_only());
    let live = fleet.peers.iter().filter(|peer| peer.state == PeerState::Live).filter(writes);
    live.map(|peer| peer.instance.as_str()).min() == Some(own)
}

/// The event of a replica: `replica.joined`, `replica.left`, `replica.silent`.
pub(super) fn of_replica(kind: &str, fleet: &str, instance: &str, peer: Option<&Peer>) -> EventDraft {
    let facts = peer.and_then(|peer| peer.facts.as_ref().ok());
    let payload = json!({
        "fleet": fleet,
        "instance": instance,
        "boot_id": peer.map(|peer| peer.boot_id.as_str()),
        "incarnation": facts.map(|facts| facts.ring.incarnation),
        "revision": facts.map(|facts| facts.ring.revision),
        "digest": facts.map(|facts| facts.ring.digest.as_str()),
        "version": facts.map(|facts| facts.version.as_str()),
    });
    EventDraft::new(kind, sorted(payload))
}

/// What was last said of conflicts.
#[derive(Debug, Default)]
pub(super) struct Told {
    errors: Vec<(String, String, String)>,
    is_behind: bool,
}

impl Told {
    /// Tells what has come and gone since the last time, and gives the event for it, if there is one.
    pub(super) fn tell(&mut self, findings: &Findings, fleet: &str, own: &str) -> Option<EventDraft> {
        self.tell_behind(findings);
        let errors: Vec<_> =
            findings.iter().filter(|finding| finding.code.severity == Severity::Error).collect();
        let now: Vec<_> = errors.iter().map(|finding| key(finding)).collect();
        if now == self.errors {
            return None;
        }
        for Finding { code, place, message } in
            errors.iter().filter(|finding| !self.errors.contains(&key(finding)))
        {
            tracing::error!(
                code = code.name,
                place,
                fault = message,
                cure = code.cure,
                "the fleet is in conflict; this replica serves on"
            );
        }
        if now.is_empty() {
            tracing::info!("the fleet agrees again");
        }
        self.errors = now;
        let conflicts: Vec<_> = errors
            .iter()
            .map(|finding| json!({ "code": finding.code.name, "place": finding.place, "message": finding.message }))
            .collect();
        let kind = if conflicts.is_empty() { "fleet.settled" } else { "fleet.conflict" };
        let payload = json!({ "fleet": fleet, "instance": own, "conflicts": conflicts });
        Some(EventDraft::new(kind, sorted(payload)))
    }

    fn tell_behind(&mut self, findings: &Findings) {
        let behind = findings.iter().find(|finding| finding.code.name == "fleet.behind");
        match (std::mem::replace(&mut self.is_behind, behind.is_some()), behind) {
            (false, Some(Finding { code, place, message })) => {
                tracing::warn!(
                    code = code.name,
                    place,
                    fault = message,
                    cure = code.cure,
                    "this replica is behind"
                );
            }
            (true, None) => tracing::info!("this replica has caught up with the fleet"),
            _ => {}
        }
    }
}

/// What makes a conflict the same one.
fn key(finding: &Finding) -> (String, String, String) {
    (finding.code.name.to_owned(), finding.place.clone(), finding.message.clone())
}

fn sorted(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oneseal_coordination::UnixTime;
    use oneseal_keystore::fleet::{FLEET_BEHIND, FLEET_JWKS_DIFFERS, Facts};

    use super::*;

    fn fleet(peers: &[(&str, PeerState)]) -> Fleet {
        let peer = |(name, state): &(&str, PeerState)| Peer {
            instance: (*name).to_owned(),
            boot_id: "b".to_owned(),
            state: *state,
            seen_at: UnixTime(0),
            joined_at: UnixTime(0),
            ops_address: None,
            facts: Facts::read(&Value::Null),
        };
        Fleet { now: UnixTime(0), peers: peers.iter().map(peer).collect() }
    }

    /// What `known` tells of `peers` by a beat so many seconds after the start.
    fn told(known: &mut Known, at_s: u64, peers: &[(&str, PeerState)]) -> Vec<(String, Option<PeerState>)> {
        let at = BootTime(Duration::from_secs(at_s));
        known.learn(&fleet(peers), "me", at).into_iter().map(|news| (news.instance, news.now)).collect()
    }

    fn of(instance: &str, now: Option<PeerState>) -> (String, Option<PeerState>) {
        (instance.to_owned(), now)
    }

    #[test]
    fn news_are_what_has_changed_and_never_of_oneself() {
        use PeerState::{Live, Silent};
        let mut known = Known::of(&fleet(&[("me", Live), ("a", Live), ("b", Live), ("c", Silent)]), "me");
        let now = [("me", Silent), ("a", Live), ("c", Live), ("d", Live)];
        assert_eq!(told(&mut known, 0, &now), [of("b", None), of("c", Some(Live)), of("d", Some(Live))]);
        assert_eq!(told(&mut known, 4, &now), []);
    }

    #[test]
    fn silence_is_told_once_by_one_whose_own_beats_were_answered_for_as_long() {
        use PeerState::{Live, Silent};
        let mut known = Known::of(&fleet(&[("a", Live), ("b", Live)]), "me");
        let (good, silent) = ([("a", Live), ("b", Live)], [("a", Silent), ("b", Live)]);
        for at_s in [0, 4, 8, 12] {
            assert_eq!(told(&mut known, at_s, &good), []);
        }
        assert_eq!(told(&mut known, 16, &silent), [of("a", Some(Silent))]);
        assert_eq!(told(&mut known, 20, &silent), []);
        assert_eq!(told(&mut known, 24, &good), [of("a", Some(Live))]);
    }

    #[test]
    fn after_an_outage_of_the_database_nobody_is_called_silent_for_it() {
        use PeerState::{Gone, Live, Silent};
        let mut known = Known::of(&fleet(&[("a", Live), ("b", Live), ("c", Live)]), "me");
        for at_s in [0, 4, 8, 12] {
            assert_eq!(told(&mut known, at_s, &[("a", Live), ("b", Live), ("c", Live)]), []);
        }
        known.lost();
        assert_eq!(told(&mut known, 60, &[("a", Silent), ("b", Silent), ("c", Silent), ("d", Silent)]), []);
        let after = [("a", Live), ("b", Silent), ("c", Gone), ("d", Silent)];
        assert_eq!(told(&mut known, 64, &after), [of("c", Some(Gone))]);
        assert_eq!(told(&mut known, 68, &after), []);
        let really = [of("b", Some(Silent)), of("d", Some(Silent))];
        assert_eq!(told(&mut known, 72, &after), really, "who does not come back is");
        // A process that was stopped itself has seen no failure, and knows no more.
        assert_eq!(told(&mut known, 600, &[("a", Silent), ("b", Silent), ("d", Silent)]), [of("c", None)]);
    }

    #[test]
    fn one_of_those_that_beat_reports() {
        use PeerState::{Joining, Live, Silent};
        let zero = "0".repeat(64);
        let facts = |minting: &str| {
            Facts::read(&json!({
                "version": "0", "issuer": "https://i.example", "keys": [], "max_age_s": 1, "minting": minting,
                "ring": { "incarnation": 0, "revision": 0, "digest": zero, "jwks_digest": zero },
            }))
        };
        let mut fleet = fleet(&[("a", Silent), ("b", Joining), ("b-pub", Live), ("c", Live), ("d", Live)]);
        for peer in &mut fleet.peers {
            peer.facts = facts(if peer.instance == "b-pub" { "public_only" } else { "stale" });
            assert!(peer.facts.is_ok());
        }
        let reporters: Vec<_> =
            ["a", "b", "b-pub", "c", "d"].into_iter().filter(|name| is_reporter(&fleet, name)).collect();
        assert_eq!(reporters, ["c"]);
    }

    #[test]
    fn a_conflict_is_told_once_and_so_is_its_end() {
        let mut told = Told::default();
        let mut findings = Findings::new();
        assert_eq!(told.tell(&findings, "f", "me"), None);
        findings.push(&FLEET_BEHIND, "me", "behind");
        assert_eq!(told.tell(&findings, "f", "me"), None, "a warning is no conflict");
        findings.push(&FLEET_JWKS_DIFFERS, "replica x", "other digest");
        let event = told.tell(&findings, "f", "me").expect("an event");
        assert_eq!(event.kind, "fleet.conflict");
        assert_eq!(
            event.payload,
            r#"{"conflicts":[{"code":"fleet.jwks_differs","message":"other digest","place":"replica x"}],"fleet":"f","instance":"me"}"#
        );
        assert_eq!(told.tell(&findings, "f", "me"), None);
        let settled = told.tell(&Findings::new(), "f", "me").expect("an event");
        assert_eq!(settled.kind, "fleet.settled");
    }
}
