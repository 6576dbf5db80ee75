//! A running replica, asked through its admin API: what the verbs have in common that do so.

mod remote;
mod socket;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::remote::Remote;
use super::Globals;
use crate::config::{self, Config};
use crate::exit::{Exit, Failure};
use crate::refusals::{REPLICA_NOT_NAMED, REPLICA_OTHER_ISSUER};

/// Which replica.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Target {
    /// The replica's admin socket, or the URL of its admin API over TCP [default: configuration's listen.admin]
    #[arg(long, value_name = "SOCKET|URL")]
    admin: Option<String>,
    #[command(flatten)]
    remote: remote::Args,
}

impl Target {
    /// The one at `place`, a socket or a URL; `None` where --admin names one besides.
    pub(crate) fn at(self, place: String) -> Option<Self> {
        self.admin.is_none().then_some(Self { admin: Some(place), ..self })
    }

    /// Whether the command line names one.
    pub(crate) fn is_named(&self) -> bool {
        self.admin.is_some() || !self.remote.is_empty()
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// How.
    pub(crate) method: Method,
    /// Path and query, such as `/admin/v1/replicas`.
    pub(crate) path: String,
    /// JSON, if there is anything to say.
    pub(crate) body: Option<Bytes>,
    /// In the words of a refusal.
    pub(crate) purpose: Purpose,
}

/// What it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    /// What a good answer is: "a token".
    pub(crate) answer: &'static str,
    /// What the replica does there: "mints".
    pub(crate) does: &'static str,
    /// What to do where a replica does not know the path: "set admin.mint = true".
    pub(crate) if_absent: &'static str,
}

/// An answer of the admin API, which whoever listens there may have made up.
pub(crate) trait Answer: DeserializeOwned {
    /// Whether it is what was asked for, as far as that can be seen without keys.
    fn is_sound(&self) -> bool;
}

/// Whom to ask.
pub(crate) enum Replica {
    /// Through its Unix socket.
    Socket(PathBuf),
    /// Over TCP.
    Url(Box<Remote>),
}

impl Replica {
    /// The one that the command line, or else the configuration, names.
    ///
    /// # Errors
    /// None is named, or what is said does not go together (64).
    pub(crate) async fn of(target: Target, globals: &Globals) -> Result<Self, Failure> {
        let Target { admin, remote } = target;
        match admin {
            Some(url) if remote::is_url(&url) => {
                Ok(Self::Url(Box::new(Remote::new(&url, remote, globals).await?)))
            }
            Some(path) if remote.is_empty() => Ok(Self::Socket(path.into())),
            Some(address) if socket::is_address(Path::new(&address)) => Err(Failure::usage(format!(
                "--admin {address} has no scheme, so it is the path of a socket, which asks for no token and speaks no TLS: \
                 an address of TCP begins with https:// or http://"
            ))),
            Some(_) => Err(Failure::usage(ONLY_TCP)),
            None => {
                let path = configured(globals)?;
                if remote.is_empty() { Ok(Self::Socket(path)) } else { Err(Failure::usage(ONLY_TCP)) }
            }
        }
    }

    /// The one behind the configured socket, if somebody answers there.
    ///
    /// # Errors
    /// The socket is another user's (77), or it is a replica of another issuer (64).
    pub(crate) async fn of_this_host(config: &Config) -> Result<Option<Self>, Failure> {
        let Some(path) = config.settings.listen.admin.clone() else { return Ok(None) };
        let call =
            Call { method: Method::GET, path: "/admin/v1/status".to_owned(), body: None, purpose: STATUS };
        match socket::ask::<Status>(&path, &call).await {
            Ok(status) if status.issuer == config.issuer.as_str() => Ok(Some(Self::Socket(path))),
            Ok(status) => Err(Failure::usage(format!(
                "{} is a replica of {}, and the ring is that of {}: name the right one by --admin SOCKET|URL",
                path.display(),
                status.issuer,
                config.issuer
            ))
            .with_code(REPLICA_OTHER_ISSUER)),
            Err(failure) if failure.exit() == Exit::Unavailable => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Asks it.
    ///
    /// # Errors
    /// The socket cannot be opened, nobody answers, or the server refuses; each with what to do about it.
    ///
    /// # Cancel safety
    /// Dropped, what was asked may have been done.
    pub(crate) async fn ask<T: Answer>(&self, call: &Call) -> Result<T, Failure> {
        match self {
            Self::Socket(path) => socket::ask(path, call).await,
            Self::Url(remote) => remote.ask(call).await,
        }
    }
}

/// Whose replica it is.
#[derive(Deserialize)]
struct Status {
    issuer: String,
}

impl Answer for Status {
    fn is_sound(&self) -> bool {
        !self.issuer.is_empty()
    }
}

const STATUS: Purpose = Purpose { answer: "its status", does: "tells its status", if_absent: "update it" };

/// The socket of the configuration.
fn configured(globals: &Globals) -> Result<PathBuf, Failure> {
    let config::Settings { listen, tls, .. } = globals.partial_config()?.settings;
    listen.admin.ok_or_else(|| {
        Failure::usage(match listen.admin_tcp {
            None => "listen.admin is \"none\", so there is no socket: name a replica's by --admin SOCKET|URL"
                .to_owned(),
            Some(address) => {
                let scheme = if tls.source == config::TlsSource::Off { "http" } else { "https" };
                format!(
                    "listen.admin is \"none\", so there is no socket; listen.admin_tcp is {address}: name \
                     --admin {scheme}://HOST:{} and --admin-token-file FILE",
                    address.port()
                )
            }
        })
        .with_code(REPLICA_NOT_NAMED)
    })
}

const ONLY_TCP: &str = "a socket asks for no token and speaks no TLS: leave out what is for TCP, or name \
                        --admin https://HOST:PORT";
