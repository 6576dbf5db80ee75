//! What is compiled into the binary that ships, held against `deny.toml` and against cargo's feature tree.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::semver::{Version, VersionReq};
use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, PackageId};

const SERVER: &str = "oneseal-server";

/// Crates for tests. None may reach the binary, by whatever path.
const TEST_ONLY: &[&str] = &[
    "oneseal-testing",
    "oneseal-tests",
    "tempfile",
    "proptest",
    "criterion",
    "trycmd",
    "cargo_metadata",
    "jsonwebtoken",
    "oneseal-interop-josekit",
];

/// Crates whose types cross our seams: a second version would be other types of the same name.
const ONE_VERSION: &[&str] = &[
    "aws-lc-rs",
    "aws-lc-sys",
    "axum",
    "bytes",
    "http",
    "http-body",
    "hyper",
    "hyper-util",
    "rustls",
    "rustls-webpki",
    "serde",
    "tokio",
    "tower",
    "tower-http",
    "tracing",
];

/// What a program that embeds the issuer with the file provider must not have to compile.
const NOT_FOR_EMBEDDERS: &[&str] = &[
    "aws-config",
    "aws-sdk-secretsmanager",
    "kube",
    "k8s-openapi",
    "sqlx",
    "tokio-postgres",
    "openssl",
    "openssl-sys",
    "josekit",
    "hyper",
    "rustls",
    "clap",
    "toml",
    "tracing-subscriber",
];

/// What a library turns on of another, whoever uses it, and where we have no say.
const TURNED_ON_BY_OTHERS: &[&str] = &[
    "aws-credential-types feature \"test-util\"", // by aws-config, in its own [dependencies]
    "aws-smithy-runtime-api feature \"test-util\"", // and through that
    "aws-smithy-types feature \"test-util\"",
];

#[test]
fn nothing_test_only_ships() {
    let tree = Tree::of(&["-p", SERVER, "-e", "features,no-dev"]);
    for line in &tree.lines {
        let feature = line.split_once("feature \"").and_then(|(_, rest)| rest.split_once('"'));
        if let Some((feature, _)) = feature {
            let for_tests =
                feature.starts_with("test") || feature.contains("-test") || feature.contains("mock");
            let is_theirs = TURNED_ON_BY_OTHERS.iter().any(|theirs| line.contains(theirs));
            assert!(!for_tests || is_theirs, "a feature for tests is on: {line}");
        }
    }
    for name in TEST_ONLY {
        assert!(!tree.names().contains(name), "{name} is in the binary");
    }
    assert!(tree.names().contains("aws-lc-rs"), "the tree was read: {:?}", tree.lines.first());
}

#[test]
fn one_stack_ships() {
    let tree = Tree::of(&["-p", SERVER, "-e", "no-dev"]);
    let banned = Deny::read().banned;
    assert!(banned.len() > 8, "deny.toml bans a second stack");
    for (name, version) in &tree.packages {
        for Ban { name: crate_name, versions, reason, wrappers } in &banned {
            if name != crate_name || !versions.matches(version) {
                continue;
            }
            let users = Tree::of(&["-p", SERVER, "-e", "no-dev", "-i", name, "--depth", "1"]).names_owned();
            let others: Vec<_> = users
                .iter()
                .filter(|user| user.as_str() != name.as_str() && !wrappers.contains(user.as_str()))
                .collect();
            assert!(!wrappers.is_empty() && others.is_empty(), "{name} {version} by {others:?}: {reason}");
        }
    }
    for name in ONE_VERSION {
        let versions: Vec<_> = tree.packages.iter().filter(|(found, _)| found == name).collect();
        assert!(versions.len() <= 1, "{versions:?}");
    }
}

#[test]
fn an_embedder_with_the_file_provider_compiles_no_sdk_database_or_server() {
    for features in ["", "file", "inline"] {
        let tree =
            Tree::of(&["-p", "oneseal", "-e", "no-dev", "--no-default-features", "--features", features]);
        for name in NOT_FOR_EMBEDDERS {
            assert!(!tree.names().contains(name), "{name} with features [{features}]");
        }
    }
}

#[test]
fn features_only_add() {
    let all = Tree::of(&["-p", "oneseal", "-e", "no-dev", "--all-features"]);
    for features in ["", "file", "inline"] {
        let some =
            Tree::of(&["-p", "oneseal", "-e", "no-dev", "--no-default-features", "--features", features]);
        assert!(some.packages.is_subset(&all.packages), "with features [{features}]");
    }
}

#[test]
fn duplicates_are_accounted_for() {
    let tree = Tree::of(&["-p", SERVER, "-e", "no-dev"]);
    let mut versions: BTreeMap<&str, BTreeSet<&Version>> = BTreeMap::new();
    for (name, version) in &tree.packages {
        versions.entry(name).or_default().insert(version);
    }
    let told = std::fs::read_to_string(in_root("CONTRIBUTING.md")).unwrap();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let row = format!("| `{name}` |");
        assert!(told.contains(&row), "{name} {versions:?}: CONTRIBUTING.md explains each duplicate");
    }
}

#[test]
fn every_licence_that_ships_is_allowed() {
    let allowed = Deny::read().licenses;
    let metadata = resolved();
    let shipped = shipped(&metadata);
    assert!(shipped.len() > 50, "the graph was walked");
    for package in metadata.packages.iter().filter(|package| shipped.contains(&package.id)) {
        let license = package.license.as_deref().unwrap_or_default();
        let ok = Licence { rest: license, allowed: &allowed }.judge();
        assert_eq!(ok, Some(true), "{} {}: {license:?}", package.name, package.version);
        let from_registry = package.source.as_ref().is_none_or(|source| source.is_crates_io());
        assert!(from_registry, "{} comes from {:?}", package.name, package.source);
    }
}

#[test]
fn licence_expressions_are_judged_by_their_logic() {
    let allowed: BTreeSet<String> =
        ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for (expression, verdict) in [
        ("MIT", Some(true)),
        ("GPL-3.0", Some(false)),
        ("GPL-3.0 OR MIT", Some(true)),
        ("GPL-3.0/MIT", Some(true)),
        ("MIT AND GPL-3.0", Some(false)),
        ("ISC AND (GPL-3.0 OR MIT)", Some(true)),
        ("(GPL-3.0 OR MIT) AND AGPL-3.0", Some(false)),
        ("Apache-2.0 WITH LLVM-exception", Some(true)),
        ("Apache-2.0", Some(false)),
        ("", None),
        ("MIT OR", None),
        ("(MIT", None),
        ("MIT ISC", None),
    ] {
        assert_eq!(Licence { rest: expression, allowed: &allowed }.judge(), verdict, "{expression:?}");
    }
}

/// What `cargo tree` prints.
struct Tree {
    lines: Vec<String>,
    packages: BTreeSet<(String, Version)>,
}

impl Tree {
    fn of(args: &[&str]) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let fixed = ["tree", "--locked", "--prefix", "none", "--manifest-path"];
        let output = Command::new(cargo).args(fixed).arg(in_root("Cargo.toml")).args(args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo tree {}: {errors}", args.join(" "));
        let lines: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        let packages = lines.iter().filter_map(|line| package_of(line)).collect();
        Self { lines, packages }
    }

    fn names_owned(&self) -> BTreeSet<String> {
        self.packages.iter().map(|(name, _)| name.clone()).collect()
    }

    fn names(&self) -> BTreeSet<&str> {
        self.packages.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// The one exception among the cryptographies is used in one file, where its every use can be seen.
#[test]
fn josekit_is_named_in_one_file_of_what_ships() {
    let rooms = ["coordination", "providers", "keystore", "relying-party", "issuer", "server", "testing"];
    let mut found = Vec::new();
    let mut folders: Vec<_> =
        rooms.iter().map(|room| std::path::PathBuf::from(in_root(room)).join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                if text.contains("josekit::") || text.contains("openssl::") {
                    found.push(path);
                }
            }
        }
    }
    assert!(matches!(found.as_slice(), [one] if one.ends_with("keystore/src/seal/jwe.rs")), "{found:?}");
}

/// `name vVERSION (…)`; lines about features have no version.
fn package_of(line: &str) -> Option<(String, Version)> {
    let (name, rest) = line.split_once(" v")?;
    let version = rest.split(' ').next()?;
    Some((name.to_owned(), Version::parse(version).ok()?))
}

/// One row of `bans.deny`.
struct Ban {
    name: String,
    versions: VersionReq,
    reason: String,
    /// Who may use it all the same.
    wrappers: BTreeSet<String>,
}

/// What `deny.toml` says.
struct Deny {
    banned: Vec<Ban>,
    licenses: BTreeSet<String>,
}

impl Deny {
    fn read() -> Self {
        let text = std::fs::read_to_string(in_root("deny.toml")).unwrap();
        let file: toml::Table = toml::from_str(&text).unwrap();
        let bans = file["bans"]["deny"].as_array().unwrap();
        let banned = bans.iter().map(|row| {
            let spec = row["crate"].as_str().unwrap();
            let at = spec.find(|c: char| "<>=^~*:@".contains(c)).unwrap_or(spec.len());
            let versions = spec[at..].trim_start_matches([':', '@']);
            let versions = VersionReq::parse(if versions.is_empty() { "*" } else { versions }).unwrap();
            let wrappers = row.get("wrappers").and_then(toml::Value::as_array).into_iter().flatten();
            Ban {
                name: spec[..at].to_owned(),
                versions,
                reason: row["reason"].as_str().unwrap().to_owned(),
                wrappers: wrappers.map(|name| name.as_str().unwrap().to_owned()).collect(),
            }
        });
        let licenses = file["licenses"]["allow"].as_array().unwrap();
        let licenses = licenses.iter().map(|name| name.as_str().unwrap().to_owned());
        Self { banned: banned.collect(), licenses: licenses.collect() }
    }
}

/// An SPDX expression, judged while it is read. `None`: it is no expression.
struct Licence<'a> {
    rest: &'a str,
    allowed: &'a BTreeSet<String>,
}

impl Licence<'_> {
    fn judge(mut self) -> Option<bool> {
        let verdict = self.any()?;
        self.rest.trim().is_empty().then_some(verdict)
    }

    fn any(&mut self) -> Option<bool> {
        let mut verdict = self.all()?;
        while self.take("OR") || self.take("/") {
            verdict |= self.all()?;
        }
        Some(verdict)
    }

    fn all(&mut self) -> Option<bool> {
        let mut verdict = self.one()?;
        while self.take("AND") {
            verdict &= self.one()?;
        }
        Some(verdict)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let verdict = self.any()?;
            return self.take(")").then_some(verdict);
        }
        let mut name = self.word()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.word()?);
        }
        Some(self.allowed.contains(&name))
    }

    fn word(&mut self) -> Option<&str> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| c.is_whitespace() || "()/".contains(c)).unwrap_or(text.len());
        self.rest = &text[end..];
        (end > 0 && !["OR", "AND", "WITH"].contains(&&text[..end])).then_some(&text[..end])
    }

    fn take(&mut self, token: &str) -> bool {
        let text = self.rest.trim_start();
        let Some(rest) = text.strip_prefix(token) else { return false };
        self.rest = rest;
        true
    }
}

/// The resolved graph for this host.
fn resolved() -> Metadata {
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(rustc.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let options = ["--locked".to_owned(), format!("--filter-platform={host}")];
    MetadataCommand::new()
        .manifest_path(in_root("Cargo.toml"))
        .features(CargoOpt::AllFeatures)
        .other_options(options)
        .exec()
        .unwrap()
}

/// The server and everything that it is built with or from. What a feature that only tests turn on would bring is in
/// the resolved graph, but not in the tree of the server alone.
fn shipped(metadata: &Metadata) -> BTreeSet<PackageId> {
    let tree = Tree::of(&["-p", SERVER, "-e", "no-dev", "--target", "all"]).packages;
    let packages: BTreeMap<_, _> = metadata.packages.iter().map(|package| (&package.id, package)).collect();
    let is_in_tree = |id: &PackageId| {
        let package = packages[id];
        tree.contains(&(package.name.to_string(), package.version.clone()))
    };
    let nodes: BTreeMap<_, _> =
        metadata.resolve.as_ref().unwrap().nodes.iter().map(|node| (&node.id, node)).collect();
    let server = metadata.workspace_packages().into_iter().find(|package| package.name == SERVER).unwrap();
    let mut found = BTreeSet::new();
    let mut queue = vec![server.id.clone()];
    while let Some(id) = queue.pop() {
        if !is_in_tree(&id) || !found.insert(id.clone()) {
            continue;
        }
        for dependency in &nodes[&id].deps {
            let kinds = &dependency.dep_kinds;
            if kinds.iter().any(|kind| kind.kind != cargo_metadata::DependencyKind::Development) {
                queue.push(dependency.pkg.clone());
            }
        }
    }
    found
}

fn in_root(name: &str) -> String {
    format!("{}/../{name}", env!("CARGO_MANIFEST_DIR"))
}
