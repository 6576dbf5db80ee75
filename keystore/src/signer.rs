//! Signs with the parsed key kept for its life.
//!
//! Parsing an RSA key costs more than signing with it (its consistency check, and a new blinding pair at the first
//! signature), so a key is parsed once, by its judge, and a [`Signer`] keeps that. Its JWS header never changes either and is kept encoded. What is left
//! per token is base64 of the payload, the primitive, and one allocation of the exact size.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::jwk::write_json_ascii;
use crate::material::{KeyError, KeyPair, PrivateKey};
use crate::verify::Verifier;
use crate::{Algorithm, KeyId};

/// A parsed private key with its JWS header prebuilt. `Debug` shows algorithm and kid.
pub struct Signer {
    pair: Arc<KeyPair>,
    algorithm: Algorithm,
    kid: KeyId,
    /// base64url of `{"alg":…,"kid":…,"typ":"JWT"}`, and the dot.
    prefix: String,
    random: SystemRandom,
}

impl Signer {
    /// Takes the pair that the judge has parsed, signs a probe with `algorithm` and verifies it.
    ///
    /// # Errors
    /// [`KeyError::AlgorithmUnfit`] if a key of this kind cannot sign so, [`KeyError::Probe`] if what it signs does not
    /// verify.
    pub fn new(key: &PrivateKey, algorithm: Algorithm, kid: KeyId) -> Result<Self, KeyError> {
        if key.key_type() != algorithm.key_type() {
            return Err(KeyError::AlgorithmUnfit { key_type: key.key_type(), algorithm });
        }
        let pair = key.pair();
        let mut prefix = String::new();
        URL_SAFE_NO_PAD.encode_string(header(algorithm, &kid, "JWT"), &mut prefix);
        prefix.push('.');
        let signer = Self { pair, algorithm, kid: kid.clone(), prefix, random: SystemRandom::new() };
        let verifier = Verifier::new(key.public(), algorithm, kid).map_err(|_| KeyError::Probe)?;
        signer.probe(&verifier)?;
        Ok(signer)
    }

    /// The kid in the header.
    pub fn kid(&self) -> &KeyId {
        &self.kid
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// A compact JWS over `payload` under the header `{"alg","kid","typ":"JWT"}`.
    ///
    /// Async so that a signer whose key lives elsewhere (an HSM, a KMS) can come without a new signature. This one
    /// never waits: it blocks for the length of one signature (EC, Ed25519: some 20 µs; RSA: up to milliseconds,
    /// so call [`sign_blocking`](Self::sign_blocking) on a pool of its own).
    ///
    /// # Errors
    /// [`SignError`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    #[expect(clippy::unused_async, reason = "a remote signer will wait here")]
    pub async fn sign(&self, payload: &[u8]) -> Result<String, SignError> {
        self.sign_blocking(payload)
    }

    /// As [`sign`](Self::sign), for a thread that may block.
    ///
    /// # Errors
    /// [`SignError`].
    pub fn sign_blocking(&self, payload: &[u8]) -> Result<String, SignError> {
        let signature_len = self.pair.signature_len();
        let len = self.prefix.len() + encoded_len(payload.len()) + 1 + encoded_len(signature_len);
        let mut token = String::with_capacity(len);
        token.push_str(&self.prefix);
        URL_SAFE_NO_PAD.encode_string(payload, &mut token);
        self.append_signature(&mut token)?;
        Ok(token)
    }

    /// Signs under another `typ`, and leaves the payload out (RFC 7515 appendix F): `header..signature`.
    ///
    /// # Errors
    /// [`SignError`].
    pub fn sign_detached(&self, typ: &str, payload: &[u8]) -> Result<String, SignError> {
        let mut token = URL_SAFE_NO_PAD.encode(header(self.algorithm, &self.kid, typ));
        token.push('.');
        let payload_at = token.len();
        URL_SAFE_NO_PAD.encode_string(payload, &mut token);
        let payload_end = token.len();
        self.append_signature(&mut token)?;
        token.replace_range(payload_at..payload_end, "");
        Ok(token)
    }

    /// Signs all of `token`, which is a signing input, and appends a dot and the signature.
    fn append_signature(&self, token: &mut String) -> Result<(), SignError> {
        let mut buffer = [0_u8; MAX_SIGNATURE_LEN];
        let signature =
            self.pair.sign(self.algorithm, &self.random, token.as_bytes(), &mut buffer).ok_or(SignError)?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, token);
        Ok(())
    }

    fn probe(&self, verifier: &Verifier) -> Result<(), KeyError> {
        let token = self.sign_detached(PROBE_TYP, PROBE).map_err(|SignError| KeyError::Probe)?;
        verifier.verify_detached(&token, PROBE_TYP, PROBE).map_err(|_| KeyError::Probe)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({}, {})", self.algorithm, self.kid)
    }
}

/// The primitive refused to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature primitive failed")]
pub struct SignError;

fn header(algorithm: Algorithm, kid: &KeyId, typ: &str) -> String {
    let mut header = format!(r#"{{"alg":"{algorithm}","kid":"#);
    write_json_ascii(&mut header, kid.as_str());
    header.push_str(r#","typ":"#);
    write_json_ascii(&mut header, typ);
    header.push('}');
    header
}

/// Length of unpadded base64.
fn encoded_len(octets: usize) -> usize {
    (octets * 4).div_ceil(3)
}

/// RSA of 8192 bits, the largest key that is loaded.
const MAX_SIGNATURE_LEN: usize = crate::jwk::RSA_MAX_BITS / 8;

/// Never the `typ` of anything that is taken as a token.
const PROBE_TYP: &str = "oneseal-probe+jws";
const PROBE: &[u8] = b"oneseal signs this to see whether the key works";
