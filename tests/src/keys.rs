//! Keys for tests, and the next revision of a ring: what a rotation will write, made by hand from the outside.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use oneseal::{Algorithm, FileProvider, IssuerUrl, SystemClock};
use oneseal_coordination::Clock;
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::{Digest, InitRequest, KeyId, PublicKey, Signer, init};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// A key pair of a ring, with its private half. `Debug` shows algorithm and kid.
pub struct TestKey {
    /// What it signs with.
    pub algorithm: Algorithm,
    /// Its name in the key set.
    pub kid: KeyId,
    /// Its public half.
    pub public: PublicKey,
    /// Its private half.
    pub private: PrivateKey,
}

impl std::fmt::Debug for TestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestKey({}, {})", self.algorithm, self.kid)
    }
}

/// Fresh keys, made as `oneseal keys init` makes them, in a ring that nobody serves.
///
/// # Panics
/// If none can be made.
pub async fn fresh(algorithms: &[Algorithm]) -> Vec<TestKey> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("keyring.json");
    init_ring(&path, "http://127.0.0.1:1", algorithms).await;
    of_ring(&path)
}

/// Makes a ring at `path` for `issuer`, as `oneseal keys init` makes it.
///
/// # Panics
/// If it cannot be made.
pub async fn init_ring(path: &Path, issuer: &str, algorithms: &[Algorithm]) {
    let mut request = InitRequest::new(IssuerUrl::parse(issuer, "test").expect("a good issuer"));
    request.algorithms = algorithms.to_vec();
    let provider = FileProvider::new(path).assume_durable(true);
    init(&provider, request, &SystemClock).await.expect("a ring");
}

/// The keys of the ring document at `path`, in its order.
///
/// # Panics
/// If it is none, or a private half is missing.
pub fn of_ring(path: &Path) -> Vec<TestKey> {
    let ring = read(path);
    let keys = ring["keys"].as_array().expect("the ring has keys");
    keys.iter().map(of_document).collect()
}

fn of_document(key: &Value) -> TestKey {
    let private = PrivateKey::parse(key["private"].to_string().as_bytes()).expect("a good private half");
    TestKey {
        algorithm: key["alg"].as_str().and_then(|alg| alg.parse().ok()).expect("one of our algorithms"),
        kid: KeyId::parse(key["kid"].as_str().expect("a kid")).expect("a good kid"),
        public: private.public().clone(),
        private,
    }
}

/// Writes the next revision of the ring at `path` with `key` in it: published from now on, not signing.
///
/// # Panics
/// If the ring cannot be read or written.
pub fn publish(path: &Path, key: &TestKey) {
    let now = SystemClock.wall().as_secs();
    let private: Value = serde_json::from_str(&key.private.expose_jwk()).expect("JSON");
    let entry = json!({
        "kid": key.kid.as_str(), "alg": key.algorithm.as_str(), "state": "pending",
        "public": key.public.to_jwk_map(), "private": private, "created_at": now, "published_at": now,
        "activated_at": null, "retiring_at": null, "erase_private_after": null, "remove_after": null,
        "ttl_high_water_s": null,
    });
    revise(path, "key.published", &key.kid, |ring| keys_of(ring).push(entry));
}

/// Writes the next revision of the ring at `path`, in which `key` signs; the one of its algorithm that signed before
/// retires.
///
/// # Panics
/// If the ring cannot be read or written.
pub fn activate(path: &Path, key: &TestKey) {
    let now = SystemClock.wall().as_secs();
    revise(path, "key.activated", &key.kid, |ring| {
        for entry in keys_of(ring) {
            if entry["kid"] == key.kid.as_str() {
                entry["state"] = "active".into();
                entry["activated_at"] = now.into();
                entry["ttl_high_water_s"] = 86_400.into();
            } else if entry["alg"] == key.algorithm.as_str() && entry["state"] == "active" {
                entry["state"] = "retiring".into();
                entry["retiring_at"] = now.into();
            }
        }
    });
}

/// Writes the next revision of the ring at `path`, in which `key` is not published any more and never can be again.
///
/// # Panics
/// If the ring cannot be read or written.
pub fn remove(path: &Path, key: &TestKey) {
    let tombstone = json!({
        "kid": key.kid.as_str(), "thumbprint": key.public.thumbprint().as_str(), "state": "retired",
        "at": SystemClock.wall().as_secs(),
    });
    revise(path, "key.retired", &key.kid, |ring| {
        keys_of(ring).retain(|entry| entry["kid"] != key.kid.as_str());
        ring["tombstones"].as_array_mut().expect("tombstones").push(tombstone);
    });
}

fn keys_of(ring: &mut Map<String, Value>) -> &mut Vec<Value> {
    ring["keys"].as_array_mut().expect("keys")
}

/// Changes the ring, tells it in the log, counts the revision up, signs, and swaps the file.
fn revise(path: &Path, kind: &str, kid: &KeyId, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut ring = read(path);
    let before = canonical(&public_half(&ring));
    change(&mut ring);
    let change_id = Uuid::new_v4().to_string();
    let now = SystemClock.wall().as_secs();
    let log = ring["log"].as_array_mut().expect("a log");
    log.push(log_entry(log, &json!({
        "at": now, "kind": kind, "kid": kid.as_str(), "actor": "test", "reason": "test", "change_id": change_id,
    })));
    let revision = ring["revision"].as_u64().expect("a revision");
    ring.insert("revision".to_owned(), (revision + 1).into());
    ring.insert("prev_digest".to_owned(), Digest::of(&before).to_string().into());
    ring.insert("change_id".to_owned(), change_id.into());
    ring.insert("written_at".to_owned(), now.into());
    let sig = sign(&ring);
    ring.insert("sig".to_owned(), sig.into());
    swap(path, &serde_json::to_vec(&ring).expect("JSON"));
}

fn log_entry(log: &[Value], told: &Value) -> Value {
    let before = log.last().and_then(|entry| entry["hash"].as_str()).expect("a log is never empty");
    let before = Digest::from_hex(before).expect("a hash");
    let hash = Digest::of_parts(&[before.as_bytes(), &canonical(told)]);
    let mut entry = told.clone();
    entry["prev_hash"] = before.to_string().into();
    entry["hash"] = hash.to_string().into();
    entry
}

/// The detached signature of the ring's own key over the canonical public document (docs/ring-format.md).
fn sign(ring: &Map<String, Value>) -> String {
    let key =
        PrivateKey::parse(ring["ring_key"]["private"].to_string().as_bytes()).expect("the ring's own key");
    let signer = Signer::new(&key, Algorithm::EdDsa, key.public().thumbprint()).expect("it signs");
    signer.sign_detached("oneseal-ring+jws", &canonical(&public_half(ring))).expect("a signature")
}

fn public_half(ring: &Map<String, Value>) -> Value {
    let mut ring = ring.clone();
    ring.remove("sig");
    if let Some(key) = ring["ring_key"].as_object_mut() {
        key.remove("private");
    }
    for key in ring["keys"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        key.remove("private");
    }
    Value::Object(ring)
}

fn canonical(value: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("JSON has a canonical form")
}

fn read(path: &Path) -> Map<String, Value> {
    serde_json::from_slice(&std::fs::read(path).expect("the ring")).expect("a JSON object")
}

/// A reader sees the old ring or the new one.
fn swap(path: &Path, bytes: &[u8]) {
    let next = path.with_extension("next");
    let mut file = std::fs::File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&next)
        .expect("a file that can be written");
    file.write_all(bytes).expect("written");
    std::fs::rename(&next, path).expect("swapped");
}
