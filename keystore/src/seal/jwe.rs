//! The one file that uses josekit: encrypts and decrypts a compact JWE (RFC 7516) with A256KW and A256GCM, and encrypts
//! one whose content key was wrapped for a recipient.
//!
//! josekit brings OpenSSL, takes whatever algorithm a header names, inflates what says `zip`, and wipes nothing. So
//! it is given little: a header that `super` has judged first, a content key that we own, and never the KEK, which
//! is wrapped and unwrapped with here by aws-lc. What it decrypts goes into a buffer that is wiped before anyone
//! looks at it.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrap};
use aws_lc_rs::rand;
use josekit::JoseError;
use josekit::jwe::{
    A256KW, ECDH_ES_A256KW, JweAlgorithm, JweContentEncryption, JweDecrypter, JweEncrypter, JweHeader,
    RSA_OAEP_256, deserialize_compact, serialize_compact,
};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{SealError, WRAPPED_LEN, recipient};

/// Encrypts `plaintext` under the protected `header`, whose members are written in their order.
pub(super) fn encrypt(
    header: Map<String, Value>,
    plaintext: &[u8],
    kek: &[u8; KEY_LEN],
) -> Result<String, SealError> {
    let header = JweHeader::from_map(header).map_err(|_| SealError::Failed)?;
    let mut content_key = Zeroizing::new([0; KEY_LEN]);
    rand::fill(&mut *content_key).map_err(|_| SealError::Failed)?;
    let wrapping = Wrapping { kek: Zeroizing::new(*kek), content_key: OnceLock::from(content_key) };
    serialize_compact(plaintext, &header, &wrapping).map_err(|_| SealError::Failed)
}

/// Encrypts `plaintext` with a content key that was wrapped for somebody already, as the protected `header` says.
pub(super) fn encrypt_wrapped(
    header: Map<String, Value>,
    plaintext: &[u8],
    content_key: Zeroizing<[u8; KEY_LEN]>,
    wrapped: Vec<u8>,
) -> Result<String, SealError> {
    let header = JweHeader::from_map(header).map_err(|_| SealError::Failed)?;
    let is_rsa = header.algorithm() == Some(recipient::RSA_OAEP_256);
    let prepared = Prepared { is_rsa, content_key, wrapped };
    serialize_compact(plaintext, &header, &prepared).map_err(|_| SealError::Failed)
}

/// Decrypts a JWE that `super` has judged: nothing else may come here.
pub(super) fn decrypt(jwe: &str, kek: &[u8; KEY_LEN]) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let wrapping = Wrapping { kek: Zeroizing::new(*kek), content_key: OnceLock::new() };
    let (plaintext, _) = deserialize_compact(jwe, &wrapping).map_err(|_| SealError::Unopened)?;
    Ok(Zeroizing::new(plaintext))
}

/// Wraps and unwraps the content key for josekit (RFC 7518 section 4.4), and keeps it: what josekit owns itself is
/// never wiped.
#[derive(Clone)]
struct Wrapping {
    kek: Zeroizing<[u8; KEY_LEN]>,
    content_key: OnceLock<Zeroizing<[u8; KEY_LEN]>>,
}

impl Wrapping {
    fn wrap(&self, content_key: &[u8]) -> Option<Vec<u8>> {
        let mut wrapped = vec![0; WRAPPED_LEN];
        AesKek::new(&AES_256, &*self.kek).ok()?.wrap(content_key, &mut wrapped).ok()?;
        Some(wrapped)
    }

    fn unwrap(&self, wrapped: &[u8]) -> Option<Zeroizing<[u8; KEY_LEN]>> {
        let mut content_key = Zeroizing::new([0; KEY_LEN]);
        let len = AesKek::new(&AES_256, &*self.kek).ok()?.unwrap(wrapped, &mut *content_key).ok()?.len();
        (len == KEY_LEN).then_some(content_key)
    }
}

impl JweEncrypter for Wrapping {
    fn algorithm(&self) -> &dyn JweAlgorithm {
        &*A256KW
    }

    fn key_id(&self) -> Option<&str> {
        None
    }

    fn compute_content_encryption_key(
        &self,
        _: &dyn JweContentEncryption,
        _: &JweHeader,
        _: &mut JweHeader,
    ) -> Result<Option<Cow<'_, [u8]>>, JoseError> {
        Ok(self.content_key.get().map(|key| Cow::Borrowed(key.as_slice())))
    }

    fn encrypt(&self, key: &[u8], _: &JweHeader, _: &mut JweHeader) -> Result<Option<Vec<u8>>, JoseError> {
        self.wrap(key).map(Some).ok_or_else(failed)
    }

    fn box_clone(&self) -> Box<dyn JweEncrypter> {
        Box::new(self.clone())
    }
}

impl JweDecrypter for Wrapping {
    fn algorithm(&self) -> &dyn JweAlgorithm {
        &*A256KW
    }

    fn key_id(&self) -> Option<&str> {
        None
    }

    fn decrypt(
        &self,
        wrapped: Option<&[u8]>,
        _: &dyn JweContentEncryption,
        _: &JweHeader,
    ) -> Result<Cow<'_, [u8]>, JoseError> {
        let content_key = wrapped.and_then(|wrapped| self.unwrap(wrapped)).ok_or_else(failed)?;
        Ok(Cow::Borrowed(self.content_key.get_or_init(|| content_key).as_slice()))
    }

    fn box_clone(&self) -> Box<dyn JweDecrypter> {
        Box::new(self.clone())
    }
}

/// Hands josekit a content key and what it was wrapped into.
#[derive(Clone)]
struct Prepared {
    is_rsa: bool,
    content_key: Zeroizing<[u8; KEY_LEN]>,
    wrapped: Vec<u8>,
}

impl JweEncrypter for Prepared {
    fn algorithm(&self) -> &dyn JweAlgorithm {
        if self.is_rsa { &*RSA_OAEP_256 } else { &*ECDH_ES_A256KW }
    }

    fn key_id(&self) -> Option<&str> {
        None
    }

    fn compute_content_encryption_key(
        &self,
        _: &dyn JweContentEncryption,
        _: &JweHeader,
        _: &mut JweHeader,
    ) -> Result<Option<Cow<'_, [u8]>>, JoseError> {
        Ok(Some(Cow::Borrowed(self.content_key.as_slice())))
    }

    fn encrypt(&self, _: &[u8], _: &JweHeader, _: &mut JweHeader) -> Result<Option<Vec<u8>>, JoseError> {
        Ok(Some(self.wrapped.clone()))
    }

    fn box_clone(&self) -> Box<dyn JweEncrypter> {
        Box::new(self.clone())
    }
}

/// josekit asks for it; it must not show a key.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepared(***)")
    }
}

/// josekit asks for it; it must not show a key.
impl fmt::Debug for Wrapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wrapping(***)")
    }
}

/// In the form that josekit's traits want. Nobody reads it: see [`encrypt`] and [`decrypt`].
fn failed() -> JoseError {
    JoseError::InvalidKeyFormat(fmt::Error.into())
}

/// Of the KEK and of the content key.
const KEY_LEN: usize = 32;
