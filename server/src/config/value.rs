//! One value: what the file or a variable says, judged by the row of its key.
//!
//! A fault never repeats what was written for a secret, and nothing long, structured or PEM-like for any other key:
//! it may be a key that was pasted into the wrong place.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use oneseal_keystore::findings::Code;
use oneseal_keystore::{Algorithm, Kek};
use oneseal_providers::{ProviderUri, looks_like_key};
use secrecy::SecretString;
use toml::de::DeValue;

use super::admin_tokens::{self, AdminToken};
use super::codes;
use super::compound::{self, Match};
use super::hint;
use super::table::{Key, Kind, Literal};
use super::url;
use crate::admin_token;
use crate::http::host;

/// A value of the right kind for its key.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Of a choice, a URL or a name.
    Text(String),
    /// Never shown.
    Secret(SecretString),
    /// Yes or no.
    Bool(bool),
    /// A count.
    Integer(u64),
    /// A length of time, kept with the words in which it was written.
    Duration(Duration, String),
    /// A file or directory.
    Path(PathBuf),
    /// A provider.
    Provider(ProviderUri),
    /// Several providers.
    Providers(Vec<ProviderUri>),
    /// Address and port.
    Address(SocketAddr),
    /// A Unix socket; `None` is off.
    Socket(Option<PathBuf>),
    /// Signature algorithms, at least one.
    Algorithms(Vec<Algorithm>),
    /// Audiences.
    Audiences(Vec<String>),
    /// Keys of AWS session tags.
    TagKeys(Vec<String>),
    /// Host names, in lower case.
    Hosts(Vec<String>),
    /// Callers of the admin API.
    AdminTokens(Vec<AdminToken>),
    /// Networks.
    Networks(Vec<IpNet>),
    /// One algorithm.
    Algorithm(Algorithm),
    /// Names, each once.
    Names(Vec<String>),
    /// What a text must be: one of these.
    Matches(Vec<Match>),
    /// The same for each of several names.
    Conditions(Vec<(String, Vec<Match>)>),
    /// Claims or texts by their names.
    Table(serde_json::Map<String, serde_json::Value>),
}

impl Value {
    /// What reports show: JSON, with secrets masked.
    pub(crate) fn shown(&self) -> serde_json::Value {
        match self {
            Self::Text(text) | Self::Duration(_, text) => text.as_str().into(),
            Self::Secret(_) => MASK.into(),
            Self::Bool(value) => (*value).into(),
            Self::Integer(value) => (*value).into(),
            Self::Path(path) => path.to_string_lossy().into(),
            Self::Provider(uri) => uri.to_string().into(),
            Self::Providers(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
            Self::Address(address) => address.to_string().into(),
            Self::Socket(path) => path.as_ref().map_or("none".into(), |path| path.to_string_lossy()).into(),
            Self::Algorithms(all) => {
                all.iter().map(|algorithm| algorithm.as_str()).collect::<Vec<_>>().into()
            }
            Self::Audiences(all) | Self::TagKeys(all) | Self::Hosts(all) => all.clone().into(),
            Self::AdminTokens(all) => all.iter().map(AdminToken::json).collect(),
            Self::Networks(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
            Self::Algorithm(algorithm) => algorithm.as_str().into(),
            Self::Names(all) => all.clone().into(),
            Self::Matches(all) => all.iter().map(Match::json).collect(),
            Self::Conditions(all) => {
                let all = all.iter().map(|(name, of)| (name.clone(), of.iter().map(Match::json).collect()));
                serde_json::Value::Object(all.collect())
            }
            Self::Table(members) => serde_json::Value::Object(members.clone()),
        }
    }
}

/// Why a value is not one for its key.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The row of the table of findings.
    pub(crate) code: &'static Code,
    /// What was found. Holds no secret.
    pub(crate) message: String,
    /// Where in the document, in bytes, if that is more exact than its key: of a list that spans many lines.
    pub(crate) at: Option<usize>,
}

/// Reads a value of the file.
///
/// # Errors
/// [`Fault`] if it is of another type, or out of the key's range.
pub(crate) fn from_toml(key: &Key, value: &DeValue<'_>) -> Result<Value, Fault> {
    match (key.kind, value) {
        (Kind::Bool, DeValue::Boolean(value)) => Ok(Value::Bool(*value)),
        (Kind::Integer { most }, DeValue::Integer(value)) => integer(value.as_str(), value.radix(), most),
        (Kind::AdminTokens, DeValue::Array(items)) => admin_tokens::from_toml(items).map(Value::AdminTokens),
        (_, DeValue::String(text)) if admin_token::is_in(text) => Err(admin_tokens::in_clear()),
        (Kind::Names | Kind::Matches | Kind::Conditions | Kind::Claims | Kind::Texts, _) => {
            compound::from_toml(key, value)
        }
        (
            Kind::Algorithms | Kind::Audiences | Kind::TagKeys | Kind::Hosts | Kind::KekUris | Kind::Networks,
            DeValue::Array(items),
        ) => {
            let texts: Option<Vec<_>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            list(key, &texts.ok_or_else(|| bad("it has an item that is not a string".to_owned()))?)
        }
        (
            Kind::Bool
            | Kind::Integer { .. }
            | Kind::Algorithms
            | Kind::Audiences
            | Kind::TagKeys
            | Kind::Hosts
            | Kind::KekUris
            | Kind::Networks
            | Kind::AdminTokens,
            _,
        )
        | (_, DeValue::Table(_)) => Err(wrong_type(key, value)),
        (_, DeValue::String(text)) => from_string(key, text),
        _ => Err(wrong_type(key, value)),
    }
}

/// Reads a value of a variable or a flag. A list is written with commas, or as TOML in brackets.
///
/// # Errors
/// As [`from_toml`].
pub(crate) fn from_text(key: &Key, text: &str) -> Result<Value, Fault> {
    refuse_key(key, text)?;
    if admin_token::is_in(text) {
        return Err(admin_tokens::in_clear());
    }
    match key.kind {
        Kind::Bool => match text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(not_a(key, text)),
        },
        Kind::Integer { .. } if !text.bytes().all(|byte| byte.is_ascii_digit()) => Err(not_a(key, text)),
        Kind::Integer { most } => integer(text, 10, most),
        Kind::Algorithms
        | Kind::Audiences
        | Kind::TagKeys
        | Kind::Hosts
        | Kind::KekUris
        | Kind::Networks
        | Kind::AdminTokens
            if text.starts_with('[') =>
        {
            match DeValue::parse(text) {
                Ok(value) => from_toml(key, value.get_ref()),
                Err(_) => Err(not_a(key, text)),
            }
        }
        Kind::Algorithms | Kind::Audiences | Kind::TagKeys | Kind::Hosts | Kind::KekUris | Kind::Networks => {
            list(key, &text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>())
        }
        _ => from_string(key, text),
    }
}

/// The value of a default.
///
/// # Errors
/// [`Fault`] if the table contradicts itself; a test shows that it does not.
pub(crate) fn from_literal(key: &Key, literal: Literal) -> Result<Value, Fault> {
    match literal {
        Literal::Text(text) => from_string(key, text),
        Literal::Bool(value) => Ok(Value::Bool(value)),
        Literal::Integer(value) => Ok(Value::Integer(value)),
        Literal::List(items) => list(key, items),
        Literal::Tables(_) | Literal::Table(_) | Literal::Mixed(_) => match DeValue::parse(&literal.toml()) {
            Ok(value) => from_toml(key, value.get_ref()),
            Err(_) => Err(not_a(key, "")),
        },
    }
}

fn from_string(key: &Key, text: &str) -> Result<Value, Fault> {
    if text.is_empty() && !matches!(key.kind, Kind::Socket) {
        return Err(bad(format!(
            "it is empty, but must be {}; leave it out if it is not meant",
            key.kind.words()
        )));
    }
    if text.contains('\0') {
        return Err(bad("it has a NUL character".to_owned()));
    }
    refuse_key(key, text)?;
    match key.kind {
        Kind::Secret => Ok(Value::Secret(text.into())),
        Kind::IssuerUrl => Ok(Value::Text(text.to_owned())),
        Kind::Duration { whole_seconds, most } => duration(key, text, whole_seconds, most),
        Kind::Choice { words, later } => choice(key, text, words, later),
        Kind::ProviderUri => provider(text),
        Kind::PassphraseUri => passphrase(key, text),
        Kind::KekUri => kek(key, text).map(Value::Provider),
        Kind::MemberName | Kind::Line { .. } => member_name(key, text),
        Kind::ObjectName => object_name(key, text),
        Kind::VariableName => variable_name(key, text),
        Kind::FleetName => fleet_name(key, text),
        Kind::InstanceName => instance_name(key, text),
        Kind::Advertised => advertised(key, text),
        Kind::Path => path(key, text).map(Value::Path),
        Kind::Address => address(key, text),
        Kind::Socket => socket(key, text),
        Kind::Algorithm => algorithm(text).map(Value::Algorithm),
        Kind::KeysUrl => url::of_keys(key, text),
        Kind::EndpointUrl => url::of_endpoint(key, text),
        Kind::ProxyUrl => url::of_proxy(key, text),
        Kind::Name => compound::name(key, text).map(Value::Text),
        Kind::Bool
        | Kind::Integer { .. }
        | Kind::Algorithms
        | Kind::Audiences
        | Kind::TagKeys
        | Kind::Hosts
        | Kind::KekUris
        | Kind::Networks
        | Kind::Names
        | Kind::Matches
        | Kind::Conditions
        | Kind::Claims
        | Kind::Texts
        | Kind::AdminTokens => Err(not_a(key, text)),
    }
}

/// A key in the place of anything else is not repeated, whatever else is wrong with it. Places of secrets have words of
/// their own for it.
pub(super) fn refuse_key(key: &Key, text: &str) -> Result<(), Fault> {
    let has_words = matches!(key.kind, Kind::Secret | Kind::ProviderUri | Kind::PassphraseUri | Kind::KekUri);
    // 32 bytes in letters have no form of their own, but here they can be nothing else.
    let is_kek = key.path.starts_with("kek.") && Kek::read(text.as_bytes()).is_ok();
    if has_words || !(is_kek || looks_like_key(text)) {
        return Ok(());
    }
    let instead = match key.path {
        path if path.starts_with("kek.") => "name the place where it rests, by kek.uri",
        "provider.path" => "use kind `inline` for that",
        _ => "name the place where it rests, by provider.uri",
    };
    Err(bad(format!("it must be {}, and looks like a key itself: {instead}", key.kind.words())))
}

fn integer(digits: &str, radix: u32, most: u64) -> Result<Value, Fault> {
    match u64::from_str_radix(digits, radix) {
        Ok(value) if value <= most => Ok(Value::Integer(value)),
        _ => Err(bad(format!("it must be a whole number from 0 to {most}"))),
    }
}

/// The units are few on purpose: in the crate's own grammar `15M` would be fifteen months.
fn duration(key: &Key, text: &str, whole_seconds: bool, most: Duration) -> Result<Value, Fault> {
    let units_are_ours = text
        .split(|c: char| c.is_ascii_digit() || c == ' ')
        .filter(|unit| !unit.is_empty())
        .all(|unit| DURATION_UNITS.contains(&unit));
    let span = humantime::parse_duration(text).ok().filter(|_| units_are_ours && text != "0");
    let span = span.ok_or_else(|| not_a(key, text))?;
    if whole_seconds && span.subsec_nanos() != 0 {
        return Err(bad(format!("it is {text}, but must be of whole seconds")));
    }
    if span > most {
        return Err(bad(format!("it is {text}; the most is {}", in_units(most))));
    }
    Ok(Value::Duration(span, text.to_owned()))
}

/// A length of time in the largest unit that gives a whole number.
pub(crate) fn in_units(span: Duration) -> String {
    let millis = span.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    match units.into_iter().find(|(_, unit)| millis.is_multiple_of(*unit)) {
        Some((name, unit)) if millis > 0 => format!("{}{name}", millis / unit),
        Some(_) => "0s".to_owned(),
        None => format!("{millis}ms"),
    }
}

fn choice(key: &Key, text: &str, words: &[&str], later: &[&str]) -> Result<Value, Fault> {
    if words.contains(&text) {
        return Ok(Value::Text(text.to_owned()));
    }
    if later.contains(&text) {
        let message = format!("\"{text}\" is not in this version; it must be {}", key.kind.words());
        return Err(Fault { code: &codes::NOT_AVAILABLE, message, at: None });
    }
    let mut fault = not_a(key, text);
    if let Some(word) = hint::nearest(text, words.iter().copied()) {
        fault.message.push_str(&format!("; did you mean \"{word}\"?"));
    }
    Err(fault)
}

fn provider(text: &str) -> Result<Value, Fault> {
    // The crate's own error repeats no more of the text than a scheme or a path.
    match ProviderUri::parse(text).map_err(|error| bad(error.to_string()))? {
        uri @ (ProviderUri::File(_) | ProviderUri::Env(_)) => Ok(Value::Provider(uri)),
        uri @ (ProviderUri::Postgres(_) | ProviderUri::Kubernetes { .. } | ProviderUri::Aws(_)) => {
            // What no driver could use is said here, where it stands.
            uri.open().map_err(|error| bad(error.to_string()))?;
            Ok(Value::Provider(uri))
        }
        uri => {
            let message = format!("this version opens no \"{}:\" provider", uri.scheme());
            Err(Fault { code: &codes::NOT_AVAILABLE, message, at: None })
        }
    }
}

/// Nothing of the text is repeated, not even a scheme: it may be the passphrase, colon and all.
fn passphrase(key: &Key, text: &str) -> Result<Value, Fault> {
    match ProviderUri::parse(text) {
        Ok(uri @ (ProviderUri::File(_) | ProviderUri::Env(_))) => Ok(Value::Provider(uri)),
        Ok(uri) => {
            let message = format!(
                "this version takes a passphrase from no \"{}:\" provider; it must be {}",
                uri.scheme(),
                key.kind.words()
            );
            Err(Fault { code: &codes::NOT_AVAILABLE, message, at: None })
        }
        Err(_) => Err(bad(format!(
            "it is not {}; a passphrase itself is never written here, but put where one of these points",
            key.kind.words()
        ))),
    }
}

fn kek(key: &Key, text: &str) -> Result<ProviderUri, Fault> {
    match ProviderUri::parse(text) {
        Ok(
            uri @ (ProviderUri::File(_)
            | ProviderUri::Env(_)
            | ProviderUri::Kubernetes { .. }
            | ProviderUri::Aws(_)),
        ) => Ok(uri),
        Ok(uri) => {
            let message = format!("this version takes a KEK from no \"{}:\" provider", uri.scheme());
            Err(Fault { code: &codes::NOT_AVAILABLE, message, at: None })
        }
        Err(_) => Err(bad(format!(
            "it is not {}; a KEK itself is never written here, but put where one of these points",
            key.kind.words()
        ))),
    }
}

fn object_name(key: &Key, text: &str) -> Result<Value, Fault> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = text.len() <= MAX_HOST
        && text.starts_with(is_letter)
        && text.ends_with(is_letter)
        && text.chars().all(|c| is_letter(c) || matches!(c, '-' | '.'));
    if is_name { Ok(Value::Text(text.to_owned())) } else { Err(not_a(key, text)) }
}

fn member_name(key: &Key, text: &str) -> Result<Value, Fault> {
    let most = if let Kind::Line { .. } = key.kind { MAX_LINE } else { MAX_NAME };
    let is_name = text.len() <= most && !text.chars().any(char::is_control) && !looks_like_key(text);
    if is_name {
        Ok(Value::Text(text.to_owned()))
    } else {
        Err(bad(format!("it is not {}", key.kind.words())))
    }
}

fn variable_name(key: &Key, text: &str) -> Result<Value, Fault> {
    let is_name = text.len() <= MAX_NAME
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { Ok(Value::Text(text.to_owned())) } else { Err(not_a(key, text)) }
}

/// A fleet names leases, so it must fit Kubernetes' object names (RFC 1123 subdomain) with a suffix.
fn fleet_name(key: &Key, text: &str) -> Result<Value, Fault> {
    let is_end =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_name = text.len() <= MAX_NAME
        && is_end(text.bytes().next())
        && is_end(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'));
    if is_name { Ok(Value::Text(text.to_owned())) } else { Err(not_a(key, text)) }
}

fn instance_name(key: &Key, text: &str) -> Result<Value, Fault> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let is_name = (1..=MAX_INSTANCE).contains(&text.len()) && text.bytes().all(is_letter);
    if is_name { Ok(Value::Text(text.to_owned())) } else { Err(not_a(key, text)) }
}

/// Host and perhaps port, as they stand in a URL; the listener speaks plain HTTP.
fn advertised(key: &Key, text: &str) -> Result<Value, Fault> {
    let authority = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let host = host::of(authority.as_bytes()).filter(|host| !host.is_empty() && !authority.ends_with(':'));
    match host {
        Some(_) if authority.len() <= MAX_HOST => Ok(Value::Text(authority.to_owned())),
        _ => Err(not_a(key, text)),
    }
}

fn path(key: &Key, text: &str) -> Result<PathBuf, Fault> {
    if text.contains('\n') || text.starts_with('{') {
        let message =
            format!("it must be {}, in one line; a file's content is not given here", key.kind.words());
        return Err(bad(message));
    }
    Ok(PathBuf::from(text))
}

fn address(key: &Key, text: &str) -> Result<Value, Fault> {
    if let Ok(address) = text.parse() {
        return Ok(Value::Address(address));
    }
    let mut fault = not_a(key, text);
    let port = text.strip_prefix("localhost:").map(|port| ("127.0.0.1", port));
    let (host, port) = port.unwrap_or(("[::]", text.trim_start_matches([':', '*'])));
    if port.parse::<u16>().is_ok() {
        fault.message.push_str(&format!("; did you mean \"{host}:{port}\"?"));
    }
    Err(fault)
}

fn socket(key: &Key, text: &str) -> Result<Value, Fault> {
    if matches!(text, "" | "none") {
        return Ok(Value::Socket(None));
    }
    if text.parse::<SocketAddr>().is_ok() {
        return Err(bad(format!(
            "an address of TCP goes into listen.admin_tcp, beside the socket; here it must be {}",
            key.kind.words()
        )));
    }
    // Not taken for a file's name: "off" or "false" would make a socket of that name.
    if !text.contains('/') {
        let mut fault = not_a(key, text);
        fault.message.push_str("; a path in the working directory begins with \"./\"");
        return Err(fault);
    }
    if text.len() > MAX_SOCKET_PATH {
        let message =
            format!("it is {} bytes long; a Unix socket's path has at most {MAX_SOCKET_PATH}", text.len());
        return Err(bad(message));
    }
    path(key, text).map(|path| Value::Socket(Some(path)))
}

fn list(key: &Key, items: &[&str]) -> Result<Value, Fault> {
    items.iter().try_for_each(|item| refuse_key(key, item))?;
    // A KEK that stands here by mistake must not be repeated.
    if let Kind::KekUris = key.kind {
        items.iter().try_for_each(|item| kek(key, item).map(drop))?;
    }
    if let Some(twice) =
        items.iter().enumerate().find_map(|(i, item)| items[..i].contains(item).then_some(item))
    {
        return Err(bad(format!("{} stands there twice", hint::shown(twice))));
    }
    match key.kind {
        Kind::Algorithms => algorithms(items),
        Kind::Hosts => hosts(items),
        Kind::TagKeys => tag_keys(items),
        Kind::Networks => networks(items),
        Kind::KekUris => {
            items.iter().map(|item| kek(key, item)).collect::<Result<_, _>>().map(Value::Providers)
        }
        _ => audiences(items),
    }
}

fn algorithms(items: &[&str]) -> Result<Value, Fault> {
    let mut all = Vec::new();
    for item in items {
        let algorithm = algorithm(item)?;
        if all.contains(&algorithm) {
            return Err(bad(format!("{algorithm} stands there twice")));
        }
        all.push(algorithm);
    }
    if all.is_empty() {
        return Err(bad("it is empty: no token could be signed".to_owned()));
    }
    Ok(Value::Algorithms(all))
}

fn algorithm(text: &str) -> Result<Algorithm, Fault> {
    text.parse().map_err(|_| {
        let names = Algorithm::ALL.map(Algorithm::as_str);
        let near = hint::nearest(text, names);
        let hint = near.map_or(String::new(), |name| format!("; did you mean \"{name}\"?"));
        bad(format!("{} is not one of {}{hint}", hint::shown(text), names.join(", ")))
    })
}

/// An address alone is a network of one. Bits after the prefix are refused: `10.1.2.3/8` is somebody's mistake.
fn networks(items: &[&str]) -> Result<Value, Fault> {
    let network = |item: &&str| {
        let alone = item.parse::<IpAddr>().map(IpNet::from);
        match item.parse::<IpNet>().or(alone) {
            Ok(network) if network.trunc() == network => Ok(network),
            Ok(network) => Err(bad(format!("{item} is inside the network {}; write that", network.trunc()))),
            Err(_) => Err(bad(format!("{} is not a network, such as \"10.0.0.0/8\"", hint::shown(item)))),
        }
    };
    items.iter().map(network).collect::<Result<_, _>>().map(Value::Networks)
}

fn tag_keys(items: &[&str]) -> Result<Value, Fault> {
    if items.iter().any(|item| item.is_empty() || item.chars().count() > MAX_TAG_KEY) {
        return Err(bad(format!("the key of an AWS session tag has 1 to {MAX_TAG_KEY} characters")));
    }
    Ok(Value::TagKeys(items.iter().map(|&item| item.to_owned()).collect()))
}

fn audiences(items: &[&str]) -> Result<Value, Fault> {
    for item in items {
        if item.is_empty() || item.len() > MAX_AUDIENCE || item.chars().any(char::is_control) {
            let message = format!("an audience has 1 to {MAX_AUDIENCE} bytes and no control characters");
            return Err(bad(message));
        }
    }
    Ok(Value::Audiences(items.iter().map(|&item| item.to_owned()).collect()))
}

/// Names, and addresses without brackets' port: what stands in `Host` before the colon.
fn hosts(items: &[&str]) -> Result<Value, Fault> {
    let is_name = |name: &str| {
        (1..=MAX_HOST).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
    };
    let is_host = |item: &str| is_name(item) || item.parse::<IpAddr>().is_ok();
    match items.iter().find(|item| !is_host(item)) {
        None => Ok(Value::Hosts(items.iter().map(|item| item.to_ascii_lowercase()).collect())),
        Some(item) => Err(bad(format!(
            "{} is not the name of a host; write it without scheme, port and path",
            hint::shown(item)
        ))),
    }
}

pub(super) fn bad(message: String) -> Fault {
    Fault { code: &codes::BAD_VALUE, message, at: None }
}

pub(super) fn wrong_type(key: &Key, value: &DeValue<'_>) -> Fault {
    let found = value.type_str();
    let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
    let quotes = match (key.kind, value) {
        (Kind::Bool | Kind::Integer { .. }, DeValue::String(_)) => ", without quotes",
        _ => "",
    };
    bad(format!("it is {article} {found}, but must be {}{quotes}", key.kind.words()))
}

pub(super) fn not_a(key: &Key, text: &str) -> Fault {
    let found = if key.is_secret() { "it".to_owned() } else { hint::shown(text) };
    bad(format!("{found} is not {}", key.kind.words()))
}

/// Units that a duration may have.
pub(crate) const DURATION_UNITS: &[&str] = &["ms", "s", "m", "h", "d"];

/// As long as a pod's name, its namespace and a port.
const MAX_INSTANCE: usize = 128;

/// What stands for a secret in reports.
pub(crate) const MASK: &str = "***";

/// `sun_path` of Linux has 108 bytes, the last of them NUL (unix(7)).
pub(crate) const MAX_SOCKET_PATH: usize = 107;
/// Leaves a Kubernetes name (253 bytes) room for a suffix.
pub(crate) const MAX_NAME: usize = 200;
/// As long as an ARN or a URL.
pub(crate) const MAX_LINE: usize = 2048;
/// AWS and others take 255 bytes.
pub(crate) const MAX_AUDIENCE: usize = 255;
/// In characters, as AWS STS has it.
pub(crate) const MAX_TAG_KEY: usize = 128;
/// The longest name in DNS (RFC 1035 section 2.3.4), written out.
pub(crate) const MAX_HOST: usize = 253;
