//! Whether a replica may go from the snapshot it serves to another: a pure function of the two.

use std::collections::BTreeMap;

use crate::codes::{FLEET_KEY_REPLACED, FLEET_KID_REUSED, RING_ROLLED_BACK, RING_UNAUTHENTIC};
use crate::findings::Code;
use crate::findings::Finding;
use crate::ring::{KeyState, Origin};
use crate::snapshot::PublishedKey;
use crate::{KeyId, PublicKey, Snapshot};

/// What to do with a new snapshot.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is the one that is served.
    Unchanged,
    /// Serve it.
    Serve,
    /// Serve it although it shares no key with what is served, since that was allowed.
    Replace,
    /// Serve it, but let these keys, which relying parties already have, sign on until the caches know the new ones.
    ServeSigningOn(Vec<KeyId>),
    /// Stay with the old one.
    Refuse(Finding),
}

/// Which key each kid has named since this replica started. A `kid` is never used again.
pub(crate) type SeenKids = BTreeMap<KeyId, PublicKey>;

/// Judges `new` against what is `served` and what has been.
pub(crate) fn accept(
    served: &Snapshot,
    seen: &SeenKids,
    new: &Snapshot,
    allow_key_replacement: bool,
) -> Verdict {
    if same(served, new) {
        return Verdict::Unchanged;
    }
    if let Some(why) = goes_back(served, new) {
        return refuse(&RING_ROLLED_BACK, why);
    }
    if let Some(kid) = reused_kid(seen, new) {
        return refuse(&FLEET_KID_REUSED, format!("{kid} is another key now"));
    }
    let ring_key = ring_key(served, new);
    if let RingKeyIs::Older = ring_key {
        return refuse(&RING_ROLLED_BACK, "it is signed by a ring key that has been replaced".to_owned());
    }
    let disjoint = !new.keys().iter().any(|key| served.verifier(key.kid.as_str()).is_some());
    if disjoint && !matches!(ring_key, RingKeyIs::Vouched) {
        if allow_key_replacement {
            return Verdict::Replace;
        }
        return refuse(&FLEET_KEY_REPLACED, replaced(served, new));
    }
    if let RingKeyIs::Another(now) = ring_key {
        if allow_key_replacement {
            return Verdict::Replace;
        }
        return refuse(
            &RING_UNAUTHENTIC,
            format!("the ring key is {now} now, and neither a KEK nor the one before vouches for it"),
        );
    }
    match signing_on(served, new) {
        kids if kids.is_empty() => Verdict::Serve,
        kids => Verdict::ServeSigningOn(kids),
    }
}

/// The digest covers all that is public, the ring key and the incarnation's id among it.
fn same(served: &Snapshot, new: &Snapshot) -> bool {
    let is_bare = |snapshot: &Snapshot| *snapshot.origin() == Origin::Bare;
    served.identity() == new.identity() && is_bare(served) == is_bare(new)
}

/// Documents only: down in incarnation or revision, or sideways to another content of the same number.
fn goes_back(served: &Snapshot, new: &Snapshot) -> Option<String> {
    let (old, now) = (served.identity(), new.identity());
    let Origin::Document { incarnation_id, .. } = served.origin() else { return None };
    let Origin::Document { incarnation_id: new_id, .. } = new.origin() else {
        return Some(format!("revision {} of a ring document was served, these are bare keys", old.revision));
    };
    if now.incarnation < old.incarnation {
        return Some(format!("incarnation {} after {}", now.incarnation, old.incarnation));
    }
    if now.incarnation > old.incarnation {
        return None;
    }
    if new_id != incarnation_id {
        return Some(format!("incarnation {} has another id than the one served", now.incarnation));
    }
    if now.revision < old.revision {
        return Some(format!("revision {} after {}", now.revision, old.revision));
    }
    let follows =
        matches!(new.origin(), Origin::Document { prev_digest, .. } if *prev_digest == Some(old.digest));
    if now.revision == old.revision + 1 && !follows {
        return Some(format!(
            "revision {} does not follow the one served (digest {})",
            now.revision, old.digest
        ));
    }
    (now.revision == old.revision).then(|| {
        format!("revision {} has another content (digest {} after {})", now.revision, now.digest, old.digest)
    })
}

fn reused_kid<'a>(seen: &SeenKids, new: &'a Snapshot) -> Option<&'a KeyId> {
    let is_other = |key: &&PublishedKey| seen.get(&key.kid).is_some_and(|public| *public != key.public);
    new.keys().iter().find(is_other).map(|key| &key.kid)
}

/// What the new ring key is to the one that is served under.
enum RingKeyIs<'a> {
    /// There are not two of them.
    Absent,
    /// The same, or one that the KEK or an unbroken chain of endorsements vouches for: a whole key set may change then,
    /// as it does in an emergency.
    Vouched,
    /// One that the served one, or one before it, has endorsed a successor of. An old backup, or a leaked one at work.
    Older,
    /// Nobody vouches for it.
    Another(&'a KeyId),
}

fn ring_key<'a>(served: &Snapshot, new: &'a Snapshot) -> RingKeyIs<'a> {
    let Origin::Document { ring_key: old, endorsed_by: replaced, .. } = served.origin() else {
        return RingKeyIs::Absent;
    };
    let Origin::Document { ring_key: now, endorsed_by, vouched_by_kek, .. } = new.origin() else {
        return RingKeyIs::Absent;
    };
    if replaced.contains(now) {
        RingKeyIs::Older
    } else if old == now || endorsed_by.contains(old) || *vouched_by_kek {
        RingKeyIs::Vouched
    } else {
        RingKeyIs::Another(now)
    }
}

/// Bare keys only: the served signers whose successor nobody has been able to fetch and which are still here.
fn signing_on(served: &Snapshot, new: &Snapshot) -> Vec<KeyId> {
    if *new.origin() != Origin::Bare {
        return Vec::new();
    }
    let unpublished = new
        .keys()
        .iter()
        .filter(|key| key.state == KeyState::Active && served.verifier(key.kid.as_str()).is_none());
    unpublished
        .filter_map(|key| served.signer(key.algorithm).map(|signer| signer.kid()))
        .filter(|old| new.keys().iter().any(|key| key.kid == **old && key.has_private))
        .cloned()
        .collect()
}

fn replaced(served: &Snapshot, new: &Snapshot) -> String {
    let kids = |snapshot: &Snapshot| {
        snapshot.keys().iter().map(|key| key.kid.as_str().to_owned()).collect::<Vec<_>>().join(", ")
    };
    format!("served: {}; offered: {}", kids(served), kids(new))
}

fn refuse(code: &'static Code, message: String) -> Verdict {
    Verdict::Refuse(Finding { code, place: "provider".to_owned(), message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::material::PrivateKey;
    use crate::ring::write::HalfText;
    use crate::ring::{self, write};
    use crate::{Algorithm, IssuerUrl, Rotation};
    use oneseal_providers::Entries;
    use serde_json::{Map, Value, json};

    const GOLDEN: &str = include_str!("../tests/golden/ring-1.json");
    const RING_KEY: &str = include_str!("../tests/vectors/ring/ring-key.pem");
    const OTHER_RING_KEY: &str = include_str!("../tests/vectors/ring/other-ring-key.pem");

    /// The golden ring after `change`, with only the keys at the positions `kept`, signed by `ring_key`.
    fn document(kept: &[usize], ring_key: &str, change: impl FnOnce(&mut Map<String, Value>)) -> Snapshot {
        let Ok(Value::Object(mut public)) = serde_json::from_str(GOLDEN) else { panic!("an object") };
        public.remove("sig");
        let all = public["keys"].as_array().expect("keys").clone();
        let text = |key: &Value| HalfText::plain(zeroize::Zeroizing::new(key["private"].to_string()));
        let privates: Vec<_> = kept.iter().map(|i| Some(text(&all[*i]))).collect();
        let keys = kept.iter().map(|i| without_private(&all[*i]));
        public["keys"] = keys.collect();
        let ring_key = PrivateKey::parse(ring_key.as_bytes()).expect("a good key");
        public["ring_key"] = json!({
            "kid": ring_key.public().thumbprint().as_str(),
            "public": ring_key.public().to_jwk_map(),
            "endorsements": [],
        });
        change(&mut public);
        let ring_half = HalfText::plain(ring_key.expose_jwk());
        let bytes = write::sign_and_render(Value::Object(public), &privates, Some(&ring_half), &ring_key);
        let bytes = bytes.expect("it can be written");
        snapshot(Entries::single("keyring.json", bytes.to_vec()))
    }

    fn without_private(key: &Value) -> Value {
        let mut key = key.clone();
        key.as_object_mut().expect("an object").remove("private");
        key
    }

    fn snapshot(entries: Entries) -> Snapshot {
        let issuer = IssuerUrl::parse("https://oidc.example", "test").expect("good");
        let (ring, _) = ring::read(&entries, &issuer).unwrap_or_else(|found| panic!("{found}"));
        Snapshot::build(ring, &Algorithm::ALL, &Rotation::default())
            .unwrap_or_else(|found| panic!("{found}"))
            .0
    }

    fn revision(number: u64) -> impl FnOnce(&mut Map<String, Value>) {
        after(number, &crate::Digest::ZERO)
    }

    /// Revision `number`, following one of digest `prev`.
    fn after(number: u64, prev: &crate::Digest) -> impl FnOnce(&mut Map<String, Value>) {
        let prev = prev.to_string();
        move |public| {
            public["revision"] = number.into();
            public["prev_digest"] = if number > 1 { prev.into() } else { Value::Null };
        }
    }

    fn verdict(served: &Snapshot, new: &Snapshot) -> &'static str {
        let seen = served.keys().iter().map(|key| (key.kid.clone(), key.public.clone())).collect();
        match accept(served, &seen, new, false) {
            Verdict::Unchanged => "unchanged",
            Verdict::Serve => "serve",
            Verdict::Replace => "replace",
            Verdict::ServeSigningOn(_) => "sign on",
            Verdict::Refuse(finding) => finding.code.name,
        }
    }

    #[test]
    fn a_replica_goes_up_in_revision_and_never_down_or_sideways() {
        let served = document(&[0, 1], RING_KEY, revision(5));
        assert_eq!(verdict(&served, &document(&[0, 1], RING_KEY, revision(5))), "unchanged");
        let next = after(6, &served.identity().digest);
        assert_eq!(verdict(&served, &document(&[0, 1], RING_KEY, next)), "serve");
        assert_eq!(
            verdict(&served, &document(&[0, 1], RING_KEY, revision(6))),
            "ring.rolled_back",
            "not its successor"
        );
        assert_eq!(
            verdict(&served, &document(&[0, 1], RING_KEY, revision(9))),
            "serve",
            "it may have missed some"
        );
        assert_eq!(verdict(&served, &document(&[0, 1], RING_KEY, revision(4))), "ring.rolled_back");
        assert_eq!(verdict(&served, &document(&[0, 2], RING_KEY, revision(5))), "ring.rolled_back");
    }

    #[test]
    fn an_incarnation_outranks_revisions_and_its_number_has_one_id() {
        let served = document(&[0], RING_KEY, revision(5));
        let restored = document(&[0], RING_KEY, |public| {
            public["incarnation"] = json!({ "number": 2, "id": "00000000-0000-0000-0000-00000000000a" });
        });
        assert_eq!(verdict(&served, &restored), "serve");
        assert_eq!(verdict(&restored, &served), "ring.rolled_back");
        let impostor = document(&[0], RING_KEY, |public| {
            revision(6)(public);
            public["incarnation"] = json!({ "number": 1, "id": "00000000-0000-0000-0000-00000000000a" });
        });
        assert_eq!(verdict(&served, &impostor), "ring.rolled_back");
    }

    #[test]
    fn a_wholly_new_set_passes_only_under_the_same_ring_key() {
        let served = document(&[0], RING_KEY, revision(5));
        let next = || after(6, &served.identity().digest);
        assert_eq!(verdict(&served, &document(&[1, 2], RING_KEY, next())), "serve");
        assert_eq!(verdict(&served, &document(&[1, 2], OTHER_RING_KEY, next())), "fleet.key_replaced");
    }

    #[test]
    fn a_kid_never_names_two_keys() {
        let adopt = |public: &mut Map<String, Value>| {
            public["keys"][0]["kid"] = "in-the-world".into();
            public["keys"][0]["adopted_kid"] = true.into();
        };
        let served = document(&[0, 1], RING_KEY, adopt);
        let reused = document(&[2, 1], RING_KEY, |public| {
            after(2, &served.identity().digest)(public);
            adopt(public);
        });
        assert_eq!(verdict(&served, &reused), "fleet.kid_reused");
    }
}
