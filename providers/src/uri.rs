//! The one-line form of a provider, the same in configuration and on every command line: `file:PATH`, `env:NAME`,
//! `k8s:NS/NAME`, `aws:NAME-OR-ARN`, `postgres:URL`.
//!
//! Whatever is refused here may be a key pasted by mistake, so an error repeats no more of the text than a short
//! scheme or a path.

mod aws;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

#[cfg(feature = "postgres")]
use oneseal_coordination::database::{Database, DatabaseError, DatabaseOptions, DatabaseUrl};
use thiserror::Error;
use zeroize::Zeroizing;

#[cfg(feature = "postgres")]
use crate::PostgresProvider;
#[cfg(feature = "kubernetes")]
use crate::{KubernetesOptions, KubernetesProvider};
use crate::{SecretProvider, looks_like_key};

pub use aws::AwsUri;

/// A provider named by one URI. `Display` gives it back, with a database password masked.
///
/// ```
/// use oneseal_providers::ProviderUri;
///
/// let uri = ProviderUri::parse("file:/etc/oneseal/keyring.json")?;
/// assert_eq!(uri.to_string(), "file:/etc/oneseal/keyring.json");
/// # Ok::<(), oneseal_providers::UriError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderUri {
    /// `file:PATH` or `file:///PATH`: a file or a directory. The path is taken literally, nothing is percent-decoded.
    File(PathBuf),
    /// `env:NAME`: an environment variable.
    Env(String),
    /// `k8s:NAMESPACE/NAME` or `k8s:NAME`, perhaps with `?context=CONTEXT&kubeconfig=PATH` behind it: a Kubernetes Secret,
    /// reached as kubectl would. Nothing is percent-decoded.
    Kubernetes {
        /// The Secret's namespace, if not the context's or the pod's own.
        namespace: Option<String>,
        /// The Secret's name.
        name: String,
        /// The context of the kubeconfig, if not its current one.
        context: Option<String>,
        /// The kubeconfig, if not the default one.
        kubeconfig: Option<PathBuf>,
    },
    /// `aws:NAME-OR-ARN`: a secret in AWS Secrets Manager. Behind a `?` may stand `region=R`, `member=M` and
    /// `endpoint=URL`, joined by `&`.
    Aws(AwsUri),
    /// `postgres:URL`, or just the `postgres://…` URL: the ring row of a database. Its query may name whose, as
    /// `fleet=NAME`; without, [`open_for`](Self::open_for) says it, or it is the only one there.
    Postgres(PostgresUrl),
}

impl ProviderUri {
    /// Reads a URI. Kinds that this version cannot open are read all the same; [`open`](Self::open) refuses them.
    ///
    /// # Errors
    /// [`UriError`], with the known schemes and a guess at what was meant.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        if text.is_empty() {
            return Err(UriError::Empty);
        }
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            return Err(UriError::NoScheme { hint: path_hint(text) });
        };
        if looks_like_key(rest) {
            return Err(UriError::Key);
        }
        match scheme {
            "file" => parse_file(rest),
            "env" => parse_env(rest),
            "k8s" => parse_kubernetes(rest),
            "aws" => AwsUri::parse(rest).map(ProviderUri::Aws),
            "postgres" | "postgresql" => parse_postgres(scheme, rest),
            _ => Err(UriError::UnknownScheme { scheme: scheme.to_owned(), hint: scheme_hint(scheme) }),
        }
    }

    /// The scheme, which is also [`Description::kind`](crate::Description::kind) of what it opens.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Env(_) => "env",
            Self::Kubernetes { .. } => "k8s",
            Self::Aws(_) => "aws",
            Self::Postgres(_) => "postgres",
        }
    }

    /// Makes the provider, with that provider's defaults. Nothing is read from a store yet; an environment variable
    /// is read now.
    ///
    /// # Errors
    /// [`UriError::NotAvailable`] if this program was built without that kind, [`UriError::Invalid`] if a database's URL
    /// is none that a driver could use, or an ARN none of a secret.
    pub fn open(&self) -> Result<Arc<dyn SecretProvider>, UriError> {
        self.open_for(None)
    }

    /// As [`open`](Self::open), for the ring of `fleet` where a place keeps several and the URI names none.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "only Postgres keeps several"))]
    pub fn open_for(&self, fleet: Option<&str>) -> Result<Arc<dyn SecretProvider>, UriError> {
        match self {
            #[cfg(feature = "file")]
            Self::File(path) => Ok(Arc::new(crate::FileProvider::new(path))),
            #[cfg(feature = "inline")]
            Self::Env(name) => Ok(Arc::new(crate::EnvProvider::new(name))),
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes { namespace, name, context, kubeconfig } => {
                let mut options = KubernetesOptions::secret(name);
                options.namespace.clone_from(namespace);
                options.context.clone_from(context);
                options.kubeconfig.clone_from(kubeconfig);
                let provider = KubernetesProvider::new(options);
                Ok(Arc::new(provider.map_err(|error| invalid_secret(error.detail()))?))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Ok(Arc::new(url.provider(fleet)?)),
            #[cfg(feature = "aws")]
            Self::Aws(uri) => Ok(Arc::new(uri.provider()?)),
            #[cfg(not(all(
                feature = "aws",
                feature = "file",
                feature = "inline",
                feature = "kubernetes",
                feature = "postgres"
            )))]
            unavailable => Err(UriError::NotAvailable { scheme: unavailable.scheme() }),
        }
    }
}

impl FromStr for ProviderUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        Self::parse(text)
    }
}

impl fmt::Display for ProviderUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::Kubernetes { namespace, name, context, kubeconfig } => {
                let namespace =
                    namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
                write!(f, "k8s:{namespace}{name}")?;
                let kubeconfig = kubeconfig.as_ref().map(|path| path.display().to_string());
                let pairs = [("context", context.as_ref()), ("kubeconfig", kubeconfig.as_ref())];
                let given = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
                given
                    .zip(["?", "&"])
                    .try_for_each(|((name, value), before)| write!(f, "{before}{name}={value}"))
            }
            Self::Aws(uri) => write!(f, "aws:{uri}"),
            Self::Postgres(url) => write!(f, "postgres:{url}"),
        }
    }
}

/// A database URL. `Display` and `Debug` show it with the password masked; [`expose`](Self::expose) is the one door.
///
/// `Clone` and `Eq` because a configuration is cloned and compared whole; each copy is zeroized when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(Zeroizing<String>);

impl PostgresUrl {
    /// The URL with its password, and with `fleet=NAME` if that is in it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The URL as a database driver takes it: with its password, and without `fleet=NAME`.
    pub fn database_url(&self) -> Zeroizing<String> {
        let Some((location, query)) = self.0.split_once('?') else { return self.0.clone() };
        let rest: Vec<_> = query.split('&').filter(|pair| fleet_in(pair).is_none()).collect();
        let rest = Zeroizing::new(rest.join("&"));
        if rest.is_empty() {
            return Zeroizing::new(location.to_owned());
        }
        Zeroizing::new(format!("{location}?{}", *rest))
    }

    /// The fleet that `fleet=NAME` in the URL's query names.
    pub fn fleet(&self) -> Option<&str> {
        let (_, query) = self.0.split_once('?')?;
        query.split('&').find_map(fleet_in)
    }
}

#[cfg(feature = "postgres")]
impl PostgresUrl {
    /// Whether a database can be reached by it, as far as its text tells.
    fn check(&self) -> Result<DatabaseUrl, UriError> {
        let url = DatabaseUrl::parse(&self.database_url());
        url.map_err(|error| UriError::Invalid { form: "postgres:URL", problem: format!("the URL {error}") })
    }

    /// The database itself. Nothing is opened yet.
    ///
    /// # Errors
    /// [`UriError::Invalid`] if no driver could use the URL.
    pub fn database(&self) -> Result<Database, UriError> {
        let unusable =
            |error: DatabaseError| UriError::Invalid { form: "postgres:URL", problem: error.to_string() };
        Database::new(DatabaseOptions::new(self.check()?)).map_err(unusable)
    }

    fn provider(&self, fleet: Option<&str>) -> Result<PostgresProvider, UriError> {
        let database = self.database()?;
        Ok(match self.fleet().or(fleet) {
            Some(fleet) => PostgresProvider::new(database, fleet),
            None => PostgresProvider::of_only_fleet(database),
        })
    }
}

/// The name in `fleet=NAME`.
fn fleet_in(pair: &str) -> Option<&str> {
    pair.strip_prefix("fleet=")
}

/// Whether `name` can be a fleet's, which stands in messages and metrics.
fn is_fleet_name(name: &str) -> bool {
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = |c: char| outer(c) || matches!(c, '-' | '.');
    name.len() <= MAX_FLEET_NAME
        && name.starts_with(outer)
        && name.ends_with(outer)
        && name.chars().all(inner)
}

/// The longest name of a fleet, as in configuration.
const MAX_FLEET_NAME: usize = 200;

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

/// Why a text names no provider, or none that can be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UriError {
    /// Nothing was given.
    #[error("no provider is named; write one of {}", available())]
    Empty,
    /// There is no `scheme:` in front.
    #[error("a provider is named as one of {}{hint}", available())]
    NoScheme {
        /// What may have been meant, ready to append.
        hint: String,
    },
    /// The scheme is none of ours.
    #[error("`{scheme}:` is no kind of provider; known are {}{hint}", available())]
    UnknownScheme {
        /// What stands before the colon.
        scheme: String,
        /// What may have been meant, ready to append.
        hint: String,
    },
    /// The scheme is known and what follows it is wrong.
    #[error("`{form}`: {problem}")]
    Invalid {
        /// The form that was expected.
        form: &'static str,
        /// What is wrong with what was given.
        problem: String,
    },
    /// A key stands where its place should be named. It is not repeated.
    #[error(
        "what is given looks like a key itself, not like the place of one; a URI names a file or a variable"
    )]
    Key,
    /// A known kind that this program does not contain.
    #[error("providers of kind `{scheme}` are not in this version; available here: {}", available())]
    NotAvailable {
        /// The kind asked for.
        scheme: &'static str,
    },
}

/// Schemes, and words people write for them.
const SPELLINGS: &[(&str, &str)] = &[
    ("file", "file"),
    ("path", "file"),
    ("dir", "file"),
    ("directory", "file"),
    ("env", "env"),
    ("environment", "env"),
    ("k8s", "k8s"),
    ("kube", "k8s"),
    ("kubernetes", "k8s"),
    ("secret", "k8s"),
    ("aws", "aws"),
    ("arn", "aws"),
    ("secretsmanager", "aws"),
    ("postgres", "postgres"),
    ("pg", "postgres"),
];

/// The forms that this program can open: naming others would lead to a second refusal.
fn available() -> String {
    let kinds: &[&str] = &[
        #[cfg(feature = "file")]
        "file:PATH",
        #[cfg(feature = "inline")]
        "env:NAME",
        #[cfg(feature = "kubernetes")]
        "k8s:NS/NAME",
        #[cfg(feature = "aws")]
        "aws:NAME-OR-ARN",
        #[cfg(feature = "postgres")]
        "postgres:URL",
    ];
    if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
}

/// RFC 3986 section 3.1, and short: a key pasted in place of a URI is not taken for a scheme.
fn is_scheme(text: &str) -> bool {
    text.len() <= 16
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn path_hint(text: &str) -> String {
    let is_path = ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start));
    let is_short_line = text.len() <= 255 && !text.contains(char::is_control);
    if is_path && is_short_line { format!("; did you mean `file:{text}`?") } else { String::new() }
}

fn scheme_hint(scheme: &str) -> String {
    let scheme = scheme.to_ascii_lowercase();
    let nearest = SPELLINGS
        .iter()
        .map(|(spelling, meant)| (strsim::damerau_levenshtein(&scheme, spelling), spelling.len(), meant))
        .filter(|(distance, length, _)| *distance <= length / 3)
        .min_by_key(|(distance, ..)| *distance);
    nearest.map(|(.., meant)| format!("; did you mean `{meant}:`?")).unwrap_or_default()
}

fn parse_file(rest: &str) -> Result<ProviderUri, UriError> {
    const FORM: &str = "file:PATH";
    let invalid = |problem: &str| UriError::Invalid { form: FORM, problem: problem.to_owned() };
    let path = match rest.strip_prefix("//") {
        Some(with_host) if with_host.starts_with('/') => with_host,
        Some(_) => {
            return Err(invalid("it names a host; write file:/path, or file:///path with three slashes"));
        }
        None => rest,
    };
    if path.is_empty() {
        return Err(invalid("the path is missing"));
    }
    if path.contains('\0') {
        return Err(invalid("the path holds a NUL character"));
    }
    Ok(ProviderUri::File(Path::new(path).to_owned()))
}

fn parse_env(rest: &str) -> Result<ProviderUri, UriError> {
    const FORM: &str = "env:NAME";
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if rest.is_empty() {
        return Err(UriError::Invalid { form: FORM, problem: "the variable's name is missing".to_owned() });
    }
    if rest.len() > 255 || !rest.chars().all(is_name) {
        let problem =
            "that is no variable's name (letters, digits, `_`, `-`, `.`); give the name, not the value";
        return Err(UriError::Invalid { form: FORM, problem: problem.to_owned() });
    }
    Ok(ProviderUri::Env(rest.to_owned()))
}

fn parse_kubernetes(rest: &str) -> Result<ProviderUri, UriError> {
    let (secret, query) = rest.split_once('?').map_or((rest, None), |(secret, query)| (secret, Some(query)));
    let (namespace, name) =
        secret.split_once('/').map_or((None, secret), |(namespace, name)| (Some(namespace), name));
    if !namespace.into_iter().chain([name]).all(is_dns_name) {
        return Err(invalid_secret(
            "want a namespace, a slash and a Secret's name, each in lower-case letters, digits, `-`, `.`; without the first \
             two it is in the namespace of the context or the pod",
        ));
    }
    let (mut context, mut kubeconfig) = (None, None);
    for pair in query.iter().flat_map(|query| query.split('&')) {
        let taken = match pair.split_once('=').filter(|(_, value)| is_plain(value)) {
            Some(("context", value)) => context.replace(value.to_owned()).is_some(),
            Some(("kubeconfig", value)) => kubeconfig.replace(PathBuf::from(value)).is_some(),
            _ => {
                return Err(invalid_secret(
                    "behind `?` may stand context=CONTEXT and kubeconfig=PATH, joined by `&`",
                ));
            }
        };
        if taken {
            return Err(invalid_secret("it says the same twice behind `?`"));
        }
    }
    Ok(ProviderUri::Kubernetes {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        context,
        kubeconfig,
    })
}

fn invalid_secret(problem: &str) -> UriError {
    UriError::Invalid { form: "k8s:NS/NAME", problem: problem.to_owned() }
}

/// Whether it can be a context's name or a path in one line.
fn is_plain(value: &str) -> bool {
    (1..=4096).contains(&value.len()) && !value.contains(char::is_control)
}

/// RFC 1123 subdomain, roughly: the API server has the last word.
pub(crate) fn is_dns_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 253 && text.starts_with(outer) && text.ends_with(outer) && text.chars().all(inner)
}

fn parse_postgres(scheme: &str, rest: &str) -> Result<ProviderUri, UriError> {
    let url = if rest.starts_with("//") {
        Zeroizing::new(format!("{scheme}:{rest}"))
    } else {
        Zeroizing::new(rest.to_owned())
    };
    let invalid = |problem: String| UriError::Invalid { form: "postgres:URL", problem };
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(invalid("want a URL that starts with postgres://".to_owned()));
    }
    let url = PostgresUrl(url);
    let mut fleets = url.0.split_once('?').map_or("", |(_, query)| query).split('&').filter_map(fleet_in);
    match (fleets.next(), fleets.next()) {
        (_, Some(_)) => return Err(invalid("it names a fleet twice".to_owned())),
        (Some(fleet), None) if !is_fleet_name(fleet) => {
            let problem = "a fleet is named in lower-case letters, digits, `-` and `.`, as in `?fleet=oidc.example.com`";
            return Err(invalid(problem.to_owned()));
        }
        _ => {}
    }
    Ok(ProviderUri::Postgres(url))
}

/// `url` without its passwords. Masks too much rather than too little: with an unescaped `/` or `@` in a password
/// nobody can tell where it ends, so everything up to the last `@` counts as user information, and with a `?` in
/// that nothing is shown.
fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    let (user_info, place) = match rest.rsplit_once('@') {
        Some((user_info, place)) => (Some(user_info), place),
        None => (None, rest),
    };
    if user_info.is_some_and(|user_info| user_info.contains('?')) {
        return format!("{scheme}://***");
    }
    let user_info = user_info.map(|user_info| match user_info.split_once(':') {
        Some((user, _)) => format!("{user}:***@"),
        None => format!("{user_info}@"),
    });
    let (location, query) = match place.split_once('?') {
        Some((location, query)) => (location, Some(query)),
        None => (place, None),
    };
    let query =
        query.map(|query| format!("?{}", query.split('&').map(masked_pair).collect::<Vec<_>>().join("&")));
    format!("{scheme}://{}{location}{}", user_info.unwrap_or_default(), query.unwrap_or_default())
}

fn masked_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("password") => format!("{name}=***"),
        _ => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_place_of_a_name_is_refused_and_not_repeated() {
        let der = "MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
        for key in [der, "-----BEGIN PRIVATE KEY-----", "{\"kty\":\"OKP\"}"] {
            for scheme in ["file", "env", "aws"] {
                let refused = ProviderUri::parse(&format!("{scheme}:{key}")).expect_err("a key");
                assert_eq!(refused, UriError::Key);
                assert!(!refused.to_string().contains(key));
            }
        }
        for name in ["Mykey", "/var/lib/M/keyring.json", "MY_VARIABLE_WITH_A_LONG_NAME", &der[1..]] {
            assert!(!looks_like_key(name), "{name}");
        }
    }

    #[test]
    fn every_known_form_is_read_and_written_back() {
        for (text, shown) in [
            ("file:/etc/oneseal/key.pem", "file:/etc/oneseal/key.pem"),
            ("file:///etc/oneseal", "file:/etc/oneseal"),
            ("file:keys/a b%20c", "file:keys/a b%20c"),
            ("env:SIGNING_KEY", "env:SIGNING_KEY"),
            ("k8s:ci/oneseal-ring", "k8s:ci/oneseal-ring"),
            ("k8s:oneseal-ring", "k8s:oneseal-ring"),
            ("k8s:oneseal-ring?context=kind", "k8s:oneseal-ring?context=kind"),
            ("k8s:ci/ring?context=kind-a@b", "k8s:ci/ring?context=kind-a@b"),
            (
                "k8s:ci/ring?kubeconfig=/home/a b/.kube/config",
                "k8s:ci/ring?kubeconfig=/home/a b/.kube/config",
            ),
            (
                "k8s:ci/ring?kubeconfig=k&context=arn:aws:eks:eu-1:1:cluster/c",
                "k8s:ci/ring?context=arn:aws:eks:eu-1:1:cluster/c&kubeconfig=k",
            ),
            ("aws:prod/ring", "aws:prod/ring"),
            (
                "aws:arn:aws:secretsmanager:eu-west-1:123456789012:secret:ring-AbCdEf",
                "aws:arn:aws:secretsmanager:eu-west-1:123456789012:secret:ring-AbCdEf",
            ),
            ("postgres:postgres://u@h:5432/db", "postgres:postgres://u@h:5432/db"),
            ("postgresql://h/db?sslmode=require", "postgres:postgresql://h/db?sslmode=require"),
        ] {
            let uri = ProviderUri::parse(text).expect(text);
            assert_eq!(uri.to_string(), shown);
            assert_eq!(ProviderUri::parse(shown).expect(shown), uri, "round trip of {text}");
        }
    }

    #[test]
    fn a_refusal_says_what_would_do() {
        for (text, wanted) in [
            ("", "no provider is named"),
            ("/etc/key.pem", "did you mean `file:/etc/key.pem`?"),
            ("./key.pem", "did you mean `file:./key.pem`?"),
            ("fil:/x", "did you mean `file:`?"),
            ("File:/x", "did you mean `file:`?"),
            ("kubernetes:ns/name", "did you mean `k8s:`?"),
            ("arn:aws:secretsmanager:x", "did you mean `aws:`?"),
            ("vault:secret/x", "known are "),
            ("file:", "path is missing"),
            ("file://etc/key.pem", "three slashes"),
            ("env:", "name is missing"),
            ("env:A=b", "not the value"),
            ("k8s:", "a slash"),
            ("k8s:/name", "a slash"),
            ("k8s:ns/", "a slash"),
            ("k8s:ns/name/more", "a slash"),
            ("k8s:NS/name", "lower-case"),
            ("k8s:ns/name?contxt=a", "context=CONTEXT"),
            ("k8s:ns/name?context=", "context=CONTEXT"),
            ("k8s:ns/name?", "context=CONTEXT"),
            ("k8s:ns/name?context=a&context=b", "twice"),
            ("aws:", "ARN"),
            ("postgres:mysql://h/db", "postgres://"),
            ("postgres://u@h/db?fleet=Upper", "lower-case"),
            ("postgres://u@h/db?fleet=", "lower-case"),
            ("postgres://u@h/db?fleet=a&fleet=b", "twice"),
        ] {
            let message = ProviderUri::parse(text).expect_err(text).to_string();
            assert!(message.contains(wanted), "{text}: {message}");
        }
        let far = ProviderUri::parse("vault:secret/x").expect_err("unknown").to_string();
        assert!(!far.contains("did you mean"), "{far}");
        for text in ["", "/etc/key.pem", "vault:secret/x"] {
            let message = ProviderUri::parse(text).expect_err(text).to_string();
            assert_eq!(message.contains("k8s:NS/NAME"), cfg!(feature = "kubernetes"), "{text}: {message}");
            assert_eq!(message.contains("postgres:URL"), cfg!(feature = "postgres"), "{text}: {message}");
            #[cfg(all(feature = "file", feature = "inline"))]
            assert!(message.contains("file:PATH, env:NAME"), "{text}: {message}");
        }
    }

    #[test]
    fn a_key_in_place_of_a_uri_is_not_repeated() {
        let canary = "CANARYc3f1";
        for text in [
            format!("-----BEGIN PRIVATE KEY-----\n{canary}: x\n"),
            format!("env:-----BEGIN PRIVATE KEY-----\n{canary}"),
            format!("/{canary}\n{canary}"),
            format!("{{\"d\":\"{canary}\"}}"),
            format!("k8s:{canary}/{canary}"),
            format!("aws:{canary} {canary}"),
            format!("postgres:{canary}"),
        ] {
            let error = ProviderUri::parse(&text).expect_err(&text);
            assert!(!format!("{error} {error:?}").contains(canary), "{error}");
        }
    }

    #[test]
    fn a_password_is_masked_however_it_is_written() {
        for (url, shown) in [
            ("postgres://u:s3cret@h/db", "postgres://u:***@h/db"),
            ("postgres://u:s3/cr@s3cret@h/db", "postgres://u:***@h/db"),
            ("postgres://h/db?user=u&password=s3cret", "postgres://h/db?user=u&password=***"),
            ("postgres://h/db?password=s3cret@s3cret", "postgres://***"),
            ("postgres://u:s3cret?s3cret@h/db", "postgres://***"),
            ("postgres://h/db?sslpassword=s3cret", "postgres://h/db?sslpassword=***"),
        ] {
            let uri = ProviderUri::parse(url).expect(url);
            assert_eq!(uri.to_string(), format!("postgres:{shown}"));
            assert!(!format!("{uri:?}").contains("s3cret"));
            let ProviderUri::Postgres(url_with_password) = uri else { panic!("{url} is a postgres URL") };
            assert_eq!(url_with_password.expose(), url);
        }
    }

    #[test]
    fn a_known_kind_that_is_not_built_in_is_refused_by_name() {
        let kinds = [
            ("k8s:ns/name", cfg!(feature = "kubernetes")),
            ("aws:ring", cfg!(feature = "aws")),
            ("postgres://h/db", cfg!(feature = "postgres")),
        ];
        for (text, _) in kinds.into_iter().filter(|(_, is_built_in)| !is_built_in) {
            let error = ProviderUri::parse(text).expect(text).open().expect_err(text).to_string();
            assert!(error.contains("not in this version"), "{error}");
            #[cfg(feature = "file")]
            assert!(error.contains("file:PATH"), "{error}");
        }
    }

    #[test]
    fn a_fleet_is_named_beside_what_the_driver_takes() {
        for (text, url, fleet) in [
            ("postgres://u@h/db", "postgres://u@h/db", None),
            ("postgres://u@h/db?fleet=a.b-1", "postgres://u@h/db", Some("a.b-1")),
            ("postgres://u@h/db?sslmode=verify-ca&fleet=a", "postgres://u@h/db?sslmode=verify-ca", Some("a")),
            ("postgres://u@h/db?fleet=a&host=/run", "postgres://u@h/db?host=/run", Some("a")),
        ] {
            let ProviderUri::Postgres(read) = ProviderUri::parse(text).expect(text) else { panic!("{text}") };
            assert_eq!((&**read.database_url(), read.fleet()), (url, fleet), "{text}");
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_database_is_opened_for_the_fleet_that_is_named_nearest() {
        let opened = |text: &str, fleet| ProviderUri::parse(text).expect(text).open_for(fleet);
        let location = |text, fleet| opened(text, fleet).expect(text).describe().location;
        assert_eq!(location("postgres://u:pw@h/db?fleet=a", Some("b")), "h:5432/db (fleet a)");
        assert_eq!(location("postgres://u:pw@h/db", Some("b")), "h:5432/db (fleet b)");
        assert_eq!(location("postgres://u:pw@h/db", None), "h:5432/db");
        let refused =
            opened("postgres://u:s3cret@h/db?sslmode=require", None).expect_err("in clear").to_string();
        assert!(refused.contains("verify-full") && !refused.contains("s3cret"), "{refused}");
    }

    #[cfg(all(feature = "file", feature = "inline"))]
    #[test]
    fn what_is_built_in_opens() {
        for text in ["file:/nowhere", "env:UNSET_VARIABLE"] {
            let uri = ProviderUri::parse(text).expect(text);
            assert_eq!(uri.open().expect(text).describe().kind, uri.scheme());
        }
    }
}
