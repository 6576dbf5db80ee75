//! What these tests share: an account with the documented rights in a namespace of its own, and handles on its Secret.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use oneseal_coordination::EventDraft;
use oneseal_providers::{Change, Entries, KubernetesOptions, KubernetesProvider};
use oneseal_testing::parts::KubeApiserver;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// A poll so slow that only the watch can wake a test in time.
pub(crate) const NO_POLL: Duration = Duration::from_secs(3600);

/// Often enough to wait for.
pub(crate) const QUICK_POLL: Duration = Duration::from_millis(200);

/// The Secret of `deploy/kubernetes/rbac.yaml`.
pub(crate) const SECRET: &str = "oneseal-ring";

/// Its ServiceAccount.
pub(crate) const ACCOUNT: &str = "oneseal";

/// The rights as they are documented; the Role `oneseal-init` is made and not bound.
pub(crate) const RIGHTS: &str = include_str!("../../../deploy/kubernetes/rbac.yaml");

/// A namespace with an account that has the documented rights on the Secret, which is not there yet.
pub(crate) struct Tenant<'s> {
    pub(crate) server: &'s KubeApiserver,
    pub(crate) namespace: String,
    home: TempDir,
    token: OnceLock<String>,
}

impl<'s> Tenant<'s> {
    pub(crate) fn of(server: &'s KubeApiserver) -> Self {
        let namespace = server.create_namespace();
        server.apply(&RIGHTS.replace("namespace: oneseal", &format!("namespace: {namespace}")), false);
        let tenant = Self { server, namespace, home: tempfile::tempdir().unwrap(), token: OnceLock::new() };
        tenant.until_allowed("update", SECRET);
        tenant
    }

    /// Binds the Role that is for `keys init` alone.
    pub(crate) fn may_init(self) -> Self {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings", self.namespace);
        let binding = json!({
            "metadata": {"name": "oneseal-init"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "oneseal-init"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.namespace}],
        });
        assert_eq!(self.server.request("POST", &path, Some(&binding)).0, 201);
        self.until_allowed("create", "");
        self
    }

    /// The server follows its own rules by a watch.
    fn until_allowed(&self, verb: &str, name: &str) {
        let attributes = json!({"namespace": self.namespace, "verb": verb, "group": "", "resource": "secrets", "name": name});
        let allowed = (0..10_000).any(|_| self.server.is_allowed(&self.user(), &attributes));
        assert!(allowed, "{} may not {verb} {name}", self.user());
    }

    /// As the audit log names the account.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{ACCOUNT}", self.namespace)
    }

    pub(crate) fn token(&self) -> String {
        self.server.token(&self.namespace, ACCOUNT, &[], 600, None)
    }

    /// A token for many.
    pub(crate) fn shared_token(&self) -> &str {
        self.token.get_or_init(|| self.token())
    }

    /// A file with this text, as long as the tenant lives.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        // By rename, as kubelet's files come.
        let temp = self.home.path().join(format!("{name}.{}", Uuid::new_v4()));
        std::fs::write(&temp, text).unwrap();
        std::fs::rename(temp, &path).unwrap();
        path
    }

    pub(crate) fn by(&self, kubeconfig: &str) -> KubernetesOptions {
        let path = self.file(&format!("kubeconfig-{}", Uuid::new_v4()), kubeconfig);
        KubernetesOptions::secret(SECRET).in_namespace(&self.namespace).by_kubeconfig(path)
    }

    /// The account's own way, polling so seldom that only the watch is quick.
    pub(crate) fn options(&self) -> KubernetesOptions {
        self.by(&self.server.kubeconfig_for(&self.token())).poll_every(NO_POLL)
    }

    pub(crate) fn provider(&self) -> KubernetesProvider {
        KubernetesProvider::new(self.options()).unwrap()
    }

    pub(crate) fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets/{SECRET}", self.namespace)
    }

    /// The Secret as it is stored.
    pub(crate) fn stored(&self) -> Value {
        let (status, secret) = self.server.request("GET", &self.path(), None);
        assert_eq!(status, 200, "{secret}");
        secret
    }

    /// As an operator would make it.
    pub(crate) fn make(&self, kind: &str, data: &[(&str, &[u8])]) -> Value {
        self.server.create_secret(&self.namespace, SECRET, kind, data)
    }

    /// As an operator would edit it.
    pub(crate) fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut secret = self.stored();
        change(&mut secret);
        let (status, answer) = self.server.request("PUT", &self.path(), Some(&secret));
        assert_eq!(status, 200, "{answer}");
    }

    pub(crate) fn delete(&self) {
        assert_eq!(self.server.request("DELETE", &self.path(), None).0, 200);
    }
}

/// A ring document as far as a provider would look into one.
pub(crate) fn ring(revision: u64) -> Entries {
    Entries::single(Entries::KEYRING, format!(r#"{{"format":1,"revision":{revision},"keys":[]}}"#))
}

pub(crate) fn change() -> Change {
    change_of(Uuid::new_v4())
}

pub(crate) fn change_of(id: Uuid) -> Change {
    Change {
        id,
        actor: "test".to_owned(),
        reason: "a test".to_owned(),
        event: EventDraft::new("test.changed", "{}"),
        fence: None,
    }
}

/// Ends a test that would hang.
pub(crate) async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    let limit = Duration::from_secs(60);
    let outcome = tokio::time::timeout(limit, future).await;
    outcome.unwrap_or_else(|_| panic!("{what}: nothing happened for {limit:?}"))
}
