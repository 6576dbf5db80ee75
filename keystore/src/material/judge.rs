//! Decides whether components are a key: the one place where a [`PrivateKey`] is made.
//!
//! Sizes and exponents are compared here, and what is weak is found here and in [`crate::weakness`]; that the
//! components belong together is asked of the primitive that will sign with them, so that there is no second opinion
//! to disagree with it. The public half is always derived from the private one, and one that is written beside it
//! must be the same. Last, the key signs a probe that its public half must verify: whatever is wrong with a key that
//! no question here finds, such as a factor that is no prime, shows there.

use std::sync::Arc;

use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use crypto_bigint::{BoxedUint, ConcatenatingMul as _};
use sec1::der::Encode;
use sec1::{EcParameters, EcPrivateKey};
use zeroize::Zeroizing;

use super::pair::{KeyPair, signing};
use super::{KeyError, PrivateKey, RsaSecret, Secret, der, leaked};
use crate::jwk::{Curve, Exponents, JwkError, PublicKey, bit_len, minimal};
use crate::weakness;

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

/// Sizes first, so that no work is done on what is refused anyway; then what the factors show, so that a weak key is
/// called weak and not broken; then whether everything belongs together.
pub(super) fn rsa(parts: &RsaParts<'_>) -> Result<PrivateKey, KeyError> {
    let (d, p, q) = (minimal(parts.d), minimal(parts.p), minimal(parts.q));
    let public = match PublicKey::rsa(parts.n, parts.e, Exponents::Ours) {
        // Who chooses a short private exponent gets a public one as long as the modulus.
        Err(JwkError::RsaExponent { .. }) if is_short(d, minimal(parts.n)) => {
            return Err(KeyError::RsaSmallPrivateExponent { bits: bit_len(d) });
        }
        public => public?,
    };
    if p == q {
        return Err(KeyError::RsaEqualPrimes);
    }
    let n = minimal(parts.n);
    let secret = |octets: &[u8]| match minimal(octets) {
        octets if octets.is_empty() || octets.len() > n.len() => Err(KeyError::RsaInconsistent),
        octets => Ok(Zeroizing::new(octets.to_vec())),
    };
    let secret = RsaSecret {
        d: secret(d)?,
        p: secret(p)?,
        q: secret(q)?,
        dp: secret(parts.dp)?,
        dq: secret(parts.dq)?,
        qi: secret(parts.qi)?,
    };
    factors(n, p, q)?;
    let key = judged(public, Secret::Rsa(Box::new(secret)))?;
    if is_short(d, n) {
        return Err(KeyError::RsaSmallPrivateExponent { bits: bit_len(d) });
    }
    Ok(key)
}

/// What is asked of a public half that stands in our key set without its private one: everybody will take what
/// verifies with it for ours. Its own reader has judged sizes and the cheap weaknesses.
pub(crate) fn published_half(public: &PublicKey) -> Result<(), KeyError> {
    if let Some((n, _)) = public.rsa_components()
        && let Some(weakness) = weakness::of_unfactored_modulus(n)
    {
        return Err(weakness.into());
    }
    not_leaked(public)
}

/// Whether n is the product of two factors that are fit to be secret: about half of it each, and far from each other
/// (FIPS 186-5 appendix A.1.3). That they are primes is left to the probe: with others a signature does not verify.
fn factors(n: &[u8], p: &[u8], q: &[u8]) -> Result<(), KeyError> {
    let uint = |octets| Zeroizing::new(BoxedUint::from_be_slice_vartime(octets));
    let (first, second) = (uint(p), uint(q));
    if first.concatenating_mul(&*second) != BoxedUint::from_be_slice_vartime(n) {
        return Err(KeyError::RsaInconsistent);
    }
    if let Some(weakness) = weakness::of_modulus(n) {
        return Err(weakness.into());
    }
    let (shorter, longer) = (bit_len(p).min(bit_len(q)), bit_len(p).max(bit_len(q)));
    if shorter * LOPSIDED.1 < bit_len(n) * LOPSIDED.0 {
        return Err(KeyError::RsaLopsided { shorter, longer });
    }
    let (larger, smaller) = if *first > *second { (first, second) } else { (second, first) };
    let difference = Zeroizing::new(larger.wrapping_sub(&*smaller));
    let bits = usize::try_from(difference.bit_width_vartime()).unwrap_or(0);
    if bits <= (bit_len(n) / 2).saturating_sub(CLOSE_PRIMES_BITS) {
        return Err(KeyError::RsaClosePrimes);
    }
    Ok(())
}

/// FIPS 186-5 appendix A.1.1: d is above 2^(half the modulus). Wiener finds it below a quarter, Boneh and Durfee below
/// 0.292.
fn is_short(d: &[u8], n: &[u8]) -> bool {
    bit_len(d) * 2 <= bit_len(n)
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

/// Builds the primitive's pair once, which compares everything with everything; then asks whether it works, and
/// whether it is a secret at all.
fn judged(public: PublicKey, secret: Secret) -> Result<PrivateKey, KeyError> {
    let pair = KeyPair::from_secret(&public, &secret)?;
    if pair.public()? != public {
        return Err(KeyError::Mismatch);
    }
    pair.probe(&public)?;
    not_leaked(&public)?;
    Ok(PrivateKey { secret, pair: Arc::new(pair), public, declared_algorithm: None })
}

fn not_leaked(public: &PublicKey) -> Result<(), KeyError> {
    let kid = public.thumbprint();
    match leaked::published_in(&kid) {
        Some(published_in) => Err(KeyError::Leaked { kid, published_in }),
        None => Ok(()),
    }
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

/// The shortest prime as a part of the modulus. Common tools give both the same length; a bit or two of difference
/// harms nobody.
const LOPSIDED: (usize, usize) = (7, 16);

/// FIPS 186-5 appendix A.1.3: |p - q| is above 2^(half the modulus - 100).
const CLOSE_PRIMES_BITS: usize = 100;
