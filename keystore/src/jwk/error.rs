//! Why a JWK was refused.

use crate::weakness::Weakness;

/// Why a JWK was refused. Names members, never their values, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwkError {
    /// The value is no JSON object.
    #[error("not a JSON object")]
    NotAnObject,
    /// A required member is missing.
    #[error("the member `{0}` is missing")]
    Missing(&'static str),
    /// A member has the wrong JSON type.
    #[error("the member `{0}` has the wrong JSON type")]
    WrongType(&'static str),
    /// A public JWK was wanted and private material found.
    #[error("the member `{0}` is private: this must be a public key")]
    PrivateMember(&'static str),
    /// A `kty` that we do not know: a reader of many keys drops this one and keeps the rest.
    #[error("the key type (`kty`) is none of RSA, EC, OKP")]
    UnknownKeyType,
    /// A `crv` that we do not know: as with an unknown `kty`.
    #[error("the curve (`crv`) is none of P-256, P-384, Ed25519")]
    UnknownCurve,
    /// An `alg` that is none of ours: as with an unknown `kty`.
    #[error("the algorithm (`alg`) is none of RS256, RS384, RS512, PS256, ES256, ES384, EdDSA")]
    UnknownAlgorithm,
    /// An `alg` that a key of this kind cannot have.
    #[error("the algorithm (`alg`) does not fit the key type")]
    AlgorithmUnfit,
    /// A symmetric key, where only asymmetric ones have a place.
    #[error("a symmetric key (`kty` oct)")]
    Symmetric,
    /// A member is not canonical unpadded base64url (RFC 7515 section 2).
    #[error("the member `{0}` is not canonical, unpadded base64url")]
    Encoding(&'static str),
    /// A member's octets have the wrong length, or an integer has leading zeros.
    #[error("the member `{0}` has the wrong number of octets")]
    Length(&'static str),
    /// The RSA modulus is too small or too large.
    #[error("an RSA modulus of {bits} bits; 2048 to 8192 are taken")]
    RsaSize {
        /// Its size.
        bits: usize,
    },
    /// The RSA modulus cannot be a product of two odd primes.
    #[error("the RSA modulus is even")]
    RsaEvenModulus,
    /// Arithmetic shows that the RSA modulus keeps no secret.
    #[error(transparent)]
    RsaWeak(#[from] Weakness),
    /// The RSA exponent is out of bounds.
    #[error("the RSA public exponent must be odd, at least {least} and below 2^32")]
    RsaExponent {
        /// The least that is taken here.
        least: u32,
    },
    /// The point is not on its curve.
    #[error("the point is not on its curve")]
    NotOnCurve,
    /// A `kid` of a form that we do not take.
    #[error("a key id must be 1 to 128 printable ASCII characters")]
    KeyId,
}

impl JwkError {
    /// Whether the entry is of a kind we do not know, rather than faulty.
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::UnknownKeyType | Self::UnknownCurve | Self::UnknownAlgorithm)
    }
}
