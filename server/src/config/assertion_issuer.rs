//! `[[assertion_issuer]]`: who signs assertions, and where their keys are.

use std::path::PathBuf;
use std::time::Duration;

use oneseal_keystore::{Algorithm, Findings, IssuerUrl};

use super::codes;
use super::list::Item;
use super::value::Value;
use super::values::mismatch;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssertionIssuerChoice {
    /// What rules and logs call it.
    pub(crate) name: String,
    /// The `iss` of its assertions.
    pub(crate) issuer: String,
    /// Where its keys are.
    pub(crate) keys: AssertionKeys,
    /// What they may be signed with, at least one.
    pub(crate) algorithms: Vec<Algorithm>,
    /// Certificates that are trusted alone.
    pub(crate) ca_bundle: Option<PathBuf>,
    /// What keys are fetched through.
    pub(crate) proxy: Option<String>,
    /// How long that may take.
    pub(crate) timeout: Duration,
    /// Where it stands, for findings.
    pub(crate) place: String,
}

/// Where the keys of an assertion issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AssertionKeys {
    /// Where its discovery document says.
    Discovery,
    /// At this address.
    Uri(String),
    /// In this file.
    File(PathBuf),
}

/// Makes them of the tables, and reports what in one does not go together, or with `own`, our issuer.
pub(super) fn choose(
    items: Vec<Item>,
    own: Option<&IssuerUrl>,
    findings: &mut Findings,
) -> Vec<AssertionIssuerChoice> {
    items.into_iter().filter_map(|item| one(item, own, findings)).collect()
}

fn one(mut item: Item, own: Option<&IssuerUrl>, findings: &mut Findings) -> Option<AssertionIssuerChoice> {
    let (uri, file) = (item.text("jwks_uri"), item.path("jwks_file"));
    if uri.is_some() && file.is_some() {
        item.refuse(&codes::CONFLICT, "jwks_file", "`jwks_uri` is set as well", findings);
    }
    if file.is_some() {
        for key in ["ca_bundle", "proxy"] {
            if item.is_set(key) {
                findings.push(&codes::NO_EFFECT, item.place_at(key), "keys of a file are not fetched");
            }
        }
    }
    let issuer = item.text("issuer")?;
    if own.is_some_and(|own| own.as_str() == issuer) {
        let message = "it is `issuer.url`: our own tokens are never taken as proof";
        item.refuse(&codes::CONFLICT, "issuer", message, findings);
    }
    if IssuerUrl::parse(&issuer, "issuer").is_err() {
        let message =
            "it is no https URL without query and fragment, as discovery and its tokens' `iss` have it";
        item.refuse(&codes::BAD_VALUE, "issuer", message, findings);
    }
    if item.is_faulty() {
        return None;
    }
    let keys = match (uri, file) {
        (Some(uri), _) => AssertionKeys::Uri(uri),
        (None, Some(file)) => AssertionKeys::File(file),
        (None, None) => AssertionKeys::Discovery,
    };
    let algorithms = match item.value("algorithms")? {
        Value::Algorithms(all) => all.clone(),
        other => mismatch("algorithms", other),
    };
    Some(AssertionIssuerChoice {
        name: item.text("name")?,
        issuer,
        keys,
        algorithms,
        ca_bundle: item.path("ca_bundle"),
        proxy: item.text("proxy"),
        timeout: item.duration("timeout")?,
        place: item.place(),
    })
}
