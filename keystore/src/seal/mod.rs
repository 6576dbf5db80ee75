//! Private halves sealed at rest: a compact JWE (RFC 7516) under a key-encryption key.
//!
//! A sealed half says in its protected header, which the cipher authenticates, whose half it is: its purpose, the kid
//! and algorithm of its key, and the issuer. It is opened for exactly that and nothing else, so that whoever can write
//! the store but has no KEK cannot put one key's half in another's place, nor that of one issuer into another's ring.
//!
//! ```text
//! {"alg":"A256KW","cty":"jwk+json","enc":"A256GCM","iss":"https://…","key_alg":"RS256","key_kid":"…",
//!  "kid":"<KEK id>","purpose":"signing"}
//! ```
//! Those members and no others: `zip`, `crit`, `p2c`, `epk` and the like are refused on sight, and so are `dir` and the
//! other algorithms. All of it is judged here, before the library that decrypts ([`jwe`], behind the feature `seal`)
//! sees a byte.
//!
//! The form is pinned for ever by a golden file: what is sealed today must open in every later version.

mod codes;
#[cfg(feature = "seal")]
mod jwe;
mod kek;
#[cfg(feature = "seal")]
mod recipient;
mod source;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

pub use self::codes::CODES;
pub(crate) use self::codes::{KEK_PREVIOUS_NEEDED, KEK_PREVIOUS_UNNEEDED};
pub use self::kek::{Kek, KekError, Keks};
#[cfg(feature = "seal")]
pub use self::recipient::{Recipient, RecipientError};
pub(crate) use self::source::{judge_neighbours, load, load_each};
use crate::{Algorithm, IssuerUrl, KeyId, json};

/// What a private half is for. One sealed for the one purpose is never opened for the other: a signing key's half put
/// in the ring key's place would let whoever stole that key write the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Signs tokens.
    Signing,
    /// Signs the ring document.
    Ring,
}

impl Purpose {
    /// Its name in the protected header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signing => "signing",
            Self::Ring => "ring",
        }
    }
}

/// Whose private half it is: what is sealed is opened for this alone.
#[derive(Clone, Copy, Debug)]
pub struct SealedFor<'a> {
    /// What the key is for.
    pub purpose: Purpose,
    /// The kid under which the ring has it.
    pub key_kid: &'a KeyId,
    /// The algorithm of the key.
    pub key_alg: Algorithm,
    /// The issuer of the ring.
    pub issuer: &'a IssuerUrl,
}

/// Why a private half was not sealed or not opened. Quotes nothing that was sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// It is no JWE of ours.
    #[error("the sealed half is malformed: {0}")]
    Malformed(&'static str),
    /// Its protected header asks for something that is never done.
    #[error("the sealed half is refused: {0}")]
    Refused(&'static str),
    /// It is sealed for something else.
    #[error("the sealed half is another's: its {member} is not that of this key")]
    Another {
        /// The member of the protected header that differs.
        member: &'static str,
    },
    /// It is sealed under a KEK that is not here.
    #[error("the half is sealed under the KEK {kek}, which is not configured here")]
    OtherKek {
        /// The id of that KEK, 32 hex digits.
        kek: String,
    },
    /// Nobody gave a KEK.
    #[error("the half is sealed under the KEK {kek}, and no KEK is configured here")]
    NoKek {
        /// The id of the KEK that would open it, 32 hex digits.
        kek: String,
    },
    /// The cipher does not vouch for it: it was altered, or made without the KEK whose id it bears.
    #[error("the sealed half does not open: it was altered, or not made with the KEK that it names")]
    Unopened,
    /// This build cannot.
    #[error("this build of oneseal cannot seal or open: it was made without the feature `seal`")]
    NotBuilt,
    /// The primitive failed.
    #[error("the private half could not be sealed")]
    Failed,
}

/// The id of the KEK that a sealed half names, if what names it has the form of one.
///
/// # Errors
/// The text is no sealed half.
pub fn kek_of(jwe: &str) -> Result<String, SealError> {
    let header = protected_header(jwe)?;
    kek_id(&header).map(str::to_owned)
}

/// Judges everything that can be judged without a key: form, size, and a protected header that is exactly ours.
///
/// # Errors
/// What is wrong with it. The order is: form, algorithms, whose it is, under which KEK.
fn judge(jwe: &str, expected: &SealedFor<'_>, kek: &str) -> Result<(), SealError> {
    let header = protected_header(jwe)?;
    let found = kek_id(&header)?;
    for (member, value) in [
        ("purpose", expected.purpose.as_str()),
        ("key_kid", expected.key_kid.as_str()),
        ("key_alg", expected.key_alg.as_str()),
        ("iss", expected.issuer.as_str()),
    ] {
        if header.get(member).and_then(Value::as_str) != Some(value) {
            return Err(SealError::Another { member });
        }
    }
    if found != kek {
        return Err(SealError::OtherKek { kek: found.to_owned() });
    }
    Ok(())
}

/// The protected header of a sealed half, its members in the order in which they are written.
#[cfg_attr(not(feature = "seal"), expect(dead_code, reason = "only what seals writes it"))]
fn header_for(sealed_for: &SealedFor<'_>, kek: &str) -> Map<String, Value> {
    let members = [
        ("alg", ALG),
        ("cty", CTY),
        ("enc", ENC),
        ("iss", sealed_for.issuer.as_str()),
        ("key_alg", sealed_for.key_alg.as_str()),
        ("key_kid", sealed_for.key_kid.as_str()),
        ("kid", kek),
        ("purpose", sealed_for.purpose.as_str()),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

/// The header of a text that has the form of a sealed half: five parts of the lengths they must have, canonical
/// base64url, our algorithms, our members.
fn protected_header(jwe: &str) -> Result<Map<String, Value>, SealError> {
    if jwe.len() > MAX_LEN {
        return Err(SealError::Malformed("it is longer than any private key"));
    }
    let parts: Vec<_> = jwe.split('.').collect();
    let [header, key, iv, text, tag] = parts.as_slice() else {
        return Err(SealError::Malformed("a compact JWE has five parts"));
    };
    // Strict: no padding, no bits left over, so that one sealed half has one spelling.
    let decode = |part: &str| {
        URL_SAFE_NO_PAD.decode(part).map_err(|_| SealError::Malformed("a part is not canonical base64url"))
    };
    let header = json::parse_object(&decode(header)?)
        .map_err(|_| SealError::Malformed("its protected header is no JSON object of distinct members"))?;
    for (name, wanted, other) in [
        ("alg", ALG, "its `alg` is not A256KW"),
        ("enc", ENC, "its `enc` is not A256GCM"),
        ("cty", CTY, "its `cty` is not jwk+json"),
    ] {
        if header.get(name).and_then(Value::as_str) != Some(wanted) {
            return Err(SealError::Refused(other));
        }
    }
    if header.contains_key("zip") {
        return Err(SealError::Refused("it is compressed, and nothing is inflated"));
    }
    if header.keys().any(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(SealError::Refused("its protected header has a member that is none of ours"));
    }
    let (key, iv, text, tag) = (decode(key)?, decode(iv)?, decode(text)?, decode(tag)?);
    if key.len() != WRAPPED_LEN || iv.len() != IV_LEN || tag.len() != TAG_LEN || text.is_empty() {
        return Err(SealError::Malformed("a part has not the length that it must have"));
    }
    Ok(header)
}

fn kek_id(header: &Map<String, Value>) -> Result<&str, SealError> {
    let id = header.get("kid").and_then(Value::as_str).unwrap_or_default();
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if id.len() != kek::ID_LEN * 2 || !id.bytes().all(is_hex) {
        return Err(SealError::Malformed("its `kid` is not the id of a KEK"));
    }
    Ok(id)
}

const ALG: &str = "A256KW";
const ENC: &str = "A256GCM";
const CTY: &str = "jwk+json";
const MEMBERS: [&str; 8] = ["alg", "cty", "enc", "iss", "key_alg", "key_kid", "kid", "purpose"];
/// A content key of 32 bytes, wrapped (RFC 3394 section 2.2).
const WRAPPED_LEN: usize = 40;
/// RFC 7518 section 5.3.
const IV_LEN: usize = 12;
const TAG_LEN: usize = 16;
/// The private JWK of an RSA key of 8192 bits has some 6.5 KiB, and base64 makes 8.7 of it; then the header.
const MAX_LEN: usize = 16 * 1024;

#[cfg(all(test, feature = "seal"))]
mod tests;
