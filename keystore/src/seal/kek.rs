//! Key-encryption keys: 32 random bytes, in whatever form they were kept.
//!
//! One KEK seals, further ones only open: that is how a ring goes from one to the next while replicas serve. Which of
//! them a half wants is told by its id, so none is tried in vain.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::{SealError, SealedFor, judge, kek_of};
use crate::{Digest, json};

/// A key-encryption key of 256 bits. `Debug` shows its id. It is not `Clone`, and is wiped when dropped.
///
/// It is not comparable either; its id is:
/// ```compile_fail,E0369
/// # fn same(one: oneseal_keystore::seal::Kek, other: oneseal_keystore::seal::Kek) -> bool {
/// one == other
/// # }
/// ```
pub struct Kek {
    bytes: Zeroizing<[u8; LEN]>,
    id: String,
}

impl Kek {
    /// Takes 32 random bytes.
    ///
    /// # Errors
    /// [`KekError::Weak`] if they are plainly not random.
    pub fn from_bytes(bytes: [u8; LEN]) -> Result<Self, KekError> {
        let bytes = Zeroizing::new(bytes);
        if let Some(why) = weakness(&bytes) {
            return Err(KekError::Weak(why));
        }
        let digest = Digest::of_parts(&[ID_LABEL, &*bytes]);
        let id = digest.as_bytes()[..ID_LEN].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { bytes, id })
    }

    /// Reads 32 bytes as they are, or as text: base64 or base64url (padded or not), 64 hex digits, or a JWK of type
    /// `oct` (RFC 7518 section 6.4). White space around a text does not count.
    ///
    /// # Errors
    /// What the value is instead; never any part of it.
    pub fn read(value: &[u8]) -> Result<Self, KekError> {
        if value.is_empty() {
            return Err(KekError::Empty);
        }
        if value.len() == LEN {
            return Self::from_bytes(sized(value)?);
        }
        let text = std::str::from_utf8(value).map_err(|_| KekError::Length { bytes: value.len() })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_ascii();
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        if text.is_empty() {
            return Err(KekError::Empty);
        }
        if text.starts_with('{') {
            return Self::from_bytes(sized(&of_jwk(text)?)?);
        }
        if text.starts_with("-----BEGIN") {
            return Err(KekError::Pem);
        }
        Self::from_bytes(sized(&decode(text)?)?)
    }

    /// Makes one from the system's randomness.
    ///
    /// # Errors
    /// There is no randomness to be had.
    pub fn generate() -> Result<Self, KekError> {
        let mut bytes = Zeroizing::new([0; LEN]);
        aws_lc_rs::rand::fill(&mut *bytes).map_err(|_| KekError::NoRandomness)?;
        Self::from_bytes(*bytes)
    }

    /// Which KEK it is: the first 16 bytes of SHA-256 over a fixed label and the key, as 32 hex digits. No secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key as base64url without padding: the door through which a new one reaches the place where it will rest.
    pub fn expose_base64url(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(LEN.div_ceil(3) * 4));
        URL_SAFE_NO_PAD.encode_string(*self.bytes, &mut text);
        text
    }

    /// Seals `jwk`, the text of a private JWK, for one key of one ring.
    ///
    /// # Errors
    /// [`SealError::Failed`] if the primitive fails, [`SealError::NotBuilt`] without the feature `seal`.
    pub fn seal(&self, sealed_for: &SealedFor<'_>, jwk: &Zeroizing<String>) -> Result<String, SealError> {
        #[cfg(feature = "seal")]
        return super::jwe::encrypt(super::header_for(sealed_for, &self.id), jwk.as_bytes(), &self.bytes);
        #[cfg(not(feature = "seal"))]
        {
            let _ = (sealed_for, jwk);
            Err(SealError::NotBuilt)
        }
    }

    /// Opens what was sealed for exactly `expected` under this KEK, and returns the text of the private JWK.
    ///
    /// # Errors
    /// [`SealError`]: its form, its algorithms, whose it is, under which KEK, or that the cipher refuses it.
    pub fn open(&self, expected: &SealedFor<'_>, jwe: &str) -> Result<Zeroizing<String>, SealError> {
        judge(jwe, expected, &self.id)?;
        #[cfg(feature = "seal")]
        return text(super::jwe::decrypt(jwe, &self.bytes)?);
        #[cfg(not(feature = "seal"))]
        return Err(SealError::NotBuilt);
    }
}

impl fmt::Debug for Kek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kek({})", self.id)
    }
}

/// The KEKs of a process: the first seals, all of them open.
#[derive(Clone, Debug, Default)]
pub struct Keks(Arc<[Arc<Kek>]>);

impl Keks {
    /// The current one and those before it.
    pub fn new(current: Kek, previous: impl IntoIterator<Item = Kek>) -> Self {
        Self::from_all(std::iter::once(current).chain(previous))
    }

    /// As they come, the first one current; one that is there already is left out.
    pub(crate) fn from_all(keks: impl IntoIterator<Item = Kek>) -> Self {
        let mut all: Vec<Arc<Kek>> = Vec::new();
        for kek in keks {
            if !all.iter().any(|known| known.id == kek.id) {
                all.push(Arc::new(kek));
            }
        }
        Self(all.into())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one that seals.
    pub fn current(&self) -> Option<&Arc<Kek>> {
        self.0.first()
    }

    /// Their ids, the current one first: what this process can open.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|kek| kek.id())
    }

    /// The one of this id.
    pub fn named(&self, id: &str) -> Option<&Arc<Kek>> {
        self.0.iter().find(|kek| kek.id == id)
    }

    /// Opens with the KEK that the sealed half names; see [`Kek::open`].
    ///
    /// # Errors
    /// As there, and [`SealError::OtherKek`] or [`SealError::NoKek`] if that one is not here.
    pub fn open(&self, expected: &SealedFor<'_>, jwe: &str) -> Result<Zeroizing<String>, SealError> {
        let id = kek_of(jwe)?;
        match self.named(&id) {
            Some(kek) => kek.open(expected, jwe),
            // What it is sealed for is judged all the same: another's half is that whoever could open it.
            None => {
                judge(jwe, expected, &id)?;
                Err(if self.is_empty() {
                    SealError::NoKek { kek: id }
                } else {
                    SealError::OtherKek { kek: id }
                })
            }
        }
    }
}

/// Why a value is no KEK. Quotes no part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KekError {
    /// Nothing is there.
    #[error("it is empty")]
    Empty,
    /// Another length.
    #[error("it is {bytes} bytes long; a KEK is 32 random bytes, or base64, base64url, hex or a JWK of them")]
    Length {
        /// How many there are.
        bytes: usize,
    },
    /// Decoded, it is text that is encoded again.
    #[error("it is encoded twice; decode it once more")]
    Twice,
    /// A key of another kind.
    #[error("it is PEM; a KEK is 32 random bytes, not a key pair or a certificate")]
    Pem,
    /// A JWK, but not of 32 secret bytes.
    #[error("it is JSON, but no JWK of type oct with `k`")]
    Jwk,
    /// Plainly not random.
    #[error("it is not random: {0}")]
    Weak(&'static str),
    /// The system gave none.
    #[error("the system gives no randomness")]
    NoRandomness,
}

/// Bytes that nobody's random generator gives: each of these has a chance below 2^-45.
fn weakness(bytes: &[u8; LEN]) -> Option<&'static str> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Some("all its bytes are zero");
    }
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return Some("it is a text of 32 characters, such as a passphrase or the hex of 16 bytes");
    }
    let mut seen = [false; 256];
    bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    if seen.iter().filter(|seen| **seen).count() < MIN_DISTINCT {
        return Some("a few bytes repeat");
    }
    let step = bytes[1].wrapping_sub(bytes[0]);
    if bytes.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step) {
        return Some("its bytes count up");
    }
    None
}

fn sized(bytes: &[u8]) -> Result<[u8; LEN], KekError> {
    bytes.try_into().map_err(|_| match bytes.len() {
        len if len > LEN
            && std::str::from_utf8(bytes).is_ok_and(|text| decode(text.trim_ascii()).is_ok()) =>
        {
            KekError::Twice
        }
        bytes => KekError::Length { bytes },
    })
}

/// Hex if it is that, else base64 in either alphabet. Sixty-four hex digits are base64 as well, of 48 bytes.
fn decode(text: &str) -> Result<Zeroizing<Vec<u8>>, KekError> {
    if text.len() == LEN * 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(from_hex(text));
    }
    let mut letters = Zeroizing::new(String::with_capacity(text.len()));
    letters.extend(text.trim_end_matches('=').chars().map(|letter| match letter {
        '+' => '-',
        '/' => '_',
        other => other,
    }));
    let octets = URL_SAFE_NO_PAD.decode(letters.as_bytes()).map(Zeroizing::new);
    octets.map_err(|_| KekError::Length { bytes: text.len() })
}

fn from_hex(digits: &str) -> Zeroizing<Vec<u8>> {
    let nibble =
        |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or(0);
    let octets = digits.as_bytes().chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]));
    let mut out = Zeroizing::new(Vec::with_capacity(LEN));
    out.extend(octets);
    out
}

fn of_jwk(text: &str) -> Result<Zeroizing<Vec<u8>>, KekError> {
    let members = json::members(text).map_err(|_| KekError::Jwk)?;
    let member = |name: &str| {
        let raw = members.iter().find(|(known, _)| known == name).map(|(_, raw)| raw.get())?;
        serde_json::from_str::<String>(raw).ok().map(Zeroizing::new)
    };
    match (member("kty"), member("k")) {
        (Some(kty), Some(k)) if kty.as_str() == "oct" => {
            URL_SAFE_NO_PAD.decode(k.as_bytes()).map(Zeroizing::new).map_err(|_| KekError::Jwk)
        }
        _ => Err(KekError::Jwk),
    }
}

/// The plaintext as text, in the buffer in which it came.
#[cfg(feature = "seal")]
fn text(mut plaintext: Zeroizing<Vec<u8>>) -> Result<Zeroizing<String>, SealError> {
    match String::from_utf8(std::mem::take(&mut *plaintext)) {
        Ok(text) => Ok(Zeroizing::new(text)),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            Err(SealError::Malformed("what it holds is no text"))
        }
    }
}

/// Bytes of a KEK.
const LEN: usize = 32;
/// Bytes of its id.
pub(super) const ID_LEN: usize = 16;
/// What is hashed before the key, so that its id is the digest of nothing else.
const ID_LABEL: &[u8] = b"oneseal-kek-id";
/// Of 32 random bytes some 30 differ.
const MIN_DISTINCT: usize = 16;
