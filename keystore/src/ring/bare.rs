//! Bare keys: key files without a document, whose names tell their role.
//!
//! | first part of the name | state |
//! |---|---|
//! | `current`, also a `tls` key, `AWSCURRENT`, and the only value of a file, variable or inline provider | active |
//! | `next`, `AWSPENDING` | pending |
//! | `previous`, `AWSPREVIOUS` | retiring |
//!
//! An algorithm may follow (`current.ES256.pem`), then the form. Without it a key has the algorithm of its own JWK,
//! or its type's default. The same key under two names counts once, in its strongest role: AWS leaves labels behind.

use std::collections::BTreeSet;

use oneseal_providers::{Entries, SecretBytes};

use super::document::one;
use super::{KeyState, Origin, Reading, Ring, RingKey, check, instead};
use crate::codes::{PROVIDER_IGNORED, PROVIDER_NOT_FOUND, PROVIDER_ROTATES_IN_PLACE};
use crate::findings::chain;
use crate::material::{KeyError, Opener, PrivateKey, form_of, is_encoded, member};
use crate::{Algorithm, Digest, Findings, Identity};

/// Reads every entry whose name tells a role.
///
/// # Errors
/// Every fault of every such entry.
pub fn read(entries: &Entries, reading: &Reading<'_>) -> Result<(Ring, Findings), Findings> {
    let mut notes = rotates_in_place(entries);
    let mut faults = Findings::new();
    let mut keys = Vec::new();
    let opener = reading.passphrase.map(Opener::new);
    for (name, value) in entries.iter() {
        match parse_name(name) {
            Ok(role) => {
                let read = match instead::encoded(name, value.expose(), entries) {
                    Some(refused) => Err(refused),
                    None => {
                        read_key(name, value, role, entries.how_unencoded(), reading.member, opener.as_ref())
                    }
                };
                match read {
                    Ok(key) => keys.push(key),
                    Err(found) => faults.extend(found),
                }
            }
            Err(why) => notes.push(&PROVIDER_IGNORED, name, why),
        }
    }
    if keys.is_empty() && faults.is_empty() {
        let encoded =
            entries.iter().find_map(|(name, value)| instead::encoded(name, value.expose(), entries));
        faults.extend(encoded.unwrap_or_else(|| one(&PROVIDER_NOT_FOUND, "entries", no_key_among(entries))));
    }
    let mut ring = Ring {
        origin: Origin::Bare,
        identity: Identity { incarnation: 0, revision: 0, digest: Digest::ZERO },
        keys: strongest_roles(keys, &mut notes),
        tombstones: BTreeSet::new(),
        rotation: None,
        mode: super::Mode::Full,
        ring_half: None,
    };
    if faults.is_empty() {
        faults.extend(check(&ring));
    }
    if !faults.is_empty() {
        faults.extend(notes);
        return Err(faults);
    }
    ring.identity.digest = Digest::of(&crate::snapshot::write_jwks(&ring));
    Ok((ring, notes))
}

/// The entries that stand beside a ring document and are therefore not read.
pub(super) fn ignored_beside_document(entries: &Entries, document: &str) -> Findings {
    let mut notes = Findings::new();
    for (name, _) in entries.iter().filter(|(name, _)| *name != document) {
        notes.push(&PROVIDER_IGNORED, name, format!("{document} is a ring document, so it alone counts"));
    }
    notes
}

struct Role {
    state: KeyState,
    algorithm: Option<Algorithm>,
}

/// Reads an entry's name; the error says why it names no role.
fn parse_name(name: &str) -> Result<Role, String> {
    let mut parts = name.split('.');
    let state = match parts.next().unwrap_or_default() {
        "current" | "AWSCURRENT" => KeyState::Active,
        "next" | "AWSPENDING" => KeyState::Pending,
        "previous" | "AWSPREVIOUS" => KeyState::Retiring,
        "tls" if name == TLS_KEY => return Ok(Role { state: KeyState::Active, algorithm: None }),
        _ => return Err("its name is none of current, next, previous, tls.key".to_owned()),
    };
    let mut rest: Vec<_> = parts.collect();
    if rest.last().is_some_and(|form| ["pem", "der", "jwk"].contains(form)) {
        rest.pop();
    }
    let algorithm = match rest.as_slice() {
        [] => None,
        [name] => Some(name.parse::<Algorithm>().map_err(|error| error.to_string())?),
        _ => return Err("its name has more parts than role, algorithm and form".to_owned()),
    };
    Ok(Role { state, algorithm })
}

/// The layout of a kubernetes.io/tls Secret, which cert-manager fills and, unless told not to, renews in place: then
/// the key is another one from one moment to the next, and nobody has seen it before it signs.
fn rotates_in_place(entries: &Entries) -> Findings {
    let mut notes = Findings::new();
    if entries.get(TLS_KEY).is_some() && entries.get(TLS_CERTIFICATE).is_some() {
        notes.push(
            &PROVIDER_ROTATES_IN_PLACE,
            TLS_KEY,
            format!("{TLS_KEY} stands beside {TLS_CERTIFICATE}, as in a Secret that cert-manager keeps"),
        );
    }
    notes
}

fn read_key(
    name: &str,
    value: &SecretBytes,
    role: Role,
    how_unencoded: Option<&str>,
    wanted: Option<&str>,
    opener: Option<&Opener<'_>>,
) -> Result<RingKey, Findings> {
    let value = value.expose();
    let inner = wanted.map(|wanted| member(value, wanted)).transpose();
    let inner = inner.map_err(|error| refused(name, &error, value))?;
    let value = inner.as_ref().map_or(value, |inner| inner.as_slice());
    let refuse = |error: KeyError| match (error, how_unencoded) {
        (error @ KeyError::EncodedTwice, Some(how)) => encoded_twice(name, &error, how, value),
        (error, _) => refused(name, &error, value),
    };
    // Of a member it is said by whoever wrote the object, not by the store.
    if how_unencoded.is_some() && inner.is_none() && is_encoded(value) {
        return Err(refuse(KeyError::EncodedTwice));
    }
    let private = PrivateKey::parse_opened_by(value, opener).map_err(refuse)?;
    let key_type = private.key_type();
    let algorithm = role.algorithm.or(private.declared_algorithm()).unwrap_or(key_type.default_algorithm());
    if algorithm.key_type() != key_type {
        return Err(refuse(KeyError::AlgorithmUnfit { key_type, algorithm }));
    }
    let public = private.public().clone();
    Ok(RingKey {
        kid: public.thumbprint(),
        algorithm,
        state: role.state,
        public,
        private: Some(private),
        retiring_at: None,
        place: name.to_owned(),
        history: None,
        sealed_under: None,
        kept: None,
        half: None,
    })
}

/// Why the entry `name` is refused, and in which form it was seen.
fn refused(name: &str, error: &KeyError, value: &[u8]) -> Findings {
    one(error.code(), name, format!("{}; seen: {}", chain(error), form_of(value)))
}

/// The refusal of what its store had encoded once already.
fn encoded_twice(name: &str, error: &KeyError, how: &str, value: &[u8]) -> Findings {
    one(error.code(), name, format!("{error}: {how}; seen, decoded once: {}", form_of(value)))
}

/// One key a thumbprint: the strongest state wins, the rest become notes.
fn strongest_roles(mut keys: Vec<RingKey>, notes: &mut Findings) -> Vec<RingKey> {
    keys.sort_by_key(|key| key.state);
    let mut kept: Vec<RingKey> = Vec::new();
    for key in keys {
        match kept.iter().find(|other| other.kid == key.kid && other.state < key.state) {
            Some(stronger) => {
                let why = format!("the same key as {}, which counts", stronger.place);
                notes.push(&PROVIDER_IGNORED, &key.place, why);
            }
            None => kept.push(key),
        }
    }
    kept
}

fn no_key_among(entries: &Entries) -> String {
    let names: Vec<_> = entries.iter().map(|(name, _)| name).collect();
    if names.is_empty() {
        return "there are no entries".to_owned();
    }
    format!(
        "none of the entries is named current, next or previous, so none is taken for the signing key: {}; let the \
         provider name the one file itself, or call it current.pem",
        names.join(", ")
    )
}

const TLS_KEY: &str = "tls.key";
const TLS_CERTIFICATE: &str = "tls.crt";

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str) -> Option<(KeyState, Option<Algorithm>)> {
        parse_name(name).ok().map(|role| (role.state, role.algorithm))
    }

    #[test]
    fn names_tell_role_and_algorithm() {
        assert_eq!(state("current"), Some((KeyState::Active, None)));
        assert_eq!(state("tls.key"), Some((KeyState::Active, None)));
        assert_eq!(state("AWSPREVIOUS"), Some((KeyState::Retiring, None)));
        assert_eq!(state("next.ES256.pem"), Some((KeyState::Pending, Some(Algorithm::Es256))));
        assert_eq!(state("current.EdDSA"), Some((KeyState::Active, Some(Algorithm::EdDsa))));
        assert_eq!(state("current.jwk"), Some((KeyState::Active, None)));
    }

    #[test]
    fn other_names_are_none_of_ours() {
        for name in
            ["tls.crt", "tls.pem", "ca.crt", "old.pem", "current.HS256.pem", "current.ES256.x.pem", "Current"]
        {
            assert_eq!(state(name), None, "{name}");
        }
    }
}
