//! The libraries: where their adaptors are, how they are installed and started, and where their versions are pinned.

/// One library. Paths are relative to its folder; `{out}` in a word is a directory for what is built, outside the
/// repository's tree, and `{bin}` the one where cargo puts its programs.
#[derive(Debug)]
pub(crate) struct Library {
    /// Its name here and in golden files.
    pub(crate) name: &'static str,
    /// Its name in its own documentation.
    pub(crate) title: &'static str,
    /// Below `tests/interop`.
    pub(crate) folder: &'static str,
    /// Programs that must be there; without one its tests are skipped.
    pub(crate) tools: &'static [&'static str],
    /// Commands, run in the folder, by its language's ordinary client and its lock file.
    pub(crate) install: &'static [&'static [&'static str]],
    /// A file that the installation leaves.
    pub(crate) leaves: &'static str,
    /// How the adaptor is started.
    pub(crate) program: &'static [&'static str],
    /// The lock file, and the name under which the library stands there.
    pub(crate) locked: (&'static str, &'static str),
    /// When it takes a token of a key that it has not seen, with its default settings.
    pub(crate) notices: Notices,
    /// The fetches of the key set that twenty tokens with unknown kids cause; below twenty: at most.
    pub(crate) fetches_under_attack: usize,
    /// How long it goes on trusting a key that is no longer published, in seconds since it last fetched: the life of
    /// its cache. `None`: until something else makes it fetch.
    pub(crate) trusts_removed_for_s: Option<u64>,
    /// What in the library, or in the lines around it, makes all that so.
    pub(crate) because: &'static str,
    /// What it makes of algorithms that come later, when it chooses them itself.
    pub(crate) later: Later,
    /// Where it differs from what a relying party should do.
    pub(crate) deviations: &'static [Deviation],
}

impl Library {
    /// What its adaptor is written in: the name of the folder, but for the one that is a crate.
    pub(crate) fn language(&self) -> &'static str {
        if self.folder == "josekit" { "rust" } else { self.folder }
    }
}

/// What becomes of the first token of a further algorithm, as long as the verifier is not made anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Later {
    /// Discovery has listed the algorithm since before the verifier was made; its key is new.
    pub(crate) listed_before: Late,
    /// Discovery lists it since, too.
    pub(crate) listed_since: Late,
    /// Where it has its algorithms from.
    pub(crate) because: &'static str,
}

/// Its verdict, once it has seen the key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Late {
    /// Accepted.
    Taken,
    /// Refused by this name.
    Refused(&'static str),
}

/// When a new key is noticed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notices {
    /// An unknown kid causes a fetch: the first token of a new key is accepted.
    AtOnce,
    /// Until so many seconds after its last fetch the new key's tokens are refused: its cooldown, or the life of its
    /// cache.
    Within(u64),
}

/// A case whose verdict is another one than expected, and why.
#[derive(Debug)]
pub(crate) struct Deviation {
    /// The case's name.
    pub(crate) case: &'static str,
    /// The algorithms it differs for; empty: all.
    pub(crate) algorithms: &'static [&'static str],
    /// From its source or documentation.
    pub(crate) why: &'static str,
}

const JOSE: Library = Library {
    name: "jose",
    title: "jose",
    folder: "node",
    tools: &["node", "npm"],
    install: &[&["npm", "ci", "--no-audit", "--no-fund"]],
    leaves: "node_modules/jose/package.json",
    program: &["node", "jose.mjs"],
    locked: ("package-lock.json", "jose"),
    notices: Notices::Within(30),
    fetches_under_attack: 1,
    trusts_removed_for_s: Some(600),
    because: "`createRemoteJWKSet` fetches for an unknown kid, but not within `cooldownDuration` (30 s) of its last fetch",
    later: Later { listed_before: Late::Taken, listed_since: Late::Taken, because: "each key's own `alg`" },
    deviations: &[],
};

const GO_OIDC: Library = Library {
    name: "go-oidc",
    title: "go-oidc",
    folder: "go",
    tools: &["go"],
    install: GO,
    leaves: "{out}/adaptor",
    program: &["{out}/adaptor", "go-oidc"],
    locked: ("go.mod", "github.com/coreos/go-oidc/v3"),
    notices: Notices::AtOnce,
    fetches_under_attack: 20,
    trusts_removed_for_s: None,
    because: "`RemoteKeySet` fetches for each token that none of its keys verifies, and nothing limits how often",
    later: Later {
        listed_before: Late::Taken,
        listed_since: Late::Refused("oidc: malformed jwt: unexpected signature algorithm …; expected …"),
        because: "discovery, read once by `NewProvider`",
    },
    deviations: GO_DEVIATIONS,
};

const GO_JOSE: Library = Library {
    name: "go-jose",
    title: "go-jose",
    folder: "go",
    tools: &["go"],
    install: GO,
    leaves: "{out}/adaptor",
    program: &["{out}/adaptor", "go-jose"],
    locked: ("go.mod", "github.com/go-jose/go-jose/v4"),
    notices: Notices::AtOnce,
    fetches_under_attack: 20,
    trusts_removed_for_s: None,
    because: "it fetches nothing; the lines around it fetch for each unknown kid, as go-oidc does",
    later: Later {
        listed_before: Late::Taken,
        listed_since: Late::Refused("unexpected signature algorithm …; expected …"),
        because: "its caller; here discovery, read once by the lines around it",
    },
    deviations: GO_DEVIATIONS,
};

const NIMBUS: Library = Library {
    name: "nimbus",
    title: "Nimbus JOSE+JWT",
    folder: "java",
    tools: JDK,
    install: MAVEN,
    leaves: "{out}/lib",
    program: &java("nimbus"),
    locked: ("pom.xml", "nimbus-jose-jwt.version"),
    notices: Notices::Within(30),
    fetches_under_attack: 1,
    trusts_removed_for_s: Some(300),
    because: "`JWKSourceBuilder` fetches for an unknown kid, within its rate limit (30 s)",
    later: Later {
        listed_before: Late::Taken,
        listed_since: Late::Refused("BadJOSEException"),
        because: "its caller; here discovery, read once by the lines around it",
    },
    deviations: &[],
};

const SPRING: Library = Library {
    name: "spring",
    title: "Spring Security",
    folder: "java",
    tools: JDK,
    install: MAVEN,
    leaves: "{out}/lib",
    program: &java("spring"),
    locked: ("pom.xml", "spring-security.version"),
    notices: Notices::AtOnce,
    fetches_under_attack: 20,
    trusts_removed_for_s: Some(300),
    because: "`NimbusJwtDecoder` builds its key source without the rate limit: each unknown kid fetches",
    later: Later {
        listed_before: Late::Refused("BadJwtException: BadJOSEException"),
        listed_since: Late::Refused("BadJwtException: BadJOSEException"),
        because: "the keys that are published while it is made (`getJWSAlgorithms`), not discovery",
    },
    deviations: &[],
};

const PYJWT: Library = Library {
    name: "pyjwt",
    title: "PyJWT",
    folder: "python",
    tools: &["python3"],
    install: PIP,
    leaves: "{out}/venv/bin/python",
    program: &["{out}/venv/bin/python", "-B", "adaptor.py", "pyjwt"],
    locked: ("requirements.txt", "pyjwt"),
    notices: Notices::Within(30),
    fetches_under_attack: 1,
    trusts_removed_for_s: Some(300),
    because: "`PyJWKClient` fetches for an unknown kid, but not within `cooldown_duration` (30 s) of its last fetch",
    later: Later {
        listed_before: Late::Taken,
        listed_since: Late::Refused("InvalidAlgorithmError"),
        because: "its caller; here discovery, read once, as its page on OpenID Connect does",
    },
    deviations: &[],
};

const AUTHLIB: Library = Library {
    name: "authlib",
    title: "Authlib",
    folder: "python",
    tools: &["python3"],
    install: PIP,
    leaves: "{out}/venv/bin/python",
    program: &["{out}/venv/bin/python", "-B", "adaptor.py", "authlib"],
    locked: ("requirements.txt", "authlib"),
    notices: Notices::AtOnce,
    fetches_under_attack: 20,
    trusts_removed_for_s: None,
    because: "it fetches the key set once more for each token whose key it does not find",
    later: Later {
        listed_before: Late::Taken,
        listed_since: Late::Refused("UnsupportedAlgorithmError"),
        because: "discovery, read once by `load_server_metadata`",
    },
    deviations: &[],
};

/// Without a stamp of the repository's state, which git does not tell to everybody (safe.directory).
const GO: &[&[&str]] = &[&["go", "build", "-mod=readonly", "-buildvcs=false", "-o", "{out}/adaptor", "."]];

/// go-oidc hands the key to go-jose.
const GO_DEVIATIONS: &[Deviation] = &[Deviation {
    case: "our RSA key used with an algorithm it is not for",
    algorithms: &[],
    why: "go-jose compares the kid, and the kind of key with the token's `alg`, never with the key's",
}];

const JDK: &[&str] = &["java", "javac", "mvn"];

/// A folder of jars from before would hold those that no longer belong there.
const MAVEN: &[&[&str]] = &[
    &["rm", "-rf", "{out}/lib", "{out}/classes"],
    &["mvn", "--batch-mode", "--quiet", "-Dout={out}", "compiler:compile", "dependency:copy-dependencies"],
    &["sh", "lock", "check", "{out}/lib"],
];

/// The adaptor of one library, in a machine that is started quickly rather than fast for hours.
const fn java(library: &'static str) -> [&'static str; 8] {
    let [tiers, collector, shared] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"];
    ["java", tiers, collector, shared, "-cp", "{out}/classes:{out}/lib/*", "oneseal.interop.Adaptor", library]
}

const PIP: &[&[&str]] = &[
    &["python3", "-m", "venv", "--clear", "{out}/venv"],
    &[
        "{out}/venv/bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "--requirement",
        "requirements.txt",
    ],
];

const JOSEKIT: Library = Library {
    name: "josekit",
    title: "josekit",
    folder: "josekit",
    tools: &["cargo"],
    install: &[&["cargo", "build", "--quiet", "--locked", "-p", "oneseal-interop-josekit"]],
    leaves: "{bin}/oneseal-interop-josekit",
    program: &["{bin}/oneseal-interop-josekit"],
    locked: ("../../../Cargo.lock", "josekit"),
    notices: Notices::Within(30),
    fetches_under_attack: 1,
    trusts_removed_for_s: None,
    because: "it fetches nothing; the lines around it fetch for an unknown kid, at most once in 30 s",
    later: Later {
        listed_before: Late::Taken,
        listed_since: Late::Taken,
        because: "each key's own `alg`, in the lines around it",
    },
    deviations: &[Deviation {
        case: "no audience",
        algorithms: &[],
        why: "`JwtPayloadValidator` compares `aud` only where the token has one",
    }],
};

/// All of them, in the order of docs/relying-parties.md.
pub(crate) const LIBRARIES: &[Library] = &[JOSE, GO_OIDC, GO_JOSE, NIMBUS, SPRING, PYJWT, AUTHLIB, JOSEKIT];

/// The library called `name`; a hyphen in it is written `_` where it names a module.
pub(crate) const fn by_name(name: &str) -> &'static Library {
    let mut at = 0;
    while at < LIBRARIES.len() {
        if is_same(LIBRARIES[at].name.as_bytes(), name.as_bytes()) {
            return &LIBRARIES[at];
        }
        at += 1;
    }
    panic!("no library has this name")
}

const fn is_same(name: &[u8], module: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() && at < module.len() {
        let is_equal = name[at] == module[at] || (name[at] == b'-' && module[at] == b'_');
        if !is_equal {
            return false;
        }
        at += 1;
    }
    name.len() == module.len()
}

impl Library {
    /// The version that its lock file pins, without a leading `v`.
    pub(crate) fn locked_version(&self) -> String {
        let (file, name) = self.locked;
        let text = std::fs::read_to_string(self.place().join(file)).unwrap();
        let found = if file.ends_with(".json") {
            npm(&text, name)
        } else if file.ends_with("Cargo.lock") {
            cargo(&text, name)
        } else if file.ends_with(".xml") {
            text.split_once(&format!("<{name}>")).map(|(_, rest)| rest.split('<').next().unwrap().to_owned())
        } else {
            words(&text, name)
        };
        let version = found.unwrap_or_else(|| panic!("{file} pins no {name}"));
        version.trim_start_matches('v').to_owned()
    }

    /// Its folder.
    pub(crate) fn place(&self) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("interop").join(self.folder)
    }
}

fn npm(text: &str, name: &str) -> Option<String> {
    let lock: serde_json::Value = serde_json::from_str(text).unwrap();
    lock["packages"][format!("node_modules/{name}")]["version"].as_str().map(str::to_owned)
}

fn cargo(text: &str, name: &str) -> Option<String> {
    let lock: toml::Table = toml::from_str(text).unwrap();
    let package =
        lock["package"].as_array()?.iter().find(|package| package["name"].as_str() == Some(name))?;
    package["version"].as_str().map(str::to_owned)
}

/// `NAME VERSION`, as in go.mod, or `NAME==VERSION`, as in requirements.txt.
fn words(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("require ").replace("==", " "));
    let mut words = lines.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let line = words.find(|words| words.len() > 1 && words[0].eq_ignore_ascii_case(name))?;
    Some(line[1].clone())
}

#[test]
fn versions_are_read_from_each_kind_of_lock_file() {
    assert_eq!(
        words("require (\n\tgithub.com/a/b v1.2.3 // indirect\n)", "github.com/a/b").unwrap(),
        "v1.2.3"
    );
    assert_eq!(words("require github.com/a/b v1.2.3", "github.com/a/b").unwrap(), "v1.2.3");
    assert_eq!(words("pyjwt==2.15.1 \\\n    --hash=sha256:00", "PyJWT").unwrap(), "2.15.1");
    assert_eq!(cargo("[[package]]\nname = \"a\"\nversion = \"1.0.0\"", "a").unwrap(), "1.0.0");
    assert_eq!(npm(r#"{"packages":{"node_modules/a":{"version":"6.0.1"}}}"#, "a").unwrap(), "6.0.1");
}
