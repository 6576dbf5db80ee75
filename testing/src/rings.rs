//! Sealed rings, and what someone would do to one who can write the place where it rests but has no KEK.
//!
//! [`Keeper`] is who has the KEK: it writes any next revision, signed and sealed as the fleet's own. [`hostile_edits`]
//! is everybody else: a table of documents that no replica may serve. A test of any backend puts each of them there and
//! looks for the code that the table names, at the start and while a replica serves.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_coordination::Clock;
use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::seal::{Purpose, SealedFor};
use oneseal_keystore::{Algorithm, InitRequest, IssuerUrl, Kek, KeyId, Signer, init};
use oneseal_providers::{Entries, InlineProvider, SecretProvider};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::MemoryProvider;

/// The 32 bytes of a KEK for tests, another for each number.
pub fn kek_bytes(number: u8) -> [u8; 32] {
    let mut bytes = [0_u8; 32];
    for (i, byte) in (0_u8..).zip(&mut bytes) {
        // Any bytes that do not look made up.
        *byte = i.wrapping_mul(i).wrapping_mul(37).wrapping_add(number.wrapping_mul(101)) ^ (i << 3) ^ 0x5a;
    }
    bytes
}

/// A provider of that KEK.
pub fn kek_provider(number: u8) -> Arc<dyn SecretProvider> {
    Arc::new(InlineProvider::new(kek_bytes(number).to_vec()))
}

/// Who has the KEK of one issuer's ring.
#[derive(Debug)]
pub struct Keeper {
    issuer: IssuerUrl,
    kek: Kek,
    kek_number: u8,
}

impl Keeper {
    /// The keeper of the ring of `issuer` under the KEK of this number.
    ///
    /// # Panics
    /// If the number gives no KEK.
    pub fn new(issuer: &IssuerUrl, kek_number: u8) -> Self {
        let kek = Kek::from_bytes(kek_bytes(kek_number)).expect("a KEK");
        Self { issuer: issuer.clone(), kek, kek_number }
    }

    /// The first revision: an ES256 and an EdDSA key, active and sealed.
    ///
    /// # Panics
    /// If none can be made.
    pub async fn first(&self, clock: &dyn Clock) -> Vec<u8> {
        let provider = MemoryProvider::new();
        let mut request = InitRequest::new(self.issuer.clone());
        request.algorithms = vec![Algorithm::Es256, Algorithm::EdDsa];
        request.keks = vec![kek_provider(self.kek_number)];
        init(&provider, request, clock).await.expect("a first ring");
        let record = provider.load().await.expect("it is there");
        let value = record.entries.iter().next().expect("one entry").1;
        value.expose().to_vec()
    }

    /// The revision after `document`, with `change` made to it, signed by the ring key that this KEK opens.
    ///
    /// # Panics
    /// If the document is none of this keeper's.
    pub fn next(&self, document: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut ring: Value = serde_json::from_slice(document).expect("a document");
        let revision = ring["revision"].as_u64().expect("a revision");
        let before = digest(&canonical(&ring));
        ring["revision"] = (revision + 1).into();
        ring["prev_digest"] = before.into();
        ring["change_id"] = Uuid::new_v4().to_string().into();
        change(&mut ring);
        sign(&mut ring, &self.ring_key(document))
    }

    /// `document` with another key in it that is pending.
    ///
    /// # Panics
    /// As [`next`](Self::next).
    pub fn with_pending(&self, document: &[u8], pem: &[u8]) -> Vec<u8> {
        let key = PrivateKey::parse(pem).expect("a key");
        self.next(document, |ring| {
            let written_at = ring["written_at"].clone();
            let sealed = self.sealed(&key, Algorithm::Es256);
            let keys = ring["keys"].as_array_mut().expect("keys");
            keys.push(entry(&key, "ES256", "pending", &written_at, json!({ "sealed": sealed })));
        })
    }

    /// `document` without its key at `position`, which becomes a tombstone.
    ///
    /// # Panics
    /// As [`next`](Self::next).
    pub fn retired(&self, document: &[u8], position: usize) -> Vec<u8> {
        self.next(document, |ring| {
            let at = ring["written_at"].clone();
            let key = ring["keys"].as_array_mut().expect("keys").remove(position);
            let stones = ring["tombstones"].as_array_mut().expect("tombstones");
            stones.push(json!({ "kid": key["kid"], "thumbprint": key["kid"], "state": "revoked", "at": at }));
        })
    }

    fn ring_key(&self, document: &[u8]) -> PrivateKey {
        let ring: Value = serde_json::from_slice(document).expect("a document");
        let kid = KeyId::parse(ring["ring_key"]["kid"].as_str().expect("a kid")).expect("a kid");
        let whose = SealedFor {
            purpose: Purpose::Ring,
            key_kid: &kid,
            key_alg: Algorithm::EdDsa,
            issuer: &self.issuer,
        };
        let sealed = ring["ring_key"]["sealed"].as_str().expect("sealed");
        PrivateKey::parse(self.kek.open(&whose, sealed).expect("it opens").as_bytes()).expect("a key")
    }

    fn sealed(&self, key: &PrivateKey, algorithm: Algorithm) -> String {
        let kid = key.public().thumbprint();
        let whose =
            SealedFor { purpose: Purpose::Signing, key_kid: &kid, key_alg: algorithm, issuer: &self.issuer };
        self.kek.seal(&whose, &key.expose_jwk()).expect("sealed")
    }
}

/// A document that no replica may serve.
#[derive(Clone, Debug)]
pub struct HostileEdit {
    /// What was done.
    pub name: &'static str,
    /// What rests there then.
    pub document: Vec<u8>,
    /// The code of the finding at the start and in `check`; `None` where a replica that has served nothing yet cannot
    /// tell by itself: an authentic revision that is old.
    pub at_start: Option<&'static str>,
    /// The code of the finding of a replica that serves [`Scene::current`].
    pub live: &'static str,
}

/// What the writer of the store has in hand.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The ring as it is served: at least revision 3, with a tombstone and three keys, the third pending.
    pub current: Vec<u8>,
    /// An earlier revision of it, from a backup.
    pub backup: Vec<u8>,
    /// The last revision of the incarnation before.
    pub older_incarnation: Vec<u8>,
    /// The sealed ring of another issuer under the same KEK.
    pub foreign: Vec<u8>,
}

impl Scene {
    /// The scene at `issuer` under the KEK of this number.
    ///
    /// # Panics
    /// If none can be made.
    pub async fn at(issuer: &IssuerUrl, kek_number: u8, clock: &dyn Clock) -> Self {
        let keeper = Keeper::new(issuer, kek_number);
        let first = keeper.first(clock).await;
        let backup = keeper.with_pending(&first, THIRD);
        let older_incarnation = keeper.retired(&backup, 0);
        let current = keeper.next(&older_incarnation, |ring| {
            ring["incarnation"] = json!({ "number": 2, "id": "00000000-0000-4000-8000-000000000002" });
        });
        let current = keeper.with_pending(&current, FOURTH);
        let elsewhere = IssuerUrl::parse("https://elsewhere.example", "test").expect("good");
        let foreign = Keeper::new(&elsewhere, kek_number).first(clock).await;
        Self { current, backup, older_incarnation, foreign }
    }
}

/// Everything that the writer of the store may try on a replica with the KEK, each as the document that rests there
/// then. None of it needs the KEK.
///
/// # Panics
/// If the scene is none.
pub fn hostile_edits(scene: &Scene) -> Vec<HostileEdit> {
    let ring: Value = serde_json::from_slice(&scene.current).expect("a document");
    let foreign: Value = serde_json::from_slice(&scene.foreign).expect("a document");
    let thief = PrivateKey::parse(THIEF).expect("a key");
    let edit = |name, change: &dyn Fn(&mut Value)| {
        let mut ring = ring.clone();
        change(&mut ring);
        HostileEdit {
            name,
            document: text(&ring),
            at_start: Some("ring.unauthentic"),
            live: "ring.unauthentic",
        }
    };
    let old = |name, document: &[u8]| HostileEdit {
        name,
        document: document.to_vec(),
        at_start: None,
        live: "ring.rolled_back",
    };
    // Signed by a ring key of the thief's own, as the whole document then must be.
    let stolen = |name, change: &dyn Fn(&mut Value)| {
        let mut ring = ring.clone();
        ring["ring_key"]["kid"] = thief.public().thumbprint().as_str().into();
        ring["ring_key"]["public"] = thief.public().to_jwk_map().into();
        change(&mut ring);
        let document = sign(&mut ring, &thief);
        HostileEdit { name, document, at_start: Some("ring.unauthentic"), live: "ring.unauthentic" }
    };
    let written_at = ring["written_at"].clone();
    let added = entry(&thief, "EdDSA", "pending", &written_at, json!({}));
    vec![
        edit("a public key is added", &|ring| ring["keys"].as_array_mut().expect("keys").push(added.clone())),
        edit("a state is changed", &|ring| ring["keys"][1]["state"] = "retiring".into()),
        edit("two sealed halves are swapped", &|ring| {
            let (one, two) = (ring["keys"][0]["sealed"].clone(), ring["keys"][1]["sealed"].clone());
            ring["keys"][0]["sealed"] = two;
            ring["keys"][1]["sealed"] = one;
        }),
        edit("a sealed half is another issuer's", &|ring| {
            ring["keys"][0]["sealed"] = foreign["keys"][0]["sealed"].clone();
        }),
        edit("a sealed half is cut", &|ring| {
            let sealed = ring["keys"][0]["sealed"].as_str().expect("sealed").to_owned();
            ring["keys"][0]["sealed"] = sealed[..sealed.len() - 8].into();
        }),
        stolen("the ring key is replaced", &|_| {}),
        stolen("the ring key is replaced by one with another issuer's sealed half", &|ring| {
            ring["ring_key"]["sealed"] = foreign["ring_key"]["sealed"].clone();
        }),
        stolen("the ring key is replaced by one that is sealed under a KEK of the thief's", &|ring| {
            ring["ring_key"]["sealed"] = forged(&thief, &ring["issuer"], &ring["ring_key"]["sealed"]).into();
        }),
        stolen("the ring key is replaced by one without a private half", &|ring| {
            ring["ring_key"].as_object_mut().expect("an object").remove("sealed");
        }),
        stolen("an unsealed ring key", &|ring| {
            let key = ring["ring_key"].as_object_mut().expect("an object");
            key.remove("sealed");
            let jwk: Value = serde_json::from_str(&thief.expose_jwk()).expect("JSON");
            key.insert("private".to_owned(), jwk);
        }),
        stolen("a signing key's sealed half as ring key", &|ring| {
            ring["ring_key"]["sealed"] = ring["keys"][0]["sealed"].clone();
        }),
        edit("an unsealed private half", &|ring| {
            let key = ring["keys"][0].as_object_mut().expect("an object");
            key.remove("sealed");
            let jwk: Value = serde_json::from_str(&thief.expose_jwk()).expect("JSON");
            key.insert("private".to_owned(), jwk);
        }),
        HostileEdit {
            name: "bare keys",
            document: THIRD.to_vec(),
            at_start: Some("ring.unauthentic"),
            live: "ring.unauthentic",
        },
        edit("a tombstone is removed", &|ring| {
            ring["tombstones"].as_array_mut().expect("tombstones").clear();
        }),
        edit("the revision is lowered", &|ring| ring["revision"] = 2.into()),
        edit("the revision is raised", &|ring| ring["revision"] = 1_000_000.into()),
        edit("the incarnation is raised", &|ring| ring["incarnation"]["number"] = 9.into()),
        old("an older incarnation is written back", &scene.older_incarnation),
        old("an old backup is restored", &scene.backup),
    ]
}

/// A leaked signing key that the thief has in hand: its sealed half, taken from `document`, stands in as the ring key's
/// and the leaked key itself signs the document.
///
/// # Panics
/// If the document has no Ed25519 key that `keeper` opens.
pub fn leaked_signing_key_as_ring_key(keeper: &Keeper, document: &[u8]) -> HostileEdit {
    let mut ring: Value = serde_json::from_slice(document).expect("a document");
    let keys = ring["keys"].as_array_mut().expect("keys");
    let at = keys.iter().position(|key| key["alg"] == "EdDSA").expect("an Ed25519 key");
    let key = keys.remove(at);
    let kid = KeyId::parse(key["kid"].as_str().expect("a kid")).expect("a kid");
    let whose = SealedFor {
        purpose: Purpose::Signing,
        key_kid: &kid,
        key_alg: Algorithm::EdDsa,
        issuer: &keeper.issuer,
    };
    let leaked = keeper.kek.open(&whose, key["sealed"].as_str().expect("sealed")).expect("it opens");
    let leaked = PrivateKey::parse(leaked.as_bytes()).expect("a key");
    ring["ring_key"] =
        json!({ "kid": key["kid"], "public": key["public"], "sealed": key["sealed"], "endorsements": [] });
    ring["revision"] = (ring["revision"].as_u64().expect("a revision") + 7).into();
    let document = sign(&mut ring, &leaked);
    HostileEdit {
        name: "a leaked signing key's sealed half as ring key",
        document,
        at_start: Some("ring.unauthentic"),
        live: "ring.unauthentic",
    }
}

/// What the thief seals: everything as it must be, and our KEK's id in the header, but not by our KEK.
fn forged(thief: &PrivateKey, issuer: &Value, ours: &Value) -> String {
    let issuer = IssuerUrl::parse(issuer.as_str().expect("text"), "test").expect("good");
    let kid = thief.public().thumbprint();
    let whose =
        SealedFor { purpose: Purpose::Ring, key_kid: &kid, key_alg: Algorithm::EdDsa, issuer: &issuer };
    let kek = Kek::from_bytes(kek_bytes(200)).expect("a KEK");
    let jwe = kek.seal(&whose, &thief.expose_jwk()).expect("sealed");
    let (header, rest) = jwe.split_once('.').expect("a JWE");
    let id = |jwe: &str| {
        let header = URL_SAFE_NO_PAD.decode(jwe.split('.').next().unwrap_or_default()).expect("base64url");
        let header: Value = serde_json::from_slice(&header).expect("JSON");
        header["kid"].as_str().expect("a kid").to_owned()
    };
    let header = String::from_utf8(URL_SAFE_NO_PAD.decode(header).expect("base64url")).expect("text");
    let header = header.replace(kek.id(), &id(ours.as_str().expect("a JWE")));
    format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header))
}

fn entry(key: &PrivateKey, alg: &str, state: &str, written_at: &Value, half: Value) -> Value {
    let mut entry = json!({
        "kid": key.public().thumbprint().as_str(),
        "alg": alg,
        "state": state,
        "public": key.public().to_jwk_map(),
        "created_at": written_at,
        "published_at": written_at,
        "activated_at": null,
        "retiring_at": null,
        "erase_private_after": null,
        "remove_after": null,
        "ttl_high_water_s": null,
    });
    let (Value::Object(entry_map), Value::Object(half)) = (&mut entry, half) else { unreachable!("objects") };
    entry_map.extend(half);
    entry
}

/// The canonical public document, as docs/ring-format.md has it.
fn canonical(ring: &Value) -> Vec<u8> {
    let mut public = ring.clone();
    let object = public.as_object_mut().expect("an object");
    object.remove("sig");
    strip(object["ring_key"].as_object_mut().expect("a ring key"));
    object["keys"].as_array_mut().expect("keys").iter_mut().filter_map(Value::as_object_mut).for_each(strip);
    serde_json_canonicalizer::to_vec(&public).expect("JSON")
}

fn strip(object: &mut Map<String, Value>) {
    object.remove("private");
    object.remove("sealed");
}

fn sign(ring: &mut Value, ring_key: &PrivateKey) -> Vec<u8> {
    let signer = Signer::new(ring_key, Algorithm::EdDsa, ring_key.public().thumbprint()).expect("it signs");
    ring["sig"] = signer.sign_detached("oneseal-ring+jws", &canonical(ring)).expect("it signs").into();
    text(ring)
}

fn text(ring: &Value) -> Vec<u8> {
    serde_json::to_vec(ring).expect("JSON")
}

fn digest(bytes: &[u8]) -> String {
    oneseal_keystore::Digest::of(bytes).to_string()
}

/// Entries with this document as the only one.
pub fn entries(document: &[u8]) -> Entries {
    Entries::single(Entries::CURRENT, document.to_vec())
}

const THIRD: &[u8] = include_bytes!("rings/third.pem");
const FOURTH: &[u8] = include_bytes!("rings/fourth.pem");
const THIEF: &[u8] = include_bytes!("rings/thief.pem");
