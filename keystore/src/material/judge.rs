//! Decides whether components are a key: the one place where a [`PrivateKey`] is made.
//!
//! Sizes and exponents are compared here; that the components belong together is asked of the primitive that will
//! sign with them, so that there is no second opinion to disagree with it. The public half is always derived from
//! the private one, and one that is written beside it must be the same.

use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use sec1::der::Encode;
use sec1::{EcParameters, EcPrivateKey};
use zeroize::Zeroizing;

use super::pair::{KeyPair, signing};
use super::{KeyError, PrivateKey, RsaSecret, Secret, der};
use crate::jwk::{Curve, Exponents, PublicKey, minimal};

/// The components of an RSA key as they were read (RFC 8017 section 3.2), big-endian.
pub(super) struct RsaParts<'a> {
    pub(super) n: &'a [u8],
    pub(super) e: &'a [u8],
    pub(super) d: &'a [u8],
    pub(super) p: &'a [u8],
    pub(super) q: &'a [u8],
    pub(super) dp: &'a [u8],
    pub(super) dq: &'a [u8],
    pub(super) qi: &'a [u8],
}

/// Sizes first, so that no work is done on what is refused anyway.
pub(super) fn rsa(parts: &RsaParts<'_>) -> Result<PrivateKey, KeyError> {
    let public = PublicKey::rsa(parts.n, parts.e, Exponents::Ours)?;
    if minimal(parts.p) == minimal(parts.q) {
        return Err(KeyError::RsaEqualPrimes);
    }
    let modulus_len = minimal(parts.n).len();
    let secret = |octets: &[u8]| match minimal(octets) {
        octets if octets.is_empty() || octets.len() > modulus_len => Err(KeyError::RsaInconsistent),
        octets => Ok(Zeroizing::new(octets.to_vec())),
    };
    judged(
        public,
        Secret::Rsa(Box::new(RsaSecret {
            d: secret(parts.d)?,
            p: secret(parts.p)?,
            q: secret(parts.q)?,
            dp: secret(parts.dp)?,
            dq: secret(parts.dq)?,
            qi: secret(parts.qi)?,
        })),
    )
}

/// `scalar` may be shorter than the field, as some writers leave leading zeros out; `stated` is a point as SEC1
/// writes it.
pub(super) fn ec(curve: Curve, scalar: &[u8], stated: Option<&[u8]>) -> Result<PrivateKey, KeyError> {
    let len = curve.field_len();
    let digits = minimal(scalar);
    if digits.len() > len {
        return Err(KeyError::ScalarOutOfRange);
    }
    let mut scalar = Zeroizing::new(vec![0; len]);
    scalar[len - digits.len()..].copy_from_slice(digits);
    let point = derive_point(curve, &scalar)?;
    let (x, y) = point[1..].split_at(len);
    if let Some(stated) = stated {
        same_point(stated, x, y)?;
    }
    judged(PublicKey::ec(curve, x, y)?, Secret::Ec(scalar))
}

/// `stated` is the public key written beside the seed.
pub(super) fn ed25519(seed: &[u8], stated: Option<&[u8]>) -> Result<PrivateKey, KeyError> {
    let malformed = KeyError::MalformedDer { form: "the Ed25519 seed" };
    let seed = Zeroizing::new(<[u8; 32]>::try_from(seed).map_err(|_| malformed.clone())?);
    let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).map_err(|_| malformed.clone())?;
    let derived = pair.public_key().as_ref();
    if stated.is_some_and(|stated| stated != derived) {
        return Err(KeyError::Mismatch);
    }
    let public = PublicKey::ed25519(derived.try_into().map_err(|_| malformed)?)?;
    judged(public, Secret::Ed25519(seed))
}

/// Builds the primitive's pair once, which compares everything with everything.
fn judged(public: PublicKey, secret: Secret) -> Result<PrivateKey, KeyError> {
    let pair = KeyPair::from_secret(&public, &secret)?;
    if pair.public()? != public {
        return Err(KeyError::Mismatch);
    }
    Ok(PrivateKey { secret, public, declared_algorithm: None })
}

/// The primitive derives the point of a key that comes without one.
fn derive_point(curve: Curve, scalar: &[u8]) -> Result<Vec<u8>, KeyError> {
    let oid = match curve {
        Curve::P256 => der::P256,
        Curve::P384 => der::P384,
    };
    let bare = EcPrivateKey {
        private_key: scalar,
        parameters: Some(EcParameters::NamedCurve(oid)),
        public_key: None,
    };
    let bare = Zeroizing::new(bare.to_der().map_err(|_| KeyError::ScalarOutOfRange)?);
    let pair =
        EcdsaKeyPair::from_private_key_der(signing(curve), &bare).map_err(|_| KeyError::ScalarOutOfRange)?;
    Ok(pair.public_key().as_ref().to_vec())
}

/// Compares a point in any form of SEC1 section 2.3.3 with the derived coordinates.
fn same_point(stated: &[u8], x: &[u8], y: &[u8]) -> Result<(), KeyError> {
    let odd = y.last().is_some_and(|low| low % 2 == 1);
    let same = match stated.split_first() {
        Some((4, rest)) => rest.len() == x.len() + y.len() && rest.starts_with(x) && rest.ends_with(y),
        Some((2, rest)) => rest == x && !odd,
        Some((3, rest)) => rest == x && odd,
        _ => false,
    };
    if same { Ok(()) } else { Err(KeyError::Mismatch) }
}
