//! What tests put into an API server.

use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::place::eventually;
use super::KubeApiserver;

/// A pod, as an object: nothing runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its uid, which a token that is bound to it carries.
    pub uid: String,
}

impl KubeApiserver {
    /// A new, empty namespace with a name of its own.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn create_namespace(&self) -> String {
        let name = format!("test-{}", next());
        self.create("/api/v1/namespaces", &json!({"metadata": {"name": name}}));
        name
    }

    /// A new service account, which may do nothing but what is its own.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn service_account(&self, namespace: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.create(&path, &json!({"metadata": {"name": name}}));
    }

    /// Lets the service account `name` do in its namespace what the rules of a Role say, such as
    /// `[{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["ring"], "verbs": ["get", "watch"]}]`. When
    /// this returns, it may.
    ///
    /// # Panics
    /// If the server refuses them.
    pub fn grant(&self, namespace: &str, name: &str, rules: &Value) {
        let role = format!("test-{}", next());
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        self.create(&format!("{path}/roles"), &json!({"metadata": {"name": role}, "rules": rules}));
        let binding = json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        });
        self.create(&format!("{path}/rolebindings"), &binding);
        let first =
            |list: &str| rules.pointer(&format!("/0/{list}/0")).and_then(Value::as_str).unwrap_or_default();
        let resource = first("resources");
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({
            "namespace": namespace, "verb": first("verbs"), "group": first("apiGroups"), "resource": resource,
            "subresource": subresource, "name": first("resourceNames"),
        });
        // The server follows its own rules by a watch.
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let may = eventually(|| self.is_allowed(&user, &attributes).then_some(()));
        assert!(may.is_some(), "the rules do not say that {user} may: {attributes}");
    }

    /// Whether `user` may do what `attributes` say, as SubjectAccessReview has them: `namespace`, `verb`, `group`,
    /// `resource`, `subresource`, `name`.
    ///
    /// # Panics
    /// If the server refuses the question.
    pub fn is_allowed(&self, user: &str, attributes: &Value) -> bool {
        // What an authenticated account is a member of.
        let mut groups = vec!["system:authenticated".to_owned()];
        if let Some((namespace, _)) =
            user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        {
            groups
                .extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
        }
        let review = json!({"spec": {"user": user, "groups": groups, "resourceAttributes": attributes}});
        let answer = self.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review);
        answer.pointer("/status/allowed") == Some(&Value::Bool(true))
    }

    /// A token of the service account `name` for `audiences` (none: the server itself), valid for `seconds` (600 or
    /// more), and only as long as `pod` is there if it is bound to one.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn token(
        &self,
        namespace: &str,
        name: &str,
        audiences: &[&str],
        seconds: u32,
        pod: Option<&Pod>,
    ) -> String {
        let bound =
            pod.map(|pod| json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}));
        let spec = json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let answer = self.create(&path, &json!({"spec": spec}));
        text(&answer, "/status/token")
    }

    /// A new pod that runs as the service account `account`.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn create_pod(&self, namespace: &str, name: &str, account: &str) -> Pod {
        let container = json!({"name": "main", "image": "example.invalid/none"});
        let spec = json!({"serviceAccountName": account, "containers": [container]});
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let answer = self.create(&path, &json!({"metadata": {"name": name}, "spec": spec}));
        Pod { name: name.to_owned(), uid: text(&answer, "/metadata/uid") }
    }

    /// A new Secret of the type `kind`, such as `Opaque`, with `data` as it is (this encodes it). Gives back the object.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn create_secret(&self, namespace: &str, name: &str, kind: &str, data: &[(&str, &[u8])]) -> Value {
        let encode =
            |(key, bytes): &(&str, &[u8])| ((*key).to_owned(), Value::String(STANDARD.encode(bytes)));
        let data: serde_json::Map<String, Value> = data.iter().map(encode).collect();
        let secret = json!({"metadata": {"name": name}, "type": kind, "data": data});
        self.create(&format!("/api/v1/namespaces/{namespace}/secrets"), &secret)
    }

    /// # Panics
    /// If the server refuses it, with what it says.
    fn create(&self, path: &str, object: &Value) -> Value {
        let (status, answer) = self.request("POST", path, Some(object));
        assert!(matches!(status, 200..=202), "POST {path}: {status}: {}", answer["message"]);
        answer
    }
}

fn next() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn text(answer: &Value, pointer: &str) -> String {
    let text = answer.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("the answer has no {pointer}")).to_owned()
}
