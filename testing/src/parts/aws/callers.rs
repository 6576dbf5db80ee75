//! Whose calls AWS takes.

use std::collections::HashMap;

use oneseal_coordination::{Clock, SystemClock, UnixTime};

use super::refusal::Refusal;

/// Known callers: one with a key that lasts, and those whom STS gave a session.
///
/// Nobody verifies signatures here: who names a known key is believed.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// By access key id: until when the session goes on.
    sessions: HashMap<String, UnixTime>,
    is_without_key: bool,
}

/// The access key that [`super::Aws::environment`] names.
pub(super) const ACCESS_KEY_ID: &str = "test-access-key";
/// Its secret.
pub(super) const SECRET_ACCESS_KEY: &str = "test-secret-access-key";

impl Callers {
    pub(super) fn remember(&mut self, access_key_id: String, until: UnixTime) {
        self.sessions.insert(access_key_id, until);
    }

    /// Ends all sessions.
    pub(super) fn expire(&mut self) {
        self.sessions.values_mut().for_each(|until| *until = UnixTime(0));
    }

    /// Takes away the key that lasts.
    pub(super) fn take_key_away(&mut self) {
        self.is_without_key = true;
    }

    pub(super) fn judge(&self, access_key_id: Option<&str>) -> Result<(), Refusal> {
        let Some(id) = access_key_id else {
            let message = "Missing Authentication Token";
            return Err(Refusal::new(400, "MissingAuthenticationTokenException", message));
        };
        match self.sessions.get(id) {
            Some(until) if SystemClock.wall() < *until => Ok(()),
            Some(_) => {
                let message = "The security token included in the request is expired";
                Err(Refusal::new(400, "ExpiredTokenException", message))
            }
            None if id == ACCESS_KEY_ID && !self.is_without_key => Ok(()),
            None => {
                let message = "The security token included in the request is invalid.";
                Err(Refusal::new(400, "UnrecognizedClientException", message))
            }
        }
    }
}
