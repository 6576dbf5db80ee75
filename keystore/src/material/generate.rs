//! Makes new keys, for those who hold a permit.

use aws_lc_rs::encoding::{AsBigEndian, AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};

use super::pair::signing;
use super::{KeyError, PrivateKey, der, judge};
use crate::jwk::Curve;
use crate::{Algorithm, GenerationPermit, KeyType};

/// Makes a new key for `algorithm` (RSA: 2048 bits). Blocking; RSA takes long (0.1 s, at times ten times that):
/// call it off the async workers.
///
/// # Errors
/// [`KeyError::Generate`] if the primitive fails.
pub fn generate(permit: &GenerationPermit, algorithm: Algorithm) -> Result<PrivateKey, KeyError> {
    match algorithm.key_type() {
        KeyType::Rsa => generate_rsa(permit, algorithm, DEFAULT_RSA_BITS),
        KeyType::P256 => ec(Curve::P256),
        KeyType::P384 => ec(Curve::P384),
        KeyType::Ed25519 => ed25519(),
    }
}

/// As [`generate`], with an RSA modulus of 2048, 3072 or 4096 `bits`.
///
/// # Errors
/// As there; [`KeyError::GenerateSize`] for other sizes, [`KeyError::AlgorithmUnfit`] for an algorithm without RSA.
pub fn generate_rsa(
    _permit: &GenerationPermit,
    algorithm: Algorithm,
    bits: usize,
) -> Result<PrivateKey, KeyError> {
    if algorithm.key_type() != KeyType::Rsa {
        return Err(KeyError::AlgorithmUnfit { key_type: KeyType::Rsa, algorithm });
    }
    let size = match bits {
        2048 => KeySize::Rsa2048,
        3072 => KeySize::Rsa3072,
        4096 => KeySize::Rsa4096,
        _ => return Err(KeyError::GenerateSize { bits }),
    };
    let pair = RsaKeyPair::generate(size).map_err(|_| KeyError::Generate)?;
    let pkcs8: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::Generate)?;
    der::read(pkcs8.as_ref(), None)
}

fn ec(curve: Curve) -> Result<PrivateKey, KeyError> {
    let pair = EcdsaKeyPair::generate(signing(curve)).map_err(|_| KeyError::Generate)?;
    let scalar = pair.private_key().as_be_bytes().map_err(|_| KeyError::Generate)?;
    judge::ec(curve, scalar.as_ref(), None)
}

fn ed25519() -> Result<PrivateKey, KeyError> {
    let pair = Ed25519KeyPair::generate().map_err(|_| KeyError::Generate)?;
    let seed = pair.seed().and_then(|seed| seed.as_be_bytes()).map_err(|_| KeyError::Generate)?;
    judge::ed25519(seed.as_ref(), None)
}

/// Enough until quantum computers, and the size that every relying party verifies fast.
pub(crate) const DEFAULT_RSA_BITS: usize = 2048;

/// The sizes of FIPS 186-5 that relying parties take.
pub(crate) const GENERATED_RSA_BITS: [usize; 3] = [2048, 3072, 4096];

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::Signer;

    #[test]
    fn every_algorithm_gets_a_key_that_signs_and_reads_back() {
        let permit = GenerationPermit::for_first_ring();
        for algorithm in Algorithm::ALL {
            let key = generate(&permit, algorithm).unwrap();
            assert_eq!(key.key_type(), algorithm.key_type());
            assert!(key.public().rsa_bits().is_none_or(|bits| bits == DEFAULT_RSA_BITS));
            let again = PrivateKey::parse(key.expose_jwk().as_bytes()).unwrap();
            assert_eq!(again.public(), key.public());
            // Signs and verifies a probe.
            Signer::new(&key, algorithm, key.public().thumbprint()).unwrap();
        }
    }

    #[test]
    fn no_two_keys_are_the_same() {
        let permit = GenerationPermit::for_first_ring();
        let thumbprint = || generate(&permit, Algorithm::EdDsa).unwrap().public().thumbprint();
        assert_ne!(thumbprint(), thumbprint());
    }

    #[test]
    fn rsa_has_three_sizes() {
        let permit = GenerationPermit::for_first_ring();
        let key = generate_rsa(&permit, Algorithm::Ps256, 3072).unwrap();
        assert_eq!(key.public().rsa_bits(), Some(3072));
        for bits in [0, 1024, 2047, 2049, 8192] {
            assert_eq!(
                generate_rsa(&permit, Algorithm::Rs256, bits).unwrap_err(),
                KeyError::GenerateSize { bits }
            );
        }
        let refused = generate_rsa(&permit, Algorithm::Es256, 2048).unwrap_err();
        assert_eq!(refused, KeyError::AlgorithmUnfit { key_type: KeyType::Rsa, algorithm: Algorithm::Es256 });
    }
}
