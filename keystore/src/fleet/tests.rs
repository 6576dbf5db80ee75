#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::Digest;
use crate::ring::KeyState;
use serde_json::json;

/// A replica that signs with the first of `kids` and serves `revision` of the first incarnation; 0 for bare keys.
pub(super) fn facts(revision: u64, kids: &[&str]) -> Facts {
    let digest = Digest::of(format!("{revision}{kids:?}").as_bytes()).to_string();
    let key = |(i, kid): (usize, &&str)| FactKey {
        kid: (*kid).to_owned(),
        thumbprint: format!("print-of-{kid}"),
        alg: "ES256".to_owned(),
        state: if i == 0 { KeyState::Active } else { KeyState::Pending },
        signs: i == 0,
        has_private: true,
        served_for_s: None,
    };
    Facts {
        version: "0.1.0".to_owned(),
        issuer: "https://oidc.example".to_owned(),
        ring: RingFacts {
            incarnation: u64::from(revision > 0),
            incarnation_id: (revision > 0).then(|| "first".to_owned()),
            revision,
            digest: digest.clone(),
            jwks_digest: digest,
        },
        keys: kids.iter().enumerate().map(key).collect(),
        max_age_s: 300,
        serving: true,
        ready: true,
        minting: "on".to_owned(),
        age_s: 1,
        kek_ids: Vec::new(),
        clock_offset_ms: None,
    }
}

pub(super) fn peer(instance: &str, state: PeerState, facts: Facts) -> Peer {
    Peer {
        instance: instance.to_owned(),
        boot_id: "b".to_owned(),
        state,
        seen_at: UnixTime(1000),
        joined_at: UnixTime(100),
        ops_address: None,
        facts: Ok(facts),
    }
}

/// Own name, so that it stands among the others in any order of theirs.
const ME: &str = "m";

fn judge_with(own: &Facts, peers: Vec<Peer>, stored: Option<(u64, u64)>) -> Judgement {
    let mut peers = peers;
    peers.push(peer(ME, PeerState::Joining, own.clone()));
    let fleet = Fleet { now: UnixTime(1000), peers };
    judge(Own { instance: ME, facts: own, allow_key_replacement: false, stored }, &fleet)
}

fn codes(own: &Facts, peers: Vec<Peer>) -> Vec<&'static str> {
    judge_with(own, peers, None).findings.iter().map(|finding| finding.code.name).collect()
}

#[test]
fn one_revision_has_one_digest() {
    let own = facts(7, &["a", "b"]);
    assert!(codes(&own, vec![peer("x", PeerState::Live, own.clone())]).is_empty());
    let other = facts(7, &["a", "c"]);
    for state in [PeerState::Live, PeerState::Silent] {
        assert_eq!(codes(&own, vec![peer("x", state, other.clone())]), ["fleet.jwks_differs"]);
    }
    assert!(codes(&own, vec![peer("x", PeerState::Gone, other.clone())]).is_empty());
    let never_served = Facts { serving: false, ..other };
    assert!(codes(&own, vec![peer("x", PeerState::Silent, never_served)]).is_empty());
}

#[test]
fn one_ring_has_one_key_set() {
    let own = facts(7, &["a", "b"]);
    let mut other = own.clone();
    other.ring.jwks_digest = Digest::ZERO.to_string();
    let found = judge_with(&own, vec![peer("x", PeerState::Live, other.clone())], None);
    assert!(found.is_conflict() && found.findings.contains(&FLEET_JWKS_DIFFERS));
    let text = found.findings.to_string();
    assert!(text.contains(&own.ring.jwks_digest) && text.contains(&other.ring.jwks_digest), "{text}");
    assert!(codes(&own, vec![peer("x", PeerState::Silent, other.clone())]).is_empty());
    other.ring.revision = 8;
    assert!(!codes(&own, vec![peer("x", PeerState::Live, other)]).contains(&"fleet.jwks_differs"));
}

#[test]
fn the_conflict_names_the_replica_and_both_digests() {
    let (own, other) = (facts(7, &["a"]), facts(7, &["b"]));
    let row = Peer {
        ops_address: Some("http://10.0.0.7:8081".to_owned()),
        ..peer("x-1", PeerState::Live, other.clone())
    };
    let text = judge_with(&own, vec![row], None).findings.to_string();
    for part in ["replica x-1 (http://10.0.0.7:8081)", &own.ring.digest, &other.ring.digest, "revision 7"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn who_is_behind_does_not_count_and_who_is_ahead_is_waited_for() {
    let own = facts(7, &["a"]);
    let older = judge_with(&own, vec![peer("x", PeerState::Live, facts(6, &["z"]))], None);
    assert!(older.findings.is_empty() && older.ahead.is_none());
    assert_eq!(older.lagging, ["x"]);
    let newer = judge_with(&own, vec![peer("x", PeerState::Live, facts(9, &["b"]))], None);
    assert_eq!(newer.ahead, Some((1, 9)));
    assert!(newer.findings.contains(&FLEET_BEHIND) && !newer.is_conflict());
    let silent = judge_with(&own, vec![peer("x", PeerState::Silent, facts(9, &["b"]))], None);
    assert_eq!(silent.ahead, None, "one that may be dead keeps nobody out of service");
}

#[test]
fn a_restored_ring_outranks_and_one_number_of_a_life_has_one_id() {
    let own = facts(7, &["a"]);
    let mut restored = facts(1, &["a"]);
    restored.ring.incarnation = 2;
    restored.ring.incarnation_id = Some("second".to_owned());
    assert_eq!(
        judge_with(&own, vec![peer("x", PeerState::Live, restored.clone())], None).ahead,
        Some((2, 1))
    );
    assert!(codes(&restored, vec![peer("x", PeerState::Live, own.clone())]).is_empty());
    let mut impostor = facts(9, &["a"]);
    impostor.ring.incarnation_id = Some("other".to_owned());
    let found = judge_with(&own, vec![peer("x", PeerState::Live, impostor.clone())], None);
    assert!(found.findings.contains(&FLEET_JWKS_DIFFERS) && found.ahead.is_none());
    impostor.keys = facts(9, &["q"]).keys;
    assert_eq!(codes(&own, vec![peer("x", PeerState::Live, impostor)]), ["fleet.key_replaced"]);
}

#[test]
fn bare_keys_publish_what_each_other_signs_with() {
    let before = facts(0, &["old"]);
    let with_next = facts(0, &["old", "new"]);
    let swapped = facts(0, &["new", "old"]);
    let only_new = facts(0, &["new"]);
    for (own, other, found) in [
        (&before, &with_next, vec![]),
        (&with_next, &swapped, vec![]),
        (&swapped, &only_new, vec![]),
        (&before, &swapped, vec!["fleet.jwks_differs"]),
        (&swapped, &before, vec!["fleet.jwks_differs"]),
        (&with_next, &only_new, vec!["fleet.jwks_differs"]),
        (&before, &only_new, vec!["fleet.key_replaced"]),
    ] {
        assert_eq!(codes(own, vec![peer("x", PeerState::Live, other.clone())]), found, "{own:?} {other:?}");
    }
    let document = facts(3, &["old"]);
    assert!(codes(&document, vec![peer("x", PeerState::Live, before)]).is_empty(), "a move to a document");
}

#[test]
fn a_kid_with_another_key_is_named_whatever_the_kind_of_ring() {
    for revision in [0, 7] {
        let own = facts(revision, &["a", "shared"]);
        let mut other = own.clone();
        other.ring.digest = Digest::ZERO.to_string();
        other.keys[0].thumbprint = "somebody-elses".to_owned();
        let found = codes(&own, vec![peer("x", PeerState::Live, other)]);
        assert!(found.contains(&"fleet.kid_reused"), "{found:?}");
    }
}

#[test]
fn of_two_that_join_together_the_later_yields() {
    let (own, other) = (facts(7, &["a"]), facts(7, &["b"]));
    let at = |instance: &str, joined_at| Peer {
        joined_at: UnixTime(joined_at),
        ..peer(instance, PeerState::Joining, other.clone())
    };
    assert_eq!(codes(&own, vec![at("x", 99)]), ["fleet.jwks_differs"]);
    assert!(codes(&own, vec![at("x", 101)]).is_empty());
    assert_eq!(codes(&own, vec![at("a", 100)]), ["fleet.jwks_differs"], "by name in the same second");
    assert!(codes(&own, vec![at("x", 100)]).is_empty());
    let dead = Peer { seen_at: UnixTime(900), ..at("x", 99) };
    assert!(codes(&own, vec![dead]).is_empty(), "one that died on its way in keeps nobody out");
}

#[test]
fn a_replacement_that_was_allowed_is_none_for_disjoint_sets_alone() {
    let own = facts(0, &["a"]);
    let fleet = |theirs| Fleet { now: UnixTime(1000), peers: vec![peer("x", PeerState::Live, theirs)] };
    let allowed = |fleet: &Fleet| {
        judge(Own { instance: ME, facts: &own, allow_key_replacement: true, stored: None }, fleet)
    };
    assert!(!allowed(&fleet(facts(0, &["b"]))).is_conflict());
    assert!(allowed(&fleet(facts(0, &["b", "a"]))).is_conflict());
}

#[test]
fn a_store_that_was_put_back_is_named_with_who_serves_more() {
    let own = facts(7, &["a"]);
    let peers = || vec![peer("x", PeerState::Live, facts(8, &["b"]))];
    assert!(!judge_with(&own, peers(), Some((1, 8))).is_conflict());
    let found = judge_with(&own, peers(), Some((1, 6)));
    let text = found.findings.to_string();
    assert!(
        text.contains("ring.rolled_back") && text.contains("holds revision 6") && text.contains("m, x"),
        "{text}"
    );
    // The cure knows those that stay silent; one that beats is not to be forgotten.
    assert!(!text.contains("forget --direct x") && !text.contains("forget x"), "{text}");
    let alone = judge_with(&own, Vec::new(), Some((1, 6))).findings.to_string();
    assert!(alone.contains("rows of m the fleet serves up to revision 7"), "{alone}");
}

#[test]
fn a_row_that_cannot_be_read_is_named_and_stops_nobody() {
    let own = facts(7, &["a"]);
    let row = Peer {
        facts: Facts::read(&json!({ "from": "another age" })),
        ..peer("x", PeerState::Live, own.clone())
    };
    let found = judge_with(&own, vec![row], None);
    assert!(found.findings.contains(&FLEET_UNREADABLE) && !found.is_conflict());
}

#[test]
fn facts_come_back_from_a_row_with_defaults_and_without_what_a_newer_version_tells() {
    let mut value = facts(7, &["a", "b"]).to_value();
    assert_eq!(Facts::read(&value), Ok(facts(7, &["a", "b"])));
    value["invented_later"] = json!(1);
    value.as_object_mut().unwrap().remove("kek_ids");
    assert!(Facts::read(&value).is_ok());
}

#[test]
fn what_no_replica_tells_is_refused_with_its_reason() {
    let of = |change: fn(&mut serde_json::Value)| {
        let mut value = facts(7, &["a"]).to_value();
        change(&mut value);
        Facts::read(&value).map_err(|error| error.to_string())
    };
    assert!(of(|value| value["ring"]["digest"] = json!("x")).unwrap_err().contains("64 hex"));
    assert!(of(|value| value["keys"][0]["kid"] = json!("line\nbreak")).unwrap_err().contains("printable"));
    let many = |value: &mut serde_json::Value| value["keys"] = json!(vec![value["keys"][0].clone(); 101]);
    assert!(of(many).unwrap_err().contains("101 keys"));
    assert!(Facts::read(&json!(null)).is_err());
    assert!(Facts::read(&json!([])).is_err());
}

fn with_key(kid: &str, served_for_s: Option<u64>, state: PeerState) -> Peer {
    let mut facts = facts(7, &["a", kid]);
    facts.keys[1].served_for_s = served_for_s;
    peer("x", state, facts)
}

#[test]
fn a_key_is_served_by_all_since_the_last_who_could_answer_without_it() {
    let fleet = |peers| Fleet { now: UnixTime(1000), peers };
    let since = |peers| fleet(peers).without("new");
    assert_eq!(since(vec![with_key("new", None, PeerState::Live)]), Without::Never);
    assert_eq!(since(vec![with_key("new", Some(10), PeerState::Live)]), Without::Until(UnixTime(990)));
    let slow = vec![with_key("new", Some(10), PeerState::Live), with_key("new", Some(2), PeerState::Silent)];
    assert_eq!(since(slow), Without::Until(UnixTime(998)));
    assert_eq!(since(vec![with_key("other", None, PeerState::Live)]), Without::Still);
    assert_eq!(since(vec![with_key("other", None, PeerState::Silent)]), Without::Still);
    assert_eq!(since(vec![with_key("other", None, PeerState::Joining)]), Without::Never);
    assert_eq!(
        since(vec![with_key("other", None, PeerState::Gone)]),
        Without::Until(UnixTime(1000)),
        "it answered up to its end"
    );
}

#[test]
fn unreadable_rows_block_what_needs_everybody() {
    let row = Peer { facts: Facts::read(&json!(1)), ..with_key("new", None, PeerState::Silent) };
    let fleet = Fleet { now: UnixTime(1000), peers: vec![row] };
    assert_eq!(fleet.without("new"), Without::Still);
    assert_eq!(fleet.publish_points().count(), 1);
}

#[test]
fn the_longest_max_age_of_a_publish_point_counts() {
    let long = |state| peer("x", state, Facts { max_age_s: 900, ..facts(7, &["a"]) });
    let fleet = |state| Fleet {
        now: UnixTime(0),
        peers: vec![peer("y", PeerState::Live, facts(7, &["a"])), long(state)],
    };
    assert_eq!(fleet(PeerState::Live).max_age_s(), 900);
    assert_eq!(fleet(PeerState::Joining).max_age_s(), 300);
}
