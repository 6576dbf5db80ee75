//! A Kubernetes API server of one's own: kube-apiserver and etcd, no kubelet, no controllers.
//!
//! Nothing runs pods, makes default service accounts or empties a deleted namespace, since no controller is there.
//! Objects, RBAC, watches, server-side apply, tokens and their review are those of any cluster.

mod apply;
mod audit;
mod certificates;
mod client;
mod etcd;
mod gateway;
mod objects;
mod programs;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::Value;

pub use apply::Applied;
pub use audit::Audited;
pub use gateway::{Gateway, Meddling};
pub use objects::Pod;

use super::place::{Part, Place, eventually, free_address};
use certificates::Credentials;
use client::{By, Client, Question};
use etcd::Etcd;
use programs::Programs;

/// How an API server is set up.
///
/// # Defaults
/// RBAC; service account tokens of the server's own; nobody but its administrator may do anything.
#[derive(Clone, Debug, Default)]
pub struct KubeApiserverOptions {
    /// An `AuthenticationConfiguration` in YAML, such as one that trusts an issuer of the test's.
    pub authentication_config: Option<String>,
    /// Flags such as `--v=4`. One takes the place of ours of the same name.
    pub flags: Vec<String>,
}

/// A running API server with a store of its own. Dropped, it ends and leaves nothing behind.
#[derive(Debug)]
pub struct KubeApiserver {
    programs: Programs,
    home: PathBuf,
    address: SocketAddr,
    ca: String,
    admin: super::Certificate,
    client: Client,
    flags: Vec<String>,
    /// Dropped before its store: it would wait for that.
    part: Option<Part>,
    etcd: Etcd,
}

/// What a server had stored at one moment. It goes with its server.
#[derive(Clone, Debug)]
pub struct Snapshot {
    copy: PathBuf,
}

impl KubeApiserver {
    /// The server that all tests of this process share; each takes a namespace of its own. It cannot be stopped.
    ///
    /// `None` where kube-apiserver or etcd is missing, which the test's output then says.
    ///
    /// # Panics
    /// If it does not start, or is missing with `TEST_REQUIRE=all`.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<KubeApiserver>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(KubeApiserverOptions::default())).as_ref()
    }

    /// A server of the test's own. `None` where kube-apiserver or etcd is missing, which the test's output then says.
    ///
    /// # Panics
    /// If it does not start, or is missing with `TEST_REQUIRE=all`.
    pub fn start(options: KubeApiserverOptions) -> Option<Self> {
        let programs = Programs::find()?;
        let place = Place::of_this_process();
        let home = place.directory("kube");
        let credentials = Credentials::new();
        let write = |name: &str, text: &str| place.write(&home.join(name), text);
        write("ca.crt", &credentials.ca);
        write("server.crt", &credentials.server.chain);
        write("server.key", &credentials.server.key);
        write("tokens.key", &credentials.token_key.0);
        write("tokens.pub", &credentials.token_key.1);
        write("audit-policy.yaml", audit::POLICY);
        let address = free_address();
        let mut server = Self {
            client: Client::new(address, &credentials),
            etcd: Etcd::new(programs.etcd.clone(), home.clone()),
            ca: credentials.ca,
            admin: credentials.admin,
            flags: options.flags,
            part: None,
            programs,
            home,
            address,
        };
        if let Some(config) = options.authentication_config {
            place.write(&server.home.join("authentication.yaml"), &config);
            server
                .flags
                .push(format!("--authentication-config={}/authentication.yaml", server.home.display()));
        }
        server.start_again();
        Some(server)
    }

    /// Its URL, `https://127.0.0.1:PORT`. It is the issuer of its tokens and their audience, too.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of the authority that vouches for it.
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// The text of a kubeconfig of its administrator, to whom no rule applies.
    pub fn kubeconfig_admin(&self) -> String {
        let (chain, key) = (STANDARD.encode(&self.admin.chain), STANDARD.encode(&self.admin.key));
        let user = format!("client-certificate-data: {chain}\n    client-key-data: {key}");
        self.kubeconfig(self.address, &user)
    }

    /// The text of a kubeconfig of whoever bears `token`.
    pub fn kubeconfig_for(&self, token: &str) -> String {
        self.kubeconfig_at(self.address, token)
    }

    /// As [`KubeApiserver::kubeconfig_for`], but at `address`: that of a proxy on 127.0.0.1.
    pub fn kubeconfig_at(&self, address: SocketAddr, token: &str) -> String {
        self.kubeconfig(address, &format!("token: {token}"))
    }

    /// Asks as its administrator, with `body` as JSON, and gives back the status and what came: JSON, or a text.
    ///
    /// `path` begins with `/` and may have a query.
    ///
    /// # Panics
    /// If no answer comes.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.try_request(method, path, body).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`KubeApiserver::request`].
    ///
    /// # Errors
    /// Why no answer came; within half a minute.
    pub fn try_request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), String> {
        self.request_by(By::Admin, method, path, body)
    }

    /// As [`KubeApiserver::request`], but as whoever bears `token`, or as nobody.
    ///
    /// # Panics
    /// If no answer comes.
    pub fn request_as(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let by = token.map_or(By::Nobody, By::Token);
        self.request_by(by, method, path, body).unwrap_or_else(|error| panic!("{error}"))
    }

    /// All that it was asked since it was first started, in the order in which it had answered. A request that is still
    /// being answered may be missing: see [`KubeApiserver::wait_for_audited`].
    pub fn audit(&self) -> Vec<Audited> {
        audit::read(&self.audit_log())
    }

    /// Waits until its audit log has a line that `is_it`, and gives that back.
    ///
    /// # Panics
    /// If none comes, naming `what` was waited for.
    pub fn wait_for_audited(&self, what: &str, is_it: impl Fn(&Audited) -> bool) -> Audited {
        let found = eventually(|| self.audit().into_iter().find(|line| is_it(line)));
        found.unwrap_or_else(|| panic!("the API server was not asked for: {what}"))
    }

    /// Ends it in good order: open requests are answered, watches end. Its port and what it has stored stay its own.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&mut self) {
        self.end(Signal::TERM);
    }

    /// Ends it as a crash does: nothing is said to clients. What was acknowledged is stored.
    ///
    /// # Panics
    /// If it does not end.
    pub fn kill(&mut self) {
        self.end(Signal::KILL);
    }

    /// Starts it again after [`KubeApiserver::stop`], where it was, and returns when it is ready.
    ///
    /// # Panics
    /// If it does not start, with what it says.
    pub fn start_again(&mut self) {
        self.etcd.start_again();
        let place = Place::of_this_process();
        let mut command = place.own_command(&self.programs.kube_apiserver);
        command.args(self.all_flags());
        let mut part = place.start(command, &self.home.join("log"));
        let state = eventually(|| {
            if part.has_ended() {
                return Some(Err(()));
            }
            self.is_ready().then_some(Ok(()))
        });
        assert_eq!(state, Some(Ok(())), "kube-apiserver does not start:\n{}", tail(&part.log_text()));
        self.part = Some(part);
    }

    /// Stops it in its tracks (SIGSTOP): connections stay open, nothing answers.
    pub fn pause(&self) {
        if let Some(part) = &self.part {
            part.pause();
        }
    }

    /// Ends [`KubeApiserver::pause`].
    pub fn resume(&self) {
        if let Some(part) = &self.part {
            part.signal(Signal::CONT);
        }
    }

    /// A copy of all that it has stored now. It goes on meanwhile.
    ///
    /// # Panics
    /// If it has been stopped, or there is no room.
    pub fn snapshot(&self) -> Snapshot {
        let copy = Place::of_this_process().directory("snapshot").join("etcd");
        self.etcd.copy_to(&copy);
        Snapshot { copy }
    }

    /// Goes back to `snapshot`, with every object's resourceVersion and the next one to be given out: as an operator
    /// restores etcd from a backup, with the API server down meanwhile.
    ///
    /// # Panics
    /// If it does not start again, with what it says.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.kill();
        self.etcd.take(&snapshot.copy);
        self.start_again();
    }

    /// All that it has said so far.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    fn request_by(
        &self,
        by: By<'_>,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), String> {
        let (text, media_type) = match body {
            Some(body) => (body.to_string(), "application/json"),
            None => (String::new(), ""),
        };
        let answer = self.client.ask(Question { method, path, media_type, body: &text, by })?;
        Ok((answer.status, answer.body))
    }

    /// It makes its first namespaces some moments after it calls itself ready.
    fn is_ready(&self) -> bool {
        ["/readyz", "/api/v1/namespaces/default"]
            .iter()
            .all(|path| matches!(self.try_request("GET", path, None), Ok((200, _))))
    }

    /// The server first: without its store it would go on for minutes.
    fn end(&mut self, signal: Signal) {
        if let Some(mut part) = self.part.take() {
            part.end(signal);
        }
        self.etcd.stop(signal);
    }

    fn all_flags(&self) -> Vec<String> {
        let home = self.home.display();
        let url = self.url();
        let usual = [
            format!("--etcd-servers={}", self.etcd.url()),
            format!("--bind-address={}", self.address.ip()),
            format!("--secure-port={}", self.address.port()),
            // The addresses of a cluster's servers are nobody's business here.
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--cert-dir={home}"),
            format!("--tls-cert-file={home}/server.crt"),
            format!("--tls-private-key-file={home}/server.key"),
            format!("--client-ca-file={home}/ca.crt"),
            format!("--service-account-issuer={url}"),
            format!("--service-account-jwks-uri={url}/openid/v1/jwks"),
            format!("--service-account-key-file={home}/tokens.pub"),
            format!("--service-account-signing-key-file={home}/tokens.key"),
            "--authorization-mode=RBAC".to_owned(),
            "--allow-privileged=true".to_owned(),
            // No controller makes the account that it would give to pods without one.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--audit-policy-file={home}/audit-policy.yaml"),
            format!("--audit-log-path={}", self.audit_log().display()),
        ];
        let name = |flag: &str| flag.split('=').next().map(str::to_owned);
        let is_replaced = |flag: &String| self.flags.iter().any(|own| name(own) == name(flag));
        usual.into_iter().filter(|flag| !is_replaced(flag)).chain(self.flags.iter().cloned()).collect()
    }

    fn audit_log(&self) -> PathBuf {
        self.home.join("audit.log")
    }

    fn kubeconfig(&self, address: SocketAddr, user: &str) -> String {
        let ca = STANDARD.encode(&self.ca);
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: https://{address}
    certificate-authority-data: {ca}
users:
- name: test
  user:
    {user}
contexts:
- name: test
  context:
    cluster: test
    user: test
current-context: test
"
        )
    }
}

impl Drop for KubeApiserver {
    fn drop(&mut self) {
        // What it has stored is of no use to anybody.
        self.kill();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// The last lines of a log: these programs say a lot before they say why they end.
fn tail(log: &str) -> String {
    const LINES: usize = 30;
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
