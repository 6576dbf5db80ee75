//! What `deploy/` ships, as the tests read it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use oneseal_testing::parts::KubeApiserver;
use oneseal_tests::binary;
use serde_json::Value;

/// The namespace that the manifests name.
pub(crate) const NAMESPACE: &str = "oneseal";

/// The folder `deploy`.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// One file of `deploy/`.
pub(crate) fn text(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each manifest with its name, in the order in which `kubectl apply -f` takes them, the namespace before them. It reads no
/// folder below.
pub(crate) fn manifests() -> Vec<(String, String)> {
    let mut names: Vec<_> = std::fs::read_dir(folder().join("kubernetes"))
        .unwrap()
        .map(Result::unwrap)
        .filter(|file| file.file_type().unwrap().is_file())
        .map(|file| file.file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().all(|name| name.ends_with(".yaml")), "kubectl reads all of {names:?}");
    names.sort_by_key(|name| (name != "namespace.yaml", name.clone()));
    names.into_iter().map(|name| (name.clone(), text(&format!("kubernetes/{name}")))).collect()
}

/// A manifest as it stands, for `namespace` in place of [`NAMESPACE`].
pub(crate) fn moved(manifest: &str, namespace: &str) -> String {
    let head = format!("kind: Namespace\nmetadata:\n  name: {NAMESPACE}\n");
    let moved_head = format!("kind: Namespace\nmetadata:\n  name: {namespace}\n");
    manifest
        .replace(&head, &moved_head)
        .replace(&format!("namespace: {NAMESPACE}\n"), &format!("namespace: {namespace}\n"))
}

/// Every manifest, applied for good to a namespace of its own. Gives back its name, and the objects.
pub(crate) fn applied(server: &KubeApiserver) -> (String, Vec<Value>) {
    let namespace = format!("shipped-{}", uuid::Uuid::new_v4());
    let mut objects = Vec::new();
    for (name, manifest) in manifests() {
        for applied in server.apply(&moved(&manifest, &namespace), false) {
            assert!(applied.warnings.is_empty(), "{name}: {:?}", applied.warnings);
            objects.push(applied.object);
        }
    }
    (namespace, objects)
}

/// The one object of this kind.
pub(crate) fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let one = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "more than one {kind}");
    one
}

/// The configuration file in the ConfigMap.
pub(crate) fn configuration(objects: &[Value]) -> String {
    only(objects, "ConfigMap")["data"]["oneseal.toml"].as_str().unwrap().to_owned()
}

/// What the program prints.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let output = std::process::Command::new(binary()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The value that is in force for a key such as `process.boot_timeout`: of this configuration, else the program's own
/// default, as its schema tells.
pub(crate) fn in_force(configuration: &str, path: &str) -> String {
    let (section, key) = path.split_once('.').unwrap();
    let file: toml::Table = configuration.parse().unwrap();
    let set = file.get(section).and_then(|section| section.get(key)).and_then(toml::Value::as_str);
    if let Some(set) = set {
        return set.to_owned();
    }
    let schema: Value = serde_json::from_str(&printed(&["config", "schema"])).unwrap();
    let default = &schema["properties"][section]["properties"][key]["default"];
    default.as_str().unwrap_or_else(|| panic!("{path} has no default")).to_owned()
}

/// As [`in_force`], of a key that is a span of time.
pub(crate) fn span(configuration: &str, path: &str) -> Duration {
    humantime::parse_duration(&in_force(configuration, path)).unwrap()
}
