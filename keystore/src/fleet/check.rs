//! Whether a replica may stand beside the others: a pure function of what it would serve and of their rows.
//!
//! The same function judges a replica that wants to join, which it may keep out, and one that serves, of which it can
//! only be told: who stopped serving for a conflict would make an outage of it, and nobody knows which side is right.
//!
//! Of two that join at the same time with different keys the later yields: one of them is always let in, and a single
//! wrong replica cannot keep a whole fleet from starting unless it was there first.

use std::collections::BTreeSet;

use super::{Facts, Fleet, Peer, PeerState};
use crate::Findings;
use crate::codes::{FLEET_KEY_REPLACED, FLEET_KID_REUSED, RING_ROLLED_BACK};
use crate::findings::Code;

/// The replica that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// Its name: its own row does not count.
    pub instance: &'a str,
    /// What it serves, or would.
    pub facts: &'a Facts,
    /// Whether a key set that shares no key with the others' was allowed, by hand and for once.
    pub allow_key_replacement: bool,
    /// Incarnation and revision of the ring that the store holds now, where that is known.
    pub stored: Option<(u64, u64)>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Errors are conflicts; warnings tell who is behind.
    pub findings: Findings,
    /// Incarnation and revision that a live replica serves already, and this one does not: it is behind.
    pub ahead: Option<(u64, u64)>,
    /// Replicas that may serve an older revision than this one, by name.
    pub lagging: Vec<String>,
}

impl Judgement {
    /// Whether this replica and another contradict each other.
    pub fn is_conflict(&self) -> bool {
        self.findings.has_errors()
    }
}

/// Judges `own` against everybody else in `fleet`.
pub fn judge(own: Own<'_>, fleet: &Fleet) -> Judgement {
    let mut judgement = Judgement::default();
    let joined = fleet.peers.iter().find(|peer| peer.instance == own.instance).map(order);
    for peer in fleet.peers.iter().filter(|peer| peer.instance != own.instance) {
        let is_first = is_joining_now(peer, fleet) && joined.is_some_and(|joined| order(peer) < joined);
        if !peer.may_serve() && !is_first {
            continue;
        }
        match &peer.facts {
            Ok(theirs) => compare(own, peer, theirs, &mut judgement),
            Err(why) => judgement.findings.push(&FLEET_UNREADABLE, place(peer), why.to_string()),
        }
    }
    tell_behind(own, fleet, &mut judgement);
    tell_rolled_back(own, fleet, &mut judgement.findings);
    judgement
}

/// One that died on its way in stays there as joining, and keeps nobody out.
fn is_joining_now(peer: &Peer, fleet: &Fleet) -> bool {
    let age = fleet.now.as_secs().saturating_sub(peer.seen_at.as_secs());
    peer.state == PeerState::Joining && age <= JOINING_FOR_S
}

/// Who came first; by name where the clock cannot say.
fn order(peer: &Peer) -> (i64, &str) {
    (peer.joined_at.as_secs(), &peer.instance)
}

fn compare(own: Own<'_>, peer: &Peer, theirs: &Facts, judgement: &mut Judgement) {
    let ours = own.facts;
    if ours.ring.is_bare() || theirs.ring.is_bare() {
        return compare_keys(own, peer, theirs, &mut judgement.findings);
    }
    let (number, number_there) = (ours.ring.number(), theirs.ring.number());
    let same_life = ours.ring.incarnation == theirs.ring.incarnation;
    if same_life && ours.ring.incarnation_id != theirs.ring.incarnation_id {
        let before = judgement.findings.len();
        compare_keys(own, peer, theirs, &mut judgement.findings);
        let is_allowed = own.allow_key_replacement && !shares_a_key(ours, theirs);
        if judgement.findings.len() == before && !is_allowed {
            let message = format!("it serves another ring, whose incarnation {} has another id", number.0);
            judgement.findings.push(&FLEET_JWKS_DIFFERS, place(peer), message);
        }
        return;
    }
    if number_there < number {
        judgement.lagging.push(peer.instance.clone());
        return;
    }
    if number_there == number && ours.ring.digest != theirs.ring.digest {
        let reused = reused(ours, theirs);
        judgement.findings.extend(tell_reused(peer, &reused));
        let message = format!(
            "both serve revision {} of incarnation {}, it with the digest {}, this replica with {}",
            number.1, number.0, theirs.ring.digest, ours.ring.digest
        );
        judgement.findings.push(&FLEET_JWKS_DIFFERS, place(peer), message);
    } else if number_there == number {
        compare_key_sets(ours, peer, theirs, &mut judgement.findings);
    }
}

/// One ring makes one key set, byte for byte: a replica that makes another of it is broken, or its row lies. One that does
/// not beat cannot be asked any more.
fn compare_key_sets(ours: &Facts, peer: &Peer, theirs: &Facts, findings: &mut Findings) {
    if peer.state != PeerState::Live || ours.ring.jwks_digest == theirs.ring.jwks_digest {
        return;
    }
    let (number, own) = (shown(ours.ring.number()), &ours.ring.jwks_digest);
    let message = format!(
        "both serve {number} with one digest, and other key sets made of it: its JWKS has the SHA-256 {}, this \
         replica's {own}",
        theirs.ring.jwks_digest
    );
    findings.push(&FLEET_JWKS_DIFFERS, place(peer), message);
}

/// Key files have no revision by which one of the two could be behind: each must publish what the other signs with.
fn compare_keys(own: Own<'_>, peer: &Peer, theirs: &Facts, findings: &mut Findings) {
    let ours = own.facts;
    let reused = reused(ours, theirs);
    findings.extend(tell_reused(peer, &reused));
    if !reused.is_empty() {
        return;
    }
    if !shares_a_key(ours, theirs) {
        if !own.allow_key_replacement {
            let message = format!("it serves {}; this replica's: {}", kids(theirs), kids(ours));
            findings.push(&FLEET_KEY_REPLACED, place(peer), message);
        }
        return;
    }
    let (here, there) = (missing(theirs, ours), missing(ours, theirs));
    if !here.is_empty() {
        let message = format!("it signs with {}, which this replica does not publish", here.join(", "));
        findings.push(&FLEET_JWKS_DIFFERS, place(peer), message);
    }
    if !there.is_empty() {
        let message = format!("this replica signs with {}, which it does not publish", there.join(", "));
        findings.push(&FLEET_JWKS_DIFFERS, place(peer), message);
    }
}

fn tell_reused(peer: &Peer, reused: &[&str]) -> Findings {
    let mut findings = Findings::new();
    for kid in reused {
        let message = format!("it has another key under the kid {kid} than this replica");
        findings.push(&FLEET_KID_REUSED, place(peer), message);
    }
    findings
}

fn reused<'a>(ours: &'a Facts, theirs: &Facts) -> Vec<&'a str> {
    let is_other =
        |kid: &str, thumbprint: &str| theirs.key(kid).is_some_and(|key| key.thumbprint != thumbprint);
    ours.keys.iter().filter(|key| is_other(&key.kid, &key.thumbprint)).map(|key| key.kid.as_str()).collect()
}

fn shares_a_key(ours: &Facts, theirs: &Facts) -> bool {
    ours.keys.iter().any(|key| theirs.keys.iter().any(|other| other.thumbprint == key.thumbprint))
}

/// What `signs` signs with and `publishes` does not publish.
fn missing<'a>(signs: &'a Facts, publishes: &Facts) -> Vec<&'a str> {
    signs.signing_kids().filter(|kid| publishes.key(kid).is_none()).collect()
}

/// By those that beat alone: one that has gone silent, perhaps for good, must not keep others out of service.
fn tell_behind(own: Own<'_>, fleet: &Fleet, judgement: &mut Judgement) {
    let ours = &own.facts.ring;
    if ours.is_bare() {
        return;
    }
    let is_ahead = |facts: &&Facts| {
        let same_life = facts.ring.incarnation == ours.incarnation;
        let is_other = same_life && facts.ring.incarnation_id != ours.incarnation_id;
        !facts.ring.is_bare() && !is_other && facts.ring.number() > ours.number()
    };
    let live =
        fleet.peers.iter().filter(|peer| peer.state == PeerState::Live && peer.instance != own.instance);
    let ahead: Vec<_> = live
        .filter_map(|peer| {
            Some((peer.instance.as_str(), peer.facts.as_ref().ok().filter(is_ahead)?.ring.number()))
        })
        .collect();
    let Some(most) = ahead.iter().map(|(_, number)| *number).max() else { return };
    let names: BTreeSet<_> = ahead.iter().map(|(name, _)| *name).collect();
    let message = format!(
        "this replica has read {}; {} already serve up to {}",
        shown(ours.number()),
        names.into_iter().collect::<Vec<_>>().join(", "),
        shown(most)
    );
    judgement.findings.push(&FLEET_BEHIND, own.instance, message);
    judgement.ahead = Some(most);
}

/// The store can only be older than what was read from it if somebody has put it back: a failover to a copy that had
/// not got the last change, or a restored backup.
fn tell_rolled_back(own: Own<'_>, fleet: &Fleet, findings: &mut Findings) {
    let Some(stored) = own.stored else { return };
    let theirs = fleet.peers.iter().filter(|peer| peer.state == PeerState::Live);
    let theirs = theirs.filter_map(|peer| Some((peer.instance.as_str(), peer.facts.as_ref().ok()?)));
    let all = theirs.chain([(own.instance, own.facts)]).filter(|(_, facts)| !facts.ring.is_bare());
    let above: Vec<_> = all.filter(|(_, facts)| facts.ring.number() > stored).collect();
    let Some(most) = above.iter().map(|(_, facts)| facts.ring.number()).max() else { return };
    let names: BTreeSet<_> = above.iter().map(|(name, _)| *name).collect();
    let told = names.iter().copied().collect::<Vec<_>>().join(", ");
    // These all beat: none of them is one to forget.
    let message = format!(
        "the store holds {}, and by the rows of {told} the fleet serves up to {}",
        shown(stored),
        shown(most)
    );
    findings.push(&RING_ROLLED_BACK, "the ring's store", message);
}

fn shown((incarnation, revision): (u64, u64)) -> String {
    format!("revision {revision} of incarnation {incarnation}")
}

fn kids(facts: &Facts) -> String {
    facts.keys.iter().map(|key| key.kid.as_str()).collect::<Vec<_>>().join(", ")
}

fn place(peer: &Peer) -> String {
    let at = peer.ops_address.as_ref().map(|address| format!(" ({address})")).unwrap_or_default();
    format!("replica {}{at}", peer.instance)
}

/// As long as three beats: from its row to its first beat a replica takes no time worth speaking of.
const JOINING_FOR_S: i64 = 12;

/// The rows of this file.
pub static CODES: &[&Code] = &[&FLEET_JWKS_DIFFERS, &FLEET_BEHIND, &FLEET_INSTANCE_IN_USE, &FLEET_UNREADABLE];

/// Two replicas of one revision, or of bare keys, that contradict each other.
pub static FLEET_JWKS_DIFFERS: Code = Code::refused(
    "fleet.jwks_differs",
    "Another replica of the fleet serves other keys than this one: relying parties would refuse tokens by chance.",
    "Give this replica the fleet's key or ring; if the other is the wrong one, stop it, then \
     `oneseal replicas forget` it, with --direct where no replica runs.",
);
/// A newer revision is served elsewhere.
pub static FLEET_BEHIND: Code = Code::warning(
    "fleet.behind",
    "Live replicas serve a newer revision of the ring than this one has read; one that starts is not ready until it \
     has caught up.",
    "Nothing, if it passes by itself; else look at what keeps this replica's provider from showing the newest \
     revision, or whether the ring was put back to an older one.",
);
/// Two live starts of one instance.
pub static FLEET_INSTANCE_IN_USE: Code = Code::error(
    "fleet.instance_in_use",
    crate::findings::Exit::TryLater,
    "Another process of this fleet beats under the same instance name.",
    "Stop it, or give this one a name of its own by ops.instance (a pod has its own by POD_NAME or its host name).",
);
/// A row that says nothing.
pub static FLEET_UNREADABLE: Code = Code::warning(
    "fleet.unreadable",
    "A replica's row in the registry cannot be read or tells of a time that has not come, so nobody knows what it serves.",
    "Bring all replicas to one version; a row that nobody beats into any more goes by `oneseal replicas forget`, with \
     --direct where no replica runs.",
);
