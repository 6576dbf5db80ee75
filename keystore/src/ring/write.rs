//! The ring document, format 1: made and written.

use oneseal_coordination::UnixTime;
use serde_json::{Map, Value};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::KeyState;
use super::document::{FORMAT, JWKS_WRITER, SIG_TYP, canonical};
use super::log::{self, Entry};
use super::view::{DocumentView, IncarnationView, KeyView, RingKeyView};
use crate::material::{KeyError, PrivateKey};
use crate::seal::{Kek, Purpose, SealError, SealedFor};
use crate::signer::{SignError, Signer};
use crate::{Algorithm, IssuerUrl, KeyId, Rotation};

/// What a first revision is made of.
#[derive(Debug)]
pub(crate) struct FirstRing<'a> {
    pub(crate) issuer: &'a IssuerUrl,
    pub(crate) rotation: &'a Rotation,
    pub(crate) keys: &'a [(Algorithm, PrivateKey)],
    pub(crate) ring_key: &'a PrivateKey,
    /// What the private halves are sealed under; `None` writes them as they are.
    pub(crate) kek: Option<&'a Kek>,
    pub(crate) actor: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) now: UnixTime,
    pub(crate) change_id: Uuid,
    pub(crate) incarnation_id: Uuid,
}

/// The first revision of a ring: every key active at once, since nobody can have fetched anything before it.
///
/// # Errors
/// A key that cannot sign.
pub(crate) fn first(ring: &FirstRing<'_>) -> Result<Zeroizing<Vec<u8>>, WriteError> {
    let view = DocumentView {
        format: FORMAT,
        jwks_writer: JWKS_WRITER,
        issuer: ring.issuer.as_str().to_owned(),
        incarnation: IncarnationView { number: 1, id: ring.incarnation_id.to_string() },
        revision: 1,
        prev_digest: None,
        change_id: ring.change_id.to_string(),
        written_at: ring.now.as_secs(),
        writer: None,
        ring_key: RingKeyView {
            kid: ring.ring_key.public().thumbprint().as_str().to_owned(),
            public: ring.ring_key.public().to_jwk_map(),
            endorsements: Vec::new(),
        },
        keys: ring.keys.iter().map(|(algorithm, key)| active(*algorithm, key, ring)).collect(),
        tombstones: Vec::new(),
        rotation: ring.rotation.clone(),
        log: first_log(ring),
    };
    let public = serde_json::to_value(&view)?;
    let half = |purpose, algorithm: Algorithm, key: &PrivateKey| {
        HalfText::of(
            key,
            ring.kek,
            &SealedFor {
                purpose,
                key_kid: &key.public().thumbprint(),
                key_alg: algorithm,
                issuer: ring.issuer,
            },
        )
    };
    let privates = ring.keys.iter().map(|(algorithm, key)| half(Purpose::Signing, *algorithm, key).map(Some));
    let privates: Vec<_> = privates.collect::<Result<_, _>>()?;
    let ring_half = half(Purpose::Ring, Algorithm::EdDsa, ring.ring_key)?;
    sign_and_render(public, &privates, Some(&ring_half), ring.ring_key)
}

fn active(algorithm: Algorithm, key: &PrivateKey, ring: &FirstRing<'_>) -> KeyView {
    let now = ring.now.as_secs();
    KeyView {
        kid: key.public().thumbprint().as_str().to_owned(),
        alg: algorithm.as_str().to_owned(),
        state: KeyState::Active,
        public: key.public().to_jwk_map(),
        created_at: now,
        published_at: Some(now),
        activated_at: Some(now),
        retiring_at: None,
        erase_private_after: None,
        remove_after: None,
        ttl_high_water_s: Some(ring.rotation.max_token_ttl_s),
        activate_after: None,
        emergency_at: None,
        adopted_kid: false,
        reason: None,
    }
}

fn first_log(ring: &FirstRing<'_>) -> Vec<super::view::LogEntry> {
    let change_id = ring.change_id.to_string();
    let kids = ring.keys.iter().map(|(_, key)| key.public().thumbprint());
    let told = [("ring.created", None)].into_iter().chain(kids.map(|kid| ("key.activated", Some(kid))));
    let mut entries = Vec::new();
    for (kind, kid) in told {
        let entry = Entry {
            at: ring.now.as_secs(),
            kind,
            kid: kid.as_ref().map(KeyId::as_str),
            actor: ring.actor,
            reason: ring.reason,
            change_id: &change_id,
            request: None,
        };
        log::append(&mut entries, &entry);
    }
    entries
}

/// A private half as JSON text, ready to stand in a document.
#[derive(Clone)]
pub(crate) struct HalfText {
    name: &'static str,
    text: Zeroizing<String>,
}

impl HalfText {
    /// The half of `key`: sealed if there is a KEK, else as it is.
    ///
    /// # Errors
    /// It could not be sealed.
    pub(crate) fn of(
        key: &PrivateKey,
        kek: Option<&Kek>,
        sealed_for: &SealedFor<'_>,
    ) -> Result<Self, WriteError> {
        let jwk = key.expose_jwk();
        match kek {
            None => Ok(Self::plain(jwk)),
            Some(kek) => Ok(Self::sealed(&kek.seal(sealed_for, &jwk)?)),
        }
    }

    /// The text of a private JWK.
    pub(crate) fn plain(jwk: Zeroizing<String>) -> Self {
        Self { name: "private", text: jwk }
    }

    /// A JWE.
    pub(crate) fn sealed(jwe: &str) -> Self {
        Self { name: "sealed", text: Zeroizing::new(format!("\"{jwe}\"")) }
    }
}

impl std::fmt::Debug for HalfText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HalfText({}, ***)", self.name)
    }
}

/// Signs the public half and writes it with the private halves in place, by position in `keys`.
pub(crate) fn sign_and_render(
    mut public: Value,
    privates: &[Option<HalfText>],
    ring_half: Option<&HalfText>,
    ring_key: &PrivateKey,
) -> Result<Zeroizing<Vec<u8>>, WriteError> {
    // Whether an object keeps the order of its members is a feature of serde_json that any crate of a build turns on.
    public.sort_all_objects();
    let Value::Object(public) = &public else { return Err(WriteError::Shape) };
    let canonical = canonical(public);
    let kid = ring_key.public().thumbprint();
    let sig = Signer::new(ring_key, Algorithm::EdDsa, kid)?.sign_detached(SIG_TYP, &canonical)?;
    render(public, privates, ring_half, &sig)
}

/// The whole document as JSON text, in a buffer that never moves: a reallocation would leave a copy behind.
fn render(
    public: &Map<String, Value>,
    privates: &[Option<HalfText>],
    ring_half: Option<&HalfText>,
    sig: &str,
) -> Result<Zeroizing<Vec<u8>>, WriteError> {
    let halves = privates.iter().flatten().chain(ring_half);
    let secret = halves.map(|half| half.text.len()).sum::<usize>();
    let fixed = serde_json::to_vec(public)?.len() + sig.len();
    let mut out = Zeroizing::new(Vec::with_capacity(fixed + secret + 64 * (privates.len() + 2)));
    out.push(b'{');
    for (name, value) in public {
        write_name(&mut out, name)?;
        match (name.as_str(), value) {
            ("keys", Value::Array(keys)) => write_keys(&mut out, keys, privates)?,
            ("ring_key", Value::Object(key)) => write_with_half(&mut out, key, ring_half)?,
            _ => serde_json::to_writer(&mut *out, value)?,
        }
        out.push(b',');
    }
    write_name(&mut out, "sig")?;
    serde_json::to_writer(&mut *out, sig)?;
    out.extend_from_slice(b"}\n");
    Ok(out)
}

fn write_keys(out: &mut Vec<u8>, keys: &[Value], privates: &[Option<HalfText>]) -> Result<(), WriteError> {
    out.push(b'[');
    for (i, key) in keys.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let Value::Object(key) = key else { return Err(WriteError::Shape) };
        write_with_half(out, key, privates.get(i).and_then(Option::as_ref))?;
    }
    out.push(b']');
    Ok(())
}

fn write_with_half(
    out: &mut Vec<u8>,
    public: &Map<String, Value>,
    half: Option<&HalfText>,
) -> Result<(), WriteError> {
    let mut text = serde_json::to_vec(public)?;
    if let Some(half) = half {
        text.pop();
        out.extend_from_slice(&text);
        out.push(b',');
        write_name(out, half.name)?;
        out.extend_from_slice(half.text.as_bytes());
        out.push(b'}');
    } else {
        out.extend_from_slice(&text);
    }
    Ok(())
}

fn write_name(out: &mut Vec<u8>, name: &str) -> Result<(), WriteError> {
    serde_json::to_writer(&mut *out, name)?;
    out.push(b':');
    Ok(())
}

/// Why a document could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("a key cannot be used")]
    Key(#[from] KeyError),
    #[error("the ring key did not sign")]
    Sign(#[from] SignError),
    #[error("a private half was not sealed")]
    Seal(#[from] SealError),
    #[error("the document could not be written as JSON")]
    Json(#[from] serde_json::Error),
    #[error("a part of the document is no JSON object")]
    Shape,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::document;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/ring-1.json");

    fn key(pem: &[u8]) -> PrivateKey {
        PrivateKey::parse(pem).expect("a good test key")
    }

    fn first_ring() -> Zeroizing<Vec<u8>> {
        let issuer = IssuerUrl::parse("https://oidc.example", "test").expect("good");
        let keys = [
            (Algorithm::Rs256, key(include_bytes!("../../tests/vectors/ring/rsa.pem"))),
            (Algorithm::Es256, key(include_bytes!("../../tests/vectors/ring/p256.pem"))),
            (Algorithm::EdDsa, key(include_bytes!("../../tests/vectors/ring/ed25519.pem"))),
        ];
        let ring = FirstRing {
            issuer: &issuer,
            rotation: &Rotation::default(),
            keys: &keys,
            ring_key: &key(include_bytes!("../../tests/vectors/ring/ring-key.pem")),
            kek: None,
            actor: "test",
            reason: "golden",
            now: UnixTime(1_800_000_000),
            change_id: Uuid::from_u128(1),
            incarnation_id: Uuid::from_u128(2),
        };
        first(&ring).expect("it can be written")
    }

    #[test]
    fn the_first_ring_is_golden() {
        let bytes = first_ring();
        if std::env::var_os("TEST_BLESS").is_some() {
            std::fs::write(GOLDEN, &*bytes).expect("writable");
        }
        let golden = std::fs::read(GOLDEN).expect("the golden file");
        assert!(*bytes == golden, "the ring document's bytes changed: format 1 must not");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let issuer = IssuerUrl::parse("https://oidc.example", "test").expect("good");
        let bytes = first_ring();
        assert!(document::is_document("current", &bytes));
        let (ring, notes) =
            document::read("keyring.json", &bytes, &issuer, &Default::default()).expect("readable");
        assert!(notes.is_empty(), "{notes}");
        assert_eq!((ring.identity.incarnation, ring.identity.revision), (1, 1));
        assert!(ring.keys.iter().all(|key| key.state == KeyState::Active && key.private.is_some()));
    }

    #[test]
    fn the_buffer_never_moved() {
        let bytes = first_ring();
        assert!(
            bytes.capacity() < bytes.len() + 64 * 5 + 1,
            "it was reallocated: a copy of secrets was left"
        );
    }
}
