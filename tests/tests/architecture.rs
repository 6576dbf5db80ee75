//! The map of the crates, held against what cargo sees.
//!
//! The design has one arrow: a room may use the rooms below it and no other. [`ROOMS`] is that map; a dependency that
//! is not on it fails here, and so does an arrow on it that no longer exists. What a room must never know of is in
//! [`NEVER`], by the crates it would need for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package};

/// A crate that ships, from the bottom up.
struct Room {
    package: &'static str,
    folder: &'static str,
    /// What it depends on among the rooms, all of them above it in this table.
    uses: &'static [&'static str],
}

const ROOMS: &[Room] = &[
    Room { package: "oneseal-coordination", folder: "coordination", uses: &[] },
    Room { package: "oneseal-providers", folder: "providers", uses: &["oneseal-coordination"] },
    Room {
        package: "oneseal-keystore",
        folder: "keystore",
        uses: &["oneseal-coordination", "oneseal-providers"],
    },
    Room {
        package: "oneseal-relying-party",
        folder: "relying-party",
        uses: &["oneseal-coordination", "oneseal-keystore"],
    },
    Room {
        package: "oneseal",
        folder: "issuer",
        uses: &["oneseal-coordination", "oneseal-providers", "oneseal-keystore", "oneseal-relying-party"],
    },
    Room {
        package: "oneseal-server",
        folder: "server",
        uses: &[
            "oneseal-coordination",
            "oneseal-providers",
            "oneseal-keystore",
            "oneseal-relying-party",
            "oneseal",
        ],
    },
];

/// Published for the tests of our users; beside the rooms, and used by them only in their tests.
const TESTING: Room = Room {
    package: "oneseal-testing",
    folder: "testing",
    uses: &["oneseal-coordination", "oneseal-providers", "oneseal-keystore"],
};

/// Members that never leave this repository. They may use every room; nothing may use them.
const UNPUBLISHED: &[(&str, &str)] = &[
    ("oneseal-tests", "tests"),
    ("oneseal-interop-josekit", "tests/interop/josekit"),
    ("oneseal-examples", "examples"),
    ("oneseal-fuzz", "fuzz"),
    ("oneseal-bench", "bench"),
];

/// What a room does not know of, and the crates that would be the sign that it does.
const NEVER: &[(&str, &[&str], &str)] = &[
    ("oneseal-coordination", KEY_PARSERS, "it knows nothing of keys"),
    ("oneseal-coordination", HTTP, "it knows nothing of HTTP"),
    ("oneseal-providers", KEY_PARSERS, "it never parses a key"),
    ("oneseal-providers", HTTP, "the file and inline providers speak to no network"),
    ("oneseal-keystore", HTTP, "it knows nothing of HTTP"),
    ("oneseal-keystore", PROCESS, "it reads no configuration"),
    ("oneseal-relying-party", &["aws-lc-rs", "rsa", "jsonwebtoken"], "it never signs"),
    ("oneseal", PROCESS, "it reads no configuration and touches no process-wide global"),
    ("oneseal", &["hyper", "hyper-util", "rustls"], "it starts no listener"),
];

const KEY_PARSERS: &[&str] = &["rsa", "sec1", "p256", "pkcs8", "pem-rfc7468", "jsonwebtoken"];
const HTTP: &[&str] = &["http", "hyper", "hyper-util", "axum", "tower", "reqwest"];
const PROCESS: &[&str] = &["clap", "toml", "tracing-subscriber"];

#[test]
fn the_workspace_holds_exactly_the_crates_on_the_map() {
    let metadata = metadata();
    let found: BTreeMap<String, String> = metadata
        .workspace_packages()
        .into_iter()
        .map(|package| (package.name.to_string(), folder(&metadata, package)))
        .collect();
    let published = ROOMS.iter().chain([&TESTING]).map(|room| (room.package, room.folder));
    let expected: BTreeMap<String, String> = published
        .chain(UNPUBLISHED.iter().copied())
        .map(|(package, folder)| (package.to_owned(), folder.to_owned()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn every_arrow_of_the_map_points_down() {
    let mut below = BTreeSet::new();
    for room in ROOMS {
        for used in room.uses {
            assert!(below.contains(used), "{} uses {used}, which is not below it", room.package);
        }
        below.insert(room.package);
    }
}

#[test]
fn rooms_use_exactly_the_rooms_that_the_map_says() {
    let metadata = metadata();
    for room in ROOMS.iter().chain([&TESTING]) {
        let package = package(&metadata, room.package);
        let internal = names_of_members(&metadata);
        let used: BTreeSet<&str> = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != DependencyKind::Development)
            .map(|dependency| dependency.name.as_str())
            .filter(|name| internal.contains(*name))
            .collect();
        let allowed: BTreeSet<&str> = room.uses.iter().copied().collect();
        assert_eq!(used, allowed, "{}: change the map on purpose, or the dependency", room.package);
    }
}

#[test]
fn rooms_do_not_know_what_they_must_not() {
    let metadata = metadata();
    for (name, banned, why) in NEVER {
        let package = package(&metadata, name);
        // A provider that is reached over the network is a feature of its own.
        let is_of_a_feature =
            |found: &&Dependency| found.optional && package.name == "oneseal-providers" && *banned == HTTP;
        let shipped = package.dependencies.iter().filter(|found| found.kind != DependencyKind::Development);
        for dependency in shipped.filter(|found| !is_of_a_feature(found)) {
            let name = dependency.name.as_str();
            assert!(!banned.contains(&name), "{} depends on {name}, but {why}", package.name);
        }
    }
}

#[test]
fn test_crates_are_used_by_tests_alone_and_never_by_version() {
    let metadata = metadata();
    let never_shipped: BTreeSet<&str> =
        UNPUBLISHED.iter().map(|(package, _)| *package).chain([TESTING.package]).collect();
    for package in metadata.workspace_packages() {
        for dependency in package.dependencies.iter().filter(|found| never_shipped.contains(&*found.name)) {
            let by = format!("{} -> {}", package.name, dependency.name);
            assert_eq!(dependency.kind, DependencyKind::Development, "{by}: a dev-dependency only");
            // With a version, packaging would look for it in the registry, and find a cycle.
            assert_eq!(dependency.req.to_string(), "*", "{by}: by path, without a version");
        }
    }
}

#[test]
fn published_crates_depend_on_each_other_by_version_too() {
    let metadata = metadata();
    let internal = names_of_members(&metadata);
    let is_internal = |dependency: &&Dependency| {
        dependency.kind != DependencyKind::Development && internal.contains(dependency.name.as_str())
    };
    for room in ROOMS.iter().chain([&TESTING]) {
        for dependency in package(&metadata, room.package).dependencies.iter().filter(is_internal) {
            let req = dependency.req.to_string();
            assert_ne!(req, "*", "{} -> {} cannot be published", room.package, dependency.name);
        }
    }
}

#[test]
fn metadata_is_complete() {
    let metadata = metadata();
    let server = package(&metadata, "oneseal-server");
    let published = ROOMS.iter().chain([&TESTING]);
    let missing = published.clone().map(|room| package(&metadata, room.package));
    let missing: Vec<_> =
        missing.flat_map(|package| lacking(package).map(|what| (&package.name, what))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for room in published {
        let package = package(&metadata, room.package);
        assert_eq!(package.version, server.version, "{}: all are released together", package.name);
        assert_eq!(package.rust_version, server.rust_version, "{}", package.name);
        assert_eq!(package.publish, None, "{} is meant to be published", package.name);
    }
    for (name, _) in UNPUBLISHED {
        let package = package(&metadata, name);
        assert_eq!(package.publish.as_deref(), Some(&[] as &[String]), "{name} says `publish = false`");
        assert!(package.description.is_some() && package.rust_version.is_some(), "{name}");
    }
}

#[test]
fn every_member_takes_the_workspace_lints() {
    let metadata = metadata();
    for package in metadata.workspace_packages() {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", package.manifest_path);
    }
}

/// ARCHITECTURE.md names, for each promise, the tests that fail when it is broken; docs/reports.md does so for each kind
/// of fault that others have reported.
#[test]
fn every_test_that_is_named_as_a_proof_exists() {
    for (page, fewest) in [("ARCHITECTURE.md", 10), ("docs/reports.md", 60)] {
        let text = std::fs::read_to_string(in_root(page)).unwrap();
        let named: Vec<_> = text.split('`').filter_map(|quoted| quoted.split_once(".rs::")).collect();
        assert!(named.len() >= fewest, "{page}: {named:?}");
        for (file, test) in named {
            let code = std::fs::read_to_string(in_root(&format!("{file}.rs"))).unwrap_or_default();
            assert!(code.contains(&format!("fn {test}(")), "{page}: {file}.rs has no {test}");
        }
    }
}

/// Each row of docs/reports.md names a test.
#[test]
fn every_report_has_its_test() {
    let text = std::fs::read_to_string(in_root("docs/reports.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.contains('#'));
    let without: Vec<_> = rows.filter(|row| !row.contains(".rs::")).collect();
    assert!(without.is_empty(), "{without:?}");
}

/// The members of `[package]` that a registry page needs and this package lacks.
fn lacking(package: &Package) -> impl Iterator<Item = &'static str> {
    let limit = |list: &[String], most: usize| !list.is_empty() && list.len() <= most;
    let readme = package.readme().is_some_and(|path| path.is_file());
    let present = [
        ("description", package.description.as_ref().is_some_and(|text| !text.ends_with('.'))),
        ("license", package.license.as_deref() == Some("Apache-2.0")),
        ("repository", package.repository.is_some()),
        ("homepage", package.homepage.is_some()),
        ("authors", !package.authors.is_empty()),
        ("rust-version", package.rust_version.is_some()),
        // crates.io takes at most five of each.
        ("keywords", limit(&package.keywords, 5)),
        ("categories", limit(&package.categories, 5)),
        ("readme (a file that exists)", readme),
    ];
    present.into_iter().filter(|(_, is_there)| !is_there).map(|(member, _)| member)
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(in_root("Cargo.toml"))
        .no_deps()
        .other_options(["--locked".to_owned()])
        .exec()
        .unwrap()
}

fn in_root(name: &str) -> String {
    format!("{}/../{name}", env!("CARGO_MANIFEST_DIR"))
}

fn package<'a>(metadata: &'a Metadata, name: &str) -> &'a Package {
    let found = metadata.workspace_packages().into_iter().find(|package| package.name == name);
    found.unwrap_or_else(|| panic!("no member is called {name}"))
}

fn folder(metadata: &Metadata, package: &Package) -> String {
    let folder = package.manifest_path.parent().unwrap();
    folder.strip_prefix(&metadata.workspace_root).unwrap().to_string()
}

fn names_of_members(metadata: &Metadata) -> BTreeSet<&str> {
    metadata.workspace_packages().into_iter().map(|package| package.name.as_str()).collect()
}
