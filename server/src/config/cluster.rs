//! `[[cluster]]`: whose pods prove themselves, where its keys are, and how its API server is asked.

use std::path::PathBuf;
use std::time::Duration;

use oneseal_keystore::{Findings, IssuerUrl};

use super::codes;
use super::list::Item;
use super::value::Value;
use super::values::mismatch;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterChoice {
    /// What rules and logs call it.
    pub(crate) name: String,
    /// The `iss` of its tokens.
    pub(crate) issuer: String,
    /// Their one audience; `None`: our issuer's URL.
    pub(crate) audience: Option<String>,
    /// Where its keys are.
    pub(crate) keys: ClusterKeys,
    /// Whether its API server is asked about each token.
    pub(crate) is_reviewed: bool,
    /// The kubeconfig by which its API server is reached.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of that.
    pub(crate) context: Option<String>,
    /// How many reviews run at once.
    pub(crate) max_reviews: usize,
    /// The longest life of a token.
    pub(crate) max_lifetime: Duration,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
}

/// Where the keys of a cluster are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterKeys {
    /// At its API server.
    Api,
    /// Where its discovery document says.
    Discovery(Fetch),
    /// At this address.
    Uri(String, Fetch),
    /// In this file.
    File(PathBuf),
}

/// How keys are fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// Certificates that are trusted alone.
    pub(crate) ca_bundle: Option<PathBuf>,
    /// What they are fetched through.
    pub(crate) proxy: Option<String>,
}

/// Makes them of the tables, and reports what in one does not go together, or with `own`, our issuer.
pub(super) fn choose(
    items: Vec<Item>,
    own: Option<&IssuerUrl>,
    findings: &mut Findings,
) -> Vec<ClusterChoice> {
    items.into_iter().filter_map(|item| one(item, own, findings)).collect()
}

fn one(mut item: Item, own: Option<&IssuerUrl>, findings: &mut Findings) -> Option<ClusterChoice> {
    let issuer = item.text("issuer")?;
    if own.is_some_and(|own| own.as_str() == issuer) {
        let message = "it is `issuer.url`: our own tokens are never taken as proof";
        item.refuse(&codes::CONFLICT, "issuer", message, findings);
    }
    let keys = keys(&mut item, findings)?;
    let is_reviewed = item.text("review")? == "required";
    let is_asked = is_reviewed || keys == ClusterKeys::Api;
    let mut idle = |is_idle: bool, names: &[&str], why: &str| {
        for name in names.iter().filter(|name| is_idle && item.is_set(name)) {
            findings.push(&codes::NO_EFFECT, item.place_at(name), why);
        }
    };
    idle(!is_asked, &["kubeconfig", "context"], "its API server is not asked for keys nor for reviews");
    idle(!is_reviewed, &["max_reviews"], "nothing is reviewed");
    let is_fetched = matches!(keys, ClusterKeys::Discovery(_) | ClusterKeys::Uri(..));
    let why = "its keys are not fetched by URL; a kubeconfig names the API server's authority";
    idle(!is_fetched, &["ca_bundle", "proxy"], why);
    if item.is_faulty() {
        return None;
    }
    Some(ClusterChoice {
        name: item.text("name")?,
        issuer,
        audience: item.text("audience"),
        keys,
        is_reviewed,
        kubeconfig: item.path("kubeconfig"),
        context: item.text("context"),
        max_reviews: integer(&item, "max_reviews")?,
        max_lifetime: item.duration("max_lifetime")?,
        timeout: item.duration("timeout")?,
    })
}

/// One place of keys, said once.
fn keys(item: &mut Item, findings: &mut Findings) -> Option<ClusterKeys> {
    let (uri, file) = (item.text("jwks_uri"), item.path("jwks_file"));
    if uri.is_some() && file.is_some() {
        item.refuse(&codes::CONFLICT, "jwks_file", "`jwks_uri` is set as well", findings);
    }
    if item.is_set("keys") && (uri.is_some() || file.is_some()) {
        let message = "`jwks_uri` or `jwks_file` is set as well, and says where its keys are";
        item.refuse(&codes::CONFLICT, "keys", message, findings);
    }
    let fetch = Fetch { ca_bundle: item.path("ca_bundle"), proxy: item.text("proxy") };
    Some(match (uri, file) {
        (Some(uri), _) => ClusterKeys::Uri(uri, fetch),
        (None, Some(file)) => ClusterKeys::File(file),
        (None, None) if item.text("keys")? == "discovery" => ClusterKeys::Discovery(fetch),
        (None, None) => ClusterKeys::Api,
    })
}

fn integer(item: &Item, key: &str) -> Option<usize> {
    match item.value(key)? {
        Value::Integer(number) => usize::try_from(*number).ok(),
        other => mismatch(key, other),
    }
}
