//! One value, given directly or in an environment variable: read once, never written, never stale.
//!
//! The value is handed on as it is. Whether it is PEM with escaped newlines, base64 of DER or a JWK is for the
//! keystore to find out.

use std::ffi::OsString;
use std::future;

use crate::withheld::withhold;
use crate::{
    BoxFuture, Change, Description, Entries, ErrorKind, ProviderError, Record, Revision, SecretBytes,
    SecretProvider,
};

/// The value of an environment variable, read when the provider is made.
///
/// # Child processes
/// A process passes its environment on to the programs it starts, and on Linux it stays readable in
/// `/proc/PID/environ` for the same user. Taking a variable out of one's own environment is not sound in a program
/// with threads, so this type does not do it. Whoever starts a program does so without the variable, as the credential
/// plugins of kubeconfigs are started:
///
/// ```
/// # use oneseal_providers::EnvProvider;
/// let provider = EnvProvider::new("ONESEAL_SIGNING_KEY");
/// let mut child = std::process::Command::new("true");
/// child.env_remove(provider.variable());
/// ```
#[derive(Debug)]
pub struct EnvProvider {
    variable: String,
    value: OneValue,
}

impl EnvProvider {
    /// Reads `variable` now. That it is unset or unreadable is told by [`load`](SecretProvider::load).
    pub fn new(variable: impl Into<String>) -> Self {
        let variable = variable.into();
        let value = std::env::var_os(&variable);
        Self::captured(variable, value)
    }

    /// The same for a program that has already read the variable itself, perhaps before it cleared its environment.
    pub fn captured(variable: impl Into<String>, value: Option<OsString>) -> Self {
        let variable = variable.into();
        withhold(&variable);
        let value = match value.map(OsString::into_string) {
            None => OneValue::Missing("the variable is not set"),
            Some(Ok(text)) if text.is_empty() => OneValue::Missing("the variable is set to nothing"),
            Some(Ok(text)) => OneValue::Present(text.into()),
            Some(Err(raw)) => {
                drop(SecretBytes::new(raw.into_encoded_bytes()));
                OneValue::Malformed("the variable's value is not UTF-8 text")
            }
        };
        Self { variable, value }
    }

    /// The variable's name: what to take out of the environment of child processes.
    pub fn variable(&self) -> &str {
        &self.variable
    }
}

impl SecretProvider for EnvProvider {
    fn describe(&self) -> Description {
        static_description("env", &self.variable)
    }

    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>> {
        Box::pin(future::ready(self.value.load(&self.variable)))
    }

    fn changed<'a>(&'a self, _since: &'a Revision) -> BoxFuture<'a, ()> {
        Box::pin(future::pending())
    }

    fn replace<'a>(
        &'a self,
        _expected: &'a Revision,
        _entries: Entries,
        _change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>> {
        Box::pin(future::ready(Err(read_only(&self.variable, "an environment variable"))))
    }

    fn create(&self, _entries: Entries, _change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>> {
        Box::pin(future::ready(Err(read_only(&self.variable, "an environment variable"))))
    }
}

/// A value given directly, such as one from a configuration file or a test.
#[derive(Debug)]
pub struct InlineProvider {
    value: OneValue,
}

impl InlineProvider {
    /// Takes the value. That it is empty is told by [`load`](SecretProvider::load).
    pub fn new(value: impl Into<SecretBytes>) -> Self {
        let value = value.into();
        if value.is_empty() {
            return Self { value: OneValue::Malformed("the value is empty") };
        }
        Self { value: OneValue::Present(value) }
    }

    const LOCATION: &'static str = "inline value";
}

impl SecretProvider for InlineProvider {
    fn describe(&self) -> Description {
        static_description("inline", Self::LOCATION)
    }

    fn load(&self) -> BoxFuture<'_, Result<Record, ProviderError>> {
        Box::pin(future::ready(self.value.load(Self::LOCATION)))
    }

    fn changed<'a>(&'a self, _since: &'a Revision) -> BoxFuture<'a, ()> {
        Box::pin(future::pending())
    }

    fn replace<'a>(
        &'a self,
        _expected: &'a Revision,
        _entries: Entries,
        _change: Change,
    ) -> BoxFuture<'a, Result<Revision, ProviderError>> {
        Box::pin(future::ready(Err(read_only(Self::LOCATION, "a value given directly"))))
    }

    fn create(&self, _entries: Entries, _change: Change) -> BoxFuture<'_, Result<Revision, ProviderError>> {
        Box::pin(future::ready(Err(read_only(Self::LOCATION, "a value given directly"))))
    }
}

/// What was found when the provider was made.
#[derive(Debug)]
enum OneValue {
    Present(SecretBytes),
    Missing(&'static str),
    Malformed(&'static str),
}

impl OneValue {
    fn load(&self, location: &str) -> Result<Record, ProviderError> {
        let value = match self {
            Self::Present(value) => value.expose(),
            Self::Missing(why) => return Err(ProviderError::new(ErrorKind::NotFound, location, *why)),
            Self::Malformed(why) => return Err(ProviderError::new(ErrorKind::Malformed, location, *why)),
        };
        let limit = Description::DEFAULT_MAX_BYTES;
        if Entries::CURRENT.len() + value.len() > limit {
            let detail = format!("{} bytes are more than the {limit} a record may have", value.len());
            return Err(ProviderError::new(ErrorKind::Malformed, location, detail));
        }
        let entries = Entries::single(Entries::CURRENT, value.to_vec());
        Ok(Record::new(Revision::new(ONLY_REVISION), None, entries))
    }
}

/// The value never changes under a running process, so one name is enough for its content.
const ONLY_REVISION: &str = "static";

fn static_description(kind: &'static str, location: &str) -> Description {
    let mut description = Description::new(kind, location);
    description.is_static = true;
    description
}

fn read_only(location: &str, what: &str) -> ProviderError {
    let detail = format!("{what} cannot be written; keep the key in a file or another writable store");
    ProviderError::new(ErrorKind::ReadOnly, location, detail)
}
