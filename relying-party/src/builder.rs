//! What a relying party is built from.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oneseal_coordination::{Clock, SystemClock};
use oneseal_keystore::{Algorithm, IssuerUrl};

use crate::cache::LONGEST_REFRESH;
use crate::claims::{AudienceForm, Expected};
use crate::error::SourceError;
use crate::fetch::{self, ConnectTo, FetchError, FetchOptions, Fetcher, SetupError};
use crate::key_source::KeySource;
use crate::keyset::KeySet;
use crate::live::Live;
use crate::source::{Keys, Source};
use crate::verifier::RelyingParty;

/// Collects what a [`RelyingParty`] needs. Only the issuer and the audience cannot be defaulted.
///
/// # Defaults
/// All seven algorithms, each key pinned to its own; `typ` absent or `JWT`; [`AudienceForm::Member`]; no further claim
/// required; [`DEFAULT_LEEWAY`](Self::DEFAULT_LEEWAY); no `max_lifetime` and no `max_age`;
/// [`DEFAULT_STALE_LIMIT`](Self::DEFAULT_STALE_LIMIT); the keys that discovery leads to; 5 s and 256 KiB per document;
/// no proxy; the system's roots and clock.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    issuer: IssuerUrl,
    audience: Option<String>,
    audience_form: AudienceForm,
    types: Types,
    algorithms: Vec<Algorithm>,
    required: Vec<&'static str>,
    leeway: Duration,
    max_lifetime: Option<Duration>,
    max_age: Option<Duration>,
    stale_limit: Duration,
    keys: KeysFrom,
    fetch: FetchOptions,
    clock: Arc<dyn Clock>,
}

impl Builder {
    /// For clocks that differ: hosts kept by NTP are within a second, and ten virtual machines' worth of drift is
    /// within this.
    pub const DEFAULT_LEEWAY: Duration = Duration::from_secs(60);
    /// More would be a longer token life under another name.
    pub const MAX_LEEWAY: Duration = Duration::from_secs(600);
    /// How long the last good key set serves while the issuer cannot be read: a day, so that an outage over a night
    /// is none here, and a key that its issuer has removed does not live on for ever.
    pub const DEFAULT_STALE_LIMIT: Duration = Duration::from_secs(24 * 3600);

    pub(crate) fn new(issuer: IssuerUrl) -> Self {
        Self {
            issuer,
            audience: None,
            audience_form: AudienceForm::default(),
            types: Types::default(),
            algorithms: Algorithm::ALL.to_vec(),
            required: Vec::new(),
            leeway: Self::DEFAULT_LEEWAY,
            max_lifetime: None,
            max_age: None,
            stale_limit: Self::DEFAULT_STALE_LIMIT,
            keys: KeysFrom::Discovery,
            fetch: FetchOptions::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// The audience that a token must name. Compared byte for byte.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// In what form `aud` must hold it: whether others may stand beside it.
    pub fn sole_audience(mut self, form: AudienceForm) -> Self {
        self.audience_form = form;
        self
    }

    /// The values of `typ` that are taken (RFC 7515 section 4.1.9): without regard to case, and `application/` may be
    /// left out on either side. The empty text stands for a header without `typ`, which is otherwise refused once this
    /// is called.
    pub fn types(mut self, types: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.types = Types::of(types);
        self
    }

    /// The algorithms that are taken. A key that states none may sign with those of these that its kind can do.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Claims that must be there beside `iss`, `sub`, `aud` and `exp`, such as `jti`: not null, not an empty text.
    /// Adds to what was required before.
    pub fn require(mut self, claims: impl IntoIterator<Item = &'static str>) -> Self {
        self.required.extend(claims);
        self
    }

    /// How far `exp`, `nbf` and `iat` may be off, at most [`MAX_LEEWAY`](Self::MAX_LEEWAY).
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// The longest life, from `iat` (or from now, if there is none) to `exp`.
    pub fn max_lifetime(mut self, longest: Duration) -> Self {
        self.max_lifetime = Some(longest);
        self
    }

    /// How long ago `iat` may be, give or take the leeway. A token without `iat` is then refused.
    pub fn max_age(mut self, oldest: Duration) -> Self {
        self.max_age = Some(oldest);
        self
    }

    /// How long the last good key set serves while the issuer cannot be read; at least five minutes, the longest
    /// time between two refreshes.
    pub fn stale_limit(mut self, limit: Duration) -> Self {
        self.stale_limit = limit;
        self
    }

    /// Reads the key set at `uri`, https or on loopback, and asks no discovery document where it is. Whoever answers
    /// there is believed to be the issuer. Replaces what was said before of where the keys are.
    pub fn jwks_uri(mut self, uri: impl Into<String>) -> Self {
        self.keys = KeysFrom::Uri(uri.into());
        self
    }

    /// Verifies by this JWKS (RFC 7517 section 5) and fetches nothing: offline, and for ever by the same keys.
    /// Replaces what was said before of where the keys are.
    pub fn jwks(mut self, jwks: impl Into<Bytes>) -> Self {
        self.keys = KeysFrom::Given(jwks.into());
        self
    }

    /// Reads the key set by a way of the caller's own, as often as it would be fetched. Replaces what was said before
    /// of where the keys are.
    pub fn keys_from(mut self, source: Arc<dyn KeySource>) -> Self {
        self.keys = KeysFrom::Source(source);
        self
    }

    /// Sends every connection to `address`: the way to ask one replica of several. The issuer, `Host` and the name
    /// in the certificate stay what they are, and TLS is spoken if the issuer is https.
    pub fn connect_to(mut self, address: SocketAddr) -> Self {
        self.fetch.connect_to = Some(ConnectTo::AsUrl(address));
        self
    }

    /// As [`connect_to`](Self::connect_to), but speaks plain HTTP even if the issuer is https: for one's own replica
    /// behind its TLS proxy, on a network that is trusted. Whoever answers there chooses the keys.
    pub fn connect_to_plaintext(mut self, address: SocketAddr) -> Self {
        self.fetch.connect_to = Some(ConnectTo::Plaintext(address));
        self
    }

    /// Reaches https addresses through this HTTP proxy, such as `http://proxy.example:3128`, by CONNECT: it sees host
    /// and port, and never a path. The environment (`HTTPS_PROXY`) is never asked. Excludes
    /// [`connect_to`](Self::connect_to).
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.fetch.proxy = Some(url.into());
        self
    }

    /// Trusts the PEM certificates in `pem` beside the system's.
    pub fn add_root_certificate(mut self, pem: impl Into<String>) -> Self {
        self.fetch.extra_roots.push(pem.into());
        self
    }

    /// Trusts the PEM certificates in this file as well. It is read again before each connection, so that a bundle
    /// that kubelet or cert-manager swaps is followed; while it cannot be read, what it held last is trusted.
    pub fn root_certificate_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.fetch.root_file = Some(path.into());
        self
    }

    /// Trusts no certificate of the system, but those alone that are named here.
    pub fn only_these_roots(mut self) -> Self {
        self.fetch.system_roots = false;
        self
    }

    /// How long reading one of the issuer's two documents may take, from name lookup to the last byte.
    pub fn fetch_deadline(mut self, deadline: Duration) -> Self {
        self.fetch.deadline = deadline;
        self
    }

    /// Where the time comes from.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks everything and reads the system's root certificates, which blocks for some milliseconds. Fetches
    /// nothing: the first token, [`RelyingParty::refresh`] or [`RelyingParty::keep_fresh`] does.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(self) -> Result<RelyingParty, BuildError> {
        let audience = self.audience.filter(|audience| !audience.is_empty()).ok_or(BuildError::Audience)?;
        if self.algorithms.is_empty() {
            return Err(BuildError::Algorithms);
        }
        if self.leeway > Self::MAX_LEEWAY {
            return Err(BuildError::Leeway(self.leeway));
        }
        if self.stale_limit < LONGEST_REFRESH {
            return Err(BuildError::StaleLimit(self.stale_limit));
        }
        let expected = Expected {
            issuer: self.issuer.as_str().to_owned(),
            audience,
            audience_form: self.audience_form,
            leeway: self.leeway,
            max_lifetime: self.max_lifetime,
            max_age: self.max_age,
            required: self.required,
        };
        let deadline = self.fetch.deadline;
        let fetcher = |https| Fetcher::new(&FetchOptions { https, ..self.fetch });
        let keys = match self.keys {
            KeysFrom::Discovery => Keys::Discovered(fetcher(self.issuer.is_https())?),
            KeysFrom::Uri(uri) => {
                fetch::parse_url(&uri).map_err(BuildError::JwksUri)?;
                Keys::At(fetcher(uri.starts_with("https:"))?, uri)
            }
            KeysFrom::Given(jwks) => {
                KeySet::read(&jwks, &self.algorithms).map_err(BuildError::Jwks)?;
                Keys::Given(jwks)
            }
            KeysFrom::Source(source) => Keys::Read(source, deadline),
        };
        let source = Source::new(self.issuer, keys, self.algorithms);
        let live = Live::new(source, Arc::clone(&self.clock), self.stale_limit);
        Ok(RelyingParty::new(live, self.types, expected, self.clock))
    }
}

/// Where the key set is.
#[derive(Clone, Debug)]
enum KeysFrom {
    Discovery,
    Uri(String),
    Given(Bytes),
    Source(Arc<dyn KeySource>),
}

/// The values of `typ` that are taken, in small letters and without `application/`; the empty one is none at all.
/// A token of another kind, such as `at+jwt` or `secevent+jwt`, must not pass for an ID token (RFC 8725 section 3.11).
#[derive(Clone, Debug)]
pub(crate) struct Types(Vec<String>);

impl Types {
    fn of(types: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self(types.into_iter().map(|typ| short_type(typ.as_ref())).collect())
    }

    /// RFC 7519 section 5.1: media types compare without case, and `application/` may be left out (RFC 7515 section
    /// 4.1.9).
    pub(crate) fn take(&self, typ: Option<&str>) -> bool {
        match typ {
            None => self.0.iter().any(String::is_empty),
            Some("") => false,
            Some(typ) => self.0.contains(&short_type(typ)),
        }
    }
}

impl Default for Types {
    fn default() -> Self {
        Self::of(["", "JWT"])
    }
}

fn short_type(typ: &str) -> String {
    let lower = typ.to_ascii_lowercase();
    match lower.strip_prefix("application/") {
        Some(rest) if !rest.is_empty() && !rest.contains('/') => rest.to_owned(),
        _ => lower,
    }
}

/// Why there is no relying party.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No audience, or an empty one.
    #[error("no audience: name the one that tokens must be for, with .audience(..)")]
    Audience,
    /// An empty list of algorithms.
    #[error("no algorithm is allowed: leave .algorithms(..) out, or name at least one")]
    Algorithms,
    /// Too generous.
    #[error("a leeway of {0:?}; at most {max:?} is taken", max = Builder::MAX_LEEWAY)]
    Leeway(Duration),
    /// Shorter than the time between two refreshes, so that good keys would lapse with a healthy issuer.
    #[error("a stale limit of {0:?}; at least {LONGEST_REFRESH:?} is needed")]
    StaleLimit(Duration),
    /// The URL of the key set is none that is fetched.
    #[error("the key set's URL cannot be used")]
    JwksUri(#[source] FetchError),
    /// The key set that was given is none.
    #[error("the key set that was given cannot be used")]
    Jwks(#[source] SourceError),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up")]
    Fetch(#[from] SetupError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> Builder {
        Builder::new(IssuerUrl::parse("http://127.0.0.1:1", "issuer").expect("good")).audience("a")
    }

    #[test]
    fn types_compare_as_media_types_and_absence_is_listed() {
        let usual = Types::default();
        for typ in [None, Some("JWT"), Some("jwt"), Some("application/jwt"), Some("APPLICATION/JWT")] {
            assert!(usual.take(typ), "{typ:?}");
        }
        for typ in [
            "",
            "at+jwt",
            "JOSE",
            "application/",
            "application//jwt",
            "application/application/jwt",
            "text/jwt",
        ] {
            assert!(!usual.take(Some(typ)), "{typ}");
        }
        let own = Types::of(["application/AT+jwt"]);
        assert_eq!([own.take(Some("at+JWT")), own.take(Some("JWT")), own.take(None)], [true, false, false]);
    }

    #[test]
    fn what_cannot_be_defaulted_or_makes_no_sense_is_refused() {
        let nobody = Builder::new(IssuerUrl::parse("http://127.0.0.1:1", "issuer").expect("good"));
        assert!(matches!(nobody.build(), Err(BuildError::Audience)));
        assert!(matches!(builder().audience("").build(), Err(BuildError::Audience)));
        assert!(matches!(builder().algorithms([]).build(), Err(BuildError::Algorithms)));
        assert!(matches!(builder().leeway(Duration::from_secs(601)).build(), Err(BuildError::Leeway(_))));
        assert!(matches!(
            builder().stale_limit(Duration::from_secs(299)).build(),
            Err(BuildError::StaleLimit(_))
        ));
        assert!(matches!(builder().add_root_certificate("x").build(), Err(BuildError::Fetch(_))));
        assert!(matches!(builder().proxy("proxy:1").build(), Err(BuildError::Fetch(SetupError::Proxy))));
        let absent = builder().root_certificate_file("/nowhere/ca.pem").build();
        assert!(matches!(absent, Err(BuildError::Fetch(SetupError::RootFile { .. }))));
        let https =
            Builder::new(IssuerUrl::parse("https://oidc.example", "issuer").expect("good")).audience("a");
        assert!(matches!(https.only_these_roots().build(), Err(BuildError::Fetch(SetupError::NoRoots))));
        for uri in ["", "jwks.json", "http://oidc.example/jwks", "ftp://oidc.example/jwks"] {
            assert!(matches!(builder().jwks_uri(uri).build(), Err(BuildError::JwksUri(_))), "{uri}");
        }
        for jwks in ["", "[]", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AA"}]}"#] {
            assert!(matches!(builder().jwks(jwks).build(), Err(BuildError::Jwks(_))), "{jwks}");
        }
        assert!(builder().build().is_ok());
    }
}
