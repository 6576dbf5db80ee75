//! A namespace with the rights that are shipped, a ring in its Secret, and servers that read it as their ServiceAccount.

use std::path::PathBuf;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oneseal::{Algorithm, IssuerUrl};
use oneseal_testing::parts::{KubeApiserver, Proxy};
use oneseal_tests::{Forwarder, Replica, Start, binary, http, state};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::caches::AUDIENCE;
use crate::shipped;

/// The Secret and the ServiceAccount that the manifests name.
pub(crate) const SECRET: &str = "oneseal-ring";
const ACCOUNT: &str = "oneseal";

/// One issuer, the namespace with its ring, and a directory for what its replicas need.
pub(crate) struct Place {
    pub(crate) issuer: IssuerUrl,
    pub(crate) server: &'static KubeApiserver,
    pub(crate) namespace: String,
    /// Between the replicas and the API server.
    pub(crate) proxy: Proxy,
    /// Everything that is shipped, as the server took it.
    objects: Vec<Value>,
    forwarder: Forwarder,
    dir: TempDir,
}

impl Place {
    /// A namespace with everything that is shipped, and no ring. `None` where there is no kube-apiserver.
    pub(crate) async fn new() -> Option<Self> {
        let server = KubeApiserver::shared()?;
        let (namespace, objects) = shipped::applied(server);
        let forwarder = Forwarder::start().await;
        let place = Self {
            issuer: IssuerUrl::parse(&format!("http://{}", forwarder.address()), "test").unwrap(),
            proxy: Proxy::start(server.address()),
            dir: tempfile::tempdir().unwrap(),
            server,
            namespace,
            objects,
            forwarder,
        };
        let token = server.token(&place.namespace, ACCOUNT, &[], 3600, None);
        place.write("replica.kubeconfig", &server.kubeconfig_at(place.proxy.address(), &token));
        server.service_account(&place.namespace, "stranger");
        let token = server.token(&place.namespace, "stranger", &[], 3600, None);
        place.write("stranger.kubeconfig", &server.kubeconfig_for(&token));
        place.write("admin.kubeconfig", &server.kubeconfig_admin());
        place.is_in_force();
        Some(place)
    }

    /// The server follows its own rules by a watch.
    fn is_in_force(&self) {
        let user = format!("system:serviceaccount:{}:{ACCOUNT}", self.namespace);
        let may = json!({
            "namespace": self.namespace, "verb": "update", "resource": "secrets", "name": SECRET,
        });
        while !self.server.is_allowed(&user, &may) {}
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The file of the ConfigMap, as it is mounted.
    pub(crate) fn shipped_configuration(&self) -> PathBuf {
        self.write("oneseal.toml", &shipped::configuration(&self.objects))
    }

    /// The credentials of `who`: `replica`, `stranger`, `admin`.
    pub(crate) fn kubeconfig(&self, who: &str) -> PathBuf {
        self.dir.path().join(format!("{who}.kubeconfig"))
    }

    /// The environment of a pod here: its namespace, which a kubeconfig does not tell, and service links.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let namespace = ("ONESEAL__PROVIDER__NAMESPACE".to_owned(), self.namespace.clone());
        service_links().into_iter().chain([namespace]).collect()
    }

    /// How the replica `name` is started: with the times of a laboratory, and the environment that a Service called oneseal
    /// makes where service links are on.
    pub(crate) fn start(&self, name: &str) -> Start {
        self.start_as(name, "replica")
    }

    /// The same with the rights of `who`: `replica`, `stranger`, `admin`.
    pub(crate) fn start_as(&self, name: &str, who: &str) -> Start {
        let mut start = Start::with_file(self.dir.path().join(name), self.issuer.as_str(), self.dir.path());
        start.provider = format!(
            "kind = \"kubernetes\"\nnamespace = {:?}\nname = \"{SECRET}\"\nkubeconfig = {:?}\n",
            self.namespace,
            self.kubeconfig(who),
        );
        start.algorithms = vec![Algorithm::Es256];
        start.more = format!(
            "[admin]\nmint = true\nmint_audiences = [\"{AUDIENCE}\"]\n\
             [process]\nboot_timeout = \"3s\"\ndrain_delay = \"0s\"\nlog_format = \"human\"\n\
             [rotation]\npreset = \"lab\"\n"
        );
        start.variables = service_links();
        start
    }

    /// The first ring, made by `oneseal keys init` as an operator makes it.
    pub(crate) async fn init(&self) {
        let (exit, out, err) = run(&self.start_as("operator", "admin"), &["keys", "init", "--json"]).await;
        assert_eq!(exit, Some(0), "{out}{err}");
    }

    /// Puts these behind the issuer's address.
    pub(crate) fn in_front_of(&self, replicas: &[Replica]) {
        self.forwarder.set_backends(replicas.iter().map(|replica| replica.documents).collect());
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    /// What the Secret has now.
    pub(crate) fn data(&self) -> Value {
        let (status, secret) = self.server.request("GET", &format!("{}/{SECRET}", self.path()), None);
        assert_eq!(status, 200, "{secret}");
        secret["data"].clone()
    }

    pub(crate) fn delete(&self) {
        let (status, answer) = self.server.request("DELETE", &format!("{}/{SECRET}", self.path()), None);
        assert_eq!(status, 200, "{answer}");
    }

    /// Another Secret of this name, with `data` as the API has it.
    pub(crate) fn put(&self, data: &Value) {
        let secret = json!({"metadata": {"name": SECRET}, "type": "Opaque", "data": data});
        let place = format!("{}/{SECRET}", self.path());
        let (status, answer) = match self.server.request("GET", &place, None).0 {
            404 => self.server.request("POST", &self.path(), Some(&secret)),
            _ => self.server.request("PUT", &place, Some(&secret)),
        };
        assert!(matches!(status, 200 | 201), "{answer}");
    }
}

/// Entries as they are, for [`Place::put`].
pub(crate) fn encoded(entries: &[(&str, &[u8])]) -> Value {
    entries.iter().map(|(name, bytes)| ((*name).to_owned(), json!(STANDARD.encode(bytes)))).collect()
}

/// What kubelet puts into the environment of a pod beside a Service called oneseal.
fn service_links() -> Vec<(String, String)> {
    [
        ("ONESEAL_SERVICE_HOST", "10.0.0.17"),
        ("ONESEAL_SERVICE_PORT", "80"),
        ("ONESEAL_SERVICE_PORT_HTTP", "80"),
        ("ONESEAL_PORT", "tcp://10.0.0.17:80"),
        ("ONESEAL_PORT_80_TCP", "tcp://10.0.0.17:80"),
        ("ONESEAL_PORT_80_TCP_PROTO", "tcp"),
        ("ONESEAL_PORT_80_TCP_PORT", "80"),
        ("ONESEAL_PORT_80_TCP_ADDR", "10.0.0.17"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// Runs it to its end: exit code and log.
pub(crate) async fn ended(start: &Start) -> (Option<i32>, String) {
    let before = start.log_text().len();
    let mut child = start.spawn();
    let status = state::until("the end of a start that is refused", async || child.try_wait().unwrap()).await;
    (status.code(), start.log_text()[before..].to_owned())
}

/// Runs the program with `arguments` and the configuration of `start`: its exit code, and what it prints and complains.
pub(crate) async fn run(start: &Start, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = tokio::process::Command::new(binary());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONESEAL")) {
        command.env_remove(name);
    }
    command.args(arguments).arg("--config").arg(start.configure()).stdin(Stdio::null());
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The value of a metric.
pub(crate) async fn metric(replica: &Replica, sample: &str) -> f64 {
    let answer = http::get(replica.ops, "/metrics").await.unwrap();
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in {text}")).parse().unwrap()
}

pub(crate) async fn jwks(replica: &Replica) -> bytes::Bytes {
    replica.get("/.well-known/jwks.json").await.unwrap().body
}

/// What a pod would be minted.
pub(crate) fn pod() -> Value {
    json!({ "sub": "pod", "aud": AUDIENCE })
}
