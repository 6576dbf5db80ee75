//! Reads the DER of a private key, and tells what other DER is.
//!
//! PKCS#8 (RFC 5208, RFC 5958), PKCS#1 (RFC 8017 appendix A.1.2), SEC1 (RFC 5915). Everything borrows from the
//! input: no component is copied before the judge copies it into memory that is wiped.

use rsa::pkcs1::RsaPrivateKeyRef;
use rsa::pkcs8::PrivateKeyInfoRef;
use rsa::pkcs8::der::asn1::{AnyRef, ObjectIdentifier, OctetStringRef};
use rsa::pkcs8::der::{Decode, Reader, SliceReader, Tag, Tagged};
use sec1::{EcParameters, EcPrivateKey};

use super::encrypted::{self, Opener};
use super::judge::{self, RsaParts};
use super::{KeyError, PrivateKey};
use crate::jwk::Curve;

/// Whether this is one DER structure of exactly this length, by its first length octets.
pub(super) fn is_whole(value: &[u8]) -> bool {
    value.first() == Some(&super::pem::SEQUENCE) && AnyRef::from_der(value).is_ok()
}

/// What a DER value is, as far as the kinds of its direct parts tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    Pkcs8,
    EncryptedPkcs8,
    Pkcs1,
    MultiPrimePkcs1,
    Sec1,
    Pkcs1Public,
    Spki,
    Certificate,
    Pkcs12,
    Unknown,
}

impl Structure {
    /// What a message calls it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pkcs8 => "PKCS#8",
            Self::EncryptedPkcs8 => "encrypted PKCS#8",
            Self::Pkcs1 | Self::MultiPrimePkcs1 => "PKCS#1",
            Self::Sec1 => "SEC1",
            Self::Pkcs1Public => "a PKCS#1 public key",
            Self::Spki => "a SubjectPublicKeyInfo",
            Self::Certificate => "a certificate or a request for one",
            Self::Pkcs12 => "PKCS#12",
            Self::Unknown => "of an unknown structure",
        }
    }
}

/// Looks at the parts of the outer sequence and not into them.
pub(super) fn structure(der: &[u8]) -> Structure {
    match tags(der).unwrap_or_default().as_slice() {
        [Tag::Integer, Tag::Sequence, Tag::OctetString, ..] => Structure::Pkcs8,
        [Tag::Integer, Tag::OctetString, ..] => Structure::Sec1,
        [Tag::Integer, Tag::Integer] => Structure::Pkcs1Public,
        tags @ [Tag::Integer, Tag::Integer, ..] if tags.len() == 10 => Structure::MultiPrimePkcs1,
        [Tag::Integer, Tag::Integer, ..] => Structure::Pkcs1,
        [Tag::Sequence, Tag::OctetString] => Structure::EncryptedPkcs8,
        [Tag::Sequence, Tag::BitString] => Structure::Spki,
        [Tag::Sequence, Tag::Sequence, Tag::BitString] => Structure::Certificate,
        [Tag::Integer, Tag::Sequence, ..] => Structure::Pkcs12,
        _ => Structure::Unknown,
    }
}

/// Reads a private key, in the structure that the value turns out to have; `opener` is for an encrypted one.
pub(super) fn read(der: &[u8], opener: Option<&Opener<'_>>) -> Result<PrivateKey, KeyError> {
    match structure(der) {
        Structure::Pkcs8 => pkcs8(der),
        Structure::EncryptedPkcs8 => {
            let opened = encrypted::open(der, opener)?;
            match structure(&opened) {
                Structure::Pkcs8 => pkcs8(&opened),
                _ => Err(KeyError::MalformedDer { form: "what the encrypted PKCS#8 structure holds" }),
            }
        }
        Structure::Pkcs1 => pkcs1(der),
        Structure::Sec1 => sec1(der, None),
        Structure::MultiPrimePkcs1 => Err(KeyError::RsaMultiPrime),
        Structure::Pkcs1Public | Structure::Spki => Err(KeyError::PublicOnly),
        Structure::Certificate => Err(KeyError::CertificateOnly),
        Structure::Pkcs12 => Err(KeyError::UnsupportedForm { form: "a PKCS#12 store" }),
        Structure::Unknown => Err(KeyError::MalformedDer { form: "the DER" }),
    }
}

/// What stands directly inside the outer sequence; `None` if it does not decode.
pub(super) fn children(der: &[u8]) -> Option<Vec<AnyRef<'_>>> {
    parts(AnyRef::from_der(der).ok()?)
}

/// What stands directly inside.
pub(super) fn parts(outer: AnyRef<'_>) -> Option<Vec<AnyRef<'_>>> {
    let mut reader = SliceReader::new(outer.value()).ok()?;
    let mut children = Vec::new();
    while !reader.is_finished() {
        children.push(AnyRef::decode(&mut reader).ok()?);
    }
    Some(children)
}

fn tags(der: &[u8]) -> Option<Vec<Tag>> {
    children(der).map(|children| children.iter().map(Tagged::tag).collect())
}

fn pkcs8(der: &[u8]) -> Result<PrivateKey, KeyError> {
    let form = "the PKCS#8 structure";
    let info = PrivateKeyInfoRef::from_der(der).map_err(|_| KeyError::MalformedDer { form })?;
    let private = info.private_key.as_bytes();
    match info.algorithm.oid {
        RSA => match tags(private).as_deref() {
            Some([Tag::Integer, Tag::Integer, .., Tag::Sequence]) => Err(KeyError::RsaMultiPrime),
            _ => pkcs1(private),
        },
        EC => {
            let named = info.algorithm.parameters.map(|any| any.decode_as::<ObjectIdentifier>());
            match named {
                Some(Ok(oid)) => sec1(private, Some(curve(oid)?)),
                Some(Err(_)) => Err(unknown_curve(EXPLICIT)),
                None => sec1(private, None),
            }
        }
        ED25519 => {
            let seed = <&OctetStringRef>::from_der(private).map_err(|_| KeyError::MalformedDer { form })?;
            let stated = info.public_key.as_ref().map(|bits| bits.as_bytes().unwrap_or_default());
            judge::ed25519(seed.as_bytes(), stated)
        }
        other => Err(KeyError::UnknownType { kind: kind_of(other) }),
    }
}

fn pkcs1(der: &[u8]) -> Result<PrivateKey, KeyError> {
    let malformed = |_| KeyError::MalformedDer { form: "the PKCS#1 structure" };
    let key = RsaPrivateKeyRef::from_der(der).map_err(malformed)?;
    if key.other_prime_infos.is_some() {
        return Err(KeyError::RsaMultiPrime);
    }
    judge::rsa(&RsaParts {
        n: key.modulus.as_bytes(),
        e: key.public_exponent.as_bytes(),
        d: key.private_exponent.as_bytes(),
        p: key.prime1.as_bytes(),
        q: key.prime2.as_bytes(),
        dp: key.exponent1.as_bytes(),
        dq: key.exponent2.as_bytes(),
        qi: key.coefficient.as_bytes(),
    })
}

/// `outer` is the curve that the PKCS#8 around it names.
fn sec1(der: &[u8], outer: Option<Curve>) -> Result<PrivateKey, KeyError> {
    let key = EcPrivateKey::from_der(der).map_err(|_| {
        if has_explicit_parameters(der) {
            return unknown_curve(EXPLICIT);
        }
        KeyError::MalformedDer { form: "the SEC1 structure" }
    })?;
    let inner = match key.parameters {
        Some(EcParameters::NamedCurve(oid)) => Some(curve(oid)?),
        None => None,
    };
    if let (Some(outer), Some(inner)) = (outer, inner)
        && outer != inner
    {
        return Err(KeyError::Mismatch);
    }
    let curve = outer.or(inner).ok_or_else(|| unknown_curve("none is named"))?;
    judge::ec(curve, key.private_key, key.public_key)
}

/// Whether `parameters [0]` spell a curve out (a sequence) instead of naming it.
fn has_explicit_parameters(der: &[u8]) -> bool {
    let spelled_out = |child: &AnyRef<'_>| {
        child.tag().number().value() == 0
            && child.tag().is_context_specific()
            && child.value().first() == Some(&super::pem::SEQUENCE)
    };
    children(der).is_some_and(|children| children.iter().any(spelled_out))
}

fn curve(oid: ObjectIdentifier) -> Result<Curve, KeyError> {
    match oid {
        P256 => Ok(Curve::P256),
        P384 => Ok(Curve::P384),
        P521 => Err(unknown_curve("P-521")),
        SECP256K1 => Err(unknown_curve("secp256k1")),
        other => Err(unknown_curve(&other.to_string())),
    }
}

fn unknown_curve(curve: &str) -> KeyError {
    KeyError::UnknownCurve { curve: curve.to_owned() }
}

/// The name of a kind we do not read, or its object identifier.
fn kind_of(oid: ObjectIdentifier) -> String {
    let text = oid.to_string();
    match text.as_str() {
        "1.2.840.113549.1.1.10" => "RSA restricted to PSS".to_owned(),
        "1.2.840.10040.4.1" => "DSA".to_owned(),
        "1.3.101.110" => "X25519".to_owned(),
        "1.3.101.111" => "X448".to_owned(),
        "1.3.101.113" => "Ed448".to_owned(),
        _ => text,
    }
}

/// RFC 5480 section 2.1.1 forbids it, and a curve of somebody's own making is an old attack.
const EXPLICIT: &str = "one of explicit parameters";

/// RFC 8017 appendix C, RFC 5480 section 2.1.1, RFC 8410 section 3.
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// RFC 5480 section 2.1.1.1.
pub(super) const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
pub(super) const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const SECP256K1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.10");
