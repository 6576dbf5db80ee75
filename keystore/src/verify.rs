//! One JWS (RFC 7515, compact) against pinned keys.
//!
//! Nothing in a token chooses how it is checked. A [`Verifier`] is one key pinned to one algorithm; a token whose
//! header says otherwise is refused, and key material or addresses in a header (`jwk`, `x5c`, `jku`, `x5u`) are
//! never looked at. `none` and HMAC have no name here, so nothing can confuse them with ours. Whoever asks which
//! key verified reads [`Verifier::kid`], never the header.

use std::fmt;

use aws_lc_rs::signature::{self as primitive, ParsedPublicKey, VerificationAlgorithm};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::json::{self, JsonError};
use crate::{Algorithm, KeyId, PublicKey};

/// A parsed public key pinned to one algorithm. Cheap to share; `Debug` shows algorithm and kid.
pub struct Verifier {
    key: ParsedPublicKey,
    algorithm: Algorithm,
    kid: KeyId,
}

impl Verifier {
    /// Parses once, so that each verification costs the primitive alone.
    ///
    /// # Errors
    /// [`VerifyError::KeyUnfit`] if a key of this kind cannot have this algorithm.
    pub fn new(key: &PublicKey, algorithm: Algorithm, kid: KeyId) -> Result<Self, VerifyError> {
        if key.key_type() != algorithm.key_type() {
            return Err(VerifyError::KeyUnfit);
        }
        let key = ParsedPublicKey::new(verification(algorithm), key.spki_der())
            .map_err(|_| VerifyError::KeyUnfit)?;
        Ok(Self { key, algorithm, kid })
    }

    /// The id of the key: the one to report and to count by.
    pub fn kid(&self) -> &KeyId {
        &self.kid
    }

    /// The one algorithm it takes.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Checks the signature of a split token: `signing_input` is `header.payload` as in the token, `signature` is
    /// decoded (ECDSA: r‖s, RFC 7518 section 3.4).
    ///
    /// # Errors
    /// [`VerifyError::Signature`].
    pub fn verify_signature(&self, signing_input: &[u8], signature: &[u8]) -> Result<(), VerifyError> {
        self.key.verify_sig(signing_input, signature).map_err(|_| VerifyError::Signature)
    }

    /// Checks a detached JWS (`header..signature`, RFC 7515 appendix F) over `payload`. Its header must hold
    /// exactly `alg`, `kid` and `typ`, with this verifier's algorithm and kid and the given `typ`.
    ///
    /// # Errors
    /// A [`VerifyError`]; [`VerifyError::DetachedHeader`] for another header.
    pub fn verify_detached(&self, jws: &str, typ: &str, payload: &[u8]) -> Result<(), VerifyError> {
        let segments = Segments::split(jws)?;
        if !segments.payload.is_empty() {
            return Err(VerifyError::Shape);
        }
        let header = Header::read(segments.header)?;
        let wanted = Header {
            algorithm: self.algorithm,
            kid: Some(self.kid.as_str().into()),
            typ: Some(typ.into()),
            len: 3,
        };
        if header != wanted {
            return Err(VerifyError::DetachedHeader);
        }
        let mut signing_input = format!("{}.", segments.header);
        URL_SAFE_NO_PAD.encode_string(payload, &mut signing_input);
        self.verify_signature(signing_input.as_bytes(), &segments.signature()?)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({}, {})", self.algorithm, self.kid)
    }
}

/// A compact JWS, split and its header read strictly, not verified. `Debug` shows the header's algorithm alone.
pub struct UnverifiedJws<'a> {
    segments: Segments<'a>,
    header: Header,
    signature: Vec<u8>,
}

impl<'a> UnverifiedJws<'a> {
    /// Splits, reads the header, decodes the signature.
    ///
    /// # Errors
    /// A [`VerifyError`] for everything but a three-segment JWS of at most [`MAX_TOKEN_LEN`] with one of our
    /// algorithms and no critical extension.
    pub fn parse(token: &'a str) -> Result<Self, VerifyError> {
        let segments = Segments::split(token)?;
        let header = Header::read(segments.header)?;
        let signature = segments.signature()?;
        Ok(Self { segments, header, signature })
    }

    /// The `kid` that the header names: a hint for choosing the verifier, and no proof of anything.
    pub fn kid(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// The algorithm that the header names.
    pub fn algorithm(&self) -> Algorithm {
        self.header.algorithm
    }

    /// The `typ` that the header names, as written.
    pub fn typ(&self) -> Option<&str> {
        self.header.typ.as_deref()
    }

    /// Verifies with exactly this key and returns the payload bytes, which need not be JSON. The key that verified
    /// is `key`; a header that names another kid is refused.
    ///
    /// # Errors
    /// A [`VerifyError`]; no other key should be tried after it.
    pub fn verify(&self, key: &Verifier) -> Result<Vec<u8>, VerifyError> {
        if self.header.algorithm != key.algorithm {
            return Err(VerifyError::AlgorithmMismatch);
        }
        if self.kid().is_some_and(|kid| kid != key.kid.as_str()) {
            return Err(VerifyError::KidMismatch);
        }
        key.verify_signature(self.segments.signing_input.as_bytes(), &self.signature)?;
        decode(self.segments.payload)
    }
}

impl fmt::Debug for UnverifiedJws<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnverifiedJws({})", self.header.algorithm)
    }
}

/// Why a JWS was refused. Holds no text of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Longer than [`MAX_TOKEN_LEN`].
    #[error("the token is longer than {MAX_TOKEN_LEN} bytes")]
    TooLong,
    /// Not three segments.
    #[error("not a compact JWS: three base64url segments joined by dots are wanted")]
    Shape,
    /// An encrypted token (JWE).
    #[error("the token is encrypted (JWE); only signed ones are taken")]
    Encrypted,
    /// A segment is not canonical unpadded base64url.
    #[error("a segment is not canonical, unpadded base64url")]
    Encoding,
    /// The header is no strict JSON object.
    #[error("the header is refused")]
    Header(#[source] JsonError),
    /// A header member is missing or has the wrong JSON type.
    #[error("the header member `{0}` is missing or has the wrong type")]
    HeaderMember(&'static str),
    /// `alg` is none of ours, `none` and HMAC included.
    #[error("the header names an algorithm that is not taken")]
    AlgorithmNotAllowed,
    /// The header has `crit` or `b64`, which ask for extensions that we have not.
    #[error("the header asks for an extension (`crit` or `b64`)")]
    Critical,
    /// `alg` is not the key's.
    #[error("the header names another algorithm than the key's")]
    AlgorithmMismatch,
    /// `kid` is missing, or none of the known keys': raised by those who choose among several verifiers.
    #[error("the header names no key that is known here")]
    UnknownKid,
    /// `kid` is not the key's.
    #[error("the header names another key")]
    KidMismatch,
    /// A detached JWS has another header than it must.
    #[error("the header of the detached signature is not the one wanted here")]
    DetachedHeader,
    /// The signature does not verify.
    #[error("the signature does not verify")]
    Signature,
    /// A key that cannot verify with this algorithm.
    #[error("the key does not fit the algorithm")]
    KeyUnfit,
}

impl VerifyError {
    /// Every name that [`reason`](Self::reason) gives.
    pub const REASONS: [&'static str; 14] = [
        "too_long",
        "shape",
        "encrypted",
        "encoding",
        "header",
        "header_member",
        "algorithm_not_allowed",
        "critical",
        "algorithm_mismatch",
        "unknown_kid",
        "kid_mismatch",
        "detached_header",
        "signature",
        "key_unfit",
    ];

    /// A short name for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Shape => "shape",
            Self::Encrypted => "encrypted",
            Self::Encoding => "encoding",
            Self::Header(_) => "header",
            Self::HeaderMember(_) => "header_member",
            Self::AlgorithmNotAllowed => "algorithm_not_allowed",
            Self::Critical => "critical",
            Self::AlgorithmMismatch => "algorithm_mismatch",
            Self::UnknownKid => "unknown_kid",
            Self::KidMismatch => "kid_mismatch",
            Self::DetachedHeader => "detached_header",
            Self::Signature => "signature",
            Self::KeyUnfit => "key_unfit",
        }
    }
}

/// The longest token that is looked at, in bytes. HTTP servers take 8 to 16 KiB of headers, so no longer token
/// reaches anybody; and all work on hostile input is bounded by it.
pub const MAX_TOKEN_LEN: usize = 16 * 1024;

/// The primitive of each algorithm.
pub(crate) fn verification(algorithm: Algorithm) -> &'static dyn VerificationAlgorithm {
    match algorithm {
        Algorithm::Rs256 => &primitive::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &primitive::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &primitive::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &primitive::RSA_PSS_2048_8192_SHA256,
        Algorithm::Es256 => &primitive::ECDSA_P256_SHA256_FIXED,
        Algorithm::Es384 => &primitive::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDsa => &primitive::ED25519,
    }
}

struct Segments<'a> {
    header: &'a str,
    payload: &'a str,
    signature: &'a str,
    /// `header.payload`
    signing_input: &'a str,
}

impl<'a> Segments<'a> {
    /// Cuts at most three times, however many dots there are.
    fn split(token: &'a str) -> Result<Self, VerifyError> {
        if token.len() > MAX_TOKEN_LEN {
            return Err(VerifyError::TooLong);
        }
        let mut parts = token.splitn(4, '.');
        let (Some(header), Some(payload), Some(signature)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(VerifyError::Shape);
        };
        if let Some(rest) = parts.next() {
            let five = rest.split_once('.').is_some_and(|(_, last)| !last.contains('.'));
            return Err(if five { VerifyError::Encrypted } else { VerifyError::Shape });
        }
        let signing_input = &token[..header.len() + 1 + payload.len()];
        Ok(Self { header, payload, signature, signing_input })
    }

    fn signature(&self) -> Result<Vec<u8>, VerifyError> {
        decode(self.signature)
    }
}

/// What we read of a header. Other members are refused if they are critical and ignored if not.
#[derive(PartialEq, Eq)]
struct Header {
    algorithm: Algorithm,
    kid: Option<String>,
    typ: Option<String>,
    /// How many members it has in all.
    len: usize,
}

impl Header {
    fn read(segment: &str) -> Result<Self, VerifyError> {
        let header = json::parse_object(&decode(segment)?).map_err(VerifyError::Header)?;
        if header.contains_key("enc") {
            return Err(VerifyError::Encrypted);
        }
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err(VerifyError::Critical);
        }
        let algorithm = text(&header, "alg")?.ok_or(VerifyError::HeaderMember("alg"))?;
        Ok(Self {
            algorithm: algorithm.parse().map_err(|_| VerifyError::AlgorithmNotAllowed)?,
            kid: text(&header, "kid")?.map(str::to_owned),
            typ: text(&header, "typ")?.map(str::to_owned),
            len: header.len(),
        })
    }
}

fn text<'a>(header: &'a Map<String, Value>, name: &'static str) -> Result<Option<&'a str>, VerifyError> {
    match header.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or(VerifyError::HeaderMember(name)),
    }
}

/// Strict: no padding, no white space, no loose bits, so that one token has one spelling.
fn decode(segment: &str) -> Result<Vec<u8>, VerifyError> {
    URL_SAFE_NO_PAD.decode(segment).map_err(|_| VerifyError::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_reasons_is_whole() {
        use VerifyError::*;
        // Does not compile when a variant is new, so that the lists cannot be forgotten.
        match Shape {
            TooLong | Shape | Encrypted | Encoding | Header(_) | HeaderMember(_) | AlgorithmNotAllowed
            | Critical | AlgorithmMismatch | UnknownKid | KidMismatch | DetachedHeader | Signature
            | KeyUnfit => {}
        }
        let all = [
            TooLong,
            Shape,
            Encrypted,
            Encoding,
            Header(JsonError::Syntax { line: 1, column: 1 }),
            HeaderMember("alg"),
            AlgorithmNotAllowed,
            Critical,
            AlgorithmMismatch,
            UnknownKid,
            KidMismatch,
            DetachedHeader,
            Signature,
            KeyUnfit,
        ];
        assert_eq!(all.map(|error| error.reason()), VerifyError::REASONS);
    }
}
