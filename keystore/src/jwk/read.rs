//! Reads public JWKs: parameters alone, and whole entries of somebody's JWKS.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::{Curve, Exponents, JwkError, PublicKey, RSA_MAX_BITS};
use crate::Algorithm;
use crate::weakness;

/// One entry of a JWKS as its issuer wrote it: the key, and what it says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicJwk {
    /// The parameters.
    pub key: PublicKey,
    /// `alg`. Many issuers leave it out: then the kind of key and the verifier's own list decide.
    pub algorithm: Option<Algorithm>,
    /// `kid`, any non-empty text.
    pub kid: Option<String>,
    /// `use`.
    pub public_key_use: Option<String>,
    /// `key_ops`.
    pub key_ops: Option<Vec<String>>,
}

impl PublicJwk {
    /// Reads one entry of a foreign JWKS (RFC 7517 section 4).
    ///
    /// # Errors
    /// A [`JwkError`]. A reader of many keys drops the entry and keeps the rest (RFC 7517 section 5).
    pub fn from_json(entry: &Value) -> Result<Self, JwkError> {
        let jwk = entry.as_object().ok_or(JwkError::NotAnObject)?;
        let key = PublicKey::from_foreign_jwk(jwk)?;
        let kid = text(jwk, "kid")?.map(str::to_owned);
        if kid.as_deref() == Some("") {
            return Err(JwkError::KeyId);
        }
        Ok(Self {
            algorithm: algorithm(jwk, &key)?,
            kid,
            public_key_use: text(jwk, "use")?.map(str::to_owned),
            key_ops: key_ops(jwk)?,
            key,
        })
    }

    /// Whether its issuer lets it verify signatures: `use` is `sig` or absent, `key_ops` has `verify` or is absent.
    pub fn may_verify(&self) -> bool {
        let by_use = self.public_key_use.as_deref().is_none_or(|word| word == "sig");
        let by_ops = self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        by_use && by_ops
    }
}

/// Reads the parameters and refuses private ones.
pub(super) fn public_key(jwk: &Map<String, Value>, exponents: Exponents) -> Result<PublicKey, JwkError> {
    if let Some(name) = PRIVATE_MEMBERS.into_iter().find(|name| jwk.contains_key(*name)) {
        let symmetric = name == "k" && jwk.get("kty").and_then(Value::as_str) == Some("oct");
        return Err(if symmetric { JwkError::Symmetric } else { JwkError::PrivateMember(name) });
    }
    match required(jwk, "kty")? {
        "RSA" => rsa(jwk, exponents),
        "EC" => ec(jwk),
        "OKP" => okp(jwk),
        "oct" => Err(JwkError::Symmetric),
        _ => Err(JwkError::UnknownKeyType),
    }
}

fn rsa(jwk: &Map<String, Value>, exponents: Exponents) -> Result<PublicKey, JwkError> {
    let n = octets(jwk, "n", RSA_MAX_BITS / 8 * 4)?;
    let e = octets(jwk, "e", RSA_MAX_BITS / 8)?;
    for (name, value) in [("n", &n), ("e", &e)] {
        // RFC 7518 section 6.3.1.1: "the minimum number of octets".
        if value.first().is_none_or(|first| *first == 0) {
            return Err(JwkError::Length(name));
        }
    }
    let key = PublicKey::rsa(&n, &e, exponents)?;
    weakness::of_modulus(&n).map_or(Ok(()), Err)?;
    // Of a key of ours the factors are at hand, or the ring asks for itself.
    if exponents == Exponents::Foreign {
        weakness::of_unfactored_modulus(&n).map_or(Ok(()), Err)?;
    }
    Ok(key)
}

fn ec(jwk: &Map<String, Value>) -> Result<PublicKey, JwkError> {
    let curve = match required(jwk, "crv")? {
        "P-256" => Curve::P256,
        "P-384" => Curve::P384,
        _ => return Err(JwkError::UnknownCurve),
    };
    let coordinate = |name| {
        let value = octets(jwk, name, curve.field_len())?;
        if value.len() == curve.field_len() { Ok(value) } else { Err(JwkError::Length(name)) }
    };
    PublicKey::ec(curve, &coordinate("x")?, &coordinate("y")?)
}

fn okp(jwk: &Map<String, Value>) -> Result<PublicKey, JwkError> {
    if required(jwk, "crv")? != "Ed25519" {
        return Err(JwkError::UnknownCurve);
    }
    let x = octets(jwk, "x", 32)?;
    PublicKey::ed25519(x.try_into().map_err(|_| JwkError::Length("x"))?)
}

fn algorithm(jwk: &Map<String, Value>, key: &PublicKey) -> Result<Option<Algorithm>, JwkError> {
    let Some(name) = text(jwk, "alg")? else { return Ok(None) };
    let algorithm: Algorithm = name.parse().map_err(|_| JwkError::UnknownAlgorithm)?;
    if algorithm.key_type() != key.key_type() {
        return Err(JwkError::AlgorithmUnfit);
    }
    Ok(Some(algorithm))
}

fn key_ops(jwk: &Map<String, Value>) -> Result<Option<Vec<String>>, JwkError> {
    let wrong = JwkError::WrongType("key_ops");
    let Some(value) = jwk.get("key_ops") else { return Ok(None) };
    let ops = value.as_array().ok_or(wrong.clone())?;
    ops.iter()
        .map(|op| op.as_str().map(str::to_owned).ok_or(wrong.clone()))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn required<'a>(jwk: &'a Map<String, Value>, name: &'static str) -> Result<&'a str, JwkError> {
    text(jwk, name)?.ok_or(JwkError::Missing(name))
}

fn text<'a>(jwk: &'a Map<String, Value>, name: &'static str) -> Result<Option<&'a str>, JwkError> {
    match jwk.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or(JwkError::WrongType(name)),
    }
}

/// A base64url member of at most `longest` octets: more is not decoded.
fn octets(jwk: &Map<String, Value>, name: &'static str, longest: usize) -> Result<Vec<u8>, JwkError> {
    let text = required(jwk, name)?;
    if text.len() > longest.div_ceil(3) * 4 {
        return Err(JwkError::Length(name));
    }
    URL_SAFE_NO_PAD.decode(text).map_err(|_| JwkError::Encoding(name))
}

/// RFC 7518 sections 6.2.2, 6.3.2 and 6.4.1, RFC 8037 section 2.
const PRIVATE_MEMBERS: [&str; 9] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"];
