//! The primitive's parsed key: made once, kept by the signer.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, PublicKeyComponents};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair,
};

use super::{KeyError, RsaSecret, Secret};
use crate::jwk::{Curve, Exponents, PublicKey, RSA_MAX_BITS};
use crate::verify::Verifier;
use crate::{Algorithm, KeyType};

/// A key pair of the primitive. It holds private material in memory that it wipes itself, and has no way out.
pub(crate) enum KeyPair {
    Rsa(RsaKeyPair),
    /// With its curve, of which it is.
    Ec(Curve, EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl KeyPair {
    /// Builds the pair; the primitive compares the halves and, for RSA, every component with every other.
    pub(super) fn from_secret(public: &PublicKey, secret: &Secret) -> Result<Self, KeyError> {
        match secret {
            Secret::Rsa(secret) => {
                let (n, e) = public.rsa_components().ok_or(KeyError::Mismatch)?;
                rsa_pair(n, e, secret).map(Self::Rsa)
            }
            Secret::Ec(scalar) => {
                let curve = match public.key_type() {
                    KeyType::P256 => Curve::P256,
                    KeyType::P384 => Curve::P384,
                    KeyType::Rsa | KeyType::Ed25519 => return Err(KeyError::Mismatch),
                };
                EcdsaKeyPair::from_private_key_and_public_key(signing(curve), scalar, &public.point())
                    .map(|pair| Self::Ec(curve, pair))
                    .map_err(|_| KeyError::Mismatch)
            }
            Secret::Ed25519(seed) => Ed25519KeyPair::from_seed_and_public_key(&**seed, &public.point())
                .map(Self::Ed25519)
                .map_err(|_| KeyError::Mismatch),
        }
    }

    /// The public half as the primitive derived it.
    pub(crate) fn public(&self) -> Result<PublicKey, KeyError> {
        let public = match self {
            Self::Rsa(pair) => {
                let components = PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                PublicKey::rsa(&components.n, &components.e, Exponents::Ours)
            }
            Self::Ec(curve, pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = point[1..].split_at(curve.field_len());
                PublicKey::ec(*curve, x, y)
            }
            Self::Ed25519(pair) => {
                PublicKey::ed25519(pair.public_key().as_ref().try_into().map_err(|_| KeyError::Mismatch)?)
            }
        };
        public.map_err(KeyError::from)
    }

    /// Signs a probe as a token would be signed, and verifies it with the public half.
    ///
    /// # Errors
    /// [`KeyError::Probe`].
    pub(super) fn probe(&self, public: &PublicKey) -> Result<(), KeyError> {
        let algorithm = public.key_type().default_algorithm();
        let verifier = Verifier::new(public, algorithm, public.thumbprint()).map_err(|_| KeyError::Probe)?;
        let mut buffer = [0; RSA_MAX_BITS / 8];
        let signature =
            self.sign(algorithm, &SystemRandom::new(), PROBE, &mut buffer).ok_or(KeyError::Probe)?;
        verifier.verify_signature(PROBE, signature).map_err(|_| KeyError::Probe)
    }

    /// Octets of a signature.
    pub(crate) fn signature_len(&self) -> usize {
        match self {
            Self::Rsa(pair) => pair.public_modulus_len(),
            Self::Ec(curve, _) => 2 * curve.field_len(),
            Self::Ed25519(_) => 64,
        }
    }

    /// Signs `message` into the front of `buffer`; `None` if the primitive fails or the algorithm is not the key's.
    pub(crate) fn sign<'a>(
        &self,
        algorithm: Algorithm,
        random: &SystemRandom,
        message: &[u8],
        buffer: &'a mut [u8],
    ) -> Option<&'a [u8]> {
        let signature = buffer.get_mut(..self.signature_len())?;
        match self {
            Self::Rsa(pair) => pair.sign(padding(algorithm)?, random, message, signature).ok()?,
            Self::Ec(_, pair) => signature.copy_from_slice(pair.sign(random, message).ok()?.as_ref()),
            Self::Ed25519(pair) => signature.copy_from_slice(pair.try_sign(message).ok()?.as_ref()),
        }
        Some(signature)
    }
}

/// How the primitive calls the signature of a curve: r‖s (RFC 7518 section 3.4).
pub(super) fn signing(curve: Curve) -> &'static EcdsaSigningAlgorithm {
    match curve {
        Curve::P256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
        Curve::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
    }
}

fn rsa_pair(n: &[u8], e: &[u8], secret: &RsaSecret) -> Result<RsaKeyPair, KeyError> {
    let components = rsa::KeyPairComponents {
        public_key: PublicKeyComponents { n, e },
        d: secret.d.as_slice(),
        p: &secret.p,
        q: &secret.q,
        dP: &secret.dp,
        dQ: &secret.dq,
        qInv: &secret.qi,
    };
    RsaKeyPair::from_components(&components).map_err(|_| KeyError::RsaInconsistent)
}

fn padding(algorithm: Algorithm) -> Option<&'static dyn RsaEncoding> {
    match algorithm {
        Algorithm::Rs256 => Some(&RSA_PKCS1_SHA256),
        Algorithm::Rs384 => Some(&RSA_PKCS1_SHA384),
        Algorithm::Rs512 => Some(&RSA_PKCS1_SHA512),
        Algorithm::Ps256 => Some(&RSA_PSS_SHA256),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
    }
}

/// No signing input of a token: it has no dot.
const PROBE: &[u8] = b"oneseal signs this to see whether the key works";
