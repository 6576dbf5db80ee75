//! The signature algorithms oneseal signs with, in the order in which their keys stand in a JWKS.

use std::fmt;
use std::str::FromStr;

/// A JWS signature algorithm (RFC 7518 section 3.1, RFC 8037 section 3.1).
///
/// Their order is the order of active keys in the JWKS and must never change: published bytes depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256: the one that every relying party takes.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256 and a salt of 32 bytes.
    Ps256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519. Named `EdDSA` on the wire; `Ed25519` (RFC 9864) is understood as the same.
    EdDsa,
}

impl Algorithm {
    /// All of them, in JWKS order.
    pub const ALL: [Self; 7] =
        [Self::Rs256, Self::Rs384, Self::Rs512, Self::Ps256, Self::Es256, Self::Es384, Self::EdDsa];

    /// The name used in headers, JWKs and discovery.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The kind of key it needs.
    pub fn key_type(self) -> KeyType {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 => KeyType::Rsa,
            Self::Es256 => KeyType::P256,
            Self::Es384 => KeyType::P384,
            Self::EdDsa => KeyType::Ed25519,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name == "Ed25519" {
            return Ok(Self::EdDsa);
        }
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str() == name)
            .ok_or_else(|| UnknownAlgorithm(name.chars().take(MAX_SHOWN).collect()))
    }
}

/// A name that is none of ours: `none`, HMAC and the rest have no way in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown signature algorithm {0:?}; known are RS256, RS384, RS512, PS256, ES256, ES384, EdDSA")]
pub struct UnknownAlgorithm(String);

/// Names are cut to this in messages, since they may come from hostile input.
const MAX_SHOWN: usize = 32;

/// The kinds of key material.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyType {
    /// RSA, two primes.
    Rsa,
    /// An elliptic-curve key on NIST P-256.
    P256,
    /// An elliptic-curve key on NIST P-384.
    P384,
    /// Ed25519 (RFC 8032).
    Ed25519,
}

impl KeyType {
    /// The algorithm a key of this kind signs with when nothing else is said.
    pub fn default_algorithm(self) -> Algorithm {
        match self {
            Self::Rsa => Algorithm::Rs256,
            Self::P256 => Algorithm::Es256,
            Self::P384 => Algorithm::Es384,
            Self::Ed25519 => Algorithm::EdDsa,
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rsa => "RSA",
            Self::P256 => "EC P-256",
            Self::P384 => "EC P-384",
            Self::Ed25519 => "Ed25519",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_ed25519_is_eddsa() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.as_str().parse(), Ok(algorithm));
        }
        assert_eq!("Ed25519".parse(), Ok(Algorithm::EdDsa));
    }

    #[test]
    fn none_and_hmac_are_unknown_in_any_case() {
        for name in ["none", "None", "NONE", "HS256", "rs256", "", "ES512", "ES256K"] {
            assert!(name.parse::<Algorithm>().is_err(), "{name}");
        }
    }
}
