//! Which keys belong to which kind of provider, under `[provider]` and under `[kek]` alike, and the providers that are
//! reached over the network.

use std::path::PathBuf;
use std::sync::Arc;

use oneseal_providers::{
    AwsOptions, AwsProvider, KubernetesOptions, KubernetesProvider, ProviderError, SecretProvider,
};

use super::choose::text;
use super::value::Value;
use super::values::{Values, mismatch};

/// A key that is of one kind alone.
#[derive(Debug)]
pub(super) struct Belongs {
    /// The kind.
    pub(super) kind: &'static str,
    /// The key.
    pub(super) path: &'static str,
    /// Whether that kind is nothing without it.
    pub(super) is_needed: bool,
}

macro_rules! keys {
    ($section:literal $(, $more:expr)*) => {
        [
            needed("file", concat!($section, ".path")),
            needed("env", concat!($section, ".variable")),
            needed("inline", concat!($section, ".value")),
            needed("kubernetes", concat!($section, ".name")),
            optional("kubernetes", concat!($section, ".namespace")),
            optional("kubernetes", concat!($section, ".kubeconfig")),
            optional("kubernetes", concat!($section, ".context")),
            needed("aws", concat!($section, ".secret")),
            optional("aws", concat!($section, ".region")),
            optional("aws", concat!($section, ".endpoint")),
            $($more,)*
        ]
    };
}

/// Those of `[provider]`.
pub(super) static PROVIDER: [Belongs; 10] = keys!("provider");
/// Those of `[kek]`. Of a provider any kind may have a member; a KEK has one in AWS alone.
pub(super) static KEK: [Belongs; 11] = keys!("kek", optional("aws", "kek.member"));

const fn needed(kind: &'static str, path: &'static str) -> Belongs {
    Belongs { kind, path, is_needed: true }
}

const fn optional(kind: &'static str, path: &'static str) -> Belongs {
    Belongs { kind, path, is_needed: false }
}

/// The key that `kind` needs; `None` for a kind that has no keys of its own.
pub(super) fn needed_by(all: &[Belongs], kind: &str) -> Option<&'static str> {
    all.iter().find(|key| key.kind == kind && key.is_needed).map(|key| key.path)
}

/// The Secret that the keys of `section` name. Nothing is read and nobody is asked.
///
/// # Errors
/// Its names are none.
pub(super) fn kubernetes(
    values: &Values,
    section: &str,
    name: &str,
) -> Result<Arc<dyn SecretProvider>, ProviderError> {
    let mut options = KubernetesOptions::secret(name);
    options.namespace = text(values, &format!("{section}.namespace"));
    options.context = text(values, &format!("{section}.context"));
    options.kubeconfig = path(values, &format!("{section}.kubeconfig"));
    Ok(Arc::new(KubernetesProvider::new(options)?))
}

/// The secret that the keys of `section` name. Nothing is read and nobody is asked.
///
/// # Errors
/// Its name is none, or it contradicts the region.
pub(super) fn aws(
    values: &Values,
    section: &str,
    secret: &str,
) -> Result<Arc<dyn SecretProvider>, ProviderError> {
    let mut options = AwsOptions::secret(secret);
    options.region = text(values, &format!("{section}.region"));
    options.endpoint = text(values, &format!("{section}.endpoint"));
    options.member = text(values, &format!("{section}.member"));
    Ok(Arc::new(AwsProvider::new(options)?))
}

fn path(values: &Values, key: &str) -> Option<PathBuf> {
    match &values.find(key)?.value {
        Value::Path(path) => Some(path.clone()),
        other => mismatch(key, other),
    }
}
