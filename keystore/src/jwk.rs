//! The public half of a key: parameters, thumbprint, JWK (RFC 7517), SPKI.
//!
//! A [`PublicKey`] exists only once its parameters are judged (sizes, exponent, point on the curve), and it has no
//! room for a private member: whatever is published is made from this type alone. Reading is strict, since two
//! spellings of one key would have two thumbprints: base64url is canonical and unpadded, integers are minimal,
//! coordinates have their full length.

mod error;
mod read;

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::signature::ParsedPublicKey;
use aws_lc_rs::{digest, rsa};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

pub use error::JwkError;
pub use read::PublicJwk;

use crate::verify::verification;
use crate::{Algorithm, KeyType};

/// The name a key has in headers and JWKS: by default its RFC 7638 thumbprint, or an adopted one of 1–128
/// printable ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// The longest, in characters.
    pub const MAX_LEN: usize = 128;

    /// Takes a name that a key already has in the world.
    ///
    /// # Errors
    /// [`JwkError::KeyId`] unless it is 1–128 printable ASCII characters (space included).
    pub fn parse(text: &str) -> Result<Self, JwkError> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if text.is_empty() || text.len() > Self::MAX_LEN || !printable {
            return Err(JwkError::KeyId);
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A public key's parameters, judged. Equal when the parameters are. `Debug` shows kind and thumbprint.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    parameters: Parameters,
    spki: Arc<[u8]>,
    thumbprint: KeyId,
}

impl PublicKey {
    /// Reads the parameters of a JWK object (RFC 7518 section 6, RFC 8037 section 2) as a key of ours: an RSA
    /// exponent is at least 65537. Other members (`use`, `alg`, `kid`, unknown ones) are not looked at.
    ///
    /// # Errors
    /// A [`JwkError`]; [`JwkError::PrivateMember`] when the object holds private material.
    pub fn from_jwk(jwk: &Map<String, Value>) -> Result<Self, JwkError> {
        read::public_key(jwk, Exponents::Ours)
    }

    /// As [`from_jwk`](Self::from_jwk) for a key that somebody else signs with: an RSA exponent is an odd number
    /// from 3.
    ///
    /// # Errors
    /// As there.
    pub fn from_foreign_jwk(jwk: &Map<String, Value>) -> Result<Self, JwkError> {
        read::public_key(jwk, Exponents::Foreign)
    }

    /// Its kind.
    pub fn key_type(&self) -> KeyType {
        match &self.parameters {
            Parameters::Rsa { .. } => KeyType::Rsa,
            Parameters::Ec { curve: Curve::P256, .. } => KeyType::P256,
            Parameters::Ec { curve: Curve::P384, .. } => KeyType::P384,
            Parameters::Ed25519 { .. } => KeyType::Ed25519,
        }
    }

    /// RFC 7638 SHA-256 thumbprint, base64url: the default kid.
    pub fn thumbprint(&self) -> KeyId {
        self.thumbprint.clone()
    }

    /// Bits of the RSA modulus; `None` for the other kinds.
    pub fn rsa_bits(&self) -> Option<usize> {
        match &self.parameters {
            Parameters::Rsa { n, .. } => Some(bit_len(n)),
            Parameters::Ec { .. } | Parameters::Ed25519 { .. } => None,
        }
    }

    /// Appends the published JWK as JSON text without white space. The member order is that of JWKS writer 1 and
    /// never changes: `kty, use, alg, kid`, then `n, e` or `crv, x, y` or `crv, x`.
    pub fn write_jwk(&self, out: &mut String, alg: Algorithm, kid: &KeyId) {
        out.push_str(r#"{"kty":""#);
        out.push_str(self.parameters.kty());
        out.push_str(r#"","use":"sig","alg":""#);
        out.push_str(alg.as_str());
        out.push_str(r#"","kid":"#);
        write_json_ascii(out, kid.as_str());
        for (name, value) in self.parameters.members() {
            write_member(out, name, &value);
        }
        out.push('}');
    }

    /// The members of the ring document's `public`: `kty` and the key's own parameters.
    pub fn to_jwk_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("kty".to_owned(), self.parameters.kty().into());
        for (name, value) in self.parameters.members() {
            map.insert(name.to_owned(), value.into());
        }
        map
    }

    /// SubjectPublicKeyInfo DER (RFC 5280 section 4.1).
    pub fn spki_der(&self) -> Vec<u8> {
        self.spki.to_vec()
    }

    /// An RSA key from its big-endian modulus and exponent, leading zero octets ignored.
    pub(crate) fn rsa(n: &[u8], e: &[u8], exponents: Exponents) -> Result<Self, JwkError> {
        let (n, e) = (minimal(n), minimal(e));
        let bits = bit_len(n);
        if !(RSA_MIN_BITS..=RSA_MAX_BITS).contains(&bits) {
            return Err(JwkError::RsaSize { bits });
        }
        if n.last().is_none_or(|low| low % 2 == 0) {
            return Err(JwkError::RsaEvenModulus);
        }
        exponents.check(e)?;
        let spki = rsa::PublicKeyComponents { n, e }.as_der().map_err(|_| JwkError::RsaEvenModulus)?;
        Ok(Self::judged(Parameters::Rsa { n: n.to_vec(), e: e.to_vec() }, spki.as_ref()))
    }

    /// An EC key from its coordinates, each of the curve's full length.
    pub(crate) fn ec(curve: Curve, x: &[u8], y: &[u8]) -> Result<Self, JwkError> {
        let parameters = Parameters::Ec { curve, x: x.to_vec(), y: y.to_vec() };
        let point = [&[UNCOMPRESSED], x, y].concat();
        let spki = spki_of(curve.key_type(), &point).ok_or(JwkError::NotOnCurve)?;
        Ok(Self::judged(parameters, &spki))
    }

    /// An Ed25519 key from its 32 octets (RFC 8032 section 5.1.5).
    pub(crate) fn ed25519(x: [u8; 32]) -> Result<Self, JwkError> {
        let spki = spki_of(KeyType::Ed25519, &x).ok_or(JwkError::NotOnCurve)?;
        Ok(Self::judged(Parameters::Ed25519 { x }, &spki))
    }

    /// The point of an EC key as SEC1 writes it, uncompressed; the 32 octets of an Ed25519 key; nothing for RSA.
    pub(crate) fn point(&self) -> Vec<u8> {
        match &self.parameters {
            Parameters::Rsa { .. } => Vec::new(),
            Parameters::Ec { x, y, .. } => [&[UNCOMPRESSED], x.as_slice(), y].concat(),
            Parameters::Ed25519 { x } => x.to_vec(),
        }
    }

    /// Modulus and exponent, minimal octets; `None` for the other kinds.
    pub(crate) fn rsa_components(&self) -> Option<(&[u8], &[u8])> {
        match &self.parameters {
            Parameters::Rsa { n, e } => Some((n, e)),
            Parameters::Ec { .. } | Parameters::Ed25519 { .. } => None,
        }
    }

    /// `kty` and the key's own members, in the order of JWKS writer 1.
    pub(crate) fn jwk_members(&self) -> Vec<(&'static str, String)> {
        let mut members = vec![("kty", self.parameters.kty().to_owned())];
        members.extend(self.parameters.members());
        members
    }

    fn judged(parameters: Parameters, spki: &[u8]) -> Self {
        let thumbprint = parameters.thumbprint();
        Self { parameters, spki: spki.into(), thumbprint }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({}, {})", self.key_type(), self.thumbprint)
    }
}

/// The curves of RFC 7518 section 6.2.1.1 that we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    P256,
    P384,
}

impl Curve {
    /// The name in a JWK's `crv`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
        }
    }

    /// Octets of a coordinate and of a private scalar.
    pub(crate) fn field_len(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }

    pub(crate) fn key_type(self) -> KeyType {
        match self {
            Self::P256 => KeyType::P256,
            Self::P384 => KeyType::P384,
        }
    }
}

/// Which RSA public exponents are taken. All are odd and below 2^32: larger ones only make verifiers slow, and
/// many refuse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exponents {
    /// Of keys we sign with: from 65537.
    Ours,
    /// Of others' keys: from 3, which is legal.
    Foreign,
}

impl Exponents {
    fn check(self, e: &[u8]) -> Result<(), JwkError> {
        let least: u32 = match self {
            Self::Ours => 65537,
            Self::Foreign => 3,
        };
        let refusal = JwkError::RsaExponent { least };
        if e.len() > size_of::<u32>() {
            return Err(refusal);
        }
        let value = e.iter().fold(0_u32, |value, octet| (value << 8) | u32::from(*octet));
        if value < least || value % 2 == 0 {
            return Err(refusal);
        }
        Ok(())
    }
}

#[derive(Clone, PartialEq, Eq)]
enum Parameters {
    /// Big-endian, without leading zero octets.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Full length.
    Ec {
        curve: Curve,
        x: Vec<u8>,
        y: Vec<u8>,
    },
    Ed25519 {
        x: [u8; 32],
    },
}

impl Parameters {
    fn kty(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "RSA",
            Self::Ec { .. } => "EC",
            Self::Ed25519 { .. } => "OKP",
        }
    }

    /// Name and base64url value of each member but `kty`, in the order of JWKS writer 1.
    fn members(&self) -> Vec<(&'static str, String)> {
        let encode = |octets: &[u8]| URL_SAFE_NO_PAD.encode(octets);
        match self {
            Self::Rsa { n, e } => vec![("n", encode(n)), ("e", encode(e))],
            Self::Ec { curve, x, y } => {
                vec![("crv", curve.as_str().to_owned()), ("x", encode(x)), ("y", encode(y))]
            }
            Self::Ed25519 { x } => vec![("crv", "Ed25519".to_owned()), ("x", encode(x))],
        }
    }

    /// RFC 7638 section 3: the required members in lexical order, without white space.
    fn thumbprint(&self) -> KeyId {
        let mut members = self.members();
        members.push(("kty", self.kty().to_owned()));
        members.sort_by_key(|(name, _)| *name);
        let mut text = String::new();
        for (name, value) in members {
            write_member(&mut text, name, &value);
        }
        let text = format!("{{{}}}", text.trim_start_matches(','));
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        KeyId(URL_SAFE_NO_PAD.encode(digest).into())
    }
}

/// Appends `,"name":"value"`, neither of which needs escaping.
fn write_member(out: &mut String, name: &str, value: &str) {
    for part in [",\"", name, "\":\"", value, "\""] {
        out.push_str(part);
    }
}

/// Appends printable ASCII as a JSON string, in the one spelling that RFC 8785 allows.
pub(crate) fn write_json_ascii(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

/// The SPKI of a point, if the primitive finds it on the curve.
fn spki_of(key_type: KeyType, point: &[u8]) -> Option<Vec<u8>> {
    let parsed = ParsedPublicKey::new(verification(key_type.default_algorithm()), point).ok()?;
    Some(parsed.as_der().ok()?.as_ref().to_vec())
}

/// Without leading zero octets.
pub(crate) fn minimal(octets: &[u8]) -> &[u8] {
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    &octets[zeros..]
}

/// Bits of a minimal big-endian integer.
pub(crate) fn bit_len(minimal: &[u8]) -> usize {
    minimal.first().map_or(0, |top| minimal.len() * 8 - top.leading_zeros() as usize)
}

/// SEC1 section 2.3.3: the octet before an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// NIST SP 800-131A, and the floor of every relying party's library.
pub(crate) const RSA_MIN_BITS: usize = 2048;

/// Above it a verification costs milliseconds, which a hostile JWKS could ask for.
pub(crate) const RSA_MAX_BITS: usize = 8192;
