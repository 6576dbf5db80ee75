//! To whom a private half may leave: a named recipient's public key, judged, and the JWE (RFC 7516) made for it.
//!
//! ```text
//! {"alg":"RSA-OAEP-256","cty":"jwk+json","enc":"A256GCM","kid":"<recipient>"}
//! {"alg":"ECDH-ES+A256KW","cty":"jwk+json","enc":"A256GCM","epk":{…},"kid":"<recipient>"}
//! ```
//! The content key is ours and is wrapped here by aws-lc, so that it can be wiped; the library that writes the JWE is
//! handed the result.

use aws_lc_rs::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use aws_lc_rs::kdf::{SskdfDigestAlgorithmId, get_sskdf_digest_algorithm, sskdf_digest};
use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrap};
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::rsa::{OAEP_SHA256_MGF1SHA256, OaepPublicEncryptingKey, PublicEncryptingKey};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{CTY, ENC, SealError, WRAPPED_LEN, jwe};
use crate::jwk::{Curve, JwkError};
use crate::material::form_of;
use crate::{KeyId, KeyType, PublicKey, json};

/// The public key of whoever may open what is sealed to it: RSA of 2048 to 8192 bits, or EC on P-256 or P-384.
#[derive(Clone, Debug)]
pub struct Recipient {
    public: PublicKey,
    kid: KeyId,
}

impl Recipient {
    /// The longest text that is read, in bytes.
    pub const MAX_LEN: usize = 64 * 1024;

    /// Reads one public JWK (RFC 7517 section 4). Its `use`, `key_ops` and `alg` must allow what is done with it, where
    /// they are there.
    ///
    /// # Errors
    /// What it is instead, or why nothing is sealed to it; never any part of it but the names of its members.
    pub fn parse(text: &[u8]) -> Result<Self, RecipientError> {
        if text.len() > Self::MAX_LEN {
            return Err(RecipientError::TooLong);
        }
        let jwk = json::parse_object(text).map_err(|_| RecipientError::NoJwk { form: form_of(text) })?;
        if jwk.contains_key("keys") {
            return Err(RecipientError::KeySet);
        }
        if jwk.get("kty").and_then(Value::as_str) == Some("OKP") {
            return Err(RecipientError::Kind);
        }
        let public = PublicKey::from_foreign_jwk(&jwk).map_err(|error| match error {
            JwkError::PrivateMember(member) => RecipientError::Private { member },
            JwkError::UnknownKeyType | JwkError::UnknownCurve => RecipientError::Kind,
            other => RecipientError::Jwk(other),
        })?;
        let wrapping = Wrapping::of(&public)?;
        check_purpose(&jwk, wrapping)?;
        let kid = match jwk.get("kid") {
            None => public.thumbprint(),
            Some(Value::String(kid)) => KeyId::parse(kid).map_err(RecipientError::Jwk)?,
            Some(_) => return Err(RecipientError::Jwk(JwkError::WrongType("kid"))),
        };
        Ok(Self { public, kid })
    }

    /// What the header names it by: its own `kid`, else the thumbprint.
    pub fn kid(&self) -> &KeyId {
        &self.kid
    }

    /// RFC 7638, over SHA-256: what its holder can compare.
    pub fn thumbprint(&self) -> KeyId {
        self.public.thumbprint()
    }

    /// The key itself.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// How the content key is wrapped: the header's `alg`.
    pub fn algorithm(&self) -> &'static str {
        Wrapping::of(&self.public).map_or("", Wrapping::alg)
    }

    /// Encrypts the text of a private JWK so that this recipient alone can read it.
    pub(crate) fn seal(&self, jwk: &Zeroizing<String>) -> Result<String, SealError> {
        let wrapping = Wrapping::of(&self.public).map_err(|_| SealError::Failed)?;
        let mut content_key = Zeroizing::new([0; KEY_LEN]);
        rand::fill(&mut *content_key).map_err(|_| SealError::Failed)?;
        let mut header = Map::new();
        for (name, value) in [("alg", wrapping.alg()), ("cty", CTY), ("enc", ENC)] {
            header.insert(name.to_owned(), value.into());
        }
        let wrapped = match wrapping {
            Wrapping::RsaOaep256 => oaep(&self.public, &content_key),
            Wrapping::EcdhEs(curve) => {
                let (epk, wrapped) = ecdh(curve, &self.public, &content_key).ok_or(SealError::Failed)?;
                header.insert("epk".to_owned(), Value::Object(epk));
                Some(wrapped)
            }
        };
        header.insert("kid".to_owned(), self.kid.as_str().into());
        let wrapped = wrapped.ok_or(SealError::Failed)?;
        jwe::encrypt_wrapped(header, jwk.as_bytes(), content_key, wrapped)
    }
}

/// Why nothing is sealed to a key. Names members, never their values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipientError {
    /// No JSON object.
    #[error(
        "it is no public JWK but {form}: ask the recipient for the public half of an RSA or EC key as a JWK"
    )]
    NoJwk {
        /// What it looks like.
        form: String,
    },
    /// Longer than any key.
    #[error("it is longer than any public key")]
    TooLong,
    /// More than one key, or one in a set.
    #[error("it is a key set: take the one key out of `keys` that is to open the export")]
    KeySet,
    /// Whoever reads the recipient's file could open the export.
    #[error(
        "it holds the private half as well (`{member}`): whoever has this file, and every place that it went through, \
         could open the export. Ask the recipient for the public half alone, of a key that never left them"
    )]
    Private {
        /// The member that tells.
        member: &'static str,
    },
    /// A kind that nothing is sealed to.
    #[error("nothing is sealed to a key of its kind: RSA from 2048 bits, or EC on P-256 or P-384, is wanted")]
    Kind,
    /// It is for something else.
    #[error("its `{member}` does not allow {wanted}: ask the recipient for a key made for encryption")]
    Purpose {
        /// The member that forbids it.
        member: &'static str,
        /// What it would have to allow.
        wanted: &'static str,
    },
    /// Faulty or weak.
    #[error("it is refused: {0}")]
    Jwk(JwkError),
}

/// How the content key goes to a key of one kind.
#[derive(Clone, Copy)]
enum Wrapping {
    /// RFC 7518 section 4.3.
    RsaOaep256,
    /// RFC 7518 section 4.6.
    EcdhEs(Curve),
}

impl Wrapping {
    fn of(public: &PublicKey) -> Result<Self, RecipientError> {
        match public.key_type() {
            KeyType::Rsa => Ok(Self::RsaOaep256),
            KeyType::P256 => Ok(Self::EcdhEs(Curve::P256)),
            KeyType::P384 => Ok(Self::EcdhEs(Curve::P384)),
            KeyType::Ed25519 => Err(RecipientError::Kind),
        }
    }

    fn alg(self) -> &'static str {
        match self {
            Self::RsaOaep256 => RSA_OAEP_256,
            Self::EcdhEs(_) => ECDH_ES_A256KW,
        }
    }

    /// The operations of RFC 7517 section 4.3 that its recipient may have named for it.
    fn operations(self) -> &'static [&'static str] {
        match self {
            Self::RsaOaep256 => &["wrapKey", "encrypt"],
            Self::EcdhEs(_) => &["deriveKey", "deriveBits"],
        }
    }
}

/// A key that says that it signs, or decrypts by an algorithm that is not ours, is not for this.
fn check_purpose(jwk: &Map<String, Value>, wrapping: Wrapping) -> Result<(), RecipientError> {
    let refuse = |member, wanted| Err(RecipientError::Purpose { member, wanted });
    if jwk.get("use").is_some_and(|word| word != "enc") {
        return refuse("use", "enc");
    }
    if jwk.get("alg").is_some_and(|alg| alg != wrapping.alg()) {
        return refuse("alg", wrapping.alg());
    }
    let Some(operations) = jwk.get("key_ops") else { return Ok(()) };
    let named = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    let fits = |name: &Value| name.as_str().is_some_and(|name| wrapping.operations().contains(&name));
    if named.iter().any(fits) { Ok(()) } else { refuse("key_ops", wrapping.operations()[0]) }
}

fn oaep(public: &PublicKey, content_key: &[u8; KEY_LEN]) -> Option<Vec<u8>> {
    let key = OaepPublicEncryptingKey::new(PublicEncryptingKey::from_der(&public.spki_der()).ok()?).ok()?;
    let mut wrapped = vec![0; key.ciphertext_size()];
    let written = key.encrypt(&OAEP_SHA256_MGF1SHA256, content_key, &mut wrapped, None).ok()?.len();
    (written == wrapped.len()).then_some(wrapped)
}

/// Agrees with an ephemeral key, and returns that as `epk` beside the content key wrapped under what was agreed.
fn ecdh(
    curve: Curve,
    public: &PublicKey,
    content_key: &[u8; KEY_LEN],
) -> Option<(Map<String, Value>, Vec<u8>)> {
    let algorithm = match curve {
        Curve::P256 => &agreement::ECDH_P256,
        Curve::P384 => &agreement::ECDH_P384,
    };
    let ephemeral = EphemeralPrivateKey::generate(algorithm, &SystemRandom::new()).ok()?;
    let point = ephemeral.compute_public_key().ok()?;
    let (x, y) = point.as_ref().get(1..)?.split_at_checked(curve.field_len())?;
    let mut epk = PublicKey::ec(curve, x, y).ok()?.to_jwk_map();
    epk.sort_keys();
    // What SP 800-56A section 5.8.1 calls Concat KDF is the one-step one of SP 800-56C.
    let concat_kdf = get_sskdf_digest_algorithm(SskdfDigestAlgorithmId::Sha256)?;
    let theirs = UnparsedPublicKey::new(algorithm, public.point());
    let wrapped = agree_ephemeral(ephemeral, theirs, (), |agreed| {
        let mut kek = Zeroizing::new([0; KEY_LEN]);
        sskdf_digest(concat_kdf, agreed, &kdf_info(), &mut *kek).map_err(drop)?;
        let mut wrapped = vec![0; WRAPPED_LEN];
        AesKek::new(&AES_256, &*kek)
            .and_then(|kek| kek.wrap(content_key, &mut wrapped).map(drop))
            .map_err(drop)?;
        Ok(wrapped)
    });
    Some((epk, wrapped.ok()?))
}

/// RFC 7518 section 4.6.2: the algorithm, nothing of either party, the bits of the key.
fn kdf_info() -> Vec<u8> {
    let length = |octets: usize| u32::try_from(octets).unwrap_or(u32::MAX).to_be_bytes();
    [
        &length(ECDH_ES_A256KW.len())[..],
        ECDH_ES_A256KW.as_bytes(),
        &length(0),
        &length(0),
        &length(KEY_LEN * 8),
    ]
    .concat()
}

pub(super) const RSA_OAEP_256: &str = "RSA-OAEP-256";
const ECDH_ES_A256KW: &str = "ECDH-ES+A256KW";
/// Of the content key and of the key that wraps it.
const KEY_LEN: usize = 32;
