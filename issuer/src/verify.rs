//! Believes a token of our own, offline, by the keys this replica publishes.

use oneseal_coordination::UnixTime;
use oneseal_keystore::{IssuerUrl, Snapshot, json};
use serde_json::{Map, Value};

use crate::claims::Audience;
use crate::error::VerifyError;

/// What a verified token says.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    members: Map<String, Value>,
    subject: String,
    id: String,
    issued_at: UnixTime,
    expires_at: UnixTime,
}

impl Claims {
    /// `sub`.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// `jti`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `iat`, which is also `nbf`.
    pub fn issued_at(&self) -> UnixTime {
        self.issued_at
    }

    /// `exp`.
    pub fn expires_at(&self) -> UnixTime {
        self.expires_at
    }

    /// Any claim by name.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// All of them.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.members
    }
}

/// Signature, then form, then `iss`, `aud` and times. `skew` is forgiven on both ends: the token may come from a
/// replica whose clock differs from ours.
pub(crate) fn verify(
    snapshot: &Snapshot,
    url: &IssuerUrl,
    token: &str,
    audience: &Audience,
    now: UnixTime,
) -> Result<Claims, VerifyError> {
    let payload = snapshot.verify(token).map_err(VerifyError::Signature)?;
    let members = json::parse_object(&payload).map_err(|_| VerifyError::Payload)?;
    if text(&members, "iss")? != url.as_str() {
        return Err(VerifyError::Issuer);
    }
    // Our tokens have one audience, a string: anything else was not minted here.
    if text(&members, "aud")? != audience.as_str() {
        return Err(VerifyError::Audience);
    }
    let (issued_at, not_before, expires_at) =
        (time(&members, "iat")?, time(&members, "nbf")?, time(&members, "exp")?);
    check_times(issued_at.max(not_before), expires_at, now, snapshot.rotation().skew_s)?;
    let subject = text(&members, "sub")?.to_owned();
    let id = text(&members, "jti")?.to_owned();
    Ok(Claims { members, subject, id, issued_at, expires_at })
}

fn check_times(
    begins_at: UnixTime,
    expires_at: UnixTime,
    now: UnixTime,
    skew_s: u64,
) -> Result<(), VerifyError> {
    let skew_s = i64::try_from(skew_s).unwrap_or(i64::MAX);
    let ago_s = now.as_secs().saturating_sub(expires_at.as_secs());
    if ago_s >= skew_s.max(0) {
        return Err(VerifyError::Expired { ago_s });
    }
    let ahead_s = begins_at.as_secs().saturating_sub(now.as_secs());
    if ahead_s > skew_s {
        return Err(VerifyError::NotYetValid { ahead_s });
    }
    Ok(())
}

fn text<'a>(members: &'a Map<String, Value>, name: &'static str) -> Result<&'a str, VerifyError> {
    members.get(name).and_then(Value::as_str).ok_or(VerifyError::Claim(name))
}

fn time(members: &Map<String, Value>, name: &'static str) -> Result<UnixTime, VerifyError> {
    members.get(name).and_then(Value::as_i64).map(UnixTime).ok_or(VerifyError::Claim(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(begins_at: i64, expires_at: i64, now: i64) -> Result<(), VerifyError> {
        check_times(UnixTime(begins_at), UnixTime(expires_at), UnixTime(now), 60)
    }

    #[test]
    fn the_skew_is_forgiven_on_both_ends_and_no_second_more() {
        assert_eq!(check(1000, 2000, 1500), Ok(()));
        assert_eq!(check(1000, 2000, 2059), Ok(()));
        assert_eq!(check(1000, 2000, 2060), Err(VerifyError::Expired { ago_s: 60 }));
        assert_eq!(check(1000, 2000, 940), Ok(()));
        assert_eq!(check(1000, 2000, 939), Err(VerifyError::NotYetValid { ahead_s: 61 }));
    }

    #[test]
    fn times_at_the_ends_of_the_scale_do_not_wrap() {
        assert!(check(i64::MIN, i64::MAX, 0).is_ok());
        assert!(check(i64::MAX, i64::MAX, i64::MIN).is_err());
        assert!(check(0, i64::MIN, i64::MAX).is_err());
    }
}
