//! How the API server says no, and what of it is told: what we know by heart, in words of our own.
//!
//! A refusal's message has many authors. Admission webhooks and policies quote what they refuse, and what they refuse
//! here is a private key, in clear, in base64 or in part. No look at such a text is certain to find that. So none of it is
//! repeated, whoever wrote it: names, fields and sentences are told if they are of a list or of a form that no key has.

use serde::Deserialize;

use super::ask::{Reply, Verb};
use crate::uri::is_dns_name;

/// The body of a refusal. Free text in it is looked at and never told.
#[derive(Deserialize)]
pub(super) struct Status {
    kind: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    kind: String,
    causes: Vec<Cause>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    field: String,
}

impl Status {
    /// `None` if the answer is no Status, and so not the API server's.
    pub(super) fn read(reply: &Reply) -> Option<Self> {
        let status: Self = serde_json::from_slice(&reply.body).ok()?;
        (status.kind == "Status").then_some(status)
    }

    pub(super) fn is_about_namespace(&self) -> bool {
        self.details.kind == "namespaces" || self.message.starts_with("namespaces ")
    }

    pub(super) fn is_about_immutability(&self) -> bool {
        self.message.contains("immutable")
    }

    /// Who lacks the right, where it is authorization that says no. Others who may forbid something are admission,
    /// quotas, and a namespace that is being deleted.
    pub(super) fn without_right(&self, verb: Verb) -> Option<&str> {
        let (object, rest) = self.message.strip_prefix("secrets ")?.split_once("is forbidden: User \"")?;
        let (user, rest) = rest.split_once('"')?;
        let is_of_it = !object.trim().contains(' ')
            && rest.starts_with(&format!(" cannot {} resource \"secrets\"", verb.name()));
        // Other names are of any form.
        is_of_it.then_some(if is_service_account(user) { user } else { "this identity" })
    }

    /// Who lacks the right to `verb` what is no Secret: an object of the cluster, or a path.
    pub(super) fn without_right_to(&self, verb: &str) -> Option<&str> {
        let (object, rest) = self.message.split_once("forbidden: User \"")?;
        let (user, rest) = rest.split_once('"')?;
        let is_of_it = !object.trim_end_matches(" is ").contains(' ')
            && [format!(" cannot {verb} resource \""), format!(" cannot {verb} path \"")]
                .iter()
                .any(|begin| rest.starts_with(begin));
        is_of_it.then_some(if is_service_account(user) { user } else { "this identity" })
    }

    /// Why, as far as it can be told: the cause, the reason's name, and the fields that it is about.
    pub(super) fn why(&self) -> String {
        let mut why = self.cause();
        if REASONS.contains(&&*self.reason) {
            why.push_str(&format!(" ({})", self.reason));
        }
        let mut fields: Vec<_> =
            self.details.causes.iter().filter_map(|cause| field_of(&cause.field)).collect();
        fields.sort_unstable();
        fields.dedup();
        if !fields.is_empty() {
            why.push_str(&format!("; it is about {}", fields.join(", ")));
        }
        why
    }

    fn cause(&self) -> String {
        let webhook = |before: &str| {
            let name = self.message.strip_prefix(before)?.split_once('"')?.0;
            // At least three labels, as the API wants of a webhook's name.
            (is_dns_name(name) && name.matches('.').count() >= 2).then_some(name)
        };
        if let Some(name) = webhook("admission webhook \"") {
            return format!("the admission webhook {name} denied it; its log says why");
        }
        if let Some(name) = webhook("Internal error occurred: failed calling webhook \"") {
            return format!("the admission webhook {name} cannot be asked");
        }
        let known = KNOWN.iter().find(|(sign, _)| self.message.contains(sign));
        known.map_or(UNTOLD, |(_, told)| told).to_owned()
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
fn is_service_account(user: &str) -> bool {
    let account = user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
    account.is_some_and(|(namespace, name)| is_dns_name(namespace) && is_dns_name(name))
}

/// The field without what is selected in it: a key of a map may be anything.
fn field_of(path: &str) -> Option<&'static str> {
    let field = path.split('[').next().unwrap_or_default();
    FIELDS.iter().find(|known| **known == field || field.starts_with(&format!("{known}."))).copied()
}

const UNTOLD: &str =
    "its words are not repeated, for they may hold the key; the audit log of the cluster may have them";

/// What is looked for, and what is told.
const KNOWN: [(&str, &str); 13] = [
    ("because it is being terminated", "the namespace is being terminated"),
    ("exceeded quota", "a quota of the namespace would be exceeded"),
    ("failed quota", "a quota of the namespace is not met"),
    ("failed calling webhook", "an admission webhook cannot be asked"),
    ("admission webhook", "an admission webhook denied it; its log says why"),
    ("ValidatingAdmissionPolicy", "an admission policy denied it (ValidatingAdmissionPolicy)"),
    ("unable to transform", "the cluster's encryption at rest fails (unable to transform)"),
    ("etcdserver: leader changed", "etcdserver: leader changed"),
    ("etcdserver: no leader", "etcdserver: no leader"),
    ("etcdserver: request timed out", "etcdserver: request timed out"),
    ("database space exceeded", "etcdserver: database space exceeded"),
    ("request is too large", "etcdserver: request is too large"),
    ("shutting down", "it is shutting down"),
];

/// `metav1.StatusReason`.
const REASONS: [&str; 20] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
    "UnknownError",
];

/// Of a Secret; one that is within another stands before it.
const FIELDS: [&str; 13] = [
    "data",
    "stringData",
    "type",
    "immutable",
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "metadata.ownerReferences",
    "metadata.finalizers",
    "metadata.managedFields",
    "metadata.resourceVersion",
    "metadata",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn status(message: &str) -> Status {
        let details = Details::default();
        Status { kind: "Status".to_owned(), message: message.to_owned(), reason: String::new(), details }
    }

    #[test]
    fn only_authorizations_own_sentence_is_a_missing_right_and_names_who() {
        let rbac = |user: &str, verb: &str| {
            format!(
                "secrets \"ring\" is forbidden: User \"{user}\" cannot {verb} resource \"secrets\" in API group \"\" in the \
                 namespace \"ns\""
            )
        };
        let account = "system:serviceaccount:ns:oneseal";
        assert_eq!(status(&rbac(account, "update")).without_right(Verb::Update), Some(account));
        for quoted in ["alice@example.com", "OIMDVN3qM4j-BAtXvdnP", "system:serviceaccount:ns:OIMDVN3qM4j"] {
            let told = status(&rbac(quoted, "update"));
            assert_eq!(told.without_right(Verb::Update), Some("this identity"), "{quoted}");
        }
        let create = rbac(account, "create").replace(" \"ring\"", "");
        assert_eq!(status(&create).without_right(Verb::Create), Some(account));
        assert_eq!(status(&rbac(account, "get")).without_right(Verb::Update), None);
        let webhook = format!("admission webhook \"a.b.c\" denied the request: {}", rbac(account, "update"));
        assert_eq!(status(&webhook).without_right(Verb::Update), None);
    }

    #[test]
    fn a_missing_right_to_a_review_or_a_path_names_who() {
        let account = "system:serviceaccount:ns:oneseal";
        let review = format!(
            "tokenreviews.authentication.k8s.io is forbidden: User \"{account}\" cannot create resource \"tokenreviews\" in \
             API group \"authentication.k8s.io\" at the cluster scope"
        );
        assert_eq!(status(&review).without_right_to("create"), Some(account));
        assert_eq!(status(&review).without_right_to("get"), None);
        let path = |user: &str| format!("forbidden: User \"{user}\" cannot get path \"/openid/v1/jwks\"");
        assert_eq!(status(&path(account)).without_right_to("get"), Some(account));
        assert_eq!(status(&path("alice@example.com")).without_right_to("get"), Some("this identity"));
        let quoted = format!("admission webhook \"a.b.c\" denied the request: {review}");
        assert_eq!(status(&quoted).without_right_to("create"), None);
    }

    #[test]
    fn fields_are_told_without_what_is_selected_in_them() {
        for (path, told) in [
            ("data[keyring.json]", Some("data")),
            ("metadata.annotations[OIMDVN3qM4j]", Some("metadata.annotations")),
            ("metadata.labels.OIMDVN3qM4j", Some("metadata.labels")),
            ("metadata.OIMDVN3qM4j", Some("metadata")),
            ("dataOIMDVN3qM4j", None),
            ("OIMDVN3qM4j", None),
            ("", None),
        ] {
            assert_eq!(field_of(path), told, "{path}");
        }
    }
}
