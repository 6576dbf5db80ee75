//! The way to the API server: whose credentials, which cluster.
//!
//! The order is kubectl's: a kubeconfig that is named, `$KUBECONFIG`, `~/.kube/config`, and where there is none of these,
//! the pod's own service account. kube reads a service account's token and its authority anew about once a minute; on top
//! of that, everything is read anew after a failure, so that what was put right on disk is used without a restart.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use kube::{Client, Config};
use oneseal_coordination::{Clock, SystemClock};
use secrecy::ExposeSecret;
use tokio::sync::Mutex;
use tower::{BoxError, ServiceBuilder};

use super::plugin;
use crate::ErrorKind;

/// Who asks, and how long an answer may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) context: Option<String>,
    /// Of one exchange, connecting included.
    pub(super) timeout: Duration,
}

/// One API server and how to get there.
pub(super) struct Way {
    pub(super) access: Access,
    link: Mutex<Option<Link>>,
}

/// A client whose credentials have been read. Clones share their connections.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) client: Client,
    /// The pod's own, or the kubeconfig context's; empty where neither names one.
    pub(super) namespace: String,
    /// Scheme, host and port, for messages.
    pub(super) server: String,
    /// Until when the credentials are good, in Unix seconds, where a plugin has said so.
    until: Option<i64>,
    /// Of no other link of this process.
    number: u64,
}

impl Way {
    /// Nothing is read yet.
    pub(super) fn new(access: Access) -> Self {
        Self { access, link: Mutex::new(None) }
    }

    /// The way that was used last, or a new one; and whether it is new.
    ///
    /// # Cancel safety
    /// What was not finished is begun again by the next call.
    pub(super) async fn link(&self) -> Result<(Link, bool), Unusable> {
        let mut last = self.link.lock().await;
        if let Some(link) = last.as_ref().filter(|link| is_current(link)) {
            return Ok((link.clone(), false));
        }
        let link = self.connect().await?;
        *last = Some(link.clone());
        Ok((link, true))
    }

    /// Reads what leads there, without running the plugin that may be named and without asking anybody. Blocking.
    pub(super) fn look(&self) -> Result<(), Unusable> {
        server_of(&configuration(&self.access)?).map(drop)
    }

    /// Makes the next call read everything anew, unless that has happened already.
    pub(super) async fn forget(&self, link: &Link) {
        let mut last = self.link.lock().await;
        if last.as_ref().is_some_and(|last| last.number == link.number) {
            *last = None;
        }
    }

    async fn connect(&self) -> Result<Link, Unusable> {
        let access = self.access.clone();
        // Files are read, and a kubeconfig may name a program that brings the credentials.
        let opened = tokio::task::spawn_blocking(move || open(&access)).await;
        opened.unwrap_or_else(|error| Err(Unusable::new(ErrorKind::Unavailable, error.to_string())))
    }
}

/// What a credential plugin gave may have an end, and nothing else would replace it.
fn is_current(link: &Link) -> bool {
    link.until.is_none_or(|until| SystemClock.wall().0 + CREDENTIAL_MARGIN_S < until)
}

/// Why there is no way. In words of our own: what kube says may hold what a credential plugin printed.
pub(super) struct Unusable {
    pub(super) kind: ErrorKind,
    pub(super) detail: String,
    pub(super) source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Unusable {
    pub(super) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), source: None }
    }

    pub(super) fn because(self, source: Box<dyn StdError + Send + Sync>) -> Self {
        Self { source: Some(source), ..self }
    }

    pub(super) fn misconfigured(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misconfigured, detail)
    }
}

/// Reads the configuration, runs the plugin that it may name, and makes the client. Blocking; nothing is sent.
fn open(access: &Access) -> Result<Link, Unusable> {
    let mut config = configuration(access)?;
    // Whoever gave the order asks again by itself.
    config.default_retry = false;
    let namespace = config.default_namespace.trim().to_owned();
    let server = server_of(&config)?;
    let until = ask_plugin(&mut config, access.timeout)?;
    let client = client(&config, access.timeout)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Ok(Link { client, namespace, server, until, number })
}

/// Puts what the kubeconfig's plugin gives in the plugin's place. Until when it is good, in Unix seconds.
fn ask_plugin(config: &mut Config, limit: Duration) -> Result<Option<i64>, Unusable> {
    let user = &mut config.auth_info;
    if user.auth_provider.take().is_some() {
        return Err(Unusable::misconfigured(
            "the kubeconfig has an auth-provider, which kubectl has given up as well; use a credential plugin (exec)",
        ));
    }
    let Some(exec) = user.exec.take() else { return Ok(None) };
    // As kubectl: what the kubeconfig itself holds comes first.
    if user.token.is_some() || user.token_file.is_some() || user.username.is_some() {
        return Ok(None);
    }
    let given = plugin::ask(&exec, limit)?;
    user.token = given.token;
    if let (Some(certificate), Some(key)) = (given.client_certificate_data, given.client_key_data) {
        user.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
        user.client_key_data = Some(BASE64_STANDARD.encode(key.expose_secret()).into());
    }
    Ok(given.until)
}

fn configuration(access: &Access) -> Result<Config, Unusable> {
    let Access { kubeconfig, context, .. } = access;
    let named = kubeconfig.as_deref();
    let read = match named {
        Some(path) => Kubeconfig::read_from(path).map(Some),
        None => default_kubeconfig(),
    };
    match read.map_err(|error| unreadable(&error))? {
        Some(kubeconfig) => by_kubeconfig(kubeconfig, context.as_deref(), &place_of(named)),
        None if context.is_some() => {
            let detail =
                "a context is named, and there is no kubeconfig to find it in ($KUBECONFIG, ~/.kube/config)";
            Err(Unusable::misconfigured(detail))
        }
        None => in_pod(),
    }
}

/// `$KUBECONFIG`, which may name several, or `~/.kube/config` if it is there.
fn default_kubeconfig() -> Result<Option<Kubeconfig>, KubeconfigError> {
    if let Some(kubeconfig) = Kubeconfig::from_env()? {
        return Ok(Some(kubeconfig));
    }
    let path = std::env::home_dir().map(|home| home.join(".kube/config"));
    match path {
        Some(path) if path.is_file() => Kubeconfig::read_from(path).map(Some),
        _ => Ok(None),
    }
}

fn place_of(named: Option<&Path>) -> String {
    named.map_or_else(|| "the kubeconfig".to_owned(), |path| format!("the kubeconfig {}", path.display()))
}

fn by_kubeconfig(kubeconfig: Kubeconfig, context: Option<&str>, place: &str) -> Result<Config, Unusable> {
    let contexts: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let contexts = if contexts.is_empty() { "none".to_owned() } else { contexts.join(", ") };
    let Some(wanted) = context.or(kubeconfig.current_context.as_deref()).map(str::to_owned) else {
        return Err(Unusable::misconfigured(format!(
            "{place} has no current context; name one of its contexts: {contexts}"
        )));
    };
    let options = KubeConfigOptions { context: Some(wanted.clone()), ..KubeConfigOptions::default() };
    let proxy = proxy_of(&kubeconfig, &wanted);
    if proxy.is_some() {
        return Err(Unusable::misconfigured(format!(
            "{place} reaches the cluster of the context {wanted} through a proxy (proxy-url), which is not supported here; \
             name a context whose API server is reached directly"
        )));
    }
    // It waits for nothing: all it does is look into the file and the files that it names.
    let loaded = futures_util::FutureExt::now_or_never(Config::from_custom_kubeconfig(kubeconfig, &options));
    match loaded {
        Some(Ok(config)) => Ok(config),
        Some(Err(KubeconfigError::LoadContext(_))) => {
            Err(Unusable::misconfigured(format!("{place} has no context {wanted:?}; it has: {contexts}")))
        }
        Some(Err(KubeconfigError::LoadClusterOfContext(cluster))) => Err(Unusable::misconfigured(format!(
            "the context {wanted:?} of {place} is of a cluster {cluster:?} that it does not describe"
        ))),
        Some(Err(error)) => Err(unreadable(&error)),
        None => Err(Unusable::new(ErrorKind::Unavailable, format!("{place} could not be read in one go"))),
    }
}

fn proxy_of<'k>(kubeconfig: &'k Kubeconfig, context: &str) -> Option<&'k str> {
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.as_deref().filter(|proxy| !proxy.is_empty())
}

fn unreadable(error: &KubeconfigError) -> Unusable {
    match error {
        // YAML's errors quote what they stumble over.
        KubeconfigError::Parse(_) => Unusable::misconfigured("the kubeconfig is no YAML of a kubeconfig"),
        error => {
            let why = unread_file(error).unwrap_or_else(|| error.to_string());
            Unusable::misconfigured(format!("the kubeconfig cannot be used: {why}"))
        }
    }
}

/// Which file could not be read, its path not quoted twice as kube does.
fn unread_file(error: &KubeconfigError) -> Option<String> {
    let (what, error, path) = match error {
        KubeconfigError::ReadConfig(error, path) => ("it", error, path),
        KubeconfigError::LoadCertificateAuthority(LoadDataError::ReadFile(error, path)) => {
            ("its certificate authority", error, path)
        }
        KubeconfigError::LoadClientCertificate(LoadDataError::ReadFile(error, path)) => {
            ("its client certificate", error, path)
        }
        KubeconfigError::LoadClientKey(LoadDataError::ReadFile(error, path)) => {
            ("its client key", error, path)
        }
        _ => return None,
    };
    Some(format!("{what} cannot be read at {}: {error}", path.display()))
}

fn in_pod() -> Result<Config, Unusable> {
    Config::incluster_env().map_err(|error| match error {
        InClusterError::ReadEnvironmentVariable(_) => Unusable::misconfigured(
            "there is neither a kubeconfig ($KUBECONFIG, ~/.kube/config) nor a pod's service account \
             (KUBERNETES_SERVICE_HOST is not set): name a kubeconfig, or run in a pod",
        ),
        InClusterError::ReadDefaultNamespace(_) | InClusterError::ReadCertificateBundle(_) => {
            Unusable::misconfigured(NO_TOKEN)
        }
        error => Unusable::misconfigured(format!("the pod's service account cannot be used: {error}")),
    })
}

/// Whether a key or a token would go over the wire for everybody to see.
fn server_of(config: &Config) -> Result<String, Unusable> {
    let url = &config.cluster_url;
    let host = url.host().unwrap_or_default();
    let port = url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    let server = format!("{}://{host}{port}", url.scheme_str().unwrap_or("https"));
    let is_local = matches!(host, "127.0.0.1" | "[::1]" | "localhost");
    if url.scheme_str() == Some("http") && !is_local {
        return Err(Unusable::misconfigured(format!(
            "{server} is spoken to without TLS, and what is said there would be read by whoever is in between; https is needed"
        )));
    }
    if config.accept_invalid_certs && !is_local {
        return Err(Unusable::misconfigured(format!(
            "the kubeconfig takes any certificate for {server} (insecure-skip-tls-verify), and what is said there \
             would be read by whoever is in between; give its authority, or its name as tls-server-name"
        )));
    }
    Ok(server)
}

/// kube's own stack without its retries, and without its log: what fails is told by whoever asked.
fn client(config: &Config, timeout: Duration) -> Result<Client, Unusable> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // A watch is quiet for minutes, and its other end may go without a word.
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_connect_timeout(Some(timeout));
    let connector = config.rustls_https_connector_with_connector(tcp).map_err(|error| unfit(&error))?;
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|error| unfit(&error))?)
        .layer(config.extra_headers_layer().map_err(|error| unfit(&error))?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}

fn unfit(error: &kube::Error) -> Unusable {
    match error {
        kube::Error::Auth(error) => Unusable::new(ErrorKind::Unauthenticated, credentials(error)),
        kube::Error::RustlsTls(_) => Unusable::misconfigured(
            "the authority or the client certificate by which the API server is spoken to cannot be used: it is no PEM of \
             certificates, or its key is missing",
        ),
        _ => Unusable::misconfigured("the configuration of the cluster cannot be used"),
    }
}

/// Why there are no credentials.
pub(super) fn credentials(error: &kube::client::AuthError) -> String {
    use kube::client::AuthError;
    match error {
        AuthError::ReadTokenFile(..) if std::env::var_os(IN_POD).is_some() => NO_TOKEN.to_owned(),
        AuthError::ReadTokenFile(error, path) => {
            format!("the token file {} cannot be read: {error}", path.display())
        }
        AuthError::InvalidBearerToken(_) => {
            "the token has characters that no token has, such as a line end".to_owned()
        }
        _ => "the kubeconfig gives no credentials that can be used here".to_owned(),
    }
}

const IN_POD: &str = "KUBERNETES_SERVICE_HOST";

const NO_TOKEN: &str = "no service account token is mounted at /var/run/secrets/kubernetes.io/serviceaccount: set \
                        `automountServiceAccountToken: true` in the pod's spec (or in its ServiceAccount), and let the \
                        ServiceAccount have the Role of deploy/kubernetes/rbac.yaml";

/// What ends within this is got anew.
const CREDENTIAL_MARGIN_S: i64 = 60;

/// Connections that are not used for as long are closed: longer than the poll, so that it keeps its own.
const IDLE: Duration = Duration::from_secs(60);

const KEEPALIVE: Duration = Duration::from_secs(30);

static NUMBER: AtomicU64 = AtomicU64::new(0);
