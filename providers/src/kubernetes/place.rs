//! Which Secret: its name, and its namespace once that is known.

use std::sync::OnceLock;

use super::KubernetesOptions;
use super::connect::{Access, Link, Unusable, Way};
use crate::uri::is_dns_name;
use crate::{ErrorKind, ProviderError};

/// One Secret and how to get there.
pub(super) struct Place {
    pub(super) options: KubernetesOptions,
    pub(super) way: Way,
    /// Once it is known.
    namespace: OnceLock<String>,
}

impl Place {
    pub(super) fn new(options: KubernetesOptions) -> Result<Self, ProviderError> {
        let KubernetesOptions { namespace, name, .. } = &options;
        for (what, name) in namespace.iter().map(|name| ("namespace", name)).chain([("Secret", name)]) {
            if !is_dns_name(name) {
                return Err(no_name(what, name));
            }
        }
        let access = Access {
            kubeconfig: options.kubeconfig.clone(),
            context: options.context.clone(),
            timeout: options.timeout,
        };
        Ok(Self { way: Way::new(access), namespace: OnceLock::new(), options })
    }

    /// As far as it is known: the one that is not configured is found with the way to the server.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.options.namespace.as_deref().or_else(|| self.namespace.get().map(String::as_str))
    }

    /// `NAMESPACE/NAME`, as far as the namespace is known.
    pub(super) fn location(&self) -> String {
        let name = &self.options.name;
        match self.namespace() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.clone(),
        }
    }

    pub(super) fn fault(&self, kind: ErrorKind, detail: impl Into<String>) -> ProviderError {
        ProviderError::new(kind, self.location(), detail)
    }

    /// The Secret's namespace, by this way there.
    pub(super) fn namespace_by<'a>(&'a self, link: &'a Link) -> Result<&'a str, Unusable> {
        if let Some(namespace) = &self.options.namespace {
            return Ok(namespace);
        }
        if !is_dns_name(&link.namespace) {
            return Err(Unusable::misconfigured(
                "the pod or the kubeconfig's context names no namespace; name one yourself",
            ));
        }
        let _ = self.namespace.set(link.namespace.clone());
        Ok(&link.namespace)
    }
}

fn no_name(what: &str, name: &str) -> ProviderError {
    // What stands where a name belongs may be a key.
    let detail = if crate::looks_like_key(name) {
        format!("a key stands where a {what}'s name belongs")
    } else {
        format!("{name:?} cannot be a {what}'s name: lower-case letters, digits, `-` and, in a Secret's, `.`")
    };
    ProviderError::new(ErrorKind::Misconfigured, "the Secret's name", detail)
}
