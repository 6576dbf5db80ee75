//! The parts of a document as they stand in its text: public members as values, private halves untouched.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::DraftError;
use crate::json;
use crate::material::PrivateKey;
use crate::seal::{self, Kek, Keks, SealError, SealedFor};

/// A private half as it rests: the member's name and its JSON text.
pub(super) struct Half {
    pub(super) name: &'static str,
    pub(super) text: Zeroizing<String>,
}

impl Half {
    /// The key itself; a sealed one by the KEK that it names.
    pub(super) fn open(&self, sealed_for: &SealedFor<'_>, keks: &Keks) -> Result<PrivateKey, DraftError> {
        if self.name == PRIVATE {
            return Ok(PrivateKey::parse(self.text.as_bytes())?);
        }
        let jwe: &str = serde_json::from_str(&self.text)?;
        let jwk = keks.open(sealed_for, jwe).map_err(|error| match error {
            SealError::NoKek { .. } | SealError::OtherKek { .. } => DraftError::Locked,
            error => DraftError::Seal(error),
        })?;
        Ok(PrivateKey::parse(jwk.as_bytes())?)
    }

    /// The id of the KEK that it says it is sealed under.
    pub(super) fn kek(&self) -> Option<String> {
        let jwe: &str = (self.name == SEALED).then(|| serde_json::from_str(&self.text).ok()).flatten()?;
        seal::kek_of(jwe).ok()
    }

    /// As a new key is written: sealed where there is a KEK.
    pub(super) fn of(
        key: &PrivateKey,
        sealed_for: &SealedFor<'_>,
        kek: Option<&Kek>,
    ) -> Result<Self, DraftError> {
        let text = key.expose_jwk();
        let Some(kek) = kek else { return Ok(Self { name: PRIVATE, text }) };
        let jwe = kek.seal(sealed_for, &text).map_err(DraftError::Seal)?;
        Ok(Self { name: SEALED, text: Zeroizing::new(format!("\"{jwe}\"")) })
    }
}

/// A document, taken apart.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) members: Map<String, Value>,
    pub(super) keys: Vec<(Map<String, Value>, Option<Half>)>,
    pub(super) ring_half: Option<Half>,
}

impl Parts {
    pub(super) fn take(&mut self, name: String, raw: &RawValue) -> Result<(), DraftError> {
        match name.as_str() {
            "sig" => {}
            "ring_key" => {
                let (public, half) = split(raw)?;
                self.ring_half = half;
                self.members.insert(name, Value::Object(public));
            }
            "keys" => {
                let keys: Vec<&RawValue> = serde_json::from_str(raw.get())?;
                for key in keys {
                    self.keys.push(split(key)?);
                }
            }
            _ => drop(self.members.insert(name, json::parse(raw.get().as_bytes())?)),
        }
        Ok(())
    }
}

fn split(raw: &RawValue) -> Result<(Map<String, Value>, Option<Half>), DraftError> {
    let mut public = Map::new();
    let mut half = None;
    for (name, raw) in json::members(raw.get())? {
        let kept = [PRIVATE, SEALED].into_iter().find(|known| name == *known);
        match kept {
            Some(name) => half = Some(Half { name, text: Zeroizing::new(raw.get().to_owned()) }),
            None => drop(public.insert(name, json::parse(raw.get().as_bytes())?)),
        }
    }
    Ok((public, half))
}

/// Writes an object with its private half, if it has one.
pub(super) fn write_with_half(
    out: &mut Vec<u8>,
    public: &Value,
    half: Option<&Half>,
) -> Result<(), DraftError> {
    let mut text = serde_json::to_vec(public)?;
    if let Some(half) = half {
        text.pop();
        out.extend_from_slice(&text);
        out.extend_from_slice(b",\"");
        out.extend_from_slice(half.name.as_bytes());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(half.text.as_bytes());
        out.push(b'}');
    } else {
        out.extend_from_slice(&text);
    }
    Ok(())
}

const PRIVATE: &str = "private";
const SEALED: &str = "sealed";
