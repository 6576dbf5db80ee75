//! Whether a replica may go from the snapshot it serves to another: a pure function of the two.

use crate::codes::{FLEET_KEY_REPLACED, FLEET_KID_REUSED, RING_ROLLED_BACK};
use crate::findings::Code;
use crate::findings::Finding;
use crate::ring::{KeyState, Origin};
use crate::{KeyId, Snapshot};

/// What to do with a new snapshot.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is the one that is served.
    Unchanged,
    /// Serve it.
    Serve,
    /// Serve it, but let these keys, which relying parties already have, sign on until the caches know the new ones.
    ServeSigningOn(Vec<KeyId>),
    /// Stay with the old one.
    Refuse(Finding),
}

/// Judges `new` against what is `served`.
pub(crate) fn accept(served: &Snapshot, new: &Snapshot, allow_key_replacement: bool) -> Verdict {
    if same(served, new) {
        return Verdict::Unchanged;
    }
    if let Some(why) = goes_back(served, new) {
        return refuse(&RING_ROLLED_BACK, why);
    }
    if let Some(kid) = reused_kid(served, new) {
        return refuse(&FLEET_KID_REUSED, format!("{kid} is another key now"));
    }
    let disjoint = !new.keys().iter().any(|key| served.verifier(key.kid.as_str()).is_some());
    if disjoint && !allow_key_replacement && !same_ring_key(served, new) {
        return refuse(&FLEET_KEY_REPLACED, replaced(served, new));
    }
    match signing_on(served, new) {
        kids if kids.is_empty() => Verdict::Serve,
        kids => Verdict::ServeSigningOn(kids),
    }
}

fn same(served: &Snapshot, new: &Snapshot) -> bool {
    served.identity() == new.identity() && served.origin() == new.origin()
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
    (now.revision == old.revision).then(|| {
        format!("revision {} has another content (digest {} after {})", now.revision, now.digest, old.digest)
    })
}

fn reused_kid<'a>(served: &Snapshot, new: &'a Snapshot) -> Option<&'a KeyId> {
    let other = |kid: &KeyId| served.keys().iter().find(|key| key.kid == *kid).map(|key| &key.public);
    new.keys()
        .iter()
        .find(|key| other(&key.kid).is_some_and(|public| *public != key.public))
        .map(|key| &key.kid)
}

/// A whole set may change where the ring key itself vouches for it: after an emergency every key is new.
fn same_ring_key(served: &Snapshot, new: &Snapshot) -> bool {
    match (served.origin(), new.origin()) {
        (Origin::Document { ring_key: old, .. }, Origin::Document { ring_key: new, .. }) => old == new,
        _ => false,
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
