//! Every key of the configuration, once.
//!
//! The parser, the JSON Schema, the commented file and `docs/configuration.md` are all made from this table, so none
//! of them can know a key that another does not. A default stands here with its reason, because whoever changes one
//! must know what it was for.

mod lists;
mod rows;

use std::time::Duration;

pub(crate) use lists::LISTS;
pub(crate) use rows::{LATER, SECTIONS};

/// One table of the file.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name, `issuer` for `[issuer]`.
    pub(crate) name: &'static str,
    /// What it is about, one sentence.
    pub(crate) doc: &'static str,
    /// Its keys, in the order in which they are shown.
    pub(crate) keys: &'static [Key],
}

/// Tables of the file of which there may be any number, `[[rule]]`. Their keys have no variable and no flag: nothing but
/// the file can say which of them is meant.
#[derive(Debug)]
pub(crate) struct List {
    /// Its name, `rule` for `[[rule]]`.
    pub(crate) name: &'static str,
    /// What they are about, one sentence or more.
    pub(crate) doc: &'static str,
    /// The keys of each, in the order in which they are shown.
    pub(crate) keys: &'static [Key],
    /// Names of keys of which no two may have the same value.
    pub(crate) distinct: &'static [&'static str],
}

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Section and name: `issuer.url`; of a list, `rule.name`.
    pub(crate) path: &'static str,
    /// What may stand there.
    pub(crate) kind: Kind,
    /// What holds when nothing is said.
    pub(crate) default: Default,
    /// What it does, one sentence.
    pub(crate) doc: &'static str,
    /// A value that means something.
    pub(crate) example: Literal,
}

impl Key {
    /// The part after the section.
    pub(crate) fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }

    /// The environment variable that sets it: `ONESEAL__ISSUER__URL`.
    pub(crate) fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.path.replace('.', "__").to_ascii_uppercase())
    }

    /// Whether the value must never be shown.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Secret)
    }
}

/// The kinds of providers that this program can open.
pub(crate) fn provider_kinds() -> &'static [&'static str] {
    match keys().find(|key| key.path == "provider.kind").map(|key| key.kind) {
        Some(Kind::Choice { words, .. }) => words,
        _ => &[],
    }
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number from 0 to `most`.
    Integer {
        /// The largest.
        most: u64,
    },
    /// A number with a unit: `"15m"`, `"1h 30m"`.
    Duration {
        /// Whether a fraction of a second is refused.
        whole_seconds: bool,
        /// The longest.
        most: Duration,
    },
    /// One of a few words.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// Words that the design has and this version does not.
        later: &'static [&'static str],
    },
    /// The issuer's URL.
    IssuerUrl,
    /// A provider named by one URI.
    ProviderUri,
    /// Where a passphrase rests, by one URI. What stands here by mistake may be the passphrase itself.
    PassphraseUri,
    /// Where a key-encryption key rests, by one URI. What stands here by mistake may be the KEK itself.
    KekUri,
    /// Several of these.
    KekUris,
    /// The name of a member of a JSON object.
    MemberName,
    /// The name of an object in Kubernetes.
    ObjectName,
    /// Some other name, in one line.
    Line {
        /// What of, for messages and tables.
        words: &'static str,
    },
    /// The name of an environment variable.
    VariableName,
    /// The name of a fleet.
    FleetName,
    /// The name of one replica among others.
    InstanceName,
    /// Where a listener is reached from other hosts.
    Advertised,
    /// Text that is never shown.
    Secret,
    /// A file or a directory.
    Path,
    /// An IP address and a port.
    Address,
    /// A Unix socket's path, or nothing.
    Socket,
    /// Signature algorithms.
    Algorithms,
    /// Audiences of tokens.
    Audiences,
    /// Keys of AWS session tags.
    TagKeys,
    /// Host names, without scheme and port.
    Hosts,
    /// Who may call the admin API over TCP.
    AdminTokens,
    /// Networks, as address and length of the prefix.
    Networks,
    /// One signature algorithm.
    Algorithm,
    /// An address of keys.
    KeysUrl,
    /// Where clients send a credential.
    EndpointUrl,
    /// Where a proxy is reached.
    ProxyUrl,
    /// What rules and logs call something.
    Name,
    /// Such names.
    Names,
    /// What a text must be.
    Matches,
    /// What several things must be, by their names.
    Conditions,
    /// Claims, which may be of any kind.
    Claims,
    /// Texts, by their names.
    Texts,
}

impl Kind {
    /// What it takes, for messages and tables: "a duration with a unit, such as "15m"".
    pub(crate) fn words(self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Integer { .. } => "a whole number".to_owned(),
            Self::Duration { whole_seconds: true, .. } => {
                "a duration in whole seconds, such as \"15m\"".to_owned()
            }
            Self::Duration { .. } => "a duration with a unit, such as \"15m\"".to_owned(),
            Self::Choice { words, .. } => format!("one of {}", quoted(words)),
            Self::IssuerUrl => "an https URL".to_owned(),
            Self::ProviderUri => "a provider's URI, such as \"file:PATH\"".to_owned(),
            Self::PassphraseUri => "the place of a passphrase, \"file:PATH\" or \"env:NAME\"".to_owned(),
            Self::KekUri => {
                "the place of a key-encryption key, such as \"file:PATH\" or \"env:NAME\"".to_owned()
            }
            Self::KekUris => "a list of places of key-encryption keys, such as [\"file:PATH\"]".to_owned(),
            Self::MemberName => "the name of a member of a JSON object".to_owned(),
            Self::ObjectName => "a name of lower-case letters, digits, dots and hyphens".to_owned(),
            Self::Line { words } => words.to_owned(),
            Self::VariableName => "the name of an environment variable".to_owned(),
            Self::FleetName => "a name of lower-case letters, digits, dots and hyphens".to_owned(),
            Self::InstanceName => {
                "a name of at most 128 letters, digits, dots, colons, underscores and hyphens".to_owned()
            }
            Self::Advertised => "a host, or host and port, such as \"10.1.2.3:8081\"".to_owned(),
            Self::Secret => "a string".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Address => "an IP address and a port, such as \"[::]:8080\"".to_owned(),
            Self::Socket => "the path of a Unix socket, or \"none\"".to_owned(),
            Self::Algorithms => "a list of signature algorithms, such as [\"RS256\"]".to_owned(),
            Self::Audiences => "a list of audiences, such as [\"sts.amazonaws.com\"]".to_owned(),
            Self::TagKeys => "a list of keys of AWS session tags, such as [\"project\"]".to_owned(),
            Self::Hosts => "a list of host names, such as [\"oneseal-admin.internal\"]".to_owned(),
            Self::AdminTokens => "tables [[admin.tokens]] with name, scopes and sha256".to_owned(),
            Self::Networks => "a list of networks, such as [\"10.0.0.0/8\"]".to_owned(),
            Self::Algorithm => "a signature algorithm, such as \"RS256\"".to_owned(),
            Self::KeysUrl | Self::EndpointUrl => {
                "an https URL, or a plain http one of a loopback host".to_owned()
            }
            Self::ProxyUrl => "the http URL of a proxy, such as \"http://proxy.internal:3128\"".to_owned(),
            Self::Name => "a name of 1 to 64 letters, digits, dots, underscores and hyphens".to_owned(),
            Self::Names => "a name or a list of names, such as [\"prod\"]".to_owned(),
            Self::Matches => {
                "a string, { prefix = \"…\" }, or a list of these, such as [\"ci\", { prefix = \"team-\" }]"
                    .to_owned()
            }
            Self::Conditions => {
                "a table of names and what each must be, such as { subject = { prefix = \"job-\" } }"
                    .to_owned()
            }
            Self::Claims => "a table of claims, such as { team = \"blue\" }".to_owned(),
            Self::Texts => "a table of strings, such as { project = \"blue\" }".to_owned(),
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

/// What holds when nothing is said.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Default {
    /// This value, for this reason.
    Value(Literal, &'static str),
    /// No value; the words say what happens then.
    Unset(&'static str),
    /// It must be there, for this reason. Of lists alone: no variable could give it instead.
    Required(&'static str),
}

/// A value as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Literal {
    /// A string.
    Text(&'static str),
    /// A boolean.
    Bool(bool),
    /// An integer.
    Integer(u64),
    /// An array of strings.
    List(&'static [&'static str]),
    /// An array of tables.
    Tables(&'static [&'static [(&'static str, Self)]]),
    /// One table.
    Table(&'static [(&'static str, Self)]),
    /// An array of several kinds.
    Mixed(&'static [Self]),
}

impl Literal {
    /// As JSON.
    pub(crate) fn json(self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Bool(value) => value.into(),
            Self::Integer(value) => value.into(),
            Self::List(items) => items.to_vec().into(),
            Self::Tables(tables) => tables.iter().map(|members| Self::Table(members).json()).collect(),
            Self::Table(members) => {
                let members = members.iter().map(|(name, value)| ((*name).to_owned(), value.json()));
                serde_json::Value::Object(members.collect())
            }
            Self::Mixed(items) => items.iter().map(|item| item.json()).collect(),
        }
    }

    /// As TOML.
    pub(crate) fn toml(self) -> String {
        toml_of(&self.json())
    }
}

/// TOML of a JSON string, boolean, number, or array or object of them. JSON's escapes are all TOML's too, except that JSON
/// leaves U+007F as it is.
pub(crate) fn toml_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(items) => {
            format!("[{}]", items.iter().map(toml_of).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Object(members) => {
            let members =
                members.iter().map(|(name, value)| format!("{} = {}", toml_key(name), toml_of(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string().replace('\u{7f}', "\\u007f"),
    }
}

/// A name as it stands before an equals sign: in quotes unless it is of plain letters.
fn toml_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { toml_of(&name.into()) }
}

/// The list of this name, if this version has it.
pub(crate) fn list(name: &str) -> Option<&'static List> {
    lists().find(|list| list.name == name)
}

/// The lists that this version has, in order.
pub(crate) fn lists() -> impl Iterator<Item = &'static List> + Clone {
    LISTS.iter().filter(|list| !is_later(list.name))
}

/// The key of this path.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    keys().find(|key| key.path == path)
}

/// Every key, in order.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> + Clone {
    SECTIONS.iter().flat_map(|section| section.keys)
}

/// Whether this table or key belongs to the design and this version does not have it yet. Whoever writes it has not
/// mistyped, and must not be told so.
pub(crate) fn is_later(path: &str) -> bool {
    LATER
        .iter()
        .any(|later| path == *later || path.strip_prefix(later).is_some_and(|rest| rest.starts_with('.')))
}

/// Beginning of every variable that sets a key.
pub(crate) const VARIABLE_PREFIX: &str = "ONESEAL__";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_unique_and_stand_in_their_section() {
        let mut seen = std::collections::BTreeSet::new();
        for section in SECTIONS {
            for key in section.keys {
                assert_eq!(key.path, format!("{}.{}", section.name, key.name()));
                assert!(seen.insert(key.path), "{} stands there twice", key.path);
                assert!(!is_later(key.path), "{} is here and said not to be", key.path);
            }
        }
    }

    #[test]
    fn keys_of_a_list_stand_in_it_and_those_of_tables_are_never_required() {
        for list in LISTS {
            for key in list.keys {
                assert_eq!(key.path, format!("{}.{}", list.name, key.name()));
            }
            for distinct in list.distinct {
                let key = list.keys.iter().find(|key| key.name() == *distinct);
                assert!(key.is_some_and(|key| matches!(key.kind, Kind::Name | Kind::Line { .. })));
            }
        }
        assert!(keys().all(|key| !matches!(key.default, Default::Required(_))));
    }

    #[test]
    fn every_key_says_what_it_does_in_whole_sentences() {
        for key in keys().chain(LISTS.iter().flat_map(|list| list.keys)) {
            assert!(key.doc.ends_with('.'), "{}: {}", key.path, key.doc);
            let (Default::Value(_, why) | Default::Unset(why) | Default::Required(why)) = key.default;
            assert!(!why.is_empty() && !why.ends_with('.'), "{}: {why}", key.path);
        }
    }

    #[test]
    fn whole_tables_and_keys_below_them_are_later() {
        for path in ["ring.anchor", "ring.anchor.uri"] {
            assert!(is_later(path), "{path}");
        }
        for path in ["rules", "cluster.name", "listen.token", "ring.anchored", "issuer.url"] {
            assert!(!is_later(path), "{path}");
        }
    }
}
