//! Private key material: read, judged, generated.
//!
//! The route is `parse`: [`form`] finds what the bytes are (PEM, DER, JWK, base64 of these), [`der`] and
//! [`private_jwk`] read components, [`encrypted`] opens what a passphrase closes, [`judge`] decides whether they are a key. Nothing else can make a
//! [`PrivateKey`] but [`generate`], whose keys go through the same judge.
//!
//! The form is told by content, not by file name or PEM label: half the world's labels are wrong, and a key that
//! passes the judge is a key. Around a PEM block everything is allowed, inside it nothing.

mod codes;
mod der;
mod encrypted;
mod error;
mod form;
mod generate;
mod judge;
mod leaked;
mod member;
mod pair;
mod passphrase;
mod pem;
mod private_jwk;
mod seen;

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

pub use codes::CODES;
pub(crate) use codes::{ENCRYPTED, PASSPHRASE_UNUSED, WRONG_PASSPHRASE};
pub(crate) use encrypted::Opener;
pub use error::KeyError;
pub(crate) use form::base64;
pub(crate) use generate::{DEFAULT_RSA_BITS, GENERATED_RSA_BITS};
pub use generate::{generate, generate_rsa};
pub(crate) use judge::published_half;
pub(crate) use member::member;
pub(crate) use pair::KeyPair;
pub use passphrase::Passphrase;
pub use seen::form_of;
pub(crate) use seen::{is_encoded, is_key_like};

use crate::findings::Findings;
use crate::{Algorithm, KeyType, PublicKey};

/// A private key, parsed and judged, with its public half derived. `Debug` shows kind and thumbprint.
///
/// It is neither `Clone` nor comparable, and its components are wiped when it is dropped:
/// ```compile_fail,E0599
/// # fn twice(key: oneseal_keystore::material::PrivateKey) -> (impl Sized, impl Sized) {
/// (key.clone(), key)
/// # }
/// ```
pub struct PrivateKey {
    secret: Secret,
    /// As the judge has built and probed it: parsing an RSA key again would cost milliseconds of each start.
    pair: Arc<KeyPair>,
    public: PublicKey,
    declared_algorithm: Option<Algorithm>,
}

impl PrivateKey {
    /// Reads PEM or DER of PKCS#8, PKCS#1 or SEC1, a private JWK, or a JWKS with one private key.
    ///
    /// PEM may have any newlines, a byte order mark, indentation, text, certificates and public keys around it,
    /// may be quoted, stand on one line, or have its newlines written `\n`. PEM, DER and JWK may be wrapped in
    /// base64 once. The same key in any form has the same thumbprint.
    ///
    /// # Errors
    /// A [`KeyError`] that says what the bytes are instead; never any part of them.
    pub fn parse(value: &[u8]) -> Result<Self, KeyError> {
        form::read(value, None)
    }

    /// [`parse`](Self::parse), and encrypted PKCS#8 (PBES2, RFC 8018 section 6.2: PBKDF2 or scrypt, AES) with its
    /// `passphrase`. Deriving from it takes up to about a second and 64 MiB; a key that asks for more is refused
    /// before any work is done. Not for an async worker.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and [`KeyError::WrongPassphrase`].
    pub fn parse_with(value: &[u8], passphrase: &Passphrase) -> Result<Self, KeyError> {
        form::read(value, Some(&Opener::new(passphrase)))
    }

    /// As [`parse`](Self::parse) or [`parse_with`](Self::parse_with), for one of several keys that share an opener.
    pub(crate) fn parse_opened_by(value: &[u8], opener: Option<&Opener<'_>>) -> Result<Self, KeyError> {
        form::read(value, opener)
    }

    /// Its kind.
    pub fn key_type(&self) -> KeyType {
        self.public.key_type()
    }

    /// The derived public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The primitive's parsed key.
    pub(crate) fn pair(&self) -> Arc<KeyPair> {
        Arc::clone(&self.pair)
    }

    /// The algorithm named by a JWK's `alg`, if it came from one that says.
    pub fn declared_algorithm(&self) -> Option<Algorithm> {
        self.declared_algorithm
    }

    /// What is worth knowing of a key that is taken all the same, said of `place`.
    pub fn warnings(&self, place: &str) -> Findings {
        let mut findings = Findings::new();
        if let Some(bits) = self.public.rsa_bits().filter(|bits| *bits > RSA_LARGE_BITS) {
            findings.push(&codes::RSA_LARGE, place, format!("an RSA key of {bits} bits"));
        }
        findings
    }

    /// The private JWK as JSON text without white space, members in the order `kty, crv, n, e, x, y, d, p, q, dp,
    /// dq, qi`: the one door through which a ring document gets private material.
    pub fn expose_jwk(&self) -> Zeroizing<String> {
        private_jwk::write(&self.public, &self.secret)
    }

    /// The same with the members `kid`, `alg` and `use` behind them: what leaves for a recipient who has nothing else.
    #[cfg(feature = "seal")]
    pub(crate) fn expose_named_jwk(&self, kid: &crate::KeyId, algorithm: Algorithm) -> Zeroizing<String> {
        private_jwk::named(&self.expose_jwk(), kid, algorithm)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({}, {})", self.key_type(), self.public.thumbprint())
    }
}

/// The private components.
enum Secret {
    /// Boxed: it is much larger than the others.
    Rsa(Box<RsaSecret>),
    /// The scalar, of the curve's full length.
    Ec(Zeroizing<Vec<u8>>),
    /// The seed (RFC 8032 section 5.1.5).
    Ed25519(Zeroizing<[u8; 32]>),
}

/// RFC 8017 section 3.2, big-endian, without leading zero octets.
struct RsaSecret {
    d: Zeroizing<Vec<u8>>,
    p: Zeroizing<Vec<u8>>,
    q: Zeroizing<Vec<u8>>,
    dp: Zeroizing<Vec<u8>>,
    dq: Zeroizing<Vec<u8>>,
    qi: Zeroizing<Vec<u8>>,
}

/// Above it each signature costs milliseconds, and every token half a kilobyte.
const RSA_LARGE_BITS: usize = 4096;
