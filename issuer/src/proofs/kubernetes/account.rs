//! What a service account's token says of who bears it.
//!
//! `sub` is `system:serviceaccount:NAMESPACE:NAME`, and the claim `kubernetes.io` says the same again, with uids. Names of
//! namespaces and accounts hold no colon, so that the subject can be taken apart in one way only.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::workload::Facts;

/// Who bears a token, as its claims have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The pod whose end ends the token.
    pub(super) pod: Option<Object>,
    /// The node that the pod runs on, or whose end ends the token.
    pub(super) node: Option<Object>,
    pub(super) token_id: Option<String>,
}

/// An object by its name and its uid, which no later one of that name has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) uid: String,
}

/// The claim `kubernetes.io` (kubernetes/kubernetes `pkg/serviceaccount`); what else is in it is bound to other things.
#[derive(Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: Object,
    pod: Option<Object>,
    node: Option<Object>,
}

impl Account {
    /// Reads the claims of a token whose signature is good.
    ///
    /// # Errors
    /// What is wrong with them, in words that quote nothing.
    pub(super) fn read(claims: &Map<String, Value>) -> Result<Self, &'static str> {
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) =
            parse_username(subject).ok_or("its `sub` is not `system:serviceaccount:NAMESPACE:NAME`")?;
        let bound = claims.get("kubernetes.io").ok_or("it has no claim `kubernetes.io`")?;
        let bound = Bound::deserialize(bound).map_err(|_| "its claim `kubernetes.io` is malformed")?;
        if (bound.namespace.as_str(), bound.serviceaccount.name.as_str()) != (namespace, name) {
            return Err("its `sub` and its claim `kubernetes.io` speak of two accounts");
        }
        let uids = [Some(&bound.serviceaccount), bound.pod.as_ref(), bound.node.as_ref()];
        if uids.into_iter().flatten().any(|object| !is_plain(&object.name) || !is_plain(&object.uid)) {
            return Err("its claim `kubernetes.io` holds what is no name or no uid");
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: bound.serviceaccount.uid,
            pod: bound.pod,
            node: bound.node,
            token_id: claims.get("jti").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// Its user name in the cluster.
    pub(super) fn username(&self) -> String {
        format!("{ACCOUNT}{}:{}", self.namespace, self.name)
    }

    /// What rules may ask and write.
    pub(super) fn facts(&self, cluster: &str) -> Facts {
        let mut named = vec![
            ("cluster", cluster),
            ("namespace", &self.namespace),
            ("service_account", &self.name),
            ("service_account_uid", &self.uid),
        ];
        if let Some(pod) = &self.pod {
            named.extend([("pod", &*pod.name), ("pod_uid", &*pod.uid)]);
        }
        if let Some(node) = &self.node {
            named.extend([("node", &*node.name), ("node_uid", &*node.uid)]);
        }
        Facts::new(named)
    }
}

/// Namespace and name in `system:serviceaccount:NAMESPACE:NAME`, both of the form that the API takes (RFC 1123 label
/// and subdomain).
pub(super) fn parse_username(text: &str) -> Option<(&str, &str)> {
    let (namespace, name) = text.strip_prefix(ACCOUNT)?.split_once(':')?;
    let is_label = !namespace.contains('.') && namespace.len() <= 63;
    (is_label && is_name(namespace) && is_name(name)).then_some((namespace, name))
}

/// A DNS subdomain in small letters, of at most 253 bytes.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(is_allowed) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Names and uids of the API are of this form; a template may write them.
fn is_plain(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    (1..=253).contains(&text.len()) && text.bytes().all(is_allowed)
}

const ACCOUNT: &str = "system:serviceaccount:";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims() -> Value {
        json!({
            "sub": "system:serviceaccount:ci:builder", "jti": "j",
            "kubernetes.io": {
                "namespace": "ci", "serviceaccount": {"name": "builder", "uid": "a-1"},
                "pod": {"name": "job-7", "uid": "p-1"}, "node": {"name": "n1", "uid": "n-1"}, "warnafter": 7,
            },
        })
    }

    fn read(claims: &Value) -> Result<Account, &'static str> {
        Account::read(claims.as_object().expect("an object"))
    }

    #[test]
    fn a_token_of_a_pod_says_account_pod_and_node() {
        let account = read(&claims()).expect("good");
        assert_eq!(account.username(), "system:serviceaccount:ci:builder");
        let facts = account.facts("prod");
        let told: Vec<_> = facts.names().collect();
        let wanted = [
            ("cluster", "prod"),
            ("namespace", "ci"),
            ("node", "n1"),
            ("node_uid", "n-1"),
            ("pod", "job-7"),
            ("pod_uid", "p-1"),
            ("service_account", "builder"),
            ("service_account_uid", "a-1"),
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn a_subject_is_taken_apart_in_one_way_or_not_at_all() {
        assert_eq!(parse_username("system:serviceaccount:a:b.c"), Some(("a", "b.c")));
        for other in [
            "",
            "alice",
            "system:node:n1",
            "system:serviceaccount:a",
            "system:serviceaccount:a:",
            "system:serviceaccount::b",
            "system:serviceaccount:a:b:c",
            "system:serviceaccount:a.b:c",
            "system:serviceaccount:A:b",
            "system:serviceaccount:a:b ",
            "system:serviceaccount:a:b..c",
            "System:serviceaccount:a:b",
            " system:serviceaccount:a:b",
            "system:serviceaccounts:a:b",
        ] {
            assert_eq!(parse_username(other), None, "{other}");
        }
    }

    #[test]
    fn claims_that_contradict_each_other_or_are_not_there_are_refused() {
        let without = |pointer: &str, value: Value| {
            let mut claims = claims();
            *claims.pointer_mut(pointer).expect("it is there") = value;
            read(&claims).expect_err(pointer)
        };
        assert!(without("/sub", json!("system:serviceaccount:ci:other")).contains("two accounts"));
        assert!(without("/kubernetes.io/namespace", json!("other")).contains("two accounts"));
        assert!(without("/kubernetes.io", json!(7)).contains("malformed"));
        assert!(without("/kubernetes.io/serviceaccount", json!("builder")).contains("malformed"));
        assert!(without("/kubernetes.io/pod/uid", json!(["p-1"])).contains("malformed"));
        assert!(without("/kubernetes.io/pod/uid", json!("")).contains("no uid"));
        assert!(without("/kubernetes.io/node/name", json!("n1\n")).contains("no name"));
        let mut legacy = claims();
        legacy.as_object_mut().expect("an object").remove("kubernetes.io");
        assert_eq!(read(&legacy), Err("it has no claim `kubernetes.io`"));
    }
}
