//! The ring document: golden bytes, and what any change to them leads to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rings;
mod vectors;

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oneseal_keystore::{Algorithm, Digest, Rotation, Snapshot, ring};
use oneseal_providers::Entries;
use rings::{GOLDEN, issuer, read, with_public_only};
use serde_json::{Value, json};

fn codes(text: &str) -> Vec<&'static str> {
    match read(text) {
        Ok((_, notes)) => notes.iter().map(|finding| finding.code.name).collect(),
        Err(faults) => faults.iter().map(|finding| finding.code.name).collect(),
    }
}

/// The golden ring with one member changed by JSON pointer, not signed again.
fn changed(pointer: &str, value: Value) -> String {
    let mut ring: Value = serde_json::from_str(GOLDEN).unwrap();
    *ring.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is there")) = value;
    ring.to_string()
}

fn golden(name: &str, now: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("TEST_BLESS").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    assert_eq!(
        String::from_utf8_lossy(now),
        String::from_utf8_lossy(&std::fs::read(&path).unwrap()),
        "{name}"
    );
}

#[test]
fn a_weak_or_published_public_half_refuses_the_ring_in_whatever_state() {
    let specimens = vectors::json("weak/weak-keys.json");
    let weak = |file: &str| {
        let row = vectors::list(&specimens, "/keys").iter().find(|row| vectors::text(row, "/file") == file);
        let jwk = &row.unwrap()["jwk"];
        json!({ "kty": "RSA", "n": jwk["n"], "e": jwk["e"] })
    };
    let rfc7517 = json!({
        "kty": "EC", "crv": "P-256",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
    });
    for (public, code) in [
        (weak("badkeys/rsa-roca.key"), "key.rsa_roca"),
        (weak("badkeys/rsa-fermat.crt"), "key.rsa_close_primes"),
        (weak("badkeys/rsa-smallfactors-valid.key"), "key.rsa_small_factor"),
        (weak("badkeys/rsa-pattern.key"), "key.rsa_pattern"),
        (weak("badkeys/rsa-nprime.key"), "key.rsa_prime_modulus"),
        (weak("badkeys/rsa-debianweak.key"), "key.leaked"),
        (rfc7517, "key.leaked"),
    ] {
        for state in ["retiring", "pending"] {
            let faults = read(&with_public_only(public.clone(), state)).unwrap_err();
            let found: Vec<_> =
                faults.iter().map(|finding| (finding.code.name, finding.place.as_str())).collect();
            assert_eq!(found, [(code, "ring: keys[1]")], "{state}");
        }
    }
    // Somebody else's sound key may stand there.
    assert!(read(&with_public_only(weak("badkeys/rsa-ok.key"), "retiring")).is_ok());
}

#[test]
fn the_jwks_and_the_digest_of_a_ring_are_golden() {
    let (ring, _) = read(GOLDEN).unwrap();
    let algorithms = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
    let (snapshot, notes) = Snapshot::build(ring, &algorithms, &Rotation::default()).unwrap();
    assert!(notes.is_empty());
    golden("jwks-writer-1.json", snapshot.jwks());
    let facts = format!(
        "digest {}\nsha256(jwks) {}\netag {}\n",
        snapshot.identity().digest,
        Digest::of(snapshot.jwks()),
        snapshot.etag()
    );
    golden("ring-1.facts", facts.as_bytes());
}

#[test]
fn times_that_somebody_set_and_that_do_not_hold_are_told() {
    let build = |rotation: &Rotation| {
        let (ring, _) = read(GOLDEN).unwrap();
        let (snapshot, notes) = Snapshot::build(ring, &Algorithm::ALL, rotation).unwrap();
        assert_eq!(snapshot.rotation().token_ttl_s, 3600, "the ring's own time holds");
        notes.iter().any(|finding| finding.code.name == "ring.other_times")
    };
    let mut wished = Rotation::default();
    assert!(!build(&wished));
    wished.token_ttl_s = 600;
    assert!(build(&wished));
}

#[test]
fn the_canonical_document_is_golden() {
    let mut ring: Value = serde_json::from_str(GOLDEN).unwrap();
    let object = ring.as_object_mut().unwrap();
    object.remove("sig");
    object["ring_key"].as_object_mut().unwrap().remove("private");
    for key in object["keys"].as_array_mut().unwrap() {
        key.as_object_mut().unwrap().remove("private");
    }
    let canonical = serde_json_canonicalizer::to_vec(&ring).unwrap();
    golden("ring-1.canonical.json", &canonical);
    assert_eq!(read(GOLDEN).unwrap().0.identity.digest, Digest::of(&canonical));
}

#[test]
fn white_space_and_member_order_change_nothing() {
    let ring: Value = serde_json::from_str(GOLDEN).unwrap();
    let pretty = serde_json::to_string_pretty(&ring).unwrap();
    assert_eq!(read(&pretty).unwrap().0.identity, read(GOLDEN).unwrap().0.identity);
}

#[test]
fn every_public_member_is_under_the_signature() {
    for (pointer, value) in [
        ("/revision", json!(2)),
        ("/written_at", json!(1)),
        ("/change_id", json!("00000000-0000-0000-0000-000000000009")),
        ("/incarnation/number", json!(2)),
        ("/incarnation/id", json!("00000000-0000-0000-0000-000000000009")),
        ("/writer", json!({"fleet": "f", "epoch": 1, "holder": "h"})),
        ("/rotation/token_ttl_s", json!(600)),
        ("/keys/0/state", json!("pending")),
        ("/keys/1/created_at", json!(1)),
        ("/keys/2/ttl_high_water_s", json!(1)),
        ("/log/1/reason", json!("another")),
        ("/log", json!([])),
    ] {
        assert!(codes(&changed(pointer, value)).contains(&"ring.unauthentic"), "{pointer}");
    }
    let mut added: Value = serde_json::from_str(GOLDEN).unwrap();
    added["later_member"] = json!(true);
    assert!(codes(&added.to_string()).contains(&"ring.unauthentic"), "members we do not know are signed too");
}

#[test]
fn a_signature_of_another_key_or_none_is_refused() {
    for sig in ["", "x", "..", "eyJhbGciOiJub25lIn0.."] {
        assert_eq!(codes(&changed("/sig", json!(sig))), ["ring.unauthentic"], "{sig}");
    }
    let mut without: Value = serde_json::from_str(GOLDEN).unwrap();
    without.as_object_mut().unwrap().remove("sig");
    assert_eq!(codes(&without.to_string()), ["ring.unauthentic"]);
}

#[test]
fn a_private_half_is_checked_against_its_public_one() {
    let ring: Value = serde_json::from_str(GOLDEN).unwrap();
    let foreign = ring["keys"][2]["private"].clone();
    assert!(codes(&changed("/ring_key/private", foreign.clone())).contains(&"ring.unauthentic"));
    assert!(codes(&changed("/keys/1/private", foreign)).contains(&"ring.malformed"));
    assert!(codes(&changed("/keys/0/private/d", json!("AQAB")))[0].starts_with("key."));
}

#[test]
fn another_issuer_format_or_writer_is_named() {
    assert!(codes(&changed("/issuer", json!("https://oidc.example/"))).contains(&"ring.issuer_mismatch"));
    assert_eq!(codes(&changed("/format", json!(2))), ["ring.format"]);
    assert_eq!(codes(&changed("/jwks_writer", json!(2))), ["ring.format"]);
}

#[test]
fn malformed_members_are_refused_each_with_its_place() {
    for (pointer, value) in [
        ("/revision", json!(0)),
        ("/revision", json!("1")),
        ("/revision", json!(1.5)),
        ("/written_at", json!(1.5)),
        ("/prev_digest", json!("abc")),
        ("/change_id", json!("x")),
        ("/incarnation", json!(null)),
        ("/writer", json!({"fleet": "f"})),
        ("/keys/0/state", json!("published")),
        ("/keys/0/alg", json!("HS256")),
        ("/keys/0/alg", json!("ES256")),
        ("/keys/0/kid", json!("")),
        ("/keys/0/kid", json!("not-the-thumbprint")),
        ("/keys/0/public/n", json!("AQAB")),
        ("/keys/1/public/x", json!("AAAA")),
        ("/keys/1/public/crv", json!("P-521")),
        ("/tombstones", json!([{"kid": "", "thumbprint": "x", "state": "retired", "at": 1}])),
        ("/ring_key/public", json!({})),
        ("/rotation/refresh_s", json!(-1)),
    ] {
        let found = codes(&changed(pointer, value.clone()));
        let refused = found.iter().any(|code| ["ring.malformed", "ring.unauthentic"].contains(code));
        assert!(refused, "{pointer} = {value}: {found:?}");
    }
}

#[test]
fn a_member_twice_is_refused_at_any_depth() {
    for (from, to) in [
        ("\"revision\":1,", "\"revision\":1,\"revision\":1,"),
        ("\"kty\":\"OKP\"", "\"kty\":\"OKP\",\"kty\":\"OKP\""),
        ("\"skew_s\":60", "\"skew_s\":60,\"skew_s\":60"),
    ] {
        assert!(GOLDEN.contains(from));
        let text = GOLDEN.replacen(from, to, 1);
        let found = codes(&text);
        assert!(found[0] == "ring.malformed" || found[0].starts_with("key."), "{from}: {found:?}");
    }
}

#[test]
fn a_sealed_half_that_is_none_is_refused() {
    let mut ring: Value = serde_json::from_str(GOLDEN).unwrap();
    ring["keys"][0].as_object_mut().unwrap().remove("private");
    ring["keys"][0]["sealed"] = json!("eyJ…");
    assert_eq!(codes(&ring.to_string()), ["ring.unauthentic"]);
}

#[test]
fn a_half_in_two_forms_and_numbers_that_would_be_rounded_are_refused() {
    let mut both: Value = serde_json::from_str(GOLDEN).unwrap();
    both["keys"][0]["sealed"] = json!("eyJ…");
    assert_eq!(codes(&both.to_string()), ["ring.malformed"]);
    for number in ["9007199254740992", "18446744073709551615"] {
        let text = GOLDEN.replacen("\"written_at\":", &format!("\"later\":[{number}],\"written_at\":"), 1);
        assert!(codes(&text).contains(&"ring.malformed"), "{number}");
    }
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert!(read(&format!("\u{feff}{GOLDEN}")).is_ok());
}

#[test]
fn a_truncated_document_is_a_broken_ring_or_no_key_but_never_a_ring() {
    for end in (0..GOLDEN.trim_end().len()).step_by(97) {
        assert_eq!(codes(&GOLDEN[..end]), ["ring.malformed"], "cut at {end}");
        let alone = ring::read(&Entries::single(Entries::CURRENT, &GOLDEN[..end]), &issuer()).unwrap_err();
        let code = alone.iter().next().unwrap().code.name;
        assert!(code == "ring.malformed" || code.starts_with("key."), "cut at {end}: {code}");
    }
}

/// Each value as it may come from a directory, a variable or a Secret, encoded once too often.
#[test]
fn a_document_in_base64_is_named_as_such_wherever_it_stands() {
    let mut text = GOLDEN.to_owned();
    for _ in 0..3 {
        text = STANDARD.encode(&text);
        for name in ["keyring.json", "current", "current.pem", "ring.b64"] {
            let found = |entries: &Entries| {
                let found = ring::read(entries, &issuer()).unwrap_err();
                let finding = found.iter().next().unwrap();
                assert_eq!(finding.code.name, "ring.encoded", "{name}: {found}");
                finding.message.clone()
            };
            let entries = Entries::single(name, text.as_str());
            let plain = found(&entries);
            assert!(
                plain.starts_with("the ring document is in base64") && !plain.contains("unencoded"),
                "{plain}"
            );
            let told = found(&entries.decoded_by_store("put it there unencoded"));
            assert!(told.ends_with("before the store encoded it: put it there unencoded"), "{told}");
        }
    }
    let mut beside = Entries::single("keyring.json", GOLDEN);
    beside.insert("backup", text.as_str());
    assert!(ring::read(&beside, &issuer()).is_ok(), "beside a ring it is an entry as any other");
}

#[test]
fn what_stands_in_place_of_the_document_is_told_and_a_key_is_told_its_own_name() {
    let key = include_str!("vectors/ring/p256.pem");
    let encoded = STANDARD.encode(key);
    for (value, seen, is_key) in [
        (key, "seen: PEM (PRIVATE KEY)", true),
        (&*encoded, "seen: base64 of PEM (PRIVATE KEY)", true),
        ("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", "seen: PEM (CERTIFICATE)", true),
        ("canary", "seen: text of 6 bytes", false),
        ("[1]", "seen: text of 3 bytes", false),
        ("", "seen: nothing", false),
    ] {
        let found = ring::read(&Entries::single("keyring.json", value), &issuer()).unwrap_err();
        let finding = found.iter().next().unwrap();
        assert_eq!((finding.code.name, found.iter().count()), ("ring.malformed", 1));
        let message = &finding.message;
        assert!(message.contains("an entry called keyring.json") && message.contains(seen), "{message}");
        assert_eq!(message.contains("current.pem"), is_key, "{message}");
        assert!(!message.contains("canary"), "{message}");
    }
}

/// One encoding too many is a mistake where the store has made one itself, and a form of the key elsewhere.
#[test]
fn a_key_in_base64_is_refused_where_the_store_encodes_and_read_elsewhere() {
    let pem = include_str!("vectors/ring/p256.pem");
    let (once, jwk) = (STANDARD.encode(pem), STANDARD.encode(private_jwk(pem)));
    for value in [once.as_str(), &jwk, &format!("\u{feff}{once}\n")] {
        let entries = || Entries::single("current.pem", value);
        assert!(ring::read(&entries(), &issuer()).is_ok());
        let found = ring::read(&entries().decoded_by_store("put it there unencoded"), &issuer()).unwrap_err();
        let finding = found.iter().next().unwrap();
        assert_eq!(finding.code.name, "key.encoded_twice");
        let message = &finding.message;
        assert!(message.contains("put it there unencoded") && message.contains("base64 of"), "{message}");
    }
    let twice = Entries::single("current.pem", STANDARD.encode(&once));
    let found = ring::read(&twice, &issuer()).unwrap_err();
    assert_eq!(found.iter().next().unwrap().code.name, "key.encoded_twice", "it is one everywhere");
    let found = ring::read(&twice.decoded_by_store("put it there unencoded"), &issuer()).unwrap_err();
    assert!(found.to_string().contains("put it there unencoded"), "{found}");
    let plain = Entries::single("current.pem", pem).decoded_by_store("");
    assert!(ring::read(&plain, &issuer()).is_ok());
    let reading = ring::Reading { member: Some("key"), ..ring::Reading::default() };
    let object = Entries::single("current", json!({ "key": once }).to_string()).decoded_by_store("");
    assert!(
        ring::read_with(&object, &issuer(), &reading).is_ok(),
        "what is inside of an object no store encodes"
    );
}

fn private_jwk(pem: &str) -> String {
    let key = oneseal_keystore::material::PrivateKey::parse(pem.as_bytes()).unwrap();
    key.expose_jwk().to_string()
}

#[test]
fn two_documents_are_refused_and_other_entries_beside_one_are_noted() {
    let mut entries = Entries::single("keyring.json", GOLDEN);
    entries.insert("tls.key", "whatever");
    let (_, notes) = ring::read(&entries, &issuer()).unwrap();
    assert_eq!(notes.iter().map(|finding| finding.code.name).collect::<Vec<_>>(), ["provider.ignored_entry"]);
    entries.insert("other.json", GOLDEN);
    assert!(ring::read(&entries, &issuer()).is_err());
}
