//! Why a key was refused: what the bytes are instead, and what to do about it.

use super::codes;
use crate::findings::Code;
use crate::json::JsonError;
use crate::jwk::{JwkError, KeyId};
use crate::weakness::Weakness;
use crate::{Algorithm, KeyType};

/// Why a key was refused. Holds no part of the value that was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing there, or blank space alone.
    #[error("the value is empty")]
    Empty,
    /// No form of key that we know.
    #[error("no key found: {hint}")]
    Unrecognised {
        /// What it looks like.
        hint: &'static str,
    },
    /// A form that holds keys, but none that we read.
    #[error("the value is {form}, which is not read")]
    UnsupportedForm {
        /// Its name.
        form: &'static str,
    },
    /// Base64 of base64.
    #[error("the value is base64-encoded twice")]
    EncodedTwice,
    /// A JSON object that is no JWK; it may hold a key in one of its members.
    #[error("the value is a JSON object, but no JWK and no JWKS; its members are: {}", .members.join(", "))]
    JsonMembers {
        /// Their names, at most 16, cut to 64 characters.
        members: Vec<String>,
    },
    /// Damaged PEM.
    #[error("the PEM is damaged: {fault}")]
    MalformedPem {
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Damaged DER.
    #[error("{form} does not decode: truncated or damaged")]
    MalformedDer {
        /// What it looked like.
        form: &'static str,
    },
    /// Damaged JSON.
    #[error("the JSON does not parse")]
    MalformedJson(#[source] JsonError),
    /// A JWK with a faulty member.
    #[error("the JWK is refused")]
    MalformedJwk(#[source] JwkError),
    /// A public key alone.
    #[error("a public key was found, but no private one")]
    PublicOnly,
    /// A certificate alone.
    #[error("a certificate was found, but no private key")]
    CertificateOnly,
    /// A symmetric key.
    #[error("the key is symmetric (kty oct)")]
    Symmetric,
    /// More than one private key.
    #[error("{count} private keys were found, where one is wanted")]
    TwoPrivateKeys {
        /// How many.
        count: usize,
    },
    /// The key is encrypted, and there is no passphrase to try.
    #[error("the private key is encrypted, and no passphrase is given")]
    Encrypted,
    /// The passphrase does not open it.
    #[error("the passphrase does not open the private key")]
    WrongPassphrase,
    /// A passphrase of no characters.
    #[error("the passphrase is empty")]
    PassphraseEmpty,
    /// Encrypted in a way that is not read.
    #[error("the private key is encrypted in a way that is not read: {scheme}")]
    EncryptionUnsupported {
        /// Its name or object identifier.
        scheme: String,
    },
    /// Trying a passphrase would take too long or too much memory.
    #[error("the private key asks for too much work before a passphrase can be tried: {what}")]
    EncryptionCost {
        /// How much it asks for.
        what: String,
    },
    /// A member was named, and the object has none of that name.
    #[error("the JSON object has no member {member}; its members are: {}", .members.join(", "))]
    NoMember {
        /// The name that was asked for.
        member: String,
        /// Those that are there, at most 16, cut to 64 characters.
        members: Vec<String>,
    },
    /// A member was named, and it is neither text nor an object.
    #[error("the member {member} of the JSON object is neither a string nor an object")]
    MemberType {
        /// Its name.
        member: String,
    },
    /// A member was named, and the value has no members.
    #[error("the value is no JSON object, so it has no member {member}")]
    MemberOfNothing {
        /// The name that was asked for.
        member: String,
    },
    /// A kind of key that we do not sign with.
    #[error("a key of an unknown kind: {kind}")]
    UnknownType {
        /// Its name or object identifier.
        kind: String,
    },
    /// A curve that we do not sign with.
    #[error("a key on an unknown curve: {curve}")]
    UnknownCurve {
        /// Its name or object identifier.
        curve: String,
    },
    /// A JWK that says it is not for signing.
    #[error("the JWK's `use` or `key_ops` says that it is not for signing")]
    NotForSigning,
    /// A JWK whose `alg` is none of ours.
    #[error("the JWK's `alg` is none of RS256, RS384, RS512, PS256, ES256, ES384, EdDSA")]
    UnknownAlgorithm,
    /// An algorithm that this kind of key cannot have.
    #[error("an {key_type} key cannot sign with {algorithm}")]
    AlgorithmUnfit {
        /// The kind.
        key_type: KeyType,
        /// What was asked of it.
        algorithm: Algorithm,
    },
    /// An RSA modulus below 2048 bits.
    #[error("an RSA key of {bits} bits is too small")]
    RsaTooSmall {
        /// Its size.
        bits: usize,
    },
    /// An RSA modulus above 8192 bits.
    #[error("an RSA key of {bits} bits is too large")]
    RsaTooLarge {
        /// Its size.
        bits: usize,
    },
    /// An RSA exponent that is even, below 65537 or above 32 bits.
    #[error("the RSA public exponent is even, below 65537 or not below 2^32")]
    RsaExponent,
    /// More than two primes.
    #[error("the RSA key has more than two primes")]
    RsaMultiPrime,
    /// The two primes are the same.
    #[error("the RSA key's two primes are equal")]
    RsaEqualPrimes,
    /// Components that contradict each other.
    #[error("the RSA key's components contradict each other")]
    RsaInconsistent,
    /// A small prime divides the modulus.
    #[error("the RSA modulus has the small factor {prime}")]
    RsaSmallFactor {
        /// The smallest.
        prime: u32,
    },
    /// One prime is much shorter than the other.
    #[error(
        "the RSA key's primes have {shorter} and {longer} bits, where about half of the modulus each is wanted"
    )]
    RsaLopsided {
        /// Bits of one.
        shorter: usize,
        /// Bits of the other.
        longer: usize,
    },
    /// The two primes are too close to each other.
    #[error("the RSA key's primes are too close to each other")]
    RsaClosePrimes,
    /// The fingerprint of the broken Infineon library.
    #[error("the RSA modulus has the fingerprint of a broken generator (ROCA, CVE-2017-15361)")]
    RsaRoca,
    /// A modulus that is mostly zeros.
    #[error("the RSA modulus has a pattern of zero octets, which no random primes make")]
    RsaPattern,
    /// The modulus is a prime itself.
    #[error("the RSA modulus is a prime, not a product of two")]
    RsaPrimeModulus,
    /// A private exponent that continued fractions or lattices find.
    #[error("the RSA private exponent has {bits} bits, less than half of the modulus")]
    RsaSmallPrivateExponent {
        /// Its length.
        bits: usize,
    },
    /// Everybody has this key.
    #[error("the private half of this key ({kid}) is published: {published_in}")]
    Leaked {
        /// Its thumbprint.
        kid: KeyId,
        /// Where.
        published_in: &'static str,
    },
    /// A private scalar of zero or beyond the curve's order.
    #[error("the private scalar is out of the curve's range")]
    ScalarOutOfRange,
    /// A point that is not on its curve.
    #[error("the public point is not on its curve")]
    NotOnCurve,
    /// The public half written beside the private one is another key's.
    #[error("the public half written in the key is not that of its private half")]
    Mismatch,
    /// The key signs, but what it signs does not verify.
    #[error("a probe signed with the key does not verify")]
    Probe,
    /// An RSA size that is not generated.
    #[error("RSA keys of {bits} bits are not generated")]
    GenerateSize {
        /// What was asked for.
        bits: usize,
    },
    /// The primitive could not make a key.
    #[error("the key could not be generated: the system's random source or memory failed")]
    Generate,
}

impl KeyError {
    /// Its row in the table of findings.
    pub fn code(&self) -> &'static Code {
        match self {
            Self::Empty => &codes::EMPTY,
            Self::Unrecognised { .. } => &codes::UNRECOGNISED,
            Self::UnsupportedForm { .. } => &codes::UNSUPPORTED_FORM,
            Self::EncodedTwice => &codes::ENCODED_TWICE,
            Self::JsonMembers { .. } => &codes::JSON_MEMBERS,
            Self::MalformedPem { .. } => &codes::MALFORMED_PEM,
            Self::MalformedDer { .. } => &codes::MALFORMED_DER,
            Self::MalformedJson(_) => &codes::MALFORMED_JSON,
            Self::MalformedJwk(_) => &codes::MALFORMED_JWK,
            Self::PublicOnly => &codes::PUBLIC_ONLY,
            Self::CertificateOnly => &codes::CERTIFICATE_ONLY,
            Self::Symmetric => &codes::SYMMETRIC,
            Self::TwoPrivateKeys { .. } => &codes::TWO_PRIVATE_KEYS,
            Self::Encrypted => &codes::ENCRYPTED,
            Self::WrongPassphrase => &codes::WRONG_PASSPHRASE,
            Self::PassphraseEmpty => &codes::PASSPHRASE_EMPTY,
            Self::EncryptionUnsupported { .. } => &codes::ENCRYPTION_UNSUPPORTED,
            Self::EncryptionCost { .. } => &codes::ENCRYPTION_COST,
            Self::NoMember { .. } | Self::MemberType { .. } | Self::MemberOfNothing { .. } => {
                &codes::NO_MEMBER
            }
            Self::UnknownType { .. } => &codes::UNKNOWN_TYPE,
            Self::UnknownCurve { .. } => &codes::UNKNOWN_CURVE,
            Self::NotForSigning => &codes::NOT_FOR_SIGNING,
            Self::UnknownAlgorithm => &codes::UNKNOWN_ALGORITHM,
            Self::AlgorithmUnfit { .. } => &codes::ALGORITHM_UNFIT,
            Self::RsaTooSmall { .. } => &codes::RSA_TOO_SMALL,
            Self::RsaTooLarge { .. } => &codes::RSA_TOO_LARGE,
            Self::RsaExponent => &codes::RSA_EXPONENT,
            Self::RsaMultiPrime => &codes::RSA_MULTI_PRIME,
            Self::RsaEqualPrimes => &codes::RSA_EQUAL_PRIMES,
            Self::RsaInconsistent => &codes::RSA_INCONSISTENT,
            Self::RsaSmallFactor { .. } => &codes::RSA_SMALL_FACTOR,
            Self::RsaLopsided { .. } => &codes::RSA_LOPSIDED,
            Self::RsaClosePrimes => &codes::RSA_CLOSE_PRIMES,
            Self::RsaRoca => &codes::RSA_ROCA,
            Self::RsaPattern => &codes::RSA_PATTERN,
            Self::RsaPrimeModulus => &codes::RSA_PRIME_MODULUS,
            Self::RsaSmallPrivateExponent { .. } => &codes::RSA_SMALL_PRIVATE_EXPONENT,
            Self::Leaked { .. } => &codes::LEAKED,
            Self::ScalarOutOfRange => &codes::SCALAR_OUT_OF_RANGE,
            Self::NotOnCurve => &codes::NOT_ON_CURVE,
            Self::Mismatch => &codes::MISMATCH,
            Self::Probe => &codes::PROBE,
            Self::GenerateSize { .. } => &codes::GENERATE_SIZE,
            Self::Generate => &codes::GENERATE,
        }
    }
}

/// The faults of a public half that have a word of their own here keep it.
impl From<JwkError> for KeyError {
    fn from(error: JwkError) -> Self {
        match error {
            JwkError::RsaSize { bits } if bits < crate::jwk::RSA_MIN_BITS => Self::RsaTooSmall { bits },
            JwkError::RsaSize { bits } => Self::RsaTooLarge { bits },
            JwkError::RsaExponent { .. } => Self::RsaExponent,
            JwkError::RsaEvenModulus => Self::RsaSmallFactor { prime: 2 },
            JwkError::RsaWeak(weakness) => weakness.into(),
            JwkError::NotOnCurve => Self::NotOnCurve,
            JwkError::Symmetric => Self::Symmetric,
            other => Self::MalformedJwk(other),
        }
    }
}

/// A weak modulus is weak in a key of ours as in anybody's.
impl From<Weakness> for KeyError {
    fn from(weakness: Weakness) -> Self {
        match weakness {
            Weakness::SmallFactor { prime } => Self::RsaSmallFactor { prime },
            Weakness::ClosePrimes => Self::RsaClosePrimes,
            Weakness::Roca => Self::RsaRoca,
            Weakness::Pattern => Self::RsaPattern,
            Weakness::Prime => Self::RsaPrimeModulus,
        }
    }
}
