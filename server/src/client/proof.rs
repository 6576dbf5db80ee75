//! The file with what shows who asks: read anew for each attempt, since kubelet renews it.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal::UnixTime;
use oneseal_keystore::{IssuerUrl, json};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::setback::Setback;
use crate::config::disk::{self, ReadError};
use crate::exit::{Exit, Failure};
use crate::refusals::TOKEN_PROOF_UNREADABLE;

/// What is shown, by the file that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A token of a cluster's for the pod's service account (RFC 8693).
    SubjectToken(PathBuf),
    /// An assertion of another issuer's that is good for once (RFC 7523).
    Assertion(PathBuf),
}

impl Proof {
    /// What is in the file, without one line end behind it.
    ///
    /// # Errors
    /// It cannot be read, or is no token.
    pub(super) fn read(&self) -> Result<Zeroizing<String>, Setback> {
        let (flag, path) = match self {
            Self::SubjectToken(path) => ("--source", path),
            Self::Assertion(path) => ("--assertion", path),
        };
        let place = format!("{flag} {}", path.display());
        let bytes = disk::read_bytes(path, MAX_PROOF).map_err(|error| unreadable(self, &place, error))?;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).ok().filter(|text| is_token(text));
        text.map(|text| Zeroizing::new(text.to_owned())).ok_or_else(|| {
            let what = if bytes.is_empty() { "is empty" } else { "holds no JWT" };
            refused(
                Exit::Refused,
                format!("{place} {what}: a signed token in compact form is wanted, and nothing else"),
            )
        })
    }

    /// What may be wrong with a proof that was refused, as far as it can be seen from here.
    /// `is_about` says whether the refusal has this word in it, or does not say what it is about.
    pub(super) fn suspicions(
        &self,
        proof: &str,
        issuer: &IssuerUrl,
        now: UnixTime,
        is_about: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let claims = unverified(proof);
        let time = |name: &str| claims.get(name).and_then(Value::as_f64).map(|time| time.floor() as i64);
        let past = |name: &str| time(name).map(|time| now.as_secs().saturating_sub(time));
        let mut found = Vec::new();
        if let Some(ago) = past("exp").filter(|ago| *ago >= 0 && is_about("expired")) {
            found.push(format!("it expired {ago} s ago by this machine's clock: {}", self.renewed_by()));
        }
        if let Some(ahead) = past("iat")
            .filter(|ago| *ago < -CLOCKS && (is_about("future") || is_about("valid yet")))
            .map(i64::unsigned_abs)
        {
            found.push(format!("by this machine's clock it is from {ahead} s ahead: set the clock"));
        }
        if is_about("aud") && !audiences(&claims).any(|audience| audience == issuer.as_str()) {
            found.push(format!("its `aud` does not name {issuer}: {}", self.addressed_by(issuer)));
        }
        (!found.is_empty()).then(|| format!("Of the proof: {}.", found.join("; ")))
    }

    fn renewed_by(&self) -> &'static str {
        match self {
            Self::SubjectToken(_) => {
                "kubelet renews a projected token, so look at the node, or whether the file is a copy"
            }
            Self::Assertion(_) => "have a new one made",
        }
    }

    fn addressed_by(&self, issuer: &IssuerUrl) -> String {
        match self {
            Self::SubjectToken(_) => format!(
                "in the pod's volume let serviceAccountToken have `audience: {issuer}`, or what the issuer's [[cluster]] \
                 says"
            ),
            Self::Assertion(_) => "an assertion's is the issuer, as one text".to_owned(),
        }
    }
}

fn unreadable(proof: &Proof, place: &str, error: ReadError) -> Setback {
    let (exit, cure) = match (&error, proof) {
        (ReadError::Denied(_), _) => {
            (Exit::Denied, "in a pod that runs as another user than root, set its `fsGroup`")
        }
        (_, Proof::SubjectToken(_)) => (
            Exit::Refused,
            "mount a projected service account token there (docs/workloads.md), or name another file",
        ),
        (_, Proof::Assertion(_)) => (Exit::Refused, "name the file with the assertion"),
    };
    refused(exit, format!("{place} cannot be read; {cure}")).because(error)
}

fn refused(exit: Exit, message: String) -> Setback {
    Setback::never(Failure::new(exit, message).with_code(TOKEN_PROOF_UNREADABLE))
}

fn is_token(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.split('.').count() == 3 && text.split('.').all(is_part)
}

/// Of which nothing is believed; empty if it is no strict JSON object.
pub(super) fn unverified(token: &str) -> Map<String, Value> {
    let payload = token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
    payload.and_then(|payload| json::parse_object(&payload).ok()).unwrap_or_default()
}

fn audiences(claims: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let several = match claims.get("aud") {
        Some(Value::Array(several)) => several.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    several.iter().filter_map(Value::as_str)
}

/// What no HTTP server would take in a header is no token; the issuer takes 64 KiB of form at most.
const MAX_PROOF: usize = 32 * 1024;
/// Clocks that are less apart are nobody's trouble.
const CLOCKS: i64 = 60;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn at(path: &Path) -> Proof {
        Proof::SubjectToken(path.to_owned())
    }

    #[test]
    fn one_line_end_is_cut_and_nothing_else_is_taken_beside_a_token() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        for text in ["a.b.c", "a.b.c\n", "a.b.c\r\n"] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(*at(&path).read().expect("a token"), "a.b.c");
        }
        for text in ["", "\n", "a.b", "a.b.c.d", "a.b.c\n\n", " a.b.c", "a..c", "a.b.c d", "canary=.b.c"] {
            std::fs::write(&path, text).expect("written");
            let said = at(&path).read().expect_err(text).failure.in_full();
            assert!(said.contains("token.proof_unreadable") && !said.contains("canary"), "{said}");
        }
        std::fs::write(&path, "a".repeat(MAX_PROOF + 1)).expect("written");
        assert_eq!(at(&path).read().expect_err("too long").failure.exit(), Exit::Refused);
        let missing = at(&dir.path().join("none")).read().expect_err("missing").failure.in_full();
        assert!(missing.contains("projected service account token"), "{missing}");
    }

    #[test]
    fn what_can_be_seen_of_a_refused_proof_is_told_without_any_of_it() {
        let issuer = IssuerUrl::parse("https://oidc.example", "test").expect("good");
        let suspicions = |claims: &str| {
            let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
            let proof = Proof::SubjectToken("x".into());
            proof.suspicions(&token, &issuer, UnixTime(1000), |_| true).unwrap_or_default()
        };
        assert_eq!(suspicions(r#"{"aud":["https://oidc.example"],"exp":1001,"iat":1030}"#), "");
        assert_eq!(suspicions(r#"{"aud":"https://oidc.example"}"#), "");
        let all = suspicions(r#"{"aud":["canary"],"exp":940.5,"iat":2000}"#);
        for told in ["expired 60 s ago", "from 1000 s ahead", "`audience: https://oidc.example`"] {
            assert!(all.contains(told) && !all.contains("canary"), "{all}");
        }
        assert!(suspicions("no JSON").contains("`aud` does not name"));
    }
}
