//! The admin API over TCP: a URL, a token, and nobody else who gets to see it.
//!
//! The token comes from a file or a variable, never from the command line, where other users' process lists and the
//! shell's history would have it. It is sent to the host of the URL alone: no redirect is followed, no proxy of the
//! environment is asked, and plain http is for this machine.

use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;

use http::{HeaderValue, Uri};
use oneseal_relying_party::fetch::{ConnectTo, FetchError, FetchOptions, Fetched, Fetcher};
use zeroize::Zeroizing;

use super::socket::{DEADLINE, MAX_ANSWER, judge};
use super::{Answer, Call};
use crate::admin_token::Token;
use crate::cli::{Globals, UNTRUSTED, read_ca, verify};
use crate::config::disk;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::refusals::REPLICA_NO_ANSWER;

/// What only a URL needs.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// With a URL: the file that holds the admin token, such as /run/secrets/oneseal-admin, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "admin_token_env")]
    admin_token_file: Option<PathBuf>,
    /// With a URL: the environment variable that holds the admin token
    #[arg(long, value_name = "NAME")]
    admin_token_env: Option<String>,
    /// With a URL: trust the certificates in this PEM file beside the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// With a URL: connect there, whatever its host is; with http:// before it in plain HTTP, where something else
    /// encrypts
    #[arg(long, value_name = "[http://]HOST:PORT")]
    connect_to: Option<String>,
}

impl Args {
    /// Whether nothing of it was given.
    pub(super) fn is_empty(&self) -> bool {
        let Self { admin_token_file, admin_token_env, ca, connect_to } = self;
        admin_token_file.is_none() && admin_token_env.is_none() && ca.is_none() && connect_to.is_none()
    }
}

/// Whether `text` is meant to be a URL and not the path of a socket.
pub(super) fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| !scheme.contains('/'))
}

/// A replica that is asked over TCP.
pub(crate) struct Remote {
    /// Without a slash at its end.
    url: String,
    token: Token,
    fetcher: Fetcher,
}

impl Remote {
    /// The one at `url`.
    ///
    /// # Errors
    /// The URL, the token or the certificates are not usable (64), or the configuration is not (78).
    pub(super) async fn new(url: &str, args: Args, globals: &Globals) -> Result<Self, Failure> {
        let url = base(url)?.to_owned();
        let token = token(&args)?;
        let mut options = FetchOptions::default();
        options.deadline = DEADLINE;
        options.max_body = MAX_ANSWER;
        options.https = url.starts_with("https:");
        options.extra_roots = args.ca.iter().map(|path| read_ca(path)).collect::<Result<_, _>>()?;
        // A configuration that is named is one of the replica asked, authorities included.
        if globals.config.is_some() && options.https {
            options.extra_roots.extend(globals.partial_config()?.settings.self_check.extra_roots);
        }
        options.connect_to = match &args.connect_to {
            None => None,
            Some(address) => Some(match address.strip_prefix("http://") {
                Some(address) => ConnectTo::Plaintext(verify::resolve(address).await?),
                None => ConnectTo::AsUrl(verify::resolve(address).await?),
            }),
        };
        let fetcher = Fetcher::new(&options)
            .map_err(|error| Failure::refused("no connection can be made").because(error))?;
        Ok(Self { url, token, fetcher })
    }

    /// Asks it.
    ///
    /// # Errors
    /// No answer (69), not permitted (77), or refused; each with what to do about it.
    ///
    /// # Cancel safety
    /// Dropped, what was asked may have been done.
    pub(super) async fn ask<T: Answer>(&self, call: &Call) -> Result<T, Failure> {
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.token.expose()));
        let bearer = bearer.map_err(|_| Failure::internal("the token cannot stand in a header"))?;
        let url = format!("{}{}", self.url, call.path);
        match self.fetcher.call(call.method.clone(), &url, bearer, call.body.clone()).await {
            Ok(Fetched { status, body, .. }) => judge(&self.url, &call.purpose, status, &body),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn failure(&self, error: FetchError) -> Failure {
        let url = &self.url;
        let (exit, message) = match &error {
            FetchError::Url => (Exit::Usage, format!("--admin {url}: {WANTED}")),
            FetchError::PlainHttp => (
                Exit::Usage,
                format!(
                    "--admin {url}: the token would cross the network in clear, and has not been sent; use https://"
                ),
            ),
            FetchError::Redirect(_) => (
                Exit::Unavailable,
                format!("{url} leads elsewhere: the token went to nobody else; name the replica itself"),
            ),
            FetchError::Certificate(_) => (Exit::Unavailable, format!("no answer from {url}: {UNTRUSTED}")),
            FetchError::AuthorityAsServer => (Exit::Unavailable, format!("no answer from {url}")),
            FetchError::NotTls(_) => (
                Exit::Unavailable,
                format!(
                    "{url} does not speak TLS: without [tls] it is http://, and then for this machine alone"
                ),
            ),
            _ => (
                Exit::Unavailable,
                format!("no answer from {url}: is the replica running, and is this its listen.admin_tcp?"),
            ),
        };
        let failure = Failure::new(exit, message);
        let failure = if exit == Exit::Unavailable { failure.with_code(REPLICA_NO_ANSWER) } else { failure };
        failure.because(error)
    }
}

/// Scheme, host and port; nothing else is needed, and whatever else there is would have been meant for something.
fn base(url: &str) -> Result<&str, Failure> {
    let wrong = || Failure::usage(format!("--admin is no URL of an admin API: {WANTED}"));
    let base = url.strip_suffix('/').unwrap_or(url);
    let parsed: Uri = base.parse().map_err(|_| wrong())?;
    let is_whole = matches!(parsed.scheme_str(), Some("http" | "https"))
        && parsed.host().is_some_and(|host| !host.is_empty())
        && parsed.path() == "/"
        && !base.ends_with('/')
        && !base.contains(['@', '?', '#']);
    if is_whole { Ok(base) } else { Err(wrong()) }
}

fn token(args: &Args) -> Result<Token, Failure> {
    let (place, text) = match (&args.admin_token_file, &args.admin_token_env) {
        (Some(path), _) if path.as_os_str() == "-" => {
            ("standard input (--admin-token-file -)".to_owned(), from_standard_input()?)
        }
        (Some(path), _) => {
            let place = format!("--admin-token-file {}", path.display());
            let content = disk::read(path)
                .map_err(|error| Failure::usage(format!("{place} cannot be read")).because(error))?;
            if content.is_world_readable || content.is_world_writable {
                let may = if content.is_world_readable { "read" } else { "change" };
                output::complain(&format!(
                    "warning: {place}: every user of this host may {may} the token; chmod 0600 the file"
                ));
            }
            (place, content.text)
        }
        (None, Some(name)) => {
            let place = format!("--admin-token-env {name}");
            let value = std::env::var(name).map_err(|_| {
                Failure::usage(format!("{place}: there is no such variable, or it is not text"))
            })?;
            (place, value.into())
        }
        (None, None) => {
            return Err(Failure::usage(
                "over TCP a token is asked for: name its place by --admin-token-file FILE or --admin-token-env NAME \
                 (`oneseal admin token new` makes one)",
            ));
        }
    };
    Token::parse(text.trim()).ok_or_else(|| {
        let what = "holds no admin token; one is what `oneseal admin token new` prints on standard output, and begins \
                    with oneseal_admin_";
        Failure::usage(format!("{place} {what}"))
    })
}

/// What is far too long for a token is cut off, and then is none.
fn from_standard_input() -> Result<Zeroizing<String>, Failure> {
    if io::stdin().is_terminal() {
        return Err(Failure::usage("--admin-token-file - takes the token from standard input: pipe it in"));
    }
    // Reserved at once: growing would leave copies of the secret behind in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_STDIN));
    let read = io::stdin().lock().take(MAX_STDIN as u64).read_to_end(&mut bytes);
    read.map_err(|error| Failure::internal("standard input cannot be read").because(error))?;
    Ok(Zeroizing::new(str::from_utf8(&bytes).unwrap_or_default().to_owned()))
}

const MAX_STDIN: usize = 4096;
const WANTED: &str = "write https://HOST:PORT, without user, path and query; http:// for this machine alone";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_scheme_host_and_port_and_nothing_else() {
        for (url, bare) in [
            ("https://admin.internal:9443", "https://admin.internal:9443"),
            ("https://admin.internal/", "https://admin.internal"),
            ("http://[::1]:9090", "http://[::1]:9090"),
        ] {
            assert!(is_url(url));
            assert_eq!(base(url).expect(url), bare);
        }
        for url in [
            "https://",
            "ftp://a",
            "https://user:pw@a",
            "https://a/admin",
            "https://a?x",
            "https://a#x",
            "https://a b",
            "https://a//",
        ] {
            assert!(is_url(url));
            let said = base(url).expect_err(url).in_full();
            assert!(said.contains("https://HOST:PORT") && !said.contains("pw"), "{said}");
        }
        for path in ["/run/oneseal/admin.sock", "admin.sock", "./a://b", "localhost:9090"] {
            assert!(!is_url(path), "{path}");
        }
    }
}
