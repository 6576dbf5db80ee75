//! Every key of the configuration, once.
//!
//! The parser, the JSON Schema, the commented file and `docs/configuration.md` are all made from this table, so none
//! of them can know a key that another does not. A default stands here with its reason, because whoever changes one
//! must know what it was for.

use std::time::Duration;

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

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Section and name: `issuer.url`.
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
    /// The name of an environment variable.
    VariableName,
    /// The name of a fleet.
    FleetName,
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
}

impl Kind {
    /// What it takes, for messages and tables: "a duration with a unit, such as "15m"".
    pub(crate) fn words(self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Integer { .. } => "a whole number".to_owned(),
            Self::Duration { whole_seconds: true, .. } => "a duration in whole seconds, such as \"15m\"".to_owned(),
            Self::Duration { .. } => "a duration with a unit, such as \"15m\"".to_owned(),
            Self::Choice { words, .. } => format!("one of {}", quoted(words)),
            Self::IssuerUrl => "an https URL".to_owned(),
            Self::ProviderUri => "a provider's URI, such as \"file:PATH\"".to_owned(),
            Self::VariableName => "the name of an environment variable".to_owned(),
            Self::FleetName => "a name of lower-case letters, digits, dots and hyphens".to_owned(),
            Self::Secret => "a string".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Address => "an IP address and a port, such as \"[::]:8080\"".to_owned(),
            Self::Socket => "the path of a Unix socket, or \"none\"".to_owned(),
            Self::Algorithms => "a list of signature algorithms, such as [\"RS256\"]".to_owned(),
            Self::Audiences => "a list of audiences, such as [\"sts.amazonaws.com\"]".to_owned(),
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
}

impl Literal {
    /// As JSON.
    pub(crate) fn json(self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Bool(value) => value.into(),
            Self::Integer(value) => value.into(),
            Self::List(items) => items.to_vec().into(),
        }
    }

    /// As TOML.
    pub(crate) fn toml(self) -> String {
        toml_of(&self.json())
    }
}

/// TOML of a JSON string, boolean, integer or array of them. JSON's escapes are all TOML's too, except that JSON
/// leaves U+007F as it is.
pub(crate) fn toml_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(items) => {
            format!("[{}]", items.iter().map(toml_of).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string().replace('\u{7f}', "\\u007f"),
    }
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
    LATER.iter().any(|later| {
        path == *later || path.strip_prefix(later).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Beginning of every variable that sets a key.
pub(crate) const VARIABLE_PREFIX: &str = "ONESEAL__";

/// Largest integer that JSON carries without loss (RFC 8259 section 6); the ring document is JSON.
const MAX_JSON_INTEGER: u64 = (1 << 53) - 1;
const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
const FLEET_TIME: Kind = Kind::Duration { whole_seconds: true, most: YEAR };
const PROCESS_TIME: Kind = Kind::Duration { whole_seconds: false, most: HOUR };

/// Tables and keys of the design that this version does not have.
pub(crate) static LATER: &[&str] = &[
    "kek",
    "tls",
    "database",
    "cluster",
    "assertion_issuer",
    "rule",
    "provider.max_lag",
    "provider.member",
    "ring.mode",
    "ring.pin",
    "ring.anchor",
    "listen.token",
    "listen.trusted_proxies",
    "admin.tokens",
    "rotation.preset",
    "rotation.rp_propagation",
    "rotation.publish_lead",
    "rotation.rotate_every",
    "rotation.rollback_window",
    "rotation.emergency_wait",
];

/// The table.
pub(crate) static SECTIONS: &[Section] = &[ISSUER, PROVIDER, RING, LISTEN, PROCESS, ADMIN, ROTATION];

const ISSUER: Section = Section {
    name: "issuer",
    doc: "Who issues the tokens.",
    keys: &[
        Key {
            path: "issuer.url",
            kind: Kind::IssuerUrl,
            default: Default::Unset("it must be set: relying parties trust exactly this text"),
            doc: "The issuer's URL, as relying parties know it: it is `iss` in every token, byte for byte. https, or \
                  plain http for a loopback host.",
            example: Literal::Text("https://oidc.example.com"),
        },
        Key {
            path: "issuer.algorithms",
            kind: Kind::Algorithms,
            default: Default::Value(
                Literal::List(&["RS256"]),
                "the only algorithm that every known relying party takes",
            ),
            doc: "The algorithms that discovery announces; a published key of another algorithm is refused. The first \
                  one signs when a request names none. Known are RS256, RS384, RS512, PS256, ES256, ES384 and EdDSA.",
            example: Literal::List(&["RS256", "ES256"]),
        },
    ],
};

const PROVIDER: Section = Section {
    name: "provider",
    doc: "Where the signing key rests. Name it by `kind` and that kind's own key, or by one `uri`.",
    keys: &[
        Key {
            path: "provider.kind",
            kind: Kind::Choice {
                words: &["file", "env", "inline"],
                later: &["kubernetes", "k8s", "aws", "postgres"],
            },
            default: Default::Unset("the key's place must be named, here or by `provider.uri`; there is no other key to fall back on"),
            doc: "`file` reads `provider.path`, `env` the variable that `provider.variable` names, `inline` takes \
                  `provider.value`.",
            example: Literal::Text("file"),
        },
        Key {
            path: "provider.path",
            kind: Kind::Path,
            default: Default::Unset("needed for kind `file`"),
            doc: "The file that holds the ring or the key, or a directory with one entry a file (a mounted Secret). A \
                  relative path starts at the working directory.",
            example: Literal::Text("/var/lib/oneseal/keyring.json"),
        },
        Key {
            path: "provider.variable",
            kind: Kind::VariableName,
            default: Default::Unset("needed for kind `env`"),
            doc: "The environment variable that holds the key: PEM, base64 of PEM or DER, a JWK or a JWKS.",
            example: Literal::Text("SIGNING_KEY"),
        },
        Key {
            path: "provider.value",
            kind: Kind::Secret,
            default: Default::Unset("needed for kind `inline`"),
            doc: "The key itself, in one of the forms of kind `env`. Better given as \
                  `ONESEAL__PROVIDER__VALUE_FILE` than in this file.",
            example: Literal::Text("-----BEGIN PRIVATE KEY-----\\n…"),
        },
        Key {
            path: "provider.uri",
            kind: Kind::ProviderUri,
            default: Default::Unset("`provider.kind` names the provider instead"),
            doc: "The provider as one URI, `file:PATH` or `env:NAME`: the form that command lines take. Not together \
                  with `provider.kind`.",
            example: Literal::Text("file:/var/lib/oneseal/keyring.json"),
        },
        Key {
            path: "provider.durable",
            kind: Kind::Bool,
            default: Default::Value(Literal::Bool(false), "a key that a restart would lose must not go unnoticed"),
            doc: "Says that the file outlives this host or container although it does not look like it, for example \
                  because a sidecar or systemd's LoadCredential writes it.",
            example: Literal::Bool(true),
        },
    ],
};

const RING: Section = Section {
    name: "ring",
    doc: "The key ring that the replicas share.",
    keys: &[Key {
        path: "ring.fleet",
        kind: Kind::FleetName,
        default: Default::Unset("made from the issuer's host and path"),
        doc: "The name of the replicas that serve this issuer from one ring.",
        example: Literal::Text("oidc.example.com"),
    }],
};

const LISTEN: Section = Section {
    name: "listen",
    doc: "What is bound, once the key has been loaded and judged. Port 0 takes a free port; the start prints it.",
    keys: &[
        Key {
            path: "listen.documents",
            kind: Kind::Address,
            default: Default::Value(
                Literal::Text("[::]:8080"),
                "all addresses of both families, and a port that needs no privilege",
            ),
            doc: "Where discovery and the JWKS are served.",
            example: Literal::Text("0.0.0.0:8080"),
        },
        Key {
            path: "listen.ops",
            kind: Kind::Address,
            default: Default::Value(
                Literal::Text("[::]:8081"),
                "a port of its own, so that it need not be public; kubelet probes the pod's address, not loopback",
            ),
            doc: "Where `/livez`, `/readyz` and `/metrics` are served.",
            example: Literal::Text("127.0.0.1:8081"),
        },
        Key {
            path: "listen.admin",
            kind: Kind::Socket,
            default: Default::Value(
                Literal::Text("/run/oneseal/admin.sock"),
                "a socket that only this user and root can open needs no credential",
            ),
            doc: "The Unix socket of the admin API, made with mode 0600; `\"none\"` or `\"\"` turns it off. At most \
                  107 bytes.",
            example: Literal::Text("none"),
        },
    ],
};

const PROCESS: Section = Section {
    name: "process",
    doc: "How the process starts, stops and logs.",
    keys: &[
        Key {
            path: "process.boot_timeout",
            kind: PROCESS_TIME,
            default: Default::Value(
                Literal::Text("1m"),
                "long enough for a provider that restarts, short enough for an orchestrator to show the failure",
            ),
            doc: "How long the start waits for a provider that does not answer before it exits with 69.",
            example: Literal::Text("2m"),
        },
        Key {
            path: "process.drain_delay",
            kind: PROCESS_TIME,
            default: Default::Value(
                Literal::Text("10s"),
                "load balancers and kube-proxy need some seconds to notice that a replica is no longer ready",
            ),
            doc: "How long a stopping replica still serves after it has said that it is not ready.",
            example: Literal::Text("5s"),
        },
        Key {
            path: "process.shutdown_timeout",
            kind: PROCESS_TIME,
            default: Default::Value(
                Literal::Text("25s"),
                "below Kubernetes' termination grace period of 30 s, after which it kills",
            ),
            doc: "How long stopping may take in all, `process.drain_delay` included.",
            example: Literal::Text("50s"),
        },
        Key {
            path: "process.log_format",
            kind: Kind::Choice { words: &["auto", "human", "json"], later: &[] },
            default: Default::Value(
                Literal::Text("auto"),
                "who looks at a terminal is a person, who reads a pipe is a machine",
            ),
            doc: "Whether log lines are for people or machines; `auto` is `human` on a terminal and `json` elsewhere.",
            example: Literal::Text("json"),
        },
    ],
};

const ADMIN: Section = Section {
    name: "admin",
    doc: "What the admin API may do besides reading.",
    keys: &[
        Key {
            path: "admin.mint",
            kind: Kind::Bool,
            default: Default::Value(Literal::Bool(false), "whoever can open the socket could otherwise be anybody"),
            doc: "Whether `POST /admin/v1/mint` mints tokens.",
            example: Literal::Bool(true),
        },
        Key {
            path: "admin.mint_audiences",
            kind: Kind::Audiences,
            default: Default::Value(Literal::List(&[]), "deny by default"),
            doc: "The audiences that it may mint for, each at most for `rotation.max_token_ttl`.",
            example: Literal::List(&["sts.amazonaws.com"]),
        },
    ],
};

const ROTATION: Section = Section {
    name: "rotation",
    doc: "Times that all replicas of an issuer must agree on. Bare keys take them from here; a ring document has its \
          own and takes these only when `rotation.generation` is higher.",
    keys: &[
        Key {
            path: "rotation.generation",
            kind: Kind::Integer { most: MAX_JSON_INTEGER },
            default: Default::Value(Literal::Integer(0), "the ring's own times win until somebody says otherwise"),
            doc: "Which proposal of times this is: raise it together with any change below.",
            example: Literal::Integer(1),
        },
        Key {
            path: "rotation.refresh",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("15s"),
                "a changed key is seen well within one cache life, at four reads a minute",
            ),
            doc: "How often a replica looks at its provider, besides being told of changes.",
            example: Literal::Text("10s"),
        },
        Key {
            path: "rotation.staleness_limit",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("1h"),
                "bridges a provider's outage, and bounds how long a replica may sign with a key that was revoked",
            ),
            doc: "How old the last good look at the provider may be before minting stops; publishing goes on.",
            example: Literal::Text("30m"),
        },
        Key {
            path: "rotation.jwks_max_age",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("5m"),
                "relying parties that follow the header see a new key quickly, and the load stays small",
            ),
            doc: "`max-age` of discovery and JWKS: how long others may cache them.",
            example: Literal::Text("10m"),
        },
        Key {
            path: "rotation.shared_cache",
            kind: Kind::Bool,
            default: Default::Value(
                Literal::Bool(false),
                "what a cache may serve for longer, a new key must wait for longer",
            ),
            doc: "Whether a CDN or caching proxy stands in front; it is then granted `stale-if-error` of one hour.",
            example: Literal::Bool(true),
        },
        Key {
            path: "rotation.skew",
            kind: FLEET_TIME,
            default: Default::Value(Literal::Text("1m"), "more than hosts that run a time service ever differ"),
            doc: "How far the replicas' clocks may differ.",
            example: Literal::Text("30s"),
        },
        Key {
            path: "rotation.rp_leeway",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("5m"),
                "the largest that a common relying party forgives unasked (.NET's ClockSkew)",
            ),
            doc: "How long relying parties go on to take a token that has expired.",
            example: Literal::Text("1m"),
        },
        Key {
            path: "rotation.token_ttl",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("1h"),
                "what cloud SDKs expect of a token file, and short enough to limit a theft",
            ),
            doc: "How long a token lives when the request does not say.",
            example: Literal::Text("15m"),
        },
        Key {
            path: "rotation.max_token_ttl",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("24h"),
                "Google refuses a token issued more than a day ago, Entra one that lives longer than 25 hours",
            ),
            doc: "The longest that any token may live.",
            example: Literal::Text("12h"),
        },
        Key {
            path: "rotation.backdate",
            kind: FLEET_TIME,
            default: Default::Value(
                Literal::Text("30s"),
                "relying parties whose clock is a little behind refuse a token from their future",
            ),
            doc: "How far `iat` and `nbf` lie before the moment of minting.",
            example: Literal::Text("10s"),
        },
    ],
};

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
    fn every_key_says_what_it_does_in_whole_sentences() {
        for key in keys() {
            assert!(key.doc.ends_with('.'), "{}: {}", key.path, key.doc);
            let (Default::Value(_, why) | Default::Unset(why)) = key.default;
            assert!(!why.is_empty() && !why.ends_with('.'), "{}: {why}", key.path);
        }
    }

    #[test]
    fn whole_tables_and_keys_below_them_are_later() {
        for path in ["rule", "kek.kind", "database.url", "ring.pin"] {
            assert!(is_later(path), "{path}");
        }
        for path in ["rules", "kekx.kind", "ring.pinned", "issuer.url"] {
            assert!(!is_later(path), "{path}");
        }
    }
}
