//! Reads and writes private JWKs (RFC 7517, RFC 7518 sections 6.2.2 and 6.3.2, RFC 8037 section 2).
//!
//! Members are left as JSON text until they are decoded into memory that is wiped: a `serde_json::Value` would
//! leave copies behind.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rsa::BoxedUint;
use rsa::traits::PrivateKeyParts;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::form::two;
use super::judge::{self, RsaParts};
use super::{KeyError, PrivateKey, Secret};
use crate::json;
use crate::jwk::{Curve, JwkError, PublicKey, RSA_MAX_BITS};
use crate::{Algorithm, KeyType};

/// Reads a private JWK, or the one private key of a JWKS.
pub(super) fn read(text: &[u8]) -> Result<PrivateKey, KeyError> {
    let text = str::from_utf8(text).map_err(|_| KeyError::Unrecognised { hint: "the JSON is not UTF-8" })?;
    let object = Members::read(text)?;
    if object.has("kty") {
        return jwk(&object);
    }
    match object.raw("keys") {
        Some(keys) if keys.get().starts_with('[') => jwks(keys),
        // RFC 7516 section 7.2.
        _ if object.has("ciphertext") => {
            Err(KeyError::EncryptionUnsupported { scheme: "a JWE around a JWK".to_owned() })
        }
        _ => Err(KeyError::JsonMembers { members: object.names() }),
    }
}

/// What a JSON text is, for a message.
pub(super) fn form_of(text: &[u8]) -> String {
    let Some(object) = str::from_utf8(text).ok().and_then(|text| Members::read(text).ok()) else {
        return "damaged JSON".to_owned();
    };
    if object.has("kty") {
        let kty = object.text("kty").ok().flatten();
        let known = ["RSA", "EC", "OKP", "oct"]
            .into_iter()
            .find(|known| kty.as_ref().is_some_and(|kty| kty.as_str() == *known));
        let Some(kty) = known else { return "a JWK of an unknown kind".to_owned() };
        let half = if object.has("d") || object.has("k") { "private" } else { "public" };
        return format!("a {half} JWK ({kty})");
    }
    match object.raw("keys").map(|keys| serde_json::from_str::<Vec<&RawValue>>(keys.get())) {
        Some(Ok(keys)) => format!("a JWKS of {} keys", keys.len()),
        _ if object.has("ciphertext") => "a JWE".to_owned(),
        _ => "a JSON object".to_owned(),
    }
}

/// The private JWK as JSON text; see [`PrivateKey::expose_jwk`].
pub(super) fn write(public: &PublicKey, secret: &Secret) -> Zeroizing<String> {
    // Never reallocated, so that no copy of a part stays behind: the largest key has some 4.5 moduli of octets.
    let capacity = 512 + public.rsa_bits().unwrap_or(1024) / 8 * 5 * 4 / 3;
    let mut out = Zeroizing::new(String::with_capacity(capacity));
    out.push('{');
    for (name, value) in public.jwk_members() {
        member(&mut out, name, |out| out.push_str(&value));
    }
    let mut octets =
        |name, octets: &[u8]| member(&mut out, name, |out| URL_SAFE_NO_PAD.encode_string(octets, out));
    match secret {
        Secret::Rsa(rsa) => {
            let parts = [
                ("d", &rsa.d),
                ("p", &rsa.p),
                ("q", &rsa.q),
                ("dp", &rsa.dp),
                ("dq", &rsa.dq),
                ("qi", &rsa.qi),
            ];
            for (name, part) in parts {
                octets(name, part);
            }
        }
        Secret::Ec(scalar) => octets("d", scalar),
        Secret::Ed25519(seed) => octets("d", &**seed),
    }
    out.push('}');
    debug_assert!(out.len() <= capacity, "a reallocation left a copy behind");
    out
}

/// A private JWK with the name and algorithm of its key.
#[cfg(feature = "seal")]
pub(super) fn named(jwk: &str, kid: &crate::KeyId, algorithm: Algorithm) -> Zeroizing<String> {
    // A quote or backslash in a kid is written as two; never reallocated, as above.
    let capacity = jwk.len() + 64 + 2 * crate::KeyId::MAX_LEN;
    let mut out = Zeroizing::new(String::with_capacity(capacity));
    out.push_str(jwk.strip_suffix('}').unwrap_or(jwk));
    out.push_str(",\"kid\":");
    crate::jwk::write_json_ascii(&mut out, kid.as_str());
    member(&mut out, "alg", |out| out.push_str(algorithm.as_str()));
    member(&mut out, "use", |out| out.push_str("sig"));
    out.push('}');
    debug_assert!(out.len() <= capacity, "a reallocation left a copy behind");
    out
}

fn member(out: &mut String, name: &str, value: impl FnOnce(&mut String)) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push('"');
    out.push_str(name);
    out.push_str("\":\"");
    value(out);
    out.push('"');
}

fn jwks(keys: &RawValue) -> Result<PrivateKey, KeyError> {
    let keys: Vec<&RawValue> = serde_json::from_str(keys.get())
        .map_err(|_| KeyError::Unrecognised { hint: "the JWKS has no array `keys`" })?;
    let keys = keys.iter().map(|key| Members::read(key.get())).collect::<Result<Vec<_>, _>>()?;
    let private: Vec<_> = keys.iter().filter(|key| key.has("d") || key.has("k") || key.has("priv")).collect();
    match private.as_slice() {
        [key] => jwk(key),
        [] if keys.is_empty() => Err(KeyError::Empty),
        [] => Err(KeyError::PublicOnly),
        several => Err(two(several.len())),
    }
}

fn jwk(jwk: &Members<'_>) -> Result<PrivateKey, KeyError> {
    let mut key = match jwk.required("kty")?.as_str() {
        "oct" => return Err(KeyError::Symmetric),
        "RSA" | "EC" | "OKP" if !jwk.has("d") => return Err(KeyError::PublicOnly),
        "RSA" => rsa(jwk)?,
        "EC" => ec(jwk)?,
        "OKP" => okp(jwk)?,
        other => return Err(KeyError::UnknownType { kind: shown(other) }),
    };
    for_signing(jwk)?;
    key.declared_algorithm = declared_algorithm(jwk, key.key_type())?;
    Ok(key)
}

fn rsa(jwk: &Members<'_>) -> Result<PrivateKey, KeyError> {
    if jwk.has("oth") {
        return Err(KeyError::RsaMultiPrime);
    }
    let part = |name| jwk.octets(name);
    let (n, e, d) = (part("n")?, part("e")?, part("d")?);
    let crt = ["p", "q", "dp", "dq", "qi"];
    if !crt.iter().any(|name| jwk.has(name)) {
        return rsa_without_primes(&n, &e, &d);
    }
    // RFC 7518 section 6.3.2: one of them present, all present.
    let [p, q, dp, dq, qi] = crt.map(part);
    judge::rsa(&RsaParts { n: &n, e: &e, d: &d, p: &p?, q: &q?, dp: &dp?, dq: &dq?, qi: &qi? })
}

/// Recovers the primes (NIST SP 800-56B appendix C.2), since a signature without them takes three times as long.
fn rsa_without_primes(n: &[u8], e: &[u8], d: &[u8]) -> Result<PrivateKey, KeyError> {
    // Bounds first: what is out of them is not worth the arithmetic.
    PublicKey::rsa(n, e, crate::jwk::Exponents::Ours)?;
    let (n, d) = (crate::jwk::minimal(n), crate::jwk::minimal(d));
    if d.is_empty() || d.len() > n.len() {
        return Err(KeyError::RsaInconsistent);
    }
    let uint = BoxedUint::from_be_slice_vartime;
    let key = rsa::PrivateKey::from_components(uint(n), uint(e), uint(d), Vec::new())
        .map_err(|_| KeyError::RsaInconsistent)?;
    let octets = |value: &BoxedUint| Zeroizing::new(value.to_be_bytes().to_vec());
    let [p, q] = key.primes() else { return Err(KeyError::RsaInconsistent) };
    let (Some(dp), Some(dq), Some(qi)) = (key.dp(), key.dq(), key.crt_coefficient()) else {
        return Err(KeyError::RsaInconsistent);
    };
    judge::rsa(&RsaParts {
        n,
        e,
        d,
        p: &octets(p.as_ref()),
        q: &octets(q.as_ref()),
        dp: &octets(dp),
        dq: &octets(dq),
        qi: &octets(&qi),
    })
}

fn ec(jwk: &Members<'_>) -> Result<PrivateKey, KeyError> {
    let curve = match jwk.required("crv")?.as_str() {
        "P-256" => Curve::P256,
        "P-384" => Curve::P384,
        other => return Err(KeyError::UnknownCurve { curve: shown(other) }),
    };
    let public = jwk.public()?;
    let scalar = jwk.octets("d")?;
    if scalar.len() != curve.field_len() {
        return Err(KeyError::MalformedJwk(JwkError::Length("d")));
    }
    judge::ec(curve, &scalar, Some(&public.point()))
}

fn okp(jwk: &Members<'_>) -> Result<PrivateKey, KeyError> {
    let curve = jwk.required("crv")?;
    if curve.as_str() != "Ed25519" {
        return Err(KeyError::UnknownCurve { curve: shown(&curve) });
    }
    let public = jwk.public()?;
    let seed = jwk.octets("d")?;
    if seed.len() != 32 {
        return Err(KeyError::MalformedJwk(JwkError::Length("d")));
    }
    judge::ed25519(&seed, Some(&public.point()))
}

/// RFC 7517 sections 4.2 and 4.3.
fn for_signing(jwk: &Members<'_>) -> Result<(), KeyError> {
    let by_use = jwk.text("use")?.is_none_or(|word| word.as_str() == "sig");
    let ops = match jwk.raw("key_ops") {
        None => None,
        Some(raw) => {
            let wrong = KeyError::MalformedJwk(JwkError::WrongType("key_ops"));
            Some(serde_json::from_str::<Vec<String>>(raw.get()).map_err(|_| wrong)?)
        }
    };
    if by_use && ops.is_none_or(|ops| ops.iter().any(|op| op == "sign")) {
        return Ok(());
    }
    Err(KeyError::NotForSigning)
}

fn declared_algorithm(jwk: &Members<'_>, key_type: KeyType) -> Result<Option<Algorithm>, KeyError> {
    let Some(name) = jwk.text("alg")? else { return Ok(None) };
    let algorithm: Algorithm = name.parse().map_err(|_| KeyError::UnknownAlgorithm)?;
    if algorithm.key_type() != key_type {
        return Err(KeyError::AlgorithmUnfit { key_type, algorithm });
    }
    Ok(Some(algorithm))
}

/// A JSON object with its values left as text.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    fn read(text: &'a str) -> Result<Self, KeyError> {
        json::members(text).map(Self).map_err(KeyError::MalformedJson)
    }

    fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn text(&self, name: &'static str) -> Result<Option<Zeroizing<String>>, KeyError> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let text: Result<String, _> = serde_json::from_str(raw.get());
        text.map(Zeroizing::new).map(Some).map_err(|_| KeyError::MalformedJwk(JwkError::WrongType(name)))
    }

    fn required(&self, name: &'static str) -> Result<Zeroizing<String>, KeyError> {
        self.text(name)?.ok_or(KeyError::MalformedJwk(JwkError::Missing(name)))
    }

    /// A base64url member, at most twice as long as the largest key's would be: more is not decoded.
    fn octets(&self, name: &'static str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let text = self.required(name)?;
        if text.len() > RSA_MAX_BITS / 8 * 2 {
            return Err(KeyError::MalformedJwk(JwkError::Length(name)));
        }
        let octets = URL_SAFE_NO_PAD.decode(text.as_bytes());
        octets.map(Zeroizing::new).map_err(|_| KeyError::MalformedJwk(JwkError::Encoding(name)))
    }

    /// The public half that is written beside the private one.
    fn public(&self) -> Result<PublicKey, KeyError> {
        let mut public = Map::new();
        for name in ["kty", "crv", "x", "y", "n", "e"] {
            if let Some(value) = self.text(name)? {
                public.insert(name.to_owned(), Value::from(value.as_str()));
            }
        }
        Ok(PublicKey::from_jwk(&public)?)
    }

    /// Names alone, for a message.
    fn names(&self) -> Vec<String> {
        self.0.iter().take(16).map(|(name, _)| shown(name)).collect()
    }
}

/// A word of the input as it may stand in a message: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect()
}
