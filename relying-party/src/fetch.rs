//! One HTTP GET, HEAD or POST, as narrow as asking an issuer needs.
//!
//! No redirects, no content-coding, no proxy but one that is named (`HTTPS_PROXY` and its kin are not read), no
//! cookies, no retries, no kept connections: an issuer is read every few minutes, so a fresh connection costs nothing and always meets the
//! replica that is there now. The connection is driven by the caller's own future, so giving up closes it.
//!
//! A full client would do more than we want here, and each thing it does by itself (following a redirect to a
//! metadata service, inflating a body) has been somebody's hole.

use std::error::Error as StdError;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_rustls::HttpsConnector;
use tower::ServiceExt;

pub use crate::dial::ConnectTo;
use crate::dial::{self, Dialer, ProxyFault, TlsFault};
pub use crate::trust::SetupError;
use crate::trust::{Roots, Trust};

/// A client. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    dialer: Dialer,
    trust: Arc<Trust>,
    plaintext: bool,
    deadline: Duration,
    max_body: usize,
}

impl Fetcher {
    /// A client as `options` say. Reads the system's certificates, so it blocks for some milliseconds.
    ///
    /// # Errors
    /// [`SetupError`]; having no root certificate at all is one only if `options.https` says that TLS is needed.
    pub fn new(options: &FetchOptions) -> Result<Self, SetupError> {
        let dialer = Dialer::new(options.connect_to, options.proxy.as_deref())?;
        let roots = Roots {
            extra: &options.extra_roots,
            file: options.root_file.as_deref(),
            system: options.system_roots,
            needed: options.https && !options.is_plaintext(),
        };
        let trust = Arc::new(Trust::new(&roots)?);
        let FetchOptions { deadline, max_body, .. } = *options;
        Ok(Self { dialer, trust, plaintext: options.is_plaintext(), deadline, max_body })
    }

    /// GETs `url` and reads the whole answer. Every status but a redirect is returned.
    ///
    /// # Errors
    /// [`FetchError`]; after any of them nothing of the answer is left.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn get(&self, url: &str) -> Result<Fetched, FetchError> {
        self.ask(Method::GET, url, None).await
    }

    /// The same with HEAD: status and header fields alone.
    ///
    /// # Errors
    /// As [`Fetcher::get`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn head(&self, url: &str) -> Result<Fetched, FetchError> {
        self.ask(Method::HEAD, url, None).await
    }

    /// Asks with this `Authorization`, and a body of JSON if there is one, nobody but who `url` names.
    ///
    /// # Errors
    /// As [`Fetcher::get`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; what was asked may have been done.
    pub async fn call(
        &self,
        method: Method,
        url: &str,
        mut authorization: HeaderValue,
        body: Option<Bytes>,
    ) -> Result<Fetched, FetchError> {
        authorization.set_sensitive(true);
        let body = body.map(|body| (JSON, body));
        self.ask(method, url, Some(Sent { authorization: Some(authorization), body })).await
    }

    /// POSTs a form (`application/x-www-form-urlencoded`, as it stands) to whom `url` names.
    ///
    /// # Errors
    /// As [`Fetcher::get`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; what was asked may have been done.
    pub async fn post_form(&self, url: &str, form: Bytes) -> Result<Fetched, FetchError> {
        let sent = Sent { authorization: None, body: Some((FORM, form)) };
        self.ask(Method::POST, url, Some(sent)).await
    }

    async fn ask(&self, method: Method, url: &str, sent: Option<Sent>) -> Result<Fetched, FetchError> {
        let uri = parse_url(url)?;
        match tokio::time::timeout(self.deadline, self.exchange(method, uri, sent)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(FetchError::Deadline(self.deadline)),
        }
    }

    async fn exchange(&self, method: Method, uri: Uri, sent: Option<Sent>) -> Result<Fetched, FetchError> {
        let request = request(method, &uri, sent)?;
        let uri = if self.plaintext { without_tls(uri)? } else { uri };
        let connector = HttpsConnector::from((self.dialer.clone(), self.trust.current().await));
        let stream = connector.oneshot(uri).await.map_err(connect_error)?;
        let (mut sender, connection) = http1::handshake(stream).await?;
        let answer = async move {
            let response = sender.send_request(request).await?;
            self.read(response).await
        };
        tokio::pin!(answer, connection);
        // Both make one exchange: the connection moves the bytes that the answer waits for. When the connection
        // ends first (`Connection: close`), what it has read is still in the answer's hands.
        tokio::select! {
            biased;
            outcome = &mut answer => outcome,
            _ = &mut connection => answer.await,
        }
    }

    async fn read(&self, response: http::Response<Incoming>) -> Result<Fetched, FetchError> {
        let (head, body) = response.into_parts();
        if head.status.is_redirection() && head.status != StatusCode::NOT_MODIFIED {
            return Err(FetchError::Redirect(head.status.as_u16()));
        }
        if head.headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(FetchError::Encoded);
        }
        if body.size_hint().lower() > self.max_body as u64 {
            return Err(FetchError::TooLarge(self.max_body));
        }
        let body =
            Limited::new(body, self.max_body).collect().await.map_err(|error| self.body_error(error))?;
        Ok(Fetched { status: head.status, headers: head.headers, body: body.to_bytes() })
    }

    fn body_error(&self, error: Box<dyn StdError + Send + Sync>) -> FetchError {
        match error.downcast::<hyper::Error>() {
            Ok(error) => FetchError::Http(*error),
            Err(other) if other.is::<LengthLimitError>() => FetchError::TooLarge(self.max_body),
            Err(other) => FetchError::Connect(other),
        }
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("deadline", &self.deadline).field("max_body", &self.max_body).finish()
    }
}

/// How to fetch.
///
/// # Defaults
/// [`DEFAULT_DEADLINE`], [`MAX_DOCUMENT`], the system's roots, TLS expected, each host where DNS says, no proxy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchOptions {
    /// For a whole exchange, from name lookup to the last byte.
    pub deadline: Duration,
    /// The longest body, in bytes.
    pub max_body: usize,
    /// Where every connection goes, whatever the URL's host: the way to ask one replica of several.
    pub connect_to: Option<ConnectTo>,
    /// An HTTP proxy, as `http://proxy.example:3128`, that https connections are tunnelled through (CONNECT, RFC 9110
    /// section 9.3.6): it sees host and port and never a path. Plain http, which is for loopback hosts, goes there
    /// directly. Nothing is read from the environment.
    pub proxy: Option<String>,
    /// PEM certificates that are trusted beside the system's.
    pub extra_roots: Vec<String>,
    /// A PEM file of certificates that are trusted as well, read again before each connection.
    pub root_file: Option<PathBuf>,
    /// Whether the system's certificates are trusted.
    pub system_roots: bool,
    /// Whether TLS will be spoken: if so, no root certificate at all is an error, and if not, none are read.
    pub https: bool,
}

impl FetchOptions {
    fn is_plaintext(&self) -> bool {
        matches!(self.connect_to, Some(ConnectTo::Plaintext(_)))
    }
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            deadline: DEFAULT_DEADLINE,
            max_body: MAX_DOCUMENT,
            connect_to: None,
            proxy: None,
            extra_roots: Vec::new(),
            root_file: None,
            system_roots: true,
            https: true,
        }
    }
}

/// For a whole exchange. Relying parties in the field wait 0.5 s (Nimbus) to 5 s (jose, AWS) for an issuer.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);

/// The longest discovery document or key set, in bytes. A hundred RSA-4096 keys, the most that AWS and Entra read,
/// are 80 KiB; with certificate chains beside them still below this.
pub const MAX_DOCUMENT: usize = 256 * 1024;

/// What was answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fetched {
    /// The status; never a redirect.
    pub status: StatusCode,
    /// All header fields.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why an exchange failed. Quotes nothing that was answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL is not one that is fetched.
    #[error("not an absolute http(s) URL without user name and fragment")]
    Url,
    /// Plain http to another machine.
    #[error("plain http is used for loopback hosts only; an https URL is wanted")]
    PlainHttp,
    /// Name lookup, TCP or TLS.
    #[error("cannot connect")]
    Connect(#[source] Box<dyn StdError + Send + Sync>),
    /// The proxy cannot be reached, or opens no tunnel to the host.
    #[error("the proxy opens no connection to the host")]
    Proxy(#[source] Box<dyn StdError + Send + Sync>),
    /// The certificate is not one that is trusted for this host: name, date or who signed it.
    #[error("its certificate does not verify")]
    Certificate(#[source] Box<dyn StdError + Send + Sync>),
    /// The certificate is one of an authority, which vouches for others and never for a host, however trusted.
    #[error(
        "the server shows a certificate authority's own certificate (CA:TRUE), which may not stand for a server; make \
         an authority and a certificate that it signs, or a self-signed one with basicConstraints=CA:FALSE"
    )]
    AuthorityAsServer,
    /// TLS was spoken to somebody who speaks something else.
    #[error("what answers there does not speak TLS")]
    NotTls(#[source] Box<dyn StdError + Send + Sync>),
    /// Not finished in time.
    #[error("no complete answer within {0:?}")]
    Deadline(Duration),
    /// A redirect, which is never followed.
    #[error("answered with redirect {0}, and redirects are not followed; configure the address it leads to")]
    Redirect(u16),
    /// A body longer than the cap.
    #[error("the body is longer than {0} bytes")]
    TooLarge(usize),
    /// A content-coding that was not asked for.
    #[error("the body is encoded (Content-Encoding), which was not asked for")]
    Encoded,
    /// The exchange broke off, or was no HTTP.
    #[error("the HTTP exchange failed")]
    Http(#[from] hyper::Error),
}

impl FetchError {
    /// A short name in snake_case.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::PlainHttp => "plain_http",
            Self::Connect(_) => "connect",
            Self::Proxy(_) => "proxy",
            Self::Certificate(_) => "certificate",
            Self::AuthorityAsServer => "certificate_of_authority",
            Self::NotTls(_) => "not_tls",
            Self::Deadline(_) => "deadline",
            Self::Redirect(_) => "redirect",
            Self::TooLarge(_) => "too_large",
            Self::Encoded => "encoded",
            Self::Http(_) => "http",
        }
    }
}

/// The span that a server writes as `delta-seconds` (RFC 9111 section 1.2.2), as in `max-age`, `Age` and `Retry-After`;
/// nothing if it is none. Any number of digits is one: what is beyond `u64::MAX` seconds is that, so that whoever computes
/// with it must not add to it unchecked.
pub fn delta_seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Of digits alone, nothing but too many of them is no number.
    is_number.then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

/// Whether `url` may be fetched at all: what [`Fetcher::get`] asks first.
///
/// # Errors
/// [`FetchError::Url`], [`FetchError::PlainHttp`].
pub(crate) fn parse_url(url: &str) -> Result<Uri, FetchError> {
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains(['#', '@']) {
        return Err(FetchError::Url);
    }
    let uri: Uri = url.parse().map_err(|_| FetchError::Url)?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or(FetchError::Url)?;
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if is_loopback(host) => Ok(uri),
        Some("http") => Err(FetchError::PlainHttp),
        _ => Err(FetchError::Url),
    }
}

/// The URL by which the connector knows that no TLS is wanted. The request is made of the other one.
fn without_tls(uri: Uri) -> Result<Uri, FetchError> {
    let mut parts = uri.into_parts();
    parts.scheme = Some(Scheme::HTTP);
    Uri::from_parts(parts).map_err(|_| FetchError::Url)
}

fn connect_error(error: Box<dyn StdError + Send + Sync>) -> FetchError {
    let error = match error.downcast::<ProxyFault>() {
        Ok(fault) => return FetchError::Proxy(fault.0),
        Err(error) => error,
    };
    match dial::tls_fault(&*error) {
        Some(TlsFault::NotTls) => FetchError::NotTls(error),
        Some(TlsFault::Certificate) if dial::is_authority_as_server(&*error) => FetchError::AuthorityAsServer,
        Some(TlsFault::Certificate) => FetchError::Certificate(error),
        None => FetchError::Connect(error),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn request(method: Method, uri: &Uri, sent: Option<Sent>) -> Result<Request<Full<Bytes>>, FetchError> {
    let authority = uri.authority().ok_or(FetchError::Url)?;
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let fields: [(HeaderName, &str); 3] = [
        (header::HOST, authority.as_str()),
        (header::ACCEPT, "application/json"),
        (header::USER_AGENT, USER_AGENT),
    ];
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in fields {
        request = request.header(name, value);
    }
    let mut body = Bytes::new();
    if let Some(sent) = sent {
        if let Some(authorization) = sent.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if let Some((media_type, sent)) = sent.body {
            request = request.header(header::CONTENT_TYPE, media_type);
            body = sent;
        }
    }
    request.body(Full::from(body)).map_err(|_| FetchError::Url)
}

/// What goes with a request beside its URL.
struct Sent {
    authorization: Option<HeaderValue>,
    /// With its media type.
    body: Option<(&'static str, Bytes)>,
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const USER_AGENT: &str = concat!("oneseal-relying-party/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_anywhere_and_http_on_loopback_alone() {
        for url in
            ["https://oidc.example/x?y=1", "http://127.0.0.1:8080/", "http://[::1]/", "http://localhost:1/a"]
        {
            assert!(parse_url(url).is_ok(), "{url}");
        }
        for url in [
            "http://oidc.example/",
            "http://10.0.0.1/",
            "http://localhost.example/",
            "http://169.254.169.254/",
        ] {
            assert!(matches!(parse_url(url), Err(FetchError::PlainHttp)), "{url}");
        }
        for url in [
            "",
            "/jwks",
            "oidc.example",
            "ftp://a/",
            "https://",
            "https://u:p@a/",
            "https://a/#f",
            "https://a/ b",
        ] {
            assert!(matches!(parse_url(url), Err(FetchError::Url)), "{url}");
        }
    }

    #[test]
    fn the_request_names_the_url_host_and_no_coding() {
        let uri = parse_url("https://oidc.example:8443/a/jwks.json?x=1").expect("good");
        let request = request(Method::GET, &uri, None).expect("good");
        assert_eq!(request.uri(), "/a/jwks.json?x=1");
        assert_eq!(request.headers()[header::HOST], "oidc.example:8443");
        assert!(!request.headers().contains_key(header::ACCEPT_ENCODING));
        assert!(!request.headers().contains_key(header::AUTHORIZATION));
    }

    #[test]
    fn what_is_sent_goes_with_its_credential_as_it_stands() {
        let uri = parse_url("https://oidc.example/admin").expect("good");
        let sent = Sent {
            authorization: Some(HeaderValue::from_static("Bearer canary")),
            body: Some((JSON, Bytes::from_static(b"{}"))),
        };
        let request = request(Method::POST, &uri, Some(sent)).expect("good");
        assert_eq!(request.headers()[header::AUTHORIZATION], "Bearer canary");
        assert_eq!(request.headers()[header::CONTENT_TYPE], "application/json");
        assert_eq!(Body::size_hint(request.body()).exact(), Some(2));
    }

    #[test]
    fn a_root_that_is_no_certificate_is_refused() {
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for extra in ["", "nonsense", pem] {
            let options =
                FetchOptions { extra_roots: vec![extra.to_owned()], https: false, ..Default::default() };
            assert!(matches!(Fetcher::new(&options), Err(SetupError::RootCertificate)), "{extra}");
        }
    }
}
