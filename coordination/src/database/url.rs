//! The one URL of a database, parsed once for both drivers.
//!
//! Each driver has a parser of its own, with defaults of its own from variables and files around it. Two readings of one
//! text would be two databases one day, so neither gets to see it: they are given the parts.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?sslmode=…&sslrootcert=PATH]`, after libpq's connection URIs.
///
/// HOST is a name, an address, or the directory of a socket, percent-encoded or as `?host=/run/postgresql`. Neither
/// `Debug` nor `Display` shows the password.
#[derive(Clone)]
pub struct DatabaseUrl {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<SecretString>,
    pub(super) database: String,
    pub(super) tls: TlsMode,
    pub(super) root_certificate: Option<PathBuf>,
}

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// A name or an address, an IPv6 one without brackets.
    Tcp(String),
    /// The directory that its socket is in.
    Socket(PathBuf),
}

/// `sslmode`, without those modes that only seem to protect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsMode {
    /// In clear.
    Disable,
    /// The certificate leads to a trusted authority; whose it is, is not asked.
    VerifyCa,
    /// The certificate leads to a trusted authority and is the host's.
    VerifyFull,
}

impl DatabaseUrl {
    /// Reads `text`. Nothing is opened; that `sslrootcert` names a file is seen when a connection is.
    ///
    /// # Errors
    /// [`UrlError`], which says what is wrong and never repeats the URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        let (text, has_host) = with_one_host(text)?;
        let url = Url::parse(&text).map_err(UrlError::NoUrl)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(UrlError::Scheme);
        }
        let parameters = Parameters::read(&url)?;
        let in_place = if has_host { url.host_str() } else { None };
        let host = host_of(in_place, parameters.host)?;
        let user = decoded("the user", url.username())?;
        if user.is_empty() {
            return Err(UrlError::NoUser);
        }
        let password = url.password().map(|password| decoded("the password", password)).transpose()?;
        let database = decoded("the database", url.path().trim_start_matches('/'))?;
        if database.is_empty() {
            return Err(UrlError::NoDatabase);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        let tls = tls_mode(parameters.sslmode.as_deref(), &host)?;
        Ok(Self {
            host,
            port: url.port().unwrap_or(DEFAULT_PORT),
            user,
            password: password.map(SecretString::from),
            database,
            tls,
            root_certificate: parameters.sslrootcert,
        })
    }

    /// `HOST:PORT/DATABASE`, for messages.
    pub fn location(&self) -> String {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => format!("[{host}]:{}/{}", self.port, self.database),
            Host::Tcp(host) => format!("{host}:{}/{}", self.port, self.database),
            Host::Socket(path) => format!("{}:{}/{}", path.display(), self.port, self.database),
        }
    }

    /// The user that connects.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether what is said to the server, the password included, is protected by TLS or never leaves the host.
    pub fn is_protected(&self) -> bool {
        self.tls != TlsMode::Disable || self.host.is_local()
    }

    /// Whether a password stands in it.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    pub(super) fn password(&self) -> &str {
        self.password.as_ref().map_or("", |password| password.expose_secret())
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = if self.password.is_some() { ":***" } else { "" };
        write!(f, "postgres://{}{password}@{}", self.user, self.location())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseUrl")
            .field("url", &self.to_string())
            .field("tls", &self.tls)
            .field("root_certificate", &self.root_certificate)
            .finish()
    }
}

/// Why a text is no [`DatabaseUrl`]. No variant repeats the text: it may hold a password, in a place of its own choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Nothing was given.
    #[error("is empty; write postgres://USER:PASSWORD@HOST:5432/DATABASE")]
    Empty,
    /// It is no URL.
    #[error(
        "is no URL ({0}); write postgres://USER:PASSWORD@HOST:5432/DATABASE, with the characters / @ : ? # % of a user or password percent-encoded"
    )]
    NoUrl(url::ParseError),
    /// Another scheme.
    #[error("begins with another scheme than postgres:// or postgresql://")]
    Scheme,
    /// No host, and no socket's directory.
    #[error(
        "names no host; for a socket write its directory, as in postgres://USER@/DATABASE?host=/run/postgresql"
    )]
    NoHost,
    /// A host in two places, or a relative directory.
    #[error("names its host as {0}")]
    Host(&'static str),
    /// Several hosts.
    #[error(
        "names several hosts; give one address that leads to the primary, such as a Service, a virtual address or a pooler"
    )]
    SeveralHosts,
    /// No user.
    #[error("names no user; write postgres://USER:PASSWORD@HOST:5432/DATABASE")]
    NoUser,
    /// No database.
    #[error("names no database; write it after the host, as in postgres://USER:PASSWORD@HOST:5432/DATABASE")]
    NoDatabase,
    /// `#…`, as an unencoded `#` of a password gives.
    #[error("has a fragment; a # in a user or password is written %23")]
    Fragment,
    /// Bytes that are no UTF-8, or a NUL.
    #[error("has bytes in {0} that are no UTF-8, or a NUL")]
    NoText(&'static str),
    /// A parameter that is not supported, by name.
    #[error("has the parameter {0}; supported are host, sslmode and sslrootcert")]
    Parameter(String),
    /// A parameter that is there twice, by name.
    #[error("has the parameter {0} twice")]
    Twice(&'static str),
    /// An `sslmode` that protects nothing from somebody in between.
    #[error(
        "has sslmode={0}, under which anybody in between can answer for the server; write sslmode=verify-full, with sslrootcert=PATH for an authority of your own, or sslmode=danger-disable where the network itself is trusted"
    )]
    Unverified(&'static str),
    /// `sslmode=disable` to another host.
    #[error(
        "has sslmode=disable for another host, which would send the password and all data in clear; write sslmode=verify-full, or sslmode=danger-disable where the network itself is trusted"
    )]
    InClear,
    /// Another `sslmode`.
    #[error("has an sslmode that is none of verify-full, verify-ca, disable, danger-disable")]
    Mode,
    /// TLS over a socket.
    #[error("asks for TLS over a socket, which PostgreSQL does not have; leave sslmode out")]
    TlsOverSocket,
}

impl Host {
    /// Whether what is sent there stays on this host.
    fn is_local(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Tcp(name) => {
                name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

const DEFAULT_PORT: u16 = 5432;

/// Whether `text` has a host before its path, and a text that the parser of URLs takes: it calls the port of a second
/// host invalid, and wants a host wherever there is a user, as libpq does not.
fn with_one_host(text: &str) -> Result<(Cow<'_, str>, bool), UrlError> {
    const NOBODY: &str = "none.invalid";
    let Some(start) = text.find("://").map(|at| at + "://".len()) else {
        return Ok((text.into(), true));
    };
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    let host = text[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let hosts = &text[host..end];
    if hosts.contains(',') {
        return Err(UrlError::SeveralHosts);
    }
    if hosts.is_empty() || hosts.starts_with(':') {
        return Ok((format!("{}{NOBODY}{}", &text[..host], &text[host..]).into(), false));
    }
    Ok((text.into(), true))
}

#[derive(Default)]
struct Parameters {
    host: Option<String>,
    sslmode: Option<String>,
    sslrootcert: Option<PathBuf>,
}

impl Parameters {
    fn read(url: &Url) -> Result<Self, UrlError> {
        let mut found = Self::default();
        for (name, value) in url.query_pairs() {
            let value = value.into_owned();
            let was_there = match &*name {
                "host" => found.host.replace(value).map(|_| "host"),
                "sslmode" => found.sslmode.replace(value).map(|_| "sslmode"),
                "sslrootcert" => found.sslrootcert.replace(value.into()).map(|_| "sslrootcert"),
                // Names alone: a value may be a secret (`password=…`).
                _ => return Err(UrlError::Parameter(name.chars().take(32).collect())),
            };
            if let Some(name) = was_there {
                return Err(UrlError::Twice(name));
            }
        }
        Ok(found)
    }
}

fn host_of(in_place: Option<&str>, parameter: Option<String>) -> Result<Host, UrlError> {
    let in_place = in_place.map(|text| decoded("the host", text)).transpose()?;
    let text = match (in_place, parameter) {
        (Some(_), Some(_)) => return Err(UrlError::Host("both a part and a parameter of it; leave one out")),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => return Err(UrlError::NoHost),
    };
    if text.starts_with('/') {
        return Ok(Host::Socket(text.into()));
    }
    if text.contains(',') {
        return Err(UrlError::SeveralHosts);
    }
    if text.is_empty() || text.contains('/') {
        return Err(UrlError::Host("a relative path; a socket's directory begins with /"));
    }
    Ok(Host::Tcp(text.trim_start_matches('[').trim_end_matches(']').to_owned()))
}

fn tls_mode(mode: Option<&str>, host: &Host) -> Result<TlsMode, UrlError> {
    let is_socket = matches!(host, Host::Socket(_));
    match mode {
        None if host.is_local() => Ok(TlsMode::Disable),
        Some("disable") if host.is_local() => Ok(TlsMode::Disable),
        Some("disable") => Err(UrlError::InClear),
        Some("danger-disable") => Ok(TlsMode::Disable),
        Some("verify-full" | "verify-ca") if is_socket => Err(UrlError::TlsOverSocket),
        None | Some("verify-full") => Ok(TlsMode::VerifyFull),
        Some("verify-ca") => Ok(TlsMode::VerifyCa),
        Some("require") => Err(UrlError::Unverified("require")),
        Some("prefer") => Err(UrlError::Unverified("prefer")),
        Some("allow") => Err(UrlError::Unverified("allow")),
        Some(_) => Err(UrlError::Mode),
    }
}

/// Undoes the percent-encoding.
fn decoded(what: &'static str, text: &str) -> Result<String, UrlError> {
    match percent_encoding::percent_decode_str(text).decode_utf8() {
        // A NUL would end the text on its way to the server.
        Ok(text) if !text.contains('\0') => Ok(text.into_owned()),
        _ => Err(UrlError::NoText(what)),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn parse(text: &str) -> DatabaseUrl {
        DatabaseUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_part_is_read_and_decoded() {
        let url = parse(
            "postgresql://one%40seal:p%2Fa+s%3As%25@db.example.com:6432/ring%20s?sslmode=verify-ca&sslrootcert=/etc/ca.pem\n",
        );
        assert_eq!(url.host, Host::Tcp("db.example.com".into()));
        assert_eq!((url.port, &*url.user, &*url.database), (6432, "one@seal", "ring s"));
        assert_eq!((url.password(), url.tls), ("p/a+s:s%", TlsMode::VerifyCa));
        assert_eq!(url.root_certificate.as_deref(), Some("/etc/ca.pem".as_ref()));
    }

    #[test]
    fn addresses_and_sockets_are_hosts() {
        assert_eq!(parse("postgres://u@[::1]/d").host, Host::Tcp("::1".into()));
        assert_eq!(parse("postgres://u@[::1]/d").location(), "[::1]:5432/d");
        for text in [
            "postgres://u@%2Frun%2Fpostgresql:5433/d",
            "postgres://u@:5433/d?host=/run/postgresql",
            "postgres://u@:5433/d?host=%2Frun%2Fpostgresql",
        ] {
            let url = parse(text);
            assert_eq!((&url.host, url.port), (&Host::Socket("/run/postgresql".into()), 5433), "{text}");
        }
        assert_eq!(
            parse("postgres://u@/d?host=/run/postgresql").host,
            Host::Socket("/run/postgresql".into())
        );
    }

    #[test]
    fn another_host_is_verified_unless_said_otherwise() {
        for (text, tls) in [
            ("postgres://u@db.example.com/d", TlsMode::VerifyFull),
            ("postgres://u@10.0.0.1/d", TlsMode::VerifyFull),
            ("postgres://u@db/d?sslmode=danger-disable", TlsMode::Disable),
            ("postgres://u@localhost/d", TlsMode::Disable),
            ("postgres://u@127.0.0.9/d", TlsMode::Disable),
            ("postgres://u@127.0.0.1/d?sslmode=verify-full", TlsMode::VerifyFull),
            ("postgres://u@%2Frun/d", TlsMode::Disable),
        ] {
            assert_eq!(parse(text).tls, tls, "{text}");
            assert_eq!(parse(text).is_protected(), !text.contains("danger"), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_no_secret_repeated() {
        let secret = "hunter2-hunter2";
        for (text, word) in [
            ("", "is empty"),
            ("db.example.com", "is no URL"),
            ("mysql://u:hunter2-hunter2@h/d", "another scheme"),
            ("postgres://u:hunter2-hunter2@/d", "no host"),
            ("postgres://u:hunter2-hunter2@h", "no database"),
            ("postgres://h/d", "no user"),
            ("postgres://u:hunter2-hunter2@one,two/d", "several hosts"),
            ("postgres://u:hunter2-hunter2@one:1,two:2/d", "several hosts"),
            ("postgres://u@/d?host=one,two", "several hosts"),
            ("postgres://u:hunter2-hunter2@h/d?sslmode=require", "sslmode=require"),
            ("postgres://u:hunter2-hunter2@h/d?sslmode=prefer", "sslmode=prefer"),
            ("postgres://u:hunter2-hunter2@h/d?sslmode=allow", "sslmode=allow"),
            ("postgres://u:hunter2-hunter2@h/d?sslmode=disable", "in clear"),
            ("postgres://u:hunter2-hunter2@h/d?sslmode=hunter2-hunter2", "none of verify-full"),
            ("postgres://u@h/d?password=hunter2-hunter2", "the parameter password"),
            ("postgres://u@h/d?sslmode=verify-full&sslmode=disable", "twice"),
            ("postgres://u@%2Frun/d?sslmode=verify-full", "over a socket"),
            ("postgres://u@h/d?host=/run", "both"),
            ("postgres://u@/d?host=run/sockets", "relative"),
            ("postgres://u:hunter2-hunter2#x@h/d", ""),
            ("postgres://u@h/d#hunter2-hunter2", "fragment"),
            ("postgres://u:%ff@h/d", "no UTF-8"),
            ("postgres://u:hunter2-hunter2%00@h/d", "NUL"),
            ("postgres://u:hunter2-hunter2@h:99999/d", "is no URL"),
        ] {
            let error = DatabaseUrl::parse(text).unwrap_err();
            for said in [error.to_string(), format!("{error:?}")] {
                assert!(!said.contains(secret), "{text}: {said}");
            }
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn the_password_is_never_shown() {
        let url = parse("postgres://u:hunter2-hunter2@h/d");
        assert_eq!(url.to_string(), "postgres://u:***@h:5432/d");
        assert!(!format!("{url:?} {url:#?}").contains("hunter2"));
    }
}
