//! Where kube-apiserver and etcd are.

use std::path::{Path, PathBuf};

use super::super::place::{program, skip};

/// The version that tests run against where nobody asks for another one.
const VERSION: &str = "1.36.3";

/// Both programs of an API server.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) kube_apiserver: PathBuf,
    pub(super) etcd: PathBuf,
}

impl Programs {
    /// A version asked for by name comes from the cache, where `scripts/kubernetes` of this repository puts it. Else
    /// the directory that envtest would use counts, if one is named; else the usual version, or what is on `PATH`.
    pub(super) fn find() -> Option<Self> {
        let wanted = text_of("TEST_KUBERNETES");
        let assets = text_of("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let etcd = assets.as_deref().and_then(|assets| file(assets, "etcd")).or_else(|| program("etcd", &[]));
        let kube_apiserver = match (&wanted, &assets) {
            (Some(version), _) => built(version),
            (None, Some(assets)) => file(assets, SERVER),
            (None, None) => built(VERSION).or_else(|| program(SERVER, &[])),
        };
        match (kube_apiserver, etcd) {
            (Some(kube_apiserver), Some(etcd)) => Some(Self { kube_apiserver, etcd }),
            (None, _) => {
                let version = wanted.as_deref().unwrap_or(VERSION);
                skip(
                    "kube-apiserver",
                    &format!("neither built (`scripts/kubernetes {version}`) nor in KUBEBUILDER_ASSETS"),
                );
                None
            }
            (Some(_), None) => {
                skip("etcd", "not installed (Debian: apt-get install etcd-server)");
                None
            }
        }
    }
}

const SERVER: &str = "kube-apiserver";

fn text_of(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|text| !text.is_empty())
}

fn built(version: &str) -> Option<PathBuf> {
    let own = text_of("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = own.or_else(|| text_of("HOME").map(|home| Path::new(&home).join(".cache")))?;
    file(&cache.join("oneseal/kubernetes").join(version), SERVER)
}

fn file(directory: &Path, name: &str) -> Option<PathBuf> {
    Some(directory.join(name)).filter(|file| file.is_file())
}
